/* Wall time. */
#ifndef CORE_CLOCK_H
#define CORE_CLOCK_H
#include <time.h>

/* Seconds since some fixed point. */
static inline double wall_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
