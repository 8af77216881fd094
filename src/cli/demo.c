/* classifier demo: the most probable classes of each frame of a video or camera. */
#include <stdio.h>
#include "cli/answer.h"
#include "core/clock.h"
#include "core/mem.h"
#include "data/video.h"

struct demo {
    struct answer a;
    struct video video;
    int frames;
    double start, last; /* clock before the first frame, and after the one before */
    double rate;        /* frames a second, as of late */
    int askew;          /* so many are not turned */
};

/* A numbered image by the name of its file, another frame by its number. */
static const char *frame_name(const struct demo *d, char number[16])
{
    snprintf(number, 16, "%d", d->frames);
    return *d->video.image ? d->video.image : number;
}

/* On a terminal each frame replaces the one before, as in Darknet; into a pipe or a file nothing goes that
 * depends on the clock. */
static void print_frame(struct demo *d)
{
    const struct session *s = &d->a.s;
    char number[16];
    const char *frame = frame_name(d, number);
    double now = wall_clock(), rate = 1 / (now - d->last);
    d->rate = d->frames > 1 ? .9 * d->rate + .1 * rate : rate;
    d->last = now;
    if (!s->cli->csv && s->console.tty)
        printf("\033[2J\033[1;1H\nFPS:%.0f\n", d->rate);
    else if (!s->cli->csv)
        printf("frame %s:\n", frame);
    answer_print(&d->a, frame, 0, 1);
}

static int next_frame(struct demo *d, int *end, struct err *e)
{
    const struct decoding how = { d->a.s.net->config.channels, 0, d->a.s.data->orient > 0 };
    struct picture frame;
    TRY(video_next(&d->video, &how, &frame, e));
    *end = !frame.pixels;
    if (*end) return OK;
    int rc = answer_make(&d->a, &frame, e);
    mem_free(frame.pixels);
    if (rc) return rc;
    d->frames++;
    char number[16];
    if (frame.flaw) note(&d->a.s.notes, "frame %s: %s", frame_name(d, number), frame.flaw);
    if (frame.askew && d->a.s.data->orient < 0 && !d->askew++)
        note(&d->a.s.notes, IMAGE_ASKEW, frame_name(d, number));
    print_frame(d);
    return output_check(e);
}

static int demo(struct demo *d, const struct cli *c, struct err *e)
{
    const char *path = c->narg > 3 ? c->arg[3] : NULL;
    int end = 0;
    if (path && c->camera >= 0)
        return fail(e, E_ARG, "%.200s contradicts -c %d: give a video or a camera", path, c->camera);
    TRY(video_open(&d->video, path, c->camera < 0 ? 0 : c->camera, e));
    TRY(answer_open(&d->a, c, VIEW_LETTERBOX, e));
    if (c->csv) puts("frame,rank,class,name,probability");
    stop_on_signals();
    d->start = d->last = wall_clock();
    while (!end && !stop_signal) TRY(next_frame(d, &end, e));
    if (!stop_signal && !path)
        return fail(e, E_DEVICE, "camera %d gives no more images, after %d", d->video.number, d->frames);
    if (!stop_signal && !d->frames) return fail_at(e, E_FORMAT, path, 0, "has no frame that can be read");
    if (!stop_signal) video_note_missing(&d->video, d->frames, &d->a.s.notes);
    note(&d->a.s.notes, "%sframes: %d, %.1f a second; preprocessing: %s",
         stop_signal ? "stopped by a signal: " : "", d->frames, d->frames / (wall_clock() - d->start),
         d->a.preprocessing);
    return stop_signal ? 128 + (int)stop_signal : OK; /* as a shell reports it */
}

int cli_demo(const struct cli *c, struct err *e)
{
    struct demo d = { 0 };
    int rc = demo(&d, c, e);
    answer_close(&d.a);
    video_close(&d.video);
    return rc;
}
