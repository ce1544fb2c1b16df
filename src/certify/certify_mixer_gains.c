/* certify_mixer_gains.c: how long the rows of a mixer without softmax can be, whatever it reads,
 * from its weights (docs/certificates_lambda.md, L21 to L24). */
#include "certify/certify_lambda_parts.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "network/op_traits.h"
#include "proof/lambda_scan.h"
#include "proof/lambda_span.h"

#include <math.h>

/* A weight times a gain, a factor or both: a few roundings of it (C10). */
static const double ROUNDED = 1 + 0x1p-50;

static const char unread_text[] =
    "a norm before the branch: else what it reads has no known length";
static const char convolution_text[] = "a convolution whose weights are stored as one";

static rs_lambda_number no_number(const char *failed)
{
    return (rs_lambda_number){NAN, false, failed};
}

static rs_status room(double **out, int64_t rows, int64_t cols, rs_error *err)
{
    size_t count;
    *out = NULL;
    if (!rs_size_mul((size_t)rows, (size_t)cols, &count))
        return rs_fail_memory(err, "weights", SIZE_MAX);
    *out = rs_malloc(count ? count : 1, sizeof **out);
    return *out ? RS_OK : rs_fail_memory(err, "weights", count * sizeof **out);
}

static rs_lambda_number smaller(rs_lambda_number a, rs_lambda_number b)
{
    if (!a.valid) return b;
    return b.valid && b.value < a.value ? b : a;
}

/* ---- the branch's site ---- */

/* What a mixer's first map reads: gain ∘ x + bias, ‖x‖ ≤ √d. */
typedef struct site {
    double *gain, *bias; /* [d]; NULL: nothing is known of what it reads */
    int64_t d, tokens;
    double root; /* √d, from above */
} site;

static rs_status open_site(site *out, const rs_network *network, int32_t l, int32_t b,
                           int64_t tokens, rs_error *err)
{
    const rs_norm_op *norm = rs_certify_reads_through(network, l, b);
    int64_t d = network->d_model;
    *out = (site){.d = d, .tokens = tokens, .root = rs_up(sqrt((double)d))};
    if (!norm || norm->dim != d) return RS_OK;
    RS_TRY(room(&out->gain, 2, d, err));
    out->bias = out->gain + d;
    rs_norm_vectors(out->gain, out->bias, norm);
    return RS_OK;
}

/* ---- what a map makes of what is read ---- */

/* Entries of a vector at any token. */
typedef struct bounds {
    double *most;    /* [n] their sizes */
    double *highest; /* [n] the entries themselves */
    double length;   /* of all together */
    int64_t n;
} bounds;

static rs_status open_bounds(bounds *out, int64_t n, rs_error *err)
{
    *out = (bounds){.n = n, .length = INFINITY};
    RS_TRY(room(&out->most, 2, n, err));
    out->highest = out->most + n;
    return RS_OK;
}

static void shorten(bounds *v)
{
    v->length = fmin(v->length, rs_length_bound(v->most, v->n));
}

/* W diag gain in place; W·bias + own, and its rounding. */
static void fold_row(double *row, double *constant, double *off, const double *gain,
                     const double *bias, double own, int64_t n)
{
    double size = fabs(own);
    *constant = own;
    for (int64_t k = 0; k < n; k++) {
        double term = row[k] * bias[k];
        *constant += term;
        size += fabs(term);
        row[k] *= gain[k];
    }
    *off = rs_gamma((double)n + 6) * size + 1e-300;
}

/* Outputs first .. first+n-1 of a map of the tokens. */
static rs_status read_tokens(bounds *out, const rs_dense *map, int64_t first, int64_t n,
                             const site *at, rs_error *err)
{
    double *w, *own, two, constants = 0;
    RS_TRY(open_bounds(out, n, err));
    RS_TRY(room(&w, n + 1, at->d > n ? at->d : n, err));
    own = w + n * at->d;
    rs_status status = rs_dense_rows(w, own, map, first, n, err);
    for (int64_t c = 0; c < n && status == RS_OK; c++) {
        double constant, off, *row = w + c * at->d;
        fold_row(row, &constant, &off, at->gain, at->bias, own[c], at->d);
        double turning = rs_times_up(at->root, rs_length_bound(row, at->d) * ROUNDED) + 1e-300;
        out->most[c] = rs_up(turning + rs_up(fabs(constant) + off)) * ROUNDED;
        out->highest[c] = rs_up(rs_up(turning + constant) + off);
        own[c] = rs_up(fabs(constant) + off);
    }
    if (status == RS_OK) status = rs_spectral_bound(&two, w, n, at->d, err);
    if (status == RS_OK) {
        constants = rs_length_bound(own, n);
        two += rs_length_bound(w, n * at->d) * 0x1p-50 + 1e-300; /* roundings of gain and factors */
        out->length = rs_up(rs_times_up(at->root, rs_up(two)) + constants) * ROUNDED;
        shorten(out);
    }
    rs_free(w);
    return status;
}

/* Behind the causal convolution of channels first .. first+n-1 and SiLU. Its taps read as many
 * tokens, each within the bounds. */
static rs_status convolve(bounds *v, const rs_conv_op *conv, int64_t first, rs_error *err)
{
    int64_t n = v->n, width = conv->width;
    double *w, *bias, length = 0;
    RS_TRY(room(&w, n, width + 1, err));
    bias = w + n * width;
    rs_tensor_decode_f64(w, conv->weight, first * width, n * width);
    for (int64_t c = 0; c < n; c++)
        bias[c] = 0;
    if (conv->bias) rs_tensor_decode_f64(bias, conv->bias, first, n);
    for (int64_t j = 0; j < width; j++) {
        double most = 0;
        for (int64_t c = 0; c < n; c++)
            most =
                isfinite(w[c * width + j]) ? fmax(most, fabs(w[c * width + j])) : (double)INFINITY;
        length = rs_up(length + rs_times_up(most, v->length));
    }
    v->length = rs_up(length + rs_length_bound(bias, n));
    for (int64_t c = 0; c < n; c++) {
        double sum = fabs(bias[c]);
        for (int64_t j = 0; j < width; j++)
            sum = rs_up(sum + rs_times_up(fabs(w[c * width + j]), v->most[c]));
        v->most[c] = rs_lambda_silu_most(sum);
    }
    rs_free(w);
    shorten(v);
    return RS_OK;
}

static void pass_gate(bounds *z)
{
    for (int64_t c = 0; c < z->n; c++)
        z->most[c] = rs_lambda_silu_most(z->most[c]);
    shorten(z);
}

/* ---- what the output map makes of it ---- */

/* ‖W_o diag factor‖₂ (NULL: 1) and ‖b_o‖. */
static rs_status fold_output(rs_lambda_rows *out, const rs_dense *o, const double *factor,
                             rs_error *err)
{
    double *w, *bias;
    RS_TRY(room(&w, o->out, o->in + 1, err));
    bias = w + o->out * o->in;
    rs_status status = rs_dense_rows(w, bias, o, 0, o->out, err);
    for (int64_t i = 0; factor && status == RS_OK && i < o->out * o->in; i++)
        w[i] *= factor[i % o->in];
    if (status == RS_OK) status = rs_spectral_bound(&out->map_norm, w, o->out, o->in, err);
    if (status == RS_OK) {
        double all = rs_length_bound(w, o->out * o->in);
        out->map_norm = rs_up(out->map_norm + (all * 0x1p-50 + 1e-300));
        out->bias = rs_length_bound(bias, o->out) * ROUNDED;
    }
    rs_free(w);
    return status;
}

/* Behind a norm of `inner` numbers with this gain [inner], and a gate behind that or none. */
static rs_status normed_gain(rs_lambda_number *out, double *gain, const bounds *gate,
                             const rs_dense *o, const rs_branch *branch, rs_error *err)
{
    rs_lambda_rows rows;
    for (int64_t c = 0; gate && c < o->in; c++)
        gain[c] = rs_times_up(fabs(gain[c]), gate->most[c]);
    RS_TRY(fold_output(&rows, o, gain, err));
    *out = rs_lambda_gain_normed(&rows, o->in, o->out, branch->scale);
    return RS_OK;
}

/* Of |y_c| ≤ most[c] and a gate, or none: with the gate's length, or with every entry's own bound. */
static rs_status chain_gain(rs_lambda_number *out, double *most, const bounds *gate,
                            const rs_dense *o, const rs_branch *branch, rs_error *err)
{
    rs_lambda_rows folded, plain;
    int64_t inner = o->in;
    RS_TRY(fold_output(&folded, o, most, err));
    folded.length = gate ? gate->length : rs_up(sqrt((double)inner));
    RS_TRY(fold_output(&plain, o, NULL, err));
    for (int64_t c = 0; gate && c < inner; c++)
        most[c] = rs_times_up(most[c], gate->most[c]);
    plain.length = rs_length_bound(most, inner);
    *out = smaller(rs_lambda_gain_rows(&folded, o->out, branch->scale),
                   rs_lambda_gain_rows(&plain, o->out, branch->scale));
    return RS_OK;
}

/* The gain of a norm inside, in `inner` numbers: its own, again for each head where it is of one. */
static rs_status inner_gain(double **out, const rs_norm_op *norm, int64_t inner, rs_error *err)
{
    RS_TRY(room(out, inner, 1, err));
    if (norm->kind == RS_NORM_NONE) return RS_OK;
    rs_norm_vectors(*out, NULL, norm);
    for (int64_t c = norm->dim; c < inner; c++)
        (*out)[c] = (*out)[c - norm->dim];
    return RS_OK;
}

/* ---- any mixer whose last step but a gate is a norm (L23) ---- */

/* A mixer's end. gate: the outputs of `map` from `first` on; map NULL: there is none. */
typedef struct ending {
    const rs_norm_op *norm;
    rs_gate_place place;
    const rs_dense *gate;
    int64_t first;
    const rs_dense *o;
} ending;

static rs_status gain_behind_norm(rs_lambda_number *out, const ending *end, const rs_branch *branch,
                                  const site *at, rs_error *err)
{
    bool gated = end->place == RS_GATE_AFTER_NORM && end->gate;
    double *gain;
    bounds gate = {0};
    if (gated && !at->gain) {
        *out = no_number(unread_text);
        return RS_OK;
    }
    RS_TRY(inner_gain(&gain, end->norm, end->o->in, err));
    rs_status status = RS_OK;
    if (gated) status = read_tokens(&gate, end->gate, end->first, end->o->in, at, err);
    if (gated && status == RS_OK) pass_gate(&gate);
    if (status == RS_OK) status = normed_gain(out, gain, gated ? &gate : NULL, end->o, branch, err);
    rs_free(gate.most);
    rs_free(gain);
    return status;
}

/* ---- Mamba-2 without a norm ---- */

/* What its scan reads. */
typedef struct ssd_reads {
    bounds z, x, b, c, step;
} ssd_reads;

static void close_ssd(ssd_reads *r)
{
    rs_free(r->z.most);
    rs_free(r->x.most);
    rs_free(r->b.most);
    rs_free(r->c.most);
    rs_free(r->step.most);
}

static rs_status read_ssd(ssd_reads *r, const rs_ssd_op *op, const site *at, rs_error *err)
{
    int64_t inner = op->heads * op->head_dim, keys = op->groups * op->state;
    RS_TRY(read_tokens(&r->z, &op->in, 0, inner, at, err));
    RS_TRY(read_tokens(&r->x, &op->in, inner, inner, at, err));
    RS_TRY(read_tokens(&r->b, &op->in, 2 * inner, keys, at, err));
    RS_TRY(read_tokens(&r->c, &op->in, 2 * inner + keys, keys, at, err));
    RS_TRY(read_tokens(&r->step, &op->in, 2 * inner + 2 * keys, op->heads, at, err));
    pass_gate(&r->z);
    RS_TRY(convolve(&r->x, &op->conv, 0, err));
    RS_TRY(convolve(&r->b, &op->conv, inner, err));
    return convolve(&r->c, &op->conv, inner + keys, err);
}

/* A number that each head or channel has; 0 where there is none. */
static double entry_of(const rs_tensor *tensor, int64_t at)
{
    double x = 0;
    if (tensor) rs_tensor_decode_f64(&x, tensor, at, 1);
    return x;
}

static double rate_of(const rs_tensor *tensor, int64_t at, bool stored)
{
    double x = entry_of(tensor, at);
    return stored ? -x : rs_lambda_rate_least(x);
}

/* The largest Σ_j |M_ij| of head h. */
static double ssd_row_sum(const rs_ssd_op *op, const ssd_reads *r, int32_t h, int64_t tokens)
{
    int64_t g = h / (op->heads / op->groups) * op->state;
    double rate = rate_of(op->a_log, h, op->a_stored);
    double before = rs_up(r->step.highest[h] + entry_of(op->dt_bias, h));
    rs_lambda_channel channel = {.state = op->state,
                                 .rate = &rate,
                                 .one_rate = true,
                                 .b = {.most = r->b.most + g, .length = r->b.length},
                                 .c = {.most = r->c.most + g, .length = r->c.length},
                                 .step_most =
                                     rs_lambda_step_most(before, op->step_least, op->step_most),
                                 .skip = fabs(entry_of(op->d, h)),
                                 .tokens = tokens};
    return rs_lambda_channel_sum(&channel);
}

static rs_status ssd_chain(rs_lambda_number *out, const rs_branch *branch, const site *at,
                           rs_error *err)
{
    const rs_ssd_op *op = &branch->ssd;
    ssd_reads r = {0};
    rs_status status = read_ssd(&r, op, at, err);
    for (int32_t h = 0; h < op->heads && status == RS_OK; h++) {
        double sum = ssd_row_sum(op, &r, h, at->tokens);
        for (int64_t c = h * op->head_dim; c < (h + 1) * op->head_dim; c++)
            r.x.most[c] = rs_times_up(r.x.most[c], sum);
    }
    bool gated = op->gate != RS_GATE_NONE;
    if (status == RS_OK)
        status = chain_gain(out, r.x.most, gated ? &r.z : NULL, &op->o, branch, err);
    close_ssd(&r);
    return status;
}

static rs_status ssd_gain(rs_lambda_number *out, const rs_branch *branch, const site *at,
                          rs_error *err)
{
    const rs_ssd_op *op = &branch->ssd;
    const ending end = {&op->norm, op->gate, &op->in, 0, &op->o};
    if (op->norm.kind != RS_NORM_NONE) return gain_behind_norm(out, &end, branch, at, err);
    if (at->gain && !op->conv.more[0]) return ssd_chain(out, branch, at, err);
    *out = no_number(at->gain ? convolution_text : unread_text);
    return RS_OK;
}

/* ---- Mamba ---- */

/* What its scan reads. */
typedef struct s6_reads {
    bounds u, z, read, step; /* read: dt, B, C */
    double *gains;           /* [rank + 2 state] of their norms; 1 where there is none */
    double rank_length, b_length, c_length;
} s6_reads;

static void close_s6(s6_reads *r)
{
    rs_free(r->u.most);
    rs_free(r->z.most);
    rs_free(r->read.most);
    rs_free(r->step.most);
    rs_free(r->gains);
}

/* Rows first .. first+n-1 of a map of entries that are known by size and all together. highest:
 * the sizes again, as signs are not known. Returns what their length is at most. */
static rs_status read_entries(bounds *out, double *length, const rs_dense *map, int64_t first,
                              int64_t n, const bounds *from, rs_error *err)
{
    double *w, *bias, two;
    RS_TRY(room(&w, n, map->in + 1, err));
    bias = w + n * map->in;
    rs_status status = rs_dense_rows(w, bias, map, first, n, err);
    for (int64_t r = 0; r < n && status == RS_OK; r++) {
        const double *row = w + r * map->in;
        double sum = 0;
        for (int64_t c = 0; c < map->in; c++)
            sum = rs_up(sum + rs_times_up(fabs(row[c]), from->most[c]));
        double whole = rs_times_up(rs_length_bound(row, map->in), from->length);
        sum = (isnan(sum) ? whole : fmin(sum, whole)) * ROUNDED;
        out->most[first + r] = rs_up(sum + fabs(bias[r]) * ROUNDED);
        out->highest[first + r] = rs_up(sum + bias[r] + fabs(bias[r]) * 0x1p-50);
    }
    if (status == RS_OK) status = rs_spectral_bound(&two, w, n, map->in, err);
    if (status == RS_OK) {
        two += rs_length_bound(w, n * map->in) * 0x1p-50;
        double together = rs_up(rs_times_up(rs_up(two), from->length) * ROUNDED +
                                rs_length_bound(bias, n) * ROUNDED);
        *length = fmin(together, rs_length_bound(out->most + first, n));
    }
    rs_free(w);
    return status;
}

/* A norm of n of what is read: entries and length from its gain alone. */
static void norm_read(s6_reads *r, double *length, const rs_norm_op *norm, int64_t first)
{
    if (norm->kind == RS_NORM_NONE) return;
    rs_norm_vectors(r->gains + first, NULL, norm);
    *length = rs_up(sqrt((double)norm->dim));
    for (int64_t s = first; s < first + norm->dim; s++)
        r->read.most[s] = rs_times_up(fabs(r->gains[s]) * ROUNDED, *length);
}

/* Steps before their softplus, from dt: its entries, or gain ∘ t with ‖t‖ ≤ rank_length. */
static rs_status read_steps(s6_reads *r, const rs_s6_op *op, rs_error *err)
{
    double *w, *bias;
    RS_TRY(open_bounds(&r->step, op->inner, err));
    RS_TRY(room(&w, op->inner, op->rank + 1, err));
    bias = w + op->inner * op->rank;
    rs_status status = rs_dense_rows(w, bias, &op->step, 0, op->inner, err);
    for (int64_t c = 0; c < op->inner && status == RS_OK; c++) {
        double *row = w + c * op->rank, sum = 0;
        for (int64_t k = 0; k < op->rank; k++) {
            sum = rs_up(sum + rs_times_up(fabs(row[k]), r->read.most[k]));
            row[k] *= r->gains[k];
        }
        double length = rs_length_bound(row, op->rank) * ROUNDED + 1e-300;
        double whole = rs_times_up(length, r->rank_length);
        sum = (isnan(sum) ? whole : fmin(sum, whole)) * ROUNDED;
        double before = rs_up(rs_up(sum + bias[c]) + fabs(bias[c]) * 0x1p-50);
        r->step.most[c] = rs_lambda_step_most(before, 0, (double)INFINITY);
    }
    rs_free(w);
    return status;
}

static rs_status read_s6(s6_reads *r, const rs_s6_op *op, const site *at, rs_error *err)
{
    int64_t all = op->rank + 2 * op->state;
    RS_TRY(room(&r->gains, all, 1, err));
    for (int64_t k = 0; k < all; k++)
        r->gains[k] = 1;
    RS_TRY(read_tokens(&r->u, &op->in, 0, op->inner, at, err));
    RS_TRY(read_tokens(&r->z, &op->in, op->inner, op->inner, at, err));
    pass_gate(&r->z);
    RS_TRY(convolve(&r->u, &op->conv, 0, err));
    RS_TRY(open_bounds(&r->read, all, err));
    RS_TRY(read_entries(&r->read, &r->rank_length, &op->x, 0, op->rank, &r->u, err));
    RS_TRY(read_entries(&r->read, &r->b_length, &op->x, op->rank, op->state, &r->u, err));
    RS_TRY(
        read_entries(&r->read, &r->c_length, &op->x, op->rank + op->state, op->state, &r->u, err));
    norm_read(r, &r->rank_length, &op->dt_norm, 0);
    norm_read(r, &r->b_length, &op->b_norm, op->rank);
    norm_read(r, &r->c_length, &op->c_norm, op->rank + op->state);
    return read_steps(r, op, err);
}

/* The largest Σ_j |M_ij| of channel c; rates: [state] workspace. */
static double s6_row_sum(const rs_s6_op *op, const s6_reads *r, int64_t c, int64_t tokens,
                         double *rates)
{
    const double *b = r->read.most + op->rank, *b_gain = r->gains + op->rank;
    for (int64_t s = 0; s < op->state; s++)
        rates[s] = rate_of(op->a_log, c * op->state + s, op->a_stored);
    rs_lambda_channel channel = {.state = op->state,
                                 .rate = rates,
                                 .b = {b, b_gain, r->b_length * ROUNDED},
                                 .c = {b + op->state, b_gain + op->state, r->c_length * ROUNDED},
                                 .step_most = r->step.most[c],
                                 .skip = fabs(entry_of(op->d, c)),
                                 .tokens = tokens};
    return rs_lambda_channel_sum(&channel);
}

static rs_status s6_chain(rs_lambda_number *out, const rs_branch *branch, const site *at,
                          rs_error *err)
{
    const rs_s6_op *op = &branch->s6;
    s6_reads r = {0};
    double *rates = NULL;
    rs_status status = read_s6(&r, op, at, err);
    if (status == RS_OK) status = room(&rates, op->state, 1, err);
    for (int64_t c = 0; c < op->inner && status == RS_OK; c++)
        r.u.most[c] = rs_times_up(r.u.most[c], s6_row_sum(op, &r, c, at->tokens, rates));
    if (status == RS_OK)
        status = chain_gain(out, r.u.most, op->gated ? &r.z : NULL, &op->o, branch, err);
    rs_free(rates);
    close_s6(&r);
    return status;
}

static rs_status s6_gain(rs_lambda_number *out, const rs_branch *branch, const site *at,
                         rs_error *err)
{
    if (at->gain && !branch->s6.conv.more[0]) return s6_chain(out, branch, at, err);
    *out = no_number(at->gain ? convolution_text : unread_text);
    return RS_OK;
}

/* ---- mixers that are bounded by their norm alone ---- */

static rs_status delta_gain(rs_lambda_number *out, const rs_branch *branch, const site *at,
                            rs_error *err)
{
    const rs_delta_op *op = &branch->delta;
    const ending end = {&op->norm, op->gate, op->z.weight ? &op->z : NULL, 0, &op->o};
    if (op->norm.kind != RS_NORM_NONE) return gain_behind_norm(out, &end, branch, at, err);
    *out = no_number("a norm of each head behind the delta rule: its state has no bound here");
    return RS_OK;
}

static rs_status linear_gain(rs_lambda_number *out, const rs_branch *branch, const site *at,
                             rs_error *err)
{
    const rs_linear_op *op = &branch->linear;
    const ending end = {&op->norm, op->place, op->gate.weight ? &op->gate : NULL, 0, &op->o};
    if (op->norm.kind != RS_NORM_NONE && op->o.weight)
        return gain_behind_norm(out, &end, branch, at, err);
    *out = no_number("a norm of each head and an output map behind linear attention");
    return RS_OK;
}

/* ---- any ---- */

typedef rs_status gain_function(rs_lambda_number *out, const rs_branch *branch, const site *at,
                                rs_error *err);
static gain_function *const gains_of[RS_BRANCH_KINDS] = {
    [RS_BRANCH_SSD] = ssd_gain,
    [RS_BRANCH_S6] = s6_gain,
    [RS_BRANCH_DELTA] = delta_gain,
    [RS_BRANCH_LINEAR] = linear_gain,
};

rs_status rs_certify_mixer_gain(rs_lambda_number *out, const rs_network *network, int32_t l,
                                int32_t b, int64_t tokens, rs_error *err)
{
    const rs_branch *branch = &network->layers[l].branches[b];
    site at;
    *out = no_number(rs_branch_unproved(branch));
    if (branch->scale == 0) *out = (rs_lambda_number){0, true, NULL};
    if (branch->scale == 0 || !gains_of[branch->kind]) return RS_OK;
    *out = no_number("no norm inside the branch");
    if (branch->inside.kind != RS_NORM_NONE) return RS_OK;
    rs_status status = open_site(&at, network, l, b, tokens, err);
    if (status == RS_OK) status = gains_of[branch->kind](out, branch, &at, err);
    rs_free(at.gain);
    return status;
}
