#include "rig/rig.h"
#include "backend/ops/conv.h"
#include "backend/ops/optim.h"

static void *zeros(struct rig *r, size_t n)
{
    void *at = rig_alloc(r, n * sizeof(real));
    r->be->ops->upload(r->be, at, rig_host(r, n, sizeof(real)), n * sizeof(real));
    return at;
}

static void update(struct rig *r, const void *arg)
{
    const int adam = *(const int *)arg;
    size_t n = 20001, few = 13;
    void *w = rig_alloc_noise(r, n, 1), *g = rig_alloc_noise(r, n, 2), *v = rig_alloc_noise(r, n, 3);
    void *w2 = rig_alloc_noise(r, few, 4), *g2 = rig_alloc_noise(r, few, 5), *v2 = rig_alloc_noise(r, few, 6);
    void *s = NULL, *s2 = NULL;
    if (adam) s = zeros(r, n), s2 = zeros(r, few);
    void *mean = rig_alloc_noise(r, n, 7), *still = zeros(r, few), *mean3 = rig_alloc_noise(r, few, 8);
    const struct optim_item item[] = { { w, v, s, g, mean, n * sizeof(real), NULL, 1, 5e-4 },
                                       { w2, v2, s2, g2, NULL, few * sizeof(real), NULL, 2, 0 },
                                       { .w = still, .average = mean3, .bytes = few * sizeof(real) } };
    struct optim_desc d = {
        .item = item, .n = 3, .momentum = .9, .average = .25, .b2 = .99, .epsilon = 1e-3
    };
    struct op_plan p;
    struct step_state now = { .rate = .1, .v_share = .3, .s_share = .04, .average_share = .125 };
    struct err e;
    void *on_device = rig_alloc(r, sizeof now);
    r->be->ops->upload(r->be, on_device, &now, sizeof now);
    assert_int_equal(r->be->ops->optim->plan(r->be, &d, &p, &e), OK);
    for (int i = 0; i < 1 + adam; i++) assert_int_equal(r->be->ops->optim->update(&p, on_device), OK);
    rig_keep_vector(r, "w", w, n);
    rig_keep_vector(r, "v", v, n);
    rig_keep_vector(r, "w of the second", w2, few);
    rig_keep_vector(r, "v of the second", v2, few);
    rig_keep_vector(r, "average", mean, n);
    rig_keep_vector(r, "average of what is not learnt", mean3, few);
    if (adam) rig_keep_vector(r, "s", s, n);
    if (adam) rig_keep_vector(r, "s of the second", s2, few);
    const real odd[] = { (real)INFINITY, (real)-INFINITY, (real)NAN };
    int bad = 1;
    assert_int_equal(r->be->ops->optim->check(&p, &bad), OK);
    assert_int_equal(bad, -1);
    for (int i = 0; i < 3; i++) {
        r->be->ops->upload(r->be, (char *)g2 + (few - 1) * sizeof(real), &odd[i], sizeof(real));
        assert_int_equal(r->be->ops->optim->check(&p, &bad), OK);
        assert_int_equal(bad, 1);
    }
    r->be->ops->upload(r->be, (char *)g + (n - 1) * sizeof(real), &odd[2], sizeof(real));
    assert_int_equal(r->be->ops->optim->check(&p, &bad), OK);
    assert_int_equal(bad, 0);
    op_destroy(&p);
}

static void descent(void **state) { check_case(state, update, &(const int){ 0 }, "descent"); }
static void adam(void **state) { check_case(state, update, &(const int){ 1 }, "adam"); }

/* Where losses are read later, a gradient that is not finite stops the updates, too. */
static void guarded(void **state)
{
    struct rig r;
    struct err e;
    struct op_plan p;
    struct step_state now = { .rate = .1 };
    rig_open(&r, *state, 2);
    const struct optim_ops *ops = r.be->ops->optim;
    real w[4] = { 1, 2, 3, 4 }, g[4] = { 1, 1, 1, 1 }, got[4];
    void *at[3] = { rig_alloc(&r, sizeof w), rig_alloc(&r, sizeof w), rig_alloc(&r, sizeof w) };
    struct step_state *on_device = rig_alloc(&r, sizeof now);
    const struct optim_item item = { at[0], at[1], NULL, at[2], NULL, sizeof w, NULL, 1, 0 };
    struct optim_desc d = { .item = &item, .n = 1, .average = 1 };
    assert_int_equal(ops->plan(r.be, &d, &p, &e), OK);
    r.be->ops->upload(r.be, at[0], w, sizeof w);
    r.be->ops->upload(r.be, at[1], (const real[4]){ 0 }, sizeof w);
    r.be->ops->upload(r.be, on_device, &now, sizeof now);
    for (int step = 0; ops->guard && step < 3; step++) { /* the second gradient is not finite */
        g[2] = step == 1 ? (real)INFINITY : 1;
        r.be->ops->upload(r.be, at[2], g, sizeof g);
        assert_int_equal(ops->guard(&p, on_device), OK);
        assert_int_equal(ops->update(&p, on_device), OK);
        r.be->ops->download(r.be, got, at[0], sizeof got);
        for (int i = 0; i < 4; i++) assert_true(fabs((double)(got[i] - (w[i] - (real).1))) < 1e-6);
        r.be->ops->download(r.be, &now, on_device, sizeof now);
        assert_int_equal(now.stop, step ? STOP_GRADIENT : 0);
    }
    op_destroy(&p);
    rig_close(&r);
}

enum { OUTPUTS = 24, TAPS = 3 * 3, INPUTS = 17, WEIGHTS = OUTPUTS * TAPS * INPUTS };
struct learnt {
    real g[WEIGHTS], w[WEIGHTS];
};

/* The weights of a convolution after an update by their gradient, and what finds a gradient that is not
 * finite. */
static void learn(struct rig *r, int sum_gw, struct learnt *to)
{
    struct err e;
    struct op_plan p, update;
    const struct backend_ops *ops = r->be->ops;
    const struct linear_ops *conv = &ops->conv->linear;
    struct tensor x = rig_dense(r, (struct shape){ 3, INPUTS, 5, 6 }), y = { .shape = { 3, OUTPUTS, 5, 6 } };
    const struct linear_desc d = { &x, 3, 1, 1, 1, 1, 1, .train = 1, .rows_back = 3, .sum_gw = sum_gw };
    const struct step_state now = { .rate = .1 };
    int bad = 1;
    assert_int_equal(conv->plan(r->be, &d, &y, &p, &e), OK);
    rig_fill(r, &x, 1);
    void *w = rig_alloc(r, p.weight_bytes), *gw = rig_alloc(r, p.weight_bytes),
         *v = rig_alloc(r, p.weight_bytes);
    void *scratch = rig_alloc(r, p.scratch_bytes), *state = rig_alloc(r, sizeof now);
    const struct optim_item item = { w, v, NULL, gw, NULL, p.weight_bytes, p.weights, 1, 5e-4 };
    const struct optim_desc all = { .item = &item, .n = 1, .momentum = .9, .average = 1 };
    assert_int_equal(conv->pack(&p, rig_noise(r, WEIGHTS, 2), w), OK);
    assert_int_equal(conv->pack(&p, rig_noise(r, WEIGHTS, 3), v), OK);
    assert_int_equal(ops->upload(r->be, state, &now, sizeof now), OK);
    assert_int_equal(ops->optim->plan(r->be, &all, &update, &e), OK);
    struct tensor gy = rig_gradient(r, &y, 4);
    assert_int_equal(conv->backward(&p, WITH(scratch), x.data, w, gy.data, NULL, gw, NULL), OK);
    assert_int_equal(ops->optim->check(&update, &bad), OK);
    assert_int_equal(bad, -1);
    assert_int_equal(ops->optim->update(&update, state), OK);
    assert_int_equal(conv->unpack_gradient(&p, gw, to->g), OK);
    assert_int_equal(conv->unpack(&p, w, to->w), OK);
    const real odd[OUTPUTS * 5 * 6] = { (real)INFINITY };
    assert_int_equal(ops->write(r->be, &gy, 2, 1, odd, 0), OK);
    assert_int_equal(conv->backward(&p, WITH(scratch), x.data, w, gy.data, NULL, gw, NULL), OK);
    assert_int_equal(ops->optim->check(&update, &bad), OK);
    assert_int_equal(bad, 0);
    op_destroy(&update);
    op_destroy(&p);
}

/* A gradient may keep the type that it was computed in: the update is the same, to the bit. */
static void unsummed(void **state)
{
    static struct learnt summed, alone;
    for (int p = 0; p < PRECISION_COUNT; p++) {
        struct rig r;
        rig_open(&r, *state, 2);
        if (r.be->precisions & 1u << p) {
            r.be->precision = (enum precision)p;
            learn(&r, 1, &summed);
            learn(&r, 0, &alone);
            assert_memory_equal(summed.g, alone.g, sizeof alone.g);
            assert_memory_equal(summed.w, alone.w, sizeof alone.w);
        }
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(descent), cmocka_unit_test(adam),
                                        cmocka_unit_test(guarded), cmocka_unit_test(unsummed) };
    return RIG_RUN(tests);
}
