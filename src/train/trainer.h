/* The training loop: mini-batches, updates, validation, checkpoints, metrics. No argv, no printing of its
 * own: what a person should see goes through the hooks, and warnings through the notes of the net. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H
#include "data/dataset.h"
#include "net/net.h"
#include "train/evaluate.h"
#include "train/report.h"
#include "train/setup.h"

/* Runs to max_batches. net is open; train and valid are open datasets (valid NULL: no validation). With
 * weights or a state that are there already, it notes so and returns OK without writing weights. One run at a
 * time may write into a backup folder under one base. */
int trainer_run(struct net *, const struct data_file *, const struct dataset *train,
                const struct dataset *valid, const struct train_options *, const struct train_hooks *,
                struct err *);

#endif
