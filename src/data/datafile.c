/* The .data file and the plain lists it names. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "data/dataset.h"

/* ---- lists ---- */

/* One block: n pointers, then the text they point into. */
int list_read(char ***line, int *n, const char *path, struct err *e)
{
    char *text, *p;
    size_t size, count = 0, bytes = 0;
    *line = NULL;
    *n = 0;
    TRY(text_load(path, INT_MAX, &text, &size, e));
    for (char *at = text; *at; at++) count += *at == '\n' || *at == '\r';
    int rc = OK;
    if (mem_mul(count + 1, sizeof **line, &bytes) || mem_add(bytes, size + 1, &bytes) ||
        !(*line = mem_alloc(bytes, 1))) {
        rc = fail_at(e, E_MEM, path, 0, "not enough memory for its %zu lines", count);
    } else {
        char *copy = memcpy(*line + count + 1, text, size);
        struct lines l;
        for (lines_open(&l, copy); (p = lines_next(&l));)
            if (*p) (*line)[(*n)++] = p;
        if (!*n) rc = fail_at(e, E_FORMAT, path, 0, "has no lines, expected at least one");
    }
    mem_free(text);
    if (!rc) return OK;
    list_free(*line);
    *line = NULL;
    return rc;
}

void list_free(char **line) { mem_free(line); }

int list_line(const char *path, int i)
{
    char *text, *p;
    size_t size;
    struct lines l;
    if (text_load(path, INT_MAX, &text, &size, NULL)) return 0;
    for (lines_open(&l, text); (p = lines_next(&l));)
        if (*p && !i--) break;
    int number = p ? l.number : 0;
    mem_free(text);
    return number;
}

static int first_comment(char *const *line, int n)
{
    for (int i = 0; i < n; i++)
        if (line[i][0] == '#') return i;
    return -1;
}

int labels_read(char ***label, int *n, const struct data_file *d, struct err *e)
{
    char hint[120] = "";
    TRY(list_read(label, n, d->labels, e));
    if (*n == d->classes) return OK;
    int i = first_comment(*label, *n);
    if (*n > d->classes && i < 0) return OK;
    if (i >= 0)
        snprintf(hint, sizeof hint, " (line %d is '%.50s': every line is a label)", list_line(d->labels, i),
                 (*label)[i]);
    list_free(*label);
    *label = NULL;
    return fail_at(e, E_FORMAT, d->labels, 0, "has %d labels, but %s says classes=%d: correct one of them%s",
                   *n, d->path, d->classes, hint);
}

/* ---- the .data file ---- */

enum kind { TEXT, NUMBER, SIZE, SAMPLING, IGNORED, REFUSED };

static const struct field {
    const char *name;
    enum kind kind;
    size_t at;
    long min, max;
    const char *help; /* NULL: other Darknets' */
} fields[] = {
    { "classes", NUMBER, offsetof(struct data_file, classes), 1, 1000000, "how many there are (2)" },
    { "train", TEXT, offsetof(struct data_file, train), 0, 0,
      "list of images, one path a line; or an IDX images file, or the folder of CIFAR-10, CIFAR-100 or "
      "STL-10" },
    { "valid", TEXT, offsetof(struct data_file, valid), 0, 0, "the same, to validate on" },
    { "test", TEXT, offsetof(struct data_file, test), 0, 0, "list of images for label, test and csv" },
    { "labels", TEXT, offsetof(struct data_file, labels), 0, 0,
      "list of classes, one a line: an image belongs to that which occurs in its path" },
    { "names", TEXT, offsetof(struct data_file, names), 0, 0,
      "list of what the classes are called in answers (labels)" },
    { "backup", TEXT, offsetof(struct data_file, backup), 0, 0, "folder that train writes into (backup)" },
    { "top", NUMBER, offsetof(struct data_file, top), 1, INT_MAX, "k of top-k (1)" },
    { "train_limit", NUMBER, offsetof(struct data_file, train_limit), 0, INT_MAX,
      "only the first so many training images, of those not held out (0: all)" },
    { "holdout", NUMBER, offsetof(struct data_file, holdout), 0, INT_MAX,
      "so many training images are set aside, to validate on them (0)" },
    { "holdout_seed", NUMBER, offsetof(struct data_file, holdout_seed), 0, INT_MAX, "chooses them (0)" },
    { "label_noise", NUMBER, offsetof(struct data_file, label_noise), 0, 100,
      "per cent of the training labels that are made wrong, for studies (0)" },
    { "label_noise_seed", NUMBER, offsetof(struct data_file, label_noise_seed), 0, INT_MAX,
      "chooses them (0)" },
    { "saveweights", NUMBER, offsetof(struct data_file, saveweights), 0, INT_MAX,
      "iterations between weights that are kept, as BACKUP/BASE_N.weights (0: none)" },
    { "savelast", NUMBER, offsetof(struct data_file, savelast), 1, INT_MAX,
      "iterations between BACKUP/BASE_last.weights and .state (100)" },
    { "orient", NUMBER, offsetof(struct data_file, orient), 0, 1,
      "1: images are turned upright, as their EXIF data says (0)" },
    { "resize", SIZE, 0, 1, 4096,
      "side, or WIDTHxHEIGHT, that IDX, CIFAR and STL images are shrunk to, averaging areas" },
    { "sampling", SAMPLING, offsetof(struct data_file, replacement), 0, 0,
      "shuffle: each training image once an epoch; replacement: Darknet's draw (shuffle)" },
    { "results", IGNORED, 0, 0, 0, NULL },
    { "eval", IGNORED, 0, 0, 0, NULL },
    { "map", IGNORED, 0, 0, 0, NULL },
    { "tree", REFUSED, 0, 0, 0, NULL },
    { "leaves", REFUSED, 0, 0, 0, NULL },
    { "tag", REFUSED, 0, 0, 0, NULL },
};
enum { NFIELDS = sizeof fields / sizeof fields[0] };

const char *data_file_key(int i, const char **help)
{
    if (i >= NFIELDS || !fields[i].help) return NULL;
    *help = fields[i].help;
    return fields[i].name;
}

struct parse {
    struct data_file *d;
    int line;
    int seen[NFIELDS]; /* line of each key, 0: not given */
    const struct notes *notes;
};

static int set_number(const struct parse *p, const struct field *f, const char *value, struct err *e)
{
    char *end;
    errno = 0;
    long v = strtol(value, &end, 10);
    if (end == value || *end || errno || v < f->min || v > f->max)
        return fail_at(e, E_FORMAT, p->d->path, p->line, "%s=%s: expected a whole number in %ld..%ld",
                       f->name, value, f->min, f->max);
    *(int *)((char *)p->d + f->at) = (int)v;
    return OK;
}

/* N, or WxH. */
static int set_size(const struct parse *p, const struct field *f, const char *value, struct err *e)
{
    char *end;
    long w = strtol(value, &end, 10), h = w; /* what does not fit a long is out of range, too */
    int digits = end > value && *value >= '0' && *value <= '9';
    if (digits && *end == 'x' && end[1] >= '0' && end[1] <= '9') h = strtol(end + 1, &end, 10);
    if (!digits || *end || w < f->min || w > f->max || h < f->min || h > f->max)
        return fail_at(e, E_FORMAT, p->d->path, p->line,
                       "%s=%s: expected a side in pixels, or WIDTHxHEIGHT, each in %ld..%ld", f->name, value,
                       f->min, f->max);
    p->d->width = (int)w;
    p->d->height = (int)h;
    return OK;
}

static int set(const struct parse *p, const struct field *f, const char *value, struct err *e)
{
    char **text = (char **)((char *)p->d + f->at);
    switch (f->kind) {
    case NUMBER: return set_number(p, f, value, e);
    case SIZE: return set_size(p, f, value, e);
    case TEXT:
        mem_free(*text); /* the default */
        *text = mem_text(value, strlen(value));
        return *text ? OK : fail(e, E_MEM, "not enough memory");
    case SAMPLING:
        p->d->replacement = !strcmp(value, "replacement");
        if (p->d->replacement || !strcmp(value, "shuffle")) return OK;
        return fail_at(e, E_FORMAT, p->d->path, p->line, "sampling=%s: expected shuffle or replacement",
                       value);
    case REFUSED:
        return fail_at(
            e, E_FORMAT, p->d->path, p->line,
            "`%s=`: class hierarchies and tags are not supported; remove the line to use plain classes",
            f->name);
    case IGNORED: break;
    }
    return OK;
}

/* A # after a blank starts a comment: Darknet would make it part of the value, which nobody has ever meant.
 */
static char *cut_comment(const struct parse *p, const char *key, char *value)
{
    for (char *s = value; *s; s++) {
        if (*s != '#' || (s != value && s[-1] != ' ' && s[-1] != '\t')) continue;
        *s = 0;
        value = text_trim(value);
        note(p->notes, "%s:%d: the comment after `%s=` is ignored: the value is '%s'", p->d->path, p->line,
             key, value);
        break;
    }
    return value;
}

static int parse_line(struct parse *p, char *line, struct err *e)
{
    char *value = strchr(line, '=');
    if (*line == '[')
        return fail_at(e, E_FORMAT, p->d->path, p->line,
                       "found the section %s, expected key = value: "
                       "is this the .cfg in place of the .data file?",
                       line);
    if (!value) return fail_at(e, E_FORMAT, p->d->path, p->line, "found '%.80s', expected key = value", line);
    *value++ = 0;
    char *key = text_trim(line);
    value = cut_comment(p, key, text_trim(value));
    for (int i = 0; i < NFIELDS; i++) {
        if (strcmp(fields[i].name, key)) continue;
        if (p->seen[i]) {
            note(p->notes, "%s:%d: `%s=` again: line %d counts", p->d->path, p->line, key, p->seen[i]);
            return OK;
        }
        p->seen[i] = p->line;
        if (!*value) return fail_at(e, E_FORMAT, p->d->path, p->line, "`%s=` has no value", key);
        return set(p, &fields[i], value, e);
    }
    const char *near = NULL;
    for (int i = 0; i < NFIELDS; i++) near = text_nearer(key, near, fields[i].name);
    note(p->notes, "%s:%d: unknown key `%s=` is ignored%s", p->d->path, p->line, key,
         text_hint("`", near, "=`").text);
    return OK;
}

static int load_names(struct data_file *d, const struct notes *notes, struct err *e)
{
    const char *path = d->names ? d->names : d->labels;
    if (!path) return OK;
    if (d->names) {
        TRY(list_read(&d->name, &d->names_n, path, e));
        if (d->names_n < d->classes)
            return fail_at(e, E_FORMAT, path, 0, "has %d names, but %s says classes=%d: correct one of them",
                           d->names_n, d->path, d->classes);
    } else {
        TRY(labels_read(&d->name, &d->names_n, d, e));
    }
    d->names_n = d->classes; /* Darknet's own lists are longer */
    int i = first_comment(d->name, d->names_n);
    if (i >= 0)
        note(notes, "warning: %s:%d: '%.50s' is taken as the name of class %d: every line is a name", path,
             list_line(path, i), d->name[i], i);
    return OK;
}

static int fill(struct data_file *d, const char *path, const struct notes *notes, struct err *e)
{
    char *text, *line;
    size_t n;
    struct lines l;
    struct parse p = { .d = d, .notes = notes };
    int rc = OK;
    d->classes = 2;
    d->top = 1;
    d->orient = -1;
    d->path = mem_text(path, strlen(path));
    d->backup = mem_text("backup", 6);
    if (!d->path || !d->backup) return fail(e, E_MEM, "not enough memory");
    TRY(text_load(path, 1 << 20, &text, &n, e));
    for (lines_open(&l, text); !rc && (line = lines_next(&l));) {
        p.line = l.number;
        if (*line && *line != '#' && *line != ';') rc = parse_line(&p, line, e);
    }
    mem_free(text);
    if (rc) return rc;
    if (!p.seen[0]) note(notes, "%s: no `classes=`: %d assumed", path, d->classes);
    if (d->top > d->classes) {
        note(notes, "%s: top=%d is more than classes=%d: %d is used", path, d->top, d->classes, d->classes);
        d->top = d->classes;
    }
    for (char *end = d->backup + strlen(d->backup); end - d->backup > 1 && end[-1] == '/';) *--end = 0;
    return load_names(d, notes, e);
}

int data_file_read(struct data_file **out, const char *path, const struct notes *notes, struct err *e)
{
    *out = NULL;
    struct data_file *d = mem_alloc(1, sizeof *d);
    if (!d) return fail(e, E_MEM, "not enough memory");
    int rc = fill(d, path, notes, e);
    if (rc)
        data_file_free(d);
    else
        *out = d;
    return rc;
}

const char *class_name(const struct data_file *d, int k, char buf[16])
{
    if (d->name) return d->name[k];
    snprintf(buf, 16, "%d", k);
    return buf;
}

void data_file_free(struct data_file *d)
{
    if (!d) return;
    for (int i = 0; i < NFIELDS; i++)
        if (fields[i].kind == TEXT) mem_free(*(char **)((char *)d + fields[i].at));
    list_free(d->name);
    mem_free(d->path);
    mem_free(d);
}
