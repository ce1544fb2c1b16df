/* mean_field_back.c: the way back through one branch (docs/theory/mean_field.md, 5). */
#include "predict/ln.h"
#include "predict/mean_field.h"

/* Moments that the derivative of a softmax by its logits has, of one row and of two. */
typedef struct logit_moments {
    double one, two;     /* without and */
    double one_k, two_k; /* with what tokens of finite width have in common */
} logit_moments;

static logit_moments logits_of(const rs_field_attention *at)
{
    double m2 = at->moments.second, m3 = at->moments.third, cross = at->cross, kappa = at->kappa;
    logit_moments t = {.one = m2 - 2 * m3 + at->moments.square,
                       .two = cross - 2 * m2 * cross + cross * cross};
    t.one_k = t.one + kappa * (1 - m2);
    t.two_k = t.two + kappa * (1 - cross);
    return t;
}

/* (n − 1) times the product of the correlations of tokens and of derivatives. */
static double common_part(rs_pair x, rs_pair b, double n)
{
    return n > 1 ? (n - 1) * rs_pair_rho(x, n) * rs_pair_rho(b, n) : 0;
}

/* Σ_ij K_ij B_ij / n² of two pairs: no term is negative. */
static double ln_product(rs_pair x, rs_pair b, double n)
{
    double gaps = n > 1 ? x.gap + b.gap + log((n - 1) / (n * n)) : -INFINITY;
    return rs_ln_add(rs_ln_times(x.mean, b.mean), gaps);
}

/* Through the values, Mᵀ: sums over queries. */
static rs_pair back_through_values(const rs_field_attention *at, const rs_theory_attention *op,
                                   rs_pair b, double n)
{
    double softmax = rs_ln_square(op->softmax), identity = rs_ln_square(op->identity);
    double rows = rs_ln_square(op->identity + op->softmax - op->uniform);
    double lifted = n > 1 ? rs_ln_times(at->ln_spread, log(n * n / (n - 1))) : -INFINITY;
    double mixed = rs_ln_add(rs_ln_times(b.gap, at->ln_kept), rs_ln_times(b.mean, lifted));
    return (rs_pair){
        .mean = rs_ln_times(b.mean, rows),
        .gap = rs_ln_add(rs_ln_times(b.gap, identity), rs_ln_times(mixed, softmax)),
    };
}

/* Through queries and keys: of the order of what comes through the values, 1/n beside a skip. */
static rs_pair back_through_logits(const rs_field_attention *at, const rs_theory_attention *op,
                                   rs_pair b, double n)
{
    logit_moments t = logits_of(at);
    double rho = n > 1 ? rs_pair_rho(b, n) : 0, common = common_part(at->in, b, n);
    double scale = log(op->logit) + log(op->queries) + log(op->keys) + rs_ln_square(op->softmax);
    scale = rs_ln_times(scale, rs_pair_square(b, n) + at->in.gap);
    double whole = scale + rs_pair_square(at->in, n), part = scale + at->in.gap;
    double keys = whole + log(fmax(t.one + common * t.two, 0));
    double apart = part + log(fmax(t.one_k - rho * t.two_k, 0));
    double mean = part + log(fmax(t.one_k + (n - 1) * rho * t.two_k, 0) / n);
    if (scale == -INFINITY || n == 1) return (rs_pair){-INFINITY, -INFINITY};
    return (rs_pair){.mean = mean, .gap = rs_ln_add(apart, keys + log(n / (n - 1)))};
}

void rs_field_attention_back(rs_field_gradients *g, const rs_field_attention *at,
                             const rs_theory_attention *op, rs_pair out, double n, double d)
{
    double values = log(op->values);
    rs_pair heads = rs_pair_times(out, log(op->output));
    double sums = ln_product(at->mixed, heads, n);
    rs_pair b = rs_pair_times(heads, values);
    logit_moments t = logits_of(at);
    double shape = fmax(t.one_k + common_part(at->in, b, n) * t.two_k, 0);
    double logits = log(op->logit) + rs_ln_square(op->softmax) + log(n) + 2 * log(d) + log(shape);
    logits = rs_ln_times(logits, 2 * at->in.gap);
    logits = rs_ln_times(logits, rs_ln_times(rs_pair_square(at->in, n), rs_pair_square(b, n)));
    g->ln_value = rs_ln_times(sums, 2 * log(n) + 2 * log(d));
    g->ln_output =
        op->merged ? NAN
                   : rs_ln_times(ln_product(at->mixed, out, n) + values, 2 * log(n) + 2 * log(d));
    g->ln_query = rs_ln_times(logits, log(op->keys));
    g->ln_key = rs_ln_times(logits, log(op->queries));
    g->in = rs_pair_add(back_through_values(at, op, b, n), back_through_logits(at, op, b, n));
}

rs_pair rs_field_mlp_back(const rs_field_mlp *at, rs_pair out, double n)
{
    double lost = rs_ln_times(at->ln_lost, rs_pair_square(out, n));
    rs_pair kept = rs_pair_times(out, at->ln_cross);
    rs_pair add = {.mean = lost - log(n), .gap = lost};
    if (!at->cross_negative) return rs_pair_add(kept, add);
    return (rs_pair){rs_ln_less(add.mean, kept.mean), rs_ln_less(add.gap, kept.gap)};
}
