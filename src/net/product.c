#include "product.h"
#include "backend/ops/mul.h"
#include "net/graph.h"

enum { MUL, ACTIVATION }; /* plans */

int product_inputs(const struct layer *l, int *at, int capacity, struct err *e)
{
    const struct product *s = l->self;
    (void)capacity;
    if (s->from.n != 1) return layer_fail(l, e, "needs from= with one layer, as in from=-3");
    at[1] = l->index - 1;
    at[0] = layer_referred(l, "from", &s->from, 0, e);
    return at[0] < 0 ? at[0] : 2;
}

int product_build(struct layer *l, struct builder *b, struct err *e)
{
    struct product *s = l->self;
    enum act act = (enum act)s->activation;
    int fused = act_from_output(act);
    struct mul_desc d = { .a = &l->in[0]->x,
                          .b = &l->in[1]->x,
                          .act = fused ? act : ACT_LINEAR,
                          .train = l->train,
                          .rows_back = l->rows_back,
                          .add_a = l->add[0],
                          .add_b = l->add[1] };
    s->activate.act = act;
    builder_keep_in(b, 0);
    builder_keep_in(b, 1);
    TRY(l->be->ops->mul->plan(l->be, &d, activate_input(&s->activate, l), &l->plan[MUL], e));
    return activate_build(&s->activate, l, b, &l->plan[ACTIVATION], fused, e);
}

int product_export(const struct layer *l, struct graph *g, struct err *e)
{
    const struct product *s = l->self;
    (void)e;
    int a = graph_map(g, l, 0), b = graph_map(g, l, 1);
    graph_output(g, l, graph_activation(g, graph_op(g, "Mul", a, b), (enum act)s->activation));
    return OK;
}

int product_forward(struct layer *l, const struct pass *p)
{
    const struct product *s = l->self;
    TRY(l->be->ops->mul->forward(&l->plan[MUL], &p->context, l->in[0]->x.data, l->in[1]->x.data,
                                 activate_memory(&s->activate, l)));
    return activate_forward(&s->activate, l, p);
}

int product_backward(struct layer *l, const struct pass *p)
{
    const struct product *s = l->self;
    TRY(activate_backward(&s->activate, l, p));
    return l->be->ops->mul->backward(&l->plan[MUL], &p->context, l->in[0]->x.data, l->in[1]->x.data,
                                     l->out->x.data, l->out->g.data, l->in[0]->g.data, l->in[1]->g.data);
}
