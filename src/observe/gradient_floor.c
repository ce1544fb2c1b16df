/*
 * gradient_floor.c: what rounding alone may give the gradients of queries and keys
 * (docs/theory/gradients.md, 7).
 *
 * Rows of dL/d(logits) sum to 0, and where keys are nearly equal so do those of their product with
 * the keys: what remains drowns in the rounding of its terms. Those have the size of the values'
 * gradient times |k||v|, or |q||v|, and the logits' scale. A gradient found from what tells tokens
 * apart has no such terms: it is as good as that is.
 */
#include "observe/gather_gradients.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "engine/residual.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

enum { KEPT = 8 /* rows of the first sample */, UNITS = 8 /* of roundoff */ };

/* What an op reads: a few rows of tokens, and of the memory where it reads that. */
typedef struct kept_rows {
    double *x, *memory; /* [n, d], [n_memory, d]; NULL: not heard yet, none */
    int64_t n, n_memory;
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

static rs_status keep(double **out, int64_t *n, const void *from, bool narrow, int64_t rows,
                      int64_t cols, rs_error *err)
{
    *n = rows < KEPT ? rows : KEPT;
    *out = rs_malloc((size_t)(*n * cols) + 1, sizeof **out);
    if (!*out) return rs_fail_memory(err, "rows", (size_t)(*n * cols) * sizeof **out);
    for (int64_t i = 0; i < *n * cols; i++)
        (*out)[i] = narrow ? (double)((const float *)from)[i] : ((const double *)from)[i];
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
    bool narrow = view->precision == RS_PRECISION_F32;
    int64_t s = 0;
    const rs_attention_op *op = rs_branch_attention(&f->network->layers[layer].branches[branch]);
    if (op) hear_rounding(at, view);
    if (at->x || !op) return RS_OK;
    while (batch->begin[s] == batch->begin[s + 1])
        s++; /* a batch without a token is not run */
    const int64_t *begin = batch->begin, *memory = batch->memory_begin;
    size_t skipped = (size_t)(begin[s] * view->cols) * (narrow ? sizeof(float) : sizeof(double));
    RS_TRY(keep(&at->x, &at->n, (const char *)view->data + skipped, narrow, begin[s + 1] - begin[s],
                view->cols, err));
    if (!op->cross) return RS_OK;
    return keep(&at->memory, &at->n_memory, batch->memory + memory[s] * op->k.in, false,
                memory[s + 1] - memory[s], op->k.in, err);
}

/* ---- lengths of queries, keys and values ---- */

/* The root mean square length of the part-th of `parts` stretches of W x + b over rows x. */
static rs_status length_of(double *out, const rs_dense *map, int32_t parts, int32_t part,
                           const double *x, int64_t rows, rs_error *err)
{
    int64_t width = map->out / parts;
    double *w = rs_malloc((size_t)(width * (map->in + 1)) + 1, sizeof *w), sum = 0;
    if (!w) return rs_fail_memory(err, "lengths", (size_t)(width * map->in) * sizeof *w);
    double *bias = w + width * map->in;
    rs_status status = rs_dense_rows(w, bias, map, part * width, width, err);
    for (int64_t i = 0; i < rows && status == RS_OK; i++)
        for (int64_t u = 0; u < width; u++) {
            double y = bias[u];
            for (int64_t c = 0; c < map->in; c++)
                y += w[u * map->in + c] * x[i * map->in + c];
            sum += y * y;
        }
    *out = rows > 0 ? sqrt(sum / (double)rows) : 0;
    rs_free(w);
    return status;
}

/* The same behind a norm, whose rows have mean square 1 in front of its gain. */
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

typedef struct lengths {
    double q, k, v;
} lengths;

/* Those of query head h and the keys and values that it reads. */
static rs_status head_lengths(lengths *out, const rs_attention_op *op, const kept_rows *at,
                              int32_t h, rs_error *err)
{
    const double *source = op->cross ? at->memory : at->x;
    int64_t rows = op->cross ? at->n_memory : at->n;
    int32_t g = h / (op->heads / op->kv_heads);
    if (op->q_norm.kind != RS_NORM_NONE)
        RS_TRY(normed_length(&out->q, &op->q_norm, op->head_dim, h, err));
    else
        RS_TRY(length_of(&out->q, &op->q, op->heads, h, at->x, at->n, err));
    if (op->k_norm.kind != RS_NORM_NONE)
        RS_TRY(normed_length(&out->k, &op->k_norm, op->head_dim, g, err));
    else
        RS_TRY(length_of(&out->k, &op->k, op->kv_heads, g, source, rows, err));
    return length_of(&out->v, &op->v, op->kv_heads, g, source, rows, err);
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

/* Whether a number added to all keys adds one number to all logits of a query. */
static bool moves_alike(const rs_attention_op *op)
{
    bool turned = op->rope.kind != RS_ROPE_NONE && op->rope.dims > 0;
    return !turned && op->k_norm.kind == RS_NORM_NONE && op->softcap == 0;
}

/* The gradient by a bias of keys is then 0: all that is shown is rounding. */
static void set_key_bias(const branch_rows *b, const rs_attention_op *op)
{
    rs_gradient_row *bias = find_row(b, RS_ROLE_K, RS_OF_BIAS, -1);
    if (!bias || !moves_alike(op)) return;
    bias->floor = 0;
    add_floor(bias, part_of(bias, 1));
}

static rs_status set_branch(const branch_rows *b, const rs_attention_op *op, const kept_rows *at,
                            double u, rs_error *err)
{
    double scale = UNITS * u * fabs(op->scale * op->mix_softmax / op->temperature);
    const rs_gradient_row *bias = find_row(b, RS_ROLE_V, RS_OF_BIAS, -1);
    double share = 1 / sqrt((double)op->heads);
    const rs_gradient_row *query = find_row(b, RS_ROLE_Q, RS_OF_WEIGHT, -1);
    if (query && (query->apart || query->drowned)) {
        set_share(b, query->drowned ? 1 : UNITS * (u + at->rounding));
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
        double q = scale * of.k * of.v, k = scale * of.q * of.v;
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
