/* Bytes of an image file. Small files can promise 2^28 pixels, which is allowed but slow here: the
 * sanitizer's allocator gives no blocks of more than 64 MiB, so that such images end as "not enough memory".
 */
#include "fuzz.h"
#include "core/mem.h"
#include "data/image.h"

const char *__asan_default_options(void);

const char *__asan_default_options(void) { return "allocator_may_return_null=1:max_allocation_size_mb=64"; }

int fuzz_image(const uint8_t *bytes, size_t n)
{
    struct fuzz_file f;
    struct err e = { 0 };
    struct picture got;
    int channels = n & 1 ? 3 : 1;
    if (n > 1 << 16 || fuzz_file_open(&f, bytes, n)) return -1;
    int rc = image_decode(f.path, &(struct decoding){ channels, 0, (int)n >> 1 & 1 }, &got, &e);
    fuzz_check(rc, &e);
    assert(!rc == (got.pixels != NULL));
    size_t count = rc ? 0 : (size_t)got.w * (size_t)got.h * (size_t)channels;
    const volatile uint8_t *read = got.pixels; /* every pixel must be there */
    for (size_t i = 0; i < count; i++) (void)read[i];
    mem_free(got.pixels);
    close(f.fd);
    return 0;
}
