/* For norm.c: what follows from the statistics of a channel, and how those of several processes become those
 * of all their rows. */
#ifndef BACKEND_CPU_NORM_JOIN_H
#define BACKEND_CPU_NORM_JOIN_H
#include <math.h>
#include "backend/ops/norm.h"
#include "backend/ops/sum.h"
#include "norm_strips.h"

static void set_line(const struct job *k, size_t c, double mean, double var)
{
    float *kept = k->kept;
    size_t n = k->s->vector;
    kept[MEAN * n + c] = (float)mean;
    kept[VAR * n + c] = (float)var;
    kept[GAIN * n + c] = (float)((double)k->scale[c] / sqrt(var + NORM_EPSILON));
    kept[SHIFT * n + c] = k->bias[c];
}

static int join_moments(const struct job *k)
{
    const struct norm *s = k->s;
    const size_t n = s->g.c;
    for (size_t c = 0; c < n; c++) {
        double *mean = &k->sums[2 * c], *var = mean + 1;
        *mean = (double)k->kept[MEAN * s->vector + c];
        *var = (double)k->kept[VAR * s->vector + c];
        norm_to_sums(s->share, mean, var);
    }
    TRY(s->be->ops->sum->add(s->be, k->sums, 2 * n));
    for (size_t c = 0; c < n; c++) {
        double *mean = &k->sums[2 * c], *var = mean + 1;
        norm_from_sums(mean, var);
        set_line(k, c, *mean, *var);
    }
    return OK;
}

/* LEVEL and SLOPE are means over the rows. */
static int join_gradients(const struct job *k)
{
    const struct norm *s = k->s;
    const double weight = share_weight(s->share);
    for (size_t c = 0; c < s->g.c; c++)
        for (size_t i = 0; i < MADE; i++) k->sums[MADE * c + i] = weight * (double)k->made[i * s->vector + c];
    TRY(s->be->ops->sum->add(s->be, k->sums, MADE * s->g.c));
    for (size_t c = 0; c < s->g.c; c++)
        for (size_t i = 0; i < MADE; i++) k->made[i * s->vector + c] = (float)k->sums[MADE * c + i];
    return OK;
}

#endif
