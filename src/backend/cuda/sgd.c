/* The update of all parameters: a table of them on the device. */
#include "backend/ops/sgd.h"
#include "cuda.h"
#include "core/mem.h"

struct sgd {
    struct cuda *cu;
    struct sgd_part *part; /* device: n */
    int *bad;              /* device: n */
    int n;
    size_t chunks;
    float momentum, average;
};

static void release(void *self)
{
    struct sgd *s = self;
    dev_sync(s->cu->stream, NULL);
    dev_free(s->part);
    dev_free(s->bad);
}

static struct sgd_part part_of(const struct sgd_item *i, size_t before)
{
    const struct layout *l = i->layout;
    return (struct sgd_part){ .w = i->w,
                              .v = i->v,
                              .g = i->g,
                              .copy = l && l->bf16 ? cuda_weight_copy(l, i->w) : NULL,
                              .count = l ? l->count : i->bytes / sizeof(float),
                              .before = before,
                              .rate = i->rate,
                              .decay = (float)i->decay };
}

static int fill(struct sgd *s, const struct sgd_desc *d, struct err *e)
{
    struct sgd_part *part = mem_alloc((size_t)d->n, sizeof *part);
    void *table = NULL, *bad = NULL;
    size_t end = 0;
    if (!part) return fail(e, E_MEM, "no memory to plan the update of %d parameters", d->n);
    for (int i = 0; i < d->n; i++) {
        part[i] = part_of(&d->item[i], end);
        end += (part[i].count + SGD_CHUNK - 1) / SGD_CHUNK * SGD_CHUNK;
    }
    s->chunks = end / SGD_CHUNK;
    int rc = dev_alloc(&table, (size_t)d->n * sizeof *part, e);
    s->part = table;
    if (!rc) rc = dev_alloc(&bad, (size_t)d->n * sizeof(int), e);
    s->bad = bad;
    if (!rc) rc = cuda_put(s->cu, table, part, (size_t)d->n * sizeof *part);
    mem_free(part);
    return rc;
}

static int plan(struct backend *be, const struct sgd_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct sgd), e));
    struct sgd *s = p->self;
    p->release = release;
    *s = (struct sgd){
        .cu = cuda_of(be), .n = d->n, .momentum = (float)d->momentum, .average = (float)d->average
    };
    return fill(s, d, e);
}

static int update(const struct op_plan *p, const struct step_state *state)
{
    const struct sgd *s = p->self;
    return kernel_sgd(s->cu, s->part, s->n, s->chunks, s->momentum, s->average, state);
}

static int check(const struct op_plan *p, int *first)
{
    const struct sgd *s = p->self;
    size_t bytes = (size_t)s->n * sizeof *s->bad;
    int *bad = mem_alloc((size_t)s->n, sizeof *bad);
    if (!bad) return E_MEM;
    int rc = dev_zero(s->cu->stream, s->bad, bytes);
    if (!rc) rc = kernel_finite(s->cu, s->part, s->n, s->chunks, s->bad, NULL);
    if (!rc) rc = cuda_get(s->cu, bad, s->bad, bytes);
    *first = -1;
    for (int i = 0; i < s->n && !rc && *first < 0; i++)
        if (bad[i]) *first = i;
    mem_free(bad);
    return rc;
}

static int guard(const struct op_plan *p, struct step_state *state)
{
    const struct sgd *s = p->self;
    return kernel_finite(s->cu, s->part, s->n, s->chunks, s->bad, &state->stop);
}

const struct sgd_ops cuda_sgd = { plan, update, check, guard };
