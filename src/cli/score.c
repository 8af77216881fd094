#include "score.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "cli/canvas.h"
#include "core/array.h"
#include "core/mem.h"
#include "data/image.h"
#include "train/evaluate.h"

enum { NO_ANSWER = -1 };

/* ---- counting ---- */

int score_open(struct score *c, const struct session *s, struct err *e)
{
    const int confusion = s->cli->confusion != NULL;
    const size_t n = (size_t)s->valid->classes;
    *c = (struct score){ .s = s, .top = session_top(s) };
    c->of_class = mem_alloc(n, sizeof *c->of_class);
    if (confusion) c->confusion = mem_alloc(n, n * sizeof *c->confusion);
    if (confusion) c->unanswered = mem_alloc(n, sizeof *c->unanswered);
    if (c->of_class && ((c->confusion && c->unanswered) || !confusion)) return OK;
    return fail(e, E_MEM, "no memory for the counts of %zu classes", n);
}

void score_close(struct score *c)
{
    file_abort(&c->csv);
    mem_free(c->mistake);
    mem_free(c->confusion);
    mem_free(c->unanswered);
    mem_free(c->of_class);
}

static int add_mistake(struct score *c, const struct mistake *m, struct err *e)
{
    if (!c->s->cli->errors) return OK;
    if (array_grow(&c->mistake, (size_t)c->mistakes, sizeof *c->mistake))
        return fail(e, E_MEM, "no memory for %d wrong answers", c->mistakes);
    c->mistake[c->mistakes++] = *m;
    return OK;
}

static int count_answer(struct score *c, int sample, int label, const float *p, struct err *e)
{
    const int classes = c->s->valid->classes;
    int answer, rank = eval_rank(p, classes, label);
    eval_top(p, classes, 1, &answer);
    c->of_class[answer].chosen++;
    c->of_class[label].right += rank == 0;
    c->right1 += rank == 0;
    c->rightk += rank < c->top;
    if (c->confusion) c->confusion[(size_t)label * (size_t)classes + (size_t)answer]++;
    return rank ? add_mistake(c, &(struct mistake){ sample, label, answer, p[answer], p[label] }, e) : OK;
}

int score_add(struct score *c, int sample, int label, const float *p, struct err *e)
{
    c->seen++;
    if (p) return count_answer(c, sample, label, p, e);
    c->unreadable++;
    if (c->unanswered) c->unanswered[label]++;
    return add_mistake(c, &(struct mistake){ sample, label, NO_ANSWER, 0, 0 }, e);
}

static void print_share(int part, int whole, int width)
{
    if (whole)
        printf(" %*.4f", width, (double)part / whole);
    else
        printf(" %*s", width, "-");
}

void score_print(const struct score *c)
{
    char buf[16];
    table_name("class");
    printf(" %8s %8s %8s %10s\n", "images", "right", "recall", "precision");
    for (int k = 0; k < c->s->valid->classes; k++) {
        const struct class_score *t = &c->of_class[k];
        int n = c->s->valid->count[k];
        table_name(class_name(c->s->data, k, buf));
        printf(" %8d %8d", n, t->right);
        print_share(t->right, n, 8);
        print_share(t->right, t->chosen, 10);
        putchar('\n');
    }
}

/* ---- what is written ---- */

#define UNREADABLE  "unreadable" /* in the place of an answer */
#define ERRORS_HEAD "image,truth,answer,probability,probability of the truth"

static void write_name(struct score *c, char before, int k)
{
    char buf[16];
    putc(before, c->csv.f);
    csv_text(c->csv.f, class_name(c->s->data, k, buf));
}

static int write_confusion(struct score *c, const char *path, struct err *e)
{
    const uint64_t *count = c->confusion;
    int n = c->s->valid->classes;
    TRY(file_create(&c->csv, path, e));
    TRY(file_print(&c->csv, e, "truth"));
    for (int k = 0; k < n; k++) write_name(c, ',', k);
    if (c->unreadable) TRY(file_print(&c->csv, e, "," UNREADABLE));
    for (int i = 0; i < n; i++) {
        write_name(c, '\n', i);
        for (int k = 0; k < n; k++) TRY(file_print(&c->csv, e, ",%llu", (unsigned long long)*count++));
        if (c->unreadable) TRY(file_print(&c->csv, e, ",%llu", (unsigned long long)c->unanswered[i]));
    }
    TRY(file_print(&c->csv, e, "\n"));
    return file_commit(&c->csv, e);
}

/* A row for each true class and a column for each answer, both by number; the darker a cell, the larger its
 * share of the row. */
static int draw_confusion(const struct score *c, const char *path, struct err *e)
{
    enum { SIDE = 720, MOST = 48, MARGIN = 70, SMALL = 20 };
    const int n = c->s->valid->classes, cell = n * MOST <= SIDE ? MOST : n <= SIDE ? SIDE / n : 1;
    struct canvas to;
    TRY(canvas_open(&to, MARGIN + n * cell + 2, MARGIN + n * cell + 2, e));
    canvas_text(&to, MARGIN, 8, "answer", 0);
    canvas_text(&to, 4, MARGIN - 20, "truth", 0);
    for (int i = 0; i < n; i++) {
        const uint64_t *row = c->confusion + (size_t)i * (size_t)n;
        uint64_t all = 0;
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        const int at = MARGIN + i * cell, middle = at + cell / 2;
        if (cell >= SMALL || i % 10 == 0) {
            canvas_text(&to, MARGIN - 8 - canvas_width(name), middle - CANVAS_TEXT / 2, name, 0);
            if (cell >= SMALL || i % 50 == 0)
                canvas_text(&to, middle - canvas_width(name) / 2, MARGIN - 20, name, 0);
        }
        for (int k = 0; k < n; k++) all += row[k];
        for (int k = 0; k < n; k++) {
            const unsigned light = all ? 255 - (unsigned)(255 * row[k] / all) : 255;
            const unsigned color = i == k ? light << 16 | 0xff00 | light : 0xff0000 | light << 8 | light;
            canvas_fill(&to, MARGIN + k * cell, at, cell, cell, row[k] ? color : 0xf4f4f4);
        }
    }
    int rc = canvas_write(&to, path, e);
    canvas_close(&to);
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

static int write_mistakes(struct score *c, const char *path, struct err *e)
{
    if (c->mistakes) qsort(c->mistake, (size_t)c->mistakes, sizeof *c->mistake, surest_first);
    TRY(file_create(&c->csv, path, e));
    TRY(file_print(&c->csv, e, ERRORS_HEAD));
    for (int i = 0; i < c->mistakes; i++) {
        const struct mistake *m = &c->mistake[i];
        char number[16];
        snprintf(number, sizeof number, "%d", m->sample);
        putc('\n', c->csv.f);
        csv_text(c->csv.f, c->s->valid->path ? c->s->valid->path[m->sample] : number);
        write_name(c, ',', m->truth);
        if (m->answer == NO_ANSWER)
            fputs("," UNREADABLE, c->csv.f);
        else
            write_name(c, ',', m->answer);
        TRY(file_print(&c->csv, e, ",%.6f,%.6f", (double)m->probability, (double)m->of_truth));
    }
    TRY(file_print(&c->csv, e, "\n"));
    return file_commit(&c->csv, e);
}

int score_check_files(const struct cli *c, struct err *e)
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

int score_write(struct score *c, struct err *e)
{
    const char *matrix = c->s->cli->confusion, *errors = c->s->cli->errors;
    if (matrix) TRY(ends_in_png(matrix) ? draw_confusion(c, matrix, e) : write_confusion(c, matrix, e));
    return errors ? write_mistakes(c, errors, e) : OK;
}
