/* classifier predict: the most probable classes of images. */
#include <stdio.h>
#include "cli/cli.h"
#include "core/mem.h"
#include "data/augment.h"
#include "data/image.h"
#include "train/trainer.h"

struct prediction {
    struct session s;
    struct program *program;
    struct augment normal; /* for the mean and standard deviation only */
    float *x, *prob;       /* one image; one row of probabilities */
    char **list;
    int list_n;
    int top, center;
};

/* ---- one image ---- */

static int load_image(const struct prediction *p, const char *path, struct err *e)
{
    const struct net_config *c = &p->s.net->config;
    uint8_t *pixels;
    int w, h;
    TRY(image_decode(path, c->channels, 0, &pixels, &w, &h, e));
    int rc = p->center ? image_center(pixels, c->channels, w, h, c->width, c->height, p->x, e)
                       : image_letterbox(pixels, c->channels, w, h, c->width, c->height, p->x, e);
    mem_free(pixels);
    if (!rc) augment_normalise(&p->normal, p->x);
    return rc;
}

/* Crosses out what it prints; of equal probabilities the first class comes first. */
static void print_top(const struct prediction *p)
{
    char buf[16];
    for (int i = 0; i < p->top; i++) {
        int best = 0;
        for (int k = 1; k < p->s.net->classes; k++)
            if (p->prob[k] > p->prob[best]) best = k;
        printf("%5.2f%%: %s\n", 100 * (double)p->prob[best], class_name(p->s.data, best, buf));
        p->prob[best] = -1;
    }
}

static int predict_image(const struct prediction *p, const char *path, int name_it, struct err *e)
{
    struct step s = { .x = p->x, .rows = 1, .rows_s1 = 1 };
    TRY(load_image(p, path, e));
    TRY(program_infer(p->program, &s, p->prob, NULL, e));
    TRY(eval_check(p->prob, p->s.net->classes, path, e));
    if (name_it) printf("%s:\n", path);
    print_top(p);
    return OK;
}

/* ---- all of them ---- */

static const char *image_path(const struct prediction *p, const struct cli *c, int i)
{
    return i < c->narg - 3 ? c->arg[3 + i] : p->list[i - (c->narg - 3)];
}

/* An unreadable image among several is named and passed over; the exit status tells. */
static int predict_all(const struct prediction *p, const struct cli *c, struct err *e)
{
    int n = c->narg - 3 + p->list_n, failed = 0;
    for (int i = 0; i < n; i++) {
        int rc = predict_image(p, image_path(p, c, i), n > 1, e);
        if (rc && (n == 1 || (rc != E_FILE && rc != E_FORMAT))) return rc;
        if (!rc) TRY(output_check(e));
        if (!rc) continue;
        note(&p->s.notes, "%s", e->msg);
        failed++;
    }
    return failed ? fail(e, E_FILE, "%d of %d images could not be read", failed, n) : OK;
}

static int open_net(struct prediction *p, const struct cli *c, struct err *e)
{
    const struct program_desc d = { .rows = 1 };
    TRY(session_open(&p->s, c, c->arg[0], c->arg[1], e));
    const struct net *net = p->s.net;
    TRY(augment_from_net(net, &p->normal, e));
    TRY(session_open_program(&p->s, c->arg[2], &d, &p->program, e));
    p->top = cli_top(c, &p->s);
    p->center = c->center;
    size_t row = (size_t)net->config.channels * (size_t)net->config.height * (size_t)net->config.width;
    p->x = mem_alloc(row, sizeof *p->x);
    p->prob = mem_alloc((size_t)net->classes, sizeof *p->prob);
    return p->x && p->prob ? OK : fail(e, E_MEM, "no memory for an image of %zu numbers", row);
}

static int check_flags(const struct cli *c, struct err *e)
{
    if (c->center && c->letterbox) return fail(e, E_ARG, "-center and -letterbox: give one of them");
    if (c->narg > 3 || c->list) return OK;
    return fail(
        e, E_ARG,
        "predict: no image given; usage: darknet classifier predict DATA CFG WEIGHTS IMAGE... | -list "
        "FILE");
}

static int predict(struct prediction *p, const struct cli *c, struct err *e)
{
    if (c->list) TRY(list_read(&p->list, &p->list_n, c->list, e));
    TRY(open_net(p, c, e));
    TRY(predict_all(p, c, e));
    note(&p->s.notes, "preprocessing: %s to %dx%d", p->center ? "the central part, resized" : "letterbox",
         p->s.net->config.width, p->s.net->config.height);
    return OK;
}

int cli_predict(const struct cli *c, struct err *e)
{
    struct prediction p = { 0 };
    TRY(check_flags(c, e));
    int rc = predict(&p, c, e);
    mem_free(p.prob);
    mem_free(p.x);
    program_close(p.program);
    session_close(&p.s);
    list_free(p.list);
    return rc;
}
