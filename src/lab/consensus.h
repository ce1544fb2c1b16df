/* consensus.h: what the experiment consensus-threshold measures, in two files. */
#ifndef RS_LAB_CONSENSUS_H
#define RS_LAB_CONSENSUS_H

#include "lab/post_norm.h"

enum {
    RS_CONSENSUS_RATES = 60,      /* drawn systems whose rate is measured */
    RS_CONSENSUS_THRESHOLDS = 40, /* and whose threshold is */
    RS_CONSENSUS_DECAYS = 3,
    RS_CONSENSUS_LENGTHS = 2
};

typedef struct rs_consensus_findings {
    int rates, thresholds, drawn_ends; /* of what is drawn, how many */
    double predicted_rate[RS_CONSENSUS_RATES], rate[RS_CONSENSUS_RATES];
    double predicted_threshold[RS_CONSENSUS_THRESHOLDS], threshold[RS_CONSENSUS_THRESHOLDS];
    double positive;          /* M >= 0, skips >= 0: runs that repel */
    double alternating;       /* what four alternating layers leave */
    double stretch, at_first; /* the largest stretch of a layer whose |g| are below 1; its factor
                                 as a formula */
    double selective[RS_CONSENSUS_DECAYS];  /* thresholds of selective systems, by decay */
    double wrong_ends;                      /* of drawn selective systems */
    double ends[RS_ENDS_REPELLED + 1];      /* how many were predicted to end so */
    double attention[RS_CONSENSUS_LENGTHS]; /* thresholds of causal attention */
} rs_consensus_findings;

extern const double rs_consensus_decays[RS_CONSENSUS_DECAYS];
extern const int rs_consensus_lengths[RS_CONSENSUS_LENGTHS];

/* Tokens that are `size` apart, about; rows of length sqrt(d). */
void rs_consensus_tokens(double *y, int n, int d, double size, rs_random *random);
/* The strength below which a stack's nearly equal tokens part, between `repels` and `attracts`. What
 * counts is their lines: signs are left out. */
rs_status rs_consensus_find(double *threshold, rs_toy *toy, const double *y, int n, double repels,
                            double attracts, rs_error *err);

/* consensus_given.c: systems whose M is given. */
rs_status rs_consensus_given(rs_consensus_findings *f, const rs_context *context, rs_error *err);

#endif
