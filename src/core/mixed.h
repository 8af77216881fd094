/* The labels of an image that is mixed from several. Also compiled for devices. */
#ifndef CORE_MIXED_H
#define CORE_MIXED_H
#include "core/real.h"

enum { MIXED = 4 };
/* Each label has a share of the truth; together they are 1. Places that are not used have none. */
struct mixed_label {
    int label[MIXED];
    float share[MIXED];
};

/* The truth of class k, where it is `on` for the class of a whole image and `off` for every other. */
SCALAR double mixed_truth(const struct mixed_label *m, int k, double on, double off)
{
    double t = off;
    for (int i = 0; i < MIXED; i++)
        if (m->label[i] == k) t += (on - off) * (double)m->share[i];
    return t;
}

#endif
