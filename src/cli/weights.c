/* Commands that turn .weights files into others, or show what is in one. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/cli.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "net/surgery.h"

/* A net with its parameters, for inference. */
static int open_params(struct session *s, struct err *e)
{
    return program_open(&s->program, s->net, &(struct program_desc){ .rows = 1 }, e);
}

static int save(const struct session *s, const struct net *n, const char *path, int upto, uint64_t seen,
                struct err *e)
{
    static const struct file_kind kind = { "a .weights file", "\0\0\0", 0, 4 }; /* a major version of 0 */
    TRY(file_spare_others(path, &kind, e));
    TRY(weights_save(n, path, upto, seen, e));
    note(&s->notes, "Saving weights to %s", path);
    return OK;
}

/* ---- partial, average ---- */

static int partial(struct session *s, const struct cli *c, struct err *e)
{
    char *end;
    TRY(session_open(s, c, NULL, c->arg[0], e));
    long n = strtol(c->arg[3], &end, 10);
    if (end == c->arg[3] || *end || n < 1)
        return fail(e, E_ARG, "partial: N is '%.40s': expected a number of layers in [1, %d]", c->arg[3],
                    s->net->n);
    if (n > s->net->n) {
        note(&s->notes, "partial: N is %.40s, and the net has %d layers: all are copied", c->arg[3],
             s->net->n);
        n = s->net->n;
    }
    TRY(open_params(s, e));
    int layers = (int)n;
    TRY(weights_load(s->net, c->arg[1], WEIGHTS_FIRST, &layers, e));
    return save(s, s->net, c->arg[2], layers, 0, e);
}

int cli_partial(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    int rc = partial(&s, c, e);
    session_close(&s);
    return rc;
}

static int same_bytes(const char *a, const char *b)
{
    char *x = NULL, *y = NULL;
    size_t n, m;
    int same = !file_load(a, SIZE_MAX / 2, &x, &n, NULL) && !file_load(b, SIZE_MAX / 2, &y, &m, NULL) &&
               n == m && !memcmp(x, y, n);
    mem_free(x);
    mem_free(y);
    return same;
}

/* Where there is an `old`, an average has been here before: what is at `out` now is one. */
static int keep(const char *out, const char *old, int *kept, struct err *e)
{
    struct stat st;
    if (stat(out, &st) || !S_ISREG(st.st_mode) || !st.st_size) return OK;
    *kept = !linkat(AT_FDCWD, out, AT_FDCWD, old, 0);
    if (*kept || errno == EEXIST) return OK;
    return fail_at(e, E_FILE, out, 0, "exists, and cannot be kept as %.200s: %s: choose another name", old,
                   strerror(errno));
}

/* Whoever forgets OUT names the first of the weights there: other numbers at OUT stay, as OUT.old. */
static int save_average(const struct session *s, const char *out, struct err *e)
{
    char *old = text_format("%s.old", out);
    int kept = 0, rc = old ? keep(out, old, &kept, e) : fail(e, E_MEM, "no memory for a file name");
    if (!rc) rc = save(s, s->net, out, s->net->n, s->net->seen, e);
    if (kept && (rc || same_bytes(out, old)))
        unlink(old);
    else if (kept)
        note(&s->notes, "average: what was in %.150s is now %.150s (OUT goes before the weights)", out, old);
    mem_free(old);
    return rc;
}

static int average(struct session *sum, struct session *next, const struct cli *c, struct err *e)
{
    int layers;
    const int n = c->narg - 2;
    if (n == 1 && !access(c->arg[1], F_OK)) /* the mean of one is a copy: hardly what is meant */
        return fail(e, E_ARG,
                    "average: %.60s exists, and would be a copy of %.60s: name OUT before the weights",
                    c->arg[1], c->arg[2]);
    TRY(session_open(sum, c, NULL, c->arg[0], e));
    TRY(session_load(sum, c->arg[2], e));
    if (n > 1) TRY(session_open(next, c, NULL, c->arg[0], e));
    if (n > 1) TRY(open_params(next, e));
    for (int i = 1; i < n; i++) {
        TRY(weights_load(next->net, c->arg[2 + i], WEIGHTS_WHOLE, &layers, e));
        TRY(surgery_blend(sum->net, next->net, 1, 1, e));
    }
    TRY(surgery_blend(sum->net, NULL, 1.0 / n, 0, e));
    return save_average(sum, c->arg[1], e);
}

int cli_average(const struct cli *c, struct err *e)
{
    struct session sum = { 0 }, next = { 0 };
    int rc = average(&sum, &next, c, e);
    session_close(&next);
    session_close(&sum);
    return rc;
}

/* ---- denormalize, normalize, reset, rescale, rgbgr ---- */

static const struct change {
    const char *command;
    enum surgery how;
    const char *norm; /* batch_normalize= of the cfg that the result is for; NULL: as it is */
} changes[] = { { "denormalize", SURGERY_FOLD, "0" }, { "normalize", SURGERY_COPY, "1" },
                { "reset", SURGERY_FOLD, NULL },      { "rescale", SURGERY_RESCALE, NULL },
                { "rgbgr", SURGERY_SWAP, NULL },      { NULL, SURGERY_COPY, NULL } };

static int has_key(const struct layer_ops *ops, const char *name)
{
    for (const struct key *k = ops ? ops->keys : NULL; k && k->name; k++)
        if (!strcmp(k->name, name)) return 1;
    return 0;
}

/* A second net, of the same cfg but for batch_normalize= of all layers that have it. */
static int open_other(struct net **out, const struct session *s, const char *norm, struct err *e)
{
    const struct cfg *cfg = s->net->cfg;
    const char **set = mem_alloc((size_t)(s->cli->nset + cfg->n + 1), sizeof *set);
    char(*text)[80] = mem_alloc((size_t)cfg->n, sizeof *text);
    struct cfg *other;
    int n = 0, rc = set && text ? OK : fail(e, E_MEM, "no memory for %d sections", cfg->n);
    for (; !rc && n < s->cli->nset; n++) set[n] = s->cli->set[n];
    for (int i = 1; !rc && norm && i < cfg->n; i++) {
        if (!has_key(layer_find(cfg->section[i].name), "batch_normalize")) continue;
        snprintf(text[i], sizeof *text, "%s.batch_normalize=%s", cfg->section[i].name, norm);
        set[n++] = text[i];
    }
    if (!rc) rc = net_read_cfg(&other, s->cli->arg[0], set, s->cli->precision, e);
    if (!rc) rc = net_open(out, other, s->be, s->cli->seed, NULL, e);
    mem_free(set);
    mem_free(text);
    return rc;
}

static int apply(struct session *s, struct net **to, struct program **program, const struct cli *c,
                 struct err *e)
{
    const struct change *x = changes;
    while (x->command && strcmp(x->command, c->command->name)) x++;
    TRY(session_open(s, c, NULL, c->arg[0], e));
    TRY(session_load(s, c->arg[1], e));
    TRY(open_other(to, s, x->norm, e));
    TRY(program_open(program, *to, &(struct program_desc){ .rows = 1 }, e));
    TRY(surgery(*to, s->net, x->how, e));
    TRY(save(s, *to, c->arg[2], (*to)->n, s->net->seen, e));
    if (x->norm) note(&s->notes, "%s: for a cfg with batch_normalize=%s in every layer", c->arg[2], x->norm);
    return OK;
}

int cli_surgery(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    struct net *to = NULL;
    struct program *program = NULL;
    int rc = apply(&s, &to, &program, c, e);
    program_close(program);
    net_close(to);
    session_close(&s);
    return rc;
}

/* ---- statistics ---- */

static void print_param(const struct net *n, const struct param *p, const real *x)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < p->count; i++) sum += (double)x[i];
    const double count = (double)p->count, mean = sum / count;
    double variance = 0;
    for (size_t i = 0; i < p->count; i++) {
        variance += ((double)x[i] - mean) * ((double)x[i] - mean);
        squares += (double)x[i] * (double)x[i];
    }
    printf("%4d %-14s %-9s %9zu  MSE: %.6f, Mean: %.6f, Variance: %.6f\n", p->layer,
           n->layer[p->layer].ops->name, surgery_param_name(p), p->count, squares / count, mean,
           variance / count);
}

static int statistics(struct session *s, const struct cli *c, struct err *e)
{
    TRY(session_open(s, c, NULL, c->arg[0], e));
    TRY(session_load(s, c->arg[1], e));
    real *x = params_host(s->net, e);
    int rc = x ? OK : E_MEM;
    for (int i = 0; !rc && i < s->net->nparam; i++) {
        const struct param *p = s->net->param[i];
        if (!(rc = param_explain(p, param_get(p, x), e))) print_param(s->net, p, x);
    }
    mem_free(x);
    return rc;
}

int cli_statistics(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    int rc = statistics(&s, c, e);
    session_close(&s);
    return rc;
}
