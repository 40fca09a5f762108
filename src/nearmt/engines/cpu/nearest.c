/* Nearest neighbours: nominated on few columns as 8-bit numbers, then measured on the stored keys. */

#include "nearest.h"

#if NEARMT_KERNELS

INLINED const uint16_t *key_of(const Keys *keys, int64_t entry)
{
    long segment = 0;
    while (segment + 1 < keys->segments && entry >= keys->start[segment + 1])
        segment++;
    return keys->key[segment] + (entry - keys->start[segment]) * keys->columns;
}

/* Bytes that a processor fetches together, and keys that are fetched before they are needed. */
#define LINE 64
#define AHEAD 4

INLINED void prefetch(const uint16_t *key, long columns)
{
    for (long byte = 0; byte < 2 * columns; byte += LINE)
        _mm_prefetch((const char *)key + byte, _MM_HINT_T0);
}

/* `shortlist` for a number of rows that the compiler knows. */
INLINED void compare_rows(const int rows, const Numbers *held, const int8_t *query, Shortlist best[ROWS])
{
    const long quads = held->columns / 4;
    const uint8_t *key = held->key;
    for (long first = 0; first < held->end; first += LANES, key += quads * 64) {
        const __m512i offset = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(held->half + first));
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
        const __mmask16 there = first_lanes(held->end - first);
        for (int r = 0; r < rows; r++)
            gather_better(best + r, sum[r], there, first);
    }
}

SHARED void round_query(const float *query, long columns, float unit, int8_t *number)
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

SHARED long shortlist_room(long count) { return ROWS * 2 * (gathered(count) + LANES) * (long)sizeof(int32_t); }

SHARED void shortlist(const Numbers *held, const int8_t *query, int rows, long count, Shortlist best[ROWS], char *room)
{
    int32_t *list = (int32_t *)room;
    for (int r = 0; r < rows; r++, list += 2 * (gathered(count) + LANES))
        best[r] = (Shortlist){0, count, gathered(count), INT32_MIN, list, list + gathered(count) + LANES};
    switch (rows) {
    case 1: compare_rows(1, held, query, best); break;
    case 2: compare_rows(2, held, query, best); break;
    case 3: compare_rows(3, held, query, best); break;
    case 4: compare_rows(4, held, query, best); break;
    default: compare_rows(5, held, query, best); break;
    }
    for (int r = 0; r < rows; r++)
        thin_out(best + r);
}

/* Bytes that `nominate` and `recall` need meanwhile. */
EXPORTED int64_t nominate_room(int64_t columns, int64_t count)
{
    return shortlist_room(count) + count * (long)sizeof(int64_t) + ROWS * columns;
}

/* For `rows` queries of each of some holders `count` places that are likely to be nearest, in no order.
   Of all holders: keys [U, room / 16, N / 4, 16, 4] and halves of squared lengths [U, room]; of those that are read:
   what numbers count, and how many places they have. What is found are the names of places [U, room]. Scores are 128 times
   the sum of a query too large. */
EXPORTED void nominate(const uint8_t *key, const int32_t *half, int64_t room, int64_t columns, const int64_t *holder,
                       const float *unit, const int64_t *end, int64_t holders, int64_t rows, const float *query,
                       int64_t stride, int64_t count, const int64_t *name, int64_t *found, int32_t *scores,
                       char *meanwhile)
{
    int8_t *number = (int8_t *)(meanwhile + shortlist_room(count));
    for (long h = 0; h < holders; h++) {
        const long u = holder[h];
        const Numbers held = {key + u * room * columns, half + u * room, columns, end[h]};
        for (long first = 0; first < rows; first += ROWS) {
            const int some = (int)smaller(ROWS, rows - first);
            Shortlist best[ROWS];
            for (int r = 0; r < some; r++)
                round_query(query + (h * rows + first + r) * stride, columns, unit[h], number + r * columns);
            shortlist(&held, number, some, count, best, meanwhile);
            for (int r = 0; r < some; r++) {
                const long row = (h * rows + first + r) * count;
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
        if (x + AHEAD < count)
            prefetch(key_of(keys, entry[x + AHEAD]), columns);
        for (long i = 0; i < columns; i += LANES)
            most = _mm512_max_ps(most, _mm512_abs_ps(sixteen_of(key, i, columns, 1)));
    }
    return _mm512_reduce_max_ps(most);
}

/* Whether an entry was not yet in a table of hashes, whose size is a power of two and more than it will ever hold; now it
   is. An entry is held as its number plus 1. */
INLINED int is_new(int32_t *table, int64_t size, int64_t entry)
{
    const int32_t mine = (int32_t)entry + 1;
    uint64_t place = ((uint64_t)mine * 0x9E3779B97F4A7C15ull >> 32) & (uint64_t)(size - 1);
    while (table[place] && table[place] != mine)
        place = (place + 1) & (uint64_t)(size - 1);
    if (table[place])
        return 0;
    table[place] = mine;
    return 1;
}

/* Marks entries (-1: none). Those that were not marked before come out, in their order. Returns how many. */
EXPORTED int64_t mark(int32_t *table, int64_t size, const int64_t *entry, int64_t count, int64_t *fresh)
{
    long found = 0;
    for (long x = 0; x < count; x++)
        if (entry[x] >= 0 && is_new(table, size, entry[x]))
            fresh[found++] = entry[x];
    return found;
}

/* The same for up to `chunk` entries from each of these on, as far as their pair reaches; `end` [P] is where pairs end. */
EXPORTED int64_t mark_chunks(int32_t *table, int64_t size, const int64_t *entry, int64_t count, int64_t chunk,
                             const int64_t *end, int64_t pairs, int64_t *fresh)
{
    long found = 0;
    for (long x = 0; x < count; x++) {
        if (entry[x] < 0)
            continue;
        long low = 0, high = pairs - 1; /* the first pair that ends behind the entry */
        while (low < high) {
            const long middle = (low + high) / 2;
            if (end[middle] > entry[x])
                high = middle;
            else
                low = middle + 1;
        }
        const int64_t last = smaller(entry[x] + chunk, end[low]);
        for (int64_t each = entry[x]; each < last; each++)
            if (is_new(table, size, each))
                fresh[found++] = each;
    }
    return found;
}

/* The chunks that begin with these entries [S, X] (-1: none): what a sentence's holder does not have yet is put behind what
   it has. Of each sentence: its holder, how many entries that has, what its numbers count; written is how many are new.
   Where keys have larger numbers than a holder can tell (127 times what they count), the largest is written, and the new
   entries are left without keys; else -1. */
EXPORTED void keep_chunks(const Keys *keys, const Held *held, int64_t key_columns, const int64_t *holder,
                          const int64_t *start, const double *unit, int64_t sentences, const int64_t *entry, int64_t count,
                          int64_t chunk, const int64_t *end, int64_t pairs, int64_t *fresh, double *larger)
{
    for (long s = 0; s < sentences; s++) {
        const long u = holder[s];
        int64_t *mine = held->entry + u * held->room + start[s];
        fresh[s] = mark_chunks(held->table + u * held->places, held->places, entry + s * count, count, chunk, end, pairs, mine);
        const double largest = largest_of(keys, key_columns, mine, fresh[s]);
        larger[s] = unit[s] == 0.0 || largest / 127.0 > unit[s] ? largest : -1.0;
        if (larger[s] < 0.0)
            hold_entries(held->key + u * held->room * held->columns, held->half + u * held->room, held->columns, start[s],
                         keys, key_columns, mine, fresh[s], (float)unit[s]);
    }
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

SHARED void nearest_of(const Keys *keys, const float *query, long columns, const int64_t *candidate, long candidates,
                       long k, int64_t *entry, float *distance)
{
    long count = 0;
    for (long c = -AHEAD; c < candidates; c++) {
        if (c + AHEAD < candidates && candidate[c + AHEAD] >= 0)
            prefetch(key_of(keys, candidate[c + AHEAD]), columns);
        const int64_t number = c < 0 ? -1 : candidate[c];
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

/* The same for the candidates [B, X] of each row. */
EXPORTED void nearest(const Keys *keys, const float *query, int64_t stride, int64_t columns, int64_t rows,
                      const int64_t *candidate, int64_t candidates, int64_t k, int64_t *entry, float *distance)
{
    for (long row = 0; row < rows; row++)
        nearest_of(keys, query + row * stride, columns, candidate + row * candidates, candidates, k, entry + row * k,
                   distance + row * k);
}

/* The neighbours of rows among what their sentences hold: `nominate`, then `nearest`, as distances that are not squared.
   Rows of the sentence in place `place[h]`, which `holder[h]` holds for, are `rows` from place * rows on. */
EXPORTED void recall(const Keys *keys, const uint8_t *key, const int32_t *half, const int64_t *name, int64_t room,
                     int64_t held_columns, const int64_t *holder, const float *unit, const int64_t *end,
                     const int64_t *place, int64_t holders, int64_t rows, const float *query, int64_t stride,
                     int64_t columns, int64_t count, int64_t k, int64_t *entry, float *distance, char *meanwhile)
{
    int64_t *candidate = (int64_t *)(meanwhile + shortlist_room(count));
    int8_t *number = (int8_t *)(candidate + count);
    for (long h = 0; h < holders; h++) {
        const long u = holder[h];
        const Numbers held = {key + u * room * held_columns, half + u * room, held_columns, end[h]};
        for (long first = place[h] * rows, last = first + rows; first < last; first += ROWS) {
            const int some = (int)smaller(ROWS, last - first);
            Shortlist best[ROWS];
            for (int r = 0; r < some; r++)
                round_query(query + (first + r) * stride, held_columns, unit[h], number + r * held_columns);
            shortlist(&held, number, some, count, best, meanwhile);
            for (int r = 0; r < some; r++) {
                const long row = first + r;
                for (long i = 0; i < best[r].count; i++)
                    candidate[i] = name[u * room + best[r].place[i]];
                nearest_of(keys, query + row * stride, columns, candidate, best[r].count, k, entry + row * k,
                           distance + row * k);
                for (long i = 0; i < k; i++)
                    distance[row * k + i] = sqrtf(distance[row * k + i]);
            }
        }
    }
}

#endif
