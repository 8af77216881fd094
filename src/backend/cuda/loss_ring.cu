/* What the host reads late: a ring of losses in pinned memory, where the device writes them itself; and the
 * running mean of the CE. */
#include "backend/ops/loss_ring.h"
#include "kernel.h"

struct ring {
    const double **loss; /* device: n */
    int *is_ce;          /* device: n */
    double *record;      /* pinned: capacity x (n + 1) */
    int n, capacity, scored, parts;
    double chance;
};

struct loss_ring {
    struct cuda *cu;
    struct ring t;
    event_t mark[2];
};

DEVICE void follow(const struct ring *t, struct step_state *now, double ce, int last)
{
    const double sum = now->ce_sum + ce;
    now->ce_sum = last ? 0 : sum;
    if (last) now->ce_average = running_ce(now->ce_average, t->chance, sum / t->parts);
}

/* One thread: a few numbers. */
KERNEL(record, struct ring t, struct step_state *now, int last)
{
    PHASE
    {
        double ce = 0, all = 0;
        double *to = t.record + now->step % (uint64_t)t.capacity * (uint64_t)(t.n + 1);
        for (int i = 0; i < t.n; i++) {
            to[i] = *t.loss[i];
            all += to[i];
            if (t.is_ce[i]) ce += to[i] / t.scored;
        }
        if (!isfinite(all)) now->stop = STOP_LOSS;
        to[t.n] = now->stop;
        follow(&t, now, ce, last);
    }
}

static int push(const struct op_plan *p, struct step_state *now, int last)
{
    const struct loss_ring *s = (const struct loss_ring *)p->self;
    LAUNCH(s->cu, record, 1, 1, 1, s->t, now, last);
    return OK;
}

static int mark(const struct op_plan *p, int mark)
{
    const struct loss_ring *s = (const struct loss_ring *)p->self;
    return dev_mark(s->mark[mark], s->cu->stream);
}

static int await(const struct op_plan *p, int mark)
{
    const struct loss_ring *s = (const struct loss_ring *)p->self;
    return dev_await(s->mark[mark]);
}

static const double *record_of(const struct op_plan *p, uint64_t step)
{
    const struct ring *t = &((const struct loss_ring *)p->self)->t;
    return t->record + step % (uint64_t)t->capacity * (uint64_t)(t->n + 1);
}

static void release(void *self)
{
    struct loss_ring *s = (struct loss_ring *)self;
    dev_sync(s->cu->stream, NULL);
    dev_free(s->t.loss);
    dev_free(s->t.is_ce);
    dev_unpin(s->t.record);
    for (int i = 0; i < 2; i++) dev_event_drop(s->mark[i]);
}

static int fill(struct loss_ring *s, const struct loss_ring_desc *d, struct err *e)
{
    const size_t n = (size_t)d->n;
    void *loss, *is_ce, *record;
    TRY(cuda_copy_of(s->cu, d->loss, n * sizeof *d->loss, &loss, e));
    s->t.loss = (const double **)loss;
    TRY(cuda_copy_of(s->cu, d->is_ce, n * sizeof *d->is_ce, &is_ce, e));
    s->t.is_ce = (int *)is_ce;
    TRY(dev_pin(&record, (size_t)d->capacity * (n + 1) * sizeof(double), e));
    s->t.record = (double *)record;
    TRY(dev_event(&s->mark[0], e));
    return dev_event(&s->mark[1], e);
}

static int plan(struct backend *be, const struct loss_ring_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct loss_ring), e));
    struct loss_ring *s = (struct loss_ring *)p->self;
    p->release = release;
    s->cu = cuda_of(be);
    s->t = (struct ring){
        .n = d->n, .capacity = d->capacity, .scored = d->scored, .parts = d->parts, .chance = d->chance
    };
    return fill(s, d, e);
}

const struct loss_ring_ops cuda_loss_ring = { plan, push, mark, await, record_of };
