/*
 * runs.h: a grid of short training runs inside of an experiment: recipes by learning rates by seeds,
 * side by side, each on a thread of its own. A run that diverges is a result like any other: it is
 * counted and shown, and never left out.
 */
#ifndef RS_LAB_RUNS_H
#define RS_LAB_RUNS_H

#include "lab/training.h"

enum { RS_LAB_RATES = 4 };

/* A way to train. Fields are JSON with ' for ", each text with a comma in front, or "". */
typedef struct rs_lab_recipe {
    const char *name;
    const char *model, *optimizer, *task; /* fields of these objects, over the grid's */
    double rates[RS_LAB_RATES];           /* learning rates that are tried, up to the first 0 */
} rs_lab_recipe;

/* What a run was seen to do. */
typedef struct rs_grid_run {
    bool made;
    double diverged; /* the first step at which the loss or a gradient was no number; NaN: none */
    int logs;
    double *step, *loss, *accuracy;  /* [logs] running means */
    double eval_loss, eval_accuracy; /* at the end; NaN: it diverged, or nothing was evaluated */
    double *seen;                    /* [n_seen of the grid] NaN where it diverged */
} rs_grid_run;

typedef struct rs_lab_grid {
    const char *task, *model; /* fields that all recipes share */
    const rs_lab_recipe *recipes;
    /* What gives a recipe's network other numbers than the drawn ones; it follows from the recipe's
     * name. NULL of a recipe, or of all: nothing. */
    const rs_lab_prepare *(*prepare)(const rs_lab_recipe *recipe);
    int n_recipes, seeds, steps, every; /* every: steps between two logs */
    /* Reads what else is wanted of a run that did not diverge: n_seen numbers, in run->seen. */
    int n_seen;
    void (*see)(rs_grid_run *run, const rs_result *result);
    /* The same of the network itself, at the end; or NULL. */
    rs_status (*look)(rs_grid_run *run, rs_learner *learner, rs_train_task *task, rs_error *err);
    const rs_column *shown; /* [n_shown] RS_LAB_SEEN: columns of the first numbers seen; or NULL */
    int n_shown;
    const char *experiment;    /* the runs' name in `kept` */
    uint64_t data;             /* and what the user's data are (data.h); 0: none are read */
    struct rs_kept_runs *kept; /* runs that it has are not trained, others are added; or NULL */
    rs_grid_run *of;           /* [n_recipes, RS_LAB_RATES, seeds] */
    double *numbers;           /* that runs point to */
} rs_lab_grid;

/* Opens the data that a grid trains on, if they are the user's, and trains nothing. */
rs_status rs_lab_grid_try(const rs_lab_grid *grid, const rs_context *context, rs_error *err);
/* Trains the whole grid; progress tells how many runs are over. A run that is kept is taken from there.
 * Whatever it returns, the grid is to be closed. Errors: those of a task, RS_E_INTERRUPTED. */
rs_status rs_lab_grid_train(rs_lab_grid *grid, const rs_context *context, rs_error *err);
void rs_lab_grid_close(rs_lab_grid *grid);
/* Says how many runs, of how many steps, n grids are, `apart` bytes from one to the next (those without
 * recipes have none), and how long they take by the experiment's `takes` of `own` seeds, or by
 * `takes_quick`. */
rs_status rs_lab_say_runs(rs_lab_report *report, int n, const rs_lab_grid *grids, size_t apart,
                          bool quick, int own, rs_error *err);
rs_grid_run *rs_lab_grid_run(const rs_lab_grid *grid, int recipe, int rate, int seed);
int rs_lab_grid_rates(const rs_lab_grid *grid, int recipe);
/* Runs of a recipe that diverged. */
int rs_lab_grid_diverged(const rs_lab_grid *grid, int recipe);
/* The rate whose mean accuracy of evaluation over seeds is largest, a run that diverged counting as
 * `chance`; of equal ones the rate that is earlier above `enough` (running mean), summed over seeds. */
int rs_lab_grid_best(const rs_lab_grid *grid, int recipe, double chance, double enough);
/* The first logged step at which the running mean of the accuracy is above `enough`; the steps of the
 * grid where it never is. */
double rs_lab_run_reaches(const rs_lab_grid *grid, const rs_grid_run *run, double enough);

/* Table of all runs, a row each, in the kind that rs_lab_runs_kind describes, by the name of an
 * experiment's own. enough: an accuracy; NaN: none is waited for. */
rs_status rs_lab_grid_table(rs_lab_report *report, const rs_lab_grid *grid, const char *name,
                            double enough, rs_error *err);
extern const rs_column rs_lab_run_columns[];
enum { RS_LAB_RUN_COLUMNS = 9, RS_LAB_SHOWN = 4 };

/* A row of it. */
typedef struct rs_lab_run_cells {
    const char *recipe;
    double rate;
    int64_t seed;
    double loss, accuracy, eval_loss, eval_accuracy, reached, diverged, seen[RS_LAB_SHOWN];
} rs_lab_run_cells;
#define RS_LAB_SEEN(at, name, title, formula)                                                      \
    RS_COLUMN(rs_lab_run_cells, seen[at], name, title, NULL, formula, "measured")

#endif
