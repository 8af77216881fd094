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

static int by_place(const void *a, const void *b)
{
    const struct plan_item *x = *(const struct plan_item *const *)a, *y = *(const struct plan_item *const *)b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int meet(const struct plan_item *a, const struct plan_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The smallest gap between the neighbours (in order of place) that holds the item, or the end. */
static size_t best_gap(const struct plan_item *item, struct plan_item *const *near, int n)
{
    size_t end = 0, best = SIZE_MAX, best_size = SIZE_MAX;
    for (int i = 0; i < n; i++) {
        if (near[i]->at > end && near[i]->at - end >= item->bytes && near[i]->at - end < best_size) {
            best = end;
            best_size = near[i]->at - end;
        }
        if (near[i]->at + near[i]->bytes > end) end = near[i]->at + near[i]->bytes;
    }
    return best == SIZE_MAX ? end : best;
}

static int place(struct plan_item **order, struct plan_item **near, int n, size_t *total)
{
    for (int i = 0; i < n; i++) {
        int m = 0;
        for (int j = 0; j < i; j++)
            if (meet(order[i], order[j])) near[m++] = order[j];
        qsort(near, (size_t)m, sizeof *near, by_place);
        order[i]->at = best_gap(order[i], near, m);
        size_t end;
        if (mem_add(order[i]->at, order[i]->bytes, &end)) return 1;
        if (end > *total) *total = end;
    }
    return 0;
}

int plan_arena(struct plan_item *item, int n, size_t *total)
{
    *total = 0;
    if (n <= 0) return 0;
    struct plan_item **order = mem_alloc((size_t)n * 2, sizeof *order);
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
    if (!bad) bad = place(order, order + n, m, total);
    mem_free(order);
    return bad;
}
