/*
 * compress_activations.c: a listener that gathers the Grams of what maps read and write, over all tokens
 * of all inputs. A map that several layers share has one Gram of all that it met.
 */
#include "compress/compress_parts.h"

#include "base/memory.h"
#include "linalg/gemm.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1024 }; /* rows that are turned to doubles at once */

/* What a branch adds to: numbers of Grams; negative: nothing. */
typedef struct ends {
    int read, written;
    const rs_dense *out; /* of the map that writes */
} ends;

typedef struct square {
    double *gram; /* [n, n] */
    int64_t n;
} square;

struct rs_watch {
    rs_listener listener;
    const rs_network *network;
    const rs_context *context;
    ends *ends; /* [layers, RS_BRANCHES_MAX] */
    square *squares;
    size_t n_squares, square_capacity;
    rs_activations *items;
    size_t n, capacity;
    double *piece; /* [PIECE, widest] */
    double *bias;  /* [2, widest] of a map's outputs: what is taken off, and what divides */
    int64_t widest;
};

/* ---- which maps ---- */

/* Kinds whose first maps read what the op reads, and whose last writes what the op gives. */
static bool is_watched(rs_branch_kind kind)
{
    return kind == RS_BRANCH_ATTENTION || kind == RS_BRANCH_LINEAR || kind == RS_BRANCH_SSD ||
           kind == RS_BRANCH_S6 || kind == RS_BRANCH_GRAPH;
}

/* 1: reads what the op reads, 2: writes what it gives; 0: neither. */
static int end_of(const rs_branch *branch, rs_role role)
{
    bool memory = rs_branch_traits(branch)->reads_memory(branch);
    if (role == RS_ROLE_O || role == RS_ROLE_SSM_OUT) return 2;
    if (role == RS_ROLE_Q || role == RS_ROLE_SSM_IN) return 1;
    return (role == RS_ROLE_K || role == RS_ROLE_V) && !memory;
}

static rs_activations *find(rs_watch *w, const rs_tensor *tensor, bool output)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->items[i].tensor == tensor && w->items[i].output == output) return &w->items[i];
    return NULL;
}

static rs_status add_square(rs_watch *w, int64_t n, int *out, rs_error *err)
{
    if (!RS_GROW(w->squares, w->n_squares, w->square_capacity))
        return rs_fail_memory(err, "activations", sizeof *w->squares);
    double *gram = rs_calloc((size_t)n * (size_t)n, sizeof *gram);
    if (!gram) return rs_fail_memory(err, "activations", (size_t)n * (size_t)n * sizeof *gram);
    *out = (int)w->n_squares;
    w->squares[w->n_squares++] = (square){.gram = gram, .n = n};
    if (n > w->widest) w->widest = n;
    return RS_OK;
}

static int square_of(const rs_watch *w, const rs_activations *item)
{
    for (size_t i = 0; i < w->n_squares; i++)
        if (w->squares[i].gram == item->gram) return (int)i;
    return -1;
}

/* Notes that a map meets the Gram at *at, which is made where it is not there. */
static rs_status note(rs_watch *w, const rs_dense *map, bool output, int *at, rs_error *err)
{
    const rs_activations *known = find(w, map->weight, output);
    int64_t n = output ? map->out : map->in;
    if (known && *at < 0) *at = square_of(w, known);
    if (known || (*at >= 0 && w->squares[*at].n != n)) return RS_OK;
    if (*at < 0) RS_TRY(add_square(w, n, at, err));
    if (!RS_GROW(w->items, w->n, w->capacity))
        return rs_fail_memory(err, "activations", sizeof *w->items);
    w->items[w->n++] = (rs_activations){
        .tensor = map->weight, .output = output, .n = n, .gram = w->squares[*at].gram};
    return RS_OK;
}

/* Outputs in the order in which they are stored. */
static bool is_plain(const rs_dense *map)
{
    return map->first == 0 && (map->run == map->out || map->stride == map->run);
}

static rs_status watch_branch(rs_watch *w, ends *e, const rs_branch *branch, rs_error *err)
{
    const rs_weight_list *list = &rs_branch_traits(branch)->weights;
    if (!is_watched(branch->kind) || branch->scale == 0) return RS_OK;
    for (size_t i = 0; i < list->n; i++) {
        const rs_dense *map = rs_weight_map(&list->rows[i], branch);
        int end = map ? end_of(branch, list->rows[i].role) : 0;
        if (end == 1) RS_TRY(note(w, map, false, &e->read, err));
        if (end != 2 || !is_plain(map)) continue;
        e->out = map;
        RS_TRY(note(w, map, true, &e->written, err));
    }
    return RS_OK;
}

static rs_status watch_layers(rs_watch *w, int32_t first, int32_t last, rs_error *err)
{
    for (int32_t l = 0; l < w->network->n_layers; l++) {
        const rs_layer *layer = &w->network->layers[l];
        bool asked = layer->stored >= first && layer->stored <= last;
        for (int32_t b = 0; b < RS_BRANCHES_MAX; b++) {
            ends *e = &w->ends[l * RS_BRANCHES_MAX + b];
            *e = (ends){-1, -1, NULL};
            if (asked && b < layer->n_branches)
                RS_TRY(watch_branch(w, e, &layer->branches[b], err));
        }
    }
    return RS_OK;
}

/* ---- a pass ---- */

static void take_piece(double *out, const rs_state_view *view, int64_t first, int64_t rows)
{
    int64_t at = first * view->cols, n = rows * view->cols;
    if (view->precision != RS_PRECISION_F32) {
        memcpy(out, (const double *)view->data + at, (size_t)n * sizeof *out);
        return;
    }
    const float *from = (const float *)view->data + at;
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)from[i];
}

/* What the map's bias adds, and what the configuration multiplies its outputs by, are taken off. */
static void take_off(double *rows, int64_t n, const double *bias, const double *factor,
                     int64_t cols)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < cols; c++)
            rows[r * cols + c] = (rows[r * cols + c] - bias[c]) / factor[c];
}

static bool set_bias(rs_watch *w, const rs_dense *map)
{
    double *bias = w->bias, *factor = bias + w->widest;
    memset(bias, 0, (size_t)map->out * sizeof *bias);
    if (map->bias) rs_tensor_decode_f64(bias, map->bias, 0, map->out);
    for (int64_t u = 0; u < map->out; u++) {
        rs_dense_factor f = rs_dense_factor_of(map, u);
        bias[u] *= f.bias;
        factor[u] = f.weight != 0 ? f.weight : 1;
    }
    return map->bias || map->factors;
}

static void add_rows(rs_watch *w, const square *s, const rs_state_view *view, bool off)
{
    const rs_gemm_team team = {.threads = w->context->threads};
    for (int64_t first = 0; first < view->rows; first += PIECE) {
        int64_t rows = view->rows - first < PIECE ? view->rows - first : PIECE;
        take_piece(w->piece, view, first, rows);
        if (off) take_off(w->piece, rows, w->bias, w->bias + w->widest, s->n);
        rs_gemm_team_f64(&team, RS_TURNED, RS_AS_IS, s->n, s->n, rows, 1, w->piece, s->n, w->piece,
                         s->n, 1, s->gram, s->n);
    }
}

/* A Gram's diagonal has the rows' squares: NaN or infinite where one of their numbers is, or where it is beyond
 * the root of float64. */
static rs_status check_finite(const rs_watch *w, const square *s, int32_t layer, bool written,
                              rs_precision precision, rs_error *err)
{
    char where[64];
    for (int64_t i = 0; i < s->n; i++) {
        if (isfinite(s->gram[i * (s->n + 1)])) continue;
        snprintf(where, sizeof where, "layer %d", (int)w->network->layers[layer].stored);
        return rs_fail(err, RS_E_NOT_FINITE, where,
                       precision == RS_PRECISION_F32
                           ? "'rankscope probe' on the same text names the weight, if one brings "
                             "them; if none does, take --precision f64"
                           : "'rankscope probe' on the same text names the weight, if one brings "
                             "them",
                       "what its mixer %s is NaN or infinite on this text, so no matrix can be "
                       "weighed by it; without --text the weights alone are measured",
                       written ? "writes" : "reads");
    }
    return RS_OK;
}

static rs_status hear(void *user, int32_t layer, int32_t branch, rs_moment moment,
                      const rs_state_view *view, rs_error *err)
{
    rs_watch *w = user;
    const ends *e = &w->ends[layer * RS_BRANCHES_MAX + branch];
    bool written = moment == RS_MOMENT_OP_OUT;
    int at = written ? e->written : e->read;
    RS_TRY(rs_check_cancelled(w->context, err));
    if (at < 0 || view->cols != w->squares[at].n) return RS_OK;
    add_rows(w, &w->squares[at], view, written && set_bias(w, e->out));
    return check_finite(w, &w->squares[at], layer, written, view->precision, err);
}

/* ---- opening ---- */

static rs_status open_watch(rs_watch *w, int32_t first, int32_t last, rs_error *err)
{
    size_t places = (size_t)w->network->n_layers * RS_BRANCHES_MAX;
    w->ends = rs_malloc(places + 1, sizeof *w->ends);
    if (!w->ends) return rs_fail_memory(err, "activations", places * sizeof *w->ends);
    RS_TRY(watch_layers(w, first, last, err));
    w->piece = rs_malloc((size_t)w->widest + 1, PIECE * sizeof *w->piece);
    w->bias = rs_malloc((size_t)w->widest + 1, 2 * sizeof *w->bias);
    if (!w->piece || !w->bias)
        return rs_fail_memory(err, "activations", (size_t)w->widest * PIECE * sizeof *w->piece);
    w->listener = (rs_listener){.tap = {.user = w,
                                        .moments = 1u << RS_MOMENT_OP_IN | 1u << RS_MOMENT_OP_OUT,
                                        .branch = hear}};
    return RS_OK;
}

rs_status rs_watch_open(rs_watch **out, const rs_network *network, int32_t first, int32_t last,
                        const rs_context *context, rs_error *err)
{
    *out = NULL;
    rs_watch *w = rs_calloc(1, sizeof *w);
    if (!w) return rs_fail_memory(err, "activations", sizeof *w);
    w->network = network;
    w->context = context;
    rs_status status = open_watch(w, first, last, err);
    if (status == RS_OK)
        *out = w;
    else
        rs_watch_close(w);
    return status;
}

void rs_watch_close(rs_watch *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->n_squares; i++)
        rs_free(w->squares[i].gram);
    rs_free(w->squares);
    rs_free(w->items);
    rs_free(w->ends);
    rs_free(w->piece);
    rs_free(w->bias);
    rs_free(w);
}

rs_listener *rs_watch_listener(rs_watch *w)
{
    return &w->listener;
}

const rs_activations *rs_watch_seen(const rs_watch *w, size_t *n)
{
    *n = w->n;
    return w->items;
}

double rs_watch_bytes(const rs_network *network, int32_t first, int32_t last)
{
    double bytes = 0, d = (double)network->d_model;
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_layer *layer = &network->layers[l];
        bool shared = l > 0 && layer->stored <= network->layers[l - 1].stored;
        if (layer->stored < first || layer->stored > last || shared) continue;
        for (int32_t b = 0; b < layer->n_branches; b++)
            if (is_watched(layer->branches[b].kind)) bytes += 2 * d * d * sizeof(double);
    }
    return bytes + PIECE * d * sizeof(double);
}
