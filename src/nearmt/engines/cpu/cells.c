/* Neighbours in the inverted lists (cells) of an index: codes are 8-bit numbers plus 128, one row a code. */

#include "nearest.h"

#include <string.h>

#if NEARMT_KERNELS

/* Codes that are compared together. */
#define CODES 4

/* Compute halves of the squared lengths of all codes. */
EXPORTED void measure_cells(const Cells *cells)
{
    for (long cell = 0; cell < cells->cells; cell++) {
        const uint8_t *code = cells->code[cell];
        for (long i = 0; i < cells->size[cell]; i++, code += cells->columns) {
            int32_t square = 0;
            for (long d = 0; d < cells->columns; d++)
                square += (code[d] - 128) * (code[d] - 128);
            cells->half[cell][i] = square / 2;
        }
    }
}

/* The horizontal sums of four vectors. */
INLINED __m128i sums_of(const __m512i part[CODES])
{
    __m256i half[CODES];
#pragma GCC unroll 4
    for (int i = 0; i < CODES; i++)
        half[i] = _mm256_add_epi32(_mm512_castsi512_si256(part[i]), _mm512_extracti64x4_epi64(part[i], 1));
    const __m256i both = _mm256_hadd_epi32(_mm256_hadd_epi32(half[0], half[1]), _mm256_hadd_epi32(half[2], half[3]));
    return _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}

/* Compare a row with `count` codes, at most four; the best by q . k - |k|^2 / 2 are kept. */
INLINED void compare(const uint8_t *code, const int32_t *half, const int64_t *entry, long count, long columns,
                     const int8_t *query, Best *best)
{
    __m512i part[CODES];
#pragma GCC unroll 4
    for (int i = 0; i < CODES; i++)
        part[i] = _mm512_setzero_si512();
    for (long d = 0; d < columns; d += 64) {
        const __mmask64 there = columns - d >= 64 ? ~0ull : (1ull << (columns - d)) - 1;
        const __m512i number = _mm512_maskz_loadu_epi8(there, query + d);
#pragma GCC unroll 4
        for (int i = 0; i < CODES; i++)
            part[i] = _mm512_dpbusd_epi32(part[i], _mm512_maskz_loadu_epi8(i < count ? there : 0, code + i * columns + d), number);
    }
    const __mmask8 all = (__mmask8)((1 << count) - 1);
    const __m128i score = _mm_sub_epi32(sums_of(part), _mm_maskz_loadu_epi32(all, half));
    unsigned better = all;
    if (is_full(best))
        better &= _mm_cmpgt_epi32_mask(score, _mm_set1_epi32(bar(best)));
    if (!better)
        return;
    int32_t each[CODES];
    _mm_storeu_si128((__m128i *)each, score);
    for (; better; better &= better - 1)
        offer(best, each[__builtin_ctz(better)], (int32_t)entry[__builtin_ctz(better)]);
}

/* Bytes of `scan_cells`'s scratch buffer. */
EXPORTED int64_t scan_scratch(const Cells *cells, int64_t rows, int64_t probes, int64_t count)
{
    return rows * (long)sizeof(Best) + (cells->cells + 1 + rows * probes + 2 * rows * count) * (long)sizeof(int32_t);
}

/* For each row [B, D] of integers: the nearest entries in its cells [B, P] (-1: none), [B, count], and their squared
   distances, padded with -1 and infinity. A cell is read once, however many rows probe it. */
EXPORTED void scan_cells(const Cells *cells, const int8_t *query, int64_t rows, const int64_t *cell, int64_t probes,
                         int64_t count, int64_t *entry, float *distance, char *scratch)
{
    Best *best = (Best *)scratch;
    int32_t *end = (int32_t *)(best + rows), *row_list = end + cells->cells + 1, *list = row_list + rows * probes;
    for (long row = 0; row < rows; row++)
        best[row] = (Best){0, count, list + 2 * row * count, list + (2 * row + 1) * count};
    /* Sort rows by cell: first the ends of cells, then the rows. */
    memset(end, 0, (cells->cells + 1) * sizeof(int32_t));
    for (long i = 0; i < rows * probes; i++)
        if (cell[i] >= 0)
            end[cell[i] + 1]++;
    for (long c = 0; c < cells->cells; c++)
        end[c + 1] += end[c];
    for (long i = 0; i < rows * probes; i++)
        if (cell[i] >= 0)
            row_list[end[cell[i]]++] = (int32_t)(i / probes);
    for (long c = 0, first = 0; c < cells->cells; first = end[c], c++) {
        if (first == end[c])
            continue;
        for (long i = 0; i < cells->size[c]; i += CODES) {
            const uint8_t *code = cells->code[c] + i * cells->columns;
            _mm_prefetch((const char *)(code + 4 * CODES * cells->columns), _MM_HINT_T0);
            for (long v = first; v < end[c]; v++)
                compare(code, cells->half[c] + i, cells->entry[c] + i, smaller(CODES, cells->size[c] - i), cells->columns,
                        query + row_list[v] * cells->columns, best + row_list[v]);
        }
    }
    for (long row = 0; row < rows; row++) {
        int32_t length = 0, shift = 0;
        for (long d = 0; d < cells->columns; d++) {
            const int32_t number = query[row * cells->columns + d];
            length += number * number;
            shift += 128 * number;
        }
        for (long i = 0; i < count; i++) {
            const int found = i < best[row].count;
            entry[row * count + i] = found ? best[row].index[i] : -1;
            /* Halves of squared lengths are rounded down. */
            const int32_t square = length - 2 * (best[row].score[i] - shift);
            distance[row * count + i] = !found ? INFINITY : square > 0 ? (float)square : 0.0f;
        }
    }
}

/* Bytes of `search_cells`'s scratch buffer. */
EXPORTED int64_t search_scratch(const Cells *cells, int64_t rows, int64_t probes, int64_t wanted)
{
    const long searched = rows * (probes * (long)sizeof(int64_t) + wanted * (long)(sizeof(int64_t) + sizeof(float)) + cells->columns);
    return searched + 64 + scan_scratch(cells, rows, probes, wanted) + shortlist_scratch(probes);
}

/* Cells that are probed however far they are: the nearest may have few entries. As in shared.py. */
#define LEAST_CELLS 4

/* The cells with the nearest centres for each of at most ROWS rows, [., probes], padded with -1. Beyond the first
   LEAST_CELLS, a centre's squared distance is at most `reach` times that of the nearest (0: no limit). */
LOCAL void assign(const Numbers *centres, const int8_t *query, int rows, long probes, float reach, int64_t *cell, char *scratch)
{
    Shortlist best[ROWS];
    shortlist(centres, query, rows, probes, best, scratch);
    for (int r = 0; r < rows; r++, query += centres->columns, cell += probes) {
        int32_t length = 0, shift = 0, score[LEAST_CELLS], index[LEAST_CELLS];
        Best least = {0, LEAST_CELLS, score, index};
        for (long d = 0; d < centres->columns; d++) {
            length += query[d] * query[d];
            shift += 128 * query[d];
        }
        for (long i = 0; i < best[r].count; i++)
            offer(&least, best[r].score[i], best[r].index[i]);
        const float nearest = fmaxf(0.0f, (float)(length - 2 * (score[0] - shift)));
        const int32_t enough = score[least.count - 1];
        for (long i = 0; i < probes; i++) {
            const int found = i < best[r].count;
            const float far = found ? fmaxf(0.0f, (float)(length - 2 * (best[r].score[i] - shift))) : 0.0f;
            cell[i] = found && (reach <= 0.0f || far <= nearest * reach || best[r].score[i] >= enough) ? best[r].index[i] : -1;
        }
    }
}

/* The k nearest entries of some rows of queries [B, D] (`row_of` NULL: of the first rows): `wanted` candidates from the
   nearest cells by codes in multiples of `unit`, ranked by the stored keys. Results are written to the same rows
   [B, width], padded with -1 and infinity. Returns how many rows have fewer than k. */
EXPORTED int64_t search_cells(const Cells *cells, const Keys *keys, const uint8_t *centre, const int32_t *half, float unit,
                              int64_t probes, float reach, int64_t wanted, const float *query, int64_t stride,
                              const int64_t *row_of, int64_t rows, int64_t k, int64_t width, int64_t *entry,
                              float *distance, char *scratch)
{
    int64_t fewer = 0;
    const long columns = cells->columns;
    const Numbers centres = {centre, half, columns, cells->cells};
    int64_t *cell = (int64_t *)scratch, *candidate = cell + rows * probes;
    float *coded = (float *)(candidate + rows * wanted);
    int8_t *number = (int8_t *)(coded + rows * wanted);
    char *inner = (char *)(((uintptr_t)(number + rows * columns) + 63) / 64 * 64);
    for (long row = 0; row < rows; row++)
        round_query(query + (row_of ? row_of[row] : row) * stride, columns, unit, number + row * columns);
    for (long first = 0; first < rows; first += ROWS)
        assign(&centres, number + first * columns, (int)smaller(ROWS, rows - first), probes, reach,
               cell + first * probes, inner);
    scan_cells(cells, number, rows, cell, probes, wanted, candidate, coded, inner);
    for (long row = 0; row < rows; row++) {
        const long mine = row_of ? row_of[row] : row;
        int64_t *found = entry + mine * width;
        nearest_of(keys, query + mine * stride, columns, candidate + row * wanted, wanted, k, found, distance + mine * width);
        fewer += found[k - 1] < 0;
        for (long i = k; i < width; i++) {
            found[i] = -1;
            distance[mine * width + i] = INFINITY;
        }
    }
    return fewer;
}

#endif
