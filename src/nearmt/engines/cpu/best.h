#ifndef NEARMT_BEST_H
#define NEARMT_BEST_H

#include "simd.h"

#if NEARMT_KERNELS

/* The best of what goes by, best first; of equals the first stays ahead. */
typedef struct {
    long count, room;
    int32_t *score;
    int32_t *place;
} Best;

INLINED int is_full(const Best *best) { return best->count == best->room; }

/* What has to be beaten once it is full. */
INLINED int32_t bar(const Best *best) { return best->score[best->room - 1]; }

INLINED void offer(Best *best, int32_t score, int32_t place)
{
    if (is_full(best) && score <= bar(best))
        return;
    long at = is_full(best) ? best->room - 1 : best->count++;
    for (; at > 0 && best->score[at - 1] < score; at--) {
        best->score[at] = best->score[at - 1];
        best->place[at] = best->place[at - 1];
    }
    best->score[at] = score;
    best->place[at] = place;
}

/* The best of many, in no order: what goes by is gathered where it beats the bar, and thinned out when there is no room
   for more. Of equals at the bar the first stay. */
typedef struct {
    long count, keep, room; /* room is at least keep + 32 */
    int32_t bar;
    int32_t *score;
    int32_t *place;
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

/* No more than `keep` stay. The bar is found by halving what lies between the least and the most. */
LOCAL void thin_out(Shortlist *list)
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
    while (low < high) { /* the most that `keep` of them reach */
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
        const __m512i score = _mm512_loadu_si512(list->score + i), place = _mm512_loadu_si512(list->place + i);
        unsigned equal = _mm512_mask_cmpeq_epi32_mask(there, score, _mm512_set1_epi32(list->bar));
        while (__builtin_popcount(equal) > ties)
            equal &= ~(1u << (31 - __builtin_clz(equal)));
        ties -= __builtin_popcount(equal);
        const __mmask16 stays = _mm512_mask_cmpgt_epi32_mask(there, score, _mm512_set1_epi32(list->bar)) | (__mmask16)equal;
        _mm512_storeu_si512(list->score + kept, _mm512_maskz_compress_epi32(stays, score));
        _mm512_storeu_si512(list->place + kept, _mm512_maskz_compress_epi32(stays, place));
        kept += __builtin_popcount(stays);
    }
    list->count = kept;
}

/* Sixteen at a time, from place `first` on. */
INLINED void gather_better(Shortlist *list, __m512i score, __mmask16 there, long first)
{
    const __mmask16 better = _mm512_mask_cmpgt_epi32_mask(there, score, _mm512_set1_epi32(list->bar));
    if (!better)
        return;
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i place = _mm512_add_epi32(_mm512_set1_epi32((int32_t)first), lane);
    _mm512_storeu_si512(list->score + list->count, _mm512_maskz_compress_epi32(better, score));
    _mm512_storeu_si512(list->place + list->count, _mm512_maskz_compress_epi32(better, place));
    list->count += __builtin_popcount(better);
    if (list->count > list->room - LANES)
        thin_out(list);
}

#endif
#endif
