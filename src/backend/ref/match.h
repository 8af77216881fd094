/* The matching loss of ITRA (Li, Li, Pan, Qiang, Zhu, AAAI 2023): class-conditional maximum mean discrepancy
 * with a mixture of Gaussian kernels, and its exact gradient. The formulas are in match.c. Works in host
 * memory and allocates nothing. */
#ifndef REF_MATCH_H
#define REF_MATCH_H
#include <stddef.h>
#include "backend/ops/match.h"

struct match_half {
    const real *h;    /* m rows of d features */
    const int *label; /* m; rows with a label outside [0, classes) take no part */
    int m;
    real *g; /* m x d: gets dMatch/dh; NULL: not wanted */
};

struct match_problem {
    struct match_options options;
    int classes, d;
    struct match_half half[2];
    double *sigma;   /* gets the bandwidth of each class (the only one when not conditional), 0 where a class
                        takes no part */
    int reuse_sigma; /* sigma is input instead: for finite differences */
    int threads;     /* at most; 0 counts as 1. The bits of the result do not depend on it */
    void *work;      /* match_bytes(rows of both halves), aligned for double */
};

/* Bytes of work memory for m rows: O(m^2). 0: overflow. */
size_t match_bytes(int m);

/* *match gets Match. E_NUMBER: a feature, or a distance, is not finite. */
int match_compute(const struct match_problem *, double *match);

#endif
