#include "metrics.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

static const char header[] =
    "kind,iteration,epoch,images,ce,match,lambda,rate,images_per_second,top1,topk,valid_ce,"
    "compactness,same_distance";

enum { BUFFER = 1 << 16, MOST_ASIDE = 9999 };
static const size_t metrics_limit = (size_t)1 << 32;

/* ---- cutting off what is repeated ---- */

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

static int rewrite(const char *path, char *text, uint64_t keep, struct err *e)
{
    struct file f;
    TRY(file_create(&f, path, e));
    int rc = copy_kept(&f, text, keep, e);
    file_abort(&f);
    return rc;
}

/* ---- opening ---- */

/* *text is NULL when there is no file. */
static int load(const char *path, char **text, struct err *e)
{
    struct stat st;
    size_t n;
    *text = NULL;
    if (stat(path, &st)) return OK;
    if (!S_ISREG(st.st_mode)) /* a pipe would wait for a writer */
        return fail_at(e, E_FILE, path, 0, "is no ordinary file: give another name with -metrics");
    return text_load(path, metrics_limit, text, &n, e);
}

/* Moves a file with rows out of the way; other files than ours stay where they are, and are refused later. */
static int set_aside(const char *path, const char *text, const struct notes *notes, struct err *e)
{
    size_t n = strlen(header), capacity = strlen(path) + 16;
    if (strncmp(text, header, n) || !text[n + strspn(text + n, "\r\n")]) return OK;
    char *name = mem_alloc(capacity, 1);
    if (!name) return fail(e, E_MEM, "no memory for a file name");
    int k = 1, bad = OK;
    do snprintf(name, capacity, "%s.%d", path, k);
    while (!access(name, F_OK) && k++ < MOST_ASIDE);
    if (k > MOST_ASIDE || rename(path, name))
        bad =
            fail_at(e, E_FILE, path, 0, "has the rows of an earlier run and cannot be renamed to %.100s: %s",
                    name, k > MOST_ASIDE ? "that exists too" : strerror(errno));
    else
        note(notes, "%s: the metrics of an earlier run are now in %s", path, name);
    mem_free(name);
    return bad;
}

static int open_file(struct metrics *m, const char *path, struct err *e)
{
    m->path = mem_text(path, strlen(path));
    m->f = m->path ? fopen(path, "ab") : NULL;
    if (!m->path) return fail(e, E_MEM, "no memory for the metrics file");
    if (!m->f) return fail_at(e, E_FILE, path, 0, "cannot be opened for appending: %s", strerror(errno));
    setvbuf(m->f, NULL, _IOFBF, BUFFER);
    return OK;
}

int metrics_resume(struct metrics *m, const char *path, uint64_t keep, struct err *e)
{
    char *text, empty[1] = "";
    TRY(load(path, &text, e));
    int rc = rewrite(path, text ? text : empty, keep, e);
    mem_free(text);
    return rc ? rc : open_file(m, path, e);
}

int metrics_open(struct metrics *m, const char *path, const struct notes *notes, struct err *e)
{
    char *text;
    TRY(load(path, &text, e));
    int rc = text ? set_aside(path, text, notes, e) : OK;
    mem_free(text);
    return rc ? rc : metrics_resume(m, path, 0, e);
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

int metrics_flush(struct metrics *m, struct err *e)
{
    if (!fflush(m->f) && !ferror(m->f)) return OK;
    clearerr(m->f);
    return fail_at(e, E_FILE, m->path, 0, "metrics cannot be written: %s", strerror(errno));
}

void metrics_close(struct metrics *m)
{
    if (m->f) fclose(m->f);
    mem_free(m->path);
}
