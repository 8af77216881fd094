/* What classifier valid counts: right answers by class, the confusion matrix, the wrong answers. */
#ifndef CLI_SCORE_H
#define CLI_SCORE_H
#include <stdint.h>
#include "cli/cli.h"
#include "core/file.h"

struct score {
    const struct session *s; /* whose validation images they are */
    int top;
    int seen, unreadable, right1, rightk; /* images so far */
    struct class_score {
        int right, chosen; /* right answers; answers */
    } * of_class;
    uint64_t *confusion;  /* classes x classes: truth, answer; NULL unless -confusion */
    uint64_t *unanswered; /* by class: images that cannot be read; with `confusion` */
    struct mistake {
        int sample, truth, answer;   /* NO_ANSWER: it cannot be read */
        float probability, of_truth; /* of the answer; of the true class */
    } * mistake;                     /* with -errors */
    int mistakes;
    struct file csv;
};

/* Whether the files that are asked for can be written, before the work. */
int score_check_files(const struct cli *, struct err *);
/* Of a session whose validation images are open; score_close also after a failure. */
int score_open(struct score *, const struct session *, struct err *);
/* p: the probabilities of the classes; NULL: the image cannot be read, which counts as wrong. */
int score_add(struct score *, int sample, int label, const float *p, struct err *);
/* A row for each class: images, right answers, recall, precision. */
void score_print(const struct score *);
/* The confusion matrix, as CSV or as a picture, and the wrong answers, the surest first: where asked for. */
int score_write(struct score *, struct err *);
void score_close(struct score *);

#endif
