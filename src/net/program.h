/* A program is a net compiled for one batch size and one purpose: shapes, plans, and one arena in which
 * tensors share memory over time. Several programs over one net share its parameters: training with and
 * without a second mini-batch, validation beside training. */
#ifndef NET_PROGRAM_H
#define NET_PROGRAM_H
#include "net/desc.h"
#include "net/model.h"

struct program;
/* Compiles. The first program of a net also creates its parameters, which the later ones share: for training
 * with gradients and momenta in the backend's own layout, else in host memory. Open training programs first,
 * and keep the first program open as long as parameters are used: it knows how they are packed. */
int program_open(struct program **, struct net *, const struct program_desc *, struct err *);
void program_close(struct program *);
int program_rows(const struct program *); /* of a mini-batch */

/* After parameters changed: inference programs fold and pack them again: with ema_alpha= the averages, once
 * they have begun. */
int program_refresh(struct program *, struct err *);

/* A forward pass over images. prob gets rows x classes (may be NULL), *ce the sum of the cross-entropies
 * (NULL without labels). */
int program_infer(struct program *, const struct step *, float *prob, double *ce, struct err *);
/* The outputs of the layer that program_desc.features names, of the last program_infer. */
int program_feature_size(const struct program *); /* numbers a row; 0: none are kept */
int program_features(struct program *, int rows, real *features, struct err *);

struct program_info {
    size_t arena, scratch, fixed; /* bytes: tensors and buffers that share memory over time; the block that
                                     all operations share; what is alive throughout */
    size_t params;                /* with gradients and momenta in training */
};
void program_get_info(const struct program *, struct program_info *);
size_t program_layer_bytes(const struct program *, int i); /* tensors and buffers of layer i */

/* For tests: layer i (NULL past the last) with its tensors out->x and out->g, whose data is NULL where there
 * is no gradient, and the input. Contents are kept to the end of the step only with program_desc.keep. */
const struct layer *program_layer(const struct program *, int i);
const struct value *program_input(const struct program *);

#endif
