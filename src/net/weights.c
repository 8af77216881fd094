/* .weights: int32 major, minor, revision; then seen (uint64 where major*10 + minor >= 2 and both are below
 * 1000, else int32); then float32 numbers, layer after layer in the order in which they declare their
 * parameters. Little-endian, no padding. */
#include "weights.h"
#include <math.h>
#include <stdio.h>
#include "backend/ops/dense.h"
#include "core/mem.h"
#include "net/param.h"

static int in_file(const struct param *p) { return !(p->flags & PARAM_UNSAVED); }

/* Should loading read it? */
static int is_read(const struct net *n, const struct param *p)
{
    const struct layer_common *c = &n->layer[p->layer].common;
    return in_file(p) && !c->dontload && !(c->dontloadscales && p->flags & PARAM_SCALES);
}

uint64_t weights_floats(const struct net *n)
{
    uint64_t k = 0;
    for (int i = 0; i < n->nparam; i++)
        if (in_file(n->param[i])) k += n->param[i]->count;
    return k;
}

/* ---- loading ---- */

struct header {
    uint64_t seen;
    int transposed; /* matrices of [connected] are stored inputs x outputs */
};

static int read_header(struct file_reader *r, struct header *h, struct err *e)
{
    int32_t v[3], seen32;
    TRY(reader_take(r, v, sizeof v, e));
    if (v[0] < 0 || v[1] < 0 || v[0] > 1 << 20 || v[1] > 1 << 20)
        return fail_at(e, E_FORMAT, r->path, 0, "this is not a .weights file (version %d.%d)", v[0], v[1]);
    h->transposed = v[0] > 1000 || v[1] > 1000;
    if (v[0] * 10 + v[1] >= 2 && v[0] < 1000 && v[1] < 1000)
        return reader_take(r, &h->seen, sizeof h->seen, e);
    TRY(reader_take(r, &seen32, sizeof seen32, e));
    h->seen = seen32 < 0 ? 0 : (uint64_t)seen32;
    return OK;
}

static size_t layer_floats(const struct net *n, int layer)
{
    const struct model_layer *m = &n->layer[layer];
    size_t k = 0;
    for (int i = m->param; i < m->param + m->nparam; i++)
        if (is_read(n, n->param[i])) k += n->param[i]->count;
    return k;
}

static int ends_early(const struct net *n, const char *path, int layer, size_t left, size_t need,
                      struct err *e)
{
    char name[300];
    model_layer_name(n, layer, name, sizeof name);
    if (!left)
        return fail_at(e, E_FORMAT, path, 0, "the file ends before %s: it holds %d of the %d layers", name,
                       layer, n->n);
    return fail_at(e, E_FORMAT, path, 0,
                   "the file ends inside %s: it holds %zu of the %zu bytes there; are these the weights of "
                   "another cfg?",
                   name, left, need);
}

/* How many layers the payload fills. It must end where a layer ends. */
static int count_layers(const struct net *n, const struct file_reader *r, int partial, int *layers,
                        struct err *e)
{
    size_t left = r->n - r->at;
    for (int i = 0; i < n->n; i++) {
        size_t need = layer_floats(n, i) * sizeof(float);
        *layers = i;
        if (partial && need && !left) return OK;
        if (need > left) return ends_early(n, r->path, i, left, need, e);
        left -= need;
    }
    *layers = n->n;
    if (!left) return OK;
    return fail_at(e, E_FORMAT, r->path, 0,
                   "%zu bytes are left after the last layer: are these the weights of another cfg?", left);
}

static int load_param(const struct net *n, struct param *p, struct file_reader *r, int transposed,
                      float *file, real *host, struct err *e)
{
    size_t outputs = (size_t)n->layer[p->layer].out.c, inputs = outputs ? p->count / outputs : 0;
    TRY(reader_take(r, file, p->count * sizeof *file, e));
    int turn = transposed && p->linear == &n->be->ops->dense->linear;
    for (size_t i = 0; i < p->count; i++) host[i] = file[turn ? i % inputs * outputs + i / inputs : i];
    return param_explain(p, param_set(p, host), e);
}

static int load_params(struct net *n, struct file_reader *r, int transposed, int layers, struct err *e)
{
    size_t most = params_largest(n);
    float *file = mem_alloc(most, sizeof *file);
    real *host = mem_alloc(most, sizeof *host);
    int rc = file && host ? OK : fail(e, E_MEM, "not enough memory to read %s", r->path);
    for (int i = 0; i < n->nparam && !rc; i++)
        if (n->param[i]->layer < layers && is_read(n, n->param[i]))
            rc = load_param(n, n->param[i], r, transposed, file, host, e);
    mem_free(file);
    mem_free(host);
    return rc;
}

/* Numbers that no training leaves behind: better refused than carried on. Reads ahead; r stays where it is.
 */
static int check_numbers(const struct net *n, struct file_reader r, int layers, struct err *e)
{
    for (int i = 0; i < n->nparam; i++) {
        const struct param *p = n->param[i];
        if (p->layer >= layers || !is_read(n, p)) continue;
        for (size_t k = 0; k < p->count; k++) {
            float v;
            TRY(reader_take(&r, &v, sizeof v, e));
            if (isfinite(v) && !(v < 0 && p->flags & PARAM_VARIANCE)) continue;
            char name[300];
            model_layer_name(n, p->layer, name, sizeof name);
            return fail_at(e, E_FORMAT, r.path, 0,
                           "%s: number %zu is %g: these weights are damaged, or of a training that failed",
                           name, k, (double)v);
        }
    }
    return OK;
}

int weights_load(struct net *n, const char *path, int partial, int *layers, struct err *e)
{
    struct file_reader r;
    struct header h = { 0 };
    TRY(reader_open(&r, path, SIZE_MAX / 2, e));
    int rc = read_header(&r, &h, e);
    if (!rc) rc = count_layers(n, &r, partial, layers, e);
    if (!rc) rc = check_numbers(n, r, *layers, e);
    if (!rc) rc = load_params(n, &r, h.transposed, *layers, e);
    reader_close(&r);
    if (!rc) n->seen = h.seen;
    return rc;
}

/* ---- saving ---- */

static int save_param(const struct param *p, struct file *f, float *out, real *host, struct err *e)
{
    TRY(param_explain(p, param_get(p, host), e));
    for (size_t i = 0; i < p->count; i++) out[i] = (float)host[i];
    return file_write(f, out, p->count * sizeof *out, e);
}

static int save_payload(const struct net *n, struct file *f, int upto, struct err *e)
{
    size_t most = params_largest(n);
    float *out = mem_alloc(most, sizeof *out);
    real *host = mem_alloc(most, sizeof *host);
    int rc = out && host ? OK : fail(e, E_MEM, "not enough memory to write %s", f->path);
    for (int i = 0; i < n->nparam && !rc; i++)
        if (n->param[i]->layer < upto && in_file(n->param[i])) rc = save_param(n->param[i], f, out, host, e);
    mem_free(out);
    mem_free(host);
    return rc;
}

int weights_save(const struct net *n, const char *path, int upto, uint64_t seen, struct err *e)
{
    struct file f;
    const int32_t version[3] = { 0, 2, 0 };
    TRY(file_create(&f, path, e));
    int rc = file_write(&f, version, sizeof version, e);
    if (!rc) rc = file_write(&f, &seen, sizeof seen, e);
    if (!rc) rc = save_payload(n, &f, upto, e);
    if (!rc) return file_commit(&f, e);
    file_abort(&f);
    return rc;
}

/* ---- training state ---- */

/* Per parameter: its size, the numbers, and the momenta if it learns, in the build's own precision. */
struct state_head {
    uint64_t params, seen, real_bytes;
    double ce_average;
};

static int write_param(const struct param *p, struct file *f, real *host, struct err *e)
{
    const uint64_t count = p->count;
    const void *const part[] = { p->w, p->v };
    TRY(file_write(f, &count, sizeof count, e));
    for (int k = 0; k < 2 && part[k]; k++) {
        TRY(param_explain(p, param_unpack(p, part[k], host), e));
        TRY(file_write(f, host, p->count * sizeof *host, e));
    }
    return OK;
}

int net_state_write(const struct net *n, struct file *f, struct err *e)
{
    const struct state_head head = { (uint64_t)n->nparam, n->seen, sizeof(real), n->ce_average };
    real *host = mem_alloc(params_largest(n), sizeof *host);
    int rc = host ? file_write(f, &head, sizeof head, e)
                  : fail(e, E_MEM, "not enough memory to write %s", f->path);
    for (int i = 0; i < n->nparam && !rc; i++) rc = write_param(n->param[i], f, host, e);
    mem_free(host);
    return rc;
}

static int check_state(const struct net *n, struct file_reader r, struct err *e)
{
    struct state_head head;
    TRY(reader_take(&r, &head, sizeof head, e));
    if (head.params != (uint64_t)n->nparam || head.real_bytes != sizeof(real))
        return fail_at(e, E_FORMAT, r.path, 0,
                       "this state belongs to another cfg or build (%llu parameter blocks, expected %d)",
                       (unsigned long long)head.params, n->nparam);
    for (int i = 0; i < n->nparam; i++) {
        const struct param *p = n->param[i];
        uint64_t count;
        TRY(reader_take(&r, &count, sizeof count, e));
        size_t bytes = (p->v ? 2 : 1) * p->count * sizeof(real);
        char name[300];
        model_layer_name(n, p->layer, name, sizeof name);
        if (count != p->count)
            return fail_at(e, E_FORMAT, r.path, 0,
                           "this state belongs to another cfg: %s has %zu numbers, the file %llu", name,
                           p->count, (unsigned long long)count);
        if (bytes > r.n - r.at) return fail_at(e, E_FORMAT, r.path, 0, "the file ends inside %s", name);
        r.at += bytes;
    }
    return OK;
}

static int read_state(struct net *n, struct file_reader *r, real *host, struct err *e)
{
    struct state_head head;
    TRY(reader_take(r, &head, sizeof head, e));
    for (int i = 0; i < n->nparam; i++) {
        const struct param *p = n->param[i];
        void *const part[] = { p->w, p->v };
        uint64_t count;
        TRY(reader_take(r, &count, sizeof count, e));
        for (int k = 0; k < 2 && part[k]; k++) {
            TRY(reader_take(r, host, p->count * sizeof *host, e));
            TRY(param_explain(p, param_pack(p, part[k], host), e));
        }
    }
    n->seen = head.seen;
    n->ce_average = head.ce_average;
    return OK;
}

int net_state_read(struct net *n, struct file_reader *r, struct err *e)
{
    TRY(check_state(n, *r, e));
    real *host = mem_alloc(params_largest(n), sizeof *host);
    int rc = host ? read_state(n, r, host, e) : fail(e, E_MEM, "not enough memory to read %s", r->path);
    mem_free(host);
    return rc;
}
