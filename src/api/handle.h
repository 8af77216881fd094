/* Private to src/api: what is behind the handle of include/darknet.h. */
#ifndef API_HANDLE_H
#define API_HANDLE_H
#include "darknet.h"
#include "data/image.h"
#include "net/net.h"

/* A program for inference. */
struct inference {
    struct program *program;
    int layer; /* whose output it keeps, or -1 */
    int stale; /* weights have changed since it folded them */
};
enum { PLAIN, KEEPING, KINDS }; /* whether it keeps the output of a layer */

struct dn_net {
    struct backend *be;
    struct net *net;
    struct step_programs training; /* opened first: they own the packing of the weights */
    /* Of one image and of `rows`, since a program always computes as many as it has: opened when they are
     * needed; in nets for inference, that of one image comes first. */
    struct inference single[KINDS], many[KINDS];
    int train, rows; /* as opened */
    int orient;
    enum view view;
    int part; /* mini-batches of this iteration so far */
};

/* Hands a result to the caller. */
int give(int rc, const struct err *, dn_error *);
/* How every call that needs weights begins: opens the first program, which creates the parameters and must be
 * a training program if the net is to learn. given: none of the arguments that must be there is NULL. */
int begin(dn_net *, const char *function, int given, struct err *);
/* A program for so many images that keeps the output of a layer (-1: of none): opened if it is not open yet,
 * and up to date. Stays the handle's. */
int open_inference(dn_net *, int images, int layer, struct program **, struct err *);
void changed_weights(dn_net *);

#endif
