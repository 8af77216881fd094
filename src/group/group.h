/* Processes that train one net together, a rank each, started by mpirun. Every rank calls the functions below
 * in the same order and with the same sizes, or they wait for ever. NULL is a group of one: nothing is
 * exchanged.
 *
 * The results are the same bits on every rank, and from run to run with as many ranks.
 *
 * A failure is E_GROUP: a rank cannot be reached, and nothing more can be exchanged. */
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H
#include <signal.h>
#include <stddef.h>
#include "core/err.h"
#include "core/real.h"
#include "core/share.h"

#ifdef __cplusplus
extern "C" {
#endif

struct group;

/* NULL in *group for a process that was started alone. Started as one of several by a program built without
 * what connects them: E_ARG. Where `stop` is set and a rank does not answer any more, waiting ends. */
int group_open(struct group **, const volatile sig_atomic_t *stop, struct err *);
void group_close(struct group *);
/* What connects processes, and its version; NULL: built without. */
const char *group_version(void);

int group_rank(const struct group *);
int group_size(const struct group *); /* of NULL: 1 */
/* Does this rank speak for all: log, save, validate? */
static inline int group_leads(const struct group *g) { return !group_rank(g); }
/* The number of this process among those of its machine, from 0. */
int group_local_rank(const struct group *);
/* The rows of a rank, of `rows`: 0 of them if there are fewer than ranks. */
struct share group_share_of(const struct group *, int rank, int rows);
struct share group_share(const struct group *, int rows); /* of this one */

/* If rc is an error on any rank, all return that of the first such rank, with its message. */
int group_agree(struct group *, int rc, struct err *);
/* After a failure in the midst of what all do together, unless they have agreed on it: this process takes its
 * leave without waiting for the others, and whoever started them ends them. */
void group_abandon(struct group *);
int group_is_abandoned(const struct group *); /* by this process: nobody else can say why */
/* *value becomes the largest of all ranks. */
int group_max(struct group *, int *value);
/* x[i] becomes the sum over the ranks, added in their order. */
int group_add(struct group *, double *x, size_t n);
/* `rows` rows of so many bytes, of which each rank has filled in its share: all get all of them. */
int group_gather(struct group *, void *rows, int n, size_t bytes);
/* The same where rank r has filled in count[r] rows, one rank's after another's. */
int group_gather_counted(struct group *, void *rows, const int *count, size_t bytes);

/* x[i] becomes the sum over the ranks, in the background: x must stay where it is, and as it is, until
 * group_sum_end, which waits for all that were begun. Meanwhile other exchanges are possible. */
int group_sum_begin(struct group *, real *x, size_t n);
int group_sum_end(struct group *);

#ifdef __cplusplus
}
#endif
#endif
