/* Darknet's text format: sections of key=value lines. Knows nothing of layers.
 *
 * Rules (as the Darknets read them, plus CRLF and byte-order marks): all blanks in a line are dropped, and a
 * comment, from `#` or a `;` after a blank on, also after a value; `[name]` opens a section; the first '='
 * ends the key; of duplicate keys the first wins. */
#ifndef CORE_CFG_H
#define CORE_CFG_H
#include <stddef.h>
#include "err.h"

struct cfg_entry {
    const char *key, *value;
    int line; /* 0: set from the command line */
    int used; /* somebody asked for it */
};
struct cfg_section {
    const char *name; /* without brackets */
    int line;
    struct cfg_entry *entry;
    int n;
};
struct cfg {
    char *path; /* for messages */
    char *text; /* all strings point into it, or into `extra` */
    char **extra;
    int nextra;
    struct cfg_section *section;
    int n;
};

enum { CFG_BYTES = 16 << 20 }; /* the most that a file may have: a thousand times the longest in use */

/* Reads a file. The first section must be [net] or [network]. */
int cfg_read(struct cfg **, const char *path, struct err *);

/* The same from n bytes of text without a zero byte; `name` stands for the path in messages. */
int cfg_parse(struct cfg **, const char *name, const char *text, size_t n, struct err *);

int cfg_is_net(const char *section); /* [net] by either of its names */

/* Applies "section.key=value" to every section of that name: replaces the key or adds it. */
int cfg_override(struct cfg *, const char *assignment, struct err *);

/* The value of a key, marked as used, or NULL. *line (may be NULL) gets its line. */
const char *cfg_find(struct cfg_section *, const char *key, int *line);

void cfg_free(struct cfg *); /* accepts NULL */

#endif
