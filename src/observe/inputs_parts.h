/* inputs_parts.h: what the files of inputs*.c share. */
#ifndef RS_OBSERVE_INPUTS_PARTS_H
#define RS_OBSERVE_INPUTS_PARTS_H

#include "checkpoint/npy.h"
#include "observe/inputs.h"

/* inputs.c */
/* Sets samples and begin for samples of n rows each. */
rs_status rs_input_rows(rs_inputs *in, int64_t samples, int64_t n, const char *where,
                        rs_error *err);
/* Sets *out to id, or fails where it is not in the vocabulary. */
rs_status rs_input_id(int32_t *out, int64_t id, int64_t sample, int64_t position,
                      const rs_network *network, const char *where, rs_error *err);
/* How many of the `there` samples of a file are used. */
int64_t rs_input_wanted_samples(const rs_input_source *source, int64_t there);
/* Sets *n to the tokens of a sample: what --seq-len says, or what is used without it. */
rs_status rs_input_length(int64_t *n, const rs_input_source *source, const rs_network *network,
                          const char *where, rs_error *err);
/* Maps and parses an .npy file; the caller closes *file. */
rs_status rs_input_npy(rs_npy *array, rs_mapping **file, const char *path, rs_error *err);

/* inputs_tokens.c: samples from token ids in a file or in memory. */
rs_status rs_input_tokens(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                          rs_error *err);
rs_status rs_input_ids(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                       rs_error *err);
/* Reads samples from a JSON text [[id, ...], ...]; fuzzing begins here. */
rs_status rs_input_json(rs_inputs *in, const char *path, const char *text, size_t length,
                        const rs_input_source *source, const rs_network *network, rs_error *err);

/* Whether a file is meant to be JSON, not .npy. */
bool rs_input_is_json(const uint8_t *bytes, size_t length);

/* inputs_states.c: samples from rows of real numbers. */
rs_status rs_input_states(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                          rs_error *err);
/* Reads samples from a file that lies in memory, rows of so many numbers; fuzzing begins here. */
rs_status rs_input_states_read(rs_inputs *in, const uint8_t *bytes, size_t length, int64_t width,
                               const rs_input_source *source, const rs_network *network,
                               rs_error *err);

/* inputs_texts.c: samples from texts. */
rs_status rs_input_texts(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                         const rs_tokenizer *tokenizer, rs_error *err);

/* inputs_random.c: fills images [samples, size] with independent N(0, 1). */
void rs_input_draw_pixels(float *images, int64_t samples, int64_t size, uint64_t seed);

#endif
