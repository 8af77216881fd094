/* ops and partial: what a net costs; the first layers of its weights. */
#include <stdio.h>
#include <stdlib.h>
#include "cli/cli.h"

static double mib(size_t bytes) { return (double)bytes / (1 << 20); }

static int print_layer(const struct net *net, int i, uint64_t *params, double *flops, struct err *e)
{
    struct layer_info l;
    char shape[48];
    if (net_layer_info(net, i, &l)) return fail(e, E_ARG, "layer %d has no description", i);
    snprintf(shape, sizeof shape, "%d x %d x %d", l.out.w, l.out.h, l.out.c);
    printf("%4d %-14s %-18s %12llu %14.3f %12.3f %12.3f\n", i, l.name, shape, (unsigned long long)l.params,
           l.flops / 1e6, mib(l.train_bytes), mib(l.infer_bytes));
    *params += l.params;
    *flops += l.flops;
    return OK;
}

static int print_layers(const struct net *net, uint64_t *params, double *flops, struct err *e)
{
    printf("%4s %-14s %-18s %12s %14s %12s %12s\n", "", "layer", "output (w h c)", "parameters",
           "MFLOP/image", "train MiB", "infer MiB");
    for (int i = 0; i < net->n; i++) TRY(print_layer(net, i, params, flops, e));
    return OK;
}

static int measure(struct net *net, const struct program_desc *d, struct program_info *info, struct err *e)
{
    struct program *p;
    TRY(program_open(&p, net, d, e));
    program_get_info(p, info);
    program_close(p);
    return OK;
}

static void print_program(const char *what, int rows, const struct program_info *i)
{
    printf("%s, %d rows: %.3f MiB (arena %.3f, scratch %.3f, kept %.3f)\n", what, rows,
           mib(i->arena + i->scratch + i->fixed), mib(i->arena), mib(i->scratch), mib(i->fixed));
}

static int print_programs(struct net *net, struct err *e)
{
    struct program_desc train = { .rows = net->mini, .train = 1, .paired = net->pair_loader };
    struct program_desc infer = { .rows = net->mini };
    struct program_info t, i;
    TRY(measure(net, &train, &t, e));
    TRY(measure(net, &infer, &i, e));
    printf("parameters, gradients and momenta: %.3f MiB\n", mib(t.params));
    print_program("training", net->pair_loader ? 2 * net->mini : net->mini, &t);
    print_program("inference", net->mini, &i);
    return OK;
}

static int ops(const struct session *s, struct err *e)
{
    uint64_t params = 0;
    double flops = 0;
    TRY(print_layers(s->net, &params, &flops, e));
    printf("\ntrainable parameters: %llu\n", (unsigned long long)params);
    printf("FLOP per image, forward: %.0f\n", flops);
    TRY(print_programs(s->net, e));
    printf("floats in the .weights file: %llu\n", (unsigned long long)weights_floats(s->net));
    return OK;
}

int cli_ops(const struct cli *c, struct err *e)
{
    struct session s;
    int rc = session_open(&s, c, NULL, c->arg[0], e);
    if (!rc) rc = ops(&s, e);
    session_close(&s);
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
