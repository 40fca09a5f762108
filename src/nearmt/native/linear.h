#ifndef NEARMT_LINEAR_H
#define NEARMT_LINEAR_H

#include "simd.h"

/* Outputs that are computed together: four vectors of them. Weights lie in panels of so many outputs. */
#define PANEL 64

/* output = input . weight^T + bias. Scales and biases are filled up to whole panels.

   Floats:  panels [P, I, 64].
   8 bits:  panels [P, I / 4, 64, 4], each number plus 128; inputs are filled up to a multiple of 4. */
typedef struct {
    int64_t inputs, outputs;
    const void *panels;
    const float *scale; /* of each output; NULL where weights are floats */
    const float *bias;  /* NULL for none */
} Linear;

#if NEARMT_KERNELS
/* Bytes that `linear` needs meanwhile. */
EXPORTED int64_t linear_room(const Linear *layer, int64_t rows);

/* Rows [B, I] to [B, O]. */
EXPORTED void linear(const Linear *layer, const float *input, int64_t rows, float *output, char *room);
#endif

#endif
