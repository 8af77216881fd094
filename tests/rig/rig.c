#include "rig/rig.h"
#include "backend/ops/act.h"
#include "backend/ops/conv.h"
#include "backend/ops/sum.h"

enum { GUARD = 256, DEVICES = 8 };

/* ---- devices and memory ---- */

/* They stay open for all cases of a suite: opening a GPU takes longer than most of them. */
static struct device {
    char name[20];
    int threads;
    struct backend *be;
    const struct backend_ops *ops;
    struct backend_ops twinned; /* these with those of rig_twin */
} devices[DEVICES];

static struct device *device_at(const char *name, int threads)
{
    struct device *d = devices;
    struct err e;
    while (d->be && (strcmp(d->name, name) || d->threads != threads)) d++;
    assert_true(d < devices + DEVICES - 1); /* the last one ends the list */
    if (!d->be && backend_open(&d->be, name, threads, &e)) {
        print_message("skipped: %s\n", e.msg);
        skip();
    }
    snprintf(d->name, sizeof d->name, "%s", name);
    d->threads = threads;
    if (!d->ops) d->ops = d->be->ops;
    d->be->ops = d->ops;
    return d;
}

static void close_devices(void)
{
    for (struct device *d = devices; d->be; d++) {
        d->be->ops = d->ops;
        backend_close(d->be);
        *d = (struct device){ .be = NULL };
    }
}

/* No plan is timed: the suites ask what is computed. */
void rig_open(struct rig *r, const char *device, int threads)
{
    memset(r, 0, sizeof *r);
    r->be = device_at(device, threads)->be;
    r->be->precision = PRECISION_FP32;
    r->be->deterministic = 1;
}

static int add_twice(struct backend *be, double *x, size_t n)
{
    double *host = mem_alloc(n, sizeof *host);
    assert_non_null(host);
    assert_int_equal(be->ops->download(be, host, x, n * sizeof *host), OK);
    for (size_t i = 0; i < n; i++) host[i] *= 2;
    assert_int_equal(be->ops->upload(be, x, host, n * sizeof *host), OK);
    mem_free(host);
    return OK;
}

/* The rows of the others are those of this process, again and again. */
static int join_twice(struct backend *be, struct share s, const void *own, size_t bytes, void *all)
{
    const size_t rows = (size_t)s.rows, first = (size_t)s.first;
    char *host = mem_alloc(rows, bytes);
    assert_non_null(host);
    assert_int_equal(be->ops->download(be, host, own, rows * bytes), OK);
    for (size_t i = 0; i < (size_t)s.all; i++) {
        const size_t from = (i + first * (rows - 1)) % rows; /* i - first: own rows are in their place */
        assert_int_equal(be->ops->upload(be, (char *)all + i * bytes, host + from * bytes, bytes), OK);
    }
    mem_free(host);
    return OK;
}

void rig_twin(struct rig *r)
{
    static const struct sum_ops twice = { .add = add_twice, .join = join_twice };
    struct device *d = devices;
    while (d->be != r->be) d++;
    d->twinned = *d->ops;
    d->twinned.sum = &twice;
    r->be->ops = &d->twinned;
}

void rig_close(struct rig *r)
{
    for (int i = 0; i < r->nmem; i++) {
        unsigned char guard[GUARD];
        r->be->ops->download(r->be, guard, (char *)r->mem[i] + r->bytes[i], GUARD);
        for (int k = 0; k < GUARD; k++) assert_int_equal(guard[k], 0xff);
        r->be->ops->free(r->be, r->mem[i]);
    }
    for (int i = 0; i < r->nhost; i++) mem_free(r->host[i]);
}

void *rig_host(struct rig *r, size_t count, size_t size)
{
    assert_true(r->nhost < RIG_MEMORY);
    void *p = mem_alloc(count, size);
    assert_non_null(p);
    return r->host[r->nhost++] = p;
}

/* Device memory full of NaN, the guard included. */
void *rig_alloc(struct rig *r, size_t bytes)
{
    struct err e;
    assert_true(r->nmem < RIG_MEMORY);
    void *p, *fill = rig_host(r, bytes + GUARD, 1);
    assert_int_equal(r->be->ops->alloc(r->be, bytes + GUARD, &p, &e), OK);
    memset(fill, 0xff, bytes + GUARD);
    r->be->ops->upload(r->be, p, fill, bytes + GUARD);
    r->mem[r->nmem] = p;
    r->bytes[r->nmem++] = bytes;
    return p;
}

real rig_bf16(real x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits &= 0xffff0000u;
    memcpy(&f, &bits, sizeof f);
    return (real)f;
}

real *rig_noise(struct rig *r, size_t n, uint64_t key)
{
    real *x = rig_host(r, n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = r->coarse ? rig_bf16((real)rng_normal(key, i)) : (real)rng_normal(key, i);
    return x;
}

void *rig_alloc_noise(struct rig *r, size_t n, uint64_t key)
{
    void *p = rig_alloc(r, n * sizeof(real));
    r->be->ops->upload(r->be, p, rig_noise(r, n, key), n * sizeof(real));
    return p;
}

/* ---- tensors ---- */

struct tensor rig_image(struct rig *r, struct shape s, int pads)
{
    struct tensor t = { .shape = s };
    struct err e;
    assert_int_equal(r->be->ops->image(r->be, &t, pads, &e), OK);
    return t;
}

struct tensor rig_dense(struct rig *r, struct shape s) { return rig_image(r, s, 0); }

struct tensor rig_blocked(struct rig *r, struct shape s, struct op_plan *plan)
{
    struct err e;
    struct tensor in = rig_dense(r, s), out = { .shape = s };
    struct linear_desc d = { .in = &in, .size = 1, .dilation = 1, .stride_y = 1, .stride_x = 1, .groups = 1 };
    assert_int_equal(r->be->ops->conv->linear.plan(r->be, &d, &out, plan, &e), OK);
    return out;
}

void rig_fill(struct rig *r, struct tensor *t, uint64_t key)
{
    t->data = rig_alloc(r, t->bytes);
    if (key)
        assert_int_equal(
            r->be->ops->write(r->be, t, 0, t->shape.n, rig_noise(r, shape_count(t->shape), key), 0), OK);
}

struct tensor rig_gradient(struct rig *r, const struct tensor *of, uint64_t key)
{
    struct tensor g = *of;
    rig_fill(r, &g, key);
    return g;
}

void rig_activate(struct rig *r, struct tensor *y, enum act act)
{
    struct err e;
    struct op_plan p;
    struct act_desc d = { .in = y, .act = act };
    struct tensor out = { .shape = y->shape };
    assert_int_equal(r->be->ops->act->plan(r->be, &d, &out, &p, &e), OK);
    assert_int_equal(r->be->ops->act->forward(&p, WITH(rig_alloc(r, p.scratch_bytes)), y->data, y->data), OK);
    op_destroy(&p);
}

void rig_activate_back(struct rig *r, const struct tensor *y, struct tensor *g, enum act act, int rows)
{
    struct err e;
    struct op_plan p;
    struct act_desc d = { .in = y, .act = act, .train = 1, .rows_back = rows };
    struct tensor out = { .shape = y->shape };
    assert_int_equal(r->be->ops->act->plan(r->be, &d, &out, &p, &e), OK);
    assert_int_equal(r->be->ops->act->backward(&p, WITH(rig_alloc(r, p.scratch_bytes)), NULL, y->data,
                                               g->data, g->data, 0),
                     OK);
    op_destroy(&p);
}

/* ---- results ---- */

void rig_keep(struct rig *r, const char *name, real *v, size_t n)
{
    assert_true(r->nout < RIG_RESULTS);
    r->name[r->nout] = name;
    r->out[r->nout] = v;
    r->len[r->nout++] = n;
}

void rig_keep_vector(struct rig *r, const char *name, const void *p, size_t n)
{
    real *v = rig_host(r, n, sizeof *v);
    r->be->ops->download(r->be, v, p, n * sizeof *v);
    rig_keep(r, name, v, n);
}

/* The padding is zero if the sum of the tensor's numbers is that of all its memory. */
void rig_keep_tensor(struct rig *r, const char *name, const struct tensor *t, int rows)
{
    size_t n = shape_row(t->shape) * (size_t)rows, bytes = t->bytes / (size_t)t->shape.n * (size_t)rows;
    real *v = rig_host(r, n, sizeof *v), *raw = rig_host(r, bytes, 1);
    assert_int_equal(r->be->ops->read(r->be, t, 0, rows, v), OK);
    r->be->ops->download(r->be, raw, t->data, bytes);
    double in = 0, all = 0;
    rig_keep(r, name, v, n);
    if (r->be->precision == PRECISION_BF16) return;
    for (size_t i = 0; i < n; i++) in += fabs((double)v[i]);
    for (size_t i = 0; i < bytes / sizeof *raw; i++) all += fabs((double)raw[i]);
    if (!(fabs(all - in) <= 1e-9 * in)) fail_msg("%s: padding is not zero", name);
}

/* Relative, of a whole result. fp32: sums of up to a few thousand terms in another order, and the rounding of
 * Winograd's transforms. tf32: factors of 11 bits, the others cut off. bf16: results of 8 bits, rounded once
 * or twice. */
static const double tolerance[PRECISION_COUNT] = { 1e-5, 2e-3, 4e-3 };

void rig_compare(const struct rig *a, const struct rig *b, const char *what)
{
    enum precision p = b->be->precision;
    assert_int_equal(a->nout, b->nout);
    for (int i = 0; i < a->nout; i++) {
        double diff = 0, size = 0;
        assert_int_equal(a->len[i], b->len[i]);
        for (size_t k = 0; k < a->len[i]; k++) {
            double d = (double)a->out[i][k] - (double)b->out[i][k];
            diff += d * d;
            size += (double)a->out[i][k] * (double)a->out[i][k];
        }
        if (!(sqrt(diff) <= tolerance[p] * sqrt(size) + 1e-12))
            fail_msg("%s in %s, %s: off by %g of %g", what, precision_names[p], a->name[i], sqrt(diff),
                     sqrt(size));
    }
}

/* ---- cases ---- */

void check_each(void **state, rig_case *run, const void *cases, size_t n, size_t size, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        char numbered[40];
        snprintf(numbered, sizeof numbered, "%s %zu", what, i);
        check_case(state, run, (const char *)cases + i * size, numbered);
    }
}

int rig_run_on(const char *device, const struct CMUnitTest *tests, size_t n)
{
    struct CMUnitTest *here = mem_alloc(n, sizeof *here);
    if (!here) return -1;
    memcpy(here, tests, n * sizeof *tests);
    for (size_t i = 0; i < n; i++) here[i].initial_state = (void *)(uintptr_t)device;
    print_message("%s\n", device);
    int failed = _cmocka_run_group_tests(device, here, n, NULL, NULL);
    close_devices();
    mem_free(here);
    return failed;
}
