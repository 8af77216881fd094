#include "backend/ops/dropblock.h"
#include "memory_format.h"

struct dropblock {
    const struct cpu *cpu;
    struct dropblock_desc desc;
    struct memory_format format;
};

static int plan(struct backend *be, const struct dropblock_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct dropblock), e));
    *(struct dropblock *)p->self =
        (struct dropblock){ cpu_of(be), *d, format_of(d->in->shape, d->in->layout) };
    return format_tensor(out, d->in->layout, e);
}

struct job {
    const struct memory_format *format;
    struct dropblock_now now;
    const float *x;
    float *y;
    int add;
};

static void rows(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    const struct memory_format *f = k->format;
    for (size_t n = first; n < last; n++) {
        int blocks = 0;
        for (size_t c = 0; c < f->c; c++) blocks += dropblock_corner(&k->now, n * f->c + c) >= 0;
        const float scale = (float)dropblock_scale(&k->now, (int)f->c, blocks);
        for (size_t c = 0; c < f->c; c++) {
            int corner = dropblock_corner(&k->now, n * f->c + c);
            size_t at = format_at(f, n, c, 0);
            for (size_t p = 0; p < f->hw; p++, at += f->block) {
                float v = dropblock_keeps(&k->now, corner, (int)p) ? scale * k->x[at] : 0;
                k->y[at] = k->add ? k->y[at] + v : v;
            }
        }
    }
}

static int run(const struct op_plan *p, const struct step_state *state, int n, const void *x, void *y,
               int add)
{
    const struct dropblock *s = p->self;
    struct shape in = s->desc.in->shape;
    struct job k = { &s->format, dropblock_at(&s->desc, in.h, in.w, state), x, y, add };
    parallel_for(s->cpu, (size_t)n, 1, rows, &k);
    if (!add) format_pad(s->cpu, &s->format, (size_t)n, y);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct dropblock *s = p->self;
    return run(p, context->state, s->desc.in->shape.n, x, y, 0);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct dropblock *s = p->self;
    return gx ? run(p, context->state, s->desc.rows_back, gy, gx, add) : OK;
}

const struct dropblock_ops cpu_dropblock = { plan, forward, backward };
