#include "rig/rig.h"
#include "backend/ops/loss_ring.h"

/* What the host reads later: the losses of the last steps, the running mean of the CE, and the stop. */
static void losses_and_stop(void **state)
{
    enum { KEPT = 3 };
    struct rig r;
    struct err e;
    struct op_plan p;
    struct step_state now = { .ce_average = -1 };
    rig_open(&r, *state, 2);
    const struct loss_ring_ops *ops = r.be->ops->loss_ring;
    double *loss = rig_alloc(&r, 2 * sizeof *loss), average = 2;
    const double *const losses[] = { loss, loss + 1 };
    const int is_ce[] = { 1, 0 };
    struct loss_ring_desc d = { losses, is_ce, 2, KEPT, 10, 2, 2 };
    struct step_state *on_device = rig_alloc(&r, sizeof now);
    if (!ops) {
        rig_close(&r);
        return;
    }
    assert_int_equal(ops->plan(r.be, &d, &p, &e), OK);
    for (int step = 0; step < 8; step++) { /* two an iteration; the last loss is not finite */
        double value[] = { 10. + step, step < 7 ? (double)step : (double)NAN };
        now.step = (uint64_t)step;
        r.be->ops->upload(r.be, loss, value, sizeof value);
        r.be->ops->upload(r.be, on_device, &now, step ? offsetof(struct step_state, ce_sum) : sizeof now);
        assert_int_equal(ops->push(&p, on_device, step % 2), OK);
        assert_int_equal(ops->mark(&p, step % 2), OK);
        assert_int_equal(ops->await(&p, (step + 1) % 2), OK); /* of the step before, or none */
        if (step > 0) assert_true(ops->record(&p, now.step - 1)[0] == 9. + step);
        if (step > 1) assert_true(ops->record(&p, now.step - 2)[0] == 8. + step);
        assert_int_equal(ops->await(&p, step % 2), OK);
        const double *record = ops->record(&p, now.step);
        assert_true(record[0] == 10. + step);
        assert_true(step == 7 || record[1] == step);
        assert_true(record[2] == (step < 7 ? 0 : STOP_LOSS));
        if (step % 2) average = .9 * average + .1 * ((9. + step) / 10 + (10. + step) / 10) / 2;
    }
    r.be->ops->download(r.be, &now, on_device, sizeof now);
    assert_true(fabs(now.ce_average - average) < 1e-12);
    assert_true(now.ce_sum == 0 && now.stop == STOP_LOSS);
    op_destroy(&p);
    op_destroy(&p);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(losses_and_stop) };
    return RIG_RUN(tests);
}
