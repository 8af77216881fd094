/* The state file: header, progress, the net's own state, CRC-32 of all before it. */
#include "checkpoint.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include "core/mem.h"
#include "core/text.h"
#include "group/group.h"

static const char magic[8] = STATE_MAGIC;
enum { VERSION = 4 };
static const size_t state_limit = (size_t)1 << 40;

/* In the machine's own byte order: a state is for resuming here, .weights are for keeping. */
struct header {
    char magic[8];
    uint64_t version, number_bytes;                     /* of this format; of a `real` */
    uint64_t seed, mini, subdivisions, images, classes; /* must agree */
    uint64_t settings, device;   /* hashes, of the cfg and of its name: should agree, as should */
    uint64_t threads, processes; /* how many compute in each of how many */
};

/* ---- names ---- */

int files_open(struct files *f, const char *backup, const char *base, struct err *e)
{
    static const char *const end[FILES] = {
        [LAST] = "_last.weights",   [STATE] = "_last.state",    [BEST] = "_best.weights",
        [FINAL] = "_final.weights", [METRICS] = "_metrics.csv", [LOCK] = "_last.state.lock"
    };
    const char *slash = *backup && backup[strlen(backup) - 1] == '/' ? "" : "/";
    for (int i = 0; i < FILES; i++)
        if (!(f->path[i] = text_format("%s%s%s%s", backup, slash, base, end[i])))
            return fail(e, E_MEM, "no memory for the names of the files in %.200s", backup);
    return OK;
}

void files_close(struct files *f)
{
    for (int i = 0; i < FILES; i++) mem_free(f->path[i]);
}

int files_check(const struct files *f, const char *metrics, struct err *e)
{
    for (int i = LAST; i <= METRICS; i++) {
        const char *path = i == METRICS ? metrics : f->path[i];
        struct stat st;
        if (!stat(path, &st) && !S_ISREG(st.st_mode))
            return fail_at(e, E_FILE, path, 0, "is %s, but training writes a file of this name: remove it",
                           S_ISDIR(st.st_mode) ? "a folder" : "not an ordinary file");
        file_sweep(path);
    }
    return OK;
}

/* ---- what must agree ---- */

static const uint64_t hash_seed = 0xcbf29ce484222325u;

/* FNV-1a */
static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

/* The final 0 included. */
static uint64_t hash_text(uint64_t h, const char *s) { return hash_bytes(h, s, strlen(s) + 1); }

/* When training ends and how often it validates may change between a state and its resumption. */
static int may_change(const struct cfg_section *s, const struct cfg_entry *x)
{
    return cfg_is_net(s->name) && (!strcmp(x->key, "max_batches") || !strcmp(x->key, "valid_every"));
}

/* A sum over the keys, so that their order within a section, which -set changes, does not matter. */
static uint64_t hash_settings(const struct cfg *c)
{
    uint64_t sum = 0;
    for (int i = 0; i < c->n; i++) {
        const struct cfg_section *s = &c->section[i];
        uint64_t h = hash_text(hash_seed + (uint64_t)i, s->name);
        sum += h;
        for (int k = 0; k < s->n; k++)
            if (!may_change(s, &s->entry[k]))
                sum += hash_text(hash_text(h, s->entry[k].key), s->entry[k].value);
    }
    return sum;
}

uint64_t hash_samples(const struct dataset *d)
{
    uint64_t h = hash_seed;
    const uint64_t packed[] = { d->choice, (uint64_t)d->c, (uint64_t)d->h, (uint64_t)d->w };
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) h = (h ^ packed[i]) * 0x100000001b3u;
    for (int i = 0; i < d->n; i++) {
        h = (h ^ (uint64_t)d->label[i]) * 0x100000001b3u;
        if (d->path) h = hash_text(h, d->path[i]);
    }
    return h;
}

static struct header header_of(const struct net *net, int images)
{
    struct header h = { .version = VERSION, .number_bytes = sizeof(real), .seed = net->seed };
    memcpy(h.magic, magic, sizeof magic);
    h.mini = (uint64_t)net->mini;
    h.subdivisions = (uint64_t)net->config.subdivisions;
    h.images = (uint64_t)images;
    h.classes = (uint64_t)net->classes;
    h.settings = hash_settings(net->cfg);
    h.threads = net->be->ops->by_threads ? (uint64_t)net->be->threads : 0;
    h.processes = (uint64_t)group_size(net->be->group);
    h.device = hash_text(hash_seed, net->be->ops->name);
    return h;
}

static uint64_t hash_run(const struct net *net, const struct data_file *d)
{
    const double when[] = { net->config.max_batches, net->config.valid_every, d->savelast, d->saveweights };
    struct header h = header_of(net, 0);
    h.threads = 0;
    uint64_t hash = hash_bytes(hash_text(hash_seed, net->be->ops->version()), &h, sizeof h);
    return hash_bytes(hash, when, sizeof when);
}

static uint64_t hash_position(const struct net *net, const struct progress *p)
{
    uint64_t hash = hash_bytes(hash_bytes(hash_seed, p, sizeof *p), &net->seen, sizeof net->seen);
    return hash_bytes(hash, &net->ce_average, sizeof net->ce_average);
}

/* As they are packed, where they are. `bytes` has room for them. */
static int hash_param(const struct param *p, void *bytes, uint64_t *hash, struct err *e)
{
    if (!p->w) {
        *hash = hash_bytes(*hash, p->host, p->count * sizeof *p->host);
        return OK;
    }
    struct backend *be = p->net->be;
    TRY(param_explain(p, be->ops->download(be, bytes, p->w, p->bytes), e));
    *hash = hash_bytes(*hash, bytes, p->bytes);
    return OK;
}

static int hash_params(const struct net *net, uint64_t *hash, struct err *e)
{
    size_t most = 0;
    for (int i = 0; i < net->nparam; i++) most = net->param[i]->bytes > most ? net->param[i]->bytes : most;
    void *bytes = mem_alloc(most, 1);
    int rc = bytes ? OK : net_no_memory(net, e);
    *hash = hash_seed;
    for (int i = 0; i < net->nparam && !rc; i++) rc = hash_param(net->param[i], bytes, hash, e);
    mem_free(bytes);
    return rc;
}

enum { RUN, TRAIN, VALID, WEIGHTS, POSITION, SEEN };

/* What each rank has, as hashes: SEEN of each. */
static int compare(struct group *g, uint64_t *all, struct err *e)
{
    static const char *const others[SEEN] = {
        [RUN] = "the cfg, the seed, the device or the build is not that of rank 0",
        [TRAIN] = "the training images are not those of rank 0",
        [VALID] = "the validation images are not those of rank 0",
        [WEIGHTS] = "the weights are not those of rank 0, or another kind of processor packs them otherwise "
                    "(-device ref, or DNNL_MAX_CPU_ISA, makes them alike)",
        [POSITION] = "the iteration to go on from, or another counter of the state, is not that of rank 0",
    };
    const uint64_t *own = all + (size_t)group_rank(g) * SEEN;
    int i = 0, rc = group_gather(g, all, group_size(g), SEEN * sizeof *all);
    if (rc) return fail(e, rc, "%s", err_text(rc));
    while (i < SEEN && own[i] == all[i]) i++;
    return i == SEEN ? OK : fail(e, E_CFG, "%s", others[i]);
}

int check_equal(const struct net *net, const struct data_file *d, const struct dataset *valid,
                const struct progress *p, struct err *e)
{
    struct group *g = net->be->group;
    uint64_t *all = mem_alloc((size_t)group_size(g) * SEEN, sizeof *all);
    int rc = all ? hash_params(net, &all[group_rank(g) * SEEN + WEIGHTS], e) : net_no_memory(net, e);
    rc = group_agree(g, rc, e);
    if (!rc) {
        uint64_t *own = all + (size_t)group_rank(g) * SEEN;
        own[RUN] = hash_run(net, d);
        own[TRAIN] = p->samples;
        own[VALID] = valid ? hash_samples(valid) : 0;
        own[POSITION] = hash_position(net, p);
        rc = group_agree(g, compare(g, all, e), e);
    }
    mem_free(all);
    return rc;
}

static int differs(const char *path, const char *what, uint64_t there, uint64_t here, struct err *e)
{
    if (there == here) return OK;
    return fail_at(e, E_FORMAT, path, 0,
                   "the state was written with %s %llu, this run has %llu: resume with the same", what,
                   (unsigned long long)there, (unsigned long long)here);
}

static int header_check(const struct header *h, const struct net *net, int images, const char *path,
                        struct err *e)
{
    struct header mine = header_of(net, images);
    if (memcmp(h->magic, mine.magic, sizeof h->magic) || h->version != mine.version)
        return fail_at(e, E_FORMAT, path, 0, "not a state file of this version of darknet");
    TRY(differs(path, "size of numbers", h->number_bytes, mine.number_bytes, e));
    TRY(differs(path, "seed", h->seed, mine.seed, e));
    TRY(differs(path, "mini-batch", h->mini, mine.mini, e));
    TRY(differs(path, "subdivisions", h->subdivisions, mine.subdivisions, e));
    TRY(differs(path, "training images", h->images, mine.images, e));
    return differs(path, "classes", h->classes, mine.classes, e);
}

/* ---- checksum ---- */

static int checksum_of(FILE *f, uint32_t *sum)
{
    unsigned char part[1 << 14];
    uLong crc = crc32(0, NULL, 0);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;) crc = crc32_z(crc, part, n);
    *sum = (uint32_t)crc;
    return ferror(f);
}

/* Reads back what was written: the net writes its part by itself. */
static int append_checksum(struct file *f, struct err *e)
{
    uint32_t sum = 0;
    int bad = fflush(f->f) != 0;
    FILE *back = bad ? NULL : fopen(f->temporary, "rb");
    if (!back) return fail_at(e, E_FILE, f->path, 0, "cannot be written: %s", strerror(errno));
    bad = checksum_of(back, &sum);
    int cause = errno; /* of a failed read */
    fclose(back);
    errno = cause;
    if (bad) return fail_at(e, E_FILE, f->path, 0, "cannot be read back: %s", strerror(errno));
    return file_write(f, &sum, sizeof sum, e);
}

static int checksum_check(struct file_reader *r, struct err *e)
{
    static const char otherwise[] = "train without -resume: from .weights, or from the start";
    uint32_t sum;
    if (r->n < sizeof(struct header) + sizeof sum)
        return fail_at(e, E_FORMAT, r->path, 0, "%zu bytes are too few for a state file; %s", r->n,
                       otherwise);
    r->n -= sizeof sum;
    memcpy(&sum, r->data + r->n, sizeof sum);
    if (memcmp(r->data, magic, sizeof magic))
        return fail_at(e, E_FORMAT, r->path, 0,
                       "not a state file (BASE_last.state in the backup folder is one)");
    if (sum == (uint32_t)crc32_z(crc32(0, NULL, 0), (const unsigned char *)r->data, r->n)) return OK;
    return fail_at(e, E_FORMAT, r->path, 0, "the file is damaged: its checksum does not fit its contents; %s",
                   otherwise);
}

/* ---- save and load ---- */

static int write_all(const struct net *net, const struct progress *p, int images, struct file *f,
                     struct err *e)
{
    struct header h = header_of(net, images);
    TRY(file_write(f, &h, sizeof h, e));
    TRY(file_write(f, p, sizeof *p, e));
    TRY(net_state_write(net, f, e));
    TRY(append_checksum(f, e));
    return file_commit(f, e);
}

int state_save(const struct net *net, const struct progress *p, int images, const char *path, struct err *e)
{
    struct file f;
    TRY(file_create(&f, path, e));
    int rc = write_all(net, p, images, &f, e);
    file_abort(&f);
    return rc;
}

/* how: numbers are from here on; flag: asks for as many as before. */
static void note_count(const struct net *net, const char *path, uint64_t was, uint64_t is, const char *what,
                       const char *how, const char *flag)
{
    if (was != is)
        note(&net->notes,
             "%s: was written with %llu %s, this run has %llu: numbers %s from here on "
             "(%s %llu: as if nothing had happened)",
             path, (unsigned long long)was, what, (unsigned long long)is, how, flag, (unsigned long long)was);
}

/* What changes the run that is resumed, but need not keep it from going on. */
static void note_changes(const struct net *net, const struct header *h, const struct progress *there,
                         const struct progress *here, const char *path)
{
    const struct header mine = header_of(net, 0);
    if (h->settings != mine.settings)
        note(&net->notes,
             "%s: the cfg has changed since this state was written; training goes on with the new settings",
             path);
    if (h->device != mine.device)
        note(&net->notes, "%s: was written on another device: numbers are rounded differently from here on",
             path);
    else
        note_count(net, path, h->threads, mine.threads, "compute threads", "are rounded differently",
                   "-threads");
    note_count(net, path, h->processes, mine.processes, "processes", "differ", "mpirun -np");
    if (there->samples != here->samples)
        note(&net->notes,
             "%s: the training images have changed since this state was written (paths, labels, order, size "
             "or holdout); training goes on with the new ones",
             path);
    if ((there->marks ^ here->marks) & WITH_REPLACEMENT)
        note(&net->notes, "%s: sampling= has changed since this state was written", path);
}

static int read_all(struct net *net, struct progress *p, int images, struct file_reader *r, struct err *e)
{
    struct header h;
    struct progress there;
    TRY(checksum_check(r, e));
    TRY(reader_take(r, &h, sizeof h, e));
    TRY(header_check(&h, net, images, r->path, e));
    TRY(reader_take(r, &there, sizeof there, e));
    TRY(net_state_read(net, r, e));
    if (r->at != r->n)
        return fail_at(e, E_FORMAT, r->path, 0, "%zu bytes are left over: the state is of another net",
                       r->n - r->at);
    note_changes(net, &h, &there, p, r->path);
    there.marks = (there.marks & ~(uint32_t)WITH_REPLACEMENT) | (p->marks & WITH_REPLACEMENT);
    there.samples = p->samples;
    *p = there;
    return OK;
}

int state_load(struct net *net, struct progress *p, int images, const char *path, struct err *e)
{
    struct file_reader r;
    TRY(reader_open(&r, path, state_limit, e));
    int rc = read_all(net, p, images, &r, e);
    reader_close(&r);
    return rc;
}
