/*
 * path_accuracy.h: how often paths of each length through a trained network are right by themselves,
 * and what needs no path to be right (docs/lab.md, dong-sorting).
 */
#ifndef RS_LAB_PATH_ACCURACY_H
#define RS_LAB_PATH_ACCURACY_H

#include "train/learner.h"

enum { RS_PATH_LONGEST = 6, RS_PATH_LENGTHS = RS_PATH_LONGEST + 1 };

/* How paths are evaluated. */
typedef struct rs_path_asked {
    int64_t
        paths;   /* of the released code's, of each length and sample: drawn for each sample anew */
    bool mlps;   /* its MLPs run on a path */
    bool places; /* the task has positions: an answer may hang on the place */
    int64_t samples; /* of the evaluation set, at most */
    uint64_t seed;
} rs_path_asked;

/* Shares of right answers on the evaluation set, by length. */
typedef struct rs_path_accuracy {
    double model; /* of the network as it is */
    /* Released code: networks of one head a layer, summed, normed. Theorem: the sum of all P_path X
     * W_path of that length, normed the same way. Up to: the sums of all lengths up to this one with
     * what biases and MLPs add, not normed: of the longest it is the network itself. */
    double code[RS_PATH_LENGTHS], theorem[RS_PATH_LENGTHS], up_to[RS_PATH_LENGTHS];
} rs_path_accuracy;

/* Evaluates the learner's network of RS_PATH_LONGEST attentions, in float64. */
rs_status rs_path_accuracy_of(rs_path_accuracy *out, const rs_learner *learner, rs_train_task *task,
                              const rs_path_asked *asked, rs_error *err);

/* Shares of right answers without attention, counted on samples of a task of classes. */
typedef struct rs_task_floors {
    double constant; /* one answer, or one a place where the task has places */
    double alone;    /* one answer for each token (at each place); NaN: tokens are real numbers */
    double ceiling;  /* without places: equal tokens of a sample have one answer; else 1 */
} rs_task_floors;
rs_status rs_task_floors_of(rs_task_floors *out, rs_train_task *task, rs_task_set set,
                            int64_t samples, bool places, rs_error *err);

/* What rs_task_floors' `alone` is expected to be of sorting: for each place and each letter that may
 * stand there the best guess, by order statistics of the others. */
double rs_sorted_alone(int64_t length, int64_t symbols);

#endif
