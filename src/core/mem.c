#define _DEFAULT_SOURCE /* madvise */
#include "mem.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGN     ((size_t)64)
#define HUGE_PAGE ((size_t)1 << 21)

int mem_mul(size_t a, size_t b, size_t *out) { return __builtin_mul_overflow(a, b, out); }
int mem_add(size_t a, size_t b, size_t *out) { return __builtin_add_overflow(a, b, out); }

void *mem_alloc(size_t count, size_t size)
{
    size_t n;
    if (mem_mul(count, size, &n) || n > SIZE_MAX - HUGE_PAGE) return NULL;
    n = (n + ALIGN) / ALIGN * ALIGN; /* never 0, and a multiple of the alignment as C11 asks */
    if (n < 2 * HUGE_PAGE) {
        void *p = aligned_alloc(ALIGN, n);
        return p ? memset(p, 0, n) : NULL;
    }
    /* Tensors: huge pages make a training step a few per cent faster. Where the system has none, nothing is
     * lost. */
    n = (n + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, n);
    if (!p) return NULL;
    madvise(p, n, MADV_HUGEPAGE);
    return memset(p, 0, n);
}

void mem_free(void *p) { free(p); }

char *mem_text(const char *text, size_t n)
{
    char *p = mem_alloc(n + 1, 1);
    return p ? memcpy(p, text, n) : NULL;
}

size_t mem_free_bytes(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f) return SIZE_MAX;
    char line[128];
    unsigned long long kib = 0;
    int found = 0;
    while (!found && fgets(line, sizeof line, f)) found = sscanf(line, "MemAvailable: %llu", &kib) == 1;
    fclose(f);
    return found && kib < SIZE_MAX / 1024 ? (size_t)kib * 1024 : SIZE_MAX;
}
