#include "ref/ref.h"
#include "backend/ops/dropout.h"

static void dropout(void **state)
{
    (void)state;
    enum { N = 400 };
    struct tensor in = tensor(2, 2, 10, 10), out = in;
    struct op_plan p;
    struct err e;
    real x[N], y[N], g[N];
    noise(x, N, 1);
    for (int third = 0; third <= 3; third++) {
        double probability = third / 3.0;
        struct dropout_desc d = { &in, 1, probability, 77, { 0, 0, 0 } };
        const struct step_state now = { .step = 5 };
        uint64_t key = rng_key(77, RNG_DROPOUT, 5);
        DONE(ops->dropout->plan(be, &d, &out, &p, &e));
        DONE(ops->dropout->forward(&p, WITH(.state = &now), x, y));
        set(g, N, 1);
        DONE(ops->dropout->backward(&p, WITH(.state = &now), x, g, 1));
        int dropped = 0;
        for (int i = 0; i < N; i++) {
            int keep = rng_uniform(key, (uint64_t)i) >= probability;
            dropped += !keep;
            NEAR(y[i], keep ? x[i] / (1 - probability) : 0, exact);
            NEAR(g[i], i < N / 2 ? 1 + y[i] : 1, exact);
        }
        NEAR(dropped / (double)N, probability, .08); /* 3.5 standard deviations */
        op_destroy(&p);
    }
    assert_true(dropout_keep(77, 5, rng_uniform(77, 5))); /* >= */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(dropout) };
    return RUN_REF(tests);
}
