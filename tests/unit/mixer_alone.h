/* mixer_alone.h: mixers whose maps only pick, so that what is compared is the scan, and the
 * recurrences of docs/theory/ssm.md, token by token in long double. Include behind cmocka.h. */
#ifndef RS_TEST_MIXER_ALONE_H
#define RS_TEST_MIXER_ALONE_H

#include "mixer_support.h"

/* ---- mixers whose maps only pick ---- */

/* How long a memory is; a text that repeats one token rounds the same way at each. */
typedef enum recall { SHORT_MEMORY, LONG_MEMORY, LONG_MEMORY_OF_ONE_TOKEN, RECALLS } recall;

enum { HEADS = 4, GROUPS = 2, DIM = 3, STATES = 5, CHANNELS = 13 };

static inline rs_branch alone_of(rs_branch_kind kind)
{
    return (rs_branch){.kind = kind, .scale = 1}; /* no skip, no norm */
}

static inline rs_branch ssd_alone(built *b, recall memory, bool skip)
{
    rs_branch branch = alone_of(RS_BRANCH_SSD);
    rs_ssd_op *op = &branch.ssd;
    *op = (rs_ssd_op){.heads = HEADS,
                      .groups = GROUPS,
                      .head_dim = DIM,
                      .state = STATES,
                      .step_most = INFINITY,
                      .gate = RS_GATE_NONE,
                      .norm_groups = 1};
    int64_t inner = HEADS * DIM, d = 2 * inner + 2 * GROUPS * STATES + HEADS;
    op->in = pick(b, d, 0, d);
    op->conv = no_conv(b, inner + 2 * GROUPS * STATES);
    op->a_log = tensor(b, RS_F32, HEADS, memory != SHORT_MEMORY ? -8 : 0, 1);
    if (skip) op->d = tensor(b, RS_F32, HEADS, 0, 1);
    op->o = place(b, inner, d);
    return branch;
}

static inline rs_branch s6_alone(built *b, recall memory, bool skip)
{
    rs_branch branch = alone_of(RS_BRANCH_S6);
    rs_s6_op *op = &branch.s6;
    *op = (rs_s6_op){.inner = CHANNELS, .state = STATES, .rank = 2};
    op->in = pick(b, 2 * CHANNELS, 0, 2 * CHANNELS);
    op->conv = no_conv(b, CHANNELS);
    op->x = pick(b, CHANNELS, 1, 2 + 2 * STATES);
    op->step = dense_of(b, 2, CHANNELS, true);
    op->a_log = tensor(b, RS_F32, CHANNELS * STATES, memory != SHORT_MEMORY ? -8 : 0, 1);
    if (skip) op->d = tensor(b, RS_F32, CHANNELS, 0, 1);
    op->o = place(b, CHANNELS, 2 * CHANNELS);
    return branch;
}

static inline rs_branch linear_alone(built *b, recall memory, bool skip)
{
    static const double decays[][HEADS] = {{0.5, 0.97, 0, 1 - 0x1p-5}, {1, 0.9999, 1 - 0x1p-12, 1}};
    rs_branch branch = alone_of(RS_BRANCH_LINEAR);
    rs_linear_op *op = &branch.linear;
    int64_t inner = HEADS * DIM, d = 3 * inner;
    *op = (rs_linear_op){.heads = HEADS,
                         .kv_heads = HEADS,
                         .head_dim = DIM,
                         .value_dim = DIM,
                         .temperature = 1,
                         .causal = true,
                         .without_self = !skip,
                         .feature_map = RS_FEATURE_ELU};
    op->q = pick(b, d, 0, inner);
    op->k = pick(b, d, inner, inner);
    op->v = pick(b, d, 2 * inner, inner);
    op->o = place(b, inner, d);
    op->decay = generate(b, 0, HEADS, 0, 0);
    memcpy((double *)(uintptr_t)op->decay->data, decays[memory != SHORT_MEMORY], sizeof decays[0]);
    return branch;
}

static inline rs_branch normalised_alone(built *b, recall memory, bool skip)
{
    rs_branch branch = linear_alone(b, memory, skip);
    branch.linear.normalised = true;
    return branch;
}

static inline rs_branch unmasked_alone(built *b, recall memory, bool skip)
{
    rs_branch branch = linear_alone(b, memory, skip);
    branch.linear.causal = false;
    branch.linear.decay = NULL;
    branch.linear.normalised = memory != SHORT_MEMORY;
    return branch;
}

/* Behind the scan, exact GELU: the gate is open. */
static inline rs_branch s4d_alone(built *b, recall memory, bool skip)
{
    rs_branch branch = alone_of(RS_BRANCH_S4D);
    rs_s4d_op *op = &branch.s4d;
    int64_t n = CHANNELS * STATES;
    *op = (rs_s4d_op){.channels = CHANNELS, .pairs = STATES};
    op->log_step = tensor(b, RS_F32, CHANNELS, memory != SHORT_MEMORY ? -7 : -3, 1);
    op->log_decay = tensor(b, RS_F32, n, -0.7, 0.3);
    op->frequency = tensor(b, RS_F32, n, 0, memory != SHORT_MEMORY ? 30 : 4);
    op->c = tensor(b, RS_F32, 2 * n, 0, 1);
    if (skip) op->d = tensor(b, RS_F32, CHANNELS, 0, 1);
    op->o = place(b, CHANNELS, CHANNELS);
    op->gate = generated_map(b, 0, CHANNELS, CHANNELS, 0);
    op->gate.bias = generate(b, 0, CHANNELS, 0, 50);
    return branch;
}

static inline rs_branch recurrence_alone(built *b, recall memory, bool skip)
{
    rs_branch branch = alone_of(RS_BRANCH_RECURRENCE);
    rs_recurrence_op *op = &branch.recurrence;
    (void)skip;
    *op = (rs_recurrence_op){.inner = CHANNELS};
    op->in = pick(b, 2 * CHANNELS, 0, 2 * CHANNELS);
    op->conv = no_conv(b, CHANNELS);
    op->gates = dense_of(b, CHANNELS, 3 * CHANNELS, true);
    if (memory != SHORT_MEMORY) { /* forget gates of a thousandth */
        rs_tensor *bias = generate(b, 0, 3 * CHANNELS, 0, 0);
        for (int c = 0; c < CHANNELS; c++)
            ((double *)(uintptr_t)bias->data)[c] = 7;
        op->gates = generated_map(b, 9, CHANNELS, 3 * CHANNELS, 0x1p-6);
        op->gates.bias = bias;
    }
    op->o = place(b, CHANNELS, 2 * CHANNELS);
    return branch;
}

static inline rs_branch delta_alone(built *b, recall memory, bool skip)
{
    rs_branch branch = alone_of(RS_BRANCH_DELTA);
    rs_delta_op *op = &branch.delta;
    (void)skip;
    int64_t keys = GROUPS * STATES, values = HEADS * DIM, d = 2 * keys + values + 2 * HEADS;
    *op = (rs_delta_op){.heads = HEADS,
                        .key_heads = GROUPS,
                        .key_dim = STATES,
                        .value_dim = DIM,
                        .strength_most = 1,
                        .activation = RS_ACT_LINEAR,
                        .gate = RS_GATE_NONE};
    op->q = pick(b, d, 0, keys);
    op->k = pick(b, d, keys, keys);
    op->v = pick(b, d, 2 * keys, values);
    op->a = pick(b, d, 2 * keys + values, HEADS);
    op->b = pick(b, d, 2 * keys + values + HEADS, HEADS);
    op->conv = no_conv(b, 2 * keys + values);
    op->a_log = tensor(b, RS_F32, HEADS, memory != SHORT_MEMORY ? -8 : 0, 1);
    op->o = place(b, values, d);
    return branch;
}

static inline rs_branch short_conv_alone(built *b, recall memory, bool skip)
{
    rs_branch branch = alone_of(RS_BRANCH_SHORT_CONV);
    rs_short_conv_op *op = &branch.short_conv;
    int64_t width = memory != SHORT_MEMORY ? 300 : 4;
    (void)skip;
    op->in = pick(b, 3 * CHANNELS, 0, 3 * CHANNELS);
    op->conv = (rs_conv_op){CHANNELS, width, NULL, NULL, {0}};
    op->conv.weight = tensor(b, RS_F32, CHANNELS * width, 0, 1);
    op->o = place(b, CHANNELS, 3 * CHANNELS);
    return branch;
}

/* ---- the recurrences ---- */

/* out: [n, ..] what leaves the scan; values: the same shape, what M is applied to. x: [n, d]. */
typedef void recur(long double *out, double *values, const rs_branch *branch, const double *x,
                   int64_t n);

static inline long double soft(long double x)
{
    return x > 20 ? x : log1pl(expl(x));
}

static inline double entry(const rs_tensor *t, int64_t i)
{
    double x;
    rs_tensor_decode_f64(&x, t, i, 1);
    return x;
}

static inline long double swish(long double x)
{
    return x / (1 + expl(-x));
}

static inline void ssd_recur(long double *out, double *values, const rs_branch *branch,
                             const double *x, int64_t n)
{
    const rs_ssd_op *op = &branch->ssd;
    int64_t inner = HEADS * DIM, keys = GROUPS * STATES, d = op->in.in;
    for (int64_t h = 0; h < HEADS; h++) {
        long double state[STATES][DIM] = {{0}}, rate = -expl((long double)entry(op->a_log, h));
        for (int64_t t = 0; t < n; t++) {
            const double *u = x + t * d + inner, *k = u + inner + h / (HEADS / GROUPS) * STATES;
            long double step = soft(x[(t + 1) * d - HEADS + h]);
            for (int64_t c = 0; c < DIM; c++) {
                long double v = swish(u[h * DIM + c]), sum = op->d ? v * entry(op->d, h) : 0;
                for (int64_t s = 0; s < STATES; s++) {
                    state[s][c] = expl(rate * step) * state[s][c] + step * swish(k[s]) * v;
                    sum += swish(k[keys + s]) * state[s][c];
                }
                out[t * inner + h * DIM + c] = sum;
                values[t * inner + h * DIM + c] = (double)v;
            }
        }
    }
}

static inline void s6_recur(long double *out, double *values, const rs_branch *branch,
                            const double *x, int64_t n)
{
    const rs_s6_op *op = &branch->s6;
    double *u = malloc((size_t)(n * CHANNELS) * sizeof *u), raw[CHANNELS];
    for (int64_t i = 0; i < n * CHANNELS; i++)
        u[i] = values[i] = silu(x[i / CHANNELS * 2 * CHANNELS + i % CHANNELS]);
    for (int64_t c = 0; c < CHANNELS; c++) {
        long double state[STATES] = {0};
        for (int64_t t = 0; t < n; t++) {
            const double *row = u + t * CHANNELS, *b = row + 3, *read = b + STATES;
            ref_dense(raw, row + 1, &op->step);
            long double step = soft(raw[c]), sum = op->d ? row[c] * entry(op->d, c) : 0;
            for (int64_t s = 0; s < STATES; s++) {
                long double rate = -expl((long double)entry(op->a_log, c * STATES + s));
                state[s] = expl(rate * step) * state[s] + step * b[s] * row[c];
                sum += read[s] * state[s];
            }
            out[t * CHANNELS + c] = sum;
        }
    }
    free(u);
}

static inline void linear_recur(long double *out, double *values, const rs_branch *branch,
                                const double *x, int64_t n)
{
    const rs_linear_op *op = &branch->linear;
    int64_t inner = HEADS * DIM;
    for (int64_t h = 0; h < HEADS; h++) {
        long double state[DIM][DIM + 1] = {{0}}; /* beside the values, the sums of keys */
        long double decay = op->decay ? entry(op->decay, h) : 1, sums[DIM + 1];
        for (int64_t t = 0; t < n; t++) {
            const double *q = x + t * 3 * inner + h * DIM, *k = q + inner, *v = k + inner;
            for (int64_t c = 0; c <= DIM; c++) {
                sums[c] = 0;
                for (int64_t s = 0; s < DIM; s++) {
                    long double query = q[s] > 0 ? q[s] + 1 : expl(q[s]);
                    long double key = k[s] > 0 ? k[s] + 1 : expl(k[s]), old = decay * state[s][c];
                    state[s][c] = old + key * (c < DIM ? v[c] : 1);
                    sums[c] += query * (op->without_self ? old : state[s][c]);
                }
            }
            for (int64_t c = 0; c < DIM; c++) {
                long double by = op->normalised ? sums[DIM] : 1;
                out[t * inner + h * DIM + c] = by == 0 ? 0 : sums[c] / by;
                values[t * inner + h * DIM + c] = v[c];
            }
        }
    }
}

/* Complex numbers as pairs of long doubles. */
static inline void s4d_recur(long double *out, double *values, const rs_branch *branch,
                             const double *x, int64_t n)
{
    const rs_s4d_op *op = &branch->s4d;
    memcpy(values, x, (size_t)(n * CHANNELS) * sizeof *values);
    for (int64_t c = 0; c < CHANNELS; c++) {
        long double step = expl(entry(op->log_step, c));
        for (int64_t t = 0; t < n; t++)
            out[t * CHANNELS + c] = op->d ? x[t * CHANNELS + c] * entry(op->d, c) : 0;
        for (int64_t s = c * STATES; s < (c + 1) * STATES; s++) {
            long double a[2] = {-expl(entry(op->log_decay, s)), entry(op->frequency, s)};
            long double size = expl(step * a[0]), square = a[0] * a[0] + a[1] * a[1], h[2] = {0};
            long double turn[2] = {size * cosl(step * a[1]), size * sinl(step * a[1])};
            long double top[2] = {turn[0] - 1, turn[1]};
            long double hold[2] = {(top[0] * a[0] + top[1] * a[1]) / square,
                                   (top[1] * a[0] - top[0] * a[1]) / square};
            for (int64_t t = 0; t < n; t++) {
                long double real = turn[0] * h[0] - turn[1] * h[1] + x[t * CHANNELS + c];
                h[1] = turn[0] * h[1] + turn[1] * h[0];
                h[0] = real;
                long double held[2] = {hold[0] * h[0] - hold[1] * h[1],
                                       hold[0] * h[1] + hold[1] * h[0]};
                out[t * CHANNELS + c] +=
                    2 * (entry(op->c, 2 * s) * held[0] - entry(op->c, 2 * s + 1) * held[1]);
            }
        }
    }
}

static inline void recurrence_recur(long double *out, double *values, const rs_branch *branch,
                                    const double *x, int64_t n)
{
    const rs_recurrence_op *op = &branch->recurrence;
    double gates[3 * CHANNELS];
    long double h[CHANNELS] = {0};
    for (int64_t t = 0; t < n; t++) {
        const double *u = x + t * 2 * CHANNELS + CHANNELS;
        ref_dense(gates, u, &op->gates);
        for (int64_t c = 0; c < CHANNELS; c++) {
            h[c] = h[c] / (1 + expl(-gates[c])) + u[c] / (1 + expl(-gates[CHANNELS + c]));
            out[t * CHANNELS + c] = h[c] / (1 + expl(-gates[2 * CHANNELS + c]));
            values[t * CHANNELS + c] = u[c];
        }
    }
}

static inline void delta_recur(long double *out, double *values, const rs_branch *branch,
                               const double *x, int64_t n)
{
    const rs_delta_op *op = &branch->delta;
    int64_t keys = GROUPS * STATES, inner = HEADS * DIM, d = op->q.in;
    for (int64_t h = 0; h < HEADS; h++) {
        long double state[STATES][DIM] = {{0}}, rate = expl(entry(op->a_log, h));
        for (int64_t t = 0; t < n; t++) {
            const double *row = x + t * d, *q = row + h / (HEADS / GROUPS) * STATES, *k = q + keys;
            const double *v = row + 2 * keys + h * DIM;
            long double decay = expl(-rate * soft(row[2 * keys + inner + h]));
            long double strength = 1 / (1 + expl(-row[2 * keys + inner + HEADS + h]));
            long double lengths[2] = {1e-6L, 1e-6L};
            for (int64_t s = 0; s < STATES; s++)
                lengths[0] += q[s] * (long double)q[s], lengths[1] += k[s] * (long double)k[s];
            for (int64_t c = 0; c < DIM; c++) {
                long double seen = 0, sum = 0;
                for (int64_t s = 0; s < STATES; s++) {
                    state[s][c] *= decay;
                    seen += state[s][c] * k[s] / sqrtl(lengths[1]);
                }
                for (int64_t s = 0; s < STATES; s++) {
                    state[s][c] += k[s] / sqrtl(lengths[1]) * strength * (v[c] - seen);
                    sum += state[s][c] * q[s] / sqrtl(lengths[0] * STATES);
                }
                out[t * inner + h * DIM + c] = sum;
                values[t * inner + h * DIM + c] = v[c];
            }
        }
    }
}

static inline void short_conv_recur(long double *out, double *values, const rs_branch *branch,
                                    const double *x, int64_t n)
{
    const rs_conv_op *conv = &branch->short_conv.conv;
    for (int64_t t = 0; t < n; t++)
        for (int64_t c = 0; c < CHANNELS; c++) {
            long double sum = 0;
            for (int64_t j = 0; j < conv->width && j <= t; j++) {
                const double *row = x + (t - j) * 3 * CHANNELS;
                sum += entry(conv->weight, c * conv->width + conv->width - 1 - j) * row[c] *
                       row[2 * CHANNELS + c];
            }
            out[t * CHANNELS + c] = sum * x[t * 3 * CHANNELS + CHANNELS + c];
            values[t * CHANNELS + c] = x[t * 3 * CHANNELS + 2 * CHANNELS + c];
        }
}

/* ---- the kinds ---- */

typedef rs_branch draw_alone(built *b, recall memory, bool skip);

static const struct kind {
    const char *name;
    draw_alone *draw;
    recur *recur;
    int64_t width, inner, per_matrix; /* of the state, of the scan, columns that share a matrix */
    bool gelu;
    bool no_recurrence; /* a token depends on later ones: `recur` gives the values alone */
} kinds[] = {
    {"Mamba-2", ssd_alone, ssd_recur, 2 * HEADS *DIM + 2 * GROUPS *STATES + HEADS, HEADS *DIM, DIM,
     false, false},
    {"Mamba", s6_alone, s6_recur, 2 * CHANNELS, CHANNELS, 1, false, false},
    {"linear attention", linear_alone, linear_recur, 3 * HEADS *DIM, HEADS *DIM, DIM, false, false},
    {"normalised linear attention", normalised_alone, linear_recur, 3 * HEADS *DIM, HEADS *DIM, DIM,
     false, false},
    {"linear attention without a mask", unmasked_alone, linear_recur, 3 * HEADS *DIM, HEADS *DIM,
     DIM, false, true},
    {"S4D", s4d_alone, s4d_recur, CHANNELS, CHANNELS, 1, true, false},
    {"gated recurrence", recurrence_alone, recurrence_recur, 2 * CHANNELS, CHANNELS, 1, false,
     false},
    {"gated delta rule", delta_alone, delta_recur, 2 * GROUPS *STATES + HEADS *DIM + 2 * HEADS,
     HEADS *DIM, DIM, false, false},
    {"short convolution", short_conv_alone, short_conv_recur, 3 * CHANNELS, CHANNELS, 1, false,
     false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static inline built *scan_new(const struct kind *kind, recall memory, bool skip, int64_t n,
                              uint64_t seed)
{
    built *b = calloc(1, sizeof *b);
    b->random = rs_random_new(seed, 31);
    b->dtype = RS_F32;
    b->network =
        (rs_network){.family = "alone", .d_model = kind->width, .layers = b->layers, .n_layers = 1};
    b->network.embedding.width = kind->width;
    b->layers[0].n_branches = 1;
    b->layers[0].branches[0] = kind->draw(b, memory, skip);
    b->begin[1] = n;
    b->states = malloc((size_t)(n * kind->width) * sizeof *b->states);
    for (int64_t i = 0; i < n * kind->width; i++)
        b->states[i] = i >= kind->width && memory == LONG_MEMORY_OF_ONE_TOKEN
                           ? b->states[i - kind->width]
                           : (float)rs_random_normal(&b->random); /* as float32 has them */
    b->batch = (rs_batch){.samples = 1, .begin = b->begin, .states = b->states};
    return b;
}

static inline double behind(const struct kind *kind, long double x)
{
    return (double)(kind->gelu ? x * (1 + erfl(x / sqrtl(2))) / 2 : x);
}

/* The largest error of the first n rows, of their largest entry. out: [n, inner]. */
static inline double error_of(const struct kind *kind, const double *states, const long double *out,
                              int64_t n)
{
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n * kind->inner; i++) {
        double expected = behind(kind, out[i]);
        double found = states[i / kind->inner * kind->width + i % kind->inner];
        largest = fmax(largest, fabs(expected));
        worst = fmax(worst, isfinite(found) ? fabs(found - expected) : INFINITY);
    }
    return largest > 0 ? worst / largest : worst;
}

#endif
