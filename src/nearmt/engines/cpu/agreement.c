/* Source agreement: the share of its weight that a neighbour keeps. */

#include "kernels.h"

#if NEARMT_KERNELS

/* What a sentence says of a word: it has it, or has it next to a difference from a near match, or as a term. */
enum { KNOWN = 1, CONTESTED = 2, TERM = 3 };

/* Counts the words of the entries on one side of an entry, up to the end of its pair, that differ from its own. */
LOCAL void look(const uint16_t *word, int64_t entries, int64_t at, int64_t step, int64_t window, const uint8_t *known,
                uint16_t own, long *total, long *found)
{
    for (int64_t moved = 0; moved < window; moved++) {
        at += step;
        if (at < 0 || at >= entries || !word[at])
            return;
        if (word[at] != own) {
            *total += 1;
            *found += known[word[at]] != 0;
        }
    }
}

/* `word` has the code of each entry's source word, 0 for the last entry of a pair; `known` [S, codes] which codes the
   sentence of each slot has (KNOWN, CONTESTED or TERM), `near` [S] whether the store has a near match of it, `trust` [S]
   what multiplies the share of neighbours whose word is no term. The more of the words nearby the sentence has, the
   less neighbours count whose words it lacks. */
EXPORTED void agreement(const uint16_t *word, int64_t entries, const int64_t *entry, int64_t rows, int64_t k,
                        const uint8_t *known, const float *near, const float *trust, int64_t slots, int64_t codes,
                        int64_t window, double paraphrase, double contrast, double strength, double elsewhere,
                        float *kept)
{
    const long each = rows / slots;
    for (long row = 0; row < rows; row++, entry += k, kept += k) {
        const uint8_t *mine = known + row / each * codes;
        const float nearness = near[row / each], trusted = trust[row / each];
        const float applied = (float)strength * ((float)elsewhere + (1.0f - (float)elsewhere) * nearness);
        for (long i = 0; i < k; i++) {
            const int64_t at = entry[i];
            const int status = at < 0 ? TERM : word[at] ? mine[word[at]] : KNOWN;
            kept[i] = status == TERM ? 1.0f : status == KNOWN ? trusted : 0.0f;
            if (status)
                continue;
            long total = 0, found = 0;
            look(word, entries, at, -1, window, mine, word[at], &total, &found);
            look(word, entries, at, 1, window, mine, word[at], &total, &found);
            const float share = total ? (float)found / (float)total : 1.0f;
            const float left = ((float)contrast - share) / ((float)contrast - (float)paraphrase);
            const float few = (left < 0.0f ? 0.0f : left > 1.0f ? 1.0f : left) * (1.0f - nearness);
            kept[i] = trusted * (1.0f - applied * (1.0f - few));
        }
    }
}

#endif
