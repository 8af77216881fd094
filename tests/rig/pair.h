/* An operation on two tensors, the second of which may differ from the first in shape, or be the first. */
#ifndef PAIR_H
#define PAIR_H
#include "rig.h"

struct pair_case {
    struct shape a, b;
    int blocked[2], rows_back, add[2];
    double alpha, beta;
    enum act act;
    int single;  /* bits: inputs that are float whatever the precision, as a [softmax] makes them */
    int self;    /* a and a: one input, one gradient */
    int without; /* bits: inputs whose gradient nobody wants */
};

/* In what order operations take their arguments. */
struct pair_ops {
    int (*plan)(struct backend *, const struct pair_case *, const struct tensor *a, const struct tensor *b,
                struct tensor *y, struct op_plan *, struct err *);
    int (*forward)(const struct op_plan *, const struct op_context *, const void *a, const void *b, void *y);
    int (*backward)(struct backend *, const struct op_plan *, const struct op_context *, const void *a,
                    const void *b, const void *y, const void *gy, void *ga, void *gb);
};

static inline struct tensor pair_input(struct rig *r, struct shape s, int blocked, int single,
                                       struct op_plan *maker)
{
    enum precision p = r->be->precision;
    if (single) r->be->precision = PRECISION_FP32;
    struct tensor t = blocked ? rig_blocked(r, s, maker) : rig_dense(r, s);
    r->be->precision = p;
    return t;
}

static inline void pair_run(struct rig *r, const struct pair_case *k, const struct pair_ops *ops)
{
    struct err e;
    struct op_plan maker[2] = { 0 }, p;
    struct tensor a = pair_input(r, k->a, k->blocked[0], k->single & 1, &maker[0]),
                  b = pair_input(r, k->b, k->blocked[1], k->single >> 1, &maker[1]), y = { .shape = k->a };
    if (ops->plan(r->be, k, &a, &b, &y, &p, &e)) fail_msg("%s", e.msg);
    void *scratch = rig_alloc(r, p.scratch_bytes);
    rig_fill(r, &a, 10);
    rig_fill(r, &b, 11);
    if (k->self) b = a;
    rig_fill(r, &y, 0);
    assert_int_equal(ops->forward(&p, WITH(scratch), a.data, b.data, y.data), OK);
    rig_keep_tensor(r, "y", &y, y.shape.n);
    struct tensor gy = rig_gradient(r, &y, 2), ga = rig_gradient(r, &a, k->add[0] ? 20 : 0),
                  gb = k->self ? ga : rig_gradient(r, &b, k->add[1] ? 21 : 0);
    int want_a = !(k->without & 1), want_b = !(k->without & 2);
    assert_int_equal(ops->backward(r->be, &p, WITH(scratch), a.data, b.data, y.data, gy.data,
                                   want_a ? ga.data : NULL, want_b ? gb.data : NULL),
                     OK);
    if (want_a) rig_keep_tensor(r, "ga", &ga, k->rows_back);
    if (want_b) rig_keep_tensor(r, "gb", &gb, k->rows_back);
    op_destroy(&p);
    op_destroy(&p);
    op_destroy(&maker[0]);
    op_destroy(&maker[1]);
}

#endif
