/* certify_radius_scan.c: a chunked scan with radii (docs/certificates.md, C11): within a chunk of
 * tokens its matrix is formed, what came before passes through the state. */
#include "certify/certify_radius_scan.h"

#include "linalg/blas.h"
#include "linalg/norm_bounds.h"
#include "linalg/threads.h"

#include <string.h>

enum { CHUNK = 64 };

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
static int64_t work_size(const rs_radius_scan *p)
{
    return CHUNK * (CHUNK + p->dim);
}

rs_status rs_radius_scan_open(rs_radius_scan *p, rs_arena *arena, int64_t rows, int threads,
                              rs_error *err)
{
    RS_TRY(room_of(&p->steps, arena, rows, p->heads, sizeof *p->steps, err));
    RS_TRY(room_of(&p->values.sizes, arena, rows, p->heads, sizeof(rs_sized), err));
    RS_TRY(room_of(&p->keys.sizes, arena, rows, p->groups, sizeof(rs_sized), err));
    RS_TRY(room_of(&p->queries.sizes, arena, rows, p->groups, sizeof(rs_sized), err));
    RS_TRY(rs_radius_room(&p->products, arena, rows * p->groups, CHUNK, err));
    RS_TRY(rs_radius_room(&p->carried, arena, p->heads * p->state, p->dim, err));
    RS_TRY(rs_radius_room(&p->carried_radius, arena, p->heads, 1, err));
    RS_TRY(rs_radius_room(&p->work, arena, threads, work_size(p), err));
    RS_TRY(rs_radius_room(&p->y, arena, rows, p->heads * p->dim, err));
    return rs_radius_room(&p->y_radius, arena, rows, p->heads, err);
}

double rs_radius_scan_size(const rs_radius_scan *p, double rows, int threads)
{
    double heads = (double)p->heads, groups = (double)p->groups, dim = (double)p->dim;
    double row = heads * (4 + 2 + dim + 1) + groups * (4 + CHUNK);
    return rows * row + heads * (double)p->state * dim + threads * (double)work_size(p);
}

/* ---- products ---- */

static const double *keys_at(const rs_radius_scan *p, int64_t i, int64_t g)
{
    return p->keys.x + i * p->keys.ld + g * p->state;
}

static const double *queries_at(const rs_radius_scan *p, int64_t i, int64_t g)
{
    return p->queries.x + i * p->queries.ld + g * p->state;
}

static const double *values_at(const rs_radius_scan *p, int64_t i, int64_t h)
{
    return p->values.x + i * p->values.ld + h * p->dim;
}

static double *products_of(const rs_radius_scan *p, int64_t from, int64_t n, int64_t g)
{
    return p->products + (from * p->groups + g * n) * CHUNK;
}

/* C_i·B_j of the chunks of a part. */
static void multiply_keys(rs_radius_scan *p, const rs_states_part *part)
{
#pragma omp for schedule(static) nowait
    for (int64_t from = part->from; from < part->to; from += CHUNK) {
        int64_t n = part->to - from < CHUNK ? part->to - from : CHUNK;
        for (int64_t g = 0; g < p->groups; g++)
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)n,
                        (blasint)p->state, 1, queries_at(p, from, g), (blasint)p->queries.ld,
                        keys_at(p, from, g), (blasint)p->keys.ld, 0, products_of(p, from, n, g),
                        CHUNK);
    }
}

/* ---- a chunk of one head ---- */

/* What tokens j of the chunk, and what came before it, are worth at a later one: the product of the
 * decays between, times the token's step; and what radii need of the tokens. */
typedef struct chunk_weights {
    double worth[CHUNK], off[CHUNK]; /* and its radius */
    rs_known before;
    double key[CHUNK], key_off[CHUNK];     /* ‖B_j‖ with its radius; its radius and rounding */
    double value[CHUNK], value_off[CHUNK]; /* the same of x_j */
} chunk_weights;

/* a, known to be no more than `off` wrong, times a decay. */
static inline double aged(double off, double a, rs_known decay)
{
    return off * (decay.value + decay.radius) + a * decay.radius +
           2 * RS_RADIUS_U * a * decay.value + RS_RADIUS_TINY;
}

static void open_weights(chunk_weights *w, const rs_radius_scan *p, int64_t h, int64_t from,
                         int64_t n)
{
    int64_t g = h / (p->heads / p->groups);
    double products = rs_gamma((double)p->state + 4), sums = rs_gamma(CHUNK + 8);
    w->before = (rs_known){1, 0};
    for (int64_t j = 0; j < n; j++) {
        rs_sized b = p->keys.sizes[(from + j) * p->groups + g];
        rs_sized x = p->values.sizes[(from + j) * p->heads + h];
        w->key[j] = b.length + b.radius;
        w->key_off[j] = b.radius + products * b.length;
        w->value[j] = x.length + x.radius;
        w->value_off[j] = x.radius + sums * x.length;
    }
}

/* Passes token i: all before it decay, its own worth is its step. */
static void pass_token(chunk_weights *w, const rs_token_step *token, int64_t i)
{
    rs_known decay = token->decay;
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
static double matrix_row(double *row, const double *products, const chunk_weights *w,
                         rs_sized query, double d, int64_t i)
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
static void mix_chunk(rs_radius_scan *p, const head_chunk *at, chunk_weights *w)
{
    int64_t dim = p->dim, n = at->n, ldy = p->heads * p->dim;
    double *y = p->y + at->from * ldy + at->head * dim;
    double kept = rs_radius_length(at->state, p->state * dim), lost = *at->state_radius;
    double products = rs_gamma((double)p->state + 4), sums = rs_gamma(CHUNK + 8);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)dim,
                (blasint)p->state, 1, queries_at(p, at->from, at->group), (blasint)p->queries.ld,
                at->state, (blasint)dim, 0, y, (blasint)ldy);
    memset(at->matrix, 0, CHUNK * CHUNK * sizeof *at->matrix);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = at->from + i;
        rs_sized query = p->queries.sizes[row * p->groups + at->group];
        pass_token(w, &p->steps[row * p->heads + at->head], i);
        double own =
            matrix_row(at->matrix + i * CHUNK, products_of(p, at->from, n, at->group) + i * CHUNK,
                       w, query, p->d[at->head], i);
        /* C_iᵀS, then times what is left of the state */
        double given = rs_radius_length(y + i * ldy, dim);
        double off = query.radius * (kept + lost) + query.length * (lost + products * kept);
        off = w->before.value * off + w->before.radius * (given + off) +
              sums * w->before.value * given;
        p->y_radius[row * p->heads + at->head] = (own + off) * RS_RADIUS_GROW + RS_RADIUS_TINY;
        for (int64_t c = 0; c < dim; c++)
            y[i * ldy + c] *= w->before.value;
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)dim, (blasint)n, 1,
                at->matrix, CHUNK, values_at(p, at->from, at->head), (blasint)p->values.ld, 1, y,
                (blasint)ldy);
}

/* The state behind the chunk. */
static void carry_chunk(rs_radius_scan *p, const head_chunk *at, const chunk_weights *w)
{
    int64_t dim = p->dim, size = p->state * dim;
    double kept = rs_radius_length(at->state, size), lost = *at->state_radius;
    double sums = rs_gamma(CHUNK + 8), off = w->before.value * lost;
    off += w->before.radius * (kept + lost) + sums * w->before.value * kept;
    for (int64_t j = 0; j < at->n; j++) {
        const double *x = values_at(p, at->from + j, at->head);
        rs_sized b = p->keys.sizes[(at->from + j) * p->groups + at->group];
        off += w->off[j] * w->key[j] * w->value[j] +
               w->worth[j] * (b.radius * w->value[j] + b.length * w->value_off[j]);
        for (int64_t c = 0; c < dim; c++)
            at->values[j * dim + c] = w->worth[j] * x[c];
    }
    for (int64_t k = 0; k < size; k++)
        at->state[k] *= w->before.value;
    cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)p->state, (blasint)dim,
                (blasint)at->n, 1, keys_at(p, at->from, at->group), (blasint)p->keys.ld, at->values,
                (blasint)dim, 1, at->state, (blasint)dim);
    *at->state_radius = off * RS_RADIUS_GROW + RS_RADIUS_TINY;
}

/* One head over one part; the state goes on from part to part of a sample. */
static void scan_part(rs_radius_scan *p, const rs_states_part *part, int64_t h)
{
    int64_t size = p->state * p->dim;
    double *work = p->work + rs_thread_number() * work_size(p);
    chunk_weights weights;
    head_chunk at = {.head = h,
                     .group = h / (p->heads / p->groups),
                     .state = p->carried + h * size,
                     .state_radius = p->carried_radius + h,
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

void rs_radius_scan_run(rs_radius_scan *p, const rs_states_part *parts, int64_t n_parts,
                        const rs_context *context)
{
#pragma omp parallel num_threads(context->threads)
    {
        for (int64_t t = 0; t < n_parts; t++)
            multiply_keys(p, &parts[t]);
#pragma omp barrier
#pragma omp for schedule(dynamic)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t t = 0; t < n_parts; t++)
                scan_part(p, &parts[t], h);
    }
}
