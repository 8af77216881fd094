/* The matching loss: plans. */
#include "backend/ops/match.h"
#include "cuda.h"

struct match {
    const struct cuda *cu;
    struct match_job job;
};

/* The next `bytes` of the workspace; without one only counts. */
static void *cut(char *workspace, size_t *at, size_t bytes)
{
    void *p = workspace ? workspace + *at : NULL;
    *at += (bytes + 255) / 256 * 256;
    return p;
}

/* Binds a job to its workspace; returns the size of it. */
static size_t lay_out(struct match_job *j, char *workspace)
{
    const size_t m = j->m, pools = j->pools, lists = j->lists, parts = (size_t)j->chunks * sizeof(double);
    size_t at = 0;
    j->control = cut(workspace, &at, sizeof *j->control);
    j->n1 = cut(workspace, &at, pools * sizeof *j->n1);
    j->n = cut(workspace, &at, pools * sizeof *j->n);
    j->first = cut(workspace, &at, pools * sizeof *j->first);
    j->first_pair = cut(workspace, &at, pools * sizeof *j->first_pair);
    j->order = cut(workspace, &at, m * sizeof *j->order);
    j->pool = cut(workspace, &at, m * sizeof *j->pool);
    j->bad = cut(workspace, &at, m * sizeof *j->bad);
    j->x = cut(workspace, &at, m * j->d * sizeof *j->x);
    j->pair = cut(workspace, &at, m * (m - 1) / 2 * sizeof *j->pair);
    j->count = cut(workspace, &at, 2 * lists * j->chunks * MATCH_DIGITS * sizeof *j->count);
    j->digit = cut(workspace, &at, (MATCH_PASSES + 1) * lists * sizeof *j->digit);
    j->above = cut(workspace, &at, lists * parts);
    j->sum = cut(workspace, &at, lists * parts);
    j->q = cut(workspace, &at, pools * parts);
    j->factor = cut(workspace, &at, pools * sizeof *j->factor);
    return at;
}

/* Blocks that share a pool: all together fill the device about twice. */
static unsigned chunks_of(const struct cuda *cu, unsigned pools)
{
    unsigned n = 2 * (unsigned)cu->info.processors / pools;
    return n < 1 ? 1 : n > 64 ? 64 : n;
}

static int plan(struct backend *be, const struct match_desc *d, struct op_plan *p, struct err *e)
{
    TRY(op_plan_init(p, sizeof(struct match), e));
    const struct cuda *cu = cuda_of(be);
    const unsigned m1 = (unsigned)d->m1, m = m1 + (unsigned)d->m2;
    const unsigned pools = d->options.conditional ? (unsigned)d->classes : 1;
    if (m > 65535 || pools > 65535)
        return fail(e, E_ARG, "the matching loss of %u rows and %u classes: 65535 of either are the most", m,
                    pools);
    struct match *s = p->self;
    s->cu = cu;
    s->job = (struct match_job){
        .o = d->options,
        .bf16 = cuda_is_bf16(d->in),
        .classes = d->classes,
        .every = d->every,
        .pools = pools,
        .m1 = m1,
        .m = m,
        .d = (unsigned)shape_row(d->in->shape),
        .c = (unsigned)d->in->shape.c,
        .rows_back = (unsigned)d->rows_back,
        .learners = d->gradient_first ? m1 : m,
        .lists = d->options.bandwidth == BANDWIDTH_MEDIAN ? pools : 1,
        .chunks = chunks_of(cu, pools),
        .lambda = d->lambda,
        .warmup = d->warmup,
    };
    p->kept_bytes = lay_out(&s->job, NULL);
    return OK;
}

static int forward(const struct op_plan *p, const struct op_context *context, const void *x,
                   const struct match_memory *memory, double *match, void *kept)
{
    const struct match *s = p->self;
    struct match_job job = s->job;
    lay_out(&job, kept);
    job.now = context->state;
    job.h = x;
    job.label = context->label;
    job.reuse_detached = context->reuse_detached;
    job.match = match;
    if (memory) job.old = *memory;
    return kernel_match(s->cu, &job);
}

static int backward(const struct op_plan *p, const struct op_context *context, const void *kept, void *gx,
                    int add)
{
    (void)context;
    const struct match *s = p->self;
    struct match_job job = s->job;
    lay_out(&job, (char *)(uintptr_t)kept);
    return kernel_match_back(s->cu, &job, gx, add);
}

const struct match_ops cuda_match = { plan, forward, backward };
