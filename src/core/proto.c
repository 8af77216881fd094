#include "proto.h"
#include <string.h>
#include "mem.h"

/* How a value is encoded: the low three bits of what stands before it. */
enum { VARINT = 0, LENGTH = 2, FIXED32 = 5 };

static void put(struct proto *p, const void *bytes, size_t n)
{
    enum { FIRST_ROOM = 256 };
    size_t need, room;
    if (p->failed) return;
    p->failed = mem_add(p->n, n, &need);
    if (!p->failed && need > p->room) {
        p->failed = mem_mul(need < FIRST_ROOM ? FIRST_ROOM : need, 2, &room);
        char *larger = p->failed ? NULL : mem_alloc(room, 1);
        p->failed = !larger;
        if (p->failed) return;
        if (p->n) memcpy(larger, p->bytes, p->n);
        mem_free(p->bytes);
        p->bytes = larger;
        p->room = room;
    }
    if (p->failed || !n) return;
    memcpy(p->bytes + p->n, bytes, n);
    p->n += n;
}

/* Seven bits a byte, the low ones first; the eighth says that more follow. */
static void put_varint(struct proto *p, uint64_t v)
{
    unsigned char byte[10];
    size_t n = 0;
    for (; v > 127; v >>= 7) byte[n++] = (unsigned char)(v | 128);
    byte[n++] = (unsigned char)v;
    put(p, byte, n);
}

static void put_tag(struct proto *p, int field, int type)
{
    put_varint(p, (uint64_t)field << 3 | (uint64_t)type);
}

void proto_int(struct proto *p, int field, int64_t v)
{
    put_tag(p, field, VARINT);
    put_varint(p, (uint64_t)v);
}

void proto_float(struct proto *p, int field, float v)
{
    put_tag(p, field, FIXED32);
    put(p, &v, sizeof v);
}

void proto_begin(struct proto *p, int field, uint64_t bytes)
{
    put_tag(p, field, LENGTH);
    put_varint(p, bytes);
}

void proto_text(struct proto *p, int field, const char *text)
{
    proto_begin(p, field, strlen(text));
    put(p, text, strlen(text));
}

void proto_append(struct proto *p, const struct proto *other)
{
    p->failed |= other->failed;
    put(p, other->bytes, other->n);
}

void proto_message(struct proto *p, int field, const struct proto *message)
{
    proto_begin(p, field, message->n);
    proto_append(p, message);
}

void proto_clear(struct proto *p) { p->n = 0; }

void proto_free(struct proto *p)
{
    mem_free(p->bytes);
    *p = (struct proto){ 0 };
}
