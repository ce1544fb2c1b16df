/* dong_proof_lines.c: every line of the proof of the cubic bound in ‖·‖₁ and in ‖·‖∞, on layers drawn
 * and on two whose numbers are given (docs/perturbation.md, 7). */
#include "lab/dong_proof_lines.h"

#include <math.h>
#include <stdio.h>

void rs_proof_lines_open(rs_proof_lines *lines)
{
    *lines = (rs_proof_lines){0};
    for (int l = 0; l < RS_LINES; l++)
        for (int n = 0; n < RS_STEP_NORMS; n++)
            lines->published[l][n] = lines->repaired[l][n] = NAN;
}

/* The layer's head as proof/steps.h reads it: keys are X itself. */
static rs_status steps_of(rs_steps *out, const rs_one_layer *a, const rs_context *context,
                          rs_error *err)
{
    double q[RS_ONE_SQUARE], unit[RS_ONE_SQUARE] = {0}, v[RS_ONE_SQUARE];
    int64_t d = a->d;
    for (int64_t u = 0; u < d; u++) {
        unit[u * d + u] = 1;
        for (int64_t k = 0; k < d; k++) {
            q[u * d + k] = a->qk[0][k * d + u];
            v[u * d + k] = a->values[0][k * d + u];
        }
    }
    const rs_steps_head head = {.x = a->tokens,
                                .n = a->n,
                                .d = d,
                                .q = q,
                                .k = unit,
                                .q_bias = a->bias[0],
                                .v = v,
                                .units = d,
                                .values = d,
                                .out = d,
                                .scale = 1 / sqrt((double)d)};
    return rs_steps_of(out, &head, context, err);
}

/* Whether what the line rests on is so. */
static bool proved(const rs_step_row *row, rs_step_truth truth)
{
    return truth == RS_STEP_ALWAYS || (truth != RS_STEP_SOMETIMES && row->met == 1);
}

rs_status rs_proof_lines_add(rs_proof_lines *lines, const rs_one_layer *layer,
                             const rs_context *context, rs_error *err)
{
    rs_steps steps;
    RS_TRY(steps_of(&steps, layer, context, err));
    for (int l = 0; l < RS_LINES; l++)
        for (int n = 0; n < RS_STEP_NORMS; n++) {
            const rs_step_row *row = &steps.rows[l][n];
            if (!row->known) continue;
            bool holds = proved(row, rs_step_kinds[l].in[n].truth);
            if (holds) lines->published[l][n] = fmax(lines->published[l][n], row->ratio);
            lines->repaired[l][n] = fmax(lines->repaired[l][n], row->repaired_ratio);
            lines->refuted += (holds && row->holds == 0) + (row->repaired_holds == 0);
        }
    return RS_OK;
}

/* ---- claims ---- */

/* What independent arithmetic finds for the layer from a hash (tests/oracle/lab_expected.py):
 * left/right as published and as repaired. */
static const struct {
    rs_step_line line;
    rs_step_norm norm;
    const char *published, *repaired; /* as claims have them; NULL: there is none */
    double expected, expected_repaired;
} rows[] = {
    {RS_LINE_LOW, RS_STEP_ONE, "|(I - D)1p'|_1 <= |P|_1", NULL, 0.7929828613917, NAN},
    {RS_LINE_LOW, RS_STEP_INF, "|(I - D)1p'|_inf <= |P|_inf", NULL, 0.9240770889289, NAN},
    {RS_LINE_HIGH, RS_STEP_ONE, "|P|_1 <= |(I + 2D)1p'|_1", "|P|_1 <= |e^D 1p'|_1", 0.7152994847445,
     0.8153451846441},
    {RS_LINE_HIGH, RS_STEP_INF, "|P|_inf <= |(I + 2D)1p'|_inf", "|P|_inf <= |e^D 1p'|_inf",
     0.6000069811206, 0.7165382580149},
    {RS_LINE_SIGNED, RS_STEP_ONE, "|PR|_1 <= |(I + 2D)1p'R|_1",
     "|PR|_1 <= |1|p'R| + (e^D - I)1p'|R||_1", 1.308875773832, 0.340263663731},
    {RS_LINE_SIGNED, RS_STEP_INF, "|PR|_inf <= |(I + 2D)1p'R|_inf",
     "|PR|_inf <= |1|p'R| + (e^D - I)1p'|R||_inf", 2.232365757367, 0.3031583057108},
    {RS_LINE_ABSOLUTE, RS_STEP_ONE, "|(P - 1p')RW|_1 <= |2D 1p'|RW||_1",
     "|(P - 1p')RW|_1 <= |(e^D - I)1p'|RW||_1", 0.1816130285802, 0.3160059989208},
    {RS_LINE_ABSOLUTE, RS_STEP_INF, "|(P - 1p')RW|_inf <= |2D 1p'|RW||_inf",
     "|(P - 1p')RW|_inf <= |(e^D - I)1p'|RW||_inf", 0.1782655718541, 0.3004059405904},
    {RS_LINE_MOVED, RS_STEP_ONE, "sum_i |P_ij - p_j| <= 2 sum_i D_i p_j",
     "sum_i |P_ij - p_j| <= K |E|_1 p_j", 0.2423912153259, 0.3731158500995},
    {RS_LINE_MOVED, RS_STEP_INF, "sum_j |P_ij - p_j| <= 2D_i",
     "sum_j |P_ij - p_j| <= 2 tanh(D_i/4)", 0.1808237768272, 0.7246780479216},
    {RS_LINE_NORMS, RS_STEP_ONE, "|(P - 1p')RW|_1 <= 2|D1|_1 |R|_1 |W|_1",
     "|(P - 1p')RW|_1 <= |(e^D - I)1|_1 |R|_1 |W|_1", 0.0233257453166, 0.04058671069455},
    {RS_LINE_NORMS, RS_STEP_INF, "|(P - 1p')RW|_inf <= 2|D1|_inf |R|_inf |W|_inf",
     "|(P - 1p')RW|_inf <= 2 tanh(max D/4) |R|_inf |W|_inf", 0.09893835996058, 0.3966690586856},
    {RS_LINE_LOGITS, RS_STEP_ONE, "|E|_1 <= |R|_1 |W_QK|_1 |R|_inf/sqrt(d)", NULL, 0.2395482749904,
     NAN},
    {RS_LINE_LOGITS, RS_STEP_INF, "|E|_inf <= |R|_inf |W_QK|_inf |R|_1/sqrt(d)", NULL,
     0.2192468497281, NAN},
    {RS_LINE_RANGES, RS_STEP_ONE, "|D1|_1 <= 2|E|_1", "|D1|_1 <= sum of |E_ij|", 1.003792268433,
     0.8233591720935},
    {RS_LINE_RANGES, RS_STEP_INF, "|D1|_inf <= 2|E|_1", NULL, 0.4125409491195, NAN},
    {RS_LINE_CUBIC, RS_STEP_ONE, "|R'|_1 <= 4|W_QK|_1 |W|_1 |R|_1^2 |R|_inf/sqrt(d)",
     "|R'|_1, K(max D) in place of 4", 0.00560883189203, 0.008601127776124},
    {RS_LINE_CUBIC, RS_STEP_INF, "|R'|_inf <= 4|W_QK|_1 |W|_inf |R|_1 |R|_inf^2/sqrt(d)",
     "|R'|_inf, 1 in place of 4", 0.009777432316971, 0.03910972926788},
    {RS_LINE_MEAN, RS_STEP_ONE, "|R' - mean|_1 <= the bound of |R'|_1",
     "|R' - mean|_1, 2(1 - 1/n) K(max D) in place of 4", 0.005473689189028, 0.005595924549937},
    {RS_LINE_MEAN, RS_STEP_INF, "|R' - mean|_inf <= the bound of |R'|_inf",
     "|R' - mean|_inf, 2(1 - 1/n) in place of 4", 0.009558191093144, 0.02548850958172},
};
enum { ROWS = sizeof rows / sizeof *rows };

static rs_status at_most_one(rs_lab_report *report, const char *line, double ratio, rs_error *err)
{
    char text[160];
    if (isnan(ratio)) return RS_OK;
    snprintf(text, sizeof text, "%s: largest left/right drawn", line);
    return rs_lab_at_most(report, text, ratio, 1, err);
}

/* Lines that are true of every input, or of these. */
static rs_status claim_drawn(rs_lab_report *report, const rs_proof_lines *lines, rs_error *err)
{
    RS_TRY(rs_lab_statement(report, "lines of the proof where they are true, both norms", err));
    for (size_t i = 0; i < ROWS; i++)
        RS_TRY(at_most_one(report, rows[i].published, lines->published[rows[i].line][rows[i].norm],
                           err));
    RS_TRY(rs_lab_statement(report, "repaired lines of the proof, both norms", err));
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].repaired)
            RS_TRY(at_most_one(report, rows[i].repaired,
                               lines->repaired[rows[i].line][rows[i].norm], err));
    return rs_lab_at_most(report, "lines said to be true, and repaired ones, that fail in a layer",
                          (double)lines->refuted, 0, err);
}

/* One side of a line in the layer from a hash. A line that is false of some input is, in the paper,
 * at most 1. */
static rs_status claim_hash(rs_lab_report *report, const char *line, double ratio, double expected,
                            bool wrong, rs_error *err)
{
    char text[160];
    snprintf(text, sizeof text, "hashed layer, %s", line);
    const rs_lab_claim claim = {text, wrong ? 1 : NAN, expected, ratio, 1e-9, false, true};
    return rs_lab_add_claim(report, &claim, err);
}

static rs_status claim_hashed(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    rs_one_layer layer;
    rs_steps steps;
    rs_one_layer_hashed(&layer, 1);
    RS_TRY(steps_of(&steps, &layer, context, err));
    RS_TRY(rs_lab_statement(report, NULL, err));
    for (size_t i = 0; i < ROWS; i++) {
        const rs_step_row *row = &steps.rows[rows[i].line][rows[i].norm];
        bool wrong = rs_step_kinds[rows[i].line].in[rows[i].norm].truth == RS_STEP_SOMETIMES;
        RS_TRY(claim_hash(report, rows[i].published, row->ratio, rows[i].expected, wrong, err));
        if (rows[i].repaired)
            RS_TRY(claim_hash(report, rows[i].repaired, row->repaired_ratio,
                              rows[i].expected_repaired, false, err));
    }
    return RS_OK;
}

/* R = I about the mean, W_QK with rows e1 - e2, e3, ..., e_n, 0 (docs/theory/corrections.md, 10). */
static rs_status claim_forty(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    enum { N = 40 };
    static const double expected_ranges = 10.01251564456, expected_gamma = 1.16130977861;
    double unit[N * N] = {0}, chain[N * N] = {0};
    rs_steps steps;
    for (int i = 0; i < N; i++) {
        unit[i * N + i] = 1;
        if (i > 0 && i < N - 1) chain[(i + 1) * N + i] = 1; /* row i of W_QK is column i here */
    }
    chain[0] = 1;
    chain[N] = -1;
    const rs_steps_head head = {.x = unit,
                                .n = N,
                                .d = N,
                                .q = chain,
                                .k = unit,
                                .v = unit,
                                .units = N,
                                .values = N,
                                .out = N,
                                .scale = 1};
    RS_TRY(rs_steps_of(&steps, &head, context, err));
    const rs_lab_claim claims[] = {
        {"40 tokens, |D1|_1 <= 2|E|_1: left/right", 1, expected_ranges,
         steps.rows[RS_LINE_RANGES][RS_STEP_ONE].ratio, 1e-9, false, true},
        {"40 tokens, line with gamma = 1: left/right", 1, expected_gamma,
         steps.rows[RS_LINE_GAMMA][RS_STEP_BOTH].ratio, 1e-9, false, true},
    };
    RS_TRY(rs_lab_statement(report, "sum of ranges at most twice the column norm of E", err));
    RS_TRY(rs_lab_add_claim(report, &claims[0], err));
    RS_TRY(rs_lab_statement(report, "from ranges to norms with gamma = 1", err));
    return rs_lab_add_claim(report, &claims[1], err);
}

rs_status rs_proof_lines_claim(rs_lab_report *report, const rs_proof_lines *lines,
                               const rs_context *context, rs_error *err)
{
    RS_TRY(claim_drawn(report, lines, err));
    RS_TRY(claim_forty(report, context, err));
    return claim_hashed(report, context, err);
}
