/* Sentences through all layers of an encoder, without padding. */

#include "attention.h"
#include "blocks.h"

#if NEARMT_KERNELS

/* Tokens of several sentences that go through the layers together: weights are read once for all of them. */
#define MANY_TOKENS 256

/* Buffers for intermediate results. */
typedef struct {
    float *input, *wide, *found, *output; /* of all tokens */
    char *key, *value;                    /* of one sentence */
    char *inner;                          /* of products and attention */
} Scratch;

LOCAL long widest(const EncoderLayer *layer)
{
    const long all = 3 * layer->query.outputs;
    return all > layer->first.outputs ? all : layer->first.outputs;
}

LOCAL KeyValues key_values_of(const Encoder *encoder, const int64_t *length, const Scratch *scratch)
{
    return (KeyValues){.slots = 1, .rows = *length, .heads = encoder->heads,
                   .size = encoder->layer->query.outputs / encoder->heads, .used = *length, .capacity = *length,
                   .key = scratch->key, .value = scratch->value, .length = length};
}

LOCAL long largest_scratch(const Encoder *encoder, long rows, int64_t longest)
{
    const KeyValues cached = key_values_of(encoder, &longest, &(Scratch){0});
    long most = attend_scratch(&cached);
    for (long l = 0; l < encoder->layers; l++) {
        const EncoderLayer *layer = encoder->layer + l;
        const Linear *all[] = {&layer->query, &layer->key, &layer->value, &layer->output, &layer->first, &layer->second};
        for (int i = 0; i < 6; i++)
            if (linear_scratch(all[i], rows) > most)
                most = linear_scratch(all[i], rows);
    }
    return most;
}

INLINED long most_tokens(long longest) { return longest > MANY_TOKENS ? longest : MANY_TOKENS; }

/* Bytes of `encode`'s scratch buffer for sentences of at most `longest` tokens. */
EXPORTED int64_t encoder_scratch(const Encoder *encoder, int64_t longest)
{
    const EncoderLayer *layer = encoder->layer;
    const long rows = most_tokens(longest), width = layer->query.inputs, all = layer->query.outputs;
    const long floats = (2 * width + all + widest(layer)) * rows + 2 * all * longest;
    return floats * (long)sizeof(float) + largest_scratch(encoder, rows, longest);
}

/* Each token attends to all tokens of its sentence. */
LOCAL void self_attention(const Encoder *encoder, const EncoderLayer *layer, const int64_t *length, long sentences,
                       const float *input, long rows, Scratch *scratch)
{
    const long width = layer->query.outputs;
    float *query = scratch->wide, *key = query + rows * width, *value = key + rows * width;
    linear(&layer->query, input, rows, query, scratch->inner);
    linear(&layer->key, input, rows, key, scratch->inner);
    linear(&layer->value, input, rows, value, scratch->inner);
    for (long s = 0, first = 0; s < sentences; first += length[s] * width, s++) {
        const KeyValues cached = key_values_of(encoder, length + s, scratch);
        write_tokens(&cached, 0, key + first, value + first, width);
        attend(&cached, query + first, width, (float)layer->scale, scratch->found + first, scratch->inner);
    }
    linear(&layer->output, scratch->found, rows, scratch->output, scratch->inner);
}

LOCAL void feed_forward(const Encoder *encoder, const EncoderLayer *layer, const float *input, long rows, Scratch *scratch)
{
    linear(&layer->first, input, rows, scratch->wide, scratch->inner);
    activate(encoder->activation, scratch->wide, rows * layer->first.outputs);
    linear(&layer->second, scratch->wide, rows, scratch->output, scratch->inner);
}

/* Some sentences through all layers. */
LOCAL void run_layers(const Encoder *encoder, const int64_t *length, long sentences, float *hidden, long rows, Scratch *scratch)
{
    const long width = encoder->layer->query.inputs, count = rows * width;
    for (const EncoderLayer *layer = encoder->layer; layer < encoder->layer + encoder->layers; layer++) {
        if (encoder->norm_first) {
            normalise(&layer->own_norm, hidden, rows, width, scratch->input);
            self_attention(encoder, layer, length, sentences, scratch->input, rows, scratch);
            add(hidden, scratch->output, count);
            normalise(&layer->last_norm, hidden, rows, width, scratch->input);
            feed_forward(encoder, layer, scratch->input, rows, scratch);
            add(hidden, scratch->output, count);
        } else {
            self_attention(encoder, layer, length, sentences, hidden, rows, scratch);
            add(scratch->output, hidden, count);
            normalise(&layer->own_norm, scratch->output, rows, width, hidden);
            feed_forward(encoder, layer, hidden, rows, scratch);
            add(scratch->output, hidden, count);
            normalise(&layer->last_norm, scratch->output, rows, width, hidden);
        }
    }
}

/* The tokens of sentences of these lengths [S], concatenated [B, H], through all layers, in place. */
EXPORTED void encode(const Encoder *encoder, const int64_t *length, int64_t sentences, int64_t longest, float *hidden,
                     char *scratch)
{
    const EncoderLayer *layer = encoder->layer;
    const long most = most_tokens(longest), width = layer->query.inputs, all = layer->query.outputs;
    Scratch parts = {.input = (float *)scratch};
    parts.output = parts.input + most * width;
    parts.found = parts.output + most * width;
    parts.wide = parts.found + most * all;
    parts.key = (char *)(parts.wide + most * widest(layer));
    parts.value = parts.key + longest * all * (long)sizeof(float);
    parts.inner = parts.value + longest * all * (long)sizeof(float);
    for (long first = 0, behind = 0; first < sentences; first = behind) {
        long rows = length[behind++];
        while (behind < sentences && rows + length[behind] <= most)
            rows += length[behind++];
        run_layers(encoder, length + first, behind - first, hidden, rows, &parts);
        hidden += rows * width;
    }
}

#endif
