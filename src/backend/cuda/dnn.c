/* cuDNN's graph API, in plain C: everything is a descriptor, which is made, gets attributes and is finalised.
 * A graph of one operation goes to the heuristics, which offer engines with their settings, best first; those
 * that keep what the precision promises become plans, and the fastest plan is kept. */
#include "dnn.h"
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/mem.h"
#include "core/rng.h"

#if CUDNN_MAJOR < 9
#error "the cuda backend needs cuDNN 9: make CUDNN=/where/it/is"
#endif

typedef cudnnBackendDescriptor_t desc_t;

enum {
    CONFIGS = 96,   /* offers of a query that are looked at */
    CANDIDATES = 8, /* of those, plans that are timed */
    RUNS = 3,       /* timed runs of each, after one to load its code */
    PARTS = 6       /* descriptors of an operation graph */
};
enum { FLUSH = 64 << 20 }; /* bytes: more than a second-level cache holds */
enum { NOISE = 64 << 10 }; /* bytes, repeated: what engines are timed on */
enum { ALIGN = 16 };       /* bytes: tensor cores want it, more gains nothing */
enum { UID_X = 1, UID_W, UID_Y };

struct engine {
    desc_t config, plan;
    size_t workspace;
};

/* The engine for a convolution. */
struct choice {
    struct choice *next;
    struct cudnn_conv conv;
    int deterministic;
    int poor; /* made when memory was short: not for others */
    desc_t part[PARTS];
    int parts;
    struct engine engine;
};

struct dnn {
    cudnnHandle_t handle; /* NULL: */
    desc_t card;          /* described */
    stream_t stream;
    size_t limit; /* bytes of workspace */
    struct choice *choices;
};

struct cudnn_plan {
    cudnnHandle_t handle;
    const struct choice *choice;
    desc_t pack;       /* of the pointers of the last run */
    const void *at[4]; /* these: x, w, y, workspace */
};

/* ---- descriptors ---- */

#define CUDNN(call)                                                                                          \
    do {                                                                                                     \
        cudnnStatus_t s_ = (call);                                                                           \
        if (s_ != CUDNN_STATUS_SUCCESS) return s_;                                                           \
    } while (0)

#define SET(d, name, type, n, value)                                                                         \
    CUDNN(cudnnBackendSetAttribute(d, CUDNN_ATTR_##name, CUDNN_TYPE_##type, n, value))

static void destroy(desc_t d)
{
    if (d) cudnnBackendDestroyDescriptor(d);
}

static void drop_engine(struct engine *g)
{
    destroy(g->plan);
    destroy(g->config);
    *g = (struct engine){ 0 };
}

static void drop_choice(struct choice *k)
{
    drop_engine(&k->engine);
    while (k->parts) destroy(k->part[--k->parts]);
    mem_free(k);
}

/* What went wrong last, in cuDNN's words. */
static const char *words(cudnnStatus_t s, char *to, size_t size)
{
    char last[200] = "";
    cudnnGetLastErrorString(last, sizeof last);
    snprintf(to, size, "%s%s%s", cudnnGetErrorString(s), *last ? ": " : "", last);
    return to;
}

/* ---- the operation graph ---- */

static cudnnStatus_t make(struct choice *k, cudnnBackendDescriptorType_t type, desc_t *d)
{
    CUDNN(cudnnBackendCreateDescriptor(type, d));
    k->part[k->parts++] = *d;
    return CUDNN_STATUS_SUCCESS;
}

/* size: N,C,H,W, or O,I/groups,H,W of weights. Always in this order; the memory order is in the strides. */
static cudnnStatus_t tensor(struct choice *k, int64_t uid, const int64_t size[4], desc_t *d)
{
    const cudnnDataType_t type = k->conv.bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const int64_t c = size[1], w = size[3], align = ALIGN;
    const int64_t strides[4] = { size[2] * w * c, 1, w * c, c };
    CUDNN(make(k, CUDNN_BACKEND_TENSOR_DESCRIPTOR, d));
    SET(*d, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
    SET(*d, TENSOR_DIMENSIONS, INT64, 4, size);
    SET(*d, TENSOR_STRIDES, INT64, 4, strides);
    SET(*d, TENSOR_UNIQUE_ID, INT64, 1, &uid);
    SET(*d, TENSOR_BYTE_ALIGNMENT, INT64, 1, &align);
    return cudnnBackendFinalize(*d);
}

static cudnnStatus_t tensors(struct choice *k, desc_t t[3])
{
    const struct cudnn_conv *c = &k->conv;
    const int64_t x[4] = { c->n, c->c, c->h, c->w }, y[4] = { c->n, c->filters, c->oh, c->ow },
                  w[4] = { c->filters, c->c / c->groups, c->size, c->size };
    CUDNN(tensor(k, UID_X, x, &t[0]));
    CUDNN(tensor(k, UID_W, w, &t[1]));
    return tensor(k, UID_Y, y, &t[2]);
}

static cudnnStatus_t convolution(struct choice *k, desc_t *d)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const struct cudnn_conv *c = &k->conv;
    const int64_t dims = 2, pad[2] = { c->pad, c->pad }, stride[2] = { c->stride, c->stride },
                  dilation[2] = { 1, 1 };
    CUDNN(make(k, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, d));
    SET(*d, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &sums);
    SET(*d, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
    SET(*d, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &dims);
    SET(*d, CONVOLUTION_PRE_PADDINGS, INT64, 2, pad);
    SET(*d, CONVOLUTION_POST_PADDINGS, INT64, 2, pad);
    SET(*d, CONVOLUTION_DILATIONS, INT64, 2, dilation);
    SET(*d, CONVOLUTION_FILTER_STRIDES, INT64, 2, stride);
    return cudnnBackendFinalize(*d);
}

/* What the three passes call the same things, in the order of enum cudnn_pass. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t tensor[3], convolution, alpha, beta;
} passes[] = {
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
      { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y },
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
      { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY },
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY },
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

static cudnnStatus_t operation(struct choice *k, desc_t *d)
{
    const int pass = k->conv.pass;
    const float alpha = 1, beta = k->conv.add ? 1 : 0;
    desc_t t[3], conv;
    CUDNN(tensors(k, t));
    CUDNN(convolution(k, &conv));
    CUDNN(make(k, passes[pass].type, d));
    for (int i = 0; i < 3; i++)
        CUDNN(cudnnBackendSetAttribute(*d, passes[pass].tensor[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t[i]));
    CUDNN(cudnnBackendSetAttribute(*d, passes[pass].convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv));
    CUDNN(cudnnBackendSetAttribute(*d, passes[pass].alpha, CUDNN_TYPE_FLOAT, 1, &alpha));
    CUDNN(cudnnBackendSetAttribute(*d, passes[pass].beta, CUDNN_TYPE_FLOAT, 1, &beta));
    return cudnnBackendFinalize(*d);
}

static cudnnStatus_t operation_graph(const struct dnn *dnn, struct choice *k, desc_t *graph)
{
    desc_t d;
    CUDNN(operation(k, &d));
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, graph));
    k->part[k->parts++] = *graph;
    if (dnn->handle) SET(*graph, OPERATIONGRAPH_HANDLE, HANDLE, 1, &dnn->handle);
    SET(*graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &d);
    return cudnnBackendFinalize(*graph);
}

/* ---- engines ---- */

struct search {
    const struct dnn *dnn;
    const struct cudnn_conv *conv;
    int deterministic;
    size_t limit; /* of the workspace */
    int most, n, offers;
    struct engine found[CANDIDATES];
};

/* Does an engine with this note compute what the precision promises? */
static int acceptable(const struct search *s, cudnnBackendNumericalNote_t note)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return s->conv->bf16 || s->conv->tf32; /* on floats that is TF32 */
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return 0;
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6: /* digits are lost in larger tiles */
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: return 0;
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return !s->deterministic;
    default: return 1;
    }
}

static cudnnStatus_t read_notes(desc_t config, desc_t engine, cudnnBackendNumericalNote_t *note, int64_t *n)
{
    CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, n,
                                   &engine));
    return cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, n, note);
}

/* An engine whose notes cannot be read is not taken. */
static int keeps_promise(const struct search *s, desc_t config)
{
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    desc_t engine; /* filled by reading it: not to be finalised */
    int64_t n = 0;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)) return 0;
    int yes = read_notes(config, engine, note, &n) == CUDNN_STATUS_SUCCESS;
    destroy(engine);
    for (int64_t i = 0; i < n && yes; i++) yes = acceptable(s, note[i]);
    return yes;
}

/* Older cuDNN wants the handle. */
static cudnnStatus_t finish(const struct dnn *dnn, struct engine *g)
{
    int64_t bytes = 0, n;
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &g->plan));
    if (dnn->handle) SET(g->plan, EXECUTION_PLAN_HANDLE, HANDLE, 1, &dnn->handle);
    SET(g->plan, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &g->config);
    CUDNN(cudnnBackendFinalize(g->plan));
    CUDNN(cudnnBackendGetAttribute(g->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
                                   &bytes));
    g->workspace = (size_t)bytes;
    return CUDNN_STATUS_SUCCESS;
}

/* Takes the configuration over. That a plan is refused is no error: the next offer may do. */
static void consider(struct search *s, desc_t config)
{
    struct engine g = { .config = config };
    s->offers++;
    if (s->n < s->most && keeps_promise(s, config) && !finish(s->dnn, &g) && g.workspace <= s->limit)
        s->found[s->n++] = g;
    else
        drop_engine(&g);
}

static cudnnStatus_t query(const struct search *s, desc_t graph, cudnnBackendHeurMode_t mode, desc_t *h)
{
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, h));
    SET(*h, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &graph);
    SET(*h, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    if (s->dnn->card) SET(*h, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &s->dnn->card);
    return cudnnBackendFinalize(*h);
}

/* Fewer may come than the count promised. */
static cudnnStatus_t results(desc_t h, desc_t config[CONFIGS], int64_t *made, int64_t *got)
{
    int64_t n = 0;
    CUDNN(cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n,
                                   NULL));
    for (; *made < n && *made < CONFIGS; ++*made)
        CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[*made]));
    return cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, *made,
                                    got, config);
}

static cudnnStatus_t ask(struct search *s, desc_t graph, cudnnBackendHeurMode_t mode)
{
    desc_t h = NULL, config[CONFIGS];
    int64_t made = 0, got = 0;
    cudnnStatus_t rc = query(s, graph, mode, &h);
    if (!rc) rc = results(h, config, &made, &got);
    for (int64_t i = 0; i < made; i++) {
        if (!rc && i < got)
            consider(s, config[i]);
        else
            destroy(config[i]);
    }
    destroy(h);
    return rc;
}

/* The modes, best first: the next only where one has nothing that will do. */
static cudnnStatus_t look(struct search *s, desc_t graph)
{
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                    CUDNN_HEUR_MODE_FALLBACK };
    cudnnStatus_t rc = CUDNN_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof modes / sizeof *modes && !s->n; i++) rc = ask(s, graph, modes[i]);
    return rc;
}

/* ---- running ---- */

static cudnnStatus_t make_pack(const void *const at[4], desc_t *pack)
{
    static const int64_t uid[3] = { UID_X, UID_W, UID_Y };
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack));
    SET(*pack, VARIANT_PACK_UNIQUE_IDS, INT64, 3, uid);
    SET(*pack, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 3, at);
    SET(*pack, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &at[3]);
    return cudnnBackendFinalize(*pack);
}

int cudnn_run(struct cudnn_plan *p, const void *x, const void *w, const void *y, void *workspace)
{
    const void *const at[4] = { x, w, y, workspace };
    if (!p->pack || memcmp(at, p->at, sizeof at)) {
        destroy(p->pack);
        p->pack = NULL;
        if (make_pack(at, &p->pack)) return E_DEVICE;
        memcpy(p->at, at, sizeof at);
    }
    return cudnnBackendExecute(p->handle, p->choice->engine.plan, p->pack) ? E_DEVICE : OK;
}

/* ---- timing ---- */

struct trial {
    char *mem; /* x, w, y; a workspace; what is written between runs so that caches are cold */
    const void *at[4];
    char *flush;
    desc_t pack;
    cudaEvent_t from, to;
};

static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

static void tensor_bytes(const struct cudnn_conv *c, size_t bytes[3])
{
    const size_t element = c->bf16 ? 2 : 4;
    bytes[0] = rounded((size_t)c->n * (size_t)c->c * (size_t)c->h * (size_t)c->w * element);
    bytes[1] = rounded((size_t)c->filters * (size_t)(c->c / c->groups) * (size_t)c->size * (size_t)c->size *
                       element);
    bytes[2] = rounded((size_t)c->n * (size_t)c->filters * (size_t)c->oh * (size_t)c->ow * element);
}

/* Numbers in +-[1/2, 1), read as bfloat16 and as float: zeros would cost less power, and so less time. */
static int fill(stream_t stream, char *to, size_t bytes)
{
    void *pinned;
    size_t done = bytes < NOISE ? bytes : NOISE;
    TRY(dev_pin(&pinned, NOISE, NULL));
    uint16_t *noise = pinned;
    for (size_t i = 0; i < NOISE / sizeof *noise; i++)
        noise[i] = (uint16_t)((rng_bits(1, i) & 0x807f) | 0x3f00);
    int rc = dev_put(stream, to, noise, done);
    for (; done < bytes && !rc; done *= 2)
        rc = dev_copy(stream, to + done, to, bytes - done < done ? bytes - done : done);
    if (!rc) rc = dev_sync(stream, NULL);
    dev_unpin(pinned);
    return rc;
}

static void trial_drop(struct trial *t)
{
    destroy(t->pack);
    if (t->from) cudaEventDestroy(t->from);
    if (t->to) cudaEventDestroy(t->to);
    dev_free(t->mem);
}

static int trial_open(struct trial *t, const struct search *s)
{
    size_t bytes[3], workspace = 0;
    void *mem;
    for (int i = 0; i < s->n; i++)
        if (s->found[i].workspace > workspace) workspace = s->found[i].workspace;
    tensor_bytes(s->conv, bytes);
    const size_t tensors = bytes[0] + bytes[1] + bytes[2];
    TRY(dev_alloc(&mem, tensors + rounded(workspace) + FLUSH, NULL));
    t->mem = mem;
    t->at[0] = t->mem;
    t->at[1] = t->mem + bytes[0];
    t->at[2] = t->mem + bytes[0] + bytes[1];
    t->at[3] = t->mem + tensors;
    t->flush = t->mem + tensors + rounded(workspace);
    TRY(fill(s->dnn->stream, t->mem, tensors));
    if (make_pack(t->at, &t->pack)) return E_DEVICE;
    return cudaEventCreate(&t->from) || cudaEventCreate(&t->to) ? E_DEVICE : OK;
}

static int run_once(const struct trial *t, const struct dnn *d, desc_t plan, float *ms)
{
    TRY(dev_zero(d->stream, t->flush, FLUSH));
    int failed = cudaEventRecord(t->from, d->stream) || cudnnBackendExecute(d->handle, plan, t->pack) ||
                 cudaEventRecord(t->to, d->stream) || cudaEventSynchronize(t->to) ||
                 cudaEventElapsedTime(ms, t->from, t->to);
    return failed ? E_DEVICE : OK;
}

/* Of the fastest run; infinity: it does not run. */
static float milliseconds(const struct trial *t, const struct dnn *d, desc_t plan)
{
    float best = INFINITY, ms = 0;
    for (int i = 0; i <= RUNS; i++) {
        if (run_once(t, d, plan, &ms)) return INFINITY;
        if (i && ms < best) best = ms;
    }
    return best;
}

static int fastest(const struct search *s, int *best)
{
    struct trial t = { 0 };
    float least = INFINITY;
    int rc = trial_open(&t, s);
    *best = -1;
    for (int i = 0; i < s->n && !rc; i++) {
        float ms = milliseconds(&t, s->dnn, s->found[i].plan);
        if (ms < least) least = ms, *best = i;
    }
    trial_drop(&t);
    return rc ? rc : *best < 0 ? E_DEVICE : OK;
}

/* ---- planning ---- */

static const char *const pass_names[] = { "forward", "data gradient of the", "weight gradient of the" };

static int refuse(const struct cudnn_conv *c, int code, const char *why, struct err *e)
{
    return fail(e, code,
                "%s convolution of %d x %d x %d x %d with %d filters of %dx%d, stride %d, padding %d, groups "
                "%d, in %s: %s",
                pass_names[c->pass], c->n, c->c, c->h, c->w, c->filters, c->size, c->size, c->stride, c->pad,
                c->groups,
                c->bf16   ? "bf16"
                : c->tf32 ? "tf32"
                          : "fp32",
                why);
}

static int none(const struct search *s, cudnnStatus_t rc, struct err *e)
{
    char why[300];
    if (!s->offers && rc) return refuse(s->conv, E_DEVICE, words(rc, why, sizeof why), e);
    snprintf(why, sizeof why, "of %d engines of cuDNN %d.%d none does it within %zu MiB and this precision%s",
             s->offers, CUDNN_MAJOR, CUDNN_MINOR, s->limit >> 20,
             s->conv->bf16 ? ": try precision=fp32" : "");
    return refuse(s->conv, E_DEVICE, why, e);
}

/* Keeps engine `best` of those found. */
static void settle(struct search *s, struct choice *k, int best)
{
    for (int i = 0; i < s->n; i++) {
        if (i == best)
            k->engine = s->found[i];
        else
            drop_engine(&s->found[i]);
    }
}

static int choose(struct dnn *d, struct choice *k, size_t limit, int timed, struct err *e)
{
    struct search s = { .dnn = d,
                        .conv = &k->conv,
                        .deterministic = k->deterministic,
                        .limit = limit,
                        .most = timed ? CANDIDATES : 1 };
    char why[300];
    desc_t graph;
    int best = 0, rc = OK;
    cudnnStatus_t status = operation_graph(d, k, &graph);
    if (status) return refuse(&k->conv, E_DEVICE, words(status, why, sizeof why), e);
    status = look(&s, graph);
    if (!s.n) return none(&s, status, e);
    if (timed) rc = fastest(&s, &best);
    settle(&s, k, rc ? -1 : best);
    if (rc == E_DEVICE) return refuse(&k->conv, rc, "no engine of cuDNN runs on this GPU", e);
    return rc;
}

static int new_choice(struct dnn *d, const struct cudnn_conv *c, int deterministic, int poor,
                      struct choice **out, struct err *e)
{
    const int timed = d->handle && !deterministic && !poor;
    struct choice *k = mem_alloc(1, sizeof *k);
    if (!k) return fail(e, E_MEM, "no memory to plan a convolution");
    k->conv = *c;
    k->deterministic = deterministic;
    k->poor = poor;
    int rc = choose(d, k, poor ? 0 : d->limit, timed, e);
    if (rc) {
        drop_choice(k);
        return rc;
    }
    k->next = d->choices;
    d->choices = *out = k;
    return OK;
}

static struct choice *known(const struct dnn *d, const struct cudnn_conv *c, int deterministic)
{
    for (struct choice *k = d->choices; k; k = k->next)
        if (!memcmp(&k->conv, c, sizeof *c) && k->deterministic == deterministic && !k->poor) return k;
    return NULL;
}

/* Where memory is too short to time engines, it is too short for workspaces: the first that wants none. */
static int choice_for(struct dnn *d, const struct cudnn_conv *c, int deterministic, struct choice **k,
                      struct err *e)
{
    *k = known(d, c, deterministic);
    int rc = *k ? OK : new_choice(d, c, deterministic, 0, k, e);
    if (rc == E_MEM) rc = new_choice(d, c, deterministic, 1, k, e);
    cudaGetLastError(); /* of an engine that was refused or failed: the next check would find it */
    return rc;
}

int cudnn_plan(struct cudnn_plan **out, struct dnn *d, const struct cudnn_conv *c, int deterministic,
               size_t *workspace, struct err *e)
{
    struct choice *k;
    TRY(choice_for(d, c, deterministic, &k, e));
    struct cudnn_plan *p = mem_alloc(1, sizeof *p);
    if (!p) return fail(e, E_MEM, "no memory to plan a convolution");
    p->handle = d->handle;
    p->choice = k;
    *workspace = k->engine.workspace;
    *out = p;
    return OK;
}

void cudnn_plan_drop(struct cudnn_plan *p)
{
    if (!p) return;
    destroy(p->pack);
    mem_free(p);
}

/* ---- open and close ---- */

const char *cudnn_libraries(void)
{
    static _Thread_local char text[100];  /* the same each time */
    const int v = (int)cudnnGetVersion(); /* of the library that was found, not of the header */
    snprintf(text, sizeof text, "CUDA %d.%d, cuDNN %d.%d.%d, cuBLAS %d.%d.%d", CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10, v / 10000, v / 100 % 100, v % 100, CUBLAS_VER_MAJOR,
             CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
    return text;
}

/* Libraries of another major version have another interface. */
static int check_version(struct err *e)
{
    const size_t v = cudnnGetVersion();
    if (v / 10000 == CUDNN_MAJOR) return OK;
    return fail(
        e, E_DEVICE,
        "this program is for cuDNN %d.%d, the library found is version %zu: install cuDNN %d, or compute "
        "on the CPU with -nogpu",
        CUDNN_MAJOR, CUDNN_MINOR, v, CUDNN_MAJOR);
}

static int create(struct dnn *d, stream_t stream, struct err *e)
{
    char why[300];
    cudnnStatus_t rc = cudnnCreate(&d->handle);
    d->stream = stream;
    if (!rc) rc = cudnnSetStream(d->handle, stream);
    if (!rc) return OK;
    return fail(e, E_DEVICE, "cuDNN %zu does not start: %s: compute on the CPU with -nogpu",
                cudnnGetVersion(), words(rc, why, sizeof why));
}

#if CUDNN_VERSION >= 91100
static cudnnStatus_t describe(desc_t *card, const char *json)
{
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, card));
    SET(*card, DEVICEPROP_JSON_REPRESENTATION, CHAR, (int64_t)strlen(json), json);
    return cudnnBackendFinalize(*card);
}

static int read_description(struct dnn *d, const char *json, struct err *e)
{
    char why[300];
    cudnnStatus_t rc = describe(&d->card, json);
    return rc ? fail(e, E_FORMAT, "description of a GPU: %s", words(rc, why, sizeof why)) : OK;
}
#else
static int read_description(struct dnn *d, const char *json, struct err *e)
{
    (void)d, (void)json;
    return fail(e, E_DEVICE, "cuDNN reads descriptions of GPUs from 9.11 on, this is %d.%d", CUDNN_MAJOR,
                CUDNN_MINOR);
}
#endif

static int start(struct dnn *d, stream_t stream, const char *json, struct err *e)
{
    TRY(check_version(e));
    return json ? read_description(d, json, e) : create(d, stream, e);
}

static int open_one(struct dnn **out, stream_t stream, const char *json, size_t limit, struct err *e)
{
    struct dnn *d = *out = mem_alloc(1, sizeof *d);
    if (!d) return fail(e, E_MEM, "no memory to open cuDNN");
    d->limit = limit;
    int rc = start(d, stream, json, e);
    if (!rc) return OK;
    cudnn_close(d);
    *out = NULL;
    return rc;
}

int cudnn_open(struct dnn **d, stream_t stream, struct err *e)
{
    return open_one(d, stream, NULL, CUDNN_WORKSPACE, e);
}

int cudnn_open_described(struct dnn **d, const char *json, size_t limit, struct err *e)
{
    return open_one(d, NULL, json, limit, e);
}

void cudnn_close(struct dnn *d)
{
    if (!d) return;
    while (d->choices) {
        struct choice *next = d->choices->next;
        drop_choice(d->choices);
        d->choices = next;
    }
    destroy(d->card);
    if (d->handle) cudnnDestroy(d->handle);
    mem_free(d);
}
