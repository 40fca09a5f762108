/* One step of a decoder through all its layers. */

#include "attention.h"
#include "blocks.h"

#if NEARMT_KERNELS

/* Buffers for intermediate results. */
typedef struct {
    float *input, *wide, *found, *output;
    char *inner; /* of products and attention */
} Scratch;

LOCAL long largest_scratch(const Decoder *decoder, const KeyValues *own, const KeyValues *source, long rows)
{
    long most = attend_scratch(own);
    if (attend_scratch(source) > most)
        most = attend_scratch(source);
    for (long l = 0; l < decoder->layers; l++) {
        const Layer *layer = decoder->layer + l;
        const Linear *all[] = {&layer->own, &layer->own_output, &layer->cross, &layer->cross_output, &layer->first, &layer->second};
        for (int i = 0; i < 6; i++)
            if (linear_scratch(all[i], rows) > most)
                most = linear_scratch(all[i], rows);
    }
    return most;
}

LOCAL long widest(const Layer *layer)
{
    return layer->own.outputs > layer->first.outputs ? layer->own.outputs : layer->first.outputs;
}

/* Bytes of `decoder_step`'s scratch buffer. */
EXPORTED int64_t decoder_scratch(const Decoder *decoder, const KeyValues *own, const KeyValues *source)
{
    const long rows = own->slots * own->rows, width = decoder->layer->own.inputs;
    return (3 * width + widest(decoder->layer)) * rows * (long)sizeof(float) + largest_scratch(decoder, own, source, rows);
}

/* Each row attends to its ancestors and itself, after its key and value are written to the cache. */
LOCAL void self_attention(const Layer *layer, const KeyValues *own, long offset, const float *input, long rows, Scratch *scratch)
{
    const long stride = layer->own.outputs, each = own->heads * own->size;
    linear(&layer->own, input, rows, scratch->wide, scratch->inner);
    write_tokens(own, offset, scratch->wide + each, scratch->wide + 2 * each, stride);
    attend(own, scratch->wide, stride, (float)layer->own_scale, scratch->found, scratch->inner);
    linear(&layer->own_output, scratch->found, rows, scratch->output, scratch->inner);
}

LOCAL void cross_attention(const Layer *layer, const KeyValues *source, const float *input, long rows, Scratch *scratch)
{
    linear(&layer->cross, input, rows, scratch->wide, scratch->inner);
    attend(source, scratch->wide, layer->cross.outputs, (float)layer->cross_scale, scratch->found, scratch->inner);
    linear(&layer->cross_output, scratch->found, rows, scratch->output, scratch->inner);
}

LOCAL void feed_forward(const Decoder *decoder, const Layer *layer, const float *input, long rows, Scratch *scratch)
{
    linear(&layer->first, input, rows, scratch->wide, scratch->inner);
    activate(decoder->activation, scratch->wide, rows * layer->first.outputs);
    linear(&layer->second, scratch->wide, rows, scratch->output, scratch->inner);
}

/* Rows [B, H] through all layers, in place. `own` and `source` are the keys and values of the first layer; those of the
   next layer follow after `own_stride` and `source_stride` bytes. `feed_forward_input` is that of the last layer. */
EXPORTED void decoder_step(const Decoder *decoder, const KeyValues *own, int64_t own_stride, int64_t offset,
                           const KeyValues *source, int64_t source_stride, float *hidden, float *feed_forward_input,
                           char *scratch)
{
    const long rows = own->slots * own->rows, width = decoder->layer->own.inputs, count = rows * width;
    Scratch parts = {.input = (float *)scratch};
    parts.found = parts.input + count;
    parts.output = parts.found + count;
    parts.wide = parts.output + count;
    parts.inner = (char *)(parts.wide + rows * widest(decoder->layer));
    KeyValues fed = *own, read = *source;
    for (long l = 0; l < decoder->layers; l++) {
        const Layer *layer = decoder->layer + l;
        if (l == (decoder->layers + 1) / 2)
            read.attention = NULL; /* upper layers attend to what comes next */
        if (decoder->norm_first) {
            normalise(&layer->own_norm, hidden, rows, width, parts.input);
            self_attention(layer, &fed, offset, parts.input, rows, &parts);
            add(hidden, parts.output, count);
            normalise(&layer->cross_norm, hidden, rows, width, parts.input);
            cross_attention(layer, &read, parts.input, rows, &parts);
            add(hidden, parts.output, count);
            normalise(&layer->last_norm, hidden, rows, width, feed_forward_input);
            feed_forward(decoder, layer, feed_forward_input, rows, &parts);
            add(hidden, parts.output, count);
        } else {
            self_attention(layer, &fed, offset, hidden, rows, &parts);
            add(parts.output, hidden, count);
            normalise(&layer->own_norm, parts.output, rows, width, hidden);
            cross_attention(layer, &read, hidden, rows, &parts);
            add(parts.output, hidden, count);
            normalise(&layer->cross_norm, parts.output, rows, width, feed_forward_input);
            feed_forward(decoder, layer, feed_forward_input, rows, &parts);
            add(parts.output, feed_forward_input, count);
            normalise(&layer->last_norm, parts.output, rows, width, hidden);
        }
        fed.key += own_stride, fed.value += own_stride;
        read.key += source_stride, read.value += source_stride;
    }
}

#endif
