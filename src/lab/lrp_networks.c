/* lrp_networks.c: small networks with given numbers, and passes back from their outputs. */
#include "lab/lrp_networks.h"

#include "base/memory.h"

#include <math.h>

/* ---- from a hash ---- */

enum { TAG_OUTPUT = 1980, TAG_TOKENS = 1990, TAG_LAYERS = 2000, TAGS = 20, TAG_BIAS = 10 };
enum { HEADS = 4, HIDDEN = 2 * RS_LRP_WIDTH };

static void generate(double *out, uint32_t tag, int64_t count, double scale)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = scale * (rs_lab_hash(tag, (uint32_t)i) / 2147483648.0 - 1);
}

void rs_lrp_tokens(double *x, int draw)
{
    generate(x, TAG_TOKENS + (uint32_t)draw, RS_LRP_TOKENS * RS_LRP_WIDTH, sqrt(3));
}

/* Map number i of a layer; numbers of variance 1/in, four times that for queries. */
static rs_status set_map(rs_toy *toy, rs_dense *map, int32_t layer, uint32_t i, bool biased,
                         rs_error *err)
{
    double w[RS_LRP_WIDTH * HIDDEN], b[HIDDEN];
    uint32_t tag = TAG_LAYERS + TAGS * (uint32_t)layer + i;
    generate(w, tag, map->in * map->out, sqrt(3 / (double)map->in) * (i == 0 ? 2 : 1));
    generate(b, tag + TAG_BIAS, map->out, 0.5);
    return rs_toy_set(toy, map, w, biased ? b : NULL, err);
}

static rs_status set_layer(rs_toy *toy, int32_t l, bool biases, rs_error *err)
{
    rs_attention_op *attention = rs_toy_attention(toy, l);
    rs_mlp_op *mlp = &toy->network->layers[l].branches[1].mlp;
    rs_dense *maps[] = {&attention->q, &attention->k, &attention->v,
                        &attention->o, &mlp->up,      &mlp->down};
    for (uint32_t i = 0; i < sizeof maps / sizeof *maps; i++)
        RS_TRY(set_map(toy, maps[i], l, i, biases && i > 1, err));
    return RS_OK;
}

/* The network's output: x times w [width, outputs]. */
static rs_status set_head(rs_toy *toy, const double *w, int64_t outputs, rs_error *err)
{
    rs_head_op *head = &toy->network->head;
    *head = (rs_head_op){
        .activation = RS_ACT_LINEAR,
        .scale = 1,
        .decoder = {
            .in = toy->network->d_model, .out = outputs, .run = outputs, .stride = outputs}};
    return rs_toy_set(toy, &head->decoder, w, NULL, err);
}

rs_status rs_lrp_open(rs_toy *toy, const rs_lrp_network *network, const rs_context *context,
                      rs_error *err)
{
    double c[RS_LRP_WIDTH];
    json_t *arch =
        json_pack("{s:i, s:i, s:i, s:s, s:s, s:i, s:f, s:f}", "depth", network->layers, "d_model",
                  RS_LRP_WIDTH, "heads", HEADS, "norm", network->post ? "post" : "pre", "mlp",
                  network->gelu ? "gelu" : "relu", "mlp_width", HIDDEN, "skip_mixer", network->skip,
                  "skip_mlp", network->skip);
    RS_TRY(rs_toy_open(toy, arch, 0, context, err));
    generate(c, TAG_OUTPUT, RS_LRP_WIDTH, sqrt(3));
    rs_status status = set_head(toy, c, 1, err);
    for (int32_t l = 0; l < network->layers && status == RS_OK; l++)
        status = set_layer(toy, l, network->biases, err);
    if (status != RS_OK) rs_toy_close(toy);
    return status;
}

/* ---- from a generator ---- */

enum { SEED = 5 };

/* u <- 6364136223846793005 u + 1442695040888963407 mod 2^64; its upper 53 bits, in [-1, 1). */
static void congruential(double *out, int count, uint64_t *u)
{
    for (int i = 0; i < count; i++) {
        *u = *u * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        out[i] = -1 + 2 * ((double)(*u >> 11) * 0x1p-53);
    }
}

/* All that is drawn, in its order. */
typedef struct drawn {
    double x[RS_LRP_HEAD_TOKENS * RS_LRP_HEAD_WIDTH];
    double w[RS_LRP_HEAD_WIDTH * RS_LRP_HEAD_WIDTH];
    double g[RS_LRP_HEAD_TOKENS * RS_LRP_HEAD_WIDTH];
    double z[RS_LRP_NORM_WIDTH], c[RS_LRP_NORM_WIDTH];
} drawn;

static drawn draw_all(void)
{
    drawn d;
    uint64_t u = SEED;
    congruential(d.x, sizeof d.x / sizeof *d.x, &u);
    congruential(d.w, sizeof d.w / sizeof *d.w, &u);
    congruential(d.g, sizeof d.g / sizeof *d.g, &u);
    congruential(d.z, RS_LRP_NORM_WIDTH, &u);
    congruential(d.c, RS_LRP_NORM_WIDTH, &u);
    return d;
}

static void transpose(double *out, const double *in, int rows, int cols)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            out[j * rows + i] = in[i * cols + j];
}

/* Logits are x_i^T W x_j / sqrt(width), so queries read W^T. */
rs_status rs_lrp_head(rs_toy *toy, double x[RS_LRP_HEAD_TOKENS * RS_LRP_HEAD_WIDTH],
                      const rs_context *context, rs_error *err)
{
    enum { D = RS_LRP_HEAD_WIDTH, N = RS_LRP_HEAD_TOKENS };
    const drawn d = draw_all();
    double queries[D * D], outputs[D * N];
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:f, s:{s:s, s:s, s:s}}", "depth", 1, "d_model",
                             D, "norm", "none", "mlp", "none", "skip_mixer", 0.0, "init", "wk",
                             "identity", "wv", "identity", "wo", "none");
    RS_TRY(rs_toy_open(toy, arch, 0, context, err));
    transpose(queries, d.w, D, D);
    transpose(outputs, d.g, N, D);
    rs_status status = rs_toy_set(toy, &rs_toy_attention(toy, 0)->q, queries, NULL, err);
    if (status == RS_OK) status = set_head(toy, outputs, N, err);
    if (status != RS_OK) rs_toy_close(toy);
    for (int i = 0; i < N * D; i++)
        x[i] = d.x[i];
    return status;
}

/* The layer in front of the norm gives nothing. */
rs_status rs_lrp_norm(rs_toy *toy, double x[RS_LRP_NORM_WIDTH], const rs_context *context,
                      rs_error *err)
{
    const drawn d = draw_all();
    json_t *arch = json_pack("{s:i, s:i, s:s, s:s, s:f}", "depth", 1, "d_model", RS_LRP_NORM_WIDTH,
                             "norm", "none", "mlp", "none", "branch_mixer", 0.0);
    RS_TRY(rs_toy_open(toy, arch, 0, context, err));
    toy->network->final_norm =
        (rs_norm_op){.kind = RS_NORM_LAYERNORM, .dim = RS_LRP_NORM_WIDTH, .eps = 1e-2};
    rs_status status = set_head(toy, d.c, 1, err);
    if (status != RS_OK) rs_toy_close(toy);
    for (int i = 0; i < RS_LRP_NORM_WIDTH; i++)
        x[i] = d.z[i];
    return status;
}

/* ---- explaining ---- */

static rs_status go_back(rs_lrp_found *out, rs_cut_gather *cuts, const rs_relevance_work *work,
                         const int32_t *targets, const int32_t *others, unsigned hold,
                         rs_error *err)
{
    rs_pass_gradient gradient = {.loss = {.kind = RS_LOSS_OUTPUT, .weight = 1, .targets = targets},
                                 .plan = {.hold = hold, .apart = true},
                                 .tap = &cuts->tap};
    cuts->cuts = out->cuts;
    cuts->hears = RS_CUTS_FIRST;
    RS_TRY(rs_relevance_pass(&out->explained, work, cuts->one, &gradient, &cuts->listener, err));
    rs_cut_gather_finish(out->cuts, work->network->n_layers, out->explained);
    if (!others) return RS_OK;
    gradient.loss.targets = others;
    cuts->hears = RS_CUTS_OTHER;
    return rs_relevance_pass(NULL, work, cuts->one, &gradient, &cuts->listener, err);
}

rs_status rs_lrp_explain(rs_lrp_found *out, const rs_toy *toy, const double *x, int64_t n,
                         const int32_t *targets, const int32_t *others, unsigned hold,
                         rs_error *err)
{
    int64_t begin[2] = {0, n};
    double own[RS_LRP_TOKENS];
    rs_pass_account account = {0};
    const rs_inputs inputs = {.kind = "states",
                              .samples = 1,
                              .begin = begin,
                              .states = (double *)(uintptr_t)x,
                              .d_model = toy->network->d_model,
                              .longest = n,
                              .shortest = n};
    const rs_relevance_request request = {.precision = toy->precision, .phase = "relevance"};
    const rs_relevance_work work = {.network = toy->network,
                                    .weights = toy->weights,
                                    .request = &request,
                                    .context = &toy->context,
                                    .account = &account};
    rs_cut_gather cuts;
    rs_status status = rs_cut_gather_open(&cuts, &work, n, err);
    cuts.one = &inputs;
    cuts.rows = n;
    cuts.own = own;
    if (status == RS_OK) status = go_back(out, &cuts, &work, targets, others, hold, err);
    rs_cut_gather_close(&cuts);
    return status;
}
