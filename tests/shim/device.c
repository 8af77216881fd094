/* The cuda backend's device on the host, for make GPU=host: memory is host memory, streams are queue.c's. */
#include "backend/cuda/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "backend/cuda/kernel.h"
#include "order.h"
#include "queue.h"

_Thread_local int kernel_order;
_Thread_local long device_calls, device_fails, device_syncs, device_launches;
_Thread_local int device_records, device_major = 9;
static _Thread_local int recording;

/* ---- counting ---- */

enum { COUNTS = 200, IDLE_ZEROS = 1 << 20 };

static struct {
    const char *what;
    long n;
} counts[COUNTS];
static const char *counts_path; /* NULL: nobody asks */
static int idle;

__attribute__((constructor)) static void begin_counts(void)
{
    counts_path = getenv("SHIM_COUNTS");
    idle = getenv("SHIM_IDLE") != NULL;
    if (getenv("SHIM_RECORDS")) device_records = RECORDS;
}

void device_count(const char *what)
{
    int i = 0;
    while (counts_path && i < COUNTS && counts[i].what && strcmp(counts[i].what, what)) i++;
    if (!counts_path || i == COUNTS) return;
    counts[i].what = what;
    counts[i].n++;
}

__attribute__((destructor)) static void end_counts(void)
{
    FILE *f = counts_path ? fopen(counts_path, "a") : NULL;
    for (int i = 0; f && i < COUNTS && counts[i].what; i++)
        fprintf(f, "%ld %s\n", counts[i].n, counts[i].what);
    if (f) fclose(f);
}

/* ---- the device ---- */

static int recordable_call(void)
{
    device_count("call");
    device_calls++;
    return device_fails && device_calls >= device_fails ? E_DEVICE : OK;
}

/* A call that a recording may not contain. */
static int call(void)
{
    int rc = recordable_call();
    return recording ? E_DEVICE : rc;
}

int shim_launch(const char *name)
{
    device_count(name);
    device_calls++;
    return device_fails && device_calls >= device_fails ? E_DEVICE : recording == RECORDS_IN_VAIN || idle;
}

static int told(int rc, const char *what, struct err *e)
{
    return rc ? fail(e, rc, "%s: a failure that was asked for", what) : OK;
}

int dev_open(int index, stream_t *stream, struct dev_info *info, struct err *e)
{
    *stream = NULL;
    const char *gpus = getenv("SHIM_GPUS");
    const int n = gpus ? atoi(gpus) : 1;
    if (index >= n)
        return fail(e, E_DEVICE, "cuda:%d: there %s %d GPU%s, from cuda:0 on", index, n == 1 ? "is" : "are",
                    n, n == 1 ? "" : "s");
    TRY(told(call(), "opening the GPU", e));
    device_count("open");
    *info = (struct dev_info){ "kernels on the host", device_major, 0, 4, { (unsigned char)index } };
    return told(shim_stream(stream, 1), "making a stream", e);
}
void dev_use(int index) { (void)index; }
int dev_stream(stream_t *stream, struct err *e)
{
    *stream = NULL;
    TRY(told(call(), "making a stream", e));
    return told(shim_stream(stream, 0), "making a stream", e);
}
void dev_close(stream_t s) { shim_stream_close(s); }

size_t dev_free_bytes(void) { return mem_free_bytes(); }

/* What memory is full of: nobody may count on zeros. Idle: zeros, except where that would take long. */
static void fill(void *p, size_t bytes)
{
    if (!idle)
        memset(p, 0xff, bytes);
    else if (bytes < IDLE_ZEROS)
        memset(p, 0, bytes);
}

int dev_alloc(void **out, size_t bytes, struct err *e)
{
    *out = NULL;
    TRY(told(call(), "asking for GPU memory", e));
    if (posix_memalign(out, 256, bytes ? bytes : 1))
        return fail(e, E_MEM, "the GPU has no %zu MiB left: lower batch or raise subdivisions", bytes >> 20);
    fill(*out, bytes);
    return OK;
}
/* As the runtime: once nothing runs that could use it. */
void dev_free(void *p)
{
    if (p) shim_finish_all();
    free(p);
}

int dev_pin(void **out, size_t bytes, struct err *e)
{
    *out = NULL;
    TRY(told(call(), "asking for pinned memory", e));
    *out = mem_alloc(bytes, 1);
    return *out ? OK : fail(e, E_MEM, "no memory for %zu pinned bytes", bytes);
}
void dev_unpin(void *p)
{
    if (p) shim_finish_all();
    mem_free(p);
}

struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    size_t n;
};
static void do_copy(const void *args)
{
    const struct copy *c = args;
    if (c->from)
        memcpy(c->to, c->from, c->n);
    else
        memset(c->to, 0, c->n);
}

int dev_copy(stream_t s, void *to, const void *from, size_t n)
{
    TRY(call());
    return shim_enqueue(s, do_copy, &(struct copy){ to, from, n }, sizeof(struct copy));
}
int dev_zero(stream_t s, void *p, size_t n)
{
    TRY(recordable_call());
    if (idle || recording == RECORDS_IN_VAIN) return OK;
    return shim_enqueue(s, do_copy, &(struct copy){ p, NULL, n }, sizeof(struct copy));
}

int dev_event(event_t *event, struct err *e)
{
    *event = NULL;
    TRY(told(call(), "making an event", e));
    return told(shim_event(event), "making an event", e);
}
void dev_event_drop(event_t event)
{
    if (event) shim_finish_all();
    shim_event_drop(event);
}
int dev_mark(event_t event, stream_t s)
{
    TRY(recordable_call());
    return recording == RECORDS_IN_VAIN ? OK : shim_mark(event, s);
}
int dev_await(event_t event)
{
    TRY(call());
    shim_await(event);
    return OK;
}
int dev_wait(stream_t s, event_t event)
{
    TRY(recordable_call());
    return recording == RECORDS_IN_VAIN ? OK : shim_wait(s, event);
}

int dev_capture_begin(stream_t s)
{
    (void)s;
    if (!device_records) return E_ARG;
    if (device_records == RECORDS) TRY(shim_record_begin());
    recording = device_records;
    return OK;
}
int dev_capture_end(stream_t s, struct capture **r, struct err *e)
{
    (void)s;
    const int was = recording;
    recording = RECORDS_NOT;
    *r = shim_record_end();
    return was == RECORDS_IN_VAIN ? fail(e, E_DEVICE, "recording a step: not on the host") : OK;
}
int dev_launch(stream_t s, const struct capture *r)
{
    (void)s;
    TRY(call());
    device_launches++;
    return shim_play(r);
}
void dev_capture_destroy(struct capture *r) { shim_forget(r); }
int dev_sync(stream_t s, struct err *e)
{
    device_syncs++;
    TRY(told(call(), "the GPU", e));
    shim_finish(s);
    return OK;
}
