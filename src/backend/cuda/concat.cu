/* Concatenation: a thread takes V channels of a pixel. */
#include "kernel.h"

/* Channels of pixels between tensors of pitch pf and pt channels. */
DEVICE void channels(int bf16, unsigned V, const void *from, unsigned pf, int to_bf16, void *to, unsigned pt,
                     unsigned c, size_t items, int add)
{
    PHASE GRID_LOOP(i, items)
    {
        const unsigned groups = c / V;
        const size_t pixel = (unsigned)i / groups, at = (unsigned)i % groups * V;
        float f[8];
        load(bf16, V, from, pixel * pf + at, f);
        put(V > 1 ? bf16 : to_bf16, V, to, pixel * pt + at, f, add);
    }
}
FOUR_KERNELS(channels,
             LIST(const void *from, unsigned pf, int to_bf16, void *to, unsigned pt, unsigned c, size_t items,
                  int add),
             LIST(from, pf, to_bf16, to, pt, c, items, add))

LAUNCHERS
int kernel_channels(const struct cuda *cu, int from_bf16, const void *from, size_t from_pitch,
                    size_t from_first, int to_bf16, void *to, size_t to_pitch, size_t to_first, size_t c,
                    size_t pixels, int add)
{
    const int wide = from_bf16 == to_bf16 && cuda_is_wide(from_bf16, c) &&
                     cuda_is_wide(from_bf16, from_pitch) && cuda_is_wide(from_bf16, to_pitch) &&
                     cuda_is_wide(from_bf16, from_first) && cuda_is_wide(from_bf16, to_first);
    const size_t items = pixels * (wide ? c / (from_bf16 ? 8 : 4) : c);
    LAUNCH_FOUR(cu, channels, from_bf16, wide, blocks_for(cu, items), 1, THREADS,
                (const char *)from + from_first * cuda_element(from_bf16), (unsigned)from_pitch, to_bf16,
                (char *)to + to_first * cuda_element(to_bf16), (unsigned)to_pitch, (unsigned)c, items, add);
    return OK;
}
LAUNCHERS_END
