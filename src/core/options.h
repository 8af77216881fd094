/* Options as data: a table of keys fills a struct, checks ranges, and is what `darknet help` prints. */
#ifndef CORE_OPTIONS_H
#define CORE_OPTIONS_H
#include <stddef.h>
#include "cfg.h"

enum key_type {
    KEY_INT,    /* int */
    KEY_REAL,   /* double */
    KEY_WORD,   /* int: index into `words` */
    KEY_EITHER, /* double: -1 - index into `words`, or a number >= 0 in [min, max] */
    KEY_LIST,   /* struct list: numbers separated by commas */
    KEY_REFS, /* struct list of layers: negative numbers count back from this layer, others from the first */
};

/* A list stays text, checked when read; its numbers are parsed on access. The text belongs to the cfg. */
struct list {
    const char *text;
    int n; /* 0: not given */
};
double list_at(const struct list *, int i);

struct key {
    const char *name;
    enum key_type type;
    size_t at;                /* offset in the struct */
    double fallback;          /* default value; for words the index, for lists unused */
    double min, max;          /* of a number, or of each item of a list */
    const char *const *words; /* NULL-terminated */
    const char *help;
};

/* clang-format off */
#define INT_KEY(T, f, d, lo, hi, help)    { #f, KEY_INT, offsetof(struct T, f), d, lo, hi, NULL, help }
#define REAL_KEY(T, f, d, lo, hi, help)   { #f, KEY_REAL, offsetof(struct T, f), d, lo, hi, NULL, help }
#define WORD_KEY(T, f, d, words, help)    { #f, KEY_WORD, offsetof(struct T, f), d, 0, 0, words, help }
#define EITHER_KEY(T, f, d, lo, hi, w, h) { #f, KEY_EITHER, offsetof(struct T, f), d, lo, hi, w, h }
#define REFS_KEY(T, f, help) { #f, KEY_REFS, offsetof(struct T, f), 0, -(1 << 20), 1 << 20, NULL, help }
#define LIST_KEY(T, f, lo, hi, help)      { #f, KEY_LIST, offsetof(struct T, f), 0, lo, hi, NULL, help }
/* clang-format on */

/* Fills `self` from a section through a table that ends with a NULL name. Several tables may fill several
 * structs from one section: call it for each, then options_unused. */
int options_fill(void *self, const struct key *keys, const char *path, struct cfg_section *, struct err *);

/* Every key that no table knew: a warning with "did you mean", or an error when `strict`.
 * tables: NULL-terminated list of the tables that were used. */
int options_unused(const struct key *const *tables, int strict, const char *path, const struct cfg_section *,
                   const struct notes *, struct err *);

/* One line of help for a key: its type or words, range and default, into buf. */
void options_describe(const struct key *, char *buf, size_t size);

#endif
