#ifndef NEARMT_NEAREST_H
#define NEARMT_NEAREST_H

#include "best.h"
#include "kernels.h"

#if NEARMT_KERNELS

/* Keys as whole numbers plus 128, [M / 16, N / 4, 16, 4], and halves of their squared lengths, [M]. */
typedef struct {
    const uint8_t *key;
    const int32_t *half;
    long columns, end;
} Numbers;

/* Rows that are compared together. */
#define ROWS 5

/* A query as multiples of a unit. */
SHARED void round_query(const float *query, long columns, float unit, int8_t *number);

/* Bytes that lists of `count` take for so many rows. */
SHARED long shortlist_room(long count);

/* Of each of some rows [., columns], no more than ROWS, up to `count` places with the most q . k - |k|^2 / 2, in no order.
   Scores are 128 times the sum of a query too large. */
SHARED void shortlist(const Numbers *held, const int8_t *query, int rows, long count, Shortlist best[ROWS], char *room);

/* The k nearest of some candidates (-1: none) by squared distance on the first `columns`, nearest first; equal distances
   by entry; -1 and infinity fill up. */
SHARED void nearest_of(const Keys *keys, const float *query, long columns, const int64_t *candidate, long candidates,
                       long k, int64_t *entry, float *distance);

#endif
#endif
