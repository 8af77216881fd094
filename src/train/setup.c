#include "setup.h"
#include <stdio.h>
#include <string.h>
#include "core/cores.h"
#include "data/images.h"

/* Line of a key of [net], or of the section when the key is not given in the file. */
static int line_of(const struct net *net, const char *key)
{
    struct cfg_section *s = &net->cfg->section[0];
    int line = 0;
    return cfg_find(s, key, &line) && line ? line : s->line;
}

static int check_images(const struct net *net, struct err *e)
{
    const struct net_config *c = &net->config;
    const char *path = net->cfg->path;
    if (!c->width || !c->height || !c->channels)
        return fail_at(e, E_CFG, path, line_of(net, "inputs"),
                       "[net] has inputs=%d without height=, width= and channels=: images need all three",
                       c->inputs);
    if (c->channels == 1 || c->channels == 3) return OK;
    return fail_at(e, E_CFG, path, line_of(net, "channels"),
                   "[net] channels=%d: expected 1 (luma) or 3 (colour) for images", c->channels);
}

/* The net has checked that there is a number for every channel, in both lists or in none. */
static void fill_normalisation(const struct net_config *c, struct augment *a)
{
    for (int i = 0; c->mean.n && i < c->channels; i++) {
        a->mean[i] = list_at(&c->mean, i);
        a->std[i] = list_at(&c->std, i);
    }
}

/* pjreddie's rule: a ratio of the side goes before pixels; without either, it is `times` the side. */
static int crop_side(double ratio, int pixels, int side, int times)
{
    if (ratio > 0) return ratio * side < 1 ? 1 : (int)(ratio * side); /* 0 would mean: not given */
    return pixels > 0 ? pixels : side * times;
}

int augment_from_net(const struct net *net, struct augment *a, struct err *e)
{
    const struct net_config *c = &net->config;
    TRY(check_images(net, e));
    int side = c->width > c->height ? c->width : c->height;
    *a = (struct augment){ .w = c->width,
                           .h = c->height,
                           .c = c->channels,
                           .angle = c->angle,
                           .aspect = c->aspect,
                           .hue = c->hue,
                           .saturation = c->saturation,
                           .exposure = c->exposure,
                           .flip = c->flip,
                           .pad_crop = c->pad_crop,
                           .letter_box = c->letter_box,
                           .blur = c->blur == 1 ? 15 : c->blur,
                           .mix = c->mixup };
    a->min_crop = crop_side(c->min_ratio, c->min_crop, side, 1);
    a->max_crop = crop_side(c->max_ratio, c->max_crop, side, 2);
    if (a->min_crop > a->max_crop)
        return fail_at(e, E_CFG, net->cfg->path, line_of(net, c->min_ratio > 0 ? "min_ratio" : "min_crop"),
                       "[net] min_crop is %d and max_crop %d: expected min_crop <= max_crop", a->min_crop,
                       a->max_crop);
    fill_normalisation(c, a);
    return OK;
}

int input_from_picture(const struct net *net, const struct augment *a, enum view view,
                       const struct picture *p, float *x, struct err *e)
{
    const struct net_config *c = &net->config;
    TRY(image_view(view, p->pixels, c->channels, p->w, p->h, c->width, c->height, x, e));
    augment_normalise(a, x);
    return OK;
}

/* The last layer that is not the loss, where it is a map of `classes` channels; or NULL. */
static const struct shape *map_of_classes(const struct net *net, int classes)
{
    for (int i = net->n - 1; i >= 0; i--) {
        const struct shape *out = &net->layer[i].out;
        if (shape_row(*out) != (size_t)net->classes) return NULL;
        if (out->c == classes && out->h * out->w > 1) return out;
    }
    return NULL;
}

int data_fits_net(const struct data_file *d, const struct net *net, struct err *e)
{
    if (d->classes == net->classes) return OK;
    const struct shape *map = map_of_classes(net, d->classes);
    if (map)
        return fail(
            e, E_CFG,
            "the net of %.150s ends in %d outputs for each of %d x %d pixels: put [avgpool] before [softmax]",
            net->cfg->path, map->c, map->w, map->h);
    return fail(e, E_CFG,
                "%.150s says classes=%d, but the net of %.150s has %d outputs: correct classes=, or set "
                "filters= or output= of its last layer to %d",
                d->path, d->classes, net->cfg->path, net->classes, d->classes);
}

int setup_images(struct dataset **set, const struct data_file *d, enum split split, const struct notes *notes,
                 struct err *e)
{
    TRY(dataset_open(set, d, split, notes, e));
    if (!(*set)->path) return OK;
    return images_check(split == SPLIT_TRAIN || d->holdout ? d->train : d->valid, (*set)->path, (*set)->n, e);
}

int setup_workers(int asked)
{
    enum { MOST = 16 };
    const int n = cores();
    if (asked) return asked;
    return n < MOST ? n : MOST;
}

void setup_base(const char *cfg, char base[NAME_MAX + 1])
{
    const char *slash = strrchr(cfg, '/'), *name = slash ? slash + 1 : cfg;
    snprintf(base, NAME_MAX + 1, "%.*s", (int)strcspn(name, "."), name);
}
