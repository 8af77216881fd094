#include "cpu.h"
#include <omp.h>
#include <string.h>
#include "core/mem.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static const char *version(void)
{
    return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}

static int cpu_open(struct backend *be, int index, struct err *e)
{
    if (index != 0) return fail(e, E_DEVICE, "cpu:%d: there is one cpu device, cpu:0", index);
    struct cpu *cpu = mem_alloc(1, sizeof *cpu);
    if (!cpu) return fail(e, E_MEM, "no memory to open device cpu");
    cpu->threads = be->threads;
    int rc = onednn_open(cpu, e);
    if (rc) {
        mem_free(cpu);
        return rc;
    }
    be->self = cpu;
    return OK;
}

static void cpu_close(struct backend *be)
{
    onednn_close(be->self);
    mem_free(be->self);
    be->self = NULL;
}

/* ---- work shared between threads ---- */

void cpu_share(const struct cpu *cpu, size_t n, size_t grain, void (*fn)(void *ctx, size_t from, size_t to),
               void *ctx)
{
    size_t parts = (n + grain - 1) / grain, threads = (size_t)cpu->threads;
    if (threads > parts) threads = parts;
    if (threads <= 1) {
        if (n) fn(ctx, 0, n);
        return;
    }
#pragma omp parallel num_threads((int)threads)
    {
        /* Fewer threads than asked for may come: the bounds stay those of `threads`. */
        for (size_t t = (size_t)omp_get_thread_num(); t < threads; t += (size_t)omp_get_num_threads()) {
            size_t from = parts * t / threads * grain, to = parts * (t + 1) / threads * grain;
            fn(ctx, from, to < n ? to : n);
        }
    }
}

struct sum {
    const float *x;
    float *y;
};

CPU_CLONES static void add_range(const float *x, float *y, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void add_part(void *ctx, size_t from, size_t to)
{
    const struct sum *k = ctx;
    add_range(k->x + from, k->y + from, to - from);
}

void cpu_accumulate(const struct cpu *cpu, size_t n, const float *x, float *y)
{
    struct sum k = { x, y };
    cpu_share(cpu, n, 4096, add_part, &k);
}

size_t cpu_carve(size_t *end, size_t bytes)
{
    size_t at = *end;
    *end = (at + bytes + 63) / 64 * 64;
    return at;
}

/* ---- memory ---- */

static size_t cpu_free_bytes(struct backend *be)
{
    (void)be;
    return mem_free_bytes();
}

static int cpu_alloc(struct backend *be, size_t bytes, void **out, struct err *e)
{
    (void)be;
    *out = mem_alloc(bytes, 1);
    return *out ? OK
                : fail(e, E_MEM, "not enough memory: %zu MiB asked for; a smaller batch needs less",
                       bytes >> 20);
}

static void cpu_free(struct backend *be, void *p)
{
    (void)be;
    mem_free(p);
}

static int cpu_copy(struct backend *be, void *to, const void *from, size_t bytes)
{
    (void)be;
    memcpy(to, from, bytes);
    return OK;
}

static struct view rows_of(const struct tensor *t, int row)
{
    struct view v = { .format = format_of(t->shape, t->layout) };
    v.data = (float *)t->data + (size_t)row * v.format.row;
    return v;
}

static int in_range(const struct tensor *t, int row, int rows)
{
    return row >= 0 && rows >= 0 && row <= t->shape.n && rows <= t->shape.n - row;
}

static int cpu_read(struct backend *be, const struct tensor *t, int row, int rows, real *host)
{
    if (!in_range(t, row, rows)) return E_ARG;
    struct view from = rows_of(t, row), to = { .format = format_of(t->shape, NULL), .data = host };
    format_copy(cpu_of(be), &to, &from, (size_t)rows, from.format.c, 0);
    return OK;
}

static int cpu_write(struct backend *be, struct tensor *t, int row, int rows, const real *host, int add)
{
    if (!in_range(t, row, rows)) return E_ARG;
    struct view to = rows_of(t, row), from = { .format = format_of(t->shape, NULL), .data = (real *)host };
    format_copy(cpu_of(be), &to, &from, (size_t)rows, to.format.c, add);
    if (!add) format_pad(cpu_of(be), &to.format, (size_t)rows, to.data);
    return OK;
}

/* Every operation has finished when it returns. */
static int cpu_sync(struct backend *be, struct err *e)
{
    (void)be;
    (void)e;
    return OK;
}

static int cpu_image(struct backend *be, struct tensor *t, struct err *e)
{
    (void)be;
    return format_tensor(t, NULL, e);
}

#define OPERATION(name, provider) extern const struct name##_ops provider##_##name;
#include "ops_cpu.inc"
#undef OPERATION

const struct backend_ops backend_cpu = {
    .name = "cpu",
    .precisions = 1u << PRECISION_FP32,
    .version = version,
    .open = cpu_open,
    .close = cpu_close,
    .free_bytes = cpu_free_bytes,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .read = cpu_read,
    .write = cpu_write,
    .sync = cpu_sync,
    .image = cpu_image,
#define OPERATION(name, provider) .name = &provider##_##name,
#include "ops_cpu.inc"
};
