/* certify_lambda_unproved.c: the row of table lambda of a mixer whose kind has no theorem of its own.
 * Its exact sets take X and O as they are; theorems A and D take the rows that the weights allow
 * (L25), or those of this input where that says more. */
#include "certify/certify_lambda_parts.h"

#include "network/op_traits.h"
#include "proof/lambda_scan.h"
#include "proof/lambda_span.h"

#include <math.h>

/* What the weights make of theorems A and D: numbers for every input, which hang on no rounding. */
typedef struct by_weights {
    double a, a_layer, d, d_kept, d_published; /* NaN: none */
    const char *failed_a, *failed_a_layer, *failed_d, *failed_d_kept;
} by_weights;

static void nothing_by_weights(by_weights *out, const char *why)
{
    *out = (by_weights){NAN, NAN, NAN, NAN, NAN, why, why, why, why};
}

static rs_status theorems_by_weights(by_weights *out, const rs_branch *mixer,
                                     const rs_lambda_layer *layer, double gain, double kept,
                                     rs_error *err)
{
    rs_lambda_facts facts;
    rs_lambda_row at = {.theorem_d_kept = NAN};
    RS_TRY(rs_lambda_facts_by_gain(&facts, layer, gain, err));
    nothing_by_weights(out, NULL);
    rs_lambda_wish wish = {.kept = kept, .layers = 1, .row_gain = gain, .lipschitz = NAN};
    rs_lambda_number a = rs_lambda_theorem_a(&facts, &wish);
    rs_lambda_number one = rs_lambda_theorem_a_layer(&facts, kept);
    out->a = rs_lambda_demanded(&a, &out->failed_a);
    out->a_layer = rs_lambda_demanded(&one, &out->failed_a_layer);
    out->failed_d = out->failed_d_kept = rs_lambda_pre_norm_text;
    if (mixer->before.kind == RS_NORM_NONE) return RS_OK;
    rs_lambda_number d = rs_lambda_theorem_d(&facts, &wish);
    out->failed_d = NULL;
    out->d = rs_lambda_demanded(&d, &out->failed_d);
    rs_lambda_row_depth(&at, &facts, mixer);
    out->d_kept = at.theorem_d_kept;
    out->d_published = at.theorem_d_published;
    out->failed_d_kept = at.failed_d_kept;
    return RS_OK;
}

/* The same of X and O: every number hangs on what the row does. */
static void theorems_by_rows(rs_lambda_row *row, const rs_branch *mixer, double kept)
{
    const rs_lambda_facts *facts = &row->facts;
    rs_lambda_wish wish = {.kept = kept,
                           .layers = 1,
                           .row_gain = facts->row_gain,
                           .lipschitz = facts->diversity > 0
                                            ? rs_up(facts->branch_diversity / facts->diversity)
                                            : NAN};
    rs_lambda_number a = rs_lambda_theorem_a(facts, &wish);
    rs_lambda_number one = rs_lambda_theorem_a_layer(facts, kept);
    rs_lambda_number second = rs_lambda_theorem_b(facts, &wish);
    rs_lambda_number fourth = rs_lambda_theorem_d(facts, &wish);
    row->theorem_a = rs_lambda_demanded(&a, &row->failed_a);
    row->theorem_a_layer = rs_lambda_demanded(&one, &row->failed_a_layer);
    row->theorem_b = rs_lambda_demanded(&second, &row->failed_b);
    row->failed_d = rs_lambda_pre_norm_text;
    if (mixer->before.kind != RS_NORM_NONE) {
        row->failed_d = NULL;
        row->theorem_d = rs_lambda_demanded(&fourth, &row->failed_d);
    }
    rs_lambda_row_depth(row, facts, mixer);
}

/* One number of both: what hangs on nothing comes first, then the smaller (of what is kept the
 * larger). True: it is that of the weights. */
static bool take_better(double *value, const char **failed, bool hangs, double other,
                        const char *other_failed, bool least)
{
    bool none = isnan(*value), more = least ? other < *value : other > *value;
    bool says = least || other > 0; /* to keep at least nothing is no news */
    if (!isnan(other) && (none || more || (hangs && says))) {
        *value = other;
        *failed = NULL;
        return true;
    }
    if (none && other_failed) *failed = other_failed;
    return false;
}

static void take_weights(rs_lambda_row *row, const by_weights *w)
{
    bool hangs = row->condition != NULL;
    rs_lambda_by_weights *by = &row->by_weights;
    by->a = take_better(&row->theorem_a, &row->failed_a, hangs, w->a, w->failed_a, true);
    by->a_layer = take_better(&row->theorem_a_layer, &row->failed_a_layer, hangs, w->a_layer,
                              w->failed_a_layer, true);
    by->d = take_better(&row->theorem_d, &row->failed_d, hangs, w->d, w->failed_d, true);
    by->d_kept = take_better(&row->theorem_d_kept, &row->failed_d_kept, hangs, w->d_kept,
                             w->failed_d_kept, false);
    if (by->d_kept) row->theorem_d_published = w->d_published;
}

rs_status rs_lambda_row_unproved(rs_lambda_row *row, const rs_certify_scene *scene,
                                 const rs_certify_gains *gains, const rs_lambda_layer *layer,
                                 const double *sum, int32_t l, rs_lambda_tools *tools,
                                 rs_error *err)
{
    const rs_layer *at = &scene->network->layers[l];
    const rs_branch *mixer = rs_layer_mixer(at), *end = at->branches + at->n_branches;
    const rs_branch *behind = rs_certify_last_on_skip(at, mixer) + 1;
    const rs_lambda_number *gain = &gains->sums[l];
    double kept = scene->options->kept;
    by_weights weights;
    row->told = true;
    row->gain = gain->value;
    row->failed_gain = gain->failed_hypothesis;
    row->mlp_gain = gains->mlps[l].value;
    row->failed_mlp_gain = gains->mlps[l].failed_hypothesis;
    row->failed_any = row->failed_eq7_input = row->failed_eq7 = row->failed_consensus =
        rs_layer_unproved(at);
    RS_TRY(rs_lambda_row_measure(row, layer, sum, kept, tools, err));
    theorems_by_rows(row, mixer, kept);
    if (row->condition && scene->options->rigorous) rs_lambda_row_leave_out(row);
    nothing_by_weights(&weights, gain->failed_hypothesis);
    if (behind < end && behind->joins)
        nothing_by_weights(&weights, "one skip on the sum of all branches");
    else if (gain->valid)
        RS_TRY(theorems_by_weights(&weights, mixer, layer, gain->value, kept, err));
    take_weights(row, &weights);
    return RS_OK;
}
