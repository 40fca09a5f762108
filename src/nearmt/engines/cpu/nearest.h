#ifndef NEARMT_NEAREST_H
#define NEARMT_NEAREST_H

#include "best.h"
#include "kernels.h"

#if NEARMT_KERNELS

/* Keys as integers plus 128, [M / 16, N / 4, 16, 4], and halves of their squared lengths, [M]. */
typedef struct {
    const uint8_t *key;
    const int32_t *half;
    long columns, end;
} Numbers;

/* Rows that are compared together. */
#define ROWS 5

/* A query as integer multiples of a unit. */
SHARED void round_query(const float *query, long columns, float unit, int8_t *number);

/* Bytes of the scratch buffer of `shortlist`. */
SHARED long shortlist_scratch(long count);

/* For each of at most ROWS rows [., columns]: up to `count` keys with the largest q . k - |k|^2 / 2, unordered. Scores are
   too large by 128 times the sum of the query. */
SHARED void shortlist(const Numbers *keys, const int8_t *query, int rows, long count, Shortlist best[ROWS], char *scratch);

/* The k nearest of some candidates (-1: none) by squared distance on the first `columns`, nearest first; equal distances
   by entry; padded with -1 and infinity. */
SHARED void nearest_of(const Keys *keys, const float *query, long columns, const int64_t *candidate, long candidates,
                       long k, int64_t *entry, float *distance);

#endif
#endif
