#include "evaluate.h"
#include <math.h>
#include <string.h>
#include "core/clock.h"
#include "core/mem.h"
#include "data/loader.h"
#include "group/group.h"
#include "train/compactness.h"
#include "train/setup.h"

struct evaluation {
    struct net *net;
    struct program *program;
    const struct dataset *data;
    const struct eval_options *o;
    int classes;
    int rows;           /* of a mini-batch: the program's */
    size_t row;         /* numbers of an image */
    struct share share; /* of the samples, which are these: */
    int *own;
    struct loader *loader; /* NULL: there are none */
    float *prob;           /* rows x classes */
    float *x;              /* rows x row: only for batches with unreadable images, else NULL */
    int *label;            /* rows: of the readable images */
    size_t size;           /* numbers of a feature vector */
    real *features;        /* rows x size, or NULL */
    struct sample sample;
    int images, unreadable;
    int ending; /* per_image wants no more */
    uint64_t right1, rightk;
    double ce; /* sum over the readable images */
};

static int samples(const struct evaluation *v) { return v->o->only ? v->o->only_n : v->data->n; }

/* The samples of this process; of all, which `sample` chooses from, those of other ranks come before them. */
static int take_share(struct evaluation *v, struct err *e)
{
    const int *only = v->o->only;
    v->share = group_share(v->o->group, samples(v));
    v->own = mem_alloc((size_t)v->share.rows, sizeof *v->own);
    if (!v->own) return fail(e, E_MEM, "no memory for the numbers of %d images", v->share.rows);
    for (int i = 0; i < v->share.rows; i++) v->own[i] = only ? only[v->share.first + i] : v->share.first + i;
    for (int i = 0; v->sample.x && i < v->share.first; i++) sample_wants(&v->sample);
    return OK;
}

static int take_memory(struct evaluation *v, struct err *e)
{
    size_t rows = (size_t)v->rows, n;
    v->prob = mem_alloc(rows * (size_t)v->classes, sizeof *v->prob);
    v->label = mem_alloc(rows, sizeof *v->label);
    if (!v->prob || !v->label) return fail(e, E_MEM, "no memory for the probabilities of %zu images", rows);
    v->size = (size_t)program_feature_size(v->program);
    if (!v->size) return OK;
    v->features = mem_mul(rows, v->size, &n) ? NULL : mem_alloc(n, sizeof *v->features);
    if (!v->features) return fail(e, E_MEM, "no memory for %zu x %zu features", rows, v->size);
    return v->o->per_feature ? OK : sample_open(&v->sample, samples(v), v->size, v->o->seed, e);
}

static int evaluation_open(struct evaluation *v, struct err *e)
{
    const struct net_config *c = &v->net->config;
    v->rows = program_rows(v->program);
    struct loader_options l = { .rows = v->rows,
                                .workers = v->o->workers,
                                .seed = v->o->seed,
                                .view = v->o->view,
                                .subdivisions = 1,
                                .every = 1 };
    v->classes = v->net->classes;
    v->row = (size_t)c->channels * (size_t)c->height * (size_t)c->width;
    TRY(augment_from_net(v->net, &l.augment, e));
    if (l.view == VIEW_CENTER && c->letter_box) l.view = VIEW_LETTERBOX;
    TRY(take_memory(v, e));
    TRY(take_share(v, e));
    if (!v->share.rows) return OK;
    l.only = v->own;
    l.only_n = v->share.rows;
    return loader_open(&v->loader, v->data, &l, v->o->notes ? v->o->notes : &v->net->notes, e);
}

static void evaluation_close(struct evaluation *v)
{
    loader_close(v->loader);
    sample_close(&v->sample);
    mem_free(v->own);
    mem_free(v->features);
    mem_free(v->label);
    mem_free(v->x);
    mem_free(v->prob);
}

/* Moves the readable images of a batch together; the network never sees the others. *x is the batch itself
 * when all are readable. */
static int readable_rows(struct evaluation *v, const struct batch *b, const float **x, int *n, struct err *e)
{
    *n = 0;
    for (int i = 0; i < b->rows; i++)
        if (b->sample[i] >= 0) v->label[(*n)++] = b->label[i];
    *x = b->x;
    if (*n == b->rows) return OK;
    if (!v->x) v->x = mem_alloc((size_t)v->rows * v->row, sizeof *v->x);
    if (!v->x) return fail(e, E_MEM, "no memory for %d images", v->rows);
    float *to = v->x;
    for (int i = 0; i < b->rows; i++) {
        if (b->sample[i] < 0) continue;
        memcpy(to, b->x + (size_t)i * v->row, v->row * sizeof *to);
        to += v->row;
    }
    *x = v->x;
    return OK;
}

static int ranks_above(float a, float b) { return a > b || (isnan(b) && !isnan(a)); }

void eval_top(const float *p, int classes, int k, int *index)
{
    for (int n = 0, c = 0; c < classes; c++) {
        int at = n < k ? n++ : k; /* one of k + 1 drops out */
        for (; at > 0 && ranks_above(p[c], p[index[at - 1]]); at--)
            if (at < k) index[at] = index[at - 1];
        if (at < k) index[at] = c;
    }
}

int eval_rank(const float *p, int classes, int label)
{
    if (!isfinite(p[label])) return classes;
    int rank = 0;
    for (int k = 0; k < classes; k++) rank += p[k] > p[label] || (p[k] == p[label] && k < label);
    return rank;
}

static int count_image(struct evaluation *v, int sample, int label, const float *p, struct err *e)
{
    int rank = p ? eval_rank(p, v->classes, label) : v->classes;
    v->images++;
    v->unreadable += !p;
    v->right1 += rank == 0;
    v->rightk += rank < v->o->top;
    if (!v->o->per_image) return OK;
    int rc = v->o->per_image(v->o->ctx, sample, label, p, v->classes, e);
    v->ending |= rc > 0;
    return rc < 0 ? rc : OK;
}

static int take_features(struct evaluation *v, const struct batch *b, int n, struct err *e)
{
    if (!v->features) return OK;
    if (n) TRY(program_features(v->program, n, v->features, e));
    const real *row = v->features;
    for (int i = 0; i < b->rows; i++) {
        int wanted = !v->o->per_feature && sample_wants(&v->sample);
        if (b->sample[i] < 0) continue;
        if (wanted) sample_add(&v->sample, b->label[i], row);
        if (v->o->per_feature) TRY(v->o->per_feature(v->o->ctx, b->label[i], row, e));
        row += v->size;
    }
    return OK;
}

int eval_check(const float *p, int classes, const char *blamed, struct err *e)
{
    for (int k = 0; k < classes; k++)
        if (!isfinite(p[k]))
            return fail_at(
                e, E_NUMBER, blamed, 0,
                "a probability is not a number: the weights have grown too large (in training: lower "
                "learning_rate or raise burn_in), or belong to another cfg");
    return OK;
}

/* Only readable images have a row of probabilities. */
static int count_batch(struct evaluation *v, const struct batch *b, struct err *e)
{
    const float *p = v->prob;
    for (int i = 0; i < b->rows; i++) {
        int bad = b->sample[i] < 0, sample = bad ? -1 - b->sample[i] : b->sample[i];
        if (!bad) TRY(eval_check(p, v->classes, v->net->cfg->path, e));
        TRY(count_image(v, sample, b->label[i], bad ? NULL : p, e));
        p += bad ? 0 : v->classes;
    }
    return OK;
}

static int evaluate_batch(struct evaluation *v, const struct batch *b, struct err *e)
{
    const float *x;
    double ce = 0;
    int n;
    TRY(readable_rows(v, b, &x, &n, e));
    struct step s = { .x = x, .label = v->label, .rows = n, .rows_s1 = n };
    if (n) TRY(program_infer(v->program, &s, v->prob, &ce, e));
    v->ce += ce;
    TRY(count_batch(v, b, e));
    return take_features(v, b, n, e);
}

static int evaluate_all(struct evaluation *v, struct err *e)
{
    while (v->loader && !v->ending) {
        const struct batch *b;
        TRY(loader_next(v->loader, &b, e));
        if (!b) return OK;
        int rc = evaluate_batch(v, b, e);
        loader_release(v->loader, b);
        if (rc) return rc;
        if (v->o->progress) v->o->progress(v->o->ctx, v->images, v->share.rows);
    }
    return OK;
}

/* The counts and sums of all processes. */
static int join(struct evaluation *v, struct err *e)
{
    double all[] = { v->images, v->unreadable, (double)v->right1, (double)v->rightk, v->ce };
    int rc = group_add(v->o->group, all, sizeof all / sizeof *all);
    if (rc) return fail(e, rc, "validation: %s", err_text(rc));
    v->images = (int)all[0];
    v->unreadable = (int)all[1];
    v->right1 = (uint64_t)all[2];
    v->rightk = (uint64_t)all[3];
    v->ce = all[4];
    return v->sample.x ? sample_join(&v->sample, v->o->group, e) : OK;
}

static int measure_compactness(const struct evaluation *v, struct valid_line *l, struct err *e)
{
    double same, all;
    l->compactness = l->same_distance = -1;
    if (!v->features || v->o->per_feature) return OK;
    TRY(sample_distances(&v->sample, v->net->be->threads, &same, &all, e));
    if (same < 0 || !(all > 0) || !isfinite(all)) return OK;
    l->compactness = same / all;
    l->same_distance = same;
    return OK;
}

static int report(const struct evaluation *v, struct valid_line *l, struct err *e)
{
    int read = v->images - v->unreadable;
    if (!read)
        return fail(e, E_FILE, "validation: none of %d images could be read: check valid= of the data file",
                    v->images);
    l->images = v->images;
    l->unreadable = v->unreadable;
    l->top = v->o->top;
    l->top1 = (double)v->right1 / v->images;
    l->topk = (double)v->rightk / v->images;
    l->ce = v->ce / read;
    if (v->unreadable)
        note(&v->net->notes,
             "warning: %d of %d images could not be read: they count as wrong and are left out of the CE",
             v->unreadable, v->images);
    return measure_compactness(v, l, e);
}

static int finish(struct evaluation *v, struct valid_line *l, struct err *e)
{
    TRY(join(v, e));
    return report(v, l, e);
}

int evaluate(struct net *net, struct program *p, const struct dataset *d, const struct eval_options *o,
             struct valid_line *l, struct err *e)
{
    struct evaluation v = { .net = net, .program = p, .data = d, .o = o };
    double start = wall_clock();
    int rc = evaluation_open(&v, e);
    if (!rc) rc = evaluate_all(&v, e);
    rc = group_agree(o->group, rc, e);
    if (!rc) rc = group_agree(o->group, finish(&v, l, e), e);
    l->seconds = wall_clock() - start;
    evaluation_close(&v);
    return rc;
}
