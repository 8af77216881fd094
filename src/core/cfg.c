#include "cfg.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "array.h"
#include "file.h"
#include "mem.h"
#include "text.h"

static int no_memory(struct err *e) { return fail(e, E_MEM, "no memory for the cfg"); }

/* Some of Darknet's cfgs have a comment after a value. A ';' right behind one is none: 400;800 is a mistake.
 */
static int is_comment(const char *s, const char *line)
{
    return *s == '#' || (*s == ';' && (s == line || s[-1] == ']' || isspace((unsigned char)s[-1])));
}

static void drop_blanks_and_comment(char *line)
{
    size_t n = 0, end = 0;
    while (line[end] && !is_comment(line + end, line)) end++;
    for (size_t i = 0; i < end; i++)
        if (!isspace((unsigned char)line[i])) line[n++] = line[i];
    line[n] = 0;
}

static int add_section(struct cfg *c, char *line, int number, struct err *e)
{
    size_t n = strcspn(line, "]");
    if (!line[n] || line[n + 1] || n < 2)
        return fail_at(e, E_CFG, c->path, number,
                       "expected a section name in brackets, such as [net], got '%.60s'", line);
    line[n] = 0;
    if (array_grow(&c->section, (size_t)c->n, sizeof *c->section)) return no_memory(e);
    c->section[c->n++] = (struct cfg_section){ .name = line + 1, .line = number };
    return OK;
}

static int add_entry(struct cfg_section *s, struct cfg_entry entry, struct err *e)
{
    if (array_grow(&s->entry, (size_t)s->n, sizeof *s->entry)) return no_memory(e);
    s->entry[s->n++] = entry;
    return OK;
}

static int add_line(struct cfg *c, char *line, int number, struct err *e)
{
    drop_blanks_and_comment(line);
    if (!*line) return OK;
    if (!c->n && *line == '<')
        return fail_at(e, E_CFG, c->path, number, "this is a web page, not a cfg: download the raw file");
    if (*line == '[') return add_section(c, line, number, e);
    char *eq = strchr(line, '=');
    if (!c->n)
        return fail_at(e, E_CFG, c->path, number,
                       "'%.60s' is outside any section: the first line must be [net]", line);
    if (!eq || eq == line || !eq[1])
        return fail_at(e, E_CFG, c->path, number, "expected key=value, got '%.60s'", line);
    *eq = 0;
    return add_entry(&c->section[c->n - 1],
                     (struct cfg_entry){ .key = line, .value = eq + 1, .line = number }, e);
}

int cfg_is_net(const char *name) { return !strcmp(name, "net") || !strcmp(name, "network"); }

static int parse(struct cfg *c, struct err *e)
{
    struct lines lines;
    lines_open(&lines, c->text);
    for (char *line; (line = lines_next(&lines));) TRY(add_line(c, line, lines.number, e));
    if (!c->n) return fail_at(e, E_CFG, c->path, 0, "the file has no sections: it must begin with [net]");
    if (!cfg_is_net(c->section[0].name))
        return fail_at(e, E_CFG, c->path, c->section[0].line,
                       "the first section must be [net] or [network], not [%.40s]", c->section[0].name);
    return OK;
}

int cfg_parse(struct cfg **out, const char *name, const char *text, size_t n, struct err *e)
{
    struct cfg *c = *out = mem_alloc(1, sizeof *c);
    if (!c) return no_memory(e);
    c->text = mem_text(text, n);
    c->path = mem_text(name, strlen(name));
    int rc = c->text && c->path ? parse(c, e) : no_memory(e);
    if (!rc) return OK;
    cfg_free(c);
    *out = NULL;
    return rc;
}

int cfg_read(struct cfg **out, const char *path, struct err *e)
{
    char *text;
    size_t n;
    *out = NULL;
    TRY(text_load(path, CFG_BYTES, &text, &n, e));
    int rc = cfg_parse(out, path, text, n, e);
    mem_free(text);
    return rc;
}

static int set_entry(struct cfg_section *s, const char *key, const char *value, struct err *e)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->entry[i].key, key)) {
            s->entry[i].value = value;
            s->entry[i].line = 0;
            return OK;
        }
    return add_entry(s, (struct cfg_entry){ .key = key, .value = value }, e);
}

int cfg_override(struct cfg *c, const char *assignment, struct err *e)
{
    if (array_grow(&c->extra, (size_t)c->nextra, sizeof *c->extra)) return no_memory(e);
    char *s = mem_text(assignment, strlen(assignment));
    if (!s) return no_memory(e);
    c->extra[c->nextra++] = s; /* the section points into it */
    drop_blanks_and_comment(s);
    char *dot = strchr(s, '.'), *eq = strchr(s, '=');
    if (!dot || !eq || dot > eq || dot == s || eq == dot + 1 || !eq[1])
        return fail(e, E_ARG, "-set %.80s: expected section.key=value, such as itra.lambda=0.4", assignment);
    *dot = *eq = 0;
    int found = 0;
    for (int i = 0; i < c->n; i++) {
        if (strcmp(c->section[i].name, s) && !(cfg_is_net(s) && cfg_is_net(c->section[i].name))) continue;
        TRY(set_entry(&c->section[i], dot + 1, eq + 1, e));
        found = 1;
    }
    if (found) return OK;
    const char *near = NULL;
    for (int i = 0; i < c->n; i++) near = text_nearer(s, near, c->section[i].name);
    return fail(e, E_ARG, "-set %.80s: %s has no section [%.40s]%s", assignment, c->path, s,
                text_hint("[", near, "]").text);
}

const char *cfg_find(struct cfg_section *s, const char *key, int *line)
{
    const char *value = NULL;
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->entry[i].key, key)) continue;
        s->entry[i].used = 1; /* later duplicates too: they are known keys */
        if (value) continue;
        value = s->entry[i].value;
        if (line) *line = s->entry[i].line;
    }
    return value;
}

void cfg_free(struct cfg *c)
{
    if (!c) return;
    for (int i = 0; i < c->n; i++) mem_free(c->section[i].entry);
    for (int i = 0; i < c->nextra; i++) mem_free(c->extra[i]);
    mem_free(c->section);
    mem_free(c->extra);
    mem_free(c->text);
    mem_free(c->path);
    mem_free(c);
}
