/* mean_field.c: forward, one branch of equally correlated tokens (docs/theory/mean_field.md, 4). */
#include "predict/mean_field.h"

#include "predict/argmax_law.h"
#include "predict/ln.h"

/* ---- pairs ---- */

double rs_pair_square(rs_pair x, double n)
{
    return n > 1 ? rs_ln_add(x.mean, x.gap + log1p(-1 / n)) : x.mean;
}

double rs_pair_apart(rs_pair x, double n)
{
    return x.gap == -INFINITY ? -INFINITY : x.gap - rs_pair_square(x, n);
}

double rs_pair_rho(rs_pair x, double n)
{
    return 1 - exp(rs_pair_apart(x, n));
}

rs_pair rs_pair_times(rs_pair x, double ln_factor)
{
    return (rs_pair){rs_ln_times(x.mean, ln_factor), rs_ln_times(x.gap, ln_factor)};
}

rs_pair rs_pair_add(rs_pair x, rs_pair y)
{
    return (rs_pair){rs_ln_add(x.mean, y.mean), rs_ln_add(x.gap, y.gap)};
}

/* ---- norms ---- */

double rs_norm_divisor(const rs_theory_norm *norm, double ln_square)
{
    if (!norm->on) return 0;
    if (norm->annihilates) return INFINITY;
    double sum = norm->eps > 0 ? rs_ln_add(ln_square, log(norm->eps)) : ln_square;
    /* of a state that is 0 without eps, which stays 0 */
    if (sum == -INFINITY) return 0;
    return sum - log(norm->gain);
}

rs_pair rs_pair_divided(rs_pair x, double ln_divisor)
{
    return rs_pair_times(x, -ln_divisor);
}

/* ---- attention ---- */

bool rs_field_condensed(double second, double n)
{
    return second > 0.5 + 0.5 / n;
}

/* What stands between two rows that is not one row's, by the annealed form at ĉ, of condensed attention by
 * the law of the largest logit: second − cross and cross − 1/n + (second − cross)/n. */
static void set_annealed(rs_field_attention *out, double n, double ln_apart)
{
    /* beyond 745 the annealed moment is 1 in its digits, below 1e-12 ĉ is c */
    double equal = fmin(out->moments.equal, 745), rho = 1 - exp(ln_apart);
    double ln_equal = equal < 1e-12 ? out->ln_variance : log(equal);
    double other = rho * equal, ln_lost = rs_ln_times(ln_equal, ln_apart);
    double ln_moved = rs_ln_times(ln_equal, log(fabs(rho)));
    if (out->condensed) {
        const rs_argmax_law law = rs_argmax_law_of(n);
        other = rs_argmax_moved(&ln_lost, &law, equal, ln_apart);
        ln_moved = log(fabs(other));
    }
    out->cross = rs_softmax_annealed(n, other);
    out->ln_kept = rs_softmax_annealed_ln_gap(n, equal, ln_lost);
    if (other >= 0)
        out->ln_spread =
            rs_ln_add(rs_softmax_annealed_ln_gap(n, other, ln_moved), out->ln_kept - log(n));
    else
        out->ln_spread =
            rs_ln_less(out->ln_kept - log(n), rs_softmax_annealed_ln_gap(n, 0, ln_moved));
}

static rs_status set_cross(rs_field_attention *out, double n, double ln_apart, bool rough,
                           rs_error *err)
{
    double cross = NAN;
    out->condensed = rs_field_condensed(out->moments.second, n);
    set_annealed(out, n, ln_apart);
    if (out->condensed && !rough)
        RS_TRY(rs_softmax_cross_moment(&cross, n, exp(out->ln_variance), 1 - exp(ln_apart), err));
    double kept = out->moments.second - cross;
    /* not where tokens are so nearly equal that the integral has lost the difference */
    out->rough = out->condensed && !(kept > 1e-6);
    if (!out->condensed || out->rough) return RS_OK;
    out->cross = cross;
    out->ln_kept = log(kept);
    out->ln_spread = log(fmax(cross - 1 / n + kept / n, 0));
    return RS_OK;
}

/* Beyond this variance of logits the weights are nearly one-hot, and what they lead to moves no more
 * while the digits of its sum run out. */
#define COLD 100.0

/* ln of (E|Σ_j A_j z_j|² − E ΣA²)/E|z|² of independent centred tokens z: a row of attention gathers
 * tokens that lie along its own query, c κ (1 − m₂ − 6m₃ + 6E(ΣA²)²) by parts in z twice. */
static void set_led(rs_field_attention *out, double n)
{
    double c = exp(out->ln_variance);
    rs_softmax_moments m = out->moments;
    if (c > COLD) {
        c = COLD;
        rs_softmax_moments_of(&m, n, c);
    }
    double sum = 1 - m.second - 6 * m.third + 6 * m.square;
    out->ln_led =
        sum > 0 ? rs_ln_times(fmin(out->ln_variance, log(COLD)), log(sum * out->kappa)) : -INFINITY;
}

rs_status rs_field_attend(rs_field_attention *out, const rs_theory_attention *op, rs_pair in,
                          double n, double kappa, const rs_theory_settings *settings, rs_error *err)
{
    double square = rs_pair_square(in, n), softmax = rs_ln_square(op->softmax);
    double scale = log(op->logit) + log(op->queries) + log(op->keys);
    *out = (rs_field_attention){.in = in,
                                .kappa = kappa,
                                .ln_kept = -INFINITY,
                                .ln_spread = -INFINITY,
                                .ln_led = -INFINITY};
    if (op->softmax == 0) scale = -INFINITY; /* whatever the logits are, nothing reads them */
    out->ln_deviation = rs_ln_times(scale, 2 * square) / 2;
    out->ln_variance = n > 1 ? rs_ln_times(rs_ln_times(scale, square), in.gap) : -INFINITY;
    rs_softmax_moments_of(&out->moments, n, exp(out->ln_variance));
    if (n > 1) {
        RS_TRY(set_cross(out, n, rs_pair_apart(in, n), settings->rough, err));
        if (!settings->leading) set_led(out, n);
    }
    if (settings->leading) out->moments.square = out->moments.second * out->moments.second;
    double identity = rs_ln_square(op->identity);
    double rows = rs_ln_square(op->identity + op->softmax - op->uniform);
    /* queries of two rows have the tokens' correlation: 1 − ρ of it in gaps, m/q in means */
    double kept = rs_ln_add(out->ln_kept, rs_ln_times(out->ln_led, rs_pair_apart(in, n)));
    double spread = rs_ln_add(out->ln_spread, rs_ln_times(out->ln_led, in.mean - square));
    out->mixed.gap =
        rs_ln_add(rs_ln_times(in.gap, identity), rs_ln_times(in.gap, rs_ln_times(softmax, kept)));
    out->mixed.mean =
        rs_ln_add(rs_ln_times(in.mean, rows), rs_ln_times(in.gap, rs_ln_times(softmax, spread)));
    return RS_OK;
}

rs_pair rs_field_attended(const rs_field_attention *at, const rs_theory_attention *op)
{
    return rs_pair_times(at->mixed, log(op->values) + log(op->output));
}

/* ---- MLP ---- */

/* ln of what the mean of n outputs has, cosine being theirs and ln_lost the logarithm of 1 − cosine;
 * 0 is rounding's, of tokens that sum to 0. */
static double mean_part(double ln_square, double cosine, double lost, double n)
{
    double part = cosine + lost / n;
    return part > 0 ? ln_square + log(part) : -INFINITY;
}

static void run_plain(rs_field_mlp *out, const rs_activation_moments *m, const rs_theory_mlp *op,
                      rs_pair in, double n)
{
    double down = log(op->down), both = log(op->up) + down;
    out->out.gap = rs_ln_times(m->ln_gap, down);
    out->out.mean =
        rs_ln_times(mean_part(m->ln_square, m->cosine, exp(m->ln_gap - m->ln_square), n), down);
    if (op->kind == RS_GAUSS_LINEAR) out->out.mean = rs_ln_times(in.mean, both);
    out->ln_own = both + log(m->slope);
    out->cross_negative = m->slope_both < 0;
    out->ln_cross = both + log(fabs(m->slope_both));
    out->ln_lost = rs_ln_times(m->ln_slope_gap, both);
}

/* y = φ(gate x) ∘ (up x): second moments are products, and so are their gaps by parts. */
static void run_gated(rs_field_mlp *out, const rs_activation_moments *m, const rs_theory_mlp *op,
                      rs_pair in, double n)
{
    double square = rs_pair_square(in, n), rho = rs_pair_rho(in, n), gate = log(op->gate);
    double scale = log(op->up) + log(op->down), both = m->cosine * rho;
    double ln_y = m->ln_square + square, lost = 1 - both;
    double gap = m->cosine > 0 ? rs_ln_add(m->ln_gap + square,
                                           rs_ln_times(m->ln_square + log(m->cosine), in.gap))
                               : ln_y + log(lost);
    out->out.gap = rs_ln_times(gap, scale);
    out->out.mean = rs_ln_times(mean_part(ln_y, both, exp(gap - ln_y), n), scale);
    double own = gate + log(m->slope) + square;
    double slope_gap = rs_ln_add(rs_ln_times(m->ln_slope_gap, square),
                                 rs_ln_times(in.gap, log(fmax(m->slope_both, 0))));
    out->ln_own = scale + rs_ln_add(own, m->ln_square);
    out->ln_lost = rs_ln_times(rs_ln_add(rs_ln_times(slope_gap, gate), m->ln_gap), scale);
    /* the cross factor over E|φ|², signed */
    double cross = exp(gate + square - m->ln_square) * m->slope_both * rho + m->cosine;
    out->cross_negative = cross < 0;
    out->ln_cross = scale + m->ln_square + log(fabs(cross));
}

bool rs_field_mlp_run(rs_field_mlp *out, rs_activation_map *map, const rs_theory_mlp *op,
                      rs_pair in, double n)
{
    double square = rs_pair_square(in, n), apart = n > 1 ? rs_pair_apart(in, n) : -INFINITY;
    double ln_q = rs_ln_times(square, log(op->gated ? op->gate : op->up));
    rs_activation_moments m;
    *out = (rs_field_mlp){.out = {-INFINITY, -INFINITY},
                          .ln_own = -INFINITY,
                          .ln_cross = -INFINITY,
                          .ln_lost = -INFINITY};
    if (!rs_activation_map_at(map, fmax(ln_q, -RS_LN_MOST))) return false;
    rs_activation_map_moments(&m, map, apart);
    if (op->gated)
        run_gated(out, &m, op, in, n);
    else
        run_plain(out, &m, op, in, n);
    /* φ(0) = 0 but for the sigmoid */
    if (ln_q == -INFINITY && op->kind != RS_GAUSS_SIGMOID)
        out->out = (rs_pair){-INFINITY, -INFINITY};
    return true;
}
