/* Images to rows of the net's input, and rows to what the net says of them. */
#include <math.h>
#include "api/handle.h"
#include "core/mem.h"
#include "data/decoder.h"
#include "train/evaluate.h"
#include "train/setup.h"

/* ---- images ---- */

static int prepare(const dn_net *d, const struct picture *p, const char *name, float *image, struct err *e)
{
    struct augment a;
    TRY(augment_from_net(d->net, &a, e));
    if (p->flaw) note(&d->net->notes, "%s: %s", name, p->flaw);
    if (p->askew) note(&d->net->notes, "%s: has an EXIF orientation, which is ignored (orient)", name);
    return input_from_picture(d->net, &a, d->view, p, image, e);
}

/* A file, or n bytes of one in memory. */
static int prepare_encoded(const dn_net *d, const char *function, const char *path, const void *bytes,
                           size_t n, float *image, struct err *e)
{
    struct picture p;
    if (!d) return fail(e, E_ARG, "%s: no net given (NULL)", function);
    if ((!path && !bytes) || !image) return fail(e, E_ARG, "%s: an argument is NULL", function);
    const struct decoding how = { .c = d->net->config.channels, .orient = d->orient };
    const char *name = path ? path : "the image in memory";
    TRY(path ? image_decode(path, &how, &p, e) : image_decode_bytes(name, bytes, n, &how, &p, e));
    int rc = prepare(d, &p, name, image, e);
    mem_free(p.pixels);
    return rc;
}

int dn_prepare_file(const dn_net *d, const char *path, float *image, dn_error *error)
{
    struct err e = { 0 };
    return give(prepare_encoded(d, "dn_prepare_file", path, NULL, 0, image, &e), &e, error);
}

int dn_prepare_memory(const dn_net *d, const void *bytes, size_t n, float *image, dn_error *error)
{
    struct err e = { 0 };
    return give(prepare_encoded(d, "dn_prepare_memory", NULL, bytes, n, image, &e), &e, error);
}

static int prepare_pixels(const dn_net *d, const uint8_t *pixels, int h, int w, int c, float *image,
                          struct err *e)
{
    struct picture p;
    if (!d) return fail(e, E_ARG, "dn_prepare_pixels: no net given (NULL)");
    if (!pixels || !image) return fail(e, E_ARG, "dn_prepare_pixels: an argument is NULL");
    if (c < 1 || c > 4)
        return fail(e, E_ARG, "dn_prepare_pixels: %d channels: expected 1 (gray) to 4 (RGBA)", c);
    TRY(image_check_size(w, h, "the array of pixels", e));
    struct augment a; /* before memory is taken: does the net take images? */
    TRY(augment_from_net(d->net, &a, e));
    struct raw r = { .w = w, .h = h, .n = c, .x = (uint8_t *)pixels }; /* only read */
    TRY(raw_picture(&r, d->net->config.channels, "the array of pixels", &p, e));
    int rc = prepare(d, &p, "the array of pixels", image, e);
    mem_free(p.pixels);
    return rc;
}

int dn_prepare_pixels(const dn_net *d, const uint8_t *pixels, int h, int w, int c, float *image,
                      dn_error *error)
{
    struct err e = { 0 };
    return give(prepare_pixels(d, pixels, h, w, c, image, &e), &e, error);
}

static size_t image_size(const dn_net *d) { return (size_t)dn_input(d, NULL, NULL, NULL); }

static int normalise(const dn_net *d, float *images, int n, struct err *e)
{
    struct augment a = { 0 };
    if (!d) return fail(e, E_ARG, "dn_normalise: no net given (NULL)");
    if (!images && n) return fail(e, E_ARG, "dn_normalise: an argument is NULL");
    if (n < 0) return fail(e, E_ARG, "dn_normalise: %d images", n);
    if (!d->net->config.mean.n) return OK;
    TRY(augment_from_net(d->net, &a, e));
    for (int i = 0; i < n; i++) augment_normalise(&a, images + (size_t)i * image_size(d));
    return OK;
}

int dn_normalise(const dn_net *d, float *images, int n, dn_error *error)
{
    struct err e = { 0 };
    return give(normalise(d, images, n, &e), &e, error);
}

static int read_image(const char *path, int c, int orient, int *h, int *w, uint8_t **pixels, struct err *e)
{
    const struct decoding how = { .c = c, .orient = orient };
    struct picture p;
    if (!path || !h || !w || !pixels) return fail(e, E_ARG, "dn_read_image: an argument is NULL");
    TRY(image_decode(path, &how, &p, e));
    const size_t n = (size_t)p.w * (size_t)p.h;
    uint8_t *to = mem_alloc(n, (size_t)c);
    for (size_t i = 0; to && i < n * (size_t)c; i++) to[i] = p.pixels[i % (size_t)c * n + i / (size_t)c];
    mem_free(p.pixels);
    if (!to) return fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", p.w, p.h);
    *h = p.h;
    *w = p.w;
    *pixels = to;
    return OK;
}

int dn_read_image(const char *path, int channels, int orient, int *height, int *width, uint8_t **pixels,
                  dn_error *error)
{
    struct err e = { 0 };
    return give(read_image(path, channels, orient, height, width, pixels, &e), &e, error);
}

void dn_free(void *p) { mem_free(p); }

/* ---- the net ---- */

/* n rows of features; `row`: room for those of a pass. */
static int read_features(struct program *p, int n, real *row, float *features, struct err *e)
{
    const size_t count = (size_t)n * (size_t)program_feature_size(p);
    TRY(program_features(p, n, row, e));
    for (size_t k = 0; k < count; k++) features[k] = (float)row[k];
    return OK;
}

/* In passes of as many images as a program has. layer >= 0: whose output goes to `features`, by way of `row`.
 * prob may be NULL. */
static int infer(struct dn_net *d, int layer, const float *x, int n, float *features, real *row, float *prob,
                 struct err *e)
{
    const size_t image = image_size(d), classes = (size_t)d->net->classes;
    for (int i = 0, rows; i < n; i += rows) {
        struct program *p;
        rows = n - i < d->rows ? n - i : d->rows;
        struct step s = { .x = x + (size_t)i * image, .rows = rows, .rows_s1 = rows };
        TRY(open_inference(d, rows, layer, &p, e));
        TRY(program_infer(p, &s, prob ? prob + (size_t)i * classes : NULL, NULL, e));
        if (layer < 0) continue;
        TRY(read_features(p, rows, row, features + (size_t)i * (size_t)program_feature_size(p), e));
    }
    return OK;
}

static int check_finite(const float *prob, int n, int classes, struct err *e)
{
    for (size_t k = 0; k < (size_t)n * (size_t)classes; k++)
        if (!isfinite(prob[k]))
            return fail(e, E_NUMBER,
                        "image %zu: a probability is not a number: expected an image of finite numbers, and "
                        "weights that have not grown too large and belong to this cfg",
                        k / (size_t)classes);
    return OK;
}

static int predict(dn_net *d, const float *x, int n, float *prob, struct err *e)
{
    TRY(begin(d, "dn_predict", (x && prob) || !n, e));
    if (n < 0) return fail(e, E_ARG, "dn_predict: %d images", n);
    TRY(infer(d, -1, x, n, NULL, NULL, prob, e));
    return check_finite(prob, n, d->net->classes, e);
}

int dn_predict(dn_net *d, const float *images, int n, float *prob, dn_error *error)
{
    struct err e = { 0 };
    return give(predict(d, images, n, prob, &e), &e, error);
}

static int predict_pass(dn_net *d, const char *const *path, int n, float *x, float *prob, struct err *e)
{
    const size_t image = image_size(d), classes = (size_t)d->net->classes;
    for (int i = 0; i < n; i++)
        TRY(prepare_encoded(d, "dn_predict_files", path[i], NULL, 0, x + (size_t)i * image, e));
    TRY(infer(d, -1, x, n, NULL, NULL, prob, e));
    for (int i = 0; i < n; i++)
        TRY(eval_check(prob + (size_t)i * classes, d->net->classes, d->net->cfg->path, e));
    return OK;
}

static int predict_files(dn_net *d, const char *const *path, int n, float *prob, struct err *e)
{
    TRY(begin(d, "dn_predict_files", (path && prob) || !n, e));
    if (n < 0) return fail(e, E_ARG, "dn_predict_files: %d images", n);
    const int rows = n < d->rows ? n : d->rows;
    size_t count;
    float *x = mem_mul((size_t)rows, image_size(d), &count) ? NULL : mem_alloc(count, sizeof *x);
    if (!x) return fail(e, E_MEM, "not enough memory for %d images", rows);
    int rc = OK;
    for (int i = 0, pass; i < n && !rc; i += pass) {
        pass = n - i < rows ? n - i : rows;
        rc = predict_pass(d, path + i, pass, x, prob + (size_t)i * (size_t)d->net->classes, e);
    }
    mem_free(x);
    return rc;
}

int dn_predict_files(dn_net *d, const char *const *paths, int n, float *prob, dn_error *error)
{
    struct err e = { 0 };
    return give(predict_files(d, paths, n, prob, &e), &e, error);
}

/* ---- features ---- */

int dn_feature_layer(const dn_net *d) { return d ? net_penultimate(d->net) : -1; }

int dn_feature_size(const dn_net *d, int layer)
{
    if (!d || layer < 0 || layer >= d->net->n) return 0;
    return (int)shape_row(d->net->layer[layer].out);
}

static int features(dn_net *d, int layer, const float *x, int n, float *to, float *prob, struct err *e)
{
    TRY(begin(d, "dn_features", (x && to) || !n, e));
    if (n < 0) return fail(e, E_ARG, "dn_features: %d images", n);
    if (layer < 0 || layer >= d->net->n)
        return fail(e, E_ARG, "dn_features: layer %d: expected 0..%d", layer, d->net->n - 1);
    const int rows = n < d->rows ? n : d->rows;
    real *row = mem_alloc((size_t)rows * (size_t)dn_feature_size(d, layer), sizeof *row);
    if (!row) return fail(e, E_MEM, "not enough memory for the features of %d images", rows);
    int rc = infer(d, layer, x, n, to, row, prob, e);
    if (!rc && prob) rc = check_finite(prob, n, d->net->classes, e);
    mem_free(row);
    return rc;
}

int dn_features(dn_net *d, int layer, const float *images, int n, float *to, float *prob, dn_error *error)
{
    struct err e = { 0 };
    return give(features(d, layer, images, n, to, prob, &e), &e, error);
}

/* ---- classes ---- */

void dn_top(const float *prob, int classes, int k, int *index)
{
    if (prob && index && classes > 0 && k > 0) eval_top(prob, classes, k < classes ? k : classes, index);
}
