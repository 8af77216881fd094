/* train CFG DATA BACKUP STOP
 *
 * Trains from a .data file as `darknet classifier train` does, stops after STOP iterations (0: at the end),
 * and validates, counting the right answers. */
#include <stdio.h>
#include <stdlib.h>
#include <darknet.h>

struct counts {
    int stop, iterations, validations;
    double last; /* top-1 of the last validation */
    int right, classes;
};

static int iteration(void *ctx, const dn_progress *p)
{
    struct counts *c = ctx;
    c->iterations++;
    printf("%llu: CE %f, rate %g\n", (unsigned long long)p->iteration, p->ce, p->rate);
    return c->iterations == c->stop;
}

static int validation(void *ctx, const dn_score *s)
{
    struct counts *c = ctx;
    c->validations++;
    c->last = s->top1;
    return 0;
}

static int image(void *ctx, int label, const float *prob)
{
    struct counts *c = ctx;
    int best;
    if (!prob) return 0; /* a file that cannot be read */
    dn_top(prob, c->classes, 1, &best);
    c->right += best == label;
    return 0;
}

static void say(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "train: %s\n", line);
}

int main(int argc, char **argv)
{
    dn_error e;
    dn_net *net;
    dn_score score;
    if (argc != 5) return fprintf(stderr, "usage: train CFG DATA BACKUP STOP\n"), 2;
    const dn_options options = { .train = 1, .seed = 1, .say = say };
    struct counts c = { .stop = atoi(argv[4]) };
    dn_training t = { .backup = argv[3], .ctx = &c, .iteration = iteration, .validation = validation };
    const dn_validation v = { .ctx = &c, .image = image };
    if (dn_open(&net, argv[1], &options, &e) || dn_train(net, argv[2], &t, &e))
        return fprintf(stderr, "train: %s\n", e.msg), 1;
    c.classes = dn_classes(net);
    if (dn_validate(net, argv[2], &v, &score, &e)) return fprintf(stderr, "train: %s\n", e.msg), 1;
    if (c.right != (int)(score.top1 * score.images + .5))
        return fprintf(stderr, "train: %d are right\n", c.right), 1;
    printf("%d iterations, %d validations, top-1 %.6f, then %.6f\n", c.iterations, c.validations, c.last,
           score.top1);
    dn_close(net);
    return 0;
}
