#include "label.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "core/mem.h"

/* ---- the class of a path ---- */

/* Whether `label` stands in `text` between _ - . / or the ends. */
static int is_token(const char *text, const char *label)
{
    size_t n = strlen(label);
    for (const char *p = text; (p = strstr(p, label)); p++)
        if ((p == text || strchr("_-./", p[-1])) && strchr("_-./", p[n]))
            return 1; /* strchr finds the final 0 too */
    return 0;
}

/* Those in the file name come first, then whole tokens, then the longest. */
static size_t rank_of(const char *path, const char *label)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t in_name = strstr(name, label) != NULL, token = (size_t)is_token(in_name ? name : path, label);
    return (in_name * 2 + token) << 32 | strlen(label);
}

int label_of(const char *path, char *const *labels, int n)
{
    size_t best = 0;
    int found = -1;
    for (int k = 0; k < n; k++) {
        if (!strstr(path, labels[k])) continue;
        size_t rank = rank_of(path, labels[k]);
        if (found == -1 || rank > best) {
            best = rank;
            found = k;
        } else if (rank == best && found >= 0) {
            found = -2 - found;
        }
    }
    return found;
}

/* ---- finding the labels that occur in a path, among thousands, for a million paths ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct label_entry *)a)->text, ((const struct label_entry *)b)->text);
}

void label_finder_close(struct label_finder *f)
{
    mem_free(f->sorted);
    mem_free(f->seen);
    mem_free(f->hit);
    mem_free(f->hit_class);
}

int label_finder_open(struct label_finder *f, char *const *label, int n, struct err *e)
{
    size_t count = (size_t)n;
    memset(f, 0, sizeof *f);
    f->n = n;
    f->sorted = mem_alloc(count, sizeof *f->sorted);
    f->seen = mem_alloc(count, sizeof *f->seen);
    f->hit = mem_alloc(count, sizeof *f->hit);
    f->hit_class = mem_alloc(count, sizeof *f->hit_class);
    if (!f->sorted || !f->seen || !f->hit || !f->hit_class) {
        label_finder_close(f);
        return fail(e, E_MEM, "not enough memory for %d labels", n);
    }
    for (int k = 0; k < n; k++) f->sorted[k] = (struct label_entry){ label[k], k };
    qsort(f->sorted, count, sizeof *f->sorted, by_text);
    for (int k = 0; k < n; k++) f->first[(unsigned char)f->sorted[k].text[0] + 1]++;
    for (int b = 0; b < 256; b++) f->first[b + 1] += f->first[b];
    return OK;
}

static void take(struct label_finder *f, const struct label_entry *x)
{
    if (f->seen[x->k] == f->searches) return;
    f->seen[x->k] = f->searches;
    f->hit[f->nhit] = x->text;
    f->hit_class[f->nhit++] = x->k;
}

/* The first of sorted[lo..hi) whose byte `at` is not below b. */
static int bound(const struct label_finder *f, int lo, int hi, size_t at, int b)
{
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if ((unsigned char)f->sorted[mid].text[at] < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* At each place of the path, narrows the sorted labels byte by byte to those that start there. */
void label_search(struct label_finder *f, const char *path)
{
    f->nhit = 0;
    f->searches++;
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        int lo = f->first[*p], hi = f->first[*p + 1];
        for (size_t at = 1; lo < hi; at++) {
            while (lo < hi && !f->sorted[lo].text[at]) take(f, &f->sorted[lo++]);
            if (!p[at]) break;
            lo = bound(f, lo, hi, at, p[at]);
            hi = bound(f, lo, hi, at, p[at] + 1);
        }
    }
}

/* ---- labels that nobody writes so into a path ---- */

/* Whether n bytes occur in a path, in small or capital letters. */
static int occurs(const char *path, const char *text, size_t n)
{
    for (; n && *path; path++)
        if (!strncasecmp(path, text, n)) return 1;
    return 0;
}

static const char *dialect(const char *label, const char *path)
{
    const size_t n = strlen(label), first = strcspn(label, " \t,;");
    const char *rest = label + first + strspn(label + first, " \t,;");
    if (n > 2 && strchr("\"'", *label) && label[n - 1] == *label && occurs(path, label + 1, n - 2))
        return "is in quotes: write the labels without them";
    if (first && *rest && label[strspn(label, "n0123456789")] == label[first] &&
        (occurs(path, rest, strlen(rest)) || (*label == 'n' && occurs(path, label, first))))
        return "has a number before it, or a name behind: a label is the one word that stands in the paths";
    return occurs(path, label, n) ? "differs in capitals: write it as in the paths" : NULL;
}

const char *label_dialect(const struct label_finder *f, const char *path, const char **label)
{
    const char *wrong = NULL;
    for (int i = 0; !wrong && i < f->n; i++) wrong = dialect(*label = f->sorted[i].text, path);
    return wrong;
}

int label_find_twice(const struct label_finder *f, int *first, int *second)
{
    for (int i = 1; i < f->n; i++) {
        const struct label_entry *a = &f->sorted[i - 1], *b = &f->sorted[i];
        if (strcmp(a->text, b->text)) continue;
        *first = a->k < b->k ? a->k : b->k;
        *second = a->k < b->k ? b->k : a->k;
        return 1;
    }
    return 0;
}
