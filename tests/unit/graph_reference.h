/* graph_reference.h: mixers with a given matrix drawn at random, and their definitions
 * (docs/theory/graph.md), written as plain loops over all pairs of tokens. Include behind cmocka.h. */
#ifndef RS_TEST_GRAPH_REFERENCE_H
#define RS_TEST_GRAPH_REFERENCE_H

#include "forward_builder.h"
#include "forward_reference.h"
#include "property.h"

#include "base/memory.h"
#include "network/graph.h"

enum { LAYERS = 2, MOST_SAMPLES = 3, MOST_HEADS = 6 };

/* ---- drawn graphs ---- */

typedef struct drawn {
    built *b;
    rs_arena *arena;
    const rs_graph *graph;
    double *a; /* [n, n] */
    int64_t n;
} drawn;

static inline rs_status read_row(void *user, double *row, int64_t i, rs_error *err)
{
    const drawn *g = user;
    (void)err;
    memcpy(row, g->a + i * g->n, (size_t)g->n * sizeof *row);
    return RS_OK;
}

static inline rs_status build_graph(drawn *g, rs_graph_form form, rs_error *err)
{
    const rs_graph_source source = {
        .name = "drawn.npy", .nodes = g->n, .read_row = read_row, .user = g};
    return rs_graph_build(&g->graph, g->arena, NULL, &source, form, err);
}

/* Few edges and many, one node, a node without edges. */
static inline void draw_weights(drawn *g, rs_graph_form form)
{
    double density = chance(g->b, 0.5) ? 0.08 : 0.7;
    int64_t n = g->n, lonely = chance(g->b, 0.3) ? draw(g->b, 0, n - 1) : -1;
    g->a = calloc((size_t)(n * n), sizeof *g->a);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double w = chance(g->b, density) ? rs_random_normal(&g->b->random) : 0;
            if (form != RS_GRAPH_GIVEN) w = fabs(w);
            if (form == RS_GRAPH_SYMMETRIC && j < i) w = g->a[j * n + i];
            g->a[i * n + j] = i == lonely || (form == RS_GRAPH_SYMMETRIC && j == lonely) ? 0 : w;
        }
    if (n == 1 || lonely != 0) g->a[0] = 0.25; /* some edge there is */
    if (n > 1 && lonely == 0) g->a[n + 1] = 0.25;
}

static inline rs_branch drawn_branch(drawn *g, int64_t d)
{
    built *b = g->b;
    rs_branch branch = {.kind = RS_BRANCH_GRAPH, .skip = chance(b, 0.5) ? 0.5 : 0, .scale = 1};
    if (chance(b, 0.5)) branch.before = norm_of(b, d);
    branch.graph =
        (rs_graph_op){.graph = g->graph, .matrix = g->graph->matrix, .heads = 1, .value_heads = 1};
    rs_graph_op *op = &branch.graph;
    bool merged = chance(b, 0.4), identity = chance(b, 0.4);
    if (g->graph->form == RS_GRAPH_ATTENTION) {
        op->key_heads = (int32_t)draw(b, 1, 2);
        op->heads = op->key_heads * (int32_t)draw(b, 1, 3);
        op->value_heads = chance(b, 0.5) ? op->key_heads : 1;
        op->head_dim = draw(b, 1, 7);
        op->scale = 1 / sqrt((double)op->head_dim);
        op->temperature = chance(b, 0.5) ? 1 : 0.3;
        op->q = dense_of(b, d, op->heads * op->head_dim, chance(b, 0.3));
        op->k = dense_of(b, d, op->key_heads * op->head_dim, chance(b, 0.3));
    }
    if (identity && !merged && op->heads > 1 && d % op->heads == 0)
        op->value_heads = op->heads;
    else if (identity)
        op->value_heads = 1;
    op->value_dim = merged ? d : identity ? d / op->value_heads : draw(b, 1, 9);
    if (!identity) op->v = dense_of(b, d, op->value_heads * op->value_dim, chance(b, 0.3));
    if (!merged) op->o = dense_of(b, op->heads * op->value_dim, d, chance(b, 0.3));
    return branch;
}

static inline drawn drawn_new(uint64_t seed, rs_graph_form form)
{
    drawn g = {.b = calloc(1, sizeof(built)), .arena = rs_arena_new()};
    rs_error err;
    built *b = g.b;
    b->random = rs_random_new(seed, 91);
    b->dtype = chance(b, 0.5) ? RS_F32 : RS_F64;
    g.n = chance(b, 0.1) ? 1 : chance(b, 0.1) ? draw(b, 250, 300) : draw(b, 2, 40);
    draw_weights(&g, form);
    if (build_graph(&g, form, &err) != RS_OK) fail_msg("%s", err.what);
    int64_t d = draw(b, 1, 12);
    b->network =
        (rs_network){.family = "drawn", .d_model = d, .layers = b->layers, .n_layers = LAYERS};
    b->network.embedding.width = d;
    for (int32_t l = 0; l < LAYERS; l++) {
        b->layers[l].n_branches = 1;
        b->layers[l].branches[0] = drawn_branch(&g, d);
    }
    b->batch = (rs_batch){.samples = (int32_t)draw(b, 1, MOST_SAMPLES), .begin = b->begin};
    for (int32_t s = 0; s < b->batch.samples; s++)
        b->begin[s + 1] = b->begin[s] + (chance(b, 0.2) ? 0 : g.n);
    int64_t count = b->begin[b->batch.samples] * d;
    b->states = malloc((size_t)(count + 1) * sizeof *b->states);
    for (int64_t i = 0; i < count; i++)
        b->states[i] = rs_random_normal(&b->random);
    b->batch.states = b->states;
    return g;
}

static inline void drawn_free(drawn *g)
{
    rs_arena_free(g->arena);
    free(g->a);
    built_free(g->b);
}

/* ---- the definitions ---- */

/* m: [n, n] of head h. q, k: what the maps give of the sample's tokens. */
static inline void ref_matrix(double *m, const drawn *g, const rs_graph_op *op, int32_t h,
                              const double *q, const double *k)
{
    int64_t n = g->n, dim = op->head_dim;
    int32_t group = op->key_heads ? h / (op->heads / op->key_heads) : 0;
    for (int64_t i = 0; i < n; i++) {
        double row = 0, largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double column = 0, dot = 0;
            row = 0;
            for (int64_t t = 0; t < n; t++) {
                row += g->a[i * n + t];
                column += g->a[j * n + t];
            }
            for (int64_t c = 0; c < dim && q; c++)
                dot += q[(i * op->heads + h) * dim + c] * k[(j * op->key_heads + group) * dim + c];
            double w = g->a[i * n + j], *out = &m[i * n + j];
            *out = w;
            if (w == 0) continue;
            if (g->graph->form == RS_GRAPH_ROW) *out = w / row;
            if (g->graph->form == RS_GRAPH_SYMMETRIC) *out = w / sqrt(row * column);
            if (q) *out = dot * op->scale / op->temperature;
            largest = fmax(largest, *out);
        }
        for (int64_t j = 0; j < n && q; j++)
            if (g->a[i * n + j] != 0) sum += m[i * n + j] = exp(m[i * n + j] - largest);
        for (int64_t j = 0; j < n && q; j++)
            if (g->a[i * n + j] != 0) m[i * n + j] /= sum;
    }
}

/* y: [n, d] of one sample; matrices: [heads, n, n]. */
static inline void ref_graph(double *y, double *matrices, const drawn *g, const rs_graph_op *op,
                             const double *x, int64_t d)
{
    int64_t n = g->n, dim = op->value_dim, inner = op->heads * dim;
    double *q = op->q.weight ? ref_dense_rows(x, n, &op->q) : NULL;
    double *k = op->k.weight ? ref_dense_rows(x, n, &op->k) : NULL;
    double *v = op->v.weight ? ref_dense_rows(x, n, &op->v) : NULL;
    double *mixed = calloc((size_t)(n * inner), sizeof *mixed);
    const double *values = v ? v : x;
    for (int32_t h = 0; h < op->heads; h++) {
        double *m = matrices + h * n * n;
        int32_t group = h / (op->heads / op->value_heads);
        ref_matrix(m, g, op, h, q, k);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t c = 0; c < dim; c++)
                    mixed[i * inner + h * dim + c] +=
                        m[i * n + j] * values[(j * op->value_heads + group) * dim + c];
    }
    for (int64_t i = 0; i < n; i++) {
        memset(y + i * d, 0, (size_t)d * sizeof *y);
        if (op->o.weight) ref_dense(y + i * d, mixed + i * inner, &op->o);
        for (int64_t c = 0; c < inner && !op->o.weight; c++)
            y[i * d + c % dim] += mixed[i * inner + c];
    }
    double *used[] = {q, k, v, mixed};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        free(used[i]);
}

#endif
