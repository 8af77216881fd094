/* strip: the cfg without the sections that only training uses. Works on the text, so that comments and
 * spacing stay; numbers that refer to layers are corrected. Lines end in LF and there is no byte-order mark,
 * as pjreddie's reader needs it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cli/cli.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"

static const size_t cfg_limit = (size_t)1 << 26;

struct stripper {
    struct cfg *cfg;    /* the text, parsed: tells what stands on which line */
    struct lines lines; /* of the text */
    int *kept;          /* by layer: how many layers up to and including it stay */
    char *out;          /* never longer than the text: numbers of layers only shrink */
    size_t used;
    struct file file; /* that it goes to */
};

static void put(struct stripper *s, const char *text, const char *end)
{
    s->used += (size_t)sprintf(s->out + s->used, "%s%s", text, end);
}

static int number_layers(struct stripper *s, struct err *e)
{
    int n = s->cfg->n - 1, kept = 0;
    s->kept = mem_alloc((size_t)n, sizeof *s->kept);
    if (!s->kept) return fail(e, E_MEM, "no memory for %d layers", n);
    for (int i = 0; i < n; i++) {
        const struct cfg_section *x = &s->cfg->section[i + 1];
        const struct layer_ops *ops = layer_find(x->name);
        if (!ops) return fail_at(e, E_CFG, s->cfg->path, x->line, "unknown section [%.60s]", x->name);
        s->kept[i] = kept += !(ops->flags & LAYER_TRAIN_ONLY);
    }
    return OK;
}

/* A removed layer passes its input on: what referred to it refers to the layer before it. Relative numbers
 * stay relative. */
static int renumber(const struct stripper *s, int layer, int line, long v, long *to, struct err *e)
{
    const char *path = s->cfg->path;
    long target = v < 0 ? layer + v : v;
    if (target < 0 || target >= layer)
        return fail_at(e, E_CFG, path, line, "layer %ld is not one of those before layer %d", v, layer);
    long now = s->kept[target] - 1, self = s->kept[layer] - 1;
    if (now < 0)
        return fail_at(e, E_CFG, path, line, "layer %ld would mean the input of the net once stripped", v);
    *to = v < 0 ? now - self : now;
    return OK;
}

/* Writes a key whose value is a list of layers: the line as it was (`text`) if no number changes. */
static int put_list(struct stripper *s, int layer, const struct cfg_entry *x, const char *text, struct err *e)
{
    size_t start = s->used;
    int changed = 0;
    put(s, x->key, "=");
    for (const char *at = x->value; *at;) {
        char *end;
        long v = strtol(at, &end, 10), to = 0;
        if (end == at || (*end && *end != ','))
            return fail_at(e, E_CFG, s->cfg->path, x->line, "'%.40s': expected numbers of layers", x->value);
        TRY(renumber(s, layer, x->line, v, &to, e));
        changed |= to != v;
        s->used += (size_t)sprintf(s->out + s->used, "%s%ld", at == x->value ? "" : ",", to);
        at = end + (*end == ',');
    }
    if (!changed) {
        s->used = start;
        put(s, text, "");
    }
    put(s, "", "\n");
    return OK;
}

static int is_list(const struct layer_ops *ops, const char *key)
{
    for (const struct key *k = ops->keys; k && k->name; k++)
        if (k->type == KEY_REFS && !strcmp(k->name, key)) return 1;
    return 0;
}

/* Copies the comments and empty lines before line `number`, which it returns (NULL: the end). */
static const char *go_to(struct stripper *s, int number)
{
    const char *line;
    while ((line = lines_next(&s->lines)) && s->lines.number < number) put(s, line, "\n");
    return line;
}

/* Comments above a section stay when it goes; those between its keys go with it. */
static int strip_section(struct stripper *s, int layer, const struct cfg_section *x, struct err *e)
{
    int stays = layer < 0 || s->kept[layer] > (layer ? s->kept[layer - 1] : 0);
    const char *line = go_to(s, x->line);
    if (stays) put(s, line, "\n");
    for (int i = 0; i < x->n; i++) {
        size_t start = s->used;
        line = go_to(s, x->entry[i].line);
        if (!stays)
            s->used = start;
        else if (layer >= 0 && is_list(layer_find(x->name), x->entry[i].key))
            TRY(put_list(s, layer, &x->entry[i], line, e));
        else
            put(s, line, "\n");
    }
    return OK;
}

static int strip(struct stripper *s, char *text, size_t n, const char *path, struct err *e)
{
    TRY(cfg_parse(&s->cfg, path, text, n, e));
    TRY(number_layers(s, e));
    s->out = mem_alloc(n + 2, 1); /* the last line may have no line feed yet */
    if (!s->out) return fail(e, E_MEM, "no memory for %zu bytes", n);
    lines_open(&s->lines, text);
    for (int i = 0; i < s->cfg->n; i++) TRY(strip_section(s, i - 1, &s->cfg->section[i], e));
    go_to(s, INT_MAX);
    return OK;
}

/* strip writes no such section: with CFG and OUT the wrong way round, the user's own would be lost. */
static int spare_training(const struct cfg *there, struct err *e)
{
    for (int i = 1; i < there->n; i++) {
        const struct cfg_section *x = &there->section[i];
        const struct layer_ops *ops = layer_find(x->name);
        if (ops && ops->flags & LAYER_TRAIN_ONLY)
            return fail_at(e, E_FILE, there->path, x->line,
                           "exists and has [%.60s], which strip takes out: remove it, or name it first",
                           x->name);
    }
    return OK;
}

/* Only a cfg is replaced, or what is empty. */
static int spare_others(const char *path, struct err *e)
{
    struct cfg *there = NULL;
    struct stat st;
    if (stat(path, &st) || !st.st_size) return OK;
    int rc = cfg_read(&there, path, NULL);
    rc = rc ? fail_at(e, E_FILE, path, 0, "exists and is not a cfg: remove it, or choose another name")
            : spare_training(there, e);
    cfg_free(there);
    return rc;
}

static int write_out(struct stripper *s, const char *path, struct err *e)
{
    if (!path) {
        fwrite(s->out, 1, s->used, stdout);
        return OK;
    }
    TRY(spare_others(path, e));
    TRY(file_create(&s->file, path, e));
    TRY(file_write(&s->file, s->out, s->used, e));
    return file_commit(&s->file, e);
}

int cli_strip(const struct cli *c, struct err *e)
{
    struct stripper s = { .used = 0 };
    char *text;
    size_t n;
    TRY(text_load(c->arg[0], cfg_limit, &text, &n, e));
    int rc = strip(&s, text, n, c->arg[0], e);
    if (!rc) rc = write_out(&s, c->narg > 1 ? c->arg[1] : NULL, e);
    file_abort(&s.file);
    mem_free(s.out);
    mem_free(s.kept);
    cfg_free(s.cfg);
    mem_free(text);
    return rc;
}
