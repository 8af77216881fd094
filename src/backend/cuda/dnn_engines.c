/* Everything in cuDNN's graph API is a descriptor, which is created, given attributes and finalised. A graph
 * of one operation goes to the heuristics, which offer engine configurations, best first. Those that keep
 * what the precision promises and fit into the workspace become execution plans. */
#include "dnn_engines.h"
#include <stdio.h>

typedef cudnnBackendDescriptor_t desc_t;

enum { CONFIGS = 96 };    /* offers of a query that are looked at */
enum { SAME_ENGINE = 5 }; /* of them that are taken of an engine: those behind differ ever less */
enum { ALIGN = 16 };      /* bytes: tensor cores want it, more gains nothing */

static void destroy(desc_t d)
{
    if (d) cudnnBackendDestroyDescriptor(d);
}

void cudnn_drop_engine(struct engine *g)
{
    destroy(g->plan);
    destroy(g->config);
    *g = (struct engine){ 0 };
}

void cudnn_drop_graph(struct conv_graph *g)
{
    while (g->parts) destroy(g->part[--g->parts]);
}

/* ---- messages ---- */

const char *cudnn_error_text(cudnnStatus_t s, char *to, size_t size)
{
    char last[200] = "";
    cudnnGetLastErrorString(last, sizeof last);
    snprintf(to, size, "%s%s%s", cudnnGetErrorString(s), *last ? ": " : "", last);
    return to;
}

int cudnn_refuse(const struct cudnn_conv *c, int code, const char *why, struct err *e)
{
    static const char *const pass[] = { "forward", "data gradient of the", "weight gradient of the" };
    const char *precision = c->bf16 ? "bf16" : c->tf32 ? "tf32" : "fp32";
    return fail(e, code,
                "%s convolution of %d x %d x %d x %d with %d filters of %dx%d, dilation %d, stride %dx%d, "
                "padding %d, groups %d, in %s: %s",
                pass[c->pass], c->n, c->c, c->h, c->w, c->filters, c->size, c->size, c->dilation, c->stride_x,
                c->stride_y, c->pad, c->groups, precision, why);
}

/* ---- the operation graph ---- */

static cudnnStatus_t make(struct conv_graph *g, cudnnBackendDescriptorType_t type, desc_t *d)
{
    CUDNN(cudnnBackendCreateDescriptor(type, d));
    g->part[g->parts++] = *d;
    return CUDNN_STATUS_SUCCESS;
}

/* size: N,C,H,W, or O,I/groups,H,W of weights. Always in this order; the memory order is in the strides. */
static cudnnStatus_t make_tensor(struct conv_graph *g, int bf16, int64_t uid, const int64_t size[4],
                                 desc_t *d)
{
    const cudnnDataType_t type = bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const int64_t c = size[1], w = size[3], align = ALIGN;
    const int64_t strides[4] = { size[2] * w * c, 1, w * c, c };
    CUDNN(make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, d));
    CUDNN_SET(*d, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type);
    CUDNN_SET(*d, TENSOR_DIMENSIONS, INT64, 4, size);
    CUDNN_SET(*d, TENSOR_STRIDES, INT64, 4, strides);
    CUDNN_SET(*d, TENSOR_UNIQUE_ID, INT64, 1, &uid);
    CUDNN_SET(*d, TENSOR_BYTE_ALIGNMENT, INT64, 1, &align);
    return cudnnBackendFinalize(*d);
}

static cudnnStatus_t make_tensors(struct conv_graph *g, const struct cudnn_conv *c, desc_t t[3])
{
    const int64_t x[4] = { c->n, c->c, c->h, c->w }, y[4] = { c->n, c->filters, c->oh, c->ow },
                  w[4] = { c->filters, c->c / c->groups, c->size, c->size };
    CUDNN(make_tensor(g, c->bf16, UID_X, x, &t[0]));
    CUDNN(make_tensor(g, c->bf16, UID_W, w, &t[1]));
    return make_tensor(g, c->bf16, UID_Y, y, &t[2]);
}

static cudnnStatus_t make_convolution(struct conv_graph *g, const struct cudnn_conv *c, desc_t *d)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dims = 2, pad[2] = { c->pad, c->pad }, stride[2] = { c->stride_y, c->stride_x },
                  dilation[2] = { c->dilation, c->dilation };
    CUDNN(make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, d));
    CUDNN_SET(*d, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &sums);
    CUDNN_SET(*d, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
    CUDNN_SET(*d, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &dims);
    CUDNN_SET(*d, CONVOLUTION_PRE_PADDINGS, INT64, 2, pad);
    CUDNN_SET(*d, CONVOLUTION_POST_PADDINGS, INT64, 2, pad);
    CUDNN_SET(*d, CONVOLUTION_DILATIONS, INT64, 2, dilation);
    CUDNN_SET(*d, CONVOLUTION_FILTER_STRIDES, INT64, 2, stride);
    return cudnnBackendFinalize(*d);
}

/* What the three passes call the same things, in the order of enum cudnn_pass. */
#define PASS(type, attr, x, w, y)                                                                            \
    {                                                                                                        \
        CUDNN_BACKEND_OPERATION_CONVOLUTION_##type##_DESCRIPTOR,                                             \
            { CUDNN_ATTR_OPERATION_CONVOLUTION_##attr##_##x, CUDNN_ATTR_OPERATION_CONVOLUTION_##attr##_##w,  \
              CUDNN_ATTR_OPERATION_CONVOLUTION_##attr##_##y },                                               \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##attr##_CONV_DESC,                                             \
            CUDNN_ATTR_OPERATION_CONVOLUTION_##attr##_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_##attr##_BETA  \
    }
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t tensor[3], convolution, alpha, beta;
} passes[] = { PASS(FORWARD, FORWARD, X, W, Y), PASS(BACKWARD_DATA, BWD_DATA, DX, W, DY),
               PASS(BACKWARD_FILTER, BWD_FILTER, X, DW, DY) };

static cudnnStatus_t make_operation(struct conv_graph *g, const struct cudnn_conv *c, desc_t *d)
{
    const float alpha = 1, beta = c->add ? 1 : 0;
    desc_t t[3], conv;
    CUDNN(make_tensors(g, c, t));
    CUDNN(make_convolution(g, c, &conv));
    CUDNN(make(g, passes[c->pass].type, d));
    for (int i = 0; i < 3; i++)
        CUDNN(
            cudnnBackendSetAttribute(*d, passes[c->pass].tensor[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t[i]));
    CUDNN(cudnnBackendSetAttribute(*d, passes[c->pass].convolution, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv));
    CUDNN(cudnnBackendSetAttribute(*d, passes[c->pass].alpha, CUDNN_TYPE_FLOAT, 1, &alpha));
    CUDNN(cudnnBackendSetAttribute(*d, passes[c->pass].beta, CUDNN_TYPE_FLOAT, 1, &beta));
    return cudnnBackendFinalize(*d);
}

static cudnnStatus_t make_graph(struct engine_search *s, desc_t *graph)
{
    desc_t operation;
    CUDNN(make_operation(&s->graph, s->conv, &operation));
    CUDNN(make(&s->graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, graph));
    if (s->handle) CUDNN_SET(*graph, OPERATIONGRAPH_HANDLE, HANDLE, 1, &s->handle);
    CUDNN_SET(*graph, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &operation);
    return cudnnBackendFinalize(*graph);
}

/* ---- engines ---- */

/* Does an engine with this note compute what the precision promises? */
static int acceptable(const struct engine_search *s, cudnnBackendNumericalNote_t note)
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

static cudnnStatus_t read_notes(desc_t config, desc_t engine, int64_t *id, cudnnBackendNumericalNote_t *note,
                                int64_t *n)
{
    CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, n,
                                   &engine));
    CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, n, id));
    return cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, n, note);
}

/* An engine whose notes cannot be read is not taken. */
static int keeps_promise(const struct engine_search *s, struct engine *g)
{
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    desc_t engine; /* filled by reading it: not to be finalised */
    int64_t n = 0;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)) return 0;
    int yes = read_notes(g->config, engine, &g->id, note, &n) == CUDNN_STATUS_SUCCESS;
    destroy(engine);
    for (int64_t i = 0; i < n && yes; i++) yes = acceptable(s, note[i]);
    return yes;
}

/* Older cuDNN wants the handle. */
static cudnnStatus_t make_plan(cudnnHandle_t handle, struct engine *g)
{
    int64_t bytes = 0, n;
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &g->plan));
    if (handle) CUDNN_SET(g->plan, EXECUTION_PLAN_HANDLE, HANDLE, 1, &handle);
    CUDNN_SET(g->plan, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &g->config);
    CUDNN(cudnnBackendFinalize(g->plan));
    CUDNN(cudnnBackendGetAttribute(g->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
                                   &bytes));
    g->workspace = (size_t)bytes;
    return CUDNN_STATUS_SUCCESS;
}

static int is_new(const struct engine_search *s, const struct engine *g)
{
    int same = 0;
    for (int i = 0; i < s->n; i++) same += s->found[i].id == g->id;
    return same < SAME_ENGINE;
}

/* Takes the configuration over. A plan that is refused is no error: the next offer may do. */
static void consider(struct engine_search *s, desc_t config)
{
    struct engine g = { .config = config };
    s->offers++;
    if (s->n < s->wanted && keeps_promise(s, &g) && is_new(s, &g) && !make_plan(s->handle, &g) &&
        g.workspace <= s->workspace_limit)
        s->found[s->n++] = g;
    else
        cudnn_drop_engine(&g);
}

static cudnnStatus_t query(const struct engine_search *s, desc_t graph, cudnnBackendHeurMode_t mode,
                           desc_t *h)
{
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, h));
    CUDNN_SET(*h, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &graph);
    CUDNN_SET(*h, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    if (s->card) CUDNN_SET(*h, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &s->card);
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

static cudnnStatus_t ask(struct engine_search *s, desc_t graph, cudnnBackendHeurMode_t mode)
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

/* The modes, best first: the next is asked only where one has nothing that will do. */
static cudnnStatus_t ask_in_turn(struct engine_search *s, desc_t graph)
{
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B,
                                                    CUDNN_HEUR_MODE_FALLBACK };
    cudnnStatus_t rc = CUDNN_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof modes / sizeof *modes && !s->n; i++) rc = ask(s, graph, modes[i]);
    return rc;
}

int cudnn_find_engines(struct engine_search *s, struct err *e)
{
    char why[300];
    desc_t graph;
    cudnnStatus_t rc = make_graph(s, &graph);
    if (!rc) rc = ask_in_turn(s, graph);
    if (s->n) return OK;
    if (!s->offers && rc) return cudnn_refuse(s->conv, E_DEVICE, cudnn_error_text(rc, why, sizeof why), e);
    snprintf(why, sizeof why, "none of the %d engines of cuDNN %d.%d keeps to %zu MiB and this precision%s",
             s->offers, CUDNN_MAJOR, CUDNN_MINOR, s->workspace_limit >> 20,
             s->conv->bf16 ? ": try precision=fp32" : "");
    return cudnn_refuse(s->conv, E_DEVICE, why, e);
}
