/* classifier predict: the most probable classes of images. */
#include <stdio.h>
#include "cli/cli.h"
#include "core/mem.h"
#include "data/image.h"
#include "train/trainer.h"

struct prediction {
    struct session s;
    float *x, *prob; /* one image; one row of probabilities */
    char **list;
    int list_n;
};

static int load_image(const struct prediction *p, const char *path, struct err *e)
{
    const struct net_config *c = &p->s.net->config;
    struct picture i;
    TRY(image_decode(path, &(struct decoding){ c->channels, 0, p->s.data->orient }, &i, e));
    if (i.flaw) note(&p->s.notes, "%s: %s", path, i.flaw);
    int rc = p->s.cli->center
                 ? image_center(i.pixels, c->channels, i.w, i.h, c->width, c->height, p->x, e)
                 : image_letterbox(i.pixels, c->channels, i.w, i.h, c->width, c->height, p->x, e);
    mem_free(i.pixels);
    if (!rc) augment_normalise(&p->s.augment, p->x);
    return rc;
}

int best_class(const float *prob, int classes)
{
    int best = 0;
    for (int k = 1; k < classes; k++)
        if (prob[k] > prob[best]) best = k;
    return best;
}

static int predict_image(const struct prediction *p, const char *path, int name_it, struct err *e)
{
    struct step s = { .x = p->x, .rows = 1, .rows_s1 = 1 };
    int classes = p->s.net->classes;
    char buf[16];
    TRY(load_image(p, path, e));
    TRY(program_infer(p->s.program, &s, p->prob, NULL, e));
    TRY(eval_check(p->prob, classes, path, e));
    if (name_it) printf("%s:\n", path);
    for (int i = session_top(&p->s); i > 0; i--) {
        int best = best_class(p->prob, classes);
        printf("%5.2f%%: %s\n", 100 * (double)p->prob[best], class_name(p->s.data, best, buf));
        p->prob[best] = -1; /* printed */
    }
    return OK;
}

/* An unreadable image among several is named and passed over; the exit status tells. */
static int predict_all(const struct prediction *p, struct err *e)
{
    const struct cli *c = p->s.cli;
    int given = c->narg - 3, n = given + p->list_n, failed = 0;
    for (int i = 0; i < n; i++) {
        const char *path = i < given ? c->arg[3 + i] : p->list[i - given];
        int rc = predict_image(p, path, n > 1, e);
        if (!rc) {
            TRY(output_check(e));
            continue;
        }
        if (n == 1 || (rc != E_FILE && rc != E_FORMAT)) return rc;
        note(&p->s.notes, "%s", e->msg);
        failed++;
    }
    return failed ? fail(e, E_FILE, "%d of %d images could not be read", failed, n) : OK;
}

static int predict(struct prediction *p, const struct cli *c, struct err *e)
{
    if (c->center && c->letterbox) return fail(e, E_ARG, "-center and -letterbox: give one of them");
    if (c->narg <= 3 && !c->list)
        return fail(e, E_ARG,
                    "predict: no image given; usage: darknet classifier predict DATA CFG WEIGHTS "
                    "IMAGE... | -list FILE");
    if (c->list) TRY(list_read(&p->list, &p->list_n, c->list, e));
    TRY(session_open(&p->s, c, c->arg[0], c->arg[1], e));
    const struct net_config *n = &p->s.net->config;
    TRY(session_load(&p->s, c->arg[2], 1, 0, e));
    size_t row = shape_row((struct shape){ 1, n->channels, n->height, n->width });
    p->x = mem_alloc(row, sizeof *p->x);
    p->prob = mem_alloc((size_t)p->s.net->classes, sizeof *p->prob);
    if (!p->x || !p->prob) return fail(e, E_MEM, "no memory for an image of %zu numbers", row);
    TRY(predict_all(p, e));
    note(&p->s.notes, "preprocessing: %s to %dx%d", c->center ? "the central part, resized" : "letterbox",
         n->width, n->height);
    return OK;
}

int cli_predict(const struct cli *c, struct err *e)
{
    struct prediction p = { 0 };
    int rc = predict(&p, c, e);
    mem_free(p.prob);
    mem_free(p.x);
    session_close(&p.s);
    list_free(p.list);
    return rc;
}
