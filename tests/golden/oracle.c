/* The oracle: runs a cfg through Debian's libdarknet and writes down what comes out. A program of its own,
 * linked to nothing of ours, because both libraries define `network`.
 *
 *   oracle run CFG STEPS DIR [CFG STEPS DIR]...
 *       Parameters and inputs from a formula; STEPS training steps (0: one forward pass of inference).
 *       Writes DIR/before.weights, DIR/after.weights and DIR/tape.
 *   oracle predict CFG WEIGHTS IN OUT
 *       One forward pass with the parameters of a file; IN and OUT are tapes.
 *   oracle slope CFG
 *       Does libdarknet's gradient fit its own loss? Prints, per layer, the slope of the loss along the
 *       gradient, measured over computed: 1 when it does.
 *
 * Darknet's delta is the descent direction of the loss summed over the rows. */
#include <math.h>
#include "core/rng.h"
#include "darknet.h"
#include "tape.h"

enum { FORMULA_INPUT = 100, FORMULA_WEIGHT, FORMULA_BIAS, FORMULA_SCALE, FORMULA_MEAN, FORMULA_VARIANCE };
enum { SEED = 20180914 };

static void die(const char *what, const char *which)
{
    fprintf(stderr, "oracle: %s: %s\n", which, what);
    exit(1);
}

static void fill(float *x, size_t n, uint64_t use, int layer, double low, double high)
{
    uint64_t key = rng_key(SEED, use, (uint64_t)layer);
    for (size_t i = 0; i < n; i++) x[i] = (float)(low + (high - low) * rng_uniform(key, i));
}

/* Numbers in the layer's weights, and how many of them feed one output; 0: it has none. libdarknet sets
 * nweights for convolutions only. */
static size_t weight_count(const layer *l, size_t *fan)
{
    if (l->type == CONVOLUTIONAL) {
        *fan = (size_t)l->size * (size_t)l->size * (size_t)(l->c / l->groups);
        return (size_t)l->nweights;
    }
    if (l->type == LOCAL) {
        *fan = (size_t)l->size * (size_t)l->size * (size_t)l->c;
        return *fan * (size_t)l->outputs;
    }
    *fan = (size_t)l->inputs;
    return l->type == CONNECTED ? (size_t)l->inputs * (size_t)l->outputs : 0;
}

static size_t channels(const layer *l) { return (size_t)(l->type == CONVOLUTIONAL ? l->n : l->outputs); }

/* Weights of a size that keeps activations near 1; running variances in [.5, 2], where the epsilon of batch
 * norm hardly matters. */
static void set_parameters(network *net)
{
    for (int i = 0; i < net->n; i++) {
        layer *l = &net->layers[i];
        size_t fan, n = weight_count(l, &fan), c = channels(l);
        if (!n) continue;
        double a = sqrt(3.0 / (double)fan);
        fill(l->weights, n, FORMULA_WEIGHT, i, -a, a);
        fill(l->biases, c, FORMULA_BIAS, i, -.5, .5);
        if (!l->batch_normalize) continue;
        fill(l->scales, c, FORMULA_SCALE, i, .5, 1.5);
        fill(l->rolling_mean, c, FORMULA_MEAN, i, -.5, .5);
        fill(l->rolling_variance, c, FORMULA_VARIANCE, i, .5, 2);
    }
}

static void set_batch(network *net, uint64_t step)
{
    size_t rows = (size_t)net->batch, truths = (size_t)net->truths;
    fill(net->input, (size_t)net->inputs * rows, FORMULA_INPUT, (int)step, 0, 1);
    memset(net->truth, 0, rows * truths * sizeof *net->truth);
    for (size_t b = 0; b < rows; b++) net->truth[b * truths + (3 * b + step) % truths] = 1;
}

static void put(FILE *f, const char *what, size_t step, int i, const float *data, size_t n)
{
    char name[TAPE_NAME];
    snprintf(name, sizeof name, "%s %zu %d", what, step, i);
    if (tape_put(f, name, data, n)) die("cannot be written", name);
}

static void put_labels(FILE *f, const network *net, size_t step)
{
    size_t rows = (size_t)net->batch, truths = (size_t)net->truths;
    float *label = calloc(rows, sizeof *label);
    if (!label) die("not enough memory", "labels");
    for (size_t b = 0; b < rows; b++) label[b] = (float)((3 * b + step) % truths);
    put(f, "label", step, 0, label, rows);
    free(label);
}

/* What a loss layer calls its delta is its input's gradient, and a dropout layer's is the one below under
 * another name: neither is a gradient of the layer's own output. */
static int has_delta(const layer *l)
{
    return l->delta && l->type != SOFTMAX && l->type != COST && l->type != DROPOUT;
}

/* libdarknet's backward pass, one layer at a time: a layer's backward overwrites its own delta, so it is
 * written down just before, when every later layer has added to it. f NULL: only run. */
static void backward(network *net, FILE *f, size_t step)
{
    for (int i = net->n - 1; i >= 0 && !net->layers[i].stopbackward; i--) {
        network view = *net;
        layer l = net->layers[i];
        if (i > 0) {
            view.input = net->layers[i - 1].output;
            view.delta = net->layers[i - 1].delta;
        }
        view.index = i;
        if (f && has_delta(&l)) put(f, "delta", step, i, l.delta, (size_t)l.outputs * (size_t)l.batch);
        l.backward(l, view);
    }
}

static void put_outputs(FILE *f, const network *net, size_t step)
{
    for (int i = 0; i < net->n; i++) {
        const layer *l = &net->layers[i];
        if (l->type != COST) put(f, "out", step, i, l->output, (size_t)l->outputs * (size_t)l->batch);
    }
}

/* Parameters in the order of the .weights file, so that the other side can cut its file into the same pieces.
 */
static void put_parameters(FILE *f, const network *net)
{
    for (int i = 0; i < net->n; i++) {
        const layer *l = &net->layers[i];
        size_t fan, n = weight_count(l, &fan), c = channels(l);
        if (!n) continue;
        put(f, "biases", 0, i, l->biases, c);
        if (l->type == CONNECTED) put(f, "weights", 0, i, l->weights, n);
        if (l->batch_normalize) {
            put(f, "scales", 0, i, l->scales, c);
            put(f, "mean", 0, i, l->rolling_mean, c);
            put(f, "variance", 0, i, l->rolling_variance, c);
        }
        if (l->type != CONNECTED) put(f, "weights", 0, i, l->weights, n);
    }
}

static void train_step(network *net, FILE *f, size_t step)
{
    *net->seen += (size_t)net->batch;
    net->train = 1;
    forward_network(net);
    put_outputs(f, net, step);
    put(f, "loss", step, 0, net->cost, 1);
    backward(net, f, step);
    if (*net->seen / (size_t)net->batch % (size_t)net->subdivisions == 0) update_network(net);
}

static void save(network *net, const char *folder, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    save_weights(net, path);
}

static void run(char *cfg, size_t steps, const char *folder)
{
    char path[1024];
    network *net = load_network(cfg, NULL, 0);
    snprintf(path, sizeof path, "%s/tape", folder);
    FILE *f = fopen(path, "wb");
    if (!f) die("cannot be written", path);
    set_parameters(net);
    save(net, folder, "before.weights");
    put_parameters(f, net);
    for (size_t step = 0; step < (steps ? steps : 1); step++) {
        set_batch(net, step);
        put(f, "x", step, 0, net->input, (size_t)net->inputs * (size_t)net->batch);
        put_labels(f, net, step);
        if (steps) {
            train_step(net, f, step);
        } else {
            network_predict(net, net->input);
            put_outputs(f, net, step);
        }
    }
    if (fclose(f)) die("cannot be written", path);
    save(net, folder, "after.weights");
}

/* Writes the output of every softmax's input (what the softmax sees), or of the last layer if there is none.
 */
static int predict(char *cfg, char *weights, const char *in, const char *out)
{
    network *net = load_network(cfg, weights, 0);
    struct record x;
    FILE *f = fopen(in, "rb");
    if (!f || tape_get(f, &x) != 1) die("cannot be read", in);
    fclose(f);
    if (x.n != (size_t)net->inputs * (size_t)net->batch) die("is not of the net's input size", in);
    network_predict(net, x.data);
    int last = net->n - 1;
    while (last > 0 && (net->layers[last].type == COST || net->layers[last].type == SOFTMAX)) last--;
    f = fopen(out, "wb");
    if (!f) die("cannot be written", out);
    put(f, "out", 0, last, net->layers[last].output, (size_t)net->layers[last].outputs * (size_t)net->batch);
    if (fclose(f)) die("cannot be written", out);
    free(x.data);
    return 0;
}

static double loss_at(network *net, layer *l, size_t n, const float *base, double move)
{
    for (size_t k = 0; k < n; k++) l->weights[k] = (float)(base[k] + move * l->weight_updates[k]);
    forward_network(net);
    return *net->cost;
}

static int slope(char *cfg)
{
    network *net = load_network(cfg, NULL, 0);
    set_parameters(net);
    set_batch(net, 0);
    net->train = 1;
    forward_network(net);
    double loss = *net->cost;
    backward(net, NULL, 0);
    for (int i = 0; i < net->n; i++) {
        layer *l = &net->layers[i];
        size_t fan, n = weight_count(l, &fan);
        if (!n) continue;
        double norm = 0;
        for (size_t k = 0; k < n; k++) norm += (double)l->weight_updates[k] * l->weight_updates[k];
        float *base = malloc(n * sizeof *base);
        if (!base) die("not enough memory", cfg);
        memcpy(base, l->weights, n * sizeof *base);
        double move = .0005 * loss / norm;
        double fall = loss_at(net, l, n, base, -move) - loss_at(net, l, n, base, move);
        memcpy(l->weights, base, n * sizeof *base);
        free(base);
        printf("layer %d: measured / computed slope %.3f\n", i, fall / (2 * move * norm));
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 4 && argc % 3 == 2 && !strcmp(argv[1], "run")) {
        for (int i = 2; i < argc; i += 3) run(argv[i], strtoul(argv[i + 1], NULL, 10), argv[i + 2]);
        return 0;
    }
    if (argc == 6 && !strcmp(argv[1], "predict")) return predict(argv[2], argv[3], argv[4], argv[5]);
    if (argc == 3 && !strcmp(argv[1], "slope")) return slope(argv[2]);
    fprintf(stderr, "usage: oracle run CFG STEPS DIR | predict CFG WEIGHTS IN OUT | slope CFG\n");
    return 2;
}
