#include "rig/rig.h"
#include "backend/ops/add.h"
#include "backend/ops/norm.h"

struct norm_case {
    struct shape in;
    int splits, rows_s1, rows_back, blocked, add, in_place, started;
    enum act act;
    int offset; /* added to x */
};

static void norm_infer(struct rig *r, const struct norm_case *k, const struct tensor *x, const real *v[4])
{
    struct err e;
    struct op_plan p;
    struct norm_desc d = { .in = x, .splits = 1, .act = k->act };
    struct tensor y = { .shape = k->in };
    assert_int_equal(r->be->ops->norm->plan(r->be, &d, &y, &p, &e), OK);
    rig_fill(r, &y, 0);
    assert_int_equal(r->be->ops->norm->forward(&p, WITH(rig_alloc(r, p.scratch_bytes)), x->data, NULL, v[0],
                                               v[1], (real *)v[2], (real *)v[3], 0, NULL, y.data),
                     OK);
    if (!p.fused) rig_activate(r, &y, k->act);
    rig_keep_tensor(r, "inference", &y, y.shape.n);
    op_destroy(&p);
}

/* Adds to every number, and cuts the sum to what bfloat16 holds. */
static void shift(struct rig *r, struct tensor *t, real by)
{
    size_t n = shape_count(t->shape);
    real *v = rig_host(r, n, sizeof *v);
    assert_int_equal(r->be->ops->read(r->be, t, 0, t->shape.n, v), OK);
    for (size_t i = 0; i < n; i++) v[i] = rig_bf16(v[i] + by);
    assert_int_equal(r->be->ops->write(r->be, t, 0, t->shape.n, v, 0), OK);
}

/* share: of the rows of each split. */
static void norm_shared(struct rig *r, const struct norm_case *k, struct share share)
{
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? rig_blocked(r, k->in, &maker) : rig_dense(r, k->in),
                  y = { .shape = k->in };
    struct norm_desc d = { &x, 1, k->splits, k->rows_s1, k->rows_back, k->act, NULL, share };
    const struct norm_ops *ops = r->be->ops->norm;
    assert_int_equal(ops->plan(r->be, &d, &y, &p, &e), OK);
    size_t c = (size_t)k->in.c;
    real *scale = rig_alloc_noise(r, c, 1), *bias = rig_alloc_noise(r, c, 2),
         *mean = rig_alloc_noise(r, c, 3), *var = rig_alloc(r, c * sizeof(real));
    real *gscale = rig_alloc_noise(r, c, 4), *gbias = rig_alloc_noise(r, c, 5),
         *host_var = rig_host(r, c, sizeof(real));
    for (size_t i = 0; i < c && k->started; i++) host_var[i] = (real)(1 + rng_uniform(6, i));
    r->be->ops->upload(r->be, var, host_var, c * sizeof(real));
    void *kept = rig_alloc(r, p.kept_bytes), *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &x, 7);
    if (k->offset) shift(r, &x, (real)k->offset);
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, NULL, scale, bias, mean, var, 0.1, kept, y.data),
                     OK);
    if (!p.fused) rig_activate(r, &y, k->act);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    rig_keep_vector(r, "mean", mean, c);
    rig_keep_vector(r, "var", var, c);
    struct tensor gy = rig_gradient(r, &y, 8), gx = k->in_place ? gy : rig_gradient(r, &x, 0);
    if (!p.fused) rig_activate_back(r, &y, &gy, k->act, k->rows_back);
    assert_int_equal(ops->backward(&p, WITH(scratch, .add = k->add), x.data, y.data, scale, kept, gy.data,
                                   gx.data, NULL, gscale, gbias),
                     OK);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    rig_keep_vector(r, "gscale", gscale, c);
    rig_keep_vector(r, "gbias", gbias, c);
    norm_infer(r, k, &x, (const real *[]){ scale, bias, mean, var });
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

static void norm(struct rig *r, const void *arg) { norm_shared(r, arg, (struct share){ 0, 0, 0 }); }

static void norm_of_two(struct rig *r, const void *arg)
{
    const struct norm_case *k = arg;
    const int rows = k->in.n / k->splits;
    rig_twin(r);
    norm_shared(r, k, (struct share){ 1, rows, 2 * rows + 1 });
}

static void batch_norm(void **state)
{
    /* shape, splits, rows_s1, rows_back, blocked, add, in place, running statistics there, activation, mean
     */
    static const struct norm_case cases[] = {
        { { 4, 64, 5, 5 }, 1, 4, 4, 1, 0, 0, 0, ACT_RELU, 0 },
        { { 4, 17, 5, 5 }, 1, 4, 4, 1, 1, 1, 1, ACT_RELU, 0 },
        { { 6, 32, 7, 7 }, 2, 3, 6, 1, 0, 1, 1, ACT_RELU, 0 },
        { { 6, 20, 5, 1 }, 2, 3, 3, 1, 1, 0, 0, ACT_LINEAR, 0 },
        { { 6, 50, 5, 5 }, 2, 4, 6, 1, 0, 0, 1, ACT_LEAKY, 0 },
        { { 5, 3, 7, 7 }, 1, 5, 5, 0, 0, 1, 1, ACT_LOGISTIC, 0 },
        { { 8, 20, 1, 1 }, 1, 8, 8, 0, 0, 0, 1, ACT_RELU, 0 },
        { { 8, 64, 1, 1 }, 2, 4, 4, 0, 1, 1, 0, ACT_RELU, 0 },
        { { 4, 17, 7, 7 }, 1, 4, 4, 0, 0, 0, 1, ACT_RELU, 0 },
        { { 8, 17, 1, 1 }, 2, 4, 8, 1, 1, 1, 0, ACT_LINEAR, 0 },
        { { 4, 160, 3, 3 }, 1, 4, 4, 1, 0, 0, 0, ACT_RELU, 0 }, /* many small channels */
        { { 6, 20, 3, 3 }, 2, 3, 6, 0, 0, 1, 1, ACT_RELU, 0 },  /* a channel is less than a vector */
        { { 5, 3, 2, 1 }, 1, 5, 5, 0, 1, 0, 0, ACT_LINEAR, 0 },
        { { 48, 32, 28, 28 }, 2, 20, 48, 1, 1, 0, 0, ACT_RELU, 0 }, /* results larger than the caches */
        { { 48, 32, 28, 28 }, 2, 20, 20, 1, 0, 1, 1, ACT_LINEAR, 0 },
        { { 40, 32, 32, 32 }, 1, 40, 40, 0, 0, 0, 0, ACT_RELU, 0 },
        { { 40, 32, 32, 32 }, 1, 40, 40, 0, 0, 0, 0, ACT_TANH, 0 },
        { { 3, 263, 2, 1 }, 1, 3, 3, 0, 0, 0, 1, ACT_LEAKY, 0 }, /* more channels than a block has threads */
        { { 7, 2056, 1, 3 }, 2, 2, 7, 0, 1, 0, 0, ACT_RELU, 0 },
        { { 7, 2056, 1, 3 }, 2, 5, 5, 0, 0, 1, 1, ACT_LOGISTIC, 0 },
        { { 1, 17, 1, 1 }, 1, 1, 1, 0, 0, 0, 0, ACT_LINEAR, 0 }, /* no variance */
        { { 9, 16, 1, 1 }, 2, 1, 9, 0, 1, 0, 1, ACT_LINEAR, 0 },
        { { 9, 5, 1, 1 }, 2, 7, 7, 0, 0, 1, 0, ACT_RELIE, 0 },
        { { 16, 24, 5, 5 }, 2, 7, 16, 0, 0, 0, 1, ACT_RELU, 64 },
    };
    CHECK_EACH(state, norm, cases, "norm");
    static const struct norm_case shared[] = {
        { { 5, 17, 3, 3 }, 1, 5, 5, 0, 0, 0, 1, ACT_RELU, 0 },
        { { 8, 32, 5, 5 }, 2, 4, 8, 1, 1, 1, 0, ACT_LEAKY, 0 },
        { { 8, 20, 3, 3 }, 2, 4, 4, 1, 0, 0, 1, ACT_LOGISTIC, 8 },
    };
    CHECK_EACH(state, norm_of_two, shared, "norm of two processes");
    for (enum act a = 0; a < ACT_COUNT; a++) {
        const struct norm_case wide = { { 6, 16, 5, 3 }, 2, 2, 6, 1, 0, 1, 1, a, 0 },
                               odd = { { 5, 11, 3, 3 }, 1, 5, 5, 0, 1, 0, 0, a, 0 };
        if (!act_from_output(a)) continue;
        check_case(state, norm, &wide, act_names[a]);
        check_case(state, norm, &odd, act_names[a]);
    }
}

/* Running statistics that are not all 0, so that this is no first update, and channels with a number that is
 * not finite, whose statistics stay as they are. */
static void running(struct rig *r, const void *arg)
{
    const struct shape *shape = arg;
    struct err e;
    struct op_plan p;
    struct tensor x = rig_dense(r, *shape), y = x;
    struct norm_desc d = { &x, 1, 2, 1, shape->n, ACT_LINEAR, NULL, { 0, 0, 0 } };
    size_t c = (size_t)shape->c, n = shape_count(*shape);
    real *value = rig_noise(r, n, 1), *host_var = rig_host(r, c, sizeof *host_var);
    assert_int_equal(r->be->ops->norm->plan(r->be, &d, &y, &p, &e), OK);
    real *scale = rig_alloc_noise(r, c, 2), *bias = rig_alloc_noise(r, c, 3),
         *mean = rig_alloc_noise(r, c, 4), *var = rig_alloc(r, c * sizeof(real));
    value[n / (size_t)shape->n] = (real)NAN; /* channel 0 of the second row */
    value[n / (size_t)shape->n / c] = (real)INFINITY;
    host_var[c - 1] = 1;
    r->be->ops->upload(r->be, var, host_var, c * sizeof(real));
    rig_fill(r, &x, 0);
    rig_fill(r, &y, 0);
    assert_int_equal(r->be->ops->write(r->be, &x, 0, shape->n, value, 0), OK);
    assert_int_equal(r->be->ops->norm->forward(&p, WITH(rig_alloc(r, p.scratch_bytes)), x.data, NULL, scale,
                                               bias, mean, var, 0.25, rig_alloc(r, p.kept_bytes), y.data),
                     OK);
    rig_keep_vector(r, "mean", mean, c);
    rig_keep_vector(r, "var", var, c);
    op_destroy(&p);
}

static void running_norm(void **state)
{
    static const struct shape shapes[] = { { 3, 16, 2, 3 }, { 4, 11, 1, 2 }, { 3, 300, 1, 1 } };
    CHECK_EACH(state, running, shapes, "running statistics");
}

/* Normalisation, a sum and an activation: one operation where the device has it, else two. */
struct sum_case {
    struct shape in;
    int splits, rows_s1, rows_back, add, no_gaddend;
    enum act act;
};

static void normed_sum(struct rig *r, const void *arg)
{
    const struct sum_case *k = arg;
    const struct backend_ops *ops = r->be->ops;
    struct err e;
    struct op_plan p, sum = { 0 };
    struct tensor x = rig_dense(r, k->in), y = { .shape = k->in }, z = { .shape = k->in }, u = x;
    int fused = ops->norm->adds && ops->norm->adds(k->act);
    struct norm_desc d = { .in = &x,
                           .train = 1,
                           .splits = k->splits,
                           .rows_s1 = k->rows_s1,
                           .rows_back = k->rows_back,
                           .act = fused ? k->act : ACT_LINEAR,
                           .addend = fused ? &u : NULL };
    assert_int_equal(ops->norm->plan(r->be, &d, fused ? &y : &z, &p, &e), OK);
    size_t c = (size_t)k->in.c;
    real *scale = rig_alloc_noise(r, c, 1), *bias = rig_alloc_noise(r, c, 2),
         *mean = rig_alloc_noise(r, c, 3), *var = rig_alloc_noise(r, c, 4),
         *gscale = rig_alloc_noise(r, c, 5), *gbias = rig_alloc_noise(r, c, 6);
    void *kept = rig_alloc(r, p.kept_bytes), *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &x, 7);
    rig_fill(r, &u, 8);
    if (!fused) {
        struct add_desc a = { &z, &u, 1, 1, k->act, 1, k->rows_back, 0, 0 };
        assert_int_equal(ops->add->plan(r->be, &a, &y, &sum, &e), OK);
        assert_int_equal(sum.fused, 1);
        rig_fill(r, &z, 0);
    }
    rig_fill(r, &y, 0);
    assert_int_equal(ops->norm->forward(&p, WITH(scratch), x.data, fused ? u.data : NULL, scale, bias, mean,
                                        var, .1, kept, fused ? y.data : z.data),
                     OK);
    if (!fused)
        assert_int_equal(
            ops->add->forward(&sum, WITH(rig_alloc(r, sum.scratch_bytes)), z.data, u.data, y.data), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 9), gu = rig_gradient(r, &u, 0), gz = gy;
    if (!fused) {
        gz = rig_gradient(r, &z, 0);
        assert_int_equal(ops->add->backward(&sum, WITH(rig_alloc(r, sum.scratch_bytes)), y.data, gy.data,
                                            gz.data, gu.data),
                         OK);
    }
    assert_int_equal(ops->norm->backward(&p, WITH(scratch, .add = k->add), x.data, fused ? y.data : z.data,
                                         scale, kept, gz.data, gz.data, k->no_gaddend ? NULL : gu.data,
                                         gscale, gbias),
                     OK);
    rig_keep_tensor(r, "gx", &gz, k->rows_back);
    if (!k->no_gaddend) rig_keep_tensor(r, "gaddend", &gu, k->rows_back);
    rig_keep_vector(r, "gscale", gscale, c);
    rig_keep_vector(r, "gbias", gbias, c);
    op_destroy(&p);
    op_destroy(&sum);
}

static void normed_sums(void **state)
{
    static const struct sum_case cases[] = {
        { { 4, 17, 5, 7 }, 1, 4, 4, 0, 0, ACT_RELU },    { { 6, 64, 8, 8 }, 1, 6, 6, 1, 0, ACT_RELU },
        { { 6, 64, 8, 8 }, 2, 4, 6, 1, 0, ACT_LEAKY },   { { 5, 24, 3, 3 }, 2, 2, 2, 0, 0, ACT_RELU },
        { { 5, 300, 2, 2 }, 1, 5, 5, 0, 1, ACT_LINEAR }, { { 3, 2056, 1, 2 }, 2, 1, 3, 1, 0, ACT_RELIE },
        { { 9, 8, 16, 16 }, 1, 9, 9, 0, 0, ACT_RELU },
    };
    CHECK_EACH(state, normed_sum, cases, "normed sum");
}

/* A channel that is constant has no variance, however large its values: y is the bias. */
static void constant_norm(void **state)
{
    const struct shape shape = { 4, 32, 9, 9 };
    struct err e;
    for (int blocked = 0; blocked < 2; blocked++) {
        struct rig r;
        rig_open(&r, *state, 2);
        struct op_plan maker = { 0 }, p;
        struct tensor x = blocked ? rig_blocked(&r, shape, &maker) : rig_dense(&r, shape),
                      y = { .shape = shape };
        struct norm_desc d = { &x, 1, 1, shape.n, shape.n, ACT_LINEAR, NULL, { 0, 0, 0 } };
        assert_int_equal(r.be->ops->norm->plan(r.be, &d, &y, &p, &e), OK);
        size_t c = (size_t)shape.c, n = shape_count(shape);
        real *scale = rig_alloc_noise(&r, c, 1), *bias = rig_alloc_noise(&r, c, 2),
             *mean = rig_alloc_noise(&r, c, 3), *var = rig_alloc_noise(&r, c, 4),
             *value = rig_host(&r, n, sizeof *value);
        for (size_t i = 0; i < n; i++) value[i] = (real)(1e6 / 3);
        rig_fill(&r, &x, 0);
        rig_fill(&r, &y, 0);
        assert_int_equal(r.be->ops->write(r.be, &x, 0, shape.n, value, 0), OK);
        assert_int_equal(r.be->ops->norm->forward(&p, WITH(rig_alloc(&r, p.scratch_bytes)), x.data, NULL,
                                                  scale, bias, mean, var, 1, rig_alloc(&r, p.kept_bytes),
                                                  y.data),
                         OK);
        assert_int_equal(r.be->ops->read(r.be, &y, 0, shape.n, value), OK);
        for (size_t i = 0; i < n; i++) assert_true(value[i] == bias[i / (n / 4 / c) % c]);
        for (size_t i = 0; i < c; i++) assert_true(var[i] == 0);
        op_destroy(&p);
        op_destroy(&maker);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(batch_norm), cmocka_unit_test(constant_norm),
                                        cmocka_unit_test(running_norm), cmocka_unit_test(normed_sums) };
    return RIG_RUN(tests);
}
