#ifndef NEARMT_BLOCKS_H
#define NEARMT_BLOCKS_H

#include "kernels.h"

/* What layers of an encoder and of a decoder are made of beside products and attention. Every function treats each row by
   itself and in the same order, so that a row does not depend on those beside it. */

enum { RELU, SILU, GELU };

#if NEARMT_KERNELS
SHARED void add(float *hidden, const float *addend, long count);

/* Rows [B, H]. */
SHARED void normalise(const Norm *norm, const float *input, long rows, long width, float *output);

/* One of the functions above, in place. */
SHARED void activate(long kind, float *number, long count);
#endif

#endif
