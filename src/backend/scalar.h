/* Maths of one number, written once for every device: activations, their slopes, the warm-up and the
 * fading of training-only losses, and what dropout keeps. Plain C, and C++ in kernels.
 *
 * Formulas and constants are Darknet's (the rounded ones of gelu and selu too). Slopes are the exact
 * derivatives; at kinks they are Darknet's: relu 0 at 0, hardtan 1 only inside (-1, 1), elu 1 at 0.
 * Comparisons are written so that a NaN stays one: max(0, x) as x > 0 ? x : 0 would hide it. */
#ifndef BACKEND_SCALAR_H
#define BACKEND_SCALAR_H
#ifdef __cplusplus
#include <math.h> /* which C++ overloads for float and double */
#else
#include <tgmath.h>
#endif
#include "backend/activation.h"
#include "backend/backend.h"
#include "core/real.h"
#include "core/rng.h"

#define SELU_SCALE ((real)1.0507)
#define SELU_ALPHA ((real)1.6732)

/* For large -x exp is infinite and the quotient 0, as it should be. */
SCALAR real scalar_logistic(real x) { return 1 / (1 + exp(-x)); }

/* log(1 + exp(x)) that neither overflows nor loses small values. */
SCALAR real scalar_softplus(real x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

/* The tanh of gelu's approximation, sqrt(2/pi) (x + 0.044715 x^3). */
SCALAR real scalar_gelu_tanh(real x) { return tanh((real)0.797885 * x + (real)0.035677 * x * x * x); }

/* With n = floor(x): n/2 for even n, a ramp to the next step for odd n. */
SCALAR real scalar_stair(real x)
{
    real n = floor(x), half = floor(x / 2);
    return n == 2 * half ? half : x - n + half;
}

SCALAR real act_apply(enum act a, real x)
{
    switch (a) {
    case ACT_RELU: return x < 0 ? 0 : x;
    case ACT_RELU6: return x < 0 ? 0 : x > 6 ? 6 : x;
    case ACT_LEAKY: return x > 0 ? x : (real)0.1 * x;
    case ACT_RELIE: return x > 0 ? x : (real)0.01 * x;
    case ACT_RAMP: return (x < 0 ? 0 : x) + (real)0.1 * x;
    case ACT_LOGISTIC: return scalar_logistic(x);
    case ACT_LOGGY: return tanh(x / 2); /* 2 logistic(x) - 1, without its cancellation near 0 */
    case ACT_TANH: return tanh(x);
    case ACT_ELU: return x < 0 ? expm1(x) : x;
    case ACT_SELU: return SELU_SCALE * (x < 0 ? SELU_ALPHA * expm1(x) : x);
    case ACT_GELU: return (real)0.5 * x * (1 + scalar_gelu_tanh(x));
    case ACT_SWISH: return x * scalar_logistic(x);
    case ACT_MISH: return x * tanh(scalar_softplus(x));
    case ACT_HARD_MISH: return x < -2 ? 0 : x < 0 ? x * x / 2 + x : x;
    case ACT_PLSE:
        if (x < -4) return (real)0.01 * (x + 4);
        return x > 4 ? (real)0.01 * (x - 4) + 1 : (real)0.125 * x + (real)0.5;
    case ACT_HARDTAN: return x < -1 ? -1 : x > 1 ? 1 : x;
    case ACT_LHTAN: return x < 0 ? (real)0.001 * x : x > 1 ? (real)0.001 * (x - 1) + 1 : x;
    case ACT_STAIR: return scalar_stair(x);
    case ACT_LINEAR:
    default: return x;
    }
}

/* dy/dx from y = act_apply(a, x), for activations with act_from_output(a); NaN for the others. */
SCALAR real act_slope_y(enum act a, real y)
{
    switch (a) {
    case ACT_LINEAR: return 1;
    case ACT_RELU: return y > 0;
    case ACT_RELU6: return y > 0 && y < 6;
    case ACT_LEAKY: return y > 0 ? 1 : (real)0.1;
    case ACT_RELIE: return y > 0 ? 1 : (real)0.01;
    case ACT_RAMP: return (y > 0) + (real)0.1;
    case ACT_LOGISTIC: return y * (1 - y);
    case ACT_LOGGY: return (1 - y) * (1 + y) / 2;
    case ACT_TANH: return (1 - y) * (1 + y);
    case ACT_ELU: return y < 0 ? y + 1 : 1;
    case ACT_SELU: return y < 0 ? y + SELU_SCALE * SELU_ALPHA : SELU_SCALE;
    case ACT_PLSE: return y < 0 || y > 1 ? (real)0.01 : (real)0.125;
    case ACT_HARDTAN: return y > -1 && y < 1;
    case ACT_LHTAN: return y > 0 && y < 1 ? 1 : (real)0.001;
    case ACT_STAIR: return floor(y) != y; /* whole on the steps only, and where a step meets a ramp */
    default: return (real)NAN;
    }
}

/* dy/dx from the input, for any activation. */
SCALAR real act_slope_x(enum act a, real x)
{
    real s, t;
    switch (a) {
    case ACT_GELU:
        t = scalar_gelu_tanh(x);
        s = (1 - t) * (1 + t);
        if (s == 0) return (1 + t) / 2; /* x * x may be infinite here */
        return (1 + t) / 2 + x / 2 * s * ((real)0.797885 + 3 * (real)0.035677 * x * x);
    case ACT_SWISH: s = scalar_logistic(x); return s + x * s * (1 - s);
    case ACT_MISH: /* the slope of softplus is the logistic */
        t = tanh(scalar_softplus(x));
        return t + x * (1 - t) * (1 + t) * scalar_logistic(x);
    case ACT_HARD_MISH: return x > 0 ? 1 : x > -2 ? x + 1 : 0;
    default: return act_slope_y(a, act_apply(a, x));
    }
}

/* The share of its weight that a training-only loss has at an iteration (from 1): it rises over `warmup`
 * iterations (0: none), or with a negative `warmup` it is what the classifier knows, 1 - A / ln K, A being
 * the running mean of the CE before (< 0: none yet). */
SCALAR double warmup_share(double warmup, uint64_t iteration, double ce_average, int classes)
{
    if (warmup < 0) {
        double known = ce_average < 0 || classes < 2 ? 0 : 1 - ce_average / log((double)classes);
        return fmin(fmax(known, 0.), 1.);
    }
    return warmup > 0 ? fmin(1., (double)iteration / warmup) : 1;
}

/* The share of its weight that a loss has whose weight goes with the learning rate; full: the rate at which
 * it is 1, or 0: it always is. */
SCALAR double fade_share(double full, double rate) { return full > 0 && rate < full ? rate / full : 1; }

/* Rounded by itself, as on the host: never part of a fused multiply-add. */
SCALAR double rounded_product(double a, double b)
{
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
}

/* The running mean of the CE after an iteration with this one; chance: where it begins, ln K; average < 0:
 * there is none yet. The same bits on every device: a resumed run begins with the host's. */
SCALAR double running_ce(double average, double chance, double ce)
{
    return rounded_product(.9, average < 0 ? chance : average) + rounded_product(.1, ce);
}

/* Does dropout keep element e of a tensor (logical N,C,H,W order)? What is kept is scaled by 1 / (1 -
 * probability). */
SCALAR int dropout_keep(uint64_t key, uint64_t e, double probability)
{
    return rng_uniform(key, e) >= probability;
}

#endif
