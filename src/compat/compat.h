/* Private to src/compat, which stands on include/darknet.h alone, as any program does. */
#ifndef COMPAT_COMPAT_H
#define COMPAT_COMPAT_H
#include "darknet.h"
#include "darknet_compat.h"

/* One line on stderr. */
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Zeroed; NULL, and a complaint, if memory is short or the product of the two overflows. For free(). */
void *take(size_t count, size_t size);

#endif
