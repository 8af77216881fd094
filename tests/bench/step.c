/* Our contender in `make bench`: training steps of a cfg, or its forward pass alone, on data in memory.
 *
 *   step [-device NAME] [-precision WORD] [-for training|inference] CFG THREADS [SECTION.KEY=VALUE]...
 *
 * All contenders speak one protocol, so that scripts can let them take turns (scripts/contenders.inc): after
 * a warm-up, a line "ready"; for each line on stdin, a round, and a line with the seconds it took per image.
 * An empty line asks for a round of one iteration, a number for that many in a row; a device that works on
 * its own is then waited for as seldom as in training, and at the end. Ours adds to "ready" the MiB planned
 * and the forward FLOPs of an image, and to each round the share of the training-only layers, where known.
 *
 * With [itra] every=k, a round of one iteration consists of one with a match, the next one, which finds the
 * caches full of the other program's tensors, and one that stands for the rest of the k iterations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "backend/ops/images.h"
#include "core/mem.h"
#include "core/rng.h"
#include "net/net.h"
#include "train/trainer.h"

/* Gradients are computed and applied in full, but the weights hardly move: however many rounds there are, the
 * values stay near those that training starts with. */
#define RATE 1e-6

struct contender {
    struct backend *be;
    struct net *net;
    struct program *plain, *paired; /* as a training run has them; or plain alone, for inference */
    int infer;
    float *x;
    struct crop *move; /* instead of x, where images stay on the device */
    int *label;
    uint64_t last; /* iteration; from 1 */
    int mark;      /* of the window of steps that is being filled: 0 and 1 in turn */
};

struct request {
    const char *device, *precision; /* NULL: the default, as the cfg says */
    int infer;
    const char *cfg;
    int threads;
    const char *const *set; /* NULL-terminated, as argv is */
};

struct cost {
    double seconds, extra; /* of an iteration, and its part in training-only layers; NaN: unknown */
};

static int parse(struct request *r, int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (!strcmp(argv[i], "-device"))
            r->device = argv[i + 1];
        else if (!strcmp(argv[i], "-precision"))
            r->precision = argv[i + 1];
        else if (!strcmp(argv[i], "-for"))
            r->infer = !strcmp(argv[i + 1], "inference");
        else
            return -1;
    }
    if (i + 2 > argc) return -1;
    r->cfg = argv[i];
    r->threads = atoi(argv[i + 1]);
    r->set = (const char *const *)argv + i + 2;
    return 0;
}

static int open_net(struct contender *c, const struct request *r, struct err *e)
{
    struct cfg *cfg;
    TRY(net_read_cfg(&cfg, r->cfg, r->set, r->precision, e));
    int rc = backend_open(&c->be, r->device ? r->device : backend_at(0)->name, r->threads, e);
    if (!rc) return net_open(&c->net, cfg, c->be, 1, NULL, e);
    cfg_free(cfg);
    return rc;
}

static int open_programs(struct contender *c, struct err *e)
{
    const struct net *net = c->net;
    struct program_desc plain = { .rows = net->mini, .train = 1 }, paired = plain;
    paired.paired = 1;
    if (c->infer) {
        plain.train = 0;
        return program_open(&c->plain, c->net, &plain, e);
    }
    if (net->config.subdivisions != 1)
        return fail(e, E_CFG, "%s: step times one mini-batch an update: set subdivisions=1", net->cfg->path);
    if (!net->pair_loader || net->wants.every > 1) TRY(program_open(&c->plain, c->net, &plain, e));
    return net->pair_loader ? program_open(&c->paired, c->net, &paired, e) : OK;
}

/* A packed set on the device, of which each step shows some images as the cfg moves them. */
static int keep_images(struct contender *c, size_t rows, size_t image, int *kept, struct err *e)
{
    const struct net_config *k = &c->net->config;
    struct augment a;
    float mean[4], scale[4];
    *kept = 0;
    TRY(augment_from_net(c->net, &a, e));
    if (c->infer || !augment_only_moves(&a, k->width, k->height)) return OK;
    uint8_t *pixels = mem_alloc(rows * image, 1);
    c->move = mem_alloc(rows, sizeof *c->move);
    if (!pixels || !c->move) {
        mem_free(pixels);
        return fail(e, E_MEM, "not enough memory for %zu images", rows);
    }
    for (size_t i = 0; i < rows * image; i++) pixels[i] = (uint8_t)rng_bits(1, i);
    for (size_t i = 0; i < rows; i++) {
        c->move[i].image = (int)i;
        augment_move(&a, rng_bits(3, i), &c->move[i]);
    }
    augment_normaliser(&a, mean, scale);
    const struct images_desc images = { pixels, (int)rows, k->channels, k->height, k->width, mean, scale };
    int rc = net_keep_images(c->net, &images, kept, e);
    mem_free(pixels);
    return rc;
}

static int make_data(struct contender *c, struct err *e)
{
    const struct net_config *k = &c->net->config;
    size_t rows = 2 * (size_t)c->net->mini;
    size_t image = (size_t)k->channels * (size_t)k->height * (size_t)k->width;
    int kept;
    c->label = mem_alloc(rows, sizeof *c->label);
    c->x = mem_alloc(rows * image, sizeof *c->x);
    if (!c->label || !c->x) return fail(e, E_MEM, "not enough memory for %zu images", rows);
    for (size_t i = 0; i < rows; i++) c->label[i] = (int)rng_below(2, i, (uint64_t)c->net->classes);
    for (size_t i = 0; i < rows * image; i++) c->x[i] = (float)rng_normal(1, i);
    TRY(keep_images(c, rows, image, &kept, e));
    if (kept) return OK;
    mem_free(c->move);
    c->move = NULL;
    return OK;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ends a window of steps, and waits for the one before it, or for all. */
static int end_window(struct contender *c, int all, struct err *e)
{
    struct program *const programs[] = { c->plain, c->paired };
    for (int i = 0; i < 2; i++) {
        if (!programs[i]) continue;
        TRY(step_mark(programs[i], c->mark, e));
        TRY(step_wait(programs[i], all ? c->mark : !c->mark, e));
    }
    c->mark = !c->mark;
    return OK;
}

static int predict(struct contender *c, int count, struct cost *cost, struct err *e)
{
    struct step s = { .x = c->x, .rows = c->net->mini };
    double start = now();
    for (int i = 0; i < count; i++) TRY(program_infer(c->plain, &s, NULL, NULL, e));
    *cost = (struct cost){ (now() - start) / count, 0 };
    return OK;
}

/* The mean of iterations n, n + 1, ... */
static int iterate(struct contender *c, uint64_t n, int count, struct cost *cost, struct err *e)
{
    const struct net *net = c->net;
    double start = now(), extra = 0;
    int filled = 0;
    for (int i = 0; i < count; i++, n++) {
        int two = net_is_paired(net, n);
        struct program *p = two ? c->paired : c->plain;
        struct step s = { .x = c->x,
                          .move = c->move,
                          .label = c->label,
                          .rows = two ? 2 * net->mini : net->mini,
                          .rows_s1 = net->mini,
                          .number = n - 1,
                          .iteration = n,
                          .update = 1,
                          .rate = RATE };
        TRY(step_submit(p, &s, e));
        const int all = i + 1 == count || !step_window(p);
        if (++filled < step_window(p) && !all) continue;
        TRY(end_window(c, all, e));
        filled = 0;
        if (!all) continue;
        struct step_stats stats;
        TRY(step_read_stats(p, &s, &stats, e));
        extra += stats.extra_seconds;
    }
    cost->seconds = (now() - start) / count;
    cost->extra = extra / count;
    c->last = n - 1;
    return OK;
}

static int play_round(struct contender *c, struct cost *mean, struct err *e)
{
    if (c->infer) return predict(c, 1, mean, e);
    uint64_t k = (uint64_t)c->net->wants.every, n = (c->last / k + 1) * k;
    double first = k > 1, others = k > 1 ? (double)k - 2 : 0;
    struct cost matched, next = { 0 }, later = { 0 };
    TRY(iterate(c, n, 1, &matched, e));
    if (first > 0) TRY(iterate(c, n + 1, 1, &next, e));
    if (others > 0) TRY(iterate(c, n + 2, 1, &later, e));
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
    for (int i = 0; i < c->net->n; i++) flops += c->net->layer[i].flops;
    printf("ready %.1f %.0f\n", (double)(bytes + params) / (1 << 20), flops);
    fflush(stdout);
}

/* Devices that capture steps do so in the second one of a kind. */
static int play(struct contender *c, struct err *e)
{
    struct cost cost;
    int warm_ups = !c->infer && step_window(c->plain ? c->plain : c->paired) ? 3 : 2;
    for (int i = 0; i < warm_ups; i++) TRY(play_round(c, &cost, e));
    print_ready(c);
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        int count = atoi(line);
        if (count > 0)
            TRY(c->infer ? predict(c, count, &cost, e) : iterate(c, c->last + 1, count, &cost, e));
        else
            TRY(play_round(c, &cost, e));
        printf("%.9f %.6f\n", cost.seconds / c->net->mini, cost.extra / cost.seconds);
        fflush(stdout);
    }
    return OK;
}

int main(int argc, char **argv)
{
    struct contender c = { 0 };
    struct request r = { 0 };
    struct err e = { 0 };
    if (parse(&r, argc, argv)) {
        fprintf(stderr, "usage: step [-device NAME] [-precision WORD] [-for training|inference] CFG THREADS "
                        "[SECTION.KEY=VALUE]...\n");
        return 2;
    }
    c.infer = r.infer;
    int rc = open_net(&c, &r, &e);
    if (!rc) rc = open_programs(&c, &e);
    if (!rc) rc = make_data(&c, &e);
    if (!rc) rc = play(&c, &e);
    if (rc) fprintf(stderr, "step: %s\n", e.msg);
    program_close(c.paired);
    program_close(c.plain);
    net_close(c.net);
    backend_close(c.be);
    mem_free(c.x);
    mem_free(c.move);
    mem_free(c.label);
    return rc ? 1 : 0;
}
