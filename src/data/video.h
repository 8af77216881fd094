/* Videos and cameras, frame by frame, where a library that reads them is built in; numbered images always. */
#ifndef DATA_VIDEO_H
#define DATA_VIDEO_H
#include <limits.h>
#include "core/err.h"
#include "data/image.h"

struct video {
    const char *path;            /* as given */
    int number;                  /* of a camera; of the next image */
    char image[PATH_MAX];        /* the file of the frame that came last; empty for frames of videos */
    const struct video_ops *ops; /* NULL for images, and until opened */
    void *stream;
};
/* path: a file, an address (rtsp://...), a device, or the pattern of numbered images, frame_%04d.png; NULL:
 * camera `camera`. It must live as long as the video. video_close also after a failure. */
int video_open(struct video *, const char *path, int camera, struct err *);
/* The next frame (mem_free its pixels), without pixels behind the last one. */
int video_next(struct video *, const struct decoding *, struct picture *, struct err *);
/* Notes what seems to be missing behind the last frame: the rest of a file that is cut short, an image of a
 * row. */
void video_note_missing(const struct video *, long frames, const struct notes *);
void video_close(struct video *);

#endif
