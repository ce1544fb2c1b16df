/* graph.c: mixing matrices from the numbers of a file. */
#include "network/graph.h"

#include "base/memory.h"
#include "linalg/vector.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

/* With so few edges a product edge by edge costs less than one over all pairs by BLAS. */
enum { PAIRS_PER_EDGE = 8 };

/* How far M u may be from c u, relative to both: sums of many rounded weights. */
static const double right_tolerance = 1e-12;

const char *rs_graph_form_name(rs_graph_form form)
{
    static const char *const names[RS_GRAPH_FORMS] = {
        [RS_GRAPH_ROW] = "row",
        [RS_GRAPH_SYMMETRIC] = "symmetric",
        [RS_GRAPH_ATTENTION] = "attention",
        [RS_GRAPH_GIVEN] = "given",
    };
    return names[form];
}

/* A graph in the making. */
typedef struct making {
    rs_graph *graph;
    const rs_graph_source *source;
    rs_arena *arena;
    const rs_init *init;
    double *row;    /* [nodes] of A */
    double *degree; /* [nodes] D */
    double *image;  /* [nodes] M u */
    rs_error *err;
} making;

static rs_status no_memory(const making *m, double bytes)
{
    return rs_fail_memory(m->err, m->source->name, (size_t)bytes);
}

/* ---- the numbers of the file ---- */

static rs_status bad_entry(const making *m, int64_t i, int64_t j, const char *hint,
                           const char *what)
{
    return rs_fail(m->err, RS_E_TENSOR_VALUE, m->source->name, hint, "entry (%lld, %lld) is %g: %s",
                   (long long)i, (long long)j, m->row[j], what);
}

static rs_status read_row(const making *m, int64_t i)
{
    bool any_sign = m->graph->form == RS_GRAPH_GIVEN;
    RS_TRY(m->source->read_row(m->source->user, m->row, i, m->err));
    for (int64_t j = 0; j < m->graph->nodes; j++) {
        if (!isfinite(m->row[j])) return bad_entry(m, i, j, NULL, "weights are finite numbers");
        if (m->row[j] < 0 && !any_sign)
            return bad_entry(m, i, j, "use \"form\": \"given\"",
                             "this form has no weights below 0");
    }
    return RS_OK;
}

/* Counts edges, adds up degrees, and sees whether a token reads a later one. */
static rs_status survey(making *m)
{
    rs_graph *graph = m->graph;
    graph->causal = true;
    for (int64_t i = 0; i < graph->nodes; i++) {
        RS_TRY(read_row(m, i));
        int64_t before = graph->edges;
        m->degree[i] = 0;
        for (int64_t j = 0; j < graph->nodes; j++) {
            if (m->row[j] == 0) continue;
            m->degree[i] += m->row[j];
            graph->edges++;
            if (j > i) graph->causal = false;
        }
        graph->isolated += graph->edges == before;
        if (!isfinite(m->degree[i]))
            return rs_fail(m->err, RS_E_TENSOR_VALUE, m->source->name, "scale the weights",
                           "the weights of row %lld add up to more than a double holds",
                           (long long)i);
    }
    return RS_OK;
}

/* ---- the matrix ---- */

static rs_status new_tensor(const making *m, double **numbers, int64_t rows, int64_t cols)
{
    rs_tensor *tensor = rs_arena_alloc(m->arena, 1, sizeof *tensor);
    int64_t *shape = rs_arena_alloc(m->arena, 2, sizeof *shape);
    size_t count = (size_t)rows * (size_t)cols;
    *numbers = rs_arena_alloc(m->arena, count ? count : 1, sizeof **numbers);
    if (!tensor || !shape || !*numbers) return no_memory(m, 8 * (double)count);
    shape[0] = rows;
    shape[1] = cols;
    char *name = rs_arena_strdup(m->arena, m->source->name);
    if (!name) return no_memory(m, 1);
    *tensor = (rs_tensor){.name = name,
                          .dtype = RS_F64,
                          .rank = 2,
                          .shape = shape,
                          .count = rows * cols,
                          .data = (const uint8_t *)*numbers,
                          .bytes = count * sizeof **numbers,
                          .type_id = -1,
                          .fixed = true};
    m->graph->matrix = tensor;
    return RS_OK;
}

/* Refused before it is asked for: the arrays of the graph, in numbers of four bytes. */
static rs_status expect(const making *m, bool sparse)
{
    double nodes = (double)m->graph->nodes, edges = (double)m->graph->edges;
    return m->init
               ? rs_init_expect(m->init, sparse ? 3 * edges + 4 * nodes : 2 * nodes * nodes, m->err)
               : RS_OK;
}

/* A_ij as M has it. */
static double entry_of(const making *m, double weight, int64_t i, int64_t j)
{
    switch (m->graph->form) {
    case RS_GRAPH_ROW:
        return weight / m->degree[i];
    case RS_GRAPH_SYMMETRIC: /* the same number on both sides of the diagonal, without overflow */
        return i < j ? weight / sqrt(m->degree[i]) / sqrt(m->degree[j])
                     : weight / sqrt(m->degree[j]) / sqrt(m->degree[i]);
    default:
        return weight;
    }
}

static rs_status fill_sparse(const making *m)
{
    rs_graph *graph = m->graph;
    int64_t n = graph->nodes, e = 0;
    double *numbers = NULL;
    int64_t *begin = rs_arena_alloc(m->arena, (size_t)n + 1, sizeof *begin);
    int32_t *column = rs_arena_alloc(m->arena, (size_t)graph->edges + 1, sizeof *column);
    if (!begin || !column) return no_memory(m, 4 * (double)graph->edges + 8 * (double)n);
    if (graph->form != RS_GRAPH_ATTENTION) RS_TRY(new_tensor(m, &numbers, 1, graph->edges));
    for (int64_t i = 0; i < n; i++) {
        begin[i] = e;
        RS_TRY(read_row(m, i));
        for (int64_t j = 0; j < n && e <= graph->edges; j++) {
            if (m->row[j] == 0) continue;
            if (e == graph->edges) break; /* the file changed between two readings */
            column[e] = (int32_t)j;
            if (numbers) numbers[e] = entry_of(m, m->row[j], i, j);
            e++;
        }
    }
    begin[n] = e;
    graph->row_begin = begin;
    graph->column = column;
    return RS_OK;
}

static rs_status fill_dense(const making *m)
{
    int64_t n = m->graph->nodes;
    double *numbers;
    RS_TRY(new_tensor(m, &numbers, n, n));
    for (int64_t i = 0; i < n; i++) {
        RS_TRY(read_row(m, i));
        for (int64_t j = 0; j < n; j++)
            numbers[i * n + j] = m->row[j] == 0 ? 0 : entry_of(m, m->row[j], i, j);
    }
    return RS_OK;
}

/* ---- what is known of it ---- */

static const double *numbers_of(const rs_graph *graph)
{
    return (const double *)(const void *)graph->matrix->data;
}

/* M_ij; 0: no edge. */
static double number_at(const rs_graph *graph, int64_t i, int64_t j)
{
    if (!graph->row_begin) return numbers_of(graph)[i * graph->nodes + j];
    int64_t low = graph->row_begin[i], high = graph->row_begin[i + 1];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (graph->column[middle] == j) return numbers_of(graph)[middle];
        if (graph->column[middle] < j)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* The two weights of an edge go through the same divisions, so their quotients are compared. */
static rs_status check_symmetric(const making *m)
{
    const rs_graph *graph = m->graph;
    for (int64_t i = 0; i < graph->nodes; i++) {
        RS_TRY(m->source->read_row(m->source->user, m->row, i, m->err));
        for (int64_t j = 0; j < graph->nodes; j++)
            if (m->row[j] != 0 && number_at(graph, j, i) != number_at(graph, i, j))
                return bad_entry(m, i, j, "use \"form\": \"row\", or make the edges symmetric",
                                 "the form symmetric needs the same weight across the diagonal");
    }
    return RS_OK;
}

/* Row i of M times a vector. */
static double row_times(const rs_graph *graph, int64_t i, const double *u)
{
    const double *numbers = numbers_of(graph);
    if (!graph->row_begin) return rs_dot(numbers + i * graph->nodes, u, graph->nodes);
    double sum = 0;
    for (int64_t e = graph->row_begin[i]; e < graph->row_begin[i + 1]; e++)
        sum += numbers[e] * u[graph->column[e]];
    return sum;
}

/* Attention has no numbers: M u = u for the vector that is 1 on nodes with edges, where these read
 * each other alone. */
static bool edges_keep(const rs_graph *graph, const double *u)
{
    for (int64_t e = 0; e < graph->edges; e++)
        if (u[graph->column[e]] == 0) return false;
    return graph->edges > 0;
}

/* M u = c u, c != 0. */
static bool is_right(making *m, const double *u)
{
    const rs_graph *graph = m->graph;
    int64_t n = graph->nodes;
    if (graph->form == RS_GRAPH_ATTENTION) return edges_keep(graph, u);
    for (int64_t i = 0; i < n; i++)
        m->image[i] = row_times(graph, i, u);
    double c = rs_dot(m->image, u, n) / rs_dot(u, u, n), most = 0, apart = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(u[i]));
        apart = fmax(apart, fabs(m->image[i] - c * u[i]));
    }
    return fabs(c) > right_tolerance && apart <= right_tolerance * fabs(c) * most;
}

static rs_status find_right(making *m)
{
    rs_graph *graph = m->graph;
    double *u = rs_arena_alloc(m->arena, (size_t)graph->nodes, sizeof *u);
    if (!u) return no_memory(m, 8 * (double)graph->nodes);
    for (int64_t i = 0; i < graph->nodes; i++)
        switch (graph->form) {
        case RS_GRAPH_SYMMETRIC:
            u[i] = sqrt(m->degree[i]);
            break;
        case RS_GRAPH_ATTENTION:
            u[i] = graph->row_begin[i + 1] > graph->row_begin[i];
            break;
        case RS_GRAPH_ROW:
            u[i] = m->degree[i] > 0;
            break;
        default:
            u[i] = 1;
        }
    if (is_right(m, u)) graph->right = u;
    return RS_OK;
}

static void find_row_sum(making *m)
{
    rs_graph *graph = m->graph;
    bool stochastic = graph->form == RS_GRAPH_ROW || graph->form == RS_GRAPH_ATTENTION;
    graph->row_sum = graph->isolated == 0 ? 1 : NAN;
    if (stochastic) return;
    for (int64_t i = 0; i < graph->nodes; i++)
        m->row[i] = 1;
    graph->row_sum = row_times(graph, 0, m->row);
    for (int64_t i = 1; i < graph->nodes; i++)
        if (row_times(graph, i, m->row) != graph->row_sum) graph->row_sum = NAN;
}

/* ---- the whole ---- */

static rs_status make(making *m)
{
    rs_graph *graph = m->graph;
    RS_TRY(survey(m));
    if (graph->edges == 0)
        return rs_fail(m->err, RS_E_TENSOR_VALUE, m->source->name,
                       "entry (i, j) is the weight with which token i reads token j",
                       "all entries are 0: the graph has no edges");
    bool sparse =
        graph->form == RS_GRAPH_ATTENTION ||
        (double)graph->edges * PAIRS_PER_EDGE <= (double)graph->nodes * (double)graph->nodes;
    RS_TRY(expect(m, sparse));
    RS_TRY(sparse ? fill_sparse(m) : fill_dense(m));
    if (graph->form == RS_GRAPH_SYMMETRIC) RS_TRY(check_symmetric(m));
    RS_TRY(find_right(m));
    find_row_sum(m);
    return RS_OK;
}

rs_status rs_graph_build(const rs_graph **out, rs_arena *arena, const rs_init *init,
                         const rs_graph_source *source, rs_graph_form form, rs_error *err)
{
    size_t n = (size_t)source->nodes;
    making m = {.source = source, .arena = arena, .init = init, .err = err};
    *out = NULL;
    m.graph = rs_arena_alloc(arena, 1, sizeof *m.graph);
    m.row = rs_malloc(n, sizeof *m.row);
    m.degree = rs_malloc(n, sizeof *m.degree);
    m.image = rs_malloc(n, sizeof *m.image);
    rs_status status = RS_OK;
    if (!m.graph || !m.row || !m.degree || !m.image) {
        status = no_memory(&m, 24 * (double)n);
    } else {
        *m.graph = (rs_graph){.form = form, .nodes = source->nodes};
        status = make(&m);
    }
    rs_free(m.row);
    rs_free(m.degree);
    rs_free(m.image);
    if (status == RS_OK) *out = m.graph;
    return status;
}

/* ---- of a network ---- */

static const rs_graph *graph_of(const rs_layer *layer)
{
    const rs_branch *mixer = rs_layer_mixer(layer);
    return mixer && mixer->kind == RS_BRANCH_GRAPH ? mixer->graph.graph : NULL;
}

const double *rs_network_right_vector(const rs_network *network, int64_t *nodes, const char **why)
{
    const rs_graph *first = network->n_layers > 0 ? graph_of(&network->layers[0]) : NULL;
    *why = "its mixers are not all graphs";
    if (!first) return NULL;
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_graph *graph = graph_of(&network->layers[l]);
        if (!graph) return NULL;
        if (!graph->right) return *why = "a mixing matrix has no known right vector", NULL;
        size_t bytes = (size_t)first->nodes * sizeof *first->right;
        if (graph->nodes != first->nodes || memcmp(graph->right, first->right, bytes) != 0)
            return *why = "its graphs have different right vectors", NULL;
    }
    *nodes = first->nodes;
    return first->right;
}
