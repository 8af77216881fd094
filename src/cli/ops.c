/* ops and partial: what a net costs; the first layers of its weights. */
#include <stdio.h>
#include <stdlib.h>
#include "cli/cli.h"

static void print_layers(const struct session *s, const struct program *infer)
{
    uint64_t params = 0;
    double flops = 0;
    printf("%4s %-14s %-18s %12s %14s %12s %12s\n", "", "layer", "output (w h c)", "parameters",
           "MFLOP/image", "train MiB", "infer MiB");
    for (int i = 0; i < s->net->n; i++) {
        const struct model_layer *l = &s->net->layer[i];
        char shape[48];
        snprintf(shape, sizeof shape, "%d x %d x %d", l->out.w, l->out.h, l->out.c);
        printf("%4d %-14s %-18s %12llu %14.3f %12.3f %12.3f\n", i, l->ops->name, shape,
               (unsigned long long)l->learnt, l->flops / 1e6, mib(program_layer_bytes(s->program, i)),
               mib(program_layer_bytes(infer, i)));
        params += l->learnt;
        flops += l->flops;
    }
    printf("\ntrainable parameters: %llu\n", (unsigned long long)params);
    printf("floats in the .weights file: %llu\n", (unsigned long long)weights_floats(s->net));
    printf("FLOP per image, forward: %.0f\n", flops);
}

static void print_program(const char *what, const struct program *p, int rows)
{
    struct program_info i;
    program_get_info(p, &i);
    printf("%s, %d rows: %.3f MiB (arena %.3f, scratch %.3f, kept %.3f)\n", what, rows,
           mib(i.arena + i.scratch + i.fixed), mib(i.arena), mib(i.scratch), mib(i.fixed));
}

/* Both programs are open at once: the parameters are packed as the first one, s->program, planned it. */
static int ops(struct session *s, struct program **infer, struct err *e)
{
    struct net *net = s->net;
    struct program_desc train_desc = {
        .rows = net->mini, .train = 1, .paired = net->pair_loader, .plan_only = 1
    };
    struct program_desc infer_desc = { .rows = net->mini, .plan_only = 1 };
    struct program_info info;
    TRY(program_open(&s->program, net, &train_desc, e));
    TRY(program_open(infer, net, &infer_desc, e));
    print_layers(s, *infer);
    program_get_info(s->program, &info);
    printf("parameters, gradients and momenta: %.3f MiB\n", mib(info.params));
    print_program("training", s->program, net->pair_loader ? 2 * net->mini : net->mini);
    print_program("inference", *infer, net->mini);
    return OK;
}

int cli_ops(const struct cli *c, struct err *e)
{
    struct session s;
    struct program *infer = NULL;
    int rc = session_open(&s, c, NULL, c->arg[0], e);
    if (!rc) rc = ops(&s, &infer, e);
    program_close(infer);
    session_close(&s);
    return rc;
}

/* ---- partial ---- */

static int partial(struct session *s, const struct cli *c, struct err *e)
{
    char *end;
    TRY(session_open(s, c, NULL, c->arg[0], e));
    long n = strtol(c->arg[3], &end, 10);
    if (end == c->arg[3] || *end || n < 1 || n > s->net->n)
        return fail(e, E_ARG, "partial: N is '%.40s': expected a number of layers in [1, %d]", c->arg[3],
                    s->net->n);
    TRY(program_open(&s->program, s->net, &(struct program_desc){ .rows = 1 }, e));
    int layers = (int)n;
    TRY(weights_load(s->net, c->arg[1], WEIGHTS_FIRST, &layers, e));
    return weights_save(s->net, c->arg[2], layers, 0, e);
}

int cli_partial(const struct cli *c, struct err *e)
{
    struct session s;
    int rc = partial(&s, c, e);
    session_close(&s);
    return rc;
}
