/*
 * language.h: what small language models of experiments learn: the user's text, or a source with
 * copies from far back, of which is known what is left to guess (docs/train.md, task `markov`).
 */
#ifndef RS_LAB_LANGUAGE_H
#define RS_LAB_LANGUAGE_H

#include "lab/training.h"

enum { RS_LANGUAGE_LENGTH = 64 }; /* letters of a sample */

/* A task's fields for a grid (runs.h): task, data, batch and schedule. The caller frees *out. */
rs_status rs_lab_language(char **out, const rs_lab_data *data, rs_error *err);

/* What a run's loss is set beside, in nats a letter: letters by themselves, and all that a reader of
 * the source can know (NaN: of a text that is not known). */
typedef struct rs_language_marks {
    double unigram, source;
} rs_language_marks;
rs_language_marks rs_lab_language_marks(const rs_result *result);

/* AdamW as these models are trained, as a recipe's `optimizer`; attention and mlp: decays as text. */
#define RS_LANGUAGE_DECAYS(attention, mlp)                                                         \
    ", 'kind': 'adamw', 'betas': [0.9, 0.95], 'clip': 1, 'weight_decay': {'default': 0.1, "        \
    "'attention': " attention ", 'mlp': " mlp ", 'norm': 0, 'bias': 0}"

#endif
