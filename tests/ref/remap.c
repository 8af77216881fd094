#include "ref/ref.h"
#include "backend/ops/remap.h"

/* On 1, 2, 3, ...; the gradient of the sum r . y is the transposed map of r. */
static void check(struct remap_desc d, struct tensor in, struct tensor out, real *y)
{
    struct op_plan p;
    struct err e;
    real x[MOST], r[MOST], gx[MOST], z[MOST];
    size_t nx = shape_row(in.shape) * (size_t)d.rows_back, ny = shape_row(out.shape) * (size_t)d.rows_back;
    d.in = &in;
    DONE(ops->remap->plan(be, &d, &out, &p, &e));
    for (int add = 0; add < 2; add++) {
        noise(x, MOST, 1);
        noise(r, MOST, 2);
        set(gx, MOST, 5);
        DONE(ops->remap->forward(&p, &context, x, z));
        DONE(ops->remap->backward(&p, &context, r, gx, add));
        untouched(gx + nx, MOST - nx, 5);
        for (size_t i = 0; add && i < nx; i++) gx[i] -= 5;
        NEAR(inner(gx, x, nx), inner(r, z, ny), 10 * exact);
    }
    for (int i = 0; i < MOST; i++) x[i] = (real)(i + 1);
    DONE(ops->remap->forward(&p, &context, x, y));
    DONE(ops->remap->backward(&p, &context, r, NULL, 0));
    op_destroy(&p);
}

static struct remap_desc map(int w, int h, int c, int large_c, int stride, int gather, double scale)
{
    return (struct remap_desc){ NULL, w, h, c, large_c, stride, gather, scale, 1 };
}

static void upsampling(void **state)
{
    (void)state;
    real y[MOST];
    check(map(3, 1, 2, 2, 2, 0, .5), tensor(2, 2, 1, 3), tensor(2, 2, 2, 6), y);
    SAME(y, .5, .5, 1, 1, 1.5, 1.5, .5, .5, 1, 1, 1.5, 1.5, 2, 2, 2.5, 2.5, 3, 3, 2, 2, 2.5, 2.5, 3, 3, 3.5);
    check(map(2, 1, 1, 1, 2, 1, .25), tensor(2, 1, 2, 4), tensor(2, 1, 1, 2), y);
    SAME(y, 3.5, 5.5, 11.5, 13.5);
}

/* Pixel after pixel of a block, and channel after channel within one: space to depth. */
static void blocks_to_channels(void **state)
{
    (void)state;
    real y[MOST];
    check(map(2, 1, 8, 2, 2, 1, 1), tensor(1, 2, 2, 4), tensor(1, 8, 1, 2), y);
    SAME(y, 1, 3, 9, 11, 2, 4, 10, 12, 5, 7, 13, 15, 6, 8, 14, 16);
    check(map(2, 1, 8, 2, 2, 0, 1), tensor(1, 8, 1, 2), tensor(1, 2, 2, 4), y);
    SAME(y, 1, 5, 2, 6, 9, 13, 10, 14, 3, 7, 4, 8, 11, 15, 12, 16);
}

/* [reorg]: an input of 4 channels of 2 x 2 pixels is read as one channel of 4 x 4. */
static void other_proportions(void **state)
{
    (void)state;
    real y[MOST];
    check(map(2, 2, 4, 1, 2, 1, 1), tensor(1, 4, 2, 2), tensor(1, 16, 1, 1), y);
    SAME(y, 1, 3, 9, 11, 2, 4, 10, 12, 5, 7, 13, 15, 6, 8, 14, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(upsampling), cmocka_unit_test(blocks_to_channels),
                                        cmocka_unit_test(other_proportions) };
    return RUN_REF(tests);
}
