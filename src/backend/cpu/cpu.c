#include <string.h>
#include "core/mem.h"
#include "dnn.h"

static int cpu_open(struct backend *be, int index, struct err *e)
{
    if (index != 0) return fail(e, E_DEVICE, "cpu:%d: there is one cpu device, cpu:0", index);
    struct cpu *cpu = mem_alloc(1, sizeof *cpu);
    if (!cpu) return fail(e, E_MEM, "no memory to open device cpu");
    cpu->threads = be->threads;
    int rc = dnn_open(cpu, e);
    if (rc) {
        mem_free(cpu);
        return rc;
    }
    be->self = cpu;
    return OK;
}

static void cpu_close(struct backend *be)
{
    dnn_close(be->self);
    mem_free(be->self);
    be->self = NULL;
}

/* ---- memory ---- */

static size_t cpu_free_bytes(struct backend *be) { return mem_free_bytes(); }

static int cpu_alloc(struct backend *be, size_t bytes, void **out, struct err *e)
{
    *out = mem_alloc(bytes, 1);
    return *out ? OK
                : fail(e, E_MEM, "not enough memory: %zu MiB asked for; a smaller batch needs less",
                       bytes >> 20);
}

static void cpu_free(struct backend *be, void *p) { mem_free(p); }

static int cpu_copy(struct backend *be, void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return OK;
}

static int in_range(const struct tensor *t, int row, int rows)
{
    return row >= 0 && rows >= 0 && row <= t->shape.n && rows <= t->shape.n - row;
}

static int cpu_read(struct backend *be, const struct tensor *t, int row, int rows, real *host)
{
    if (!in_range(t, row, rows)) return E_ARG;
    struct memory_format format = format_of(t->shape, t->layout), dense = format_of(t->shape, NULL);
    const float *x = (const float *)t->data + (size_t)row * format.row;
    format_reorder(cpu_of(be), (size_t)rows, &format, x, &dense, host, 0);
    return OK;
}

static int cpu_write(struct backend *be, struct tensor *t, int row, int rows, const real *host, int add)
{
    if (!in_range(t, row, rows)) return E_ARG;
    struct memory_format format = format_of(t->shape, t->layout), dense = format_of(t->shape, NULL);
    float *x = (float *)t->data + (size_t)row * format.row;
    format_reorder(cpu_of(be), (size_t)rows, &dense, host, &format, x, add);
    return OK;
}

/* Every operation has finished when it returns. */
static int cpu_sync(struct backend *be, struct err *e) { return OK; }

static int cpu_image(struct backend *be, struct tensor *t, struct err *e)
{
    return format_tensor(t, NULL, e);
}

#define OPERATION(name, provider) extern const struct name##_ops provider##_##name;
#include "ops_cpu.inc"
#undef OPERATION

const struct backend_ops backend_cpu = {
    .name = "cpu",
    .precisions = 1u << PRECISION_FP32,
    .version = dnn_version,
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
