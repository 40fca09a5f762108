#ifndef NEARMT_ATTENTION_H
#define NEARMT_ATTENTION_H

#include "kernels.h"

#if NEARMT_KERNELS
/* Bytes that `attend` needs meanwhile. */
SHARED int64_t attend_room(const Slots *slots);

/* softmax(scale * query . key) . value of every row, heads side by side: [B, A * D]. Queries are `stride` apart. */
SHARED void attend(const Slots *slots, const float *query, long stride, float scale, float *output, char *room);

/* Put keys and values of all rows, `stride` apart, into the slots from `place` on. */
SHARED void fill(const Slots *slots, long place, const float *key, const float *value, long stride);
#endif

#endif
