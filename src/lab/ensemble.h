/*
 * ensemble.h: what is seen of a network as an ensemble of short paths: how alike paths of one length are,
 * what those up to a length leave out, and what sets of heads cost; from the tables of paths (docs/paths.md).
 */
#ifndef RS_LAB_ENSEMBLE_H
#define RS_LAB_ENSEMBLE_H

#include "lab/training.h"
#include "observe/inputs.h"

#include <stddef.h>

enum {
    RS_ENSEMBLE_LENGTHS = 64, /* of a user's model at most; longer ones are not shown */
    RS_ENSEMBLE_SETS = 12     /* sizes of sets of heads: 1, 2, 4, 8 ..., all */
};

/* A number of several samples, draws or seeds. */
typedef struct rs_gathered {
    double sum, squares, n;
} rs_gathered;

/* Adds a value that is not NaN, and all of another. */
void rs_gathered_add(rs_gathered *g, double value);
void rs_gathered_join(rs_gathered *to, const rs_gathered *from);
rs_lab_spread rs_gathered_spread(const rs_gathered *g);

/* What was seen of a network on some samples: real numbers first, whole ones behind them. */
typedef struct rs_ensemble {
    rs_gathered cosine[RS_ENSEMBLE_LENGTHS],
        missing[RS_ENSEMBLE_LENGTHS]; /* by samples: of two paths; ‖sum up to k − X‖/‖X‖ */
    double null[RS_ENSEMBLE_LENGTHS]; /* of the cosine by chance */
    double nll[RS_ENSEMBLE_LENGTHS];  /* loss with paths up to a length alone */
    rs_gathered rise[RS_ENSEMBLE_SETS],
        alone[RS_ENSEMBLE_SETS];       /* by draws: the loss's rise, the heads' own added up */
    double cross[RS_ENSEMBLE_SETS];    /* sum of rise times alone */
    double most;                       /* the largest rise by one head */
    int longest;                       /* length of the longest path */
    int sets, heads[RS_ENSEMBLE_SETS]; /* how many heads are left out */
    bool loss;                         /* it predicts tokens */
} rs_ensemble;

/* Runs a network's paths and lesions. */
rs_status rs_ensemble_look(rs_ensemble *s, const rs_network *network, const rs_inputs *inputs,
                           const rs_context *context, rs_error *err);

/* The same as one list of numbers, with whether its training diverged in front: so it is kept. */
enum {
    RS_ENSEMBLE_NUMBERS = 4 + RS_ENSEMBLE_SETS + offsetof(rs_ensemble, longest) / sizeof(double)
};
void rs_ensemble_put(double list[RS_ENSEMBLE_NUMBERS], const rs_ensemble *s, bool diverged);
void rs_ensemble_take(rs_ensemble *s, bool *diverged, const double list[RS_ENSEMBLE_NUMBERS]);

/* ---- numbers of a network, or of several seeds ---- */

/* What paths of at most half the attentions miss of the last state. */
rs_lab_spread rs_ensemble_missing(const rs_ensemble *s);
/* The same over what is missing without any attention: 1 where short paths add nothing to the embedding. */
rs_lab_spread rs_ensemble_missing_share(const rs_ensemble *s);
/* The cosine of the length whose paths are most alike, without its sign. */
rs_lab_spread rs_ensemble_alike(const rs_ensemble *s);
/* The cosine of paths of one head, with its sign: by chance it is 0 on average, and as far off as `null` in one
 * network, which the spread over its samples does not have in it. The length is no choice of the data's. */
rs_lab_spread rs_ensemble_of_one_head(const rs_ensemble *s);
/* Of a loss that does not rise without any head no share can be told. */
bool rs_ensemble_needs_heads(const rs_ensemble *s);
/* Of the head that matters most: its rise of the loss over that without any head. */
rs_lab_spread rs_ensemble_one_head(const rs_ensemble *s);
/* Mean rise of the loss without a set of heads over what they cost alone, if that is above 0; the error is
 * that of the residuals rise - ratio alone over draws. */
rs_lab_spread rs_ensemble_ratio(const rs_ensemble *s, int set);
/* The same of four heads (of the largest set, where that is smaller), less 1. */
rs_lab_spread rs_ensemble_together(const rs_ensemble *s);

#endif
