/* export and import: nets and weights as files of other programs. */
#include <string.h>
#include <strings.h>
#include "cli/cli.h"
#include "core/file.h"
#include "core/text.h"
#include "net/named.h"
#include "net/onnx.h"

static int has_suffix(const char *path, const char *suffix)
{
    const char *dot = strrchr(path, '.');
    return dot && !strcasecmp(dot, suffix);
}

/* A list may be longer than the net has classes, as Darknet's of ImageNet is. */
static int read_names(const struct session *s, char ***name, int *n, struct err *e)
{
    if (!s->cli->names) return OK;
    TRY(list_read(name, n, s->cli->names, e));
    if (*n < s->net->classes)
        return fail_at(e, E_ARG, s->cli->names, 0, "has %d names, and the net %d outputs", *n,
                       s->net->classes);
    for (int i = 0; i < s->net->classes; i++)
        if (!text_is_utf8((*name)[i]))
            return fail_at(e, E_FORMAT, s->cli->names, list_line(s->cli->names, i),
                           "is not UTF-8, as names in ONNX are: save the list as UTF-8");
    return OK;
}

static int export_onnx(const struct session *s, const char *path, struct err *e)
{
    static const struct file_kind kind = { "an ONNX file of this program",
                                           "\x08\x08\x12\x0c"
                                           "darknet-itra",
                                           0, 16 };
    char **name = NULL;
    int n = 0, rc = file_spare_others(path, &kind, e);
    if (!rc) rc = read_names(s, &name, &n, e);
    const struct onnx_options o = { s->cli->fold, s->cli->features, name };
    if (!rc) rc = onnx_save(s->program, &o, path, e);
    list_free(name);
    return rc;
}

static int export_safetensors(const struct session *s, const char *path, struct err *e)
{
    static const struct file_kind kind = { "a .safetensors file", "{\"", 8, 2 }; /* after the length */
    if (s->cli->features || s->cli->names || !s->cli->fold)
        return fail(e, E_ARG, "export: -fold, -features and -names are for FILE.onnx");
    TRY(file_spare_others(path, &kind, e));
    return named_save(s->net, path, e);
}

static int export(struct session *s, const struct cli *c, struct err *e)
{
    const int onnx = c->out && has_suffix(c->out, ".onnx");
    if (!c->out)
        return fail(e, E_ARG, "export: -out FILE.onnx or -out FILE.safetensors says where the net goes");
    if (!onnx && !has_suffix(c->out, ".safetensors"))
        return fail(e, E_ARG, "export: -out %.200s: expected a name that ends in .onnx or .safetensors",
                    c->out);
    TRY(session_open(s, c, NULL, c->arg[0], e));
    TRY(session_load(s, c->arg[1], e));
    TRY(onnx ? export_onnx(s, c->out, e) : export_safetensors(s, c->out, e));
    note(&s->notes, "Saving the net to %s", c->out);
    return OK;
}

int cli_export(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    int rc = export(&s, c, e);
    session_close(&s);
    return rc;
}

static int import(struct session *s, const struct cli *c, struct err *e)
{
    static const struct file_kind kind = { "a .weights file", "\0\0\0", 0, 4 }; /* a major version of 0 */
    if (!c->out) return fail(e, E_ARG, "import: -out FILE.weights says where the weights go");
    if (!has_suffix(c->out, ".weights"))
        return fail(e, E_ARG, "import: -out %.200s: expected a name that ends in .weights", c->out);
    TRY(session_open(s, c, NULL, c->arg[1], e));
    TRY(file_spare_others(c->out, &kind, e));
    TRY(program_open(&s->program, s->net, &(struct program_desc){ .rows = 1 }, e));
    TRY(named_load(s->net, c->arg[0], e));
    TRY(weights_save(s->net, c->out, s->net->n, s->net->seen, e));
    note(&s->notes, "Saving weights to %s", c->out);
    return OK;
}

int cli_import(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    int rc = import(&s, c, e);
    session_close(&s);
    return rc;
}
