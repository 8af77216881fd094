/* Errors are values: a function that can fail returns OK or a negative code and fills the caller's struct
 * err. Nothing below main.c prints or exits. */
#ifndef CORE_ERR_H
#define CORE_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

#define ERR_LIST(X)                                                                                          \
    X(E_ARG, -1, "bad argument")                                                                             \
    X(E_CFG, -2, "bad configuration")                                                                        \
    X(E_FILE, -3, "file cannot be read or written")                                                          \
    X(E_FORMAT, -4, "bad file contents")                                                                     \
    X(E_MEM, -5, "not enough memory")                                                                        \
    X(E_DEVICE, -6, "device failure")                                                                        \
    X(E_NUMBER, -7, "a number is not finite")                                                                \
    X(E_GROUP, -8, "another process of this training does not answer any more")

enum {
    OK = 0,
#define X(name, code, text) name = code,
    ERR_LIST(X)
#undef X
};

struct err {
    int code;      /* OK or one of the above */
    char msg[480]; /* one line for the user: place, what was found, what was expected, what to do */
};

/* Fills *e (NULL is allowed) and returns `code`. Call it once, where the fact is known; callers pass the code
 * on. */
int fail(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As fail, with "file:line: " in front (line 0: the file alone). */
int fail_at(struct err *e, int code, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Says what a code means in general, for callers that have no struct err. */
const char *err_text(int code);

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        int rc_ = (call);                                                                                    \
        if (rc_) return rc_;                                                                                 \
    } while (0)

/* Where warnings and other remarks for the user go, since the library itself prints nothing. say may be
 * NULL. */
struct notes {
    void (*say)(void *ctx, const char *line);
    void *ctx;
};
void note(const struct notes *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
