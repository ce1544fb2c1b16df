/* certify_lambda_findings.c: table lambda in words. What hangs on a condition is counted apart and
 * never called proved. */
#include "certify/certify_lambda.h"
#include "report/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rs_status say_finding(rs_result *result, const char *code, int64_t layer, double value,
                             const char *message, const char *hint, rs_error *err)
{
    rs_finding f = rs_finding_of(RS_INFO, code);
    f.layer = layer;
    f.value = value;
    f.message = message;
    f.hint = hint;
    f.table = "lambda";
    return rs_result_add_finding(result, &f, err);
}

typedef struct tally {
    int64_t rows, enough, unknown, conditional, rounding; /* rounding: tokens that differ by it */
    double worst, least_kept,
        least_error; /* the largest λ demanded; the least kept at the model's own λ */
    int32_t worst_layer, short_layer;
    const char *condition; /* the first */
} tally;

static bool is_enough(const rs_lambda_row *r, double kept)
{
    bool by_value = isfinite(r->kept_now) && isfinite(r->kept_now_error) &&
                    r->kept_now_error >= 0 && nextafter(r->kept_now - r->kept_now_error, 0) >= kept;
    return r->lambda >= r->certified || r->lambda <= r->certified_negative || by_value;
}

static void count(tally *t, const rs_lambda_row *r, int32_t l, double kept)
{
    t->rounding += r->told && r->at_floor;
    t->unknown += r->nonfinite;
    if (!r->told || r->at_floor) return;
    t->rows++;
    if (r->condition) {
        t->conditional++;
        if (!t->condition) t->condition = r->condition;
        return;
    }
    if (!isfinite(r->certified))
        t->unknown++;
    else if (r->certified > t->worst)
        t->worst = r->certified, t->worst_layer = l;
    t->enough += is_enough(r, kept);
    /* a sum that drowns in the rounding of what is added says nothing */
    if (r->kept_now < t->least_kept && !(r->kept_now_error > 0.5 * r->kept_now))
        t->least_kept = r->kept_now, t->least_error = r->kept_now_error, t->short_layer = l;
}

static rs_status say_conditional(rs_result *result, const tally *t, rs_error *err)
{
    char message[400];
    snprintf(message, sizeof message,
             "%lld of %lld cases hang on a condition (columns ..._conditional): that the exact "
             "branch is as the float64 pass met it, of attention its mixing matrices. %s",
             (long long)t->conditional, (long long)t->rows, t->condition);
    return say_finding(result, "lambda_conditional", RS_NULL_INT, (double)t->conditional, message,
                       "they count neither for nor against what lambda_summary says", err);
}

static rs_status say_summary(rs_result *result, const tally *t, double kept, rs_error *err)
{
    char message[600], worst[RS_NUMBER_SIZE], least[RS_NUMBER_SIZE], error[RS_NUMBER_SIZE];
    int64_t cases = t->rows - t->conditional;
    bool some = t->worst_layer >= 0;
    int used = snprintf(message, sizeof message,
                        "to keep %.3g of the tokens' spread in every mixer, ", kept);
    rs_number_outward(worst, t->worst, 4, true);
    rs_number_outward(error, t->least_error, 1, true);
    rs_number_brief(least, t->least_kept, 3);
    if (some)
        used += snprintf(message + used, sizeof message - (size_t)used,
                         "a skip of λ >= %s is proved enough for every layer and sample%s%s (layer "
                         "%d needs most)",
                         worst, t->unknown || t->conditional ? " for which one was found" : "",
                         t->rounding ? " that is not left out" : "", (int)t->worst_layer);
    else
        used += snprintf(message + used, sizeof message - (size_t)used,
                         "no skip strength was found that is proved enough");
    used += snprintf(message + used, sizeof message - (size_t)used,
                     "; as it is, the model's own λ is proved enough in %lld of %lld cases",
                     (long long)t->enough, (long long)cases);
    if (t->short_layer >= 0)
        used += snprintf(message + used, sizeof message - (size_t)used,
                         ", and layer %d keeps least as measured: %s, known to %s",
                         (int)t->short_layer, least, error);
    if (t->rounding)
        snprintf(message + used, sizeof message - (size_t)used,
                 "; left out (at_floor): %lld more, whose tokens enter differing by rounding alone",
                 (long long)t->rounding);
    return say_finding(result, "lambda_summary", some ? t->worst_layer : RS_NULL_INT,
                       some ? t->worst : (double)NAN, message,
                       "--lambda X tries another; --kept A asks for another fraction", err);
}

rs_status rs_certify_lambda_findings(rs_result *result, const rs_certify_lambda *lambda,
                                     rs_error *err)
{
    double kept = rs_certify_lambda_kept(lambda);
    tally t = {.worst = -INFINITY, .least_kept = INFINITY, .worst_layer = -1, .short_layer = -1};
    for (int64_t s = 0; s < rs_certify_lambda_samples(lambda); s++)
        for (int32_t l = 0; l < rs_certify_lambda_network(lambda)->n_layers; l++)
            count(&t, rs_certify_lambda_row(lambda, s, l), l, kept);
    if (t.conditional) RS_TRY(say_conditional(result, &t, err));
    return t.rows > t.conditional ? say_summary(result, &t, kept, err) : RS_OK;
}
