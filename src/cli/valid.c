/* classifier valid: a summary and a table of classes, and on request a line per image. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "cli/score.h"
#include "core/clock.h"
#include "core/mem.h"
#include "group/group.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

struct validation {
    struct session s;
    struct score score;
    int views, view; /* of each image, whose probabilities are averaged; that which the net gets now */
    double start;
    struct kept {
        float *view, *sum; /* the probabilities of a view, in the order of its images, of which this process
                            * has had `at`; their mean over the views so far, by image: images x classes. NaN
                            * in the first place: the image cannot be read */
        size_t at;
        int *readable; /* these images */
    } kept;            /* of several views or processes; else the images count as they come */
};

/* pjreddie's two lines. */
static void print_image(const struct validation *v, int sample, int label, const float *p, int classes)
{
    const struct score *c = &v->score;
    if (v->s.valid->path)
        printf("%s, ", v->s.valid->path[sample]);
    else
        printf("%d, ", sample);
    printf("%d, %f, %f, \n", label, p ? (double)p[0] : 0, p && classes > 1 ? (double)p[1] : 0);
    printf("%d: top 1: %f, top %d: %f\n", c->seen - 1, (double)c->right1 / c->seen, c->top,
           (double)c->rightk / c->seen);
}

static int count_image(void *ctx, int sample, int label, const float *p, int classes, struct err *e)
{
    struct validation *v = ctx;
    TRY(score_add(&v->score, sample, label, p, e));
    if (!v->s.cli->verbose) return OK;
    print_image(v, sample, label, p, classes);
    return output_check(e);
}

static void show_progress(void *ctx, int done, int all)
{
    struct validation *v = ctx;
    if (!v->s.cli->verbose)
        console_images(&v->s.console, (done + (double)all * v->view) / v->views, all, v->start);
}

static int keep_answer(void *ctx, int sample, int label, const float *p, int classes, struct err *e)
{
    struct validation *v = ctx;
    float *row = v->kept.view + v->kept.at++ * (size_t)classes;
    (void)sample, (void)label, (void)e;
    if (p)
        memcpy(row, p, (size_t)classes * sizeof *row);
    else
        row[0] = NAN;
    return OK;
}

/* NULL: it cannot be read. */
static const float *answer_to(const struct validation *v, int sample)
{
    const float *p = v->kept.sum + (size_t)sample * (size_t)v->s.valid->classes;
    return isnan(p[0]) ? NULL : p;
}

/* Adds a view that o was for. An image that cannot be read is named once, not with each view. */
static void add_view(struct validation *v, struct eval_options *o)
{
    const size_t classes = (size_t)v->s.valid->classes;
    const int n = o->only_n;
    o->only_n = 0;
    for (int i = 0; i < n; i++) {
        const int sample = o->only[i];
        const float *from = v->kept.view + (size_t)i * classes;
        float *to = v->kept.sum + (size_t)sample * classes;
        for (size_t k = 0; k < classes; k++) to[k] += from[k] / (float)v->views;
        if (answer_to(v, sample)) v->kept.readable[o->only_n++] = sample;
    }
}

static int evaluate_view(struct validation *v, struct eval_options *o, struct valid_line *l, struct err *e)
{
    const size_t classes = (size_t)v->s.valid->classes;
    v->kept.at = (size_t)group_share(o->group, o->only_n).first;
    TRY(evaluate(v->s.net, v->s.program, v->s.valid, o, l, e));
    int rc = group_gather(o->group, v->kept.view, o->only_n, classes * sizeof *v->kept.view);
    if (rc) return fail(e, rc, "validation: %s", err_text(rc));
    add_view(v, o);
    return OK;
}

static int open_kept(struct kept *k, const struct dataset *d, struct err *e)
{
    const size_t n = (size_t)d->n, row = (size_t)d->classes * sizeof *k->sum;
    k->view = mem_alloc(n, row);
    k->sum = mem_alloc(n, row);
    k->readable = mem_alloc(n, sizeof *k->readable);
    if (!k->view || !k->sum || !k->readable)
        return fail(e, E_MEM, "no memory for the answers to %d images", d->n);
    for (int i = 0; i < d->n; i++) k->readable[i] = i;
    return OK;
}

/* Does with the mean of several views, and with what several processes have found, what evaluate does. */
static int evaluate_views(struct validation *v, struct eval_options *o, struct valid_line *l, struct err *e)
{
    const struct dataset *d = v->s.valid;
    double seconds = 0, ce = 0;
    TRY(group_agree(o->group, open_kept(&v->kept, d, e), e));
    o->per_image = keep_answer;
    o->only = v->kept.readable;
    o->only_n = d->n;
    for (; v->view < v->views; v->view++, o->view++) {
        TRY(evaluate_view(v, o, l, e));
        seconds += l->seconds;
    }
    if (!group_leads(o->group)) return OK;
    for (int i = 0; i < d->n; i++) {
        const float *p = answer_to(v, i);
        if (p) ce -= log(fmax((double)p[d->label[i]], FLT_MIN));
        TRY(count_image(v, i, d->label[i], p, d->classes, e));
    }
    l->seconds = seconds;
    if (v->views == 1) return OK;
    l->top1 = (double)v->score.right1 / d->n;
    l->topk = (double)v->score.rightk / d->n;
    l->images = v->score.seen;
    l->unreadable = v->score.unreadable;
    l->ce = ce / (d->n - l->unreadable);
    l->compactness = -1; /* it would be of one view only */
    return OK;
}

static void print_summary(const struct valid_line *l)
{
    printf("%d images: top 1: %f, top %d: %f, CE: %f", l->images, l->top1, l->top, l->topk, l->ce);
    if (l->compactness >= 0)
        printf(", compactness: %f (same-class distance %f)", l->compactness, l->same_distance);
    if (l->unreadable) printf(", %d unreadable", l->unreadable);
    printf(", %f seconds\n", l->seconds);
}

static const struct way {
    const char *command, *words;
    enum view view; /* the first of them */
    int views;
} ways[] = { { "valid", "the central part", VIEW_CENTER, 1 },
             { "validcrop", "the whole", VIEW_WHOLE, 1 },
             { "valid10", "ten crops", VIEW_CROPS, 10 } };

static int prepare(struct validation *v, const struct cli *c, struct err *e)
{
    if (group_leads(v->s.group)) TRY(score_check_files(c, e));
    TRY(session_open(&v->s, c, c->arg[0], c->arg[1], e));
    TRY(session_load_valid(&v->s, v->s.net->feature + 1, e));
    return score_open(&v->score, &v->s, e);
}

static void print_way(const struct validation *v, const struct way *x)
{
    enum { SMALL = 100 }; /* pixels of a side, about three times VIEW_MARGIN */
    const struct net_config *n = &v->s.net->config;
    printf("preprocessing: %s of each image, resized to %dx%d\n",
           x->view == VIEW_CENTER && n->letter_box ? "a letterbox" : x->words, n->width, n->height);
    if (v->views > 1 && (n->width < SMALL || n->height < SMALL))
        note(&v->s.notes,
             "%s cuts %dx%d pixels out of images stretched to %d pixels more each way: below about %d pixels "
             "little is left of them, and valid tells more",
             x->command, n->width, n->height, VIEW_MARGIN, SMALL);
}

static int report(struct validation *v, const struct valid_line *l, struct err *e)
{
    console_clear(&v->s.console);
    score_print(&v->score);
    print_summary(l);
    return score_write(&v->score, e);
}

/* Processes that show images otherwise would add up what does not belong together, or wait for ever. */
static int check_way(struct group *g, const struct way *x, struct err *e)
{
    const int own = (int)(x - ways);
    int most = own, rc = group_max(g, &most);
    if (rc) return fail(e, rc, "validation: %s", err_text(rc));
    if (own != most) rc = fail(e, E_ARG, "%s: another process does %s", x->command, ways[most].command);
    return group_agree(g, rc, e);
}

static int validate(void *ctx, const struct cli *c, struct err *e)
{
    struct validation *v = ctx;
    const struct notes images = console_notes(&v->s.console); /* of all processes, which say nothing else */
    struct valid_line l = { 0 };
    const struct way *x = ways;
    while (strcmp(x->command, c->command->name)) x++;
    v->views = x->views;
    struct group *group = v->s.group;
    const int leads = group_leads(group);
    TRY(group_agree(group, prepare(v, c, e), e));
    if (group) TRY(check_equal(v->s.net, v->s.data, v->s.valid, &(struct progress){ 0 }, e));
    TRY(check_way(group, x, e));
    if (leads) print_way(v, x);
    v->start = wall_clock();
    struct eval_options o = { .workers = session_workers(&v->s),
                              .top = v->score.top,
                              .view = x->view,
                              .seed = c->seed,
                              .notes = &images,
                              .group = group,
                              .per_image = count_image,
                              .progress = show_progress,
                              .ctx = v };
    if (group || v->views > 1)
        TRY(evaluate_views(v, &o, &l, e));
    else
        TRY(evaluate(v->s.net, v->s.program, v->s.valid, &o, &l, e));
    return leads ? report(v, &l, e) : OK;
}

int cli_valid(const struct cli *c, struct err *e)
{
    struct validation v = { 0 };
    int rc = session_share(&v.s, validate, &v, c, e);
    console_clear(&v.s.console);
    score_close(&v.score);
    mem_free(v.kept.view);
    mem_free(v.kept.sum);
    mem_free(v.kept.readable);
    return rc;
}
