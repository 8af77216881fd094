/* The same steps as the oracle's, through us, compared tensor by tensor.
 *
 *   replay DEVICE CFG DIR infer|train TOLERANCE [LOSS]
 *       DIR as `oracle run` left it. LOSS: their loss over ours, where a case says that it is not 1;
 *       0: not compared.
 *
 * Compared, each as ||ours - theirs|| / ||theirs||: the output of every layer; the loss; the gradient of
 * every output (ours is d(mean loss)/dx, theirs the descent direction of the sum: theirs = -rows * ours);
 * and, through the saved .weights, what the steps changed in every parameter. Prints the largest error of
 * each kind. Exit status: 0 all within the tolerance, 1 not (the first that is not is named on a line
 * "differs at NAME"), 2 could not run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "net/net.h"
#include "probe.h"
#include "tape.h"

enum { MAX_RECORDS = 4096, MAX_LAYERS = 256, HEADER_BYTES = 20 };
enum kind { KIND_OUTPUT, KIND_LOSS, KIND_DELTA, KIND_PARAMETER, KINDS };

struct records {
    struct record at[MAX_RECORDS];
    int n;
};

struct replay {
    struct net *net;
    struct program *program;
    struct probe probe[MAX_LAYERS];
    struct records theirs, ours;
    char path[3][1024]; /* weights before, their weights after, our weights after */
    int step, train;
    double tolerance, loss; /* loss: theirs over ours */
    double ce;              /* of the step just done */
    double worst[KINDS];
    int compared[KINDS];
    char first[TAPE_NAME]; /* that differs; "" for none */
};

static const struct record *find(const struct records *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->at[i].name, name)) return &r->at[i];
    return NULL;
}

static void records_free(struct records *r)
{
    for (int i = 0; i < r->n; i++) free(r->at[i].data);
}

static int records_read(struct records *r, const char *path, struct err *e)
{
    FILE *f = fopen(path, "rb");
    if (!f) return fail(e, E_FILE, "%s: cannot be opened", path);
    int got;
    while (r->n < MAX_RECORDS && (got = tape_get(f, &r->at[r->n])) == 1) r->n++;
    fclose(f);
    return got ? fail(e, E_FORMAT, "%s: is damaged", path) : OK;
}

/* Takes a copy of rows x (row of t) numbers, times `factor`. */
static int record(struct replay *r, const char *what, int layer, const struct tensor *t, int rows,
                  double factor)
{
    struct backend *be = r->net->be;
    if (r->ours.n == MAX_RECORDS) return E_ARG;
    struct record *to = &r->ours.at[r->ours.n];
    size_t n = (size_t)rows * shape_row(t->shape);
    real *host = mem_alloc(n, sizeof *host);
    to->data = malloc((n ? n : 1) * sizeof *to->data);
    int rc = host && to->data ? be->ops->read(be, t, 0, rows, host) : E_MEM;
    if (!rc) {
        for (size_t i = 0; i < n; i++) to->data[i] = (float)(factor * (double)host[i]);
        snprintf(to->name, sizeof to->name, "%s %d %d", what, r->step, layer);
        to->n = n;
        r->ours.n++;
    } else {
        free(to->data);
    }
    mem_free(host);
    return rc;
}

static int seen(void *ctx, const struct layer *l, enum probe_when when, const struct tensor *t, int rows)
{
    struct replay *r = ctx;
    if (when == PROBE_OUTPUT) return record(r, "out", l->index, t, rows, 1);
    return record(r, "delta", l->index, t, rows, -rows);
}

/* Where rounding alone may differ: `floor` is added to what is allowed. */
static void judge(struct replay *r, enum kind kind, const char *name, double error, double norm, double floor)
{
    double relative = error > floor ? (error - floor) / norm : 0;
    if (isnan(error) || isnan(norm)) relative = NAN;
    r->compared[kind]++;
    if (!(relative <= r->worst[kind])) r->worst[kind] = relative;
    if (!(relative <= r->tolerance) && !r->first[0]) snprintf(r->first, sizeof r->first, "%s", name);
}

/* A layer that leaves its input as it is has no tensors of its own, and below the first parameters no
 * gradient is wanted: nothing else may be left out. */
static int may_miss(const struct replay *r, enum kind kind, const char *name)
{
    int i = atoi(strrchr(name, ' ') + 1);
    const struct layer *l = i < r->net->n ? program_layer(r->program, i) : NULL;
    return l && (l->identity || l->inert || (kind == KIND_DELTA && !l->out->need_g));
}

static void compare_record(struct replay *r, enum kind kind, const struct record *theirs)
{
    const struct record *ours = find(&r->ours, theirs->name);
    if (!ours && may_miss(r, kind, theirs->name)) return;
    if (!ours) {
        judge(r, kind, theirs->name, INFINITY, 1, 0);
        return;
    }
    double error = 0, norm = 0;
    for (size_t i = 0; i < theirs->n && ours->n == theirs->n; i++) {
        double z = (double)ours->data[i] - (double)theirs->data[i];
        error += z * z;
        norm += (double)theirs->data[i] * (double)theirs->data[i];
    }
    judge(r, kind, theirs->name, ours->n == theirs->n ? sqrt(error) : INFINITY, sqrt(norm), 0);
}

static int run_step(struct replay *r, struct err *e)
{
    struct net *net = r->net;
    char name[2][TAPE_NAME];
    snprintf(name[0], TAPE_NAME, "x %d 0", r->step);
    snprintf(name[1], TAPE_NAME, "label %d 0", r->step);
    const struct record *x = find(&r->theirs, name[0]), *label = find(&r->theirs, name[1]);
    if (!x || !label || label->n != (size_t)net->mini)
        return fail(e, E_FORMAT, "tape: no %s of this net", name[0]);
    int *labels = mem_alloc(label->n, sizeof *labels);
    if (!labels) return fail(e, E_MEM, "not enough memory for %zu labels", label->n);
    for (size_t i = 0; i < label->n; i++) labels[i] = (int)label->data[i];
    struct step step = step_at(net, (uint64_t)r->step);
    step.x = x->data;
    step.label = labels;
    step.rows = step.rows_s1 = net->mini;
    struct step_stats stats = { 0 };
    int rc =
        r->train ? step_train(r->program, &step, &stats, e) : program_infer(r->program, &step, NULL, NULL, e);
    mem_free(labels);
    r->ce = stats.ce;
    return rc;
}

static void compare_loss(struct replay *r, const struct record *theirs)
{
    double mean = (double)theirs->data[0] / r->net->mini;
    if (r->loss > 0) judge(r, KIND_LOSS, theirs->name, fabs(r->loss * r->ce - mean), fabs(mean), 0);
}

/* In the order of the tape: outputs from the first layer up, the loss, gradients from the last layer down. */
static void compare_step(struct replay *r)
{
    char tail[TAPE_NAME];
    snprintf(tail, sizeof tail, " %d ", r->step);
    for (int i = 0; i < r->theirs.n; i++) {
        const struct record *t = &r->theirs.at[i];
        if (!strstr(t->name, tail)) continue;
        if (!strncmp(t->name, "out ", 4)) compare_record(r, KIND_OUTPUT, t);
        if (!strncmp(t->name, "loss ", 5)) compare_loss(r, t);
        if (!strncmp(t->name, "delta ", 6)) compare_record(r, KIND_DELTA, t);
    }
}

/* The numbers behind a .weights header of three 32-bit and one 64-bit integer. */
static int floats_read(const char *path, char header[HEADER_BYTES], float **data, size_t *n, struct err *e)
{
    struct file_reader in;
    TRY(reader_open(&in, path, (size_t)1 << 31, e));
    int rc = reader_take(&in, header, HEADER_BYTES, e);
    *n = rc ? 0 : (in.n - in.at) / sizeof **data;
    *data = mem_alloc(*n, sizeof **data);
    if (!rc && !*data) rc = fail(e, E_MEM, "%s: not enough memory", path);
    if (!rc) rc = reader_take(&in, *data, *n * sizeof **data, e);
    if (!rc && in.at != in.n) rc = fail(e, E_FORMAT, "%s: ends inside a number", path);
    reader_close(&in);
    return rc;
}

/* What the steps changed in one parameter. A number of size w is stored to w * 2^-24, before and after. */
static void compare_change(struct replay *r, const char *name, size_t n, float *const after[3])
{
    double error = 0, norm = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double theirs = (double)after[1][i] - (double)after[0][i],
               ours = (double)after[2][i] - (double)after[0][i];
        error += (ours - theirs) * (ours - theirs);
        norm += theirs * theirs;
        size += (double)after[0][i] * (double)after[0][i];
    }
    judge(r, KIND_PARAMETER, name, sqrt(error), sqrt(norm), 2 * 0x1p-24 * sqrt(size));
}

static int is_parameter(const char *name)
{
    const char *const kind[] = { "biases ", "scales ", "mean ", "variance ", "weights " };
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        if (!strncmp(name, kind[i], strlen(kind[i]))) return 1;
    return 0;
}

/* The three files, cut into parameters as the tape lists them. */
static int compare_parameters(struct replay *r, struct err *e)
{
    char header[3][HEADER_BYTES];
    float *data[3] = { NULL }, *at[3];
    size_t n[3] = { 0 }, used = 0;
    int rc = OK;
    for (int i = 0; i < 3 && !rc; i++) rc = floats_read(r->path[i], header[i], &data[i], &n[i], e);
    if (!rc && (n[0] != n[2] || n[1] != n[2]))
        rc = fail(e, E_FORMAT, "%s: %zu numbers, expected %zu", r->path[2], n[2], n[1]);
    if (!rc && memcmp(header[1], header[2], HEADER_BYTES))
        rc = fail(e, E_FORMAT, "%s: another header", r->path[2]);
    memcpy(at, data, sizeof at);
    for (int i = 0; i < r->theirs.n && !rc; i++) {
        const struct record *t = &r->theirs.at[i];
        if (!is_parameter(t->name)) continue;
        used += t->n;
        if (used > n[0]) break;
        compare_change(r, t->name, t->n, at);
        for (int k = 0; k < 3; k++) at[k] += t->n;
    }
    if (!rc && used != n[0])
        rc = fail(e, E_FORMAT, "%s: %zu numbers, the oracle has %zu", r->path[2], n[0], used);
    for (int i = 0; i < 3; i++) mem_free(data[i]);
    return rc;
}

static int run(struct replay *r, struct err *e)
{
    struct net *net = r->net;
    int layers, steps = 0;
    if (net->n > MAX_LAYERS) return fail(e, E_ARG, "more than %d layers", MAX_LAYERS);
    struct program_desc desc = { .rows = net->mini, .train = r->train };
    TRY(program_open(&r->program, net, &desc, e));
    TRY(weights_load(net, r->path[0], WEIGHTS_WHOLE, &layers, e));
    if (!r->train) TRY(program_refresh(r->program, e));
    probe_insert(r->program, net->n, r->probe, seen, r);
    for (int i = 0; i < r->theirs.n; i++) steps += !strncmp(r->theirs.at[i].name, "x ", 2);
    int rc = OK;
    for (r->step = 0; r->step < steps && !rc; r->step++) {
        rc = run_step(r, e);
        if (!rc) compare_step(r);
    }
    probe_remove(r->program, net->n, r->probe);
    TRY(rc);
    TRY(weights_save(net, r->path[2], net->n, net->seen, e));
    return compare_parameters(r, e);
}

static int report(const struct replay *r)
{
    static const char *const name[KINDS] = { "outputs", "losses", "gradients", "parameters" };
    for (int i = 0; i < KINDS; i++)
        if (r->compared[i]) printf("%s%d %s %.1e", i ? ", " : "", r->compared[i], name[i], r->worst[i]);
    printf("\n");
    if (r->first[0]) printf("differs at %s\n", r->first);
    return r->first[0] ? 1 : 0;
}

static int open_net(struct replay *r, struct backend *be, const char *path, struct err *e)
{
    struct cfg *cfg;
    struct notes quiet = { NULL, NULL };
    TRY(cfg_read(&cfg, path, e));
    return net_open(&r->net, cfg, be, 1, &quiet, e);
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: replay DEVICE CFG DIR infer|train TOLERANCE [LOSS]\n");
        return 2;
    }
    struct err e = { 0 };
    struct backend *be = NULL;
    static struct replay r; /* large, and zero at first */
    const char *const file[] = { "before.weights", "after.weights", "ours.weights" };
    char tape[1024];
    for (int i = 0; i < 3; i++) snprintf(r.path[i], sizeof r.path[i], "%s/%s", argv[3], file[i]);
    snprintf(tape, sizeof tape, "%s/tape", argv[3]);
    r.train = !strcmp(argv[4], "train");
    r.tolerance = atof(argv[5]);
    r.loss = argc == 7 ? atof(argv[6]) : 1;
    int rc = records_read(&r.theirs, tape, &e);
    if (!rc) rc = backend_open(&be, argv[1], 1, &e);
    if (!rc) rc = open_net(&r, be, argv[2], &e);
    if (!rc) rc = run(&r, &e);
    if (rc) fprintf(stderr, "replay: %s\n", e.msg);
    rc = rc ? 2 : report(&r);
    if (r.program) program_close(r.program);
    if (r.net) net_close(r.net);
    backend_close(be);
    records_free(&r.theirs);
    records_free(&r.ours);
    return rc;
}
