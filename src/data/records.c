/* The binary versions of CIFAR-10, CIFAR-100 and STL-10: planes of bytes, red, green and blue, without a
 * header, so that the length of a file tells how many images it has. */
#include <string.h>
#include "core/mem.h"
#include "data/packed.h"

enum { CHANNELS = 3, CIFAR_SIDE = 32, STL_SIDE = 96 };

/* Records of so many label bytes and an image of side x side pixels. */
static int open_records(struct part *p, int labels, int side, struct err *e)
{
    uint64_t bytes, record = (uint64_t)labels + (uint64_t)(CHANNELS * side * side);
    TRY(stream_open(&p->images, p->path, e));
    TRY(stream_length(&p->images, &bytes, e));
    if (!bytes || bytes % record)
        return fail_at(e, E_FORMAT, p->path, 0,
                       "has %llu bytes, expected a multiple of %llu (an image with %d label bytes): is it "
                       "truncated, or another format?",
                       (unsigned long long)bytes, (unsigned long long)record, labels);
    p->n = (int)(bytes / record);
    p->c = CHANNELS;
    p->h = p->w = side;
    p->columns = labels;
    p->width = 1;
    return OK;
}

int cifar10_open(struct part *p, struct err *e) { return open_records(p, 1, CIFAR_SIDE, e); }

/* Two labels: the coarse class, then the fine one. */
int cifar100_open(struct part *p, struct err *e)
{
    enum { COARSE = 20, FINE = 100 };
    if (p->classes != COARSE && p->classes != FINE)
        return fail_at(e, E_FORMAT, p->path, 0,
                       "CIFAR-100 has %d classes, or %d coarse ones, but the data file says classes=%d", FINE,
                       COARSE, p->classes);
    p->which = p->classes == FINE;
    return open_records(p, 2, CIFAR_SIDE, e);
}

/* The images of train_X.bin column by column, their classes, from 1 on, in train_y.bin. */
int stl10_open(struct part *p, struct err *e)
{
    uint64_t bytes;
    char *labels = mem_text(p->path, strlen(p->path));
    if (!labels) return fail(e, E_MEM, "not enough memory");
    *strrchr(labels, 'X') = 'y'; /* the path is known to end in X.bin or X.bin.gz */
    int rc = part_open_labels(p, labels, NULL, e);
    mem_free(labels);
    if (rc) return rc;
    TRY(open_records(p, 0, STL_SIDE, e));
    p->columns = p->first = p->by_column = 1;
    TRY(stream_length(&p->labels, &bytes, e));
    if (bytes == (uint64_t)p->n) return OK;
    return fail_at(e, E_FORMAT, p->labels_path, 0,
                   "has %llu bytes, expected %d: one label for each image of the X file",
                   (unsigned long long)bytes, p->n);
}
