/* A cfg as a user has it, on both sides: what the softmax gets, from the same weights and the same image.
 *
 *   cfgs write CFG DIR
 *       Random parameters, through our weights_save, to DIR/weights; an image to DIR/in.
 *   cfgs compare DEVICE CFG DIR
 *       Our output against DIR/out, which `oracle predict` wrote. Prints the relative L2 error and whether
 *       the five best classes are the same, in order. Exit status 0 when the error is at most 1e-3 and they
 *       are, else 1; 2: could not run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "core/mem.h"
#include "core/rng.h"
#include "net/net.h"
#include "probe.h"
#include "tape.h"

/* Batch norm's two epsilons (1e-5 inside the root, 1e-6 outside) differ by up to 1e-5 a layer; the deepest
 * has 201. */
#define TOLERANCE 1e-3

enum { MAX_LAYERS = 1024, SEED = 1, TOP = 5 };
enum kind { BIASES, SCALES, MEANS, VARIANCES, WEIGHTS };

struct session {
    struct backend *be;
    struct net *net;
    struct program *program;
    struct probe probe[MAX_LAYERS];
    int last;  /* the layer whose output the softmax gets */
    real *out; /* of it */
    size_t n;
};

static int open_all(struct session *s, const char *device, const char *path, struct err *e)
{
    struct cfg *cfg;
    struct notes quiet = { NULL, NULL };
    TRY(backend_open(&s->be, device, 0, e));
    TRY(cfg_read(&cfg, path, e));
    TRY(net_open(&s->net, cfg, s->be, SEED, &quiet, e));
    if (s->net->n > MAX_LAYERS) return fail(e, E_ARG, "%s: more than %d layers", path, MAX_LAYERS);
    struct program_desc desc = { .rows = 1 };
    TRY(program_open(&s->program, s->net, &desc, e));
    s->last = s->net->n - 1;
    while (s->last > 0 && (!strcmp(program_layer(s->program, s->last)->ops->name, "softmax") ||
                           !strcmp(program_layer(s->program, s->last)->ops->name, "cost")))
        s->last--;
    s->n = shape_row(program_layer(s->program, s->last)->out->x.shape);
    s->out = mem_alloc(s->n, sizeof *s->out);
    return s->out ? OK : fail(e, E_MEM, "not enough memory for %zu outputs", s->n);
}

static void close_all(struct session *s)
{
    mem_free(s->out);
    if (s->program) program_close(s->program);
    if (s->net) net_close(s->net);
    backend_close(s->be);
}

/* Uniform in [low, high), rounded to what the file holds. */
static int set_param(struct param *p, uint64_t at, double low, double high)
{
    size_t n = p->count;
    real *w = mem_alloc(n, sizeof *w);
    if (!w) return E_MEM;
    uint64_t key = rng_key(SEED, 1000, at);
    for (size_t i = 0; i < n; i++) w[i] = (real)(float)(low + (high - low) * rng_uniform(key, i));
    int rc = param_set(p, w);
    mem_free(w);
    return rc;
}

static int has_section(const struct cfg *cfg, const char *name)
{
    for (int i = 0; i < cfg->n; i++)
        if (!strcmp(cfg->section[i].name, name)) return 1;
    return 0;
}

/* Sizes that keep activations near 1 through any number of layers: He's for the weights; where shortcuts add
 * up, half the scale. */
static int set_kind(const struct session *s, int at, enum kind kind, size_t fan)
{
    struct param *p = s->net->param[at];
    double a = sqrt(6.0 / (double)fan), scale = has_section(s->net->cfg, "shortcut") ? .5 : 1;
    switch (kind) {
    case BIASES: return set_param(p, (uint64_t)at, -.1, .1);
    case SCALES: return set_param(p, (uint64_t)at, .75 * scale, 1.25 * scale);
    case MEANS: return set_param(p, (uint64_t)at, -.1, .1);
    case VARIANCES: return set_param(p, (uint64_t)at, .5, 2);
    case WEIGHTS: return set_param(p, (uint64_t)at, -a, a);
    }
    return E_ARG;
}

/* What Darknet's format says is in the file for this layer, in order; 0: nothing. */
static int kinds_of(struct cfg_section *section, enum kind kind[5])
{
    static const enum kind conv[5] = { BIASES, SCALES, MEANS, VARIANCES, WEIGHTS };
    static const enum kind dense[5] = { BIASES, WEIGHTS, SCALES, MEANS, VARIANCES };
    const char *norm = cfg_find(section, "batch_normalize", NULL);
    int normed = norm && atoi(norm);
    if (!strcmp(section->name, "convolutional") || !strcmp(section->name, "conv")) {
        memcpy(kind, conv, sizeof conv);
        if (!normed) kind[1] = WEIGHTS;
        return normed ? 5 : 2;
    }
    if (strcmp(section->name, "connected") && strcmp(section->name, "conn")) return 0;
    memcpy(kind, dense, sizeof dense);
    return normed ? 5 : 2;
}

static int set_all(struct session *s, struct err *e)
{
    int at = 0;
    for (int i = 0; i < s->net->n; i++) {
        enum kind kind[5];
        int n = kinds_of(&s->net->cfg->section[i + 1], kind);
        if (at + n > s->net->nparam)
            return fail(e, E_CFG, "layer %d: fewer parameters than the format has", i);
        size_t outputs = n ? s->net->param[at]->count : 1;
        for (int k = 0; k < n; k++) {
            size_t fan = kind[k] == WEIGHTS ? s->net->param[at + k]->count / outputs : 1;
            if (set_kind(s, at + k, kind[k], fan))
                return fail(e, E_MEM, "layer %d: parameters cannot be set", i);
        }
        at += n;
    }
    return at == s->net->nparam ? OK : fail(e, E_CFG, "%d parameters, the format has %d", s->net->nparam, at);
}

static int write_image(const struct net *net, const char *path, struct err *e)
{
    size_t n = (size_t)net->config.width * (size_t)net->config.height * (size_t)net->config.channels;
    float *x = mem_alloc(n, sizeof *x);
    FILE *f = fopen(path, "wb");
    int rc = x && f ? OK : E_FILE;
    uint64_t key = rng_key(SEED, 1001, 0);
    for (size_t i = 0; !rc && i < n; i++) x[i] = (float)rng_uniform(key, i);
    if (!rc) rc = tape_put(f, "in", x, n) ? E_FILE : OK;
    if (f && fclose(f)) rc = E_FILE;
    mem_free(x);
    return rc ? fail(e, rc, "%s: cannot be written", path) : OK;
}

static int write_all(struct session *s, const char *folder, struct err *e)
{
    char path[1024];
    TRY(set_all(s, e));
    snprintf(path, sizeof path, "%s/weights", folder);
    TRY(weights_save(s->net, path, s->net->n, 0, e));
    snprintf(path, sizeof path, "%s/in", folder);
    return write_image(s->net, path, e);
}

static int seen(void *ctx, const struct layer *l, enum probe_when when, const struct tensor *t, int rows)
{
    struct session *s = ctx;
    if (l->index != s->last || when != PROBE_OUTPUT) return OK;
    return s->be->ops->read(s->be, t, 0, rows, s->out);
}

static int one_record(struct record *r, const char *folder, const char *name, size_t n, struct err *e)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) return fail(e, E_FILE, "%s: cannot be opened", path);
    int got = tape_get(f, r);
    fclose(f);
    if (got != 1) return fail(e, E_FORMAT, "%s: is damaged", path);
    if (r->n == n) return OK;
    free(r->data);
    return fail(e, E_FORMAT, "%s: %zu numbers, expected %zu", path, r->n, n);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int predict(struct session *s, const char *folder, double *seconds, struct err *e)
{
    char path[1024];
    int layers;
    struct record x;
    snprintf(path, sizeof path, "%s/weights", folder);
    TRY(weights_load(s->net, path, WEIGHTS_WHOLE, &layers, e));
    TRY(program_refresh(s->program, e));
    size_t n = (size_t)s->net->config.width * (size_t)s->net->config.height * (size_t)s->net->config.channels;
    TRY(one_record(&x, folder, "in", n, e));
    struct step step = { .x = x.data, .rows = 1, .rows_s1 = 1 };
    probe_insert(s->program, s->net->n, s->probe, seen, s);
    double start = now();
    int rc = program_infer(s->program, &step, NULL, NULL, e);
    *seconds = now() - start;
    probe_remove(s->program, s->net->n, s->probe);
    free(x.data);
    return rc;
}

/* The place of the largest of n numbers that is not in before[0..skip). */
static size_t best(const float *x, size_t n, const size_t *before, int skip)
{
    size_t at = n;
    for (size_t i = 0; i < n; i++) {
        int taken = 0;
        for (int k = 0; k < skip; k++) taken |= before[k] == i;
        if (!taken && (at == n || x[i] > x[at])) at = i;
    }
    return at;
}

static int compare(struct session *s, const char *folder, struct err *e)
{
    double seconds, error = 0, norm = 0;
    struct record theirs;
    TRY(predict(s, folder, &seconds, e));
    TRY(one_record(&theirs, folder, "out", s->n, e));
    float *ours = mem_alloc(s->n, sizeof *ours);
    if (!ours) {
        free(theirs.data);
        return fail(e, E_MEM, "not enough memory for %zu outputs", s->n);
    }
    for (size_t i = 0; i < s->n; i++) {
        ours[i] = (float)s->out[i];
        error += ((double)ours[i] - (double)theirs.data[i]) * ((double)ours[i] - (double)theirs.data[i]);
        norm += (double)theirs.data[i] * (double)theirs.data[i];
    }
    size_t top[2][TOP];
    int same = 1, shown = s->n < TOP ? (int)s->n : TOP;
    for (int k = 0; k < shown; k++) {
        top[0][k] = best(ours, s->n, top[0], k);
        top[1][k] = best(theirs.data, s->n, top[1], k);
        same &= top[0][k] == top[1][k];
    }
    double relative = sqrt(error / norm);
    printf("error %.1e  rms %8.3g  top-%d %-9s  %6.2f s", relative, sqrt(norm / (double)s->n), shown,
           same ? "same" : "DIFFERENT", seconds);
    mem_free(ours);
    free(theirs.data);
    return relative <= TOLERANCE && same ? 0 : 1;
}

int main(int argc, char **argv)
{
    int write = argc == 4 && !strcmp(argv[1], "write");
    if (!write && !(argc == 5 && !strcmp(argv[1], "compare"))) {
        fprintf(stderr, "usage: cfgs write CFG DIR | compare DEVICE CFG DIR\n");
        return 2;
    }
    static struct session s; /* large, and zero at first */
    struct err e = { 0 };
    int rc = open_all(&s, write ? "ref" : argv[2], write ? argv[2] : argv[3], &e);
    if (!rc) rc = write ? write_all(&s, argv[3], &e) : compare(&s, argv[4], &e);
    close_all(&s);
    if (rc < 0) fprintf(stderr, "cfgs: %s\n", e.msg);
    return rc < 0 ? 2 : rc;
}
