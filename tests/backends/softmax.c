#include "rig/rig.h"
#include "backend/ops/softmax.h"

struct softmax_case {
    struct shape in;
    int groups, blocked, rows_back, scored, gy, add;
    double temperature, smooth, scale;
    int mixed;
};

static void softmax(struct rig *r, const void *arg)
{
    const struct softmax_case *k = arg;
    const struct softmax_ops *ops = r->be->ops->softmax;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? rig_blocked(r, k->in, &maker) : rig_dense(r, k->in),
                  y = { .shape = k->in };
    struct softmax_desc d = { &x, k->groups, k->temperature, k->smooth, k->rows_back };
    if (ops->plan(r->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    int n = k->in.n, *label = rig_host(r, (size_t)n, sizeof *label),
        *dev = rig_alloc(r, (size_t)n * sizeof *label);
    for (int i = 0; i < n; i++) label[i] = (int)rng_below(9, (uint64_t)i, shape_row(k->in));
    r->be->ops->upload(r->be, dev, label, (size_t)n * sizeof *label);
    struct mixed_label *host = rig_host(r, (size_t)n, sizeof *host),
                       *mixed = rig_alloc(r, (size_t)n * sizeof *host);
    for (int i = 0; i < n; i++) /* some classes twice */
        for (int m = 0; m < MIXED; m++) {
            host[i].label[m] = (int)rng_below(9 + (uint64_t)(i + m) % 3, (uint64_t)i, shape_row(k->in));
            host[i].share[m] = m ? .125f * (float)m : .25f;
        }
    r->be->ops->upload(r->be, mixed, host, (size_t)n * sizeof *host);
    if (!k->mixed) mixed = NULL;
    double *loss = rig_alloc(r, sizeof *loss), got;
    void *scratch = rig_alloc(r, p.scratch_bytes);
    real *logits = rig_noise(r, shape_count(k->in), 1);
    for (size_t i = 0; i < shape_count(k->in); i++) logits[i] *= (real)k->scale;
    rig_fill(r, &x, 0);
    assert_int_equal(r->be->ops->write(r->be, &x, 0, n, logits, 0), OK);
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p,
                                  WITH(scratch, .label = dev, .mixed = mixed, .scored = k->scored,
                                       .scored_all = 2 * k->scored + 1),
                                  x.data, y.data, loss),
                     OK);
    rig_keep_tensor(r, "p", &y, n);
    r->be->ops->download(r->be, &got, loss, sizeof got);
    real *kept = rig_host(r, 1, sizeof *kept);
    *kept = (real)got;
    rig_keep(r, "loss", kept, 1);
    struct tensor other = rig_gradient(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, other.data, NULL), OK);
    rig_keep_tensor(r, "p without labels", &other, n);
    struct tensor gy = rig_gradient(r, &y, 2), gx = rig_gradient(r, &x, k->add ? 3 : 0);
    assert_int_equal(ops->backward(&p,
                                   WITH(scratch, .label = k->scored ? dev : NULL, .mixed = mixed,
                                        .scored = k->scored, .scored_all = 2 * k->scored + 1),
                                   y.data, k->gy ? gy.data : NULL, gx.data, k->add),
                     OK);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void softmaxes(void **state)
{
    /* shape, groups, blocked, rows_back, scored, gy, add, temperature, smoothing, size of the logits */
    static const struct softmax_case cases[] = {
        { { 6, 10, 1, 1 }, 1, 0, 6, 6, 0, 0, 1, 0, 1, 0 },
        { { 6, 17, 1, 1 }, 1, 1, 3, 3, 1, 1, 2, 0.1, 1, 0 },
        { { 6, 20, 2, 3 }, 4, 1, 6, 4, 1, 1, 0.5, 0.2, 1, 0 },
        { { 6, 20, 1, 1 }, 1, 0, 6, 6, 0, 0, 1, 0.1, 200, 0 },
        { { 6, 10, 1, 1 }, 1, 0, 6, 0, 1, 0, 1, 0, 1, 0 },
        { { 6, 10, 1, 1 }, 1, 0, 4, 0, 0, 1, 1, 0.1, 1, 0 },
        { { 3, 1, 1, 1 }, 1, 0, 3, 3, 1, 0, 1, 0.1, 1, 0 },
        { { 3, 1000, 1, 1 }, 1, 0, 2, 3, 1, 1, 1, 0, 4, 0 },
        { { 2, 33, 5, 3 }, 3, 0, 2, 2, 0, 0, 3, 0.1, 4, 0 },
        { { 2, 21841, 1, 1 }, 1, 0, 2, 2, 0, 0, 1, 0.1, 4, 0 },
        { { 6, 10, 1, 1 }, 1, 0, 6, 6, 0, 0, 1, 0, 1, 1 },
        { { 6, 20, 2, 3 }, 4, 1, 6, 4, 1, 1, 0.5, 0.2, 1, 1 },
        { { 3, 1, 1, 1 }, 1, 0, 3, 3, 1, 0, 1, 0.1, 1, 1 },
        { { 3, 1000, 1, 1 }, 1, 0, 2, 2, 1, 1, 1, 0.1, 4, 1 },
    };
    CHECK_EACH(state, softmax, cases, "softmax");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(softmaxes) };
    return RIG_RUN(tests);
}
