/* JPEG by libjpeg-turbo's TurboJPEG, with scaled decoding. */
#include <turbojpeg.h>
#include "core/mem.h"
#include "data/decoder.h"

static int decompress(tjhandle tj, const struct encoded *f, int shorter, struct raw *r, struct err *e)
{
    int w, h, sampling, colors;
    if (tjDecompressHeader3(tj, f->x, f->n, &w, &h, &sampling, &colors) || w != f->w || h != f->h)
        return DECODER_PASSES;
    tjscalingfactor scale = { 1, jpeg_reduction(f, shorter) };
    int gray = colors == TJCS_GRAY;
    struct raw to = { TJSCALED(w, scale), TJSCALED(h, scale), gray ? 1 : 3, NULL, NULL, 0 };
    if (!(to.x = mem_alloc((size_t)to.w * (size_t)to.h, (size_t)to.n)))
        return fail_at(e, E_MEM, f->path, 0, "not enough memory for %d x %d pixels", to.w, to.h);
    /* Not CMYK, which it cannot convert. What is missing or garbled it makes up with a warning, which fails
     * too: then stb_image shall say what that is. */
    if (tjDecompress2(tj, f->x, f->n, to.x, to.w, 0, to.h, gray ? TJPF_GRAY : TJPF_RGB,
                      TJFLAG_STOPONWARNING)) {
        mem_free(to.x);
        return DECODER_PASSES;
    }
    *r = to;
    return OK;
}

static int decode(const struct encoded *f, int shorter, struct raw *r, struct err *e)
{
    if (!is_jpeg(f->x, f->n)) return DECODER_PASSES;
    tjhandle tj = tjInitDecompress();
    if (!tj) return fail_at(e, E_MEM, f->path, 0, "not enough memory to decode JPEG");
    int rc = decompress(tj, f, shorter, r, e);
    tjDestroy(tj);
    return rc;
}

static const char *version(void) { return "libjpeg-turbo " TURBOJPEG_RELEASE " (JPEG)"; }

const struct decoder decoder_turbojpeg = { .name = "turbojpeg", .version = version, .decode = decode };
