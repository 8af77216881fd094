/* A test rig for the operations of backends: tests/backends/NAME.c runs an operation on it, forward and
 * backward, over shapes that are awkward for blocked memory formats. Memory is NaN until it is written and
 * guarded behind its end, and the padding of results must be zero.
 *
 * How a case is checked is up to the file that is linked: against_ref.c compares each device in each of its
 * precisions with ref, cuda/orders.c the orders in which the threads of a block may run. */
#ifndef RIG_H
#define RIG_H
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "backend/backend.h"
#include "backend/scalar.h"
#include "core/mem.h"
#include "core/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h> /* last: its macro fail would hide err.h's function */

enum { RIG_MEMORY = 64, RIG_RESULTS = 8 };

/* A device, the memory taken from it, and results for comparison. Tests pass it around and read `be`. */
struct rig {
    struct backend *be;
    void *mem[RIG_MEMORY];
    size_t bytes[RIG_MEMORY];
    void *host[RIG_MEMORY];
    int nmem, nhost;
    int coarse; /* inputs are numbers that bfloat16 holds exactly */
    const char *name[RIG_RESULTS];
    real *out[RIG_RESULTS];
    size_t len[RIG_RESULTS];
    int nout;
};

/* In fp32, and the same device for all rigs of a program. Skips the test where it cannot be opened. */
void rig_open(struct rig *r, const char *device, int threads);
/* From here on there is another process, which has the rows and the numbers of this one. */
void rig_twin(struct rig *r);
/* Checks the guards, and frees the memory. */
void rig_close(struct rig *r);

/* The context of a call: scratch, and what else is named. */
#define WITH(...)                                                                                            \
    &(const struct op_context) { .scratch = __VA_ARGS__ }

/* ---- memory: the rig frees it ---- */

void *rig_host(struct rig *r, size_t count, size_t size);     /* zeros */
void *rig_alloc(struct rig *r, size_t bytes);                 /* on the device, NaN */
real *rig_noise(struct rig *r, size_t n, uint64_t key);       /* normally distributed, on the host */
void *rig_alloc_noise(struct rig *r, size_t n, uint64_t key); /* the same on the device */
real rig_bf16(real x);                                        /* cut to what bfloat16 holds */

/* ---- tensors ---- */

/* In the format of images; pads: those that only convolutions without groups read. */
struct tensor rig_image(struct rig *r, struct shape s, int pads);
/* One number after another: that of images that anything may read. */
struct tensor rig_dense(struct rig *r, struct shape s);
/* In the format that a convolution prefers, whose plan must outlive the tensor. */
struct tensor rig_blocked(struct rig *r, struct shape s, struct op_plan *plan);
/* Gives it memory, with noise of this key; 0: NaN. */
void rig_fill(struct rig *r, struct tensor *t, uint64_t key);
/* A tensor like another, filled. */
struct tensor rig_gradient(struct rig *r, const struct tensor *of, uint64_t key);

/* An activation after an operation that has not fused it, in place: y, and the gradient of y. */
void rig_activate(struct rig *r, struct tensor *y, enum act act);
void rig_activate_back(struct rig *r, const struct tensor *y, struct tensor *gy, enum act act, int rows);

/* ---- results, by name: n numbers, and the first rows of a tensor ---- */

void rig_keep(struct rig *r, const char *name, real *host, size_t n);
void rig_keep_vector(struct rig *r, const char *name, const void *device, size_t n);
void rig_keep_tensor(struct rig *r, const char *name, const struct tensor *t, int rows);
/* Fails unless the results are the same within the tolerance of the precision. */
void rig_compare(const struct rig *expected, const struct rig *got, const char *what);

/* ---- cases ---- */

typedef void rig_case(struct rig *r, const void *arg);

/* Checks one case: runs it on rigs and compares their results. */
void check_case(void **state, rig_case *run, const void *arg, const char *what);
/* And each element of an array. */
void check_each(void **state, rig_case *run, const void *cases, size_t n, size_t size, const char *what);
#define CHECK_EACH(state, run, cases, what)                                                                  \
    check_each(state, run, cases, sizeof(cases) / sizeof *(cases), sizeof *(cases), what)

/* The tests, on each device that they are for. Their state is its name. Returns the number of those that
 * failed. */
int rig_run(const struct CMUnitTest *tests, size_t n);
#define RIG_RUN(tests) rig_run(tests, sizeof(tests) / sizeof *(tests))

/* The same on one device: what rig_run calls. */
int rig_run_on(const char *device, const struct CMUnitTest *tests, size_t n);

#endif
