/* What net, data file and images have to do with one another before a run. */
#ifndef TRAIN_SETUP_H
#define TRAIN_SETUP_H
#include <limits.h>
#include "data/augment.h"
#include "data/dataset.h"
#include "net/net.h"

/* The augmentation as the [net] section asks for it; an error for a net that takes no images. */
int augment_from_net(const struct net *, struct augment *, struct err *);
/* The input of the net, c x h x w, of a picture with as many planes: as the view shows it, normalised. */
int input_from_picture(const struct net *, const struct augment *, enum view, const struct picture *,
                       float *x, struct err *);

/* An error unless the net has as many outputs as the data file has classes. */
int data_fits_net(const struct data_file *, const struct net *, struct err *);
/* dataset_open, and a look whether the images of a list are there. */
int setup_images(struct dataset **, const struct data_file *, enum split, const struct notes *, struct err *);
/* Loader threads: those asked for, or (0) as many as are of use. */
int setup_workers(int asked);
/* The name of a run's files: the cfg's without folders, up to the first dot. Darknet's rule. */
void setup_base(const char *cfg, char base[NAME_MAX + 1]);

#endif
