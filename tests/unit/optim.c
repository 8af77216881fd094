/* Learning rates and the optimiser against numbers worked out by hand and a scalar loop. */
#include "tiny.h"
#include "train/checkpoint.h"

static struct tiny t;

/* The [net] section as net_open reads it. */
static void configure(const char *keys)
{
    char cfg[500];
    struct err e = { 0 };
    snprintf(cfg, sizeof cfg, "[net]\ninputs=1\nlearning_rate=.1\n%s\n[connected]\noutput=2\n[softmax]\n",
             keys);
    ok(tiny_net(&t, cfg, NULL, &e), &e);
}

struct at {
    unsigned n;
    double rate;
};

static void rates(const char *keys, const struct at *expected, int count)
{
    configure(keys);
    for (int i = 0; i < count; i++) {
        double got = net_rate(&t.net->config, 1, expected[i].n);
        if (!(fabs(got - expected[i].rate) <= 1e-12 * fabs(expected[i].rate) + 1e-17))
            print_error("%s, iteration %u: %.15g, expected %.15g\n", keys, expected[i].n, got,
                        expected[i].rate);
        assert_true(fabs(got - expected[i].rate) <= 1e-12 * fabs(expected[i].rate) + 1e-17);
    }
    tiny_close(&t);
}
#define RATES(keys, ...)                                                                                     \
    rates(keys, (const struct at[]){ __VA_ARGS__ }, sizeof((struct at[]){ __VA_ARGS__ }) / sizeof(struct at))

static void policies(void **state)
{
    (void)state;
    RATES("", { 1, .1 }, { 1000000, .1 });
    RATES("policy=step\nstep=10\nscale=.5", { 9, .1 }, { 10, .05 }, { 19, .05 }, { 25, .025 });
    RATES("policy=steps\nsteps=10,15,20\nscales=.1,.5,3,7", { 9, .1 }, { 10, .01 }, { 14, .01 }, { 15, .005 },
          { 20, .015 });
    RATES("policy=exp\ngamma=.9", { 1, .09 }, { 3, .0729 });
    RATES("policy=poly\nmax_batches=100", { 50, .00625 }, { 100, 0 }, { 150, 0 }); /* power is 4 */
    RATES("policy=poly\nmax_batches=100\npower=2", { 50, .025 }, { 90, .001 });
    RATES("policy=poly", { 50, .1 }); /* endless training has no end to go to */
    RATES("policy=sigmoid\ngamma=.5\nstep=4", { 4, .05 }, { 6, .026894142136999513 },
          { 2, .07310585786300049 });
    RATES("policy=sgdr\nsgdr_cycle=10\nlearning_rate_min=.01", { 5, .055 }, { 10, .01 }, { 20, .055 },
          { 30, .01 }, { 50, .055 }); /* cycles of 10, 20, 40 */
    RATES("policy=sgdr\nsgdr_cycle=10\nsgdr_mult=1\nlearning_rate_min=0", { 5, .05 }, { 15, .05 },
          { 25, .05 });
    RATES("policy=sgdr\nmax_batches=40\nlearning_rate_min=.02", { 20, .06 }, { 40, .02 });
}

/* rate * (n / burn_in)^power before any policy; from burn_in on the policy, as if nothing had been. */
static void burn_in(void **state)
{
    (void)state;
    RATES("burn_in=10", { 1, 1e-5 }, { 5, .00625 }, { 9, .06561 }, { 10, .1 });
    RATES("burn_in=10\npower=1", { 1, .01 }, { 5, .05 }, { 10, .1 });
    RATES("burn_in=10\npolicy=step\nstep=2\nscale=.5\npower=2", { 4, .016 }, { 10, .1 / 32 });
    RATES("burn_in=4\npolicy=poly\nmax_batches=8\npower=1", { 2, .05 }, { 4, .05 }, { 6, .025 });
}

static void random_policy(void **state)
{
    double sum = 0;
    (void)state;
    configure("policy=random\npower=2");
    const struct net_config *c = &t.net->config;
    for (unsigned n = 1; n <= 20000; n++) {
        double rate = net_rate(c, 1, n);
        assert_true(rate >= 0 && rate < .1);
        assert_true(rate == net_rate(c, 1, n)); /* a query draws nothing */
        sum += rate;
    }
    assert_true(fabs(sum / 20000 - .1 / 3) <
                5 * .1 * sqrt(4.0 / 45 / 20000)); /* E U^2 = 1/3, variance 4/45 */
    assert_true(net_rate(c, 1, 1) != net_rate(c, 2, 1) && net_rate(c, 1, 1) != net_rate(c, 1, 2));
    tiny_close(&t);
}

/* ---- the step ---- */

enum { STEPS = 6 };

/* Parameters in order: bias and weights of three layers of 2 outputs on 2 inputs each. */
static const char *optimiser = "";
static const char three[] = "[net]\ninputs=2\nbatch=6\nsubdivisions=3\nmomentum=.9\ndecay=.01\n%s\n"
                            "[connected]\noutput=2\nactivation=linear\n%s\n"
                            "[connected]\noutput=2\nactivation=linear\nlearning_rate=3\n"
                            "[connected]\noutput=2\nactivation=linear\n%s\n[softmax]\n";

static void open_three(const char *first, const char *third)
{
    char cfg[600];
    struct err e = { 0 };
    snprintf(cfg, sizeof cfg, three, optimiser, first, third);
    ok(tiny_open(&t, cfg, &e), &e);
    assert_int_equal(t.net->nparam, 6);
}

static double gradient(int step, int i, size_t k) { return .1 * (step + 1) - .07 * i + .03 * (double)k; }

static void set_gradients(int step)
{
    for (int i = 0; i < t.net->nparam; i++) {
        real g[4];
        for (size_t k = 0; k < 4; k++) g[k] = (real)gradient(step, i, k);
        assert_int_equal(param_pack(t.net->param[i], t.net->param[i]->g, g), OK);
    }
}

/* Frozen layers: 0..frozen-1. */
static void against_a_scalar_loop(int frozen)
{
    struct err e = { 0 };
    double w[6][4] = { { 0 } }, v[6][4] = { { 0 } };
    for (int i = 0; i < 6; i++)
        for (size_t k = 0; k < t.net->param[i]->count; k++) w[i][k] = tiny_w(&t, i, k);
    for (int step = 0; step < STEPS; step++) {
        double rate = .02 * (step + 1);
        set_gradients(step);
        ok(optim_update(t.net, 1, rate, &e), &e);
        for (int i = 2 * frozen; i < 6; i++)
            for (size_t k = 0; k < t.net->param[i]->count; k++) {
                double decay = i % 2 ? .01 : 0; /* weights, not biases */
                double mine = rate * (i / 2 == 1 ? 3 : 1);
                v[i][k] = .9 * v[i][k] + gradient(step, i, k) / 3 + decay * w[i][k];
                w[i][k] -= mine * v[i][k];
            }
        for (int i = 0; i < 6; i++)
            for (size_t k = 0; k < t.net->param[i]->count; k++) near(tiny_w(&t, i, k), w[i][k], 2e-6);
    }
}

/* Adam as PyTorch has it, with weight decay in the gradient, of weights only; Darknet's eps is of sums over
 * the batch. The moments are as old as they are, whatever is loaded in between. */
static void adam(void **state)
{
    struct err e = { 0 };
    double w[6][4] = { { 0 } }, m[6][4] = { { 0 } }, s[6][4] = { { 0 } };
    (void)state;
    optimiser = "adam=1\nB1=.8\nB2=.95\neps=.6";
    open_three("", "");
    optimiser = "";
    for (int i = 0; i < 6; i++)
        for (size_t k = 0; k < t.net->param[i]->count; k++) w[i][k] = tiny_w(&t, i, k);
    for (int step = 0; step < STEPS; step++) {
        set_gradients(step);
        if (step == 3) net_set_seen(t.net, 6000);
        ok(optim_update(t.net, (uint64_t)step + (step < 3 ? 1 : 1000 - 2), .01, &e), &e);
        for (int i = 0; i < 6; i++)
            for (size_t k = 0; k < t.net->param[i]->count; k++) {
                double d = gradient(step, i, k) / 3 + (i % 2 ? .01 : 0) * w[i][k];
                m[i][k] = .8 * m[i][k] + .2 * d;
                s[i][k] = .95 * s[i][k] + .05 * d * d;
                double mean = m[i][k] / (1 - pow(.8, step + 1)), square = s[i][k] / (1 - pow(.95, step + 1));
                w[i][k] -= .01 * (i / 2 == 1 ? 3 : 1) * mean / (sqrt(square) + .1);
                near(tiny_w(&t, i, k), w[i][k], 2e-6);
                near(tiny_number(&t, t.net->param[i]->s, i, k), s[i][k], 2e-6);
            }
        if (step < 3) t.net->seen += 6;
    }
    tiny_close(&t);
}

/* A state brings back the second moment and its age, and is refused by a run without Adam. */
static void adam_state(void **state)
{
    static const float x[4] = { .1f, -.5f, 1, .3f };
    static const int label[2] = { 0, 1 };
    static const char text[] = "[net]\ninputs=2\nbatch=2\nadam=%d\n[connected]\noutput=2\n[softmax]\n";
    double w[2][6];
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct progress p = { 0 };
        struct err e = { 0 };
        char cfg[200];
        snprintf(cfg, sizeof cfg, text, k < 2);
        ok(tiny_open(&t, cfg, &e), &e);
        const char *path = tiny_path("adam.state");
        if (k == 2) {
            refused(state_load(t.net, &p, 2, path, &e), E_FORMAT, &e,
                    "written with adam=1, this run is without");
        } else if (k) {
            ok(state_load(t.net, &p, 2, path, &e), &e);
        }
        for (uint64_t i = k ? 3 : 0; i < 6; i++) {
            struct step s = step_at(t.net, i);
            struct step_stats stats;
            s.x = x, s.label = label, s.rows = s.rows_s1 = 2;
            ok(step_train(t.p, &s, &stats, &e), &e);
            if (!k && i == 2) ok(state_save(t.net, &p, 2, path, &e), &e);
        }
        for (size_t i = 0; i < 6 && k < 2; i++) w[k][i] = tiny_w(&t, i >= 2, i >= 2 ? i - 2 : i);
        tiny_close(&t);
    }
    assert_memory_equal(w[0], w[1], sizeof w[0]);
}

/* The averages of all that is in .weights begin after half of max_batches, come back from a state bit for
 * bit, and are what inference sees and what is saved at the end, not what is trained. */
static void averages(void **state)
{
    static const float x[8] = { .1f, -.5f, 1, .3f, .7f, .2f, -.4f, .6f };
    static const int label[2] = { 0, 1 };
    static const char text[] =
        "[net]\nheight=2\nwidth=2\nchannels=1\nbatch=2\nmax_batches=7\nema_alpha=.75\n"
        "[convolutional]\nfilters=2\nbatch_normalize=1\n[connected]\noutput=2\n[softmax]\n";
    const char *path = tiny_path("average.state"), *weights = tiny_path("average.weights");
    float last[4];
    (void)state;
    for (int again = 0; again < 2; again++) {
        double mean[7][16] = { { 0 } };
        struct err e = { 0 };
        struct progress p = { 0 };
        struct step_stats stats;
        struct program *infer;
        float prob[2][4];
        ok(tiny_open(&t, text, &e), &e);
        assert_int_equal(t.net->nparam, 7);
        ok(program_open(&infer, t.net, &(struct program_desc){ .rows = 2 }, &e), &e);
        if (again) ok(state_load(t.net, &p, 2, path, &e), &e);
        for (uint64_t i = again ? 5 : 0; i < 7; i++) {
            struct step s = step_at(t.net, i);
            s.x = x, s.label = label, s.rows = s.rows_s1 = 2;
            ok(step_train(t.p, &s, &stats, &e), &e);
            if (i == 4) ok(state_save(t.net, &p, 2, path, &e), &e);
            for (int k = 0; k < 7 && !again; k++)
                for (size_t j = 0; j < t.net->param[k]->count; j++) {
                    const double w = tiny_w(&t, k, j);
                    mean[k][j] = i == 3 ? w : .75 * mean[k][j] + .25 * w;
                    if (i >= 3) near(tiny_number(&t, t.net->param[k]->average, k, j), mean[k][j], 2e-6);
                    if (i < 3) assert_true(tiny_number(&t, t.net->param[k]->average, k, j) == 0);
                }
            struct step show = { .x = x, .rows = 2, .rows_s1 = 2 };
            ok(program_refresh(infer, &e), &e);
            ok(program_infer(infer, &show, prob[0], NULL, &e), &e);
        }
        if (!again) memcpy(last, prob[0], sizeof last);
        assert_memory_equal(last, prob[0], sizeof last);
        /* The file holds what inference saw. */
        int layers;
        ok(weights_save_averages(t.net, weights, &e), &e);
        ok(weights_load(t.net, weights, WEIGHTS_WHOLE, &layers, &e), &e);
        assert_int_equal(t.net->average_from, 0);
        ok(program_refresh(infer, &e), &e);
        ok(program_infer(infer, &(struct step){ .x = x, .rows = 2, .rows_s1 = 2 }, prob[1], NULL, &e), &e);
        assert_memory_equal(prob[0], prob[1], sizeof last);
        program_close(infer);
        tiny_close(&t);
    }
}

static void momentum_decay_multiplier_average(void **state)
{
    (void)state;
    open_three("", "");
    against_a_scalar_loop(0);
    tiny_close(&t);
}

static void frozen_layers_stay(void **state)
{
    (void)state;
    open_three("stopbackward=1", "");
    against_a_scalar_loop(1);
    tiny_close(&t);
    open_three("", "stopbackward=1"); /* that layer and all before it */
    against_a_scalar_loop(3);
    tiny_close(&t);
}

static void bad_gradients_move_nothing(void **state)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct err e = { 0 };
        double before[6];
        open_three("", "");
        set_gradients(0);
        real g[4] = { 1, (real)bad[k], 1, 1 };
        assert_int_equal(param_pack(t.net->param[3], t.net->param[3]->g, g), OK);
        for (int i = 0; i < 6; i++) before[i] = tiny_w(&t, i, 0);
        refused(optim_update(t.net, 1, .1, &e), E_NUMBER, &e,
                "[connected] (layer 1): a gradient is not finite");
        for (int i = 0; i < 6; i++) assert_true(tiny_w(&t, i, 0) == before[i]);
        g[1] = 1;
        assert_int_equal(param_pack(t.net->param[3], t.net->param[3]->g, g), OK);
        ok(optim_update(t.net, 1, .1, &e), &e); /* momenta were not spoilt */
        for (int i = 0; i < 6; i++) assert_true(isfinite(tiny_w(&t, i, 0)) && tiny_w(&t, i, 0) != before[i]);
        tiny_close(&t);
    }
}

/* One batch of four, or two of two, or four of one: the same step. */
static void subdivisions_average(void **state)
{
    static const float x[8] = { .1f, -.5f, 1, .3f, -.8f, .2f, .6f, .9f };
    static const int label[4] = { 0, 1, 1, 0 };
    double w[3][6];
    (void)state;
    for (int k = 0; k < 3; k++) {
        char cfg[300];
        struct err e = { 0 };
        int parts = 1 << k, rows = 4 >> k;
        snprintf(cfg, sizeof cfg,
                 "[net]\ninputs=2\nbatch=4\nsubdivisions=%d\ndecay=.1\n"
                 "[connected]\noutput=2\nactivation=tanh\n[softmax]\n",
                 parts);
        ok(tiny_open(&t, cfg, &e), &e);
        for (int step = 0; step < 3; step++) {
            for (int i = 0; i < parts; i++) tiny_train(&t, x + 2 * i * rows, label + i * rows, i > 0);
            ok(optim_update(t.net, 1, .5, &e), &e);
        }
        for (size_t i = 0; i < 6; i++) w[k][i] = tiny_w(&t, i >= 2, i >= 2 ? i - 2 : i);
        tiny_close(&t);
    }
    for (int i = 0; i < 6; i++) {
        near(w[1][i], w[0][i], 1e-5);
        near(w[2][i], w[0][i], 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies),
        cmocka_unit_test(burn_in),
        cmocka_unit_test(random_policy),
        cmocka_unit_test(momentum_decay_multiplier_average),
        cmocka_unit_test(adam),
        cmocka_unit_test(adam_state),
        cmocka_unit_test(averages),
        cmocka_unit_test(frozen_layers_stay),
        cmocka_unit_test(bad_gradients_move_nothing),
        cmocka_unit_test(subdivisions_average),
    };
    return cmocka_run_group_tests(tests, tiny_set_up, tiny_tear_down);
}
