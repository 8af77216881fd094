/* Inference: a forward pass over images. */
#ifndef NET_INFER_H
#define NET_INFER_H
#include "core/real.h"
#include "net/desc.h"

struct program;
struct err;

/* prob gets rows x classes (may be NULL), *ce the sum of the cross-entropies (NULL without labels). */
int program_infer(struct program *, const struct step *, float *prob, double *ce, struct err *);
/* The outputs of the layer that program_desc.features names, of the last program_infer. */
int program_feature_size(const struct program *); /* numbers a row; 0: none are kept */
int program_features(struct program *, int rows, real *features, struct err *);

#endif
