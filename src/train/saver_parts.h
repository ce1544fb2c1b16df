/* saver_parts.h: what saver.c and saved.c share: the names of a run's files. */
#ifndef RS_TRAIN_SAVER_PARTS_H
#define RS_TRAIN_SAVER_PARTS_H

#include "base/error.h"
#include "train/settings.h"

enum { RS_SAVED_PATH = 4096 };

/* DIR/NAME where step is negative, else DIR/checkpoints/step-N/NAME; NAME may be "". */
rs_status rs_saved_path(char out[RS_SAVED_PATH], const char *folder, int64_t step, const char *name,
                        rs_error *err);
/* RS_E_WRITE for errno as it is. */
rs_status rs_saved_fail(const char *path, rs_error *err);
/* Makes a folder unless it is there. */
rs_status rs_saved_make_folder(const char *path, rs_error *err);
/* Writes the bytes of a file into another, flushed. */
rs_status rs_saved_copy(const char *to, const char *from, rs_error *err);
/* saved_tokenizer.c: writes the DIR/tokenizer.json of a run on text; *written is false where the run's
 * ids are no text's, or its tokenizer is no such file. */
rs_status rs_saved_tokenizer(bool *written, const char *folder, const rs_train_task *task,
                             const rs_train_settings *settings, rs_error *err);
/* Has DIR/model.safetensors and DIR/config.json be those of a checkpoint. */
rs_status rs_saved_link(const char *folder, int64_t step, rs_error *err);

#endif
