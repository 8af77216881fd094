/* How fast the loader delivers training images, with the augmentation of a cfg and nobody else at work.
 *
 *   load DATA CFG WORKERS SECONDS [SECTION.KEY=VALUE]...      prints images per second */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "data/loader.h"
#include "train/setup.h"

enum { ROWS = 150, WARM_UP = 8 };

struct source {
    struct backend *be;
    struct net *net;
    struct data_file *data;
    struct dataset *set;
    struct loader *loader;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int open_net(struct source *s, int argc, char **argv, struct err *e)
{
    struct cfg *cfg;
    TRY(cfg_read(&cfg, argv[2], e));
    for (int i = 5; i < argc; i++) {
        int rc = cfg_override(cfg, argv[i], e);
        if (!rc) continue;
        cfg_free(cfg);
        return rc;
    }
    int rc = backend_open(&s->be, "ref", 1, e);
    if (!rc) return net_open(&s->net, cfg, s->be, 1, NULL, e);
    cfg_free(cfg);
    return rc;
}

static int open_source(struct source *s, int argc, char **argv, struct err *e)
{
    const struct notes quiet = { NULL, NULL };
    struct loader_options o = { .seed = 1, .rows = ROWS, .training = 1, .workers = atoi(argv[3]) };
    TRY(open_net(s, argc, argv, e));
    TRY(data_file_read(&s->data, argv[1], &quiet, e));
    TRY(dataset_open(&s->set, s->data, SPLIT_TRAIN, &quiet, e));
    TRY(augment_from_net(s->net, &o.augment, e));
    return loader_open(&s->loader, s->set, &o, &quiet, e);
}

static int take(struct source *s, struct err *e)
{
    const struct batch *b;
    TRY(loader_next(s->loader, &b, e));
    loader_release(s->loader, b);
    return OK;
}

static int measure(struct source *s, double seconds, struct err *e)
{
    for (int i = 0; i < WARM_UP; i++) TRY(take(s, e));
    double start = now(), end;
    int batches = 0;
    do {
        TRY(take(s, e));
        batches++;
        end = now();
    } while (end - start < seconds);
    printf("%.1f\n", batches * ROWS / (end - start));
    return OK;
}

int main(int argc, char **argv)
{
    struct source s = { 0 };
    struct err e = { 0 };
    if (argc < 5) {
        fprintf(stderr, "usage: load DATA CFG WORKERS SECONDS [SECTION.KEY=VALUE]...\n");
        return 2;
    }
    int rc = open_source(&s, argc, argv, &e);
    if (!rc) rc = measure(&s, atof(argv[4]), &e);
    if (rc) fprintf(stderr, "load: %s\n", e.msg);
    loader_close(s.loader);
    dataset_close(s.set);
    data_file_free(s.data);
    net_close(s.net);
    backend_close(s.be);
    return rc ? 1 : 0;
}
