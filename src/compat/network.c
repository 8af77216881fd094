/* Networks of darknet_compat.h. */
#include "compat/compat.h"

static dn_net *net_of(network *n) { return n->handle; }

/* For programs that go on although load_network has failed. */
static int is_null(const network *n, const char *function)
{
    if (!n) complain("%s: no network (NULL)", function);
    return !n;
}

network *parse_network_cfg(char *filename)
{
    dn_error e;
    dn_net *d;
    if (dn_open(&d, filename, NULL, &e)) {
        complain("%s", e.msg);
        return NULL;
    }
    network *n = take(1, sizeof *n);
    size_t *seen = take(1, sizeof *seen);
    if (!n || !seen) {
        free(seen);
        free(n);
        dn_close(d);
        return NULL;
    }
    *n = (network){ .n = dn_layers(d), .batch = dn_mini_batch(d), .seen = seen, .handle = d };
    n->inputs = dn_input(d, &n->c, &n->h, &n->w);
    n->outputs = n->truths = dn_classes(d);
    return n;
}

static int load(network *n, char *filename)
{
    dn_error e;
    if (dn_load(net_of(n), filename, &e)) {
        complain("%s", e.msg);
        return -1;
    }
    *n->seen = (size_t)dn_seen(net_of(n));
    return 0;
}

network *load_network(char *cfg, char *weights, int clear)
{
    network *n = parse_network_cfg(cfg);
    if (n && weights && *weights && load(n, weights)) {
        free_network(n);
        return NULL;
    }
    if (n && clear) *n->seen = 0;
    return n;
}

void load_weights(network *n, char *filename)
{
    if (!is_null(n, "load_weights")) load(n, filename);
}

void save_weights(network *n, char *filename)
{
    dn_error e;
    if (is_null(n, "save_weights")) return;
    if (dn_set_seen(net_of(n), *n->seen, &e) || dn_save(net_of(n), filename, &e)) complain("%s", e.msg);
}

void free_network(network *n)
{
    if (!n) return;
    dn_close(net_of(n));
    free(n->output);
    free(n->seen);
    free(n);
}

void set_batch_network(network *n, int b)
{
    if (!is_null(n, "set_batch_network")) n->batch = b;
}

int network_width(network *n) { return is_null(n, "network_width") ? 0 : n->w; }
int network_height(network *n) { return is_null(n, "network_height") ? 0 : n->h; }

/* x is a copy of the input, to be normalised. */
static float *predict(network *n, float *x)
{
    dn_error e;
    if (!dn_normalise(net_of(n), x, n->batch, &e) && !dn_predict(net_of(n), x, n->batch, n->output, &e))
        return n->output;
    complain("%s", e.msg);
    return NULL;
}

float *network_predict(network *n, float *input)
{
    if (is_null(n, "network_predict")) return NULL;
    const size_t batch = n->batch > 0 ? (size_t)n->batch : 0, count = batch * (size_t)n->inputs;
    if (!input || !batch) {
        complain("network_predict: %s", batch ? "no input (NULL)" : "expected a batch of 1 image or more");
        return NULL;
    }
    free(n->output);
    n->output = take(batch, (size_t)n->outputs * sizeof *n->output);
    float *x = n->output ? take(batch, (size_t)n->inputs * sizeof *x) : NULL, *said = NULL;
    if (x) {
        memcpy(x, input, count * sizeof *x);
        said = predict(n, x);
    }
    free(x);
    return said;
}

float *network_predict_image(network *n, image m)
{
    if (is_null(n, "network_predict_image")) return NULL;
    if (m.data && m.c < n->c) {
        complain("network_predict_image: the image has %d planes, the network takes %d", m.c, n->c);
        return NULL;
    }
    m.c = n->c;
    image boxed = letterbox_image(m, n->w, n->h);
    set_batch_network(n, 1);
    float *said = boxed.data ? network_predict(n, boxed.data) : NULL;
    free_image(boxed);
    return said;
}

void top_k(float *a, int n, int k, int *index)
{
    for (int i = n > 0 ? n : 0; i < k; i++) index[i] = -1;
    dn_top(a, n, k, index);
}

void top_predictions(network *n, int k, int *index)
{
    top_k(n ? n->output : NULL, n && n->output ? n->outputs : 0, k, index);
}

int max_index(float *a, int n)
{
    int best;
    top_k(a, n, 1, &best);
    return best;
}

/* ---- what darknet.py asks for ---- */

static void no_detection(const char *function)
{
    complain("%s: there is no detection here: this library classifies images", function);
}

void cuda_set_device(int i) { (void)i; }
void reset_rnn(network *n) { (void)n; }

detection *get_network_boxes(network *n, int w, int h, float thresh, float hier, int *map, int relative,
                             int *num)
{
    (void)n, (void)w, (void)h, (void)thresh, (void)hier, (void)map, (void)relative;
    no_detection("get_network_boxes");
    if (num) *num = 0;
    return NULL;
}

detection *make_network_boxes(network *n, float thresh, int *num)
{
    (void)n, (void)thresh;
    no_detection("make_network_boxes");
    if (num) *num = 0;
    return NULL;
}

void free_detections(detection *d, int n) { (void)d, (void)n; }

void do_nms_obj(detection *d, int total, int classes, float thresh)
{
    (void)d, (void)total, (void)classes, (void)thresh;
    no_detection("do_nms_obj");
}

void do_nms_sort(detection *d, int total, int classes, float thresh)
{
    (void)d, (void)total, (void)classes, (void)thresh;
    no_detection("do_nms_sort");
}

void hierarchy_predictions(float *predictions, int n, tree *hier, int only_leaves, int stride)
{
    (void)predictions, (void)n, (void)hier, (void)only_leaves, (void)stride;
    complain("hierarchy_predictions: there are no hierarchies of classes here");
}
