/* Every function that Python calls and every struct that it passes, declared only here.

   C files include this header, so the compiler checks their definitions against it. header.py derives the ctypes
   signatures from it. The compiled library contains the text of its declarations, which library.py compares with this
   file: kernels that were compiled from other declarations are not called.

   header.py parses only the subset of C that is used here: structs of numbers, of pointers and of structs declared
   above, and functions of numbers (int64_t, float, double) and pointers. No directives inside of DECLARED. */

#ifndef NEARMT_KERNELS_H
#define NEARMT_KERNELS_H

#include "simd.h"

#define DECLARED(...) \
    __VA_ARGS__       \
    __attribute__((unused)) static const char declared[] = #__VA_ARGS__;

DECLARED(

/* output = input . weight^T + bias. Scales and biases are padded to whole panels.

   fp32:  panels [P, I, 64].
   int8:  panels [P, I / 4, 64, 4], each number plus 128; inputs are padded to a multiple of 4. */
typedef struct {
    int64_t inputs, outputs;
    const void *panels;
    const float *scale; /* of each output; NULL where weights are fp32 */
    const float *bias;  /* NULL for none */
} Linear;

/* (x - mean) / deviation * gain + shift. */
typedef struct {
    const float *gain, *shift;
    double epsilon;
} Norm;

/* A layer of a decoder. */
typedef struct {
    Linear own, own_output, cross, cross_output, first, second;
    Norm own_norm, cross_norm, last_norm;
    double own_scale, cross_scale;
} Layer;

typedef struct {
    int64_t layers, norm_first, activation;
    const Layer *layer;
} Decoder;

typedef struct {
    Linear query, key, value, output, first, second;
    Norm own_norm, last_norm;
    double scale;
} EncoderLayer;

typedef struct {
    int64_t layers, heads, norm_first, activation;
    const EncoderLayer *layer;
} Encoder;

/* Cached keys and values of one layer, and which of them each row attends to. Rows of a slot are adjacent. */
typedef struct {
    int64_t slots, rows, heads, size; /* S, R of each slot, A, D */
    int64_t used, capacity;           /* cached tokens of a slot that may be attended to, and that fit */
    int64_t halves;                   /* whether keys and values are fp16, not fp32 */
    char *key, *value;                /* [S, A, capacity, D] */
    const uint8_t *mask;              /* which tokens each row attends to, [S, R, mask_stride]; NULL: the first ones */
    int64_t mask_stride;
    const int64_t *length;            /* without a mask: how many tokens the rows of a slot attend to, [S] */
    float *attention; /* NULL, or [S, R, used]: the weights of all heads and of the lower half of the layers are added */
} KeyValues;

/* Keys of all entries, in segments that begin at these entries. */
typedef struct {
    int64_t segments, columns;
    const uint16_t *const *key; /* fp16 [., columns] of each segment */
    const int64_t *start;       /* one more than there are segments */
} Keys;

/* Sentence caches: hash tables of their entries [U, table_size], entries [U, capacity], their keys as integers
   [U, capacity / 16, N / 4, 16, 4] and halves of the squared lengths of keys [U, capacity]. */
typedef struct {
    int32_t *table;
    int64_t table_size;
    int64_t *entry;
    uint8_t *key;
    int32_t *half;
    int64_t capacity, columns;
} Caches;

/* The entries of each inverted list (cell): their codes, halves of the squared lengths of codes, and their numbers. */
typedef struct {
    int64_t cells, columns;
    const int64_t *size;
    const uint8_t *const *code; /* [size, columns] of each cell */
    const int64_t *const *entry;
    int32_t *const *half;
} Cells;

/* Lambda and temperature of neighbours from an index search, and from a cache. */
typedef struct {
    double weight, temperature, cache_weight, cache_temperature;
    int64_t search; /* the origin of rows whose neighbours come from a search */
    int64_t end;    /* the end-of-sentence token, which only near neighbours may predict; -1 if all may */
    double near, cache_near; /* the largest distances of such neighbours */
    double likely;           /* all may predict it where the model gives it this probability */
} Mixing;

/* linear.c */
EXPORTED int64_t linear_scratch(const Linear *layer, int64_t rows);
EXPORTED void linear(const Linear *layer, const float *input, int64_t rows, float *output, char *scratch);

/* encoder.c */
EXPORTED int64_t encoder_scratch(const Encoder *encoder, int64_t longest);
EXPORTED void encode(const Encoder *encoder, const int64_t *length, int64_t sentences, int64_t longest, float *hidden,
                     char *scratch);

/* decoder.c */
EXPORTED int64_t decoder_scratch(const Decoder *decoder, const KeyValues *own, const KeyValues *source);
EXPORTED void decoder_step(const Decoder *decoder, const KeyValues *own, int64_t own_stride, int64_t offset,
                           const KeyValues *source, int64_t source_stride, float *hidden, float *feed_forward_input,
                           char *scratch);

/* agreement.c */
EXPORTED void agreement(const uint16_t *word, int64_t entries, const int64_t *entry, int64_t rows, int64_t k,
                        const uint8_t *known, const float *near, const float *trust, int64_t slots, int64_t codes,
                        int64_t window, double paraphrase, double contrast, double strength, double elsewhere,
                        float *kept);

/* mixture.c */
EXPORTED void log_of_sum(const float *logits, int64_t stride, int64_t rows, int64_t vocabulary, float *sum_B);
EXPORTED void mix(float *logits, int64_t stride, int64_t rows, int64_t vocabulary, const int64_t *token,
                  const float *weight, int64_t k, const float *share, float *offset);
EXPORTED void mix_neighbours(const Mixing *mixing, float *logits, int64_t stride, int64_t rows, int64_t vocabulary,
                             const int64_t *token, const float *distance, const float *agreement, int64_t k,
                             const int64_t *asked, const float *trust, float *offset, float *weight);
EXPORTED void best(const float *logits, int64_t stride, int64_t sentences, int64_t each, int64_t vocabulary,
                   const float *base, int64_t count, double *found);

/* nearest.c */
EXPORTED int64_t nominate_scratch(int64_t columns, int64_t count);
EXPORTED void nominate(const uint8_t *key, const int32_t *half, int64_t capacity, int64_t columns, const int64_t *cache,
                       const float *unit, const int64_t *end, int64_t caches, int64_t rows, const float *query,
                       int64_t stride, int64_t count, const int64_t *entry, int64_t *found, int32_t *scores,
                       char *scratch);
EXPORTED void write_keys(uint8_t *key, int32_t *half, int64_t columns, int64_t start, const float *given, int64_t count,
                         float unit);
EXPORTED void write_entry_keys(uint8_t *key, int32_t *half, int64_t columns, int64_t start, const Keys *keys,
                               int64_t key_columns, const int64_t *entry, int64_t count, float unit);
EXPORTED float largest_of(const Keys *keys, int64_t columns, const int64_t *entry, int64_t count);
EXPORTED int64_t mark(int32_t *table, int64_t size, const int64_t *entry, int64_t count, int64_t *fresh);
EXPORTED int64_t mark_chunks(int32_t *table, int64_t size, const int64_t *entry, int64_t count, int64_t chunk,
                             const int64_t *end, int64_t pairs, int64_t *fresh);
EXPORTED void append_chunks(const Keys *keys, const Caches *caches, int64_t key_columns, const int64_t *cache,
                            const int64_t *start, const double *unit, int64_t sentences, const int64_t *entry, int64_t count,
                            int64_t chunk, const int64_t *end, int64_t pairs, int64_t *fresh, double *larger);
EXPORTED void nearest(const Keys *keys, const float *query, int64_t stride, int64_t columns, int64_t rows,
                      const int64_t *candidate, int64_t candidates, int64_t k, int64_t *entry, float *distance);
EXPORTED void recall(const Keys *keys, const uint8_t *key, const int32_t *half, const int64_t *cached_entry,
                     int64_t capacity, int64_t cached_columns, const int64_t *cache, const float *unit, const int64_t *end,
                     const int64_t *slot, int64_t caches, int64_t rows, const float *query, int64_t stride,
                     int64_t columns, int64_t count, int64_t k, int64_t *entry, float *distance, char *scratch);

/* cells.c */
EXPORTED void measure_cells(const Cells *cells);
EXPORTED int64_t scan_scratch(const Cells *cells, int64_t rows, int64_t probes, int64_t count);
EXPORTED void scan_cells(const Cells *cells, const int8_t *query, int64_t rows, const int64_t *cell, int64_t probes,
                         int64_t count, int64_t *entry, float *distance, char *scratch);
EXPORTED int64_t search_scratch(const Cells *cells, int64_t rows, int64_t probes, int64_t wanted);
EXPORTED int64_t search_cells(const Cells *cells, const Keys *keys, const uint8_t *centre, const int32_t *half, float unit,
                              int64_t probes, float reach, int64_t wanted, const float *query, int64_t stride,
                              const int64_t *row_of, int64_t rows, int64_t k, int64_t width, int64_t *entry,
                              float *distance, char *scratch);

)

#endif
