/* How rows look at slots. All rows of a sentence go through its slots together, so these are read once. */

#include "attention.h"

#if NEARMT_KERNELS

/* Rows that are computed together. */
#define ROWS 5

/* Slots in whole vectors. */
INLINED long blocks_of(long slots) { return parts_of(slots, LANES); }

SHARED int64_t attend_room(const Slots *slots)
{
    const long blocks = blocks_of(slots->used);
    return ROWS * blocks * LANES * (long)sizeof(float) + (ROWS + 1) * blocks * (long)sizeof(__mmask16) + 64;
}

/* Numbers of a slot from `first` on. `halves` is known when this is compiled, as in all that follows. */
INLINED __m512 read(const char *slots, long first, __mmask16 there, const int halves)
{
    if (halves)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, (const uint16_t *)slots + first));
    return _mm512_maskz_loadu_ps(there, (const float *)slots + first);
}

INLINED void write(char *slots, long first, __mmask16 there, __m512 number, const int halves)
{
    if (halves)
        _mm256_mask_storeu_epi16((uint16_t *)slots + first, there, _mm512_cvtps_ph(number, _MM_FROUND_TO_NEAREST_INT));
    else
        _mm512_mask_storeu_ps((float *)slots + first, there, number);
}

typedef struct {
    long blocks;
    float *weight;   /* [R, blocks * 16] */
    __mmask16 *seen; /* [R, blocks]: which slots each row looks at */
    __mmask16 *any;  /* [blocks]: which any of them does */
} Desk;

/* What some rows of a sentence look at. */
LOCAL void look(const Slots *slots, long sentence, long first, int rows, Desk *desk)
{
    for (long block = 0; block < desk->blocks; block++) {
        const long left = slots->used - block * LANES;
        __mmask16 any = 0;
        for (int r = 0; r < rows; r++) {
            __mmask16 seen;
            if (slots->seen) {
                const uint8_t *byte = slots->seen + (sentence * slots->rows + first + r) * slots->seen_room;
                seen = _mm_test_epi8_mask(_mm_maskz_loadu_epi8(first_lanes(left), byte + block * LANES), _mm_set1_epi8(-1));
            } else {
                const long mine = slots->length[sentence] - block * LANES;
                seen = mine > 0 ? first_lanes(mine) : 0;
            }
            desk->seen[r * desk->blocks + block] = seen;
            any |= seen;
        }
        desk->any[block] = any;
    }
}

/* scale * query . key of some rows and all slots that any of them looks at. */
INLINED void compare(const Slots *slots, const char *key, const int rows, const float *query, long stride, float scale,
                     Desk *desk, const int halves)
{
    for (long block = 0; block < desk->blocks; block++) {
        for (unsigned any = desk->any[block]; any; any &= any - 1) {
            const long slot = block * LANES + __builtin_ctz(any);
            __m512 sum[ROWS];
#pragma GCC unroll 5
            for (int r = 0; r < rows; r++)
                sum[r] = _mm512_setzero_ps();
            for (long d = 0; d < slots->size; d += LANES) {
                const __mmask16 there = first_lanes(slots->size - d);
                const __m512 sixteen = read(key, slot * slots->size + d, there, halves);
#pragma GCC unroll 5
                for (int r = 0; r < rows; r++)
                    sum[r] = _mm512_fmadd_ps(sixteen, _mm512_maskz_loadu_ps(there, query + r * stride + d), sum[r]);
            }
#pragma GCC unroll 5
            for (int r = 0; r < rows; r++)
                desk->weight[r * desk->blocks * LANES + slot] = scale * _mm512_reduce_add_ps(sum[r]);
        }
    }
}

/* From scores to weights that add up to 1.

   Which slots a row looks at is its own history, but where they lie depends on other sentences of the batch. So the scores
   are moved together before they are added up: the order of the sum is that of the positions. */
LOCAL void normalise(int rows, Desk *desk)
{
    for (int r = 0; r < rows; r++) {
        float *weight = desk->weight + r * desk->blocks * LANES;
        const __mmask16 *seen = desk->seen + r * desk->blocks;
        __m512 top = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
        long count = 0;
        for (long block = 0; block < desk->blocks; block++) {
            if (!seen[block])
                continue;
            const __m512 score = _mm512_loadu_ps(weight + block * LANES);
            top = _mm512_mask_max_ps(top, seen[block], top, score);
            _mm512_storeu_ps(weight + count, _mm512_maskz_compress_ps(seen[block], score));
            count += __builtin_popcount(seen[block]);
        }
        top = _mm512_set1_ps(_mm512_reduce_max_ps(top));
        for (long i = 0; i < count; i += LANES) {
            const __m512 score = _mm512_sub_ps(_mm512_loadu_ps(weight + i), top);
            const __m512 part = _mm512_maskz_mov_ps(first_lanes(count - i), exponential(score));
            sum = _mm512_add_ps(sum, part);
            _mm512_storeu_ps(weight + i, part);
        }
        const __m512 share = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(sum));
        for (long block = desk->blocks - 1; block >= 0; block--) { /* back to their slots, the last ones first */
            if (!desk->any[block])
                continue;
            count -= __builtin_popcount(seen[block]);
            const __m512 part = _mm512_maskz_expand_ps(seen[block], _mm512_loadu_ps(weight + count));
            _mm512_storeu_ps(weight + block * LANES, _mm512_mul_ps(part, share));
        }
    }
}

/* What the weights bring together, two vectors of D at a time. */
INLINED void gather(const Slots *slots, const char *value, const int rows, float *output, long stride, const Desk *desk,
                    const int halves)
{
    for (long d = 0; d < slots->size; d += 2 * LANES) {
        const long next = d + LANES;
        const __mmask16 here = first_lanes(slots->size - d), there = next < slots->size ? first_lanes(slots->size - next) : 0;
        __m512 found[ROWS][2];
#pragma GCC unroll 5
        for (int r = 0; r < rows; r++)
            found[r][0] = found[r][1] = _mm512_setzero_ps();
        for (long block = 0; block < desk->blocks; block++) {
            for (unsigned any = desk->any[block]; any; any &= any - 1) {
                const long slot = block * LANES + __builtin_ctz(any), first = slot * slots->size;
                const __m512 low = read(value, first + d, here, halves), high = read(value, first + next, there, halves);
#pragma GCC unroll 5
                for (int r = 0; r < rows; r++) {
                    const __m512 weight = _mm512_set1_ps(desk->weight[r * desk->blocks * LANES + slot]);
                    found[r][0] = _mm512_fmadd_ps(low, weight, found[r][0]);
                    found[r][1] = _mm512_fmadd_ps(high, weight, found[r][1]);
                }
            }
        }
        for (int r = 0; r < rows; r++) {
            _mm512_mask_storeu_ps(output + r * stride + d, here, found[r][0]);
            _mm512_mask_storeu_ps(output + r * stride + next, there, found[r][1]);
        }
    }
}

INLINED void some_rows(const Slots *slots, long sentence, const int rows, const float *query, long stride, float scale,
                       float *output, Desk *desk, const int halves)
{
    const long width = slots->heads * slots->size, bytes = slots->room * slots->size * (halves ? 2 : 4);
    for (long head = 0; head < slots->heads; head++) {
        const long place = (sentence * slots->heads + head) * bytes;
        compare(slots, slots->key + place, rows, query + head * slots->size, stride, scale, desk, halves);
        normalise(rows, desk);
        gather(slots, slots->value + place, rows, output + head * slots->size, width, desk, halves);
    }
}

#define SOME_ROWS(rows)                                                                      \
    if (slots->halves)                                                                       \
        some_rows(slots, sentence, rows, from, stride, scale, to, &desk, 1);                 \
    else                                                                                     \
        some_rows(slots, sentence, rows, from, stride, scale, to, &desk, 0);                 \
    break;

SHARED void attend(const Slots *slots, const float *query, long stride, float scale, float *output, char *room)
{
    Desk desk = {.blocks = blocks_of(slots->used)};
    desk.weight = (float *)room;
    desk.seen = (__mmask16 *)(desk.weight + ROWS * desk.blocks * LANES);
    desk.any = desk.seen + ROWS * desk.blocks;
    const long width = slots->heads * slots->size;
    for (long sentence = 0; sentence < slots->sentences; sentence++) {
        for (long first = 0; first < slots->rows; first += ROWS) {
            const int rows = (int)smaller(ROWS, slots->rows - first);
            const long row = sentence * slots->rows + first;
            look(slots, sentence, first, rows, &desk);
            const float *from = query + row * stride;
            float *to = output + row * width;
            switch (rows) {
            case 1: SOME_ROWS(1)
            case 2: SOME_ROWS(2)
            case 3: SOME_ROWS(3)
            case 4: SOME_ROWS(4)
            default: SOME_ROWS(5)
            }
        }
    }
}

INLINED void fill_part(const Slots *slots, char *part, long place, const float *from, long stride, const int halves)
{
    for (long sentence = 0; sentence < slots->sentences; sentence++)
        for (long r = 0; r < slots->rows; r++, from += stride)
            for (long head = 0; head < slots->heads; head++)
                for (long d = 0; d < slots->size; d += LANES) {
                    const __mmask16 there = first_lanes(slots->size - d);
                    const long slot = (sentence * slots->heads + head) * slots->room + place + r;
                    write(part, slot * slots->size + d, there, _mm512_maskz_loadu_ps(there, from + head * slots->size + d), halves);
                }
}

SHARED void fill(const Slots *slots, long place, const float *key, const float *value, long stride)
{
    if (slots->halves) {
        fill_part(slots, slots->key, place, key, stride, 1);
        fill_part(slots, slots->value, place, value, stride, 1);
    } else {
        fill_part(slots, slots->key, place, key, stride, 0);
        fill_part(slots, slots->value, place, value, stride, 0);
    }
}

#endif
