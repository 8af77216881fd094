/* The device as a backend: opening it, memory, and what the host may see of tensors. */
#include "cuda.h"
#include <stdio.h>
#include <string.h>
#include "blas.h"
#include "core/mem.h"
#include "dnn.h"

enum { SMALL_STAGES = 32, SMALL_BYTES = 64 << 10, LARGE_STAGES = 2, LARGE_BYTES = 8 << 20 };

const struct layout cuda_float = { .bf16 = 0 }, cuda_bf16 = { .bf16 = 1 };

static const char *version(void) { return cudnn_libraries(); }

/* ---- open and close ---- */

static int open_stages(struct stages *s, int n, size_t bytes, struct err *e)
{
    s->stage = mem_alloc((size_t)n, sizeof *s->stage);
    if (!s->stage) return fail(e, E_MEM, "no memory to open the GPU");
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
    mem_free(s->stage);
}

static void destroy(struct cuda *cu)
{
    cudnn_close(cu->dnn);
    blas_close(cu->blas);
    dev_free(cu->dense);
    close_stages(&cu->small);
    close_stages(&cu->large);
    dev_close(cu->stream);
    mem_free(cu);
}

static int prepare(struct cuda *cu, int index, struct err *e)
{
    TRY(dev_open(index, &cu->stream, &cu->info, e));
    TRY(open_stages(&cu->small, SMALL_STAGES, SMALL_BYTES, e));
    TRY(open_stages(&cu->large, LARGE_STAGES, LARGE_BYTES, e));
    TRY(dev_alloc(&cu->dense, LARGE_BYTES, e));
    TRY(cudnn_open(&cu->dnn, cu->stream, e));
    return blas_open(&cu->blas, cu->stream, &cu->info, e);
}

static int cuda_open(struct backend *be, int index, struct err *e)
{
    struct cuda *cu = mem_alloc(1, sizeof *cu);
    if (!cu) return fail(e, E_MEM, "no memory to open device cuda:%d", index);
    int rc = prepare(cu, index, e);
    if (rc) {
        destroy(cu);
        return rc;
    }
    cu->index = index;
    be->self = cu;
    snprintf(be->title, sizeof be->title, "cuda:%d (%.60s)", index, cu->info.name);
    return OK;
}

static void cuda_close(struct backend *be)
{
    destroy(cuda_of(be));
    be->self = NULL;
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

static int put_piece(struct cuda *cu, void *to, const void *host, size_t bytes)
{
    struct stage *s;
    TRY(next_stage(cu, bytes, &s));
    memcpy(s->data, host, bytes);
    TRY(dev_put(cu->stream, to, s->data, bytes));
    return dev_mark(s->done, cu->stream);
}

static int get_piece(struct cuda *cu, void *host, const void *from, size_t bytes)
{
    struct stage *s;
    TRY(next_stage(cu, bytes, &s));
    TRY(dev_get(cu->stream, s->data, from, bytes));
    TRY(dev_sync(cu->stream, NULL));
    memcpy(host, s->data, bytes);
    return OK;
}

static size_t piece(size_t left) { return left < LARGE_BYTES ? left : LARGE_BYTES; }

int cuda_put(struct cuda *cu, void *to, const void *host, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LARGE_BYTES)
        TRY(put_piece(cu, (char *)to + at, (const char *)host + at, piece(bytes - at)));
    return OK;
}

int cuda_get(struct cuda *cu, void *host, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LARGE_BYTES)
        TRY(get_piece(cu, (char *)host + at, (const char *)from + at, piece(bytes - at)));
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

int cuda_tensor(struct tensor *t, int bf16, struct err *e)
{
    size_t count;
    struct shape s = t->shape;
    if (s.n < 1 || s.c < 1 || s.h < 1 || s.w < 1 || mem_mul((size_t)s.n * (size_t)s.c, (size_t)s.h, &count) ||
        mem_mul(count, (size_t)s.w, &count) || count > INT32_MAX)
        return fail(e, E_ARG,
                    "a tensor of %d x %d x %d x %d numbers is empty or has 2^31 and more: lower batch", s.n,
                    s.c, s.h, s.w);
    t->layout = bf16 ? &cuda_bf16 : &cuda_float;
    t->bytes = count * cuda_element(bf16);
    return OK;
}

static int cuda_image(struct backend *be, struct tensor *t, struct err *e)
{
    const struct dev_info *info = &cuda_of(be)->info;
    if (cuda_wants_bf16(be) && info->major < 8)
        return fail(e, E_DEVICE, "%s has compute capability %d.%d, bf16 needs 8.0: try -precision fp32",
                    be->title, info->major, info->minor);
    return cuda_tensor(t, cuda_wants_bf16(be), e);
}

/* Rows of a tensor that fit into the staging memory together; 0: not even one does. */
static size_t rows_at_once(const struct tensor *t)
{
    return LARGE_BYTES / (shape_row(t->shape) * sizeof(float));
}

static int in_range(const struct tensor *t, int row, int rows)
{
    return row >= 0 && rows >= 0 && row <= t->shape.n && rows <= t->shape.n - row;
}

static char *row_at(const struct tensor *t, size_t row)
{
    return (char *)t->data + row * (t->bytes / (size_t)t->shape.n);
}

/* A row that is larger than the staging memory gets memory of its own: seldom, and slow. */
static int dense_for(struct cuda *cu, const struct tensor *t, size_t *most, void **dense)
{
    *most = rows_at_once(t);
    *dense = cu->dense;
    if (*most) return OK;
    *most = 1;
    return dev_alloc(dense, shape_row(t->shape) * sizeof(float), NULL);
}

static int dense_done(struct cuda *cu, void *dense, int rc)
{
    if (dense == cu->dense) return rc;
    int waited = dev_sync(cu->stream, NULL);
    dev_free(dense);
    return rc ? rc : waited;
}

static int read_rows(struct cuda *cu, const struct tensor *t, size_t row, size_t rows, size_t most,
                     void *dense, real *host)
{
    size_t n = shape_row(t->shape), c = (size_t)t->shape.c;
    for (size_t end = row + rows; row < end; row += most) {
        size_t k = end - row < most ? end - row : most;
        TRY(kernel_to_dense(cu, cuda_is_bf16(t), row_at(t, row), dense, k, c, n / c));
        TRY(cuda_get(cu, host, dense, k * n * sizeof *host));
        host += k * n;
    }
    return OK;
}

static int write_rows(struct cuda *cu, const struct tensor *t, size_t row, size_t rows, size_t most,
                      void *dense, const real *host, int add)
{
    size_t n = shape_row(t->shape), c = (size_t)t->shape.c;
    for (size_t end = row + rows; row < end; row += most) {
        size_t k = end - row < most ? end - row : most;
        TRY(cuda_put(cu, dense, host, k * n * sizeof *host));
        TRY(kernel_from_dense(cu, cuda_is_bf16(t), dense, row_at(t, row), k, c, n / c, add));
        host += k * n;
    }
    return OK;
}

static int cuda_read(struct backend *be, const struct tensor *t, int row, int rows, real *host)
{
    struct cuda *cu = cuda_of(be);
    size_t most;
    void *dense;
    if (!in_range(t, row, rows)) return E_ARG;
    TRY(dense_for(cu, t, &most, &dense));
    return dense_done(cu, dense, read_rows(cu, t, (size_t)row, (size_t)rows, most, dense, host));
}

static int cuda_write(struct backend *be, struct tensor *t, int row, int rows, const real *host, int add)
{
    struct cuda *cu = cuda_of(be);
    size_t most;
    void *dense;
    if (!in_range(t, row, rows)) return E_ARG;
    TRY(dense_for(cu, t, &most, &dense));
    return dense_done(cu, dense, write_rows(cu, t, (size_t)row, (size_t)rows, most, dense, host, add));
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
    .version = version,
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
