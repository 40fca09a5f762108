/* Vectors of sixteen floats, for processors with AVX-512 and VNNI; elsewhere nothing is compiled.

   Shapes in comments: B rows, S slots (sentences) of a batch, R rows of a slot, A heads, D size of a head or columns of a
   key, H hidden size. */

#ifndef NEARMT_SIMD_H
#define NEARMT_SIMD_H

#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define NEARMT_KERNELS 1
#else
#define NEARMT_KERNELS 0
#endif

#if NEARMT_KERNELS

#include <immintrin.h>
#include <math.h>

#define LANES 16

/* All functions are compiled for these processors, whatever the compiler flags: EXPORTED ones are called by Python, SHARED
   ones by other files, LOCAL ones within a file, and INLINED ones are always inlined. */
#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")))
#define EXPORTED __attribute__((visibility("default"))) WIDE
#define SHARED WIDE
#define LOCAL static WIDE
#define INLINED static inline __attribute__((always_inline)) WIDE

INLINED long smaller(long a, long b) { return a < b ? a : b; }

/* a / b, rounded up. */
INLINED long parts_of(long a, long b) { return (a + b - 1) / b; }

/* Four bytes in each lane. */
INLINED __m512i four_bytes(const void *from)
{
    int32_t four;
    __builtin_memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

/* A mask of the first `count` lanes, at most sixteen. */
INLINED __mmask16 first_lanes(long count) { return count >= LANES ? 0xFFFF : (__mmask16)((1u << count) - 1); }

/* e^x to the last bit or two: 2^n times the Taylor series of the remainder, which is less than ln 2 / 2. */
INLINED __m512 exponential(__m512 x)
{
    x = _mm512_max_ps(_mm512_min_ps(x, _mm512_set1_ps(88.0f)), _mm512_set1_ps(-104.0f));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 8);
    /* ln 2 in two parts; the first has few digits, so that its product with n is exact. */
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 sum = _mm512_set1_ps(1.0f / 5040);
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 720));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 120));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 24));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 6));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(0.5f));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(sum, n);
}

#else

#define EXPORTED

#endif
#endif
