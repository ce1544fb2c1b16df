/*
 * saver.h: checkpoints of a run: DIR/checkpoints/step-N/ with the weights (model.safetensors,
 * config.json), the optimiser's state (training.safetensors) and the run's own (state.json).
 *
 * A checkpoint is written under another name and then renamed, so that whatever ends the program
 * leaves whole ones alone. DIR/model.safetensors and DIR/config.json are those of the newest. Files
 * are written by a thread of their own from a copy, while training goes on.
 */
#ifndef RS_TRAIN_SAVER_H
#define RS_TRAIN_SAVER_H

#include "train/learner.h"

typedef struct rs_saver rs_saver;

/* Makes DIR and DIR/checkpoints where they are not there, and locks DIR until it is closed. Borrows the
 * learner's names and shapes. keep: how many checkpoints stay. Errors: RS_E_OVERWRITES_INPUT (another
 * run writes there), RS_E_WRITE, RS_E_NO_MEMORY. */
rs_status rs_saver_open(rs_saver **out, const char *folder, const rs_learner *learner, int64_t keep,
                        rs_error *err);
/* Writes the DIR/tokenizer.json of a run on text, which its checkpoints get too. Errors: RS_E_WRITE,
 * RS_E_NO_MEMORY. */
rs_status rs_saver_tokenizer(rs_saver *saver, const rs_train_task *task, rs_error *err);
/* Waits for what is being written, whose errors are lost: rs_saver_wait has them. NULL is fine. Call
 * it behind all else that writes to DIR. */
void rs_saver_close(rs_saver *saver);

/* Copies what a checkpoint of learner->step holds and begins to write it; `state` is taken over.
 * Waits for the one before, and fails where that failed. */
rs_status rs_saver_begin(rs_saver *saver, rs_learner *learner, json_t *state, rs_error *err);
/* Waits until nothing is being written. */
rs_status rs_saver_wait(rs_saver *saver, rs_error *err);

/* The step of the newest checkpoint that is whole in DIR; -1: there is none. */
int64_t rs_saved_newest(const char *folder);
/* The same of those before a step. */
int64_t rs_saved_before(const char *folder, int64_t step);
/* Reads the state.json of a checkpoint. */
rs_status rs_saved_state(json_t **out, const char *folder, int64_t step, rs_error *err);
/* Puts the weights and the optimiser's state of a checkpoint into a learner of the same settings, and
 * DIR's own links in order. Errors: those of opening a checkpoint, RS_E_TENSOR_SHAPE,
 * RS_E_TENSOR_MISSING. */
rs_status rs_saved_load(rs_learner *learner, const char *folder, int64_t step, rs_error *err);

#endif
