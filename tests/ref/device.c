#include "ref/ref.h"
#include "backend/ops/act.h"

static void device(void **state)
{
    (void)state;
    struct err e = { 0, "" };
    struct backend *other;
    assert_int_equal(backend_open(&other, "ref:1", 1, &e), E_DEVICE);
    assert_null(other);
    assert_true(strlen(e.msg) > 0 && strlen(ops->version()) > 0);
    void *p;
    assert_int_equal(ops->alloc(be, SIZE_MAX - 8, &p, &e), E_MEM);
    DONE(ops->alloc(be, 6 * sizeof(real), &p, &e));
    assert_int_equal((uintptr_t)p % 64, 0);
    untouched(p, 6, 0);
    struct tensor t = tensor(3, 2, 1, 1);
    t.data = p;
    real host[6] = { 1, 2, 3, 4 }, back[6] = { 0 };
    DONE(ops->write(be, &t, 1, 2, host, 0));
    DONE(ops->write(be, &t, 2, 1, host, 1));
    DONE(ops->read(be, &t, 0, 3, back));
    SAME(back, 0, 0, 1, 2, 4, 6);
    DONE(ops->read(be, &t, 2, 1, back));
    SAME(back, 4, 6, 1, 2);
    DONE(ops->upload(be, p, host, sizeof host));
    DONE(ops->download(be, back, p, sizeof back));
    SAME(back, 1, 2, 3, 4, 0, 0);
    DONE(ops->sync(be, &e));
    ops->free(be, p);
    ops->free(be, NULL);
}

static void sizes_that_do_not_fit(void **state)
{
    (void)state;
    struct err e;
    const int big = 0x7fffffff;
    struct tensor in = tensor(big, big, big, big), out = in;
    struct act_desc d = { .in = &in, .act = ACT_RELU };
    struct op_plan p;
    assert_int_equal(ops->act->plan(be, &d, &out, &p, &e), E_ARG);
    op_destroy(&p);
    out = tensor(1, 0, 1, 1);
    assert_int_equal(ops->act->plan(be, &d, &out, &p, &e), E_ARG);
    op_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(device), cmocka_unit_test(sizes_that_do_not_fit) };
    return RUN_REF(tests);
}
