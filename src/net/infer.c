#include "infer.h"
#include "core/mem.h"
#include "net/connect.h"
#include "net/run.h"

/* All rows at once: a device is waited for each time. */
static int read_output(const struct program *p, int rows, float *prob, struct err *e)
{
    const struct tensor *out = &p->node[program_output(p)].l.out->x;
    size_t n = (size_t)rows * shape_row(out->shape);
    real *all = mem_alloc(n, sizeof *all);
    if (!all) return fail(e, E_MEM, "not enough memory for the output");
    int rc = p->net->be->ops->read(p->net->be, out, 0, rows, all);
    for (size_t k = 0; k < n && !rc; k++) prob[k] = (float)all[k];
    mem_free(all);
    return rc;
}

static int infer(struct program *p, const struct step *s, float *prob, double *ce, struct err *e)
{
    struct pass pass;
    TRY(run_fill(p, s, &pass, e));
    TRY(run_forward(p, &pass, e));
    TRY(run_fetch_losses(p, &pass));
    if (ce) *ce = run_stats(p).ce * s->rows;
    return prob ? read_output(p, s->rows, prob, e) : OK;
}

int program_infer(struct program *p, const struct step *s, float *prob, double *ce, struct err *e)
{
    return attach_device_error(p->net, infer(p, s, prob, ce, e), e);
}

int program_feature_size(const struct program *p)
{
    return p->feature < 0 ? 0 : (int)shape_row(p->node[p->feature].l.out->x.shape);
}

int program_features(struct program *p, int rows, real *features, struct err *e)
{
    if (p->feature < 0) return fail(e, E_ARG, "%s: no features are kept", p->net->cfg->path);
    if (e) e->code = OK;
    int rc = p->net->be->ops->read(p->net->be, &p->node[p->feature].l.out->x, 0, rows, features);
    return attach_device_error(p->net, rc, e);
}
