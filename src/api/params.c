/* Parameters by name and by number, in the order of the .weights file. */
#include <stdio.h>
#include <string.h>
#include "api/handle.h"
#include "core/mem.h"
#include "net/surgery.h"

_Static_assert((int)DN_RANK == (int)PARAM_RANK, "shapes are handed over whole");

/* Of those that the file has, number i. NULL past the last. */
static struct param *find(const dn_net *d, int i)
{
    for (int k = 0; k < d->net->nparam; k++) {
        struct param *p = d->net->param[k];
        if (param_is_saved(p) && i-- == 0) return p;
    }
    return NULL;
}

int dn_params(dn_net *d, dn_error *error)
{
    struct err e = { 0 };
    int n = 0, rc = begin(d, "dn_params", 1, &e);
    if (rc) return give(rc, &e, error);
    while (find(d, n)) n++;
    return n;
}

static int get_one(dn_net *d, const char *function, int given, int i, struct param **p, struct err *e)
{
    TRY(begin(d, function, given, e));
    *p = i < 0 ? NULL : find(d, i);
    if (*p) return OK;
    return fail(e, E_ARG, "%s: there is no parameter %d (dn_params says how many there are)", function, i);
}

static void describe(const struct param *p, dn_param *to)
{
    *to = (dn_param){ .layer = p->layer, .rank = p->rank, .count = p->count };
    memcpy(to->shape, p->dims, sizeof to->shape);
    snprintf(to->name, sizeof to->name, "%s", surgery_full_name(p).text);
}

int dn_param_info(dn_net *d, int i, dn_param *to, dn_error *error)
{
    struct err e = { 0 };
    struct param *p;
    int rc = get_one(d, "dn_param_info", to != NULL, i, &p, &e);
    if (!rc) describe(p, to);
    return give(rc, &e, error);
}

static int find_by_name(dn_net *d, const char *name, struct err *e)
{
    struct param *p;
    TRY(begin(d, "dn_find_param", name != NULL, e));
    for (int i = 0; (p = find(d, i)); i++) {
        dn_param known;
        describe(p, &known);
        if (!strcmp(known.name, name)) return i;
    }
    return fail(e, E_ARG, "dn_find_param: no parameter %.100s: expected a name like 0.convolutional.weights",
                name);
}

int dn_find_param(dn_net *d, const char *name, dn_error *error)
{
    struct err e = { 0 };
    int i = find_by_name(d, name, &e);
    return i < 0 ? give(i, &e, error) : i;
}

static int get(const struct param *p, float *to, struct err *e)
{
    real *host = mem_alloc(p->count, sizeof *host);
    if (!host) return fail(e, E_MEM, "not enough memory for %zu numbers", p->count);
    int rc = param_explain(p, param_get(p, host), e);
    for (size_t k = 0; k < p->count && !rc; k++) to[k] = (float)host[k];
    mem_free(host);
    return rc;
}

int dn_get_param(dn_net *d, int i, float *to, dn_error *error)
{
    struct err e = { 0 };
    struct param *p;
    int rc = get_one(d, "dn_get_param", to != NULL, i, &p, &e);
    if (!rc) rc = get(p, to, &e);
    return give(rc, &e, error);
}

/* What a .weights file may hold, as dn_load has it. */
static int check(const struct param *p, const float *from, struct err *e)
{
    for (size_t k = 0; k < p->count; k++)
        if (!param_accepts(p, (double)from[k]))
            return fail(e, E_NUMBER, "dn_set_param: %s: number %zu of its %s is %g",
                        net_layer_name(p->net, p->layer).text, k, surgery_param_name(p), (double)from[k]);
    return OK;
}

static int set(struct param *p, const float *from, struct err *e)
{
    TRY(check(p, from, e));
    real *host = mem_alloc(p->count, sizeof *host);
    if (!host) return fail(e, E_MEM, "not enough memory for %zu numbers", p->count);
    for (size_t k = 0; k < p->count; k++) host[k] = (real)from[k];
    int rc = param_explain(p, param_set(p, host), e);
    mem_free(host);
    return rc;
}

int dn_set_param(dn_net *d, int i, const float *from, dn_error *error)
{
    struct err e = { 0 };
    struct param *p;
    int rc = get_one(d, "dn_set_param", from != NULL, i, &p, &e);
    if (!rc) rc = set(p, from, &e);
    if (!rc) changed_weights(d);
    return give(rc, &e, error);
}
