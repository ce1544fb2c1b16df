/* bounds_layer.h: attention layers, MLPs and norms of a few tokens by plain loops, for
 * test_bounds.c: what the inequalities are compared with. */
#ifndef RS_TEST_BOUNDS_LAYER_H
#define RS_TEST_BOUNDS_LAYER_H

#include "base/random.h"
#include "proof/bounds.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 5, WIDTH = 4, HEADS = 3, INNER = 5 };

/* Between low and high, evenly in the logarithm. */
static inline double pick(rs_random *random, double low, double high)
{
    return low * pow(high / low, rs_random_uniform(random));
}

static inline void softmax(double *x, int n)
{
    double most = x[0], sum = 0;
    for (int j = 1; j < n; j++)
        most = fmax(most, x[j]);
    for (int j = 0; j < n; j++)
        sum += x[j] = exp(x[j] - most);
    for (int j = 0; j < n; j++)
        x[j] /= sum;
}

static inline double distance(const double *x, const double *y, int d)
{
    double sum = 0;
    for (int k = 0; k < d; k++)
        sum += (x[k] - y[k]) * (x[k] - y[k]);
    return sqrt(sum);
}

static inline double length(const double *x, int d)
{
    static const double zero[64];
    return distance(x, zero, d);
}

/* ‖M‖₂ of a small matrix [rows, cols] from (MᵀM)^(2^40), to 1e-13. */
static inline double two_norm(const double *m, int rows, int cols)
{
    double g[INNER * INNER], h[INNER * INNER], log_scale = 0, power = 1, trace = 0;
    for (int i = 0; i < cols; i++)
        for (int j = 0; j < cols; j++) {
            g[i * cols + j] = 0;
            for (int k = 0; k < rows; k++)
                g[i * cols + j] += m[k * cols + i] * m[k * cols + j];
        }
    for (int t = 0; t <= 40; t++) {
        trace = 0;
        for (int i = 0; i < cols; i++)
            trace += g[i * cols + i];
        if (!(trace > 0)) return 0;
        log_scale += log(trace) / power;
        for (int i = 0; i < cols * cols; i++)
            g[i] /= trace;
        if (t == 40) break;
        for (int i = 0; i < cols; i++)
            for (int j = 0; j < cols; j++) {
                h[i * cols + j] = 0;
                for (int k = 0; k < cols; k++)
                    h[i * cols + j] += g[i * cols + k] * g[k * cols + j];
            }
        memcpy(g, h, sizeof g);
        power *= 2;
    }
    return exp(0.5 * log_scale) * (1 + 1e-12);
}

/* ---- bounds as doubles ---- */

static inline double bound_norm(double delta, double gain, double std, const rs_bound_constants *c)
{
    arb_t x;
    arb_init(x);
    rs_ball_set(x, delta);
    rs_norm_bound_ball(x, x, gain, std, c);
    double out = rs_ball_upper(x);
    arb_clear(x);
    return out;
}

static inline double bound_attention(double delta, const rs_head_bound *heads, int n,
                                     const rs_bound_constants *c)
{
    arb_t x;
    arb_init(x);
    rs_ball_set(x, delta);
    rs_attention_bound_ball(x, x, heads, n, c);
    double out = rs_ball_upper(x);
    arb_clear(x);
    return out;
}

typedef struct interval {
    double lo, hi;
} interval;

/* [lo, hi] through X ← skip·X + attention. */
static inline interval carry_heads(double lo, double hi, double skip, const rs_head_bound *heads,
                                   int n, const rs_bound_constants *c)
{
    interval out;
    arb_t low, high, op;
    arb_init(low);
    arb_init(high);
    arb_init(op);
    rs_ball_set(low, lo);
    rs_ball_set(high, hi);
    rs_attention_bound_ball(op, high, heads, n, c);
    out.hi = fabs(skip) * hi + rs_ball_upper(op);
    arb_div(op, op, high, RS_BALL_BITS);
    rs_ball_keep_upper(op);
    rs_skip_lower_ball(low, skip, op);
    out.lo = fmax(0, rs_ball_lower(low));
    arb_clear(op);
    arb_clear(high);
    arb_clear(low);
    return out;
}

static inline interval carry(double lo, double hi, double skip, const rs_head_bound *head,
                             const rs_bound_constants *c)
{
    return carry_heads(lo, hi, skip, head, 1, c);
}

/* ---- a norm ---- */

static inline double layer_std(const double *x, int d, double eps, bool centred)
{
    double mean = 0, square = 0;
    for (int k = 0; k < d && centred; k++)
        mean += x[k] / d;
    for (int k = 0; k < d; k++)
        square += (x[k] - mean) * (x[k] - mean);
    return sqrt(square / d + eps);
}

static inline void layer_norm(double *x, int d, const double *g, double eps, bool centred)
{
    double mean = 0, std = layer_std(x, d, eps, centred);
    for (int k = 0; k < d && centred; k++)
        mean += x[k] / d;
    for (int k = 0; k < d; k++)
        x[k] = g[k] * (x[k] - mean) / std;
}

/* ---- an MLP ---- */

static inline double activation_of(double x, int a)
{
    switch (a) {
    case RS_ACT_RELU:
        return x > 0 ? x : 0;
    case RS_ACT_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case RS_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case RS_ACT_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case RS_ACT_SILU:
        return x / (1 + exp(-x));
    case RS_ACT_TANH:
        return tanh(x);
    case RS_ACT_RELU2:
        return x > 0 ? x * x : 0;
    case RS_ACT_SIN:
        return sin(x);
    case RS_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return x;
    }
}

typedef struct small_mlp {
    int d, width, activation;
    bool gated;
    double up[INNER * WIDTH], gate[INNER * WIDTH], down[WIDTH * INNER], b[INNER], bg[INNER];
} small_mlp;

static inline void draw_mlp(small_mlp *m, rs_random *random)
{
    m->d = 1 + (int)(rs_random_uniform(random) * WIDTH);
    m->width = 1 + (int)(rs_random_uniform(random) * INNER);
    m->activation = (int)(rs_random_uniform(random) * RS_ACT_COUNT);
    m->gated = rs_random_uniform(random) < 0.4;
    double size = pick(random, 0.1, 3);
    for (int i = 0; i < INNER * WIDTH; i++) {
        m->up[i] = size * rs_random_normal(random);
        m->gate[i] = size * rs_random_normal(random);
        m->down[i] = rs_random_normal(random);
    }
    for (int i = 0; i < INNER; i++) {
        m->b[i] = rs_random_normal(random);
        m->bg[i] = rs_random_normal(random);
    }
}

static inline void run_mlp(double *out, const double *x, const small_mlp *m)
{
    double h[INNER];
    for (int u = 0; u < m->width; u++) {
        double up = m->b[u], gate = m->bg[u];
        for (int k = 0; k < m->d; k++) {
            up += m->up[u * m->d + k] * x[k];
            gate += m->gate[u * m->d + k] * x[k];
        }
        h[u] =
            m->gated ? activation_of(gate, m->activation) * up : activation_of(up, m->activation);
    }
    for (int k = 0; k < m->d; k++) {
        out[k] = 0;
        for (int u = 0; u < m->width; u++)
            out[k] += m->down[k * m->width + u] * h[u];
    }
}

static inline rs_mlp_bound mlp_bound(const small_mlp *m)
{
    rs_mlp_bound b = {.activation = (rs_activation)m->activation,
                      .gated = m->gated,
                      .up_two = two_norm(m->up, m->width, m->d),
                      .gate_two = two_norm(m->gate, m->width, m->d),
                      .down_two = two_norm(m->down, m->d, m->width)};
    for (int u = 0; u < m->width; u++) {
        b.up_row = fmax(b.up_row, length(m->up + u * m->d, m->d) * (1 + 1e-14));
        b.gate_row = fmax(b.gate_row, length(m->gate + u * m->d, m->d) * (1 + 1e-14));
        b.up_bias = fmax(b.up_bias, fabs(m->b[u]));
        b.gate_bias = fmax(b.gate_bias, fabs(m->bg[u]));
    }
    return b;
}

/* ---- an attention layer ---- */

typedef struct small_layer {
    int n, d, heads;
    bool causal;
    double x[TOKENS * WIDTH];
    double qk[HEADS][WIDTH * WIDTH], w[HEADS][WIDTH * WIDTH], key_bias[HEADS][WIDTH];
    double scale_of_values; /* how large the outputs are, for the rounding of this very file */
} small_layer;

static inline void draw_layer(small_layer *l, rs_random *random, bool narrow)
{
    memset(l, 0, sizeof *l);
    l->n = narrow ? 2 : 2 + (int)(rs_random_uniform(random) * (TOKENS - 1));
    l->d = narrow ? 1 : 1 + (int)(rs_random_uniform(random) * WIDTH);
    l->heads = narrow ? 1 : 1 + (int)(rs_random_uniform(random) * HEADS);
    double spread = pick(random, 0.02, 3), far = pick(random, 0.01, 5);
    double centre[WIDTH], logits = pick(random, 0.1, 3), values = pick(random, 0.05, 3);
    for (int k = 0; k < l->d; k++)
        centre[k] = far * rs_random_normal(random);
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->d; k++)
            l->x[i * l->d + k] = centre[k] + spread * rs_random_normal(random);
    for (int h = 0; h < l->heads; h++) {
        for (int i = 0; i < l->d * l->d; i++) {
            l->qk[h][i] = logits * rs_random_normal(random);
            l->w[h][i] = values * rs_random_normal(random);
        }
        for (int k = 0; k < l->d; k++)
            l->key_bias[h][k] = rs_random_normal(random);
    }
}

/* P of head h [n, n]. */
static inline void mixing(double *p, const small_layer *l, int h)
{
    for (int i = 0; i < l->n; i++) {
        int keys = l->causal ? i + 1 : l->n;
        memset(p + i * l->n, 0, (size_t)l->n * sizeof *p);
        for (int j = 0; j < keys; j++) {
            double a = 0;
            for (int r = 0; r < l->d; r++)
                for (int c = 0; c < l->d; c++)
                    a += (l->x[i * l->d + r]) * l->qk[h][r * l->d + c] * l->x[j * l->d + c];
            for (int c = 0; c < l->d; c++) /* a bias of the queries: a row vector times keys */
                a += l->key_bias[h][c] * l->x[j * l->d + c];
            p[i * l->n + j] = a;
        }
        softmax(p + i * l->n, keys);
    }
}

/* y [n, d] = Σ_h P_h X W_h */
static inline void run_layer(double *y, const small_layer *l)
{
    memset(y, 0, sizeof(double) * TOKENS * WIDTH);
    for (int h = 0; h < l->heads; h++) {
        double p[TOKENS * TOKENS];
        mixing(p, l, h);
        for (int i = 0; i < l->n; i++) {
            double mixed[WIDTH] = {0};
            for (int j = 0; j < l->n; j++) /* about token 0, so that near tokens do not cancel */
                for (int k = 0; k < l->d; k++)
                    mixed[k] += p[i * l->n + j] * (l->x[j * l->d + k] - l->x[k]);
            for (int k = 0; k < l->d; k++)
                for (int c = 0; c < l->d; c++)
                    y[i * l->d + c] += mixed[k] * l->w[h][k * l->d + c];
        }
    }
}

static inline double diameter(const double *x, int n, int d)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            most = fmax(most, distance(x + i * d, x + j * d, d));
    return most;
}

static inline void head_bounds(rs_head_bound *out, const small_layer *l, bool by_tau)
{
    for (int h = 0; h < l->heads; h++) {
        double p[TOKENS * TOKENS], rows[TOKENS], mean[TOKENS];
        rs_mixing_contraction got = {0};
        mixing(p, l, h);
        rs_mixing_contraction_of(&got, p, NULL, l->n, l->n, l->n, rows, mean);
        out[h] = (rs_head_bound){.qk_norm = by_tau ? NAN : two_norm(l->qk[h], l->d, l->d),
                                 .value_norm = two_norm(l->w[h], l->d, l->d),
                                 .measured = by_tau ? got.tau * (1 + 1e-13) : NAN,
                                 .softmax = 1};
    }
}

static inline double ratio_of(const small_layer *l, bool by_tau, const rs_bound_constants *c)
{
    double y[TOKENS * WIDTH], before = diameter(l->x, l->n, l->d);
    rs_head_bound heads[HEADS];
    run_layer(y, l);
    head_bounds(heads, l, by_tau);
    double bound = bound_attention(before, heads, l->heads, c);
    double after = diameter(y, l->n, l->d);
    double noise = 0; /* what exp and the sums of this file lose */
    for (int h = 0; h < l->heads; h++)
        noise += heads[h].value_norm * before * 4e-14;
    return after <= noise ? 0 : (after - noise) / bound;
}

static inline double layer_ratio(const small_layer *l, const rs_bound_constants *c)
{
    return ratio_of(l, false, c);
}

static inline double layer_ratio_by_tau(const small_layer *l)
{
    return ratio_of(l, true, &rs_bounds_exact);
}

/* Hill climbing from a random layer: the largest ratio met. */
static inline double climb_layer(rs_random *random, int steps, const rs_bound_constants *c)
{
    small_layer best, next;
    draw_layer(&best, random, rs_random_uniform(random) < 0.5);
    double most = layer_ratio(&best, c), size = 0.5;
    for (int t = 0; t < steps; t++) {
        next = best;
        for (int i = 0; i < next.n * next.d; i++)
            if (rs_random_uniform(random) < 0.4) next.x[i] += size * rs_random_normal(random);
        for (int h = 0; h < next.heads; h++)
            for (int i = 0; i < next.d * next.d; i++) {
                if (rs_random_uniform(random) < 0.3)
                    next.qk[h][i] += size * rs_random_normal(random);
                if (rs_random_uniform(random) < 0.3)
                    next.w[h][i] += size * rs_random_normal(random);
            }
        for (int k = 0; k < next.d; k++)
            if (rs_random_uniform(random) < 0.3)
                next.key_bias[0][k] += size * rs_random_normal(random);
        double ratio = layer_ratio(&next, c);
        if (ratio > most) most = ratio, best = next;
        if (t % 300 == 299) size *= 0.75;
    }
    return most;
}

/* ---- the extremal pair ---- */

typedef struct extremal_pair {
    bool bound_below, plain_below; /* than the truth */
    double gap;                    /* of the bound above the truth, relative */
} extremal_pair;

/* Tokens ±δ/2, W_QK = k, W = w: the truth is w tanh(kδ²/4) δ. */
static inline extremal_pair extremal(double k, double delta, double w, const rs_bound_constants *c)
{
    arb_t exact, got, x;
    extremal_pair out;
    rs_head_bound head = {.qk_norm = k, .value_norm = w, .measured = NAN, .softmax = 1};
    double bound = bound_attention(delta, &head, 1, c);
    double plain = w * tanh(k * delta * delta * 0.25) * delta;
    arb_init(exact);
    arb_init(got);
    arb_init(x);
    arb_set_d(exact, k);
    arb_set_d(x, delta);
    arb_mul(exact, exact, x, 300);
    arb_mul(exact, exact, x, 300);
    arb_mul_2exp_si(exact, exact, -2);
    arb_tanh(exact, exact, 300);
    arb_mul(exact, exact, x, 300);
    arb_set_d(x, w);
    arb_mul(exact, exact, x, 300);
    arb_set_d(got, bound);
    out.bound_below = arb_lt(got, exact);
    arb_sub(got, got, exact, 300);
    arb_div(got, got, exact, 300);
    out.gap = arf_get_d(arb_midref(got), ARF_RND_NEAR);
    arb_set_d(got, plain);
    out.plain_below = arb_lt(got, exact);
    arb_clear(x);
    arb_clear(got);
    arb_clear(exact);
    return out;
}

/* ---- skips ---- */

static inline interval skip_bounds(small_layer *l, double skip, const rs_bound_constants *c)
{
    rs_head_bound heads[HEADS];
    double before = diameter(l->x, l->n, l->d);
    head_bounds(heads, l, false);
    l->scale_of_values = 0;
    for (int h = 0; h < l->heads; h++)
        l->scale_of_values += heads[h].value_norm * before;
    return carry_heads(before * (1 - 1e-14), before * (1 + 1e-14), skip, heads, l->heads, c);
}

static inline double skip_diameter(const small_layer *l, double skip)
{
    double y[TOKENS * WIDTH];
    run_layer(y, l);
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->d; k++)
            y[i * l->d + k] += skip * (l->x[i * l->d + k] - l->x[k]);
    return diameter(y, l->n, l->d);
}

/* ---- the composite norm ---- */

/* ‖R‖₁‖R‖∞ */
static inline double composite_square(const double *r, int n, int d)
{
    double one = 0, inf = 0;
    for (int k = 0; k < d; k++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += fabs(r[i * d + k]);
        one = fmax(one, sum);
    }
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < d; k++)
            sum += fabs(r[i * d + k]);
        inf = fmax(inf, sum);
    }
    return one * inf;
}

static inline void induced(double *one, double *inf, const double *m, int d)
{
    *one = *inf = 0;
    for (int i = 0; i < d; i++) {
        double row = 0, column = 0;
        for (int j = 0; j < d; j++) {
            row += fabs(m[i * d + j]);
            column += fabs(m[j * d + i]);
        }
        *one = fmax(*one, column);
        *inf = fmax(*inf, row);
    }
}

/* The tracked residual λR + Σ_h (P_h − 1p_hᵀ) R W_h about the centre of the tokens, against C7. */
static inline double recursion_ratio(const small_layer *l, double skip, const rs_bound_constants *c)
{
    int n = l->n, d = l->d;
    double centre[WIDTH] = {0}, r[TOKENS * WIDTH], out[TOKENS * WIDTH];
    rs_head_sums sums[HEADS];
    for (int i = 0; i < n; i++)
        for (int k = 0; k < d; k++)
            centre[k] += l->x[i * d + k] / n;
    for (int i = 0; i < n * d; i++)
        r[i] = l->x[i] - centre[i % d], out[i] = skip * r[i];
    for (int h = 0; h < l->heads; h++) {
        double p[TOKENS * TOKENS], base[TOKENS], range = 0;
        mixing(p, l, h);
        for (int j = 0; j < n; j++) {
            base[j] = 0;
            for (int a = 0; a < d; a++) {
                double query = l->key_bias[h][a];
                for (int b = 0; b < d; b++)
                    query += centre[b] * l->qk[h][b * d + a];
                base[j] += query * r[j * d + a];
            }
        }
        for (int i = 0; i < n; i++) {
            double low = INFINITY, high = -INFINITY;
            for (int j = 0; j < n; j++) {
                double e = 0;
                for (int a = 0; a < d; a++)
                    for (int b = 0; b < d; b++)
                        e += r[i * d + a] * l->qk[h][a * d + b] * r[j * d + b];
                low = fmin(low, e);
                high = fmax(high, e);
            }
            range = fmax(range, high - low);
        }
        softmax(base, n);
        for (int i = 0; i < n; i++)
            for (int a = 0; a < d; a++) {
                double mixed = 0;
                for (int j = 0; j < n; j++)
                    mixed += (p[i * n + j] - base[j]) * r[j * d + a];
                for (int b = 0; b < d; b++)
                    out[i * d + b] += mixed * l->w[h][a * d + b];
            }
        double inf;
        induced(&sums[h].qk_one, &inf, l->qk[h], d);
        induced(&sums[h].w_one, &sums[h].w_inf, l->w[h], d);
        sums[h].range = h % 2 ? NAN : range * (1 + 1e-9);
    }
    rs_recursion_step step = {sums, l->heads, fabs(skip), 1, 1, 1};
    double q = composite_square(r, n, d), after = composite_square(out, n, d);
    if (!(q > 1e-12)) return 0;
    double bound = rs_recursion_bound(log10(q), &step, c);
    return after < 1e-26 * q ? 0 : pow(10, 0.5 * (log10(after) - bound));
}

/* About the mean against about another centre. */
static inline double centre_ratio(rs_random *random, const rs_bound_constants *c)
{
    int n = 2 + (int)(rs_random_uniform(random) * (TOKENS - 1));
    int d = 1 + (int)(rs_random_uniform(random) * WIDTH);
    double x[TOKENS * WIDTH], mean[WIDTH] = {0}, other[WIDTH] = {0}, weight[TOKENS], sum = 0;
    for (int i = 0; i < n; i++) {
        double size = pick(random, 1e-3, 1e3);
        sum += weight[i] = pow(rs_random_uniform(random), 8);
        for (int k = 0; k < d; k++) {
            x[i * d + k] = size * rs_random_normal(random);
            mean[k] += x[i * d + k] / n;
        }
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < d; k++)
            other[k] += weight[i] / sum * x[i * d + k];
    double a[TOKENS * WIDTH], b[TOKENS * WIDTH];
    for (int i = 0; i < n * d; i++)
        a[i] = x[i] - mean[i % d], b[i] = x[i] - other[i % d];
    double best = composite_square(b, n, d);
    if (!(best > 0)) return 0;
    return sqrt(composite_square(a, n, d) / best) / rs_centre_factor(n, c);
}

#endif
