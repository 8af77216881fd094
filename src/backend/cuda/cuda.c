/* The device as a backend: opening it, memory, and what the host may see of tensors. */
#include "cuda.h"
#include <stdio.h>
#include <string.h>
#include "backend/ops/sum.h"
#include "blas.h"
#include "core/mem.h"
#include "dnn.h"

enum { SMALL_STAGES = MOST_STAGES, SMALL_BYTES = 64 << 10, LARGE_STAGES = 2, LARGE_BYTES = 8 << 20 };

const struct layout cuda_float = { .bf16 = 0 }, cuda_bf16 = { .bf16 = 1 };
static const struct layout padded = { .bf16 = 1, .channels = 8 };

/* ---- open and close ---- */

static int open_stages(struct stages *s, int n, size_t bytes, struct err *e)
{
    s->n = n;
    s->bytes = bytes;
    for (int i = 0; i < n; i++) {
        TRY(dev_pin(&s->stage[i].data, bytes, e));
        TRY(dev_event(&s->stage[i].done, e));
    }
    return OK;
}

static void close_stages(struct stages *s)
{
    for (int i = 0; i < s->n; i++) {
        dev_event_drop(s->stage[i].done);
        dev_unpin(s->stage[i].data);
    }
}

static void destroy(struct cuda *cu)
{
    cudnn_close(cu->dnn);
    engine_file_close(cu->engines);
    blas_close(cu->blas);
    dev_free(cu->dense);
    close_stages(&cu->small);
    close_stages(&cu->large);
    dev_event_drop(cu->forked);
    dev_event_drop(cu->joined);
    dev_close(cu->side);
    dev_close(cu->stream);
    mem_free(cu);
}

static int prepare(struct cuda *cu, int index, struct backend *be, struct err *e)
{
    TRY(dev_open(index, &cu->stream, &cu->info, e));
    TRY(dev_stream(&cu->side, e));
    TRY(dev_event(&cu->forked, e));
    TRY(dev_event(&cu->joined, e));
    TRY(open_stages(&cu->small, SMALL_STAGES, SMALL_BYTES, e));
    TRY(open_stages(&cu->large, LARGE_STAGES, LARGE_BYTES, e));
    TRY(dev_alloc(&cu->dense, LARGE_BYTES, e));
    cu->dense_bytes = LARGE_BYTES;
    TRY(engine_file_open(&cu->engines, cu->info.name, cudnn_libraries(), be->note, sizeof be->note, e));
    TRY(cudnn_open(&cu->dnn, cu->stream, cu->engines, e));
    return blas_open(&cu->blas, cu->stream, &cu->info, e);
}

static int cuda_open(struct backend *be, int index, struct err *e)
{
    struct cuda *cu = mem_alloc(1, sizeof *cu);
    if (!cu) return fail(e, E_MEM, "no memory to open device cuda:%d", index);
    int rc = prepare(cu, index, be, e);
    if (rc) {
        destroy(cu);
        return rc;
    }
    cu->index = index;
    if (cu->info.major < 8) be->precisions &= ~(1u << PRECISION_BF16);
    be->self = cu;
    snprintf(be->title, sizeof be->title, "cuda:%d (%.60s)", index, cu->info.name);
    return OK;
}

static void cuda_close(struct backend *be)
{
    if (be->ops->sum) be->ops->sum->close(be);
    destroy(cuda_of(be));
    be->self = NULL;
}

/* ---- side by side ---- */

int cuda_fork(const struct cuda *cu, struct cuda *side)
{
    *side = *cu;
    side->stream = cu->side;
    TRY(dev_mark(cu->forked, cu->stream));
    return dev_wait(cu->side, cu->forked);
}

int cuda_join(const struct cuda *cu)
{
    TRY(dev_mark(cu->joined, cu->side));
    return dev_wait(cu->stream, cu->joined);
}

/* ---- memory ---- */

static size_t cuda_free_bytes(struct backend *be)
{
    cuda_of(be);
    return dev_free_bytes();
}

static int cuda_alloc(struct backend *be, size_t bytes, void **out, struct err *e)
{
    TRY(dev_alloc(out, bytes, e));
    int rc = dev_zero(cuda_of(be)->stream, *out, bytes);
    if (!rc) return OK;
    dev_free(*out);
    *out = NULL;
    return rc;
}

/* What still runs may use it. */
static void cuda_free(struct backend *be, void *p)
{
    if (p) dev_sync(cuda_of(be)->stream, NULL);
    dev_free(p);
}

static int cuda_sync(struct backend *be, struct err *e) { return dev_sync(cuda_of(be)->stream, e); }

/* The next piece of pinned memory, once the copy that used it last has ended. */
static int next_stage(struct cuda *cu, size_t bytes, struct stage **to)
{
    struct stages *s = bytes <= cu->small.bytes ? &cu->small : &cu->large;
    s->turn = (s->turn + 1) % s->n;
    *to = &s->stage[s->turn];
    return dev_await((*to)->done);
}

static size_t piece(size_t left) { return left < LARGE_BYTES ? left : LARGE_BYTES; }

int cuda_put(struct cuda *cu, void *to, const void *host, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LARGE_BYTES) {
        const size_t n = piece(bytes - at);
        struct stage *s;
        TRY(next_stage(cu, n, &s));
        memcpy(s->data, (const char *)host + at, n);
        TRY(dev_copy(cu->stream, (char *)to + at, s->data, n));
        TRY(dev_mark(s->done, cu->stream));
    }
    return OK;
}

int cuda_get(struct cuda *cu, void *host, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LARGE_BYTES) {
        const size_t n = piece(bytes - at);
        struct stage *s;
        TRY(next_stage(cu, n, &s));
        TRY(dev_copy(cu->stream, s->data, (const char *)from + at, n));
        TRY(dev_sync(cu->stream, NULL));
        memcpy((char *)host + at, s->data, n);
    }
    return OK;
}

int cuda_copy_of(struct cuda *cu, const void *host, size_t bytes, void **out, struct err *e)
{
    TRY(dev_alloc(out, bytes, e));
    int rc = cuda_put(cu, *out, host, bytes);
    if (!rc) return OK;
    dev_free(*out);
    *out = NULL;
    return rc;
}

static int cuda_upload(struct backend *be, void *to, const void *host, size_t bytes)
{
    return cuda_put(cuda_of(be), to, host, bytes);
}

static int cuda_download(struct backend *be, void *host, const void *from, size_t bytes)
{
    return cuda_get(cuda_of(be), host, from, bytes);
}

/* ---- tensors ---- */

static int lay_out(struct tensor *t, const struct layout *layout, struct err *e)
{
    size_t count;
    struct shape s = t->shape;
    t->layout = layout;
    if (s.n < 1 || s.c < 1 || s.h < 1 || s.w < 1 ||
        mem_mul((size_t)s.n * (size_t)cuda_channels(t), (size_t)s.h, &count) ||
        mem_mul(count, (size_t)s.w, &count) || count > INT32_MAX)
        return fail(e, E_ARG,
                    "a tensor of %d x %d x %d x %d numbers is empty or has 2^31 and more: lower batch", s.n,
                    s.c, s.h, s.w);
    t->bytes = count * cuda_element(layout->bf16);
    return OK;
}

int cuda_tensor(struct tensor *t, int bf16, struct err *e)
{
    return lay_out(t, bf16 ? &cuda_bf16 : &cuda_float, e);
}

const struct layout *cuda_image_layout(int channels, int bf16, int pads)
{
    return !bf16 ? &cuda_float : pads && channels < padded.channels ? &padded : &cuda_bf16;
}

static int cuda_image(struct backend *be, struct tensor *t, int pads, struct err *e)
{
    const struct dev_info *info = &cuda_of(be)->info;
    if (!(be->precisions & 1u << be->precision))
        return fail(e, E_DEVICE, "%s has compute capability %d.%d, bf16 needs 8.0: try -precision fp32",
                    be->title, info->major, info->minor);
    return lay_out(t, cuda_image_layout(t->shape.c, cuda_wants_bf16(be), pads), e);
}

/* Rows that fit into cu->dense together; where not even one does, it grows. */
static int dense_rows(struct cuda *cu, size_t row_bytes, size_t *rows)
{
    *rows = cu->dense_bytes / row_bytes;
    if (*rows) return OK;
    TRY(dev_sync(cu->stream, NULL)); /* what still runs may use it */
    dev_free(cu->dense);
    cu->dense_bytes = 0;
    TRY(dev_alloc(&cu->dense, row_bytes, NULL));
    cu->dense_bytes = row_bytes;
    *rows = 1;
    return OK;
}

/* One of `to` and `from` is given. */
static int copy_rows(struct cuda *cu, const struct tensor *t, int row, int rows, real *to, const real *from,
                     int add)
{
    const size_t n = shape_row(t->shape);
    size_t most;
    TRY(dense_rows(cu, n * sizeof(real), &most));
    for (size_t at = 0; at < (size_t)rows; at += most) {
        const size_t k = (size_t)rows - at < most ? (size_t)rows - at : most, bytes = k * n * sizeof(real);
        if (to) {
            TRY(kernel_to_dense(cu, t, (size_t)row + at, k, cu->dense));
            TRY(cuda_get(cu, to + at * n, cu->dense, bytes));
        } else {
            TRY(cuda_put(cu, cu->dense, from + at * n, bytes));
            TRY(kernel_from_dense(cu, cu->dense, t, (size_t)row + at, k, add));
        }
    }
    return OK;
}

static int cuda_read(struct backend *be, const struct tensor *t, int row, int rows, real *host)
{
    return copy_rows(cuda_of(be), t, row, rows, host, NULL, 0);
}

static int cuda_write(struct backend *be, struct tensor *t, int row, int rows, const real *host, int add)
{
    return copy_rows(cuda_of(be), t, row, rows, NULL, host, add);
}

/* ---- recordings ---- */

static int cuda_capture_begin(struct backend *be) { return dev_capture_begin(cuda_of(be)->stream); }
static int cuda_capture_end(struct backend *be, struct capture **r, struct err *e)
{
    return dev_capture_end(cuda_of(be)->stream, r, e);
}
static int cuda_launch(struct backend *be, const struct capture *r)
{
    return dev_launch(cuda_of(be)->stream, r);
}

extern const struct backend_ops backend_cuda;
const struct backend_ops backend_cuda = {
    .name = "cuda",
    .gpu = 1,
    .precisions = 1u << PRECISION_FP32 | 1u << PRECISION_TF32 | 1u << PRECISION_BF16,
    .version = cudnn_libraries,
    .open = cuda_open,
    .close = cuda_close,
    .free_bytes = cuda_free_bytes,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .read = cuda_read,
    .write = cuda_write,
    .sync = cuda_sync,
    .image = cuda_image,
#define OPERATION(name, provider) .name = &provider##_##name,
#include "ops_cuda.inc"
    .capture_begin = cuda_capture_begin,
    .capture_end = cuda_capture_end,
    .launch = cuda_launch,
    .capture_destroy = dev_capture_destroy,
};
