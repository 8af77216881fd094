/* Which samples of a dataset were found to be so. */
#ifndef DATA_TALLY_H
#define DATA_TALLY_H
#include <stdint.h>
#include "group/group.h"

struct tally {
    uint8_t *bit, *joined; /* of each sample: counted; counted by every process of the group */
    int samples, n;        /* n: so many are counted */
};

int tally_open(struct tally *, int samples); /* OK or E_MEM; close it either way */
void tally_close(struct tally *);
int tally_add(struct tally *, int sample); /* whether it was not counted before */
/* All processes of a group call it: each then counts what any has counted. */
int tally_join(struct tally *, struct group *);

#endif
