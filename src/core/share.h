/* Where several processes train one net together, each computes a share of every mini-batch. */
#ifndef CORE_SHARE_H
#define CORE_SHARE_H
#include "core/real.h"

/* Rows first..first+rows-1 of the `all` of a mini-batch. All zero: one process, every row. */
struct share {
    int first, rows, all;
};

/* The number that row i of this process has among the rows of all: those of S1, then those of S2. */
SCALAR int share_row(struct share s, int i)
{
    return i < s.rows ? s.first + i : s.first + s.all - s.rows + i;
}

/* What part of the rows of all these are. */
SCALAR double share_weight(struct share s) { return (double)s.rows / s.all; }

/* How many values there are in the rows of all, of which n are in these. */
SCALAR double share_total(struct share s, double n) { return s.all ? n / s.rows * s.all : n; }

#endif
