/* All that knows oneDNN's version: 2.x. Version 3 makes primitives without operation descriptors and hides
 * its memory descriptors behind pointers; a port changes this file, and struct layout's member. */
#include "cpu.h"
#include <omp.h>
#include <string.h>
#include "core/mem.h"

static int status(dnnl_status_t s, const char *what, struct err *e)
{
    if (s == dnnl_success) return OK;
    if (s == dnnl_out_of_memory) return fail(e, E_MEM, "not enough memory for %s", what);
    return fail(e, E_DEVICE, "oneDNN cannot do %s (status %d: %s)", what, (int)s,
                s == dnnl_unimplemented ? "not implemented" : "bad argument or run-time failure");
}

/* oneDNN asks OpenMP how many threads there are, when it makes a primitive and when it runs it: both must get
 * the same answer. The number belongs to the calling thread, so it is put back. */
static int threads_set(int n)
{
    int was = omp_get_max_threads();
    omp_set_num_threads(n);
    return was;
}

int onednn_open(struct cpu *cpu, struct err *e)
{
    TRY(status(dnnl_engine_create(&cpu->engine, dnnl_cpu, 0), "a cpu engine", e));
    int rc =
        status(dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_default_flags), "a cpu stream", e);
    if (rc) dnnl_engine_destroy(cpu->engine);
    return rc;
}

void onednn_close(struct cpu *cpu)
{
    dnnl_stream_destroy(cpu->stream);
    dnnl_engine_destroy(cpu->engine);
}

/* ---- primitives ---- */

void op_drop(struct op *op)
{
    for (int i = 0; i < op->nargs; i++) dnnl_memory_destroy(op->arg[i].memory);
    if (op->primitive) dnnl_primitive_destroy(op->primitive);
    *op = (struct op){ 0 };
}

static const_dnnl_primitive_desc_t desc_of(const struct op *op)
{
    const_dnnl_primitive_desc_t pd = NULL;
    if (op->primitive) dnnl_primitive_get_primitive_desc(op->primitive, &pd);
    return pd;
}

static const dnnl_memory_desc_t *arg_desc(const struct op *op, int i)
{
    return dnnl_primitive_desc_query_md(desc_of(op), dnnl_query_exec_arg_md, op->arg[i].arg);
}

/* An argument that this primitive does not have, the mask of a relu for instance, is left out: it must be the
 * last. */
static dnnl_status_t add_arg(struct op *op, int arg)
{
    if (op->nargs == OP_ARGS) return dnnl_invalid_arguments;
    dnnl_exec_arg_t *a = &op->arg[op->nargs];
    a->arg = arg;
    const dnnl_memory_desc_t *md = arg_desc(op, op->nargs);
    dnnl_status_t s =
        md ? dnnl_memory_create(&a->memory, md, op->cpu->engine, DNNL_MEMORY_NONE) : dnnl_invalid_arguments;
    if (s == dnnl_success) op->nargs++;
    return s;
}

/* Takes `desc` over. args ends with 0. Zeroes the op when it fails. */
static int make(struct op *op, const struct cpu *cpu, dnnl_primitive_desc_t desc, const int *args,
                const char *what, struct err *e)
{
    *op = (struct op){ .cpu = cpu };
    dnnl_status_t s = dnnl_primitive_create(&op->primitive, desc);
    dnnl_primitive_desc_destroy(desc);
    for (; s == dnnl_success && *args; args++) s = add_arg(op, *args);
    if (s == dnnl_success) {
        op->scratch_bytes =
            dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc_of(op), dnnl_query_scratchpad_md, 0));
        if (op->scratch_bytes) s = add_arg(op, DNNL_ARG_SCRATCHPAD);
    }
    if (s != dnnl_success) op_drop(op);
    return status(s, what, e);
}

/* Scratch memory is the caller's, so that nothing hides in the library; `act` is applied to the result. */
static dnnl_status_t attributes(dnnl_primitive_attr_t *attr, enum act act);

static int make_from(struct op *op, const struct cpu *cpu, const_dnnl_op_desc_t desc,
                     const struct op *forward, enum act act, const int *args, const char *what, struct err *e)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int was = threads_set(cpu->threads);
    dnnl_status_t s = attributes(&attr, act);
    if (s == dnnl_success)
        s = dnnl_primitive_desc_create(&pd, desc, attr, cpu->engine, forward ? desc_of(forward) : NULL);
    if (attr) dnnl_primitive_attr_destroy(attr);
    int rc = s == dnnl_success ? make(op, cpu, pd, args, what, e) : status(s, what, e);
    threads_set(was);
    return rc;
}

int op_run(const struct op *op, const void *const *data, void *scratch)
{
    int last = op->nargs - (op->scratch_bytes > 0);
    for (int i = 0; i < op->nargs; i++) {
        void *p = i < last ? (void *)data[i] : scratch;
        if (dnnl_memory_set_data_handle(op->arg[i].memory, p) != dnnl_success) return E_DEVICE;
    }
    int was = threads_set(op->cpu->threads);
    dnnl_status_t s = dnnl_primitive_execute(op->primitive, op->cpu->stream, op->nargs, op->arg);
    if (s == dnnl_success) s = dnnl_stream_wait(op->cpu->stream);
    threads_set(was);
    return status(s, "", NULL);
}

size_t op_arg_bytes(const struct op *op, int i) { return dnnl_memory_desc_get_size(arg_desc(op, i)); }

/* ---- layouts ---- */

static dnnl_memory_desc_t any_order(int ndims, const dnnl_dim_t *dims)
{
    dnnl_memory_desc_t md;
    dnnl_memory_desc_init_by_tag(&md, ndims, dims, dnnl_f32, dnnl_format_tag_any);
    return md;
}

static dnnl_memory_desc_t vector(size_t n)
{
    dnnl_memory_desc_t md;
    dnnl_memory_desc_init_by_tag(&md, 1, (dnnl_dims_t){ (dnnl_dim_t)n }, dnnl_f32, dnnl_a);
    return md;
}

static dnnl_memory_desc_t tensor_with(struct shape s, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    dnnl_memory_desc_init_by_tag(&md, 4, (dnnl_dims_t){ s.n, s.c, s.h, s.w }, dnnl_f32, tag);
    return md;
}

static dnnl_memory_desc_t tensor_in(struct shape s, const struct layout *l)
{
    int block = l ? l->block : 1;
    return tensor_with(s, block == 16             ? dnnl_nChw16c
                          : block == 8            ? dnnl_nChw8c
                          : block == ALL_CHANNELS ? dnnl_nhwc
                                                  : dnnl_nchw);
}

const struct layout *op_tensor(const struct op *op, int i, struct shape s, int *known)
{
    static const int blocks[] = { 1, 8, 16, ALL_CHANNELS };
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        struct layout l = { .block = blocks[b] };
        dnnl_memory_desc_t md = tensor_in(s, &l);
        if (dnnl_memory_desc_equal(&md, arg_desc(op, i))) return format_layout(s, l.block, known);
    }
    *known = 0;
    return NULL;
}

void op_weights(const struct op *op, int i, struct layout *l)
{
    *l = (struct layout){ .weights = *arg_desc(op, i) };
}

int layout_same_weights(const struct layout *a, const struct layout *b)
{
    return dnnl_memory_desc_equal(&a->weights, &b->weights);
}

size_t layout_weight_bytes(const struct layout *l) { return dnnl_memory_desc_get_size(&l->weights); }

int dnn_reorder(struct op *op, const struct cpu *cpu, const struct layout *from, const struct layout *to,
                struct err *e)
{
    static const int args[] = { DNNL_ARG_FROM, DNNL_ARG_TO, 0 };
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int was = threads_set(cpu->threads);
    dnnl_status_t s = attributes(&attr, ACT_LINEAR);
    if (s == dnnl_success)
        s = dnnl_reorder_primitive_desc_create(&pd, &from->weights, cpu->engine, &to->weights, cpu->engine,
                                               attr);
    if (attr) dnnl_primitive_attr_destroy(attr);
    int rc = s == dnnl_success ? make(op, cpu, pd, args, "a change of weight layout", e)
                               : status(s, "a change of weight layout", e);
    threads_set(was);
    return rc;
}

/* ---- activations ---- */

/* Those that oneDNN has with the formulas of scalar.h. `both`: forward and backward are worth a primitive of
 * their own; the others cost no more than reading and writing memory in any implementation, and are only
 * fused. */
static const struct eltwise {
    enum act act;
    dnnl_alg_kind_t forward, backward;
    float alpha, beta;
    int both;
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
    return w && w->both;
}

static dnnl_status_t post_op(dnnl_primitive_attr_t attr, const struct eltwise *w)
{
    dnnl_post_ops_t ops;
    dnnl_status_t s = dnnl_post_ops_create(&ops);
    if (s != dnnl_success) return s;
    s = dnnl_post_ops_append_eltwise(ops, 1, w->forward, w->alpha, w->beta);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return s;
}

static dnnl_status_t attributes(dnnl_primitive_attr_t *attr, enum act act)
{
    dnnl_status_t s = dnnl_primitive_attr_create(attr);
    if (s != dnnl_success) return s;
    s = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (s == dnnl_success && act != ACT_LINEAR) s = post_op(*attr, eltwise_of(act));
    return s;
}

int dnn_eltwise(struct op *op, const struct cpu *cpu, enum act act, size_t n, enum pass_kind pass,
                struct err *e)
{
    static const int forward[] = { DNNL_ARG_SRC, DNNL_ARG_DST, 0 };
    static const int from_x[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, 0 };
    static const int from_y[] = { DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, 0 };
    const struct eltwise *w = eltwise_of(act);
    dnnl_memory_desc_t md = vector(n);
    dnnl_eltwise_desc_t d, hint;
    dnnl_alg_kind_t alg = pass == PASS_DATA ? w->backward : w->forward;
    dnnl_eltwise_forward_desc_init(&hint, dnnl_forward_training, alg, &md, w->alpha, w->beta);
    if (pass != PASS_DATA) return make_from(op, cpu, &hint, NULL, ACT_LINEAR, forward, "an activation", e);
    struct op first;
    TRY(make_from(&first, cpu, &hint, NULL, ACT_LINEAR, forward, "an activation", e));
    dnnl_eltwise_backward_desc_init(&d, alg, &md, &md, w->alpha, w->beta);
    int rc = make_from(op, cpu, &d, &first, ACT_LINEAR, act_from_output(act) ? from_y : from_x,
                       "the gradient of an activation", e);
    op_drop(&first);
    return rc;
}

/* ---- convolution ---- */

static dnnl_memory_desc_t conv_weights(const struct dnn_conv *c, dnnl_format_tag_t plain,
                                       dnnl_format_tag_t grouped)
{
    dnnl_memory_desc_t md;
    dnnl_dim_t g = c->groups, o = c->out.c, i = c->in.c, k = c->size;
    if (g > 1)
        dnnl_memory_desc_init_by_tag(&md, 5, (dnnl_dims_t){ g, o / g, i / g, k, k }, dnnl_f32, grouped);
    else
        dnnl_memory_desc_init_by_tag(&md, 4, (dnnl_dims_t){ o, i, k, k }, dnnl_f32, plain);
    return md;
}

void dnn_host_weights(struct layout *l, const struct dnn_conv *c)
{
    *l = (struct layout){ .weights = conv_weights(c, dnnl_oihw, dnnl_goihw) };
}

static dnnl_memory_desc_t conv_tensor(const struct dnn_conv *c, struct shape s, const struct layout *l)
{
    return c->any ? any_order(4, (dnnl_dims_t){ s.n, s.c, s.h, s.w }) : tensor_in(s, l);
}

int dnn_conv(struct op *op, const struct cpu *cpu, const struct dnn_conv *c, enum pass_kind pass,
             const struct op *forward, struct err *e)
{
    static const int run[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, 0 };
    static const int data[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0 };
    static const int weights[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, 0 };
    dnnl_memory_desc_t x = conv_tensor(c, c->in, c->x), y = conv_tensor(c, c->out, c->y),
                       b = vector((size_t)c->out.c);
    dnnl_memory_desc_t w =
        c->weights ? c->weights->weights : conv_weights(c, dnnl_format_tag_any, dnnl_format_tag_any);
    dnnl_alg_kind_t alg = c->winograd ? dnnl_convolution_auto : dnnl_convolution_direct;
    /* What the last window leaves over is cut off by less (or negative) padding behind. */
    dnnl_dims_t stride = { c->stride, c->stride }, before = { c->pad, c->pad },
                behind = {
                    (dnnl_dim_t)(c->out.h - 1) * c->stride + c->size - c->in.h - c->pad,
                    (dnnl_dim_t)(c->out.w - 1) * c->stride + c->size - c->in.w - c->pad,
                };
    dnnl_convolution_desc_t d;
    dnnl_status_t s;
    if (pass == PASS_DATA)
        s = dnnl_convolution_backward_data_desc_init(&d, alg, &x, &w, &y, stride, before, behind);
    else if (pass == PASS_WEIGHTS)
        s = dnnl_convolution_backward_weights_desc_init(&d, alg, &x, &w, NULL, &y, stride, before, behind);
    else
        s = dnnl_convolution_forward_desc_init(&d, dnnl_forward_training, alg, &x, &w, &b, &y, stride, before,
                                               behind);
    TRY(status(s, "this convolution", e));
    return make_from(op, cpu, &d, forward, c->act,
                     pass == PASS_DATA      ? data
                     : pass == PASS_WEIGHTS ? weights
                                            : run,
                     "this convolution", e);
}

/* ---- the rest ---- */

int dnn_pool(struct op *op, const struct cpu *cpu, const struct dnn_pool *p, enum pass_kind pass,
             const struct op *forward, struct err *e)
{
    static const int train[] = { DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE, 0 };
    static const int infer[] = { DNNL_ARG_SRC, DNNL_ARG_DST, 0 };
    static const int back[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, DNNL_ARG_WORKSPACE, 0 };
    dnnl_memory_desc_t x = tensor_in(p->in, p->layout), y = tensor_in(p->out, p->layout);
    dnnl_dim_t below = (dnnl_dim_t)(p->out.h - 1) * p->stride + p->size - p->in.h - p->before;
    dnnl_dim_t right = (dnnl_dim_t)(p->out.w - 1) * p->stride + p->size - p->in.w - p->before;
    dnnl_dims_t stride = { p->stride, p->stride }, window = { p->size, p->size },
                before = { p->before, p->before };
    dnnl_dims_t behind = { below > 0 ? below : 0, right > 0 ? right : 0 };
    dnnl_pooling_desc_t d;
    dnnl_status_t s;
    if (pass == PASS_DATA)
        s = dnnl_pooling_backward_desc_init(&d, dnnl_pooling_max, &x, &y, stride, window, before, behind);
    else
        s = dnnl_pooling_forward_desc_init(
            &d, pass == PASS_INFER ? dnnl_forward_inference : dnnl_forward_training, dnnl_pooling_max, &x, &y,
            stride, window, before, behind);
    TRY(status(s, "this pooling", e));
    return make_from(op, cpu, &d, forward, ACT_LINEAR,
                     pass == PASS_DATA    ? back
                     : pass == PASS_INFER ? infer
                                          : train,
                     "this pooling", e);
}

int dnn_gemm(const struct cpu *cpu, int ta, int tb, size_t m, size_t n, size_t k, const float *a,
             const float *b, float beta, float *c)
{
    int was = threads_set(cpu->threads);
    dnnl_status_t s =
        dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', (dnnl_dim_t)m, (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a,
                   (dnnl_dim_t)(ta ? m : k), b, (dnnl_dim_t)(tb ? k : n), beta, c, (dnnl_dim_t)n);
    threads_set(was);
    return status(s, "", NULL);
}
