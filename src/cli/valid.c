/* classifier valid: a summary and a table of classes, and on request a line per image and the confusion
 * matrix. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "core/file.h"
#include "core/mem.h"
#include "train/trainer.h"

struct tally {
    int right, chosen; /* right answers; answers */
};

struct validation {
    struct session s;
    int top;
    int seen, right1, rightk; /* images so far */
    struct tally *tally;      /* by class */
    struct file csv;
    uint64_t *confusion; /* classes x classes: truth, answer; NULL when not asked for */
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

static int count_image(void *ctx, int sample, int label, const float *p, int classes, struct err *e)
{
    struct validation *v = ctx;
    v->seen++;
    if (p) {
        int answer = best_class(p, classes), rank = eval_rank(p, classes, label);
        v->tally[answer].chosen++;
        v->tally[label].right += rank == 0;
        v->right1 += rank == 0;
        v->rightk += rank < v->top;
        if (v->confusion) v->confusion[(size_t)label * (size_t)classes + (size_t)answer]++;
    }
    if (!v->s.cli->verbose) return OK;
    print_image(v, sample, label, p, classes);
    return output_check(e);
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
    printf("%-24s %8s %8s %8s %10s\n", "class", "images", "right", "recall", "precision");
    for (int k = 0; k < v->s.valid->classes; k++) {
        const struct tally *t = &v->tally[k];
        int n = v->s.valid->count[k];
        printf("%-24s %8d %8d", class_name(v->s.data, k, buf), n, t->right);
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

/* ---- the confusion matrix ---- */

/* Quoted as CSV asks: names may hold commas and quotes. */
static int write_name(struct validation *v, char before, int k, struct err *e)
{
    char buf[16];
    TRY(file_print(&v->csv, e, "%c\"", before));
    for (const char *s = class_name(v->s.data, k, buf); *s; s++)
        TRY(file_print(&v->csv, e, "%s%c", *s == '"' ? "\"" : "", *s));
    return file_print(&v->csv, e, "\"");
}

static int write_confusion(struct validation *v, const char *path, struct err *e)
{
    const uint64_t *count = v->confusion;
    int n = v->s.valid->classes;
    TRY(file_create(&v->csv, path, e));
    TRY(file_print(&v->csv, e, "truth"));
    for (int k = 0; k < n; k++) TRY(write_name(v, ',', k, e));
    for (int i = 0; i < n; i++) {
        TRY(write_name(v, '\n', i, e));
        for (int k = 0; k < n; k++) TRY(file_print(&v->csv, e, ",%llu", (unsigned long long)*count++));
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
    if (v->tally && (v->confusion || !confusion)) return OK;
    return fail(e, E_MEM, "no memory for the counts of %zu classes", n);
}

static int validate(struct validation *v, const struct cli *c, struct err *e)
{
    struct valid_line l = { 0 };
    TRY(session_open(&v->s, c, c->arg[0], c->arg[1], e));
    struct net *net = v->s.net;
    TRY(session_load_valid(&v->s, net->feature + 1, e));
    TRY(open_counts(v, e));
    v->top = session_top(&v->s);
    struct eval_options o = {
        .workers = session_workers(&v->s), .top = v->top, .seed = c->seed, .per_image = count_image, .ctx = v
    };
    printf("preprocessing: the central part of each image, resized to %dx%d\n", net->config.width,
           net->config.height);
    TRY(evaluate(net, v->s.program, v->s.valid, &o, &l, e));
    print_table(v);
    print_summary(&l);
    return c->confusion ? write_confusion(v, c->confusion, e) : OK;
}

int cli_valid(const struct cli *c, struct err *e)
{
    struct validation v = { 0 };
    int rc = validate(&v, c, e);
    file_abort(&v.csv);
    mem_free(v.confusion);
    mem_free(v.tally);
    session_close(&v.s);
    return rc;
}
