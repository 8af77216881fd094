/* Commands that draw: the filters of a net, and what augmentation makes of an image. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "cli/canvas.h"
#include "cli/cli.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/image.h"
#include "net/surgery.h"
#include "train/setup.h"

enum { GAP = 2 };

/* Tiles of w x h pixels in rows of `across`. */
struct sheet {
    int w, h, across;
    struct canvas canvas;
};

static int sheet_open(struct sheet *s, int n, int w, int h, struct err *e)
{
    *s = (struct sheet){ .w = w, .h = h, .across = 1 };
    while (s->across * s->across < n) s->across++;
    return canvas_open(&s->canvas, s->across * (w + GAP) + GAP,
                       (n + s->across - 1) / s->across * (h + GAP) + GAP, e);
}

/* Red, green and blue of 0..1. */
static void sheet_dot(struct sheet *s, int tile, int x, int y, const float rgb[3])
{
    unsigned color = 0;
    for (int k = 0; k < 3; k++) color = color << 8 | (unsigned)(255 * fminf(fmaxf(rgb[k], 0), 1) + .5f);
    canvas_dot(&s->canvas, GAP + tile % s->across * (s->w + GAP) + x,
               GAP + tile / s->across * (s->h + GAP) + y, color);
}

/* ---- visualize ---- */

/* A filter, its smallest number black and its largest white; pixels are `by` x `by`. Three channels are red,
 * green and blue, of others the first is shown in gray. */
static void draw_filter(struct sheet *s, int tile, const real *w, int c, int side, int by)
{
    const size_t plane = (size_t)side * (size_t)side, n = plane * (size_t)(c == 3 ? 3 : 1);
    real low = w[0], high = w[0];
    for (size_t i = 1; i < n; i++) low = w[i] < low ? w[i] : low, high = w[i] > high ? w[i] : high;
    for (int y = 0; y < s->h; y++)
        for (int x = 0; x < s->w; x++) {
            float rgb[3];
            for (size_t k = 0; k < 3; k++) {
                real v = w[(c == 3 ? k * plane : 0) + (size_t)(y / by * side + x / by)];
                rgb[k] = high > low ? (float)((v - low) / (high - low)) : 0;
            }
            sheet_dot(s, tile, x, y, rgb);
        }
}

static int draw_filters(struct sheet *s, const struct net *n, const char *out, real *w, struct err *e)
{
    enum { PIXELS = 48 }; /* of a filter's side, about */
    struct param *p;
    TRY(surgery_image_weights(n, &p, e));
    TRY(param_explain(p, param_get(p, w), e));
    const int filters = n->layer[p->layer].out.c, c = n->config.channels;
    const size_t each = p->count / (size_t)filters;
    int side = 1;
    while ((size_t)(side * side * c) < each) side++;
    const int by = side < PIXELS ? PIXELS / side : 1;
    TRY(sheet_open(s, filters, side * by, side * by, e));
    for (int i = 0; i < filters; i++) draw_filter(s, i, w + (size_t)i * each, c, side, by);
    TRY(canvas_write(&s->canvas, out, e));
    printf("%s: the %d filters of layer %d, %dx%d of %d channels\n", out, filters, p->layer, side, side, c);
    return OK;
}

static int visualize(struct session *s, struct sheet *sheet, const struct cli *c, struct err *e)
{
    TRY(session_open(s, c, NULL, c->arg[0], e));
    TRY(session_load(s, c->arg[1], e));
    real *w = params_host(s->net, e);
    int rc = w ? draw_filters(sheet, s->net, c->narg > 2 ? c->arg[2] : "visualize.png", w, e) : E_MEM;
    mem_free(w);
    return rc;
}

int cli_visualize(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    struct sheet sheet = { 0 };
    int rc = visualize(&s, &sheet, c, e);
    canvas_close(&sheet.canvas);
    session_close(&s);
    return rc;
}

/* ---- imtest ---- */

enum { TILES = 16 };

static void draw_image(struct sheet *s, int tile, const float *x)
{
    const size_t plane = (size_t)s->w * (size_t)s->h;
    for (size_t i = 0; i < plane; i++)
        sheet_dot(s, tile, (int)i % s->w, (int)i / s->w,
                  (const float[]){ x[i], x[i + plane], x[i + 2 * plane] });
}

/* The image as validation sees it, then as training does. */
static int draw_views(struct sheet *s, const struct picture *p, const struct augment *a, uint64_t seed,
                      float *x, struct err *e)
{
    TRY(image_view(a->letter_box ? VIEW_LETTERBOX : VIEW_CENTER, p->pixels, 3, p->w, p->h, a->w, a->h, x, e));
    draw_image(s, 0, x);
    for (int i = 1; i < TILES; i++) {
        TRY(augment_image(a, rng_key(seed, RNG_AUGMENT, (uint64_t)i), p->pixels, p->w, p->h, x, e));
        draw_image(s, i, x);
    }
    return OK;
}

static int imtest(struct session *s, struct picture *p, struct sheet *sheet, const struct cli *c,
                  struct err *e)
{
    const char *out = c->out ? c->out : "imtest.png";
    /* Without a cfg: what Darknet's cfgs for ImageNet ask for. */
    struct augment a = { .w = 224,
                         .h = 224,
                         .min_crop = 224,
                         .max_crop = 448,
                         .angle = 7,
                         .aspect = .75,
                         .hue = .1,
                         .saturation = .75,
                         .exposure = .75,
                         .flip = 1 };
    if (c->narg < 2 && c->nset) return fail(e, E_ARG, "-set %.80s: imtest has no cfg: name one", c->set[0]);
    if (c->narg > 1) {
        TRY(session_open(s, c, NULL, c->arg[1], e));
        TRY(augment_from_net(s->net, &a, e));
    }
    a.c = 3; /* in colour, and as it looks before it is normalised */
    memset(a.std, 0, sizeof a.std);
    TRY(image_decode(c->arg[0], &(struct decoding){ .c = 3 }, p, e));
    TRY(sheet_open(sheet, TILES, a.w, a.h, e));
    float *x = mem_alloc((size_t)a.w * (size_t)a.h, 3 * sizeof *x);
    int rc = x ? draw_views(sheet, p, &a, c->seed, x, e) : fail(e, E_MEM, "not enough memory for an image");
    mem_free(x);
    if (!rc) rc = canvas_write(&sheet->canvas, out, e);
    if (!rc) printf("%s: %s in %d views, the first without augmentation\n", out, c->arg[0], TILES);
    return rc;
}

int cli_imtest(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    struct picture p = { 0 };
    struct sheet sheet = { 0 };
    int rc = imtest(&s, &p, &sheet, c, e);
    canvas_close(&sheet.canvas);
    mem_free(p.pixels);
    session_close(&s);
    return rc;
}
