#include "ref/ref.h"
#include "backend/ops/dropblock.h"

enum { ROWS = 2, C = 6, H = 5, W = 4, N = ROWS * C * H * W };

/* Blocks of s x s whole pixels in planes of ones, one a plane at most, and what is left keeps the row's sum.
 */
static int blocks_of(const real *y, int size)
{
    int blocks = 0;
    for (int n = 0; n < ROWS; n++) {
        double sum = 0;
        for (int c = 0; c < C; c++) {
            const real *plane = y + (n * C + c) * H * W;
            int dropped = 0, first = -1;
            for (int i = 0; i < H * W; i++) {
                sum += plane[i];
                if (plane[i] != 0) continue;
                if (!dropped++) first = i;
                assert_in_range(i / W - first / W, 0, size - 1);
                assert_in_range(i % W - first % W, 0, size - 1);
            }
            assert_true(dropped == 0 || dropped == size * size);
            blocks += dropped > 0;
        }
        NEAR(sum, C * H * W, exact);
    }
    return blocks;
}

static void blocks(void **state)
{
    (void)state;
    /* ramp, iteration, the size of blocks then */
    static const int cases[][3] = { { 0, 1, 3 }, { 10, 1, 1 }, { 10, 7, 2 }, { 10, 10, 3 }, { 10, 99, 3 } };
    struct tensor in = tensor(ROWS, C, H, W), out = in;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct dropblock_desc d = { &in, 1, .5, 3, cases[k][0], 77, { 0, 0, 0 } };
        struct step_state now = { .iteration = (uint64_t)cases[k][1] };
        struct op_plan p;
        struct err e;
        real x[N], y[N], g[N];
        int sum = 0, steps = 200, size = cases[k][2];
        set(x, N, 1);
        DONE(ops->dropblock->plan(be, &d, &out, &p, &e));
        for (; now.step < (uint64_t)steps; now.step++) {
            DONE(ops->dropblock->forward(&p, WITH(.state = &now), x, y));
            sum += blocks_of(y, size);
            set(g, N, 1);
            DONE(ops->dropblock->backward(&p, WITH(.state = &now), x, g, 1));
            for (int i = 0; i < N; i++) NEAR(g[i], i < N / ROWS ? 1 + y[i] : 1, exact);
        }
        double share = cases[k][0] ? fmin(1, cases[k][1] / 10.) : 1;
        double none = pow(1 - .5 * share / (size * size), H * W);
        NEAR(sum / (double)(steps * ROWS * C), 1 - none, .04); /* 4 standard deviations */
        op_destroy(&p);
    }
}

/* Where a block would leave the map it begins that much further left or up. */
static void corners(void **state)
{
    (void)state;
    const struct dropblock_now now = { .key = 5, .chance = 1, .size = 3, .h = H, .w = W };
    int seen[H * W] = { 0 };
    for (uint64_t plane = 0; plane < 1000; plane++) {
        int at = (int)rng_below(5, 2 * plane + 1, H * W), y = at / W, x = at % W;
        static const int top[] = { 0, 1, 2, 1, 2 }, left[] = { 0, 1, 1, 1 };
        int corner = dropblock_corner(&now, plane);
        assert_int_equal(corner, top[y] * W + left[x]);
        seen[corner]++;
    }
    assert_true(seen[0] && seen[1] && seen[W] && seen[W + 1] && seen[2 * W]);
    const struct dropblock_now whole = { .key = 5, .chance = 1, .size = 2, .h = 2, .w = 2 };
    assert_int_equal(dropblock_corner(&whole, 3), 0);
    NEAR(dropblock_scale(&whole, 1, 1), 0, 0); /* nothing is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(blocks), cmocka_unit_test(corners) };
    return RUN_REF(tests);
}
