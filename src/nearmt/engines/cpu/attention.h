#ifndef NEARMT_ATTENTION_H
#define NEARMT_ATTENTION_H

#include "kernels.h"

#if NEARMT_KERNELS
/* Bytes of `attend`'s scratch buffer. */
SHARED int64_t attend_scratch(const KeyValues *cached);

/* softmax(scale * query . key) . value of every row, heads concatenated: [B, A * D]. Queries are `stride` apart. */
SHARED void attend(const KeyValues *cached, const float *query, long stride, float scale, float *output, char *scratch);

/* Write keys and values of all rows, `stride` apart, to the cached tokens from `offset` on. */
SHARED void write_tokens(const KeyValues *cached, long offset, const float *key, const float *value, long stride);
#endif

#endif
