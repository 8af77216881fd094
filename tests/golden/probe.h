/* Looks into a net while it runs: stands between a program and the operations of its layers. Outputs are seen
 * as soon as a layer has written them, gradients when every later layer has added to them, so it does not
 * matter that the arena re-uses the memory afterwards, nor that a layer works in place. */
#ifndef GOLDEN_PROBE_H
#define GOLDEN_PROBE_H
#include "net/layer.h"
#include "net/net.h"

enum probe_when { PROBE_OUTPUT, PROBE_GRADIENT };

/* Called with the tensor of layer l that is complete now: all rows of the program, or of its backward pass.
 */
typedef int probe_fn(void *ctx, const struct layer *l, enum probe_when, const struct tensor *, int rows);

struct probe {
    struct layer_ops ops; /* first: what the layer's `ops` points to is a probe */
    const struct layer_ops *real;
    probe_fn *seen;
    void *ctx;
};

static inline int probe_forward(struct layer *l, const struct pass *pass)
{
    const struct probe *p = (const struct probe *)(const void *)l->ops;
    TRY(p->real->forward(l, pass));
    return p->seen(p->ctx, l, PROBE_OUTPUT, &l->out->x, l->out->x.shape.n);
}

static inline int probe_backward(struct layer *l, const struct pass *pass)
{
    const struct probe *p = (const struct probe *)(const void *)l->ops;
    if (l->out->g.data) TRY(p->seen(p->ctx, l, PROBE_GRADIENT, &l->out->g, l->rows_back));
    return p->real->backward(l, pass);
}

/* The accessor is for looking only; a probe is the one thing that reaches in. */
static inline struct layer *probe_layer(const struct program *program, int i)
{
    return (struct layer *)program_layer(program, i);
}

/* probe[i] is for layer i of n; they must outlive the program or probe_remove. */
static inline void probe_insert(const struct program *program, int n, struct probe *probe, probe_fn *seen,
                                void *ctx)
{
    for (int i = 0; i < n; i++) {
        struct layer *l = probe_layer(program, i);
        probe[i] = (struct probe){ *l->ops, l->ops, seen, ctx };
        if (l->ops->forward) probe[i].ops.forward = probe_forward;
        if (l->ops->backward) probe[i].ops.backward = probe_backward;
        l->ops = &probe[i].ops;
    }
}

static inline void probe_remove(const struct program *program, int n, const struct probe *probe)
{
    for (int i = 0; i < n; i++) probe_layer(program, i)->ops = probe[i].real;
}

#endif
