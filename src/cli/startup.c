/* What a training run is about to do, said before it starts: batch arithmetic, and what it means for [itra].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "core/mem.h"

/* The options of one [itra] section, read through the layer's own table. */
struct itra {
    double lambda;
    int line, conditional;
    const char *pair, *match, *average;
};

static const void *option_at(const struct layer_ops *ops, const char *self, const char *name,
                             const struct key **key)
{
    for (*key = ops->keys; (*key)->name; ++*key)
        if (!strcmp((*key)->name, name)) return self + (*key)->at;
    return NULL;
}

static double option_number(const struct layer_ops *ops, const char *self, const char *name)
{
    const struct key *k;
    const void *at = option_at(ops, self, name, &k);
    if (!at) return 0;
    return k->type == KEY_INT || k->type == KEY_WORD ? *(const int *)at : *(const double *)at;
}

static const char *option_word(const struct layer_ops *ops, const char *self, const char *name)
{
    const struct key *k;
    const void *at = option_at(ops, self, name, &k);
    return at && k->type == KEY_WORD ? k->words[*(const int *)at] : "";
}

static int read_itra(const struct layer_ops *ops, const char *path, struct cfg_section *s, struct itra *it,
                     struct err *e)
{
    char *self = mem_alloc(1, ops->size);
    if (!self) return fail(e, E_MEM, "no memory for the options of [%s]", ops->name);
    int rc = options_fill(self, ops->keys, path, s, e);
    it->line = s->line;
    it->lambda = option_number(ops, self, "lambda");
    it->conditional = (int)option_number(ops, self, "conditional");
    it->pair = option_word(ops, self, "pair");
    it->match = option_word(ops, self, "match");
    it->average = option_word(ops, self, "average");
    mem_free(self);
    return rc;
}

/* A class with fewer than 2 rows in a half has little or nothing to be aligned. */
static void warn_few(const struct session *s, const struct itra *it, double per_class)
{
    int class = !strcmp(it->match, "class"), present = !strcmp(it->average, "present");
    int loader = !strcmp(it->pair, "loader");
    if (per_class >= 2 || (class && present)) return;
    note(&s->notes,
         "%s:%d: warning: [itra] has fewer than 2 rows per class on average (%.2f): raise batch or lower "
         "subdivisions%s%s",
         s->net->cfg->path, it->line, per_class, loader && !class ? ", set match=class" : "",
         present ? "" : ", set average=present");
}

static void describe_itra(const struct session *s, const struct itra *it)
{
    int rows = s->net->mini, first = rows, second = rows, classes = it->conditional ? s->net->classes : 1;
    if (!strcmp(it->pair, "split")) {
        first = rows - rows / 2;
        second = rows / 2;
    }
    printf("[itra] lambda %g, pair=%s: %d rows against %d, %.1f against %.1f per class on average\n",
           it->lambda, it->pair, first, second, (double)first / classes, (double)second / classes);
    if (it->conditional) warn_few(s, it, (double)second / classes);
}

int startup_itra(const struct session *s, int *active, struct err *e)
{
    const struct layer_ops *ops = layer_find("itra");
    struct cfg *cfg = s->net->cfg;
    *active = 0;
    for (int i = 1; ops && i < cfg->n; i++) {
        struct itra it = { 0 };
        if (layer_find(cfg->section[i].name) != ops) continue;
        TRY(read_itra(ops, cfg->path, &cfg->section[i], &it, e));
        if (!(it.lambda > 0)) continue;
        describe_itra(s, &it);
        *active = 1;
    }
    return OK;
}

static int has_batch_norm(struct cfg *cfg)
{
    for (int i = 1; i < cfg->n; i++) {
        const char *on = cfg_find(&cfg->section[i], "batch_normalize", NULL);
        if ((on && atoi(on)) || !strcmp(cfg->section[i].name, "batchnorm")) return 1;
    }
    return 0;
}

void startup_lines(const struct session *s, const struct cli *c, const char *base, int images)
{
    const struct net_config *n = &s->net->config;
    printf("%s\n", base);
    printf("Learning Rate: %g, Momentum: %g, Decay: %g\n", n->learning_rate, n->momentum, n->decay);
    printf("%d\n", images);
    printf("seed %llu, device %s%s%s, %d compute threads, %d loader threads\n", (unsigned long long)c->seed,
           s->be->title, n->precision ? " in " : "", n->precision ? precision_names[n->precision] : "",
           s->be->threads, cli_workers(c));
    printf("mini-batch = %d images, update every %d\n", s->net->mini, s->net->mini * n->subdivisions);
    if (s->net->mini < 4 && has_batch_norm(s->net->cfg))
        note(&s->notes,
             "warning: batch norm over mini-batches of %d is noisy: lower subdivisions or raise batch",
             s->net->mini);
}
