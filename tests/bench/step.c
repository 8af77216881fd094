/* Our contender in `make bench`: training steps of a cfg on data in memory.
 *
 *   step CFG THREADS [SECTION.KEY=VALUE]...
 *
 * All contenders speak one protocol, so that scripts/bench.sh can let them take turns. After a warm-up: a
 * line "ready". For each line on stdin: a round, and a line with the seconds it took per image. Ours adds to
 * "ready" the MiB that were planned and the forward FLOPs of an image, and to each round the share of the
 * training-only layers.
 *
 * With [itra] every=k a round is one iteration with a match, the one after it, which finds the caches full of
 * the other program's tensors, and one more, which stands for the rest of the k iterations. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "core/mem.h"
#include "core/rng.h"
#include "net/net.h"

/* Gradients are computed and applied in full; the weights hardly move, so that no number of rounds leads far
 * from the values that training starts with. */
#define RATE 1e-6

struct contender {
    struct backend *be;
    struct net *net;
    struct program *plain, *paired; /* as a training run has them */
    float *x;
    int *label;
    uint64_t rounds;
};

struct cost {
    double seconds, extra; /* of an iteration; of it in training-only layers */
};

static int open_net(struct contender *c, int argc, char **argv, struct err *e)
{
    struct cfg *cfg;
    TRY(cfg_read(&cfg, argv[1], e));
    for (int i = 3; i < argc; i++) {
        int rc = cfg_override(cfg, argv[i], e);
        if (!rc) continue;
        cfg_free(cfg);
        return rc;
    }
    int rc = backend_open(&c->be, backend_at(0)->name, atoi(argv[2]), e);
    if (!rc) return net_open(&c->net, cfg, c->be, 1, NULL, e);
    cfg_free(cfg);
    return rc;
}

static int open_programs(struct contender *c, struct err *e)
{
    const struct net *net = c->net;
    struct program_desc plain = { .rows = net->mini, .train = 1 }, paired = plain;
    paired.paired = 1;
    if (net->config.subdivisions != 1)
        return fail(e, E_CFG, "%s: step times one mini-batch an update: set subdivisions=1", net->cfg->path);
    if (!net->pair_loader || net->wants.every > 1) TRY(program_open(&c->plain, c->net, &plain, e));
    return net->pair_loader ? program_open(&c->paired, c->net, &paired, e) : OK;
}

static int make_data(struct contender *c, struct err *e)
{
    const struct net_config *k = &c->net->config;
    size_t rows = 2 * (size_t)c->net->mini;
    size_t image = (size_t)k->channels * (size_t)k->height * (size_t)k->width;
    c->x = mem_alloc(rows * image, sizeof *c->x);
    c->label = mem_alloc(rows, sizeof *c->label);
    if (!c->x || !c->label) return fail(e, E_MEM, "not enough memory for %zu images", rows);
    for (size_t i = 0; i < rows * image; i++) c->x[i] = (float)rng_normal(1, i);
    for (size_t i = 0; i < rows; i++) c->label[i] = (int)rng_below(2, i, (uint64_t)c->net->classes);
    return OK;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int iterate(struct contender *c, uint64_t n, struct cost *cost, struct err *e)
{
    const struct net *net = c->net;
    int two = net->pair_loader && n % (uint64_t)net->wants.every == 0;
    struct step s = { .x = c->x,
                      .label = c->label,
                      .rows = two ? 2 * net->mini : net->mini,
                      .first = net->mini,
                      .number = n - 1,
                      .iteration = n };
    struct step_stats stats;
    double start = now();
    TRY(program_train(two ? c->paired : c->plain, &s, &stats, e));
    TRY(net_update(c->net, RATE, e));
    cost->seconds = now() - start;
    cost->extra = stats.extra_seconds;
    return OK;
}

static int play_round(struct contender *c, struct cost *mean, struct err *e)
{
    uint64_t k = (uint64_t)c->net->wants.every, n = ++c->rounds * k;
    double first = k > 1, others = k > 1 ? (double)k - 2 : 0;
    struct cost matched, next = { 0 }, later = { 0 };
    TRY(iterate(c, n, &matched, e));
    if (first > 0) TRY(iterate(c, n + 1, &next, e));
    if (others > 0) TRY(iterate(c, n + 2, &later, e));
    mean->seconds = (matched.seconds + first * next.seconds + others * later.seconds) / (double)k;
    mean->extra = (matched.extra + first * next.extra + others * later.extra) / (double)k;
    return OK;
}

static void print_ready(const struct contender *c)
{
    size_t bytes = 0, params = 0;
    double flops = 0;
    struct program *const programs[] = { c->plain, c->paired };
    for (int i = 0; i < 2; i++) {
        struct program_info info;
        if (!programs[i]) continue;
        program_get_info(programs[i], &info);
        bytes += info.arena + info.scratch + info.fixed;
        params = info.params;
    }
    for (int i = 0; i < c->net->n; i++) {
        struct layer_info l;
        if (!net_layer_info(c->net, i, &l)) flops += l.flops;
    }
    printf("ready %.1f %.0f\n", (double)(bytes + params) / (1 << 20), flops);
    fflush(stdout);
}

static int play(struct contender *c, struct err *e)
{
    struct cost cost;
    for (int warm_up = 0; warm_up < 2; warm_up++) TRY(play_round(c, &cost, e));
    print_ready(c);
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        TRY(play_round(c, &cost, e));
        printf("%.9f %.6f\n", cost.seconds / c->net->mini, cost.extra / cost.seconds);
        fflush(stdout);
    }
    return OK;
}

int main(int argc, char **argv)
{
    struct contender c = { 0 };
    struct err e = { 0 };
    if (argc < 3) {
        fprintf(stderr, "usage: step CFG THREADS [SECTION.KEY=VALUE]...\n");
        return 2;
    }
    int rc = open_net(&c, argc, argv, &e);
    if (!rc) rc = open_programs(&c, &e);
    if (!rc) rc = make_data(&c, &e);
    if (!rc) rc = play(&c, &e);
    if (rc) fprintf(stderr, "step: %s\n", e.msg);
    program_close(c.paired);
    program_close(c.plain);
    net_close(c.net);
    backend_close(c.be);
    mem_free(c.x);
    mem_free(c.label);
    return rc ? 1 : 0;
}
