/* A slot is free, opened by the first lane that comes, filled by the workers, handed out, released. */
#include "loader.h"
#include <assert.h>
#include <pthread.h>
#include <string.h>
#include "core/cores.h"
#include "core/mem.h"
#include "data/image.h"
#include "data/mix.h"
#include "data/tally.h"

enum { DEPTH = 3, LANES = 2 };
enum { PACKED_ROWS = 16 }; /* rows a job of packed images: one alone is quicker made than handed over */
enum { MOST_ATTEMPTS = 100, MOST_NAMED = 100 };
enum { ROOM, WORK, READY, IDLE, CONDITIONS }; /* for feeders; workers; the consumer; closing */

struct slot {
    struct batch batch;
    float *x; /* or, where the loader says moves: */
    struct crop *move;
    int *label, *sample;       /* in one block */
    struct mixed_label *mixed; /* where images are mixed, else NULL */
    struct outcome {
        int failed;       /* unreadable draws before the sample that is in the row */
        int askew;        /* it is one that is not turned */
        const char *flaw; /* of its file, or NULL */
    } * outcome;          /* by row, in each of its parts */
    int pending;          /* rows still to be made, of all lanes */
    int released;
    struct err err; /* first failure that is no matter of one image */
};

struct job {
    struct slot *slot;
    int row, n;
};

struct lane {
    struct loader *loader;
    int number;
    pthread_t thread;
};

struct loader {
    const struct dataset *d;
    struct loader_options o;
    struct notes notes;
    size_t pixels; /* numbers in a row */
    int parts;     /* of which a row may be mixed */
    uint64_t end;  /* number of the first batch there is not */
    struct slot slot[DEPTH];

    pthread_mutex_t lock; /* of everything down to `inside`, and of pending, released and err of the slots */
    pthread_cond_t change[CONDITIONS];
    struct job *job; /* a ring with a place for every job of every slot */
    size_t capacity, head, tail;
    uint64_t next, taken; /* number of the batch to hand out; of the first that is not released */
    int stop, inside;     /* inside: calls of loader_next under way */

    struct lane lane[LANES];
    pthread_t *worker;
    int nlanes, nworkers, locks; /* so many exist */

    /* The consumer's alone. It counts in the order of batches, whoever decoded what first. */
    struct tally unreadable, flawed;
    struct err dead; /* once failed, always */
};

/* ---- workers ---- */

static int make_row(const struct loader *l, int sample, uint64_t key, float *x, struct outcome *out,
                    struct err *e)
{
    const struct dataset *d = l->d;
    const struct augment *a = &l->o.augment;
    struct picture own = { .w = d->w, .h = d->h };
    const uint8_t *pixels;
    if (d->pixels && d->c == a->c) {
        pixels = d->pixels + (size_t)sample * (size_t)d->c * (size_t)d->h * (size_t)d->w;
    } else {
        int shorter = l->o.training ? augment_shorter(a, key) : a->w > a->h ? a->w : a->h;
        TRY(dataset_image(d, sample, a->c, shorter, &own, e));
        pixels = own.pixels;
    }
    int rc = l->o.training ? augment_image(a, key, pixels, own.w, own.h, x, e)
                           : image_view(l->o.view, pixels, a->c, own.w, own.h, a->w, a->h, x, e);
    if (!rc && !l->o.training) augment_normalise(a, x);
    mem_free(own.pixels);
    out->flaw = own.flaw;
    out->askew = own.askew;
    return rc;
}

static struct place place_of(const struct loader *l, const struct slot *s, int at)
{
    int lane = at >= s->batch.rows_s1;
    return (struct place){ s->batch.number, lane, l->o.share.first + at - lane * s->batch.rows_s1 };
}

static int move_row(const struct loader *l, struct slot *s, int at)
{
    struct crop *m = &s->move[at];
    m->image = s->sample[at];
    s->label[at] = l->d->label[m->image];
    augment_move(&l->o.augment, order_augment_key(&l->o, place_of(l, s, at), 0), m);
    return OK;
}

/* Fills x with a part of row `at`, with other draws while images are unreadable. *sample: which it is. */
static int fill_part(const struct loader *l, struct slot *s, int at, int part, float *x, int *sample,
                     struct err *e)
{
    const struct loader_options *o = &l->o;
    const struct place p = place_of(l, s, at);
    const uint64_t key = order_augment_key(o, p, part);
    struct outcome *out = &s->outcome[at * l->parts + part];
    struct err why;
    int rc;
    while ((rc = make_row(l, *sample, key, x, out, &why)) == E_FILE || rc == E_FORMAT) {
        out->failed++;
        if (!o->training) break;
        int other = order_sample(o, l->d, p, part, out->failed);
        if (out->failed == MOST_ATTEMPTS || other < 0)
            return fail(e, E_FORMAT, "%d draws in a row gave no readable image; the last: %s", out->failed,
                        why.msg);
        *sample = other;
    }
    if (rc && rc != E_FILE && rc != E_FORMAT) return fail(e, rc, "%s", why.msg);
    if (!rc) return OK;
    memset(x, 0, l->pixels * sizeof *x);
    *sample = -1 - *sample;
    return OK;
}

/* Mixes the other parts into row `at`, which holds the first. */
static int mix_row(const struct loader *l, struct slot *s, int at, struct err *e)
{
    const struct augment *a = &l->o.augment;
    const struct place p = place_of(l, s, at);
    const struct mixture m = mix_choose((enum mix)a->mix, order_mix_key(&l->o, p), a->w, a->h);
    int rc = OK;
    struct mixed_label *mixed = &s->mixed[at];
    float *part = m.parts > 1 ? mem_alloc(l->pixels, sizeof *part) : NULL;
    *mixed = (struct mixed_label){ .label = { s->label[at] } };
    memcpy(mixed->share, m.share, sizeof m.share);
    if (m.parts > 1 && !part) return fail(e, E_MEM, "not enough memory for an image");
    for (int i = 1; i < m.parts && !rc; i++) {
        int sample = order_sample(&l->o, l->d, p, i, 0);
        rc = fill_part(l, s, at, i, part, &sample, e);
        if (rc) break;
        mix_add(&m, i, part, s->x + (size_t)at * l->pixels, a->c, a->h, a->w);
        mixed->label[i] = l->d->label[sample];
    }
    s->label[at] = mixed_main(mixed);
    mem_free(part);
    return rc;
}

static int fill_row(const struct loader *l, struct slot *s, int at, struct err *e)
{
    memset(&s->outcome[at * l->parts], 0, (size_t)l->parts * sizeof *s->outcome);
    if (l->o.moves) return move_row(l, s, at);
    TRY(fill_part(l, s, at, 0, s->x + (size_t)at * l->pixels, &s->sample[at], e));
    s->label[at] = l->d->label[s->sample[at] < 0 ? -1 - s->sample[at] : s->sample[at]];
    if (s->mixed) TRY(mix_row(l, s, at, e));
    if (!l->o.training) return OK;
    return augment_blur(&l->o.augment, order_augment_key(&l->o, place_of(l, s, at), 0),
                        s->x + (size_t)at * l->pixels, e);
}

static void *work(void *arg)
{
    struct loader *l = arg;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->stop && l->head == l->tail) pthread_cond_wait(&l->change[WORK], &l->lock);
        if (l->stop) break;
        struct job j = l->job[l->head++ % l->capacity];
        pthread_mutex_unlock(&l->lock);
        struct err e;
        int rc = OK;
        for (int i = 0; !rc && i < j.n; i++) rc = fill_row(l, j.slot, j.row + i, &e);
        pthread_mutex_lock(&l->lock);
        if (rc && !j.slot->err.code) j.slot->err = e;
        if (!(j.slot->pending -= j.n)) pthread_cond_broadcast(&l->change[READY]);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- feeders ---- */

/* Of one pass, in validation. */
static uint64_t samples_of(const struct dataset *d, const struct loader_options *o)
{
    return (uint64_t)(o->only ? o->only_n : d->n);
}

static int rows_of(const struct loader *l, uint64_t number)
{
    uint64_t rows = (uint64_t)l->o.rows, left = samples_of(l->d, &l->o);
    if (l->o.training) return l->o.share.rows;
    if ((number + 1) * rows > left) return (int)(left - number * rows);
    return l->o.rows;
}

/* The slot of a number, once it is free; NULL when the loader closes. */
static struct slot *wait_slot(struct loader *l, uint64_t number)
{
    struct slot *s = &l->slot[number % DEPTH];
    pthread_mutex_lock(&l->lock);
    while (!l->stop && number >= l->taken + DEPTH) pthread_cond_wait(&l->change[ROOM], &l->lock);
    if (!l->stop && s->batch.number != number) {
        int lanes = order_is_paired(&l->o, number) ? 2 : 1, first = rows_of(l, number);
        s->batch =
            (struct batch){ first * lanes, first, s->x, s->move, s->label, s->mixed, s->sample, number };
        s->pending = first * lanes;
        s->released = 0;
    }
    int stop = l->stop;
    pthread_mutex_unlock(&l->lock);
    return stop ? NULL : s;
}

static void *feed(void *arg)
{
    const struct lane *lane = arg;
    struct loader *l = lane->loader;
    int most = l->d->pixels ? PACKED_ROWS : 1;
    for (uint64_t number = l->o.start;; number++) {
        if (lane->number == 1) number = order_next_paired(&l->o, number);
        struct slot *s = number < l->end ? wait_slot(l, number) : NULL;
        if (!s) return NULL;
        int n = s->batch.rows_s1, at = lane->number * n;
        for (int i = 0; i < n; i++)
            s->sample[at + i] = order_sample(&l->o, l->d, place_of(l, s, at + i), 0, 0);
        pthread_mutex_lock(&l->lock);
        for (int i = 0; i < n; i += most)
            l->job[l->tail++ % l->capacity] = (struct job){ s, at + i, n - i < most ? n - i : most };
        pthread_cond_broadcast(&l->change[WORK]);
        pthread_mutex_unlock(&l->lock);
    }
}

/* ---- handing out ---- */

/* Whether a sample was counted now and is to be named. */
static int count(struct loader *l, struct tally *t, const char *kind, int sample)
{
    if (!tally_add(t, sample)) return 0;
    if (t->n == MOST_NAMED + 1)
        note(&l->notes, "%d %s images were named; others are only counted", MOST_NAMED, kind);
    return t->n <= MOST_NAMED;
}

static void count_unreadable(struct loader *l, int sample)
{
    struct err e;
    struct picture picture;
    if (!count(l, &l->unreadable, "unreadable", sample)) return;
    /* Read again for the reason: this is rare, and keeps the notes in the order of the batches. */
    int rc = dataset_image(l->d, sample, l->o.augment.c, 0, &picture, &e);
    mem_free(picture.pixels);
    note(&l->notes, "%s: %s", rc ? e.msg : l->d->path[sample],
         l->o.training ? "another image is drawn instead" : "counts as wrong");
}

static int check_unreadable(const struct loader *l, struct err *e)
{
    if (!l->o.training || l->unreadable.n <= l->d->n / 100.0) return OK;
    return fail(e, E_FORMAT, "%d of %d images were unreadable so far, expected at most 1 %%: check the files",
                l->unreadable.n, l->d->n);
}

/* Counts and names what was unreadable in a finished slot. */
static int account(struct loader *l, const struct slot *s, struct err *e)
{
    if (s->err.code) return fail(e, s->err.code, "%s", s->err.msg);
    for (int i = 0; i < s->batch.rows * l->parts; i++) {
        const struct outcome *o = &s->outcome[i];
        const struct place p = place_of(l, s, i / l->parts);
        for (int k = 0; k < o->failed; k++)
            count_unreadable(l, order_sample(&l->o, l->d, p, i % l->parts, k));
        if (!o->flaw && !o->askew) continue;
        int sample = order_sample(&l->o, l->d, p, i % l->parts, o->failed);
        if (o->askew && l->d->askew && !atomic_flag_test_and_set(l->d->askew))
            note(&l->notes, IMAGE_ASKEW, l->d->path[sample]);
        if (o->flaw && count(l, &l->flawed, "damaged", sample))
            note(&l->notes, "%s: %s", l->d->path[sample], o->flaw);
    }
    return check_unreadable(l, e);
}

/* Waits for the next slot; NULL at the end, on a failure (*rc) and when the loader closes. The lock is held.
 */
static struct slot *wait_ready(struct loader *l, int *rc, struct err *e)
{
    struct slot *s = &l->slot[l->next % DEPTH];
    *rc = OK;
    if (l->dead.code) *rc = fail(e, l->dead.code, "%s", l->dead.msg);
    if (*rc || l->next >= l->end) return NULL;
    assert(l->next < l->taken + DEPTH); /* else all are held */
    while (!l->stop && (s->batch.number != l->next || s->pending))
        pthread_cond_wait(&l->change[READY], &l->lock);
    if (l->stop) {
        *rc = fail(e, E_ARG, "the loader was closed");
        return NULL;
    }
    l->next++;
    return s;
}

int loader_next(struct loader *l, const struct batch **batch, struct err *e)
{
    int rc;
    *batch = NULL;
    pthread_mutex_lock(&l->lock);
    l->inside++;
    struct slot *s = wait_ready(l, &rc, e);
    pthread_mutex_unlock(&l->lock);
    if (s && (rc = account(l, s, &l->dead))) fail(e, rc, "%s", l->dead.msg);
    if (s && !rc) *batch = &s->batch;
    pthread_mutex_lock(&l->lock);
    if (!--l->inside) pthread_cond_broadcast(&l->change[IDLE]);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

void loader_release(struct loader *l, const struct batch *batch)
{
    pthread_mutex_lock(&l->lock);
    l->slot[batch->number % DEPTH].released = 1;
    for (struct slot *s; s = &l->slot[l->taken % DEPTH], s->batch.number == l->taken && s->released;)
        l->taken++;
    pthread_cond_broadcast(&l->change[ROOM]);
    pthread_mutex_unlock(&l->lock);
}

int loader_join(struct loader *l, struct group *g, struct err *e)
{
    const int rc = tally_join(&l->unreadable, g);
    return rc ? fail(e, rc, "the unreadable images of all processes: %s", err_text(rc))
              : check_unreadable(l, e);
}

uint64_t loader_unreadable(const struct loader *l) { return (uint64_t)l->unreadable.n; }

/* ---- opening and closing ---- */

static int take_images(const struct loader *l, float **x, size_t numbers, struct err *e)
{
    const struct image_memory *m = &l->o.memory;
    void *taken = NULL;
    if (m->alloc) TRY(m->alloc(m->ctx, numbers * sizeof **x, &taken, e));
    *x = m->alloc ? taken : mem_alloc(numbers, sizeof **x);
    return OK;
}

static void give_images(const struct loader *l, float *x)
{
    const struct image_memory *m = &l->o.memory;
    if (m->alloc)
        m->free(m->ctx, x);
    else
        mem_free(x);
}

static int make_slots(struct loader *l, struct err *e)
{
    const struct augment *a = &l->o.augment;
    size_t rows, numbers, lanes = l->o.pairing == PAIR_NONE ? 1 : 2, most = l->d->pixels ? PACKED_ROWS : 1;
    if (mem_mul((size_t)a->w * (size_t)a->c, (size_t)a->h, &l->pixels) ||
        mem_mul((size_t)l->o.share.rows, lanes, &rows) || mem_mul(rows, l->pixels, &numbers))
        return fail(e, E_MEM, "%d rows of %d x %d x %d numbers are too many", l->o.share.rows, a->c, a->h,
                    a->w);
    size_t free_bytes = mem_free_bytes(), each = l->o.moves ? sizeof(struct crop) : l->pixels * sizeof(float);
    if (rows > free_bytes / DEPTH / each)
        return fail(
            e, E_MEM,
            "%d mini-batches of %zu images, %zu bytes each, are made ahead, but %zu MiB of memory are free: "
            "lower batch or raise subdivisions",
            DEPTH, rows, each, free_bytes >> 20);
    l->capacity = DEPTH * lanes * (((size_t)l->o.share.rows + most - 1) / most);
    l->job = mem_alloc(l->capacity, sizeof *l->job);
    l->worker = mem_alloc((size_t)l->o.workers, sizeof *l->worker);
    int missing =
        !l->job || !l->worker || tally_open(&l->unreadable, l->d->n) || tally_open(&l->flawed, l->d->n);
    for (int i = 0; i < DEPTH; i++) {
        struct slot *s = &l->slot[i];
        s->batch.number = UINT64_MAX;
        if (l->o.moves)
            s->move = mem_alloc(rows, sizeof *s->move);
        else
            TRY(take_images(l, &s->x, numbers, e));
        s->label = mem_alloc(2 * rows, sizeof *s->label);
        s->sample = s->label + rows;
        s->outcome = mem_alloc(rows * (size_t)l->parts, sizeof *s->outcome);
        if (l->parts > 1) s->mixed = mem_alloc(rows, sizeof *s->mixed);
        missing |= (!s->x && !s->move) || !s->label || !s->outcome || (l->parts > 1 && !s->mixed);
    }
    if (!missing) return OK;
    return fail(e, E_MEM, "not enough memory for %d mini-batches of %zu rows of %zu numbers", DEPTH, rows,
                l->pixels);
}

static int make_threads(struct loader *l, struct err *e)
{
    int rc = pthread_mutex_init(&l->lock, NULL);
    for (; !rc && l->locks < CONDITIONS; l->locks++)
        if ((rc = pthread_cond_init(&l->change[l->locks], NULL))) break;
    if (rc) return fail(e, E_MEM, "no lock can be made: %s", strerror(rc));
    int lanes = l->o.pairing == PAIR_NONE ? 1 : 2;
    for (; !rc && l->nlanes < lanes; l->nlanes += !rc) {
        struct lane *lane = &l->lane[l->nlanes];
        lane->loader = l;
        lane->number = l->nlanes;
        rc = pthread_create(&lane->thread, NULL, feed, lane);
    }
    for (; !rc && l->nworkers < l->o.workers; l->nworkers += !rc)
        rc = pthread_create(&l->worker[l->nworkers], NULL, work, l);
    if (rc)
        return fail(e, E_MEM, "thread %d of %d cannot be started: %s; use fewer workers",
                    l->nlanes + l->nworkers + 1, lanes + l->o.workers, strerror(rc));
    return OK;
}

int loader_open(struct loader **out, const struct dataset *d, const struct loader_options *o,
                const struct notes *notes, struct err *e)
{
    *out = NULL;
    const struct augment *a = &o->augment;
    assert(d->n > 0 && o->rows > 0 && o->subdivisions >= 0 && o->every >= 0 && a->w > 0 && a->h > 0);
    assert(o->workers > 0 && o->workers <= MOST_THREADS);
    assert(o->training ? !o->only : o->pairing == PAIR_NONE && (!o->only || o->only_n > 0));
    assert(!o->moves || (o->training && d->pixels && d->c == a->c && augment_only_moves(a, d->w, d->h)));
    if (a->c != 1 && a->c != 3)
        return fail(e, E_CFG, "channels=%d: images have 1 (gray) or 3 (colour)", a->c);
    struct loader *l = mem_alloc(1, sizeof *l);
    if (!l) return fail(e, E_MEM, "not enough memory");
    l->d = d;
    l->o = *o;
    l->o.subdivisions += !o->subdivisions;
    l->o.every += !o->every;
    if (!o->share.all) l->o.share = (struct share){ 0, o->rows, o->rows };
    l->parts = o->training && a->mix != MIX_NONE ? MIXED : 1;
    if (notes) l->notes = *notes;
    l->next = l->taken = o->start;
    uint64_t rows = (uint64_t)o->rows;
    l->end = o->training ? UINT64_MAX : (samples_of(d, o) + rows - 1) / rows;
    int rc = make_slots(l, e);
    if (!rc) rc = make_threads(l, e);
    if (rc) {
        loader_close(l);
        return rc;
    }
    if (o->training && a->c == 1 && (a->hue != 0 || a->saturation > 1))
        note(notes, "channels=1: hue and saturation are ignored");
    *out = l;
    return OK;
}

static void stop(struct loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = 1;
    for (int i = 0; i < CONDITIONS; i++) pthread_cond_broadcast(&l->change[i]);
    while (l->inside) pthread_cond_wait(&l->change[IDLE], &l->lock);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->nlanes; i++) pthread_join(l->lane[i].thread, NULL);
    for (int i = 0; i < l->nworkers; i++) pthread_join(l->worker[i], NULL);
}

void loader_close(struct loader *l)
{
    if (!l) return;
    if (l->locks == CONDITIONS) stop(l);
    for (int i = 0; i < l->locks; i++) pthread_cond_destroy(&l->change[i]);
    if (l->locks) pthread_mutex_destroy(&l->lock);
    for (int i = 0; i < DEPTH; i++) {
        give_images(l, l->slot[i].x);
        mem_free(l->slot[i].move);
        mem_free(l->slot[i].label);
        mem_free(l->slot[i].mixed);
        mem_free(l->slot[i].outcome);
    }
    mem_free(l->job);
    mem_free(l->worker);
    tally_close(&l->unreadable);
    tally_close(&l->flawed);
    mem_free(l);
}
