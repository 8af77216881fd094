/* What the other Darknets know and this one does not: keys and sections of pjreddie's and AlexeyAB's parsers.
 * A cfg must not silently become another net, or be trained by another optimiser. */
#ifndef NET_STOCK_H
#define NET_STOCK_H
#include "core/cfg.h"

enum stock_verdict {
    STOCK_REFUSED, /* another net or another optimiser; `advice` says what to do */
    STOCK_MISSED,  /* training goes on without; `advice` says without what */
    STOCK_NOTHING, /* no effect on a classifier, or on its result */
};

struct stock_key {
    const char *section; /* canonical name; "": every section of a layer */
    const char *name;
    enum stock_verdict verdict;
    double neutral; /* the value at which the key does nothing; the word "none" is another */
    const char *advice;
};

struct stock_section {
    const char *name, *reason;
};

extern const struct stock_key stock_keys[];         /* up to a NULL name */
extern const struct stock_section stock_sections[]; /* up to a NULL name */

/* Goes through all keys of a cfg that the other Darknets have and this one lacks, and marks them as used. A
 * key that would make another net, or train it by another optimiser, is an error that says what to do
 * (E_CFG), unless it has the value at which it does nothing. One that asks for a training aid that is missing
 * is noted. Those without effect on a classifier are noted together, in one line. */
int stock_check(struct cfg *, const struct notes *, struct err *);

/* Why a section that the other Darknets know is not supported, or NULL if none of them knows it.
 * name: without brackets. */
const char *stock_section(const char *name);

#endif
