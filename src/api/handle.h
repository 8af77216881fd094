/* Private to src/api: what is behind the handle of include/darknet.h. */
#ifndef API_HANDLE_H
#define API_HANDLE_H
#include "darknet.h"
#include "data/image.h"
#include "net/net.h"

/* A program for inference. */
struct inference {
    struct program *program;
    int stale; /* weights have changed since it folded them */
};

struct dn_net {
    struct backend *be;
    struct net *net;
    struct step_programs training;   /* opened first: they own the packing of the weights */
    struct inference plain, keeping; /* opened in this order; keeping: the output of a layer, too */
    int kept;                        /* which layer */
    int train, rows;                 /* as opened; rows: of the programs for inference */
    int orient;
    enum view view;
    int part; /* mini-batches of this iteration so far */
};

/* Hands a result to the caller. */
int give(int rc, const struct err *, dn_error *);
/* How every call that needs weights begins: opens the first program, which creates the parameters and must be
 * a training program if the net is to learn. given: none of the arguments that must be there is NULL. */
int begin(dn_net *, const char *function, int given, struct err *);
/* Opens a program for inference that keeps the output of a layer (-1: of none) if that is not open yet, and
 * brings it up to date. */
int open_inference(dn_net *, int layer, struct inference **, struct err *);
void changed_weights(dn_net *);

#endif
