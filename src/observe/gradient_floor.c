/*
 * gradient_floor.c: what rounding alone may give the gradients of queries and keys
 * (docs/theory/gradients.md, 7).
 *
 * Rows of dL/d(logits) sum to 0, so that their rounding is seen by what tells keys, or tokens, from
 * each other; where that is small, so is what remains: it drowns where the values differ by no more
 * than rounding, too. The terms have the size of the values' gradient times |k||v|, or |q||v|, and
 * the logits' scale. A gradient found from what tells tokens apart has no such terms: it is as good
 * as that is.
 */
#include "observe/gather_gradients.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "engine/residual.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

enum {
    KEPT = 8 /* rows of the first sample */,
    UNITS = 3, /* of roundoff in what is a difference */
    SHARES = 8 /* of roundoff in what is none */
};

/* What an op reads: a few rows of tokens, and of the memory where it reads that. */
typedef struct kept_rows {
    double *x, *memory; /* [n, d], [n_memory, d]; NULL: not heard yet, none */
    int64_t n, n_memory;
    /* of all tokens that keys and values are made of: the sum of their squares, the largest square of
     * what one has beside its sample's mean, how many there are, and in the longest sample */
    double square, apart;
    int64_t tokens, most_keys;
    double rounding; /* share of what tells tokens apart that may be rounding, most of any sample */
} kept_rows;

struct rs_floor_rows {
    const rs_network *network;
    kept_rows *branches; /* [layers, RS_BRANCHES_MAX] */
};

rs_status rs_floor_rows_open(rs_floor_rows **out, const rs_network *network, rs_error *err)
{
    rs_floor_rows *f = *out = rs_calloc(1, sizeof *f);
    if (!f) return rs_fail_memory(err, "rows", sizeof *f);
    f->network = network;
    f->branches = rs_calloc((size_t)network->n_layers * RS_BRANCHES_MAX + 1, sizeof *f->branches);
    return f->branches ? RS_OK : rs_fail_memory(err, "rows", sizeof *f->branches);
}

void rs_floor_rows_close(rs_floor_rows *f)
{
    if (!f) return;
    for (int64_t i = 0; f->branches && i < (int64_t)f->network->n_layers * RS_BRANCHES_MAX; i++) {
        rs_free(f->branches[i].x);
        rs_free(f->branches[i].memory);
    }
    rs_free(f->branches);
    rs_free(f);
}

/* ---- what is read ---- */

/* Rows of float or double. */
typedef struct some_rows {
    const void *data;
    bool narrow;
    int64_t cols;
} some_rows;

static double number_at(const some_rows *x, int64_t row, int64_t c)
{
    int64_t i = row * x->cols + c;
    return x->narrow ? (double)((const float *)x->data)[i] : ((const double *)x->data)[i];
}

/* Some of rows from .. to-1, as far from each other as they may be. */
static rs_status keep(double **out, int64_t *n, const some_rows *x, int64_t from, int64_t to,
                      rs_error *err)
{
    *n = to - from < KEPT ? to - from : KEPT;
    *out = rs_malloc((size_t)(*n * x->cols) + 1, sizeof **out);
    if (!*out) return rs_fail_memory(err, "rows", (size_t)(*n * x->cols) * sizeof **out);
    for (int64_t i = 0; i < *n; i++)
        for (int64_t c = 0; c < x->cols; c++)
            (*out)[i * x->cols + c] = number_at(x, from + i * (to - from) / *n, c);
    return RS_OK;
}

/* Adds rows from .. to-1, a sample, to what keys and values are made of. mean: room for [cols]. */
static void add_sample(kept_rows *at, const some_rows *x, int64_t from, int64_t to, double *mean)
{
    int64_t n = to - from;
    at->tokens += n;
    if (n > at->most_keys) at->most_keys = n;
    memset(mean, 0, (size_t)x->cols * sizeof *mean);
    for (int64_t i = from; i < to; i++)
        for (int64_t c = 0; c < x->cols; c++)
            mean[c] += number_at(x, i, c) / (double)n;
    for (int64_t i = from; i < to; i++) {
        double square = 0, apart = 0;
        for (int64_t c = 0; c < x->cols; c++) {
            double y = number_at(x, i, c), d = y - mean[c];
            square += y * y;
            apart += d * d;
        }
        at->square += square;
        at->apart = fmax(at->apart, apart);
    }
}

/* Those of a batch. */
static rs_status add_batch(kept_rows *at, const some_rows *x, const rs_batch *batch,
                           const int64_t *keys, rs_error *err)
{
    double *mean = rs_malloc((size_t)x->cols + 1, sizeof *mean);
    if (!mean) return rs_fail_memory(err, "rows", (size_t)x->cols * sizeof *mean);
    for (int32_t s = 0; s < batch->samples; s++)
        if (batch->begin[s + 1] > batch->begin[s]) add_sample(at, x, keys[s], keys[s + 1], mean);
    rs_free(mean);
    return RS_OK;
}

/* Where the size of what tells tokens apart is not known, all of it may be rounding. */
static void hear_rounding(kept_rows *at, const rs_state_view *view)
{
    const rs_batch *batch = view->batch;
    for (int32_t s = 0; s < batch->samples && view->rounding; s++) {
        bool lost = view->exponent[s] == RS_EXPONENT_LEAST;
        if (batch->begin[s + 1] - batch->begin[s] < 2) continue;
        at->rounding = fmax(at->rounding, lost ? 1 : view->rounding[s]);
    }
}

rs_status rs_floor_hear(rs_floor_rows *f, int32_t layer, int32_t branch, const rs_state_view *view,
                        rs_error *err)
{
    kept_rows *at = &f->branches[layer * RS_BRANCHES_MAX + branch];
    const rs_batch *batch = view->batch;
    const rs_attention_op *op = rs_branch_attention(&f->network->layers[layer].branches[branch]);
    if (!op) return RS_OK;
    const some_rows x = {view->data, view->precision == RS_PRECISION_F32, view->cols},
                    memory = {batch->memory, false, op->k.in};
    const int64_t *begin = batch->begin, *keys = op->cross ? batch->memory_begin : begin;
    int64_t s = 0;
    hear_rounding(at, view);
    RS_TRY(add_batch(at, op->cross ? &memory : &x, batch, keys, err));
    if (at->x) return RS_OK;
    while (begin[s] == begin[s + 1])
        s++; /* a batch without a token is not run */
    RS_TRY(keep(&at->x, &at->n, &x, begin[s], begin[s + 1], err));
    if (!op->cross) return RS_OK;
    return keep(&at->memory, &at->n_memory, &memory, keys[s], keys[s + 1], err);
}

/* ---- lengths of queries, keys and values ---- */

/* Over tokens: the root mean square of a vector's length, and the largest length of what one has beside
 * their mean. */
typedef struct length {
    double all, apart;
} length;

/* Of the part-th of `parts` stretches of W x + b over rows x; KEPT at most. */
static rs_status length_of(length *out, const rs_dense *map, int32_t parts, int32_t part,
                           const double *x, int64_t rows, rs_error *err)
{
    int64_t width = map->out / parts;
    double *w = rs_malloc((size_t)(width * (map->in + 1)) + 1, sizeof *w), square[KEPT] = {0},
           apart[KEPT] = {0};
    if (!w) return rs_fail_memory(err, "lengths", (size_t)(width * map->in) * sizeof *w);
    double *bias = w + width * map->in;
    rs_status status = rs_dense_rows(w, bias, map, part * width, width, err);
    for (int64_t u = 0; u < width && status == RS_OK; u++) {
        double y[KEPT], mean = 0;
        for (int64_t i = 0; i < rows; i++) {
            y[i] = bias[u];
            for (int64_t c = 0; c < map->in; c++)
                y[i] += w[u * map->in + c] * x[i * map->in + c];
            mean += y[i] / (double)rows;
        }
        for (int64_t i = 0; i < rows; i++)
            square[i] += y[i] * y[i], apart[i] += (y[i] - mean) * (y[i] - mean);
    }
    *out = (length){0};
    for (int64_t i = 0; i < rows; i++) {
        out->all += square[i] / (double)rows;
        out->apart = fmax(out->apart, apart[i]);
    }
    *out = (length){sqrt(out->all), sqrt(out->apart)};
    rs_free(w);
    return status;
}

/* The length of the part-th stretch behind a norm, whose rows have mean square 1 in front of its
 * gain. */
static rs_status normed_length(double *out, const rs_norm_op *norm, int64_t width, int32_t part,
                               rs_error *err)
{
    double *gain = rs_malloc((size_t)norm->dim + 1, sizeof *gain), sum = 0;
    if (!gain) return rs_fail_memory(err, "lengths", (size_t)norm->dim * sizeof *gain);
    rs_norm_vectors(gain, NULL, norm);
    for (int64_t u = 0; u < width; u++) {
        double g = gain[norm->dim == width ? u : (part * width + u) % norm->dim];
        sum += g * g;
    }
    *out = sqrt(sum);
    rs_free(gain);
    return RS_OK;
}

/* Of queries or keys: `by` is what a derivative behind a norm is multiplied by on its way back. */
static rs_status asking_length(length *out, double *by, const rs_dense *map, const rs_norm_op *norm,
                               int32_t parts, int32_t part, const double *x, int64_t rows,
                               rs_error *err)
{
    double normed = 0;
    *by = 1;
    RS_TRY(length_of(out, map, parts, part, x, rows, err));
    if (norm->kind == RS_NORM_NONE) return RS_OK;
    RS_TRY(normed_length(&normed, norm, map->out / parts, part, err));
    *by = out->all > 0 ? normed / out->all : 1;
    out->all *= *by, out->apart *= *by;
    return RS_OK;
}

typedef struct lengths {
    length q, k, v;
    double by_q, by_k; /* see asking_length */
    double position;   /* of relative positions' keys; 0: there are none */
    double tokens;     /* of all tokens: shares.apart */
} lengths;

/* Of keys of relative positions: entries of a sinusoid have mean square 1/2. */
static rs_status position_length(double *out, const rs_dense *map, int32_t parts, int32_t part,
                                 rs_error *err)
{
    int64_t width = map->out / parts, count = width * map->in;
    double *w = rs_malloc((size_t)count + 1, sizeof *w), sum = 0;
    if (!w) return rs_fail_memory(err, "lengths", (size_t)count * sizeof *w);
    rs_status status = rs_dense_rows(w, NULL, map, part * width, width, err);
    for (int64_t i = 0; i < count && status == RS_OK; i++)
        sum += w[i] * w[i] / 2;
    *out = sqrt(sum);
    rs_free(w);
    return status;
}

/* Root mean square of some tokens, and the largest length of what one has beside their sample's mean
 * over that: no more than 1, which stands for tokens that differ at all. */
typedef struct shares {
    double size, apart;
} shares;

static shares shares_of(const kept_rows *at)
{
    double size = at->tokens > 0 ? sqrt(at->square / (double)at->tokens) : 0;
    double share = sqrt(at->apart) / size;
    return (shares){size, share <= 1 ? share : 1};
}

static rs_status kept_shares(shares *out, const double *x, int64_t n, int64_t d, rs_error *err)
{
    const int64_t begin[] = {0, n};
    const rs_batch all = {.samples = 1, .begin = begin};
    const some_rows rows = {x, false, d};
    kept_rows sums = {0};
    RS_TRY(add_batch(&sums, &rows, &all, begin, err));
    *out = shares_of(&sums);
    return RS_OK;
}

/* What tells some tokens apart, as large as all tokens have it beside the kept ones. */
static void widen(length *y, double kept, double all)
{
    y->apart = kept > 0 ? y->apart * fmax(1, all / kept) : all * y->all;
    y->apart = fmin(y->apart, y->all);
}

/* Those of query head h and the keys and values that it reads. */
static rs_status head_lengths(lengths *out, const rs_attention_op *op, const kept_rows *at,
                              int32_t h, rs_error *err)
{
    const double *source = op->cross ? at->memory : at->x;
    int64_t rows = op->cross ? at->n_memory : at->n;
    int32_t g = h / (op->heads / op->kv_heads);
    shares kept, asking;
    RS_TRY(kept_shares(&kept, source, rows, op->k.in, err));
    RS_TRY(kept_shares(&asking, at->x, at->n, op->q.in, err));
    RS_TRY(
        asking_length(&out->q, &out->by_q, &op->q, &op->q_norm, op->heads, h, at->x, at->n, err));
    RS_TRY(asking_length(&out->k, &out->by_k, &op->k, &op->k_norm, op->kv_heads, g, source, rows,
                         err));
    RS_TRY(length_of(&out->v, &op->v, op->kv_heads, g, source, rows, err));
    out->position = 0;
    if (op->relative.r.weight)
        RS_TRY(position_length(&out->position, &op->relative.r, op->heads, h, err));
    out->tokens = shares_of(at).apart;
    widen(&out->k, kept.apart, out->tokens);
    widen(&out->v, kept.apart, out->tokens);
    if (op->cross && kept.size > 0) /* the values' gradient is made of the memory */
        out->by_q *= asking.size / kept.size;
    return RS_OK;
}

/* ---- floors ---- */

typedef struct branch_rows {
    rs_gradient_row *rows;
    size_t n;
    int32_t layer, branch;
} branch_rows;

static rs_gradient_row *find_row(const branch_rows *b, rs_role role, rs_parameter_part part,
                                 int32_t head)
{
    for (size_t i = 0; i < b->n; i++) {
        rs_gradient_row *row = &b->rows[i];
        if (row->layer == b->layer && row->branch == b->branch && row->role == role &&
            row->part == part && row->head == head)
            return row;
    }
    return NULL;
}

/* What a floor is made of: a number of the parameter's own power, until all floors are known. */
typedef struct part_of_floor {
    double value;
    int64_t exponent;
} part_of_floor;

/* The norm of a row times `factor`. */
static part_of_floor part_of(const rs_gradient_row *row, double factor)
{
    if (!row) return (part_of_floor){NAN, 0};
    return (part_of_floor){factor * sqrt(row->square), row->exponent};
}

/* A floor that adds up in squares. */
static void add_floor(rs_gradient_row *row, part_of_floor part)
{
    if (!row || isnan(part.value)) return;
    rs_scale_by(&part.value, 1, part.exponent - row->exponent);
    row->floor = isnan(row->floor) ? part.value : hypot(row->floor, part.value);
}

static bool asks(const rs_gradient_row *row)
{
    bool is = row->role == RS_ROLE_Q || row->role == RS_ROLE_K;
    return is && (row->part == RS_OF_WEIGHT || row->part == RS_OF_BIAS);
}

/* Of rows that are not differences: an eighth of rounding in what they are made of counts. Of those
 * that what reached them has made rounding, all is. */
static void set_share(const branch_rows *b, double share)
{
    for (size_t i = 0; i < b->n; i++)
        if (asks(&b->rows[i]) && b->rows[i].square > 0)
            add_floor(&b->rows[i], part_of(&b->rows[i], share));
}

/* The gradient by a bias of keys is 0 where the softmax does not see it: all that is shown is
 * rounding. */
static void set_key_bias(const branch_rows *b, const rs_attention_op *op)
{
    rs_gradient_row *bias = find_row(b, RS_ROLE_K, RS_OF_BIAS, -1);
    if (!bias || !rs_attention_moves_alike(op)) return;
    bias->floor = 0;
    add_floor(bias, part_of(bias, 1));
}

/* The floors of a head over the norm of its values' gradient (docs/theory/gradients.md, 7). */
static void floors_of(double *q, double *k, const rs_attention_op *op, const lengths *of,
                      int64_t keys, double u)
{
    bool centred = rs_softmax_is_centred(op, keys), differ = rs_attention_turns(op) || !centred;
    double slope = fabs(op->scale / op->temperature), v = of->v.all;
    double logit = slope * of->q.all * of->k.all / sqrt((double)op->head_dim);
    double along = centred ? 0 : v * sqrt((double)keys / (double)op->value_dim);
    double by_dp = v + along + logit * of->v.apart, by_keys = of->v.apart + UNITS * u * v;
    double key = (differ ? of->k.all : of->k.apart) + of->position;
    double token = differ ? 1 : of->tokens, unit = UNITS * u * slope * fabs(op->mix_softmax);
    *q = unit * of->by_q * (key * by_dp + (of->k.all + of->position) * by_keys);
    *k = unit * of->by_k * of->q.all * (token * by_dp + by_keys);
}

static rs_status set_branch(const branch_rows *b, const rs_attention_op *op, const kept_rows *at,
                            double u, rs_error *err)
{
    const rs_gradient_row *bias = find_row(b, RS_ROLE_V, RS_OF_BIAS, -1);
    double share = 1 / sqrt((double)op->heads);
    const rs_gradient_row *query = find_row(b, RS_ROLE_Q, RS_OF_WEIGHT, -1);
    if (query && (query->apart || query->drowned)) {
        set_share(b, query->drowned ? 1 : SHARES * (u + at->rounding));
        return RS_OK;
    }
    set_key_bias(b, op);
    if (op->mix_uniform != 0) return RS_OK; /* values' own gradient is a difference as well */
    for (int32_t h = 0; h < op->heads; h++) {
        lengths of;
        int32_t g = h / (op->heads / op->kv_heads);
        const rs_gradient_row *values = find_row(b, RS_ROLE_V, RS_OF_WEIGHT, g);
        if (!values) return RS_OK;
        RS_TRY(head_lengths(&of, op, at, h, err));
        double q, k;
        floors_of(&q, &k, op, &of, at->most_keys, u);
        add_floor(find_row(b, RS_ROLE_Q, RS_OF_WEIGHT, h), part_of(values, q));
        add_floor(find_row(b, RS_ROLE_Q, RS_OF_WEIGHT, -1), part_of(values, q));
        add_floor(find_row(b, RS_ROLE_K, RS_OF_WEIGHT, g), part_of(values, k));
        add_floor(find_row(b, RS_ROLE_K, RS_OF_WEIGHT, -1), part_of(values, k));
        add_floor(find_row(b, RS_ROLE_Q, RS_OF_BIAS, -1), part_of(bias, q * share));
        add_floor(find_row(b, RS_ROLE_K, RS_OF_BIAS, -1), part_of(bias, k * share));
    }
    return RS_OK;
}

rs_status rs_floor_set(rs_gradient_row *rows, size_t n, const rs_floor_rows *f,
                       rs_precision precision, rs_error *err)
{
    double u = rs_precision_roundoff(precision);
    for (size_t i = 0, end; i < n; i = end) {
        branch_rows b = {&rows[i], 0, rows[i].layer, rows[i].branch};
        for (end = i; end < n && rows[end].layer == b.layer && rows[end].branch == b.branch; end++)
            b.n++;
        if (b.layer < 0) continue;
        const rs_attention_op *op =
            rs_branch_attention(&f->network->layers[b.layer].branches[b.branch]);
        const kept_rows *at = &f->branches[b.layer * RS_BRANCHES_MAX + b.branch];
        if (!op || !at->x || (op->cross && !at->memory)) continue;
        RS_TRY(set_branch(&b, op, at, u, err));
    }
    for (size_t i = 0; i < n; i++) {
        rs_gradient_row *row = &rows[i];
        if (isnan(row->floor)) continue;
        row->at_floor = sqrt(row->square) <= row->floor;
        row->log10_floor = log10(row->floor) + (double)row->exponent * log10(2);
        rs_scale_by(&row->floor, 1, row->exponent);
    }
    return RS_OK;
}
