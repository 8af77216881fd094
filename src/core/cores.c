#include "cores.h"
#include <omp.h>

/* OpenMP asks the system before it binds the first thread to a core of its own (OMP_PROC_BIND): later there
 * would be one. */
int cores(void)
{
    int n = omp_get_num_procs();
    return n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n;
}
