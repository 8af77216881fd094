/* What tests may turn where kernels run on the host. */
#ifndef SHIM_ORDER_H
#define SHIM_ORDER_H

enum { KERNEL_ORDERS = 3 };
extern _Thread_local int kernel_order; /* of the threads of a block: see kernel.h */

#endif
