/* One step of a decoder through all its layers. */

#include "attention.h"
#include "blocks.h"

#if NEARMT_KERNELS

/* Where a step puts what it needs meanwhile. */
typedef struct {
    float *input, *wide, *found, *output;
    char *room;
} Desk;

LOCAL long most_rooms(const Decoder *decoder, const Slots *own, const Slots *source, long rows)
{
    long most = attend_room(own);
    if (attend_room(source) > most)
        most = attend_room(source);
    for (long l = 0; l < decoder->layers; l++) {
        const Layer *layer = decoder->layer + l;
        const Linear *all[] = {&layer->own, &layer->own_output, &layer->cross, &layer->cross_output, &layer->first, &layer->second};
        for (int i = 0; i < 6; i++)
            if (linear_room(all[i], rows) > most)
                most = linear_room(all[i], rows);
    }
    return most;
}

LOCAL long widest(const Layer *layer)
{
    return layer->own.outputs > layer->first.outputs ? layer->own.outputs : layer->first.outputs;
}

/* Bytes that `decoder_step` needs meanwhile. */
EXPORTED int64_t decoder_room(const Decoder *decoder, const Slots *own, const Slots *source)
{
    const long rows = own->sentences * own->rows, width = decoder->layer->own.inputs;
    return (3 * width + widest(decoder->layer)) * rows * (long)sizeof(float) + most_rooms(decoder, own, source, rows);
}

/* Each row looks at its ancestors and itself, for which the newest slots are filled. */
LOCAL void look_back(const Layer *layer, const Slots *own, long place, const float *input, long rows, Desk *desk)
{
    const long stride = layer->own.outputs, each = own->heads * own->size;
    linear(&layer->own, input, rows, desk->wide, desk->room);
    fill(own, place, desk->wide + each, desk->wide + 2 * each, stride);
    attend(own, desk->wide, stride, (float)layer->own_scale, desk->found, desk->room);
    linear(&layer->own_output, desk->found, rows, desk->output, desk->room);
}

LOCAL void look_at_source(const Layer *layer, const Slots *source, const float *input, long rows, Desk *desk)
{
    linear(&layer->cross, input, rows, desk->wide, desk->room);
    attend(source, desk->wide, layer->cross.outputs, (float)layer->cross_scale, desk->found, desk->room);
    linear(&layer->cross_output, desk->found, rows, desk->output, desk->room);
}

LOCAL void think(const Decoder *decoder, const Layer *layer, const float *input, long rows, Desk *desk)
{
    linear(&layer->first, input, rows, desk->wide, desk->room);
    activate(decoder->activation, desk->wide, rows * layer->first.outputs);
    linear(&layer->second, desk->wide, rows, desk->output, desk->room);
}

/* Rows [B, H] through all layers, in place. `own` and `source` are the slots of the first layer; those of the next
   one lie `own_apart` and `source_apart` bytes behind. `thinking` is what the last feed-forward block was given. */
EXPORTED void decoder_step(const Decoder *decoder, const Slots *own, int64_t own_apart, int64_t place,
                           const Slots *source, int64_t source_apart, float *hidden, float *thinking, char *room)
{
    const long rows = own->sentences * own->rows, width = decoder->layer->own.inputs, count = rows * width;
    Desk desk = {.input = (float *)room};
    desk.found = desk.input + count;
    desk.output = desk.found + count;
    desk.wide = desk.output + count;
    desk.room = (char *)(desk.wide + rows * widest(decoder->layer));
    Slots mine = *own, its = *source;
    for (long l = 0; l < decoder->layers; l++) {
        const Layer *layer = decoder->layer + l;
        if (decoder->norm_first) {
            normalise(&layer->own_norm, hidden, rows, width, desk.input);
            look_back(layer, &mine, place, desk.input, rows, &desk);
            add(hidden, desk.output, count);
            normalise(&layer->cross_norm, hidden, rows, width, desk.input);
            look_at_source(layer, &its, desk.input, rows, &desk);
            add(hidden, desk.output, count);
            normalise(&layer->last_norm, hidden, rows, width, thinking);
            think(decoder, layer, thinking, rows, &desk);
            add(hidden, desk.output, count);
        } else {
            look_back(layer, &mine, place, hidden, rows, &desk);
            add(desk.output, hidden, count);
            normalise(&layer->own_norm, desk.output, rows, width, hidden);
            look_at_source(layer, &its, hidden, rows, &desk);
            add(desk.output, hidden, count);
            normalise(&layer->cross_norm, desk.output, rows, width, thinking);
            think(decoder, layer, thinking, rows, &desk);
            add(desk.output, thinking, count);
            normalise(&layer->last_norm, desk.output, rows, width, hidden);
        }
        mine.key += own_apart, mine.value += own_apart;
        its.key += source_apart, its.value += source_apart;
    }
}

#endif
