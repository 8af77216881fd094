/* The C interface of oneDNN 3, as far as dnn.c uses it: what is new in it is made here out of version 2's,
 * where an operation's descriptor comes before that of the primitive and memory descriptors are plain
 * structs. */
#ifndef BACKEND_CPU_ONEDNN_H
#define BACKEND_CPU_ONEDNN_H
#include <oneapi/dnnl/dnnl.h>

/* Who runs its threads: GNU OpenMP in distributions; in the wheel `onednn` TBB, by way of SYCL. */
enum {
    USES_OPENMP = DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP,
    USES_SYCL = DNNL_CPU_RUNTIME == DNNL_RUNTIME_SYCL
};

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t memory_desc_t;
typedef const_dnnl_memory_desc_t const_memory_desc_t;

/* Returns the number of dimensions. */
static inline int memory_desc_dims(const_memory_desc_t md, const dnnl_dims_t **dims)
{
    int n = 0;
    dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &n);
    dnnl_memory_desc_query(md, dnnl_query_dims, dims);
    return n;
}

#else
#include "core/mem.h"

typedef dnnl_memory_desc_t *memory_desc_t;
typedef const dnnl_memory_desc_t *const_memory_desc_t;

static inline int memory_desc_dims(const_memory_desc_t md, const dnnl_dims_t **dims)
{
    *dims = &md->dims;
    return md->ndims;
}

static inline dnnl_status_t dnnl_memory_desc_create_with_tag(memory_desc_t *md, int n, const dnnl_dims_t dims,
                                                             dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    *md = mem_alloc(1, sizeof **md);
    return *md ? dnnl_memory_desc_init_by_tag(*md, n, dims, type, tag) : dnnl_out_of_memory;
}

static inline dnnl_status_t dnnl_memory_desc_destroy(memory_desc_t md)
{
    mem_free(md);
    return dnnl_success;
}

static inline dnnl_status_t append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha, float beta)
{
    return dnnl_post_ops_append_eltwise(ops, 1, alg, alpha, beta);
}
#define dnnl_post_ops_append_eltwise append_eltwise

/* Each: a descriptor of the operation, then one of the primitive. */
#define THEN_PRIMITIVE(init, forward)                                                                        \
    dnnl_status_t s = init;                                                                                  \
    return s == dnnl_success ? dnnl_primitive_desc_create(pd, &d, attr, engine, forward) : s

static inline dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t alg,
    const_memory_desc_t x, const_memory_desc_t w, const_memory_desc_t bias, const_memory_desc_t y,
    const dnnl_dims_t stride, const dnnl_dims_t between, const dnnl_dims_t before, const dnnl_dims_t behind,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    THEN_PRIMITIVE(dnnl_dilated_convolution_forward_desc_init(&d, kind, alg, x, w, bias, y, stride, between,
                                                              before, behind),
                   NULL);
}

static inline dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, const_memory_desc_t gx,
    const_memory_desc_t w, const_memory_desc_t gy, const dnnl_dims_t stride, const dnnl_dims_t between,
    const dnnl_dims_t before, const dnnl_dims_t behind, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    THEN_PRIMITIVE(
        dnnl_dilated_convolution_backward_data_desc_init(&d, alg, gx, w, gy, stride, between, before, behind),
        forward);
}

static inline dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, const_memory_desc_t x,
    const_memory_desc_t gw, const_memory_desc_t gbias, const_memory_desc_t gy, const dnnl_dims_t stride,
    const dnnl_dims_t between, const dnnl_dims_t before, const dnnl_dims_t behind,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    THEN_PRIMITIVE(dnnl_dilated_convolution_backward_weights_desc_init(&d, alg, x, gw, gbias, gy, stride,
                                                                       between, before, behind),
                   forward);
}

static inline dnnl_status_t dnnl_eltwise_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t alg,
    const_memory_desc_t x, const_memory_desc_t y, float alpha, float beta, const_dnnl_primitive_attr_t attr)
{
    (void)y; /* lies as x */
    dnnl_eltwise_desc_t d;
    THEN_PRIMITIVE(dnnl_eltwise_forward_desc_init(&d, kind, alg, x, alpha, beta), NULL);
}

static inline dnnl_status_t dnnl_eltwise_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, const_memory_desc_t gx,
    const_memory_desc_t gy, const_memory_desc_t data, float alpha, float beta,
    const_dnnl_primitive_desc_t forward, const_dnnl_primitive_attr_t attr)
{
    (void)gx; /* lies as gy */
    dnnl_eltwise_desc_t d;
    THEN_PRIMITIVE(dnnl_eltwise_backward_desc_init(&d, alg, gy, data, alpha, beta), forward);
}

static inline dnnl_status_t dnnl_pooling_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t alg,
    const_memory_desc_t x, const_memory_desc_t y, const dnnl_dims_t stride, const dnnl_dims_t window,
    const dnnl_dims_t between, const dnnl_dims_t before, const dnnl_dims_t behind,
    const_dnnl_primitive_attr_t attr)
{
    (void)between; /* always 0 */
    dnnl_pooling_desc_t d;
    THEN_PRIMITIVE(dnnl_pooling_forward_desc_init(&d, kind, alg, x, y, stride, window, before, behind), NULL);
}

static inline dnnl_status_t dnnl_pooling_backward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, const_memory_desc_t gx,
    const_memory_desc_t gy, const dnnl_dims_t stride, const dnnl_dims_t window, const dnnl_dims_t between,
    const dnnl_dims_t before, const dnnl_dims_t behind, const_dnnl_primitive_desc_t forward,
    const_dnnl_primitive_attr_t attr)
{
    (void)between;
    dnnl_pooling_desc_t d;
    THEN_PRIMITIVE(dnnl_pooling_backward_desc_init(&d, alg, gx, gy, stride, window, before, behind), forward);
}

#endif
#endif
