/* The reference backend: plain C, float or double, serial but for the matching loss. It says what every
 * operation means; the others are tested against it. Where clarity and speed disagree, clarity wins. */
#include "ref.h"
#include <string.h>
#include "core/mem.h"

int ref_bytes(struct shape s, size_t each, size_t *bytes, struct err *e)
{
    int wrong = s.n <= 0 || s.c <= 0 || s.h <= 0 || s.w <= 0;
    if (wrong || mem_mul((size_t)s.n, (size_t)s.c, bytes) || mem_mul(*bytes, (size_t)s.h, bytes) ||
        mem_mul(*bytes, (size_t)s.w, bytes) || mem_mul(*bytes, each, bytes) || *bytes > PTRDIFF_MAX)
        return fail(e, E_ARG, "a tensor of %dx%dx%dx%d numbers is empty or too large for this machine", s.n,
                    s.c, s.h, s.w);
    return OK;
}

int ref_tensor(struct tensor *t, struct err *e)
{
    t->layout = NULL;
    return ref_bytes(t->shape, sizeof(real), &t->bytes, e);
}

int ref_plan(struct op_plan *p, const void *self, size_t bytes, struct tensor *out, struct err *e)
{
    TRY(op_plan_init(p, bytes, e));
    memcpy(p->self, self, bytes);
    return ref_tensor(out, e);
}

static const char *version(void)
{
    return sizeof(real) == sizeof(double) ? "plain C, double precision" : "plain C, single precision";
}

static int open_device(struct backend *be, int index, struct err *e)
{
    if (index) return fail(e, E_DEVICE, "device 'ref:%d' does not exist: use 'ref'", index);
    be->self = NULL;
    return OK;
}

static void close_device(struct backend *be) {}

size_t ref_free_bytes(struct backend *be) { return mem_free_bytes(); }

int ref_alloc(struct backend *be, size_t bytes, void **out, struct err *e)
{
    *out = mem_alloc(bytes, 1);
    if (*out) return OK;
    return fail(e, E_MEM, "not enough memory: %zu MiB asked for; a smaller batch needs less", bytes >> 20);
}

void ref_free(struct backend *be, void *p) { mem_free(p); }

int ref_copy(struct backend *be, void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    return OK;
}

static int read_rows(struct backend *be, const struct tensor *t, int row, int rows, real *host)
{
    memcpy(host, (const real *)t->data + ref_rows(t->shape, row),
           (size_t)ref_rows(t->shape, rows) * sizeof *host);
    return OK;
}

static int write_rows(struct backend *be, struct tensor *t, int row, int rows, const real *host, int add)
{
    real *to = (real *)t->data + ref_rows(t->shape, row);
    for (ptrdiff_t i = 0; i < ref_rows(t->shape, rows); i++) ref_put(&to[i], host[i], add);
    return OK;
}

int ref_sync(struct backend *be, struct err *e) { return OK; }

static int image(struct backend *be, struct tensor *t, int pads, struct err *e) { return ref_tensor(t, e); }

#define OPERATION(name, provider) extern const struct name##_ops provider##_##name;
#include "ops_ref.inc"
#undef OPERATION
extern const struct backend_ops backend_ref;
const struct backend_ops backend_ref = {
    .name = "ref",
    .precisions = 1u << PRECISION_FP32,
    .version = version,
    .open = open_device,
    .close = close_device,
    .free_bytes = ref_free_bytes,
    .alloc = ref_alloc,
    .free = ref_free,
    .upload = ref_copy,
    .download = ref_copy,
    .read = read_rows,
    .write = write_rows,
    .sync = ref_sync,
    .image = image,
#define OPERATION(name, provider) .name = &provider##_##name,
#include "ops_ref.inc"
};
