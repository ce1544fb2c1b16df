/* certify_exact_ssd.c: Mamba-2's mixer once more, with radii (docs/certificates.md, C11;
 * docs/theory/ssm.md, 3). */
#include "certify/certify_exact_states.h"

#include "linalg/blas.h"
#include "linalg/norm_bounds.h"
#include "linalg/vector.h"

#include <omp.h>
#include <string.h>

enum { CHUNK = RS_STATES_CHUNK };

/* A number and its radius. */
typedef struct known {
    double value, radius;
} known;

/* A vector: an upper bound of its computed length, and its radius (2-norm). */
typedef struct sized {
    double length, radius;
} sized;

/* A token's step at one head, and by how much the state decays. */
typedef struct token_step {
    known step, decay;
} token_step;

typedef struct ssd_shadow {
    const rs_ssd_op *op;
    const rs_context *context;
    int64_t inner;
    rs_radius_map in; /* z, x, B, C, dt */
    rs_radius_conv conv;
    rs_radius_norm norm;
    double *dt_bias, *d; /* [heads] */
    known *rate;         /* [heads] a */
    token_step *steps;   /* [rows, heads] */
    sized *x;            /* [rows, heads] */
    sized *b, *c;        /* [rows, groups] */
    double *products; /* of a chunk of n rows from row i on: [groups, n, CHUNK] at i groups CHUNK */
    double *state;    /* [heads, state, dim] */
    double *state_radius; /* [heads] 2-norm over both */
    double *work;         /* [threads, work_size] */
    double *y;            /* [rows, inner] */
    double *y_radius;     /* [rows, heads] */
    double *stretches;    /* [threads, heads + groups of the norm] */
    double *row_radius;   /* [rows] */
} ssd_shadow;

/* ---- opening ---- */

static rs_status room_of(void *out, rs_arena *arena, int64_t rows, int64_t cols, size_t size,
                         rs_error *err)
{
    size_t count = 0;
    bool fits = rs_size_mul((size_t)rows, (size_t)cols, &count);
    void *block = fits ? rs_arena_alloc(arena, count, size) : NULL;
    memcpy(out, &block, sizeof block);
    return block ? RS_OK : rs_fail_memory(err, "rounding of a mixer", count);
}

/* A chunk's matrix, and its values as they enter the next state. */
static int64_t work_size(const rs_ssd_op *op)
{
    return CHUNK * (CHUNK + op->head_dim);
}

static rs_status open_rooms(ssd_shadow *p, const rs_states_panel *panel, rs_error *err)
{
    const rs_ssd_op *op = p->op;
    rs_arena *arena = panel->arena;
    int64_t rows = panel->most, heads = op->heads, groups = op->groups;
    RS_TRY(room_of(&p->steps, arena, rows, heads, sizeof *p->steps, err));
    RS_TRY(room_of(&p->x, arena, rows, heads, sizeof *p->x, err));
    RS_TRY(room_of(&p->b, arena, rows, groups, sizeof *p->b, err));
    RS_TRY(room_of(&p->c, arena, rows, groups, sizeof *p->c, err));
    RS_TRY(rs_radius_room(&p->products, arena, rows * groups, CHUNK, err));
    RS_TRY(rs_radius_room(&p->state, arena, heads * op->state, op->head_dim, err));
    RS_TRY(rs_radius_room(&p->state_radius, arena, heads, 1, err));
    RS_TRY(rs_radius_room(&p->work, arena, p->context->threads, work_size(op), err));
    RS_TRY(rs_radius_room(&p->y, arena, rows, p->inner, err));
    RS_TRY(rs_radius_room(&p->y_radius, arena, rows, heads, err));
    RS_TRY(rs_radius_room(&p->stretches, arena, p->context->threads, heads + op->norm_groups, err));
    return rs_radius_room(&p->row_radius, arena, rows, 1, err);
}

static rs_status open_vectors(ssd_shadow *p, rs_arena *arena, rs_error *err)
{
    const rs_ssd_op *op = p->op;
    RS_TRY(rs_radius_room(&p->dt_bias, arena, op->heads, 1, err));
    RS_TRY(rs_radius_room(&p->d, arena, op->heads, 1, err));
    RS_TRY(room_of(&p->rate, arena, op->heads, 1, sizeof *p->rate, err));
    if (op->dt_bias) rs_tensor_decode_f64(p->dt_bias, op->dt_bias, 0, op->heads);
    if (op->d) rs_tensor_decode_f64(p->d, op->d, 0, op->heads);
    for (int32_t h = 0; h < op->heads; h++) {
        double stored;
        rs_tensor_decode_f64(&stored, op->a_log, h, 1);
        double rate = op->a_stored ? stored : -exp(stored);
        /* of states that grow nothing is known */
        if (!(rate <= 0) || !(op->step_most >= 0)) rate = NAN;
        p->rate[h] = (known){rate, op->a_stored ? 0 : RS_RADIUS_FUNCTION * fabs(rate)};
    }
    return RS_OK;
}

static rs_status ssd_open(void **mixer, const rs_states_panel *panel, rs_error *err)
{
    const rs_ssd_op *op = &panel->branch->ssd;
    ssd_shadow *p = rs_arena_alloc(panel->arena, 1, sizeof *p);
    *mixer = p;
    if (!p) return rs_fail_memory(err, "rounding of a mixer", sizeof *p);
    p->op = op;
    p->context = panel->context;
    p->inner = op->heads * op->head_dim;
    RS_TRY(rs_radius_map_open(&p->in, panel->arena, panel->most, op->in.out, err));
    RS_TRY(rs_radius_conv_open(&p->conv, panel->arena, &op->conv, panel->most, err));
    RS_TRY(rs_radius_norm_open(&p->norm, panel->arena, &op->norm, false, err));
    RS_TRY(open_rooms(p, panel, err));
    return open_vectors(p, panel->arena, err);
}

/* ---- what the scan reads ---- */

/* Step and decay of row i at head h. */
static token_step step_of(const ssd_shadow *p, int64_t i, int64_t h)
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
    known rate = p->rate[h];
    double l = rate.value * step, decay = exp(l);
    double off =
        (fabs(rate.value) * radius + rate.radius * (step + radius) + 2 * RS_RADIUS_U * fabs(l)) *
        RS_RADIUS_GROW;
    return (token_step){{step, radius}, {decay, rs_radius_behind_exp(decay, l, off)}};
}

static void size_row(ssd_shadow *p, int64_t i)
{
    const rs_ssd_op *op = p->op;
    int64_t row = i * op->conv.channels, keys = p->inner, queries = keys + op->groups * op->state;
    const double *x = p->conv.x + row, *radius = p->conv.radius + row;
    for (int64_t h = 0; h < op->heads; h++) {
        int64_t at = h * op->head_dim;
        p->x[i * op->heads + h] = (sized){rs_radius_length(x + at, op->head_dim),
                                          rs_radius_length(radius + at, op->head_dim)};
        p->steps[i * op->heads + h] = step_of(p, i, h);
    }
    for (int64_t g = 0; g < op->groups; g++) {
        int64_t b = keys + g * op->state, c = queries + g * op->state;
        p->b[i * op->groups + g] =
            (sized){rs_radius_length(x + b, op->state), rs_radius_length(radius + b, op->state)};
        p->c[i * op->groups + g] =
            (sized){rs_radius_length(x + c, op->state), rs_radius_length(radius + c, op->state)};
    }
}

static const double *keys_at(const ssd_shadow *p, int64_t i, int64_t g)
{
    return p->conv.x + i * p->op->conv.channels + p->inner + g * p->op->state;
}

static const double *queries_at(const ssd_shadow *p, int64_t i, int64_t g)
{
    return keys_at(p, i, p->op->groups + g);
}

static double *products_of(const ssd_shadow *p, int64_t from, int64_t n, int64_t g)
{
    return p->products + (from * p->op->groups + g * n) * CHUNK;
}

/* C_i·B_j of the chunks of a part. */
static void multiply_keys(ssd_shadow *p, const rs_states_part *part)
{
    const rs_ssd_op *op = p->op;
#pragma omp for schedule(static) nowait
    for (int64_t from = part->from; from < part->to; from += CHUNK) {
        int64_t n = part->to - from < CHUNK ? part->to - from : CHUNK;
        for (int64_t g = 0; g < op->groups; g++)
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)n,
                        (blasint)op->state, 1, queries_at(p, from, g), (blasint)op->conv.channels,
                        keys_at(p, from, g), (blasint)op->conv.channels, 0,
                        products_of(p, from, n, g), CHUNK);
    }
}

/* ---- a chunk of one head ---- */

/* What tokens j of the chunk, and what came before it, are worth at a later one: the product of the
 * decays between, times the token's step; and what radii need of the tokens. */
typedef struct chunk_weights {
    double worth[CHUNK], off[CHUNK]; /* and its radius */
    known before;
    double key[CHUNK], key_off[CHUNK];     /* ‖B_j‖ with its radius; its radius and rounding */
    double value[CHUNK], value_off[CHUNK]; /* the same of x_j */
} chunk_weights;

/* a, known to be no more than `off` wrong, times a decay. */
static inline double aged(double off, double a, known decay)
{
    return off * (decay.value + decay.radius) + a * decay.radius +
           2 * RS_RADIUS_U * a * decay.value + RS_RADIUS_TINY;
}

static void open_weights(chunk_weights *w, const ssd_shadow *p, int64_t h, int64_t from, int64_t n)
{
    const rs_ssd_op *op = p->op;
    int64_t g = h / (op->heads / op->groups);
    double products = rs_gamma((double)op->state + 4), sums = rs_gamma(CHUNK + 8);
    w->before = (known){1, 0};
    for (int64_t j = 0; j < n; j++) {
        sized b = p->b[(from + j) * op->groups + g], x = p->x[(from + j) * op->heads + h];
        w->key[j] = b.length + b.radius;
        w->key_off[j] = b.radius + products * b.length;
        w->value[j] = x.length + x.radius;
        w->value_off[j] = x.radius + sums * x.length;
    }
}

/* Passes token i: all before it decay, its own worth is its step. */
static void pass_token(chunk_weights *w, const token_step *token, int64_t i)
{
    known decay = token->decay;
    for (int64_t j = 0; j < i; j++) {
        w->off[j] = aged(w->off[j], w->worth[j], decay);
        w->worth[j] *= decay.value;
    }
    w->before.radius = aged(w->before.radius, w->before.value, decay);
    w->before.value *= decay.value;
    w->worth[i] = token->step.value;
    w->off[i] = token->step.radius;
}

/* Row i of the chunk's matrix from the products, and the radius (2-norm) of what it makes of the
 * values. d: of the skip inside. */
static double matrix_row(double *row, const double *products, const chunk_weights *w, sized query,
                         double d, int64_t i)
{
    double sum = 0;
    for (int64_t j = 0; j <= i; j++) {
        double size = fabs(products[j]), entry = products[j] * w->worth[j];
        double product = query.radius * w->key[j] + query.length * w->key_off[j];
        double off = product * (w->worth[j] + w->off[j]) + size * w->off[j] +
                     4 * RS_RADIUS_U * fabs(entry) + RS_RADIUS_TINY;
        row[j] = entry;
        sum += off * w->value[j] + fabs(entry) * w->value_off[j];
    }
    row[i] += d;
    return (sum + fabs(d) * w->value_off[i]) * RS_RADIUS_GROW;
}

/* One head over n tokens from row `from` on. y [n, dim] with leading dimension inner holds what the
 * state gives before it decays. */
typedef struct head_chunk {
    int64_t head, group, from, n;
    double *state, *state_radius;
    double *matrix, *values; /* [CHUNK, CHUNK], [CHUNK, dim] */
} head_chunk;

/* y: rows of the chunk become M x and what the state gives. */
static void mix_chunk(ssd_shadow *p, const head_chunk *at, chunk_weights *w)
{
    const rs_ssd_op *op = p->op;
    int64_t dim = op->head_dim, n = at->n, ldy = p->inner;
    double *y = p->y + at->from * ldy + at->head * dim;
    double kept = rs_radius_length(at->state, op->state * dim), lost = *at->state_radius;
    double products = rs_gamma((double)op->state + 4), sums = rs_gamma(CHUNK + 8);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)dim,
                (blasint)op->state, 1, queries_at(p, at->from, at->group),
                (blasint)op->conv.channels, at->state, (blasint)dim, 0, y, (blasint)ldy);
    memset(at->matrix, 0, CHUNK * CHUNK * sizeof *at->matrix);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = at->from + i;
        sized query = p->c[row * op->groups + at->group];
        pass_token(w, &p->steps[row * op->heads + at->head], i);
        double own =
            matrix_row(at->matrix + i * CHUNK, products_of(p, at->from, n, at->group) + i * CHUNK,
                       w, query, p->d[at->head], i);
        /* C_iᵀS, then times what is left of the state */
        double given = rs_radius_length(y + i * ldy, dim);
        double off = query.radius * (kept + lost) + query.length * (lost + products * kept);
        off = w->before.value * off + w->before.radius * (given + off) +
              sums * w->before.value * given;
        p->y_radius[row * op->heads + at->head] = (own + off) * RS_RADIUS_GROW + RS_RADIUS_TINY;
        for (int64_t c = 0; c < dim; c++)
            y[i * ldy + c] *= w->before.value;
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)dim, (blasint)n, 1,
                at->matrix, CHUNK, p->conv.x + at->from * op->conv.channels + at->head * dim,
                (blasint)op->conv.channels, 1, y, (blasint)ldy);
}

/* The state behind the chunk. */
static void carry_chunk(ssd_shadow *p, const head_chunk *at, const chunk_weights *w)
{
    const rs_ssd_op *op = p->op;
    int64_t dim = op->head_dim, size = op->state * dim, ld = op->conv.channels;
    double kept = rs_radius_length(at->state, size), lost = *at->state_radius;
    double sums = rs_gamma(CHUNK + 8), off = w->before.value * lost;
    off += w->before.radius * (kept + lost) + sums * w->before.value * kept;
    for (int64_t j = 0; j < at->n; j++) {
        const double *x = p->conv.x + (at->from + j) * ld + at->head * dim;
        sized b = p->b[(at->from + j) * op->groups + at->group];
        off += w->off[j] * w->key[j] * w->value[j] +
               w->worth[j] * (b.radius * w->value[j] + b.length * w->value_off[j]);
        for (int64_t c = 0; c < dim; c++)
            at->values[j * dim + c] = w->worth[j] * x[c];
    }
    for (int64_t k = 0; k < size; k++)
        at->state[k] *= w->before.value;
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)op->state, (blasint)dim,
                (blasint)at->n, 1, keys_at(p, at->from, at->group), (blasint)ld, at->values,
                (blasint)dim, 1, at->state, (blasint)dim);
    *at->state_radius = off * RS_RADIUS_GROW + RS_RADIUS_TINY;
}

/* One head over one part; the state goes on from part to part of a sample. */
static void scan_part(ssd_shadow *p, const rs_states_part *part, int64_t h)
{
    const rs_ssd_op *op = p->op;
    int64_t size = op->state * op->head_dim;
    double *work = p->work + omp_get_thread_num() * work_size(op);
    chunk_weights weights;
    head_chunk at = {.head = h,
                     .group = h / (op->heads / op->groups),
                     .state = p->state + h * size,
                     .state_radius = p->state_radius + h,
                     .matrix = work,
                     .values = work + CHUNK * CHUNK};
    if (part->begins) {
        memset(at.state, 0, (size_t)size * sizeof *at.state);
        *at.state_radius = 0;
    }
    for (at.from = part->from; at.from < part->to; at.from += CHUNK) {
        at.n = part->to - at.from < CHUNK ? part->to - at.from : CHUNK;
        open_weights(&weights, p, h, at.from, at.n);
        mix_chunk(p, &at, &weights);
        carry_chunk(p, &at, &weights);
    }
}

/* ---- behind the scan ---- */

/* Gate and norm of row i; *radius: of the whole row. y_radius has one of each head, then of each
 * stretch of the norm: of all heads that reach into it. */
static void finish_row(ssd_shadow *p, int64_t i, const double *heads, double *stretches,
                       double *radius)
{
    const rs_ssd_op *op = p->op;
    double *y = p->y + i * p->inner;
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
    int64_t rows = panel->in.n;
    RS_TRY(rs_radius_apply(&p->in, &op->in, &panel->in, p->context, err));
    rs_radius_convolve(&p->conv, &p->in, p->inner, panel->parts, panel->n_parts, p->context);
#pragma omp parallel num_threads(p->context->threads)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++)
            size_row(p, i);
        for (int64_t t = 0; t < panel->n_parts; t++)
            multiply_keys(p, &panel->parts[t]);
#pragma omp barrier
#pragma omp for schedule(dynamic)
        for (int64_t h = 0; h < op->heads; h++)
            for (int64_t t = 0; t < panel->n_parts; t++)
                scan_part(p, &panel->parts[t], h);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++)
            finish_row(p, i, p->y_radius + i * op->heads,
                       p->stretches + omp_get_thread_num() * (op->heads + op->norm_groups),
                       p->row_radius + i);
    }
    rs_radius_rows mixed = {p->y, p->row_radius, rows, p->inner};
    return rs_radius_apply(&panel->out, &op->o, &mixed, p->context, err);
}

const rs_states_kind rs_states_ssd = {ssd_open, ssd_run};
