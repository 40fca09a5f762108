/* From logits to candidates: normalisation, mixing with neighbours, and the best continuations. */

#include "kernels.h"

#if NEARMT_KERNELS

/* log sum exp(logit) of each row. */
EXPORTED void log_of_sum(const float *logits, int64_t stride, int64_t rows, int64_t vocabulary, float *sum_B)
{
    for (long row = 0; row < rows; row++, logits += stride) {
        __m512 top = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
        for (long v = 0; v < vocabulary; v += LANES) {
            const __mmask16 there = first_lanes(vocabulary - v);
            top = _mm512_mask_max_ps(top, there, top, _mm512_maskz_loadu_ps(there, logits + v));
        }
        const float most = _mm512_reduce_max_ps(top);
        for (long v = 0; v < vocabulary; v += LANES) {
            const __mmask16 there = first_lanes(vocabulary - v);
            const __m512 off = _mm512_sub_ps(_mm512_maskz_loadu_ps(there, logits + v), _mm512_set1_ps(most));
            sum = _mm512_mask_add_ps(sum, there, sum, exponential(off));
        }
        sum_B[row] = isinf(most) ? most : most + logf(_mm512_reduce_add_ps(sum));
    }
}

/* log(exp(a) + exp(b)). */
INLINED float log_of_both(float a, float b)
{
    const float higher = a > b ? a : b, lower = a > b ? b : a;
    return higher == -INFINITY ? higher : higher + log1pf(expf(lower - higher));
}

/* log((1 - share) p_NMT + share p_kNN), equation 3, for the K tokens of neighbours; `weight` are their shares of p_kNN.
   Changes the logits in place, and the offset of the row. A share of 0 changes nothing. */
EXPORTED void mix(float *logits, int64_t stride, int64_t rows, int64_t vocabulary, const int64_t *token,
                  const float *weight, int64_t k, const float *share, float *offset)
{
    for (long row = 0; row < rows; row++, logits += stride, token += k, weight += k) {
        if (share[row] == 0.0f)
            continue;
        if (share[row] == 1.0f) { /* the model's share is log 0, which an offset cannot express */
            for (long v = 0; v < vocabulary; v++)
                logits[v] = -INFINITY;
            offset[row] = 0.0f;
        } else {
            offset[row] += log1pf(-share[row]);
        }
        for (long i = 0; i < k; i++) {
            /* Neighbours with the same token are summed at the first of them. */
            float probability = 0.0f;
            long first = 0;
            while (token[first] != token[i])
                first++;
            if (first < i)
                continue;
            for (long j = i; j < k; j++)
                probability += token[j] == token[i] ? weight[j] : 0.0f;
            if (probability > 0.0f)
                logits[token[i]] = log_of_both(logits[token[i]], logf(share[row] * probability) - offset[row]);
        }
    }
}

/* Shares of p_kNN, equation 2: exp(-d / T), normalised; 0 for padding. Returns whether there is any neighbour. */
LOCAL int weigh(const float *distance, long k, float temperature, float *weight)
{
    float least = INFINITY, sum = 0.0f;
    for (long i = 0; i < k; i++)
        least = distance[i] < least ? distance[i] : least;
    if (least == INFINITY)
        return 0;
    for (long i = 0; i < k; i++)
        sum += weight[i] = expf((least - distance[i]) / temperature);
    for (long i = 0; i < k; i++)
        weight[i] /= sum;
    return 1;
}

/* Neighbours keep these shares of their weights; the rest goes to the model. Returns the factor of lambda that remains. */
LOCAL float keep(const float *agreement, long k, float *weight)
{
    float kept = 0.0f;
    int changed = 0;
    for (long i = 0; i < k; i++) {
        changed |= agreement[i] < 1.0f && weight[i] > 0.0f;
        weight[i] *= agreement[i];
        kept += weight[i];
    }
    if (!changed)
        return 1.0f;
    for (long i = 0; i < k && kept > 0.0f; i++)
        weight[i] /= kept;
    return kept < 1.0f ? kept : 1.0f; /* sums are rounded */
}

/* The shares of neighbours that would end the sentence and are farther than `near` go to the model. Returns the factor of
   lambda that remains. */
LOCAL float drop_far_ends(const int64_t *token, const float *distance, long k, int64_t end, float near, float *weight)
{
    float kept = 0.0f, left = 0.0f;
    for (long i = 0; i < k; i++) {
        if (token[i] == end && distance[i] > near) {
            left += weight[i];
            weight[i] = 0.0f;
        }
        kept += weight[i];
    }
    if (left == 0.0f)
        return 1.0f;
    for (long i = 0; i < k && kept > 0.0f; i++)
        weight[i] /= kept;
    return kept < 1.0f ? kept : 1.0f; /* sums are rounded */
}

/* Equations 2 and 3 for neighbours as they were retrieved: tokens [B, K], distances (infinite for padding), and the
   origin of each row. `agreement` [B, K] is the share of its weight that each neighbour keeps, NULL for 1; `trust`
   multiplies lambda of each row, NULL for 1. `weight` is a scratch buffer of K floats. */
EXPORTED void mix_neighbours(const Mixing *mixing, float *logits, int64_t stride, int64_t rows, int64_t vocabulary,
                             const int64_t *token, const float *distance, const float *agreement, int64_t k,
                             const int64_t *asked, const float *trust, float *offset, float *weight)
{
    log_of_sum(logits, stride, rows, vocabulary, offset);
    for (long row = 0; row < rows; row++, token += k, distance += k) {
        offset[row] = -offset[row];
        const int searched = asked[row] == mixing->search;
        const float temperature = (float)(searched ? mixing->temperature : mixing->cache_temperature);
        float share = (float)(searched ? mixing->weight : mixing->cache_weight);
        if (trust)
            share *= trust[row];
        if (!weigh(distance, k, temperature, weight))
            continue;
        if (agreement)
            share *= keep(agreement + row * k, k, weight);
        const float near = (float)(searched ? mixing->near : mixing->cache_near);
        if (mixing->end >= 0 && expf(logits[row * stride + mixing->end] + offset[row]) < (float)mixing->likely)
            share *= drop_far_ends(token, distance, k, mixing->end, near, weight);
        mix(logits + row * stride, stride, 1, vocabulary, token, weight, k, &share, offset + row);
    }
}

/* The best continuations of each sentence, best first: score, row and token, [S, 3, count]. The score of a token is its
   logit plus the base of its row. Rows of a sentence are adjacent; of equal scores the first comes first. */
EXPORTED void best(const float *logits, int64_t stride, int64_t sentences, int64_t each, int64_t vocabulary,
                   const float *base, int64_t count, double *found)
{
    for (long sentence = 0; sentence < sentences; sentence++, found += 3 * count) {
        double *score = found, *owner = found + count, *token = found + 2 * count;
        long have = 0;
        for (long row = sentence * each; row < (sentence + 1) * each; row++) {
            const float *mine = logits + row * stride;
            const __m512 added = _mm512_set1_ps(base[row]);
            for (long v = 0; v < vocabulary; v += LANES) {
                const __mmask16 there = first_lanes(vocabulary - v);
                const __m512 total = _mm512_add_ps(_mm512_maskz_loadu_ps(there, mine + v), added);
                unsigned better = there;
                if (have == count)
                    better &= _mm512_cmp_ps_mask(total, _mm512_set1_ps((float)score[count - 1]), _CMP_GT_OQ);
                if (!better)
                    continue;
                float each_total[LANES];
                _mm512_storeu_ps(each_total, total);
                for (; better; better &= better - 1) {
                    const int lane = __builtin_ctz(better);
                    const double mine_total = each_total[lane];
                    if (have == count && !(mine_total > score[count - 1]))
                        continue;
                    long at = have < count ? have++ : count - 1;
                    for (; at > 0 && score[at - 1] < mine_total; at--) {
                        score[at] = score[at - 1];
                        owner[at] = owner[at - 1];
                        token[at] = token[at - 1];
                    }
                    score[at] = mine_total;
                    owner[at] = (double)row;
                    token[at] = (double)(v + lane);
                }
            }
        }
    }
}

#endif
