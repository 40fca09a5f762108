#ifndef NEARMT_BEST_H
#define NEARMT_BEST_H

#include "simd.h"

#if NEARMT_KERNELS

/* The best scores offered so far and their indices, best first; of equal scores the first offered comes first. */
typedef struct {
    long count, capacity;
    int32_t *score;
    int32_t *index;
} Best;

INLINED int is_full(const Best *best) { return best->count == best->capacity; }

/* The score to exceed once it is full. */
INLINED int32_t bar(const Best *best) { return best->score[best->capacity - 1]; }

INLINED void offer(Best *best, int32_t score, int32_t index)
{
    if (is_full(best) && score <= bar(best))
        return;
    long at = is_full(best) ? best->capacity - 1 : best->count++;
    for (; at > 0 && best->score[at - 1] < score; at--) {
        best->score[at] = best->score[at - 1];
        best->index[at] = best->index[at - 1];
    }
    best->score[at] = score;
    best->index[at] = index;
}

/* The `keep` best scores of many and their indices, unordered: scores above the bar are appended, and the list is pruned
   when it is full. Of equal scores at the bar the first are kept. */
typedef struct {
    long count, keep, capacity; /* capacity is at least keep + 32 */
    int32_t bar;
    int32_t *score;
    int32_t *index;
} Shortlist;

INLINED long at_least(const Shortlist *list, int32_t bound)
{
    long found = 0;
    for (long i = 0; i < list->count; i += LANES) {
        const __mmask16 there = first_lanes(list->count - i);
        found += __builtin_popcount(_mm512_mask_cmpge_epi32_mask(there, _mm512_loadu_si512(list->score + i), _mm512_set1_epi32(bound)));
    }
    return found;
}

/* Keep the best `keep`. The bar is found by bisection between the least and the greatest score. */
LOCAL void prune(Shortlist *list)
{
    if (list->count <= list->keep)
        return;
    __m512i least = _mm512_set1_epi32(INT32_MAX), most = _mm512_set1_epi32(INT32_MIN);
    for (long i = 0; i < list->count; i += LANES) {
        const __mmask16 there = first_lanes(list->count - i);
        const __m512i score = _mm512_loadu_si512(list->score + i);
        least = _mm512_mask_min_epi32(least, there, least, score);
        most = _mm512_mask_max_epi32(most, there, most, score);
    }
    int64_t low = _mm512_reduce_min_epi32(least), high = _mm512_reduce_max_epi32(most);
    while (low < high) { /* the greatest score that `keep` of them reach */
        const int64_t middle = low + (high - low + 1) / 2;
        if (at_least(list, (int32_t)middle) >= list->keep)
            low = middle;
        else
            high = middle - 1;
    }
    list->bar = (int32_t)low;
    long ties = list->keep - (low == INT32_MAX ? 0 : at_least(list, (int32_t)low + 1)), kept = 0;
    for (long i = 0; i < list->count; i += LANES) {
        const __mmask16 there = first_lanes(list->count - i);
        const __m512i score = _mm512_loadu_si512(list->score + i), index = _mm512_loadu_si512(list->index + i);
        unsigned equal = _mm512_mask_cmpeq_epi32_mask(there, score, _mm512_set1_epi32(list->bar));
        while (__builtin_popcount(equal) > ties)
            equal &= ~(1u << (31 - __builtin_clz(equal)));
        ties -= __builtin_popcount(equal);
        const __mmask16 stays = _mm512_mask_cmpgt_epi32_mask(there, score, _mm512_set1_epi32(list->bar)) | (__mmask16)equal;
        _mm512_storeu_si512(list->score + kept, _mm512_maskz_compress_epi32(stays, score));
        _mm512_storeu_si512(list->index + kept, _mm512_maskz_compress_epi32(stays, index));
        kept += __builtin_popcount(stays);
    }
    list->count = kept;
}

/* Append the scores above the bar of sixteen, whose indices begin at `first`. */
INLINED void append_better(Shortlist *list, __m512i score, __mmask16 there, long first)
{
    const __mmask16 better = _mm512_mask_cmpgt_epi32_mask(there, score, _mm512_set1_epi32(list->bar));
    if (!better)
        return;
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i index = _mm512_add_epi32(_mm512_set1_epi32((int32_t)first), lane);
    _mm512_storeu_si512(list->score + list->count, _mm512_maskz_compress_epi32(better, score));
    _mm512_storeu_si512(list->index + list->count, _mm512_maskz_compress_epi32(better, index));
    list->count += __builtin_popcount(better);
    if (list->count > list->capacity - LANES)
        prune(list);
}

#endif
#endif
