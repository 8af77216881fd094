/* A test bed for layers: a small net around an example of a layer in the registry. */
#ifndef BED_H
#define BED_H
#include "test.h"
#include "core/mem.h"
#include "net/net.h"

enum { BED_ROWS = 6, BED_CLASSES = 4 };

/* A layer below learns (so that gradients flow), two layers give [shortcut] and [route] something to reach
 * back to, and a linear layer with a softmax makes a loss. Terminal layers sit on the linear layer instead.
 */
static inline void bed_cfg(char *buf, size_t size, const struct layer_ops *ops, const char *example,
                           int channels, int side)
{
    static const char *const head =
        "[net]\nbatch=%d\nheight=%d\nwidth=%d\nchannels=%d\nmomentum=.5\ndecay=.01\n";
    static const char *const below = "[convolutional]\nfilters=8\nsize=3\npad=1\nactivation=linear\n"
                                     "[convolutional]\nfilters=8\nsize=1\nactivation=tanh\n";
    int n = snprintf(buf, size, head, BED_ROWS, side, side + 1, channels);
    int first = ops->flags & LAYER_NO_GRAD, terminal = ops->flags & LAYER_TERMINAL;
    if (!first) n += snprintf(buf + n, size - (size_t)n, "%s", below);
    if (terminal || ops->flags & LAYER_TRAIN_ONLY)
        n += snprintf(buf + n, size - (size_t)n, "[connected]\noutput=%d\nactivation=linear\n", BED_CLASSES);
    if (*example != '[') n += snprintf(buf + n, size - (size_t)n, "[%s]\n", ops->name);
    n += snprintf(buf + n, size - (size_t)n, "%s\n", example);
    if (!terminal && (strcmp(ops->name, "softmax") || strstr(example, "noloss")))
        snprintf(buf + n, size - (size_t)n, "[connected]\noutput=%d\nactivation=linear\n[softmax]\n",
                 BED_CLASSES);
}

/* Sums of a layer's output with itself: what stands between counts as a layer and is the identity. */
static const struct {
    const char *layer, *example;
} bed_twice[] = {
    { "route", "layers=-1\n[shortcut]\nfrom=-2\nalpha=.5\nbeta=2\nactivation=leaky" },
    { "activation", "activation=linear\n[shortcut]\nfrom=-2\nactivation=mish" },
    { "dropout", "probability=0\n[shortcut]\nfrom=-2\nactivation=relu" },
    { "dropout", "probability=.3\n[shortcut]\nfrom=-2\nactivation=relu" },
    { "itra", "lambda=0.7\nwarmup=0\npair=split\n[shortcut]\nfrom=-2" },
};
enum { BED_TWICE = sizeof bed_twice / sizeof *bed_twice };

struct bed {
    struct backend *be;
    int lent; /* be stays open */
    struct net *net;
    struct program *p;
    float *x;
    int label[2 * BED_ROWS];
    struct step step;
};

static inline void bed_say(void *ctx, const char *line)
{
    (void)ctx;
    print_message("note: %s\n", line);
}

/* A device, or the test is skipped where this machine has none, or one without this precision. */
static inline struct backend *bed_device(const char *device, enum precision p)
{
    struct backend *be;
    struct err e;
    if (backend_open(&be, device, 2, &e)) {
        print_message("skipped: %s\n", e.msg);
        skip();
    }
    if (be->precisions >> p & 1) return be;
    backend_close(be);
    print_message("skipped: device %s has no %s here\n", device, precision_names[p]);
    skip();
    return NULL;
}
static inline void bed_need(const char *device, enum precision p) { backend_close(bed_device(device, p)); }

/* The net on a device that is lent, without a program. */
static inline int bed_net_on(struct bed *b, struct backend *be, const char *cfg, struct err *e)
{
    struct cfg *c;
    const struct notes notes = { bed_say, NULL };
    *b = (struct bed){ .be = be, .lent = 1 };
    TRY(cfg_parse(&c, "bed.cfg", cfg, strlen(cfg), e));
    return net_open(&b->net, c, be, 7, &notes, e);
}

/* The same on one of its own. */
static inline int bed_net(struct bed *b, const char *device, const char *cfg, struct err *e)
{
    struct backend *be;
    TRY(backend_open(&be, device, 2, e));
    int rc = bed_net_on(b, be, cfg, e);
    b->lent = 0;
    return rc;
}

/* Adds a training program that keeps all tensors, with a mini-batch of BED_ROWS images in S1, and as many in
 * S2 where a layer asks for a second one. */
static inline int bed_program(struct bed *b, struct err *e)
{
    struct program_desc d = { .rows = BED_ROWS, .paired = b->net->pair_loader, .train = 1, .keep = 1 };
    TRY(program_open(&b->p, b->net, &d, e));
    struct shape s = program_input(b->p)->x.shape;
    b->x = mem_alloc(shape_count(s), sizeof *b->x);
    if (!b->x) return fail(e, E_MEM, "bed");
    for (size_t i = 0; i < shape_count(s); i++) b->x[i] = (float)(2 * rng_uniform(5, i) - 1);
    for (int i = 0; i < s.n; i++)
        b->label[i] = (int)rng_below(9, (uint64_t)i, 2); /* two classes, so that pairs form */
    b->step = (struct step){ .x = b->x,
                             .label = b->label,
                             .rows = s.n,
                             .rows_s1 = BED_ROWS,
                             .iteration = 1,
                             .rate = b->net->config.learning_rate / 2 }; /* some way down */
    return OK;
}

static inline int bed_open_on(struct bed *b, struct backend *be, const char *cfg, struct err *e)
{
    TRY(bed_net_on(b, be, cfg, e));
    return bed_program(b, e);
}
static inline int bed_open(struct bed *b, const char *device, const char *cfg, struct err *e)
{
    TRY(bed_net(b, device, cfg, e));
    return bed_program(b, e);
}

/* Other images. */
static inline void bed_negate(struct bed *b)
{
    size_t n = shape_count(program_input(b->p)->x.shape);
    for (size_t i = 0; i < n; i++) b->x[i] = -b->x[i];
}

/* A step on other images, for layers that go by the mini-batch before. */
static inline void bed_warm(struct bed *b, struct err *e)
{
    struct step_stats s;
    bed_negate(b);
    ok(step_train(b->p, &b->step, &s, e), e);
    bed_negate(b);
}

static inline void bed_close(struct bed *b)
{
    program_close(b->p);
    net_close(b->net);
    if (!b->lent) backend_close(b->be);
    mem_free(b->x);
}

#endif
