/* certify_exact_s6.c: Mamba's mixer once more, with radii (docs/certificates.md, C11;
 * docs/theory/ssm.md, 2). */
#include "certify/certify_exact_states.h"

#include "linalg/norm_bounds.h"

#include <string.h>

enum { BLOCK = 64 }; /* channels that are taken together */

typedef struct s6_shadow {
    const rs_s6_op *op;
    const rs_context *context;
    int64_t reads;                 /* dt, B and C together */
    rs_radius_map in, read, steps; /* u and z; dt, B, C; steps before their softplus */
    rs_radius_conv conv;
    rs_radius_norm dt_norm, b_norm, c_norm;
    /* [inner / BLOCK, state, BLOCK] the rates a, the states of the sample that goes on, their radii */
    double *rate, *h, *h_off;
    double rate_share;       /* relative error of a rate */
    double *d;               /* [inner] */
    double *u_radius;        /* [rows] */
    double *read_off;        /* [rows, reads] radius of each entry */
    double *dt_radius;       /* [rows] */
    double *step, *step_off; /* [rows, inner] */
    double *y, *y_off;       /* [rows, inner] */
    double *row_radius;      /* [rows] */
} s6_shadow;

/* ---- opening ---- */

/* Channels of the block that begins with c0. */
static int64_t block_of(const rs_s6_op *op, int64_t c0)
{
    return op->inner - c0 < BLOCK ? op->inner - c0 : BLOCK;
}

static rs_status open_vectors(s6_shadow *p, rs_arena *arena, rs_error *err)
{
    const rs_s6_op *op = p->op;
    double *stored;
    RS_TRY(rs_radius_room(&p->d, arena, op->inner, 1, err));
    RS_TRY(rs_radius_room(&p->rate, arena, op->inner, op->state, err));
    RS_TRY(rs_radius_room(&p->h, arena, op->inner, op->state, err));
    RS_TRY(rs_radius_room(&p->h_off, arena, op->inner, op->state, err));
    RS_TRY(rs_radius_room(&stored, arena, op->inner, op->state, err));
    rs_tensor_decode_f64(stored, op->a_log, 0, op->inner * op->state);
    if (op->d) rs_tensor_decode_f64(p->d, op->d, 0, op->inner);
    p->rate_share = op->a_stored ? 0 : RS_RADIUS_FUNCTION;
    for (int64_t c = 0; c < op->inner; c++)
        for (int64_t s = 0; s < op->state; s++) {
            int64_t c0 = c / BLOCK * BLOCK;
            double x = stored[c * op->state + s], rate = op->a_stored ? x : -exp(x);
            /* of states that grow nothing is known */
            p->rate[c0 * op->state + s * block_of(op, c0) + c - c0] = rate <= 0 ? rate : NAN;
        }
    return RS_OK;
}

static rs_status open_rooms(s6_shadow *p, rs_arena *arena, int64_t rows, rs_error *err)
{
    int64_t inner = p->op->inner;
    RS_TRY(rs_radius_room(&p->u_radius, arena, rows, 1, err));
    RS_TRY(rs_radius_room(&p->read_off, arena, rows, p->reads, err));
    RS_TRY(rs_radius_room(&p->dt_radius, arena, rows, 1, err));
    RS_TRY(rs_radius_room(&p->step, arena, rows, inner, err));
    RS_TRY(rs_radius_room(&p->step_off, arena, rows, inner, err));
    RS_TRY(rs_radius_room(&p->y, arena, rows, inner, err));
    RS_TRY(rs_radius_room(&p->y_off, arena, rows, inner, err));
    return rs_radius_room(&p->row_radius, arena, rows, 1, err);
}

static rs_status s6_open(void **mixer, const rs_states_panel *panel, rs_error *err)
{
    const rs_s6_op *op = &panel->branch->s6;
    rs_arena *arena = panel->arena;
    int64_t rows = panel->most;
    s6_shadow *p = rs_arena_alloc(arena, 1, sizeof *p);
    *mixer = p;
    if (!p) return rs_fail_memory(err, "rounding of a mixer", sizeof *p);
    p->op = op;
    p->context = panel->context;
    p->reads = op->rank + 2 * op->state;
    RS_TRY(rs_radius_map_open(&p->in, arena, rows, op->in.out, err));
    RS_TRY(rs_radius_map_open(&p->read, arena, rows, op->x.out, err));
    RS_TRY(rs_radius_map_open(&p->steps, arena, rows, op->inner, err));
    RS_TRY(rs_radius_conv_open(&p->conv, arena, &op->conv, rows, err));
    RS_TRY(rs_radius_norm_open(&p->dt_norm, arena, &op->dt_norm, false, err));
    RS_TRY(rs_radius_norm_open(&p->b_norm, arena, &op->b_norm, false, err));
    RS_TRY(rs_radius_norm_open(&p->c_norm, arena, &op->c_norm, false, err));
    RS_TRY(open_rooms(p, arena, rows, err));
    return open_vectors(p, arena, err);
}

/* ---- what the scan reads ---- */

/* Entries first .. first+n-1 of row i of what is read, behind their norm. Returns their radius (2-norm),
 * which behind a norm is that of each entry, too. */
static double norm_entries(s6_shadow *p, int64_t i, int64_t first, int64_t n,
                           const rs_radius_norm *norm)
{
    const rs_radius_map *read = &p->read;
    double *off = p->read_off + i * p->reads + first;
    for (int64_t k = 0; k < n; k++)
        off[k] = read->spread[i] * read->share[first + k] + read->own[first + k];
    double radius = rs_radius_length(off, n);
    rs_radius_normalise(read->x + i * read->cols + first, &radius, n, norm, 0);
    for (int64_t k = 0; k < n && norm->kind != RS_NORM_NONE; k++)
        off[k] = radius;
    return radius;
}

static void norm_row(s6_shadow *p, int64_t i)
{
    const rs_s6_op *op = p->op;
    p->dt_radius[i] = norm_entries(p, i, 0, op->rank, &p->dt_norm);
    norm_entries(p, i, op->rank, op->state, &p->b_norm);
    norm_entries(p, i, op->rank + op->state, op->state, &p->c_norm);
}

static void step_row(s6_shadow *p, int64_t i)
{
    const rs_radius_map *steps = &p->steps;
    for (int64_t c = 0; c < p->op->inner; c++) {
        double off = steps->spread[i] * steps->share[c] + steps->own[c];
        p->step[i * steps->cols + c] = rs_radius_softplus(&off, steps->x[i * steps->cols + c]);
        p->step_off[i * steps->cols + c] = off;
    }
}

/* ---- the scan ---- */

/* e^x for x ≤ 0, by Taylor's series about the nearest multiple of ln 2, whose remainder for |r| ≤
 * 0.3466 is below 1e-17: some ten roundings in all, within an elementary function's error. Below −700
 * it is e^−700 = 1e-304, which is less than what underflow is given. Written so that a loop of it is
 * vectorised. */
static inline double decay_of(double x)
{
    static const double high =
        6.93147180369123816490e-01; /* 21 zeros at its end: k·high is exact */
    static const double low = 1.90821492927058770002e-10;
    double t = x < -700 ? -700 : x, shifted = t * 1.4426950408889634 + 0x1.8p52;
    double k = shifted - 0x1.8p52, r = (t - k * high) - k * low, sum = 1.0 / 6227020800;
    sum = sum * r + 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = sum * r + 1;
    sum = sum * r + 1;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; /* 2^k, k ≥ −1010 */
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* A block of channels at one token; arrays of n. */
typedef struct s6_token {
    int64_t n;
    const double *step;
    double given[BLOCK], given_off[BLOCK];    /* step·u and its radius */
    double share[BLOCK];                      /* radius of a·step over |a| */
    double y[BLOCK], size[BLOCK], off[BLOCK]; /* Σ C h, Σ |C h|, radius */
} s6_token;

/* What state s of the channels becomes and gives: B_s, C_s with their radii. */
static void pass_state(s6_token *t, const double *restrict rate, double *restrict h,
                       double *restrict h_off, const double b[2], const double c[2])
{
    double key = b[0], key_off = b[1], key_most = fabs(b[0]) + b[1];
    double query = c[0], query_size = fabs(c[0]), query_off = c[1];
    for (int64_t k = 0; k < t->n; k++) {
        double l = rate[k] * t->step[k], decay = decay_of(l), q = fabs(rate[k]) * t->share[k];
        /* as rs_radius_behind_exp, the radius above 1 more roughly */
        double near = decay * (q * (1 + q) + 2 * RS_RADIUS_FUNCTION) * RS_RADIUS_GROW;
        double far = l + q < -690 ? 0 : RS_RADIUS_GROW;
        double decay_off = (q <= 1 ? near : far) + RS_RADIUS_TINY;
        double in = t->given[k] * key, left = h[k] * decay;
        double in_off = fabs(t->given[k]) * key_off + t->given_off[k] * key_most;
        double off = h_off[k] * (decay + decay_off) + fabs(h[k]) * decay_off + in_off +
                     4 * RS_RADIUS_U * (fabs(left) + fabs(in)) + RS_RADIUS_TINY;
        h[k] = left + in;
        h_off[k] = off * RS_RADIUS_GROW;
        t->y[k] += query * h[k];
        t->size[k] += fabs(query * h[k]);
        t->off[k] += query_size * h_off[k] + query_off * (fabs(h[k]) + h_off[k]);
    }
}

/* Channels c0 .. of row i. */
static void scan_token(s6_shadow *p, s6_token *t, int64_t i, int64_t c0)
{
    const rs_s6_op *op = p->op;
    int64_t at = i * op->inner + c0;
    const double *u = p->conv.x + at, *u_off = p->conv.radius + at, *off = p->step_off + at;
    const double *read = p->read.x + i * p->reads + op->rank, *d = p->d + c0;
    const double *read_off = p->read_off + i * p->reads + op->rank;
    double gamma = rs_gamma((double)op->state + 6);
    t->step = p->step + at;
    for (int64_t k = 0; k < t->n; k++) {
        double step = t->step[k];
        t->given[k] = step * u[k];
        t->given_off[k] = off[k] * (fabs(u[k]) + u_off[k]) + step * u_off[k] +
                          2 * RS_RADIUS_U * fabs(t->given[k]) + RS_RADIUS_TINY;
        t->share[k] =
            (off[k] + p->rate_share * (step + off[k]) + 2 * RS_RADIUS_U * step) * RS_RADIUS_GROW +
            RS_RADIUS_TINY;
        t->y[k] = d[k] * u[k];
        t->size[k] = fabs(t->y[k]);
        t->off[k] = fabs(d[k]) * u_off[k];
    }
    for (int64_t s = 0; s < op->state; s++) {
        int64_t place = c0 * op->state + s * t->n;
        const double key[] = {read[s], read_off[s]};
        const double query[] = {read[op->state + s], read_off[op->state + s]};
        pass_state(t, p->rate + place, p->h + place, p->h_off + place, key, query);
    }
    for (int64_t k = 0; k < t->n; k++) {
        p->y[at + k] = t->y[k];
        p->y_off[at + k] =
            (t->off[k] + gamma * t->size[k]) * (1 + gamma) * RS_RADIUS_GROW + RS_RADIUS_TINY;
    }
}

static void scan_block(s6_shadow *p, const rs_states_panel *panel, int64_t c0)
{
    int64_t state = p->op->state;
    s6_token token = {.n = block_of(p->op, c0)};
    for (int64_t t = 0; t < panel->n_parts; t++) {
        const rs_states_part *part = &panel->parts[t];
        size_t bytes = (size_t)(state * token.n) * sizeof(double);
        if (part->begins) {
            memset(p->h + c0 * state, 0, bytes);
            memset(p->h_off + c0 * state, 0, bytes);
        }
        for (int64_t i = part->from; i < part->to; i++)
            scan_token(p, &token, i, c0);
    }
}

/* ---- the whole ---- */

static void finish_row(s6_shadow *p, int64_t i)
{
    int64_t inner = p->op->inner;
    double *y = p->y + i * inner, *off = p->y_off + i * inner;
    for (int64_t c = 0; c < inner && p->op->gated; c++)
        rs_radius_gate(y + c, off + c, 1, &p->in, i, inner + c);
    p->row_radius[i] = rs_radius_length(off, inner);
}

static rs_status s6_run(void *mixer, rs_states_panel *panel, rs_error *err)
{
    s6_shadow *p = mixer;
    const rs_s6_op *op = p->op;
    int threads = p->context->threads;
    int64_t rows = panel->in.n, inner = op->inner;
    RS_TRY(rs_radius_apply(&p->in, &op->in, &panel->in, p->context, err));
    rs_radius_convolve(&p->conv, &p->in, 0, panel->parts, panel->n_parts, p->context);
    for (int64_t i = 0; i < rows; i++)
        p->u_radius[i] = rs_radius_length(p->conv.radius + i * inner, inner);
    rs_radius_rows u = {p->conv.x, p->u_radius, rows, inner};
    RS_TRY(rs_radius_apply(&p->read, &op->x, &u, p->context, err));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        norm_row(p, i);
    rs_radius_rows dt = {p->read.x, p->dt_radius, rows, p->reads};
    RS_TRY(rs_radius_apply(&p->steps, &op->step, &dt, p->context, err));
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++)
            step_row(p, i);
#pragma omp for schedule(dynamic)
        for (int64_t c0 = 0; c0 < inner; c0 += BLOCK)
            scan_block(p, panel, c0);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++)
            finish_row(p, i);
    }
    rs_radius_rows mixed = {p->y, p->row_radius, rows, inner};
    return rs_radius_apply(&panel->out, &op->o, &mixed, p->context, err);
}

static double s6_size(const rs_branch *branch, double rows, int threads)
{
    const rs_s6_op *op = &branch->s6;
    double inner = (double)op->inner, reads = (double)op->x.out;
    (void)threads;
    return rs_radius_map_size(rows, 2 * inner) + rs_radius_map_size(rows, reads) +
           rs_radius_map_size(rows, inner) + rs_radius_conv_size(&op->conv, rows) +
           inner * (4 * (double)op->state + 1) + rows * (4 * inner + reads + 3) + reads;
}

const rs_states_kind rs_states_s6 = {s6_open, s6_run, s6_size};
