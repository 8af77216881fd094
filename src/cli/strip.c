/* strip: the cfg without the sections that only training knows. Works on the text, so that comments and
 * spacing stay; numbers that refer to layers are corrected. Lines end in LF and there is no byte-order mark,
 * as pjreddie's reader needs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

static const size_t cfg_limit = (size_t)1 << 26;

struct stripper {
    const char *path;
    struct cfg *cfg; /* the same text, parsed */
    int *removed;    /* by layer */
    int *kept;       /* by layer: how many layers up to and including it stay */
    int n;           /* layers */
    char *out;
    size_t used, capacity;
};

/* ---- output ---- */

static int put(struct stripper *s, const char *text, struct err *e)
{
    size_t n = strlen(text);
    if (s->used + n + 1 > s->capacity) {
        size_t capacity = 2 * s->capacity + n + 1;
        char *more = mem_alloc(capacity, 1);
        if (!more) return fail(e, E_MEM, "no memory for a cfg of %zu bytes", capacity);
        if (s->used) memcpy(more, s->out, s->used);
        mem_free(s->out);
        s->out = more;
        s->capacity = capacity;
    }
    memcpy(s->out + s->used, text, n + 1);
    s->used += n;
    return OK;
}

static int put_line(struct stripper *s, const char *text, struct err *e)
{
    TRY(put(s, text, e));
    return put(s, "\n", e);
}

/* ---- renumbering ---- */

static int number_layers(struct stripper *s, struct err *e)
{
    int kept = 0;
    s->n = s->cfg->n - 1;
    s->removed = mem_alloc((size_t)s->n, sizeof *s->removed);
    s->kept = mem_alloc((size_t)s->n, sizeof *s->kept);
    if (!s->removed || !s->kept) return fail(e, E_MEM, "no memory for %d layers", s->n);
    for (int i = 0; i < s->n; i++) {
        const struct cfg_section *x = &s->cfg->section[i + 1];
        const struct layer_ops *ops = layer_find(x->name);
        if (!ops) return fail_at(e, E_CFG, s->path, x->line, "unknown section [%.60s]", x->name);
        s->removed[i] = (ops->flags & LAYER_TRAIN_ONLY) != 0;
        s->kept[i] = kept += !s->removed[i];
    }
    return OK;
}

/* A removed layer passes its input on: what referred to it refers to the layer before it. Relative numbers
 * stay relative. */
static int renumber(const struct stripper *s, int layer, int line, long v, long *to, struct err *e)
{
    long target = v < 0 ? layer + v : v;
    if (target < 0 || target >= layer)
        return fail_at(e, E_CFG, s->path, line, "layer %ld is not one of those before layer %d", v, layer);
    long now = s->kept[target] - 1, self = s->kept[layer] - 1;
    if (now < 0)
        return fail_at(e, E_CFG, s->path, line, "layer %ld stands for the input of the net once stripped", v);
    *to = v < 0 ? now - self : now;
    return OK;
}

/* Rewrites a comma-separated list; *changed says whether any number is another one now. */
static int renumber_list(const struct stripper *s, int layer, int line, const char *list, char *out,
                         size_t capacity, int *changed, struct err *e)
{
    size_t n = 0;
    *changed = 0;
    for (const char *at = list; *at && *at != '#';) {
        char *end;
        long v = strtol(at, &end, 10), to = 0;
        if (end == at) return fail_at(e, E_CFG, s->path, line, "'%.40s': expected numbers of layers", list);
        TRY(renumber(s, layer, line, v, &to, e));
        *changed |= to != v;
        n += (size_t)snprintf(out + n, n < capacity ? capacity - n : 0, "%s%ld", n ? "," : "", to);
        if (n >= capacity) return fail_at(e, E_CFG, s->path, line, "the list of layers is too long");
        at = end + (*end == ',');
        if (end == at && *at && *at != '#')
            return fail_at(e, E_CFG, s->path, line, "'%.40s': expected numbers of layers", list);
    }
    return OK;
}

/* ---- lines ---- */

/* The line without any blanks, as the cfg's reader sees it. */
static void squeeze(char *to, size_t capacity, const char *line)
{
    size_t n = 0;
    for (; *line && n + 1 < capacity; line++)
        if (*line != ' ' && *line != '\t' && *line != '\r') to[n++] = *line;
    to[n] = 0;
}

static int refers(const struct cfg_section *section, const char *squeezed)
{
    const struct layer_ops *ops = layer_find(section->name);
    if (!strcmp(ops->name, "route")) return !strncmp(squeezed, "layers=", 7);
    return !strcmp(ops->name, "shortcut") && !strncmp(squeezed, "from=", 5);
}

static int put_key(struct stripper *s, int layer, int number, const char *line, const char *squeezed,
                   struct err *e)
{
    char list[2000];
    int changed = 0;
    const char *equals = strchr(squeezed, '=');
    if (layer < 0 || !equals || !refers(&s->cfg->section[layer + 1], squeezed)) return put_line(s, line, e);
    TRY(renumber_list(s, layer, number, equals + 1, list, sizeof list, &changed, e));
    if (!changed) return put_line(s, line, e);
    TRY(put(s, strchr(squeezed, 'l') == squeezed ? "layers=" : "from=", e));
    return put_line(s, list, e);
}

/* Empty lines and comments below the last key of a section belong to what follows: they are held back until
 * it is known whether a key comes after them. */
struct held {
    const char **line;
    int n;
};

static int put_held(struct stripper *s, struct held *h, struct err *e)
{
    for (int i = 0; i < h->n; i++) TRY(put_line(s, h->line[i], e));
    h->n = 0;
    return OK;
}

static int strip_lines(struct stripper *s, char *text, struct held *h, struct err *e)
{
    struct lines l;
    char squeezed[4000];
    int layer = -2; /* -1: in [net] */
    lines_open(&l, text);
    for (char *line; (line = lines_next(&l));) {
        squeeze(squeezed, sizeof squeezed, line);
        if (!squeezed[0] || squeezed[0] == '#' || squeezed[0] == ';') {
            h->line[h->n++] = line;
            continue;
        }
        int opens = squeezed[0] == '[', was_removed = layer >= 0 && s->removed[layer];
        layer += opens;
        int removed = layer >= 0 && s->removed[layer];
        if (removed && was_removed && !opens) h->n = 0; /* a comment between keys that go */
        if (removed && !opens) continue;
        TRY(put_held(s, h, e));
        if (!removed) TRY(put_key(s, opens ? -1 : layer, l.number, line, squeezed, e));
    }
    return put_held(s, h, e);
}

static int strip_text(struct stripper *s, char *text, size_t n, struct err *e)
{
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n' || text[i] == '\r';
    struct held h = { mem_alloc(lines, sizeof *h.line), 0 };
    if (!h.line) return fail(e, E_MEM, "no memory for %zu lines", lines);
    int rc = strip_lines(s, text, &h, e);
    mem_free(h.line);
    return rc;
}

/* ---- the command ---- */

static int strip(struct stripper *s, struct err *e)
{
    char *text;
    size_t n;
    TRY(text_load(s->path, cfg_limit, &text, &n, e));
    int rc = cfg_parse(&s->cfg, s->path, text, n, e);
    if (!rc) rc = number_layers(s, e);
    if (!rc) rc = strip_text(s, text, n, e);
    mem_free(text);
    return rc;
}

static int write_out(const struct stripper *s, const char *path, struct err *e)
{
    struct file f;
    if (!path) {
        fputs(s->out ? s->out : "", stdout);
        return OK;
    }
    TRY(file_create(&f, path, e));
    int rc = file_write(&f, s->out, s->used, e);
    if (!rc) rc = file_commit(&f, e);
    file_abort(&f);
    return rc;
}

int cli_strip(const struct cli *c, struct err *e)
{
    struct stripper s = { .path = c->arg[0] };
    int rc = strip(&s, e);
    if (!rc) rc = write_out(&s, c->narg > 1 ? c->arg[1] : NULL, e);
    mem_free(s.out);
    mem_free(s.kept);
    mem_free(s.removed);
    cfg_free(s.cfg);
    return rc;
}
