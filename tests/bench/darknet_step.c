/* Debian's darknet as a contender in `make bench` (the protocol is in step.c): training steps of a cfg that
 * it can read, or its forward pass alone. A program of its own, because both libraries define `network`.
 *
 *   darknet_step CFG [inference] */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "darknet.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void set_data(network *net)
{
    size_t rows = (size_t)net->batch, truths = (size_t)net->truths;
    for (size_t i = 0; i < rows * (size_t)net->inputs; i++) net->input[i] = rand_normal();
    memset(net->truth, 0, rows * truths * sizeof *net->truth);
    for (size_t i = 0; i < rows; i++) net->truth[i * truths + i % truths] = 1;
}

static void step(network *net, int infer)
{
    if (infer)
        network_predict(net, net->input);
    else
        train_network_datum(net);
}

int main(int argc, char **argv)
{
    const int infer = argc == 3 && !strcmp(argv[2], "inference");
    if (argc != 2 + infer) {
        fprintf(stderr, "usage: darknet_step CFG [inference]\n");
        return 2;
    }
    network *net = load_network(argv[1], NULL, 0);
    net->learning_rate = 1e-6f; /* step.c says why */
    set_data(net);
    step(net, infer);
    puts("ready"); /* among the layers that the library prints */
    fflush(stdout);
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        double start = now();
        step(net, infer);
        printf("%.9f\n", (now() - start) / net->batch);
        fflush(stdout);
    }
    return 0;
}
