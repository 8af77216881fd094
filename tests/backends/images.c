#include "rig/rig.h"
#include "backend/ops/images.h"
#include "data/augment.h"

/* The device makes what the loader would have made, to the last bit. */
static void images(void **state)
{
    enum { N = 5, C = 3, H = 6, W = 7, ROWS = 9 };
    const struct augment a = {
        .w = W, .h = H, .c = C, .pad_crop = 4, .flip = 1, .mean = { .1, .2, .3 }, .std = { .5, 0, .25 }
    };
    struct rig r;
    struct op_plan p;
    struct crop move[ROWS];
    uint8_t pixels[N * C * H * W];
    float mean[4], scale[4], made[C * H * W];
    struct err e;
    rig_open(&r, *state, 2);
    const struct images_ops *ops = r.be->ops->images;
    for (int i = 0; i < N * C * H * W; i++) pixels[i] = (uint8_t)rng_bits(3, (uint64_t)i);
    augment_normaliser(&a, mean, scale);
    struct images_desc d = { pixels, N, C, H, W, mean, scale };
    struct tensor x = rig_dense(&r, (struct shape){ ROWS + 1, C, H, W });
    rig_fill(&r, &x, 1);
    if (!ops) {
        rig_close(&r);
        return;
    }
    assert_int_equal(ops->plan(r.be, &d, &p, &e), OK);
    for (int i = 0; i < ROWS; i++) {
        move[i].image = (i * 3) % N;
        augment_move(&a, rng_bits(4, (uint64_t)i), &move[i]);
    }
    void *on_device = rig_alloc(&r, sizeof move);
    r.be->ops->upload(r.be, on_device, move, sizeof move);
    assert_int_equal(ops->show(&p, on_device, ROWS, &x), OK);
    for (int i = 0; i < ROWS; i++) {
        real shown[C * H * W];
        assert_int_equal(r.be->ops->read(r.be, &x, i, 1, shown), OK);
        assert_int_equal(
            augment_image(&a, rng_bits(4, (uint64_t)i), pixels + move[i].image * C * H * W, W, H, made, &e),
            OK);
        for (int k = 0; k < C * H * W; k++) assert_true(shown[k] == made[k]);
    }
    real last[C * H * W], *noisy = rig_noise(&r, shape_count(x.shape), 1) + ROWS * C * H * W;
    assert_int_equal(r.be->ops->read(r.be, &x, ROWS, 1, last), OK);
    assert_memory_equal(last, noisy, sizeof last);
    op_destroy(&p);
    op_destroy(&p);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(images) };
    return RIG_RUN(tests);
}
