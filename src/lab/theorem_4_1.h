/* theorem_4_1.h: what the experiment lambda-theorem-4.1 measures, in two files. */
#ifndef RS_LAB_THEOREM_4_1_H
#define RS_LAB_THEOREM_4_1_H

#include "lab/post_norm.h"
#include "proof/lambda.h"

/* A row of the table of looseness: the smallest |skip| that each statement asks for, and the smallest
 * above which no skip >= 0 failed. NaN: not asked. */
typedef struct rs_theorem_row {
    int tokens, width, layers;
    double rate;    /* a: what is asked for is mu_K² >= a^K mu_0² */
    bool selective; /* else causal attention */
    double eq7, both, theorem_a, theorem_b, works;
} rs_theorem_row;

/* Facts of tokens of that diversity, the hypotheses of the published theorem met. */
rs_lambda_facts rs_theorem_facts(int n, int d, double diversity);
/* Fills in the row, for a network and tokens that are a hash of their index. */
rs_status rs_theorem_measure(rs_theorem_row *row, const rs_context *context, rs_error *err);

#endif
