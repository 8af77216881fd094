/* The training steps of golden.py, through us. README.md says what is compared and how closely.
 *
 *   replay [FILE...]
 *       Against the numbers of the files (default: all of the folder): on `ref` in double, those of ref/; on
 *       `cpu` in float, those of cpu/, and in bfloat16, where file and processor have that. Prints a line
 * each, and how many passed. replay dump fp32|bf16 FILE Every output and every update or gradient in full,
 * for golden.py to compare.
 *
 * A file, line by line:
 *   cfg PATH; set SECTION.KEY=VALUE, several; labels K; update 0|1: do the weights move
 *   pass CE MATCH CENTER OUTPUT...                     each pass
 *   param NAME COUNT LOW HIGH NORM [PROJECTION...]     each parameter, in the order of the .weights file
 *   gradient ERROR BF16_ERROR PROJECTION...            each pass, where the weights stay; NaN: not judged */
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/text.h"
#include "golden/probe.h"
#include "net/net.h"

/* As in formula.py. */
enum { SEED = 1311, FORMULA_PARAMETER = 200, FORMULA_INPUT, FORMULA_LABEL, FORMULA_SIGN };
enum { PROJECTIONS = 8, MAX_PASSES = 16, MAX_PARAMS = 1024, MAX_LAYERS = 512, MAX_SETS = 32, NAME = 64 };

/* Of the norm of what is compared; of the error of PyTorch's gradient in the same precision. */
#define REF_ERROR          1e-8
#define CPU_OUTPUT_ERROR   1e-3
#define BF16_OUTPUT_ERROR  5e-2
#define CPU_GRADIENT_RATIO 3
/* The root mean square of 8 projections falls short of the norm by more than this with probability 2e-4. */
#define SHORT 4

struct golden_pass {
    double loss[3]; /* CE, match, center; NaN: not used */
    double *out;    /* of the layer before the losses, S1 only */
    size_t nout;
    double gradient[PROJECTIONS]; /* of all gradients, scaled */
    double theirs[2], ours;       /* error of PyTorch's gradient in float, in bfloat16; of ours */
};
struct golden_param {
    char name[NAME];
    size_t count;
    double low, high;           /* range of the initial values */
    double norm;                /* of the update, or of the gradient in pass 0 (0: left out) */
    double update[PROJECTIONS]; /* over norm */
};
struct golden {
    char *text; /* which cfg and set point into */
    const char *cfg, *set[MAX_SETS];
    int nset, labels, update, npass, ngradient, nparam;
    struct golden_pass pass[MAX_PASSES];
    struct golden_param param[MAX_PARAMS];
};

struct replay {
    struct golden golden;
    struct net *net;
    struct program *program;
    struct probe probe[MAX_LAYERS];
    int logits;       /* the layer whose output is compared */
    real *out, *host; /* that output, all rows; a parameter */
    float *x;
    int *label;
    int dump, bf16;
    double worst_out, worst_loss, worst_update;
    const char *worst; /* parameter */
};

/* ---- the file ---- */

/* Up to `room` numbers to the end of the text; how many, or -1. */
static int numbers(char *text, double *to, int room)
{
    int n = 0;
    for (char *end; *text; text = end) {
        while (*text == ' ') text++;
        if (n == room) return -1;
        to[n++] = strtod(text, &end);
        if (end == text) return -1;
    }
    return n;
}

static int parse_pass(struct golden *g, char *value)
{
    struct golden_pass *p = &g->pass[g->npass];
    int room = (int)(strlen(value) / 2 + 1);
    if (g->npass == MAX_PASSES) return E_FORMAT;
    g->npass++;
    if (!(p->out = mem_alloc((size_t)room, sizeof *p->out))) return E_MEM;
    int n = numbers(value, p->out, room);
    if (n < 4) return E_FORMAT;
    memcpy(p->loss, p->out, sizeof p->loss);
    p->nout = (size_t)n - 3;
    memmove(p->out, p->out + 3, p->nout * sizeof *p->out);
    return OK;
}

static int parse_param(struct golden *g, char *value)
{
    double v[4 + PROJECTIONS];
    char *name = value, *rest = value + strcspn(value, " ");
    if (g->nparam == MAX_PARAMS || !*rest || rest - name >= NAME) return E_FORMAT;
    struct golden_param *p = &g->param[g->nparam++];
    *rest++ = 0;
    if (numbers(rest, v, 4 + PROJECTIONS) != (g->update ? 4 + PROJECTIONS : 4) || v[0] < 1) return E_FORMAT;
    *p = (struct golden_param){ .count = (size_t)v[0], .low = v[1], .high = v[2], .norm = v[3] };
    snprintf(p->name, sizeof p->name, "%s", name);
    if (g->update) memcpy(p->update, v + 4, sizeof p->update);
    return OK;
}

static int parse_gradient(struct golden *g, char *value)
{
    double v[2 + PROJECTIONS];
    if (g->ngradient == g->npass || numbers(value, v, 2 + PROJECTIONS) != 2 + PROJECTIONS) return E_FORMAT;
    struct golden_pass *p = &g->pass[g->ngradient++];
    memcpy(p->theirs, v, sizeof p->theirs);
    memcpy(p->gradient, v + 2, sizeof p->gradient);
    return OK;
}

static int parse_line(struct golden *g, const char *key, char *value)
{
    if (!strcmp(key, "pass")) return parse_pass(g, value);
    if (!strcmp(key, "param")) return parse_param(g, value);
    if (!strcmp(key, "gradient")) return parse_gradient(g, value);
    if (!strcmp(key, "labels")) return (g->labels = atoi(value)) > 0 ? OK : E_FORMAT;
    if (!strcmp(key, "cfg"))
        g->cfg = value;
    else if (!strcmp(key, "update"))
        g->update = atoi(value);
    else if (strcmp(key, "set") || g->nset == MAX_SETS)
        return E_FORMAT;
    else
        g->set[g->nset++] = value;
    return OK;
}

static int golden_read(struct golden *g, const char *path, struct err *e)
{
    struct lines lines;
    size_t n;
    TRY(text_load(path, (size_t)1 << 24, &g->text, &n, e));
    lines_open(&lines, g->text);
    for (char *line; (line = lines_next(&lines));) {
        char *value = line + strcspn(line, " ");
        if (!*line || *line == '#') continue;
        if (*value) *value++ = 0;
        int rc = parse_line(g, line, value);
        if (rc == E_MEM) return fail(e, E_MEM, "%s: not enough memory", path);
        if (rc) return fail_at(e, rc, path, lines.number, "'%s' is not a line as golden.py writes it", line);
    }
    int whole = g->cfg && g->labels && g->npass && g->nparam && g->ngradient == (g->update ? 0 : g->npass);
    return whole ? OK : fail(e, E_FORMAT, "%s: is not complete", path);
}

/* ---- the net ---- */

/* n numbers in [low, high), float also in a build in double: all sides start from the same. */
static void uniform(float *x, size_t n, uint64_t stream, uint64_t sub, double low, double high)
{
    uint64_t key = rng_key(SEED, stream, sub);
    for (size_t i = 0; i < n; i++) x[i] = (float)(low + (high - low) * rng_uniform(key, i));
}

static int set_parameters(struct replay *r, struct err *e)
{
    const struct golden *g = &r->golden;
    if (g->nparam != r->net->nparam)
        return fail(e, E_FORMAT, "%s has %d parameters, expected %d", g->cfg, r->net->nparam, g->nparam);
    size_t most = 0;
    for (int i = 0; i < g->nparam; i++) most = g->param[i].count > most ? g->param[i].count : most;
    float *start = mem_alloc(most, sizeof *start);
    r->host = mem_alloc(most, sizeof *r->host);
    int rc = start && r->host ? OK : fail(e, E_MEM, "not enough memory");
    for (int i = 0; i < g->nparam && !rc; i++) {
        const struct golden_param *p = &g->param[i];
        if (r->net->param[i]->count != p->count)
            rc = fail(e, E_FORMAT, "%s: %s has %zu numbers, expected %zu", g->cfg, p->name,
                      r->net->param[i]->count, p->count);
        if (rc) break;
        uniform(start, p->count, FORMULA_PARAMETER, (uint64_t)i, p->low, p->high);
        for (size_t k = 0; k < p->count; k++) r->host[k] = start[k];
        rc = param_set(r->net->param[i], r->host);
    }
    mem_free(start);
    return rc;
}

static int open_net(struct replay *r, struct backend *be, struct err *e)
{
    const struct golden *g = &r->golden;
    struct notes quiet = { NULL, NULL };
    struct cfg *cfg;
    int rc = cfg_read(&cfg, g->cfg, e);
    if (rc) return rc;
    for (int i = 0; i < g->nset && !rc; i++) rc = cfg_override(cfg, g->set[i], e);
    if (r->bf16 && !rc) rc = cfg_override(cfg, "net.precision=bf16", e);
    if (rc) {
        cfg_free(cfg);
        return rc;
    }
    TRY(net_open(&r->net, cfg, be, 1, &quiet, e));
    struct program_desc desc = { .rows = r->net->mini, .paired = r->net->pair_loader, .train = 1 };
    if (r->net->n > MAX_LAYERS) return fail(e, E_ARG, "%s has more than %d layers", g->cfg, MAX_LAYERS);
    TRY(program_open(&r->program, r->net, &desc, e));
    r->logits = r->net->n - 1;
    while (r->logits > 0 && program_layer(r->program, r->logits)->ops->flags & LAYER_LOSS) r->logits--;
    return set_parameters(r, e);
}

static int seen(void *ctx, const struct layer *l, enum probe_when when, const struct tensor *t, int rows)
{
    struct replay *r = ctx;
    if (l->index != r->logits || when != PROBE_OUTPUT) return OK;
    return r->net->be->ops->read(r->net->be, t, 0, rows, r->out);
}

/* ---- errors ---- */

static void worst(double *of, double error)
{
    if (!(error <= *of) && !isnan(*of)) *of = error; /* NaN stays */
}

/* Adds to p[k] the sum of all numbers times `factor`, each with a random sign. For the difference d of two
 * arrays the expectation of a squared projection is |d|^2. */
static void project(const real *x, size_t n, int sub, double factor, double p[PROJECTIONS])
{
    static const double sign[2] = { -1, 1 };
    uint64_t key = rng_key(SEED, FORMULA_SIGN, (uint64_t)sub);
    double sum[PROJECTIONS] = { 0 };
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = rng_bits(key, i);
        for (int k = 0; k < PROJECTIONS; k++) sum[k] += sign[bits >> k & 1] * (double)x[i];
    }
    for (int k = 0; k < PROJECTIONS; k++) p[k] += factor * sum[k];
}

/* Mean of the squared differences. */
static double apart(const double *a, const double *b)
{
    double sum = 0;
    for (int k = 0; k < PROJECTIONS; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sum / PROJECTIONS;
}

static int put(const char *what, int pass, const char *name, const real *x, size_t n)
{
    printf("%zu %s", n, what);
    if (pass >= 0) printf(" %d", pass);
    printf(*name ? " %s\n" : "%s\n", name);
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        if (fwrite(&v, sizeof v, 1, stdout) != 1) return E_FILE;
    }
    return OK;
}

/* What the updates made of each parameter, less what it was. */
static int compare_updates(struct replay *r)
{
    for (int i = 0; i < r->golden.nparam; i++) {
        const struct golden_param *p = &r->golden.param[i];
        uint64_t key = rng_key(SEED, FORMULA_PARAMETER, (uint64_t)i);
        double projection[PROJECTIONS] = { 0 };
        TRY(param_get(r->net->param[i], r->host));
        for (size_t k = 0; k < p->count; k++)
            r->host[k] -= (float)(p->low + (p->high - p->low) * rng_uniform(key, k));
        if (r->dump) TRY(put("update", -1, p->name, r->host, p->count));
        project(r->host, p->count, i, 1 / p->norm, projection);
        double error = sqrt(apart(projection, p->update));
        if (!(error <= r->worst_update)) r->worst = p->name;
        worst(&r->worst_update, error);
    }
    return OK;
}

/* Of all gradients together, each parameter's over its norm in the file: the mean over the parameters. */
static int compare_gradients(struct replay *r, int pass)
{
    double projection[PROJECTIONS] = { 0 };
    int used = 0;
    for (int i = 0; i < r->golden.nparam; i++) used += r->golden.param[i].norm > 0;
    for (int i = 0; i < r->golden.nparam; i++) {
        const struct golden_param *p = &r->golden.param[i];
        if (!(p->norm > 0)) continue;
        TRY(param_unpack(r->net->param[i], param_g(r->net->param[i]), r->host));
        if (r->dump) TRY(put("gradient", pass, p->name, r->host, p->count));
        project(r->host, p->count, i, 1 / (p->norm * sqrt(used)), projection);
    }
    struct golden_pass *p = &r->golden.pass[pass];
    p->ours = sqrt(apart(projection, p->gradient));
    return OK;
}

static int compare_pass(struct replay *r, int pass, const struct step_stats *stats)
{
    const struct golden_pass *p = &r->golden.pass[pass];
    const double loss[3] = { stats->ce, stats->match, stats->center };
    double error = 0, norm = 0;
    for (size_t i = 0; i < p->nout; i++) {
        double z = (double)r->out[i] - p->out[i];
        error += z * z;
        norm += p->out[i] * p->out[i];
    }
    worst(&r->worst_out, sqrt(error / norm));
    for (int i = 0; i < 3; i++)
        if (!isnan(p->loss[i])) worst(&r->worst_loss, fabs(loss[i] - p->loss[i]) / p->loss[i]);
    return r->dump ? put("out", pass, "", r->out, p->nout) : OK;
}

/* ---- a run ---- */

static int one_pass(struct replay *r, int pass, int rows, struct err *e)
{
    struct net *net = r->net;
    int part = pass % net->config.subdivisions;
    struct step step = { .x = r->x,
                         .label = r->label,
                         .rows = rows,
                         .rows_s1 = net->mini,
                         .add = part > 0,
                         .number = (uint64_t)pass,
                         .iteration = (uint64_t)(pass / net->config.subdivisions) + 1 };
    struct step_stats stats = { 0 };
    uint64_t key = rng_key(SEED, FORMULA_LABEL, (uint64_t)pass);
    size_t image = shape_row(program_input(r->program)->x.shape);
    uniform(r->x, (size_t)rows * image, FORMULA_INPUT, (uint64_t)pass, -1.7, 1.7);
    for (int i = 0; i < rows; i++)
        r->label[i] = (int)(rng_bits(key, (uint64_t)i) % (uint64_t)r->golden.labels);
    TRY(step_train(r->program, &step, &stats, e));
    TRY(compare_pass(r, pass, &stats));
    if (!r->golden.update) return compare_gradients(r, pass);
    if (part + 1 < net->config.subdivisions) return OK;
    return optim_update(net, step.iteration, net_rate(&net->config, net->seed, step.iteration), e);
}

static int run(struct replay *r, struct err *e)
{
    struct shape in = program_input(r->program)->x.shape;
    size_t outputs = shape_row(program_layer(r->program, r->logits)->out->x.shape);
    r->x = mem_alloc(shape_count(in), sizeof *r->x);
    r->label = mem_alloc((size_t)in.n, sizeof *r->label);
    r->out = mem_alloc((size_t)in.n * outputs, sizeof *r->out);
    if (!r->x || !r->label || !r->out) return fail(e, E_MEM, "not enough memory for %d images", in.n);
    for (int i = 0; i < r->golden.npass; i++)
        if (r->golden.pass[i].nout != (size_t)r->net->mini * outputs)
            return fail(e, E_FORMAT, "pass %d has %zu outputs, expected %zu", i, r->golden.pass[i].nout,
                        (size_t)r->net->mini * outputs);
    probe_insert(r->program, r->net->n, r->probe, seen, r);
    int rc = OK;
    for (int i = 0; i < r->golden.npass && !rc; i++) rc = one_pass(r, i, in.n, e);
    probe_remove(r->program, r->net->n, r->probe);
    return rc || !r->golden.update ? rc : compare_updates(r);
}

static void replay_free(struct replay *r)
{
    if (r->program) program_close(r->program);
    if (r->net) net_close(r->net);
    for (int i = 0; i < r->golden.npass; i++) mem_free(r->golden.pass[i].out);
    mem_free(r->golden.text);
    mem_free(r->x);
    mem_free(r->label);
    mem_free(r->out);
    mem_free(r->host);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Over the passes, an odd number: see README.md. NaN if any is. */
static double median(const struct replay *r, int theirs)
{
    const struct golden *g = &r->golden;
    double v[MAX_PASSES];
    for (int i = 0; i < g->npass; i++) {
        v[i] = theirs ? g->pass[i].theirs[r->bf16] : g->pass[i].ours;
        if (isnan(v[i])) return NAN;
    }
    qsort(v, (size_t)g->npass, sizeof *v, by_size);
    return v[g->npass / 2];
}

/* Prints what was found; nonzero if it is within the bounds. */
static int judge(const struct replay *r, const char *path)
{
    const struct golden *g = &r->golden;
    double bound = g->update ? REF_ERROR : r->bf16 ? BF16_OUTPUT_ERROR : CPU_OUTPUT_ERROR;
    double ours = g->update ? 0 : median(r, 0), theirs = g->update ? 1 : median(r, 1);
    int good = r->worst_out <= bound && r->worst_loss <= bound && SHORT * r->worst_update <= bound &&
               ours <= CPU_GRADIENT_RATIO * theirs;
    printf("%-4s  %-40s%s outputs %.1e, losses %.1e, ", good ? "ok" : "FAIL", path, r->bf16 ? " bf16:" : "",
           r->worst_out, r->worst_loss);
    if (g->update)
        printf("%d parameters, worst update %.1e (%s)\n", g->nparam, r->worst_update, r->worst);
    else
        printf("gradient error %.1e, PyTorch's %.1e\n", ours, theirs);
    return good;
}

/* 0: within the bounds; 1: not; 2: could not run */
static int replay(struct backend *be, const char *path, int dump, int bf16)
{
    struct err e = { 0 };
    struct replay *r = mem_alloc(1, sizeof *r);
    if (!r) return 2;
    r->dump = dump;
    r->bf16 = bf16;
    int rc = golden_read(&r->golden, path, &e);
    int judged = !bf16 || (!rc && !isnan(median(r, 1)));
    if (!rc && judged) rc = open_net(r, be, &e);
    if (!rc && judged) rc = run(r, &e);
    if (rc) fprintf(stderr, "replay: %s: %s\n", path, *e.msg ? e.msg : err_text(rc));
    rc = rc ? 2 : dump || !judged ? 0 : !judge(r, path);
    replay_free(r);
    mem_free(r);
    return rc;
}

/* "ref" or "cpu": the device, and the folder of its files. */
static const char *device(void) { return sizeof(real) == sizeof(double) ? "ref" : "cpu"; }

static int check_all(struct backend *be, char **path, size_t n)
{
    size_t failed = 0;
    int bf16 = be->precisions >> PRECISION_BF16 & 1;
    for (size_t i = 0; i < n; i++) failed += replay(be, path[i], 0, 0) || (bf16 && replay(be, path[i], 0, 1));
    printf("%zu passed, %zu failed, 0 skipped\n", n - failed, failed);
    return failed > 0;
}

static int check_folder(struct backend *be)
{
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "tests/torch/%s/*.txt", device());
    if (glob(pattern, 0, NULL, &found)) {
        fprintf(stderr, "replay: no %s: expected to be run in the root of the tree\n", pattern);
        return 2;
    }
    int rc = check_all(be, found.gl_pathv, found.gl_pathc);
    globfree(&found);
    return rc;
}

int main(int argc, char **argv)
{
    struct err e = { 0 };
    struct backend *be = NULL;
    if (backend_open(&be, device(), 1, &e)) {
        fprintf(stderr, "replay: %s\n", e.msg);
        return 2;
    }
    int rc = argc == 1                               ? check_folder(be)
             : argc == 4 && !strcmp(argv[1], "dump") ? replay(be, argv[3], 1, !strcmp(argv[2], "bf16"))
                                                     : check_all(be, argv + 1, (size_t)argc - 1);
    backend_close(be);
    return rc;
}
