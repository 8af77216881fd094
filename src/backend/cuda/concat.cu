/* Concatenation: a thread takes V channels of a pixel. */
#include "backend/ops/concat.h"
#include "kernel.h"

struct concat_part { /* an input: its channels, of which c are taken from channel `first` on */
    size_t channels, first, c;
    int bf16;
};

struct concat {
    const struct cuda *cu;
    int bf16;                      /* the output is */
    size_t pixels, pixels_back, c; /* of all rows, forward and backward; channels of the output */
    int nin, groups;
    struct concat_part part[];
};

/* Channels of pixels between tensors of pitch pf and pt channels. */
template <int bf16, unsigned V>
KERNEL(channels, const void *from, unsigned pf, int to_bf16, void *to, unsigned pt, unsigned c, size_t items,
       int add)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = c / V;
        const size_t pixel = (unsigned)i / groups, at = (unsigned)i % groups * V;
        float f[8];
        load(bf16, V, from, pixel * pf + at, f);
        put(V > 1 ? bf16 : to_bf16, V, to, pixel * pt + at, f, add);
    }
}

/* An input, or the place in the output of one: channel `first` of `pitch`. */
struct place {
    void *data;
    int bf16;
    size_t pitch, first;
};

static int copy(const struct concat *s, struct place from, struct place to, size_t c, size_t pixels, int add)
{
    const int wide = from.bf16 == to.bf16 && cuda_vector(to.bf16, c) > 1 &&
                     cuda_vector(to.bf16, from.pitch) > 1 && cuda_vector(to.bf16, to.pitch) > 1 &&
                     cuda_vector(to.bf16, from.first) > 1 && cuda_vector(to.bf16, to.first) > 1;
    const unsigned V = wide ? cuda_vector(to.bf16, c) : 1;
    const size_t items = pixels * (c / V);
    LAUNCH_ITEMS(s->cu, channels, from.bf16, V, items,
                 (const char *)from.data + from.first * cuda_element(from.bf16), (unsigned)from.pitch,
                 to.bf16, (char *)to.data + to.first * cuda_element(to.bf16), (unsigned)to.pitch, (unsigned)c,
                 items, add);
    return OK;
}

static int plan(struct backend *be, const struct concat_desc *d, struct tensor *out, struct op_plan *p,
                struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct concat) + d->nin * sizeof(struct concat_part), e));
    TRY(cuda_tensor(out, cuda_is_bf16(d->in[0]), e));
    struct concat *s = (struct concat *)p->self;
    s->cu = cuda_of(be);
    s->bf16 = cuda_is_bf16(d->in[0]);
    s->c = out->shape.c;
    s->pixels = shape_count(out->shape) / s->c;
    s->pixels_back = s->pixels / out->shape.n * d->rows_back;
    s->nin = d->nin;
    s->groups = d->groups;
    for (int i = 0; i < d->nin; i++) {
        const size_t channels = d->in[i]->shape.c, c = channels / d->groups;
        s->part[i] = (struct concat_part){ channels, d->group * c, c, cuda_is_bf16(d->in[i]) };
    }
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *, const void *const *x, void *y)
{
    const struct concat *s = (const struct concat *)p->self;
    size_t first = 0;
    for (int i = 0; i < s->nin; first += s->part[i++].c) {
        const struct concat_part *part = &s->part[i];
        TRY(copy(s, (struct place){ (void *)x[i], part->bf16, part->channels, part->first },
                 (struct place){ y, s->bf16, s->c, first }, part->c, s->pixels, 0));
    }
    return OK;
}

static int backward(const struct op_plan *p, const struct op_context *, const void *gy, void *const *gx,
                    const int *add)
{
    const struct concat *s = (const struct concat *)p->self;
    size_t first = 0;
    for (int i = 0; i < s->nin; first += s->part[i++].c) {
        const struct concat_part *part = &s->part[i];
        if (!gx[i]) continue;
        if (s->groups > 1 && !add[i])
            TRY(dev_zero(s->cu->stream, gx[i], s->pixels_back * part->channels * cuda_element(part->bf16)));
        TRY(copy(s, (struct place){ (void *)gy, s->bf16, s->c, first },
                 (struct place){ gx[i], part->bf16, part->channels, part->first }, part->c, s->pixels_back,
                 add[i]));
    }
    return OK;
}

const struct concat_ops cuda_concat = { plan, forward, backward };
