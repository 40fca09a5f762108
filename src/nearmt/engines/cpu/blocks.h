#ifndef NEARMT_BLOCKS_H
#define NEARMT_BLOCKS_H

#include "kernels.h"

/* Sums, norms and activations in layers of encoders and decoders. Every row is computed by itself and in the same order,
   so that it does not depend on the rest of its batch. */

enum { RELU, SILU, GELU };

#if NEARMT_KERNELS
SHARED void add(float *hidden, const float *addend, long count);

/* Rows [B, H]. */
SHARED void normalise(const Norm *norm, const float *input, long rows, long width, float *output);

/* One of the functions above, in place. */
SHARED void activate(long kind, float *number, long count);
#endif

#endif
