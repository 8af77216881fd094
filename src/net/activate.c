#include "activate.h"
#include "backend/ops/act.h"

static int in_place(const struct activate *s, const struct layer *l)
{
    return !l->train || act_from_output(s->act);
}

struct tensor *activate_input(struct activate *s, struct layer *l)
{
    if (in_place(s, l)) return &l->out->x;
    s->before.shape = l->out->x.shape;
    return &s->before;
}

void *activate_memory(const struct activate *s, const struct layer *l)
{
    return s->memory ? s->memory->data : l->out->x.data;
}

int activate_build(struct activate *s, struct layer *l, struct builder *b, struct op_plan *plan, int fused,
                   struct err *e)
{
    struct tensor same = { .shape = l->out->x.shape };
    if (s->act == ACT_LINEAR) return OK;
    if (in_place(s, l)) builder_keep_out(b);
    if (in_place(s, l) && fused) return OK;
    struct act_desc d = { activate_input(s, l), l->train, l->rows_back, s->act };
    s->plan = plan;
    TRY(l->be->ops->act->plan(l->be, &d, in_place(s, l) ? &same : &l->out->x, plan, e));
    if (in_place(s, l)) return OK;
    s->memory = builder_buffer(b, s->before.bytes, LIFE_PASS);
    return OK;
}

int activate_forward(const struct activate *s, struct layer *l, const struct pass *p)
{
    if (!s->plan) return OK;
    return l->be->ops->act->forward(s->plan, &p->context, activate_memory(s, l), l->out->x.data);
}

int activate_backward(const struct activate *s, struct layer *l, const struct pass *p)
{
    void *gy = l->out->g.data;
    if (!s->plan) return OK;
    return l->be->ops->act->backward(s->plan, &p->context, activate_memory(s, l), l->out->x.data, gy, gy, 0);
}
