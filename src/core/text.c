#include "text.h"
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mem.h"

/* ---- lines ---- */

static int is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

char *text_trim(char *s)
{
    while (is_blank(*s)) s++;
    size_t n = strlen(s);
    while (n && is_blank(s[n - 1])) n--;
    s[n] = 0;
    return s;
}

void lines_open(struct lines *l, char *text)
{
    l->next = strncmp(text, "\xef\xbb\xbf", 3) ? text : text + 3;
    l->number = 0;
}

char *lines_next(struct lines *l)
{
    char *line = l->next;
    if (!*line) return NULL;
    char *end = line + strcspn(line, "\r\n");
    if (*end) {
        char *feed = end + strspn(end, "\r"); /* any number of CR before LF is one ending, as is a CR alone */
        l->next = (*feed == '\n' ? feed : end) + 1;
        *end = 0;
    } else {
        l->next = end;
    }
    l->number++;
    return text_trim(line);
}

/* ---- numbers ---- */

double text_number(const char *s, char **end)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = c ? uselocale(c) : (locale_t)0;
    double v = strtod(s, end);
    if (!c) return v;
    uselocale(before);
    freelocale(c);
    return v;
}

/* ---- did you mean ---- */

enum { WORD = 64 };

/* Edit distance with swaps of neighbours as one edit ("vaild"); a and b shorter than WORD. */
static size_t distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b), row[3][WORD];
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t d = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < d) d = last[j] + 1;
            if (now[j - 1] + 1 < d) d = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < d)
                d = before[j - 2] + 1;
            now[j] = d;
        }
    }
    return row[n % 3][m];
}

const char *text_nearest(const char *word, const void *names, size_t n, size_t stride)
{
    size_t length = strlen(word), best = length / 3 > 1 ? length / 3 : 1;
    const char *nearest = NULL;
    if (length >= WORD) return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *name;
        memcpy(&name, (const char *)names + i * stride, sizeof name);
        if (!name) break;
        if (strlen(name) >= WORD) continue;
        int beginning = length > 2 && !strncmp(word, name, length);
        size_t d = beginning ? 1 : distance(word, name);
        if (d < best || (d == best && !nearest)) {
            best = d;
            nearest = name;
        }
    }
    return nearest;
}

/* ---- writing ---- */

char *text_format(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *p = n < 0 ? NULL : mem_alloc((size_t)n + 1, 1);
    va_start(ap, fmt);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}
