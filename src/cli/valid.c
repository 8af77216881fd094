/* classifier valid: a summary and a table of classes, and on request a line per image, the confusion matrix
 * and the wrong answers. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "cli/canvas.h"
#include "cli/cli.h"
#include "core/array.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mem.h"
#include "data/image.h"
#include "group/group.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

enum { NO_ANSWER = -1 };

struct tally {
    int right, chosen; /* right answers; answers */
};

struct validation {
    struct session s;
    int top;
    int seen, right1, rightk; /* images so far */
    int views;                /* of each image, whose probabilities are averaged */
    int ran;                  /* through the net, with each view, since */
    double start;
    struct kept {
        float *view, *sum; /* the probabilities of a view, in the order of its images, of which this process
                            * has had `at`; their mean over the views so far, by image: images x classes. NaN
                            * in the first place: the image cannot be read */
        size_t at;
        int *readable;   /* these images */
    } kept;              /* of several views or processes; else the images count as they come */
    struct tally *tally; /* by class */
    struct file csv;
    uint64_t *confusion; /* classes x classes: truth, answer; NULL when not asked for */
    uint64_t *no_answer; /* by class: images that cannot be read; with `confusion` */
    int no_answers;
    struct mistake {
        int sample, truth, answer;   /* NO_ANSWER: it cannot be read */
        float probability, of_truth; /* of the answer; of the true class */
    } * mistake;
    int mistakes;
};

/* pjreddie's two lines. */
static void print_image(const struct validation *v, int sample, int label, const float *p, int classes)
{
    if (v->s.valid->path)
        printf("%s, ", v->s.valid->path[sample]);
    else
        printf("%d, ", sample);
    printf("%d, %f, %f, \n", label, p ? (double)p[0] : 0, p && classes > 1 ? (double)p[1] : 0);
    printf("%d: top 1: %f, top %d: %f\n", v->seen - 1, (double)v->right1 / v->seen, v->top,
           (double)v->rightk / v->seen);
}

static int add_mistake(struct validation *v, const struct mistake *m, struct err *e)
{
    if (!v->s.cli->errors) return OK;
    if (array_grow(&v->mistake, (size_t)v->mistakes, sizeof *v->mistake))
        return fail(e, E_MEM, "no memory for %d wrong answers", v->mistakes);
    v->mistake[v->mistakes++] = *m;
    return OK;
}

static int count_answer(struct validation *v, int sample, int label, const float *p, int classes,
                        struct err *e)
{
    int answer, rank = eval_rank(p, classes, label);
    eval_top(p, classes, 1, &answer);
    v->tally[answer].chosen++;
    v->tally[label].right += rank == 0;
    v->right1 += rank == 0;
    v->rightk += rank < v->top;
    if (v->confusion) v->confusion[(size_t)label * (size_t)classes + (size_t)answer]++;
    return rank ? add_mistake(v, &(struct mistake){ sample, label, answer, p[answer], p[label] }, e) : OK;
}

static int count_image(struct validation *v, int sample, int label, const float *p, int classes,
                       struct err *e)
{
    v->seen++;
    if (p) {
        TRY(count_answer(v, sample, label, p, classes, e));
    } else {
        v->no_answers++;
        if (v->confusion) v->no_answer[label]++;
        TRY(add_mistake(v, &(struct mistake){ sample, label, NO_ANSWER, 0, 0 }, e));
    }
    if (!v->s.cli->verbose) return OK;
    print_image(v, sample, label, p, classes);
    return output_check(e);
}

/* An image has been through the net. */
static void show_progress(struct validation *v)
{
    const int n = v->s.valid->n, rest = v->views * n - ++v->ran;
    const double clock = wall_clock();
    if (v->s.cli->verbose || v->ran % n % program_rows(v->s.program)) return; /* not a whole mini-batch */
    if (!console_begin(&v->s.console, clock)) return;
    printf("%d/%d images", v->ran / v->views, n);
    print_eta((clock - v->start) / v->ran * rest);
    console_end();
}

static int see_image(void *ctx, int sample, int label, const float *p, int classes, struct err *e)
{
    show_progress(ctx);
    return count_image(ctx, sample, label, p, classes, e);
}

static int keep_answer(void *ctx, int sample, int label, const float *p, int classes, struct err *e)
{
    struct validation *v = ctx;
    float *row = v->kept.view + v->kept.at++ * (size_t)classes;
    (void)sample, (void)label, (void)e;
    show_progress(v);
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
    int rc = evaluate(v->s.net, v->s.program, v->s.valid, o, l, e);
    TRY(group_agree(o->group, rc, e));
    rc = group_gather(o->group, v->kept.view, o->only_n, classes * sizeof *v->kept.view);
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
    for (int i = 0; i < v->views; i++, o->view++) {
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
    l->top1 = (double)v->right1 / d->n;
    l->topk = (double)v->rightk / d->n;
    l->images = v->seen;
    l->unreadable = v->no_answers;
    l->ce = ce / (d->n - l->unreadable);
    l->compactness = -1; /* it would be of one view only */
    return OK;
}

static void print_share(int part, int whole, int width)
{
    if (whole)
        printf(" %*.4f", width, (double)part / whole);
    else
        printf(" %*s", width, "-");
}

static void print_table(const struct validation *v)
{
    char buf[16];
    table_name("class");
    printf(" %8s %8s %8s %10s\n", "images", "right", "recall", "precision");
    for (int k = 0; k < v->s.valid->classes; k++) {
        const struct tally *t = &v->tally[k];
        int n = v->s.valid->count[k];
        table_name(class_name(v->s.data, k, buf));
        printf(" %8d %8d", n, t->right);
        print_share(t->right, n, 8);
        print_share(t->right, t->chosen, 10);
        putchar('\n');
    }
}

static void print_summary(const struct valid_line *l)
{
    printf("%d images: top 1: %f, top %d: %f, CE: %f", l->images, l->top1, l->top, l->topk, l->ce);
    if (l->compactness >= 0)
        printf(", compactness: %f (same-class distance %f)", l->compactness, l->same_distance);
    if (l->unreadable) printf(", %d unreadable", l->unreadable);
    printf(", %f seconds\n", l->seconds);
}

/* ---- files: the confusion matrix, the wrong answers ---- */

#define UNREADABLE  "unreadable" /* in the place of an answer */
#define ERRORS_HEAD "image,truth,answer,probability,probability of the truth"

static void write_name(struct validation *v, char before, int k)
{
    char buf[16];
    putc(before, v->csv.f);
    csv_text(v->csv.f, class_name(v->s.data, k, buf));
}

static int write_confusion(struct validation *v, const char *path, struct err *e)
{
    const uint64_t *count = v->confusion;
    int n = v->s.valid->classes;
    TRY(file_create(&v->csv, path, e));
    TRY(file_print(&v->csv, e, "truth"));
    for (int k = 0; k < n; k++) write_name(v, ',', k);
    if (v->no_answers) TRY(file_print(&v->csv, e, "," UNREADABLE));
    for (int i = 0; i < n; i++) {
        write_name(v, '\n', i);
        for (int k = 0; k < n; k++) TRY(file_print(&v->csv, e, ",%llu", (unsigned long long)*count++));
        if (v->no_answers) TRY(file_print(&v->csv, e, ",%llu", (unsigned long long)v->no_answer[i]));
    }
    TRY(file_print(&v->csv, e, "\n"));
    return file_commit(&v->csv, e);
}

/* A row for each true class and a column for each answer, both by number; the darker a cell, the larger its
 * share of the row. */
static int draw_confusion(const struct validation *v, const char *path, struct err *e)
{
    enum { SIDE = 720, MOST = 48, MARGIN = 70, SMALL = 20 };
    const int n = v->s.valid->classes, cell = n * MOST <= SIDE ? MOST : n <= SIDE ? SIDE / n : 1;
    struct canvas c;
    TRY(canvas_open(&c, MARGIN + n * cell + 2, MARGIN + n * cell + 2, e));
    canvas_text(&c, MARGIN, 8, "answer", 0);
    canvas_text(&c, 4, MARGIN - 20, "truth", 0);
    for (int i = 0; i < n; i++) {
        const uint64_t *row = v->confusion + (size_t)i * (size_t)n;
        uint64_t all = 0;
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        const int at = MARGIN + i * cell, middle = at + cell / 2;
        if (cell >= SMALL || i % 10 == 0) {
            canvas_text(&c, MARGIN - 8 - canvas_width(name), middle - CANVAS_TEXT / 2, name, 0);
            if (cell >= SMALL || i % 50 == 0)
                canvas_text(&c, middle - canvas_width(name) / 2, MARGIN - 20, name, 0);
        }
        for (int k = 0; k < n; k++) all += row[k];
        for (int k = 0; k < n; k++) {
            const unsigned light = all ? 255 - (unsigned)(255 * row[k] / all) : 255;
            const unsigned color = i == k ? light << 16 | 0xff00 | light : 0xff0000 | light << 8 | light;
            canvas_fill(&c, MARGIN + k * cell, at, cell, cell, row[k] ? color : 0xf4f4f4);
        }
    }
    int rc = canvas_write(&c, path, e);
    canvas_close(&c);
    return rc;
}

static int ends_in_png(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && !strcasecmp(path + n - 4, ".png");
}

static int surest_first(const void *a, const void *b)
{
    const struct mistake *x = a, *y = b;
    if (x->probability > y->probability) return -1;
    return x->probability < y->probability || x->sample > y->sample;
}

static int write_mistakes(struct validation *v, const char *path, struct err *e)
{
    if (v->mistakes) qsort(v->mistake, (size_t)v->mistakes, sizeof *v->mistake, surest_first);
    TRY(file_create(&v->csv, path, e));
    TRY(file_print(&v->csv, e, ERRORS_HEAD));
    for (int i = 0; i < v->mistakes; i++) {
        const struct mistake *m = &v->mistake[i];
        char number[16];
        snprintf(number, sizeof number, "%d", m->sample);
        putc('\n', v->csv.f);
        csv_text(v->csv.f, v->s.valid->path ? v->s.valid->path[m->sample] : number);
        write_name(v, ',', m->truth);
        if (m->answer == NO_ANSWER)
            fputs("," UNREADABLE, v->csv.f);
        else
            write_name(v, ',', m->answer);
        TRY(file_print(&v->csv, e, ",%.6f,%.6f", (double)m->probability, (double)m->of_truth));
    }
    TRY(file_print(&v->csv, e, "\n"));
    return file_commit(&v->csv, e);
}

/* ---- the command ---- */

static int open_counts(struct validation *v, struct err *e)
{
    int confusion = v->s.cli->confusion != NULL;
    size_t n = (size_t)v->s.valid->classes;
    v->tally = mem_alloc(n, sizeof *v->tally);
    if (confusion) v->confusion = mem_alloc(n, n * sizeof *v->confusion);
    if (confusion) v->no_answer = mem_alloc(n, sizeof *v->no_answer);
    if (v->tally && ((v->confusion && v->no_answer) || !confusion)) return OK;
    return fail(e, E_MEM, "no memory for the counts of %zu classes", n);
}

static const struct way {
    const char *command, *words;
    enum view view; /* the first of them */
    int views;
} ways[] = { { "valid", "the central part", VIEW_CENTER, 1 },
             { "validcrop", "the whole", VIEW_WHOLE, 1 },
             { "valid10", "ten crops", VIEW_CROPS, 10 } };

/* The files that are asked for, before the work. */
static int check_files(const struct cli *c, struct err *e)
{
    static const struct file_kind matrix = { "a confusion matrix", "truth,", 0, 6 },
                                  errors = { "a list of wrong answers", ERRORS_HEAD, 0,
                                             sizeof ERRORS_HEAD - 1 };
    if (c->confusion) {
        TRY(file_spare_others(c->confusion, ends_in_png(c->confusion) ? &image_png_kind : &matrix, e));
        TRY(file_probe(c->confusion, e));
    }
    if (!c->errors) return OK;
    TRY(file_spare_others(c->errors, &errors, e));
    return file_probe(c->errors, e);
}

static int prepare(struct validation *v, const struct cli *c, struct err *e)
{
    if (group_leads(v->s.group)) TRY(check_files(c, e));
    TRY(session_open(&v->s, c, c->arg[0], c->arg[1], e));
    TRY(session_load_valid(&v->s, v->s.net->feature + 1, e));
    v->top = session_top(&v->s);
    return open_counts(v, e);
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

static int report(struct validation *v, const struct valid_line *l, const struct cli *c, struct err *e)
{
    console_clear(&v->s.console);
    print_table(v);
    print_summary(l);
    if (c->confusion)
        TRY(ends_in_png(c->confusion) ? draw_confusion(v, c->confusion, e)
                                      : write_confusion(v, c->confusion, e));
    return c->errors ? write_mistakes(v, c->errors, e) : OK;
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
    struct console here = { 0 };
    const struct notes elsewhere = console_notes(&here); /* of a process that says nothing else */
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
                              .top = v->top,
                              .view = x->view,
                              .seed = c->seed,
                              .notes = leads ? NULL : &elsewhere,
                              .group = group,
                              .per_image = see_image,
                              .ctx = v };
    if (group || v->views > 1)
        TRY(evaluate_views(v, &o, &l, e));
    else
        TRY(evaluate(v->s.net, v->s.program, v->s.valid, &o, &l, e));
    return leads ? report(v, &l, c, e) : OK;
}

int cli_valid(const struct cli *c, struct err *e)
{
    struct validation v = { 0 };
    int rc = session_share(&v.s, validate, &v, c, e);
    console_clear(&v.s.console);
    file_abort(&v.csv);
    mem_free(v.kept.view);
    mem_free(v.kept.sum);
    mem_free(v.kept.readable);
    mem_free(v.mistake);
    mem_free(v.confusion);
    mem_free(v.no_answer);
    mem_free(v.tally);
    return rc;
}
