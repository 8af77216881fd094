/* Images from pinned memory: a stream of their own copies those of a step into device memory as soon as the
 * step before has taken its own from there, and so while that one computes. */
#include "backend/ops/feed.h"
#include "cuda.h"

struct feed {
    struct cuda *cu;
    stream_t copying;
    float *dense;           /* device: the images of a step, in the host's order */
    event_t sent[2], taken; /* into dense; from there */
};

static void release(void *self)
{
    struct feed *s = self;
    dev_sync(s->cu->stream, NULL); /* which waits for the copies */
    dev_free(s->dense);
    for (int i = 0; i < 2; i++) dev_event_drop(s->sent[i]);
    dev_event_drop(s->taken);
    dev_close(s->copying);
}

static int plan(struct backend *be, const struct feed_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct feed), e));
    struct feed *s = p->self;
    void *dense;
    p->release = release;
    s->cu = cuda_of(be);
    TRY(dev_alloc(&dense, shape_count(d->most) * sizeof *s->dense, e));
    s->dense = dense;
    for (int i = 0; i < 2; i++) TRY(dev_event(&s->sent[i], e));
    TRY(dev_event(&s->taken, e));
    return dev_stream(&s->copying, e);
}

static int pinned(const struct op_plan *p, size_t bytes, void **out, struct err *e)
{
    (void)p;
    return dev_pin(out, bytes, e);
}

static void unpin(const struct op_plan *p, void *memory)
{
    const struct feed *s = p->self;
    if (memory) dev_sync(s->copying, NULL);
    dev_unpin(memory);
}

static int send(const struct op_plan *p, const float *x, int rows, int turn, struct tensor *to)
{
    const struct feed *s = p->self;
    const size_t n = (size_t)rows;
    TRY(dev_wait(s->copying, s->taken));
    TRY(dev_copy(s->copying, s->dense, x, n * shape_row(to->shape) * sizeof *x));
    TRY(dev_mark(s->sent[turn], s->copying));
    TRY(dev_wait(s->cu->stream, s->sent[turn]));
    TRY(kernel_from_dense(s->cu, s->dense, to, 0, n, 0));
    return dev_mark(s->taken, s->cu->stream);
}

static int await(const struct op_plan *p, int turn)
{
    const struct feed *s = p->self;
    return dev_await(s->sent[turn]);
}

const struct feed_ops cuda_feed = { plan, pinned, unpin, send, await };
