/* One image through the net, and its most probable classes as text. */
#include <stdio.h>
#include "cli/answer.h"
#include "core/mem.h"
#include "train/trainer.h"

int answer_open(struct answer *a, const struct cli *c, enum view view, struct err *e)
{
    static const char *const words[] = { "the central part, resized", "letterbox",
                                         "the whole image, resized" };
    if (c->center && c->letterbox) return fail(e, E_ARG, "-center and -letterbox: give one of them");
    TRY(session_open(&a->s, c, c->arg[0], c->arg[1], e));
    const struct net_config *n = &a->s.net->config;
    a->view = c->center ? VIEW_CENTER : c->letterbox ? VIEW_LETTERBOX : view;
    if (n->letter_box && !c->center && a->view == VIEW_CENTER) a->view = VIEW_LETTERBOX;
    snprintf(a->preprocessing, sizeof a->preprocessing, "%s to %dx%d", words[a->view], n->width, n->height);
    TRY(session_load(&a->s, c->arg[2], e));
    TRY(program_refresh(a->s.program, e));
    size_t row = shape_row((struct shape){ 1, n->channels, n->height, n->width });
    a->x = mem_alloc(row, sizeof *a->x);
    a->prob = mem_alloc((size_t)a->s.net->classes, sizeof *a->prob);
    return a->x && a->prob ? OK : fail(e, E_MEM, "no memory for an image of %zu numbers", row);
}

int answer_make(struct answer *a, const struct picture *i, struct err *e)
{
    const struct net_config *c = &a->s.net->config;
    const struct step s = { .x = a->x, .rows = 1, .rows_s1 = 1 };
    TRY(image_view(a->view, i->pixels, c->channels, i->w, i->h, c->width, c->height, a->x, e));
    augment_normalise(&a->s.augment, a->x);
    TRY(program_infer(a->s.program, &s, a->prob, NULL, e));
    return eval_check(a->prob, a->s.net->classes, a->s.cli->arg[2], e);
}

int best_class(const float *prob, int classes)
{
    int best = 0;
    for (int k = 1; k < classes; k++)
        if (prob[k] > prob[best]) best = k;
    return best;
}

void answer_print(struct answer *a, const char *image, int width, int decimals)
{
    for (int i = 1; i <= session_top(&a->s); i++) {
        char buf[16];
        int k = best_class(a->prob, a->s.net->classes);
        const char *name = class_name(a->s.data, k, buf);
        double share = (double)a->prob[k];
        a->prob[k] = -1; /* printed */
        if (a->s.cli->csv) {
            csv_text(stdout, image);
            printf(",%d,%d,", i, k);
            csv_text(stdout, name);
            printf(",%.6f\n", share);
        } else {
            printf("%*.*f%%: %s\n", width, decimals, 100 * share, name);
        }
    }
}

void answer_close(struct answer *a)
{
    mem_free(a->prob);
    mem_free(a->x);
    session_close(&a->s);
}
