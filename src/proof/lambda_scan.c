/* lambda_scan.c: rows of state-space mixers from their weights alone (statements L21 to L25). */
#include "proof/lambda_scan.h"

#include "linalg/ball.h"
#include "linalg/norm_bounds.h"
#include "proof/lambda_span.h"

#include <float.h>

/* Beyond this an exponential no longer changes a double beside 1; Arb would need words of its own
 * for much larger ones. */
static const double FAR = 64;
/* exp() of more, or less, is no plain double. */
static const double WIDE = 700;

/* ---- scalars ---- */

/* Δ/(1 − e^(−aΔ)) falls with a and grows with Δ; a smaller aΔ makes it larger. */
static double steady_sum(double rate, double step)
{
    arb_t product, sum;
    double most;
    arb_init(product);
    arb_init(sum);
    if (rate > FAR / step) {
        rs_ball_set(product, FAR);
    } else {
        rs_ball_set(product, rate);
        rs_ball_set(sum, step);
        arb_mul(product, product, sum, RS_BALL_BITS);
    }
    arb_neg(product, product);
    arb_expm1(product, product, RS_BALL_BITS);
    arb_neg(product, product);
    rs_ball_set(sum, step);
    arb_div(sum, sum, product, RS_BALL_BITS);
    most = rs_ball_upper(sum);
    arb_clear(sum);
    arb_clear(product);
    return isnan(most) ? (double)INFINITY : most;
}

double rs_lambda_row_sum(double rate, double step_most, int64_t tokens)
{
    double most = INFINITY;
    if (!(rate >= 0) || !(step_most >= 0)) return INFINITY;
    if (step_most == 0) return 0;
    if (tokens > 0) most = rs_times_up(rs_up((double)tokens), step_most);
    if (tokens > 0 && tokens < (int64_t)1 << 53) most = rs_times_up((double)tokens, step_most);
    if (rate > 0 && isfinite(step_most)) most = fmin(most, steady_sum(rate, step_most));
    rs_span sum = rs_span_constant(rs_span_of(most), RS_LAMBDA_ROW_SUM);
    return sum.high;
}

typedef void ball_function(arb_t out, const arb_t x, slong bits);

/* An end of f(x), x a plain double. */
static double end_of(ball_function *f, double x, bool upper)
{
    arb_t ball;
    arb_init(ball);
    rs_ball_set(ball, x);
    f(ball, ball, RS_BALL_BITS);
    double end = upper ? rs_ball_upper(ball) : rs_ball_lower(ball);
    arb_clear(ball);
    return end;
}

double rs_lambda_rate_least(double a_log)
{
    if (!(a_log >= -WIDE)) return isnan(a_log) ? (double)NAN : 0;
    return end_of(arb_exp, fmin(a_log, WIDE), false);
}

static void softplus(arb_t out, const arb_t x, slong bits)
{
    arb_exp(out, x, bits);
    arb_log1p(out, out, bits);
}

/* log1p(e^x) is above torch's x for x > 20, too. */
double rs_lambda_step_most(double most, double step_least, double step_most)
{
    if (isnan(most)) return NAN;
    double step = most > FAR ? rs_up(most) : end_of(softplus, fmax(most, -WIDE), true);
    return fmin(fmax(step, step_least), step_most);
}

static void silu(arb_t out, const arb_t x, slong bits)
{
    arb_t below;
    arb_init(below);
    arb_neg(below, x);
    arb_exp(below, below, bits);
    arb_add_ui(below, below, 1, bits);
    arb_div(out, x, below, bits);
    arb_clear(below);
}

/* |silu(−x)| ≤ silu(x), which grows, for x ≥ 0. */
double rs_lambda_silu_most(double most)
{
    if (!(most >= 0)) return NAN;
    return most > FAR ? most : end_of(silu, most, true);
}

/* ---- one channel or head ---- */

static double gain_at(const rs_lambda_read *read, int64_t s)
{
    return read->gain ? fabs(read->gain[s]) : 1;
}

/* Three bounds of Σ_j Δ_j |Σ_s C_i,s B_j,s E_js|, E_js the decay from j to i, and Σ_j Δ_j E_js ≤
 * g_s: entry by entry; by Cauchy for each j with the largest E; and by Cauchy for each s, where B_j
 * may turn with j. */
double rs_lambda_channel_sum(const rs_lambda_channel *channel)
{
    const rs_lambda_read *b = &channel->b, *c = &channel->c;
    rs_span entries = rs_span_of(0), squares = rs_span_of(0);
    double largest_sum = 0, largest_gain = 0, sum = 0;
    for (int64_t s = 0; s < channel->state; s++) {
        if (s == 0 || !channel->one_rate)
            sum = rs_lambda_row_sum(channel->rate[s], channel->step_most, channel->tokens);
        double gains = rs_times_up(gain_at(b, s), gain_at(c, s));
        double entry = rs_times_up(rs_times_up(b->most[s], c->most[s]), sum);
        entries = rs_span_add(entries, rs_span_of(entry));
        squares = rs_span_add(squares, rs_span_square(rs_span_of(rs_times_up(gains, sum))));
        largest_sum = fmax(largest_sum, sum);
        largest_gain = fmax(largest_gain, gains);
        if (isnan(gains) || isnan(entry) || isnan(sum)) return NAN;
    }
    double turned = fmin(rs_times_up(largest_gain, largest_sum), rs_span_sqrt(squares).high);
    double most = fmin(entries.high, rs_times_up(rs_times_up(b->length, c->length), turned));
    rs_span all = rs_span_add(rs_span_of(most), rs_span_of(channel->skip));
    return rs_span_constant(all, RS_LAMBDA_CHANNEL_SUM).high;
}

/* ---- rows of a branch ---- */

static rs_span root_of(int64_t count)
{
    return rs_span_sqrt(rs_span_of((double)count));
}

static rs_lambda_number rows_of(const rs_lambda_rows *rows, double length, int64_t d, double scale,
                                rs_lambda_constant constant)
{
    rs_span row = rs_span_mul(rs_span_of(rows->map_norm), rs_span_of(length));
    row = rs_span_constant(row, constant);
    row = rs_span_add(row, rs_span_of(rows->bias));
    rs_span gain = rs_span_mul(rs_span_div(row, root_of(d)), rs_span_of(fabs(scale)));
    if (!isfinite(gain.high) || !isfinite(gain.low))
        return (rs_lambda_number){NAN, false, "norms of the weights that are doubles"};
    return (rs_lambda_number){gain.high, true, NULL};
}

rs_lambda_number rs_lambda_gain_rows(const rs_lambda_rows *rows, int64_t d, double branch_scale)
{
    return rows_of(rows, rows->length, d, branch_scale, RS_LAMBDA_GAIN_ROWS);
}

rs_lambda_number rs_lambda_gain_normed(const rs_lambda_rows *rows, int64_t inner, int64_t d,
                                       double branch_scale)
{
    return rows_of(rows, root_of(inner).high, d, branch_scale, RS_LAMBDA_GAIN_NORMED);
}

/* ---- theorems ---- */

rs_status rs_lambda_facts_by_gain(rs_lambda_facts *out, const rs_lambda_layer *layer, double gain,
                                  rs_error *err)
{
    rs_lambda_layer alone = *layer;
    alone.branch = layer->input;
    alone.branch_ld = layer->input_ld;
    alone.branch_error = 0;
    RS_TRY(rs_lambda_facts_of(out, &alone, err));
    rs_span root = root_of(layer->d), row = rs_span_mul(rs_span_of(gain), root);
    rs_span constant = rs_span_mul(rs_span_sqrt(rs_span_of(layer->norm.epsilon)), root);
    rs_span both = rs_span_add(rs_span_square(row), rs_span_square(constant));
    out->row_gain = out->branch_diversity = gain;
    out->largest_branch = row.high;
    out->row_ratio = (double)INFINITY;
    if (out->smallest_row > 0)
        out->row_ratio = rs_span_div(rs_span_sqrt(both), rs_span_of(out->smallest_row)).high;
    return RS_OK;
}
