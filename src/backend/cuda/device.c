/* The CUDA runtime. */
#include "device.h"
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RESERVE = 512 << 20 }; /* bytes that contexts, code and graphs take beside what is asked for */

static int bare(cudaError_t rc)
{
    return rc == cudaSuccess ? OK : rc == cudaErrorMemoryAllocation ? E_MEM : E_DEVICE;
}

static int explain(cudaError_t rc, const char *what, struct err *e)
{
    if (rc == cudaSuccess) return OK;
    return fail(e, bare(rc), "%s: CUDA error %d, %s", what, (int)rc, cudaGetErrorString(rc));
}

/* ---- open and close ---- */

static int no_driver(struct err *e)
{
    int runtime = 0, driver = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    if (!driver)
        return fail(
            e, E_DEVICE,
            "no NVIDIA driver on this machine (CUDA runtime %d.%d): install one, or compute on the CPU "
            "with -nogpu",
            runtime / 1000, runtime % 1000 / 10);
    return fail(
        e, E_DEVICE,
        "the NVIDIA driver is for CUDA %d.%d, this program for %d.%d: update the driver, or compute on the "
        "CPU with -nogpu",
        driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

static int no_device(struct err *e)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return fail(e, E_DEVICE, "the NVIDIA driver finds no GPU%s%.60s%s: compute on the CPU with -nogpu",
                visible ? " (CUDA_VISIBLE_DEVICES is '" : "", visible ? visible : "", visible ? "')" : "");
}

static int check_index(int index, struct err *e)
{
    int n = 0;
    cudaError_t rc = cudaGetDeviceCount(&n);
    if (rc == cudaErrorInsufficientDriver) return no_driver(e);
    if (rc == cudaErrorNoDevice || (rc == cudaSuccess && !n)) return no_device(e);
    if (rc != cudaSuccess) return explain(rc, "looking for GPUs", e);
    if (index < n) return OK;
    return fail(e, E_DEVICE, "cuda:%d: there %s %d GPU%s, from cuda:0 on", index, n == 1 ? "is" : "are", n,
                n == 1 ? "" : "s");
}

static int describe(int index, struct dev_info *info, struct err *e)
{
    struct cudaDeviceProp p;
    TRY(explain(cudaGetDeviceProperties(&p, index), "reading what the GPU is", e));
    snprintf(info->name, sizeof info->name, "%s", p.name);
    info->major = p.major;
    info->minor = p.minor;
    info->processors = p.multiProcessorCount;
    memcpy(info->uuid, p.uuid.bytes, sizeof info->uuid);
    return OK;
}

int dev_open(int index, stream_t *stream, struct dev_info *info, struct err *e)
{
    *stream = NULL;
    TRY(check_index(index, e));
    TRY(explain(cudaSetDevice(index), "opening the GPU", e));
    TRY(describe(index, info, e));
    return explain(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "making a stream", e);
}

void dev_use(int index) { cudaSetDevice(index); }

int dev_stream(stream_t *stream, struct err *e)
{
    int least, greatest;
    *stream = NULL;
    TRY(explain(cudaDeviceGetStreamPriorityRange(&least, &greatest), "making a stream", e));
    return explain(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, greatest), "making a stream",
                   e);
}

void dev_close(stream_t s)
{
    if (s) cudaStreamDestroy(s);
}

/* ---- memory ---- */

size_t dev_free_bytes(void)
{
    size_t free_bytes = 0, all;
    if (cudaMemGetInfo(&free_bytes, &all) != cudaSuccess) return SIZE_MAX;
    return free_bytes > RESERVE ? free_bytes - RESERVE : 0;
}

int dev_alloc(void **out, size_t bytes, struct err *e)
{
    *out = NULL;
    cudaError_t rc = cudaMalloc(out, bytes ? bytes : 1);
    if (rc == cudaSuccess) return OK;
    cudaGetLastError(); /* or the next check would find it */
    if (rc != cudaErrorMemoryAllocation) return explain(rc, "asking for GPU memory", e);
    return fail(e, E_MEM, "the GPU has no %zu MiB left (%zu are free): lower batch or raise subdivisions",
                bytes >> 20, dev_free_bytes() >> 20);
}

void dev_free(void *p)
{
    if (p) cudaFree(p);
}

int dev_pin(void **out, size_t bytes, struct err *e)
{
    *out = NULL;
    return explain(cudaHostAlloc(out, bytes, cudaHostAllocDefault), "asking for pinned memory", e);
}

void dev_unpin(void *p)
{
    if (p) cudaFreeHost(p);
}

/* ---- the stream ---- */

int dev_copy(stream_t s, void *to, const void *from, size_t n)
{
    return bare(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, s));
}

int dev_zero(stream_t s, void *p, size_t n) { return bare(cudaMemsetAsync(p, 0, n, s)); }

int dev_event(event_t *event, struct err *e)
{
    return explain(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event", e);
}

void dev_event_drop(event_t event)
{
    if (event) cudaEventDestroy(event);
}

int dev_mark(event_t event, stream_t s) { return bare(cudaEventRecord(event, s)); }
int dev_await(event_t event) { return bare(cudaEventSynchronize(event)); }
int dev_wait(stream_t s, event_t event) { return bare(cudaStreamWaitEvent(s, event, 0)); }

/* ---- graphs: a struct capture is a cudaGraphExec_t ---- */

int dev_capture_begin(stream_t s)
{
    return bare(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
}

int dev_capture_end(stream_t s, struct capture **out, struct err *e)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaError_t rc = cudaStreamEndCapture(s, &graph);
    if (rc == cudaSuccess) rc = cudaGraphInstantiate(&exec, graph, 0);
    if (rc == cudaSuccess) rc = cudaGraphUpload(exec, s);
    if (graph) cudaGraphDestroy(graph);
    *out = (struct capture *)exec;
    if (rc == cudaSuccess) return OK;
    cudaGetLastError(); /* or the next check would find it */
    dev_capture_destroy(*out);
    *out = NULL;
    return explain(rc, "recording a step", e);
}

int dev_launch(stream_t s, const struct capture *r) { return bare(cudaGraphLaunch((cudaGraphExec_t)r, s)); }

void dev_capture_destroy(struct capture *r)
{
    if (r) cudaGraphExecDestroy((cudaGraphExec_t)r);
}

int dev_sync(stream_t s, struct err *e)
{
    cudaError_t rc = cudaStreamSynchronize(s), last = cudaGetLastError();
    return explain(rc == cudaSuccess ? last : rc, "the GPU", e);
}
