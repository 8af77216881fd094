#include "options.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text.h"

static int is_list(const struct key *k) { return k->type == KEY_LIST || k->type == KEY_REFS; }

/* The number at the start of s, which must end there, or at a comma when `item`. Returns what follows, or
 * NULL if this is no number in the key's range. */
static const char *read_number(const struct key *k, const char *s, int item, double *v)
{
    char *end;
    int whole = k->type == KEY_INT || k->type == KEY_REFS;
    *v = text_number(s, &end);
    if (end == s || !isfinite(*v) || *v < k->min || *v > k->max || (whole && *v != floor(*v))) return NULL;
    return !*end || (item && *end == ',') ? end : NULL;
}

static void describe_expected(const struct key *k, char *buf, size_t size)
{
    static const char *const kind[] = { [KEY_INT] = "a whole number",
                                        [KEY_REAL] = "a number",
                                        [KEY_EITHER] = "a number",
                                        [KEY_LIST] = "numbers separated by commas, each",
                                        [KEY_REFS] = "whole numbers separated by commas, each" };
    size_t n = 0;
    buf[0] = 0;
    for (int i = 0; k->words && k->words[i] && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "", k->words[i]);
    if (k->type == KEY_WORD || n >= size) return;
    n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? " or " : "", kind[k->type]);
    if (n >= size) return;
    if (k->max < 1e30 && (k->type != KEY_INT || k->max < INT_MAX))
        snprintf(buf + n, size - n, " in [%.10g, %.10g]", k->min, k->max);
    else if (k->min > -1e9)
        snprintf(buf + n, size - n, " of at least %.10g", k->min);
}

static int find_word(const struct key *k, const char *value)
{
    for (int i = 0; k->words && k->words[i]; i++)
        if (!strcmp(k->words[i], value)) return i;
    return -1;
}

static void store_number(const struct key *k, void *self, double v)
{
    char *at = (char *)self + k->at;
    if (k->type == KEY_INT || k->type == KEY_WORD)
        *(int *)(void *)at = (int)v;
    else
        *(double *)(void *)at = v;
}

static void store_list(const struct key *k, void *self, struct list list)
{
    *(struct list *)(void *)((char *)self + k->at) = list;
}

/* Checks a value and stores it. Returns 0 if it is not what the key expects. */
static int store(const struct key *k, void *self, const char *value)
{
    double v;
    if (!is_list(k)) {
        int word = find_word(k, value);
        if (word >= 0)
            v = k->type == KEY_WORD ? word : -1 - word;
        else if (k->type == KEY_WORD || !read_number(k, value, 0, &v))
            return 0;
        store_number(k, self, v);
        return 1;
    }
    struct list list = { value, 0 };
    for (const char *s = value; s; s = *s == ',' ? s + 1 : NULL) {
        if (list.n && !*s) break; /* a comma at the end, as in stock cfgs */
        if (!(s = read_number(k, s, 1, &v))) return 0;
        list.n++;
    }
    store_list(k, self, list);
    return 1;
}

double list_at(const struct list *l, int i)
{
    const char *s = l->text;
    while (i-- > 0) s = strchr(s, ',') + 1;
    return text_number(s, NULL);
}

int options_fill(void *self, const struct key *keys, const char *path, struct cfg_section *s, struct err *e)
{
    for (const struct key *k = keys; k && k->name; k++) {
        if (is_list(k))
            store_list(k, self, (struct list){ NULL, 0 });
        else
            store_number(k, self, k->fallback);
        int line;
        const char *value = cfg_find(s, k->name, &line), *near = NULL;
        if (!value || store(k, self, value)) continue;
        char expected[240];
        describe_expected(k, expected, sizeof expected);
        for (int i = 0; k->words && k->words[i]; i++) near = text_nearer(value, near, k->words[i]);
        return fail_at(e, E_CFG, line ? path : "-set", line, "[%s] %s=%.60s: expected %s%s", s->name, k->name,
                       value, expected, text_hint("", near, "").text);
    }
    return OK;
}

/* Of two equal keys the first counts, which is hardly what the author of the second meant. No complaint where
 * -set has overridden it. */
static int twice(int strict, const char *path, const struct cfg_section *s, int i, const struct notes *notes,
                 struct err *e)
{
    const struct cfg_entry *x = &s->entry[i];
    int k = 0;
    while (strcmp(s->entry[k].key, x->key)) k++;
    if (k == i || !s->entry[k].line) return OK;
    if (strict)
        return fail_at(e, E_CFG, path, x->line, "[%s] %.40s= is in line %d already: keep one of them",
                       s->name, x->key, s->entry[k].line);
    note(notes, "%s:%d: [%s] %.40s= is in line %d already, and that one counts", path, x->line, s->name,
         x->key, s->entry[k].line);
    return OK;
}

int options_unused(const struct key *const *tables, int strict, const char *path, const struct cfg_section *s,
                   const struct notes *notes, struct err *e)
{
    for (int i = 0; i < s->n; i++) {
        const struct cfg_entry *x = &s->entry[i];
        TRY(twice(strict, path, s, i, notes, e));
        if (x->used) continue;
        const char *near = NULL;
        for (const struct key *const *t = tables; *t; t++)
            for (const struct key *k = *t; k->name; k++) near = text_nearer(x->key, near, k->name);
        struct hint hint = text_hint("", near, "");
        if (strict || !x->line)
            return fail_at(e, E_CFG, x->line ? path : "-set", x->line,
                           "[%s] has no key '%.40s'%s (see: darknet help %s)", s->name, x->key, hint.text,
                           s->name);
        note(notes, "%s:%d: unused key '%.40s' in [%s]%s", path, x->line, x->key, s->name, hint.text);
    }
    return OK;
}

void options_describe(const struct key *k, char *buf, size_t size)
{
    char expected[200], fallback[60];
    describe_expected(k, expected, sizeof expected);
    if (is_list(k))
        snprintf(fallback, sizeof fallback, "none");
    else if (k->type == KEY_WORD)
        snprintf(fallback, sizeof fallback, "%s", k->words[(int)k->fallback]);
    else if (k->type == KEY_EITHER && k->fallback < 0)
        snprintf(fallback, sizeof fallback, "%s", k->words[(int)(-1 - k->fallback)]);
    else
        snprintf(fallback, sizeof fallback, "%.9g", k->fallback);
    snprintf(buf, size, "%s: %s [%s; default %s]", k->name, k->help, expected, fallback);
}
