/* What the streams of the device on the host have still to do. Work is done late, when the host or another
 * stream waits for it, so that a wait that is missing gives other numbers; or when it is enqueued. */
#ifndef SHIM_QUEUE_H
#define SHIM_QUEUE_H
#include "backend/cuda/kernel.h" /* shim_enqueue */

/* Late streams: none; all; that of dev_open alone, while others go as far ahead as they can; all, and
 * whenever something is waited for, any that may go on does, at random. */
enum late { LATE_NEVER, LATE_ALL, LATE_COMPUTING, LATE_ANY, LATE_KINDS };
/* Of streams opened from now on: LATE_ALL at first, or the number in SHIM_LATE. */
extern _Thread_local enum late device_late;

int shim_stream(stream_t *, int computing);
void shim_stream_close(stream_t); /* does what is left */
int shim_mark(event_t, stream_t);
int shim_wait(stream_t, event_t);
void shim_await(event_t);   /* does all up to the mark, and what that waits for */
void shim_finish(stream_t); /* the same for all that was enqueued */
void shim_finish_all(void); /* in every stream of this thread */

int shim_event(event_t *);
void shim_event_drop(event_t);

/* What this thread enqueues between the two is written down instead, and done, as often as wanted, by
 * shim_play. */
int shim_record_begin(void);
struct capture *shim_record_end(void);
int shim_play(const struct capture *);
void shim_forget(struct capture *); /* accepts NULL */

#endif
