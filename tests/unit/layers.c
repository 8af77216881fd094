/* Layers that refer to earlier ones or move pixels about: the shapes that they make, and what they refuse. */
#include "tiny.h"

/* Layer 0 gives 8 channels of 4 x 6 pixels, layer 1 the same again. */
#define NET                                                                                                  \
    "[net]\nbatch=2\nchannels=3\nheight=4\nwidth=6\n"                                                        \
    "[convolutional]\nfilters=8\nactivation=leaky\n[convolutional]\nfilters=8\nactivation=leaky\n"

static struct tiny t;

static const struct {
    const char *sections;
    int c, h, w; /* of the last section */
} shapes[] = {
    { "[route]\nlayers=-1\ngroups=2\ngroup_id=1\n", 4, 4, 6 },
    { "[route]\nlayers=-1,0\ngroups=4\n", 4, 4, 6 },
    { "[avgpool]\n[scale_channels]\nfrom=0\n", 8, 4, 6 },
    { "[convolutional]\nfilters=1\n[scale_channels]\nfrom=1\nscale_wh=1\nactivation=mish\n", 8, 4, 6 },
    { "[sam]\nfrom=-2\n", 8, 4, 6 },
    { "[upsample]\n", 8, 8, 12 },
    { "[upsample]\nstride=-2\n", 8, 2, 3 },
    { "[reorg]\nstride=2\n", 32, 2, 3 },
    { "[reorg]\nstride=2\nreverse=1\n", 2, 8, 12 },
    { "[reorg3d]\nstride=2\n", 32, 2, 3 },
    { "[reorg3d]\nstride=2\n[reorg3d]\nstride=2\nreverse=1\n", 8, 4, 6 },
    { "[shortcut]\nfrom=0,-1\nweights_type=per_channel\n", 8, 4, 6 },
    { "[convolutional]\nfilters=5\nsize=3\npad=1\ndilation=2\n", 5, 4, 6 },
    { "[convolutional]\nfilters=5\nsize=2\npadding=2\ndilation=3\n", 5, 13, 15 },
    { "[convolutional]\nfilters=5\nsize=1\ndilation=4\nstride_x=2\n", 5, 4, 3 },
    { "[convolutional]\nfilters=5\nsize=3\nstride=2\nstride_y=1\npad=1\n", 5, 4, 3 },
    { "[convolutional]\nfilters=5\nsize=3\nstride=2\npad=1\nantialiasing=1\n", 5, 2, 3 },
    { "[convolutional]\nfilters=5\nsize=3\nstride_y=3\npad=1\nantialiasing=2\n", 5, 1, 5 },
    { "[maxpool]\nsize=3\nstride_y=2\n", 8, 2, 6 },
    { "[maxpool]\nsize=2\nstride=2\nantialiasing=1\n", 8, 2, 3 },
    { "[maxpool]\nmaxpool_depth=1\nout_channels=3\nstride=2\n", 3, 4, 6 },
    { "[local_avgpool]\nsize=3\nstride=2\n", 8, 2, 3 },
    { "[local]\nfilters=2\nsize=5\npad=1\n", 2, 4, 6 },
    { "[local]\nfilters=2\nsize=3\nstride=2\n", 2, 1, 2 },
};

static void make(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char cfg[1000];
        struct err e = { 0 };
        snprintf(cfg, sizeof cfg, "%s%s[connected]\noutput=2\n[softmax]\n", NET, shapes[i].sections);
        ok(tiny_net(&t, cfg, NULL, &e), &e);
        assert_string_equal(t.notes, "");
        struct shape out = t.net->layer[t.net->n - 3].out;
        assert_int_equal(out.c, shapes[i].c);
        assert_int_equal(out.h, shapes[i].h);
        assert_int_equal(out.w, shapes[i].w);
        tiny_close(&t);
    }
}

static const char *const refusals[][2] = {
    { "[route]\nlayers=-1\ngroups=3\n", "[route] groups=3 does not divide 8 channels" },
    { "[route]\nlayers=-1\ngroups=2\ngroup_id=2\n", "[route] group_id=2: expected 0 to 1, with groups=2" },
    { "[scale_channels]\nfrom=0\n",
      "[scale_channels] cannot scale 6x4x8 by 6x4x8: expected factors of 1x1x8" },
    { "[scale_channels]\nfrom=0\nscale_wh=1\n", "cannot scale 6x4x8 by 6x4x8: expected factors of 6x4x1" },
    { "[scale_channels]\n", "[scale_channels] needs from= with one layer, as in from=-3" },
    { "[avgpool]\n[sam]\nfrom=0\n", "[sam] cannot multiply 6x4x8 by 1x1x8: expected the same shape" },
    { "[sam]\nfrom=2\n", "[sam] from=2 means layer 2: expected one before this layer (2)" },
    { "[upsample]\nstride=0\n", "[upsample] stride=0: expected a whole number that is not 0" },
    { "[upsample]\nstride=-4\n", "[upsample] stride=-4: the map 6x4 cannot be cut into blocks of 4x4" },
    { "[reorg]\nstride=4\n", "[reorg] stride=4: the map 6x4 cannot be cut into blocks of 4x4" },
    { "[reorg]\nstride=3\nreverse=1\n", "[reorg] stride=3: 8 channels are not a multiple of 9" },
    { "[convolutional]\nfilters=3\n[reorg]\nstride=2\n", "for a multiple of 4 channels, not for 3" },
    { "[reorg3d]\nstride=2\nreverse=1\n",
      "[reorg3d] stride=2: Darknet's order is defined for a multiple of 4 channels, not for 2" },
    { "[reorg]\nextra=1\n", "[reorg] extra=1: outputs that are always 0" },
    { "[shortcut]\nfrom=0,-1\nalpha=2\n",
      "[shortcut] alpha= and beta= are for a sum of two layers without weights" },
    { "[upsample]\n[shortcut]\nfrom=0,1\n", "[shortcut] inputs differ in size: 12x8 and 6x4" },
    { "[shortcut]\nfrom=0\nweights_type=all\n", "weights_type=all: expected none, per_feature" },
    { "[shortcut]\nfrom=0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n",
      "[shortcut] from= has 16 layers: expected at most 15" },
    { "[convolutional]\nsize=3\ndilation=2\n",
      "size=3, with its dilation, is larger than the padded map 6x4" },
    { "[avgpool]\n[convolutional]\nantialiasing=2\n",
      "[convolutional] antialiasing=2 needs a map of 2x2 pixels or more, not 1x1" },
    { "[maxpool]\nmaxpool_depth=1\nout_channels=9\n", "[maxpool] out_channels=9: the input has 8 channels" },
    { "[maxpool]\nmaxpool_depth=1\nantialiasing=1\n",
      "maxpool_depth=1 takes no strides: remove antialiasing=1" },
    { "[softmax]\ngroups=192\n", "[softmax] of one number is always 1, whatever the number: lower groups=" },
    { "[connected]\noutput=1\n[softmax]\n", "the layer before needs two or more outputs" },
    { "[local]\nsize=5\n", "[local] size=5 is larger than the map 6x4: use a smaller size or pad=1" },
};

static void refuse(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char cfg[1000];
        struct err e = { 0 };
        snprintf(cfg, sizeof cfg, "%s%s[connected]\noutput=2\n[softmax]\n", NET, refusals[i][0]);
        refused(tiny_net(&t, cfg, NULL, &e), E_CFG, &e, refusals[i][1]);
        tiny_close(&t);
    }
}

enum { CROP_ROWS = 2, CROP_CHANNELS = 3, CROP_PIXELS = 4 };

/* The output of a [crop] for black images, in training or not. Returns the number of values that differ from
 * the first of their channel, over all rows. */
static int black_crop(int train, real *y, double *by)
{
    struct err e = { 0 };
    const float x[CROP_ROWS * CROP_CHANNELS * 9] = { 0 };
    const int label[CROP_ROWS] = { 0 };
    ok(tiny_net(&t,
                "[net]\nbatch=2\nchannels=3\nheight=3\nwidth=3\n[crop]\ncrop_height=2\ncrop_width=2\n"
                "shift=.4\n[connected]\noutput=2\n[softmax]\n",
                NULL, &e),
       &e);
    struct program_desc d = { .rows = CROP_ROWS, .train = train, .keep = 1 };
    ok(program_open(&t.p, t.net, &d, &e), &e);
    const struct step step = {
        .x = x, .label = label, .rows = CROP_ROWS, .rows_s1 = CROP_ROWS, .iteration = 1
    };
    struct step_stats s;
    float prob[CROP_ROWS * 2];
    double ce;
    ok(train ? step_train(t.p, &step, &s, &e) : program_infer(t.p, &step, prob, &ce, &e), &e);
    assert_int_equal(t.be->ops->read(t.be, &program_layer(t.p, 0)->out->x, 0, CROP_ROWS, y), OK);
    int differ = 0;
    for (int i = 0; i < CROP_ROWS * CROP_CHANNELS * CROP_PIXELS; i++)
        differ += y[i] != y[i / CROP_PIXELS % CROP_CHANNELS * CROP_PIXELS];
    for (int c = 0; c < CROP_CHANNELS; c++) by[c] = y[c * CROP_PIXELS] + 1;
    tiny_close(&t);
    return differ;
}

/* Each channel moves by a number of its own, the same in all pixels of all images, and in training alone. */
static void crops_shift_colours(void **state)
{
    real y[CROP_ROWS * CROP_CHANNELS * CROP_PIXELS];
    double by[CROP_CHANNELS];
    (void)state;
    assert_int_equal(black_crop(1, y, by), 0);
    for (int c = 0; c < CROP_CHANNELS; c++) {
        assert_true(by[c] != 0 && by[c] != by[(c + 1) % CROP_CHANNELS]);
        assert_in_range((uintmax_t)((by[c] + .2) * 1000), 0, 400);
    }
    assert_int_equal(black_crop(0, y, by), 0);
    for (int c = 0; c < CROP_CHANNELS; c++) assert_true(by[c] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(make), cmocka_unit_test(refuse),
                                        cmocka_unit_test(crops_shift_colours) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
