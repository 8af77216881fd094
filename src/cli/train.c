/* classifier train: Darknet's lines into a pipe, a progress line on a terminal. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "cli/cli.h"
#include "core/file.h"
#include "core/mem.h"
#include "train/trainer.h"

/* ---- interruption ---- */

/* A signal handler can reach nothing but a global. */
static volatile sig_atomic_t stop_signal;

static void remember(int number) { stop_signal = number; }

/* The first signal ends training in good order; a second one ends the program at once. What whoever started
 * the program has it ignore (nohup) stays ignored. */
static void watch_signals(void)
{
    static const int number[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction a, before;
    memset(&a, 0, sizeof a);
    sigemptyset(&a.sa_mask);
    a.sa_handler = remember;
    a.sa_flags = SA_RESTART | (int)SA_RESETHAND;
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (!sigaction(number[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(number[i], &a, NULL);
}

/* ---- reporting ---- */

struct train_log {
    struct console *console;
    int itra; /* a matching loss is at work */
    int max_batches;
    struct err lost;           /* stdout could not be written */
    double train_clock, shown; /* seconds of iterations so far; at the progress line shown last */
};

/* Training nobody can follow ends as after a signal: saved, and to be resumed. */
static void check_output(struct train_log *log)
{
    if (!log->lost.code && output_check(&log->lost)) stop_signal = SIGPIPE;
}

static double mib(size_t bytes) { return (double)bytes / (1 << 20); }

static void log_start(void *ctx, const struct train_start *s)
{
    printf("memory: parameters %.1f MiB, training %.1f MiB, validation %.1f MiB\n", mib(s->params),
           mib(s->train), mib(s->infer));
    if (s->iteration) printf("going on after iteration %llu\n", (unsigned long long)s->iteration);
    check_output(ctx);
}

static void print_iteration(const struct train_log *log, const struct train_line *l)
{
    printf("Loaded: %f seconds\n", l->loaded_seconds);
    printf("%llu, %.3f: %f, %f avg, %g rate, %f seconds, %llu images", (unsigned long long)l->iteration,
           l->epoch, l->ce, l->ce_smooth, l->rate, l->seconds, (unsigned long long)l->seen);
    if (log->itra && isfinite(l->match)) printf(", match %.6f, lambda %g", l->match, l->lambda);
    if (log->itra && isfinite(l->match) && isfinite(l->match_share))
        printf(", itra %.1f%%", 100 * l->match_share);
    if (l->burn_in) printf(" (burn-in %llu/%d)", (unsigned long long)l->iteration, l->burn_in);
    putchar('\n');
}

static void print_eta(double seconds)
{
    long s = (long)(seconds + .5);
    if (seconds >= 0) printf(", ETA %ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
}

static void show_progress(struct train_log *log, const struct train_line *l)
{
    printf("\r%llu", (unsigned long long)l->iteration);
    if (log->max_batches) printf("/%d", log->max_batches);
    printf(", epoch %.2f: CE %.4f", l->epoch, l->ce_smooth);
    if (log->itra && isfinite(l->match)) printf(", match %.4f", l->match);
    printf(", rate %g, %.0f images/s", l->rate, l->images_per_second);
    print_eta(l->eta_seconds);
    fputs("\033[K", stdout);
    fflush(stdout);
    log->console->line_open = 1;
}

static void log_iteration(void *ctx, const struct train_line *l)
{
    struct train_log *log = ctx;
    if (!log->console->tty) {
        print_iteration(log, l);
        check_output(log);
        return;
    }
    log->train_clock += l->loaded_seconds + l->seconds;
    if (log->console->line_open && log->train_clock - log->shown < .1) return;
    log->shown = log->train_clock;
    show_progress(log, l);
    check_output(log);
}

static void log_validation(void *ctx, const struct valid_line *l)
{
    struct train_log *log = ctx;
    console_clear(log->console);
    printf("validation %llu, %.3f: top-1 %.6f, ", (unsigned long long)l->iteration, l->epoch, l->top1);
    if (l->top > 1) printf("top-%d %.6f, ", l->top, l->topk);
    printf("CE %.6f", l->ce);
    if (l->compactness >= 0) printf(", compactness %.6f", l->compactness);
    printf(", %f seconds, %d images%s\n", l->seconds, l->images, l->best ? ", best so far" : "");
    check_output(log);
}

/* ---- the command ---- */

struct training {
    struct session s;
    struct dataset *train, *valid;
    char *base;
};

/* The cfg's name without folders, up to the first dot: Darknet's rule. */
static char *base_of(const char *cfg)
{
    const char *slash = strrchr(cfg, '/'), *name = slash ? slash + 1 : cfg;
    return mem_text(name, strcspn(name, "."));
}

static int check_flags(const struct cli *c, struct err *e)
{
    if (c->resume && c->narg > 2)
        return fail(e, E_ARG, "-resume %.100s and weights %.100s: give one of them", c->resume, c->arg[2]);
    if (c->resume && c->clear)
        return fail(e, E_ARG, "-resume goes on where the state is: -clear contradicts it");
    return OK;
}

static int open_data(struct training *t, struct err *e)
{
    const struct data_file *d = t->s.data;
    struct augment checked; /* before anything is printed */
    TRY(augment_from_net(t->s.net, &checked, e));
    TRY(folder_prepare(d->backup, e));
    TRY(dataset_open(&t->train, d, SPLIT_TRAIN, &t->s.notes, e));
    if (d->valid || d->holdout) return dataset_open(&t->valid, d, SPLIT_VALID, &t->s.notes, e);
    note(&t->s.notes, "%s: no valid=: training runs without validation, and nothing is kept as best",
         d->path);
    return OK;
}

static int train(struct training *t, const struct cli *c, struct err *e)
{
    struct train_log log = { .console = &t->s.console, .max_batches = t->s.net->config.max_batches };
    struct train_hooks hooks = { &log, log_start, log_iteration, log_validation };
    struct train_options o = { .base = t->base,
                               .backup = t->s.data->backup,
                               .resume = c->resume,
                               .clear = c->clear,
                               .weights = c->narg > 2 ? c->arg[2] : NULL,
                               .metrics = c->metrics,
                               .workers = cli_workers(c),
                               .top = cli_top(c, &t->s),
                               .stop = &stop_signal };
    startup_lines(&t->s, c, t->base, t->train->n);
    log.itra = startup_itra(&t->s);
    TRY(output_check(e));
    watch_signals();
    int rc = trainer_run(t->s.net, t->s.data, t->train, t->valid, &o, &hooks, e);
    console_clear(&t->s.console);
    if (rc || !stop_signal) return rc;
    if (log.lost.code)
        return fail(e, E_FILE, "%.100s; stopped and saved: go on with -resume %s/%s_last.state", log.lost.msg,
                    o.backup, o.base);
    note(&t->s.notes, "stopped by a signal and saved: go on with -resume %s/%s_last.state", o.backup, o.base);
    return 128 + (int)stop_signal; /* as a shell reports it, so that scripts stop too */
}

int cli_train(const struct cli *c, struct err *e)
{
    struct training t = { 0 };
    TRY(check_flags(c, e));
    t.base = base_of(c->arg[1]);
    int rc =
        t.base ? session_open(&t.s, c, c->arg[0], c->arg[1], e) : fail(e, E_MEM, "no memory for a file name");
    if (!rc) rc = open_data(&t, e);
    if (!rc) rc = train(&t, c, e);
    dataset_close(t.valid);
    dataset_close(t.train);
    session_close(&t.s);
    mem_free(t.base);
    return rc;
}
