/* The activations by name. Their maths is in scalar.h. */
#ifndef BACKEND_ACTIVATION_H
#define BACKEND_ACTIVATION_H

#ifdef __cplusplus
extern "C" {
#endif

/* In the order of act_names. */
enum act {
    ACT_LINEAR,
    ACT_RELU,
    ACT_RELU6,
    ACT_LEAKY,
    ACT_RELIE,
    ACT_RAMP,
    ACT_LOGISTIC,
    ACT_LOGGY,
    ACT_TANH,
    ACT_ELU,
    ACT_SELU,
    ACT_GELU,
    ACT_SWISH,
    ACT_MISH,
    ACT_HARD_MISH,
    ACT_PLSE,
    ACT_HARDTAN,
    ACT_LHTAN,
    ACT_STAIR,
    ACT_COUNT
};
extern const char *const act_names[ACT_COUNT + 1]; /* "linear", "relu", ..., NULL */

/* Nonzero if the slope can be computed from the output alone: such activations run in place. */
int act_from_output(enum act);

#ifdef __cplusplus
}
#endif

#endif
