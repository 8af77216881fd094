/* Text as users write it: any line ending, a byte-order mark, blanks at the ends of lines; numbers; the word
 * that a misspelt one was meant to be. */
#ifndef CORE_TEXT_H
#define CORE_TEXT_H
#include <stddef.h>

/* Walks the lines of a text in place. Each line comes without its ending and without blanks at both ends;
 * a byte-order mark is skipped. NULL at the end. Lines that are empty are returned too: callers skip them. */
struct lines {
    char *next;
    int number; /* of the line returned last, from 1 */
};
void lines_open(struct lines *, char *text);
char *lines_next(struct lines *);

/* Cuts blanks off both ends, in place. */
char *text_trim(char *);

/* Is it UTF-8: neither cut or overlong, nor of surrogates? */
int text_is_utf8(const char *);

/* strtod in the C locale: a program that links this library may use another, in which 0.1 is written 0,1. */
double text_number(const char *s, char **end);

/* The name, a or b (NULL: none), that is nearer to `word`, or NULL if neither is near enough to be meant. To
 * find the nearest of a list, call it with each name as b and what it returned last as a. */
const char *text_nearer(const char *word, const char *a, const char *b);

/* "; did you mean NAME?" with `before` and `after` around the name, or "" without one. */
struct hint {
    char text[100];
};
struct hint text_hint(const char *before, const char *near, const char *after);

/* printf into memory of its own, or NULL (release with mem_free): paths and names put together. */
char *text_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
