/* Weighted sums. */
#include "rig/rig.h"
#include "backend/ops/mix.h"

enum { MOST = 3 };

struct mix_case {
    struct shape in[MOST]; /* n = 0: none */
    int blocked[MOST], weights;
    enum mix_norm norm;
    enum act act;
    int rows_back, add[MOST], add_w;
    int single;  /* bits: inputs that are float whatever the precision, as a [softmax] makes them */
    int without; /* bits: inputs whose gradient nobody wants; 8: nor that of the weights */
};

static void mix(struct rig *r, const void *arg)
{
    static const char *const names[MOST] = { "ga", "gb", "gc" };
    const struct mix_case *k = arg;
    const struct mix_ops *ops = r->be->ops->mix;
    const enum precision precision = r->be->precision;
    struct err e;
    struct op_plan maker[MOST] = { 0 }, p;
    struct tensor in[MOST], g[MOST], y = { .shape = k->in[0] };
    const void *x[MOST];
    void *gx[MOST];
    int n = k->in[2].n ? 3 : 2;
    size_t weights = (size_t)(n * k->weights);
    struct mix_desc d = {
        .nin = n, .weights = k->weights, .norm = k->norm, .act = k->act, .train = 1, .rows_back = k->rows_back
    };
    for (int i = 0; i < n; i++) {
        if (k->single >> i & 1) r->be->precision = PRECISION_FP32;
        in[i] = k->blocked[i] ? rig_blocked(r, k->in[i], &maker[i]) : rig_dense(r, k->in[i]);
        r->be->precision = precision;
        d.in[i] = &in[i];
        d.add[i] = k->add[i];
    }
    if (ops->plan(r->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *scratch = rig_alloc(r, p.scratch_bytes);
    for (int i = 0; i < n; i++) {
        rig_fill(r, &in[i], 10 + (uint64_t)i);
        x[i] = in[i].data;
    }
    real *w = rig_alloc_noise(r, weights, 4);
    real *gw = k->add_w ? rig_alloc_noise(r, weights, 5) : rig_alloc(r, weights * sizeof(real));
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x, w, y.data), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2);
    for (int i = 0; i < n; i++) {
        g[i] = rig_gradient(r, &in[i], k->add[i] ? 20 + (uint64_t)i : 0);
        gx[i] = k->without >> i & 1 ? NULL : g[i].data;
    }
    int want_w = k->weights && !(k->without & 8);
    assert_int_equal(
        ops->backward(&p, WITH(scratch, .add = k->add_w), x, w, y.data, gy.data, gx, want_w ? gw : NULL), OK);
    for (int i = 0; i < n; i++)
        if (gx[i]) rig_keep_tensor(r, names[i], &g[i], k->rows_back);
    if (want_w) rig_keep_vector(r, "gw", gw, weights);
    op_destroy(&p);
    op_destroy(&p);
    for (int i = 0; i < n; i++) op_destroy(&maker[i]);
}

static void mixes(void **state)
{
    /* shapes, blocked, weights, norm, act, rows_back, add, add_w, single, without */
    static const struct mix_case cases[] = {
        { { { 3, 32, 5, 5 }, { 3, 32, 5, 5 }, { 3, 32, 5, 5 } },
          { 1, 1, 1 },
          0,
          0,
          ACT_LEAKY,
          3,
          { 0 },
          0,
          0,
          0 },
        { { { 3, 17, 5, 5 }, { 3, 20, 5, 5 }, { 3, 3, 5, 5 } },
          { 1, 0, 1 },
          1,
          0,
          ACT_TANH,
          2,
          { 1, 0, 1 },
          1,
          0,
          0 },
        { { { 3, 17, 9, 9 }, { 3, 17, 9, 9 } }, { 0, 1 }, 17, MIX_RELU, 0, 3, { 0, 1 }, 0, 0, 0 },
        { { { 3, 32, 9, 9 }, { 3, 16, 9, 9 } }, { 1, 1 }, 32, MIX_SOFTMAX, ACT_RELU, 2, { 0, 0 }, 1, 0, 1 },
        { { { 3, 20, 5, 5 }, { 3, 32, 5, 5 } }, { 1, 1 }, 1, MIX_SOFTMAX, 0, 3, { 0, 0 }, 0, 2, 0 },
        { { { 3, 40, 1, 1 }, { 3, 40, 1, 1 } }, { 0, 0 }, 1, MIX_RELU, 0, 3, { 0, 0 }, 0, 0, 8 },
    };
    CHECK_EACH(state, mix, cases, "mix");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(mixes) };
    return RIG_RUN(tests);
}
