/* The number type of host data. `make DOUBLE=1` builds the reference backend in double: finite differences
 * then resolve 1e-7, which float cannot. */
#ifndef CORE_REAL_H
#define CORE_REAL_H

#ifndef REAL
#define REAL float
#endif
typedef REAL real;

/* Maths of one number, in headers: plain C, and CUDA C++ under nvcc. */
#ifdef __CUDACC__
#define SCALAR static __host__ __device__ __forceinline__
#else
#define SCALAR static inline
#endif

#endif
