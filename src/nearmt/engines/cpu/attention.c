/* Attention of rows to cached tokens. All rows of a slot are computed together, so its tokens are read once. */

#include "attention.h"

#if NEARMT_KERNELS

/* Rows that are computed together. */
#define ROWS 5

/* KeyValues in whole vectors. */
INLINED long blocks_of(long tokens) { return parts_of(tokens, LANES); }

SHARED int64_t attend_scratch(const KeyValues *cached)
{
    const long blocks = blocks_of(cached->used);
    return ROWS * blocks * LANES * (long)sizeof(float) + (ROWS + 1) * blocks * (long)sizeof(__mmask16) + 64;
}

/* Sixteen numbers from `first` on. `halves` is a compile-time constant, here and below. */
INLINED __m512 read(const char *from, long first, __mmask16 there, const int halves)
{
    if (halves)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, (const uint16_t *)from + first));
    return _mm512_maskz_loadu_ps(there, (const float *)from + first);
}

INLINED void write(char *to, long first, __mmask16 there, __m512 number, const int halves)
{
    if (halves)
        _mm256_mask_storeu_epi16((uint16_t *)to + first, there, _mm512_cvtps_ph(number, _MM_FROUND_TO_NEAREST_INT));
    else
        _mm512_mask_storeu_ps((float *)to + first, there, number);
}

typedef struct {
    long blocks;
    float *weight;   /* [R, blocks * 16] */
    __mmask16 *seen; /* [R, blocks]: which tokens each row attends to */
    __mmask16 *any;  /* [blocks]: which tokens any of the rows attends to */
} Scratch;

/* The tokens that some rows of a slot attend to. */
LOCAL void read_mask(const KeyValues *cached, long slot, long first, int rows, Scratch *scratch)
{
    for (long block = 0; block < scratch->blocks; block++) {
        const long left = cached->used - block * LANES;
        __mmask16 any = 0;
        for (int r = 0; r < rows; r++) {
            __mmask16 seen;
            if (cached->mask) {
                const uint8_t *byte = cached->mask + (slot * cached->rows + first + r) * cached->mask_stride;
                seen = _mm_test_epi8_mask(_mm_maskz_loadu_epi8(first_lanes(left), byte + block * LANES), _mm_set1_epi8(-1));
            } else {
                const long mine = cached->length[slot] - block * LANES;
                seen = mine > 0 ? first_lanes(mine) : 0;
            }
            scratch->seen[r * scratch->blocks + block] = seen;
            any |= seen;
        }
        scratch->any[block] = any;
    }
}

/* scale * query . key of some rows and all tokens that any of them attends to. */
INLINED void compare(const KeyValues *cached, const char *key, const int rows, const float *query, long stride, float scale,
                     Scratch *scratch, const int halves)
{
    for (long block = 0; block < scratch->blocks; block++) {
        for (unsigned any = scratch->any[block]; any; any &= any - 1) {
            const long token = block * LANES + __builtin_ctz(any);
            __m512 sum[ROWS];
#pragma GCC unroll 5
            for (int r = 0; r < rows; r++)
                sum[r] = _mm512_setzero_ps();
            for (long d = 0; d < cached->size; d += LANES) {
                const __mmask16 there = first_lanes(cached->size - d);
                const __m512 sixteen = read(key, token * cached->size + d, there, halves);
#pragma GCC unroll 5
                for (int r = 0; r < rows; r++)
                    sum[r] = _mm512_fmadd_ps(sixteen, _mm512_maskz_loadu_ps(there, query + r * stride + d), sum[r]);
            }
#pragma GCC unroll 5
            for (int r = 0; r < rows; r++)
                scratch->weight[r * scratch->blocks * LANES + token] = scale * _mm512_reduce_add_ps(sum[r]);
        }
    }
}

/* Softmax of scores.

   Where the tokens of a row lie depends on other sentences of the batch. So scores are moved together before they are
   summed: the order of the sum is that of the positions. */
LOCAL void normalise(int rows, Scratch *scratch)
{
    for (int r = 0; r < rows; r++) {
        float *weight = scratch->weight + r * scratch->blocks * LANES;
        const __mmask16 *seen = scratch->seen + r * scratch->blocks;
        __m512 top = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
        long count = 0;
        for (long block = 0; block < scratch->blocks; block++) {
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
        for (long block = scratch->blocks - 1; block >= 0; block--) { /* back to their positions, the last ones first */
            if (!scratch->any[block])
                continue;
            count -= __builtin_popcount(seen[block]);
            const __m512 part = _mm512_maskz_expand_ps(seen[block], _mm512_loadu_ps(weight + count));
            _mm512_storeu_ps(weight + block * LANES, _mm512_mul_ps(part, share));
        }
    }
}

/* Weighted sums of values, two vectors of D at a time. */
INLINED void sum_values(const KeyValues *cached, const char *value, const int rows, float *output, long stride, const Scratch *scratch,
                    const int halves)
{
    for (long d = 0; d < cached->size; d += 2 * LANES) {
        const long next = d + LANES;
        const __mmask16 here = first_lanes(cached->size - d), there = next < cached->size ? first_lanes(cached->size - next) : 0;
        __m512 found[ROWS][2];
#pragma GCC unroll 5
        for (int r = 0; r < rows; r++)
            found[r][0] = found[r][1] = _mm512_setzero_ps();
        for (long block = 0; block < scratch->blocks; block++) {
            for (unsigned any = scratch->any[block]; any; any &= any - 1) {
                const long token = block * LANES + __builtin_ctz(any), first = token * cached->size;
                const __m512 low = read(value, first + d, here, halves), high = read(value, first + next, there, halves);
#pragma GCC unroll 5
                for (int r = 0; r < rows; r++) {
                    const __m512 weight = _mm512_set1_ps(scratch->weight[r * scratch->blocks * LANES + token]);
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

/* Add the weights of some rows of a slot, which attend to its first tokens, to the attention of these rows. */
LOCAL void add_attention(const KeyValues *cached, long slot, long row, int rows, const Scratch *scratch)
{
    for (int r = 0; r < rows; r++)
        for (long token = 0; token < cached->length[slot]; token++)
            cached->attention[(row + r) * cached->used + token] += scratch->weight[r * scratch->blocks * LANES + token];
}

INLINED void some_rows(const KeyValues *cached, long slot, long row, const int rows, const float *query, long stride,
                       float scale, float *output, Scratch *scratch, const int halves)
{
    const long width = cached->heads * cached->size, bytes = cached->capacity * cached->size * (halves ? 2 : 4);
    for (long head = 0; head < cached->heads; head++) {
        const long first = (slot * cached->heads + head) * bytes;
        compare(cached, cached->key + first, rows, query + head * cached->size, stride, scale, scratch, halves);
        normalise(rows, scratch);
        if (cached->attention)
            add_attention(cached, slot, row, rows, scratch);
        sum_values(cached, cached->value + first, rows, output + head * cached->size, width, scratch, halves);
    }
}

#define SOME_ROWS(rows)                                                                      \
    if (cached->halves)                                                                       \
        some_rows(cached, slot, row, rows, from, stride, scale, to, &parts, 1);              \
    else                                                                                     \
        some_rows(cached, slot, row, rows, from, stride, scale, to, &parts, 0);              \
    break;

SHARED void attend(const KeyValues *cached, const float *query, long stride, float scale, float *output, char *scratch)
{
    Scratch parts = {.blocks = blocks_of(cached->used)};
    parts.weight = (float *)scratch;
    parts.seen = (__mmask16 *)(parts.weight + ROWS * parts.blocks * LANES);
    parts.any = parts.seen + ROWS * parts.blocks;
    const long width = cached->heads * cached->size;
    for (long slot = 0; slot < cached->slots; slot++) {
        for (long first = 0; first < cached->rows; first += ROWS) {
            const int rows = (int)smaller(ROWS, cached->rows - first);
            const long row = slot * cached->rows + first;
            read_mask(cached, slot, first, rows, &parts);
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

INLINED void write_part(const KeyValues *cached, char *part, long offset, const float *from, long stride, const int halves)
{
    for (long slot = 0; slot < cached->slots; slot++)
        for (long r = 0; r < cached->rows; r++, from += stride)
            for (long head = 0; head < cached->heads; head++)
                for (long d = 0; d < cached->size; d += LANES) {
                    const __mmask16 there = first_lanes(cached->size - d);
                    const long token = (slot * cached->heads + head) * cached->capacity + offset + r;
                    write(part, token * cached->size + d, there, _mm512_maskz_loadu_ps(there, from + head * cached->size + d), halves);
                }
}

SHARED void write_tokens(const KeyValues *cached, long offset, const float *key, const float *value, long stride)
{
    if (cached->halves) {
        write_part(cached, cached->key, offset, key, stride, 1);
        write_part(cached, cached->value, offset, value, stride, 1);
    } else {
        write_part(cached, cached->key, offset, key, stride, 0);
        write_part(cached, cached->value, offset, value, stride, 0);
    }
}

#endif
