/* Bytes of a .weights file, and of a training state, into a fixed net. The first byte chooses. */
#include "fuzz.h"
#include <stdlib.h>
#include "net/net.h"

static const char weights_cfg[] = "[net]\nbatch=1\nchannels=1\nheight=3\nwidth=3\n"
                                  "[convolutional]\nfilters=2\nsize=2\nbatch_normalize=1\nactivation=leaky\n"
                                  "[connected]\noutput=2\nbatch_normalize=1\nactivation=linear\n[softmax]\n";

static struct net *weights_net(void)
{
    static struct backend *be;
    static struct net *net;
    static struct program *p;
    struct cfg *cfg;
    const struct program_desc d = { .rows = 1, .train = 1 };
    struct err e = { 0 };
    if (net) return net;
    if (backend_open(&be, "ref", 1, &e) ||
        cfg_parse(&cfg, "fuzz.cfg", weights_cfg, sizeof weights_cfg - 1, &e) ||
        net_open(&net, cfg, be, 1, NULL, &e) || program_open(&p, net, &d, &e))
        abort();
    return net;
}

int fuzz_weights(const uint8_t *bytes, size_t n)
{
    struct net *net = weights_net();
    struct fuzz_file f;
    struct err e = { 0 };
    int layers = -1, rc;
    if (n < 1 || n > 1 << 14 || fuzz_file_open(&f, bytes + 1, n - 1)) return -1;
    if (bytes[0] & 2) {
        struct file_reader r;
        rc = reader_open(&r, f.path, 1 << 20, &e);
        if (!rc) rc = net_state_read(net, &r, &e);
        reader_close(&r);
    } else {
        rc = weights_load(net, f.path, bytes[0] % 3u, &layers, &e);
        assert(rc || (layers >= 0 && layers <= net->n));
    }
    fuzz_check(rc, &e);
    close(f.fd);
    return 0;
}
