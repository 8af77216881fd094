/* What a net answers, in full precision, for check.py to compare with other programs.
 *   answer examples FOLDER           every example of every layer in the registry, as FOLDER/0007-maxpool.cfg
 *   answer CFG DEVICE ROWS FOLDER [WEIGHTS]   with these weights, or random ones, running statistics of batch
 *       normalisation included: FOLDER/net.weights; float32: FOLDER/images (random), outputs, features */
#include <stdio.h>
#include <stdlib.h>
#include "layers/bed.h"

static void write_floats(const char *folder, const char *name, const void *x, size_t n)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(x, sizeof(float), n, f) != n || fclose(f)) {
        perror(path);
        exit(1);
    }
}

static int die(const struct err *e)
{
    fprintf(stderr, "answer: %s\n", e->msg);
    return 1;
}

static int write_examples(const char *folder)
{
    char cfg[4096], path[500];
    int number = 0;
    for (int i = 0; layer_at(i); i++)
        for (const char *const *x = layer_at(i)->examples; *x; x++) {
            bed_cfg(cfg, sizeof cfg, layer_at(i), *x, 3, 6);
            snprintf(path, sizeof path, "%s/%04d-%s.cfg", folder, number++, layer_at(i)->name);
            FILE *f = fopen(path, "w");
            if (!f || fputs(cfg, f) < 0 || fclose(f)) {
                perror(path);
                return 1;
            }
        }
    return 0;
}

/* Each scale and bias its own: biases around 0, scales around 1, but smaller where there is no activation,
 * which is how a branch of a residual net ends after training. With larger ones a deep net multiplies
 * rounding as it does every difference between its images. */
static int shake(const struct net *n, struct err *e)
{
    real *x = params_host(n, e);
    int rc = x ? OK : E_MEM;
    for (int i = 0; i < n->nparam && !rc; i++) {
        const struct param *p = n->param[i];
        const uint64_t key = rng_key(7, RNG_INIT, (uint64_t)i);
        const char *activation = cfg_find(&n->cfg->section[p->layer + 1], "activation", NULL);
        const int branch = activation && !strcmp(activation, "linear");
        if (p->flags & (PARAM_STATE | PARAM_DECAY)) continue;
        for (size_t k = 0; k < p->count; k++)
            x[k] = (real)(p->init == INIT_ONE ? (branch ? .2 : 1) * (.7 + .6 * rng_uniform(key, k))
                                              : .4 * rng_uniform(key, k) - .2);
        rc = param_set(n->param[i], x);
    }
    mem_free(x);
    return rc;
}

/* Noise over blocks of 8x8 pixels of one colour, so that images differ in what a pool over all pixels leaves.
 */
static float *draw_images(const struct net *n, int rows)
{
    const struct shape s = config_shape(&n->config, rows);
    float *x = mem_alloc(shape_count(s), sizeof *x);
    for (size_t i = 0; x && i < shape_count(s); i++) {
        const size_t column = i % (size_t)s.w, row = i / (size_t)s.w % (size_t)s.h;
        const size_t plane = i / (size_t)s.w / (size_t)s.h,
                     block = (plane << 16) + (row / 8 << 8) + column / 8;
        x[i] = (float)(rng_uniform(5, i) + 3 * rng_uniform(6, block) - 2);
    }
    return x;
}

/* A net with running statistics: those of a mini-batch. Without them a deep net answers the same whatever the
 * image, and any other program agrees. */
static int train(struct net *n, struct program **p, struct err *e)
{
    enum { ROWS = 8 };
    const struct program_desc d = { .rows = ROWS, .train = 1 };
    struct step_stats stats;
    int label[ROWS] = { 0 };
    TRY(program_open(p, n, &d, e));
    TRY(shake(n, e));
    float *x = draw_images(n, ROWS);
    const struct step s = { .x = x, .label = label, .rows = ROWS, .rows_s1 = ROWS, .iteration = 1 };
    int rc = x ? step_train(*p, &s, &stats, e) : fail(e, E_MEM, "not enough memory");
    mem_free(x);
    return rc;
}

static int answer(const struct net *n, struct program *p, const char *folder, struct err *e)
{
    const int rows = program_rows(p), layer = net_penultimate(n);
    const size_t pixels = shape_row(config_shape(&n->config, 1)), all = (size_t)rows * pixels;
    const size_t seen = (size_t)rows * (size_t)program_feature_size(p), outputs = (size_t)(rows * n->classes);
    float *x = draw_images(n, rows), *y = mem_alloc(outputs, sizeof *y);
    real *h = mem_alloc(seen + 1, sizeof *h);
    if (!x || !y || !h) return fail(e, E_MEM, "not enough memory");
    struct step s = { .x = x, .rows = rows, .rows_s1 = rows };
    int rc = program_infer(p, &s, y, NULL, e);
    if (!rc && layer >= 0) rc = program_features(p, rows, h, e);
    if (!rc) {
        write_floats(folder, "images", x, all);
        write_floats(folder, "outputs", y, outputs);
        if (layer >= 0) write_floats(folder, "features", h, seen);
    }
    mem_free(x);
    mem_free(y);
    mem_free(h);
    return rc;
}

static int answer_for(struct net *n, struct program **trained, struct program **p, int rows,
                      const char *folder, const char *weights, struct err *e)
{
    const struct program_desc d = { .rows = rows, .features = 1 + net_penultimate(n) };
    char path[500];
    int layers;
    snprintf(path, sizeof path, "%s/net.weights", folder);
    if (!weights) TRY(train(n, trained, e));
    TRY(program_open(p, n, &d, e));
    TRY(weights ? weights_load(n, weights, WEIGHTS_WHOLE, &layers, e)
                : weights_save(n, path, n->n, 12345, e));
    TRY(program_refresh(*p, e));
    return answer(n, *p, folder, e);
}

int main(int argc, char **argv)
{
    struct err e = { 0 };
    struct backend *be;
    struct cfg *cfg;
    struct net *n = NULL;
    struct program *p = NULL, *trained = NULL;
    if (argc == 3 && !strcmp(argv[1], "examples")) return write_examples(argv[2]);
    if (argc < 5) return 2;
    if (net_read_cfg(&cfg, argv[1], NULL, NULL, &e) || backend_open(&be, argv[2], 0, &e)) return die(&e);
    int rc = net_open(&n, cfg, be, 1, NULL, &e);
    if (!rc) rc = answer_for(n, &trained, &p, atoi(argv[3]), argv[4], argc > 5 ? argv[5] : NULL, &e);
    program_close(p);
    program_close(trained);
    net_close(n);
    backend_close(be);
    return rc ? die(&e) : 0;
}
