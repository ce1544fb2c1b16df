/*
 * inputs.h: what a model is fed: token ids, rows of numbers, images or ready states, from a file or at random.
 *
 * Samples lie packed, one behind the other (forward.h): ragged rows need no padding, and padding
 * tokens cannot count anywhere because there are none.
 */
#ifndef RS_OBSERVE_INPUTS_H
#define RS_OBSERVE_INPUTS_H

#include "base/context.h"
#include "engine/forward.h"
#include "network/arch.h"
#include "report/result.h"
#include "text/tokenizer.h"

enum { RS_DEFAULT_SEQ_LEN = 128 }; /* tokens of a sample when nobody says */

/* Where the samples come from: exactly one of texts, tokens, ids, images, states, random. */
typedef struct rs_input_source {
    const char *const
        *texts; /* [n_texts] files: each tokenised once, cut into windows of seq_len */
    size_t n_texts;
    const char *tokens; /* .npy int32/int64 [samples, n], or JSON [[...], ...] */
    const int32_t *ids; /* [n_ids, id_length] in memory; NULL: none */
    int64_t n_ids, id_length;
    const char *images; /* .npy float32 [samples, channels, height, width] */
    const char *states; /* .npy float32/float64 [samples, n, d], or JSON [[[x, ...], ...], ...] */
    bool embeddings; /* states stand in the place of embeddings, in front of positions and norm */
    int64_t random;  /* number of samples drawn; 0: not asked for */
    const char *encoder_states; /* .npy float32/float64 [samples, m, d], for cross-attention */
    int64_t seq_len; /* 0: RS_DEFAULT_SEQ_LEN, or fewer where the model's positions end */
    int64_t samples; /* samples that are used, at most (of each text); 0: all */
    const rs_arch
        *arch; /* description whose law draws rows or states, without vocabulary; or NULL */
    rs_memory_bound memory; /* what states may take; zeros: what the machine has */
} rs_input_source;

/* A text, and the samples that were cut from it. */
typedef struct rs_input_text {
    const char *file; /* borrowed from the source */
    int64_t first, samples;
    int64_t tokens; /* of the whole text before it was cut, without special ones */
} rs_input_text;

/* The samples of a run. */
typedef struct rs_inputs {
    const char *kind; /* "text", "tokens", "images", "states", "embeddings", "random" */
    int64_t samples;
    int64_t *begin;     /* [samples+1] first row of each sample */
    int32_t *ids;       /* [begin[samples]], or NULL */
    float *images;      /* [samples, channels, height, width], or NULL */
    int64_t image_size; /* channels*height*width */
    double *states;     /* [begin[samples], d_model], or NULL */
    double *rows;       /* [begin[samples], row_size] rows of numbers, or NULL */
    int64_t row_size;
    double *memory; /* [memory_begin[samples], d_model], or NULL */
    int64_t *memory_begin;
    int64_t d_model;
    int64_t longest, shortest; /* rows of the longest sample, and of the shortest that has any */
    int64_t empty;             /* number of samples without tokens */
    int64_t tokens_in_text;    /* tokens of all texts before they were cut; 0 otherwise */
    rs_input_text *texts;      /* [n_texts] in the order of their samples; NULL: it is no text */
    size_t n_texts;
    rs_notes notes; /* what was left out, cut, or is empty */
} rs_inputs;

/* RS_E_USAGE unless exactly one kind of input is asked for. */
rs_status rs_input_source_check(const rs_input_source *source, rs_error *err);

/*
 * Reads or draws the samples that `network` will be fed, and checks them against it: ids outside
 * the vocabulary (RS_E_TOKEN_RANGE naming sample and position), sequences longer than its positions
 * (RS_E_TOO_LONG), images of another size (RS_E_INPUT_SHAPE), files of another form
 * (RS_E_INPUT_FORMAT). tokenizer: needed for text, NULL otherwise.
 */
rs_status rs_inputs_open(rs_inputs **out, const rs_input_source *source, const rs_network *network,
                         const rs_tokenizer *tokenizer, uint64_t seed, rs_error *err);
void rs_inputs_close(rs_inputs *inputs); /* NULL is fine */

/* The samples that a continuation begins with: the windows of a text continue each other, so of
 * each text the first; of other inputs every sample. */
int64_t rs_inputs_prompts(const rs_inputs *inputs);
int64_t rs_inputs_prompt(const rs_inputs *inputs, int64_t index); /* number of the sample */

/* What tables say of a text's number and file. */
#define RS_TEXT_NUMBER "place among the texts that were given, from 0"
#define RS_TEXT_FILE "as it was given"
/* inputs_texts.c: adds table texts where there are several: which samples come from which. */
rs_status rs_input_texts_table(rs_result *result, const rs_inputs *inputs, rs_error *err);
extern const rs_table_kind rs_probe_texts_kind, rs_certify_texts_kind, rs_paths_texts_kind;

/* inputs_findings.c: adds findings about inputs that the model was not made for: longer than it was
 * trained for (with `generate` more tokens), or ids that transformers would take for padding. */
rs_status rs_input_findings(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                            int64_t generate, rs_error *err);

/* inputs_states.c: RS_E_INPUT_FORMAT, naming sample, token and feature, where a number of states or
 * rows is beyond what the precision holds. */
rs_status rs_inputs_check_precision(const rs_inputs *inputs, rs_precision precision, rs_error *err);

/* A stretch of the samples as a batch of the engine; begin and memory_begin count from 0 again. */
typedef struct rs_input_batch {
    rs_batch batch;
    int64_t first;                 /* number in the inputs of the sample that is 0 here */
    int64_t *begin, *memory_begin; /* [capacity+1] arrays that the batch points to */
} rs_input_batch;
rs_status rs_input_batch_open(rs_input_batch *batch, int64_t capacity, rs_error *err);
void rs_input_batch_set(rs_input_batch *batch, const rs_inputs *inputs, int64_t first,
                        int64_t samples);
void rs_input_batch_close(rs_input_batch *batch);

/* Draws token ids: the id of rank i (from 0, in the order of the vocabulary) has probability
 * proportional to 1/(i + 2.7), Zipf's law as Mandelbrot shifted it: tokenizers number frequent
 * tokens first. The padding id (-1: none) has no rank: no text holds it, and a drawn model embeds
 * it as 0. Sample s depends on (seed, s) alone. ids [samples, n]. */
rs_status rs_input_draw_ids(int32_t *ids, int64_t samples, int64_t n, int64_t vocabulary,
                            int64_t padding, uint64_t seed, rs_error *err);
/* Draws one sequence of such ids as inputs. begin [2] and ids [tokens] are the caller's, and
 * nothing is to be freed. */
rs_status rs_input_draw_sequence(rs_inputs *out, int64_t *begin, int32_t *ids, int64_t tokens,
                                 int64_t d_model, int64_t vocabulary, int64_t padding,
                                 uint64_t seed, rs_error *err);
#endif
