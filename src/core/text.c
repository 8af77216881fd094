#include "text.h"
#include <locale.h>
#include <stdarg.h>
#include <stdint.h>
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

int text_is_utf8(const char *s)
{
    static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
    for (const unsigned char *p = (const unsigned char *)s; *p; p++) {
        const int more = *p < 0x80 ? 0 : *p >> 5 == 6 ? 1 : *p >> 4 == 14 ? 2 : *p >> 3 == 30 ? 3 : -1;
        if (more < 0) return 0;
        uint32_t c = more ? *p & 0x3fu >> more : *p;
        for (int i = 0; i < more; i++) {
            if ((*++p & 0xc0) != 0x80) return 0;
            c = c << 6 | (*p & 0x3f);
        }
        if (c < least[more] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff) return 0;
    }
    return 1;
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

/* The edit distance of a name that `word` may misspell, with at most a third of its letters (at least 1)
 * wrong; else SIZE_MAX. */
static size_t distance_if_meant(const char *word, const char *name)
{
    size_t length = strlen(word), most = length / 3 > 1 ? length / 3 : 1;
    if (!name || length >= WORD || strlen(name) >= WORD) return SIZE_MAX;
    int beginning = length > 2 && !strncmp(word, name, length);
    size_t d = beginning ? 1 : distance(word, name);
    return d <= most ? d : SIZE_MAX;
}

const char *text_nearer(const char *word, const char *a, const char *b)
{
    size_t to_a = distance_if_meant(word, a), to_b = distance_if_meant(word, b);
    return to_b < to_a ? b : to_a < SIZE_MAX ? a : NULL;
}

struct hint text_hint(const char *before, const char *near, const char *after)
{
    struct hint h = { "" };
    if (near) snprintf(h.text, sizeof h.text, "; did you mean %s%s%s?", before, near, after);
    return h;
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
