#include "queue.h"
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "core/rng.h"

/* One of: work; a mark of an event; waiting for one. */
struct item {
    struct item *next;
    void (*run)(const void *);
    event_t event;
    int waits;
    long number;     /* of the mark */
    stream_t stream; /* of what is written down */
    size_t bytes;
    char args[] __attribute__((aligned(16)));
};

struct CUstream_st {
    struct item *first, **last;
    int late, any;
    stream_t next; /* of this thread */
};

struct CUevent_st {
    stream_t stream;      /* that was marked last */
    stream_t stopped;     /* that goes on when the event is there, or NULL */
    long marked, reached; /* marks so far; the last that was passed */
};

struct capture {
    struct item *first, **last;
};

_Thread_local enum late device_late = LATE_ALL;
static _Thread_local stream_t streams;
static _Thread_local struct capture *recorded; /* NULL: nothing is written down */

__attribute__((constructor)) static void choose(void)
{
    const char *late = getenv("SHIM_LATE");
    if (late) device_late = (enum late)atoi(late);
}

int shim_stream(stream_t *out, int computing)
{
    stream_t s = *out = mem_alloc(1, sizeof *s);
    if (!s) return E_MEM;
    s->last = &s->first;
    s->any = device_late == LATE_ANY;
    s->late = s->any || device_late == LATE_ALL || (device_late == LATE_COMPUTING && computing);
    s->next = streams;
    streams = s;
    return OK;
}

void shim_stream_close(stream_t s)
{
    stream_t *at = &streams;
    if (!s) return;
    shim_finish(s);
    while (*at && *at != s) at = &(*at)->next;
    if (*at) *at = s->next;
    mem_free(s);
}

int shim_event(event_t *event) { return (*event = mem_alloc(1, sizeof **event)) ? OK : E_MEM; }
void shim_event_drop(event_t event) { mem_free(event); }

/* ---- doing ---- */

static void advance(stream_t);
static void reach(event_t, long number);

static void do_first(stream_t s)
{
    struct item *i = s->first;
    stream_t stopped = NULL;
    if (!(s->first = i->next)) s->last = &s->first;
    if (i->run) i->run(i->args);
    if (i->event && !i->waits) {
        i->event->reached = i->number;
        stopped = i->event->stopped;
        i->event->stopped = NULL;
    }
    mem_free(i);
    if (stopped) advance(stopped);
}

static int is_stopped(const struct item *i) { return i->waits && i->event->reached < i->number; }

/* As far as it gets without others. */
static void advance(stream_t s)
{
    while (s->first && !is_stopped(s->first)) do_first(s);
    if (s->first) s->first->event->stopped = s;
}

/* One of those that can go on, or NULL. */
static stream_t any_stream(void)
{
    static _Thread_local uint64_t draws;
    stream_t any = NULL;
    uint64_t n = 0;
    for (stream_t s = streams; s; s = s->next)
        if (s->any && s->first && !is_stopped(s->first) && !rng_below(1, draws++, ++n)) any = s;
    return any;
}

/* Takes s a step further, at least by removing what stops it. */
static void force(stream_t s)
{
    stream_t any = s->any ? any_stream() : NULL;
    if (any)
        do_first(any);
    else if (is_stopped(s->first))
        reach(s->first->event, s->first->number);
    else
        do_first(s);
}

static void reach(event_t event, long number)
{
    while (event->reached < number) force(event->stream);
}

void shim_await(event_t event) { reach(event, event->marked); }

void shim_finish(stream_t s)
{
    while (s->first) force(s);
}

void shim_finish_all(void)
{
    for (stream_t s = streams; s; s = s->next) shim_finish(s);
}

/* ---- enqueuing ---- */

static int append(stream_t s, const struct item *item, const void *args, size_t bytes)
{
    struct item *i = mem_alloc(1, sizeof *i + bytes);
    if (!i) return E_MEM;
    *i = *item;
    i->stream = s;
    i->bytes = bytes;
    if (bytes) memcpy(i->args, args, bytes);
    struct item ***last = recorded ? &recorded->last : &s->last;
    **last = i;
    *last = &i->next;
    if (!recorded && !s->late) advance(s);
    return OK;
}

int shim_enqueue(stream_t s, void (*run)(const void *), const void *args, size_t bytes)
{
    return append(s, &(struct item){ .run = run }, args, bytes);
}

int shim_mark(event_t event, stream_t s)
{
    if (!recorded) event->stream = s, event->marked++;
    return append(s, &(struct item){ .event = event, .number = event->marked }, NULL, 0);
}

int shim_wait(stream_t s, event_t event)
{
    return append(s, &(struct item){ .event = event, .waits = 1, .number = event->marked }, NULL, 0);
}

/* ---- recordings ---- */

int shim_record_begin(void)
{
    recorded = mem_alloc(1, sizeof *recorded);
    if (recorded) recorded->last = &recorded->first;
    return recorded ? OK : E_MEM;
}

struct capture *shim_record_end(void)
{
    struct capture *r = recorded;
    recorded = NULL;
    return r;
}

int shim_play(const struct capture *r)
{
    for (const struct item *i = r->first; i; i = i->next)
        TRY(i->run     ? shim_enqueue(i->stream, i->run, i->args, i->bytes)
            : i->waits ? shim_wait(i->stream, i->event)
                       : shim_mark(i->event, i->stream));
    return OK;
}

void shim_forget(struct capture *r)
{
    for (struct item *next, *i = r ? r->first : NULL; i; i = next) {
        next = i->next;
        mem_free(i);
    }
    mem_free(r);
}
