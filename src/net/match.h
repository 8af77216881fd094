/* The matching loss of ITRA (Li, Li, Pan, Qiang, Zhu, AAAI 2023): class-conditional maximum mean discrepancy
 * with a mixture of Gaussian kernels, and its exact gradient. The formulas are in match.c. Works in host
 * memory and allocates nothing. */
#ifndef NET_MATCH_H
#define NET_MATCH_H
#include <stddef.h>
#include "backend/backend.h"

struct match_half {
    const real *h;    /* m rows of d features */
    const int *label; /* m; rows with a label outside [0, classes) take no part */
    int m;
    real *g; /* m x d: gets dMatch/dh; NULL: not wanted */
};

/* Bytes of work memory for m1 + m2 = m rows: O(m^2). 0: overflow. */
size_t match_bytes(int m, int classes);

/* *match gets Match; sigma[k] (classes values; one when not conditional) the bandwidth of class k, 0 where it
 * takes no part. E_NUMBER when a feature is not finite. Bit for bit the same for any number of threads. */
int match_compute(const struct match_options *, int classes, int d, const struct match_half *one,
                  const struct match_half *two, double *sigma, double *match, void *work);

#endif
