/* The flags, as a table, and the parser over it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "cli/cli.h"
#include "core/cores.h"
#include "core/mem.h"
#include "core/text.h"

enum flag_type {
    FLAG_SWITCH, /* int: set to 1 */
    FLAG_COUNT,  /* int >= 1 */
    FLAG_INDEX,  /* int >= 0 */
    FLAG_WORKERS,
    FLAG_THREADS, /* the same, up to most_threads() */
    FLAG_SEED,    /* uint64_t */
    FLAG_SHARE,   /* double between 0 and 1 */
    FLAG_TEXT,    /* const char * */
    FLAG_SET,     /* goes to cli.set */
    FLAG_IGNORED, /* of other Darknets, without effect here; takes a value if `value` names one */
    FLAG_GPU      /* goes to cli.gpu */
};
struct flag {
    const char *name;
    enum flag_type type;
    size_t at;
    unsigned commands;
    const char *value, *help;
};

enum {
    PREDICTS = CMD_PREDICT | CMD_CLASSIFY | CMD_LABEL,
    ANSWERS = PREDICTS | CMD_DEMO,
    COMPUTES = CMD_TRAIN | CMD_VALID | ANSWERS | CMD_FEATURES | CMD_NET,
    NETS = COMPUTES | CMD_IMTEST | CMD_WEIGHTS | CMD_EXPORT | CMD_IMPORT,
    RUNS = CMD_TRAIN | CMD_VALID | ANSWERS,
    ALL = NETS | CMD_PREPARE | CMD_STRIP | CMD_VERSION | CMD_HELP
};

#define AT(f) offsetof(struct cli, f)
static const struct flag flags[] = {
    { "clear", FLAG_SWITCH, AT(clear), CMD_TRAIN, NULL, "count iterations from 0, whatever the weights say" },
    { "finetune", FLAG_SWITCH, AT(finetune), CMD_TRAIN, NULL,
      "WEIGHTS are of other classes: the last layer and the iterations start anew (also -partial)" },
    { "partial", FLAG_SWITCH, AT(finetune), CMD_TRAIN, NULL, NULL },
    { "resume", FLAG_TEXT, AT(resume), CMD_TRAIN, "STATE", "go on from a BASE_last.state, bit for bit" },
    { "seed", FLAG_SEED, AT(seed), RUNS | CMD_FEATURES | CMD_PREPARE | CMD_IMTEST, "N",
      "seed of all that is random (1)" },
    { "metrics", FLAG_TEXT, AT(metrics), CMD_TRAIN, "FILE", "where the CSV goes (BACKUP/BASE_metrics.csv)" },
    { "chart", FLAG_TEXT, AT(chart), CMD_TRAIN, "FILE.png",
      "draw loss and accuracy, anew at each validation" },
    { "v", FLAG_SWITCH, AT(verbose), CMD_VALID, NULL, "a line for every image, as Darknet prints them" },
    { "confusion", FLAG_TEXT, AT(confusion), CMD_VALID, "FILE",
      "write the confusion matrix as CSV, or as PNG if FILE ends in .png" },
    { "errors", FLAG_TEXT, AT(errors), CMD_VALID, "FILE",
      "write the images with wrong answers as CSV, the surest first" },
    { "t", FLAG_COUNT, AT(top), RUNS, "K", "k of top-k (top= of the data file)" },
    { "letterbox", FLAG_SWITCH, AT(letterbox), ANSWERS, NULL,
      "fit the image inside the input, rest gray (default, except for label and test)" },
    { "center", FLAG_SWITCH, AT(center), ANSWERS, NULL,
      "resize the central part, as valid does (default for label)" },
    { "list", FLAG_TEXT, AT(list), PREDICTS, "FILE",
      "predict the images that a text file names, one a line (-: standard input)" },
    { "csv", FLAG_SWITCH, AT(csv), ANSWERS & ~CMD_LABEL, NULL,
      "print CSV: image (of a video the number of the frame), rank, class, name, probability" },
    { "csv", FLAG_SWITCH, AT(csv), CMD_LABEL, NULL, NULL }, /* refused, with a reason */
    { "c", FLAG_INDEX, AT(camera), CMD_DEMO, "N", "take camera N, from 0 on, where no VIDEO is given (0)" },
    { "out", FLAG_TEXT, AT(out), CMD_FEATURES, "FILE.npy", "the features; the labels go to FILE.labels.npy" },
    { "out", FLAG_TEXT, AT(out), CMD_EXPORT | CMD_IMPORT, "FILE", "where the result goes" },
    { "fold", FLAG_SWITCH, AT(fold), CMD_EXPORT, "1|0", "0: keep batch normalisation apart (1)" },
    { "features", FLAG_SWITCH, AT(features), CMD_EXPORT, NULL, "a second output: what the classifier sees" },
    { "names", FLAG_TEXT, AT(names), CMD_EXPORT, "FILE", "names of the classes, one a line: metadata" },
    { "layer", FLAG_INDEX, AT(layer), CMD_FEATURES, "N",
      "take the output of layer N (the classifier's input: what [itra] sees)" },
    { "limit", FLAG_COUNT, AT(limit), CMD_FEATURES, "N",
      "only N images, chosen at random (by -seed), in order" },
    { "workers", FLAG_WORKERS, AT(workers), CMD_TRAIN | CMD_VALID | CMD_FEATURES, "N",
      "threads that load images (one per core)" },
    { "threads", FLAG_THREADS, AT(threads), COMPUTES, "N", "threads that compute (one per core)" },
    { "device", FLAG_TEXT, AT(device), NETS, "NAME", "what to compute on (darknet version lists devices)" },
    { "set", FLAG_SET, 0, NETS, "SECTION.KEY=VALUE",
      "override a key, in each section of that name; repeatable" },
    { "i", FLAG_GPU, 0, NETS, "N", "compute on GPU N, from 0 on: -device cuda:N" },
    { "gpus", FLAG_GPU, 0, NETS, "N", "the same; N,N,...: one for each process of this machine (mpirun)" },
    { "nogpu", FLAG_SWITCH, AT(nogpu), NETS, NULL, "compute on the CPU" },
    { "precision", FLAG_TEXT, AT(precision), NETS & ~(CMD_EXPORT | CMD_IMPORT), "WORD",
      "fp32, bf16, or on a GPU tf32 (precision= of [net])" },
    { "deterministic", FLAG_SWITCH, AT(deterministic), COMPUTES, NULL,
      "the same bits from run to run (CPU: always; GPU: slower)" },
    { "eager", FLAG_SWITCH, AT(eager), CMD_TRAIN, NULL,
      "GPU: compute layer by layer, read losses at once, to find what fails" },
    { "out", FLAG_TEXT, AT(out), CMD_IMTEST, "FILE.png", "where the picture goes (imtest.png)" },
    { "out", FLAG_TEXT, AT(out), CMD_PREPARE, "PREFIX",
      "what the names of the files begin with (DIR's name, in the current folder)" },
    { "valid", FLAG_SHARE, AT(valid), CMD_PREPARE, "FRACTION",
      "share of each class that is held out for validation (.1)" },
    { "force", FLAG_SWITCH, AT(force), CMD_PREPARE, NULL, "replace files that exist" },
    { "help", FLAG_SWITCH, AT(help), ALL, NULL, "this text (also -h)" },
    { "h", FLAG_SWITCH, AT(help), ALL, NULL, NULL },
    /* Windows, streams and detectors of other Darknets; top-k is always computed. */
    { "dont_show", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "show_imgs", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "map", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "topk", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "save_labels", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "ext_output", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "benchmark", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "benchmark_layers", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "dontuse_opencv", FLAG_IGNORED, 0, RUNS, NULL, NULL },
    { "mjpeg_port", FLAG_IGNORED, 0, RUNS, "N", NULL },
    { "http_port", FLAG_IGNORED, 0, RUNS, "N", NULL },
    { "json_port", FLAG_IGNORED, 0, RUNS, "N", NULL },
    { "thresh", FLAG_IGNORED, 0, RUNS, "P", NULL },
    { "hier", FLAG_IGNORED, 0, RUNS, "P", NULL },
    { "iou_thresh", FLAG_IGNORED, 0, RUNS, "P", NULL },
};
enum { NFLAGS = sizeof flags / sizeof *flags };

static const struct flag *find_flag(const char *name, unsigned command)
{
    for (int i = 0; i < NFLAGS; i++)
        if (flags[i].commands & command && !strcmp(flags[i].name, name)) return &flags[i];
    return NULL;
}

/* -seed=5 */
static int joined_flag(const char *given, const char *name, unsigned command, struct err *e)
{
    size_t n = strcspn(name, "=");
    for (int i = 0; name[n] && i < NFLAGS; i++)
        if (flags[i].commands & command && strlen(flags[i].name) == n && !strncmp(flags[i].name, name, n))
            return fail(e, E_ARG, "unknown flag %.60s: write -%s %.60s", given, flags[i].name,
                        flags[i].type == FLAG_SWITCH ? "alone" : name + n + 1);
    return OK;
}

/* -batch 32 */
static int key_as_flag(const char *given, const char *name, unsigned command, struct err *e)
{
    size_t n = strcspn(name, "=");
    for (const struct key *k = net_config_keys; command & NETS && k->name; k++)
        if (strlen(k->name) == n && !strncmp(k->name, name, n))
            return fail(e, E_ARG, "unknown flag %.60s: %s= is a key of the cfg: write -set net.%s=VALUE",
                        given, k->name, k->name);
    return OK;
}

static int unknown_flag(const char *given, const char *name, unsigned command, struct err *e)
{
    TRY(joined_flag(given, name, command, e));
    TRY(key_as_flag(given, name, command, e));
    const char *near = NULL;
    for (int i = 0; i < NFLAGS; i++)
        if (flags[i].commands & command) near = text_nearer(name, near, flags[i].name);
    return fail(e, E_ARG, "unknown flag %.60s%s (--help lists those of this command)", given,
                text_hint("-", near, "").text);
}

enum { ALWAYS_THREADS = 64, THREADS_PER_CORE = 4 };

/* More threads than cores only wait for one another; ALWAYS_THREADS are allowed even so, to test what depends
 * on their number. */
static int most_threads(void)
{
    int n = cores();
    if (n > MOST_THREADS / THREADS_PER_CORE) return MOST_THREADS;
    return n * THREADS_PER_CORE > ALWAYS_THREADS ? n * THREADS_PER_CORE : ALWAYS_THREADS;
}

/* Digits and nothing else. */
static int parse_whole(const char *s, uint64_t most, uint64_t *to)
{
    *to = 0;
    if (!*s) return -1;
    for (; *s; s++) {
        if (*s < '0' || *s > '9') return -1;
        uint64_t digit = (uint64_t)(*s - '0');
        if (*to > (most - digit) / 10) return -1;
        *to = *to * 10 + digit;
    }
    return 0;
}

static int parse_count(const struct flag *f, const char *value, int *to, struct err *e)
{
    int most = f->type == FLAG_THREADS ? most_threads() : f->type == FLAG_WORKERS ? MOST_THREADS : INT_MAX;
    uint64_t v;
    if (!parse_whole(value, (uint64_t)most, &v) && (v || f->type == FLAG_INDEX)) {
        *to = (int)v;
        return OK;
    }
    const char *why =
        f->type == FLAG_THREADS && most < MOST_THREADS ? ": more would only wait for a core" : "";
    if (f->type == FLAG_INDEX)
        return fail(e, E_ARG, "-%s %.60s: expected a whole number of at least 0", f->name, value);
    if (f->type == FLAG_COUNT)
        return fail(e, E_ARG, "-%s %.60s: expected a whole number of at least 1", f->name, value);
    return fail(e, E_ARG, "-%s %.60s: expected 1..%d%s", f->name, value, most, why);
}

static int parse_seed(const char *value, uint64_t *to, struct err *e)
{
    if (!parse_whole(value, UINT64_MAX, to)) return OK;
    return fail(e, E_ARG, "-seed %.60s: expected a whole number in 0..%llu", value,
                (unsigned long long)UINT64_MAX);
}

static int parse_share(const struct flag *f, const char *value, double *to, struct err *e)
{
    char *end;
    *to = strtod(value, &end);
    if (!value[strspn(value, "0123456789.")] && !*end && *to > 0 && *to < 1) return OK;
    return fail(e, E_ARG, "-%s %.60s: expected a number between 0 and 1, such as .1", f->name, value);
}

static const struct backend_ops *first_backend(int gpu)
{
    for (int i = 0; backend_at(i); i++)
        if (gpu == backend_at(i)->gpu) return backend_at(i);
    return NULL;
}

/* Without a backend for GPUs, a pasted command line runs on the CPU, as with other Darknets' builds for CPUs.
 */
static int parse_gpu(struct cli *c, const struct flag *f, const char *value, struct err *e)
{
    uint64_t v = 0;
    int several = !value[strspn(value, "0123456789,")] && strchr(value, ',');
    if (!several && parse_whole(value, INT_MAX - 1, &v))
        return fail(e, E_ARG, "-%s %.60s: expected the number of a GPU, from 0 on", f->name, value);
    if (!first_backend(1)) {
        c->ignored[c->nignored++] = f->name[1] ? "gpus (a program for CPUs: make GPU=1 builds one for GPUs)"
                                               : "i (a program for CPUs: make GPU=1 builds one for GPUs)";
        return OK;
    }
    if (several) {
        c->gpus = value;
        return OK;
    }
    if (c->gpu && c->gpu != (int)v + 1)
        return fail(e, E_ARG, "-%s %.60s contradicts GPU %d, given before: give one of them", f->name, value,
                    c->gpu - 1);
    c->gpu = (int)v + 1;
    return OK;
}

static int store_flag(struct cli *c, const struct flag *f, const char *value, struct err *e)
{
    char *at = (char *)c + f->at;
    switch (f->type) {
    case FLAG_SWITCH: *(int *)(void *)at = 1; return OK;
    case FLAG_COUNT:
    case FLAG_INDEX:
    case FLAG_WORKERS:
    case FLAG_THREADS: return parse_count(f, value, (int *)(void *)at, e);
    case FLAG_SEED: return parse_seed(value, (uint64_t *)(void *)at, e);
    case FLAG_SHARE: return parse_share(f, value, (double *)(void *)at, e);
    case FLAG_TEXT: *(const char **)(void *)at = value; return OK;
    case FLAG_SET: c->set[c->nset++] = value; return OK;
    case FLAG_IGNORED: c->ignored[c->nignored++] = f->name; return OK;
    case FLAG_GPU: return parse_gpu(c, f, value, e);
    }
    return fail(e, E_ARG, "-%s: a flag of no type", f->name);
}

/* ---- which device ---- */

/* Backends for the CPU are in every build: any other name is a GPU's, or unknown. */
static int names_cpu(const char *device)
{
    size_t n = strcspn(device, ":");
    for (int i = 0; backend_at(i); i++) {
        const struct backend_ops *ops = backend_at(i);
        if (!ops->gpu && strlen(ops->name) == n && !strncmp(ops->name, device, n)) return 1;
    }
    return 0;
}

/* -nogpu goes before -i and -gpus, as in other Darknets. */
static int choose_device(struct cli *c, struct err *e)
{
    if (c->nogpu && c->device && !names_cpu(c->device))
        return fail(e, E_ARG, "-nogpu contradicts -device %.60s: give one of them", c->device);
    if (c->nogpu && !c->device) c->device = first_backend(0)->name;
    if (c->nogpu) c->gpus = NULL;
    if (c->nogpu) return OK;
    if (c->gpu && c->gpus)
        return fail(e, E_ARG, "-gpus %.60s contradicts GPU %d: give one of them", c->gpus, c->gpu - 1);
    if ((c->gpu || c->gpus) && c->device)
        return fail(e, E_ARG, "-device %.60s contradicts -i and -gpus: give one of them", c->device);
    if (!c->gpu) return OK;
    snprintf(c->gpu_device, sizeof c->gpu_device, "%s:%d", first_backend(1)->name, c->gpu - 1);
    c->device = c->gpu_device;
    return OK;
}

static int takes_value(const struct flag *f)
{
    return f->type != FLAG_SWITCH && (f->type != FLAG_IGNORED || f->value);
}

/* A switch may have 0 or 1 after it: many write -clear 1. */
static int has_switch_value(int argc, char **argv, int i)
{
    return i + 1 < argc && (!strcmp(argv[i + 1], "0") || !strcmp(argv[i + 1], "1"));
}

static int store_switch(struct cli *c, const struct flag *f, int argc, char **argv, int *i, struct err *e)
{
    TRY(store_flag(c, f, NULL, e));
    if (!has_switch_value(argc, argv, *i)) return OK;
    *(int *)(void *)((char *)c + f->at) = *argv[++*i] == '1';
    return OK;
}

/* Takes argv[*i] and, for a flag with a value, the word after it. */
static int take_word(struct cli *c, int argc, char **argv, int *i, const struct command *cmd,
                     const char *given[NFLAGS], struct err *e)
{
    const char *word = argv[*i];
    if (!*word) return fail(e, E_ARG, "argument %d is empty: a variable that is not set?", *i + 1);
    if (word[0] != '-' || !word[1]) {
        c->arg[c->narg++] = word;
        return OK;
    }
    const char *name = word + (word[1] == '-' ? 2 : 1);
    const struct flag *f = find_flag(name, cmd->id);
    if (!f) return unknown_flag(word, name, cmd->id, e);
    if (f->type == FLAG_SWITCH) return store_switch(c, f, argc, argv, i, e);
    if (!takes_value(f)) {
        *i += has_switch_value(argc, argv, *i);
        return store_flag(c, f, NULL, e);
    }
    if (*i + 1 >= argc) return fail(e, E_ARG, "%.60s needs a value after it", word);
    const char *value = argv[++*i];
    if (!*value) return fail(e, E_ARG, "%.60s: the value after it is empty", word);
    if (value[0] == '-' && find_flag(value + 1, cmd->id))
        return fail(e, E_ARG, "%.60s needs a value after it (%s), found %.60s", word, f->value, value);
    const char **before = &given[f - flags];
    if (f->type != FLAG_SET && *before && strcmp(*before, value))
        return fail(e, E_ARG, "-%s %.60s contradicts -%s %.60s, given before: give one of them", f->name,
                    value, f->name, *before);
    *before = value;
    return store_flag(c, f, value, e);
}

static int check_count(const struct cli *c, const struct command *cmd, struct err *e)
{
    const char *group = cmd->group ? cmd->group : "", *space = cmd->group ? " " : "";
    if (c->help || (c->narg >= cmd->min && (cmd->max < 0 || c->narg <= cmd->max))) return OK;
    if (c->narg > cmd->max && cmd->max >= 0)
        return fail(e, E_ARG, "%s%s%s: unexpected argument '%.80s'; usage: darknet %s", group, space,
                    cmd->name, c->arg[cmd->max], cmd->usage);
    return fail(e, E_ARG, "%s%s%s: too few arguments; usage: darknet %s", group, space, cmd->name,
                cmd->usage);
}

static int is_same_place(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The folder of a path: all of it up to the last slash, or the current one. */
static const char *folder_of(const char *path, char folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return folder;
}

/* Also two names of a file that is not there yet. */
int args_same_file(const char *a, const char *b)
{
    char x[PATH_MAX], y[PATH_MAX];
    if (!a || !b) return 0;
    if (!strcmp(a, b) || is_same_place(a, b)) return 1;
    const char *p = strrchr(a, '/'), *q = strrchr(b, '/');
    return !strcmp(p ? p + 1 : a, q ? q + 1 : b) && is_same_place(folder_of(a, x), folder_of(b, y));
}

/* The files that flags name to be written, or NULL. */
enum { OUTPUTS = 5 };
static const char *output(const struct cli *c, int i)
{
    const char *const to[OUTPUTS] = { c->metrics, c->chart, c->confusion, c->errors, c->out };
    return to[i];
}

int args_write(const struct cli *c, const char *path)
{
    int n = 0;
    for (int i = 0; i < OUTPUTS; i++) n += args_same_file(output(c, i), path);
    return n;
}

enum { WRITES_CSV = 1, WRITES_PNG = 2 };

/* A name must not promise another kind of file than is written. */
static int check_suffix(const char *path, int kinds, struct err *e)
{
    static const struct {
        const char *suffix;
        int kind;
    } known[] = { { "csv", WRITES_CSV }, { "txt", WRITES_CSV }, { "png", WRITES_PNG }, { "jpg", 0 },
                  { "jpeg", 0 },         { "bmp", 0 },          { "gif", 0 },          { "webp", 0 },
                  { "tif", 0 },          { "tiff", 0 },         { "svg", 0 },          { "pdf", 0 },
                  { "tsv", 0 },          { "json", 0 },         { "xls", 0 },          { "xlsx", 0 },
                  { "weights", 0 },      { "state", 0 },        { "lock", 0 },         { "cfg", 0 },
                  { "data", 0 } };
    const char *dot = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (!strcasecmp(dot + 1, known[i].suffix) && !(known[i].kind & kinds))
            return fail(e, E_ARG, "%.200s: what is written is %s%s%s: choose a name that ends so", path,
                        kinds & WRITES_CSV ? "CSV (.csv)" : "", kinds == 3 ? " or " : "",
                        kinds & WRITES_PNG ? "PNG (.png)" : "");
    return OK;
}

static int check_suffixes(const struct cli *c, const struct command *cmd, struct err *e)
{
    TRY(check_suffix(c->metrics, WRITES_CSV, e));
    TRY(check_suffix(c->errors, WRITES_CSV, e));
    TRY(check_suffix(c->confusion, WRITES_CSV | WRITES_PNG, e));
    TRY(check_suffix(c->chart, WRITES_PNG, e));
    if (cmd->run == cli_imtest) TRY(check_suffix(c->out, WRITES_PNG, e));
    return cmd->run == cli_visualize && c->narg > 2 ? check_suffix(c->arg[2], WRITES_PNG, e) : OK;
}

/* What a command writes must be none of the files that it names to be read, nor another that it writes. */
static int check_outputs(const struct cli *c, const struct command *cmd, struct err *e)
{
    const char *again = NULL, *const read[] = { c->resume, c->list, c->names };
    for (int i = 0; i < c->narg; i++)
        if (args_write(c, c->arg[i])) again = c->arg[i];
    for (int i = 0; i < 3; i++)
        if (args_write(c, read[i])) again = read[i];
    for (int i = 0; i < OUTPUTS; i++)
        if (args_write(c, output(c, i)) > 1) again = output(c, i);
    /* OUT, where it is no flag. */
    const int average = cmd->run == cli_average;
    const int out = average || cmd->id == CMD_STRIP ? 1 : cmd->id == CMD_WEIGHTS ? 2 : INT_MAX;
    for (int i = 0; out < c->narg && i < (average ? c->narg : out); i++)
        if (i != out && args_same_file(c->arg[i], c->arg[out])) again = c->arg[out];
    if (!again) return OK;
    return fail(e, E_ARG, "%.200s would be read and written, or written twice: choose another name", again);
}

int args_words(const char *word)
{
    if (word[0] != '-' || !word[1]) return 0;
    const struct flag *f = find_flag(word + (word[1] == '-' ? 2 : 1), ALL);
    return f && takes_value(f) ? 2 : 1;
}

int args_parse(struct cli *c, int argc, char **argv, const struct command *cmd, struct err *e)
{
    *c = (struct cli){ .command = cmd, .seed = 1, .layer = -1, .camera = -1, .fold = 1 };
    const char *given[NFLAGS] = { NULL }; /* the value of each flag */
    c->arg = mem_alloc((size_t)argc, sizeof *c->arg);
    c->set = mem_alloc((size_t)argc + 1, sizeof *c->set);
    c->ignored = mem_alloc((size_t)argc + 1, sizeof *c->ignored);
    if (!c->arg || !c->set || !c->ignored) return fail(e, E_MEM, "no memory for the command line");
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--")) {
            TRY(take_word(c, argc, argv, &i, cmd, given, e));
            continue;
        }
        while (++i < argc) c->arg[c->narg++] = argv[i]; /* after --, nothing is a flag */
    }
    TRY(check_count(c, cmd, e));
    if (c->help) return OK;
    TRY(check_outputs(c, cmd, e));
    TRY(check_suffixes(c, cmd, e));
    return choose_device(c, e);
}

void args_free(struct cli *c)
{
    mem_free(c->arg);
    mem_free(c->set);
    mem_free(c->ignored);
}

void args_describe(const struct command *cmd)
{
    for (int i = 0; i < NFLAGS; i++) {
        const struct flag *f = &flags[i];
        char left[40];
        if (!(f->commands & cmd->id) || !f->help) continue;
        snprintf(left, sizeof left, "-%s%s%s", f->name, f->value ? " " : "", f->value ? f->value : "");
        printf("  %-24s %s\n", left, f->help);
    }
}
