#include "metrics.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "train/evaluate.h"

static const char header[] =
    "kind,iteration,epoch,images,ce,match,lambda,rate,images_per_second,top1,topk,valid_ce,"
    "compactness,same_distance";

enum { MOST_ASIDE = 9999 };
static const size_t metrics_limit = (size_t)1 << 32;

/* ---- opening ---- */

/* Moves a file of ours that has rows out of the way; any other file stays where it is, and is refused
 * later. */
static int set_aside(const char *path, const char *text, const struct notes *notes, struct err *e)
{
    size_t n = strlen(header);
    if (strncmp(text, header, n) || !text[n + strspn(text + n, "\r\n")]) return OK;
    char *name = NULL;
    int k = 0, rc = OK;
    do {
        mem_free(name);
        if (!(name = text_format("%s.%d", path, ++k))) return fail(e, E_MEM, "no memory for a file name");
    } while (!access(name, F_OK) && k < MOST_ASIDE);
    int taken = !access(name, F_OK);
    if (taken || rename(path, name))
        rc = fail_at(e, E_FILE, path, 0, "has the rows of an earlier run and cannot be renamed to %.100s: %s",
                     name, taken ? "that exists too" : strerror(errno));
    else
        note(notes, "%s: the metrics of an earlier run are now in %s", path, name);
    mem_free(name);
    return rc;
}

/* 1 for a whole row of an iteration that is kept. */
static int is_kept(const char *row, uint64_t keep)
{
    const char *comma = strchr(row, ',');
    int commas = 0;
    for (const char *s = row; *s; s++) commas += *s == ',';
    return comma && commas == 13 && strtoull(comma + 1, NULL, 10) <= keep;
}

/* The text must begin with our header: no other file is ever cut. */
static int copy_kept(struct file *f, char *text, uint64_t keep, struct err *e)
{
    struct lines l;
    lines_open(&l, text);
    const char *first = lines_next(&l);
    if (first && *first && strcmp(first, header))
        return fail_at(e, E_FORMAT, f->path, 0,
                       "exists and is not a metrics file; give another name with -metrics");
    TRY(file_print(f, e, "%s\n", header));
    for (const char *row; (row = lines_next(&l));)
        if (is_kept(row, keep)) TRY(file_print(f, e, "%s\n", row));
    return file_commit(f, e);
}

/* For reading, too: see write_again. */
static int open_to_append(struct metrics *m, const char *path, struct err *e)
{
    *m = (struct metrics){ fopen(path, "a+b"), path };
    return m->f ? OK : fail_at(e, E_FILE, path, 0, "cannot be opened for appending: %s", strerror(errno));
}

int metrics_open(struct metrics *m, const char *path, uint64_t keep, const struct notes *notes, struct err *e)
{
    char *text = NULL, none[1] = "";
    size_t n;
    struct file f = { 0 };
    if (!access(path, F_OK)) TRY(text_load(path, metrics_limit, &text, &n, e));
    int rc = text && !keep ? set_aside(path, text, notes, e) : OK;
    if (!rc) rc = file_create(&f, path, e);
    if (!rc) rc = copy_kept(&f, text ? text : none, keep, e);
    file_abort(&f);
    mem_free(text);
    if (rc) return rc;
    return open_to_append(m, path, e);
}

/* Column n of a row, from 0. */
static double column(const char *row, int n)
{
    while (n--) row += strcspn(row, ",") + 1;
    return text_number(row, NULL);
}

int metrics_read(const char *path, void (*row)(void *, int, double, double), void *ctx, struct err *e)
{
    enum { ITERATION = 1, CE = 4, TOP1 = 9 };
    struct lines l;
    char *text;
    size_t n;
    TRY(text_load(path, metrics_limit, &text, &n, e));
    lines_open(&l, text);
    lines_next(&l);
    for (const char *s; (s = lines_next(&l));) {
        int validation = *s == 'v';
        if (is_kept(s, UINT64_MAX))
            row(ctx, validation, column(s, ITERATION), column(s, validation ? TOP1 : CE));
    }
    mem_free(text);
    return OK;
}

/* ---- writing ---- */

void metrics_train(struct metrics *m, const struct train_line *l)
{
    fprintf(m->f, "train,%llu,%.9g,%llu,%.9g,", (unsigned long long)l->iteration, l->epoch,
            (unsigned long long)l->seen, l->ce);
    if (isfinite(l->match)) fprintf(m->f, "%.9g", l->match);
    fprintf(m->f, ",%.9g,%.9g,%.6g,,,,,\n", l->lambda, l->rate, l->images_per_second);
}

void metrics_valid(struct metrics *m, const struct valid_line *l, uint64_t seen)
{
    fprintf(m->f, "valid,%llu,%.9g,%llu,,,,,,%.9g,%.9g,%.9g,", (unsigned long long)l->iteration, l->epoch,
            (unsigned long long)seen, l->top1, l->topk, l->ce);
    if (l->compactness >= 0)
        fprintf(m->f, "%.9g,%.9g\n", l->compactness, l->same_distance);
    else
        fputs(",\n", m->f);
}

static int copy_open(int fd, struct file *f, struct err *e)
{
    char part[1 << 14];
    off_t at = 0;
    for (ssize_t n; (n = pread(fd, part, sizeof part, at)) > 0; at += n)
        TRY(file_write(f, part, (size_t)n, e));
    return file_commit(f, e);
}

/* All rows once more under the name, which somebody has removed: the open file has them still. */
static int write_again(struct metrics *m, struct err *e)
{
    static const struct file_kind kind = { "a metrics file", header, 0, sizeof header - 1 };
    struct file f = { 0 };
    struct metrics again;
    int rc = file_spare_others(m->path, &kind, e);
    if (!rc) rc = file_create(&f, m->path, e);
    if (!rc) rc = copy_open(fileno(m->f), &f, e);
    file_abort(&f);
    TRY(rc);
    TRY(open_to_append(&again, m->path, e));
    fclose(m->f);
    *m = again;
    return OK;
}

int metrics_flush(struct metrics *m, struct err *e)
{
    if (!fflush(m->f) && !ferror(m->f)) return file_is_at(fileno(m->f), m->path) ? OK : write_again(m, e);
    clearerr(m->f);
    return fail_at(e, E_FILE, m->path, 0, "metrics cannot be written: %s", strerror(errno));
}

void metrics_close(struct metrics *m)
{
    if (m->f) fclose(m->f);
}
