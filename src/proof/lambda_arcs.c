/* lambda_arcs.c: taking in a layer as arcs of great circles (lambda_arcs.h; statement L2). */
#include "proof/lambda_arcs.h"

#include "base/memory.h"
#include "linalg/vector.h"
#include "proof/lambda_check.h"
#include "proof/lambda_moments.h"

#include <string.h>

rs_status rs_lambda_arcs_open(rs_lambda_arcs **out, rs_error *err)
{
    *out = rs_calloc(1, sizeof **out);
    return *out ? RS_OK : rs_fail_memory(err, "a skip certificate", sizeof **out);
}

static void release_arcs(rs_lambda_arcs *arcs)
{
    rs_free(arcs->directions);
    rs_free(arcs->rows);
    rs_free(arcs->weights);
    rs_free(arcs->mean);
    *arcs = (rs_lambda_arcs){0};
}

void rs_lambda_arcs_close(rs_lambda_arcs *arcs)
{
    if (!arcs) return;
    release_arcs(arcs);
    rs_free(arcs);
}

static rs_status make_room(rs_lambda_arcs *arcs, int64_t n, int64_t d, rs_error *err)
{
    size_t rows = (size_t)n, width = (size_t)d;
    if (rows > arcs->room_rows || rows * width > arcs->room_entries || width > arcs->room_width) {
        release_arcs(arcs);
        arcs->directions = rs_malloc(2 * rows * width, sizeof(double));
        arcs->rows = rs_malloc(rows, sizeof *arcs->rows);
        arcs->weights = rs_malloc(4 * rows, sizeof(double));
        arcs->mean = rs_malloc(4 * width, sizeof(double));
        if (!arcs->directions || !arcs->rows || !arcs->weights || !arcs->mean) {
            release_arcs(arcs);
            return rs_fail_memory(err, "the rows of a skip certificate",
                                  2 * rows * width * sizeof(double));
        }
        arcs->room_rows = rows;
        arcs->room_entries = rows * width;
        arcs->room_width = width;
    }
    arcs->n = n;
    arcs->d = d;
    arcs->slopes = arcs->weights + 2 * n;
    arcs->mean_slope = arcs->mean + d;
    arcs->row = arcs->mean + 2 * d;
    arcs->row_branch = arcs->mean + 3 * d;
    return RS_OK;
}

static bool constant(const double *row, int64_t d)
{
    for (int64_t j = 1; j < d; j++) {
        if (row[j] != row[0]) return false;
    }
    return true;
}

/*
 * Copies a row scaled by a power of two to a largest entry in [½, 1), centred over its features
 * for LayerNorm. Centring runs twice: the first mean is off by γ·mean|x|, the second by γ times
 * what is left, and each entry is rounded twice, so that the error is (γ + 5u)(‖x_c‖ + γ√d), x_c
 * the centred row and √d a bound on the scaled row's norm. 2^-20 covers that norms are computed
 * (d/16 + 40 roundings; docs/certificates.md, C10).
 */
rs_lambda_loaded rs_lambda_load_row(double *to, const double *from, int64_t d, bool centre)
{
    rs_lambda_loaded row = {.exponent = rs_lambda_exponent(from, 1, d, d)};
    double factor = ldexp(1, -row.exponent);
    row.zero = centre && constant(from, d);
    for (int64_t j = 0; j < d; j++)
        to[j] = row.zero ? 0 : from[j] * factor;
    for (int pass = 0; centre && !row.zero && pass < 2; pass++) {
        double mean = rs_sum(to, d) / (double)d;
        for (int64_t j = 0; j < d; j++)
            to[j] -= mean;
    }
    row.norm = sqrt(rs_dot(to, to, d));
    if (row.norm == 0 && !centre) row.zero = true;
    if (centre && !row.zero) {
        double gamma = rs_rounding(rs_dot_roundings(d) + 2);
        double error = (gamma + 5 * RS_LAMBDA_ROUNDOFF) *
                       (row.norm + gamma * sqrt((double)d) * (1 + 0x1p-20)) * (1 + 0x1p-20);
        row.error = row.norm > 0 ? error / row.norm : 1;
    }
    return row;
}

/* The part of o that is orthogonal to x, twice as Gram and Schmidt need it: branch becomes
 * o − (x·o/x·x)x, and the multiple of −x taken out is returned. fma rounds once, so that a small
 * remainder keeps all its digits (docs/theory/corrections.md, 1). */
static double orthogonalise(double *branch, const double *input, double norm, int64_t d)
{
    double taken = 0, square = norm * norm;
    for (int pass = 0; pass < 2; pass++) {
        double multiple = -rs_dot(input, branch, d) / square;
        for (int64_t j = 0; j < d; j++)
            branch[j] = fma(multiple, input[j], branch[j]);
        taken += multiple;
    }
    return taken;
}

static void scale_row(double *to, const double *from, double divisor, const double *gain, int64_t d)
{
    for (int64_t j = 0; j < d; j++) {
        double entry = divisor > 0 ? from[j] / divisor : 0;
        to[j] = gain ? entry * gain[j] : entry;
    }
}

/* √((2^exponent a)² + b²) of a, b ≥ 0, without overflow where the result has none. */
static double length(double a, int exponent, double b)
{
    a = ldexp(a, exponent);
    double large = fmax(a, b), ratio = large > 0 ? fmin(a, b) / large : 0;
    return large * sqrt(1 + ratio * ratio);
}

/* A bound divided by the length of a row of d numbers is rounded d/16 + 34 times at most; 2^-40
 * covers that up to d = 2^16, γ beyond (docs/certificates.md, C10). */
static double over_a_length(int64_t d)
{
    return 1 + fmax(0x1p-40, rs_rounding(d / 16 + 40));
}

static void set_row(rs_lambda_arcs *arcs, int64_t i, const rs_lambda_layer *layer)
{
    int64_t d = arcs->d;
    const double *gain = layer->norm.gain;
    double *e = arcs->directions + i * d, *n = arcs->directions + (arcs->n + i) * d;
    double *x = arcs->row, *o = arcs->row_branch;
    bool centre = layer->norm.kind == RS_LAMBDA_LAYERNORM;
    double constant_coordinate = sqrt(layer->norm.epsilon) * sqrt((double)d);
    rs_lambda_loaded input = rs_lambda_load_row(x, layer->input + i * layer->input_ld, d, centre);
    rs_lambda_loaded branch =
        rs_lambda_load_row(o, layer->branch + i * layer->branch_ld, d, centre);
    rs_lambda_arc *row = &arcs->rows[i];

    *row = (rs_lambda_arc){.input_error = fmax(input.error, branch.error)};
    if (!input.zero && !(input.norm > 0)) row->input_error = 1; /* centred away entirely */
    if (input.zero || !(input.norm > 0)) {
        double total = length(branch.norm, branch.exponent, constant_coordinate);
        row->kind = total > 0 ? RS_LAMBDA_ROW_FIXED : RS_LAMBDA_ROW_UNDEFINED;
        row->height = 1;
        if (layer->branch_error > 0)
            row->input_error += layer->branch_error / total * over_a_length(d);
        scale_row(e, x, 0, gain, d);
        scale_row(n, o, ldexp(total, -branch.exponent), gain, d);
    } else {
        double multiple = orthogonalise(o, x, input.norm, d);
        int exponent = branch.exponent - input.exponent;
        row->centre = ldexp(multiple, exponent);
        double rest = sqrt(rs_dot(o, o, d)); /* 2^branch.exponent of it is ‖o_⊥‖ */
        double total = length(rest, branch.exponent, constant_coordinate);
        double skew = fabs(rs_dot(x, o, d)) / input.norm;
        if (skew > arcs->skew * ldexp(total, -branch.exponent)) {
            /* Of o_⊥ only rounding is left: it has no direction worth keeping. */
            row->lost = ldexp(rest / input.norm, exponent);
            memset(o, 0, (size_t)d * sizeof *o);
            total = constant_coordinate;
        }
        row->height = ldexp(ldexp(total, -branch.exponent) / input.norm, exponent);
        /* from below but for its roundings */
        double least = ldexp(input.norm, input.exponent) * (1 - fmin(input.error, 1));
        if (layer->branch_error > 0) row->lost += layer->branch_error / least * over_a_length(d);
        scale_row(e, x, input.norm, gain, d);
        scale_row(n, o, ldexp(total, -branch.exponent), gain, d);
    }
    row->ee = rs_dot(e, e, d);
    row->en = rs_dot(e, n, d);
    row->nn = rs_dot(n, n, d);
}

/* μ(X)/√d. */
static void set_input_value(rs_lambda_arcs *arcs, const rs_lambda_layer *layer)
{
    rs_lambda_moments moments;
    rs_lambda_measure_moments(&moments, layer, arcs->mean);
    rs_span square = rs_span_div(moments.alpha, rs_span_of((double)arcs->d));
    rs_span value = rs_span_sqrt(square);
    double middle = ldexp(0.5 * (value.low + value.high), moments.scale_x);
    double error = ldexp(rs_up(value.high - value.low), moments.scale_x);
    arcs->input = (rs_lambda_value){middle, error};
    if (moments.equal) arcs->input = (rs_lambda_value){0, 0};
}

rs_status rs_lambda_arcs_set(rs_lambda_arcs *arcs, const rs_lambda_layer *layer, rs_error *err)
{
    if (layer->norm.kind != RS_LAMBDA_LAYERNORM && layer->norm.kind != RS_LAMBDA_RMSNORM)
        return rs_fail(err, RS_E_UNSUPPORTED, "skip certificate",
                       "use the certificate without norm, or name the norm that reads the sum",
                       "this layer has no norm after λX + O");
    RS_TRY(rs_lambda_check_layer(layer, err));
    RS_TRY(make_room(arcs, layer->n, layer->d, err));
    double largest = 0;
    for (int64_t j = 0; layer->norm.gain && j < layer->d; j++)
        largest = fmax(largest, fabs(layer->norm.gain[j]));
    arcs->rounding = rs_rounding(5 * rs_dot_roundings(layer->d) + 64);
    arcs->skew = rs_rounding(4 * rs_dot_roundings(layer->d) + 16);
    arcs->gain = (layer->norm.gain ? largest : 1) * (1 + arcs->rounding);
    for (int64_t i = 0; i < layer->n; i++)
        set_row(arcs, i, layer);
    set_input_value(arcs, layer);
    return RS_OK;
}
