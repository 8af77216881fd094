/* What several commands open. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "group/group.h"
#include "train/trainer.h"

/* The number of -gpus that belongs to this process, among those of its machine. */
static int choose_listed(const struct session *s, const char **number, struct err *e)
{
    const char *list = s->cli->gpus;
    const int rank = group_local_rank(s->group);
    if (!s->group)
        return fail(e, E_DEVICE,
                    "-gpus %.60s: a process uses one GPU: give one number, or start one for each: mpirun -np "
                    "N %.60s classifier train ...",
                    list, s->cli->program);
    *number = list;
    for (int i = 0; i < rank && *number; i++)
        if ((*number = strchr(*number, ','))) ++*number;
    if (*number && isdigit((unsigned char)**number)) return OK;
    return fail(e, E_DEVICE,
                "-gpus %.60s: process %d of this machine, from 0 on, has none: name one for each", list,
                rank);
}

/* Several processes of a machine take a GPU each. */
static int open_backend(struct session *s, struct err *e)
{
    const struct cli *c = s->cli;
    const struct backend_ops *first = backend_at(0);
    const char *number = NULL, *device = c->device ? c->device : first->name;
    char gpu[24] = "";
    if (c->gpus) TRY(choose_listed(s, &number, e));
    if (number)
        snprintf(gpu, sizeof gpu, "%s:%.*s", first->name, (int)strcspn(number, ","), number);
    else if (s->group && first->gpu && !strcmp(device, first->name))
        snprintf(gpu, sizeof gpu, "%s:%d", first->name, group_local_rank(s->group));
    return backend_open(&s->be, *gpu ? gpu : device, c->threads, e);
}

static int open_net(struct session *s, const char *path, struct err *e)
{
    const struct cli *c = s->cli;
    struct cfg *cfg;
    TRY(net_read_cfg(&cfg, path, c->set, c->precision, e));
    int rc = open_backend(s, e);
    if (rc) {
        cfg_free(cfg);
        return rc;
    }
    s->be->group = s->group;
    s->be->deterministic = c->deterministic;
    s->be->eager = c->eager;
    return net_open(&s->net, cfg, s->be, c->seed, &s->notes, e);
}

static void note_ignored(const struct session *s)
{
    char names[200] = "";
    size_t n = 0;
    for (int i = 0; i < s->cli->nignored && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s-%s", i ? ", " : "", s->cli->ignored[i]);
    if (n) note(&s->notes, "without effect here: %s", names);
}

/* What the command is to write must be none of the files that the data file names. */
static int keep_lists(const struct session *s, struct err *e)
{
    const struct data_file *d = s->data;
    const char *const list[] = { d->train, d->valid, d->test, d->labels, d->names };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (args_write(s->cli, list[i]))
            return fail_at(e, E_ARG, list[i], 0,
                           "is named by %.150s and would be overwritten: choose another name", d->path);
    return OK;
}

int session_open(struct session *s, const struct cli *c, const char *data, const char *cfg, struct err *e)
{
    *s = (struct session){ .cli = c, .group = s->group, .console = { .tty = isatty(1) && !s->group } };
    if (group_leads(s->group)) s->notes = console_notes(&s->console);
    note_ignored(s);
    if (data) {
        TRY(data_file_read(&s->data, data, &s->notes, e));
        TRY(keep_lists(s, e));
    }
    TRY(open_net(s, cfg, e));
    if (!data) return OK;
    TRY(data_fits_net(s->data, s->net, e));
    return augment_from_net(s->net, &s->augment, e);
}

void session_close(struct session *s)
{
    dataset_close(s->valid);
    dataset_close(s->train);
    program_close(s->program);
    program_close(s->first);
    step_close(&s->training);
    net_close(s->net);
    backend_close(s->be);
    data_file_free(s->data);
}

int session_load(struct session *s, const char *weights, struct err *e)
{
    int layers;
    TRY(program_open(&s->program, s->net, &(struct program_desc){ .rows = 1 }, e));
    return weights_load(s->net, weights, WEIGHTS_WHOLE, &layers, e);
}

int session_share(struct session *s, int (*run)(void *ctx, const struct cli *, struct err *), void *ctx,
                  const struct cli *c, struct err *e)
{
    TRY(group_open(&s->group, &stop_signal, e));
    struct group *group = s->group;
    int rc = run(ctx, c, e);
    if (group) stop_on_signals(); /* mpirun ends the others once one has failed, and rank 0 is to say why */
    session_close(s);
    /* Rank 0 says why, and mpirun would end it before it has, if another failed first. */
    if (rc < 0 && !group_leads(group) && !group_is_abandoned(group)) rc = OK;
    group_close(group);
    return rc;
}

/* A mini-batch as in training, or, of a cfg that says batch=1, of more images, but not of more than there
 * are; half of it as often as it takes to fit the memory. */
static int open_largest(struct session *s, int features, struct err *e)
{
    enum { FEW = 16 };
    const int wanted = s->net->mini < FEW ? FEW : s->net->mini,
              most = s->valid->n < wanted ? s->valid->n : wanted;
    struct program_desc d = { .rows = most, .features = features };
    int rc;
    s->first = s->program;
    while ((rc = program_open(&s->program, s->net, &d, e)) == E_MEM && d.rows > 1) d.rows /= 2;
    if (!rc && d.rows < most)
        note(&s->notes, "%d images at once: a mini-batch of %d does not fit the memory", d.rows, most);
    return rc ? rc : program_refresh(s->program, e);
}

int session_open_set(struct session *s, enum split split, struct err *e)
{
    return setup_images(split == SPLIT_TRAIN ? &s->train : &s->valid, s->data, split, &s->notes, e);
}

int session_load_valid(struct session *s, int features, struct err *e)
{
    if (!s->data->valid && !s->data->holdout)
        return fail(e, E_CFG, "%.200s: no valid= to take images from", s->data->path);
    /* The first program says what is wrong with the weights before the images are looked for. */
    TRY(session_load(s, s->cli->arg[2], e));
    TRY(session_open_set(s, SPLIT_VALID, e));
    return open_largest(s, features, e);
}

int session_workers(const struct session *s) { return setup_workers(s->cli->workers); }

int session_top(const struct session *s)
{
    int top = s->cli->top ? s->cli->top : s->data->top;
    return top < s->net->classes ? top : s->net->classes;
}
