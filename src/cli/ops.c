/* ops and speed: what a net costs. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include "cli/cli.h"
#include "core/clock.h"
#include "core/mem.h"

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
    printf("Floating Point Operations: %.0f\n", flops);
    printf("Floating Point Operations: %.2f Bn\n", flops / 1e9);
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
    struct session s = { 0 };
    struct program *infer = NULL;
    int rc = session_open(&s, c, NULL, c->arg[0], e);
    if (!rc) rc = ops(&s, &infer, e);
    program_close(infer);
    session_close(&s);
    return rc;
}

/* ---- speed ---- */

static double total_flops(const struct net *n)
{
    double flops = 0;
    for (int i = 0; i < n->n; i++) flops += n->layer[i].flops;
    return flops;
}

/* Times random weights on an image of zeros: values do not change the time. */
static int speed(struct session *s, const struct cli *c, struct err *e)
{
    enum { EVALS = 1000 };
    char *end = NULL;
    TRY(session_open(s, c, NULL, c->arg[0], e));
    const struct net_config *n = &s->net->config;
    const long evals = c->narg > 1 ? strtol(c->arg[1], &end, 10) : EVALS;
    if (evals < 1 || evals > INT_MAX || (end && *end))
        return fail(e, E_ARG, "speed: '%.40s': expected a number of evaluations", c->arg[1]);
    TRY(program_open(&s->program, s->net, &(struct program_desc){ .rows = 1 }, e));
    TRY(program_refresh(s->program, e));
    float *x = mem_alloc(shape_row((struct shape){ 1, n->channels, n->height, n->width }), sizeof *x);
    struct step step = { .x = x, .rows = 1, .rows_s1 = 1 };
    double start = 0, flops = total_flops(s->net);
    int rc = x ? OK : fail(e, E_MEM, "not enough memory for an image");
    for (long i = -1; !rc && i < evals; i++) { /* the first is not counted */
        if (i == 0) start = wall_clock();
        rc = program_infer(s->program, &step, NULL, NULL, e);
    }
    mem_free(x);
    if (rc) return rc;
    const double t = wall_clock() - start, n_evals = (double)evals;
    printf("\n%ld evals, %f Seconds\n", evals, t);
    printf("Floating Point Operations: %.2f Bn\n", flops / 1e9);
    printf("FLOPS: %.2f Bn\n", flops / 1e9 * n_evals / t);
    printf("Speed: %f sec/eval\nSpeed: %f Hz\n", t / n_evals, n_evals / t);
    return OK;
}

int cli_speed(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    int rc = speed(&s, c, e);
    session_close(&s);
    return rc;
}
