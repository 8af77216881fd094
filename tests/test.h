/* What cmocka lacks. */
#ifndef TEST_H
#define TEST_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#undef fail /* ours is core/err.h's */
#include "core/err.h"
#include "core/real.h"
#include "core/rng.h"

/* |a - b| / |b| over n numbers (L2). NaN anywhere makes it NaN, which no comparison below passes. */
static inline double relative(const real *a, const real *b, size_t n)
{
    double num = 0, den = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        num += d * d;
        den += (double)b[i] * (double)b[i];
    }
    return den > 0 ? sqrt(num / den) : sqrt(num);
}

static inline void ok_(int rc, const struct err *e, const char *file, int line)
{
    if (rc) print_error("%s:%d: %s (%d): %s\n", file, line, err_text(rc), rc, e->msg);
    assert_int_equal(rc, OK);
}
/* A call that must succeed; prints the message otherwise. */
#define ok(call, e) ok_(call, e, __FILE__, __LINE__)

#endif
