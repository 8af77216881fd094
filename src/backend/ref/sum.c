/* In host memory: cpu's too. */
#include "backend/ops/sum.h"
#include <string.h>
#include "group/group.h"

static int begin(struct backend *be, real *x, size_t n) { return group_sum_begin(be->group, x, n); }
static int end(struct backend *be) { return group_sum_end(be->group); }

static int begin_mean(struct backend *be, struct share s, real *x, size_t n)
{
    const real weight = (real)share_weight(s);
    for (size_t i = 0; i < n; i++) x[i] *= weight;
    return begin(be, x, n);
}

static int add(struct backend *be, double *x, size_t n) { return group_add(be->group, x, n); }

static int join(struct backend *be, struct share s, const void *own, size_t bytes, void *all)
{
    char *place = (char *)all + (size_t)s.first * bytes;
    if (place != own) memcpy(place, own, (size_t)s.rows * bytes);
    return group_gather(be->group, all, s.all, bytes);
}

const struct sum_ops ref_sum = {
    .begin = begin, .end = end, .begin_mean = begin_mean, .add = add, .join = join
};
