/* Sums, norms and activations of layers. */

#include "blocks.h"

#if NEARMT_KERNELS

SHARED void add(float *hidden, const float *addend, long count)
{
    for (long i = 0; i < count; i++)
        hidden[i] += addend[i];
}

SHARED void normalise(const Norm *norm, const float *input, long rows, long width, float *output)
{
    for (long row = 0; row < rows; row++, input += width, output += width) {
        __m512 sum = _mm512_setzero_ps();
        for (long i = 0; i < width; i += LANES)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(first_lanes(width - i), input + i));
        const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / (float)width);
        __m512 square = _mm512_setzero_ps();
        for (long i = 0; i < width; i += LANES) {
            const __mmask16 there = first_lanes(width - i);
            const __m512 off = _mm512_maskz_sub_ps(there, _mm512_maskz_loadu_ps(there, input + i), mean);
            square = _mm512_fmadd_ps(off, off, square);
        }
        const float variance = _mm512_reduce_add_ps(square) / (float)width;
        const __m512 factor = _mm512_set1_ps(1.0f / sqrtf(variance + (float)norm->epsilon));
        for (long i = 0; i < width; i += LANES) {
            const __mmask16 there = first_lanes(width - i);
            const __m512 off = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, input + i), mean);
            const __m512 gain = _mm512_mul_ps(factor, _mm512_maskz_loadu_ps(there, norm->gain + i));
            const __m512 shift = _mm512_maskz_loadu_ps(there, norm->shift + i);
            _mm512_mask_storeu_ps(output + i, there, _mm512_fmadd_ps(off, gain, shift));
        }
    }
}

SHARED void activate(long kind, float *number, long count)
{
    for (long i = 0; i < count; i += LANES) {
        const __mmask16 there = first_lanes(count - i);
        __m512 x = _mm512_maskz_loadu_ps(there, number + i);
        if (kind == RELU) {
            x = _mm512_max_ps(x, _mm512_setzero_ps());
        } else if (kind == SILU) {
            const __m512 one = _mm512_set1_ps(1.0f);
            x = _mm512_div_ps(x, _mm512_add_ps(one, exponential(_mm512_sub_ps(_mm512_setzero_ps(), x))));
        } else {
            float each[LANES];
            _mm512_storeu_ps(each, x);
            for (int lane = 0; lane < LANES; lane++)
                each[lane] = 0.5f * each[lane] * (1.0f + erff(each[lane] * 0.70710678f));
            x = _mm512_loadu_ps(each);
        }
        _mm512_mask_storeu_ps(number + i, there, x);
    }
}

#endif
