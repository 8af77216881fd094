/* .weights: int32 major, minor, revision; then seen (uint64 where major*10 + minor >= 2 and both are below
 * 1000, else int32); then float32 numbers, layer after layer in the order in which they declare their
 * parameters. Little-endian, no padding. */
#include "weights.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "backend/ops/dense.h"
#include "core/mem.h"
#include "core/text.h"
#include "net/param.h"

/* Should loading read it? */
static int is_read(const struct param *p)
{
    const struct layer_common *c = &p->net->layer[p->layer].common;
    return param_is_saved(p) && !c->dontload && !(c->dontloadscales && p->flags & PARAM_SCALES);
}

uint64_t weights_floats(const struct net *n)
{
    uint64_t k = 0;
    for (int i = 0; i < n->nparam; i++)
        if (param_is_saved(n->param[i])) k += n->param[i]->count;
    return k;
}

/* ---- loading ---- */

/* transposed: matrices of [connected] are stored inputs x outputs. */
static int read_header(struct file_reader *r, uint64_t *seen, int *transposed, struct err *e)
{
    int32_t v[3], seen32;
    TRY(reader_take(r, v, sizeof v, e));
    if (!memcmp(v, STATE_MAGIC, sizeof STATE_MAGIC))
        return fail_at(
            e, E_FORMAT, r->path, 0,
            "is the state of a training, for -resume; its weights are in BASE_last.weights beside it");
    if (v[0] < 0 || v[1] < 0 || v[0] > 1 << 20 || v[1] > 1 << 20)
        return fail_at(e, E_FORMAT, r->path, 0, "this is not a .weights file (version %d.%d)", v[0], v[1]);
    *transposed = v[0] > 1000 || v[1] > 1000;
    if (v[0] * 10 + v[1] >= 2 && v[0] < 1000 && v[1] < 1000) {
        TRY(reader_take(r, seen, sizeof *seen, e));
        return net_check_seen(r->path, *seen, e);
    }
    TRY(reader_take(r, &seen32, sizeof seen32, e));
    *seen = seen32 < 0 ? 0 : (uint64_t)seen32;
    return OK;
}

static size_t layer_floats(const struct net *n, int layer)
{
    const struct model_layer *m = &n->layer[layer];
    size_t k = 0;
    for (int i = m->param; i < m->param + m->nparam; i++)
        if (is_read(n->param[i])) k += n->param[i]->count;
    return k;
}

/* The head begins with the last layer that weighs its inputs, and has what follows, such as its own
 * normalisation. */
static int head_of(const struct net *n)
{
    for (int i = n->nparam; i-- > 0;)
        if (n->param[i]->linear && layer_floats(n, n->param[i]->layer)) return n->param[i]->layer;
    return 0;
}

/* If the file holds another number of outputs for the head: that number, else 0. Each output has equally many
 * numbers. */
static size_t other_outputs(const struct net *n, const struct file_reader *r, int head)
{
    size_t left = r->n - r->at, here = (size_t)n->layer[head].out.c, each = 0;
    for (int i = head; i < n->n; i++) each += layer_floats(n, i) * sizeof(float);
    each /= here;
    for (int i = 0; i < head; i++) {
        size_t need = layer_floats(n, i) * sizeof(float);
        if (need > left) return 0;
        left -= need;
    }
    return each && left % each == 0 && left / each != here ? left / each : 0;
}

/* How many layers the payload fills. It must end where a layer ends. */
static int fill_layers(const struct net *n, const struct file_reader *r, enum weights_part part,
                       const char *hint, int *layers, struct err *e)
{
    size_t left = r->n - r->at;
    for (*layers = 0; *layers < n->n; ++*layers) {
        size_t need = layer_floats(n, *layers) * sizeof(float);
        if (need > left && !left && part != WEIGHTS_WHOLE) return OK;
        if (need > left && !left)
            return fail_at(e, E_FORMAT, r->path, 0, "the file ends before %s: it holds %d of the %d layers",
                           net_layer_name(n, *layers).text, *layers, n->n);
        if (need > left)
            return fail_at(e, E_FORMAT, r->path, 0,
                           "the file ends inside %s: it holds %zu of the %zu bytes there; %s",
                           net_layer_name(n, *layers).text, left, need, hint);
        left -= need;
    }
    if (!left) return OK;
    return fail_at(e, E_FORMAT, r->path, 0, "%zu bytes are left after the last layer: %s", left, hint);
}

/* The same, without the head for a BACKBONE. */
static int count_layers(const struct net *n, const struct file_reader *r, enum weights_part part, int *layers,
                        struct err *e)
{
    const int head = head_of(n), here = n->layer[head].out.c;
    const size_t outputs = other_outputs(n, r, head);
    char hint[120] = "are these the weights of another cfg?";
    if (outputs && part == WEIGHTS_BACKBONE) {
        note(&n->notes, "%s: the last layer has %zu outputs in the file, %d here: it starts anew", r->path,
             outputs, here);
        *layers = head;
        return OK;
    }
    if (outputs)
        snprintf(hint, sizeof hint,
                 "if its last layer has %zu outputs, not %d, train -finetune loads all other layers", outputs,
                 here);
    TRY(fill_layers(n, r, part, hint, layers, e));
    if (part != WEIGHTS_BACKBONE || *layers <= head) return OK;
    note(&n->notes,
         "%s: the last layer starts anew, although it has %d outputs in the file, too: -clear keeps it",
         r->path, here);
    *layers = head;
    return OK;
}

/* Refuses numbers that no successful training leaves behind. */
static int read_param(const struct param *p, struct file_reader *r, int transposed, real *host, struct err *e)
{
    const struct net *n = p->net;
    size_t outputs = (size_t)n->layer[p->layer].out.c, inputs = p->count / outputs;
    int turn = transposed && p->linear == &n->be->ops->dense->linear;
    for (size_t k = 0; k < p->count; k++) {
        float v;
        TRY(reader_take(r, &v, sizeof v, e));
        if (!param_accepts(p, (double)v))
            return fail_at(e, E_FORMAT, r->path, 0,
                           "%s: number %zu is %g: the file is damaged, or from a training that failed",
                           net_layer_name(n, p->layer).text, k, (double)v);
        host[turn ? k % outputs * inputs + k / outputs : k] = v;
    }
    return OK;
}

static int read_params(struct net *n, struct file_reader r, int transposed, int layers, int set, real *host,
                       struct err *e)
{
    for (int i = 0; i < n->nparam; i++) {
        struct param *p = n->param[i];
        if (p->layer >= layers || !is_read(p)) continue;
        TRY(read_param(p, &r, transposed, host, e));
        if (set) TRY(param_explain(p, param_set(p, host), e));
    }
    return OK;
}

/* The first pass only checks, so that a bad file changes nothing. */
static int load_params(struct net *n, const struct file_reader *r, int transposed, int layers, struct err *e)
{
    real *host = params_host(n, e);
    int rc = host ? OK : E_MEM;
    for (int set = 0; set < 2 && !rc; set++) rc = read_params(n, *r, transposed, layers, set, host, e);
    mem_free(host);
    return rc;
}

/* Other Darknets write BASE.backup while they train and BASE.weights at the end, and tutorials name those. */
static int check_name(const char *path, struct err *e)
{
    const char *dot = strrchr(path, '.');
    if (!access(path, F_OK) || !dot || (strcmp(dot, ".backup") && strcmp(dot, ".weights"))) return OK;
    char *ours = text_format("%.*s_%s.weights", (int)(dot - path), path, dot[1] == 'b' ? "last" : "final");
    int rc =
        ours && !access(ours, F_OK) ? fail_at(e, E_FILE, path, 0, "no such file, but there is %s", ours) : OK;
    mem_free(ours);
    return rc;
}

int weights_load(struct net *n, const char *path, enum weights_part part, int *layers, struct err *e)
{
    struct file_reader r;
    uint64_t seen;
    int transposed;
    TRY(check_name(path, e));
    TRY(reader_open(&r, path, SIZE_MAX / 2, e));
    int rc = read_header(&r, &seen, &transposed, e);
    if (!rc && part != WEIGHTS_FIRST) rc = count_layers(n, &r, part, layers, e);
    if (!rc) rc = load_params(n, &r, transposed, *layers, e);
    reader_close(&r);
    if (!rc) net_set_seen(n, seen);
    return rc;
}

/* ---- saving ---- */

static int save_all(const struct net *n, struct file *f, int upto, uint64_t seen, real *host, struct err *e)
{
    const int32_t version[3] = { 0, 2, 0 };
    TRY(file_write(f, version, sizeof version, e));
    TRY(file_write(f, &seen, sizeof seen, e));
    for (int i = 0; i < n->nparam; i++)
        if (n->param[i]->layer < upto && param_is_saved(n->param[i]))
            TRY(param_write(n->param[i], f, host, e));
    return file_commit(f, e);
}

int weights_save(const struct net *n, const char *path, int upto, uint64_t seen, struct err *e)
{
    struct file f;
    TRY(file_create(&f, path, e));
    real *host = params_host(n, e);
    int rc = host ? save_all(n, &f, upto, seen, host, e) : E_MEM;
    mem_free(host);
    file_abort(&f);
    return rc;
}

int weights_save_averages(struct net *n, const char *path, struct err *e)
{
    params_swap_averages(n);
    int rc = weights_save(n, path, n->n, n->seen, e);
    params_swap_averages(n);
    return rc;
}

/* ---- training state ---- */

/* Per parameter: its size, the numbers, and the optimiser's moments if it learns, in the build's own
 * precision.
 */
struct state_head {
    uint64_t params, seen, kind;
    double ce_average;
};
enum { WITH_ADAM = 256, WITH_AVERAGE = 512 }; /* parts of kind, added to the bytes of a number: */
struct state_from {                           /* then follows the head */
    uint64_t moments, average;
};

static uint64_t kind_of(const struct net *n)
{
    return sizeof(real) + (n->config.adam ? WITH_ADAM : 0) + (n->config.ema_alpha > 0 ? WITH_AVERAGE : 0);
}

static int write_param(const struct param *p, struct file *f, real *host, struct err *e)
{
    const uint64_t count = p->count;
    const void *const part[] = { p->w, p->v, p->s, p->average };
    TRY(file_write(f, &count, sizeof count, e));
    for (int k = 0; k < 4; k++) {
        if (!part[k]) continue;
        TRY(param_explain(p, param_unpack(p, part[k], host), e));
        TRY(file_write(f, host, p->count * sizeof *host, e));
    }
    return OK;
}

int net_state_write(const struct net *n, struct file *f, struct err *e)
{
    const struct state_head head = { (uint64_t)n->nparam, n->seen, kind_of(n), n->ce_average };
    const struct state_from from = { n->moments_from, n->average_from };
    real *host = params_host(n, e);
    int rc = host ? file_write(f, &head, sizeof head, e) : E_MEM;
    if (!rc && head.kind > sizeof(real)) rc = file_write(f, &from, sizeof from, e);
    for (int i = 0; i < n->nparam && !rc; i++) rc = write_param(n->param[i], f, host, e);
    mem_free(host);
    return rc;
}

static int read_state_param(const struct param *p, struct file_reader *r, int set, real *host, struct err *e)
{
    void *const part[] = { p->w, p->v, p->s, p->average };
    const size_t bytes = p->count * sizeof *host;
    uint64_t count;
    TRY(reader_take(r, &count, sizeof count, e));
    if (count != p->count)
        return fail_at(e, E_FORMAT, r->path, 0,
                       "this state belongs to another cfg: %s has %zu numbers, the file %llu",
                       net_layer_name(p->net, p->layer).text, p->count, (unsigned long long)count);
    for (int k = 0; k < 4; k++) {
        if (!part[k]) continue;
        if (bytes > r->n - r->at)
            return fail_at(e, E_FORMAT, r->path, 0, "the file ends inside %s",
                           net_layer_name(p->net, p->layer).text);
        TRY(reader_take(r, host, bytes, e));
        if (set) TRY(param_explain(p, param_pack(p, part[k], host), e));
    }
    return OK;
}

static int read_state(struct net *n, struct file_reader *r, int set, real *host, struct err *e)
{
    struct state_head head;
    struct state_from from = { 0 };
    TRY(reader_take(r, &head, sizeof head, e));
    TRY(net_check_seen(r->path, head.seen, e));
    for (int k = 0; k < 2; k++) {
        const uint64_t bit = k ? WITH_AVERAGE : WITH_ADAM;
        if ((head.kind ^ kind_of(n)) & bit)
            return fail_at(e, E_FORMAT, r->path, 0,
                           "this state was written %s %s, this run is %s: resume with the same",
                           head.kind & bit ? "with" : "without", k ? "ema_alpha" : "adam=1",
                           head.kind & bit ? "without" : "with");
    }
    if (head.params != (uint64_t)n->nparam || head.kind != kind_of(n))
        return fail_at(e, E_FORMAT, r->path, 0,
                       "this state belongs to another cfg or build (%llu parameter blocks, expected %d)",
                       (unsigned long long)head.params, n->nparam);
    if (head.kind > sizeof(real)) TRY(reader_take(r, &from, sizeof from, e));
    for (int i = 0; i < n->nparam; i++) TRY(read_state_param(n->param[i], r, set, host, e));
    if (!set) return OK;
    n->seen = head.seen;
    n->moments_from = from.moments;
    n->average_from = from.average;
    n->ce_average = head.ce_average;
    return OK;
}

/* The first pass only checks, so that a bad file changes nothing. */
int net_state_read(struct net *n, struct file_reader *r, struct err *e)
{
    const size_t start = r->at;
    real *host = params_host(n, e);
    int rc = host ? OK : E_MEM;
    for (int set = 0; set < 2 && !rc; set++) {
        r->at = start;
        rc = read_state(n, r, set, host, e);
    }
    mem_free(host);
    return rc;
}
