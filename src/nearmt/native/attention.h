#ifndef NEARMT_ATTENTION_H
#define NEARMT_ATTENTION_H

#include "simd.h"

/* Keys and values of one layer, and who looks at which of them. Rows of a sentence are neighbours. */
typedef struct {
    int64_t sentences, rows, heads, size; /* S, R of each sentence, A, D */
    int64_t used, room;                   /* slots that may be looked at, and how many there is room for */
    int64_t halves;                       /* whether keys and values are fp16, not fp32 */
    char *key, *value;                    /* [S, A, room, D] */
    const uint8_t *seen;                  /* which slots each row looks at, [S, R, seen_room]; NULL: the first ones */
    int64_t seen_room;
    const int64_t *length;                /* where all rows look at the first slots: how many, [S] */
} Slots;

#if NEARMT_KERNELS
/* Bytes that `attend` needs meanwhile. */
SHARED int64_t attend_room(const Slots *slots);

/* softmax(scale * query . key) . value of every row, heads side by side: [B, A * D]. Queries are `stride` apart. */
SHARED void attend(const Slots *slots, const float *query, long stride, float scale, float *output, char *room);

/* Put keys and values of all rows, `stride` apart, into the slots from `place` on. */
SHARED void fill(const Slots *slots, long place, const float *key, const float *value, long stride);
#endif

#endif
