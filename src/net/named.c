#include "named.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "core/file.h"
#include "core/mem.h"
#include "net/param.h"
#include "net/state_dict.h"
#include "net/surgery.h"
#include "net/torchvision.h"
#include "net/weights.h"

/* ---- writing ---- */

enum {
    ENTRY = 320
}; /* characters of the header for one tensor at most: a name, four dimensions, two places */

static size_t put_entry(char *to, const struct param *p, uint64_t begin)
{
    size_t n = (size_t)sprintf(to, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", surgery_full_name(p).text);
    for (int i = 0; i < p->rank; i++) n += (size_t)sprintf(to + n, "%s%" PRId64, i ? "," : "", p->dims[i]);
    return n + (size_t)sprintf(to + n, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                               begin + p->count * sizeof(float));
}

static int write_header(const struct net *n, struct file *f, struct err *e)
{
    char *text = mem_alloc((size_t)n->nparam + 1, ENTRY);
    uint64_t at = 0;
    if (!text) return net_no_memory(n, e);
    size_t length = (size_t)sprintf(
        text, "{\"__metadata__\":{\"format\":\"darknet-itra\",\"seen\":\"%" PRIu64 "\"}", n->seen);
    for (int i = 0; i < n->nparam; i++) {
        if (!param_is_saved(n->param[i])) continue;
        length += put_entry(text + length, n->param[i], at);
        at += n->param[i]->count * sizeof(float);
    }
    text[length++] = '}';
    while (length % 8) text[length++] = ' '; /* so that the numbers are aligned */
    const uint64_t bytes = length;
    int rc = file_write(f, &bytes, sizeof bytes, e);
    if (!rc) rc = file_write(f, text, length, e);
    mem_free(text);
    return rc;
}

static int write_all(const struct net *n, struct file *f, real *host, struct err *e)
{
    TRY(write_header(n, f, e));
    for (int i = 0; i < n->nparam; i++)
        if (param_is_saved(n->param[i])) TRY(param_write(n->param[i], f, host, e));
    return file_commit(f, e);
}

int named_save(const struct net *n, const char *path, struct err *e)
{
    struct file f;
    if (!weights_floats(n)) return fail_at(e, E_ARG, n->cfg->path, 0, "has no weights to export");
    TRY(file_create(&f, path, e));
    real *host = params_host(n, e);
    int rc = host ? write_all(n, &f, host, e) : E_MEM;
    mem_free(host);
    file_abort(&f);
    return rc;
}

/* ---- reading ---- */

static int is_ours(const struct net *n, const struct state_dict *s)
{
    for (int i = 0; i < n->nparam; i++)
        if (state_dict_find(s, surgery_full_name(n->param[i]).text)) return 1;
    return 0;
}

static int read_param(struct param *p, const struct state_dict *s, real *host, struct err *e)
{
    const struct surgery_name name = surgery_full_name(p);
    struct state_tensor *t = state_dict_find(s, name.text);
    if (!t) return fail_at(e, E_FORMAT, s->path, 0, "has no tensor %s: is it of another cfg?", name.text);
    TRY(state_dict_get(s, t, p, host, e));
    return param_explain(p, param_set(p, host), e);
}

static int read_ours(struct net *n, const struct state_dict *s, real *host, struct err *e)
{
    TRY(net_check_seen(s->path, s->seen, e));
    for (int i = 0; i < n->nparam; i++)
        if (param_is_saved(n->param[i])) TRY(read_param(n->param[i], s, host, e));
    TRY(state_dict_check_used(s, n->cfg->path, e));
    net_set_seen(n, s->seen);
    return OK;
}

int named_load(struct net *n, const char *path, struct err *e)
{
    struct state_dict s;
    real *host = params_host(n, e);
    int rc = host ? state_dict_open(&s, path, e) : E_MEM;
    if (!rc) rc = is_ours(n, &s) ? read_ours(n, &s, host, e) : torchvision_read(n, &s, host, e);
    if (host) state_dict_close(&s);
    mem_free(host);
    return rc;
}
