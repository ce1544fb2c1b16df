/* certify_exact_ssd.c: Mamba-2's mixer once more, with radii (docs/certificates.md, C11;
 * docs/theory/ssm.md, 3). */
#include "certify/certify_exact_states.h"
#include "certify/certify_radius_scan.h"
#include "linalg/threads.h"

#include <string.h>

typedef struct ssd_shadow {
    const rs_ssd_op *op;
    const rs_context *context;
    int64_t inner;
    rs_radius_map in; /* z, x, B, C, dt */
    rs_radius_conv conv;
    rs_radius_scan scan;
    rs_radius_norm norm;
    double *dt_bias, *d;        /* [heads] */
    double *rate, *rate_radius; /* [heads] a */
    double *stretches;          /* [threads, heads + groups of the norm] */
    double *row_radius;         /* [rows] */
} ssd_shadow;

/* ---- opening ---- */

static rs_status open_vectors(ssd_shadow *p, rs_arena *arena, rs_error *err)
{
    const rs_ssd_op *op = p->op;
    RS_TRY(rs_radius_room(&p->dt_bias, arena, op->heads, 1, err));
    RS_TRY(rs_radius_room(&p->d, arena, op->heads, 1, err));
    RS_TRY(rs_radius_room(&p->rate, arena, op->heads, 1, err));
    RS_TRY(rs_radius_room(&p->rate_radius, arena, op->heads, 1, err));
    if (op->dt_bias) rs_tensor_decode_f64(p->dt_bias, op->dt_bias, 0, op->heads);
    if (op->d) rs_tensor_decode_f64(p->d, op->d, 0, op->heads);
    rs_tensor_decode_f64(p->rate, op->a_log, 0, op->heads);
    for (int32_t h = 0; h < op->heads; h++) {
        double *rate = &p->rate[h];
        if (!op->a_stored) *rate = -exp(*rate);
        p->rate_radius[h] = op->a_stored ? 0 : RS_RADIUS_FUNCTION * fabs(*rate);
        /* of states that grow nothing is known */
        if (!(*rate <= 0) || !(op->step_most >= 0)) *rate = NAN;
    }
    return RS_OK;
}

static rs_status ssd_open(void **mixer, const rs_states_panel *panel, rs_error *err)
{
    const rs_ssd_op *op = &panel->branch->ssd;
    rs_arena *arena = panel->arena;
    int64_t rows = panel->most, channels = op->conv.channels;
    ssd_shadow *p = rs_arena_alloc(arena, 1, sizeof *p);
    *mixer = p;
    if (!p) return rs_fail_memory(err, "rounding of a mixer", sizeof *p);
    p->op = op;
    p->context = panel->context;
    p->inner = op->heads * op->head_dim;
    RS_TRY(rs_radius_map_open(&p->in, arena, rows, op->in.out, err));
    RS_TRY(rs_radius_conv_open(&p->conv, arena, &op->conv, rows, err));
    RS_TRY(rs_radius_norm_open(&p->norm, arena, &op->norm, false, err));
    RS_TRY(rs_radius_room(&p->stretches, arena, p->context->threads, op->heads + op->norm_groups,
                          err));
    RS_TRY(rs_radius_room(&p->row_radius, arena, rows, 1, err));
    RS_TRY(open_vectors(p, arena, err));
    const double *keys = p->conv.x + p->inner;
    p->scan = (rs_radius_scan){.heads = op->heads,
                               .groups = op->groups,
                               .dim = op->head_dim,
                               .state = op->state,
                               .values = {.x = p->conv.x, .ld = channels},
                               .keys = {.x = keys, .ld = channels},
                               .queries = {.x = keys + op->groups * op->state, .ld = channels},
                               .d = p->d};
    return rs_radius_scan_open(&p->scan, arena, rows, p->context->threads, err);
}

/* ---- what the scan reads ---- */

/* Step and decay of row i at head h. */
static rs_token_step step_of(const ssd_shadow *p, int64_t i, int64_t h)
{
    const rs_ssd_op *op = p->op;
    int64_t column = p->in.cols - op->heads + h;
    double dt = p->in.x[i * p->in.cols + column] + p->dt_bias[h];
    double radius =
        p->in.spread[i] * p->in.share[column] + p->in.own[column] + 2 * RS_RADIUS_U * fabs(dt);
    double step = rs_radius_softplus(&radius, dt);
    /* a clamp moves no two numbers apart */
    if (step < op->step_least) step = op->step_least;
    if (step > op->step_most) step = op->step_most;
    double rate = p->rate[h], l = rate * step, decay = exp(l);
    double off =
        (fabs(rate) * radius + p->rate_radius[h] * (step + radius) + 2 * RS_RADIUS_U * fabs(l)) *
        RS_RADIUS_GROW;
    return (rs_token_step){{step, radius}, {decay, rs_radius_behind_exp(decay, l, off)}};
}

/* x of row i in place `at` and its radius. */
static rs_sized size_of(const ssd_shadow *p, int64_t i, int64_t at, int64_t n)
{
    int64_t from = i * p->op->conv.channels + at;
    return rs_sized_of(p->conv.x + from, p->conv.radius + from, n);
}

static void size_row(ssd_shadow *p, int64_t i)
{
    const rs_ssd_op *op = p->op;
    int64_t keys = p->inner, queries = keys + op->groups * op->state;
    for (int64_t h = 0; h < op->heads; h++) {
        p->scan.values.sizes[i * op->heads + h] = size_of(p, i, h * op->head_dim, op->head_dim);
        p->scan.steps[i * op->heads + h] = step_of(p, i, h);
    }
    for (int64_t g = 0; g < op->groups; g++) {
        int64_t at = g * op->state, row = i * op->groups + g;
        p->scan.keys.sizes[row] = size_of(p, i, keys + at, op->state);
        p->scan.queries.sizes[row] = size_of(p, i, queries + at, op->state);
    }
}

/* ---- behind the scan ---- */

/* Gate and norm of row i; *radius: of the whole row. y_radius has one of each head, then of each
 * stretch of the norm: of all heads that reach into it. */
static void finish_row(ssd_shadow *p, int64_t i, const double *heads, double *stretches,
                       double *radius)
{
    const rs_ssd_op *op = p->op;
    double *y = p->scan.y + i * p->inner;
    int64_t n = op->heads, dim = op->head_dim;
    memcpy(stretches, heads, (size_t)n * sizeof *stretches);
    if (op->gate == RS_GATE_BEFORE_NORM)
        for (int64_t h = 0; h < n; h++)
            rs_radius_gate(y + h * dim, stretches + h, dim, &p->in, i, h * dim);
    if (op->norm.kind != RS_NORM_NONE) {
        int64_t groups = op->norm_groups, width = p->inner / groups;
        double *normed = stretches + n;
        for (int64_t g = 0; g < groups; g++) {
            int64_t first = g * width / dim, last = ((g + 1) * width - 1) / dim;
            normed[g] = rs_radius_length(stretches + first, last - first + 1);
            rs_radius_normalise(y + g * width, normed + g, width, &p->norm, g * width);
        }
        stretches = normed, n = groups, dim = width;
    }
    if (op->gate == RS_GATE_AFTER_NORM)
        for (int64_t s = 0; s < n; s++)
            rs_radius_gate(y + s * dim, stretches + s, dim, &p->in, i, s * dim);
    *radius = rs_radius_length(stretches, n);
}

static rs_status ssd_run(void *mixer, rs_states_panel *panel, rs_error *err)
{
    ssd_shadow *p = mixer;
    const rs_ssd_op *op = p->op;
    int threads = p->context->threads;
    int64_t rows = panel->in.n, stretches = op->heads + op->norm_groups;
    RS_TRY(rs_radius_apply(&p->in, &op->in, &panel->in, p->context, err));
    rs_radius_convolve(&p->conv, &p->in, p->inner, panel->parts, panel->n_parts, p->context);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        size_row(p, i);
    rs_radius_scan_run(&p->scan, panel->parts, panel->n_parts, p->context);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        finish_row(p, i, p->scan.y_radius + i * op->heads,
                   p->stretches + rs_thread_number() * stretches, p->row_radius + i);
    rs_radius_rows mixed = {p->scan.y, p->row_radius, rows, p->inner};
    return rs_radius_apply(&panel->out, &op->o, &mixed, p->context, err);
}

static double ssd_size(const rs_branch *branch, double rows, int threads)
{
    const rs_ssd_op *op = &branch->ssd;
    double inner = (double)op->heads * (double)op->head_dim, heads = op->heads;
    const rs_radius_scan scan = {
        .heads = op->heads, .groups = op->groups, .dim = op->head_dim, .state = op->state};
    return rs_radius_map_size(rows, (double)op->in.out) + rs_radius_conv_size(&op->conv, rows) +
           rs_radius_scan_size(&scan, rows, threads) + inner + rows + 4 * heads +
           threads * (heads + (double)op->norm_groups);
}

const rs_states_kind rs_states_ssd = {ssd_open, ssd_run, ssd_size};
