#include "dnn.h"
#include <omp.h>
#include <string.h>
#include "core/cores.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *dnn_version(void)
{
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}

static int status(dnnl_status_t s, const char *what, struct err *e)
{
    if (s == dnnl_success) return OK;
    if (s == dnnl_out_of_memory) return fail(e, E_MEM, "not enough memory for %s", what);
    return fail(e, E_DEVICE, "oneDNN cannot do %s (status %d: %s)", what, (int)s,
                s == dnnl_unimplemented ? "not implemented" : "bad argument or run-time failure");
}

/* oneDNN asks OpenMP for the number of threads when it makes a primitive and when it runs it, and must get
 * the same answer. The number belongs to the calling thread, so it is put back afterwards: returns what it
 * was. */
static int set_threads(int n)
{
    int before = omp_get_max_threads();
    omp_set_num_threads(n);
    return before;
}

int dnn_open(struct cpu *cpu, struct err *e)
{
    if (!USES_OPENMP && cpu->threads != cores())
        return fail(e, E_DEVICE, "this oneDNN was built without OpenMP and takes every core: -threads %d",
                    cores());
    if (dnnl_engine_create(&cpu->engine, dnnl_cpu, 0) != dnnl_success)
        return fail(e, E_DEVICE, "oneDNN finds no processor%s",
                    USES_SYCL ? ": set OCL_ICD_FILENAMES to the libintelocl.so beside it" : "");
    int rc = status(dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags), "a stream", e);
    if (rc) dnnl_engine_destroy(cpu->engine);
    return rc;
}

void dnn_close(struct cpu *cpu)
{
    dnnl_stream_destroy(cpu->stream);
    dnnl_engine_destroy(cpu->engine);
}

int dnn_has_bf16(void)
{
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

/* ---- primitives ---- */

void primitive_destroy(struct primitive *p)
{
    for (int i = 0; i < p->nargs; i++) dnnl_memory_destroy(p->arg[i].memory);
    if (p->handle) dnnl_primitive_destroy(p->handle);
    *p = (struct primitive){ 0 };
}

static const_dnnl_primitive_desc_t desc_of(const struct primitive *p)
{
    const_dnnl_primitive_desc_t pd = NULL;
    if (p->handle) dnnl_primitive_get_primitive_desc(p->handle, &pd);
    return pd;
}

static const_memory_desc_t arg_desc(const struct primitive *p, int i)
{
    return dnnl_primitive_desc_query_md(desc_of(p), dnnl_query_exec_arg_md, p->arg[i].arg);
}

static dnnl_status_t add_arg(struct primitive *p, int arg)
{
    if (p->nargs == PRIMITIVE_ARGS) return dnnl_invalid_arguments;
    dnnl_exec_arg_t *a = &p->arg[p->nargs];
    a->arg = arg;
    const_memory_desc_t md = arg_desc(p, p->nargs);
    dnnl_status_t s =
        md ? dnnl_memory_create(&a->memory, md, p->cpu->engine, DNNL_MEMORY_NONE) : dnnl_invalid_arguments;
    if (s == dnnl_success) p->nargs++;
    return s;
}

static dnnl_status_t bind_args(struct primitive *p, const int *args)
{
    dnnl_status_t s = dnnl_success;
    for (; s == dnnl_success && *args; args++) s = add_arg(p, *args);
    if (s != dnnl_success) return s;
    p->scratch_bytes =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc_of(p), dnnl_query_scratchpad_md, 0));
    return p->scratch_bytes ? add_arg(p, DNNL_ARG_SCRATCHPAD) : s;
}

/* A primitive in the making: between begin and finish the library works with the right number of threads. */
struct making {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t desc, forward; /* forward: what a backward pass is made from, which nobody runs */
    dnnl_status_t status;                /* the first failure */
    int threads_before;
};

static dnnl_status_t attributes(dnnl_primitive_attr_t *attr, enum act act);

/* act: applied to the result. */
static struct making begin(const struct cpu *cpu, enum act act)
{
    struct making m = { .engine = cpu->engine, .threads_before = set_threads(cpu->threads) };
    m.status = attributes(&m.attr, act);
    return m;
}

/* args ends with 0. Zeroes the primitive when it fails. */
static int finish(struct making *m, struct primitive *p, const struct cpu *cpu, const int *args,
                  const char *what, struct err *e)
{
    *p = (struct primitive){ .cpu = cpu };
    if (m->status == dnnl_success) m->status = dnnl_primitive_create(&p->handle, m->desc);
    if (m->status == dnnl_success) m->status = bind_args(p, args);
    if (m->desc) dnnl_primitive_desc_destroy(m->desc);
    if (m->forward) dnnl_primitive_desc_destroy(m->forward);
    if (m->attr) dnnl_primitive_attr_destroy(m->attr);
    if (m->status != dnnl_success) primitive_destroy(p);
    set_threads(m->threads_before);
    return status(m->status, what, e);
}

/* The next step, unless one has failed. */
#define STEP(m, call) ((m)->status = (m)->status == dnnl_success ? (call) : (m)->status)

int primitive_run(const struct primitive *p, const void *const *data, void *scratch)
{
    int last = p->nargs - (p->scratch_bytes > 0);
    for (int i = 0; i < p->nargs; i++) {
        void *at = i < last ? (void *)data[i] : scratch;
        if (dnnl_memory_set_data_handle(p->arg[i].memory, at) != dnnl_success) return E_DEVICE;
    }
    int before = set_threads(p->cpu->threads);
    dnnl_status_t s = dnnl_primitive_execute(p->handle, p->cpu->stream, p->nargs, p->arg);
    if (s == dnnl_success) s = dnnl_stream_wait(p->cpu->stream);
    set_threads(before);
    return status(s, "", NULL);
}

size_t primitive_arg_bytes(const struct primitive *p, int i)
{
    return dnnl_memory_desc_get_size(arg_desc(p, i));
}

int primitive_suits(const struct primitive *p, int depthwise)
{
    const char *name = "";
    dnnl_primitive_desc_query(desc_of(p), dnnl_query_impl_info_str, 0, &name);
    if (depthwise) return strstr(name, "dw") != NULL;
    return !strstr(name, "gemm:") && !strstr(name, "ref:") && !strstr(name, "simple:");
}

/* ---- layouts ---- */

/* What these make is the caller's to forget; NULL after a failure, which goes to *s. */
static memory_desc_t describe(dnnl_status_t *s, int n, const dnnl_dims_t dims, int bf16,
                              dnnl_format_tag_t tag)
{
    memory_desc_t md = NULL;
    if (*s == dnnl_success)
        *s = dnnl_memory_desc_create_with_tag(&md, n, dims, bf16 ? dnnl_bf16 : dnnl_f32, tag);
    return md;
}

static memory_desc_t vector(dnnl_status_t *s, size_t n, int bf16)
{
    return describe(s, 1, (dnnl_dims_t){ (dnnl_dim_t)n }, bf16, dnnl_a);
}

static memory_desc_t tensor_with(dnnl_status_t *s, struct shape t, int bf16, dnnl_format_tag_t tag)
{
    return describe(s, 4, (dnnl_dims_t){ t.n, t.c, t.h, t.w }, bf16, tag);
}

static memory_desc_t tensor_in(dnnl_status_t *s, struct shape t, int block, int bf16)
{
    return tensor_with(s, t, bf16,
                       block == 16             ? dnnl_nChw16c
                       : block == 8            ? dnnl_nChw8c
                       : block == ALL_CHANNELS ? dnnl_nhwc
                                               : dnnl_nchw);
}

static void forget(memory_desc_t md)
{
    if (md) dnnl_memory_desc_destroy(md);
}

int primitive_layout(const struct primitive *p, int i, struct shape shape, int bf16,
                     const struct layout **layout, struct err *e)
{
    static const int blocks[] = { 1, 8, 16, ALL_CHANNELS };
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        dnnl_status_t s = dnnl_success;
        memory_desc_t md = tensor_in(&s, shape, blocks[b], bf16);
        int same = md && dnnl_memory_desc_equal(md, arg_desc(p, i));
        forget(md);
        TRY(status(s, "a memory format", e));
        if (!same) continue;
        *layout = format_layout(shape, blocks[b], bf16);
        return OK;
    }
    return fail(e, E_DEVICE, "oneDNN wants an unknown memory format");
}

struct layout primitive_weights(const struct primitive *p, int i)
{
    return (struct layout){ .weights = arg_desc(p, i) };
}

int dnn_same_weights(const struct layout *a, const struct layout *b)
{
    return dnnl_memory_desc_equal(a->weights, b->weights);
}

size_t dnn_weight_bytes(const struct layout *l) { return dnnl_memory_desc_get_size(l->weights); }

/* Weights of these dimensions as the host has them: O,(I/groups),H,W. */
static memory_desc_t host_weights(dnnl_status_t *s, const_memory_desc_t packed)
{
    const dnnl_dims_t *dims;
    int n = memory_desc_dims(packed, &dims);
    return describe(s, n, *dims, 0, n == 5 ? dnnl_goihw : dnnl_oihw);
}

int dnn_reorder(struct primitive *p, const struct cpu *cpu, const struct layout *from,
                const struct layout *to, struct err *e)
{
    static const int args[] = { DNNL_ARG_FROM, DNNL_ARG_TO, 0 };
    struct making m = begin(cpu, ACT_LINEAR);
    memory_desc_t host = from && to ? NULL : host_weights(&m.status, from ? from->weights : to->weights);
    STEP(&m, dnnl_reorder_primitive_desc_create(&m.desc, from ? from->weights : host, m.engine,
                                                to ? to->weights : host, m.engine, m.attr));
    forget(host);
    return finish(&m, p, cpu, args, "a reorder of weights", e);
}

/* ---- activations ---- */

/* Those that oneDNN computes by the formulas of scalar.h. */
static const struct eltwise {
    enum act act;
    dnnl_alg_kind_t forward, backward;
    float alpha, beta;
    int alone; /* worth a primitive of its own; the others are only fused: reading and writing memory is all
                  that they cost in any implementation */
} eltwise[] = {
    { ACT_RELU, dnnl_eltwise_relu, dnnl_alg_kind_undef, 0, 0, 0 },
    { ACT_LEAKY, dnnl_eltwise_relu, dnnl_alg_kind_undef, 0.1f, 0, 0 },
    { ACT_RELIE, dnnl_eltwise_relu, dnnl_alg_kind_undef, 0.01f, 0, 0 },
    { ACT_RELU6, dnnl_eltwise_clip_v2, dnnl_eltwise_clip_v2_use_dst_for_bwd, 0, 6, 1 },
    { ACT_HARDTAN, dnnl_eltwise_clip_v2, dnnl_eltwise_clip_v2_use_dst_for_bwd, -1, 1, 1 },
    { ACT_LOGISTIC, dnnl_eltwise_logistic, dnnl_eltwise_logistic_use_dst_for_bwd, 0, 0, 1 },
    { ACT_TANH, dnnl_eltwise_tanh, dnnl_eltwise_tanh_use_dst_for_bwd, 0, 0, 1 },
    { ACT_ELU, dnnl_eltwise_elu, dnnl_eltwise_elu_use_dst_for_bwd, 1, 0, 1 },
    { ACT_SWISH, dnnl_eltwise_swish, dnnl_eltwise_swish, 1, 0, 1 },
    { ACT_MISH, dnnl_eltwise_mish, dnnl_eltwise_mish, 0, 0, 1 },
    { ACT_GELU, dnnl_eltwise_gelu_tanh, dnnl_eltwise_gelu_tanh, 0, 0, 1 },
};

static const struct eltwise *eltwise_of(enum act act)
{
    for (size_t i = 0; i < sizeof eltwise / sizeof *eltwise; i++)
        if (eltwise[i].act == act) return &eltwise[i];
    return NULL;
}

int dnn_fusible(enum act act) { return eltwise_of(act) != NULL; }

int dnn_eltwise_known(enum act act)
{
    const struct eltwise *w = eltwise_of(act);
    return w && w->alone;
}

static dnnl_status_t post_op(dnnl_primitive_attr_t attr, const struct eltwise *w)
{
    dnnl_post_ops_t ops;
    dnnl_status_t s = dnnl_post_ops_create(&ops);
    if (s != dnnl_success) return s;
    s = dnnl_post_ops_append_eltwise(ops, w->forward, w->alpha, w->beta);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return s;
}

/* Scratch memory is the caller's: the library allocates none of its own. */
static dnnl_status_t attributes(dnnl_primitive_attr_t *attr, enum act act)
{
    dnnl_status_t s = dnnl_primitive_attr_create(attr);
    if (s != dnnl_success) return s;
    s = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (s == dnnl_success && act != ACT_LINEAR) s = post_op(*attr, eltwise_of(act));
    return s;
}

int dnn_eltwise(struct primitive *p, const struct cpu *cpu, enum act act, size_t n, int bf16,
                enum pass_kind pass, struct err *e)
{
    static const int forward[] = { DNNL_ARG_SRC, DNNL_ARG_DST, 0 };
    static const int from_x[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, 0 };
    static const int from_y[] = { DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, 0 };
    const struct eltwise *w = eltwise_of(act);
    dnnl_alg_kind_t alg = pass == PASS_DATA ? w->backward : w->forward;
    struct making m = begin(cpu, ACT_LINEAR);
    memory_desc_t md = vector(&m.status, n, bf16);
    STEP(&m, dnnl_eltwise_forward_primitive_desc_create(&m.desc, m.engine, dnnl_forward_training, alg, md, md,
                                                        w->alpha, w->beta, m.attr));
    if (pass == PASS_DATA) {
        m.forward = m.desc;
        m.desc = NULL;
        STEP(&m, dnnl_eltwise_backward_primitive_desc_create(&m.desc, m.engine, alg, md, md, md, w->alpha,
                                                             w->beta, m.forward, m.attr));
    }
    forget(md);
    return finish(&m, p, cpu,
                  pass == PASS_FORWARD   ? forward
                  : act_from_output(act) ? from_y
                                         : from_x,
                  "this activation", e);
}

/* ---- convolution ---- */

static memory_desc_t weights_of(dnnl_status_t *s, const struct dnn_conv *c, int bf16)
{
    dnnl_dim_t g = c->groups, o = c->out.c, i = c->in.c, k = c->size;
    return g > 1 ? describe(s, 5, (dnnl_dims_t){ g, o / g, i / g, k, k }, bf16, dnnl_format_tag_any)
                 : describe(s, 4, (dnnl_dims_t){ o, i, k, k }, bf16, dnnl_format_tag_any);
}

int dnn_conv(struct primitive *p, const struct cpu *cpu, const struct dnn_conv *c, enum pass_kind pass,
             const struct primitive *forward, struct err *e)
{
    static const int run[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, 0 };
    static const int data[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0 };
    static const int weights[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, 0 };
    dnnl_format_tag_t tag = c->any ? dnnl_format_tag_any : dnnl_nchw;
    struct making m = begin(cpu, c->act);
    memory_desc_t x = tensor_with(&m.status, c->in, c->bf16, tag),
                  y = tensor_with(&m.status, c->out, c->bf16, tag),
                  b = vector(&m.status, (size_t)c->out.c, 0),
                  own = c->weights ? NULL : weights_of(&m.status, c, c->bf16 && pass != PASS_WEIGHTS);
    const_memory_desc_t w = c->weights ? c->weights->weights : own;
    dnnl_alg_kind_t alg = dnnl_convolution_direct;
    /* Rows and columns that no window reaches are cut off by less padding behind, or negative padding. */
    dnnl_dim_t sy = c->stride_y, sx = c->stride_x, extent = (dnnl_dim_t)(c->size - 1) * c->dilation + 1;
    dnnl_dims_t stride = { sy, sx }, between = { c->dilation - 1, c->dilation - 1 },
                before = { c->pad, c->pad },
                behind = {
                    (c->out.h - 1) * sy + extent - c->in.h - c->pad,
                    (c->out.w - 1) * sx + extent - c->in.w - c->pad,
                };
    if (pass == PASS_DATA)
        STEP(&m, dnnl_convolution_backward_data_primitive_desc_create(&m.desc, m.engine, alg, x, w, y, stride,
                                                                      between, before, behind,
                                                                      desc_of(forward), m.attr));
    else if (pass == PASS_WEIGHTS)
        STEP(&m, dnnl_convolution_backward_weights_primitive_desc_create(&m.desc, m.engine, alg, x, w, NULL,
                                                                         y, stride, between, before, behind,
                                                                         desc_of(forward), m.attr));
    else
        STEP(&m, dnnl_convolution_forward_primitive_desc_create(&m.desc, m.engine, dnnl_forward_training, alg,
                                                                x, w, b, y, stride, between, before, behind,
                                                                m.attr));
    forget(x);
    forget(y);
    forget(b);
    forget(own);
    return finish(&m, p, cpu,
                  pass == PASS_DATA      ? data
                  : pass == PASS_WEIGHTS ? weights
                                         : run,
                  "this convolution", e);
}

/* ---- pooling, products of matrices ---- */

int dnn_pool(struct primitive *primitive, const struct cpu *cpu, const struct dnn_pool *p,
             enum pass_kind pass, struct err *e)
{
    static const int train[] = { DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE, 0 };
    static const int infer[] = { DNNL_ARG_SRC, DNNL_ARG_DST, 0 };
    static const int from_gy[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_WORKSPACE, 0 };
    const dnnl_alg_kind_t max = dnnl_pooling_max;
    dnnl_prop_kind_t kind = p->train ? dnnl_forward_training : dnnl_forward_inference;
    int block = format_block(p->layout), bf16 = format_bf16(p->layout);
    struct making m = begin(cpu, ACT_LINEAR);
    memory_desc_t x = tensor_in(&m.status, p->in, block, bf16), y = tensor_in(&m.status, p->out, block, bf16);
    dnnl_dim_t below = (dnnl_dim_t)(p->out.h - 1) * p->stride_y + p->size - p->in.h - p->before;
    dnnl_dim_t right = (dnnl_dim_t)(p->out.w - 1) * p->stride_x + p->size - p->in.w - p->before;
    dnnl_dims_t stride = { p->stride_y, p->stride_x }, window = { p->size, p->size }, between = { 0, 0 },
                before = { p->before, p->before };
    dnnl_dims_t behind = { below > 0 ? below : 0, right > 0 ? right : 0 };
    STEP(&m, dnnl_pooling_forward_primitive_desc_create(&m.desc, m.engine, kind, max, x, y, stride, window,
                                                        between, before, behind, m.attr));
    if (pass == PASS_DATA) {
        m.forward = m.desc;
        m.desc = NULL;
        STEP(&m, dnnl_pooling_backward_primitive_desc_create(&m.desc, m.engine, max, x, y, stride, window,
                                                             between, before, behind, m.forward, m.attr));
    }
    forget(x);
    forget(y);
    return finish(&m, primitive, cpu,
                  pass == PASS_DATA ? from_gy
                  : p->train        ? train
                                    : infer,
                  "this pooling", e);
}

int dnn_gemm(const struct cpu *cpu, int ta, int tb, size_t m, size_t n, size_t k, const float *a,
             const float *b, float beta, float *c)
{
    int before = set_threads(cpu->threads);
    dnnl_status_t s =
        dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a,
                   (dnnl_dim_t)(ta ? m : k), b, (dnnl_dim_t)(tb ? k : n), beta, c, (dnnl_dim_t)n);
    set_threads(before);
    return status(s, "", NULL);
}
