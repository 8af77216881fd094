/* What a training run is about to do, said before it starts: batch arithmetic, and what it means for [itra].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

/* A class with fewer than 2 rows in a half has little or nothing to be aligned. */
static void warn_few(const struct session *s, int line, const struct pairing_wants *w, double per_class)
{
    if (per_class >= 2 || (w->by_class && w->present)) return;
    note(&s->notes,
         "%s:%d: warning: [itra] has fewer than 2 rows per class on average (%.2f): raise batch or lower "
         "subdivisions%s%s",
         s->net->cfg->path, line, per_class,
         w->source == S2_FROM_LOADER && !w->by_class ? ", set match=class" : "",
         w->present ? "" : ", set average=present");
}

int startup_itra(const struct session *s)
{
    const struct net *net = s->net;
    for (int i = 0; i < net->n; i++) {
        struct pairing_wants w;
        if (!net_layer_wants(net, i, &w) || !w.active) continue;
        int split = w.source == S2_FROM_SPLIT, classes = w.conditional ? net->classes : 1;
        int second = split ? net->mini / 2 : net->mini, first = split ? net->mini - second : second;
        printf("[itra] lambda %g, pair=%s: %d rows against %d, %.1f against %.1f per class on average\n",
               w.lambda, s2_source_names[w.source], first, second, (double)first / classes,
               (double)second / classes);
        if (w.conditional) warn_few(s, net->layer[i].line, &w, (double)second / classes);
    }
    return net->wants.active;
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
