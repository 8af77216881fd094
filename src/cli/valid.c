/* classifier valid: a summary and a table of classes, and on request a line per image and the confusion
 * matrix. */
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "core/file.h"
#include "core/mem.h"
#include "train/trainer.h"

struct validation {
    struct session s;
    struct dataset *data;
    struct program *program;
    int verbose, top;
    int seen, right1, rightk; /* images so far */
    int *right, *chosen;      /* by class: right answers; answers */
    uint64_t *confusion;      /* classes x classes: truth, answer; NULL when not asked for */
};

static int first_best(const float *p, int n)
{
    int best = 0;
    for (int k = 1; k < n; k++)
        if (p[k] > p[best]) best = k;
    return best;
}

/* pjreddie's two lines. */
static void print_image(const struct validation *v, int sample, int label, const float *p, int classes)
{
    if (v->data->path)
        printf("%s, ", v->data->path[sample]);
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
        int answer = first_best(p, classes), rank = eval_rank(p, classes, label);
        v->chosen[answer]++;
        v->right[label] += rank == 0;
        v->right1 += rank == 0;
        v->rightk += rank < v->top;
        if (v->confusion) v->confusion[(size_t)label * (size_t)classes + (size_t)answer]++;
    }
    if (!v->verbose) return OK;
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
    for (int k = 0; k < v->data->classes; k++) {
        int n = v->data->count[k];
        printf("%-24s %8d %8d", class_name(v->s.data, k, buf), n, v->right[k]);
        print_share(v->right[k], n, 8);
        print_share(v->right[k], v->chosen[k], 10);
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
static int write_name(struct file *f, const char *name, struct err *e)
{
    TRY(file_print(f, e, "\""));
    for (const char *s = name; *s; s++) TRY(file_print(f, e, "%s%c", *s == '"' ? "\"" : "", *s));
    return file_print(f, e, "\"");
}

static int write_rows(const struct validation *v, struct file *f, struct err *e)
{
    char buf[16];
    const uint64_t *count = v->confusion;
    int n = v->data->classes;
    TRY(file_print(f, e, "truth"));
    for (int k = 0; k < n; k++) {
        TRY(file_print(f, e, ","));
        TRY(write_name(f, class_name(v->s.data, k, buf), e));
    }
    TRY(file_print(f, e, "\n"));
    for (int i = 0; i < n; i++) {
        TRY(write_name(f, class_name(v->s.data, i, buf), e));
        for (int k = 0; k < n; k++) TRY(file_print(f, e, ",%llu", (unsigned long long)*count++));
        TRY(file_print(f, e, "\n"));
    }
    return file_commit(f, e);
}

static int write_confusion(const struct validation *v, const char *path, struct err *e)
{
    struct file f;
    TRY(file_create(&f, path, e));
    int rc = write_rows(v, &f, e);
    file_abort(&f);
    return rc;
}

/* ---- the command ---- */

static int open_counts(struct validation *v, const struct cli *c, struct err *e)
{
    size_t n = (size_t)v->data->classes, square;
    v->right = mem_alloc(n, sizeof *v->right);
    v->chosen = mem_alloc(n, sizeof *v->chosen);
    if (c->confusion) v->confusion = mem_mul(n, n, &square) ? NULL : mem_alloc(square, sizeof *v->confusion);
    if (v->right && v->chosen && (v->confusion || !c->confusion)) return OK;
    return fail(e, E_MEM, "no memory for the counts of %zu classes", n);
}

static int open_all(struct validation *v, const struct cli *c, struct err *e)
{
    TRY(session_open(&v->s, c, c->arg[0], c->arg[1], e));
    TRY(session_open_valid(&v->s, c->arg[2], v->s.net->feature + 1, &v->program, &v->data, e));
    return open_counts(v, c, e);
}

static int validate(struct validation *v, const struct cli *c, struct err *e)
{
    struct net *net = v->s.net;
    struct valid_line l = { 0 };
    v->verbose = c->verbose;
    v->top = cli_top(c, &v->s);
    struct eval_options o = { .workers = cli_workers(c),
                              .top = v->top,
                              .seed = c->seed,
                              .per_image = count_image,
                              .ctx = v };
    printf("preprocessing: the central part of each image, resized to %dx%d\n", net->config.width,
           net->config.height);
    TRY(evaluate(net, v->program, v->data, &o, &l, e));
    print_table(v);
    print_summary(&l);
    return c->confusion ? write_confusion(v, c->confusion, e) : OK;
}

int cli_valid(const struct cli *c, struct err *e)
{
    struct validation v = { 0 };
    int rc = open_all(&v, c, e);
    if (!rc) rc = validate(&v, c, e);
    mem_free(v.confusion);
    mem_free(v.chosen);
    mem_free(v.right);
    program_close(v.program);
    dataset_close(v.data);
    session_close(&v.s);
    return rc;
}
