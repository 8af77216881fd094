#include "safetensors.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/array.h"
#include "core/file.h"
#include "core/mem.h"
#include "net/surgery.h"

static const uint64_t most_header = 100000000; /* the format's own limit */

enum kind { OTHER, F32, F16, BF16 };

static const struct safetensor_type {
    const char *name;
    size_t bytes;
    enum kind kind;
} types[] = { { "F32", 4, F32 },       { "F16", 2, F16 },       { "BF16", 2, BF16 }, { "F64", 8, OTHER },
              { "I64", 8, OTHER },     { "I32", 4, OTHER },     { "I16", 2, OTHER }, { "I8", 1, OTHER },
              { "U64", 8, OTHER },     { "U32", 4, OTHER },     { "U16", 2, OTHER }, { "U8", 1, OTHER },
              { "F8_E4M3", 1, OTHER }, { "F8_E5M2", 1, OTHER }, { "BOOL", 1, OTHER } };

/* ---- JSON, as much of it as a header has ---- */

struct parser {
    struct safetensors *s;
    char *start, *at, *end;
    struct err *e;
};

static int expected(const struct parser *p, const char *what)
{
    return fail_at(p->e, E_FORMAT, p->s->path, 0, "byte %td of the header: expected %s", p->at - p->start,
                   what);
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end && strchr(" \t\r\n", *p->at) && *p->at) p->at++;
}

/* Takes this character, after blanks, if it is there. */
static int accept(struct parser *p, char c)
{
    skip_blanks(p);
    if (p->at >= p->end || *p->at != c) return 0;
    p->at++;
    return 1;
}

static int take(struct parser *p, char c, const char *what) { return accept(p, c) ? OK : expected(p, what); }

/* A string, ended with a 0 in place. Escapes are accepted where nobody reads what they mean. */
static int take_string(struct parser *p, char **text, int escapes)
{
    TRY(take(p, '"', "a string"));
    for (*text = p->at; p->at < p->end && *p->at != '"'; p->at++) {
        if ((unsigned char)*p->at < ' ') return expected(p, "a string without control characters");
        if (*p->at != '\\') continue;
        if (!escapes) return expected(p, "a name without escapes");
        if (++p->at >= p->end || !strchr("\"\\/bfnrtu", *p->at) || !*p->at) return expected(p, "an escape");
    }
    if (p->at >= p->end) return expected(p, "the end of a string");
    *p->at++ = 0;
    return OK;
}

/* A whole number without sign. */
static int take_number(struct parser *p, uint64_t *to)
{
    skip_blanks(p);
    const char *first = p->at;
    for (*to = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        if (*to > (INT64_MAX - 9) / 10) return expected(p, "a smaller number");
        *to = *to * 10 + (uint64_t)(*p->at - '0');
    }
    if (p->at == first || (*first == '0' && p->at > first + 1)) return expected(p, "a whole number");
    return OK;
}

static int take_numbers(struct parser *p, uint64_t *to, int most, int *n)
{
    TRY(take(p, '[', "a list of numbers"));
    *n = 0;
    if (accept(p, ']')) return OK;
    do {
        if (*n == most) return expected(p, "fewer numbers");
        TRY(take_number(p, &to[(*n)++]));
    } while (accept(p, ','));
    return take(p, ']', "a comma or the end of the list");
}

/* ---- the header ---- */

/* Strings by name, of which only our own count of images is of use. */
static int take_metadata(struct parser *p)
{
    char *key, *value;
    TRY(take(p, '{', "an object"));
    if (accept(p, '}')) return OK;
    do {
        TRY(take_string(p, &key, 1));
        TRY(take(p, ':', "a colon"));
        TRY(take_string(p, &value, 1));
        char *end = value;
        const uint64_t seen = *value >= '0' && *value <= '9' ? strtoull(value, &end, 10) : 0;
        if (!strcmp(key, "seen") && !*end && strlen(value) < 20) p->s->seen = seen; /* 19 digits fit */
    } while (accept(p, ','));
    return take(p, '}', "a comma or the end of the object");
}

static int find_type(struct parser *p, const char *name, const struct safetensor_type **type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name)) *type = &types[i];
    return *type ? OK : expected(p, "a type such as \"F32\"");
}

enum { HAS_TYPE = 1, HAS_SHAPE = 2, HAS_PLACE = 4 };

static int take_property(struct parser *p, struct safetensor *t, int *has)
{
    char *key, *type;
    uint64_t place[2];
    int n, what;
    TRY(take_string(p, &key, 0));
    TRY(take(p, ':', "a colon"));
    if (!strcmp(key, "dtype")) {
        what = HAS_TYPE;
        TRY(take_string(p, &type, 0));
        TRY(find_type(p, type, &t->type));
    } else if (!strcmp(key, "shape")) {
        what = HAS_SHAPE;
        TRY(take_numbers(p, t->dims, SAFETENSORS_RANK, &t->rank));
    } else if (!strcmp(key, "data_offsets")) {
        what = HAS_PLACE;
        TRY(take_numbers(p, place, 2, &n));
        if (n != 2) return expected(p, "two numbers");
        t->begin = place[0];
        t->end = place[1];
    } else {
        return expected(p, "dtype, shape or data_offsets before this");
    }
    if (*has & what) return expected(p, "dtype, shape and data_offsets once each");
    *has |= what;
    return OK;
}

static int check_bytes(const struct parser *p, struct safetensor *t)
{
    size_t bytes;
    int large = 0;
    t->count = 1;
    for (int i = 0; i < t->rank; i++) large |= mem_mul(t->count, t->dims[i], &t->count);
    large |= mem_mul(t->count, t->type->bytes, &bytes);
    if (!large && t->begin <= t->end && t->end - t->begin == bytes) return OK;
    return fail_at(p->e, E_FORMAT, p->s->path, 0,
                   "%.100s: its data_offsets [%" PRIu64 ", %" PRIu64 "] do not hold %s numbers of type %s",
                   t->name, t->begin, t->end, safetensors_shape(t->rank, t->dims).text, t->type->name);
}

static int take_tensor(struct parser *p, char *name)
{
    struct safetensor t = { .name = name };
    int has = 0;
    TRY(take(p, '{', "an object"));
    do TRY(take_property(p, &t, &has));
    while (accept(p, ','));
    TRY(take(p, '}', "a comma or the end of the object"));
    if (has != (HAS_TYPE | HAS_SHAPE | HAS_PLACE))
        return expected(p, "dtype, shape and data_offsets before this");
    TRY(check_bytes(p, &t));
    if (array_grow(&p->s->tensor, p->s->n, sizeof t)) return fail(p->e, E_MEM, "not enough memory");
    p->s->tensor[p->s->n++] = t;
    return OK;
}

static int take_header(struct parser *p)
{
    char *name;
    TRY(take(p, '{', "an object"));
    if (!accept(p, '}')) {
        do {
            TRY(take_string(p, &name, 0));
            TRY(take(p, ':', "a colon"));
            TRY(strcmp(name, "__metadata__") ? take_tensor(p, name) : take_metadata(p));
        } while (accept(p, ','));
        TRY(take(p, '}', "a comma or the end of the header"));
    }
    skip_blanks(p);
    return p->at == p->end ? OK : expected(p, "nothing more");
}

/* ---- all of it ---- */

static int by_name(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_place(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The tensors cover the bytes behind the header, each once, and their names differ. */
static int check_tensors(struct safetensors *s, uint64_t bytes, struct err *e)
{
    const char *path = s->path;
    uint64_t at = 0;
    if (!s->n) return fail_at(e, E_FORMAT, path, 0, "holds no tensors");
    qsort(s->tensor, s->n, sizeof *s->tensor, by_place);
    for (size_t i = 0; i < s->n; at = s->tensor[i++].end)
        if (s->tensor[i].begin != at)
            return fail_at(e, E_FORMAT, path, 0,
                           "%.100s begins at byte %" PRIu64 " of the data, expected %" PRIu64,
                           s->tensor[i].name, s->tensor[i].begin, at);
    if (at != bytes)
        return fail_at(e, E_FORMAT, path, 0,
                       "has %" PRIu64 " bytes of data, and its tensors %" PRIu64 ": is it complete?", bytes,
                       at);
    qsort(s->tensor, s->n, sizeof *s->tensor, by_name);
    for (size_t i = 1; i < s->n; i++)
        if (!strcmp(s->tensor[i].name, s->tensor[i - 1].name))
            return fail_at(e, E_FORMAT, path, 0, "has two tensors %.100s", s->tensor[i].name);
    return OK;
}

static int read_length(const struct safetensors *s, int fd, uint64_t size, uint64_t *length, struct err *e)
{
    char *bytes;
    *length = 0;
    if (size < sizeof *length)
        return fail_at(e, E_FORMAT, s->path, 0, "is too short for a .safetensors file: %" PRIu64 " bytes",
                       size);
    TRY(file_read(fd, s->path, sizeof *length, &bytes, e));
    const int zip = !memcmp(bytes, "PK\3\4", 4);
    memcpy(length, bytes, sizeof *length);
    mem_free(bytes);
    if (zip)
        return fail_at(e, E_FORMAT, s->path, 0,
                       "is a zip file, PyTorch's own: convert it in Python: safetensors.torch.save_file("
                       "torch.load(\"%.100s\", weights_only=True), \"FILE.safetensors\")",
                       s->path);
    if (*length <= most_header && *length <= size - sizeof *length) return OK;
    return fail_at(e, E_FORMAT, s->path, 0,
                   "is not a .safetensors file, or incomplete: a header of %" PRIu64
                   " bytes in a file of %" PRIu64,
                   *length, size);
}

/* The numbers last: they may be many. */
static int read_all(struct safetensors *s, int fd, uint64_t size, struct err *e)
{
    uint64_t length;
    TRY(read_length(s, fd, size, &length, e));
    TRY(file_read(fd, s->path, length, &s->header, e));
    struct parser p = { s, s->header, s->header, s->header + length, e };
    const uint64_t bytes = size - sizeof length - length;
    TRY(take_header(&p));
    TRY(check_tensors(s, bytes, e));
    return file_read(fd, s->path, bytes, &s->data, e);
}

int safetensors_open(struct safetensors *s, const char *path, struct err *e)
{
    int fd;
    uint64_t size;
    *s = (struct safetensors){ .path = path };
    TRY(file_open(path, &fd, &size, e));
    int rc = read_all(s, fd, size, e);
    close(fd);
    return rc;
}

void safetensors_close(struct safetensors *s)
{
    mem_free(s->tensor);
    mem_free(s->header);
    mem_free(s->data);
    *s = (struct safetensors){ 0 };
}

struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, s->tensor[middle].name);
        if (!order) return &s->tensor[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
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

static float number(const char *at, enum kind kind)
{
    uint32_t bits;
    uint16_t half;
    memcpy(&half, at, sizeof half);
    if (kind == F16) return from_half(half);
    if (kind == BF16) return from_bits((uint32_t)half << 16);
    memcpy(&bits, at, sizeof bits);
    return from_bits(bits);
}

static int check_shape(const struct safetensors *s, const struct safetensor *t, const struct param *p,
                       struct err *e)
{
    uint64_t dims[PARAM_RANK];
    int same = t->rank == p->rank;
    for (int i = 0; i < p->rank; i++) dims[i] = (uint64_t)p->dims[i];
    for (int i = 0; i < p->rank; i++) same &= t->dims[i] == dims[i];
    if (same) return OK;
    return fail_at(e, E_FORMAT, s->path, 0, "%.100s is %s, expected %s, as %s of %s", t->name,
                   safetensors_shape(t->rank, t->dims).text, safetensors_shape(p->rank, dims).text,
                   surgery_param_name(p), net_layer_name(p->net, p->layer).text);
}

int safetensors_get(const struct safetensors *s, struct safetensor *t, const struct param *p, real *to,
                    struct err *e)
{
    const char *at = s->data + t->begin;
    TRY(check_shape(s, t, p, e));
    if (t->type->kind == OTHER)
        return fail_at(e, E_FORMAT, s->path, 0, "%.100s is of type %s, expected F32, F16 or BF16", t->name,
                       t->type->name);
    for (size_t i = 0; i < t->count; i++, at += t->type->bytes) {
        const float v = number(at, t->type->kind);
        if (!param_accepts(p, (double)v))
            return fail_at(e, E_FORMAT, s->path, 0,
                           "%.100s: number %zu is %g: the file is damaged, or from a training that failed",
                           t->name, i, (double)v);
        to[i] = v;
    }
    t->used = 1;
    return OK;
}

int safetensors_check_used(const struct safetensors *s, const char *cfg, struct err *e)
{
    for (size_t i = 0; i < s->n; i++)
        if (!s->tensor[i].used)
            return fail_at(e, E_FORMAT, s->path, 0, "%.100s, %s, is left over: %.150s has no place for it",
                           s->tensor[i].name, safetensors_shape(s->tensor[i].rank, s->tensor[i].dims).text,
                           cfg);
    return OK;
}

struct safetensors_shape safetensors_shape(int rank, const uint64_t *dims)
{
    struct safetensors_shape s = { "1" }; /* a number alone */
    size_t n = 0;
    for (int i = 0; i < rank && n < sizeof s.text; i++)
        n += (size_t)snprintf(s.text + n, sizeof s.text - n, "%s%" PRIu64, i ? "x" : "", dims[i]);
    return s;
}
