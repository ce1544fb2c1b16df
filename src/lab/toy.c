/* toy.c: small networks run by the engine, every state kept. */
#include "lab/toy.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "observe/pass.h"

#include <string.h>

/* Toys are small: their decoded weights always fit. */
static const uint64_t weight_limit = UINT64_C(1) << 32;

rs_status rs_toy_open(rs_toy *toy, json_t *arch, uint64_t seed, const rs_context *context,
                      rs_error *err)
{
    *toy = (rs_toy){.context = *context, .precision = RS_PRECISION_F64};
    toy->context.threads = 1;
    if (!arch) return rs_fail_memory(err, "an experiment's architecture", 1);
    rs_status status = rs_init_open(&toy->init, NULL, seed, err);
    if (status == RS_OK) {
        rs_init_set_threads(toy->init, 1);
        status = rs_network_from_arch(&toy->network, arch, "experiment", toy->init, err);
    }
    json_decref(arch);
    if (status == RS_OK)
        status = rs_weights_open(&toy->weights, RS_PRECISION_F64, weight_limit, err);
    if (status != RS_OK) rs_toy_close(toy);
    return status;
}

void rs_toy_close(rs_toy *toy)
{
    rs_weights_close(toy->weights);
    rs_network_close(toy->network);
    rs_init_close(toy->init);
    *toy = (rs_toy){0};
}

rs_status rs_toy_precision(rs_toy *toy, rs_precision precision, rs_error *err)
{
    rs_weights_close(toy->weights);
    toy->weights = NULL;
    toy->precision = precision;
    return rs_weights_open(&toy->weights, precision, weight_limit, err);
}

rs_attention_op *rs_toy_attention(rs_toy *toy, int32_t layer)
{
    return &toy->network->layers[layer].branches[0].attention;
}

rs_status rs_toy_tensor(const rs_tensor **out, rs_toy *toy, const double *numbers, int64_t rows,
                        int64_t cols, rs_error *err)
{
    rs_arena *arena = toy->network->arena;
    rs_tensor *tensor = rs_arena_alloc(arena, 1, sizeof *tensor);
    int64_t *shape = rs_arena_alloc(arena, 2, sizeof *shape);
    double *copy = rs_arena_alloc(arena, (size_t)rows * (size_t)cols, sizeof *copy);
    if (!tensor || !shape || !copy)
        return rs_fail_memory(err, "weights of an experiment",
                              (size_t)rows * (size_t)cols * sizeof *copy);
    memcpy(copy, numbers, (size_t)rows * (size_t)cols * sizeof *copy);
    shape[0] = rows;
    shape[1] = cols;
    *tensor = (rs_tensor){.name = "given",
                          .dtype = RS_F64,
                          .rank = 2,
                          .shape = shape,
                          .count = rows * cols,
                          .data = (const uint8_t *)copy,
                          .bytes = (uint64_t)(rows * cols) * sizeof *copy,
                          .type_id = -1};
    *out = tensor;
    return RS_OK;
}

rs_status rs_toy_set(rs_toy *toy, rs_dense *dense, const double *w, const double *b, rs_error *err)
{
    RS_TRY(rs_toy_tensor(&dense->weight, toy, w, dense->in, dense->out, err));
    dense->rows = dense->in;
    dense->cols = dense->out;
    dense->out_is_row = false;
    return b ? rs_toy_tensor(&dense->bias, toy, b, 1, dense->out, err) : RS_OK;
}

/* ---- given matrices ---- */

typedef struct square {
    const double *a; /* [n, n] */
    int64_t n;
} square;

static rs_status read_row(void *user, double *row, int64_t i, rs_error *err)
{
    const square *from = user;
    (void)err;
    memcpy(row, from->a + i * from->n, (size_t)from->n * sizeof *row);
    return RS_OK;
}

rs_status rs_toy_mix_some(rs_toy *toy, int32_t first, int32_t step, const double *a, int64_t n,
                          rs_graph_form form, rs_error *err)
{
    square from = {a, n};
    const rs_graph_source source = {
        .name = "given", .nodes = n, .read_row = read_row, .user = &from};
    const rs_graph *graph;
    RS_TRY(rs_graph_build(&graph, toy->network->arena, NULL, &source, form, err));
    for (int32_t l = first; l < toy->network->n_layers; l += step) {
        rs_branch *branch = &toy->network->layers[l].branches[0];
        rs_dense values = branch->kind == RS_BRANCH_GRAPH ? branch->graph.v : branch->attention.v;
        branch->kind = RS_BRANCH_GRAPH;
        branch->graph = (rs_graph_op){.graph = graph,
                                      .matrix = graph->matrix,
                                      .heads = 1,
                                      .value_heads = 1,
                                      .value_dim = toy->network->d_model,
                                      .v = values};
    }
    return RS_OK;
}

rs_status rs_toy_mix(rs_toy *toy, const double *a, int64_t n, rs_graph_form form, rs_error *err)
{
    return rs_toy_mix_some(toy, 0, 1, a, n, form, err);
}

rs_dense *rs_toy_values(rs_toy *toy, int32_t layer)
{
    return &toy->network->layers[layer].branches[0].graph.v;
}

/* ---- running ---- */

double *rs_toy_state(const rs_toy_trace *trace, int32_t layer, int64_t sample)
{
    return trace->states + (layer * trace->samples + sample) * trace->n * trace->d;
}

double *rs_toy_mixing(const rs_toy_trace *trace, int32_t layer, int64_t sample, int32_t head)
{
    int64_t at = (layer * trace->samples + sample) * trace->heads + head;
    return trace->mixing + at * trace->n * trace->n;
}

static rs_status keep_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    (void)site;
    (void)err;
    rs_toy_trace *trace = user;
    const void *from = trace->exponents ? (const void *)view->residual : view->data;
    memcpy(rs_toy_state(trace, layer, 0), from, (size_t)(view->rows * view->cols) * sizeof(double));
    if (!trace->exponents) return RS_OK;
    for (int64_t s = 0; s < trace->samples; s++)
        trace->exponents[layer * trace->samples + s] = view->exponent[s] + view->scale[s];
    for (int64_t s = 0; s < trace->samples; s++)
        trace->norms[layer * trace->samples + s] = rs_norm_frobenius(
            (const double *)view->data + s * trace->n * trace->d, trace->n, trace->d);
    return RS_OK;
}

static rs_status keep_mixing(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)err;
    rs_toy_trace *trace = user;
    double *out = rs_toy_mixing(trace, view->layer, view->sample, view->head);
    const double *in = view->mixing;
    for (int64_t i = 0; i < view->n; i++)
        memcpy(out + i * trace->n, in + i * view->ld, (size_t)view->keys * sizeof *out);
    return RS_OK;
}

static rs_status pass(rs_toy_trace *trace, rs_toy *toy, const double *x, rs_error *err)
{
    int64_t *begin = rs_malloc((size_t)trace->samples + 1, sizeof *begin);
    if (!begin) return rs_fail_memory(err, "an experiment's batch", sizeof *begin);
    for (int64_t s = 0; s <= trace->samples; s++)
        begin[s] = s * trace->n;
    const rs_batch batch = {.samples = (int32_t)trace->samples, .begin = begin, .states = x};
    const rs_tap tap = {.user = trace,
                        .sites = 1U << RS_SITE_BLOCK_OUT,
                        .state = keep_state,
                        .attention = trace->mixing ? keep_mixing : NULL};
    rs_status status =
        rs_observe_batch(toy->network, toy->weights, &batch, &tap, &toy->context, err);
    rs_free(begin);
    return status;
}

rs_status rs_toy_run(rs_toy_trace *trace, rs_toy *toy, const double *x, int64_t samples, int64_t n,
                     bool attention, rs_error *err)
{
    const rs_branch *first = &toy->network->layers[0].branches[0];
    *trace = (rs_toy_trace){.layers = toy->network->n_layers,
                            .heads = rs_branch_traits(first)->matrices(first),
                            .samples = samples,
                            .n = n,
                            .d = toy->network->d_model};
    RS_TRY(rs_check_cancelled(&toy->context, err));
    size_t rows = (size_t)(samples * n), layers = (size_t)trace->layers;
    trace->states = rs_calloc((layers + 1) * rows * (size_t)trace->d, sizeof *trace->states);
    bool residual = toy->precision == RS_PRECISION_RESIDUAL;
    if (residual) {
        trace->exponents = rs_calloc((layers + 1) * (size_t)samples, sizeof *trace->exponents);
        trace->norms = rs_calloc((layers + 1) * (size_t)samples, sizeof *trace->norms);
    }
    if (attention)
        trace->mixing =
            rs_calloc(layers * rows * (size_t)n * (size_t)trace->heads, sizeof *trace->mixing);
    rs_status status = RS_OK;
    bool exponents = !residual || (trace->exponents && trace->norms);
    if (!trace->states || !exponents || (attention && !trace->mixing))
        status = rs_fail_memory(err, "the states of an experiment", layers * rows);
    if (status == RS_OK) status = pass(trace, toy, x, err);
    if (status != RS_OK) rs_toy_trace_free(trace);
    return status;
}

void rs_toy_trace_free(rs_toy_trace *trace)
{
    rs_free(trace->states);
    rs_free(trace->mixing);
    rs_free(trace->exponents);
    rs_free(trace->norms);
    *trace = (rs_toy_trace){0};
}
