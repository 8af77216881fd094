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

enum { LINE = 4000 }; /* bytes of a line without blanks */

struct stripper {
    const char *path;
    struct cfg *cfg; /* the same text, parsed */
    int *kept;       /* by layer: how many layers up to and including it stay */
    char *out;       /* never longer than the text: numbers of layers only shrink */
    size_t used;
};

static int is_removed(const struct stripper *s, int layer)
{
    return layer >= 0 && s->kept[layer] == (layer ? s->kept[layer - 1] : 0);
}

static void put(struct stripper *s, const char *text, const char *end)
{
    s->used += (size_t)sprintf(s->out + s->used, "%s%s", text, end);
}

/* ---- renumbering ---- */

static int number_layers(struct stripper *s, struct err *e)
{
    int n = s->cfg->n - 1, kept = 0;
    s->kept = mem_alloc((size_t)n, sizeof *s->kept);
    if (!s->kept) return fail(e, E_MEM, "no memory for %d layers", n);
    for (int i = 0; i < n; i++) {
        const struct cfg_section *x = &s->cfg->section[i + 1];
        const struct layer_ops *ops = layer_find(x->name);
        if (!ops) return fail_at(e, E_CFG, s->path, x->line, "unknown section [%.60s]", x->name);
        s->kept[i] = kept += !(ops->flags & LAYER_TRAIN_ONLY);
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

/* Rewrites a comma-separated list; *changed says whether any number is another one now. `out` has room for as
 * many bytes as the list. */
static int renumber_list(const struct stripper *s, int layer, int line, const char *list, char *out,
                         int *changed, struct err *e)
{
    for (const char *at = list; *at && *at != '#';) {
        char *end;
        long v = strtol(at, &end, 10), to = 0;
        if (end == at || (*end && *end != ',' && *end != '#'))
            return fail_at(e, E_CFG, s->path, line, "'%.40s': expected numbers of layers", list);
        TRY(renumber(s, layer, line, v, &to, e));
        *changed |= to != v;
        out += sprintf(out, "%s%ld", at == list ? "" : ",", to);
        at = end + (*end == ',');
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

/* The key of a line that refers to layers, or NULL. */
static const struct key *find_reference(const struct cfg_section *section, const char *squeezed)
{
    size_t n = strcspn(squeezed, "=");
    for (const struct key *k = layer_find(section->name)->keys; k && k->name; k++)
        if (k->type == KEY_REFS && strlen(k->name) == n && !strncmp(k->name, squeezed, n)) return k;
    return NULL;
}

static int put_key(struct stripper *s, int layer, int number, const char *line, const char *squeezed,
                   struct err *e)
{
    char list[LINE];
    int changed = 0;
    const struct key *k = layer < 0 ? NULL : find_reference(&s->cfg->section[layer + 1], squeezed);
    if (k) TRY(renumber_list(s, layer, number, squeezed + strlen(k->name) + 1, list, &changed, e));
    if (changed) put(s, k->name, "=");
    put(s, changed ? list : line, "\n");
    return OK;
}

/* Empty lines and comments below the last key of a section belong to what follows: they are held back until
 * it is known whether a key comes after them. */
struct held {
    const char **line;
    int n;
};

static void put_held(struct stripper *s, struct held *h)
{
    for (int i = 0; i < h->n; i++) put(s, h->line[i], "\n");
    h->n = 0;
}

static int strip_lines(struct stripper *s, char *text, struct held *h, struct err *e)
{
    struct lines l;
    char squeezed[LINE];
    int layer = -2; /* -1: in [net] */
    lines_open(&l, text);
    for (char *line; (line = lines_next(&l));) {
        squeeze(squeezed, sizeof squeezed, line);
        if (!squeezed[0] || squeezed[0] == '#' || squeezed[0] == ';') {
            h->line[h->n++] = line;
            continue;
        }
        int opens = squeezed[0] == '[', was_removed = is_removed(s, layer);
        layer += opens;
        int removed = is_removed(s, layer);
        if (removed && was_removed && !opens) h->n = 0; /* a comment between keys that go */
        if (removed && !opens) continue;
        put_held(s, h);
        if (!removed) TRY(put_key(s, opens ? -1 : layer, l.number, line, squeezed, e));
    }
    put_held(s, h);
    return OK;
}

static int strip_text(struct stripper *s, char *text, size_t n, struct err *e)
{
    size_t lines = 1;
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n' || text[i] == '\r';
    struct held h = { mem_alloc(lines, sizeof *h.line), 0 };
    s->out = mem_alloc(n + 2, 1); /* the last line may have no line feed yet */
    int rc =
        h.line && s->out ? strip_lines(s, text, &h, e) : fail(e, E_MEM, "no memory for %zu lines", lines);
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
        fputs(s->out, stdout);
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
    cfg_free(s.cfg);
    return rc;
}
