/* One launch for all parameters. The numbers of each are cut into chunks; a block takes a chunk and finds
 * whose it is. */
#include "backend/ops/optim.h"
#include "kernel.h"

enum { CHUNK = 4096 };

struct optim_part {
    float *w, *v, *s;     /* s: Adam's mean square, or NULL */
    const void *g;        /* NULL: not learnt */
    int bf16_g;           /* g is bfloat16 */
    float *average;       /* or NULL */
    uint16_t *copy;       /* bfloat16 of w, or NULL */
    size_t count, before; /* numbers; and in the parts before this one, each rounded up to CHUNK */
    double rate;          /* a factor of the step state's */
    float decay;
};

/* What all parts have in common. */
struct optim_factors {
    float momentum, average, b2, epsilon;
};

struct optim {
    struct cuda *cu;
    struct optim_part *part; /* device: n */
    int *bad;                /* device: n */
    int n;
    size_t chunks;
    struct optim_factors factors;
};

/* The part that chunk `chunk` belongs to: the last that begins at or before it. */
DEVICE int part_of(const struct optim_part *part, int n, size_t chunk)
{
    int low = 0;
    for (int high = n; high - low > 1;) {
        int middle = low + (high - low) / 2;
        if (part[middle].before <= chunk * CHUNK)
            low = middle;
        else
            high = middle;
    }
    return low;
}

DEVICE float gradient(const struct optim_part *p, size_t i)
{
    float g;
    load(p->bf16_g, 1, p->g, i, &g);
    return g;
}

DEVICE void descend(const struct optim_part *p, size_t i, struct optim_factors f, float rate, float widen)
{
    const float d = f.average * gradient(p, i) + p->decay * p->w[i];
    const float v = f.momentum * p->v[i] + (p->s ? (1 - f.momentum) * d : d);
    float move = rate * v;
    if (p->s) {
        const float s = f.b2 * p->s[i] + (1 - f.b2) * d * d;
        p->s[i] = s;
        move /= sqrtf(s) * widen + f.epsilon;
    }
    const float w = p->w[i] - move;
    p->v[i] = v;
    p->w[i] = w;
    if (p->copy) p->copy[i] = bf16_put(w);
}

KERNEL(step, const struct optim_part *part, int n, struct optim_factors f, const struct step_state *now)
{
    PHASE
    {
        const struct optim_part p = part[part_of(part, n, blockIdx.x)]; /* read once, whatever is written */
        const size_t first = (size_t)blockIdx.x * CHUNK - p.before;
        const float rate = (float)(p.s ? now->rate * p.rate / now->v_share : now->rate * p.rate);
        const float widen = p.s ? (float)(1 / sqrt(now->s_share)) : 0, share = (float)now->average_share;
        if (now->stop) continue; /* the last good weights stay */
        for (size_t i = first + threadIdx.x; i < first + CHUNK && i < p.count; i += blockDim.x) {
            if (p.g) descend(&p, i, f, rate, widen);
            if (p.average) p.average[i] = (1 - share) * p.average[i] + share * p.w[i];
        }
    }
}

/* bad[i] = 1 for parts whose gradient is not finite. stop: of the step state, set as well; or NULL. */
KERNEL(find_bad, const struct optim_part *part, int n, int *bad, int *stop)
{
    PHASE
    {
        const int k = part_of(part, n, blockIdx.x);
        const struct optim_part *p = &part[k];
        const size_t first = (size_t)blockIdx.x * CHUNK - p->before;
        for (size_t i = first + threadIdx.x; p->g && i < first + CHUNK && i < p->count; i += blockDim.x)
            if (!is_finite(gradient(p, i))) {
                bad[k] = 1; /* whoever does it: the number is the same */
                if (stop) *stop = STOP_GRADIENT;
            }
    }
}

static void release(void *self)
{
    struct optim *s = (struct optim *)self;
    dev_sync(s->cu->stream, NULL);
    dev_free(s->part);
    dev_free(s->bad);
}

static struct optim_part describe(const struct optim_item *i, size_t before)
{
    const struct layout *l = i->layout;
    return (struct optim_part){ .w = (float *)i->w,
                                .v = (float *)i->v,
                                .s = (float *)i->s,
                                .g = l && i->g ? cuda_weight_gradient(l, i->g) : i->g,
                                .bf16_g = l && l->bf16_gradient,
                                .average = (float *)i->average,
                                .copy = l && l->bf16 ? (uint16_t *)cuda_weight_copy(l, i->w) : NULL,
                                .count = l ? l->count : i->bytes / sizeof(float),
                                .before = before,
                                .rate = i->rate,
                                .decay = (float)i->decay };
}

static int fill(struct optim *s, const struct optim_desc *d, struct err *e)
{
    struct optim_part *part = (struct optim_part *)mem_alloc((size_t)d->n, sizeof *part);
    void *table, *bad;
    size_t end = 0;
    if (!part) return fail(e, E_MEM, "no memory to plan the update of %d parameters", d->n);
    for (int i = 0; i < d->n; i++) {
        part[i] = describe(&d->item[i], end);
        end += (part[i].count + CHUNK - 1) / CHUNK * CHUNK;
    }
    s->chunks = end / CHUNK;
    int rc = cuda_copy_of(s->cu, part, (size_t)d->n * sizeof *part, &table, e);
    mem_free(part);
    s->part = (struct optim_part *)table;
    if (!rc) rc = dev_alloc(&bad, (size_t)d->n * sizeof(int), e);
    if (!rc) s->bad = (int *)bad;
    return rc;
}

static int plan(struct backend *be, const struct optim_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct optim), e));
    struct optim *s = (struct optim *)p->self;
    p->release = release;
    *s = (struct optim){ .cu = cuda_of(be),
                         .n = d->n,
                         .factors = { (float)d->momentum, (float)d->average, (float)d->b2,
                                      (float)d->epsilon } };
    return fill(s, d, e);
}

static int update(const struct op_plan *p, const struct step_state *state)
{
    const struct optim *s = (const struct optim *)p->self;
    if (s->chunks) LAUNCH(s->cu, step, s->chunks, 1, THREADS, s->part, s->n, s->factors, state);
    return OK;
}

static int look(const struct optim *s, int *stop)
{
    if (s->chunks) LAUNCH(s->cu, find_bad, s->chunks, 1, THREADS, s->part, s->n, s->bad, stop);
    return OK;
}

static int check(const struct op_plan *p, int *first)
{
    const struct optim *s = (const struct optim *)p->self;
    size_t bytes = (size_t)s->n * sizeof *s->bad;
    int *bad = (int *)mem_alloc((size_t)s->n, sizeof *bad);
    if (!bad) return E_MEM;
    int rc = dev_zero(s->cu->stream, s->bad, bytes);
    if (!rc) rc = look(s, NULL);
    if (!rc) rc = cuda_get(s->cu, bad, s->bad, bytes);
    *first = -1;
    for (int i = 0; i < s->n && !rc && *first < 0; i++)
        if (bad[i]) *first = i;
    mem_free(bad);
    return rc;
}

static int guard(const struct op_plan *p, struct step_state *state)
{
    const struct optim *s = (const struct optim *)p->self;
    return look(s, &state->stop);
}

const struct optim_ops cuda_optim = { plan, update, check, guard };
