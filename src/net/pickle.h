/* Python's pickles, read: as much of their language as plain data needs, of protocols 2 and 3. Nothing that
 * they ask for is imported or called: a call stays a value, of what was to be called and of what with. */
#ifndef NET_PICKLE_H
#define NET_PICKLE_H
#include <stddef.h>
#include <stdint.h>
#include "core/err.h"

enum pickle_kind {
    PICKLE_OTHER,  /* None, truth values, floats */
    PICKLE_NUMBER, /* whole */
    PICKLE_TEXT,   /* also bytes */
    PICKLE_NAME,   /* of a class or function: "module\nname" */
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,       /* items: key, value, key, value ...; collections.OrderedDict() too */
    PICKLE_CALL,       /* items: what, a tuple of arguments */
    PICKLE_PERSISTENT, /* items: what tells, beside the pickle, where an object is */
    PICKLE_MARK        /* private to pickle.c */
};

struct pickle_value {
    enum pickle_kind kind;
    int64_t number;
    char
        *text; /* in the bytes that were read: not ended by a 0, but its next byte is not part of any other */
    size_t length;
    size_t first, last; /* items: a list of cells; 0: none */
};

/* Values are told by their place in value[]; 0 is None. */
struct pickle_cell {
    size_t value, next; /* next: 0: the last one */
};

struct pickle {
    struct pickle_value *value;
    struct pickle_cell *cell;
    size_t n, ncells;
    size_t top;  /* the value that it all is */
    size_t used; /* bytes */
};

/* The pickle that the bytes begin with, which must outlive it. path: for messages. pickle_close also after a
 * failure. */
int pickle_read(struct pickle *, const char *path, char *bytes, size_t n, struct err *);
void pickle_close(struct pickle *);

/* The i-th item of a value, or 0. Walks there: for short ones. */
size_t pickle_item(const struct pickle *, size_t value, size_t i);
/* Is it this text, or the name of this class or function? */
int pickle_is(const struct pickle *, size_t value, enum pickle_kind, const char *text);

#endif
