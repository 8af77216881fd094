#include "onnx.h"
#include <stdio.h>
#include <string.h>
#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "darknet.h"
#include "net/compiled.h"
#include "net/graph.h"

/* Fields of ONNX's messages. */
enum {
    MODEL_IR = 1,
    MODEL_PRODUCER = 2,
    MODEL_PRODUCER_VERSION = 3,
    MODEL_DOC = 6,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8
};
enum { MODEL_METADATA = 14, ENTRY_KEY = 1, ENTRY_VALUE = 2, OPSET_VERSION = 2 };
enum { GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

enum { IR_VERSION = 8, ELEMENT_FLOAT = 1 }; /* 8 came with opset 17 */

struct onnx {
    const struct program *program;
    const struct onnx_options *options;
    struct graph graph;
    struct proto model, ends; /* all of the model before its graph; the graph but for nodes and constants */
    uint64_t bytes;           /* of the graph */
};

/* ---- what images must be like ---- */

static void put_entry(struct proto *model, const char *key, const char *value)
{
    struct proto entry = { 0 };
    proto_text(&entry, ENTRY_KEY, key);
    proto_text(&entry, ENTRY_VALUE, value);
    proto_message(model, MODEL_METADATA, &entry);
    proto_free(&entry);
}

/* The numbers of mean= or std=. */
struct numbers {
    char text[120];
};

static struct numbers numbers_of(const struct list *list)
{
    struct numbers s = { "" };
    size_t n = 0;
    for (int i = 0; i < list->n && n < sizeof s.text; i++)
        n += (size_t)snprintf(s.text + n, sizeof s.text - n, "%s%.9g", i ? "," : "", list_at(list, i));
    return s;
}

static const char *colours(const struct net_config *c)
{
    return c->channels == 3 ? "RGB" : c->channels == 1 ? "gray" : "as in training";
}

/* For people. */
static char *describe(const struct net_config *c, const char *mean, const char *std)
{
    if (!config_is_image(c)) return text_format("images: N x %d numbers, as in training.", c->inputs);
    return text_format(
        "images: N x %d x %d x %d, that is channels (%s), rows from the top, columns; pixels in "
        "[0, 1]%s%s%s%s.",
        c->channels, c->height, c->width, colours(c),
        c->mean.n ? ", of which each channel is normalised, (x - mean) / std, with mean " : "", mean,
        c->mean.n ? " and std " : "", std);
}

/* For programs. */
static void put_metadata(struct onnx *o)
{
    const struct net *n = o->program->net;
    const struct net_config *c = &n->config;
    char number[24];
    snprintf(number, sizeof number, "%d", n->classes);
    put_entry(&o->model, "classes", number);
    put_entry(&o->model, "batch_norm", o->options->fold ? "folded" : "kept");
    if (!config_is_image(c)) return;
    put_entry(&o->model, "layout", "NCHW");
    put_entry(&o->model, "channels", colours(c));
    put_entry(&o->model, "range", "0,1");
    if (!c->mean.n) return;
    put_entry(&o->model, "mean", numbers_of(&c->mean).text);
    put_entry(&o->model, "std", numbers_of(&c->std).text);
}

/* One name a line. */
static int put_names(struct onnx *o)
{
    char *const *name = o->options->names;
    const int n = name ? o->program->net->classes : 0;
    size_t bytes = 1, at = 0;
    for (int i = 0; i < n; i++) bytes += strlen(name[i]) + 1;
    char *all = mem_alloc(bytes, 1);
    if (!all) return E_MEM;
    for (int i = 0; i < n; i++) at += (size_t)sprintf(all + at, "%s%s", i ? "\n" : "", name[i]);
    if (n) put_entry(&o->model, "names", all);
    mem_free(all);
    return OK;
}

static int put_model(struct onnx *o, struct err *e)
{
    const struct net *n = o->program->net;
    struct proto opset = { 0 };
    char *text = describe(&n->config, numbers_of(&n->config.mean).text, numbers_of(&n->config.std).text);
    proto_int(&o->model, MODEL_IR, IR_VERSION);
    proto_text(&o->model, MODEL_PRODUCER, "darknet-itra");
    proto_text(&o->model, MODEL_PRODUCER_VERSION, DN_VERSION);
    if (text) proto_text(&o->model, MODEL_DOC, text);
    proto_int(&opset, OPSET_VERSION, GRAPH_OPSET);
    proto_message(&o->model, MODEL_OPSET, &opset);
    proto_free(&opset);
    put_metadata(o);
    int rc = text ? put_names(o) : E_MEM;
    mem_free(text);
    return rc ? net_no_memory(n, e) : OK;
}

/* ---- the graph ---- */

static void put_dim(struct proto *shape, int field, int64_t n)
{
    struct proto dim = { 0 };
    if (field == DIM_PARAM)
        proto_text(&dim, DIM_PARAM, "N");
    else
        proto_int(&dim, DIM_VALUE, n);
    proto_message(shape, SHAPE_DIM, &dim);
    proto_free(&dim);
}

/* Of N rows. */
static void put_value(struct proto *to, int field, const char *name, int rank, const int64_t *dims)
{
    struct proto shape = { 0 }, tensor = { 0 }, type = { 0 }, value = { 0 };
    put_dim(&shape, DIM_PARAM, 0);
    for (int i = 0; i < rank; i++) put_dim(&shape, DIM_VALUE, dims[i]);
    proto_int(&tensor, TENSOR_ELEMENT, ELEMENT_FLOAT);
    proto_message(&tensor, TENSOR_SHAPE, &shape);
    proto_message(&type, TYPE_TENSOR, &tensor);
    proto_text(&value, VALUE_NAME, name);
    proto_message(&value, VALUE_TYPE, &type);
    proto_message(to, field, &value);
    proto_free(&shape);
    proto_free(&tensor);
    proto_free(&type);
    proto_free(&value);
}

static void put_output(struct onnx *o, const struct value *v, const char *name)
{
    graph_give(&o->graph, graph_find(&o->graph, v), name);
    put_value(&o->ends, GRAPH_OUTPUT, name, 1, (int64_t[]){ (int64_t)shape_row(v->x.shape) });
}

static int export_layers(struct onnx *o, struct err *e)
{
    for (int i = 0; i < o->program->n; i++) {
        const struct layer *l = &o->program->node[i].l;
        if (l->identity) continue; /* what only training uses among them */
        if (!l->ops->export) return layer_fail(l, e, "has no form in ONNX: this net cannot be exported");
        o->graph.layer = l;
        int rc = l->ops->export(l, &o->graph, e);
        if (rc && e && !e->code) /* param_get gives a bare code */
            fail(e, rc, "%s: its parameters cannot be copied: %s", net_layer_name(o->program->net, i).text,
                 err_text(rc));
        TRY(rc);
    }
    o->graph.layer = NULL;
    return OK;
}

static int put_graph(struct onnx *o, struct err *e)
{
    const struct program *p = o->program;
    const struct shape in = p->input.x.shape;
    const int image = config_is_image(&p->net->config), seen = net_penultimate(p->net);
    const struct layer *last = &p->node[program_output(p)].l;
    graph_input(&o->graph, &p->input, "images", !image);
    put_value(&o->ends, GRAPH_INPUT, "images", image ? 3 : 1, (int64_t[]){ in.c, in.h, in.w });
    TRY(export_layers(o, e));
    put_output(o, last->out, last->ops == layer_find("softmax") ? "probabilities" : "scores");
    if (o->options->features) put_output(o, seen < 0 ? &p->input : p->node[seen].l.out, "features");
    proto_text(&o->ends, GRAPH_NAME, "darknet");
    graph_end(&o->graph);
    return o->graph.failed || o->ends.failed || o->model.failed ? net_no_memory(p->net, e) : OK;
}

/* ---- the file ---- */

/* What stands before the data of a constant, the message's own beginning included. */
static void put_head(struct proto *to, const struct graph_constant *c)
{
    struct proto data = { 0 };
    proto_begin(&data, TENSOR_RAW, c->bytes);
    proto_begin(to, GRAPH_INITIALIZER, c->head.n + data.n + c->bytes);
    proto_append(to, &c->head);
    proto_append(to, &data);
    proto_free(&data);
}

static int write_constants(struct onnx *o, struct file *f, struct err *e)
{
    for (int i = 0; i < o->graph.nconstant; i++) {
        const struct graph_constant *c = &o->graph.constant[i];
        struct proto head = { 0 };
        put_head(&head, c);
        int rc = head.failed ? net_no_memory(o->program->net, e) : OK;
        if (!rc && f) rc = file_write(f, head.bytes, head.n, e);
        if (!rc && f) rc = file_write(f, c->data, c->bytes, e);
        o->bytes += head.n + c->bytes;
        proto_free(&head);
        TRY(rc);
    }
    return OK;
}

/* The constants, which are nearly all of it, are gone through twice: once for their size, which comes first.
 */
static int write_out(struct onnx *o, struct file *f, struct err *e)
{
    o->bytes = o->graph.nodes.n + o->ends.n;
    TRY(write_constants(o, NULL, e));
    if (o->bytes + o->model.n > INT32_MAX - 16)
        return fail_at(e, E_ARG, f->path, 0,
                       "an ONNX file has less than 2 GiB, and this net needs %llu bytes: export .safetensors",
                       (unsigned long long)o->bytes);
    proto_begin(&o->model, MODEL_GRAPH, o->bytes);
    if (o->model.failed) return net_no_memory(o->program->net, e);
    TRY(file_write(f, o->model.bytes, o->model.n, e));
    TRY(file_write(f, o->graph.nodes.bytes, o->graph.nodes.n, e));
    TRY(file_write(f, o->ends.bytes, o->ends.n, e));
    TRY(write_constants(o, f, e));
    return file_commit(f, e);
}

int onnx_save(const struct program *p, const struct onnx_options *options, const char *path, struct err *e)
{
    struct onnx o = { .program = p, .options = options, .graph.folds = options->fold };
    struct file f = { 0 };
    if (e) e->code = OK;
    int rc = put_model(&o, e);
    if (!rc) rc = put_graph(&o, e);
    if (!rc) rc = file_create(&f, path, e);
    if (!rc) rc = write_out(&o, &f, e);
    file_abort(&f);
    graph_free(&o.graph);
    proto_free(&o.model);
    proto_free(&o.ends);
    return rc;
}
