/* Every operation of the cuda backend with the threads of its blocks in several orders: the same bits. Where
 * they differ a barrier is missing, or a sum has no order of its own. Only where kernels run on the host. */
#define WITHOUT_MAIN
#include "unit/backends.c"
#include "shim/order.h"

static void same_bits(const struct bench *a, const struct bench *b, const char *what, int order)
{
    assert_int_equal(a->nout, b->nout);
    for (int i = 0; i < a->nout; i++) {
        assert_int_equal(a->len[i], b->len[i]);
        if (memcmp(a->out[i], b->out[i], a->len[i] * sizeof *a->out[i]))
            fail_msg("%s in %s: %s depends on the order of threads (order %d)", what,
                     precision_names[a->be->precision], a->name[i], order);
    }
}

static void each_order(void **state, void (*fn)(struct bench *, const void *), const void *arg,
                       const char *what)
{
    for (int p = 0; p < PRECISION_COUNT; p++) {
        struct bench b[KERNEL_ORDERS];
        if (p == PRECISION_TF32) continue; /* its kernels are those of fp32 */
        for (int i = 0; i < KERNEL_ORDERS; i++) {
            kernel_order = i;
            bench_open(&b[i], *state, 2);
            b[i].be->precision = (enum precision)p;
            b[i].coarse = p == PRECISION_BF16;
            fn(&b[i], arg);
            same_bits(&b[0], &b[i], what, i);
        }
        for (int i = 0; i < KERNEL_ORDERS; i++) bench_close(&b[i]);
    }
}

int main(void)
{
    both = each_order;
    kernel_order = KERNEL_ORDERS - 1; /* for what checks itself */
    return suite("cuda");
}
