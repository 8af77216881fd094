/* Bytes of a state dict, as .safetensors or of PyTorch, of our names or torchvision's, into a fixed net. */
#include "fuzz.h"
#include <stdlib.h>
#include "net/named.h"
#include "net/net.h"

static const char state_dict_cfg[] =
    "[net]\nbatch=1\nchannels=1\nheight=2\nwidth=2\n"
    "[convolutional]\nfilters=2\nsize=1\nbatch_normalize=1\nactivation=leaky\n"
    "[connected]\noutput=2\nactivation=linear\n[softmax]\n";

static struct net *state_dict_net(void)
{
    static struct backend *be;
    static struct net *net;
    static struct program *p;
    struct cfg *cfg;
    const struct program_desc d = { .rows = 1 };
    struct err e = { 0 };
    if (net) return net;
    if (backend_open(&be, "ref", 1, &e) ||
        cfg_parse(&cfg, "fuzz.cfg", state_dict_cfg, sizeof state_dict_cfg - 1, &e) ||
        net_open(&net, cfg, be, 1, NULL, &e) || program_open(&p, net, &d, &e))
        abort();
    return net;
}

int fuzz_state_dict(const uint8_t *bytes, size_t n)
{
    struct net *net = state_dict_net();
    struct fuzz_file f;
    struct err e = { 0 };
    if (n > 1 << 14 || fuzz_file_open(&f, bytes, n)) return -1;
    int rc = named_load(net, f.path, &e);
    fuzz_check(rc, &e);
    if (!rc) assert(!net_check_finite(net, &e));
    close(f.fd);
    return 0;
}
