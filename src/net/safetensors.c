/* The format .safetensors: eight bytes with the length of a header, the header, a JSON object that tells
 * name, type, shape and place of each tensor, then their numbers, little-endian, row by row. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "core/file.h"
#include "core/mem.h"
#include "net/state_dict.h"

static const uint64_t most_header = 100000000; /* the format's own limit */

/* ---- JSON, as much of it as a header has ---- */

struct parser {
    struct state_dict *s;
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

static int find_type(struct parser *p, const char *name, const struct state_type **type)
{
    *type = state_type(name);
    return *type ? OK : expected(p, "a type such as \"F32\"");
}

enum { HAS_TYPE = 1, HAS_SHAPE = 2, HAS_PLACE = 4 };

/* What the header tells of one. */
struct entry {
    struct state_tensor t;
    uint64_t end; /* of its bytes, as told */
    int has;
};

static int take_property(struct parser *p, struct entry *x)
{
    struct state_tensor *t = &x->t;
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
        TRY(take_numbers(p, t->dims, STATE_RANK, &t->rank));
    } else if (!strcmp(key, "data_offsets")) {
        what = HAS_PLACE;
        TRY(take_numbers(p, place, 2, &n));
        if (n != 2) return expected(p, "two numbers");
        t->begin = place[0];
        x->end = place[1];
    } else {
        return expected(p, "dtype, shape or data_offsets before this");
    }
    if (x->has & what) return expected(p, "dtype, shape and data_offsets once each");
    x->has |= what;
    return OK;
}

static int check_bytes(const struct parser *p, struct entry *x)
{
    struct state_tensor *t = &x->t;
    size_t bytes;
    if (!state_tensor_measure(t, &bytes) && t->begin <= x->end && x->end - t->begin == bytes) return OK;
    return fail_at(p->e, E_FORMAT, p->s->path, 0,
                   "%.100s: its data_offsets [%" PRIu64 ", %" PRIu64 "] do not hold %s numbers of type %s",
                   t->name, t->begin, x->end, state_shape(t->rank, t->dims).text, t->type->name);
}

static int take_tensor(struct parser *p, char *name)
{
    struct entry x = { .t.name = name };
    TRY(take(p, '{', "an object"));
    do TRY(take_property(p, &x));
    while (accept(p, ','));
    TRY(take(p, '}', "a comma or the end of the object"));
    if (x.has != (HAS_TYPE | HAS_SHAPE | HAS_PLACE))
        return expected(p, "dtype, shape and data_offsets before this");
    TRY(check_bytes(p, &x));
    return state_dict_add(p->s, &x.t, p->e);
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

static uint64_t end_of(const struct state_tensor *t) { return t->begin + t->count * t->type->bytes; }

static int by_place(const void *a, const void *b)
{
    const struct state_tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return end_of(x) < end_of(y) ? -1 : end_of(x) > end_of(y);
}

/* The tensors cover the bytes behind the header, each once. */
static int check_places(struct state_dict *s, uint64_t bytes, struct err *e)
{
    uint64_t at = 0;
    if (s->n) qsort(s->tensor, s->n, sizeof *s->tensor, by_place);
    for (size_t i = 0; i < s->n; at = end_of(&s->tensor[i++]))
        if (s->tensor[i].begin != at)
            return fail_at(e, E_FORMAT, s->path, 0,
                           "%.100s begins at byte %" PRIu64 " of the data, expected %" PRIu64,
                           s->tensor[i].name, s->tensor[i].begin, at);
    if (at == bytes) return OK;
    return fail_at(e, E_FORMAT, s->path, 0,
                   "has %" PRIu64 " bytes of data, and its tensors %" PRIu64 ": is it complete?", bytes, at);
}

static int read_length(const struct state_dict *s, int fd, uint64_t size, uint64_t *length, struct err *e)
{
    char *bytes;
    *length = 0;
    if (size < sizeof *length)
        return fail_at(e, E_FORMAT, s->path, 0, "is too short for a .safetensors file: %" PRIu64 " bytes",
                       size);
    TRY(file_read(fd, s->path, sizeof *length, &bytes, e));
    memcpy(length, bytes, sizeof *length);
    mem_free(bytes);
    if (*length <= most_header && *length <= size - sizeof *length) return OK;
    return fail_at(e, E_FORMAT, s->path, 0,
                   "is neither a .safetensors file nor PyTorch's, or incomplete: a header of %" PRIu64
                   " bytes in a file of %" PRIu64,
                   *length, size);
}

/* The numbers last: they may be many. */
int safetensors_read(struct state_dict *s, int fd, uint64_t size, struct err *e)
{
    uint64_t length;
    TRY(read_length(s, fd, size, &length, e));
    TRY(file_read(fd, s->path, length, &s->names, e));
    struct parser p = { s, s->names, s->names, s->names + length, e };
    const uint64_t bytes = size - sizeof length - length;
    TRY(take_header(&p));
    TRY(check_places(s, bytes, e));
    return file_read(fd, s->path, bytes, &s->data, e);
}
