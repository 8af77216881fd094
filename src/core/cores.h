/* How many threads are worth having. */
#ifndef CORE_CORES_H
#define CORE_CORES_H

/* What anybody may ask for: with many more, starting them fails in the middle of work. */
enum { MOST_THREADS = 1024 };

/* Cores that this process may use (taskset, cpusets of containers and batch systems): 1..MOST_THREADS. */
int cores(void);

#endif
