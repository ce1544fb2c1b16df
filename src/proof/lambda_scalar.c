/* lambda_scalar.c: one mixing matrix and a scalar value map: theorem C and the consensus and sign
 * rule (statements L26 and L27). */
#include "proof/lambda_scalar.h"

#include "base/memory.h"
#include "linalg/norm_bounds.h"
#include "proof/lambda_span.h"

#include <inttypes.h>
#include <stddef.h>

/* What underflows of a product or quotient, and of a sum of them. */
static const double VANISHES = 1e-300;

/* D_i = λ + w s_i of signs ε (NULL: 1): λε_i + w Σ_j M_ij ε_j. */
static rs_span denominator(const rs_lambda_scalar_layer *layer, int64_t i, const signed char *signs)
{
    const double *row = layer->mixing + i * layer->ld;
    double sum = 0, size = 0;
    for (int64_t j = 0; j < layer->n; j++) {
        sum += signs && signs[j] < 0 ? -row[j] : row[j];
        size += fabs(row[j]);
    }
    double own = signs && signs[i] < 0 ? -layer->lambda : layer->lambda;
    double off = rs_gamma((double)layer->n + 4) * (fabs(own) + fabs(layer->value) * size);
    double value = own + layer->value * sum;
    return rs_span_widen(value - off - VANISHES, value + off + VANISHES);
}

static int sign_of(rs_span span)
{
    return span.low > 0 ? 1 : span.high < 0 ? -1 : 0;
}

/* ---- theorem C ---- */

rs_status rs_lambda_check_scalar(const rs_lambda_scalar_layer *layer, rs_error *err)
{
    size_t entries;
    if (layer->n < 1 || layer->ld < layer->n ||
        !rs_size_mul((size_t)layer->n, (size_t)layer->n, &entries))
        return rs_fail(err, RS_E_INTERNAL, "mixing matrix", NULL, "a matrix of %" PRId64 " tokens",
                       layer->n);
    for (int64_t i = 0; i < layer->n; i++)
        for (int64_t j = 0; j < layer->n; j++)
            if (!isfinite(layer->mixing[i * layer->ld + j]))
                return rs_fail(err, RS_E_INPUT_FORMAT, "mixing matrix", NULL,
                               "entry %g at row %" PRId64 ", column %" PRId64,
                               layer->mixing[i * layer->ld + j], i, j);
    if (isfinite(layer->value) && isfinite(layer->lambda) && layer->epsilon >= 0 &&
        isfinite(layer->epsilon))
        return RS_OK;
    return rs_fail(err, RS_E_INPUT_FORMAT, "skip strength", NULL,
                   "lambda %g beside values times %g", layer->lambda, layer->value);
}

static const char *fails(const rs_lambda_facts *facts)
{
    if (!facts->normed) return "a norm after the sum (post-norm)";
    if (!facts->unit_gain) return "every norm gain is 1";
    if (!facts->zero_bias) return "every norm bias is 0";
    if (!(facts->smallest_row > 0)) return "no token of the input is zero";
    return facts->diversity > 0 ? NULL : "the tokens of the input differ";
}

/* Row i of Q − I as computed; returns how far it is from the exact one (1-norm), and its own
 * 1-norm. (Q − I)_ii = −Σ_{j≠i} (Q − I)_ij, as the rows of Q sum to 1. */
static double deviation_row(double *row, double *length, const rs_lambda_scalar_layer *layer,
                            int64_t i, rs_span d)
{
    const double *m = layer->mixing + i * layer->ld;
    double middle = d.low + (d.high - d.low) / 2, sum = 0, size = 0;
    double least = fmin(fabs(d.low), fabs(d.high));
    for (int64_t j = 0; j < layer->n; j++) {
        row[j] = j == i ? 0 : layer->value * m[j] / middle;
        sum += row[j];
        size += fabs(row[j]);
    }
    row[i] = -sum;
    double gamma = rs_gamma((double)layer->n + 8);
    double relative = (d.high - d.low) / least * (1 + 1e-12) + gamma;
    double off = (2 * relative * size + (double)layer->n * VANISHES / least) * (1 + 1e-12);
    *length = (size + fabs(sum)) * (1 + gamma) + off;
    if (!isfinite(*length)) *length = (double)INFINITY;
    return off;
}

/* Columns about their means; returns how far that is off (Frobenius). */
static double centre_columns(double *k, int64_t n)
{
    double square = 0;
    for (int64_t j = 0; j < n; j++) {
        double mean = 0;
        for (int64_t i = 0; i < n; i++) {
            mean += k[i * n + j] / (double)n;
            square += k[i * n + j] * k[i * n + j];
        }
        for (int64_t i = 0; i < n; i++)
            k[i * n + j] -= mean;
    }
    /* the mean's rounding on n rows is γ of a column's length; subtracting adds twice u of it */
    return 4 * rs_gamma((double)n + 8) * sqrt(square) * (1 + 1e-12) + (double)n * 1e-150;
}

static const char singular_text[] = "no row of lambda I + w M that sums to 0";

/* Fills Q − I and c_Q; *off: how far the matrix is from the exact one (Frobenius). */
static const char *read_deviation(rs_lambda_theorem_c *out, double *k, double *off,
                                  const rs_lambda_scalar_layer *layer)
{
    int64_t n = layer->n;
    int first = 0;
    bool one_sign = true;
    for (int64_t i = 0; i < n; i++) {
        rs_span d = denominator(layer, i, NULL);
        double length;
        int sign = sign_of(d);
        if (sign == 0) {
            out->singular_row = i;
            return singular_text;
        }
        if (i == 0) first = sign;
        one_sign = one_sign && sign == first;
        out->least = fmin(out->least, fmin(fabs(d.low), fabs(d.high)));
        out->most = fmax(out->most, fmax(fabs(d.low), fabs(d.high)));
        *off += deviation_row(k + i * n, &length, layer, i, d);
        out->stretch = fmax(out->stretch, length);
    }
    return one_sign ? NULL : "rows of lambda I + w M whose sums have one sign";
}

/* √ε/√(D² + ε), D ≥ 0. */
static rs_span constant_part(rs_span epsilon, rs_span d)
{
    rs_span square = rs_span_add(rs_span_square(d), epsilon);
    return rs_span_div(rs_span_sqrt(epsilon), rs_span_sqrt(square));
}

/* ½|a − b|, from above. */
static rs_span half_apart(rs_span a, rs_span b)
{
    rs_span apart = rs_span_sub(a, b);
    double most = fmax(fabs(apart.low), fabs(apart.high));
    return (rs_span){0, rs_up(most / 2)};
}

/* What ε takes: it is one more coordinate, √(dε)/|D_i| of the branch, that is dropped behind the
 * norm. *joins: by how much it raises μ(O)/μ(Y); *dropped: what it has of μ(Y') over μ(Y). */
static void count_epsilon(rs_span *stretch, rs_span *joins, rs_span *dropped,
                          const rs_lambda_theorem_c *c, double epsilon, double diversity)
{
    rs_span e = rs_span_of(epsilon), root = rs_span_sqrt(e), one = rs_span_of(1);
    rs_span least = rs_span_of(c->least), most = rs_span_of(c->most);
    rs_span near = rs_span_mul(least, rs_span_sub(one, *stretch));
    rs_span far = rs_span_mul(most, rs_span_add(one, *stretch));
    rs_span apart = half_apart(rs_span_div(root, least), rs_span_div(root, most));
    *joins = rs_span_div(apart, rs_span_of(diversity));
    near = (rs_span){fmax(0, near.low), near.high};
    apart = half_apart(constant_part(e, near), constant_part(e, far));
    *dropped = rs_span_div(apart, rs_span_of(diversity));
    rs_span own = rs_span_square(rs_span_div(root, least));
    *stretch = rs_span_sqrt(rs_span_add(rs_span_square(*stretch), own));
}

/* (ν_Z/ν_Y − L'/√(1 − c'²))/(1 + c'): Z = √d rn(Y), and what Y misses of it joins the branch. */
static double share_kept(const rs_lambda_theorem_c *c, const rs_lambda_facts *facts, double epsilon)
{
    rs_span one = rs_span_of(1), off = rs_span_of(facts->unit_off);
    rs_span stretch = rs_span_mul(rs_span_of(c->stretch), rs_span_add(one, off));
    rs_span joins = rs_span_of(0), dropped = rs_span_of(0);
    stretch = rs_span_constant(rs_span_add(stretch, off), RS_LAMBDA_THEOREM_C_STRETCH);
    if (epsilon > 0 && stretch.high < 1)
        count_epsilon(&stretch, &joins, &dropped, c, epsilon, facts->diversity);
    rs_span rest = rs_span_sqrt(rs_span_sub(one, rs_span_square(stretch)));
    if (!(stretch.high < 1) || !(rest.low > 0)) return NAN;
    rs_span lost =
        rs_span_add(rs_span_of(c->lipschitz), rs_span_div(off, rs_span_of(facts->diversity)));
    if (epsilon > 0) lost = rs_span_add(lost, joins);
    lost = rs_span_constant(rs_span_div(lost, rest), RS_LAMBDA_THEOREM_C_LIPSCHITZ);
    double ratio = 1;
    if (facts->unit_off > 0) {
        rs_span unit = rs_span_of(facts->unit_diversity);
        ratio = rs_span_div(unit, rs_span_of(facts->diversity_most)).low;
    }
    rs_span left = rs_span_sub(rs_span_of(ratio), lost);
    if (!(left.low > 0)) return left.low;
    double kept = rs_span_div(left, rs_span_add(one, stretch)).low;
    return epsilon > 0 ? rs_down(kept - dropped.high) : kept;
}

rs_status rs_lambda_theorem_c_of(rs_lambda_theorem_c *out, const rs_lambda_scalar_layer *layer,
                                 const rs_lambda_facts *facts, rs_error *err)
{
    *out = (rs_lambda_theorem_c){.kept = {NAN, false, fails(facts)},
                                 .lipschitz = NAN,
                                 .least = (double)INFINITY,
                                 .singular_row = -1};
    RS_TRY(rs_lambda_check_scalar(layer, err));
    int64_t n = layer->n;
    double off = 0, *k = rs_malloc((size_t)n * (size_t)n, sizeof *k);
    if (!k) return rs_fail_memory(err, "theorem C", (size_t)n * (size_t)n * sizeof *k);
    const char *failed = read_deviation(out, k, &off, layer);
    rs_status status = RS_OK;
    if (failed) {
        out->stretch = NAN;
    } else {
        off += centre_columns(k, n);
        status = rs_spectral_bound(&out->lipschitz, k, n, n, err);
        out->lipschitz = rs_up(out->lipschitz + off * (1 + 1e-12));
    }
    rs_free(k);
    if (!out->kept.failed_hypothesis) out->kept.failed_hypothesis = failed;
    if (status != RS_OK || out->kept.failed_hypothesis) return status;
    out->kept.value = share_kept(out, facts, layer->epsilon);
    out->kept.valid = isfinite(out->kept.value);
    if (!out->kept.valid) out->kept.failed_hypothesis = "c_Q < 1";
    return RS_OK;
}

/* ---- consensus ---- */

const char *rs_lambda_outcome_name(rs_lambda_outcome outcome)
{
    static const char *const names[] = {[RS_LAMBDA_UNDECIDED] = "undecided",
                                        [RS_LAMBDA_EQUAL] = "equal",
                                        [RS_LAMBDA_EQUAL_UP_TO_SIGN] = "equal up to sign",
                                        [RS_LAMBDA_REPELLED] = "repelled"};
    return names[outcome];
}

static const char *no_rule(const rs_lambda_scalar_layer *layer, int64_t n)
{
    if (layer->n != n || n < 2) return "at least two tokens, the same in every layer";
    if (!isfinite(layer->value) || !isfinite(layer->lambda)) return "numbers that are finite";
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double entry = layer->mixing[i * layer->ld + j];
            if (!isfinite(entry)) return "numbers that are finite";
            if (j > i && entry != 0) return "a causal mixer: M lower triangular";
        }
    return NULL;
}

/* Row i through one layer: its sign behind it, and the logarithm of its multiplier, added. */
static bool follow_row(rs_lambda_sign_rule *out, signed char *next, double *log_rate,
                       const rs_lambda_scalar_layer *layer, int64_t i, const signed char *signs,
                       bool turns)
{
    rs_span d = denominator(layer, i, turns ? NULL : signs);
    int sign = sign_of(d);
    if (sign == 0) {
        out->singular_row = i;
        return false;
    }
    *next = (signed char)(turns ? sign * signs[i] : sign);
    double own = layer->lambda + layer->value * layer->mixing[i * layer->ld + i];
    *log_rate += log(fabs(own)) - log(fabs(d.low + (d.high - d.low) / 2));
    return true;
}

void rs_lambda_sign_begin(rs_lambda_sign_walk *walk, int64_t n, double *log_rate,
                          signed char *signs)
{
    *walk = (rs_lambda_sign_walk){
        .n = n,
        .log_rate = log_rate,
        .signs = signs,
        .next = signs + n,
        .rule = {.rate = NAN, .row = -1, .singular_layer = -1, .singular_row = -1}};
    for (int64_t i = 0; i < n; i++)
        log_rate[i] = 0, signs[i] = 1;
}

/* What the rows have become so far. */
static void judge(rs_lambda_sign_walk *walk)
{
    rs_lambda_sign_rule *rule = &walk->rule;
    double most = -(double)INFINITY;
    for (int64_t i = 1; i < walk->n; i++)
        if (i == 1 || walk->log_rate[i] > most) most = walk->log_rate[i], rule->row = i;
    rule->rate = exp(most);
    rule->outcome = RS_LAMBDA_UNDECIDED;
    /* of 1, to rounding: neither */
    if (fabs(most) > 1e-12)
        rule->outcome = most > 0      ? RS_LAMBDA_REPELLED
                        : walk->mixed ? RS_LAMBDA_EQUAL_UP_TO_SIGN
                                      : RS_LAMBDA_EQUAL;
}

static void forget(rs_lambda_sign_rule *rule, const char *why)
{
    rule->failed_hypothesis = why;
    rule->rate = NAN;
    rule->row = -1;
    rule->outcome = RS_LAMBDA_UNDECIDED;
}

void rs_lambda_sign_step(rs_lambda_sign_walk *walk, const rs_lambda_scalar_layer *layer, bool turns)
{
    rs_lambda_sign_rule *rule = &walk->rule;
    const char *why = rule->failed_hypothesis ? rule->failed_hypothesis : no_rule(layer, walk->n);
    for (int64_t i = 0; i < walk->n && !why; i++)
        if (!follow_row(rule, &walk->next[i], &walk->log_rate[i], layer, i, walk->signs, turns)) {
            rule->singular_layer = walk->layers;
            why = singular_text;
        }
    walk->layers++;
    if (why) {
        forget(rule, why);
        return;
    }
    for (int64_t i = 0; i < walk->n; i++) {
        walk->signs[i] = walk->next[i];
        walk->mixed = walk->mixed || walk->signs[i] != walk->signs[0];
    }
    judge(walk);
}

rs_status rs_lambda_sign_rule_of(rs_lambda_sign_rule *out, const rs_lambda_scalar_layer *layers,
                                 int64_t count, bool turns, rs_error *err)
{
    int64_t n = count < 1 ? 0 : layers->n;
    double *log_rate = rs_malloc((size_t)n + 1, sizeof *log_rate);
    signed char *signs = rs_malloc((size_t)n + 1, 2);
    rs_status status = RS_OK;
    if (log_rate && signs) {
        rs_lambda_sign_walk walk;
        rs_lambda_sign_begin(&walk, n, log_rate, signs);
        if (count < 1) walk.rule.failed_hypothesis = "at least one layer";
        for (int64_t k = 0; k < count; k++)
            rs_lambda_sign_step(&walk, &layers[k], turns);
        *out = walk.rule;
    } else {
        status = rs_fail_memory(err, "the sign rule", (size_t)n * sizeof *log_rate);
    }
    rs_free(signs);
    rs_free(log_rate);
    return status;
}
