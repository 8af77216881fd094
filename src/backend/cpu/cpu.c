#include "backend/ref/ref.h"
#include "core/mem.h"
#include "dnn.h"

static int cpu_open(struct backend *be, int index, struct err *e)
{
    if (index != 0) return fail(e, E_DEVICE, "cpu:%d: there is one cpu device, cpu:0", index);
    struct cpu *cpu = be->self = mem_alloc(1, sizeof *cpu);
    if (!cpu) return fail(e, E_MEM, "no memory to open device cpu");
    cpu->threads = be->threads;
    if (!dnn_has_bf16()) be->precisions &= ~(1u << PRECISION_BF16);
    int rc = dnn_open(cpu, e);
    if (rc) mem_free(cpu);
    return rc;
}

static void cpu_close(struct backend *be)
{
    dnn_close(be->self);
    mem_free(be->self);
    be->self = NULL;
}

/* The rows of a tensor from `row` on. */
static void *rows_of(const struct tensor *t, const struct memory_format *f, int row)
{
    return format_data(f, t->data, (size_t)row * f->row);
}

static int cpu_read(struct backend *be, const struct tensor *t, int row, int rows, real *host)
{
    struct memory_format format = format_of(t->shape, t->layout), dense = format_of(t->shape, NULL);
    format_reorder(cpu_of(be), (size_t)rows, &format, rows_of(t, &format, row), &dense, host, 0);
    return OK;
}

static int cpu_write(struct backend *be, struct tensor *t, int row, int rows, const real *host, int add)
{
    struct memory_format format = format_of(t->shape, t->layout), dense = format_of(t->shape, NULL);
    format_reorder(cpu_of(be), (size_t)rows, &dense, host, &format, rows_of(t, &format, row), add);
    return OK;
}

static int cpu_image(struct backend *be, struct tensor *t, int pads, struct err *e)
{
    (void)pads;
    if (!(be->precisions & 1u << be->precision))
        return fail(e, E_DEVICE,
                    "this processor has neither AVX512-BF16 nor AMX, which bf16 needs: try -precision fp32");
    return format_tensor(t, format_layout(t->shape, 1, be->precision == PRECISION_BF16), e);
}

#define OPERATION(name, provider) extern const struct name##_ops provider##_##name;
#include "ops_cpu.inc"
#undef OPERATION

const struct backend_ops backend_cpu = {
    .name = "cpu",
    .precisions = 1u << PRECISION_FP32 | 1u << PRECISION_BF16,
    .version = dnn_version,
    .by_threads = 1,
    .open = cpu_open,
    .close = cpu_close,
    .free_bytes = ref_free_bytes,
    .alloc = ref_alloc,
    .free = ref_free,
    .upload = ref_copy,
    .download = ref_copy,
    .read = cpu_read,
    .write = cpu_write,
    .sync = ref_sync,
    .image = cpu_image,
#define OPERATION(name, provider) .name = &provider##_##name,
#include "ops_cpu.inc"
};
