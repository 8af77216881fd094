/* How many threads are worth having. */
#ifndef CORE_CORES_H
#define CORE_CORES_H

/* Cores that this process may use (taskset, cpusets of containers and batch systems), at least 1. */
int cores(void);

#endif
