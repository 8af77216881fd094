/* Losses that the host reads late: a ring on the device. */
#include "backend/ops/loss_ring.h"
#include "cuda.h"

struct loss_ring {
    struct cuda *cu;
    struct loss_ring_table t;
};

static void release(void *self)
{
    struct loss_ring *s = self;
    dev_sync(s->cu->stream, NULL);
    dev_free(s->t.loss);
    dev_free(s->t.is_ce);
    dev_free(s->t.record);
}

static size_t record_bytes(const struct loss_ring *s)
{
    return (size_t)s->t.capacity * ((size_t)s->t.n + 1) * sizeof(double);
}

static int fill(struct loss_ring *s, const struct loss_ring_desc *d, struct err *e)
{
    size_t n = (size_t)d->n;
    void *loss = NULL, *is_ce = NULL, *record = NULL;
    int rc = dev_alloc(&loss, n * sizeof *d->loss, e);
    s->t.loss = loss;
    if (!rc) rc = dev_alloc(&is_ce, n * sizeof *d->is_ce, e);
    s->t.is_ce = is_ce;
    if (!rc) rc = dev_alloc(&record, record_bytes(s), e);
    s->t.record = record;
    if (!rc) rc = cuda_put(s->cu, loss, d->loss, n * sizeof *d->loss);
    if (!rc) rc = cuda_put(s->cu, is_ce, d->is_ce, n * sizeof *d->is_ce);
    return rc;
}

static int plan(struct backend *be, const struct loss_ring_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct loss_ring), e));
    struct loss_ring *s = p->self;
    p->release = release;
    *s = (struct loss_ring){
        cuda_of(be),
        { .n = d->n, .capacity = d->capacity, .scored = d->scored, .parts = d->parts, .chance = d->chance }
    };
    return fill(s, d, e);
}

static int push(const struct op_plan *p, struct step_state *state, int last)
{
    const struct loss_ring *s = p->self;
    return kernel_record(s->cu, &s->t, state, last);
}

static int pull(const struct op_plan *p, double *host)
{
    const struct loss_ring *s = p->self;
    return cuda_get(s->cu, host, s->t.record, record_bytes(s));
}

const struct loss_ring_ops cuda_loss_ring = { plan, push, pull };
