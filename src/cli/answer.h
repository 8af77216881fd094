/* What a net says of one image at a time: for the commands that print it. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H
#include "cli/cli.h"
#include "data/image.h"

struct answer {
    struct session s;
    enum view view;
    char preprocessing[60]; /* the view in words */
    float *x, *prob;        /* one image; one row of probabilities */
    int *best;              /* the session_top most probable classes */
};
/* DATA, CFG and WEIGHTS are the first arguments; `view` is what the net gets to see unless a flag, or for
 * the central part letter_box=1, says otherwise. answer_close also after a failure. */
int answer_open(struct answer *, const struct cli *, enum view view, struct err *);
/* Fills prob and best. */
int answer_make(struct answer *, const struct picture *, struct err *);
/* Prints the most probable classes, one a line and the percentage in `width` characters with so many
 * decimals; or as rows of CSV that begin with `image`. */
void answer_print(const struct answer *, const char *image, int width, int decimals);
void answer_close(struct answer *);

#endif
