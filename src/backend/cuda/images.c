/* Images that stay on the device, as bytes. */
#include "backend/ops/images.h"
#include "cuda.h"

struct images {
    struct cuda *cu;
    struct images_table t;
};

static void release(void *self)
{
    struct images *s = self;
    dev_sync(s->cu->stream, NULL);
    dev_free((void *)(uintptr_t)s->t.pixels);
}

static int plan(struct backend *be, const struct images_desc *d, struct op_plan *p, struct err *e)
{
    size_t bytes = (size_t)d->n * (size_t)d->c * (size_t)d->h * (size_t)d->w;
    void *pixels = NULL;
    TRY(op_plan_init(p, sizeof(struct images), e));
    if (d->c > 4) return fail(e, E_ARG, "images of %d channels: expected at most 4", d->c);
    struct images *s = p->self;
    p->release = release;
    *s = (struct images){ cuda_of(be), { .n = d->n, .c = d->c, .h = d->h, .w = d->w } };
    for (int k = 0; k < d->c; k++) {
        s->t.mean[k] = d->mean[k];
        s->t.scale[k] = d->scale[k];
    }
    int rc = dev_alloc(&pixels, bytes, e);
    s->t.pixels = pixels;
    return rc ? rc : cuda_put(s->cu, pixels, d->pixels, bytes);
}

static int show(const struct op_plan *p, const struct crop *move, int rows, struct tensor *t)
{
    const struct images *s = p->self;
    return kernel_show(s->cu, &s->t, move, rows, cuda_is_bf16(t), t->data);
}

const struct images_ops cuda_images = { plan, show };
