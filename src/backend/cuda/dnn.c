/* Convolutions by cuDNN: of the engines that qualify (dnn_engines.c) the fastest is kept, for all equal
 * convolutions. */
#include "dnn.h"
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/mem.h"
#include "core/rng.h"
#include "dnn_engines.h"

typedef cudnnBackendDescriptor_t desc_t;

enum { RUNS = 3 };         /* timed runs of an engine, after one that loads its code */
enum { FLUSH = 64 << 20 }; /* bytes: more than a second-level cache holds */
enum { NOISE = 64 << 10 }; /* bytes, repeated: what engines are timed on */

/* The engine for a convolution. */
struct choice {
    struct choice *next;
    struct cudnn_conv conv;
    int deterministic;
    int poor; /* made when memory was short: not for others */
    struct conv_graph graph;
    struct engine engine;
};

struct dnn {
    cudnnHandle_t handle;
    stream_t stream;
    struct engine_file *engines;
    struct choice *choices;
};

struct cudnn_plan {
    cudnnHandle_t handle;
    const struct choice *choice;
    desc_t pack;       /* of the pointers of the last run */
    const void *at[4]; /* these: x, w, y, workspace */
};

static void destroy_pack(desc_t pack)
{
    if (pack) cudnnBackendDestroyDescriptor(pack);
}

static void drop_choice(struct choice *k)
{
    cudnn_drop_engine(&k->engine);
    cudnn_drop_graph(&k->graph);
    mem_free(k);
}

/* ---- running ---- */

static cudnnStatus_t make_pack(const void *const at[4], desc_t *pack)
{
    static const int64_t uid[3] = { UID_X, UID_W, UID_Y };
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack));
    CUDNN_SET(*pack, VARIANT_PACK_UNIQUE_IDS, INT64, 3, uid);
    CUDNN_SET(*pack, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 3, at);
    CUDNN_SET(*pack, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &at[3]);
    return cudnnBackendFinalize(*pack);
}

int cudnn_run(struct cudnn_plan *p, stream_t stream, const void *x, const void *w, const void *y,
              void *workspace)
{
    const void *const at[4] = { x, w, y, workspace };
    if (cudnnSetStream(p->handle, stream)) return E_DEVICE;
    if (!p->pack || memcmp(at, p->at, sizeof at)) {
        destroy_pack(p->pack);
        p->pack = NULL;
        if (make_pack(at, &p->pack)) return E_DEVICE;
        memcpy(p->at, at, sizeof at);
    }
    return cudnnBackendExecute(p->handle, p->choice->engine.plan, p->pack) ? E_DEVICE : OK;
}

/* ---- timing ---- */

struct trial {
    const struct dnn *dnn;
    char *mem, *flush; /* x, w, y, a workspace; flush: written between runs so that caches are cold */
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
    int rc = dev_copy(stream, to, noise, done);
    for (; done < bytes && !rc; done *= 2)
        rc = dev_copy(stream, to + done, to, bytes - done < done ? bytes - done : done);
    if (!rc) rc = dev_sync(stream, NULL);
    dev_unpin(pinned);
    return rc;
}

static void trial_close(struct trial *t)
{
    destroy_pack(t->pack);
    if (t->from) cudaEventDestroy(t->from);
    if (t->to) cudaEventDestroy(t->to);
    dev_free(t->mem);
}

static int trial_open(struct trial *t, const struct engine_search *s)
{
    size_t bytes[3], workspace = 0;
    void *mem;
    for (int i = 0; i < s->n; i++)
        if (s->found[i].workspace > workspace) workspace = s->found[i].workspace;
    tensor_bytes(s->conv, bytes);
    const size_t tensors = bytes[0] + bytes[1] + bytes[2];
    TRY(dev_alloc(&mem, tensors + rounded(workspace) + FLUSH, NULL));
    t->mem = mem;
    t->flush = t->mem + tensors + rounded(workspace);
    const void *const at[4] = { t->mem, t->mem + bytes[0], t->mem + bytes[0] + bytes[1], t->mem + tensors };
    TRY(fill(t->dnn->stream, t->mem, tensors));
    if (cudnnSetStream(t->dnn->handle, t->dnn->stream) || make_pack(at, &t->pack)) return E_DEVICE;
    return cudaEventCreate(&t->from) || cudaEventCreate(&t->to) ? E_DEVICE : OK;
}

static int run_once(const struct trial *t, desc_t plan, float *ms)
{
    const stream_t stream = t->dnn->stream;
    TRY(dev_zero(stream, t->flush, FLUSH));
    int failed = cudaEventRecord(t->from, stream) || cudnnBackendExecute(t->dnn->handle, plan, t->pack) ||
                 cudaEventRecord(t->to, stream) || cudaEventSynchronize(t->to) ||
                 cudaEventElapsedTime(ms, t->from, t->to);
    return failed ? E_DEVICE : OK;
}

/* Of the fastest run; infinity: it does not run. One that takes twice the least is not tried again. */
static float milliseconds(const struct trial *t, desc_t plan, float least)
{
    float best = INFINITY, ms = 0;
    for (int i = 0; i <= RUNS && !(best < INFINITY && best > 2 * least); i++) {
        if (run_once(t, plan, &ms)) return INFINITY;
        if (i && ms < best) best = ms;
    }
    return best;
}

/* *best: -1 where there is no result. */
static int find_fastest(const struct dnn *d, const struct engine_search *s, int *best, struct err *e)
{
    struct trial t = { .dnn = d };
    float least = INFINITY;
    int rc = trial_open(&t, s);
    *best = -1;
    for (int i = 0; i < s->n && !rc; i++) {
        float ms = milliseconds(&t, s->found[i].plan, least);
        if (ms < least) least = ms, *best = i;
    }
    trial_close(&t);
    if (rc == E_DEVICE || (!rc && *best < 0))
        return cudnn_refuse(s->conv, E_DEVICE, "no engine of cuDNN runs on this GPU", e);
    return rc;
}

/* ---- planning ---- */

static int search(const struct dnn *d, const struct choice *k, int wanted, struct engine_search *s,
                  struct err *e)
{
    *s = (struct engine_search){ .handle = d->handle,
                                 .conv = &k->conv,
                                 .deterministic = k->deterministic,
                                 .workspace_limit = k->poor ? 0 : CUDNN_WORKSPACE,
                                 .wanted = wanted };
    return cudnn_find_engines(s, e);
}

/* Of what was found, the graph and this one stay. */
static void keep(struct choice *k, struct engine_search *s, int best)
{
    for (int i = 0; i < s->n; i++) {
        if (i == best)
            k->engine = s->found[i];
        else
            cudnn_drop_engine(&s->found[i]);
    }
    k->graph = s->graph;
}

/* The heuristics offer the same in the same order. If they do not, the file is of no use. */
static int recall(const struct dnn *d, struct choice *k)
{
    struct stored_engine g;
    struct engine_search s;
    if (!engine_file_find(d->engines, &k->conv, &g) || g.candidate >= ENGINES_MAX) return 0;
    int same = !search(d, k, g.candidate + 1, &s, NULL) && s.n > g.candidate &&
               s.found[g.candidate].id == g.engine &&
               (long long)s.found[g.candidate].workspace == g.workspace;
    keep(k, &s, same ? g.candidate : -1);
    if (!same) cudnn_drop_graph(&k->graph);
    return same;
}

static int choose(const struct dnn *d, struct choice *k, struct err *e)
{
    const int timed = !k->deterministic && !k->poor;
    struct engine_search s;
    if (timed && recall(d, k)) return OK;
    int best = 0, rc = search(d, k, timed ? ENGINES_MAX : 1, &s, e);
    if (!rc && timed) rc = find_fastest(d, &s, &best, e);
    if (!rc && timed)
        engine_file_put(
            d->engines, &k->conv,
            &(struct stored_engine){ best, s.found[best].id, (long long)s.found[best].workspace });
    keep(k, &s, best);
    return rc;
}

static int new_choice(struct dnn *d, const struct cudnn_conv *c, int deterministic, int poor,
                      struct choice **out, struct err *e)
{
    struct choice *k = mem_alloc(1, sizeof *k);
    if (!k) return fail(e, E_MEM, "no memory to plan a convolution");
    *k = (struct choice){ .conv = *c, .deterministic = deterministic, .poor = poor };
    int rc = choose(d, k, e);
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
    destroy_pack(p->pack);
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
    return fail(e, E_DEVICE,
                "this program needs cuDNN %d.%d, but found version %zu: install cuDNN %d, or compute on the "
                "CPU with -nogpu",
                CUDNN_MAJOR, CUDNN_MINOR, v, CUDNN_MAJOR);
}

static int start(struct dnn *d, struct err *e)
{
    char why[300];
    TRY(check_version(e));
    cudnnStatus_t rc = cudnnCreate(&d->handle);
    if (!rc) return OK;
    return fail(e, E_DEVICE, "cuDNN %zu does not start: %s: compute on the CPU with -nogpu",
                cudnnGetVersion(), cudnn_error_text(rc, why, sizeof why));
}

int cudnn_open(struct dnn **out, stream_t stream, struct engine_file *engines, struct err *e)
{
    struct dnn *d = *out = mem_alloc(1, sizeof *d);
    if (!d) return fail(e, E_MEM, "no memory to open cuDNN");
    d->stream = stream;
    d->engines = engines;
    int rc = start(d, e);
    if (!rc) return OK;
    cudnn_close(d);
    *out = NULL;
    return rc;
}

void cudnn_close(struct dnn *d)
{
    if (!d) return;
    while (d->choices) {
        struct choice *next = d->choices->next;
        drop_choice(d->choices);
        d->choices = next;
    }
    if (d->handle) cudnnDestroy(d->handle);
    mem_free(d);
}
