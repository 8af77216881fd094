/* Text of a cfg up to a checked net: no tensors are allocated that far. */
#include "fuzz.h"
#include "net/net.h"

static void hear_note(void *ctx, const char *line) { *(size_t *)ctx += strlen(line); }

int fuzz_cfg(const uint8_t *bytes, size_t n)
{
    static struct backend *be;
    struct err e = { 0 };
    struct cfg *cfg;
    struct net *net = NULL;
    size_t heard = 0;
    const struct notes notes = { hear_note, &heard };
    if (n > 1 << 14 || (!be && backend_open(&be, "ref", 1, &e))) return -1;
    int rc = cfg_parse(&cfg, "fuzz.cfg", (const char *)bytes, n, &e);
    if (!rc) rc = net_open(&net, cfg, be, 1, &notes, &e);
    fuzz_check(rc, &e);
    for (int i = 0; net && i < net->n; i++) {
        struct shape out = net->layer[i].out;
        assert(out.c > 0 && out.h > 0 && out.w > 0 && shape_row(out) <= INT32_MAX);
    }
    net_close(net);
    return 0;
}
