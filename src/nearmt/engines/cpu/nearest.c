/* Nearest neighbours: nominated by a few columns as 8-bit numbers, then ranked by the stored keys. */

#include "nearest.h"

#if NEARMT_KERNELS

INLINED const uint16_t *key_of(const Keys *keys, int64_t entry)
{
    long segment = 0;
    while (segment + 1 < keys->segments && entry >= keys->start[segment + 1])
        segment++;
    return keys->key[segment] + (entry - keys->start[segment]) * keys->columns;
}

/* Bytes of a cache line, and how many keys ahead are prefetched. */
#define LINE 64
#define AHEAD 4

INLINED void prefetch(const uint16_t *key, long columns)
{
    for (long byte = 0; byte < 2 * columns; byte += LINE)
        _mm_prefetch((const char *)key + byte, _MM_HINT_T0);
}

/* `shortlist` for a compile-time number of rows. */
INLINED void compare_rows(const int rows, const Numbers *keys, const int8_t *query, Shortlist best[ROWS])
{
    const long quads = keys->columns / 4;
    const uint8_t *key = keys->key;
    for (long first = 0; first < keys->end; first += LANES, key += quads * 64) {
        const __m512i offset = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(keys->half + first));
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
        const __mmask16 there = first_lanes(keys->end - first);
        for (int r = 0; r < rows; r++)
            append_better(best + r, sum[r], there, first);
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

/* Capacity of a list before it is pruned; a vector more fits behind it. */
INLINED long list_capacity(long count) { return 2 * count + 64; }

SHARED long shortlist_scratch(long count) { return ROWS * 2 * (list_capacity(count) + LANES) * (long)sizeof(int32_t); }

SHARED void shortlist(const Numbers *keys, const int8_t *query, int rows, long count, Shortlist best[ROWS], char *scratch)
{
    int32_t *list = (int32_t *)scratch;
    for (int r = 0; r < rows; r++, list += 2 * (list_capacity(count) + LANES))
        best[r] = (Shortlist){0, count, list_capacity(count), INT32_MIN, list, list + list_capacity(count) + LANES};
    switch (rows) {
    case 1: compare_rows(1, keys, query, best); break;
    case 2: compare_rows(2, keys, query, best); break;
    case 3: compare_rows(3, keys, query, best); break;
    case 4: compare_rows(4, keys, query, best); break;
    default: compare_rows(5, keys, query, best); break;
    }
    for (int r = 0; r < rows; r++)
        prune(best + r);
}

/* Bytes of the scratch buffers of `nominate` and `recall`. */
EXPORTED int64_t nominate_scratch(int64_t columns, int64_t count)
{
    return shortlist_scratch(count) + count * (long)sizeof(int64_t) + ROWS * columns;
}

/* For `rows` queries of each of some sentence caches: the `count` keys likely to be nearest, unordered. All caches U have
   keys [U, capacity / 16, N / 4, 16, 4] and halves of their squared lengths [U, capacity]; the caches that are read have a
   unit and a number of keys each. `entry` [U, capacity] are the entries of keys; `found` gets those of the nominated keys.
   Scores are too large by 128 times the sum of the query. */
EXPORTED void nominate(const uint8_t *key, const int32_t *half, int64_t capacity, int64_t columns, const int64_t *cache,
                       const float *unit, const int64_t *end, int64_t caches, int64_t rows, const float *query,
                       int64_t stride, int64_t count, const int64_t *entry, int64_t *found, int32_t *scores,
                       char *scratch)
{
    int8_t *number = (int8_t *)(scratch + shortlist_scratch(count));
    for (long h = 0; h < caches; h++) {
        const long u = cache[h];
        const Numbers cached = {key + u * capacity * columns, half + u * capacity, columns, end[h]};
        for (long first = 0; first < rows; first += ROWS) {
            const int some = (int)smaller(ROWS, rows - first);
            Shortlist best[ROWS];
            for (int r = 0; r < some; r++)
                round_query(query + (h * rows + first + r) * stride, columns, unit[h], number + r * columns);
            shortlist(&cached, number, some, count, best, scratch);
            for (int r = 0; r < some; r++) {
                const long row = (h * rows + first + r) * count;
                for (long i = 0; i < count; i++) {
                    found[row + i] = entry[u * capacity + best[r].index[i]];
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

/* Write a key as integers to a cache, and half its squared length. It may have fewer columns than the cache, whose columns
   are padded to a multiple of 4. */
INLINED void write_key(uint8_t *key, int32_t *half, long columns, long index, const void *given, long given_columns,
                       float unit, const int halves)
{
    uint8_t *to = key + index / LANES * LANES * columns + index % LANES * 4;
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
    half[index] = _mm512_reduce_add_epi32(square) / 2;
}

/* Write keys to a cache from index `start` on, rounded to multiples of a unit, and halves of their squared lengths. */
EXPORTED void write_keys(uint8_t *key, int32_t *half, int64_t columns, int64_t start, const float *given, int64_t count,
                         float unit)
{
    for (long x = 0; x < count; x++)
        write_key(key, half, columns, start + x, given + x * columns, columns, unit, 0);
}

/* The same for entries, from the first columns of their stored keys. */
EXPORTED void write_entry_keys(uint8_t *key, int32_t *half, int64_t columns, int64_t start, const Keys *keys,
                               int64_t key_columns, const int64_t *entry, int64_t count, float unit)
{
    for (long x = 0; x < count; x++)
        write_key(key, half, columns, start + x, key_of(keys, entry[x]), key_columns, unit, 1);
}

/* The largest magnitude in the first columns of some entries' keys. */
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

/* Insert an entry into a hash table, whose size is a power of two and larger than its content. Returns whether it is new.
   The table contains entries plus 1. */
INLINED int is_new(int32_t *table, int64_t size, int64_t entry)
{
    const int32_t mine = (int32_t)entry + 1;
    uint64_t at = ((uint64_t)mine * 0x9E3779B97F4A7C15ull >> 32) & (uint64_t)(size - 1);
    while (table[at] && table[at] != mine)
        at = (at + 1) & (uint64_t)(size - 1);
    if (table[at])
        return 0;
    table[at] = mine;
    return 1;
}

/* Insert entries (-1: none) into a hash table. Writes the new ones, in their order, and returns their number. */
EXPORTED int64_t mark(int32_t *table, int64_t size, const int64_t *entry, int64_t count, int64_t *fresh)
{
    long found = 0;
    for (long x = 0; x < count; x++)
        if (entry[x] >= 0 && is_new(table, size, entry[x]))
            fresh[found++] = entry[x];
    return found;
}

/* The same for up to `chunk` entries from each of these on, up to the end of its pair; `end` [P] are the ends of pairs. */
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

/* Append to each sentence's cache the entries of the chunks that begin with these entries [S, X] (-1: none) and that it
   does not have yet. Of each sentence: its cache, its number of entries and its unit. Writes the number of new entries.
   Where keys exceed 127 units, writes their largest magnitude to `larger` and no keys; else -1. */
EXPORTED void append_chunks(const Keys *keys, const Caches *caches, int64_t key_columns, const int64_t *cache,
                            const int64_t *start, const double *unit, int64_t sentences, const int64_t *entry, int64_t count,
                            int64_t chunk, const int64_t *end, int64_t pairs, int64_t *fresh, double *larger)
{
    for (long s = 0; s < sentences; s++) {
        const long u = cache[s];
        int64_t *mine = caches->entry + u * caches->capacity + start[s];
        int32_t *table = caches->table + u * caches->table_size;
        fresh[s] = mark_chunks(table, caches->table_size, entry + s * count, count, chunk, end, pairs, mine);
        const double largest = largest_of(keys, key_columns, mine, fresh[s]);
        larger[s] = unit[s] == 0.0 || largest / 127.0 > unit[s] ? largest : -1.0;
        if (larger[s] < 0.0)
            write_entry_keys(caches->key + u * caches->capacity * caches->columns, caches->half + u * caches->capacity,
                             caches->columns, start[s], keys, key_columns, mine, fresh[s], (float)unit[s]);
    }
}

/* By differences, which is exact for small distances, too. NaN becomes infinity, so that distances have an order. */
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

/* `nearest_of` for the candidates [B, X] of each row. */
EXPORTED void nearest(const Keys *keys, const float *query, int64_t stride, int64_t columns, int64_t rows,
                      const int64_t *candidate, int64_t candidates, int64_t k, int64_t *entry, float *distance)
{
    for (long row = 0; row < rows; row++)
        nearest_of(keys, query + row * stride, columns, candidate + row * candidates, candidates, k, entry + row * k,
                   distance + row * k);
}

/* The nearest entries of rows in the caches of their sentences: `nominate`, then `nearest`; distances are not squared.
   The sentence in slot `slot[h]` uses `cache[h]` and has `rows` rows. */
EXPORTED void recall(const Keys *keys, const uint8_t *key, const int32_t *half, const int64_t *cached_entry,
                     int64_t capacity, int64_t cached_columns, const int64_t *cache, const float *unit, const int64_t *end,
                     const int64_t *slot, int64_t caches, int64_t rows, const float *query, int64_t stride,
                     int64_t columns, int64_t count, int64_t k, int64_t *entry, float *distance, char *scratch)
{
    int64_t *candidate = (int64_t *)(scratch + shortlist_scratch(count));
    int8_t *number = (int8_t *)(candidate + count);
    for (long h = 0; h < caches; h++) {
        const long u = cache[h];
        const Numbers cached = {key + u * capacity * cached_columns, half + u * capacity, cached_columns, end[h]};
        for (long first = slot[h] * rows, last = first + rows; first < last; first += ROWS) {
            const int some = (int)smaller(ROWS, last - first);
            Shortlist best[ROWS];
            for (int r = 0; r < some; r++)
                round_query(query + (first + r) * stride, cached_columns, unit[h], number + r * cached_columns);
            shortlist(&cached, number, some, count, best, scratch);
            for (int r = 0; r < some; r++) {
                const long row = first + r;
                for (long i = 0; i < best[r].count; i++)
                    candidate[i] = cached_entry[u * capacity + best[r].index[i]];
                nearest_of(keys, query + row * stride, columns, candidate, best[r].count, k, entry + row * k,
                           distance + row * k);
                for (long i = 0; i < k; i++)
                    distance[row * k + i] = sqrtf(distance[row * k + i]);
            }
        }
    }
}

#endif
