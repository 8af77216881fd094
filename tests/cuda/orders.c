/* Every operation of the cuda backend with the threads of its blocks in several orders: the same bits. Where
 * they differ, a barrier is missing, or a sum depends on who comes first. Only where kernels run on the host.
 */
#include "rig/rig.h"
#include "shim/order.h"

static void same_bits(const struct rig *a, const struct rig *b, const char *what, int order)
{
    assert_int_equal(a->nout, b->nout);
    for (int i = 0; i < a->nout; i++) {
        assert_int_equal(a->len[i], b->len[i]);
        if (memcmp(a->out[i], b->out[i], a->len[i] * sizeof *a->out[i]))
            fail_msg("%s in %s: %s depends on the order of threads (order %d)", what,
                     precision_names[a->be->precision], a->name[i], order);
    }
}

void check_case(void **state, rig_case *run, const void *arg, const char *what)
{
    for (int p = 0; p < PRECISION_COUNT; p++) {
        struct rig r[KERNEL_ORDERS];
        if (p == PRECISION_TF32) continue; /* its kernels are those of fp32 */
        for (int i = 0; i < KERNEL_ORDERS; i++) {
            kernel_order = i;
            rig_open(&r[i], *state, 2);
            r[i].be->precision = (enum precision)p;
            r[i].coarse = p == PRECISION_BF16;
            run(&r[i], arg);
            same_bits(&r[0], &r[i], what, i);
        }
        for (int i = 0; i < KERNEL_ORDERS; i++) rig_close(&r[i]);
    }
}

int rig_run(const struct CMUnitTest *tests, size_t n)
{
    kernel_order = KERNEL_ORDERS - 1; /* for tests that compare nothing */
    return rig_run_on("cuda", tests, n);
}
