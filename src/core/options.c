#include "options.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text.h"

/* Where a value came from, for messages. */
struct place {
    const char *path, *section, *key;
    int line;
};

static int bad(struct err *e, const struct place *p, const char *value, const char *expected)
{
    const char *path = p->line ? p->path : "-set";
    return fail_at(e, E_CFG, path, p->line, "[%s] %s=%.60s: expected %s", p->section, p->key, value,
                   expected);
}

/* The number at the start of s, which must end there, at a comma when `item`, or at a '#' (Darknet's cfgs
 * have such remarks). Returns what follows, or NULL. */
static const char *number(const char *s, int item, double *v)
{
    char *end;
    *v = text_number(s, &end);
    if (end == s || !isfinite(*v)) return NULL;
    return !*end || *end == '#' || (item && *end == ',') ? end : NULL;
}

static void describe_range(const struct key *k, char *buf, size_t size)
{
    const char *kind = k->type == KEY_INT ? "a whole number" : "a number";
    if (k->type == KEY_LIST) kind = "numbers separated by commas, each";
    if (k->type == KEY_REFS) kind = "whole numbers separated by commas, each";
    if (k->max >= 1e30 || (k->type == KEY_INT && k->max >= INT_MAX))
        snprintf(buf, size, k->min <= -1e9 ? "%s" : "%s of at least %.9g", kind, k->min);
    else
        snprintf(buf, size, "%s in [%.9g, %.9g]", kind, k->min, k->max);
}

static void describe_words(const struct key *k, char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = 0;
    for (int i = 0; k->words[i] && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "", k->words[i]);
}

static void describe_expected(const struct key *k, char *buf, size_t size)
{
    size_t n;
    switch (k->type) {
    case KEY_WORD: describe_words(k, buf, size); return;
    case KEY_EITHER:
        describe_words(k, buf, size);
        n = strlen(buf);
        if (n + 4 >= size) return;
        snprintf(buf + n, size - n, " or ");
        describe_range(k, buf + n + 4, size - n - 4);
        return;
    case KEY_INT:
    case KEY_REAL:
    case KEY_REFS:
    case KEY_LIST: describe_range(k, buf, size); return;
    }
}

static int find_word(const struct key *k, const char *value)
{
    size_t n = strcspn(value, "#"); /* a remark may follow, as behind numbers */
    for (int i = 0; k->words[i]; i++)
        if (!strncmp(k->words[i], value, n) && !k->words[i][n]) return i;
    return -1;
}

static int in_range(const struct key *k, double v) { return v >= k->min && v <= k->max; }

/* Checks a value and stores it. Returns 0 if it is not what the key expects. */
static int store(const struct key *k, void *self, const char *value)
{
    char *at = (char *)self + k->at;
    double v = 0;
    int word = k->words ? find_word(k, value) : -1;
    switch (k->type) {
    case KEY_WORD:
        if (word >= 0) *(int *)(void *)at = word;
        return word >= 0;
    case KEY_EITHER:
        if (word >= 0)
            v = -1 - word;
        else if (!number(value, 0, &v) || !in_range(k, v))
            return 0;
        *(double *)(void *)at = v;
        return 1;
    case KEY_INT:
        if (!number(value, 0, &v) || !in_range(k, v) || v != floor(v)) return 0;
        *(int *)(void *)at = (int)v;
        return 1;
    case KEY_REAL:
        if (!number(value, 0, &v) || !in_range(k, v)) return 0;
        *(double *)(void *)at = v;
        return 1;
    case KEY_REFS:
    case KEY_LIST: break;
    }
    struct list list = { value, 0 };
    for (const char *s = value; s; s = *s == ',' ? s + 1 : NULL) {
        if (list.n && !*s) break; /* a comma at the end, as in stock cfgs */
        if (!(s = number(s, 1, &v)) || !in_range(k, v) || (k->type == KEY_REFS && v != floor(v))) return 0;
        list.n++;
    }
    *(struct list *)(void *)at = list;
    return 1;
}

double list_at(const struct list *l, int i)
{
    const char *s = l->text;
    while (i-- > 0) s = strchr(s, ',') + 1;
    return text_number(s, NULL);
}

static void set_default(const struct key *k, void *self)
{
    char *at = (char *)self + k->at;
    switch (k->type) {
    case KEY_INT:
    case KEY_WORD: *(int *)(void *)at = (int)k->fallback; break;
    case KEY_REAL:
    case KEY_EITHER: *(double *)(void *)at = k->fallback; break;
    case KEY_REFS:
    case KEY_LIST: *(struct list *)(void *)at = (struct list){ NULL, 0 }; break;
    }
}

int options_fill(void *self, const struct key *keys, const char *path, struct cfg_section *s, struct err *e)
{
    for (const struct key *k = keys; k && k->name; k++) {
        set_default(k, self);
        struct place place = { path, s->name, k->name, 0 };
        const char *value = cfg_find(s, k->name, &place.line);
        if (!value || store(k, self, value)) continue;
        char expected[240];
        describe_expected(k, expected, sizeof expected);
        const char *near = k->words ? text_nearest(value, k->words, (size_t)-1, sizeof *k->words) : NULL;
        if (near) {
            size_t n = strlen(expected);
            snprintf(expected + n, sizeof expected - n, "; did you mean %s?", near);
        }
        return bad(e, &place, value, expected);
    }
    return OK;
}

static const char *nearest_key(const struct key *const *tables, const char *word)
{
    for (; *tables; tables++) {
        const char *near = text_nearest(word, &(*tables)->name, (size_t)-1, sizeof **tables);
        if (near) return near;
    }
    return NULL;
}

/* The first of two equal keys counts: hardly what somebody meant who wrote the second. One that was
 * overridden is as it was meant. */
static int twice(int strict, const char *path, const struct cfg_section *s, int i, const struct notes *notes,
                 struct err *e)
{
    const struct cfg_entry *x = &s->entry[i];
    int k = 0;
    while (strcmp(s->entry[k].key, x->key)) k++;
    if (k == i || !s->entry[k].line) return OK;
    if (strict)
        return fail_at(e, E_CFG, path, x->line, "[%s] %.40s= stands in line %d too: keep one of them",
                       s->name, x->key, s->entry[k].line);
    note(notes, "%s:%d: [%s] %.40s= stands in line %d too: that one counts", path, x->line, s->name, x->key,
         s->entry[k].line);
    return OK;
}

int options_unused(const struct key *const *tables, int strict, const char *path, const struct cfg_section *s,
                   const struct notes *notes, struct err *e)
{
    for (int i = 0; i < s->n; i++) {
        const struct cfg_entry *x = &s->entry[i];
        TRY(twice(strict, path, s, i, notes, e));
        if (x->used) continue;
        const char *near = nearest_key(tables, x->key);
        char hint[80] = "";
        if (near) snprintf(hint, sizeof hint, "; did you mean %s?", near);
        if (strict || !x->line)
            return fail_at(e, E_CFG, x->line ? path : "-set", x->line,
                           "[%s] has no key '%.40s'%s (see: darknet help %s)", s->name, x->key, hint,
                           s->name);
        note(notes, "%s:%d: unused key '%.40s' in [%s]%s", path, x->line, x->key, s->name, hint);
    }
    return OK;
}

void options_describe(const struct key *k, char *buf, size_t size)
{
    char expected[200], fallback[60];
    describe_expected(k, expected, sizeof expected);
    if (k->type == KEY_LIST || k->type == KEY_REFS)
        snprintf(fallback, sizeof fallback, "none");
    else if (k->type == KEY_WORD)
        snprintf(fallback, sizeof fallback, "%s", k->words[(int)k->fallback]);
    else if (k->type == KEY_EITHER && k->fallback < 0)
        snprintf(fallback, sizeof fallback, "%s", k->words[(int)(-1 - k->fallback)]);
    else
        snprintf(fallback, sizeof fallback, "%.9g", k->fallback);
    snprintf(buf, size, "%s: %s [%s; default %s]", k->name, k->help, expected, fallback);
}
