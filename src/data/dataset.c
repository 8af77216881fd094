#include "dataset.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/mem.h"
#include "core/rng.h"
#include "data/image.h"
#include "data/label.h"
#include "data/packed.h"

/* ---- labelling a list ---- */

struct set {
    struct dataset d;
    char **list;
    struct packed packed;
    int *label; /* of a list */
    atomic_flag askew;
    struct pick pick;
};

struct some {
    int n, first;
};

static void add(struct some *s, int i)
{
    if (!s->n++) s->first = i;
}

struct tally {
    /* no label; still ambiguous; several labels, but one preferred; a label behind those of the classes */
    struct some none, several, settled, beyond;
};

/* "'cat', 'dog'": the labels last found, as far as they fit. */
static const char *hits(const struct label_finder *f, char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = 0;
    for (int i = 0; i < f->nhit && n + 1 < size; i++) {
        int more = snprintf(buf + n, size - n, "%s'%.30s'", i ? ", " : "", f->hit[i]);
        n += more > 0 ? (size_t)more : 0;
    }
    return buf;
}

struct shown {
    char text[80];
};

/* A path as messages quote it: a long one loses its middle, because the differences are at its end. */
static struct shown show(const char *path)
{
    struct shown s;
    size_t n = strlen(path), capacity = sizeof s.text - 1, head = 20;
    if (n > capacity)
        snprintf(s.text, sizeof s.text, "%.*s...%s", (int)head, path, path + n - (capacity - head - 3));
    else
        memcpy(s.text, path, n + 1);
    return s;
}

static int report(const struct set *s, struct label_finder *f, const struct tally *t, const char *list,
                  const struct notes *notes, struct err *e)
{
    const char *path = s->list[t->settled.first];
    char buf[100] = "", none[300] = "", several[260] = "", beyond[220] = "";
    if (t->settled.n) {
        label_search(f, path);
        note(notes,
             "%s: %d of %d images have several labels in their path; '%s' has %s: taken as '%s' (file name "
             "before folders, then whole words, then the longest)",
             list, t->settled.n, s->d.n, show(path).text, hits(f, buf, sizeof buf),
             f->hit[label_of(path, f->hit, f->nhit)]);
    }
    if (!t->none.n && !t->several.n && !t->beyond.n) return OK;
    if (t->none.n) {
        const char *label, *wrong = label_dialect(f, s->list[t->none.first], &label);
        int n = snprintf(none, sizeof none, "; %d without a label, first '%s' (line %d)", t->none.n,
                         show(s->list[t->none.first]).text, list_line(list, t->none.first));
        if (wrong) snprintf(none + n, sizeof none - (size_t)n, ": the label '%.40s' %s", label, wrong);
    }
    if (t->several.n) {
        path = s->list[t->several.first];
        label_search(f, path);
        snprintf(several, sizeof several, "; %d with several, first '%s' (line %d: %s)", t->several.n,
                 show(path).text, list_line(list, t->several.first), hits(f, buf, sizeof buf));
    }
    if (t->beyond.n) {
        path = s->list[t->beyond.first];
        label_search(f, path);
        int k = label_of(path, f->hit, f->nhit);
        snprintf(beyond, sizeof beyond,
                 "; %d of label %d or later, but classes=%d, first '%s' (line %d: '%.30s')", t->beyond.n,
                 s->d.classes + 1, s->d.classes, show(path).text, list_line(list, t->beyond.first),
                 f->hit[k]);
    }
    return fail_at(e, E_FORMAT, list, 0, "%d images, each must have one label in its path%s%s%s", s->d.n,
                   none, several, beyond);
}

static int label_all(struct set *s, struct label_finder *f, const char *list, const struct notes *notes,
                     struct err *e)
{
    struct tally t = { 0 };
    for (int i = 0; i < s->d.n; i++) {
        label_search(f, s->list[i]);
        int k = label_of(s->list[i], f->hit, f->nhit);
        if (k == -1) add(&t.none, i);
        if (k < -1) add(&t.several, i);
        if (k < 0) continue;
        if (f->hit_class[k] >= s->d.classes) {
            add(&t.beyond, i);
            continue;
        }
        s->label[i] = f->hit_class[k];
        if (f->nhit > 1) add(&t.settled, i);
    }
    return report(s, f, &t, list, notes, e);
}

/* After the labels, so that messages speak of the list as it stands in the file. */
static int keep_picked(struct set *s, const char *path, struct err *e)
{
    int n = 0;
    TRY(pick_open(&s->pick, s->d.n, path, e));
    for (int i = 0; i < s->d.n; i++) {
        if (!pick_next(&s->pick)) continue;
        s->list[n] = s->list[i];
        s->label[n++] = s->label[i];
    }
    s->d.n = n;
    return OK;
}

static int open_list(struct set *s, const struct data_file *d, const char *path, const struct notes *notes,
                     struct err *e)
{
    char **labels;
    int n;
    struct label_finder f;
    TRY(list_read(&s->list, &s->d.n, path, e));
    if (!d->labels)
        return fail_at(e, E_CFG, d->path, 0,
                       "no `labels=`: add the list of the words that tell the classes in image "
                       "paths, one a line%s",
                       d->names ? " (names= are what is printed; one file may be both)" : "");
    if (d->width)
        return fail_at(
            e, E_CFG, d->path, 0,
            "resize=%dx%d is for packed images, but %.150s is a list: take it out, the network's width= "
            "and height= tell the size",
            d->width, d->height, path);
    if (!s->pick.holdout && s->pick.limit && s->pick.limit < s->d.n)
        s->d.n = s->pick.limit; /* labels enough */
    s->label = mem_alloc((size_t)s->d.n, sizeof *s->label);
    if (!s->label) return fail(e, E_MEM, "not enough memory for %d images", s->d.n);
    s->d.path = s->list;
    s->d.orient = d->orient > 0;
    s->d.askew = d->orient < 0 ? &s->askew : NULL;
    s->d.label = s->label;
    TRY(labels_read(&labels, &n, d, e));
    int rc = label_finder_open(&f, labels, n, e);
    if (!rc) {
        int a, b;
        if (label_find_twice(&f, &a, &b))
            rc = fail_at(e, E_FORMAT, d->labels, 0,
                         "label '%.60s' stands on lines %d and %d: each class needs its own", labels[a],
                         list_line(d->labels, a), list_line(d->labels, b));
        else
            rc = label_all(s, &f, path, notes, e);
        label_finder_close(&f);
    }
    list_free(labels);
    return rc ? rc : keep_picked(s, path, e);
}

/* ---- opening ---- */

static int open_packed(struct set *s, const struct data_file *d, const char *path, int test, struct err *e)
{
    struct packed *p = &s->packed;
    struct packed_options o = { test, d->classes, d->width, d->height, s->pick };
    TRY(packed_read(p, path, &o, e));
    s->d.n = p->n;
    s->d.c = p->c;
    s->d.h = p->h;
    s->d.w = p->w;
    s->d.label = p->label;
    s->d.pixels = p->pixels;
    return OK;
}

/* Whether a label becomes wrong, and which, depends on the seed and the place of the image alone. */
static void mislabel(struct set *s, const struct data_file *d, const struct notes *notes)
{
    int *label = s->label ? s->label : s->packed.label, wrong = 0;
    const uint64_t key = rng_key((uint64_t)d->label_noise_seed, RNG_MISLABEL, 0);
    for (int i = 0; d->classes > 1 && i < s->d.n; i++) {
        const uint64_t at = 2 * (uint64_t)i;
        if (rng_below(key, at, 100) >= (uint64_t)d->label_noise) continue;
        const uint64_t others = (uint64_t)d->classes - 1;
        label[i] = (label[i] + 1 + (int)rng_below(key, at + 1, others)) % d->classes;
        wrong++;
    }
    note(notes, "%s: %d of %d training labels are made wrong (label_noise=%d, label_noise_seed=%d)", d->path,
         wrong, s->d.n, d->label_noise, d->label_noise_seed);
}

static int index_classes(struct dataset *d, struct err *e)
{
    d->count = mem_alloc((size_t)d->classes, sizeof *d->count);
    d->start = mem_alloc((size_t)d->classes + 1, sizeof *d->start);
    d->of_class = mem_alloc((size_t)d->n, sizeof *d->of_class);
    if (!d->count || !d->start || !d->of_class)
        return fail(e, E_MEM, "not enough memory for %d samples", d->n);
    for (int i = 0; i < d->n; i++) d->start[d->label[i] + 1]++;
    for (int k = 0; k < d->classes; k++) d->start[k + 1] += d->start[k];
    for (int i = 0; i < d->n; i++) {
        int k = d->label[i];
        d->of_class[d->start[k] + d->count[k]++] = i;
    }
    return OK;
}

/* Often the sign of labels that the rule finds in the wrong place of the paths. */
static void warn_of_empty(const struct dataset *d, const struct data_file *file, const char *path,
                          const struct notes *notes)
{
    struct some empty = { 0 };
    char a[16], b[16], example[200] = "";
    for (int k = 0; k < d->classes; k++)
        if (!d->count[k]) add(&empty, k);
    if (!empty.n) return;
    if (d->path)
        snprintf(example, sizeof example, " and the paths, first '%s', taken as '%.60s'",
                 show(d->path[0]).text, class_name(file, d->label[0], b));
    note(notes, "warning: %s: class '%s' has no image (%d of %d classes have none): check the labels%s", path,
         class_name(file, empty.first, a), empty.n, d->classes, example);
}

static void summarise(const struct dataset *d, const struct data_file *file, const char *path,
                      const struct notes *notes)
{
    int least = 0, most = 0;
    char a[16], b[16];
    for (int k = 1; k < d->classes; k++) {
        if (d->count[k] < d->count[least]) least = k;
        if (d->count[k] > d->count[most]) most = k;
    }
    if (d->count[least] == d->count[most])
        note(notes, "%s: %d images, %d classes of %d", path, d->n, d->classes, d->count[most]);
    else
        note(notes, "%s: %d images, %d classes; smallest class '%s' has %d, largest '%s' has %d", path, d->n,
             d->classes, class_name(file, least, a), d->count[least], class_name(file, most, b),
             d->count[most]);
    warn_of_empty(d, file, path, notes);
}

/* The message names the script that fetches data/NAME/..., where there is one. */
static int check_there(const char *path, struct err *e)
{
    char script[100], hint[160] = "";
    if (!access(path, F_OK)) return OK;
    if (errno != ENOENT) return fail_at(e, E_FILE, path, 0, "cannot be opened: %s", strerror(errno));
    if (!strncmp(path, "data/", 5)) {
        snprintf(script, sizeof script, "scripts/get-%.*s.sh", (int)strcspn(path + 5, "/"), path + 5);
        if (!access(script, F_OK)) snprintf(hint, sizeof hint, ": %s fetches that data set", script);
    }
    return fail_at(e, E_FILE, path, 0, "no such file or folder%s", hint);
}

static void note_holdout(const struct data_file *d, enum split split, const struct notes *notes)
{
    if (split == SPLIT_TRAIN)
        note(notes, "%s: %d training images are held out for validation (holdout_seed=%d)", d->path,
             d->holdout, d->holdout_seed);
    else
        note(notes, "%s: validation is on the %d images held out of train= (holdout_seed=%d)%s", d->path,
             d->holdout, d->holdout_seed, d->valid ? "; valid= is not read" : "");
}

static int open_any(struct set *s, const struct data_file *d, enum split split, const struct notes *notes,
                    struct err *e)
{
    int training = split == SPLIT_TRAIN || d->holdout;
    const char *path = training ? d->train : d->valid;
    s->d.self = s;
    atomic_flag_clear(&s->askew);
    s->d.classes = d->classes;
    s->pick = (struct pick){ .holdout = d->holdout,
                             .held = d->holdout && split == SPLIT_VALID,
                             .seed = (uint64_t)d->holdout_seed,
                             .limit = split == SPLIT_TRAIN ? d->train_limit : 0 };
    if (!path)
        return fail_at(e, E_CFG, d->path, 0, "no `%s=`: add the list of images to %s on",
                       training ? "train" : "valid", training ? "train" : "validate");
    TRY(check_there(path, e));
    if (packed_recognise(path))
        TRY(open_packed(s, d, path, !training, e));
    else
        TRY(open_list(s, d, path, notes, e));
    if (d->holdout) s->d.choice = rng_key(s->pick.seed, RNG_HOLDOUT, (uint64_t)d->holdout);
    if (d->label_noise && split == SPLIT_TRAIN) mislabel(s, d, notes);
    TRY(index_classes(&s->d, e));
    if (d->holdout) note_holdout(d, split, notes);
    summarise(&s->d, d, path, notes);
    return OK;
}

int dataset_open(struct dataset **out, const struct data_file *d, enum split split, const struct notes *notes,
                 struct err *e)
{
    *out = NULL;
    struct set *s = mem_alloc(1, sizeof *s);
    if (!s) return fail(e, E_MEM, "not enough memory");
    int rc = open_any(s, d, split, notes, e);
    if (rc)
        dataset_close(&s->d);
    else
        *out = &s->d;
    return rc;
}

void dataset_close(struct dataset *d)
{
    if (!d) return;
    struct set *s = d->self;
    mem_free(d->count);
    mem_free(d->start);
    mem_free(d->of_class);
    list_free(s->list);
    mem_free(s->label);
    packed_free(&s->packed);
    mem_free(s);
}

/* ---- samples ---- */

int dataset_image(const struct dataset *d, int i, int c, int shorter, struct picture *to, struct err *e)
{
    if (!d->pixels) return image_decode(d->path[i], &(struct decoding){ c, shorter, d->orient }, to, e);
    *to = (struct picture){ .w = d->w, .h = d->h };
    if (c != 1 && c != 3) return fail(e, E_ARG, "channels=%d: images have 1 (gray) or 3 (colour)", c);
    size_t n = (size_t)d->h * (size_t)d->w, size = n * (size_t)d->c;
    const uint8_t *p = d->pixels + (size_t)i * size;
    if (!(to->pixels = mem_alloc(n, (size_t)c))) return fail(e, E_MEM, "not enough memory for an image");
    if (d->c == c)
        memcpy(to->pixels, p, size);
    else if (c == 1)
        image_luma(p, p + n, p + 2 * n, 1, n, to->pixels);
    else
        for (int k = 0; k < 3; k++) memcpy(to->pixels + (size_t)k * n, p, n);
    return OK;
}
