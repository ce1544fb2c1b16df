/*
 * start.h: what a task file's `start` does: chosen tensors begin with the numbers of a law or of a
 * file in place of the model's own (docs/train.md, Starts).
 */
#ifndef RS_TRAIN_START_H
#define RS_TRAIN_START_H

#include "train/trained.h"

/* Fills what the settings' `start` chooses of the list. Draws are by the settings' seed. Errors:
 * RS_E_TASK_SCHEMA (an expression that is broken or matches no name, a law that is none, a file of
 * another shape or with numbers that are not finite), those of reading a file, RS_E_NO_MEMORY. */
rs_status rs_train_start(rs_trained_list *list, const rs_train_settings *settings, rs_error *err);

#endif
