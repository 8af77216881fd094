/* What several commands open, and how they talk while it is open. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "core/cores.h"
#include "train/trainer.h"

enum { MOST_WORKERS = 16 };

void console_clear(struct console *c)
{
    if (!c->line_open) return;
    fputs("\r\033[K", stdout);
    fflush(stdout);
    c->line_open = 0;
}

static void say(void *ctx, const char *line)
{
    console_clear(ctx);
    fprintf(stderr, "%s\n", line);
}

struct notes console_notes(struct console *c) { return (struct notes){ say, c }; }

static int check_classes(const struct session *s, const char *cfg, struct err *e)
{
    const struct data_file *d = s->data;
    if (d->classes == s->net->classes) return OK;
    return fail(
        e, E_CFG,
        "%.150s says classes=%d, but the net of %.150s has %d outputs: correct classes=, or set filters= or "
        "output= of its last layer to %d",
        d->path, d->classes, cfg, s->net->classes, d->classes);
}

static int open_device(struct session *s, const struct cli *c, struct err *e)
{
    TRY(backend_open(&s->be, c->device ? c->device : backend_at(0)->name, c->threads, e));
    s->be->deterministic = c->deterministic;
    s->be->eager = c->eager;
    return OK;
}

static int open_net(struct session *s, const struct cli *c, const char *path, struct err *e)
{
    struct cfg *cfg;
    TRY(net_read_cfg(&cfg, path, c->set, c->precision, e));
    int rc = open_device(s, c, e);
    if (!rc) return net_open(&s->net, cfg, s->be, c->seed, &s->notes, e);
    cfg_free(cfg);
    return rc;
}

int session_open(struct session *s, const struct cli *c, const char *data, const char *cfg, struct err *e)
{
    *s = (struct session){ .console = { .tty = isatty(1) } };
    s->notes = console_notes(&s->console);
    if (data) TRY(data_file_read(&s->data, data, &s->notes, e));
    TRY(open_net(s, c, cfg, e));
    return data ? check_classes(s, cfg, e) : OK;
}

void session_close(struct session *s)
{
    net_close(s->net);
    backend_close(s->be);
    data_file_free(s->data);
}

int session_open_program(struct session *s, const char *weights, const struct program_desc *d,
                         struct program **p, struct err *e)
{
    int layers;
    TRY(program_open(p, s->net, d, e));
    TRY(weights_load(s->net, weights, 0, &layers, e));
    return program_refresh(*p, e);
}

int session_open_valid(struct session *s, const char *weights, int features, struct program **p,
                       struct dataset **valid, struct err *e)
{
    struct augment checked; /* before anything is printed */
    struct program_desc d = { .rows = s->net->mini, .features = features };
    if (!s->data->valid && !s->data->holdout)
        return fail(e, E_CFG, "%.200s: no valid= to take images from", s->data->path);
    TRY(augment_from_net(s->net, &checked, e));
    TRY(session_open_program(s, weights, &d, p, e));
    return dataset_open(valid, s->data, SPLIT_VALID, &s->notes, e);
}

int cli_workers(const struct cli *c)
{
    int n = cores();
    if (c->workers) return c->workers;
    return n < MOST_WORKERS ? n : MOST_WORKERS;
}

int cli_top(const struct cli *c, const struct session *s)
{
    int top = c->top ? c->top : s->data->top;
    return top < s->net->classes ? top : s->net->classes;
}
