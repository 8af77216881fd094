#include "cores.h"
#include <omp.h>

/* OpenMP counts the cores before it binds the first thread to one of them (OMP_PROC_BIND); asking the system
 * afterwards would give 1. */
int cores(void)
{
    int n = omp_get_num_procs();
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
}
