#include "surgery.h"
#include <math.h>
#include <stdio.h>
#include "backend/ops/norm.h"
#include "core/mem.h"
#include "core/text.h"
#include "net/linear.h"
#include "net/param.h"

/* The parameters of a layer that has weights, by what they are; the others have no weights. */
enum role { WEIGHTS, BIAS, SCALE, MEAN, VARIANCE, ROLES }; /* in linear_fold's order */

struct view {
    struct param *param[ROLES]; /* NULL: it has none */
    real *x[ROLES];             /* a copy; where it has none, values that change nothing */
    size_t n, per;              /* biases; weights of each */
};

static enum role role_of(const struct param *p)
{
    if (p->flags & PARAM_DECAY) return WEIGHTS;
    if (p->flags & PARAM_VARIANCE) return VARIANCE;
    if (p->flags & PARAM_STATE) return MEAN;
    return p->init == INIT_ONE ? SCALE : BIAS;
}

const char *surgery_param_name(const struct param *p)
{
    static const char *const names[ROLES] = { "weights", "bias", "scale", "mean", "variance" };
    return names[role_of(p)];
}

struct surgery_name surgery_full_name(const struct param *p)
{
    struct surgery_name s;
    snprintf(s.text, sizeof s.text, "%d.%s.%s", p->layer, p->net->layer[p->layer].ops->name,
             surgery_param_name(p));
    return s;
}

static void find_params(struct view *v, const struct net *n, int layer)
{
    const struct model_layer *l = &n->layer[layer];
    *v = (struct view){ 0 };
    for (int i = l->param; i < l->param + l->nparam; i++) v->param[role_of(n->param[i])] = n->param[i];
    if (!v->param[WEIGHTS]) return;
    v->n = v->param[BIAS]->count;
    v->per = v->param[WEIGHTS]->count / v->n;
}

static int read_view(struct view *v, const struct net *n, struct err *e)
{
    real *x = mem_alloc(v->n * (v->per + ROLES - 1), sizeof *x);
    if (!x) return net_no_memory(n, e);
    for (int r = 0; r < ROLES; r++) {
        v->x[r] = x;
        x += r == WEIGHTS ? v->n * v->per : v->n;
        for (size_t i = 0; (r == SCALE || r == VARIANCE) && i < v->n; i++)
            v->x[r][i] = (real)(r == SCALE ? 1 : 1 - NORM_EPSILON);
        if (v->param[r]) TRY(param_explain(v->param[r], param_get(v->param[r], v->x[r]), e));
    }
    return OK;
}

static int write_view(const struct view *v, const struct view *to, struct err *e)
{
    for (int r = 0; r < ROLES; r++)
        if (to->param[r]) TRY(param_explain(to->param[r], param_set(to->param[r], v->x[r]), e));
    return OK;
}

/* What is left of the normalisation changes nothing. */
static void fold(struct view *v)
{
    linear_fold(v->x[WEIGHTS], v->n, v->per);
    for (size_t o = 0; o < v->n; o++) {
        v->x[SCALE][o] = 1;
        v->x[VARIANCE][o] = (real)(1 - NORM_EPSILON);
        v->x[MEAN][o] = 0;
    }
}

/* w . (2 x - 1) = 2 w . x - sum(w): the sum goes to the bias, or where a normalisation follows to its mean.
 */
static void rescale(struct view *v)
{
    for (size_t o = 0; o < v->n; o++) {
        double sum = 0;
        for (size_t i = 0; i < v->per; i++) {
            real *w = &v->x[WEIGHTS][o * v->per + i];
            sum += (double)*w;
            *w *= 2;
        }
        if (v->param[MEAN])
            v->x[MEAN][o] = (real)((double)v->x[MEAN][o] + sum);
        else
            v->x[BIAS][o] = (real)((double)v->x[BIAS][o] - sum);
    }
}

static void swap(struct view *v)
{
    const size_t plane = v->per / 3;
    for (size_t o = 0; o < v->n; o++)
        for (size_t i = 0; i < plane; i++) {
            real *red = &v->x[WEIGHTS][o * v->per + i], *blue = red + 2 * plane, x = *red;
            *red = *blue;
            *blue = x;
        }
}

/* All its filters see all channels of the image, and each is the same at every pixel. */
static int is_of_image(const struct net *n, int i, const struct view *v)
{
    const struct model_layer *l = &n->layer[i];
    const char *groups = cfg_find(&n->cfg->section[i + 1], "groups", NULL);
    return v->param[WEIGHTS] && l->ops->flags & LAYER_SPATIAL && v->n == (size_t)l->out.c &&
           v->per % (size_t)n->config.channels == 0 && (!groups || text_number(groups, NULL) == 1);
}

int surgery_image_weights(const struct net *n, struct param **weights, struct err *e)
{
    struct view v;
    int i = -1;
    do find_params(&v, n, ++i);
    while (!v.param[WEIGHTS] && i + 1 < n->n);
    *weights = v.param[WEIGHTS];
    if (is_of_image(n, i, &v)) return OK;
    return fail_at(e, E_ARG, n->cfg->path, 0,
                   "does not begin with a convolution of the image, without groups");
}

static int copy_param(const struct param *from, struct param *to, struct err *e)
{
    real *x = mem_alloc(from->count, sizeof *x);
    int rc = x ? param_explain(from, param_get(from, x), e) : net_no_memory(from->net, e);
    if (!rc) rc = param_explain(to, param_set(to, x), e);
    mem_free(x);
    return rc;
}

static int change(struct view *v, const struct net *from, const struct view *to, enum surgery how,
                  struct err *e)
{
    TRY(read_view(v, from, e));
    switch (how) {
    case SURGERY_COPY: break;
    case SURGERY_FOLD:
        if (v->param[VARIANCE]) fold(v);
        break;
    case SURGERY_RESCALE: rescale(v); break;
    case SURGERY_SWAP: swap(v); break;
    }
    return write_view(v, to, e);
}

int surgery(struct net *to, const struct net *from, enum surgery how, struct err *e)
{
    const int first = how == SURGERY_RESCALE || how == SURGERY_SWAP;
    struct param *image = NULL;
    if (first) TRY(surgery_image_weights(from, &image, e));
    if (how == SURGERY_SWAP && from->config.channels != 3)
        return fail_at(e, E_ARG, from->cfg->path, 0, "channels=%d: only red and blue can be exchanged",
                       from->config.channels);
    for (int i = 0; i < from->n; i++) {
        struct view v, w;
        find_params(&v, from, i);
        find_params(&w, to, i);
        if (v.param[WEIGHTS]) {
            int rc = change(&v, from, &w, first && image->layer != i ? SURGERY_COPY : how, e);
            mem_free(v.x[WEIGHTS]);
            TRY(rc);
            continue;
        }
        for (int k = 0; k < from->layer[i].nparam; k++)
            TRY(copy_param(from->param[from->layer[i].param + k], to->param[to->layer[i].param + k], e));
    }
    return OK;
}

static int blend(struct param *to, const struct param *from, double a, double b, real *x, real *y,
                 struct err *e)
{
    TRY(param_explain(to, param_get(to, x), e));
    if (from) TRY(param_explain(from, param_get(from, y), e));
    for (size_t i = 0; i < to->count; i++) x[i] = (real)(a * (double)x[i] + (from ? b * (double)y[i] : 0));
    return param_explain(to, param_set(to, x), e);
}

int surgery_blend(struct net *to, const struct net *from, double a, double b, struct err *e)
{
    real *x = params_host(to, e), *y = x ? params_host(to, e) : NULL;
    int rc = y ? OK : E_MEM;
    for (int i = 0; !rc && i < to->nparam; i++)
        rc = blend(to->param[i], from ? from->param[i] : NULL, a, b, x, y, e);
    mem_free(x);
    mem_free(y);
    return rc;
}
