/* threads CFG
 *
 * Nets in several threads at once, one in each: they train and predict alike, to the bit. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <darknet.h>

enum { THREADS = 4, STEPS = 20 };

struct job {
    const char *cfg;
    float *prob; /* of one image */
    int classes, failed;
    dn_error e;
};

static int work(struct job *j, dn_net *net)
{
    const size_t numbers = (size_t)dn_input(net, NULL, NULL, NULL), rows = 2 * (size_t)dn_rows(net, NULL);
    float *x = malloc(rows * numbers * sizeof *x);
    int *label = malloc(rows * sizeof *label), rc = DN_OK;
    j->classes = dn_classes(net);
    j->prob = malloc((size_t)j->classes * sizeof *j->prob);
    if (!x || !label || !j->prob) return DN_MEM;
    for (size_t i = 0; i < rows * numbers; i++) x[i] = (float)(i * 2654435761u % 251u) / 250;
    for (size_t i = 0; i < rows; i++) label[i] = (int)i % j->classes;
    for (int step = 0; step < STEPS && !rc; step++) {
        int second, n = dn_rows(net, &second);
        const dn_batch batch = { x, label, n + second };
        rc = dn_step(net, &batch, NULL, &j->e);
    }
    if (!rc) rc = dn_predict(net, x, 1, j->prob, &j->e);
    free(label);
    free(x);
    return rc;
}

static void *run(void *argument)
{
    struct job *j = argument;
    const dn_options options = { .train = 1, .threads = 1 };
    dn_net *net;
    j->failed = dn_open(&net, j->cfg, &options, &j->e) || work(j, net);
    dn_close(net);
    return NULL;
}

int main(int argc, char **argv)
{
    struct job alone = { 0 }, job[THREADS] = { { 0 } };
    pthread_t thread[THREADS];
    int bad = 0;
    if (argc != 2) return fprintf(stderr, "usage: threads CFG\n"), 2;
    alone.cfg = argv[1];
    run(&alone);
    for (int i = 0; i < THREADS; i++) {
        job[i].cfg = argv[1];
        if (pthread_create(&thread[i], NULL, run, &job[i])) return fprintf(stderr, "threads: no thread\n"), 1;
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        if (job[i].failed || alone.failed)
            fprintf(stderr, "threads: %s\n", job[i].failed ? job[i].e.msg : alone.e.msg);
        bad |= job[i].failed || alone.failed ||
               memcmp(job[i].prob, alone.prob, (size_t)alone.classes * sizeof *alone.prob);
        free(job[i].prob);
    }
    free(alone.prob);
    puts(bad ? "other numbers" : "the same numbers");
    return bad != 0;
}
