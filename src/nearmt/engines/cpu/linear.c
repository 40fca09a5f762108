/* Products of few rows with many weights; every weight is read once. */

#include "kernels.h"

#if NEARMT_KERNELS

/* Outputs that are computed together, four vectors; weights are stored in panels of this many outputs. */
#define PANEL 64

/* Rows whose sums are kept in registers, 4 vectors each, along with 4 vectors of weights. With more rows compilers spill
   registers, and 4 keep the multipliers busy. */
#define ROWS 4
/* Rows that are multiplied with all weights before the next rows are: they stay in the processor's cache. */
#define MANY_ROWS 256

/* Rows of inputs as integers, the unit of each row, and 128 times the sum of its integers. */
typedef struct {
    int8_t *number;
    float *unit;
    int32_t *shift;
    long width;
} Rounded;

INLINED long padded(long inputs) { return parts_of(inputs, 64) * 64; }

LOCAL Rounded rounded_in(char *scratch, long inputs, long rows)
{
    Rounded rounded = {.width = padded(inputs)};
    rounded.number = (int8_t *)scratch;
    rounded.unit = (float *)(scratch + rows * rounded.width);
    rounded.shift = (int32_t *)(rounded.unit + rows);
    return rounded;
}

/* Bytes of `linear`'s scratch buffer. */
EXPORTED int64_t linear_scratch(const Linear *layer, int64_t rows)
{
    return layer->scale ? smaller(rows, MANY_ROWS) * (padded(layer->inputs) + 8) : 0;
}

/* Rows are scaled one by one, so that a sentence does not depend on the rest of its batch. */
LOCAL void round_rows(const float *input, long inputs, long rows, Rounded to)
{
    for (long row = 0; row < rows; row++, input += inputs) {
        __m512 most = _mm512_setzero_ps();
        for (long i = 0; i < inputs; i += LANES)
            most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_maskz_loadu_ps(first_lanes(inputs - i), input + i)));
        const float top = _mm512_reduce_max_ps(most);
        const __m512 factor = _mm512_set1_ps(top > 0 ? 127.0f / top : 0.0f);
        __m512i sum = _mm512_setzero_si512();
        int8_t *number = to.number + row * to.width;
        for (long i = 0; i < to.width; i += LANES) {
            const __mmask16 there = i < inputs ? first_lanes(inputs - i) : 0;
            const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(there, input + i), factor));
            sum = _mm512_add_epi32(sum, whole);
            _mm_storeu_si128((__m128i *)(number + i), _mm512_cvtsepi32_epi8(whole));
        }
        to.unit[row] = top / 127.0f;
        to.shift[row] = 128 * _mm512_reduce_add_epi32(sum);
    }
}

/* The sums of some rows with one panel, as floats, with scale and bias; `rows` is known when this is compiled. */
INLINED void store_sums(const Linear *layer, long panel, const int rows, __m512 sum[ROWS][4], float *output)
{
    for (int v = 0; v < 4; v++) {
        const long first = panel * PANEL + v * LANES;
        if (first >= layer->outputs)
            break;
        const __mmask16 there = first_lanes(layer->outputs - first);
        const __m512 bias = layer->bias ? _mm512_loadu_ps(layer->bias + first) : _mm512_setzero_ps();
        for (int r = 0; r < rows; r++)
            _mm512_mask_storeu_ps(output + r * layer->outputs + first, there, _mm512_add_ps(sum[r][v], bias));
    }
}

INLINED void rounded_block(const Linear *layer, long panel, const int rows, Rounded input, float *output)
{
    const long quads = parts_of(layer->inputs, 4);
    const uint8_t *weight = (const uint8_t *)layer->panels + panel * quads * PANEL * 4;
    __m512i sum[ROWS][4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            sum[r][v] = _mm512_set1_epi32(-input.shift[r]);
    for (long quad = 0; quad < quads; quad++, weight += PANEL * 4) {
        __m512i part[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            part[v] = _mm512_loadu_si512(weight + v * 64);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const __m512i four = four_bytes(input.number + r * input.width + quad * 4);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], part[v], four);
        }
    }
    __m512 scaled[ROWS][4];
    for (int v = 0; v < 4; v++) {
        const __m512 scale = _mm512_loadu_ps(layer->scale + panel * PANEL + v * LANES);
        for (int r = 0; r < rows; r++)
            scaled[r][v] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r][v]), _mm512_mul_ps(scale, _mm512_set1_ps(input.unit[r])));
    }
    store_sums(layer, panel, rows, scaled, output);
}

INLINED void float_block(const Linear *layer, long panel, const int rows, const float *input, float *output)
{
    const float *weight = (const float *)layer->panels + panel * layer->inputs * PANEL;
    __m512 sum[ROWS][4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            sum[r][v] = _mm512_setzero_ps();
    for (long i = 0; i < layer->inputs; i++, weight += PANEL) {
        __m512 part[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            part[v] = _mm512_loadu_ps(weight + v * LANES);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const __m512 one = _mm512_set1_ps(input[r * layer->inputs + i]);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++)
                sum[r][v] = _mm512_fmadd_ps(part[v], one, sum[r][v]);
        }
    }
    store_sums(layer, panel, rows, sum, output);
}

/* Calls a block for some rows, at most four, with a number that the compiler knows. */
#define FOR_ROWS(count, block, ...)                \
    switch (count) {                               \
    case 1: block(1, __VA_ARGS__); break;          \
    case 2: block(2, __VA_ARGS__); break;          \
    case 3: block(3, __VA_ARGS__); break;          \
    default: block(4, __VA_ARGS__); break;         \
    }
#define ROUNDED_BLOCK(rows, ...) rounded_block(layer, panel, rows, __VA_ARGS__)
#define FLOAT_BLOCK(rows, ...) float_block(layer, panel, rows, __VA_ARGS__)

LOCAL void some_rows(const Linear *layer, const float *input, long rows, float *output, char *scratch)
{
    Rounded all = {0};
    if (layer->scale) {
        all = rounded_in(scratch, layer->inputs, rows);
        round_rows(input, layer->inputs, rows, all);
    }
    const long blocks = parts_of(rows, ROWS);
    for (long panel = 0; panel * PANEL < layer->outputs; panel++) {
        for (long block = 0, first = 0; block < blocks; block++) {
            /* Blocks of nearly equal size. */
            const long count = parts_of(rows - first, blocks - block);
            float *to = output + first * layer->outputs;
            if (layer->scale) {
                const Rounded part = {all.number + first * all.width, all.unit + first, all.shift + first, all.width};
                FOR_ROWS(count, ROUNDED_BLOCK, part, to)
            } else {
                const float *from = input + first * layer->inputs;
                FOR_ROWS(count, FLOAT_BLOCK, from, to)
            }
            first += count;
        }
    }
}

/* Rows [B, I] to [B, O]. */
EXPORTED void linear(const Linear *layer, const float *input, int64_t rows, float *output, char *scratch)
{
    for (long first = 0; first < rows; first += MANY_ROWS)
        some_rows(layer, input + first * layer->inputs, smaller(rows - first, MANY_ROWS),
                  output + first * layer->outputs, scratch);
}

#endif
