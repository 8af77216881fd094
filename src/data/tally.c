#include "tally.h"
#include <string.h>
#include "core/mem.h"

static size_t bytes_of(const struct tally *t) { return (size_t)t->samples / 8 + 1; }

int tally_open(struct tally *t, int samples)
{
    *t = (struct tally){ .samples = samples };
    t->bit = mem_alloc(bytes_of(t), 1);
    t->joined = mem_alloc(bytes_of(t), 1);
    return t->bit && t->joined ? OK : E_MEM;
}

void tally_close(struct tally *t)
{
    mem_free(t->bit);
    mem_free(t->joined);
}

int tally_add(struct tally *t, int sample)
{
    const uint8_t bit = (uint8_t)(1u << sample % 8);
    uint8_t *byte = &t->bit[sample / 8];
    if (*byte & bit) return 0;
    *byte |= bit;
    t->n++;
    return 1;
}

/* The samples that were counted since the last time go to `to`, unless NULL. Returns how many. */
static int list_new(const struct tally *t, int *to)
{
    int n = 0;
    for (int i = 0; i < t->samples; i++) {
        if (!((t->bit[i / 8] & ~t->joined[i / 8]) >> i % 8 & 1)) continue;
        if (to) to[n] = i;
        n++;
    }
    return n;
}

static int exchange(struct tally *t, struct group *g, int *count, int *found)
{
    int before = 0, all = 0;
    count[group_rank(g)] = list_new(t, NULL);
    TRY(group_gather(g, count, group_size(g), sizeof *count));
    for (int r = 0; r < group_size(g); r++) {
        if (r == group_rank(g)) before = all;
        all += count[r];
    }
    list_new(t, found + before);
    TRY(group_gather_counted(g, found, count, sizeof *found));
    for (int i = 0; i < all; i++) tally_add(t, found[i]);
    memcpy(t->joined, t->bit, bytes_of(t));
    return OK;
}

int tally_join(struct tally *t, struct group *g)
{
    int most = g ? list_new(t, NULL) : 0;
    TRY(group_max(g, &most));
    if (!most) return OK;
    int *count = mem_alloc((size_t)group_size(g), sizeof *count);
    int *found = mem_alloc((size_t)group_size(g) * (size_t)most, sizeof *found);
    int missing = !count || !found, rc = group_max(g, &missing); /* else the others would wait for this one */
    if (!rc) rc = missing ? E_MEM : exchange(t, g, count, found);
    mem_free(found);
    mem_free(count);
    return rc;
}
