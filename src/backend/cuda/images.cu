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

/* Channel k of a pixel. */
DEVICE float seen(const struct images *t, const struct crop *v, size_t pixel, int k)
{
    const int at = (int)pixel, x = at % t->w;
    const int col = (v->mirror ? t->w - 1 - x : x) + v->left, row = at / t->w + v->top;
    float f = 0;
    if (row >= 0 && row < t->h && col >= 0 && col < t->w)
        f = (float)t->pixels[(((size_t)v->image * t->c + k) * t->h + row) * t->w + col] / 255.f;
    return (f - t->mean[k]) * t->scale[k];
}

/* wide: channels of a pixel of x, those behind the image's being zero. A thread writes V of them. */
template <int bf16, unsigned V>
KERNEL(show, struct images t, const struct crop *crop, void *x, size_t n, size_t wide)
{
    PHASE
    {
        const size_t row = (size_t)t.h * t.w;
        GRID_LOOP(i, n / V)
        {
            const size_t pixel = i * V / wide;
            const int first = (int)(i * V % wide);
            float f[8];
            for (int k = 0; k < (int)V; k++)
                f[k] = first + k < t.c ? seen(&t, &crop[pixel / row], pixel % row, first + k) : 0;
            store(bf16, V, x, i * V, f);
        }
    }
}

static int show_images(const struct op_plan *p, const struct crop *crop, int rows, struct tensor *to)
{
    const struct images *s = (const struct images *)p->self;
    const size_t wide = cuda_channels(to), n = (size_t)rows * s->h * s->w * wide;
    const unsigned V = cuda_vector(cuda_is_bf16(to), wide);
    if (n) LAUNCH_ITEMS(s->cu, show, cuda_is_bf16(to), V, n / V, *s, crop, to->data, n, wide);
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
