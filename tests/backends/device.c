#include "rig/rig.h"
#include "backend/ops/conv.h"
#include "backend/ops/dense.h"
#include "backend/ops/match.h"

static void rows(void **state)
{
    struct rig r;
    struct op_plan maker = { 0 };
    rig_open(&r, *state, 2);
    struct shape s = { 5, 17, 3, 5 };
    size_t row = shape_row(s);
    struct tensor t = rig_blocked(&r, s, &maker);
    rig_fill(&r, &t, 1);
    real *whole = rig_noise(&r, shape_count(s), 1), *part = rig_noise(&r, 2 * row, 2),
         *back = rig_host(&r, shape_count(s), sizeof *back);
    assert_int_equal(r.be->ops->write(r.be, &t, 3, 2, part, 1), OK);
    assert_int_equal(r.be->ops->write(r.be, &t, 1, 1, part, 0), OK);
    assert_int_equal(r.be->ops->read(r.be, &t, 0, 5, back), OK);
    assert_memory_equal(back, whole, row * sizeof *back);
    assert_memory_equal(back + row, part, row * sizeof *back);
    for (size_t i = 0; i < 2 * row; i++) assert_true(back[3 * row + i] == whole[3 * row + i] + part[i]);
    assert_int_equal(r.be->ops->read(r.be, &t, 4, 1, part), OK);
    assert_memory_equal(part, back + 4 * row, row * sizeof *back);
    op_destroy(&maker);
    rig_close(&r);
}

static void no_such_device(void **state)
{
    struct rig r;
    struct backend *none;
    struct err e;
    char next[20];
    rig_open(&r, *state, 1);
    snprintf(next, sizeof next, "%s:99", r.be->ops->name);
    assert_int_equal(backend_open(&none, next, 1, &e), E_DEVICE);
    assert_null(none);
    rig_close(&r);
}

/* What kernels cannot count with the numbers they have. */
static void limits_of_a_gpu(void **state)
{
    struct rig r;
    struct err e;
    struct op_plan p = { 0 };
    rig_open(&r, *state, 1);
    if (r.be->ops->gpu) {
        struct tensor x = rig_dense(&r, (struct shape){ 4, 4, 1, 1 }), large = x, y = x;
        const struct match_desc match = {
            .in = &x, .m1 = 2, .m2 = 2, .classes = 65536, .options.conditional = 1
        };
        assert_int_equal(r.be->ops->match->plan(r.be, &match, &p, &e), E_ARG);
        op_destroy(&p);
        large.shape = (struct shape){ 1, 1, 32768, 32768 }; /* with 4 outputs: 2^32 weights */
        const struct linear_desc dense = { .in = &large, .groups = 1 };
        assert_int_equal(r.be->ops->dense->linear.plan(r.be, &dense, &y, &p, &e), E_ARG);
        op_destroy(&p);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rows), cmocka_unit_test(no_such_device),
                                        cmocka_unit_test(limits_of_a_gpu) };
    return RIG_RUN(tests);
}
