/* The number type of host data. `make DOUBLE=1` builds the reference backend in double: finite differences
 * then resolve 1e-7, which float cannot. */
#ifndef CORE_REAL_H
#define CORE_REAL_H

#ifndef REAL
#define REAL float
#endif
typedef REAL real;

#endif
