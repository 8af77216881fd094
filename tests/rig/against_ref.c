/* Every backend against ref, in every precision that it has here. */
#include "rig/rig.h"

void check_case(void **state, rig_case *run, const void *arg, const char *what)
{
    for (int p = 0; p < PRECISION_COUNT; p++) {
        struct rig ref, dev;
        rig_open(&dev, *state, 2);
        if (dev.be->precisions & 1u << p) {
            rig_open(&ref, "ref", 2);
            dev.be->precision = (enum precision)p;
            ref.coarse = dev.coarse = p == PRECISION_BF16;
            run(&ref, arg);
            run(&dev, arg);
            rig_compare(&ref, &dev, what);
            rig_close(&ref);
        }
        rig_close(&dev);
    }
}

int rig_run(const struct CMUnitTest *tests, size_t n)
{
    int failed = 0;
    for (int i = 0; backend_at(i); i++)
        if (strcmp(backend_at(i)->name, "ref")) failed += rig_run_on(backend_at(i)->name, tests, n);
    return failed;
}
