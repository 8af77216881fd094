/* From the [net] section to the loader's augmentation. */
#include "train/trainer.h"

/* Entry i of mean= or std=: one number stands for all channels. */
static double per_channel(const struct list *l, int i, double none)
{
    return l->n ? list_at(l, l->n == 1 ? 0 : i) : none;
}

static int fill_normalisation(const struct net_config *c, struct augment *a, struct err *e)
{
    const struct {
        const char *key;
        const struct list *l;
    } given[] = { { "mean", &c->mean }, { "std", &c->std } };
    for (int i = 0; i < 2; i++)
        if (given[i].l->n > 1 && given[i].l->n != c->channels)
            return fail(e, E_CFG, "[net] %s= has %d numbers: expected 1, or %d, one for each channel",
                        given[i].key, given[i].l->n, c->channels);
    if (!c->mean.n && !c->std.n) return OK;
    for (int i = 0; i < c->channels; i++) {
        a->mean[i] = per_channel(&c->mean, i, 0);
        a->std[i] = per_channel(&c->std, i, 1);
        if (!(a->std[i] > 0)) return fail(e, E_CFG, "[net] std= must be above 0");
    }
    return OK;
}

/* pjreddie's: a ratio of the side goes before pixels; without either, from once to twice the side. */
static int crop_side(double ratio, int pixels, int side, int times)
{
    if (ratio > 0) return (int)(ratio * side);
    return pixels > 0 ? pixels : side * times;
}

int augment_from_net(const struct net_config *c, struct augment *a, struct err *e)
{
    if (c->channels != 1 && c->channels != 3)
        return fail(e, E_CFG, "[net] channels=%d: images have 1 (luma) or 3 (colour)", c->channels);
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
                           .pad_crop = c->pad_crop };
    a->min_crop = crop_side(c->min_ratio, c->min_crop, side, 1);
    a->max_crop = crop_side(c->max_ratio, c->max_crop, side, 2);
    if (a->min_crop > a->max_crop)
        return fail(e, E_CFG, "[net] min_crop is %d and max_crop %d: expected min_crop <= max_crop",
                    a->min_crop, a->max_crop);
    return fill_normalisation(c, a, e);
}
