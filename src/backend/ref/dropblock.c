#include "backend/ops/dropblock.h"
#include "ref.h"

static int plan(struct backend *be, const struct dropblock_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    return ref_plan(p, d, sizeof *d, out, e);
}

/* Forward and backward are the same map. */
static void run(const struct dropblock_desc *d, const struct step_state *state, int rows, const real *from,
                real *to, int add)
{
    struct shape s = d->in->shape;
    struct dropblock_now now = dropblock_at(d, s.h, s.w, state);
    for (int n = 0; n < rows; n++) {
        const uint64_t plane = (uint64_t)share_row(d->share, n) * (uint64_t)s.c;
        int blocks = 0;
        for (int c = 0; c < s.c; c++) blocks += dropblock_corner(&now, plane + (uint64_t)c) >= 0;
        double scale = dropblock_scale(&now, s.c, blocks);
        for (int c = 0; c < s.c; c++) {
            int corner = dropblock_corner(&now, plane + (uint64_t)c);
            ptrdiff_t at = ref_plane(s, n, c);
            for (int i = 0; i < s.h * s.w; i++)
                ref_put(&to[at + i], dropblock_keeps(&now, corner, i) ? from[at + i] * scale : 0, add);
        }
    }
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x, void *y)
{
    const struct dropblock_desc *d = p->self;
    run(d, context->state, d->in->shape.n, x, y, 0);
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *gy, void *gx,
                    int add)
{
    const struct dropblock_desc *d = p->self;
    if (gx) run(d, context->state, d->rows_back, gy, gx, add);
    return OK;
}

const struct dropblock_ops ref_dropblock = { plan, forward, backward };
