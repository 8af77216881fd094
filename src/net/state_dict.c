#include "state_dict.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/array.h"
#include "core/file.h"
#include "core/mem.h"
#include "net/surgery.h"

static const struct state_type types[] = {
    { "F32", 4, STATE_F32 },       { "F16", 2, STATE_F16 },       { "BF16", 2, STATE_BF16 },
    { "F64", 8, STATE_OTHER },     { "I64", 8, STATE_OTHER },     { "I32", 4, STATE_OTHER },
    { "I16", 2, STATE_OTHER },     { "I8", 1, STATE_OTHER },      { "U64", 8, STATE_OTHER },
    { "U32", 4, STATE_OTHER },     { "U16", 2, STATE_OTHER },     { "U8", 1, STATE_OTHER },
    { "F8_E4M3", 1, STATE_OTHER }, { "F8_E5M2", 1, STATE_OTHER }, { "BOOL", 1, STATE_OTHER }
};

const struct state_type *state_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name)) return &types[i];
    return NULL;
}

/* ---- all of it ---- */

/* The first 8 bytes of a .safetensors file are a length, which is not as large as those would be. */
static const struct format {
    const char *begin;
    size_t n;
    int (*read)(struct state_dict *, int fd, uint64_t size, struct err *);
} formats[] = {
    { "PK\3\4", 4, pth_read },
    { "\x80\2\x8a\x0al\xfc\x9c\x46", 8, pth_read }, /* before PyTorch 1.6 */
    { "", 0, safetensors_read },
};

static int by_name(const void *a, const void *b)
{
    const struct state_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int sort(const struct state_dict *s, struct err *e)
{
    if (!s->n) return fail_at(e, E_FORMAT, s->path, 0, "holds no tensors");
    qsort(s->tensor, s->n, sizeof *s->tensor, by_name);
    for (size_t i = 1; i < s->n; i++)
        if (!strcmp(s->tensor[i].name, s->tensor[i - 1].name))
            return fail_at(e, E_FORMAT, s->path, 0, "has two tensors %.100s", s->tensor[i].name);
    return OK;
}

int state_dict_open(struct state_dict *s, const char *path, struct err *e)
{
    const struct format *f = formats;
    char begin[8] = { 0 };
    int fd;
    uint64_t size;
    *s = (struct state_dict){ .path = path };
    TRY(file_open(path, &fd, &size, e));
    if (pread(fd, begin, sizeof begin, 0) < 0) begin[0] = 0; /* reading it will say why */
    while (memcmp(begin, f->begin, f->n)) f++;
    int rc = f->read(s, fd, size, e);
    close(fd);
    return rc ? rc : sort(s, e);
}

void state_dict_close(struct state_dict *s)
{
    mem_free(s->tensor);
    mem_free(s->names);
    mem_free(s->data);
    *s = (struct state_dict){ 0 };
}

int state_tensor_measure(struct state_tensor *t, size_t *bytes)
{
    int large = 0;
    t->count = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = t->count;
        large |= mem_mul(t->count, t->dims[i], &t->count);
    }
    return large | mem_mul(t->count, t->type->bytes, bytes);
}

int state_dict_add(struct state_dict *s, const struct state_tensor *t, struct err *e)
{
    if (array_grow(&s->tensor, s->n, sizeof *t)) return fail(e, E_MEM, "not enough memory");
    s->tensor[s->n++] = *t;
    return OK;
}

static int is_named(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct state_tensor *)tensor)->name);
}

struct state_tensor *state_dict_find(const struct state_dict *s, const char *name)
{
    return bsearch(name, s->tensor, s->n, sizeof *s->tensor, is_named);
}

/* ---- numbers ---- */

static float from_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Sign, 5 bits of exponent and 10 of fraction; exponent 0: the fraction alone, in units of 2^-24. */
static float from_half(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = h >> 10 & 31, fraction = h & 1023;
    if (!exponent) return (sign ? -1 : 1) * ldexpf((float)fraction, -24);
    return from_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

static float number(const char *at, enum state_kind kind)
{
    uint32_t bits;
    uint16_t half;
    memcpy(&half, at, sizeof half);
    if (kind == STATE_F16) return from_half(half);
    if (kind == STATE_BF16) return from_bits((uint32_t)half << 16);
    memcpy(&bits, at, sizeof bits);
    return from_bits(bits);
}

static int check_shape(const struct state_dict *s, const struct state_tensor *t, const struct param *p,
                       struct err *e)
{
    uint64_t dims[PARAM_RANK];
    int same = t->rank == p->rank;
    for (int i = 0; i < p->rank; i++) dims[i] = (uint64_t)p->dims[i];
    for (int i = 0; i < p->rank; i++) same &= t->dims[i] == dims[i];
    if (same) return OK;
    return fail_at(e, E_FORMAT, s->path, 0, "%.100s is %s, expected %s, as %s of %s", t->name,
                   state_shape(t->rank, t->dims).text, state_shape(p->rank, dims).text, surgery_param_name(p),
                   net_layer_name(p->net, p->layer).text);
}

/* Where number i is, counted row by row. */
static size_t place(const struct state_tensor *t, size_t i)
{
    size_t at = 0;
    for (int k = t->rank - 1; k >= 0; i /= t->dims[k--]) at += i % t->dims[k] * t->stride[k];
    return at;
}

int state_dict_get(const struct state_dict *s, struct state_tensor *t, const struct param *p, real *to,
                   struct err *e)
{
    TRY(check_shape(s, t, p, e));
    if (t->type->kind == STATE_OTHER)
        return fail_at(e, E_FORMAT, s->path, 0, "%.100s is of type %s, expected F32, F16 or BF16", t->name,
                       t->type->name);
    for (size_t i = 0; i < t->count; i++) {
        const float v = number(s->data + t->begin + place(t, i) * t->type->bytes, t->type->kind);
        if (!param_accepts(p, (double)v))
            return fail_at(e, E_FORMAT, s->path, 0,
                           "%.100s: number %zu is %g: the file is damaged, or from a training that failed",
                           t->name, i, (double)v);
        to[i] = v;
    }
    t->used = 1;
    return OK;
}

int state_dict_check_used(const struct state_dict *s, const char *cfg, struct err *e)
{
    for (size_t i = 0; i < s->n; i++)
        if (!s->tensor[i].used)
            return fail_at(e, E_FORMAT, s->path, 0, "%.100s, %s, is left over: %.150s has no place for it",
                           s->tensor[i].name, state_shape(s->tensor[i].rank, s->tensor[i].dims).text, cfg);
    return OK;
}

struct state_shape state_shape(int rank, const uint64_t *dims)
{
    struct state_shape s = { "1" }; /* a number alone */
    size_t n = 0;
    for (int i = 0; i < rank && n < sizeof s.text; i++)
        n += (size_t)snprintf(s.text + n, sizeof s.text - n, "%s%" PRIu64, i ? "x" : "", dims[i]);
    return s;
}
