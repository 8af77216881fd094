/* Concatenation of channels. */
#include "rig/rig.h"
#include "backend/ops/concat.h"

enum { MOST = 3 };

struct concat_case {
    struct shape in[MOST]; /* n = 0: none */
    int blocked[MOST], rows_back, add[MOST];
    int single;  /* bits: inputs that are float whatever the precision, as a [softmax] makes them */
    int without; /* bits: inputs whose gradient nobody wants */
    int groups, group;
};

static void concat(struct rig *r, const void *arg)
{
    static const char *const names[MOST] = { "ga", "gb", "gc" };
    const struct concat_case *k = arg;
    const struct concat_ops *ops = r->be->ops->concat;
    const enum precision precision = r->be->precision;
    struct err e;
    struct op_plan maker[MOST] = { 0 }, p;
    struct tensor in[MOST], g[MOST], y = { .shape = k->in[0] };
    const struct tensor *const ins[MOST] = { &in[0], &in[1], &in[2] };
    const void *x[MOST];
    void *gx[MOST];
    int n = k->in[2].n ? 3 : 2;
    y.shape.c = 0;
    for (int i = 0; i < n; i++) {
        if (k->single >> i & 1) r->be->precision = PRECISION_FP32;
        in[i] = k->blocked[i] ? rig_blocked(r, k->in[i], &maker[i]) : rig_dense(r, k->in[i]);
        r->be->precision = precision;
        y.shape.c += k->in[i].c / k->groups;
    }
    struct concat_desc d = { ins, n, k->groups, k->group, 1, k->rows_back };
    if (ops->plan(r->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *scratch = rig_alloc(r, p.scratch_bytes);
    for (int i = 0; i < n; i++) {
        rig_fill(r, &in[i], 10 + (uint64_t)i);
        x[i] = in[i].data;
    }
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x, y.data), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2);
    for (int i = 0; i < n; i++) {
        g[i] = rig_gradient(r, &in[i], k->add[i] ? 20 + (uint64_t)i : 0);
        gx[i] = k->without >> i & 1 ? NULL : g[i].data;
    }
    assert_int_equal(ops->backward(&p, WITH(scratch), gy.data, gx, k->add), OK);
    for (int i = 0; i < n; i++)
        if (gx[i]) rig_keep_tensor(r, names[i], &g[i], k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    for (int i = 0; i < n; i++) op_destroy(&maker[i]);
}

static void concatenations(void **state)
{
    /* shapes, blocked, rows_back, add, single, without, groups, group */
    static const struct concat_case cases[] = {
        { { { 3, 32, 5, 5 }, { 3, 16, 5, 5 }, { 3, 48, 5, 5 } }, { 1, 1, 1 }, 3, { 0, 1, 0 }, 0, 0, 1, 0 },
        { { { 3, 17, 5, 5 }, { 3, 20, 5, 5 }, { 3, 3, 5, 5 } }, { 1, 0, 1 }, 2, { 1, 0, 1 }, 0, 0, 1, 0 },
        { { { 3, 32, 5, 5 }, { 3, 17, 5, 5 } }, { 1, 1 }, 3, { 0, 0 }, 0, 0, 1, 0 },
        { { { 3, 3, 5, 5 }, { 3, 32, 5, 5 } }, { 0, 1 }, 3, { 0, 1 }, 0, 0, 1, 0 },
        { { { 3, 16, 1, 1 }, { 3, 17, 1, 1 } }, { 1, 1 }, 3, { 0, 1 }, 0, 0, 1, 0 },
        { { { 3, 32, 5, 5 }, { 3, 16, 5, 5 }, { 3, 8, 5, 5 } }, { 0 }, 3, { 0, 1, 0 }, 2, 0, 1, 0 },
        { { { 3, 32, 5, 5 }, { 3, 16, 5, 5 }, { 3, 8, 5, 5 } }, { 0 }, 3, { 0 }, 0, 4, 1, 0 },
        { { { 3, 32, 5, 5 }, { 3, 16, 5, 5 }, { 3, 48, 5, 5 } }, { 1, 1, 1 }, 2, { 0, 1, 0 }, 0, 0, 2, 1 },
        { { { 3, 18, 5, 5 }, { 3, 3, 5, 5 } }, { 1, 0 }, 3, { 1, 0 }, 0, 0, 3, 2 },
        { { { 3, 40, 1, 1 }, { 3, 20, 1, 1 } }, { 0 }, 3, { 0, 0 }, 1, 0, 5, 3 },
    };
    CHECK_EACH(state, concat, cases, "concat");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(concatenations) };
    return RIG_RUN(tests);
}
