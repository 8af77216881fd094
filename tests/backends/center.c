#include "rig/rig.h"
#include "backend/ops/center.h"

struct center_case {
    int classes;
    struct shape in;
    int rows_back, scored, add, move, reuse_detached;
    struct share share; /* of the scored rows */
};

static double center_run(struct rig *r, const struct center_case *k, const struct tensor *x,
                         const void *label, const struct center_state *state, struct tensor *gx)
{
    const struct center_ops *ops = r->be->ops->center;
    struct center_desc d = { x, k->classes, k->rows_back, .7, 4, .3, k->share };
    struct step_state now = { .iteration = 3, .ce_average = -1 };
    struct op_plan p;
    struct err e;
    void *on_device = rig_alloc(r, sizeof now), *loss = rig_alloc(r, sizeof(double));
    double value;
    r->be->ops->upload(r->be, on_device, &now, sizeof now);
    assert_int_equal(ops->plan(r->be, &d, &p, &e), OK);
    const struct op_context *context =
        WITH(rig_alloc(r, p.scratch_bytes), .state = on_device, .label = label, .scored = k->scored,
             .scored_all = k->share.all ? k->share.all : k->scored, .add = !k->move,
             .reuse_detached = k->reuse_detached);
    assert_int_equal(ops->forward(&p, context, x->data, state, loss), OK);
    r->be->ops->download(r->be, &value, loss, sizeof value);
    assert_int_equal(ops->backward(&p, context, x->data, state, gx->data, k->add), OK);
    op_destroy(&p);
    op_destroy(&p);
    return value;
}

static void center(struct rig *r, const void *arg)
{
    const struct center_case *k = arg;
    if (k->share.all) rig_twin(r);
    size_t n = (size_t)k->in.n, d = shape_row(k->in), classes = (size_t)k->classes;
    struct tensor x = rig_dense(r, k->in), gx;
    struct center_state state = { rig_alloc_noise(r, classes * d, 1), rig_alloc_noise(r, classes * d, 2),
                                  rig_alloc(r, classes * sizeof(real)) };
    int *label = rig_host(r, n, sizeof *label);
    void *dev_label = rig_alloc(r, n * sizeof *label);
    real *count = rig_host(r, classes, sizeof *count);
    for (size_t i = 0; i < n; i++) label[i] = (int)rng_below(5, i, classes);
    for (size_t i = 0; i < classes; i++) count[i] = (real)i;
    r->be->ops->upload(r->be, state.count, count, classes * sizeof *count);
    r->be->ops->upload(r->be, dev_label, label, n * sizeof *label);
    rig_fill(r, &x, 4);
    gx = rig_gradient(r, &x, k->add ? 3 : 0);
    *count = (real)center_run(r, k, &x, dev_label, &state, &gx);
    rig_keep(r, "loss", count, 1);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    rig_keep_vector(r, "centers", state.centers, classes * d);
    rig_keep_vector(r, "sum", state.sum, classes * d);
    rig_keep_vector(r, "count", state.count, classes);
}

static void centering(void **state)
{
    static const struct center_case cases[] = {
        /* classes, features, rows_back, scored, add, move, reuse_detached, share */
        { 3, { 7, 5, 1, 1 }, 7, 7, 0, 1, 0, { 0, 0, 0 } },
        { 9, { 20, 130, 1, 1 }, 18, 10, 1, 0, 0, { 0, 0, 0 } },
        { 300, { 12, 6, 2, 3 }, 12, 6, 0, 0, 1, { 0, 0, 0 } },
        { 9, { 20, 65, 1, 1 }, 18, 10, 1, 1, 0, { 11, 10, 21 } },
    };
    CHECK_EACH(state, center, cases, "center");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(centering) };
    return RIG_RUN(tests);
}
