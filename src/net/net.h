/* A net is what the cfg says: layers with their options (model.h), and the parameters with their gradients
 * and momenta (param.h). Programs (program.h) are what runs. This header brings all that the rest of the tree
 * uses. */
#ifndef NET_NET_H
#define NET_NET_H
#include "core/cfg.h"
#include "net/config.h"
#include "net/model.h"
#include "net/optim.h"
#include "net/param.h"
#include "net/program.h"
#include "net/step.h"
#include "net/weights.h"

struct images_desc;

/* Builds the model: parses options, checks shapes for config.batch. Takes the cfg over (also on failure).
 * Unknown keys are noted, or errors in strict sections. */
int net_open(struct net **, struct cfg *, struct backend *, uint64_t seed, const struct notes *,
             struct err *);
void net_close(struct net *); /* after its programs; accepts NULL */

/* Keeps images on the device, if it can: steps may then name images and how to move them, instead of bringing
 * pixels. *kept: 0 where it cannot, or where they would leave too little memory. */
int net_keep_images(struct net *, const struct images_desc *, int *kept, struct err *);

/* Prepares for images of training steps that lie in memory the device reads by itself: those of a step may
 * then be on their way while the one before is computed. *open: 0 where a device takes them at once, as it
 * does from any other memory; else steps say with `sent` that their images lie there. */
int net_open_feed(struct net *, int *open, struct err *);
void net_close_feed(struct net *); /* once its memory is freed */
int net_feed_alloc(struct net *, size_t bytes, void **, struct err *);
void net_feed_free(struct net *, void *); /* waits for the device to have read it; accepts NULL */
/* Waits until the device has read the images of step `number`, one of the latest two. */
int net_feed_await(struct net *, uint64_t number, struct err *);

#endif
