/* predict CFG WEIGHTS FEATURES IMAGE...
 *
 * What `darknet classifier predict -csv` says of the images, five classes each, without their names; writes
 * the features that the classifier sees to FEATURES, as floats. An image from a file, from memory and among
 * others must give the same numbers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <darknet.h>

static int failed(const dn_error *e)
{
    fprintf(stderr, "predict: %s\n", e->msg);
    return 1;
}

static unsigned char *load(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long size = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    if (size > 0) bytes = malloc((size_t)size);
    if (bytes && (fseek(f, 0, SEEK_SET) || fread(bytes, 1, (size_t)size, f) != (size_t)size)) {
        free(bytes);
        bytes = NULL;
    }
    if (f) fclose(f);
    *n = bytes ? (size_t)size : 0;
    return bytes;
}

/* Image i as a row of input, by way of memory; the same as from the file. */
static int read_image(const dn_net *net, const char *path, float *x, float *again, size_t numbers,
                      dn_error *e)
{
    size_t n;
    unsigned char *bytes = load(path, &n);
    int rc = dn_prepare_file(net, path, x, e);
    if (!rc) rc = dn_prepare_memory(net, bytes, n, again, e);
    free(bytes);
    if (!rc && memcmp(x, again, numbers * sizeof *x)) {
        fprintf(stderr, "predict: %s: from memory it is another image\n", path);
        return 1;
    }
    return rc ? failed(e) : 0;
}

static void print(const char *path, const float *prob, int classes)
{
    enum { TOP = 5 };
    int best[TOP];
    dn_top(prob, classes, TOP, best);
    for (int k = 0; k < TOP && k < classes; k++)
        printf("%s,%d,%d,%.6f\n", path, k + 1, best[k], (double)prob[best[k]]);
}

int main(int argc, char **argv)
{
    dn_error e;
    dn_net *net;
    if (argc < 5) return fprintf(stderr, "usage: predict CFG WEIGHTS FEATURES IMAGE...\n"), 2;
    if (dn_open(&net, argv[1], NULL, &e) || dn_load(net, argv[2], &e)) return failed(&e);
    const int n = argc - 4, classes = dn_classes(net), layer = dn_feature_layer(net),
              d = dn_feature_size(net, layer);
    const char *const *path = (const char *const *)argv + 4;
    const size_t image = (size_t)dn_input(net, NULL, NULL, NULL), row = (size_t)classes;
    float *x = malloc((size_t)n * image * sizeof *x), *again = malloc(image * sizeof *x),
          *prob = malloc(3 * (size_t)n * row * sizeof *prob), *single = prob + (size_t)n * row,
          *beside = single + (size_t)n * row, *features = malloc((size_t)n * (size_t)d * sizeof *features);
    if (!x || !again || !prob || !features) return fprintf(stderr, "predict: not enough memory\n"), 1;
    for (int i = 0; i < n; i++) {
        if (read_image(net, path[i], x + (size_t)i * image, again, image, &e)) return 1;
        if (dn_predict(net, x + (size_t)i * image, 1, single + (size_t)i * row, &e)) return failed(&e);
    }
    if (dn_predict_files(net, path, n, prob, &e) || dn_features(net, layer, x, n, features, beside, &e))
        return failed(&e);
    for (size_t i = 0; i < (size_t)n * row; i++) {
        float off = prob[i] - single[i], other = prob[i] - beside[i];
        if (off * off > 1e-12f || other * other > 1e-12f) /* blocks of a product may differ with the rows */
            return fprintf(stderr, "predict: %g, alone %g, beside features %g\n", (double)prob[i],
                           (double)single[i], (double)beside[i]),
                   1;
    }
    for (int i = 0; i < n; i++) print(path[i], prob + (size_t)i * row, classes);
    FILE *f = fopen(argv[3], "wb");
    size_t count = (size_t)n * (size_t)d;
    if (!f || fwrite(features, sizeof *features, count, f) != count || fclose(f))
        return fprintf(stderr, "predict: %s cannot be written\n", argv[3]), 1;
    free(features);
    free(prob);
    free(again);
    free(x);
    dn_close(net);
    return 0;
}
