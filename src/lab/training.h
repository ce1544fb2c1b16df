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

/* What sees the network that a run ended with, and its task. */
typedef struct rs_lab_finish {
    void *user;
    rs_status (*run)(void *user, rs_learner *learner, rs_train_task *task, rs_error *err);
} rs_lab_finish;

/* Runs the task `text` (JSON with ' for ") on one thread, writes no file, and gives the result with its
 * tables, which the caller frees. Fails with RS_E_INTERNAL where the loss is not finite. */
rs_status rs_lab_train(rs_result **out, const char *text, const rs_lab_prepare *prepare,
                       const rs_context *context, rs_error *err);

/* The same of a run that may diverge: *diverged is the step at which its loss or a gradient was no
 * number, and the tables end there; NaN: it did not, and
 * `finish` (or NULL) saw the network. */
rs_status rs_lab_train_to(rs_result **out, double *diverged, const char *text,
                          const rs_lab_prepare *prepare, const rs_lab_finish *finish,
                          const rs_context *context, rs_error *err);

/* Opens the data of such a task, and trains nothing: what is wrong with the user's is said before other
 * runs have taken their time. */
rs_status rs_lab_try_data(const char *text, const rs_context *context, rs_error *err);

/* Trains as rs_lab_train does, for what `finish` sees. *diverged: the loss stopped being finite, which is
 * no failure here; nothing was seen then. */
rs_status rs_lab_train_seen(bool *diverged, const char *text, const rs_lab_finish *finish,
                            const rs_context *context, rs_error *err);

/* A trained tensor's numbers by its name, for `prepare` and `finish` of a run in float32; NULL: there is
 * none. */
float *rs_lab_weight(const rs_learner *learner, const char *name);

/* A cell by the name of its column: of whole or of real numbers. */
double rs_lab_cell(const rs_table *table, size_t row, const char *column);
const char *rs_lab_cell_text(const rs_table *table, size_t row, const char *column);
/* Fills out [most] with a number of the last layer, log by log, from table layers; what is left keeps
 * its value. */
void rs_lab_last_layer(double *out, int most, const rs_result *result, const char *column);
/* A number that the task's losses are compared with, by its name in table marks; NaN: none has it. */
double rs_lab_mark(const rs_result *result, const char *name);

/* A mean over seeds and its standard error; infinity of one seed. n: of how many; 0: not known. */
typedef struct rs_lab_spread {
    double mean, error;
    int n;
} rs_lab_spread;
rs_lab_spread rs_lab_spread_of(const double *values, int n);
/* The error by which an order over few seeds is judged (rs_lab_order takes it twice): the standard error of
 * five and more; of two to four, which tell their own spread badly, t(0.975, n - 1)/1.96 times that. */
double rs_lab_order_error(rs_lab_spread of);

/* How many seeds of `own` run: one with --quick, else as many as --seeds says. */
int rs_lab_seeds(const rs_lab_options *options, int own);
/* Says that --seeds left some out, where it did. */
rs_status rs_lab_say_seeds(rs_lab_report *report, int seeds, int own, rs_error *err);

#endif
