/* trials_engine.c: trials through the engine: a network is drawn, run forward and back in float64, and
 * listened to. */
#include "predict/trials_engine.h"

#include "base/budget.h"
#include "base/memory.h"
#include "engine/gradient.h"
#include "linalg/threads.h"
#include "network/op_traits.h"
#include "predict/trials_batch.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Decoded weights of one network always fit where the network does. */
static const uint64_t weight_limit = UINT64_C(1) << 62;
/* Networks of fewer bytes run side by side, one a thread. */
static const double small_bytes = 1 << 28;

/* What one run needs beside the network. */
typedef struct trial_room {
    int64_t n, d;
    int32_t heads;    /* most matrices of a branch */
    double *states;   /* [n, d] */
    double *turned;   /* [d, padded n] */
    double *heads_of; /* [layers, heads, 2]: concentration and variance of logits */
    const rs_network *network;
    double *numbers; /* [layers + 1, quantities] */
    int32_t layers;
} trial_room;

static double *row_of(const trial_room *room, int32_t l)
{
    return room->numbers + (int64_t)l * RS_TRIALS_QUANTITIES;
}

/* ---- listening ---- */

static int64_t lanes_of(int64_t n)
{
    return (n + RS_TRIALS_PAD - 1) / RS_TRIALS_PAD * RS_TRIALS_PAD;
}

/* The state of one sample, measured as batched trials measure it. */
static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    (void)site;
    (void)err;
    trial_room *room = user;
    const double *x = view->data;
    int64_t lanes = lanes_of(room->n);
    rs_trials_measured measured;
    if (layer > room->layers) return RS_OK;
    for (int64_t c = 0; c < room->d; c++)
        for (int64_t i = 0; i < lanes; i++)
            room->turned[c * lanes + i] = i < room->n ? x[i * room->d + c] : 0;
    rs_trials_block block = {room->turned, room->d, lanes, lanes};
    rs_trials_kernels_here()->measure(&measured, &block, room->n);
    rs_trials_put_state(row_of(room, layer), &measured, room->n);
    return RS_OK;
}

static bool sees(const rs_attention_view *view, int64_t i, int64_t j)
{
    int64_t before = i - j;
    if (view->causal && before < 0) return false;
    return view->window <= 0 || (before < view->window && before > -view->window);
}

static double variance_of_row(const rs_attention_view *view, int64_t i)
{
    const double *row = (const double *)view->logits + i * view->ld;
    double sum = 0, square = 0, count = 0;
    for (int64_t j = 0; j < view->keys; j++)
        if (sees(view, i, j)) sum += row[j], count++;
    for (int64_t j = 0; j < view->keys; j++)
        if (sees(view, i, j)) square += (row[j] - sum / count) * (row[j] - sum / count);
    return square / count;
}

static double squares_of_row(const double *row, int64_t keys)
{
    double sum = 0;
    for (int64_t j = 0; j < keys; j++)
        sum += row[j] * row[j];
    return sum;
}

/* Each head has a place of its own: several threads tell of them. */
static rs_status hear_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)err;
    trial_room *room = user;
    const rs_branch *branch = &room->network->layers[view->layer].branches[view->branch];
    const rs_attention_op *op = rs_branch_attention(branch);
    if (!op || !view->probabilities || view->layer >= room->layers) return RS_OK;
    const double *a = op->mix_softmax == 0 ? view->mixing : view->probabilities;
    bool masked = view->causal || view->window > 0;
    int64_t first = masked ? view->n - 1 : 0;
    double sums[2] = {0, 0}, rows = (double)(view->n - first);
    for (int64_t i = first; i < view->n; i++) {
        sums[0] += squares_of_row(a + i * view->ld, view->keys);
        if (op->mix_softmax != 0 && view->logits) sums[1] += variance_of_row(view, i);
    }
    double *out = room->heads_of + 2 * ((int64_t)view->layer * room->heads + view->head);
    out[0] = sums[0] / rows;
    if (op->mix_softmax != 0 && view->logits) out[1] = sums[1] / rows;
    return RS_OK;
}

static rs_status hear_derivative(void *user, int32_t layer, const rs_state_view *view,
                                 rs_error *err)
{
    (void)err;
    trial_room *room = user;
    const double *x = view->data;
    double sum = 0;
    for (int64_t i = 0; i < view->rows * view->cols; i++)
        sum += x[i] * x[i];
    if (layer <= room->layers) row_of(room, layer)[RS_TRIALS_STATE] = sum;
    return RS_OK;
}

static rs_status hear_parameter(void *user, const rs_gradient_view *view, rs_error *err)
{
    static const struct {
        const char *name;
        bool mlp;
        rs_trials_quantity quantity;
    } known[] = {{"q", false, RS_TRIALS_QUERY}, {"k", false, RS_TRIALS_KEY},
                 {"v", false, RS_TRIALS_VALUE}, {"o", false, RS_TRIALS_OUTPUT},
                 {"up", true, RS_TRIALS_UP},    {"gate", true, RS_TRIALS_GATE},
                 {"down", true, RS_TRIALS_DOWN}};
    trial_room *room = user;
    const rs_parameter *of = view->parameter;
    double square = 0;
    if (of->layer < 0 || of->layer >= room->layers || of->branch < 0 || of->part != RS_OF_WEIGHT ||
        !of->map)
        return RS_OK;
    bool mlp = rs_branch_mlp(&room->network->layers[of->layer].branches[of->branch]) != NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].mlp != mlp || strcmp(known[i].name, of->name) != 0) continue;
        RS_TRY(rs_gradient_squares(&square, view, 1, false, err));
        rs_trials_add(&row_of(room, of->layer)[known[i].quantity], square);
    }
    return RS_OK;
}

/* ---- one trial ---- */

/* Means over heads, in their order. */
static void put_attention(const trial_room *room)
{
    for (int32_t l = 0; l < room->layers; l++) {
        double *out = row_of(room, l), sums[2] = {0, 0};
        int32_t counts[2] = {0, 0};
        for (int32_t h = 0; h < room->heads; h++)
            for (int i = 0; i < 2; i++) {
                double number = room->heads_of[2 * ((int64_t)l * room->heads + h) + i];
                if (isnan(number)) continue;
                sums[i] += number;
                counts[i]++;
            }
        if (counts[0]) out[RS_TRIALS_CONCENTRATION] = sums[0] / counts[0];
        if (counts[1]) out[RS_TRIALS_LOGIT] = sums[1] / counts[1];
    }
}

static const rs_gradient_plan way_back = {.apart = true,
                                          .numbers = RS_NUMBERS_NO_SKIPS | RS_NUMBERS_NO_SCALES};

static rs_status run_network(trial_room *room, uint64_t seed, bool after_final_norm,
                             const rs_context *context, rs_error *err)
{
    const int64_t begin[] = {0, room->n};
    const rs_batch batch = {.samples = 1, .begin = begin, .states = room->states};
    const rs_loss loss = {.kind = RS_LOSS_RANDOM,
                          .weight = 1,
                          .at_state =
                              !after_final_norm || room->network->final_norm.kind == RS_NORM_NONE,
                          .seed = seed};
    const rs_tap tap = {.user = room,
                        .sites = 1U << RS_SITE_BLOCK_OUT,
                        .state = hear_state,
                        .wants_logits = true,
                        .attention = hear_attention};
    const rs_tap *const taps[] = {&tap};
    const rs_gradient_tap back = {
        .user = room, .parameter = hear_parameter, .state = hear_derivative};
    const rs_gradient_tap *const backs[] = {&back};
    rs_network network =
        *room->network; /* whose loss is at the last state, whatever a head reads */
    rs_weights *weights = NULL;
    rs_runner *runner = NULL;
    rs_gradients *gradients = NULL;
    double value = 0;
    network.read_out.kind = RS_FUSION_NONE;
    rs_status status = rs_weights_open(&weights, RS_PRECISION_F64, weight_limit, err);
    if (status == RS_OK) status = rs_runner_open(&runner, &network, weights, context, err);
    if (status == RS_OK)
        status = rs_gradients_open(&gradients, &network, RS_PRECISION_F64, &way_back, backs, 1,
                                   context, err);
    if (status == RS_OK)
        status = rs_runner_gradient(&value, runner, &batch, &loss, gradients, taps, 1, err);
    if (status == RS_OK) status = rs_gradients_finish(gradients, err);
    if (gradients) rs_gradients_close(gradients);
    if (runner) rs_runner_close(runner);
    if (weights) rs_weights_close(weights);
    return status;
}

static int32_t most_heads(const rs_network *network)
{
    int32_t most = 1;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_attention_op *op = rs_branch_attention(&network->layers[l].branches[b]);
            if (op && op->heads > most) most = op->heads;
        }
    return most;
}

static void close_room(trial_room *room)
{
    rs_free(room->states);
    rs_free(room->turned);
    rs_free(room->heads_of);
}

static rs_status open_room(trial_room *room, int32_t layers, int64_t n, rs_error *err)
{
    room->n = n;
    room->d = room->network->d_model;
    room->layers = layers;
    room->heads = most_heads(room->network);
    size_t count = (size_t)(n * room->d), heads = 2 * (size_t)room->heads * (size_t)layers;
    room->states = rs_malloc(count, sizeof(double));
    room->turned = rs_malloc((size_t)(lanes_of(n) * room->d), sizeof(double));
    room->heads_of = rs_malloc(heads, sizeof(double));
    if (!room->states || !room->turned || !room->heads_of)
        return rs_fail_memory(err, "a trial", count * sizeof(double));
    for (size_t i = 0; i < heads; i++)
        room->heads_of[i] = NAN;
    return RS_OK;
}

static rs_status run_trial(double *numbers, int32_t layers, int32_t trial,
                           const rs_trials_request *request, const rs_context *context,
                           rs_error *err)
{
    const rs_trials_opener *opener = &request->opener;
    uint64_t seed = rs_trials_seed(context->seed, trial);
    const rs_network *network = NULL;
    void *drawn = NULL;
    RS_TRY(opener->open(opener->user, &network, &drawn, trial, seed, err));
    trial_room room = {.network = network, .numbers = numbers};
    rs_status status = RS_OK;
    if (network->n_layers != layers)
        status = rs_fail(err, RS_E_INTERNAL, "trials", NULL, "%d layers were drawn, not %d",
                         network->n_layers, layers);
    if (status == RS_OK) status = open_room(&room, layers, request->input.n, err);
    if (status == RS_OK)
        status = rs_trials_input(room.states, room.d, &request->input, context->seed, trial, err);
    if (status == RS_OK) status = run_network(&room, seed, request->after_final_norm, context, err);
    if (status == RS_OK) {
        put_attention(&room);
        for (int32_t l = 0; l < layers; l++)
            rs_trials_put_ratios(row_of(&room, l));
    }
    close_room(&room);
    opener->close(opener->user, drawn);
    return status;
}

/* ---- all ---- */

static double weight_bytes(const rs_network *network)
{
    return (double)network->stored.parameters * (sizeof(float) + sizeof(double));
}

/* Numbers of the layers' maps, which are decoded; those of embeddings are not. */
static double decoded_numbers(const rs_network *network)
{
    double sum = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
            for (size_t i = 0; i < weights->n; i++) {
                const rs_dense *map = rs_weight_map(&weights->rows[i], branch);
                if (map && map->weight) sum += (double)map->out * (double)map->in;
            }
        }
    return fmin(sum, (double)network->stored.parameters);
}

/* What one trial holds: weights as they are drawn and decoded, the tape, and rows on both ways. */
static void add_needs(rs_budget *budget, const rs_network *network, int64_t n)
{
    enum { STATES = 12 }; /* of the widest rows, both ways */
    double widest = (double)network->d_model, rows = (double)n;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            widest = fmax(widest, (double)rs_branch_traits(branch)->width(branch).projected);
        }
    rs_budget_add(budget, "weights",
                  (double)network->stored.parameters * sizeof(float) +
                      decoded_numbers(network) * sizeof(double));
    rs_budget_add(budget, "tapes of the way back",
                  (double)rs_tape_bytes(network, RS_PRECISION_F64, &way_back, n));
    rs_budget_add(budget, "activations", STATES * rows * widest * sizeof(double));
}

rs_status rs_trials_engine_run(double *numbers, int32_t layers, const rs_network *network,
                               const rs_trials_request *request, const rs_context *context,
                               rs_error *err)
{
    int64_t size = (int64_t)(layers + 1) * RS_TRIALS_QUANTITIES;
    bool beside = weight_bytes(network) < small_bytes;
    rs_budget needs = {0};
    add_needs(&needs, network, request->input.n);
    RS_TRY(rs_budget_check(&needs, context->memory, "trials", "take a smaller network", err));
    int threads = beside && context->threads > 1 ? context->threads : 1;
    threads = rs_budget_threads(rs_budget_sum(&needs), context->memory, threads);
    rs_context own = *context;
    rs_status kept = RS_OK;
    rs_error kept_error;
    atomic_bool stop = false;
    atomic_int done = 0;
    if (beside) own.threads = 1;
    own.progress = NULL;
    own.kept = NULL;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int32_t t = 0; t < request->trials; t++) {
        rs_error problem;
        if (atomic_load_explicit(&stop, memory_order_relaxed)) continue;
        rs_status status = rs_check_cancelled(&own, &problem);
        if (status == RS_OK)
            status = run_trial(numbers + t * size, layers, t, request, &own, &problem);
        if (status != RS_OK) {
            rs_keep_first(&kept, &kept_error, status, &problem);
            atomic_store_explicit(&stop, true, memory_order_relaxed);
        }
        int so_far = atomic_fetch_add(&done, 1) + 1;
        if (rs_thread_number() == 0)
            rs_progress(context, "trials", (uint64_t)so_far, (uint64_t)request->trials, "trials");
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}
