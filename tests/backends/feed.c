#include "rig/rig.h"
#include "backend/ops/feed.h"

/* Images of one step after another arrive as they are, in the rows they are for, and their memory may be used
 * again once it was waited for. */
static void images_of_steps(void **state)
{
    enum { C = 3, H = 5, W = 4, ROW = C * H * W, ROWS = 6, STEPS = 5 };
    struct rig r;
    struct op_plan p;
    struct err e;
    void *memory[2];
    const struct feed_desc d = { { ROWS, C, H, W } };
    rig_open(&r, *state, 2);
    const struct feed_ops *ops = r.be->ops->feed;
    if (!ops) {
        rig_close(&r);
        return;
    }
    struct tensor x[STEPS];
    for (int i = 0; i < STEPS; i++) {
        x[i] = rig_dense(&r, d.most);
        rig_fill(&r, &x[i], 1);
    }
    assert_int_equal(ops->plan(r.be, &d, &p, &e), OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ops->alloc(&p, ROWS * ROW * sizeof(float), &memory[i], &e), OK);
    for (int i = 0; i < STEPS; i++) { /* step i: i + 1 rows */
        float *images = memory[i % 2];
        assert_int_equal(ops->await(&p, i % 2), OK);
        for (int k = 0; k < (i + 1) * ROW; k++) images[k] = (float)(1000 * i + k);
        assert_int_equal(ops->send(&p, images, i + 1, i % 2, &x[i]), OK);
    }
    const real *before = rig_noise(&r, ROWS * ROW, 1);
    for (int i = 0; i < STEPS; i++) {
        real all[ROWS * ROW];
        assert_int_equal(r.be->ops->read(r.be, &x[i], 0, ROWS, all), OK);
        for (int k = 0; k < (i + 1) * ROW; k++) assert_true(all[k] == 1000 * i + k);
        assert_memory_equal(all + (i + 1) * ROW, before + (i + 1) * ROW,
                            (size_t)(ROWS - i - 1) * ROW * sizeof *all);
    }
    for (int i = 0; i < 2; i++) ops->free(&p, memory[i]);
    ops->free(&p, NULL);
    op_destroy(&p);
    op_destroy(&p);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(images_of_steps) };
    return RIG_RUN(tests);
}
