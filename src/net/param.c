#include "param.h"
#include <math.h>
#include <string.h>
#include "backend/ops/sum.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"
#include "group/group.h"

void *param_w(const struct param *p) { return p->w; }
void *param_g(const struct param *p) { return p->g; }

void param_shape(struct param *p, int rank, const int64_t *dims)
{
    if (!p) return;
    p->rank = rank;
    memcpy(p->dims, dims, (size_t)rank * sizeof *dims);
}

int param_unpack(const struct param *p, const void *from, real *host)
{
    if (!p->linear) return p->net->be->ops->download(p->net->be, host, from, p->count * sizeof *host);
    if (from == p->g) return p->linear->unpack_gradient(p->plan, from, host);
    return p->linear->unpack(p->plan, from, host);
}

int param_pack(const struct param *p, void *to, const real *host)
{
    if (p->linear) return p->linear->pack(p->plan, host, to);
    return p->net->be->ops->upload(p->net->be, to, host, p->count * sizeof *host);
}

int param_get(const struct param *p, real *host)
{
    if (p->w) return param_unpack(p, p->w, host);
    memcpy(host, p->host, p->count * sizeof *host);
    return OK;
}

int param_set(struct param *p, const real *host)
{
    if (p->w) return param_pack(p, p->w, host);
    memcpy(p->host, host, p->count * sizeof *host);
    return OK;
}

int param_explain(const struct param *p, int rc, struct err *e)
{
    if (!rc) return OK;
    fail(e, rc, "%s: its parameters cannot be copied: %s", net_layer_name(p->net, p->layer).text,
         err_text(rc));
    return attach_device_error(p->net, rc, e);
}

int param_write(const struct param *p, struct file *f, real *host, struct err *e)
{
    TRY(param_explain(p, param_get(p, host), e));
    for (size_t k = 0; k < p->count; k++) { /* in place: no number overtakes those not read yet */
        const float v = (float)host[k];
        memcpy((char *)host + k * sizeof v, &v, sizeof v);
    }
    return file_write(f, host, p->count * sizeof(float), e);
}

static int learns(const struct param *p) { return !(p->flags & PARAM_STATE); }
int param_is_trained(const struct param *p) { return p->g && !p->net->layer[p->layer].frozen; }

int param_is_saved(const struct param *p) { return !(p->flags & PARAM_UNSAVED); }
/* A running statistic of batch norm that moves. */
static int is_statistic(const struct param *p)
{
    return !learns(p) && param_is_saved(p) && !p->net->layer[p->layer].frozen;
}
int param_accepts(const struct param *p, double v)
{
    return isfinite(v) && !(v < 0 && p->flags & PARAM_VARIANCE);
}

static int is_averaged(const struct param *p) { return p->net->config.ema_alpha > 0 && param_is_saved(p); }

size_t params_bytes(const struct net *n, int train)
{
    size_t total = 0;
    for (int i = 0; i < n->nparam; i++) {
        const struct param *p = n->param[i];
        const size_t optimiser = !train || !learns(p) ? 0 : n->config.adam ? 3 : 2;
        const size_t copies = 1 + optimiser + (train && is_averaged(p));
        size_t bytes;
        if (mem_mul(train ? p->bytes : p->count * sizeof(real), copies, &bytes) ||
            mem_add(total, bytes, &total))
            return 0;
    }
    return total;
}

real *params_host(const struct net *n, struct err *e)
{
    size_t most = 0;
    for (int i = 0; i < n->nparam; i++) most = n->param[i]->count > most ? n->param[i]->count : most;
    real *host = mem_alloc(most, sizeof *host);
    if (!host) net_no_memory(n, e);
    return host;
}

void params_destroy(struct net *n)
{
    n->be->ops->free(n->be, n->gradients);
    n->gradients = NULL;
    n->be->ops->free(n->be, n->statistics);
    n->statistics = NULL;
    for (int i = 0; i < n->nparam; i++) {
        struct param *p = n->param[i];
        if (!is_statistic(p)) n->be->ops->free(n->be, p->w);
        n->be->ops->free(n->be, p->v);
        n->be->ops->free(n->be, p->s);
        n->be->ops->free(n->be, p->average);
        mem_free(p->host);
        mem_free(p);
    }
    mem_free(n->param);
    n->param = NULL;
    n->nparam = 0;
    for (int i = 0; n->layer && i < n->n; i++) {
        n->layer[i].nparam = 0;
        n->layer[i].learnt = 0;
    }
}

static int draws(const struct param *p) { return p->init == INIT_NORMAL || p->init == INIT_UNIFORM; }

/* The low half is the ordinal of the layer among those that draw, so that removing one that does not draw
 * changes nothing; the high half is the ordinal of the parameter among those of its layer that draw. */
static uint64_t stream_of(const struct net *n, int param)
{
    int layer = n->param[param]->layer;
    uint64_t layers = 0, params = 0;
    for (int i = 0; i < layer; i++) layers += (n->layer[i].ops->flags & LAYER_DRAWS) != 0;
    for (int i = n->layer[layer].param; i < param; i++) params += (uint64_t)draws(n->param[i]);
    return params << 32 | layers;
}

/* Drawn over the dense elements in file order, so that every backend and layout starts from the same numbers.
 */
static void draw(const struct param *p, uint64_t stream, real *host)
{
    uint64_t key = rng_key(p->net->seed, RNG_INIT, stream);
    for (size_t i = 0; i < p->count; i++) {
        double v = p->init == INIT_ONE;
        if (p->init == INIT_NORMAL) v = p->spread * rng_normal(key, i);
        if (p->init == INIT_UNIFORM) v = p->spread * (2 * rng_uniform(key, i) - 1);
        host[i] = (real)v;
    }
}

static int allocate(struct param *p, int train, struct err *e)
{
    struct backend *be = p->net->be;
    if (!train) return (p->host = mem_alloc(p->count, sizeof *p->host)) ? OK : net_no_memory(p->net, e);
    if (!is_statistic(p)) TRY(be->ops->alloc(be, p->bytes, &p->w, e));
    if (is_averaged(p)) TRY(be->ops->alloc(be, p->bytes, &p->average, e));
    if (!learns(p)) return OK;
    TRY(be->ops->alloc(be, p->bytes, &p->v, e));
    return p->net->config.adam ? be->ops->alloc(be, p->bytes, &p->s, e) : OK;
}

/* Of `bytes` in a block: what comes next is aligned as if it had memory of its own. */
static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t block_bytes(const struct net *n, int takes_part(const struct param *))
{
    size_t bytes = 0;
    for (int i = 0; i < n->nparam; i++)
        if (takes_part(n->param[i])) bytes += aligned(n->param[i]->bytes);
    return bytes;
}

/* One block, in the order in which backward fills it: what is complete is always its beginning. */
static int allocate_gradients(struct net *n, struct err *e)
{
    void *block;
    size_t end = 0;
    TRY(n->be->ops->alloc(n->be, block_bytes(n, learns), &block, e));
    n->gradients = block;
    for (int i = n->nparam - 1; i >= 0; i--) {
        struct param *p = n->param[i];
        if (!learns(p)) continue;
        p->g = (char *)block + end;
        end += aligned(p->bytes);
        n->layer[p->layer].gradients = end;
    }
    return OK;
}

/* Also one block: processes join them all at once. */
static int allocate_statistics(struct net *n, struct err *e)
{
    void *block;
    size_t bytes = block_bytes(n, is_statistic), end = 0;
    n->nstatistics = bytes / sizeof *n->statistics;
    if (!bytes) return OK;
    TRY(n->be->ops->alloc(n->be, bytes, &block, e));
    n->statistics = block;
    for (int i = 0; i < n->nparam; i++) {
        struct param *p = n->param[i];
        if (!is_statistic(p)) continue;
        p->w = (char *)block + end;
        end += aligned(p->bytes);
    }
    return OK;
}

int params_create(struct net *n, int train, struct err *e)
{
    real *host = params_host(n, e);
    int rc = !host ? E_MEM : train ? allocate_gradients(n, e) : OK;
    if (!rc && train) rc = allocate_statistics(n, e);
    for (int i = 0; i < n->nparam && !rc; i++) {
        struct param *p = n->param[i];
        draw(p, stream_of(n, i), host);
        rc = allocate(p, train, e);
        if (!rc) rc = param_explain(p, param_set(p, host), e);
    }
    mem_free(host);
    return rc;
}

void params_swap_averages(struct net *n)
{
    if (!n->average_from || n->seen / net_images_per_update(n) < n->average_from) return;
    for (int i = 0; i < n->nparam; i++) {
        struct param *p = n->param[i];
        void *w = p->w;
        if (!p->average) continue;
        p->w = p->average;
        p->average = w;
    }
}

int params_join_begin(struct net *n)
{
    const int own = n->be->group && n->nstatistics && !n->config.sync_bn;
    return own ? n->be->ops->sum->begin_mean(n->be, n->share, n->statistics, n->nstatistics) : OK;
}

static int check_finite(const struct param *p, real *host, struct err *e)
{
    TRY(param_explain(p, param_get(p, host), e));
    for (size_t i = 0; i < p->count; i++)
        if (!isfinite(host[i]))
            return fail(e, E_NUMBER, "%s: a weight is not finite", net_layer_name(p->net, p->layer).text);
    return OK;
}

int net_check_finite(const struct net *n, struct err *e)
{
    real *host = params_host(n, e);
    int rc = host ? OK : E_MEM;
    for (int i = 0; !rc && i < n->nparam; i++) rc = check_finite(n->param[i], host, e);
    mem_free(host);
    return rc;
}
