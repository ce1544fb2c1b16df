/* op_graph.c: the row of op_traits.h of mixers with a given matrix. */
#include "network/graph.h"
#include "network/op_check.h"

#define AT(member) offsetof(rs_branch, graph.member)

/* ---- weights ---- */

static int64_t entries_of_matrix(const void *owner)
{
    return ((const rs_branch *)owner)->graph.matrix->count;
}

static const rs_weight_row rows[] = {
    {"matrix", RS_WEIGHT_NUMBERS, AT(matrix), RS_ROLE_BUFFER, entries_of_matrix},
    {"q", RS_WEIGHT_MAP, AT(q), RS_ROLE_Q, NULL},
    {"k", RS_WEIGHT_MAP, AT(k), RS_ROLE_K, NULL},
    {"v", RS_WEIGHT_MAP, AT(v), RS_ROLE_V, NULL},
    {"o", RS_WEIGHT_MAP, AT(o), RS_ROLE_O, NULL},
};

/* ---- what it is ---- */

static int32_t matrices(const rs_branch *branch)
{
    return branch->graph.heads;
}

static int32_t parts(const rs_branch *branch, rs_role role)
{
    const rs_graph_op *op = &branch->graph;
    if (role == RS_ROLE_Q) return op->q.weight ? op->heads : 0;
    if (role == RS_ROLE_K) return op->k.weight ? op->key_heads : 0;
    if (role == RS_ROLE_V) return op->v.weight ? op->value_heads : 0;
    return role == RS_ROLE_O && op->o.weight ? op->heads : 0;
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_graph_op *op = &branch->graph;
    int64_t values = op->value_heads * op->value_dim;
    return (rs_op_width){.projected = op->q.out + op->k.out + values,
                         .inner = op->heads * op->value_dim};
}

static bool causal(const rs_branch *branch)
{
    return branch->graph.graph->causal;
}

static double row_sum(const rs_branch *branch)
{
    return branch->graph.graph->row_sum;
}

static const char *not_stochastic(const rs_branch *branch)
{
    const rs_graph *graph = branch->graph.graph;
    if (graph->form == RS_GRAPH_SYMMETRIC) return "a graph in symmetric form";
    if (graph->form == RS_GRAPH_GIVEN) return "a given matrix";
    return graph->isolated ? "nodes without edges, whose rows are zero" : NULL;
}

static const char *not_bilinear(const rs_branch *branch)
{
    bool attention = branch->graph.graph->form == RS_GRAPH_ATTENTION;
    return attention ? "a mask of edges" : rs_op_no_logits(branch);
}

static int64_t tokens(const rs_branch *branch)
{
    return branch->graph.graph->nodes;
}

/* ---- check ---- */

static rs_status check_matrix(const rs_graph_op *op, const char *where, rs_error *err)
{
    const rs_graph *graph = op->graph;
    if (!graph || op->matrix != graph->matrix)
        return rs_fail(err, RS_E_INTERNAL, where, "please report this",
                       "a graph without its matrix");
    int64_t wanted = graph->row_begin ? graph->edges : graph->nodes * graph->nodes;
    if ((graph->form == RS_GRAPH_ATTENTION) == (op->matrix == NULL) && rs_counts(graph->nodes) &&
        (!op->matrix || op->matrix->count == wanted) && (op->matrix || graph->row_begin))
        return RS_OK;
    return rs_fail(err, RS_E_INTERNAL, where, "please report this",
                   "the matrix of a graph of %lld nodes and %lld edges", (long long)graph->nodes,
                   (long long)graph->edges);
}

static rs_status check_attention(const rs_graph_op *op, int64_t d, const char *where, rs_error *err)
{
    if (op->graph->form != RS_GRAPH_ATTENTION)
        return op->heads == 1 ? RS_OK
                              : rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                                        "%d heads of one given matrix", op->heads);
    if (op->key_heads < 1 || op->heads % op->key_heads || !rs_counts(op->head_dim) ||
        !rs_counts(op->heads * op->head_dim))
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "%d query heads over %d key heads of dimension %lld", op->heads,
                       op->key_heads, (long long)op->head_dim);
    RS_TRY(rs_check_dense(&op->q, d, op->heads * op->head_dim, where, err));
    return rs_check_dense(&op->k, d, op->key_heads * op->head_dim, where, err);
}

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_graph_op *op = &branch->graph;
    RS_TRY(check_matrix(op, where, err));
    if (op->heads < 1 || op->value_heads < 1 || op->heads % op->value_heads ||
        !rs_counts(op->value_dim) || !rs_counts(op->heads * op->value_dim))
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "%d heads over %d value heads of dimension %lld", op->heads, op->value_heads,
                       (long long)op->value_dim);
    RS_TRY(check_attention(op, d, where, err));
    int64_t values = op->value_heads * op->value_dim;
    if (op->v.weight) RS_TRY(rs_check_dense(&op->v, d, values, where, err));
    if (op->o.weight) RS_TRY(rs_check_dense(&op->o, op->heads * op->value_dim, d, where, err));
    if ((!op->v.weight && values != d) || (!op->o.weight && op->value_dim != d))
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "%d value heads of %lld numbers on a state of %lld", op->value_heads,
                       (long long)op->value_dim, (long long)d);
    return rs_check_numbers(&rs_traits_graph.weights, branch, err);
}

const rs_op_traits rs_traits_graph = {
    .name = "graph",
    .word = "graph",
    .mixes = true,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .parts = parts,
    .width = width,
    .causal = causal,
    .reads_memory = rs_op_never,
    .row_sum = row_sum,
    .not_stochastic = not_stochastic,
    .not_bilinear = not_bilinear,
    .tokens = tokens,
    .unproved = "no theorem here is about mixers with a given matrix yet",
    .check = check,
};
