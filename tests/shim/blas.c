/* The matrix product on the host, for make GPU=host. */
#include "backend/cuda/blas.h"
#include "backend/cuda/kernel.h"
#include "core/mem.h"
#include "units.h"

struct blas {
    stream_t stream;
};

int blas_open(struct blas **b, stream_t s, const struct dev_info *info, struct err *e)
{
    (void)info;
    *b = mem_alloc(1, sizeof **b);
    if (!*b) return fail(e, E_MEM, "no memory to open cuBLAS");
    (*b)->stream = s;
    return OK;
}
void blas_close(struct blas *b) { mem_free(b); }

struct call {
    struct blas_product product;
    const void *a, *b;
    void *c;
};

static void multiply(const void *args)
{
    const struct call *call = args;
    const struct blas_product *p = &call->product;
    const void *a = call->a, *b = call->b;
    void *c = call->c;
    for (size_t i = 0; i < p->m; i++)
        for (size_t j = 0; j < p->n; j++) {
            double sum = 0;
            float x, y, old = 0;
            for (size_t k = 0; k < p->k; k++) {
                load(p->bf16, 1, a, p->ta ? k * p->m + i : i * p->k + k, &x);
                load(p->bf16, 1, b, p->tb ? j * p->k + k : k * p->n + j, &y);
                sum += (double)seen(p->tf32, x) * seen(p->tf32, y);
            }
            if (p->beta != 0) load(p->bf16_c, 1, c, i * p->n + j, &old); /* else what is there may be NaN */
            float f = (float)(sum + (double)p->beta * old);
            store(p->bf16_c, 1, c, i * p->n + j, &f);
        }
}

int blas_multiply(struct blas *blas, const struct blas_product *p, const void *a, const void *b, void *c)
{
    int way = shim_launch("product");
    if (way) return way < 0 ? way : OK;
    return shim_enqueue(blas->stream, multiply, &(struct call){ *p, a, b, c }, sizeof(struct call));
}
