/* The activation that ends a layer, unless the operation before it has applied it already. It works in place
 * where its slope can be computed from its output, which is then all that backward needs. Otherwise, in
 * training, the operation before it writes to memory of its own. */
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

/* Call it once the operation before the activation is planned. fused: that operation applies it. */
int activate_build(struct activate *, struct layer *, struct builder *, struct op_plan *, int fused,
                   struct err *);
int activate_forward(const struct activate *, struct layer *, const struct pass *);
/* Turns the gradient of the layer's output into that of the activation's input, in place. */
int activate_backward(const struct activate *, struct layer *, const struct pass *);

#endif
