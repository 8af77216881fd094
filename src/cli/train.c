/* classifier train: Darknet's lines into a pipe, a progress line on a terminal. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/chart.h"
#include "cli/cli.h"
#include "core/file.h"
#include "data/image.h"
#include "group/group.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

/* ---- what the run is about to do, said before it starts ---- */

/* A class with fewer than 2 rows in a half has little or nothing to be aligned. */
static void warn_few(const struct session *s, int line, const struct pairing_wants *w, double per_class)
{
    if (per_class >= 2 || (w->by_class && w->present && !w->unbiased)) return;
    note(&s->notes,
         "%s:%d: warning: [itra] has fewer than 2 rows per class on average (%.2f)%s: raise batch or lower "
         "subdivisions%s%s%s",
         s->net->cfg->path, line, per_class,
         w->unbiased ? ", and estimate=unbiased leaves out each class that has one" : "",
         w->source == S2_FROM_LOADER && !w->by_class ? ", set match=class" : "",
         w->present ? "" : ", set average=present",
         w->unbiased ? ", or set estimate=biased or conditional=0" : "");
}

static void print_itra(const struct session *s)
{
    const struct net *net = s->net;
    for (int i = 0; i < net->n; i++) {
        struct pairing_wants w;
        if (!net_layer_wants(net, i, &w) || !w.active) continue;
        int split = w.source == S2_FROM_SPLIT, classes = w.conditional ? net->classes : 1;
        int rows = w.alone ? net->share.rows : net->mini;
        int second = split ? rows / 2 : rows, first = rows - (split ? second : 0);
        printf("[itra] lambda %g, pair=%s: %d rows against %d, %.1f against %.1f per class on average\n",
               w.lambda, s2_source_names[w.source], first, second, (double)first / classes,
               (double)second / classes);
        const int last = net->config.max_batches;
        if (last && w.every > last)
            note(&s->notes,
                 "%s:%d: warning: [itra] every=%d is more than max_batches=%d: it is never applied",
                 net->cfg->path, net->layer[i].line, w.every, last);
        if (last && w.warmup > last)
            note(&s->notes, "%s:%d: warning: [itra] warmup=%g is more than max_batches=%d: lambda ends at %g",
                 net->cfg->path, net->layer[i].line, w.warmup, last, w.lambda * last / w.warmup);
        if (w.conditional) warn_few(s, net->layer[i].line, &w, (double)second / classes);
    }
}

static int has_batch_norm(struct cfg *cfg)
{
    for (int i = 1; i < cfg->n; i++) {
        const char *on = cfg_find(&cfg->section[i], "batch_normalize", NULL);
        if ((on && atoi(on)) || !strcmp(cfg->section[i].name, "batchnorm")) return 1;
    }
    return 0;
}

/* What a line that is about one of several processes ends with. */
static void print_among(const struct session *s)
{
    if (s->group) printf(" in each of %d processes", group_size(s->group));
}

static void print_plan(const struct session *s, const char *base)
{
    const struct net_config *n = &s->net->config;
    const int normed = n->sync_bn ? s->net->mini : s->net->share.rows;
    printf("%s\n", base);
    printf("Learning Rate: %g, Momentum: %g, Decay: %g\n", n->learning_rate, n->momentum, n->decay);
    printf("%d\n", s->train->n);
    printf("seed %llu, device %s%s%s, %d compute threads, %d loader threads",
           (unsigned long long)s->cli->seed, s->be->title, n->precision ? " in " : "",
           n->precision ? precision_names[n->precision] : "", s->be->threads, session_workers(s));
    print_among(s);
    printf("\nmini-batch = %d images, update every %d\n", s->net->mini, s->net->mini * n->subdivisions);
    if (s->net->mini * n->subdivisions > s->train->n)
        note(&s->notes,
             "warning: batch=%d, but there are only %d images: each update sees them all again and again: "
             "lower batch",
             n->batch, s->train->n);
    if (s->net->mini * n->subdivisions == 1)
        note(&s->notes, "warning: batch=1 is for predictions: raise it (many published cfgs have that of "
                        "training in a comment)");
    else if (normed && normed < 4 && has_batch_norm(s->net->cfg))
        note(&s->notes, "warning: batch norm over %s of %d is noisy: lower subdivisions or raise batch%s",
             normed < s->net->mini ? "shares" : "mini-batches", normed,
             normed < s->net->mini ? ", or set sync_bn=1" : "");
}

/* ---- reporting ---- */

struct train_log {
    struct session *s;
    struct err lost; /* stdout could not be written */
    struct chart chart;
};

/* Training that nobody can follow ends as after a signal: saved, so that it can be resumed. */
static void check_output(struct train_log *log)
{
    if (!log->lost.code && output_check(&log->lost)) stop_signal = SIGPIPE;
}

/* The smoothed CE is that of trainer.c. */
static void chart_row(void *ctx, int validation, double iteration, double value)
{
    struct chart *c = ctx;
    const struct curve *loss = &c->loss;
    if (!validation && loss->n) value = .9 * loss->point[loss->n - 1].y + .1 * value;
    if (isfinite(value)) curve_add(validation ? &c->accuracy : &c->loss, iteration, value, NULL);
}

static void log_start(void *ctx, const struct train_start *s)
{
    struct train_log *log = ctx;
    struct err e;
    if (log->s->cli->chart && s->iteration && metrics_read(s->metrics, chart_row, &log->chart, &e))
        note(&log->s->notes, "the chart begins here: %s", e.msg);
    printf("memory: parameters %.1f MiB, training %.1f MiB, validation %.1f MiB", mib(s->params),
           mib(s->train), mib(s->infer));
    print_among(log->s);
    putchar('\n');
    if (s->iteration) printf("going on after iteration %llu\n", (unsigned long long)s->iteration);
    check_output(ctx);
}

static void print_iteration(const struct train_line *l, int itra)
{
    printf("Loaded: %f seconds\n", l->loaded_seconds);
    printf("%llu, %.3f: %f, %f avg, %g rate, %f seconds, %llu images", (unsigned long long)l->iteration,
           l->epoch, l->ce, l->ce_smooth, l->rate, l->seconds, (unsigned long long)l->seen);
    if (itra) printf(", match %.6f, lambda %g", l->match, l->lambda);
    if (itra && isfinite(l->match_share)) printf(", itra %.1f%%", 100 * l->match_share);
    if (l->burn_in) printf(" (burn-in %llu/%d)", (unsigned long long)l->iteration, l->burn_in);
    putchar('\n');
}

static void print_progress(const struct train_line *l, int itra, int max_batches)
{
    printf("%llu", (unsigned long long)l->iteration);
    if (max_batches) printf("/%d", max_batches);
    printf(", epoch %.2f: CE %.4f", l->epoch, l->ce_smooth);
    if (itra) printf(", match %.4f", l->match);
    printf(", rate %g, %.0f images/s", l->rate, l->images_per_second);
    if (l->eta_seconds >= 0) print_eta(l->eta_seconds);
    console_end();
}

/* A chart that cannot be drawn any more is noted; training goes on. One of an earlier run stays until there
 * is something to draw. */
static void draw(struct train_log *log)
{
    struct err e = { 0 };
    const char *path = log->s->cli->chart;
    if (path && log->chart.loss.n && chart_write(&log->chart, path, &e))
        note(&log->s->notes, "no chart: %s", e.msg);
}

static void log_iteration(void *ctx, const struct train_line *l)
{
    struct train_log *log = ctx;
    const struct net *net = log->s->net;
    int itra = net->wants.active && isfinite(l->match);
    if (log->s->cli->chart && isfinite(l->ce_smooth))
        curve_add(&log->chart.loss, (double)l->iteration, l->ce_smooth, NULL);
    if (!log->s->console.tty)
        print_iteration(l, itra);
    else if (console_begin(&log->s->console))
        print_progress(l, itra, net->config.max_batches);
    check_output(log);
}

static void log_validating(void *ctx, int done, int all)
{
    struct train_log *log = ctx;
    if (!console_begin(&log->s->console)) return;
    printf("validating: %d/%d images", done, all);
    console_end();
}

static void log_validation(void *ctx, const struct valid_line *l)
{
    struct train_log *log = ctx;
    curve_add(&log->chart.accuracy, (double)l->iteration, l->top1, NULL);
    draw(log);
    console_clear(&log->s->console);
    printf("validation %llu, %.3f: top-1 %.6f, ", (unsigned long long)l->iteration, l->epoch, l->top1);
    if (l->top > 1) printf("top-%d %.6f, ", l->top, l->topk);
    printf("CE %.6f", l->ce);
    if (l->compactness >= 0) printf(", compactness %.6f", l->compactness);
    printf(", %f seconds, %d images%s\n", l->seconds, l->images, l->best ? ", best so far" : "");
    check_output(log);
}

/* ---- the command ---- */

static int check_flags(const struct cli *c, struct err *e)
{
    if (c->resume && c->narg > 2)
        return fail(e, E_ARG, "-resume %.100s and weights %.100s: give one of them", c->resume, c->arg[2]);
    if (c->finetune && c->narg < 3)
        return fail(e, E_ARG, "-finetune: name the weights to start from, after the cfg");
    if (c->resume && c->clear)
        return fail(e, E_ARG, "-resume goes on from the iteration of the state: -clear contradicts it");
    return OK;
}

static int open_data(struct session *s, struct err *e)
{
    const struct data_file *d = s->data;
    if (group_leads(s->group)) TRY(folder_prepare(d->backup, e));
    TRY(session_open_set(s, SPLIT_TRAIN, e));
    if (d->valid || d->holdout) return session_open_set(s, SPLIT_VALID, e);
    note(&s->notes, "%s: no valid=: training runs without validation, and nothing is kept as best", d->path);
    return OK;
}

/* What the run writes by itself must be none of the files that it reads, but for the weights and the state
 * that it starts from. (The names of flags are told apart by what they end in: see args.c.) */
static int spare_files(const struct session *s, const struct files *f, struct err *e)
{
    const struct cli *c = s->cli;
    const struct data_file *d = s->data;
    const char *const read[] = { c->arg[0], c->arg[1], d->train, d->valid, d->test, d->labels, d->names };
    for (int i = 0; i < FILES; i++)
        for (size_t k = 0; k < sizeof read / sizeof *read; k++)
            if (args_same_file(read[k], f->path[i]))
                return fail_at(e, E_ARG, f->path[i], 0,
                               "is read, and would be overwritten: choose another name");
    return OK;
}

static int check_files(const struct session *s, const char *base, struct err *e)
{
    struct files f = { { NULL } };
    int rc = files_open(&f, s->data->backup, base, e);
    if (!rc) rc = spare_files(s, &f, e);
    files_close(&f);
    return rc;
}

/* base: NAME_MAX + 1 characters, which are enough, since the cfg is a file. */
static int prepare(struct session *s, const struct cli *c, char *base, struct err *e)
{
    const char *chart = group_leads(s->group) ? c->chart : NULL;
    TRY(check_flags(c, e));
    if (chart) TRY(file_spare_others(chart, &image_png_kind, e));
    if (chart) TRY(file_probe(chart, e));
    TRY(session_open(s, c, c->arg[0], c->arg[1], e));
    TRY(open_data(s, e));
    setup_base(c->arg[1], base);
    TRY(check_files(s, base, e));
    if (!group_leads(s->group)) return OK;
    print_plan(s, base);
    print_itra(s);
    return output_check(e);
}

static int train(void *ctx, const struct cli *c, struct err *e)
{
    struct session *s = ctx;
    char base[NAME_MAX + 1];
    const struct notes images = console_notes(&s->console); /* of all processes, which say nothing else */
    TRY(group_agree(s->group, prepare(s, c, base, e), e));
    struct train_log log = { .s = s };
    struct train_hooks hooks = { &log, log_start, log_iteration, log_validating, log_validation };
    struct train_options o = { .base = base,
                               .backup = s->data->backup,
                               .resume = c->resume,
                               .clear = c->clear,
                               .weights = c->narg > 2 ? c->arg[2] : NULL,
                               .finetune = c->finetune,
                               .metrics = c->metrics,
                               .workers = session_workers(s),
                               .top = session_top(s),
                               .notes = &images,
                               .programs = &s->training,
                               .stop = &stop_signal };
    stop_on_signals();
    int rc = trainer_run(s->net, s->data, s->train, s->valid, &o, &hooks, e);
    if (group_leads(s->group)) draw(&log);
    chart_free(&log.chart);
    console_clear(&s->console);
    if (rc || !stop_signal) return rc;
    if (log.lost.code)
        return fail(e, E_FILE, "%.100s; stopped and saved: go on with -resume %s/%s_last.state", log.lost.msg,
                    o.backup, base);
    note(&s->notes, "stopped by a signal and saved: go on with -resume %s/%s_last.state", o.backup, base);
    return 128 + (int)stop_signal; /* as a shell reports it, so that scripts stop too */
}

int cli_train(const struct cli *c, struct err *e)
{
    struct session s = { 0 };
    output_optional();
    return session_share(&s, train, &s, c, e);
}
