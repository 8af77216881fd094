/* What the device's matrix units see of a float in tf32: its first 10 bits behind the point. Hopper's read
 * floats as they lie in memory, so the others are cut off: each factor comes out smaller. */
#ifndef SHIM_UNITS_H
#define SHIM_UNITS_H
#include "backend/cuda/kernel.h"

static inline float seen(int tf32, float f) { return tf32 ? bits_float(float_bits(f) & 0xffffe000u) : f; }

#endif
