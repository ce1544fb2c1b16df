/* gather_gradients.c: norms of gradients, as they are told. */
#include "observe/gather_gradients.h"

#include "base/memory.h"
#include "engine/residual.h"
#include "network/op_traits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rs_gradient_gather {
    rs_listener listener;
    rs_gradient_tap tap;
    const rs_network *network;
    const rs_context *context;
    rs_precision precision;
    rs_floor_rows *floor;
    rs_graded *out;
    size_t room;
};

/* ---- rows ---- */

static rs_status add_row(rs_gradient_gather *g, rs_gradient_row **out, rs_error *err)
{
    if (!RS_GROW(g->out->rows, g->out->n, g->room))
        return rs_fail_memory(err, "gradients", g->room * sizeof *g->out->rows);
    *out = &g->out->rows[g->out->n++];
    return RS_OK;
}

static void describe(rs_gradient_row *row, const rs_gradient_view *view, const rs_network *network)
{
    const rs_parameter *p = view->parameter;
    bool sum = view->use == RS_USE_SUM;
    *row = (rs_gradient_row){.layer = sum ? -1 : p->layer,
                             .branch = sum ? -1 : p->branch,
                             .head = -1,
                             .role = p->role,
                             .part = p->part,
                             .use = view->use,
                             .uses = p->uses,
                             .exponent = view->exponent,
                             .apart = view->apart,
                             .drowned = view->drowned,
                             .why = view->form == RS_GRADIENT_ZERO ? view->why : NULL,
                             .floor = NAN,
                             .log10_floor = NAN,
                             .at_floor = RS_UNKNOWN};
    rs_gradient_name(row, network, p);
}

/* value 2^exponent, and its logarithm. */
static void set_power(double *out, double *log10_out, double value, int64_t exponent)
{
    *log10_out = log10(value) + (double)exponent * log10(2);
    *out = value;
    rs_scale_by(out, 1, exponent);
}

static void set_norms(rs_gradient_row *row, double square, double weight, int64_t count)
{
    double norm = sqrt(square), rms = count > 0 ? sqrt(square / (double)count) : NAN;
    row->count = count;
    row->square = square;
    if (square == 0) row->exponent = 0;
    row->weight = sqrt(weight);
    set_power(&row->norm, &row->log10_norm, norm, row->exponent);
    set_power(&row->rms, &row->log10_rms, rms, row->exponent);
    set_power(&row->relative, &row->log10_relative, row->weight > 0 ? norm / row->weight : NAN,
              row->exponent);
}

/* 2 (a - b), or what is far beyond all doubles. */
static int64_t twice_apart(int64_t a, int64_t b)
{
    const double beyond = 1 << 20;
    return (int64_t)fmax(-beyond, fmin(beyond, 2 * ((double)a - (double)b)));
}

void rs_gradient_add(double *square, int64_t *exponent, const rs_gradient_row *row)
{
    double add = row->square;
    if (row->square == 0) return;
    if (*square == 0) *exponent = row->exponent;
    if (row->exponent > *exponent) {
        rs_scale_by(square, 1, twice_apart(*exponent, row->exponent));
        *exponent = row->exponent;
    }
    rs_scale_by(&add, 1, twice_apart(row->exponent, *exponent));
    *square += add;
}

/* The heads that a parameter falls into; 0: none. */
static int32_t heads_of(const rs_gradient_view *view, const rs_network *network, bool *by_input)
{
    const rs_parameter *p = view->parameter;
    *by_input = p->role == RS_ROLE_O;
    if (p->part != RS_OF_WEIGHT || p->layer < 0 || view->use == RS_USE_SUM) return 0;
    const rs_branch *branch = &network->layers[p->layer].branches[p->branch];
    const rs_op_traits *traits = rs_branch_traits(branch);
    return traits->parts ? traits->parts(branch, p->role) : 0;
}

static rs_status add_rows(rs_gradient_gather *g, const rs_gradient_view *view, int32_t heads,
                          const double *squares, const double *weights, rs_error *err)
{
    rs_gradient_row whole, *row = NULL;
    int64_t count = view->out * view->in;
    double square = 0, weight = 0;
    int32_t parts = heads > 0 ? heads : 1;
    describe(&whole, view, g->network);
    for (int32_t h = 0; h < parts; h++)
        square += squares[h], weight += weights[h];
    RS_TRY(add_row(g, &row, err));
    *row = whole;
    set_norms(row, square, weight, count);
    for (int32_t h = 0; h < heads; h++) {
        RS_TRY(add_row(g, &row, err));
        *row = whole;
        row->head = h;
        set_norms(row, squares[h], weights[h], count / heads);
    }
    return RS_OK;
}

static rs_status hear_parameter(void *user, const rs_gradient_view *view, rs_error *err)
{
    rs_gradient_gather *g = user;
    bool by_input;
    int32_t heads = heads_of(view, g->network, &by_input), parts = heads > 0 ? heads : 1;
    double *squares = rs_malloc(2 * (size_t)parts, sizeof *squares), *weights = squares + parts;
    if (!squares) return rs_fail_memory(err, "gradients", 2 * (size_t)parts * sizeof *squares);
    rs_status status = rs_gradient_squares(squares, view, parts, by_input, err);
    if (status == RS_OK)
        status = rs_parameter_squares(weights, g->network, view->parameter, parts, by_input,
                                      g->context, err);
    if (status == RS_OK) status = add_rows(g, view, heads, squares, weights, err);
    rs_free(squares);
    return status;
}

static rs_status hear_branch(void *user, int32_t layer, int32_t branch, rs_moment moment,
                             const rs_state_view *view, rs_error *err)
{
    rs_gradient_gather *g = user;
    (void)moment;
    return rs_floor_hear(g->floor, layer, branch, view, err);
}

/* ---- behind the pass ---- */

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* The order of the network: parameters are told in another. */
static int in_order(const void *a, const void *b)
{
    const rs_gradient_row *x = a, *y = b;
    const int64_t keys[][2] = {{x->group, y->group}, {x->layer, y->layer}, {x->branch, y->branch},
                               {x->place, y->place}, {x->part, y->part},   {x->head, y->head}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i][0] != keys[i][1]) return compare(keys[i][0], keys[i][1]);
    return 0;
}

static const rs_gradient_row *weight_of(const rs_graded *out, int32_t layer, int32_t branch,
                                        rs_role role)
{
    for (size_t i = 0; i < out->n; i++) {
        const rs_gradient_row *row = &out->rows[i];
        if (row->layer == layer && row->branch == branch && row->role == role &&
            row->part == RS_OF_WEIGHT && row->head < 0)
            return row;
    }
    return NULL;
}

static double log10_square(const rs_gradient_row *row)
{
    return log10(row->square) + 2 * (double)row->exponent * log10(2);
}

static double ratio_of(const rs_gradient_row *a, const rs_gradient_row *b)
{
    double ratio = a->square / b->square;
    rs_scale_by(&ratio, 1, twice_apart(a->exponent, b->exponent));
    return ratio;
}

static rs_gradient_ratio ratios_of(int32_t layer, const rs_gradient_row *q,
                                   const rs_gradient_row *k, const rs_gradient_row *v)
{
    rs_gradient_ratio r = {.layer = layer,
                           .q_v = ratio_of(q, v),
                           .k_v = ratio_of(k, v),
                           .log10_q = log10_square(q),
                           .log10_k = log10_square(k),
                           .log10_v = log10_square(v),
                           .q_floor = q->at_floor > 0,
                           .k_floor = k->at_floor > 0};
    r.log10_q_v = r.log10_q - r.log10_v;
    r.log10_k_v = r.log10_k - r.log10_v;
    return r;
}

static rs_status set_ratios(rs_graded *out, const rs_network *network, rs_error *err)
{
    out->ratios = rs_calloc((size_t)network->n_layers + 1, sizeof *out->ratios);
    if (!out->ratios) return rs_fail_memory(err, "gradients", sizeof *out->ratios);
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_layer *layer = &network->layers[l];
        const rs_branch *mixer = rs_layer_mixer(layer);
        if (!mixer) continue;
        int32_t b = (int32_t)(mixer - layer->branches);
        const rs_gradient_row *q = weight_of(out, l, b, RS_ROLE_Q),
                              *k = weight_of(out, l, b, RS_ROLE_K),
                              *v = weight_of(out, l, b, RS_ROLE_V);
        if (!q || !k || !v) continue;
        out->ratios[out->n_ratios++] = ratios_of(l, q, k, v);
    }
    return RS_OK;
}

/* Where the way back meets it first: the largest in the order of the network. */
static void find_bad(rs_graded *out)
{
    for (size_t i = 0; i < out->n; i++)
        if (!isfinite(out->rows[i].square) && out->rows[i].use != RS_USE_SUM &&
            out->rows[i].head < 0)
            out->first_bad = &out->rows[i];
}

rs_status rs_gradient_gather_take(rs_graded **out, rs_gradient_gather *g, double loss,
                                  rs_error *err)
{
    if (g->out->n > 0) qsort(g->out->rows, g->out->n, sizeof *g->out->rows, in_order);
    RS_TRY(rs_floor_set(g->out->rows, g->out->n, g->floor, g->precision, err));
    RS_TRY(set_ratios(g->out, g->network, err));
    find_bad(g->out);
    g->out->loss = loss;
    *out = g->out;
    g->out = NULL;
    return RS_OK;
}

void rs_graded_free(rs_graded *graded)
{
    if (!graded) return;
    rs_free(graded->rows);
    rs_free(graded->ratios);
    rs_free(graded);
}

double rs_gradient_rows_bytes(const rs_network *network)
{
    static const rs_role roles[] = {RS_ROLE_Q, RS_ROLE_K, RS_ROLE_V, RS_ROLE_O};
    double rows = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            const rs_op_traits *traits = rs_branch_traits(branch);
            rows += 2; /* skip and scale */
            for (int i = 0; i < 4 && traits->parts; i++)
                rows += traits->parts(branch, roles[i]);
        }
    return rows * (double)sizeof(rs_gradient_row);
}

/* ---- opening ---- */

rs_status rs_gradient_gather_open(rs_gradient_gather **out, const rs_network *network,
                                  rs_precision precision, const rs_context *context, rs_error *err)
{
    rs_gradient_gather *g = *out = rs_calloc(1, sizeof *g);
    if (!g) return rs_fail_memory(err, "gradients", sizeof *g);
    g->network = network;
    g->context = context;
    g->precision = precision;
    g->listener.tap = (rs_tap){.user = g, .moments = 1u << RS_MOMENT_OP_IN, .branch = hear_branch};
    g->tap = (rs_gradient_tap){.user = g, .parameter = hear_parameter};
    g->out = rs_calloc(1, sizeof *g->out);
    if (!g->out) return rs_fail_memory(err, "gradients", sizeof *g->out);
    return rs_floor_rows_open(&g->floor, network, err);
}

void rs_gradient_gather_close(rs_gradient_gather *g)
{
    if (!g) return;
    rs_floor_rows_close(g->floor);
    rs_graded_free(g->out);
    rs_free(g);
}

rs_listener *rs_gradient_gather_listener(rs_gradient_gather *g)
{
    return &g->listener;
}

const rs_gradient_tap *rs_gradient_gather_tap(const rs_gradient_gather *g)
{
    return &g->tap;
}
