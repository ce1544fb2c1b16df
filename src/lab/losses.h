/*
 * losses.h: grids of training runs (runs.h) that are judged by their loss of evaluation at the end:
 * the best rate of each way to train, over seeds, as numbers, a table, curves and orders.
 */
#ifndef RS_LAB_LOSSES_H
#define RS_LAB_LOSSES_H

#include "lab/runs.h"
#include "lab/toy.h"

enum { RS_LOSS_SEEDS = 5 };

/* What a recipe came to at the rate whose loss, mean over seeds, is least. */
typedef struct rs_loss_way {
    int rate, seeds;
    double loss[RS_LOSS_SEEDS]; /* over `unit` */
    rs_lab_spread of;           /* of those */
} rs_loss_way;

/* A grid and what came of it. */
typedef struct rs_losses {
    rs_lab_grid grid;
    double
        lost; /* what a run that diverged counts as; NaN: its loss at its first step, if it has one */
    double unit;      /* what losses are divided by */
    rs_loss_way *way; /* [recipes] */
} rs_losses;

/* Trains all->grid and fills `way`. Whatever it returns, `all` is to be closed. */
rs_status rs_losses_train(rs_losses *all, const rs_context *context, rs_error *err);
void rs_losses_close(rs_losses *all);
/* The whole of an experiment that is such a grid: trains, says the runs, has `report_all` tell what came, and
 * closes `all`. quick: what --quick leaves out. */
rs_status rs_losses_run(rs_losses *all, rs_lab_report *report, const rs_lab_options *options,
                        rs_status (*report_all)(rs_lab_report *report, const rs_losses *all,
                                                rs_error *err),
                        const char *quick, const rs_context *context, rs_error *err);
/* A number that was seen of a recipe's runs at the best rate (grid.see), mean over seeds; NaN where one
 * diverged. */
double rs_losses_mean(const rs_losses *all, int recipe, int number);

/* Claims that recipe `more` ends with more loss than `less`, which was published. */
rs_status rs_losses_order(rs_lab_report *report, const rs_losses *all, const char *text, int more,
                          int less, rs_error *err);
/* The same of the share of the loss of `more` that `less` has not, seed by seed. */
rs_status rs_losses_share(rs_lab_report *report, const rs_losses *all, const char *text, int more,
                          int less, rs_error *err);
/* Claims that one of two ends with less loss, whichever it is: nothing is presumed of them. */
rs_status rs_losses_between(rs_lab_report *report, const rs_losses *all, int a, int b,
                            rs_error *err);
/* Adds the running mean of the loss, over seeds, of a recipe at its best rate to a table of curves. */
rs_status rs_losses_draw(rs_table *table, const rs_losses *all, int recipe, rs_error *err);
/* Table of all recipes, a row each, with columns rs_loss_columns. */
rs_status rs_losses_table(rs_lab_report *report, const rs_losses *all, const char *name,
                          rs_error *err);
extern const rs_column rs_loss_columns[];
enum { RS_LOSS_COLUMNS = 8 };

#endif
