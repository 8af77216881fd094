/* What torch.save writes: a pickle that tells of tensors, and beside it the storages that their numbers are
 * in, each under a key. Since PyTorch 1.6 that is a zip file, whose members NAME/data.pkl and NAME/data/KEY
 * are not compressed; before, a number that marks the format, the protocol's and the machine's, the pickle, a
 * list of the keys, and for each of these a count and so many numbers. */
#include <stdlib.h>
#include <string.h>
#include "core/array.h"
#include "core/bytes.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/zip.h"
#include "net/pickle.h"
#include "net/state_dict.h"

struct storage {
    const char *key;
    size_t length; /* of the key */
    const struct state_type *type;
    uint64_t count;
    uint64_t begin; /* of its bytes in the file; 0: not found yet */
};

struct torch {
    struct state_dict *s;
    size_t size; /* of the file */
    struct pickle p;
    struct storage *storage; /* sorted by key */
    size_t n;
    struct err *e;
};

static int damaged(const struct torch *t, const char *what)
{
    return fail_at(t->e, E_FORMAT, t->s->path, 0, "is damaged, or no file of torch.save: %s", what);
}

static int no_memory(const struct torch *t) { return fail(t->e, E_MEM, "not enough memory"); }

/* ---- storages ---- */

static int by_key(const void *a, const void *b)
{
    const struct storage *x = a, *y = b;
    const int order = memcmp(x->key, y->key, x->length < y->length ? x->length : y->length);
    return order ? order : x->length < y->length ? -1 : x->length > y->length;
}

static struct storage *find_storage(const struct torch *t, const char *key, size_t length)
{
    const struct storage wanted = { .key = key, .length = length };
    return t->n ? bsearch(&wanted, t->storage, t->n, sizeof wanted, by_key) : NULL;
}

static const struct state_type *type_of(const struct pickle *p, size_t value)
{
    static const char *const types[][2] = {
        { "torch\nFloatStorage", "F32" },     { "torch\nHalfStorage", "F16" },
        { "torch\nBFloat16Storage", "BF16" }, { "torch\nDoubleStorage", "F64" },
        { "torch\nLongStorage", "I64" },      { "torch\nIntStorage", "I32" },
        { "torch\nShortStorage", "I16" },     { "torch\nCharStorage", "I8" },
        { "torch\nByteStorage", "U8" },       { "torch\nBoolStorage", "BOOL" },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (pickle_is(p, value, PICKLE_NAME, types[i][0])) return state_type(types[i][1]);
    return NULL;
}

/* What tells of one: "storage", its type, its key, its device, how many numbers. */
static int add_storage(struct torch *t, size_t value)
{
    const struct pickle *p = &t->p;
    const struct pickle_value *key = &p->value[pickle_item(p, value, 2)],
                              *count = &p->value[pickle_item(p, value, 4)];
    const struct storage s = { key->text, key->length, type_of(p, pickle_item(p, value, 1)),
                               (uint64_t)count->number, 0 };
    if (!pickle_is(p, pickle_item(p, value, 0), PICKLE_TEXT, "storage") || key->kind != PICKLE_TEXT)
        return damaged(t, "it has objects that are not storages");
    if (!s.type) return damaged(t, "a storage is of a type that is not known");
    if (count->kind != PICKLE_NUMBER || count->number < 0 || s.count > t->size / s.type->bytes)
        return damaged(t, "a storage is larger than the file");
    if (array_grow(&t->storage, t->n, sizeof s)) return no_memory(t);
    t->storage[t->n++] = s;
    return OK;
}

/* Each time that the pickle speaks of a storage, then once each. */
static int list_storages(struct torch *t)
{
    size_t n = 0;
    for (size_t v = 0; v < t->p.n; v++)
        if (t->p.value[v].kind == PICKLE_PERSISTENT) TRY(add_storage(t, v));
    if (t->n) qsort(t->storage, t->n, sizeof *t->storage, by_key);
    for (size_t i = 0; i < t->n; i++) {
        struct storage *s = &t->storage[i], *last = n ? &t->storage[n - 1] : NULL;
        if (!last || by_key(last, s))
            t->storage[n++] = *s;
        else if (last->type != s->type || last->count != s->count)
            return damaged(t, "it tells of one storage in two ways");
    }
    t->n = n;
    return OK;
}

/* ---- the zip file ---- */

/* Is it FOLDER/`name`..., in whatever folder all members are? What comes after that, else NULL. */
static const char *after(const struct zip_member *m, const char *name, size_t *length)
{
    const char *slash = memchr(m->name, '/', m->length), *end = m->name + m->length;
    const char *rest = slash ? slash + 1 : m->name;
    const size_t n = strlen(name);
    if ((size_t)(end - rest) < n || memcmp(rest, name, n)) return NULL;
    *length = (size_t)(end - rest) - n;
    return rest + n;
}

static int find_pickle(const struct torch *t, struct zip z, struct zip_member *m)
{
    size_t more;
    while (z.left) {
        TRY(zip_next(&z, m, t->e));
        if (after(m, "data.pkl", &more) && !more) return OK;
    }
    return damaged(t, "the zip file has no data.pkl");
}

static int place_storage(const struct torch *t, const struct zip_member *m)
{
    size_t length;
    const char *key = after(m, "data/", &length);
    struct storage *s = key ? find_storage(t, key, length) : NULL;
    if (!s) return OK;
    if (m->bytes != s->count * s->type->bytes) return damaged(t, "a storage is not as long as it should be");
    s->begin = m->begin;
    return OK;
}

static int read_zip(struct torch *t)
{
    struct zip z;
    struct zip_member m;
    TRY(zip_open(&z, t->s->path, t->s->data, t->size, t->e));
    TRY(find_pickle(t, z, &m));
    TRY(pickle_read(&t->p, t->s->path, t->s->data + m.begin, m.bytes, t->e));
    TRY(list_storages(t));
    while (z.left) {
        TRY(zip_next(&z, &m, t->e));
        TRY(place_storage(t, &m));
    }
    return OK;
}

/* ---- the format before ---- */

enum { COUNT = 8 }; /* bytes in front of a storage */

static int next_pickle(struct torch *t, size_t *at, struct pickle *p)
{
    TRY(pickle_read(p, t->s->path, t->s->data + *at, t->size - *at, t->e));
    *at += p->used;
    return OK;
}

static int place_storages(struct torch *t, const struct pickle *keys, size_t at)
{
    for (size_t c = keys->value[keys->top].first; c; c = keys->cell[c].next) {
        const struct pickle_value *key = &keys->value[keys->cell[c].value];
        struct storage *s = key->kind == PICKLE_TEXT ? find_storage(t, key->text, key->length) : NULL;
        if (!s) return damaged(t, "it has a storage of which it does not tell");
        if (t->size - at < COUNT) return damaged(t, "it ends too early");
        if (little_endian(t->s->data + at, COUNT) != s->count)
            return damaged(t, "a storage is not as long as it should be");
        s->begin = at + COUNT;
        if ((t->size - s->begin) / s->type->bytes < s->count) return damaged(t, "it ends too early");
        at = (size_t)(s->begin + s->count * s->type->bytes);
    }
    return OK;
}

static int read_old(struct torch *t)
{
    size_t at = 0;
    struct pickle p = { 0 };
    int rc = OK;
    for (int i = 0; i < 3 && !rc; i++) { /* the mark, the protocol, the machine */
        rc = next_pickle(t, &at, &p);
        pickle_close(&p);
    }
    if (!rc) rc = next_pickle(t, &at, &t->p);
    if (!rc) rc = list_storages(t);
    if (!rc) rc = next_pickle(t, &at, &p);
    if (!rc) rc = place_storages(t, &p, at);
    pickle_close(&p);
    return rc;
}

/* ---- tensors ---- */

/* The arguments of a call that makes a tensor: storage, offset, dimensions, strides ...; else 0. Parameters
 * are made of a tensor. */
static size_t tensor_arguments(const struct pickle *p, size_t value)
{
    while (p->value[value].kind == PICKLE_CALL) {
        const size_t what = pickle_item(p, value, 0);
        const size_t arguments = pickle_item(p, value, 1);
        if (pickle_is(p, what, PICKLE_NAME, "torch._utils\n_rebuild_tensor_v2")) return arguments;
        if (!pickle_is(p, what, PICKLE_NAME, "torch._utils\n_rebuild_parameter")) return 0;
        value = pickle_item(p, arguments, 0);
    }
    return 0;
}

static int take_dims(const struct torch *t, size_t tuple, uint64_t *to, int *n)
{
    *n = 0;
    for (size_t c = t->p.value[tuple].first; c; c = t->p.cell[c].next) {
        const struct pickle_value *v = &t->p.value[t->p.cell[c].value];
        if (*n == STATE_RANK || v->kind != PICKLE_NUMBER || v->number < 0)
            return damaged(t, "a tensor has no proper dimensions");
        to[(*n)++] = (uint64_t)v->number;
    }
    return OK;
}

/* Do all its numbers, from the given one on, lie in the storage? */
static int fits(const struct state_tensor *t, const struct storage *s, uint64_t offset)
{
    size_t last = (size_t)offset, way;
    int large = 0;
    for (int i = 0; i < t->rank && t->count; i++)
        large |= mem_mul((size_t)t->dims[i] - 1, (size_t)t->stride[i], &way) || mem_add(last, way, &last);
    return !large && (t->count ? last < s->count : last <= s->count);
}

/* With its name ended by a 0: what comes behind the name has been read. */
static int add_tensor(struct torch *t, const struct pickle_value *name, size_t arguments)
{
    const struct pickle *p = &t->p;
    struct state_tensor r = { .name = name->text };
    uint64_t stride[STATE_RANK];
    size_t bytes;
    int strides;
    const size_t storage = pickle_item(p, arguments, 0);
    const struct pickle_value *key = &p->value[pickle_item(p, storage, 2)],
                              *offset = &p->value[pickle_item(p, arguments, 1)];
    const struct storage *s =
        p->value[storage].kind == PICKLE_PERSISTENT ? find_storage(t, key->text, key->length) : NULL;
    if (!s || offset->kind != PICKLE_NUMBER || offset->number < 0)
        return damaged(t, "a tensor has no storage");
    r.type = s->type;
    TRY(take_dims(t, pickle_item(p, arguments, 2), r.dims, &r.rank));
    TRY(take_dims(t, pickle_item(p, arguments, 3), stride, &strides));
    if (strides != r.rank || state_tensor_measure(&r, &bytes))
        return damaged(t, "a tensor has no proper dimensions");
    memcpy(r.stride, stride, sizeof stride);
    if (!s->begin || !fits(&r, s, (uint64_t)offset->number))
        return damaged(t, "a tensor is not in its storage");
    r.begin = s->begin + (uint64_t)offset->number * s->type->bytes;
    for (size_t i = 0; i < name->length; i++)
        if ((unsigned char)name->text[i] < ' ')
            return damaged(t, "the name of a tensor has control characters");
    name->text[name->length] = 0;
    return state_dict_add(t->s, &r, t->e);
}

static int has_tensors(const struct pickle *p, size_t value)
{
    size_t c = p->value[value].kind == PICKLE_DICT ? p->value[value].first : 0;
    for (size_t i = 0; c; c = p->cell[c].next, i++)
        if (i % 2 && tensor_arguments(p, p->cell[c].value)) return 1;
    return 0;
}

/* The state dict itself, or under a name that trainings use for it beside the state of the optimiser. */
static int find_dict(const struct torch *t, size_t *dict)
{
    const struct pickle *p = &t->p;
    size_t c = p->value[p->top].kind == PICKLE_DICT ? p->value[p->top].first : 0;
    *dict = p->top;
    if (has_tensors(p, *dict)) return OK;
    for (; c && *dict == p->top; c = p->cell[p->cell[c].next].next) {
        const size_t key = p->cell[c].value, value = p->cell[p->cell[c].next].value;
        if (p->value[value].kind == PICKLE_DICT &&
            (pickle_is(p, key, PICKLE_TEXT, "state_dict") || pickle_is(p, key, PICKLE_TEXT, "model")))
            *dict = value;
    }
    if (has_tensors(p, *dict)) return OK;
    return fail_at(t->e, E_FORMAT, t->s->path, 0,
                   "holds no state dict: in Python, save one by torch.save(net.state_dict(), \"FILE.pth\")");
}

/* Nets that several GPUs trained have this before each name. */
static void drop_wrapper(struct state_dict *s)
{
    static const char wrapper[] = "module.";
    const size_t n = strlen(wrapper);
    for (size_t i = 0; i < s->n; i++)
        if (strncmp(s->tensor[i].name, wrapper, n)) return;
    for (size_t i = 0; i < s->n; i++) s->tensor[i].name += n;
}

static int list_tensors(struct torch *t)
{
    const struct pickle *p = &t->p;
    size_t dict;
    TRY(find_dict(t, &dict));
    for (size_t c = p->value[dict].first; c; c = p->cell[p->cell[c].next].next) {
        const struct pickle_value *name = &p->value[p->cell[c].value];
        const size_t arguments = tensor_arguments(p, p->cell[p->cell[c].next].value);
        if (!arguments) continue;
        if (name->kind != PICKLE_TEXT) return damaged(t, "a tensor has no name");
        TRY(add_tensor(t, name, arguments));
    }
    drop_wrapper(t->s);
    return OK;
}

int pth_read(struct state_dict *s, int fd, uint64_t size, struct err *e)
{
    struct torch t = { .s = s, .size = (size_t)size, .e = e };
    TRY(file_read(fd, s->path, t.size, &s->data, e));
    int rc = s->data[0] == 'P' ? read_zip(&t) : read_old(&t);
    if (!rc) rc = list_tensors(&t);
    pickle_close(&t.p);
    mem_free(t.storage);
    return rc;
}
