/* steps_scalars.c: the lines of the proof that are about norms alone, and what is on the way
 * (docs/perturbation.md, 7). */
#include "proof/steps_parts.h"

#include "proof/bounds.h"

/* ---- what is on the way ---- */

/* ‖E‖₁, ‖R'‖ and K(max D). */
static void complete(rs_step_balls *b, arb_ptr sums)
{
    const rs_steps_head *h = b->head;
    const rs_step_sizes left = {b->number + RS_BALL_LEFT_ONE, b->number + RS_BALL_LEFT_INF, NULL};
    rs_step_norms(&left, sums, b->left, h->n, h->out);
    for (int64_t j = 0; j < h->n; j++)
        rs_step_raise(b->number + RS_BALL_CHANGE_ONE, b->change_sums + j);
    rs_step_constant(b->number + RS_BALL_CONSTANT, b->number + RS_BALL_RANGE_MOST);
}

/* |scale| ‖R‖₁‖R‖∞‖W‖ */
static void logits_bound(arb_t out, const rs_step_balls *b, rs_step_ball norm)
{
    arb_abs(out, b->number + RS_BALL_SCALE);
    arb_mul(out, out, b->number + RS_BALL_RESIDUAL_ONE, RS_BALL_BITS);
    arb_mul(out, out, b->number + RS_BALL_RESIDUAL_INF, RS_BALL_BITS);
    arb_mul(out, out, b->number + norm, RS_BALL_BITS);
}

/* The least γ of the published chain; of no residual there is none. */
static void least_factor(rs_steps *out, const rs_step_balls *b)
{
    arb_ptr share = b->spare, below = b->spare + 1;
    rs_step_both(share, b->number + RS_BALL_RANGE_SUM, b->number + RS_BALL_RANGE_MOST);
    logits_bound(below, b, RS_BALL_QK_ONE);
    arb_mul_2exp_si(below, below, 1);
    arb_div(share, share, below, RS_BALL_BITS);
    out->quantities[RS_QUANTITY_GAMMA] = rs_step_number_of(share, false);
}

static void tell_quantities(rs_steps *out, const rs_step_balls *b)
{
    static const rs_step_ball balls[RS_QUANTITIES] = {
        [RS_QUANTITY_SCALE] = RS_BALL_SCALE,
        [RS_QUANTITY_RESIDUAL_ONE] = RS_BALL_RESIDUAL_ONE,
        [RS_QUANTITY_RESIDUAL_INF] = RS_BALL_RESIDUAL_INF,
        [RS_QUANTITY_QK_ONE] = RS_BALL_QK_ONE,
        [RS_QUANTITY_QK_INF] = RS_BALL_QK_INF,
        [RS_QUANTITY_VALUE_ONE] = RS_BALL_VALUE_ONE,
        [RS_QUANTITY_VALUE_INF] = RS_BALL_VALUE_INF,
        [RS_QUANTITY_SHARED_RANGE] = RS_BALL_SHARED_RANGE,
        [RS_QUANTITY_SHARED_MOST] = RS_BALL_SHARED_MOST,
        [RS_QUANTITY_CHANGE_ONE] = RS_BALL_CHANGE_ONE,
        [RS_QUANTITY_CHANGE_INF] = RS_BALL_CHANGE_INF,
        [RS_QUANTITY_CHANGE_MOST] = RS_BALL_CHANGE_MOST,
        [RS_QUANTITY_RANGE_SUM] = RS_BALL_RANGE_SUM,
        [RS_QUANTITY_RANGE_MOST] = RS_BALL_RANGE_MOST,
        [RS_QUANTITY_CONSTANT] = RS_BALL_CONSTANT,
        [RS_QUANTITY_GAMMA] = RS_BALL_CONSTANT, /* least_factor sets it */
        [RS_QUANTITY_LEFT_ONE] = RS_BALL_LEFT_ONE,
        [RS_QUANTITY_LEFT_INF] = RS_BALL_LEFT_INF,
    };
    for (int q = 0; q < RS_QUANTITIES; q++)
        out->quantities[q] = rs_step_number_of(b->number + balls[q], false);
    least_factor(out, b);
}

/* ---- lines ---- */

/* Sets the row in ‖·‖₁, in ‖·‖∞ and in both from sides [2] each. */
static void set_norms(rs_step_row rows[RS_STEP_NORMS], const rs_step_balls *b, arb_srcptr left,
                      arb_srcptr right, arb_srcptr repaired)
{
    arb_ptr both = b->spare + 18; /* those before are the sides, and steps.c's */
    for (int n = 0; n < 2; n++)
        rs_step_row_set(&rows[n ? RS_STEP_INF : RS_STEP_ONE], left + n, right + n, repaired + n,
                        false);
    rs_step_both(both, left, left + 1);
    rs_step_both(both + 1, right, right + 1);
    rs_step_both(both + 2, repaired, repaired + 1);
    rs_step_row_set(&rows[RS_STEP_BOTH], both, both + 1, both + 2, false);
}

/* ‖R‖‖W‖ in ‖·‖₁ and in ‖·‖∞, into out [2]. */
static void sizes_of(arb_ptr out, const rs_step_balls *b)
{
    arb_mul(out, b->number + RS_BALL_RESIDUAL_ONE, b->number + RS_BALL_VALUE_ONE, RS_BALL_BITS);
    arb_mul(out + 1, b->number + RS_BALL_RESIDUAL_INF, b->number + RS_BALL_VALUE_INF, RS_BALL_BITS);
}

static void line_norms(rs_steps *out, const rs_step_balls *b)
{
    arb_ptr sizes = b->spare, right = b->spare + 2, repaired = b->spare + 4;
    sizes_of(sizes, b);
    arb_mul(right, sizes, b->number + RS_BALL_RANGE_SUM, RS_BALL_BITS);
    arb_mul(right + 1, sizes + 1, b->number + RS_BALL_RANGE_MOST, RS_BALL_BITS);
    arb_mul(repaired, sizes, b->number + RS_BALL_GROWN_SUM, RS_BALL_BITS);
    arb_mul_2exp_si(repaired + 1, b->number + RS_BALL_RANGE_MOST, -2);
    rs_step_tanh(repaired + 1, repaired + 1);
    arb_mul(repaired + 1, repaired + 1, sizes + 1, RS_BALL_BITS);
    arb_mul_2exp_si(repaired + 1, repaired + 1, 1);
    for (int n = 0; n < 2; n++)
        arb_mul_2exp_si(right + n, right + n, 1);
    set_norms(out->rows[RS_LINE_NORMS], b, b->number + RS_BALL_LEFT_ONE, right, repaired);
}

static void line_ranges(rs_steps *out, const rs_step_balls *b)
{
    arb_ptr bound = b->spare, both = b->spare + 1, repaired = b->spare + 2;
    rs_step_row *range = &out->rows[RS_LINE_RANGE][RS_STEP_INF];
    arb_set_d(bound, rs_bounds_exact.published_range);
    rs_step_row_set(range, b->number + RS_BALL_RANGE_MOST, bound, NULL, false);
    logits_bound(bound, b, RS_BALL_QK_ONE);
    rs_step_row_set(&out->rows[RS_LINE_LOGITS][RS_STEP_ONE], b->number + RS_BALL_CHANGE_ONE, bound,
                    NULL, false);
    logits_bound(bound, b, RS_BALL_QK_INF);
    rs_step_row_set(&out->rows[RS_LINE_LOGITS][RS_STEP_INF], b->number + RS_BALL_CHANGE_INF, bound,
                    NULL, false);
    arb_mul_2exp_si(bound, b->number + RS_BALL_CHANGE_ONE, 1);
    rs_step_row_set(&out->rows[RS_LINE_RANGES][RS_STEP_ONE], b->number + RS_BALL_RANGE_SUM, bound,
                    b->number + RS_BALL_CHANGE_TOTAL, false);
    rs_step_row_set(&out->rows[RS_LINE_RANGES][RS_STEP_INF], b->number + RS_BALL_RANGE_MOST, bound,
                    NULL, false);
    rs_step_both(both, b->number + RS_BALL_RANGE_SUM, b->number + RS_BALL_RANGE_MOST);
    logits_bound(bound, b, RS_BALL_QK_ONE);
    arb_mul_2exp_si(bound, bound, 1);
    arb_set_si(repaired, (slong)(b->head->n > 2 ? b->head->n : 2));
    arb_mul_2exp_si(repaired, repaired, -1);
    arb_sqrt(repaired, repaired, RS_BALL_BITS);
    arb_mul(repaired, repaired, bound, RS_BALL_BITS);
    rs_step_row_set(&out->rows[RS_LINE_GAMMA][RS_STEP_BOTH], both, bound, repaired, false);
}

/* What the bound multiplies by, in ‖·‖₁ and in ‖·‖∞. */
static void cubic_sides(arb_ptr right, arb_ptr repaired, const rs_step_balls *b)
{
    arb_ptr bound = b->spare, sizes = b->spare + 1;
    logits_bound(bound, b, RS_BALL_QK_ONE);
    sizes_of(sizes, b);
    for (int n = 0; n < 2; n++) {
        arb_mul(repaired + n, bound, sizes + n, RS_BALL_BITS);
        arb_mul_si(right + n, repaired + n, (slong)rs_bounds_exact.published_factor, RS_BALL_BITS);
    }
    arb_mul(repaired, repaired, b->number + RS_BALL_CONSTANT, RS_BALL_BITS);
}

/* R' less its mean, into the rows of R'. */
static void centre(rs_step_balls *b)
{
    const rs_steps_head *h = b->head;
    arb_ptr mean = b->spare;
    for (int64_t k = 0; k < h->out; k++) {
        arb_zero(mean);
        for (int64_t i = 0; i < h->n; i++)
            arb_add(mean, mean, b->left + i * h->out + k, RS_BALL_BITS);
        arb_div_si(mean, mean, (slong)h->n, RS_BALL_BITS);
        for (int64_t i = 0; i < h->n; i++)
            arb_sub(b->left + i * h->out + k, b->left + i * h->out + k, mean, RS_BALL_BITS);
        if (h->n == 1) arb_zero(b->left + k);
    }
}

static void line_bounds(rs_steps *out, rs_step_balls *b, arb_ptr sums)
{
    arb_ptr right = b->spare + 4, repaired = b->spare + 6, left = b->spare + 8;
    const rs_step_sizes sizes = {left, left + 1, NULL};
    cubic_sides(right, repaired, b);
    set_norms(out->rows[RS_LINE_CUBIC], b, b->number + RS_BALL_LEFT_ONE, right, repaired);
    centre(b);
    arb_zero(left);
    arb_zero(left + 1);
    rs_step_norms(&sizes, sums, b->left, b->head->n, b->head->out);
    for (int n = 0; n < 2; n++) { /* 2(1 − 1/n) */
        arb_mul_si(repaired + n, repaired + n, (slong)(2 * (b->head->n - 1)), RS_BALL_BITS);
        arb_div_si(repaired + n, repaired + n, (slong)b->head->n, RS_BALL_BITS);
    }
    set_norms(out->rows[RS_LINE_MEAN], b, left, right, repaired);
}

void rs_steps_scalars(rs_steps *out, rs_step_balls *b, arb_ptr sums)
{
    complete(b, sums);
    tell_quantities(out, b);
    line_norms(out, b);
    line_ranges(out, b);
    line_bounds(out, b, sums);
}

/* ---- conditions ---- */

/* Whether what the bound is multiplied by, of this line and norm, is at most what is published. */
static signed char factor_met(const rs_step_balls *b, rs_step_line line, rs_step_norm norm)
{
    arb_ptr factor = b->spare, most = b->spare + 1;
    arb_set(factor, b->number + RS_BALL_CONSTANT);
    if (norm == RS_STEP_BOTH) arb_sqrt(factor, factor, RS_BALL_BITS);
    if (line == RS_LINE_MEAN) {
        arb_mul_si(factor, factor, (slong)(2 * (b->head->n - 1)), RS_BALL_BITS);
        arb_div_si(factor, factor, (slong)b->head->n, RS_BALL_BITS);
    }
    arb_set_d(most, rs_bounds_exact.published_factor);
    return rs_step_at_most(factor, most);
}

void rs_steps_conditions(rs_steps *out, const rs_step_balls *b)
{
    arb_ptr most = b->spare;
    arb_set_d(most, rs_bounds_exact.published_range);
    signed char range = rs_step_at_most(b->number + RS_BALL_RANGE_MOST, most);
    for (int l = 0; l < RS_LINES; l++)
        for (int n = 0; n < RS_STEP_NORMS; n++) {
            rs_step_truth truth = rs_step_kinds[l].in[n].truth;
            if (truth == RS_STEP_IF_RANGE) out->rows[l][n].met = range;
            if (truth == RS_STEP_IF_FACTOR)
                out->rows[l][n].met = factor_met(b, (rs_step_line)l, (rs_step_norm)n);
        }
}
