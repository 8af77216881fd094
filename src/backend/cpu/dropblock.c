#include "backend/ops/dropblock.h"
#include "memory_format.h"

struct dropblock {
    const struct cpu *cpu;
    struct dropblock_desc desc;
    struct operand from, to; /* x and y, or their gradients */
};

static int plan(struct backend *be, const struct dropblock_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct dropblock), e));
    TRY(format_tensor(out, d->in->layout, e));
    *(struct dropblock *)p->self =
        (struct dropblock){ .cpu = cpu_of(be),
                            .desc = *d,
                            .from = operand_float(d->in, d->in->shape.n, &p->scratch_bytes),
                            .to = operand_float(d->in, d->in->shape.n, &p->scratch_bytes) };
    return OK;
}

struct job {
    const struct memory_format *format;
    struct dropblock_now now;
    const float *x;
    float *y;
    int add;
    struct share share;
};

static void rows(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    const struct memory_format *f = k->format;
    for (size_t n = first; n < last; n++) {
        const uint64_t plane = (uint64_t)share_row(k->share, (int)n) * f->c;
        int blocks = 0;
        for (size_t c = 0; c < f->c; c++) blocks += dropblock_corner(&k->now, plane + c) >= 0;
        const float scale = (float)dropblock_scale(&k->now, (int)f->c, blocks);
        for (size_t c = 0; c < f->c; c++) {
            int corner = dropblock_corner(&k->now, plane + c);
            size_t at = format_at(f, n, c, 0);
            for (size_t p = 0; p < f->hw; p++, at += f->block) {
                float v = dropblock_keeps(&k->now, corner, (int)p) ? scale * k->x[at] : 0;
                k->y[at] = k->add ? k->y[at] + v : v;
            }
        }
    }
}

static int run(const struct op_plan *p, const struct op_context *context, int n, const void *x, void *y,
               int add)
{
    const struct dropblock *s = p->self;
    struct shape in = s->desc.in->shape;
    struct operand from = s->from, to = s->to;
    from.rows = to.rows = (size_t)n;
    struct job k = { &to.want,
                     dropblock_at(&s->desc, in.h, in.w, context->state),
                     operand_get(s->cpu, &from, x, context->scratch),
                     operand_place(&to, y, context->scratch),
                     operand_adds(&to, add),
                     s->desc.share };
    parallel_for(s->cpu, (size_t)n, 1, rows, &k);
    operand_put(s->cpu, &to, y, context->scratch, add);
    if (!add) format_pad(s->cpu, &to.have, (size_t)n, y);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct dropblock *s = p->self;
    return run(p, context, s->desc.in->shape.n, x, y, 0);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct dropblock *s = p->self;
    return gx ? run(p, context, s->desc.rows_back, gy, gx, add) : OK;
}

const struct dropblock_ops cpu_dropblock = { plan, forward, backward };
