/* A picture of a training run: the smoothed loss by iteration, and the accuracy of its validations. */
#ifndef CLI_CHART_H
#define CLI_CHART_H
#include <stddef.h>
#include "core/err.h"

struct curve {
    struct chart_point {
        double x, y;
    } * point;
    size_t n;
};
struct chart {
    struct curve loss, accuracy; /* accuracy: 0..1 */
};

int curve_add(struct curve *, double x, double y, struct err *);
/* A PNG of 960 x 540 pixels, complete or not at all. */
int chart_write(const struct chart *, const char *path, struct err *);
void chart_free(struct chart *);

#endif
