#include "rig/rig.h"
#include "backend/ops/match.h"

/* Features: any numbers; whole ones; nearly whole; most of them 0; all 0; one NaN. */
enum grain { FINE, WHOLE, NEAR, FEW, EQUAL, BAD };

struct match_case {
    int m1, m2, classes, memory;
    struct shape row; /* of a feature map */
    int rows_back, first, add, every;
    double warmup;
    enum grain grain;
    struct match_options o;
    int reuse_detached, unconditional;
    double full_rate;
};

/* Of a process that has a share of the rows of S1, and as many of S2. */
struct shared_case {
    struct match_case k;
    struct share share;
};

struct match_bed {
    const struct match_case *k;
    struct tensor x, gx;
    int *label, *dev_label;
    struct step_state now;
    void *on_device;
    double value;
};

static real grained(enum grain grain, real x, size_t i)
{
    switch (grain) {
    case WHOLE: return round(x);
    case NEAR: return round(x) * (1 + (real)i / (1 << 22));
    case FEW: return i % 37 ? 0 : x;
    case EQUAL: return 0;
    case BAD: return i == 20 ? (real)NAN : x;
    case FINE:
    default: return x;
    }
}

/* Features and labels of step number s; some rows have no label. */
static void match_step(struct rig *r, struct match_bed *t, uint64_t s)
{
    const struct match_case *k = t->k;
    size_t n = shape_count(t->x.shape), rows = (size_t)t->x.shape.n;
    real *x = rig_noise(r, n, 30 + s);
    for (size_t i = 0; i < n; i++) x[i] = grained(k->grain, x[i], i);
    assert_int_equal(r->be->ops->write(r->be, &t->x, 0, (int)rows, x, 0), OK);
    for (size_t i = 0; i < rows; i++) t->label[i] = (int)rng_below(40 + s, i, (uint64_t)k->classes + 2) - 1;
    r->be->ops->upload(r->be, t->dev_label, t->label, rows * sizeof(int));
    t->now = (struct step_state){ .iteration = 6 + s, .rate = .02, .ce_average = s ? -1 : .5 };
    r->be->ops->upload(r->be, t->on_device, &t->now, sizeof t->now);
}

static void match_run(struct rig *r, struct match_bed *t, const struct op_plan *p, void *kept,
                      const struct match_memory *old)
{
    double *loss = rig_alloc(r, sizeof *loss);
    const struct match_ops *ops = r->be->ops->match;
    const struct op_context *context = WITH(rig_alloc(r, p->scratch_bytes), .state = t->on_device,
                                            .label = t->dev_label, .reuse_detached = t->k->reuse_detached);
    assert_int_equal(ops->forward(p, context, t->x.data, old, loss, kept), OK);
    r->be->ops->download(r->be, &t->value, loss, sizeof *loss);
    if (isnan(t->value)) t->value = -2;
    assert_int_equal(ops->backward(p, context, kept, t->gx.data, t->k->add), OK);
}

static struct match_bed match_bed(struct rig *r, const struct match_case *k, struct share share)
{
    struct match_bed t = { .k = k };
    struct shape s = k->row;
    s.n = k->memory ? k->m1 : k->m1 + k->m2;
    if (share.all) s.n = s.n / share.all * share.rows;
    t.x = rig_dense(r, s);
    rig_fill(r, &t.x, 1);
    t.label = rig_host(r, (size_t)s.n, sizeof(int));
    t.dev_label = rig_alloc(r, (size_t)s.n * sizeof(int));
    t.on_device = rig_alloc(r, sizeof t.now);
    return t;
}

/* Two steps, so that the second finds something in the memory. */
static void match_shared(struct rig *r, const struct match_case *k, struct share share)
{
    const struct match_ops *ops = r->be->ops->match;
    struct match_bed t = match_bed(r, k, share);
    struct op_plan p = { 0 };
    struct err e;
    size_t m2 = (size_t)k->m2;
    struct match_memory old = { rig_alloc(r, m2 * shape_row(k->row) * sizeof(real)),
                                rig_alloc(r, m2 * sizeof(real)), rig_alloc(r, sizeof(real)) };
    r->be->ops->upload(r->be, old.n, &(real){ 0 }, sizeof(real));
    r->be->ops->upload(r->be, old.h, rig_host(r, m2 * shape_row(k->row), sizeof(real)),
                       m2 * shape_row(k->row) * sizeof(real));
    struct match_desc desc = { &t.x, k->m1,     k->m2,    k->classes,   k->rows_back,     k->first, k->o,
                               .7,   k->warmup, k->every, k->full_rate, k->unconditional, share };
    if (ops->plan(r->be, &desc, &p, &e)) fail_msg("%s", e.msg);
    void *kept = rig_alloc(r, p.kept_bytes);
    for (uint64_t i = 0; i < 2; i++) {
        real *value = rig_host(r, 1, sizeof *value);
        match_step(r, &t, i);
        t.gx = rig_gradient(r, &t.x, k->add ? 3 : 0);
        match_run(r, &t, &p, kept, k->memory ? &old : NULL);
        *value = (real)t.value;
        rig_keep(r, "match", value, 1);
        if (k->grain != BAD) rig_keep_tensor(r, "gx", &t.gx, k->rows_back);
        if (k->memory) rig_keep_vector(r, "memory", old.h, m2 * shape_row(k->row));
    }
    op_destroy(&p);
    op_destroy(&p);
}

static void match(struct rig *r, const void *arg) { match_shared(r, arg, (struct share){ 0, 0, 0 }); }

static void match_of_two(struct rig *r, const void *arg)
{
    const struct shared_case *k = arg;
    rig_twin(r);
    match_shared(r, &k->k, k->share);
}

static void matching(void **state)
{
    static const struct match_options c = { 1, 5, 2, BANDWIDTH_MEDIAN, 0, 1, 0, 0 },
                                      squared = { 1, 3, 1.7, BANDWIDTH_FIXED, 40, 0, 0, 0 },
                                      present = { 1, 2, 2, BANDWIDTH_POOLED, 0, 1, 1, 0 },
                                      plain = { 0, 5, 2, BANDWIDTH_MEDIAN, 0, 1, 1, 0 },
                                      unbiased = { 1, 5, 2, BANDWIDTH_MEDIAN, 0, 0, 1, 1 };
    const struct match_case cases[] = {
        /* rows of S1 and S2, classes, memory, features, rows_back, first, add, every, warmup, grain, options,
           reuse_detached, unconditional, full_rate */
        { 20, 17, 3, 0, { 0, 7, 1, 1 }, 37, 0, 0, 1, 0, FINE, c, 0, 0, 0 },
        { 90, 81, 2, 0, { 0, 70, 1, 1 }, 171, 0, 1, 1, 10, FINE, c, 0, 0, 0 },
        { 20, 20, 3, 0, { 0, 64, 1, 1 }, 20, 1, 0, 2, -1, FINE, c, 0, 0, 0 },
        { 21, 20, 3, 0, { 0, 5, 3, 2 }, 41, 1, 1, 1, 0, FINE, squared, 0, 0, 0 },
        { 21, 20, 3, 0, { 0, 5, 3, 2 }, 41, 1, 0, 1, 0, FINE, present, 0, 0, 0 },
        { 30, 30, 3, 0, { 0, 33, 1, 1 }, 60, 0, 0, 1, 0, FINE, plain, 0, 0, 0 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 0, 1, 0, FINE, c, 0, 0, 0 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 1, 1, 0, FINE, plain, 0, 0, 0 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 0, 3, 0, FINE, c, 0, 0, 0 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 0, 1, 0, FINE, c, 1, 0, 0 },
        { 50, 49, 3, 0, { 0, 1, 1, 1 }, 99, 0, 0, 1, 0, NEAR, c, 0, 0, 0 },
        { 50, 50, 3, 0, { 0, 1, 1, 1 }, 100, 0, 0, 1, 0, NEAR, plain, 0, 0, 0 },
        { 18, 18, 40, 0, { 0, 9, 1, 1 }, 36, 0, 1, 1, 0, FINE, c, 0, 0, 0 }, /* hardly any pairs */
        { 18, 18, 40, 0, { 0, 9, 1, 1 }, 36, 0, 0, 1, 0, FINE, present, 0, 0, 0 },
        { 1, 1, 900, 0, { 0, 3, 1, 1 }, 2, 0, 0, 1, 0, FINE, present, 0, 0, 0 },
        { 1, 1, 1, 0, { 0, 3, 1, 1 }, 2, 0, 0, 1, 0, FINE, plain, 0, 0, 0 },
        { 50, 49, 3, 0, { 0, 6, 1, 1 }, 99, 0, 0, 1, 0, WHOLE, c, 0, 0, 0 },
        { 50, 50, 3, 0, { 0, 2, 1, 1 }, 100, 0, 0, 1, 0, WHOLE, present, 0, 0, 0 },
        { 50, 49, 3, 0, { 0, 6, 1, 1 }, 99, 0, 0, 1, 0, FEW, c, 0, 0, 0 },
        { 50, 49, 3, 0, { 0, 6, 1, 1 }, 99, 0, 0, 1, 0, EQUAL, c, 0, 0, 0 },
        { 50, 49, 3, 0, { 0, 6, 1, 1 }, 99, 0, 0, 1, 0, EQUAL, present, 0, 0, 0 },
        { 20, 20, 3, 0, { 0, 9, 1, 1 }, 40, 0, 0, 1, 0, BAD, c, 0, 0, 0 },
        { 20, 17, 3, 0, { 0, 7, 1, 1 }, 37, 0, 0, 1, 0, FINE, unbiased, 0, 0, .05 },
        { 18, 18, 3, 1, { 0, 5, 2, 3 }, 18, 1, 0, 1, 0, FINE, unbiased, 0, 0, 0 },
        { 18, 18, 40, 0, { 0, 9, 1, 1 }, 36, 0, 0, 1, 0, FINE, unbiased, 0, 0, 0 }, /* single rows */
        { 21, 20, 3, 0, { 0, 9, 1, 1 }, 41, 0, 0, 1, 0, FINE, c, 0, 6, .05 }, /* to the first of the steps */
        { 21, 20, 3, 0, { 0, 9, 1, 1 }, 41, 0, 0, 1, 0, FINE, present, 0, 6, 0 },
        { 400, 330, 3, 0, { 0, 3, 1, 1 }, 730, 0, 0, 1, 0, FINE, plain, 0, 0, 0 }, /* more rows than a byte
                                                                                    * counts
                                                                                    */
    };
    CHECK_EACH(state, match, cases, "match");
    const struct shared_case shared[] = {
        { { 21, 21, 3, 0, { 0, 7, 1, 1 }, 20, 0, 1, 1, 0, FINE, c, 0, 0, 0 }, { 11, 10, 21 } },
        { { 21, 21, 3, 0, { 0, 5, 2, 3 }, 10, 1, 0, 1, 0, FINE, squared, 0, 0, 0 }, { 0, 10, 21 } },
        { { 11, 10, 3, 0, { 0, 5, 3, 2 }, 10, 0, 0, 1, 0, FINE, plain, 0, 0, 0 }, { 11, 10, 21 } },
        { { 21, 21, 3, 1, { 0, 7, 1, 1 }, 11, 1, 0, 1, 0, FINE, c, 0, 0, 0 }, { 10, 11, 21 } },
    };
    CHECK_EACH(state, match_of_two, shared, "match of two processes");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(matching) };
    return RIG_RUN(tests);
}
