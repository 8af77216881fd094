/* Small nets from text, and temporary files, for tests that look inside. */
#ifndef TINY_H
#define TINY_H
#include <sys/stat.h>
#include <unistd.h>
#include "test.h"
#include "core/mem.h"
#include "net/net.h"

/* ---- files in a folder of their own ---- */

static char tiny_folder[64];

static inline int tiny_set_up(void **state)
{
    (void)state;
    strcpy(tiny_folder, "/tmp/tiny-XXXXXX");
    return mkdtemp(tiny_folder) ? 0 : -1;
}

static inline int tiny_tear_down(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", tiny_folder);
    return system(command);
}

/* A path in that folder, valid until four more have been asked for. */
static inline const char *tiny_path(const char *name)
{
    static char path[4][160];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", tiny_folder, name);
    return p;
}

static inline const char *tiny_put(const char *name, const void *bytes, size_t n)
{
    const char *path = tiny_path(name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* ---- nets ---- */

static const char *tiny_device = "ref";

struct tiny {
    struct backend *be;
    struct net *net;
    struct program *p;
    char notes[2000]; /* one a line */
};

static inline void tiny_say(void *ctx, const char *line)
{
    struct tiny *t = ctx;
    size_t n = strlen(t->notes);
    snprintf(t->notes + n, sizeof t->notes - n, "%s\n", line);
}

/* The net alone; `set`: an override, or NULL. */
static inline int tiny_net(struct tiny *t, const char *cfg, const char *set, struct err *e)
{
    struct cfg *c;
    *t = (struct tiny){ 0 };
    const struct notes notes = { tiny_say, t };
    TRY(backend_open(&t->be, tiny_device, 1, e));
    TRY(cfg_parse(&c, "tiny.cfg", cfg, strlen(cfg), e));
    int rc = set ? cfg_override(c, set, e) : OK;
    if (rc) {
        cfg_free(c);
        return rc;
    }
    return net_open(&t->net, c, t->be, 1, &notes, e);
}

/* The net, and a training program that keeps all tensors. */
static inline int tiny_open(struct tiny *t, const char *cfg, struct err *e)
{
    TRY(tiny_net(t, cfg, NULL, e));
    struct program_desc d = { .rows = t->net->mini, .train = 1, .keep = 1 };
    return program_open(&t->p, t->net, &d, e);
}

static inline void tiny_close(struct tiny *t)
{
    program_close(t->p);
    net_close(t->net);
    backend_close(t->be);
}

/* One pass over x (rows as the program has them). */
static inline struct step_stats tiny_train(struct tiny *t, const float *x, const int *label, int add)
{
    struct err e = { 0 };
    struct step_stats s;
    struct step step = {
        .x = x, .label = label, .rows = t->net->mini, .rows_s1 = t->net->mini, .add = add, .iteration = 1
    };
    ok(step_train(t->p, &step, &s, &e), &e);
    return s;
}

/* Number k of parameter i, of its gradient. */
static inline double tiny_number(const struct tiny *t, const void *which, int i, size_t k)
{
    const struct param *p = t->net->param[i];
    real host[256];
    assert_in_range(p->count, k + 1, 256);
    assert_int_equal(param_unpack(p, which, host), OK);
    return host[k];
}
static inline double tiny_w(const struct tiny *t, int i, size_t k)
{
    return tiny_number(t, t->net->param[i]->w, i, k);
}
static inline double tiny_g(const struct tiny *t, int i, size_t k)
{
    return tiny_number(t, t->net->param[i]->g, i, k);
}

/* Sets all of parameter i. */
static inline void tiny_set(const struct tiny *t, int i, const real *host)
{
    assert_int_equal(param_set(t->net->param[i], host), OK);
}

/* A call that must fail with this code, and with a message that contains the words. */
static inline void refused_(int rc, int code, const struct err *e, const char *words, const char *file,
                            int line)
{
    if (rc != code || !strstr(e->msg, words))
        print_error("%s:%d: %d '%s' lacks '%s'\n", file, line, rc, e->msg, words);
    assert_int_equal(rc, code);
    assert_non_null(strstr(e->msg, words));
}
#define refused(call, code, e, words) refused_(call, code, e, words, __FILE__, __LINE__)

/* |a - b| <= tolerance * |b|; NaN fails. */
static inline void near_(double a, double b, double tolerance, const char *file, int line)
{
    int good = fabs(a - b) <= tolerance * fabs(b);
    if (!good) print_error("%s:%d: %.17g, expected %.17g\n", file, line, a, b);
    assert_true(good);
}
#define near(a, b, tolerance) near_(a, b, tolerance, __FILE__, __LINE__)

#endif
