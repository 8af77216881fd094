/* ops and partial: what a net costs; the first layers of its weights. */
#include <stdio.h>
#include <stdlib.h>
#include "cli/cli.h"

/* Both programs are open at once: the parameters are packed as the first one planned it. */
struct costs {
    struct session s;
    struct program *train, *infer;
};

static double mib(size_t bytes) { return (double)bytes / (1 << 20); }

static int print_layers(const struct costs *c, uint64_t *params, double *flops, struct err *e)
{
    printf("%4s %-14s %-18s %12s %14s %12s %12s\n", "", "layer", "output (w h c)", "parameters",
           "MFLOP/image", "train MiB", "infer MiB");
    for (int i = 0; i < c->s.net->n; i++) {
        struct layer_info l;
        char shape[48];
        if (net_layer_info(c->s.net, i, &l)) return fail(e, E_ARG, "layer %d has no description", i);
        snprintf(shape, sizeof shape, "%d x %d x %d", l.out.w, l.out.h, l.out.c);
        printf("%4d %-14s %-18s %12llu %14.3f %12.3f %12.3f\n", i, l.name, shape,
               (unsigned long long)l.params, l.flops / 1e6, mib(program_layer_bytes(c->train, i)),
               mib(program_layer_bytes(c->infer, i)));
        *params += l.params;
        *flops += l.flops;
    }
    return OK;
}

static void print_program(const char *what, const struct program *p, int rows)
{
    struct program_info i;
    program_get_info(p, &i);
    printf("%s, %d rows: %.3f MiB (arena %.3f, scratch %.3f, kept %.3f)\n", what, rows,
           mib(i.arena + i.scratch + i.fixed), mib(i.arena), mib(i.scratch), mib(i.fixed));
}

static int ops(struct costs *c, struct err *e)
{
    struct net *net = c->s.net;
    struct program_desc train = { .rows = net->mini, .train = 1, .paired = net->pair_loader, .plan_only = 1 };
    struct program_desc infer = { .rows = net->mini, .plan_only = 1 };
    struct program_info info;
    uint64_t params = 0;
    double flops = 0;
    TRY(program_open(&c->train, net, &train, e));
    TRY(program_open(&c->infer, net, &infer, e));
    TRY(print_layers(c, &params, &flops, e));
    program_get_info(c->train, &info);
    printf("\ntrainable parameters: %llu\n", (unsigned long long)params);
    printf("floats in the .weights file: %llu\n", (unsigned long long)weights_floats(net));
    printf("FLOP per image, forward: %.0f\n", flops);
    printf("parameters, gradients and momenta: %.3f MiB\n", mib(info.params));
    print_program("training", c->train, net->pair_loader ? 2 * net->mini : net->mini);
    print_program("inference", c->infer, net->mini);
    return OK;
}

int cli_ops(const struct cli *cli, struct err *e)
{
    struct costs c = { .train = NULL };
    int rc = session_open(&c.s, cli, NULL, cli->arg[0], e);
    if (!rc) rc = ops(&c, e);
    program_close(c.infer);
    program_close(c.train);
    session_close(&c.s);
    return rc;
}

/* ---- partial ---- */

static int copy_first(struct session *s, const struct cli *c, struct err *e)
{
    struct net *net = s->net;
    char *end;
    int layers;
    long upto = strtol(c->arg[3], &end, 10);
    if (end == c->arg[3] || *end || upto < 1 || upto > net->n)
        return fail(e, E_ARG, "partial: N is '%.40s': expected a number of layers in [1, %d]", c->arg[3],
                    net->n);
    TRY(weights_load(net, c->arg[1], 0, &layers, e));
    return weights_save(net, c->arg[2], (int)upto, 0, e);
}

int cli_partial(const struct cli *c, struct err *e)
{
    struct session s;
    struct program *p = NULL;
    struct program_desc d = { .rows = 1 }; /* the first program is what gives a net its parameters */
    int rc = session_open(&s, c, NULL, c->arg[0], e);
    if (!rc) rc = program_open(&p, s.net, &d, e);
    if (!rc) rc = copy_first(&s, c, e);
    program_close(p);
    session_close(&s);
    return rc;
}
