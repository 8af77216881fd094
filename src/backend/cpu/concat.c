#include "backend/ops/concat.h"
#include <string.h>
#include "memory_format.h"

struct concat {
    const struct cpu *cpu;
    size_t rows, rows_back;
    struct memory_format out;
    int nin;
    size_t groups, group;
    struct memory_format in[];
};

static int plan(struct backend *be, const struct concat_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct layout *first = d->in[0]->layout;
    TRY(op_plan_init(p, sizeof(struct concat) + (size_t)d->nin * sizeof(struct memory_format), e));
    TRY(format_tensor(out, format_layout(out->shape, format_block(first), format_bf16(first)), e));
    struct concat *s = p->self;
    s->cpu = cpu_of(be);
    s->rows = (size_t)out->shape.n;
    s->rows_back = (size_t)d->rows_back;
    s->out = format_of(out->shape, out->layout);
    s->nin = d->nin;
    s->groups = (size_t)d->groups;
    s->group = (size_t)d->group;
    for (int i = 0; i < d->nin; i++) s->in[i] = format_of(d->in[i]->shape, d->in[i]->layout);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *const *x, void *y)
{
    const struct concat *s = p->self;
    struct view to = { s->out, 0, y };
    for (int i = 0; i < s->nin; i++) {
        size_t part = s->in[i].c / s->groups;
        struct view from = { s->in[i], s->group * part, (void *)x[i] };
        format_copy(s->cpu, &to, &from, s->rows, part, 0);
        to.at += part;
    }
    format_pad(s->cpu, &s->out, s->rows, y);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy,
                    void *const *gx, const int *add)
{
    const struct concat *s = p->self;
    struct view from = { s->out, 0, (void *)gy };
    for (int i = 0; i < s->nin; i++) {
        size_t part = s->in[i].c / s->groups;
        struct view to = { s->in[i], s->group * part, gx[i] };
        if (gx[i] && !add[i] && s->groups > 1)
            memset(gx[i], 0, format_bytes(&s->in[i], s->rows_back * s->in[i].row));
        if (gx[i]) format_copy(s->cpu, &to, &from, s->rows_back, part, add[i]);
        if (gx[i] && !add[i]) format_pad(s->cpu, &s->in[i], s->rows_back, gx[i]);
        from.at += part;
    }
    return OK;
}

const struct concat_ops cpu_concat = { plan, forward, backward };
