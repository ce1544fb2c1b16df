/*
 * dong_lengths.h: what the three experiments share that train a model of Dong et al. 2021, section 4,
 * and ask what paths of each length through it are worth by themselves (docs/lab.md, dong-sorting).
 */
#ifndef RS_LAB_DONG_LENGTHS_H
#define RS_LAB_DONG_LENGTHS_H

#include "lab/path_accuracy.h"
#include "lab/toy.h"

enum { RS_LENGTHS_RATES = 2, RS_LENGTHS_SEEDS = 5 };

/* An experiment. */
typedef struct rs_lengths_task {
    const char *task,
        *more; /* its name, and what is set beside steps, seed and rate: "" or ", ..." */
    const char *rates[RS_LENGTHS_RATES]; /* the published one first, as JSON has it */
    const char *quick_more;              /* the same with --quick */
    int seeds, steps, quick_steps;
    rs_path_asked asked;
    int64_t quick_samples;
    double floor;                        /* in closed form: a run that diverged is set beside it */
    double published_model;              /* the paper's "entire model" */
    double published_shortest;           /* of paths of length 1, as remembered of its figure */
    const rs_table_kind *lengths, *runs; /* of the two tables beside the figure */
    const rs_lab_curves *curves;
} rs_lengths_task;

/* What a run came to; one that diverged is never right. Numbers alone: so they are kept. */
typedef struct rs_lengths_run {
    double diverged; /* 1: it did; 0 */
    rs_path_accuracy of;
    rs_task_floors floors; /* of what it was evaluated on */
} rs_lengths_run;

typedef struct rs_lengths {
    const rs_lengths_task *task;
    bool quick;
    int seeds;
    uint64_t seed;
    struct rs_kept_runs *kept; /* or NULL */
    rs_lengths_run of[RS_LENGTHS_SEEDS][RS_LENGTHS_RATES];
} rs_lengths;

/* Trains, writes tables, figure and the claims that the three experiments share; *out is for the
 * claims of one alone. */
rs_status rs_lengths_run_all(rs_lengths *out, rs_lab_report *report, const rs_lengths_task *task,
                             const rs_lab_options *options, const rs_context *context,
                             rs_error *err);
/* Says what --quick or --seeds left out: `quick` is for the first. */
rs_status rs_lengths_say(const rs_lengths *all, rs_lab_report *report, const char *quick,
                         rs_error *err);

/* Counts the task's floors in 100 000 samples that are drawn from the seed anew, of its own settings. */
rs_status rs_lengths_draw_floors(rs_task_floors *out, const char *task, bool places, uint64_t seed,
                                 rs_error *err);
/* A number that `train` prints beside the task's accuracy, by its name (docs/train.md, Floors and
 * ceilings), of its own settings. */
rs_status rs_lengths_mark(double *out, const char *task, const char *name, rs_error *err);
/* A claim of a number that the paper prints and an independent calculation has otherwise. */
rs_status rs_lengths_claim(rs_lab_report *report, const char *text, double published,
                           double expected, double measured, double tolerance, rs_error *err);

/* The columns of the tables, for their kinds. */
enum { RS_LENGTHS_COLUMNS = 13, RS_LENGTHS_RUN_COLUMNS = 8 };
extern const rs_column rs_lengths_columns[RS_LENGTHS_COLUMNS];
extern const rs_column rs_lengths_run_columns[RS_LENGTHS_RUN_COLUMNS];
#define RS_LENGTHS_POINTS                                                                          \
    RS_LAB_POINTS(RS_LAB_X_WHOLE("length", "length of the paths", "heads that a path takes"),      \
                  RS_LAB_Y("accuracy", "share of right answers",                                   \
                           "of paths of that length by themselves, mean over seeds"))

#endif
