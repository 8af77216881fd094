/* How many threads are worth having. */
#ifndef CORE_CORES_H
#define CORE_CORES_H

/* The most that anybody may ask for: starting many more fails halfway through. */
enum { MOST_THREADS = 1024 };

/* Cores that this process may use (taskset, cpusets of containers and batch systems): 1..MOST_THREADS. */
int cores(void);

#endif
