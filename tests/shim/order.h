/* What tests may turn where kernels run on the host. */
#ifndef SHIM_ORDER_H
#define SHIM_ORDER_H

enum { KERNEL_ORDERS = 3 };
extern _Thread_local int kernel_order; /* of the threads of a block: see kernel.h */

/* Calls of the device so far, and the first one that fails (0: none); all behind it fail too. */
extern _Thread_local long device_calls, device_fails;
extern _Thread_local long device_syncs; /* how often the host waited for all that was in a stream */
/* Whether a step can be recorded, in which what a recording may not contain fails. */
enum { RECORDS_NOT, RECORDS_IN_VAIN /* in the end there is none */, RECORDS };
extern _Thread_local int device_records;
extern _Thread_local long device_launches; /* of recordings */
extern _Thread_local int device_major;     /* compute capability of the card that is opened next */

/* SHIM_COUNTS=FILE in the environment: as a program ends it adds lines "NUMBER WHAT" to the file: how often
 * it asked what of the device, kernels by name. SHIM_IDLE=1: kernels do nothing, and large tensors stay as
 * they are found: what a program at the size of a GPU asks for is counted in seconds. SHIM_GPUS=N: there are
 * N GPUs. SHIM_LATE=N: how late it works, see queue.h. SHIM_RECORDS=1: device_records is RECORDS. */
void device_count(const char *what);

#endif
