/* Losses that the host reads late: a ring on the device. */
#include "cuda.h"
#include "core/mem.h"

struct record {
    struct cuda *cu;
    struct record_table t;
};

static void drop(struct record_plan *p)
{
    struct record *s = p->self;
    if (!s) return;
    dev_sync(s->cu->stream, NULL);
    dev_free(s->t.loss);
    dev_free(s->t.is_ce);
    dev_free(s->t.record);
    mem_free(s);
    p->self = NULL;
}

static size_t record_bytes(const struct record *s)
{
    return (size_t)s->t.room * ((size_t)s->t.n + 1) * sizeof(double);
}

static int fill(struct record *s, const struct record_desc *d, struct err *e)
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

static int plan(struct backend *be, const struct record_desc *d, struct record_plan *p, struct err *e)
{
    TRY(cuda_self(&p->self, sizeof(struct record), e));
    struct record *s = p->self;
    *s = (struct record){
        cuda_of(be),
        { .n = d->n, .room = d->room, .scored = d->scored, .parts = d->parts, .chance = d->chance }
    };
    int rc = fill(s, d, e);
    if (rc) drop(p);
    return rc;
}

static int push(const struct record_plan *p, struct moment *now, int last)
{
    const struct record *s = p->self;
    return kernel_record(s->cu, &s->t, now, last);
}

static int pull(const struct record_plan *p, double *host)
{
    const struct record *s = p->self;
    return cuda_get(s->cu, host, s->t.record, record_bytes(s));
}

const struct record_ops cuda_records = { plan, push, pull, drop };
