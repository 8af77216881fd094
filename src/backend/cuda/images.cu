/* Images that stay on the device as bytes, moved, mirrored and normalised there: the arithmetic, and so every
 * number, is that of data/augment.c. */
#include "backend/ops/images.h"
#include "kernel.h"

enum { CHANNELS = 4 }; /* at most */

struct images {
    struct cuda *cu;
    uint8_t *pixels; /* device: n x c x h x w */
    int c, h, w;
    float mean[CHANNELS], scale[CHANNELS];
};

/* Number `i` of a row: pixel i / c, channel i % c. */
DEVICE float seen(const struct images *t, const struct crop *v, size_t i)
{
    const int k = (int)(i % t->c), at = (int)(i / t->c), x = at % t->w;
    const int col = (v->mirror ? t->w - 1 - x : x) + v->left, row = at / t->w + v->top;
    float f = 0;
    if (row >= 0 && row < t->h && col >= 0 && col < t->w)
        f = (float)t->pixels[(((size_t)v->image * t->c + k) * t->h + row) * t->w + col] / 255.f;
    return (f - t->mean[k]) * t->scale[k];
}

KERNEL(show, struct images t, const struct crop *crop, int bf16, void *x, size_t count)
{
    PHASE
    {
        const size_t row = (size_t)t.c * t.h * t.w;
        GRID_LOOP(i, count)
        {
            float f = seen(&t, &crop[i / row], i % row);
            store(bf16, 1, x, i, &f);
        }
    }
}

static int show_images(const struct op_plan *p, const struct crop *crop, int rows, struct tensor *to)
{
    const struct images *s = (const struct images *)p->self;
    const size_t count = (size_t)rows * s->c * s->h * s->w;
    if (count)
        LAUNCH(s->cu, show, blocks_for(s->cu, count), 1, THREADS, *s, crop, cuda_is_bf16(to), to->data,
               count);
    return OK;
}

static void release(void *self)
{
    struct images *s = (struct images *)self;
    dev_sync(s->cu->stream, NULL);
    dev_free(s->pixels);
}

static int plan(struct backend *be, const struct images_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct images), e));
    if (d->c > CHANNELS) return fail(e, E_ARG, "images of %d channels: expected at most %d", d->c, CHANNELS);
    struct images *s = (struct images *)p->self;
    p->release = release;
    s->cu = cuda_of(be);
    s->c = d->c;
    s->h = d->h;
    s->w = d->w;
    memcpy(s->mean, d->mean, d->c * sizeof *s->mean);
    memcpy(s->scale, d->scale, d->c * sizeof *s->scale);
    void *pixels;
    int rc = cuda_copy_of(s->cu, d->pixels, (size_t)d->n * d->c * d->h * d->w, &pixels, e);
    s->pixels = (uint8_t *)pixels;
    return rc;
}

const struct images_ops cuda_images = { plan, show_images };
