/* What the backend uses of the CUDA runtime: memory, copies, streams. device.c is CUDA;
 * tests/shim/device.c the same on the host, for kernels that run there. Sizes in bytes; codes as everywhere.
 * A bare code: dev_sync tells what happened. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H
#include <stddef.h>
#include "core/err.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *stream_t;
typedef struct CUevent_st *event_t;

struct dev_info {
    char name[256];
    int major, minor;       /* compute capability */
    int processors;         /* streaming multiprocessors */
    unsigned char uuid[16]; /* no other card has it */
};

/* Takes the device for this thread and makes a stream. E_DEVICE says which of driver, device, runtime is
 * missing or too old, and what to do. */
int dev_open(int index, stream_t *, struct dev_info *, struct err *);
/* Makes a device that is open that of the calling thread: a process may have several, and move them between
 * its threads. */
void dev_use(int index);
/* Another stream of the device that is this thread's: its work goes first. */
int dev_stream(stream_t *, struct err *);
void dev_close(stream_t);    /* accepts NULL */
size_t dev_free_bytes(void); /* bytes that are free, less what the runtime itself will want */

/* Device memory, aligned to 256 bytes. */
int dev_alloc(void **, size_t, struct err *);
void dev_free(void *); /* accepts NULL */
/* Host memory that copies can read and write while the host goes on, and kernels too, at the same address. */
int dev_pin(void **, size_t, struct err *);
void dev_unpin(void *); /* accepts NULL */

/* In the order of the stream, while the host goes on. */
int dev_copy(stream_t, void *to, const void *from, size_t); /* between device and pinned memory, any way */
int dev_zero(stream_t, void *, size_t);

/* A mark in the stream; waiting for one that was never put there returns at once. */
int dev_event(event_t *, struct err *);
void dev_event_drop(event_t); /* accepts NULL */
int dev_mark(event_t, stream_t);
int dev_await(event_t);
int dev_wait(stream_t, event_t); /* the stream waits instead of the host */

/* What is enqueued between the two becomes a graph instead of running; E_ARG: this device has none.
 * dev_capture_end also ends what failed. */
struct capture;
int dev_capture_begin(stream_t);
int dev_capture_end(stream_t, struct capture **, struct err *);
int dev_launch(stream_t, const struct capture *);
void dev_capture_destroy(struct capture *); /* accepts NULL */

int dev_sync(stream_t, struct err *); /* waits, and tells what failed since the last call */

#ifdef __cplusplus
}
#endif
#endif
