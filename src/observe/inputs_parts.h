/* inputs_parts.h: what the files of inputs*.c share. */
#ifndef RS_OBSERVE_INPUTS_PARTS_H
#define RS_OBSERVE_INPUTS_PARTS_H

#include "checkpoint/npy.h"
#include "observe/inputs.h"

/* inputs.c */
/* Sets samples and begin for samples of n rows each. */
rs_status rs_probe_input_rows(rs_probe_inputs *in, int64_t samples, int64_t n, const char *where,
                              rs_error *err);
/* An id that has been checked against the vocabulary. */
rs_status rs_probe_input_id(int32_t *out, int64_t id, int64_t sample, int64_t position,
                            const rs_network *network, const char *where, rs_error *err);
/* How many of the samples that are there are wanted. */
int64_t rs_probe_wanted_samples(const rs_probe_source *source, int64_t there);
/* --seq-len, or what is used without it. */
rs_status rs_probe_input_length(int64_t *n, const rs_probe_source *source,
                                const rs_network *network, const char *where, rs_error *err);
/* Maps and parses an .npy file; the caller closes *file. */
rs_status rs_probe_with_npy(rs_npy *array, rs_mapping **file, const char *path, rs_error *err);

/* inputs_tokens.c */
rs_status rs_probe_input_tokens(rs_probe_inputs *in, const rs_probe_source *source,
                                const rs_network *network, rs_error *err);
rs_status rs_probe_input_text(rs_probe_inputs *in, const rs_probe_source *source,
                              const rs_network *network, const rs_tokenizer *tokenizer,
                              rs_error *err);
/* The ids of a JSON text [[...], ...], for fuzzing too. */
rs_status rs_probe_input_json(rs_probe_inputs *in, const char *path, const char *text,
                              size_t length, const rs_probe_source *source,
                              const rs_network *network, rs_error *err);

/* inputs_random.c: independent N(0, 1) */
void rs_probe_random_pixels(float *images, int64_t samples, int64_t size, uint64_t seed);

#endif
