#include "rig/rig.h"
#include "backend/ops/images.h"
#include "data/augment.h"

enum { N = 5, C = 3, H = 6, W = 7, ROWS = 9 };

/* The device makes what the loader would have made and uploaded, to the last bit. */
static void shown(struct rig *r, int pads)
{
    const struct augment a = {
        .w = W, .h = H, .c = C, .pad_crop = 4, .flip = 1, .mean = { .1, .2, .3 }, .std = { .5, 0, .25 }
    };
    const struct images_ops *ops = r->be->ops->images;
    const struct shape shape = { ROWS + 1, C, H, W };
    struct op_plan p;
    struct crop move[ROWS];
    uint8_t pixels[N * C * H * W];
    float mean[4], scale[4], made[C * H * W];
    real row[C * H * W];
    struct err e;
    for (int i = 0; i < N * C * H * W; i++) pixels[i] = (uint8_t)rng_bits(3, (uint64_t)i);
    augment_normaliser(&a, mean, scale);
    struct images_desc d = { pixels, N, C, H, W, mean, scale };
    struct tensor x = rig_image(r, shape, pads), uploaded = rig_dense(r, shape);
    rig_fill(r, &x, 1);
    rig_fill(r, &uploaded, 1);
    assert_int_equal(ops->plan(r->be, &d, &p, &e), OK);
    for (int i = 0; i < ROWS; i++) {
        move[i].image = (i * 3) % N;
        augment_move(&a, rng_bits(4, (uint64_t)i), &move[i]);
        assert_int_equal(
            augment_image(&a, rng_bits(4, (uint64_t)i), pixels + move[i].image * C * H * W, W, H, made, &e),
            OK);
        for (int k = 0; k < C * H * W; k++) row[k] = made[k];
        assert_int_equal(r->be->ops->write(r->be, &uploaded, i, 1, row, 0), OK);
    }
    void *on_device = rig_alloc(r, sizeof move);
    r->be->ops->upload(r->be, on_device, move, sizeof move);
    assert_int_equal(ops->show(&p, on_device, ROWS, &x), OK);
    for (int i = 0; i <= ROWS; i++) {
        real got[C * H * W], want[C * H * W];
        assert_int_equal(r->be->ops->read(r->be, &x, i, 1, got), OK);
        assert_int_equal(r->be->ops->read(r->be, &uploaded, i, 1, want), OK);
        assert_memory_equal(got, want, sizeof got);
    }
    op_destroy(&p);
    op_destroy(&p);
}

static void images(void **state)
{
    for (int precision = 0; precision < PRECISION_COUNT; precision++)
        for (int pads = 0; pads < 2; pads++) {
            struct rig r;
            rig_open(&r, *state, 2);
            if (r.be->ops->images && r.be->precisions >> precision & 1) {
                r.be->precision = (enum precision)precision;
                shown(&r, pads);
            }
            rig_close(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(images) };
    return RIG_RUN(tests);
}
