#include "err.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Does a control character begin here: one of ASCII's, or of those that UTF-8 writes as C2 80 to C2 9F? */
static int is_control(const char *s)
{
    const unsigned char c = (unsigned char)*s, next = (unsigned char)s[1];
    return c < ' ' || c == 127 || (c == 0xc2 && next >= 0x80 && next < 0xa0);
}

/* Names and values from files may hold anything; a message is one line and changes no terminal. */
static void make_printable(char *s)
{
    for (; *s; s++) {
        if (!is_control(s)) continue;
        if (*s == '\xc2') *s++ = '?';
        *s = '?';
    }
}

static int put(struct err *e, int code, const char *place, const char *fmt, va_list ap)
{
    if (!e) return code;
    int n = snprintf(e->msg, sizeof e->msg, "%s", place);
    if (n < 0 || (size_t)n >= sizeof e->msg) n = 0;
    vsnprintf(e->msg + n, sizeof e->msg - (size_t)n, fmt, ap);
    make_printable(e->msg);
    return e->code = code;
}

int fail(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put(e, code, "", fmt, ap);
    va_end(ap);
    return code;
}

int fail_at(struct err *e, int code, const char *file, int line, const char *fmt, ...)
{
    char place[240], number[16] = "";
    size_t length = strlen(file), head = 60, end = 137;
    int cut = length > head + 3 + end; /* a long path loses its middle: the differences are at its end */
    if (line > 0) snprintf(number, sizeof number, ":%d", line);
    snprintf(place, sizeof place, "%.*s%s%s%s: ", cut ? (int)head : 200, file, cut ? "..." : "",
             cut ? file + length - end : "", number);
    va_list ap;
    va_start(ap, fmt);
    put(e, code, place, fmt, ap);
    va_end(ap);
    return code;
}

const char *err_text(int code)
{
    switch (code) {
    case OK: return "success";
#define X(name, number, text)                                                                                \
    case name: return text;
        ERR_LIST(X)
#undef X
    }
    return "unknown error";
}

void note(const struct notes *to, const char *fmt, ...)
{
    if (!to || !to->say) return;
    char line[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    make_printable(line);
    to->say(to->ctx, line);
}
