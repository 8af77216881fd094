/* The matching loss against vectors computed by an independent program in double precision.
 *
 *   itra FILE...
 *       The format of tests/golden/itra/: "key value" lines, then rows of h1, h2, sigma, match, g1, g2.
 *
 * Each file goes through match_compute, through the operation of the default backend, and, where both halves
 * have as many rows, through a whole net as well: an identity layer, [itra] on its output, a classifier of
 * zeros, so that the gradient reaching the features is that of the match alone. Prints the relative errors
 * per file; exit status 1 where one is above 1e-5 (float) or 1e-10 (double), 2 where a file cannot be read.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "backend/ref/match.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "net/net.h"
#include "probe.h"

#define TOLERANCE (sizeof(real) == sizeof(double) ? 1e-10 : 1e-5)

enum { MAX_ROWS = 4096, MAX_CLASSES = 4096, MAX_FEATURES = 65536, NET_LAYERS = 4 };

struct half {
    int m, rows, gradients; /* expected, read so far */
    real *h;
    double *g;
    int *label;
};
struct vector {
    struct half half[2];
    int d, classes, conditional, kernels, root, present, unbiased;
    double kernel_mul, match;
    char bandwidth[32];
    double *sigma;
    int have_sigma, have_match;
};

static int bad(const char *path, int line, const char *what, struct err *e)
{
    return fail_at(e, E_FORMAT, path, line, "%s", what);
}

static int integer(const char *text, int lo, int hi, int *to)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (end == text || *end || v < lo || v > hi) return E_FORMAT;
    *to = (int)v;
    return OK;
}

static int number(const char *text, double *to)
{
    char *end;
    *to = strtod(text, &end);
    return end == text || *end ? E_FORMAT : OK;
}

/* n numbers from the text onwards */
static int numbers(char *text, int n, double *to)
{
    for (int i = 0; i < n; i++) {
        char *end;
        to[i] = strtod(text, &end);
        if (end == text) return E_FORMAT;
        text = end;
    }
    return *text ? E_FORMAT : OK;
}

static int setting(struct vector *v, const char *key, const char *value)
{
    if (!strcmp(key, "m1")) return integer(value, 1, MAX_ROWS, &v->half[0].m);
    if (!strcmp(key, "m2")) return integer(value, 1, MAX_ROWS, &v->half[1].m);
    if (!strcmp(key, "d")) return integer(value, 1, MAX_FEATURES, &v->d);
    if (!strcmp(key, "k")) return integer(value, 1, MAX_CLASSES, &v->classes);
    if (!strcmp(key, "conditional")) return integer(value, 0, 1, &v->conditional);
    if (!strcmp(key, "kernels")) return integer(value, 1, 16, &v->kernels);
    if (!strcmp(key, "root")) return integer(value, 0, 1, &v->root);
    if (!strcmp(key, "kernel_mul")) return number(value, &v->kernel_mul);
    if (!strcmp(key, "average")) {
        v->present = !strcmp(value, "present");
        return v->present || !strcmp(value, "all") ? OK : E_FORMAT;
    }
    if (!strcmp(key, "estimate")) {
        v->unbiased = !strcmp(value, "unbiased");
        return v->unbiased || !strcmp(value, "biased") ? OK : E_FORMAT;
    }
    if (strcmp(key, "bandwidth") || strlen(value) >= sizeof v->bandwidth) return E_FORMAT;
    snprintf(v->bandwidth, sizeof v->bandwidth, "%s", value);
    return OK;
}

static int room(struct vector *v)
{
    if (v->sigma) return OK;
    if (!v->d || !v->classes || !v->half[0].m || !v->half[1].m) return E_FORMAT;
    v->sigma = mem_alloc((size_t)v->classes, sizeof *v->sigma);
    for (int s = 0; s < 2; s++) {
        size_t n = (size_t)v->half[s].m * (size_t)v->d;
        v->half[s].h = mem_alloc(n, sizeof(real));
        v->half[s].g = mem_alloc(n, sizeof(double));
        v->half[s].label = mem_alloc((size_t)v->half[s].m, sizeof(int));
        if (!v->half[s].h || !v->half[s].g || !v->half[s].label) return E_MEM;
    }
    return v->sigma ? OK : E_MEM;
}

static int feature_row(struct vector *v, struct half *half, char *text)
{
    double row[256], *to = v->d <= 256 ? row : mem_alloc((size_t)v->d, sizeof *to);
    char *end;
    long label = strtol(text, &end, 10);
    int rc = !to || half->rows == half->m || end == text || label < 0 || label >= v->classes
                 ? E_FORMAT
                 : numbers(end, v->d, to);
    if (!rc) {
        half->label[half->rows] = (int)label;
        for (int i = 0; i < v->d; i++) half->h[(size_t)half->rows * (size_t)v->d + (size_t)i] = (real)to[i];
        half->rows++;
    }
    if (to != row) mem_free(to);
    return rc;
}

static int gradient_row(struct vector *v, struct half *half, char *text)
{
    if (half->gradients == half->m) return E_FORMAT;
    return numbers(text, v->d, half->g + (size_t)half->gradients++ * (size_t)v->d);
}

static int vector_line(struct vector *v, const char *key, char *value)
{
    int row = strlen(key) == 2 && (key[1] == '1' || key[1] == '2');
    if (row && (key[0] == 'h' || key[0] == 'g')) {
        struct half *half = &v->half[key[1] - '1'];
        TRY(room(v));
        return key[0] == 'h' ? feature_row(v, half, value) : gradient_row(v, half, value);
    }
    if (!strcmp(key, "sigma")) {
        TRY(room(v));
        v->have_sigma = 1;
        return numbers(value, v->conditional ? v->classes : 1, v->sigma);
    }
    if (!strcmp(key, "match")) {
        v->have_match = 1;
        return number(value, &v->match);
    }
    return v->sigma ? E_FORMAT : setting(v, key, value); /* sizes come before rows */
}

static int vector_parse(struct vector *v, const char *path, char *text, struct err *e)
{
    struct lines lines;
    lines_open(&lines, text);
    for (char *line; (line = lines_next(&lines));) {
        char *value = line + strcspn(line, " \t");
        if (!*line) continue;
        if (!*value) return bad(path, lines.number, "a key without a value", e);
        *value = 0;
        int rc = vector_line(v, line, text_trim(value + 1));
        if (rc == E_MEM) return fail(e, E_MEM, "%s: not enough memory", path);
        if (rc)
            return bad(path, lines.number, "not a known key with a value as tests/golden/itra/ has them", e);
    }
    for (int s = 0; s < 2; s++)
        if (!v->half[s].m || v->half[s].rows != v->half[s].m || v->half[s].gradients != v->half[s].m)
            return bad(path, 0, "fewer rows of h or g than m1 and m2 say", e);
    return v->have_sigma && v->have_match ? OK : bad(path, 0, "no sigma or no match", e);
}

static int vector_read(struct vector *v, const char *path, struct err *e)
{
    char *text;
    size_t n;
    TRY(text_load(path, (size_t)1 << 28, &text, &n, e));
    int rc = vector_parse(v, path, text, e);
    mem_free(text);
    return rc;
}

static void vector_free(struct vector *v)
{
    mem_free(v->sigma);
    for (int s = 0; s < 2; s++) {
        mem_free(v->half[s].h);
        mem_free(v->half[s].g);
        mem_free(v->half[s].label);
    }
}

/* Errors of one way through, relative to the norm of what is expected; where that is 0, absolute. */
struct errors {
    double match, sigma, g[2];
};

static double off(double ours, double theirs)
{
    return fabs(ours - theirs) / (theirs != 0 ? fabs(theirs) : 1);
}

static double off_rows(const real *ours, const double *theirs, size_t n)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double z = (double)ours[i] - theirs[i];
        error += z * z;
        norm += theirs[i] * theirs[i];
    }
    return sqrt(error / (norm > 0 ? norm : 1));
}

static double off_sigma(const struct vector *v, const double *ours)
{
    double worst = 0;
    for (int k = 0; k < (v->conditional ? v->classes : 1); k++) {
        double z = off(ours[k], v->sigma[k]);
        if (!(z <= worst)) worst = z;
    }
    return worst;
}

static int acceptable(const struct errors *x)
{
    return x->match <= TOLERANCE && x->sigma <= TOLERANCE && x->g[0] <= TOLERANCE && x->g[1] <= TOLERANCE;
}

static struct match_options options_of(const struct vector *v)
{
    struct match_options o = { .conditional = v->conditional,
                               .kernels = v->kernels,
                               .kernel_mul = v->kernel_mul,
                               .root = v->root,
                               .present = v->present,
                               .unbiased = v->unbiased,
                               .bandwidth = BANDWIDTH_FIXED };
    if (!strcmp(v->bandwidth, "median"))
        o.bandwidth = BANDWIDTH_MEDIAN;
    else if (!strcmp(v->bandwidth, "pooled"))
        o.bandwidth = BANDWIDTH_POOLED;
    else
        o.fixed = atof(v->bandwidth);
    return o;
}

static int through_match(const struct vector *v, struct errors *x, struct err *e)
{
    double *sigma = mem_alloc((size_t)v->classes, sizeof *sigma), match = 0;
    void *work = mem_alloc(1, match_bytes(v->half[0].m + v->half[1].m));
    struct match_problem problem = {
        .options = options_of(v), .classes = v->classes, .d = v->d, .sigma = sigma, .work = work
    };
    real *g[2];
    for (int s = 0; s < 2; s++) {
        g[s] = mem_alloc((size_t)v->half[s].m * (size_t)v->d, sizeof(real));
        problem.half[s] = (struct match_half){ v->half[s].h, v->half[s].label, v->half[s].m, g[s] };
    }
    int rc = OK;
    if (!sigma || !work || !g[0] || !g[1]) rc = fail(e, E_MEM, "not enough memory");
    if (!rc && match_compute(&problem, &match)) rc = fail(e, E_NUMBER, "match_compute refuses the features");
    if (!rc) {
        x->match = off(match, v->match);
        x->sigma = off_sigma(v, sigma);
        for (int s = 0; s < 2; s++)
            x->g[s] = off_rows(g[s], v->half[s].g, (size_t)v->half[s].m * (size_t)v->d);
    }
    for (int s = 0; s < 2; s++) mem_free(g[s]);
    mem_free(work);
    mem_free(sigma);
    return rc;
}

/* One step of the operation: the features with their gradient, and what else it is given. */
struct device {
    struct backend *be;
    struct tensor x, g;
    void *label, *now, *match, *kept, *scratch;
};

static int device_memory(struct device *d, const struct vector *v, const struct op_plan *p, struct err *e)
{
    const struct backend_ops *ops = d->be->ops;
    size_t rows = (size_t)(v->half[0].m + v->half[1].m);
    TRY(ops->alloc(d->be, d->x.bytes, &d->x.data, e));
    TRY(ops->alloc(d->be, d->x.bytes, &d->g.data, e));
    TRY(ops->alloc(d->be, rows * sizeof(int), &d->label, e));
    TRY(ops->alloc(d->be, sizeof(struct step_state), &d->now, e));
    TRY(ops->alloc(d->be, sizeof(double), &d->match, e));
    TRY(ops->alloc(d->be, p->kept_bytes, &d->kept, e));
    TRY(ops->alloc(d->be, p->scratch_bytes, &d->scratch, e));
    TRY(ops->upload(d->be, d->now, &(struct step_state){ .iteration = 1 }, sizeof(struct step_state)));
    for (int s = 0, row = 0; s < 2; row += v->half[s++].m) {
        size_t n = (size_t)v->half[s].m;
        TRY(ops->write(d->be, &d->x, row, v->half[s].m, v->half[s].h, 0));
        TRY(ops->upload(d->be, (int *)d->label + row, v->half[s].label, n * sizeof(int)));
    }
    return OK;
}

static int device_step(struct device *d, const struct vector *v, const struct op_plan *p, struct errors *x)
{
    const struct backend_ops *ops = d->be->ops;
    const struct op_context context = { .scratch = d->scratch, .state = d->now, .label = d->label };
    double match;
    TRY(ops->match->forward(p, &context, d->x.data, NULL, d->match, d->kept));
    TRY(ops->match->backward(p, &context, d->kept, d->g.data, 0));
    TRY(ops->download(d->be, &match, d->match, sizeof match));
    x->match = off(match, v->match);
    for (int s = 0, row = 0; s < 2; row += v->half[s++].m) {
        size_t n = (size_t)v->half[s].m * (size_t)v->d;
        real *g = mem_alloc(n, sizeof *g);
        int rc = g ? ops->read(d->be, &d->g, row, v->half[s].m, g) : E_MEM;
        if (!rc) x->g[s] = off_rows(g, v->half[s].g, n);
        mem_free(g);
        TRY(rc);
    }
    return OK;
}

static int on_device(struct device *d, const struct vector *v, struct errors *x, struct err *e)
{
    const struct backend_ops *ops = d->be->ops;
    int m1 = v->half[0].m, m2 = v->half[1].m;
    struct op_plan p = { 0 };
    d->x.shape = (struct shape){ m1 + m2, v->d, 1, 1 };
    TRY(ops->image(d->be, &d->x, 0, e));
    d->g = d->x;
    struct match_desc desc = { &d->x, m1, m2, v->classes, m1 + m2, 0,          options_of(v),
                               1,     0,  1,  0,          0,       { 0, 0, 0 } };
    TRY(ops->match->plan(d->be, &desc, &p, e));
    int rc = device_memory(d, v, &p, e);
    if (!rc) rc = device_step(d, v, &p, x);
    op_destroy(&p);
    return rc;
}

static int through_device(const struct vector *v, const char *name, struct errors *x, struct err *e)
{
    struct device d = { 0 };
    TRY(backend_open(&d.be, name, 1, e));
    int rc = on_device(&d, v, x, e);
    void *const memory[] = { d.x.data, d.g.data, d.label, d.now, d.match, d.kept, d.scratch };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) d.be->ops->free(d.be, memory[i]);
    backend_close(d.be);
    return rc;
}

struct watch {
    struct backend *be;
    const struct vector *v;
    real *g; /* all rows */
};

/* The gradient that arrives at the output of layer 0, the features. */
static int seen(void *ctx, const struct layer *l, enum probe_when when, const struct tensor *t, int rows)
{
    struct watch *w = ctx;
    if (l->index != 0 || when != PROBE_GRADIENT) return OK;
    return w->be->ops->read(w->be, t, 0, rows, w->g);
}

static int net_of(struct net **net, const struct vector *v, struct backend *be, struct err *e)
{
    char text[1024];
    struct notes quiet = { NULL, NULL };
    struct cfg *cfg;
    int n =
        snprintf(text, sizeof text,
                 "[net]\nbatch=%d\nwidth=%d\nheight=1\nchannels=1\n"
                 "[connected]\noutput=%d\nactivation=linear\n"
                 "[itra]\nlambda=1\nconditional=%d\nkernels=%d\nkernel_mul=%.17g\nbandwidth=%s\nroot=%d\n"
                 "average=%s\nestimate=%s\npair=loader\nwarmup=0\n"
                 "[connected]\noutput=%d\nactivation=linear\n[softmax]\n",
                 v->half[0].m, v->d, v->d, v->conditional, v->kernels, v->kernel_mul, v->bandwidth, v->root,
                 v->present ? "present" : "all", v->unbiased ? "unbiased" : "biased", v->classes);
    TRY(cfg_parse(&cfg, "itra", text, (size_t)n, e));
    return net_open(net, cfg, be, 1, &quiet, e);
}

/* Identity first, then zeros: biases 0. Parameters in the order of the file: bias, weights of either layer.
 */
static int set_weights(struct net *net, const struct vector *v, struct err *e)
{
    for (int i = 0; i < net->nparam; i++) {
        size_t n = net->param[i]->count;
        real *w = mem_alloc(n, sizeof *w);
        if (!w) return fail(e, E_MEM, "not enough memory for %zu weights", n);
        for (int k = 0; i == 1 && k < v->d; k++) w[(size_t)k * (size_t)v->d + (size_t)k] = 1;
        int rc = param_set(net->param[i], w);
        mem_free(w);
        TRY(rc);
    }
    return OK;
}

static int net_step(struct program *program, const struct vector *v, struct backend *be, struct errors *x,
                    struct err *e)
{
    size_t m = (size_t)v->half[0].m, row = (size_t)v->d;
    struct watch w = { be, v, mem_alloc(2 * m * row, sizeof(real)) };
    float *in = mem_alloc(2 * m * row, sizeof *in);
    int *label = mem_alloc(2 * m, sizeof *label);
    struct probe probe[NET_LAYERS];
    struct step_stats stats = { 0 };
    int rc = w.g && in && label ? OK : fail(e, E_MEM, "not enough memory");
    for (size_t s = 0; s < 2 && !rc; s++) {
        for (size_t i = 0; i < m * row; i++) in[s * m * row + i] = (float)v->half[s].h[i];
        memcpy(label + s * m, v->half[s].label, m * sizeof *label);
    }
    if (!rc) {
        struct step step = { .x = in, .label = label, .rows = 2 * (int)m, .rows_s1 = (int)m, .iteration = 1 };
        probe_insert(program, NET_LAYERS, probe, seen, &w);
        rc = step_train(program, &step, &stats, e);
        probe_remove(program, NET_LAYERS, probe);
    }
    if (!rc) {
        x->match = off(stats.match, v->match);
        for (size_t s = 0; s < 2; s++) x->g[s] = off_rows(w.g + s * m * row, v->half[s].g, m * row);
    }
    mem_free(w.g);
    mem_free(in);
    mem_free(label);
    return rc;
}

static int through_net(const struct vector *v, struct errors *x, struct err *e)
{
    struct backend *be = NULL;
    struct net *net = NULL;
    struct program *program = NULL;
    struct program_desc desc = { .rows = v->half[0].m, .paired = 1, .train = 1 };
    int rc = backend_open(&be, "ref", 1, e);
    if (!rc) rc = net_of(&net, v, be, e);
    if (!rc) rc = program_open(&program, net, &desc, e);
    if (!rc) rc = set_weights(net, v, e);
    if (!rc) rc = net_step(program, v, be, x, e);
    if (program) program_close(program);
    if (net) net_close(net);
    backend_close(be);
    return rc;
}

static int check(const char *path)
{
    struct vector v = { .conditional = 1, .kernels = 5, .kernel_mul = 2, .root = 1, .bandwidth = "median" };
    struct errors direct = { 0 }, device = { 0 }, net = { 0 };
    struct err e = { 0 };
    const char *name = backend_at(0)->name;
    int rc = vector_read(&v, path, &e), whole = 0;
    if (!rc) rc = through_match(&v, &direct, &e);
    if (!rc) rc = through_device(&v, name, &device, &e);
    if (!rc && v.half[0].m == v.half[1].m) {
        whole = 1;
        rc = through_net(&v, &net, &e);
    }
    vector_free(&v);
    if (rc) {
        fprintf(stderr, "itra-golden: %s: %s\n", path, e.msg);
        return 2;
    }
    const char *file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    int good = acceptable(&direct) && acceptable(&device) && acceptable(&net);
    printf("%-4s %-6s %-34s match %.1e sigma %.1e g1 %.1e g2 %.1e", good ? "ok" : "FAIL",
           sizeof(real) == sizeof(double) ? "double" : "float", file, direct.match, direct.sigma, direct.g[0],
           direct.g[1]);
    printf("; on %s: match %.1e g1 %.1e g2 %.1e", name, device.match, device.g[0], device.g[1]);
    if (whole) printf("; in a net: match %.1e g1 %.1e g2 %.1e", net.match, net.g[0], net.g[1]);
    printf("\n");
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    int worst = argc > 1 ? 0 : 2;
    if (argc < 2) fprintf(stderr, "usage: itra-golden FILE...\n");
    for (int i = 1; i < argc; i++) {
        int rc = check(argv[i]);
        if (rc > worst) worst = rc;
    }
    return worst;
}
