/* Convolutions and dense maps with everything they read and write. */
#ifndef REF_LINEAR_H
#define REF_LINEAR_H
#include "ref/ref.h"
#include "backend/ops/conv.h"
#include "backend/ops/dense.h"

struct linear {
    const struct linear_ops *ops;
    struct linear_desc d;
    struct tensor in, out;
    struct op_plan p;
    real x[MOST], w[MOST], bias[MOST], y[MOST], r[MOST];
};

static inline struct linear linear(const struct linear_ops *o, struct tensor in, struct tensor out)
{
    return (struct linear){
        .ops = o,
        .in = in,
        .out = out,
        .d = { .size = 1, .dilation = 1, .stride_y = 1, .stride_x = 1, .groups = 1, .train = 1 }
    };
}

static inline void linear_run(struct linear *t)
{
    struct err e;
    t->d.in = &t->in;
    DONE(t->ops->plan(be, &t->d, &t->out, &t->p, &e));
    assert_true(t->p.scratch_bytes <= sizeof scratch && t->p.weight_bytes <= sizeof t->w);
    assert_int_equal(t->out.bytes, shape_count(t->out.shape) * sizeof(real));
    DONE(t->ops->forward(&t->p, &context, t->x, t->w, t->bias, t->y));
}

static inline double linear_value(const void *ctx)
{
    const struct linear *t = ctx;
    static real y[MOST];
    DONE(t->ops->forward(&t->p, &context, t->x, t->w, t->bias, y));
    return inner(y, t->r, shape_row(t->out.shape) * (size_t)t->d.rows_back);
}

/* nw weights, nb biases. The map is linear in x, w and bias: differences with step 1 are exact. All but one
 * row go back. */
static inline void linear_gradients(struct linear *t, size_t nw, size_t nb)
{
    size_t row = shape_row(t->in.shape), nx = row * (size_t)(t->in.shape.n - 1);
    real gx[MOST], gw[MOST], gb[MOST];
    noise(t->x, shape_count(t->in.shape), 1);
    noise(t->w, nw, 2);
    noise(t->bias, nb, 3);
    noise(t->r, shape_count(t->out.shape), 4);
    t->d.rows_back = t->in.shape.n - 1;
    for (int i = 0; i < 4; i++) {
        int add = i & 1, add_gx = i >> 1;
        t->d.add_gx = add_gx;
        linear_run(t);
        assert_int_equal(t->p.weight_bytes, nw * sizeof(real));
        assert_false(t->p.fused);
        set(gx, MOST, 5);
        set(gw, MOST, 5);
        set(gb, MOST, 5);
        DONE(t->ops->backward(&t->p, WITH(.add = add), t->x, t->w, t->r, gx, gw, gb));
        check_slopes("gx", t->x, gx, nx, add_gx * 5, 1, exact, linear_value, t);
        check_slopes("gw", t->w, gw, nw, add * 5, 1, exact, linear_value, t);
        check_slopes("gbias", t->bias, gb, nb, add * 5, 1, exact, linear_value, t);
        untouched(gx + nx, MOST - nx, 5);
        untouched(gw + nw, MOST - nw, 5);
        DONE(t->ops->backward(&t->p, &context, t->x, t->w, t->r, NULL, gw, NULL));
        op_destroy(&t->p);
    }
}

#endif
