#include "flight.h"
#include <assert.h>
#include <string.h>
#include "core/clock.h"

void flight_begin(struct flight *f)
{
    if (f->n) return;
    f->began = wall_clock();
    f->loading = 0;
}

void flight_add(struct flight *f, struct program *p)
{
    assert(f->n < MOST_IN_FLIGHT);
    f->program[f->n++] = p;
}

/* Of both programs, whichever ran. */
static int each(const struct step_programs *p, int call(struct program *, int, struct err *), int mark,
                struct err *e)
{
    if (p->plain) TRY(call(p->plain, mark, e));
    return p->paired ? call(p->paired, mark, e) : OK;
}

int flight_land(struct flight *f, const struct step_programs *p, struct landed *l, struct err *e)
{
    *l = (struct landed){ .n = f->marked };
    TRY(each(p, step_mark, f->mark, e));
    if (l->n) TRY(each(p, step_wait, !f->mark, e));
    f->n -= l->n;
    f->marked = f->n;
    f->mark = !f->mark;
    if (!l->n) return OK;
    const double now = wall_clock();
    l->seconds = (now - f->began) / l->n;
    l->loading = f->loading / l->n;
    f->began = now;
    f->loading = 0;
    memcpy(l->program, f->program, (size_t)l->n * sizeof *l->program);
    memmove(f->program, f->program + l->n, (size_t)f->n * sizeof *f->program);
    return OK;
}
