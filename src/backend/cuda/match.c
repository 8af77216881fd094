/* The matching loss: plans. */
#include "cuda.h"
#include "core/mem.h"

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

static int plan(struct backend *be, const struct match_desc *d, struct match_plan *p, struct err *e)
{
    *p = (struct match_plan){ 0 };
    const struct cuda *cu = cuda_of(be);
    const unsigned m1 = (unsigned)d->m1, m = m1 + (unsigned)d->m2;
    const unsigned pools = d->options.conditional ? (unsigned)d->classes : 1;
    if (m > 65535 || pools > 65535)
        return fail(e, E_ARG, "the matching loss of %u rows and %u classes: 65535 of either are the most", m,
                    pools);
    TRY(cuda_self(&p->self, sizeof(struct match), e));
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
    p->workspace_bytes = lay_out(&s->job, NULL);
    return OK;
}

static int forward(const struct match_plan *p, const struct step_state *now, const void *x, const int *label,
                   const struct match_memory *memory, int reuse_detached, double *match, void *workspace)
{
    const struct match *s = p->self;
    struct match_job job = s->job;
    lay_out(&job, workspace);
    job.now = now;
    job.h = x;
    job.label = label;
    job.reuse_detached = reuse_detached;
    job.match = match;
    if (memory) job.old = *memory;
    return kernel_match(s->cu, &job);
}

static int backward(const struct match_plan *p, const void *workspace, void *gx, int add)
{
    const struct match *s = p->self;
    struct match_job job = s->job;
    lay_out(&job, (char *)workspace);
    return kernel_match_back(s->cu, &job, gx, add);
}

static void destroy(struct match_plan *p)
{
    mem_free(p->self);
    p->self = NULL;
}

const struct match_ops cuda_match = { plan, forward, backward, destroy };
