/* Videos through the first decoder that reads them; images whose names are numbers as the frames of one. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/mem.h"
#include "data/decoder.h"
#include "data/video.h"

/* The name of image `number`: %d or %04d in the pattern replaced. Empty if that is no pattern. */
static void name_image(const char *pattern, int number, char name[PATH_MAX])
{
    const char *percent = strchr(pattern, '%');
    size_t digits = percent ? strspn(percent + 1, "0123456789") : 0;
    name[0] = 0;
    if (!percent || digits > 2 || percent[1 + digits] != 'd') return;
    const char *rest = percent + digits + 2;
    int n = snprintf(name, PATH_MAX, "%.*s%0*d%s", (int)(percent - pattern), pattern, atoi(percent + 1),
                     number, rest);
    if (n >= PATH_MAX || strchr(rest, '%')) name[0] = 0;
}

/* Finds the first of numbered images; most begin at 0 or 1. */
static int open_images(struct video *v, struct err *e)
{
    enum { FIRST = 1000 };
    char name[PATH_MAX];
    for (v->number = 0; v->number < FIRST; v->number++) {
        name_image(v->path, v->number, name);
        if (!access(name, F_OK)) return OK;
    }
    return fail_at(e, E_FILE, v->path, 0, "no image has such a name, with a number of 0..%d for the %%d",
                   FIRST - 1);
}

static int next_image(struct video *v, const struct decoding *d, struct picture *to, struct err *e)
{
    name_image(v->path, v->number, v->image);
    if (access(v->image, F_OK)) return OK;
    v->number++;
    return image_decode(v->image, d, to, e);
}

/* Libraries do not say why a file cannot be opened. Addresses are their concern. */
static int check_file(const char *path, struct err *e)
{
    struct stat s;
    if (strstr(path, "://")) return OK;
    if (stat(path, &s)) return fail_at(e, E_FILE, path, 0, "%s", strerror(errno));
    return S_ISDIR(s.st_mode) ? fail_at(e, E_FILE, path, 0, "is a folder: classifier predict takes them")
                              : OK;
}

int video_open(struct video *v, const char *path, int camera, struct err *e)
{
    char name[PATH_MAX] = "";
    const struct video_ops *ops = NULL;
    *v = (struct video){ .path = path, .number = camera };
    if (path && access(path, F_OK)) name_image(path, 0, name);
    if (*name) return open_images(v, e);
    for (int i = 0; !ops && decoder_at(i); i++) ops = decoder_at(i)->video;
    if (path && (ops || !access(path, F_OK))) TRY(check_file(path, e));
    if (!ops)
        return fail(e, E_ARG,
                    "this program reads no videos: build it with make OPENCV=1, or run ffmpeg -i VIDEO "
                    "frames/%%06d.png and then darknet classifier predict with that folder");
    TRY(ops->open(&v->stream, path, camera, e));
    v->ops = ops;
    return OK;
}

int video_next(struct video *v, const struct decoding *d, struct picture *to, struct err *e)
{
    struct raw r = { 0 };
    *to = (struct picture){ 0 };
    if (!v->ops) return next_image(v, d, to, e);
    const char *name = v->path ? v->path : "camera";
    TRY(v->ops->next(v->stream, name, &r, e));
    if (!r.x) return OK;
    int rc = image_check_size(r.w, r.h, name, e);
    if (!rc) rc = raw_picture(&r, d->c, name, to, e);
    mem_free(r.x);
    return rc;
}

void video_note_missing(const struct video *v, long frames, const struct notes *notes)
{
    enum { FURTHER = 1000 };
    char name[PATH_MAX];
    long all = v->ops && v->ops->count ? v->ops->count(v->stream) : 0;
    /* What a container says may be an estimate. */
    if (all > frames + 1)
        note(notes, "%s: %ld of %ld frames: it is cut short or damaged", v->path, frames, all);
    if (v->ops || !frames) return;
    for (int i = 1; i < FURTHER; i++) {
        name_image(v->path, v->number + i, name);
        if (access(name, F_OK)) continue;
        note(notes, "%s: image %d is missing, %d is there: this is the end all the same", v->path, v->number,
             v->number + i);
        return;
    }
}

void video_close(struct video *v)
{
    if (v->ops) v->ops->close(v->stream);
}
