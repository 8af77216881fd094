/* A convolution, a locally connected or a dense map on the rig. */
#ifndef RIG_LINEAR_H
#define RIG_LINEAR_H
#include "rig/rig.h"
#include "backend/ops/conv.h"
#include "backend/ops/dense.h"
#include "backend/ops/local.h"

enum { LINEAR_CONV, LINEAR_DENSE, LINEAR_LOCAL };

struct linear_case {
    struct shape in;
    int out, size, stride, pad, groups, rows_back, blocked, bias, add, add_gx, kind;
    enum act act; /* in training where act_from_output holds, and in a second plan, for inference, over the
                     same packed weights and one row less */
    int dilation, stride_x; /* stride_x 0: as stride */
};

/* Fills all but what differs from training to inference. */
static inline struct linear_desc linear_desc(const struct linear_case *k, const struct tensor *x)
{
    return (struct linear_desc){ .in = x,
                                 .size = k->size,
                                 .dilation = k->dilation,
                                 .stride_y = k->stride,
                                 .stride_x = k->stride_x ? k->stride_x : k->stride,
                                 .pad = k->pad,
                                 .groups = k->groups };
}

static inline const struct linear_ops *linear_ops(const struct rig *r, const struct linear_case *k)
{
    const struct backend_ops *ops = r->be->ops;
    if (k->kind == LINEAR_LOCAL) return &ops->local->linear;
    return k->kind == LINEAR_DENSE ? &ops->dense->linear : &ops->conv->linear;
}

static inline void linear_infer(struct rig *r, const struct linear_case *k, const struct tensor *x,
                                struct tensor *y, const struct op_plan *train, const void *w,
                                const real *bias)
{
    struct err e;
    const struct linear_ops *ops = linear_ops(r, k);
    struct tensor less = *x;
    struct op_plan p;
    less.shape.n--;
    less.bytes -= x->bytes / (size_t)x->shape.n;
    y->shape.n--;
    struct linear_desc d = linear_desc(k, &less);
    d.act = k->act;
    d.weights = train->weights;
    assert_int_equal(ops->plan(r->be, &d, y, &p, &e), OK);
    assert_int_equal(p.weight_bytes, train->weight_bytes);
    rig_fill(r, y, 0);
    assert_int_equal(ops->forward(&p, WITH(rig_alloc(r, p.scratch_bytes)), x->data, w, bias, y->data), OK);
    if (!p.fused) rig_activate(r, y, k->act);
    rig_keep_tensor(r, "inference", y, y->shape.n);
    op_destroy(&p);
}

static inline void linear(struct rig *r, const void *arg)
{
    const struct linear_case *k = arg;
    struct err e;
    struct op_plan maker = { 0 }, p;
    struct tensor x = k->blocked ? rig_blocked(r, k->in, &maker)
                                 : rig_image(r, k->in, k->kind == LINEAR_CONV && k->groups == 1),
                  y = { .shape = { k->in.n, k->out, 1, 1 } };
    const struct linear_ops *ops = linear_ops(r, k);
    struct linear_desc d = linear_desc(k, &x);
    if (k->kind != LINEAR_DENSE) {
        int grown = 2 * d.pad - (d.size - 1) * d.dilation - 1;
        y.shape.h = (k->in.h + grown) / d.stride_y + 1;
        y.shape.w = (k->in.w + grown) / d.stride_x + 1;
    }
    size_t biases = k->kind == LINEAR_LOCAL ? shape_row(y.shape) : (size_t)k->out,
           nw = biases * (k->kind == LINEAR_DENSE ? shape_row(k->in)
                                                  : (size_t)(k->in.c / k->groups * k->size * k->size));
    d.train = d.need_gx = 1;
    d.rows_back = k->rows_back;
    d.add_gx = k->add_gx;
    d.sum_gw = k->add;
    d.act = act_from_output(k->act) ? k->act : ACT_LINEAR;
    if (ops->plan(r->be, &d, &y, &p, &e)) fail_msg("%s", e.msg);
    void *w = rig_alloc(r, p.weight_bytes), *gw = rig_alloc(r, p.weight_bytes),
         *scratch = rig_alloc(r, p.scratch_bytes);
    real *host_w = rig_noise(r, nw, 1), *back = rig_host(r, nw, sizeof *back),
         *bias = rig_alloc_noise(r, biases, 2);
    real *gbias = rig_alloc_noise(r, biases, 3);
    assert_int_equal(ops->pack(&p, host_w, w), OK);
    assert_int_equal(ops->unpack(&p, w, back), OK);
    assert_memory_equal(host_w, back, nw * sizeof *back);
    rig_fill(r, &x, 4);
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), x.data, w, k->bias ? bias : NULL, y.data), OK);
    if (!p.fused) rig_activate(r, &y, d.act);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    rig_fill(r, &y, 8); /* near a kink the device's y may be on the other side */
    struct tensor gy = rig_gradient(r, &y, 5), gx = rig_gradient(r, &x, k->add_gx ? 6 : 0);
    assert_int_equal(ops->pack(&p, rig_noise(r, nw, 7), gw), OK);
    const int bent = d.act != ACT_LINEAR, fused = p.fused && bent, biased = k->bias || bent;
    if (fused)
        assert_int_equal(ops->back_act(&p, WITH(scratch, .add = k->add), y.data, gy.data, gbias), OK);
    else
        rig_activate_back(r, &y, &gy, d.act, k->rows_back);
    assert_int_equal(ops->backward(&p, WITH(scratch, .add = k->add), x.data, w, gy.data, gx.data, gw,
                                   fused || !biased ? NULL : gbias),
                     OK);
    rig_keep_tensor(r, "gx", &gx, k->rows_back);
    real *host_gw = rig_host(r, nw, sizeof *host_gw);
    assert_int_equal(ops->unpack_gradient(&p, gw, host_gw), OK);
    rig_keep(r, "gw", host_gw, nw);
    rig_keep_vector(r, "gbias", gbias, biases);
    linear_infer(r, k, &x, &y, &p, w, k->bias ? bias : NULL);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker);
}

#endif
