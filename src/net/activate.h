/* The activation at the end of a layer, where the operation before it has not applied it: in place if its
 * slope can be computed from its output, which is then all that backward needs. Otherwise, in training, that
 * operation writes memory of its own. */
#ifndef NET_ACTIVATE_H
#define NET_ACTIVATE_H
#include "net/layer.h"

struct activate {
    enum act act;
    struct op_plan *plan;  /* one of the layer's; NULL: nothing is left to do */
    struct tensor before;  /* input of the activation, where it is not in place */
    struct buffer *memory; /* of before; NULL: in place */
};

/* What the operation before the activation has to write: the output of the layer, or `before`. */
struct tensor *activate_input(struct activate *, struct layer *);
/* Memory of that tensor. */
void *activate_memory(const struct activate *, const struct layer *);

/* After the operation before it has been planned. fused: that applies the activation. */
int activate_build(struct activate *, struct layer *, struct builder *, struct op_plan *, int fused,
                   struct err *);
int activate_forward(const struct activate *, struct layer *, const struct pass *);
/* Gradient of the layer's output, in place. */
int activate_backward(const struct activate *, struct layer *, const struct pass *);

#endif
