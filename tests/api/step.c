/* step CFG WEIGHTS
 *
 * Trains on images of its own, whose brightness tells their class, step by step; saves, and reads back what
 * it has learnt. */
#include <stdio.h>
#include <stdlib.h>
#include <darknet.h>

enum { STEPS = 300 };

/* Class k is gray value (k + 1/2) / classes, with a pattern over it. */
static void draw(float *x, int numbers, int classes, int label, unsigned step)
{
    for (int i = 0; i < numbers; i++)
        x[i] = ((float)label + .5f) / (float)classes + .1f * (float)((unsigned)i * 7u % 5u + step % 3u) / 7;
}

static int failed(const dn_error *e)
{
    fprintf(stderr, "step: %s\n", e->msg);
    return 1;
}

static int train(dn_net *net, float *x, int *label, int *right, dn_error *e)
{
    const int numbers = dn_input(net, NULL, NULL, NULL), classes = dn_classes(net);
    dn_stats s = { 0 };
    double first = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        int second, n = dn_rows(net, &second);
        n += second;
        for (int i = 0; i < n; i++) {
            label[i] = (i + (int)step) % classes;
            draw(x + (size_t)i * (size_t)numbers, numbers, classes, label[i], step);
        }
        const dn_batch batch = { x, label, n };
        int rc = dn_step(net, &batch, &s, e);
        if (rc) return rc;
        if (!step) first = s.ce;
    }
    *right = s.ce < first / 4;
    printf("CE %.4f at first, %.4f after %llu iterations\n", first, s.ce, (unsigned long long)s.iteration);
    return DN_OK;
}

int main(int argc, char **argv)
{
    dn_error e;
    dn_net *net;
    const dn_options options = { .train = 1, .seed = 3 };
    if (argc != 3) return fprintf(stderr, "usage: step CFG WEIGHTS\n"), 2;
    if (dn_open(&net, argv[1], &options, &e)) return failed(&e);
    const size_t rows = 2 * (size_t)dn_rows(net, NULL), numbers = (size_t)dn_input(net, NULL, NULL, NULL);
    const int classes = dn_classes(net);
    float *x = malloc(rows * numbers * sizeof *x), *prob = malloc((size_t)classes * sizeof *prob);
    int *label = malloc(rows * sizeof *label), right = 0;
    if (!x || !prob || !label) return fprintf(stderr, "step: not enough memory\n"), 1;
    if (train(net, x, label, &right, &e) || dn_save(net, argv[2], &e)) return failed(&e);
    dn_close(net);
    if (dn_open(&net, argv[1], NULL, &e) || dn_load(net, argv[2], &e)) return failed(&e);
    for (int k = 0; k < classes; k++) {
        int best;
        draw(x, (int)numbers, classes, k, 1);
        if (dn_predict(net, x, 1, prob, &e)) return failed(&e);
        dn_top(prob, classes, 1, &best);
        right &= best == k;
    }
    printf("%s\n", right ? "learnt" : "not learnt");
    dn_close(net);
    free(label);
    free(prob);
    free(x);
    return !right;
}
