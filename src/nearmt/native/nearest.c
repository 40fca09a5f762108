/* Nearest neighbours: nominated on few columns as 8-bit numbers, then measured on the stored keys. */

#include "best.h"

#if NEARMT_KERNELS

/* Keys of all entries, in segments that begin at these numbers. */
typedef struct {
    int64_t segments, columns;
    const uint16_t *const *key; /* fp16 [., columns] of each segment */
    const int64_t *start;       /* one more than there are segments */
} Keys;

INLINED const uint16_t *key_of(const Keys *keys, int64_t entry)
{
    long segment = 0;
    while (segment + 1 < keys->segments && entry >= keys->start[segment + 1])
        segment++;
    return keys->key[segment] + (entry - keys->start[segment]) * keys->columns;
}

/* Rows that are compared together. */
#define ROWS 5

/* Some rows of whole numbers with the keys of a holder: of each row the places with the most q . k - |k|^2 / 2.
   Keys [M / 16, N / 4, 16, 4] have 128 added, which adds the same to all places of a row. */
INLINED void nominate_rows(const int rows, const uint8_t *key, const int32_t *half, long end, long quads,
                           const int8_t *query, Shortlist best[ROWS])
{
    for (long first = 0; first < end; first += LANES, key += quads * 64) {
        const __m512i offset = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(half + first));
        __m512i sum[ROWS];
#pragma GCC unroll 5
        for (int r = 0; r < rows; r++)
            sum[r] = offset;
        for (long quad = 0; quad < quads; quad++) {
            const __m512i sixteen = _mm512_loadu_si512(key + quad * 64);
#pragma GCC unroll 5
            for (int r = 0; r < rows; r++) {
                const __m512i four = four_bytes(query + (r * quads + quad) * 4);
                sum[r] = _mm512_dpbusd_epi32(sum[r], sixteen, four);
            }
        }
        const __mmask16 there = first_lanes(end - first);
        for (int r = 0; r < rows; r++)
            gather_better(best + r, sum[r], there, first);
    }
}

LOCAL void round_query(const float *query, long columns, float unit, int8_t *number)
{
    const __m512 factor = _mm512_set1_ps(1.0f / unit), most = _mm512_set1_ps(127.0f), least = _mm512_set1_ps(-128.0f);
    for (long i = 0; i < columns; i += LANES) {
        const __mmask16 there = first_lanes(columns - i);
        const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, query + i), factor);
        const __m512i whole = _mm512_cvtps_epi32(_mm512_max_ps(_mm512_min_ps(scaled, most), least));
        _mm_mask_storeu_epi8(number + i, there, _mm512_cvtsepi32_epi8(whole));
    }
}

/* Places that are gathered before they are thinned out, and room for one more vector. */
INLINED long gathered(long count) { return 2 * count + 64; }

/* Bytes that `nominate` needs meanwhile. */
EXPORTED int64_t nominate_room(int64_t columns, int64_t count) { return ROWS * (columns + 8 * (gathered(count) + LANES)); }

/* For `rows` queries of each of some holders `count` places that are likely to be nearest, in no order.
   Of all holders: keys [U, room / 16, N / 4, 16, 4] and halves of squared lengths [U, room]; of those that are read:
   what numbers count, and how many places they have. What is found are the names of places [U, room]. Scores are 128 times the sum of a query too large. */
EXPORTED void nominate(const uint8_t *key, const int32_t *half, int64_t room, int64_t columns, const int64_t *holder,
                       const float *unit, const int64_t *end, int64_t holders, int64_t rows, const float *query,
                       int64_t stride, int64_t count, const int64_t *name, int64_t *found, int32_t *scores,
                       char *meanwhile)
{
    const long quads = columns / 4;
    int8_t *number = (int8_t *)meanwhile;
    int32_t *list = (int32_t *)(meanwhile + ROWS * columns);
    for (long h = 0; h < holders; h++) {
        const long u = holder[h];
        for (long first = 0; first < rows; first += ROWS) {
            const int some = (int)smaller(ROWS, rows - first);
            Shortlist best[ROWS];
            for (int r = 0; r < some; r++) {
                int32_t *mine = list + 2 * r * (gathered(count) + LANES);
                best[r] = (Shortlist){0, count, gathered(count), INT32_MIN, mine, mine + gathered(count) + LANES};
                round_query(query + (h * rows + first + r) * stride, columns, unit[h], number + r * columns);
            }
            const uint8_t *mine = key + u * room * columns;
            switch (some) {
            case 1: nominate_rows(1, mine, half + u * room, end[h], quads, number, best); break;
            case 2: nominate_rows(2, mine, half + u * room, end[h], quads, number, best); break;
            case 3: nominate_rows(3, mine, half + u * room, end[h], quads, number, best); break;
            case 4: nominate_rows(4, mine, half + u * room, end[h], quads, number, best); break;
            default: nominate_rows(5, mine, half + u * room, end[h], quads, number, best); break;
            }
            for (int r = 0; r < some; r++) {
                const long row = (h * rows + first + r) * count;
                thin_out(best + r);
                for (long i = 0; i < count; i++) {
                    found[row + i] = name[u * room + best[r].place[i]];
                    scores[row + i] = best[r].score[i];
                }
            }
        }
    }
}

/* Sixteen columns of a key from `i` on, of floats or of fp16. */
INLINED __m512 sixteen_of(const void *key, long i, long columns, const int halves)
{
    const __mmask16 there = first_lanes(columns - i);
    if (halves)
        return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, (const uint16_t *)key + i));
    return _mm512_maskz_loadu_ps(there, (const float *)key + i);
}

/* A key as whole numbers among those of a holder, and half its squared length. It may have fewer columns than the holder,
   which are then filled up to a multiple of 4. */
INLINED void hold_one(uint8_t *key, int32_t *half, long columns, long place, const void *given, long given_columns,
                      float unit, const int halves)
{
    uint8_t *to = key + place / LANES * LANES * columns + place % LANES * 4;
    const __m512 factor = _mm512_set1_ps(1.0f / unit);
    __m512i square = _mm512_setzero_si512();
    for (long i = 0; i < columns; i += LANES) {
        const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(sixteen_of(given, i, given_columns, halves), factor));
        square = _mm512_add_epi32(square, _mm512_mullo_epi32(whole, whole));
        uint8_t byte[LANES];
        _mm_storeu_si128((__m128i *)byte, _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, _mm512_set1_epi32(128))));
        for (long quad = 0; quad < 4 && i + quad * 4 < columns; quad++)
            __builtin_memcpy(to + (i / 4 + quad) * 64, byte + quad * 4, 4);
    }
    half[place] = _mm512_reduce_add_epi32(square) / 2;
}

/* Keys of a holder, rounded to multiples of a unit, for places from `start` on; and halves of their squared lengths. */
EXPORTED void hold(uint8_t *key, int32_t *half, int64_t columns, int64_t start, const float *given, int64_t count,
                   float unit)
{
    for (long x = 0; x < count; x++)
        hold_one(key, half, columns, start + x, given + x * columns, columns, unit, 0);
}

/* The same for entries, from the first columns of their stored keys. */
EXPORTED void hold_entries(uint8_t *key, int32_t *half, int64_t columns, int64_t start, const Keys *keys,
                           int64_t key_columns, const int64_t *entry, int64_t count, float unit)
{
    for (long x = 0; x < count; x++)
        hold_one(key, half, columns, start + x, key_of(keys, entry[x]), key_columns, unit, 1);
}

/* The largest number, whatever its sign, in the first columns of some entries' keys. */
EXPORTED float largest_of(const Keys *keys, int64_t columns, const int64_t *entry, int64_t count)
{
    __m512 most = _mm512_setzero_ps();
    for (long x = 0; x < count; x++) {
        const uint16_t *key = key_of(keys, entry[x]);
        for (long i = 0; i < columns; i += LANES)
            most = _mm512_max_ps(most, _mm512_abs_ps(sixteen_of(key, i, columns, 1)));
    }
    return _mm512_reduce_max_ps(most);
}

/* Marks entries in a table of hashes, whose size is a power of two and more than it will ever hold; an entry is held as
   its number plus 1. Those that were not marked before come out, in their order. Returns how many. */
EXPORTED int64_t mark(int32_t *table, int64_t size, const int64_t *entry, int64_t count, int64_t *fresh)
{
    long found = 0;
    for (long x = 0; x < count; x++) {
        if (entry[x] < 0)
            continue;
        const int32_t mine = (int32_t)entry[x] + 1;
        uint64_t place = ((uint64_t)mine * 0x9E3779B97F4A7C15ull >> 32) & (uint64_t)(size - 1);
        while (table[place] && table[place] != mine)
            place = (place + 1) & (uint64_t)(size - 1);
        if (table[place])
            continue;
        table[place] = mine;
        fresh[found++] = entry[x];
    }
    return found;
}

/* By differences: exact also where it is small. Infinite where it would be no number, which has no order. */
INLINED float squared_distance(const float *query, const uint16_t *key, long columns)
{
    __m512 sum = _mm512_setzero_ps();
    for (long i = 0; i < columns; i += LANES) {
        const __m512 off = _mm512_sub_ps(sixteen_of(key, i, columns, 1), sixteen_of(query, i, columns, 0));
        sum = _mm512_fmadd_ps(off, off, sum);
    }
    const float total = _mm512_reduce_add_ps(sum);
    return total < INFINITY ? total : INFINITY;
}

/* The k nearest of each row's candidates [B, X] (-1: none) by squared distance on the first `columns`, nearest first;
   equal distances by entry; -1 and infinity fill up. */
EXPORTED void nearest(const Keys *keys, const float *query, int64_t stride, int64_t columns, int64_t rows,
                      const int64_t *candidate, int64_t candidates, int64_t k, int64_t *entry, float *distance)
{
    for (long row = 0; row < rows; row++, query += stride, candidate += candidates, entry += k, distance += k) {
        long count = 0;
        for (long c = 0; c < candidates; c++)
            if (candidate[c] >= 0)
                _mm_prefetch((const char *)key_of(keys, candidate[c]), _MM_HINT_T0);
        for (long c = 0; c < candidates; c++) {
            const int64_t number = candidate[c];
            if (number < 0)
                continue;
            const float far = squared_distance(query, key_of(keys, number), columns);
            if (count == k && !(far < distance[k - 1] || (far == distance[k - 1] && number < entry[k - 1])))
                continue;
            long at = count < k ? count++ : k - 1;
            for (; at > 0 && (distance[at - 1] > far || (distance[at - 1] == far && entry[at - 1] > number)); at--) {
                distance[at] = distance[at - 1];
                entry[at] = entry[at - 1];
            }
            distance[at] = far;
            entry[at] = number;
        }
        for (; count < k; count++) {
            distance[count] = INFINITY;
            entry[count] = -1;
        }
    }
}

#endif
