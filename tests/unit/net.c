/* Nets and programs: who learns, who shares memory and parameters, what is refused and when. */
#include "tiny.h"

#define NET(batch) "[net]\nbatch=" #batch "\nchannels=1\nheight=3\nwidth=3\n"
#define CONV(n)    "[convolutional]\nfilters=" #n "\nsize=3\npad=1\nactivation=leaky\n"
#define HEAD       "[connected]\noutput=3\nactivation=linear\n[softmax]\n"

static struct tiny t;
static float images[8 * 9];
static const int label[8] = { 0, 1, 2, 0, 2, 1, 1, 0 };

static int set_up(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 8 * 9; i++) images[i] = (float)rng_normal(3, i);
    return 0;
}

/* Numbers that depend on the parameter's place among those of its kind only, whatever other layers there are.
 */
static void set_params(struct net *n)
{
    for (int i = 0; i < n->nparam; i++) {
        struct param *p = n->param[i];
        real *host = mem_alloc(p->count, sizeof *host);
        assert_non_null(host);
        for (size_t k = 0; k < p->count; k++) host[k] = (real)(.5 * sin((double)p->count + 3.7 * (double)k));
        assert_int_equal(param_set(p, host), OK);
        mem_free(host);
    }
}

static void open_set(struct tiny *x, const char *cfg)
{
    struct err e = { 0 };
    int rc = tiny_open(x, cfg, &e);
    if (rc) print_error("%s\n", cfg);
    ok(rc, &e);
    set_params(x->net);
}

/* Gradients of parameter i of a and j of b. */
static void same_gradient(const struct tiny *a, int i, const struct tiny *b, int j, double tolerance)
{
    size_t n = a->net->param[i]->count;
    assert_int_equal(n, b->net->param[j]->count);
    double size = 0;
    for (size_t k = 0; k < n; k++) size = fmax(size, fabs(tiny_g(b, j, k)));
    assert_true(size > 0);
    for (size_t k = 0; k < n; k++) assert_true(fabs(tiny_g(a, i, k) - tiny_g(b, j, k)) <= tolerance * size);
}

/* ---- who learns ---- */

/* There is nothing to update, but a plan of the update, and what a step tells it: once, for all programs. */
static void a_net_without_parameters(void **state)
{
    const struct program_desc train = { .rows = 4, .train = 1 }, refused = { .rows = 4, .features = 9 };
    struct err e = { 0 };
    struct step_stats stats;
    struct program *second, *none;
    (void)state;
    ok(tiny_open(&t, NET(4) "[maxpool]\n[softmax]\n", &e), &e);
    struct step s = {
        .x = images, .label = (const int[]){ 0, 0, 0, 0 }, .rows = 4, .rows_s1 = 4, .iteration = 1
    };
    assert_int_equal(program_open(&none, t.net, &refused, &e), E_ARG);
    ok(program_open(&second, t.net, &train, &e), &e);
    ok(step_train(t.p, &s, &stats, &e), &e);
    ok(optim_update(t.net, 1, .1, &e), &e);
    program_close(second);
    tiny_close(&t);
}

static void stopbackward(void **state)
{
    struct err e = { 0 };
    struct tiny all;
    (void)state;
    open_set(&all, NET(4) CONV(2) CONV(3) HEAD);
    open_set(&t, NET(4) CONV(2) CONV(3) "stopbackward=1\n" HEAD);
    double ce[2] = { tiny_train(&all, images, label, 0).ce, tiny_train(&t, images, label, 0).ce };
    assert_true(ce[0] == ce[1]);
    for (int i = 4; i < 6; i++) same_gradient(&t, i, &all, i, 0);
    for (int i = 0; i < 4; i++) assert_true(tiny_g(&t, i, 0) == 0 && tiny_g(&all, i, 0) != 0);
    assert_null(program_layer(t.p, 0)->out->g.data); /* no memory for gradients that nobody wants */
    assert_null(program_layer(t.p, 1)->out->g.data);
    assert_non_null(program_layer(t.p, 2)->out->g.data);
    double before[6];
    for (int i = 0; i < 6; i++) before[i] = tiny_w(&t, i, 1);
    ok(optim_update(t.net, 1, .1, &e), &e);
    for (int i = 0; i < 6; i++) assert_int_equal(tiny_w(&t, i, 1) == before[i], i < 4);
    tiny_close(&all);
    tiny_close(&t);
}

/* Layer 1 and 2 lead nowhere: the loss and the others' gradients are those of the net without them. */
static void dead_branches(void **state)
{
    struct tiny without;
    (void)state;
    open_set(&without, NET(4) CONV(2) HEAD);
    open_set(&t, NET(4) CONV(2) CONV(4) "[maxpool]\nsize=2\nstride=2\n[route]\nlayers=0\n" HEAD);
    assert_true(tiny_train(&t, images, label, 0).ce == tiny_train(&without, images, label, 0).ce);
    for (int i = 0; i < 2; i++) same_gradient(&t, i, &without, i, 0);
    for (int i = 4; i < 6; i++) same_gradient(&t, i, &without, i - 2, 0);
    for (int i = 2; i < 4; i++)
        for (size_t k = 0; k < t.net->param[i]->count; k++) assert_true(tiny_g(&t, i, k) == 0);
    tiny_close(&without);

    /* The same in an arena that is re-used and poisoned. */
    struct err e = { 0 };
    struct program *tight;
    struct step_stats s;
    struct step step = { .x = images, .label = label, .rows = 4, .rows_s1 = 4, .iteration = 1 };
    struct program_desc d = { .rows = 4, .train = 1, .guard = 1 };
    double g = tiny_g(&t, 0, 0), ce = tiny_train(&t, images, label, 0).ce;
    ok(program_open(&tight, t.net, &d, &e), &e);
    ok(step_train(tight, &step, &s, &e), &e);
    assert_true(s.ce == ce && tiny_g(&t, 0, 0) == g);
    program_close(tight);
    tiny_close(&t);
}

/* A [route] of one layer is another name for it; gradients of all its readers add up in one place. */
static void route_of_one_is_an_alias(void **state)
{
    struct tiny plain;
    (void)state;
    open_set(&plain, NET(4) CONV(2) CONV(2) "[shortcut]\nfrom=-2\n" HEAD);
    open_set(&t,
             NET(4) CONV(2) "[route]\nlayers=-1\n" CONV(2) "[route]\nlayers=0\n[shortcut]\nfrom=2\n" HEAD);
    assert_ptr_equal(program_layer(t.p, 1)->out, program_layer(t.p, 0)->out);
    assert_ptr_equal(program_layer(t.p, 3)->out, program_layer(t.p, 0)->out);
    near(tiny_train(&t, images, label, 0).ce, tiny_train(&plain, images, label, 0).ce, 1e-6);
    for (int i = 0; i < 6; i++) same_gradient(&t, i, &plain, i, 1e-5);
    tiny_close(&plain);
    tiny_close(&t);
}

/* The same layer twice: twice the gradient of once, when both copies have the same weights behind them. */
static void route_of_one_layer_twice(void **state)
{
    (void)state;
    open_set(
        &t,
        NET(2) CONV(2) "[route]\nlayers=-1,-1\n[convolutional]\nfilters=1\nsize=1\nactivation=linear\n" HEAD);
    assert_int_equal(program_layer(t.p, 1)->out->x.shape.c, 4);
    const real w[4] = { .3f, -.2f, .3f, -.2f }, once_w[2] = { .6f, -.4f };
    tiny_set(&t, 3, w);
    double ce = tiny_train(&t, images, label, 0).ce;
    struct tiny once;
    open_set(&once, NET(2) CONV(2) "[convolutional]\nfilters=1\nsize=1\nactivation=linear\n" HEAD);
    tiny_set(&once, 3, once_w);
    near(tiny_train(&once, images, label, 0).ce, ce, 1e-6);
    for (int i = 0; i < 2; i++) same_gradient(&t, i, &once, i, 1e-5);
    tiny_close(&once);
    tiny_close(&t);
}

/* What is the identity still counts as a layer: the output before it and after it are one, and may be added.
 */
static void a_layer_added_to_itself(void **state)
{
    static const char *const between[] = { "[dropout]\nprobability=0\n", "[route]\nlayers=-1\n",
                                           "[activation]\nactivation=linear\n", "[itra]\nlambda=0\n",
                                           "[itra]\nlambda=.5\npair=split\nwarmup=auto\n" };
    (void)state;
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        char cfg[600];
        struct tiny tight;
        struct err e = { 0 };
        const struct program_desc d = { .rows = 4, .train = 1, .guard = 1 }, infer = { .rows = 4 };
        struct program *p;
        float prob[12];
        snprintf(cfg, sizeof cfg, "%s%s[shortcut]\nfrom=-2\nactivation=relu\n%s", NET(4) CONV(2), between[i],
                 HEAD);
        open_set(&t, cfg);
        const struct layer *sum = program_layer(t.p, 2);
        assert_ptr_equal(sum->in[0], sum->in[1]);
        double ce = tiny_train(&t, images, label, 0).ce;
        assert_true(tiny_g(&t, 0, 0) != 0);

        /* The same where sums may be folded and memory is reused and poisoned; and in inference. */
        ok(tiny_net(&tight, cfg, NULL, &e), &e);
        ok(program_open(&tight.p, tight.net, &d, &e), &e);
        set_params(tight.net);
        near(tiny_train(&tight, images, label, 0).ce, ce, 1e-6);
        for (int k = 0; k < 4; k++) same_gradient(&tight, k, &t, k, 1e-5);
        ok(program_open(&p, tight.net, &infer, &e), &e);
        struct step s = { .x = images, .label = label, .rows = 4, .rows_s1 = 4 };
        double sum_ce;
        ok(program_infer(p, &s, prob, &sum_ce, &e), &e);
        near(sum_ce / 4, ce, 1e-5);
        program_close(p);
        tiny_close(&tight);
        tiny_close(&t);
    }
}

/* ---- what is refused ---- */

static void bad(const char *cfg, const char *words)
{
    struct err e = { 0 };
    struct tiny x;
    int rc = tiny_net(&x, cfg, NULL, &e);
    if (rc != E_CFG) print_error("%s\n", cfg);
    refused(rc, E_CFG, &e, words);
    assert_null(x.net);
    tiny_close(&x);
}

static void refusals(void **state)
{
    (void)state;
    bad(NET(1), "tiny.cfg: no layers after [net]");
    bad("[net]\n" HEAD, "tiny.cfg:1: [net] needs height=, width= and channels= (or inputs=)");
    bad(NET(1) "[convolutionl]\n" HEAD,
        "tiny.cfg:6: unknown section [convolutionl]; did you mean [convolutional]?");
    bad(NET(1) "subdivisions=2\n" HEAD, "subdivisions=2 is more than batch=1");
    bad(NET(1) "policy=steps\n" HEAD, "policy=steps needs steps=");
    bad(NET(1) "policy=steps\nsteps=1,2\nscales=1\n" HEAD, "(2, 1 given)");
    bad("[net]\ninputs=5\nheight=2\nwidth=2\nchannels=1\n" HEAD, "inputs=5 is not height*width*channels");
    bad("[net]\ninputs=5\n" CONV(2) HEAD, "[convolutional] needs an image");
    bad(NET(1) "[convolutional]\nfilters=2\nsize=4\n" HEAD,
        "tiny.cfg:6: [convolutional] size=4 is larger than the padded map 3x3");
    bad(NET(1) "[convolutional]\nfilters=3\ngroups=2\n" HEAD,
        "groups=2 must divide the 1 input channels and filters=3");
    bad(NET(1) "[route]\nlayers=-1\n" HEAD, "layers=-1 means layer -1: expected one before this layer (0)");
    bad(NET(1) CONV(2) "[route]\nlayers=1\n" HEAD, "layers=1 means layer 1");
    bad(NET(1) CONV(2) "[route]\n" HEAD, "needs layers=");
    bad(NET(1) CONV(2) "[maxpool]\n[convolutional]\nstride=2\n[route]\nlayers=0,2\n" HEAD,
        "inputs differ in size: 3x3 and 2x2");
    bad(NET(1) CONV(2) "[shortcut]\nfrom=-2\n" HEAD, "from=-2 means layer -1");
    bad(NET(1) "[shortcut]\nfrom=-1\n" HEAD, "from=-1 means layer -1");
    bad(NET(1) CONV(1) "[shortcut]\nfrom=-1\n" HEAD, "adds the previous layer to itself");
    bad(NET(1) CONV(2) "[softmax]\ngroups=4\n", "groups=4 must divide the 18 inputs");
    bad(NET(1) CONV(2) "[itra]\nlamda=1\n" HEAD, "[itra] has no key 'lamda'; did you mean lambda?");
}

static void unknown_keys_are_noted(void **state)
{
    struct err e = { 0 };
    (void)state;
    ok(tiny_net(&t, NET(1) "adma=1\nnotruth=1\n[convolutional]\nfilter=2\n" HEAD, NULL, &e), &e);
    assert_string_equal(t.notes,
                        "tiny.cfg: no effect here: [net] notruth\n"
                        "tiny.cfg:6: unused key 'adma' in [net]; did you mean adam?\n"
                        "tiny.cfg:9: unused key 'filter' in [convolutional]; did you mean filters?\n");
    tiny_close(&t);
}

static void overrides(void **state)
{
    struct err e = { 0 };
    (void)state;
    ok(tiny_net(&t, NET(1) CONV(2) CONV(5) HEAD, "convolutional.filters=7", &e), &e);
    for (int i = 0; i < 2; i++) assert_int_equal(t.net->layer[i].out.c, 7);
    tiny_close(&t);
    ok(tiny_net(&t, NET(1) HEAD, "net.batch=12", &e), &e);
    assert_int_equal(t.net->mini, 12);
    tiny_close(&t);
    refused(tiny_net(&t, NET(1) HEAD, "connected.output=0", &e), E_CFG, &e,
            "-set: [connected] output=0: expected");
    tiny_close(&t);
    refused(tiny_net(&t, NET(1) HEAD, "connected.outputs=3", &e), E_CFG, &e,
            "-set: [connected] has no key 'outputs'; did you mean output?");
    tiny_close(&t);
    refused(tiny_net(&t, NET(1) HEAD, "itra.lambda=3", &e), E_ARG, &e, "no section [itra]");
    tiny_close(&t);
}

/* ---- memory ---- */

/* A device that says how little it has, and counts who asks nevertheless. */
static struct backend_ops poor;
static size_t poor_free_bytes;
static int poor_asked;
static const struct backend_ops *rich;

static size_t room(struct backend *be)
{
    (void)be;
    return poor_free_bytes;
}

static int alloc(struct backend *be, size_t bytes, void **out, struct err *e)
{
    poor_asked++;
    return rich->alloc(be, bytes, out, e);
}

static void impoverish(struct tiny *x, size_t bytes)
{
    poor = *(rich = x->be->ops);
    poor.free_bytes = room;
    poor.alloc = alloc;
    poor_free_bytes = bytes;
    poor_asked = 0;
    x->be->ops = &poor;
}

static void too_large_is_refused_before_memory_is_asked_for(void **state)
{
    struct err e = { 0 };
    struct program_desc d = { .rows = 4, .train = 1 };
    struct program_info info;
    (void)state;
    open_set(&t, NET(4) CONV(2) HEAD);
    program_get_info(t.p, &info);
    tiny_close(&t);
    d.keep = 1;
    for (int enough = 0; enough < 2; enough++) {
        size_t total = info.arena + info.scratch + info.fixed + info.params;
        ok(tiny_net(&t, NET(4) CONV(2) HEAD, NULL, &e), &e);
        impoverish(&t, total - !enough);
        if (enough)
            ok(program_open(&t.p, t.net, &d, &e), &e);
        else
            refused(program_open(&t.p, t.net, &d, &e), E_MEM, &e,
                    "tiny.cfg: a mini-batch of 4 needs 0 MiB (peak at layer 0, [convolutional] in line 6), "
                    "but 0 MiB are free, enough for 3: lower batch");
        assert_int_equal(poor_asked > 0, enough);
        if (enough) {
            tiny_close(&t);
            continue;
        }
        poor_free_bytes = total; /* the net is as before: with more memory it opens */
        ok(program_open(&t.p, t.net, &d, &e), &e);
        assert_int_equal(t.net->nparam, 4);
        tiny_train(&t, images, label, 0);
        tiny_close(&t);
    }
}

static void absurd_sizes(void **state)
{
    struct err e = { 0 };
    (void)state;
    bad("[net]\nheight=65536\nwidth=65536\nchannels=65536\n" HEAD,
        "an image of 65536x65536x65536 is too large");
    bad("[net]\nheight=1024\nwidth=1024\nchannels=1\n[convolutional]\nfilters=4096\nsize=1\n" HEAD,
        "tiny.cfg:5: [convolutional] an output of 1024x1024x4096 for 1 images is too large");
    static const char *const cfgs[] = {
        "[net]\nbatch=16777216\ninputs=1000\n[connected]\noutput=16777216\n" HEAD,         /* activations */
        "[net]\ninputs=16777216\n[connected]\noutput=16777216\n" HEAD,                     /* weights */
        "[net]\nchannels=1\nheight=1\nwidth=1\n[convolutional]\nfilters=1048576\nsize=1\n" /* 2^64 weights */
        "[convolutional]\nfilters=1048576\nsize=4096\npad=1\n" HEAD,
        "[net]\nbatch=16777216\ninputs=2147483647\n" HEAD,
    };
    enum { CASES = sizeof cfgs / sizeof *cfgs };
    for (int d = 0; backend_at(d); d++)
        for (int i = 0; i < 2 * CASES; i++) { /* for training and for inference */
            tiny_device = backend_at(d)->name;
            ok(tiny_net(&t, cfgs[i / 2], NULL, &e), &e);
            struct program_desc desc = { .rows = t.net->mini, .train = i % 2 };
            impoverish(&t, (size_t)1 << 40); /* a large machine: 1 TiB */
            int rc = program_open(&t.p, t.net, &desc, &e);
            if (!rc || poor_asked) print_error("%s: %d: %s\n%s\n", tiny_device, rc, e.msg, cfgs[i / 2]);
            assert_true(rc && e.code == rc && *e.msg); /* by the device, or for want of memory */
            assert_true(!poor_asked);
            tiny_close(&t);
        }
    tiny_device = "ref";
}

static void training_programs_come_first(void **state)
{
    struct err e = { 0 };
    struct program *p;
    struct program_desc infer = { .rows = 1 }, train = { .rows = 4, .train = 1 };
    (void)state;
    ok(tiny_net(&t, NET(4) CONV(2) HEAD, NULL, &e), &e);
    ok(program_open(&t.p, t.net, &infer, &e), &e);
    refused(program_open(&p, t.net, &train, &e), E_ARG, &e, "training programs must be opened before");
    assert_null(p);
    tiny_close(&t);
}

/* ---- losses in places where they can do nothing ---- */

static void opens_for_training(const char *cfg, const char *refusal)
{
    struct err e = { 0 };
    struct program_desc train = { .rows = 4, .train = 1 };
    ok(tiny_net(&t, cfg, NULL, &e), &e);
    refused(program_open(&t.p, t.net, &train, &e), E_CFG, &e, refusal);
    tiny_close(&t);
}

static void losses_out_of_place(void **state)
{
    (void)state;
    bad(NET(4) CONV(2) HEAD "[itra]\n", "[itra] must come before the classifier");
    bad(NET(4) CONV(2) HEAD "[itra]\n[cost]\n", "[itra] must come before the classifier");
    bad(NET(4) CONV(2) "[itra]\nestimate=unbiased\n" HEAD, "[itra] estimate=unbiased needs root=0");
    bad(NET(4) CONV(2) HEAD "[center]\n", "[center] must come before the classifier");
    bad(NET(4) "[itra]\n" CONV(2) HEAD, "[itra] no layer that learns comes before it");
    bad(NET(4) CONV(2) "[cost]\n" CONV(2) HEAD, "[cost] must be the last layer");
    opens_for_training(NET(4) CONV(2), "is the last layer, so there is no loss to train on");
    opens_for_training(NET(4) CONV(2) HEAD "[dropout]\n",
                       "is the last layer, so there is no loss to train on");
}

static void softmax_after_softmax(void **state)
{
    struct err e = { 0 };
    (void)state;
    refused(tiny_open(&t, NET(4) CONV(2) HEAD "[softmax]\n", &e), E_CFG, &e,
            "tiny.cfg:15: [softmax] follows another [softmax]");
    tiny_close(&t);
    ok(tiny_open(&t, NET(4) CONV(2) "[softmax]\nnoloss=1\n" CONV(2) HEAD, &e), &e);
    tiny_close(&t);
}

/* ---- the second mini-batch ---- */

static void several_itra_must_agree(void **state)
{
    static const char *const others[] = { "pair=split\n", "match=class\n", "every=2\n" };
    struct err e = { 0 };
    (void)state;
    for (int i = 0; i < 3; i++) {
        char cfg[500];
        snprintf(cfg, sizeof cfg, NET(4) CONV(2) "[itra]\n" CONV(3) "[itra]\n%s" HEAD, others[i]);
        bad(cfg, "tiny.cfg:17: [itra] pair, match and every must be those of the section in line 11");
        snprintf(cfg, sizeof cfg, NET(4) CONV(2) "[itra]\n%s" CONV(3) "[itra]\n%s" HEAD, others[i],
                 others[i]);
        ok(tiny_net(&t, cfg, NULL, &e), &e);
        assert_int_equal(t.net->pair_loader, i != 0);
        assert_int_equal(t.net->wants.by_class, i == 1);
        assert_int_equal(t.net->wants.every, i == 2 ? 2 : 1);
        assert_int_equal(t.net->feature, 3); /* the last one */
        tiny_close(&t);
    }
    /* S2 is constant only if all say so; sections without weight say nothing. */
    ok(tiny_net(&t, NET(4) CONV(2) "[itra]\ngradient=first\n[itra]\n" HEAD, NULL, &e), &e);
    assert_int_equal(t.net->wants.gradient_first, 0);
    tiny_close(&t);
    ok(tiny_net(&t, NET(4) CONV(2) "[itra]\ngradient=first\n[itra]\nlambda=0\n" HEAD, NULL, &e), &e);
    assert_int_equal(t.net->wants.gradient_first, 1);
    assert_int_equal(t.net->pair_loader, 1);
    tiny_close(&t);
    ok(tiny_net(&t, NET(4) CONV(2) "[itra]\nlambda=0\n" HEAD, NULL, &e), &e);
    assert_int_equal(t.net->pair_loader, 0);
    tiny_close(&t);
}

static struct step_stats train(struct program *p, int rows, uint64_t iteration)
{
    struct err e = { 0 };
    struct step_stats s;
    struct step step = {
        .x = images, .label = label, .rows = rows, .rows_s1 = 4, .iteration = iteration, .number = iteration
    };
    ok(step_train(p, &step, &s, &e), &e);
    return s;
}

/* The plain steps of a net with every=2 are those of the net without [itra], to the bit, whichever program
 * was first. */
static void plain_and_paired_share_parameters(void **state)
{
    static const char norm[] = "[convolutional]\nfilters=3\nbatch_normalize=1\nactivation=relu\n";
    char with[500], without[500];
    struct err e = { 0 };
    (void)state;
    snprintf(with, sizeof with, NET(4) "%s[itra]\nwarmup=0\nevery=2\n" HEAD, norm);
    snprintf(without, sizeof without, NET(4) "%s" HEAD, norm);
    for (int paired_first = 0; paired_first < 2; paired_first++) {
        struct program_desc d[2] = { { .rows = 4, .train = 1 }, { .rows = 4, .train = 1, .paired = 1 } };
        struct program *p[2];
        struct tiny alone;
        ok(tiny_net(&t, with, NULL, &e), &e);
        for (int i = 0; i < 2; i++)
            ok(program_open(&p[i != paired_first], t.net, &d[i != paired_first], &e), &e);
        assert_int_equal(t.net->nparam, 7);
        ok(tiny_open(&alone, without, &e), &e);

        struct step_stats a = train(p[0], 4, 1), b = train(alone.p, 4, 1);
        assert_true(a.ce == b.ce && isnan(a.match));
        for (int i = 0; i < 7; i++)
            if (alone.net->param[i]->g) same_gradient(&t, i, &alone, i, 0);
        ok(optim_update(t.net, 1, .1, &e), &e);
        ok(optim_update(alone.net, 1, .1, &e), &e);

        a = train(p[1], 8, 2); /* CE of S1 alone, with its own batch statistics */
        b = train(alone.p, 4, 2);
        near(a.ce, b.ce, 1e-6);
        assert_true(a.match > 0 && a.lambda == .8);
        assert_true(tiny_g(&t, 6, 0) == tiny_g(&alone, 6, 0)); /* behind [itra] nothing is added */
        double moved = tiny_w(&t, 5, 0), ce = train(p[0], 4, 3).ce;
        train(p[1], 8, 4);
        ok(optim_update(t.net, 1, .1, &e), &e);
        assert_true(tiny_w(&t, 5, 0) != moved);
        assert_true(train(p[0], 4, 5).ce != ce); /* what one program learns the other knows */
        for (int i = 0; i < 2; i++) program_close(p[i != paired_first]);
        tiny_close(&alone);
        tiny_close(&t);
    }
}

/* ---- the loss ---- */

/* Logits 1, -1, 0 whatever comes in. */
static void open_logits(const char *keys)
{
    char cfg[200];
    struct err e = { 0 };
    snprintf(cfg, sizeof cfg, "[net]\nbatch=2\ninputs=1\n%s" HEAD, keys);
    ok(tiny_open(&t, cfg, &e), &e);
    tiny_set(&t, 0, (const real[]){ 1, -1, 0 });
    tiny_set(&t, 1, (const real[]){ 0, 0, 0 });
}

static void cross_entropy_and_smoothing(void **state)
{
    static const double z[3] = { 1, -1, 0 };
    static const struct {
        const char *keys;
        double on, off;
    } rule[] = { { "", 1, 0 }, { "label_smooth_eps=.3\n", .7, .15 } };
    double total = log(exp(1) + exp(-1) + 1);
    (void)state;
    for (int r = 0; r < 2; r++) {
        double expected = 0, g[3] = { 0 };
        open_logits(rule[r].keys);
        for (int row = 0; row < 2; row++)
            for (int k = 0; k < 3; k++) {
                double truth = k == label[row] ? rule[r].on : rule[r].off;
                expected += truth * (total - z[k]) / 2;
                g[k] += (exp(z[k] - total) - truth) / 2;
            }
        near(tiny_train(&t, images, label, 0).ce, expected, 1e-6);
        for (size_t k = 0; k < 3; k++) assert_true(fabs(tiny_g(&t, 0, k) - g[k]) < 1e-6);

        struct err e = { 0 };
        struct program *p;
        struct program_desc d = { .rows = 2 };
        struct step step = { .x = images, .label = label, .rows = 2, .rows_s1 = 2 };
        double ce;
        float prob[6];
        ok(program_open(&p, t.net, &d, &e), &e);
        ok(program_infer(p, &step, prob, &ce, &e), &e);
        near(ce, 2 * expected, 1e-6); /* a sum, with the rule of training */
        for (int k = 0; k < 6; k++) near(prob[k], exp(z[k % 3] - total), 1e-6);
        program_close(p);
        tiny_close(&t);
    }
}

static void fill(struct tiny *x, int i, real value)
{
    real host[64];
    for (int k = 0; k < 64; k++) host[k] = value;
    tiny_set(x, i, host);
}

static void losses_that_are_not_finite_name_the_layer(void **state)
{
    struct err e = { 0 };
    struct step_stats s;
    float x[4 * 9];
    struct step step = { .x = x, .label = label, .rows = 4, .rows_s1 = 4, .iteration = 1 };
    real most = sizeof(real) == 4 ? (real)1e25
                                  : (real)1e250; /* its square is too much for one layer after the other */
    (void)state;
    memcpy(x, images, sizeof x);
    open_set(&t, NET(4) CONV(2) CONV(3) HEAD);
    fill(&t, 1, most);
    fill(&t, 3, most);
    refused(step_train(t.p, &step, &s, &e), E_NUMBER, &e,
            "tiny.cfg:11: [convolutional] (layer 1): the output is not finite");
    x[3] = NAN;
    refused(step_train(t.p, &step, &s, &e), E_NUMBER, &e,
            "tiny.cfg:6: [convolutional] (layer 0): the output is not finite");
    ok(net_check_finite(t.net, &e), &e);
    fill(&t, 3, NAN);
    refused(net_check_finite(t.net, &e), E_NUMBER, &e,
            "tiny.cfg:11: [convolutional] (layer 1): a weight is not finite");
    tiny_close(&t);
}

/* ---- initial values ---- */

/* Parameter i is uniform within `reach`: none beyond, mean square reach^2/3 to 15 % (4 standard errors of the
 * 200 numbers or more are 12 %), and neither half of the range is empty. */
static void uniform_within(int i, double reach)
{
    double squares = 0, sum = 0;
    size_t n = t.net->param[i]->count;
    for (size_t k = 0; k < n; k++) {
        double w = tiny_w(&t, i, k);
        assert_true(fabs(w) <= reach);
        squares += w * w;
        sum += w;
    }
    near(squares / (double)n, reach * reach / 3, .15);
    assert_true(fabs(sum) < .2 * reach * (double)n);
}

static void initial_values_as_pytorch_draws_them(void **state)
{
    struct err e = { 0 };
    (void)state;
    ok(tiny_open(&t,
                 NET(2) "init=pytorch\n[convolutional]\nfilters=24\nsize=3\npad=1\nbatch_normalize=1\n"
                        "activation=relu\n[convolutional]\nfilters=4\ngroups=4\nsize=3\npad=1\n"
                        "activation=relu\n[connected]\noutput=200\nbatch_normalize=0\n[softmax]\n",
                 &e),
       &e);
    /* bias, scale, mean, variance, weights; bias, weights; bias, weights */
    uniform_within(4, 1. / 3);           /* fan-in 9 */
    uniform_within(6, 1 / sqrt(9. * 6)); /* 24 channels in 4 groups */
    assert_true(tiny_w(&t, 0, 3) == 0);  /* batch norm */
    uniform_within(7, 1. / 6);           /* 4 x 3 x 3 inputs */
    assert_true(tiny_w(&t, 5, 0) != 0 && fabs(tiny_w(&t, 5, 0)) <= 1 / sqrt(9. * 6));
    assert_true(tiny_w(&t, 5, 0) != tiny_w(&t, 6, 0)); /* a sequence of its own */
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_net_without_parameters),
        cmocka_unit_test(stopbackward),
        cmocka_unit_test(dead_branches),
        cmocka_unit_test(route_of_one_is_an_alias),
        cmocka_unit_test(route_of_one_layer_twice),
        cmocka_unit_test(a_layer_added_to_itself),
        cmocka_unit_test(refusals),
        cmocka_unit_test(unknown_keys_are_noted),
        cmocka_unit_test(overrides),
        cmocka_unit_test(too_large_is_refused_before_memory_is_asked_for),
        cmocka_unit_test(absurd_sizes),
        cmocka_unit_test(training_programs_come_first),
        cmocka_unit_test(losses_out_of_place),
        cmocka_unit_test(softmax_after_softmax),
        cmocka_unit_test(several_itra_must_agree),
        cmocka_unit_test(plain_and_paired_share_parameters),
        cmocka_unit_test(cross_entropy_and_smoothing),
        cmocka_unit_test(losses_that_are_not_finite_name_the_layer),
        cmocka_unit_test(initial_values_as_pytorch_draws_them),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
