/* A line a convolution: "CANDIDATE ENGINE WORKSPACE KEY", the key being its numbers, the card and the
 * libraries. */
#include "engine_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/file.h"
#include "core/mem.h"

#define HEAD "engines chosen by darknet-itra, 1\n"

enum { PATH = 4096, LINE = 1024, LIMIT = 4 << 20 /* bytes */ };

struct engine_file {
    char path[PATH];     /* "": there is no file */
    char card[LINE / 2]; /* and the libraries */
};

/* ---- the file ---- */

static void find_path(char *path)
{
    const char *file = getenv("DARKNET_ENGINES"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[PATH];
    int n;
    *path = 0;
    if (file)
        n = snprintf(path, PATH, "%s", file);
    else if (cache && *cache == '/')
        n = snprintf(path, PATH, "%s/darknet-itra/engines", cache);
    else if (home && *home == '/')
        n = snprintf(path, PATH, "%s/.cache/darknet-itra/engines", home);
    else
        return;
    if (n >= PATH) *path = 0;
    if (file || !*path) return;
    snprintf(folder, sizeof folder, "%.*s", n - (int)sizeof "/engines" + 1, path);
    if (folder_prepare(folder, NULL)) *path = 0; /* the cache itself is not made here */
}

/* What is in the line behind its first three numbers; NULL: it is none of ours. */
static const char *parse(const char *line, struct stored_engine *g)
{
    int n = 0;
    if (sscanf(line, "%9d %18lld %18lld %n", &g->candidate, &g->engine, &g->workspace, &n) != 3 || !n ||
        g->candidate < 0 || g->workspace < 0)
        return NULL;
    return line + n;
}

/* The lines behind the head: empty where there is no file. E_FORMAT: another file, or a damaged one. */
static int load(const char *path, char **text, char **lines)
{
    size_t n;
    struct stored_engine g;
    *text = *lines = NULL;
    if (access(path, F_OK)) return (*text = *lines = mem_text("", 0)) ? OK : E_MEM;
    TRY(text_load(path, LIMIT, text, &n, NULL));
    if (strncmp(*text, HEAD, strlen(HEAD))) return E_FORMAT;
    *lines = *text + strlen(HEAD);
    for (char *at = *lines, *end; *at; at = end + 1) {
        end = strchr(at, '\n');
        if (!end || end - at >= LINE || !parse(at, &g)) return E_FORMAT;
    }
    return OK;
}

/* What a line of this convolution on this card ends with. */
static void print_key(const struct engine_file *s, const struct cudnn_conv *c, char key[LINE])
{
    snprintf(key, LINE, "%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %s\n", c->pass, c->bf16, c->tf32,
             c->n, c->c, c->h, c->w, c->filters, c->oh, c->ow, c->size, c->dilation, c->stride_y, c->stride_x,
             c->pad, c->groups, c->add, s->card);
}

/* The line with this key, or NULL. */
static char *find(char *lines, const char *key, struct stored_engine *g)
{
    for (char *at = lines; *at; at = strchr(at, '\n') + 1) {
        const char *rest = parse(at, g);
        if (!strncmp(rest, key, strlen(key))) return at;
    }
    return NULL;
}

/* ---- open, find, put ---- */

int engine_file_open(struct engine_file **out, const char *card, const char *libraries, char *note,
                     size_t size, struct err *e)
{
    struct engine_file *s = *out = mem_alloc(1, sizeof *s);
    char *text, *lines;
    *note = 0;
    if (!s) return fail(e, E_MEM, "no memory to open the GPU");
    snprintf(s->card, sizeof s->card, "%s, %s", card, libraries);
    find_path(s->path);
    if (!*s->path) return OK;
    int rc = load(s->path, &text, &lines);
    if (rc == E_FORMAT)
        snprintf(note, size, "%s is damaged, or no file of chosen engines: it is ignored%s", s->path,
                 lines ? "" : "; delete it, or give another as DARKNET_ENGINES=");
    else if (rc)
        snprintf(note, size, "%s cannot be read: engines are chosen anew", s->path);
    if (rc && !lines) *s->path = 0;
    mem_free(text);
    return OK;
}

void engine_file_close(struct engine_file *s) { mem_free(s); }

int engine_file_find(const struct engine_file *s, const struct cudnn_conv *c, struct stored_engine *g)
{
    char *text, *lines, key[LINE];
    if (!*s->path) return 0;
    print_key(s, c, key);
    int found = !load(s->path, &text, &lines) && find(lines, key, g);
    mem_free(text);
    return found;
}

void engine_file_put(struct engine_file *s, const struct cudnn_conv *c, const struct stored_engine *g)
{
    char *text, *lines, key[LINE];
    struct stored_engine old_engine;
    struct file f;
    if (!*s->path) return;
    print_key(s, c, key);
    int rc = load(s->path, &text, &lines);
    char *old = rc ? NULL : find(lines, key, &old_engine), *behind = old ? strchr(old, '\n') + 1 : NULL;
    int first = rc ? 0 : (int)(old ? old - lines : (long)strlen(lines));
    if ((!rc || lines) && !file_create(&f, s->path, NULL)) { /* damaged lines are dropped */
        rc = file_print(&f, NULL, HEAD "%.*s%s%d %lld %lld %s", first, rc ? "" : lines, behind ? behind : "",
                        g->candidate, g->engine, g->workspace, key);
        if (!rc) rc = file_flush(&f, NULL);
        if (!rc) file_commit(&f, NULL);
        file_abort(&f);
    }
    mem_free(text);
}
