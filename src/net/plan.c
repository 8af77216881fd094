#include "plan.h"
#include <stdint.h>
#include <stdlib.h>
#include "core/mem.h"

enum { ALIGN = 64 };

static int by_size(const void *a, const void *b)
{
    const struct plan_item *x = *(const struct plan_item *const *)a, *y = *(const struct plan_item *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y; /* a fixed order: the same plan in every run */
}

static int meet(const struct plan_item *a, const struct plan_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The smallest gap that holds the item between those that are alive with it, or the end. placed: sorted by
 * offset. */
static size_t best_gap(const struct plan_item *item, struct plan_item *const *placed, int n)
{
    size_t end = 0, best = SIZE_MAX, best_size = SIZE_MAX;
    for (int i = 0; i < n; i++) {
        const struct plan_item *x = placed[i];
        if (!meet(item, x)) continue;
        if (x->at > end && x->at - end >= item->bytes && x->at - end < best_size) {
            best = end;
            best_size = x->at - end;
        }
        if (x->at + x->bytes > end) end = x->at + x->bytes;
    }
    return best == SIZE_MAX ? end : best;
}

/* The first `n` are placed and sorted by offset; the rest are sorted by size. */
static int place_next(struct plan_item **item, int n, size_t *total)
{
    struct plan_item *next = item[n];
    size_t end;
    next->at = best_gap(next, item, n);
    if (mem_add(next->at, next->bytes, &end)) return 1;
    if (end > *total) *total = end;
    for (; n && item[n - 1]->at > next->at; n--) item[n] = item[n - 1];
    item[n] = next;
    return 0;
}

int plan_arena(struct plan_item *item, int n, size_t *total)
{
    *total = 0;
    if (n <= 0) return 0;
    struct plan_item **order = mem_alloc((size_t)n, sizeof *order);
    if (!order) return 1;
    int m = 0, bad = 0;
    for (int i = 0; i < n; i++) {
        item[i].at = 0;
        if (!item[i].bytes) continue;
        bad |= item[i].bytes > SIZE_MAX - ALIGN;
        item[i].bytes = (item[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
        order[m++] = &item[i];
    }
    qsort(order, (size_t)m, sizeof *order, by_size);
    for (int i = 0; i < m && !bad; i++) bad = place_next(order, i, total);
    mem_free(order);
    return bad;
}
