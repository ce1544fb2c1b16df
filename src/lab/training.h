/*
 * training.h: short training runs inside of an experiment: a task file as text, and the tables that
 * the run leaves (docs/train.md).
 */
#ifndef RS_LAB_TRAINING_H
#define RS_LAB_TRAINING_H

#include "lab/lab.h"
#include "train/run.h"

/* What gives a network other numbers than the drawn ones; or {0}. */
typedef struct rs_lab_prepare {
    void *user;
    rs_status (*run)(void *user, rs_learner *learner, rs_error *err);
} rs_lab_prepare;

/* Runs the task `text` (JSON with ' for ") on one thread, writes no file, and gives the result with its
 * tables, which the caller frees. Fails with RS_E_INTERNAL where the loss is not finite. */
rs_status rs_lab_train(rs_result **out, const char *text, const rs_lab_prepare *prepare,
                       const rs_context *context, rs_error *err);

/* A cell by the name of its column: of whole or of real numbers. */
double rs_lab_cell(const rs_table *table, size_t row, const char *column);
const char *rs_lab_cell_text(const rs_table *table, size_t row, const char *column);
/* A number that the task's losses are compared with, by its name in table marks; NaN: none has it. */
double rs_lab_mark(const rs_result *result, const char *name);

#endif
