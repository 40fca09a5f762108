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

#endif
#endif
