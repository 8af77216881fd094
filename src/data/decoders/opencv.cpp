/* JPEG, PNG, WebP, TIFF and videos by OpenCV 4; other kinds and what it does not read stay stb_image's.
 *
 * A JPEG that is cut off OpenCV completes from nothing without a word, so its markers are followed to the end
 * here first. Of garbled data within the file only libjpeg knows: it prints a line and makes something up,
 * where stb_image and TurboJPEG refuse. */
#include <cstring>
#include <cstdlib>
#include <memory>
#include <vector>
#include <sys/stat.h>
#include <opencv2/core/utility.hpp>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/videoio.hpp>
#include <opencv2/videoio/registry.hpp>
extern "C" {
#include "core/mem.h"
#include "data/decoder.h"
#include "data/exif.h"
extern const struct decoder decoder_opencv;
}

namespace
{

/* JPEG: whether the end marker is there, and the components are not the four of CMYK, of which there is more
 * than one reading. */
bool readable_jpeg(const uint8_t *p, size_t n)
{
    for (size_t at = 2; at + 4 <= n || (at + 2 <= n && p[at] == 0xff && p[at + 1] == 0xd9);) {
        const int type = p[at + 1];
        if (p[at] != 0xff || type == 0xff) { /* inside a scan, or padding */
            const void *next = memchr(p + at + 1, 0xff, n - at - 1);
            if (!next) return false;
            at = static_cast<size_t>(static_cast<const uint8_t *>(next) - p);
        } else if (type == 0xd9) {
            return true;
        } else if (type < 2 || (type >= 0xd0 && type <= 0xd8)) { /* an escaped 255, or a marker by itself */
            at += 2;
        } else {
            const bool frame = type >= 0xc0 && type <= 0xcf && type != 0xc4 && type != 0xc8 && type != 0xcc;
            if (frame && at + 9 < n && p[at + 9] == 4) return false;
            at += 2 + static_cast<size_t>(p[at + 2] << 8 | p[at + 3]);
        }
    }
    return false;
}

bool is_png(const uint8_t *p, size_t n) { return n > 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8); }

/* Reduced only while a JPEG is decoded: other kinds OpenCV would decode whole and resize. */
int flags_for(const encoded *f, int shorter)
{
    switch (is_jpeg(f->x, f->n) ? jpeg_reduction(f, shorter) : 1) {
    case 2: return cv::IMREAD_REDUCED_COLOR_2 | cv::IMREAD_IGNORE_ORIENTATION;
    case 4: return cv::IMREAD_REDUCED_COLOR_4 | cv::IMREAD_IGNORE_ORIENTATION;
    case 8: return cv::IMREAD_REDUCED_COLOR_8 | cv::IMREAD_IGNORE_ORIENTATION;
    default: return cv::IMREAD_UNCHANGED; /* the orientation too */
    }
}

uint8_t narrow(uint8_t v) { return v; }
uint8_t narrow(uint16_t v) { return byte_of(v, 65535); }

/* Blue, green, red (and alpha) to red, green, blue. */
template <typename T> void copy(const cv::Mat &from, uint8_t *to)
{
    const int n = from.channels();
    for (int y = 0; y < from.rows; y++) {
        const T *p = from.ptr<T>(y);
        if (n == 1)
            for (int x = 0; x < from.cols; x++) *to++ = narrow(p[x]);
        else
            for (int x = 0; x < from.cols; x++, p += n, to += 3)
                to[0] = narrow(p[2]), to[1] = narrow(p[1]), to[2] = narrow(p[0]);
    }
}

/* A TIFF OpenCV turns as its orientation says, whatever the flags: a copy that says upright. Of a PNG what is
 * only about the image is left out: libpng prints lines about it, without a name. Else empty. */
std::vector<uint8_t> edited(const encoded *f)
{
    std::vector<uint8_t> x;
    const bool tiff = f->foreign && !strcmp(f->foreign->name, "a TIFF image");
    const size_t turned = tiff ? exif_find_orientation(f->x, f->n) : 0;
    if (turned) {
        x.assign(f->x, f->x + f->n);
        x[turned] = x[0] == 'I', x[turned + 1] = x[0] != 'I';
    }
    if (!is_png(f->x, f->n)) return x;
    size_t at = 8;
    x.assign(f->x, f->x + at);
    while (f->n - at >= 12) { /* a chunk: length, type, data, checksum */
        const uint8_t *p = f->x + at;
        const size_t length = big_endian(p, 4), n = length + 12;
        if (length > f->n - at - 12) break;
        if (p[4] < 'a' || !memcmp(p + 4, "tRNS", 4)) x.insert(x.end(), p, p + n);
        at += n;
    }
    x.insert(x.end(), f->x + at, f->x + f->n);
    return x;
}

cv::Mat imdecode(const encoded *f, int shorter)
{
    /* The workers of the loader are the threads; this is said once for the process. */
    static const bool alone =
        (cv::setNumThreads(1), cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT), true);
    static_cast<void>(alone);
    std::vector<uint8_t> x = edited(f);
    uint8_t *first = x.empty() ? const_cast<uint8_t *>(f->x) : x.data();
    const cv::Mat bytes(1, static_cast<int>(x.empty() ? f->n : x.size()), CV_8U, first);
    return cv::imdecode(bytes, flags_for(f, shorter));
}

/* DECODER_PASSES where the samples are of another kind than images have here. */
int to_raw(const cv::Mat &m, const char *path, raw *r, err *e)
{
    const int n = m.channels(), depth = m.depth();
    if (m.empty() || (n != 1 && n != 3 && n != 4) || (depth != CV_8U && depth != CV_16U))
        return DECODER_PASSES;
    raw to = { m.cols, m.rows, n == 1 ? 1 : 3, nullptr, nullptr, 0 };
    to.x = static_cast<uint8_t *>(mem_alloc(m.total(), static_cast<size_t>(to.n)));
    if (!to.x) return fail_at(e, E_MEM, path, 0, "not enough memory for %d x %d pixels", to.w, to.h);
    if (depth == CV_8U)
        copy<uint8_t>(m, to.x);
    else
        copy<uint16_t>(m, to.x);
    *r = to;
    return OK;
}

int decode(const encoded *f, int shorter, raw *r, err *e)
{
    const bool mine = f->foreign ? f->foreign->by_opencv
                                 : is_png(f->x, f->n) || (is_jpeg(f->x, f->n) && readable_jpeg(f->x, f->n));
    if (!mine) return DECODER_PASSES;
    try {
        return to_raw(imdecode(f, shorter), f->path, r, e);
    } catch (const std::bad_alloc &) {
        return fail_at(e, E_MEM, f->path, 0, "not enough memory for %d x %d pixels", f->w, f->h);
    } catch (...) {
        return DECODER_PASSES;
    }
}

const char *version() { return "OpenCV " CV_VERSION " (JPEG, PNG, WebP, TIFF, videos)"; }

/* ---- videos ---- */

/* The one asked for if it is built in, else whichever can. */
int backend(cv::VideoCaptureAPIs wanted)
{
    return cv::videoio_registry::hasBackend(wanted) ? wanted : cv::CAP_ANY;
}

/* FFmpeg for files: others take long to refuse, and print lines of their own. */
bool open_file(cv::VideoCapture &v, const char *path)
{
    struct stat s;
    const bool device = !stat(path, &s) && S_ISCHR(s.st_mode);
    return v.open(path, backend(device ? cv::CAP_V4L2 : cv::CAP_FFMPEG));
}

int open(void **stream, const char *path, int camera, err *e)
{
    /* What fails is said here, in one line. */
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    setenv("OPENCV_FFMPEG_LOGLEVEL", "-8", 0);
    try {
        auto v = std::make_unique<cv::VideoCapture>();
        if (path ? open_file(*v, path) : v->open(camera, backend(cv::CAP_V4L2))) {
            *stream = v.release();
            return OK;
        }
    } catch (...) { /* as if it had said no */
    }
    if (path) return fail_at(e, E_FORMAT, path, 0, "is no video or camera that OpenCV can open");
    return fail(e, E_DEVICE,
                "camera %d cannot be opened: is it there, free, and yours to read? -c N takes another",
                camera);
}

int next(void *stream, const char *name, raw *r, err *e)
{
    try {
        cv::Mat m;
        if (!static_cast<cv::VideoCapture *>(stream)->read(m)) return OK;
        const int rc = to_raw(m, name, r, e);
        if (rc != DECODER_PASSES) return rc;
    } catch (...) { /* no memory, or whatever else a codec throws */
    }
    return fail_at(e, E_FORMAT, name, 0, "a frame cannot be read: damaged, or too large for the memory");
}

/* 0 or less: not known, as of a camera. */
long count(void *stream)
{
    try {
        const double n = static_cast<cv::VideoCapture *>(stream)->get(cv::CAP_PROP_FRAME_COUNT);
        return n > 0 && n < 1e9 ? static_cast<long>(n) : 0;
    } catch (...) {
        return 0;
    }
}

void close(void *stream) { delete static_cast<cv::VideoCapture *>(stream); }

const video_ops video = { open, next, count, close };

} // namespace

const struct decoder decoder_opencv = { "opencv", version, decode, &video };
