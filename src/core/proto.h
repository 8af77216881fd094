/* The wire format of Protocol Buffers, for writing: a message is its fields one after another, in any order,
 * in a buffer that grows. When memory is short, `failed` is set and stays set, so that it need be looked at
 * only once. */
#ifndef CORE_PROTO_H
#define CORE_PROTO_H
#include <stddef.h>
#include <stdint.h>

/* All zero: an empty message. */
struct proto {
    char *bytes;
    size_t n, room;
    int failed;
};

void proto_int(struct proto *, int field, int64_t);
void proto_float(struct proto *, int field, float);
void proto_text(struct proto *, int field, const char *);
void proto_message(struct proto *, int field, const struct proto *);
/* The beginning of a field of `bytes` bytes, which the caller writes behind it. */
void proto_begin(struct proto *, int field, uint64_t bytes);

/* What is in it, behind what is there. */
void proto_append(struct proto *, const struct proto *);

void proto_clear(struct proto *); /* keeps the memory */
void proto_free(struct proto *);

#endif
