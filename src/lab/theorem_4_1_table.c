/* theorem_4_1_table.c: the smallest skip strength that theorems ask for beside the smallest that works,
 * for networks whose numbers are a hash of their index. */
#include "lab/theorem_4_1.h"

#include "base/memory.h"

#include <math.h>

enum { TAG_TOKENS = 90, TAG_WEIGHTS = 1000, GRID = 24, HALVINGS = 24, STATES = 16, PROBE = 10 };
static const double decay = 0.9; /* of the selective layer */
static const double grid[GRID] = {0,   0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1,  1.2,
                                  1.4, 1.6, 1.8, 2,   2.5, 3,   4,   6,   10,  20,  50, 200};

rs_lambda_facts rs_theorem_facts(int n, int d, double diversity)
{
    return (rs_lambda_facts){.n = n,
                             .d = d,
                             .diversity = diversity,
                             .diversity_most = diversity,
                             .unit_diversity = diversity,
                             .smallest_row = sqrt(d),
                             .largest_gain = 1,
                             .normed = true,
                             .unit_gain = true,
                             .zero_bias = true,
                             .zero_epsilon = true,
                             .unit_rows = true};
}

/* count numbers of N(0, scale²), a hash of tag and index: Box and Muller's first. */
static void hashed_normal(double *out, uint32_t tag, uint32_t count, double scale)
{
    for (uint32_t k = 0; k < count; k++) {
        double radius = (rs_lab_hash(tag, 2 * k) + 0.5) / 4294967296.0;
        double angle = (rs_lab_hash(tag, 2 * k + 1) + 0.5) / 4294967296.0;
        out[k] = scale * sqrt(-2 * log(radius)) * cos(2 * acos(-1) * angle);
    }
}

static void hashed_tokens(double *y, int n, int d)
{
    hashed_normal(y, TAG_TOKENS, (uint32_t)(n * d), 1);
    for (int i = 0; i < n; i++) {
        double size = rs_norm_frobenius(y + (ptrdiff_t)i * d, 1, d);
        for (int k = 0; k < d; k++)
            y[i * d + k] *= sqrt(d) / size;
    }
}

/* ---- networks ---- */

static rs_status set_attention(rs_toy *toy, double *w, int d, rs_error *err)
{
    for (int32_t l = 0; l < toy->network->n_layers; l++) {
        rs_attention_op *op = rs_toy_attention(toy, l);
        uint32_t tag = TAG_WEIGHTS + 10 * (uint32_t)l, count = (uint32_t)(d * d);
        hashed_normal(w, tag, count, 1 / sqrt(d));
        RS_TRY(rs_toy_set(toy, &op->q, w, NULL, err));
        hashed_normal(w, tag + 1, count, 1 / sqrt(d));
        RS_TRY(rs_toy_set(toy, &op->k, w, NULL, err));
        hashed_normal(w, tag + 2, count, 1);
        double size = rs_norm_spectral(w, d, d);
        if (isnan(size)) return rs_fail_memory(err, "a norm of an experiment", (size_t)d);
        for (int i = 0; i < d * d; i++)
            w[i] /= size;
        RS_TRY(rs_toy_set(toy, &op->v, w, NULL, err));
    }
    return RS_OK;
}

/* M_ij = decay^(i - j) y_i W_C·y_j W_B/d, W_C and W_B to STATES numbers; W = I. */
static rs_status set_selective(rs_toy *toy, double *w, int d, rs_error *err)
{
    for (int32_t l = 0; l < toy->network->n_layers; l++) {
        rs_linear_op *op = &toy->network->layers[l].branches[0].linear;
        uint32_t tag = TAG_WEIGHTS + 10 * (uint32_t)l, count = (uint32_t)(d * STATES);
        hashed_normal(w, tag, count, 1 / sqrt(d));
        RS_TRY(rs_toy_set(toy, &op->q, w, NULL, err));
        hashed_normal(w, tag + 1, count, 1 / sqrt(d));
        RS_TRY(rs_toy_set(toy, &op->k, w, NULL, err));
    }
    return RS_OK;
}

static json_t *selective(int depth, int width)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:s, s:f, s:s, s:s, s:s, s:{s:s}}",
                     "depth", depth, "d_model", width, "heads", 1, "d_head", STATES, "mixer",
                     "linear_attention", "mask", "causal", "decay", decay, "value_map", "identity",
                     "temperature", (double)STATES, "norm", "post", "norm_kind", "rmsnorm", "mlp",
                     "none", "init", "wo", "none");
}

static rs_status open_network(rs_toy *toy, const rs_theorem_row *row, double *w,
                              const rs_context *context, rs_error *err)
{
    if (row->selective) {
        RS_TRY(rs_toy_open(toy, selective(row->layers, row->width), 0, context, err));
        rs_post_norm_exact(toy);
    } else {
        RS_TRY(rs_post_norm_open(toy, row->layers, row->width, context, err));
    }
    rs_status status = row->selective ? set_selective(toy, w, row->width, err)
                                      : set_attention(toy, w, row->width, err);
    if (status != RS_OK) rs_toy_close(toy);
    return status;
}

/* ---- what works ---- */

static double spread(double *y, int n, int d)
{
    rs_rows_centre(y, n, d);
    return rs_norm_frobenius(y, n, d);
}

/* mu_K² over a^K mu_0²: 1 or more where what is asked for is left. */
static rs_status left_of(double *left, rs_toy *toy, const rs_theorem_row *row, const double *y,
                         double skip, rs_error *err)
{
    rs_toy_trace trace;
    rs_post_norm_skip(toy, skip);
    RS_TRY(rs_toy_run(&trace, toy, y, 1, row->tokens, false, err));
    double before = spread(rs_toy_state(&trace, 0, 0), row->tokens, row->width);
    double after = spread(rs_toy_state(&trace, row->layers, 0), row->tokens, row->width);
    *left = after * after / (pow(row->rate, row->layers) * before * before);
    rs_toy_trace_free(&trace);
    return RS_OK;
}

/* The largest strength of the grid that fails, and by bisection where it ends to. */
static rs_status find_working(double *works, rs_toy *toy, const rs_theorem_row *row,
                              const double *y, rs_error *err)
{
    int first = GRID; /* all of the grid from here on works */
    double left = INFINITY;
    while (first > 0) {
        RS_TRY(left_of(&left, toy, row, y, grid[first - 1], err));
        if (left < 1) break;
        first--;
    }
    *works = first < GRID ? grid[first] : INFINITY;
    if (first == 0 || first == GRID) return RS_OK;
    double fails = grid[first - 1];
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (fails + *works) / 2;
        RS_TRY(left_of(&left, toy, row, y, middle, err));
        if (left < 1)
            fails = middle;
        else
            *works = middle;
    }
    return RS_OK;
}

/* ---- what is asked for ---- */

/* The largest |M|_F and row gain of the selective layers with skip PROBE: what the statements are
 * given, measured on one trajectory. */
static rs_status measure_constants(double *norm, double *gain, rs_toy *toy,
                                   const rs_theorem_row *row, const double *y, rs_error *err)
{
    int n = row->tokens, d = row->width;
    rs_toy_trace trace;
    double *mixed = rs_malloc((size_t)n * (size_t)d, sizeof *mixed);
    if (!mixed) return rs_fail_memory(err, "an experiment", (size_t)n * (size_t)d);
    rs_post_norm_skip(toy, PROBE);
    rs_status status = rs_toy_run(&trace, toy, y, 1, n, true, err);
    for (int l = 0; l < row->layers && status == RS_OK; l++) {
        const double *m = rs_toy_mixing(&trace, l, 0, 0);
        *norm = fmax(*norm, rs_norm_frobenius(m, n, n));
        rs_small_product(mixed, m, rs_toy_state(&trace, l, 0), n, n, d);
        for (int i = 0; i < n; i++)
            *gain = fmax(*gain, rs_norm_frobenius(mixed + (ptrdiff_t)i * d, 1, d) / sqrt(d));
    }
    if (status == RS_OK) rs_toy_trace_free(&trace);
    rs_free(mixed);
    return status;
}

static rs_status ask(rs_theorem_row *row, rs_toy *toy, const double *y, double diversity,
                     rs_error *err)
{
    double norm = sqrt(row->tokens), gain = 1; /* of attention, |W| = 1 */
    if (row->selective) {
        norm = gain = 0;
        RS_TRY(measure_constants(&norm, &gain, toy, row, y, err));
    }
    const rs_lambda_facts facts = rs_theorem_facts(row->tokens, row->width, diversity);
    const rs_lambda_wish wish = {.kept = sqrt(row->rate),
                                 .layers = row->layers,
                                 .row_gain = gain,
                                 .lipschitz = rs_lambda_mixing_bound(row->tokens),
                                 .published = norm};
    row->eq7 = rs_lambda_published_eq7(&facts, &wish).value;
    row->both = rs_lambda_published_both(&facts, &wish).value;
    row->theorem_a = rs_lambda_theorem_a(&facts, &wish).value;
    row->theorem_b = row->selective ? NAN : rs_lambda_theorem_b(&facts, &wish).value;
    return RS_OK;
}

rs_status rs_theorem_measure(rs_theorem_row *row, const rs_context *context, rs_error *err)
{
    size_t state = (size_t)row->tokens * (size_t)row->width;
    size_t map = (size_t)row->width * (size_t)row->width;
    double *y = rs_malloc(2 * state + map, sizeof *y);
    if (!y) return rs_fail_memory(err, "an experiment", state);
    double *rest = y + state, *w = rest + state;
    rs_toy toy;
    hashed_tokens(y, row->tokens, row->width);
    for (size_t i = 0; i < state; i++)
        rest[i] = y[i];
    double diversity = spread(rest, row->tokens, row->width) / sqrt((double)state);
    rs_status status = open_network(&toy, row, w, context, err);
    if (status == RS_OK) {
        status = ask(row, &toy, y, diversity, err);
        if (status == RS_OK) status = find_working(&row->works, &toy, row, y, err);
        rs_toy_close(&toy);
    }
    rs_free(y);
    return status;
}
