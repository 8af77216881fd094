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
    a->best = mem_alloc((size_t)session_top(&a->s), sizeof *a->best);
    return a->x && a->prob && a->best ? OK : fail(e, E_MEM, "no memory for an image of %zu numbers", row);
}

int answer_make(struct answer *a, const struct picture *i, struct err *e)
{
    const struct step s = { .x = a->x, .rows = 1, .rows_s1 = 1 };
    TRY(input_from_picture(a->s.net, &a->s.augment, a->view, i, a->x, e));
    TRY(program_infer(a->s.program, &s, a->prob, NULL, e));
    TRY(eval_check(a->prob, a->s.net->classes, a->s.cli->arg[2], e));
    eval_top(a->prob, a->s.net->classes, session_top(&a->s), a->best);
    return OK;
}

void answer_print(const struct answer *a, const char *image, int width, int decimals)
{
    for (int i = 1; i <= session_top(&a->s); i++) {
        char buf[16];
        int k = a->best[i - 1];
        const char *name = class_name(a->s.data, k, buf);
        double share = (double)a->prob[k];
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
    mem_free(a->best);
    mem_free(a->prob);
    mem_free(a->x);
    session_close(&a->s);
}
