#include "pickle.h"
#include <string.h>
#include "core/array.h"
#include "core/bytes.h"
#include "core/mem.h"

struct machine {
    struct pickle *p;
    const char *path;
    char *bytes;
    size_t n, at;
    size_t *stack, depth;
    size_t *memo, memos;
    struct err *e;
};

static int damaged(const struct machine *m, const char *what)
{
    return fail_at(m->e, E_FORMAT, m->path, 0, "byte %zu of a pickle: %s", m->at, what);
}

static int no_memory(const struct machine *m) { return fail(m->e, E_MEM, "not enough memory"); }

/* ---- bytes ---- */

static int take(struct machine *m, size_t n, char **bytes)
{
    *bytes = m->bytes + m->at;
    if (n > m->n - m->at) return damaged(m, "it ends too early");
    m->at += n;
    return OK;
}

static int take_number(struct machine *m, size_t bytes, uint64_t *to)
{
    char *from;
    TRY(take(m, bytes, &from));
    *to = little_endian(from, bytes);
    return OK;
}

/* ---- values ---- */

static int add_value(struct machine *m, struct pickle_value v)
{
    if (array_grow(&m->p->value, m->p->n, sizeof v)) return no_memory(m);
    m->p->value[m->p->n++] = v;
    return OK;
}

static int push(struct machine *m, size_t value)
{
    if (array_grow(&m->stack, m->depth, sizeof *m->stack)) return no_memory(m);
    m->stack[m->depth++] = value;
    return OK;
}

static int push_new(struct machine *m, struct pickle_value v)
{
    TRY(add_value(m, v));
    return push(m, m->p->n - 1);
}

static int push_kind(struct machine *m, enum pickle_kind kind)
{
    return push_new(m, (struct pickle_value){ .kind = kind });
}

/* The value `below` the top of the stack. */
static int look(const struct machine *m, size_t below, size_t *value)
{
    *value = 0;
    if (below >= m->depth) return damaged(m, "it takes more than it has put down");
    *value = m->stack[m->depth - 1 - below];
    return OK;
}

static int append(struct machine *m, size_t to, size_t value)
{
    struct pickle *p = m->p;
    if (array_grow(&p->cell, p->ncells, sizeof *p->cell)) return no_memory(m);
    p->cell[p->ncells] = (struct pickle_cell){ value, 0 };
    struct pickle_value *v = &p->value[to];
    *(v->last ? &p->cell[v->last].next : &v->first) = p->ncells;
    v->last = p->ncells++;
    return OK;
}

/* The topmost n values become items of `to`. */
static int move_items(struct machine *m, size_t to, size_t n)
{
    for (size_t i = m->depth - n; i < m->depth; i++) TRY(append(m, to, m->stack[i]));
    m->depth -= n;
    return OK;
}

/* How many values there are above the last mark, which is taken away from below them. */
static int count_marked(struct machine *m, size_t *n)
{
    for (*n = 0; *n < m->depth; ++*n) {
        size_t *at = &m->stack[m->depth - 1 - *n];
        if (m->p->value[*at].kind != PICKLE_MARK) continue;
        memmove(at, at + 1, *n * sizeof *at);
        m->depth--;
        return OK;
    }
    return damaged(m, "a mark is missing");
}

/* ---- operations ---- */

static int push_text(struct machine *m, size_t length_bytes)
{
    struct pickle_value v = { .kind = PICKLE_TEXT };
    uint64_t length;
    TRY(take_number(m, length_bytes, &length));
    v.length = (size_t)length;
    TRY(take(m, v.length, &v.text));
    return push_new(m, v);
}

static int push_number(struct machine *m, size_t bytes, int has_sign)
{
    uint64_t bits;
    TRY(take_number(m, bytes, &bits));
    const unsigned shift = 64 - 8 * (unsigned)bytes;
    if (has_sign && bytes) bits = (uint64_t)((int64_t)(bits << shift) >> shift);
    return push_new(m, (struct pickle_value){ .kind = PICKLE_NUMBER, .number = (int64_t)bits });
}

/* Of more than 64 bits: nobody asks for it. */
static int push_long(struct machine *m)
{
    uint64_t bytes;
    char *skipped;
    TRY(take_number(m, 1, &bytes));
    if (bytes <= sizeof bytes) return push_number(m, (size_t)bytes, 1);
    TRY(take(m, (size_t)bytes, &skipped));
    return push(m, 0);
}

/* Two lines. */
static int push_name(struct machine *m)
{
    struct pickle_value v = { .kind = PICKLE_NAME, .text = m->bytes + m->at };
    for (int lines = 0; lines < 2;) {
        char *c;
        TRY(take(m, 1, &c));
        lines += *c == '\n';
        v.length = (size_t)(c - v.text);
    }
    return push_new(m, v);
}

static int push_tuple(struct machine *m, size_t n)
{
    size_t last;
    if (n) TRY(look(m, n - 1, &last));
    TRY(add_value(m, (struct pickle_value){ .kind = PICKLE_TUPLE }));
    const size_t tuple = m->p->n - 1;
    TRY(move_items(m, tuple, n));
    return push(m, tuple);
}

static int push_marked_tuple(struct machine *m)
{
    size_t n;
    TRY(count_marked(m, &n));
    return push_tuple(m, n);
}

/* n values for the container below them. */
static int fill(struct machine *m, enum pickle_kind kind, size_t n)
{
    size_t to;
    TRY(look(m, n, &to));
    if (m->p->value[to].kind != kind) return damaged(m, "items are not of a list or a dictionary");
    if (kind == PICKLE_DICT && n % 2) return damaged(m, "a key without a value");
    return move_items(m, to, n);
}

static int fill_marked(struct machine *m, enum pickle_kind kind)
{
    size_t n;
    TRY(count_marked(m, &n));
    return fill(m, kind, n);
}

/* The two topmost values, what is called and its arguments, become a call; an empty OrderedDict a dictionary.
 */
static int call(struct machine *m)
{
    size_t arguments;
    TRY(look(m, 1, &arguments));
    TRY(look(m, 0, &arguments));
    TRY(add_value(m, (struct pickle_value){ .kind = PICKLE_CALL }));
    const size_t called = m->p->n - 1;
    TRY(move_items(m, called, 2));
    if (pickle_is(m->p, pickle_item(m->p, called, 0), PICKLE_NAME, "collections\nOrderedDict") &&
        !m->p->value[arguments].first)
        m->p->value[called] = (struct pickle_value){ .kind = PICKLE_DICT };
    return push(m, called);
}

static int persist(struct machine *m)
{
    size_t what;
    TRY(look(m, 0, &what));
    struct pickle_value v = m->p->value[what];
    if (v.kind != PICKLE_TUPLE) return damaged(m, "a persistent object is not told by a tuple");
    v.kind = PICKLE_PERSISTENT;
    m->depth--;
    return push_new(m, v);
}

/* Values are numbered as they are first remembered: so no number is larger than there are bytes before. */
static int remember(struct machine *m, size_t number_bytes)
{
    uint64_t number;
    size_t value;
    TRY(take_number(m, number_bytes, &number));
    TRY(look(m, 0, &value));
    if (number > m->at) return damaged(m, "a number of a memory is too large");
    for (; m->memos <= number; m->memos++) {
        if (array_grow(&m->memo, m->memos, sizeof *m->memo)) return no_memory(m);
        m->memo[m->memos] = 0;
    }
    m->memo[number] = value;
    return OK;
}

static int recall(struct machine *m, size_t number_bytes)
{
    uint64_t number;
    TRY(take_number(m, number_bytes, &number));
    if (number >= m->memos) return damaged(m, "recalls what it has not remembered");
    return push(m, m->memo[number]);
}

static int drop(struct machine *m)
{
    size_t value;
    TRY(look(m, 0, &value));
    m->depth--;
    return OK;
}

static int push_float(struct machine *m)
{
    char *bytes;
    TRY(take(m, 8, &bytes));
    return push(m, 0);
}

static int check_protocol(struct machine *m)
{
    uint64_t protocol;
    TRY(take_number(m, 1, &protocol));
    return protocol == 2 || protocol == 3 ? OK
                                          : damaged(m, "expected protocol 2, in which torch.save writes");
}

/* By the letters of the language, as its reference lists them (pickletools of Python). */
static int operate(struct machine *m, char operation)
{
    switch ((unsigned char)operation) {
    case 0x80: return check_protocol(m);
    case 'N':
    case 0x88: /* True */
    case 0x89: return push(m, 0);
    case 'G': return push_float(m);
    case 'K': return push_number(m, 1, 0);
    case 'M': return push_number(m, 2, 0);
    case 'J': return push_number(m, 4, 1);
    case 0x8a: return push_long(m);
    case 'U': /* in Python 2's; bytes in 3's: */
    case 'C': return push_text(m, 1);
    case 'T':
    case 'B':
    case 'X': return push_text(m, 4);
    case 'c': return push_name(m);
    case '(': return push_kind(m, PICKLE_MARK);
    case ')': return push_kind(m, PICKLE_TUPLE);
    case 0x85: return push_tuple(m, 1);
    case 0x86: return push_tuple(m, 2);
    case 0x87: return push_tuple(m, 3);
    case 't': return push_marked_tuple(m);
    case ']': return push_kind(m, PICKLE_LIST);
    case 'a': return fill(m, PICKLE_LIST, 1);
    case 'e': return fill_marked(m, PICKLE_LIST);
    case '}': return push_kind(m, PICKLE_DICT);
    case 's': return fill(m, PICKLE_DICT, 2);
    case 'u': return fill_marked(m, PICKLE_DICT);
    case 'R':
    case 0x81: return call(m); /* the latter: of a class, for a new object */
    case 'b': return drop(m);  /* the attributes of an object */
    case 'Q': return persist(m);
    case 'q': return remember(m, 1);
    case 'r': return remember(m, 4);
    case 'h': return recall(m, 1);
    case 'j': return recall(m, 4);
    default: m->at--; return damaged(m, "no operation that a state dict needs");
    }
}

static int run(struct machine *m)
{
    TRY(add_value(m, (struct pickle_value){ .kind = PICKLE_OTHER }));
    if (array_grow(&m->p->cell, m->p->ncells++, sizeof *m->p->cell)) return no_memory(m);
    for (;;) {
        char *operation;
        TRY(take(m, 1, &operation));
        if (*operation == '.') break;
        TRY(operate(m, *operation));
    }
    m->p->used = m->at;
    return look(m, 0, &m->p->top);
}

int pickle_read(struct pickle *p, const char *path, char *bytes, size_t n, struct err *e)
{
    struct machine m = { .p = p, .path = path, .bytes = bytes, .n = n, .e = e };
    *p = (struct pickle){ 0 };
    int rc = run(&m);
    mem_free(m.stack);
    mem_free(m.memo);
    return rc;
}

void pickle_close(struct pickle *p)
{
    mem_free(p->value);
    mem_free(p->cell);
    *p = (struct pickle){ 0 };
}

/* ---- questions ---- */

size_t pickle_item(const struct pickle *p, size_t value, size_t i)
{
    size_t c = p->value[value].first;
    while (c && i--) c = p->cell[c].next;
    return c ? p->cell[c].value : 0;
}

int pickle_is(const struct pickle *p, size_t value, enum pickle_kind kind, const char *text)
{
    const struct pickle_value *v = &p->value[value];
    return v->kind == kind && v->length == strlen(text) && !memcmp(v->text, text, v->length);
}
