/* probe_gradient_findings.c: which layers' queries and keys learn, and what does not learn at all. */
#include "probe/probe_parts.h"

#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE = 900, RATIO_WORDS = 40 };

/* What is said of one variant. */
typedef struct told {
    rs_result *result;
    const rs_probed *v;
    const rs_graded *graded;
    const rs_probe_options *options;
    const rs_targets *targets;
} told;

static rs_severity how_bad(const told *t)
{
    return rs_probe_is_itself(t->v->name) ? RS_WARN : RS_INFO;
}

static rs_finding finding_for(const told *t, rs_severity severity, const char *code, int64_t layer,
                              const char *message)
{
    rs_finding f = rs_finding_of(severity, code);
    f.variant = t->v->name;
    f.layer = layer;
    f.message = message;
    f.table = "gradients";
    return f;
}

/* ---- queries and keys ---- */

/* The lesser of a layer's two ratios, and its logarithm, which no depth takes out of the doubles; NaN:
 * its values have no gradient either. */
static double least_ratio(const rs_gradient_ratio *r)
{
    return fmin(r->q_v, r->k_v);
}

static double log10_least(const rs_gradient_ratio *r)
{
    return fmin(r->log10_q_v, r->log10_k_v);
}

static bool values_learn(const rs_gradient_ratio *r)
{
    return r->log10_v > -(double)INFINITY;
}

/* 0 is a ratio, and has none but -infinity for a logarithm. */
static bool has_ratio(const rs_gradient_ratio *r)
{
    return log10_least(r) < (double)INFINITY;
}

static bool vanishes(const told *t, const rs_gradient_ratio *r)
{
    return values_learn(r) && log10_least(r) < log10(t->options->thresholds.vanishing_qk_gradient);
}

/* Whether a double holds the lesser ratio. */
static bool holds_least(const rs_gradient_ratio *r)
{
    return isnormal(least_ratio(r)) || !isfinite(log10_least(r));
}

/* A number as words say it: "3.2e-07"; "10^-1254.3" where its logarithm alone is held. */
static const char *say_power(char text[RATIO_WORDS], bool held, double value, double log10,
                             int digits)
{
    if (held)
        snprintf(text, RATIO_WORDS, "%.*g", digits, value);
    else
        snprintf(text, RATIO_WORDS, "10^%.1f", log10);
    return text;
}

static const char *say_least(char text[RATIO_WORDS], const rs_gradient_ratio *r)
{
    return say_power(text, holds_least(r), least_ratio(r), log10_least(r), 2);
}

static bool is_rounding(const rs_gradient_ratio *r)
{
    return r->q_floor || r->k_floor;
}

/* Every sample is one token, which attends to itself whatever its query and key. */
static bool are_alone(const told *t)
{
    return t->v->measured->singles == t->v->measured->samples;
}

static rs_status vanishing(const told *t, rs_error *err)
{
    if (are_alone(t)) return RS_OK;
    /* the last layer first: of values below the doubles the first one told counts as the worst */
    for (size_t i = t->graded->n_ratios; i-- > 0;) {
        const rs_gradient_ratio *r = &t->graded->ratios[i];
        char message[MESSAGE], ratio[RATIO_WORDS];
        bool queries = !(r->log10_k_v < r->log10_q_v);
        if (!vanishes(t, r) || !has_ratio(r)) continue;
        snprintf(message, sizeof message,
                 "%s: layer %d: the squared gradient of the %s weights is %s times that of the "
                 "value weights, below %.2g%s",
                 t->v->name, (int)r->layer, queries ? "query" : "key", say_least(ratio, r),
                 t->options->thresholds.vanishing_qk_gradient,
                 is_rounding(r) ? ", and no more than rounding" : "");
        rs_finding f = finding_for(t, how_bad(t), "vanishing_qk_gradient", r->layer, message);
        f.value = least_ratio(r);
        if (!holds_least(r)) f.said = ratio;
        f.threshold = t->options->thresholds.vanishing_qk_gradient;
        f.worst = "weakest";
        f.hint = "attention there stays what it is while the values learn: a norm in front of the "
                 "mixer, skips (--lambda), a lower --temperature or Adam's scaling make up for it";
        f.table = "gradient_ratios";
        f.cases = "layers";
        RS_TRY(rs_result_add_finding(t->result, &f, err));
    }
    return RS_OK;
}

/* ---- layers ---- */

/* The norm of the gradients of all that a layer stores, times 2^-*exponent; NaN: it stores nothing. */
static double layer_norm(const told *t, int32_t layer, int64_t *exponent)
{
    double square = NAN;
    *exponent = 0;
    for (size_t i = 0; i < t->graded->n; i++) {
        const rs_gradient_row *row = &t->graded->rows[i];
        if (row->layer != layer || row->head >= 0 || row->use == RS_USE_SUM) continue;
        if (rs_part_is_number(row->part)) continue;
        if (isnan(square)) square = 0;
        rs_gradient_add(&square, exponent, row);
    }
    return sqrt(square);
}

/* A norm, of which a double may not hold more than its logarithm. */
static const char *say_norm(char text[RATIO_WORDS], double norm, int64_t exponent)
{
    double value = norm * exp2((double)exponent);
    double power = log10(norm) + (double)exponent * log10(2);
    return say_power(text, isnormal(value), value, power, 3);
}

static rs_status imbalance(const told *t, rs_error *err)
{
    const double readable = 1e15;
    int32_t last = t->v->network->n_layers - 1;
    int64_t of_a = 0, of_b = 0;
    double a = last > 0 ? layer_norm(t, 0, &of_a) : NAN, b = layer_norm(t, last, &of_b);
    double apart = log10(a) - log10(b) + (double)(of_a - of_b) * log10(2);
    double ratio = pow(10, fabs(apart)), most = t->options->thresholds.gradient_imbalance;
    char message[MESSAGE], first[RATIO_WORDS], other[RATIO_WORDS], factor[RATIO_WORDS];
    if (!(fmin(a, b) > 0) || !isfinite(a) || !isfinite(b) || !(ratio > most)) return RS_OK;
    say_power(factor, ratio <= readable, ratio, fabs(apart), 2);
    snprintf(message, sizeof message,
             "%s: the gradients of layer 0 have norm %s, those of layer %d %s: a factor %s, above "
             "%.3g",
             t->v->name, say_norm(first, a, of_a), (int)last, say_norm(other, b, of_b), factor,
             most);
    rs_finding f = finding_for(t, how_bad(t), "gradient_imbalance", apart > 0 ? 0 : last, message);
    f.value = ratio;
    if (ratio > readable) f.said = factor;
    f.threshold = most;
    f.hint = "one step for all layers is too long for some or too short for others: look at norms, "
             "skips and --residual-scale";
    return rs_result_add_finding(t->result, &f, err);
}

/* ---- nothing at all ---- */

static const rs_gradient_row *row_of(const told *t, const rs_gradient_row *near, rs_role role)
{
    for (size_t i = 0; i < t->graded->n; i++) {
        const rs_gradient_row *row = &t->graded->rows[i];
        if (row->layer == near->layer && row->branch == near->branch && row->role == role &&
            row->part == RS_OF_WEIGHT && row->head < 0)
            return row;
    }
    return NULL;
}

static bool is_dead(const told *t, const rs_gradient_row *row)
{
    const rs_mlp_op *mlp =
        row->layer < 0 ? NULL
                       : rs_branch_mlp(&t->v->network->layers[row->layer].branches[row->branch]);
    const rs_gradient_row *down = row_of(t, row, RS_ROLE_MLP_DOWN);
    bool inside = row->role == RS_ROLE_MLP_UP || row->role == RS_ROLE_MLP_GATE ||
                  row->role == RS_ROLE_MLP_DOWN;
    bool relu = mlp && (mlp->activation == RS_ACT_RELU || mlp->activation == RS_ACT_RELU2);
    return relu && inside && down && down->square == 0;
}

static const char *reason_of(const told *t, const rs_gradient_row *row)
{
    bool compares = row->role == RS_ROLE_Q || row->role == RS_ROLE_K;
    if (row->why) return row->why;
    if (is_dead(t, row) && row->part != RS_OF_BIAS)
        return "no ReLU of the layer lets anything through";
    if (row->layer >= 0 && compares && are_alone(t)) return "each token sees itself alone";
    if (row->layer >= 0 && row->role == RS_ROLE_K && row->part == RS_OF_BIAS)
        return "a bias of keys moves all logits of a query alike";
    if (row->layer >= 0 && compares)
        return "nothing is left of it in this precision: keys or values are equal, or are but for "
               "rounding";
    return "what it gives has no derivative, or one below the range of the precision";
}

static bool is_zero(const rs_gradient_row *row)
{
    return row->square == 0 && row->head < 0 && row->use != RS_USE_SUM;
}

/* The rows that are 0 for one reason make one case, told with the first of them. */
static rs_status zero_case(const told *t, size_t first, rs_error *err)
{
    const rs_gradient_row *row = &t->graded->rows[first];
    const char *why = reason_of(t, row);
    char message[MESSAGE], where[32] = "", more[80] = "";
    size_t n = 0;
    int32_t last = row->layer;
    for (size_t i = 0; i < t->graded->n; i++) {
        const rs_gradient_row *other = &t->graded->rows[i];
        if (!is_zero(other) || strcmp(reason_of(t, other), why) != 0) continue;
        if (i < first) return RS_OK; /* it was told with that one */
        last = other->layer > last ? other->layer : last;
        n++;
    }
    if (row->layer >= 0) snprintf(where, sizeof where, " of layer %d", (int)row->layer);
    if (n > 1 && last > row->layer)
        snprintf(more, sizeof more, " and %zu more, to layer %d", n - 1, (int)last);
    else if (n > 1)
        snprintf(more, sizeof more, " and %zu more", n - 1);
    snprintf(message, sizeof message, "%s: the gradient of %s%s%s is exactly 0: %s", t->v->name,
             row->parameter, where, more, why);
    bool held = row->why && strstr(row->why, "held");
    rs_finding f =
        finding_for(t, held ? RS_INFO : how_bad(t), "zero_gradient", RS_NULL_INT, message);
    f.cases = "reasons";
    return rs_result_add_finding(t->result, &f, err);
}

static rs_status zeros(const told *t, rs_error *err)
{
    for (size_t i = 0; i < t->graded->n; i++) {
        if (is_zero(&t->graded->rows[i])) RS_TRY(zero_case(t, i, err));
    }
    return RS_OK;
}

/* ---- not finite ---- */

static rs_status nonfinite(const told *t, rs_error *err)
{
    const rs_gradient_row *bad = t->graded->first_bad;
    char message[MESSAGE], where[40] = "";
    if (!bad || rs_probe_first_bad(t->v->measured)) return RS_OK;
    if (bad->layer >= 0) snprintf(where, sizeof where, " of layer %d", (int)bad->layer);
    snprintf(message, sizeof message,
             "%s: the pass is finite, but the gradient of %s%s is not; on the way back it is the "
             "first",
             t->v->name, bad->parameter, where);
    rs_finding f = finding_for(t, RS_CRITICAL, "nonfinite_gradient",
                               bad->layer >= 0 ? bad->layer : RS_NULL_INT, message);
    f.hint = t->options->measure.precision == RS_PRECISION_F32
                 ? "run with --precision f64: float32 ends at 3e38"
                 : "--loss random starts with derivatives of size 1";
    return rs_result_add_finding(t->result, &f, err);
}

/* ---- the sentence ---- */

/* What is known of a layer's queries and keys. */
typedef enum learning {
    NO_RATIO, /* its values have no gradient either */
    LEARNS,
    STARVES,
    HIDDEN /* what they get is rounding, and not less than what counts */
} learning;

static learning learning_of(const told *t, const rs_gradient_ratio *r)
{
    if (!values_learn(r) || !has_ratio(r)) return NO_RATIO;
    if (vanishes(t, r)) return STARVES;
    return is_rounding(r) ? HIDDEN : LEARNS;
}

/* Writes "layers 0 to 3, 7"; false, and nothing: no layer is of that kind. */
static bool list_layers(char *text, size_t size, const told *t, learning kind)
{
    char list[120];
    size_t used = 0, n = 0;
    const rs_gradient_ratio *r = t->graded->ratios;
    text[0] = list[0] = '\0';
    for (size_t i = 0, end; i < t->graded->n_ratios; i = end) {
        end = i + 1;
        if (learning_of(t, &r[i]) != kind) continue;
        while (end < t->graded->n_ratios && r[end].layer == r[end - 1].layer + 1 &&
               learning_of(t, &r[end]) == kind)
            end++;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", n ? ", " : "",
                                     (int)r[i].layer);
        if (end - i > 1 && used < sizeof list)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, " to %d", (int)r[end - 1].layer);
        n += end - i;
    }
    if (n > 0) snprintf(text, size, "layer%s %s", n > 1 ? "s" : "", list);
    return n > 0;
}

static const rs_gradient_ratio *least(const told *t)
{
    const rs_gradient_ratio *found = NULL;
    for (size_t i = 0; i < t->graded->n_ratios; i++) {
        const rs_gradient_ratio *r = &t->graded->ratios[i];
        if (!values_learn(r) || !has_ratio(r)) continue;
        if (!found || log10_least(r) < log10_least(found)) found = r;
    }
    return found;
}

static void say_layers(char *text, size_t size, const told *t, const rs_gradient_ratio *r)
{
    char learn[140], starve[140], hidden[140], ratio[RATIO_WORDS];
    bool some = list_layers(learn, sizeof learn, t, LEARNS);
    bool others = list_layers(starve, sizeof starve, t, STARVES);
    bool unknown = list_layers(hidden, sizeof hidden, t, HIDDEN);
    const char *rounding = is_rounding(r) ? " (rounding)" : "";
    say_least(ratio, r);
    if (!others && !unknown)
        snprintf(text, size,
                 "the queries and keys of every layer learn; least in layer %d, whose squared "
                 "gradient is %s of the values'%s",
                 (int)r->layer, ratio, rounding);
    else
        snprintf(text, size,
                 "queries and keys learn in %s%s%s%s%s%s: least in layer %d, whose squared "
                 "gradient is %s of the values'%s",
                 some ? learn : "no layer", others && some ? ", and do not in " : "",
                 some ? starve : "", unknown ? "; rounding hides whether they do in " : "", hidden,
                 unknown && t->options->measure.precision != RS_PRECISION_RESIDUAL
                     ? " (--precision residual may tell)"
                     : "",
                 (int)r->layer, ratio, rounding);
}

static void say_learning(char *text, size_t size, const told *t)
{
    const rs_gradient_ratio *r = least(t);
    if (t->graded->n_ratios == 0)
        snprintf(text, size, "no layer has queries, keys and values");
    else if (are_alone(t))
        snprintf(text, size,
                 "every sample is one token, which attends to itself alone: queries "
                 "and keys have nothing to learn from it");
    else if (!r)
        snprintf(text, size, "no layer has queries, keys and values with a gradient");
    else
        say_layers(text, size, t, r);
}

static rs_status summary(const told *t, rs_error *err)
{
    char message[MESSAGE + 200], said[MESSAGE];
    const rs_gradient_ratio *r = least(t);
    say_learning(said, sizeof said, t);
    snprintf(message, sizeof message, "variant %s, loss %s (%.4g): %s", t->v->name,
             rs_grad_loss_name(t->targets->kind), t->graded->loss, said);
    rs_finding f = finding_for(t, RS_INFO, "gradient_summary", r ? r->layer : RS_NULL_INT, message);
    f.value = r ? least_ratio(r) : NAN;
    if (t->graded->n_ratios > 0) f.table = "gradient_ratios";
    return rs_result_add_finding(t->result, &f, err);
}

rs_status rs_probe_gradient_findings(rs_result *result, const rs_probed *variants, size_t n,
                                     const rs_probe_options *options, const rs_targets *targets,
                                     rs_error *err)
{
    for (size_t v = 0; v < n; v++) {
        const told t = {result, &variants[v], variants[v].measured->graded, options, targets};
        if (!t.graded) continue;
        RS_TRY(summary(&t, err));
        RS_TRY(nonfinite(&t, err));
        RS_TRY(vanishing(&t, err));
        RS_TRY(imbalance(&t, err));
        RS_TRY(zeros(&t, err));
    }
    return RS_OK;
}
