#include "backend/ops/remap.h"
#include <string.h>
#include "core/mem.h"
#include "memory_format.h"

struct remap {
    const struct cpu *cpu;
    struct remap_desc desc;
    struct operand small, large; /* x and y, or their gradients */
    size_t rows, n;              /* large elements in a row, and for each of them: */
    struct place {
        uint32_t small, large;
    } * place; /* where the two lie, in the order of the small ones */
};

static void release(void *self)
{
    struct remap *s = self;
    mem_free(s->place);
}

/* Where element i of a row lies, counted in C,H,W order. */
static uint32_t place_of(const struct memory_format *f, size_t i)
{
    return (uint32_t)format_at(f, 0, i / f->hw, i % f->hw);
}

static int plan(struct backend *be, const struct remap_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    const struct tensor *small = d->gather ? out : d->in, *large = d->gather ? d->in : out;
    uint32_t copies = (uint32_t)remap_copies(d);
    TRY(op_plan_init(p, sizeof(struct remap), e));
    TRY(format_tensor(out, format_layout(out->shape, format_block(d->in->layout), format_bf16(d->in->layout)),
                      e));
    struct remap *s = p->self;
    p->release = release;
    *s = (struct remap){ .cpu = cpu_of(be),
                         .desc = *d,
                         .small = operand_float(small, out->shape.n, &p->scratch_bytes),
                         .large = operand_float(large, out->shape.n, &p->scratch_bytes),
                         .rows = (size_t)out->shape.n,
                         .n = shape_row(large->shape) };
    if (s->small.want.row <= UINT32_MAX && s->large.want.row <= UINT32_MAX &&
        s->n * sizeof *s->place < mem_free_bytes())
        s->place = mem_alloc(s->n, sizeof *s->place);
    if (!s->place) return fail(e, E_MEM, "no memory for an index of %zu elements", s->n);
    for (uint32_t i = 0; i < s->n; i++)
        s->place[i] =
            (struct place){ place_of(&s->small.want, i / copies),
                            place_of(&s->large.want, remap_large(d, i / copies, (int)(i % copies))) };
    return OK;
}

struct job {
    const struct remap *s;
    int gather;
    const float *from;
    float *to;
};

static void add_rows(void *ctx, size_t first, size_t last)
{
    const struct job *k = ctx;
    const struct remap *s = k->s;
    const float scale = (float)s->desc.scale;
    for (size_t r = first; r < last; r++) {
        const float *from = k->from + r * (k->gather ? s->large.want.row : s->small.want.row);
        float *to = k->to + r * (k->gather ? s->small.want.row : s->large.want.row);
        for (size_t i = 0; k->gather && i < s->n; i++)
            to[s->place[i].small] += scale * from[s->place[i].large];
        for (size_t i = 0; !k->gather && i < s->n; i++)
            to[s->place[i].large] += scale * from[s->place[i].small];
    }
}

static int run(const struct remap *s, int gather, size_t rows, const void *x, void *y, int add, void *scratch)
{
    struct operand from = gather ? s->large : s->small, to = gather ? s->small : s->large;
    from.rows = to.rows = rows;
    struct job k = { s, gather, operand_get(s->cpu, &from, x, scratch), operand_place(&to, y, scratch) };
    if (!operand_adds(&to, add)) memset(k.to, 0, rows * to.want.row * sizeof(float));
    parallel_for(s->cpu, rows, 1, add_rows, &k);
    operand_put(s->cpu, &to, y, scratch, add);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct remap *s = p->self;
    return run(s, s->desc.gather, s->rows, x, y, 0, context->scratch);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct remap *s = p->self;
    return gx ? run(s, !s->desc.gather, (size_t)s->desc.rows_back, gy, gx, add, context->scratch) : OK;
}

const struct remap_ops cpu_remap = { plan, forward, backward };
