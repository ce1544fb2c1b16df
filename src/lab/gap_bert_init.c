/*
 * gap_bert_init.c: stable ranks of the states of BERT- and RoBERTa-shaped networks of random weights by layer
 * and number of tokens, as they are and with 11ᵀ/T taken away from every attention matrix: Nait Saada,
 * Naderi, Tanner 2025 (arXiv 2410.07799), figures on models at initialisation.
 */
#include "lab/signals.h"

#include "base/memory.h"
#include "network/init.h"
#include "observe/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 12, WIDTH = 768, VOCABULARY = 8192, LONGEST = 512, STATES = LAYERS + 1 };
enum { LENGTHS = 4, QUICK_LENGTHS = 1, NETWORKS = 3, QUICK_NETWORKS = 2, MODELS = 2, WAYS = 2 };
enum { RANKS = 2 }; /* of X, and of XXᵀ */
static const int64_t lengths[LENGTHS] = {64, 128, 256, 512};
static const char *const models[MODELS] = {"bert", "roberta"};
static const char *const ways[WAYS] = {"as it is", "gap removed"};

/* Layers whose ranks are claimed, and what another program has of them (tests/oracle/lab_signals.py
 * gap-bert-init): both ranks of each, mean over networks and deviation of one. */
enum { SHOWN = 4, DRAWN = 6 };
static const int shown[SHOWN] = {0, 1, 4, 12};
static const rs_awaited tokens_64[WAYS][SHOWN * RANKS] = {
    {{2.81827, 0.13},
     {1.06148, 0.0091},
     {2.67171, 0.13},
     {1.05255, 0.0084},
     {2.2024, 0.11},
     {1.02825, 0.0051},
     {1.5844, 0.086},
     {1.00741, 0.0023}},
    {{2.81827, 0.13},
     {1.06148, 0.0091},
     {2.8069, 0.14},
     {1.06141, 0.0096},
     {2.72124, 0.15},
     {1.05789, 0.011},
     {2.57003, 0.12},
     {1.05175, 0.0091}},
};
static const rs_awaited tokens_256[WAYS][SHOWN * RANKS] = {
    {{2.8682, 0.13},
     {1.02405, 0.0035},
     {2.71864, 0.13},
     {1.02107, 0.0036},
     {2.24831, 0.1},
     {1.01224, 0.002},
     {1.61041, 0.08},
     {1.00363, 0.00092}},
    {{2.8682, 0.13},
     {1.02405, 0.0035},
     {2.85513, 0.14},
     {1.02453, 0.0041},
     {2.77536, 0.15},
     {1.0246, 0.004},
     {2.60419, 0.13},
     {1.02388, 0.004}},
};

typedef struct found {
    int networks, n_lengths, n_models;
    double rank[MODELS][LENGTHS][WAYS][RANKS][STATES][NETWORKS];
} found;

/* The longest texts of BERT alone: the shapes differ in next to nothing. */
static int lengths_of(const found *f, int model)
{
    return model == 0 || f->n_lengths == 1 ? f->n_lengths : f->n_lengths - 1;
}

/* ---- networks ---- */

static json_t *config(int model)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f}", "model_type",
                     models[model], "vocab_size", VOCABULARY, "hidden_size", WIDTH,
                     "num_hidden_layers", LAYERS, "num_attention_heads", 12, "intermediate_size",
                     4 * WIDTH, "max_position_embeddings", LONGEST + 2 * model, "type_vocab_size",
                     2 - model, "hidden_act", "gelu", "layer_norm_eps", model ? 1e-5 : 1e-12,
                     "initializer_range", 0.02);
}

typedef struct drawn {
    rs_init *init;
    rs_network *network;
    rs_weights *weights;
} drawn;

static void close_drawn(drawn *d)
{
    rs_weights_close(d->weights);
    rs_network_close(d->network);
    rs_init_close(d->init);
}

static rs_status open_drawn(drawn *d, int model, uint64_t seed, const rs_context *context,
                            rs_error *err)
{
    *d = (drawn){0};
    json_t *given = config(model);
    if (!given) return rs_fail_memory(err, "a configuration", 1);
    rs_status status = rs_init_open(&d->init, NULL, seed, err);
    if (status == RS_OK) {
        rs_init_set_threads(d->init, context->threads);
        status = rs_network_from_config(&d->network, given, models[model], d->init, err);
    }
    json_decref(given);
    if (status == RS_OK)
        status = rs_weights_open(&d->weights, RS_PRECISION_F32, rs_weight_limit(context), err);
    if (status != RS_OK) close_drawn(d);
    return status;
}

/* ---- one network on one text ---- */

static rs_status measure(found *f, const int at[4], const rs_network *network, rs_weights *weights,
                         const rs_inputs *inputs, const rs_context *context, rs_error *err)
{
    rs_measure_options options;
    rs_measured *measured = NULL;
    rs_measure_defaults(&options);
    options.precision = RS_PRECISION_F32;
    options.attention = options.loss = options.quadratic = false;
    options.phase = "gap-bert-init";
    RS_TRY(
        rs_measure_network(&measured, network, weights, inputs, &options, NULL, 0, context, err));
    for (int32_t l = 0; l < STATES; l++) {
        const rs_token_row *row = rs_measured_row(measured, RS_TOKEN_SITE_BLOCK_OUT, l);
        double(*ranks)[STATES][NETWORKS] = f->rank[at[0]][at[1]][at[2]];
        ranks[0][l][at[3]] = row ? row->mean.stable_rank : NAN;
        ranks[1][l][at[3]] = row ? row->mean.stable_rank_gram : NAN;
    }
    rs_measured_free(measured);
    return RS_OK;
}

static rs_status see_way(found *f, const int at[4], const drawn *d, const rs_inputs *inputs,
                         const rs_context *context, rs_error *err)
{
    rs_edit edit;
    rs_network *network = NULL;
    rs_edit_init(&edit);
    if (at[2] == 1) RS_TRY(rs_edit_option(&edit, "remove-gap", NULL, err));
    RS_TRY(rs_network_copy(&network, d->network, err));
    rs_status status = rs_edit_apply(network, &edit, err);
    if (status == RS_OK) status = measure(f, at, network, d->weights, inputs, context, err);
    rs_network_close(network);
    return status;
}

static rs_status see_network(found *f, int model, int run, const rs_context *context, rs_error *err)
{
    drawn d;
    /* seeds of networks lie far apart from those that users count up */
    uint64_t seed = context->seed + ((uint64_t)(run * MODELS + model) << 32);
    RS_TRY(open_drawn(&d, model, seed, context, err));
    rs_status status = RS_OK;
    for (int t = 0; t < lengths_of(f, model) && status == RS_OK; t++) {
        rs_inputs inputs;
        int64_t begin[2];
        int32_t ids[LONGEST];
        status = rs_input_draw_sequence(&inputs, begin, ids, lengths[t], WIDTH, VOCABULARY, model,
                                        seed + (uint64_t)t, err);
        for (int way = 0; way < WAYS && status == RS_OK; way++) {
            const int at[4] = {model, t, way, run};
            status = see_way(f, at, &d, &inputs, context, err);
        }
    }
    close_drawn(&d);
    return status;
}

static rs_status run_all(found *f, const rs_context *context, rs_error *err)
{
    for (int run = 0; run < f->networks; run++)
        for (int model = 0; model < f->n_models; model++) {
            rs_progress(context, "gap-bert-init", (uint64_t)(run * f->n_models + model),
                        (uint64_t)(f->networks * f->n_models), "networks");
            RS_TRY(rs_check_cancelled(context, err));
            RS_TRY(see_network(f, model, run, context, err));
        }
    return RS_OK;
}

/* ---- what came out ---- */

static rs_seen seen_of(const found *f, int model, int length, int way, int rank, int layer)
{
    double values[NETWORKS];
    memcpy(values, f->rank[model][length][way][rank][layer], sizeof values);
    rs_spread spread = rs_spread_of(values, f->networks);
    return (rs_seen){spread.mean, spread.std / sqrt(f->networks)};
}

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("layer", "state", "0 enters the first layer"),
    RS_LAB_Y("stable_rank_gram", "stable rank of XX'", "Σs⁴/s₁⁴, mean over networks"));
static const rs_table_kind table_kind = {"lab", "gap_bert_init", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Stable rank of BERT at its random start",
    .about =
        "Stable rank of XXᵀ by layer of BERT-base with random weights, by the number of tokens, "
        "as it is and with 11ᵀ/T taken away from its attention.",
};

static rs_status draw(rs_lab_report *report, const found *f, rs_error *err)
{
    rs_table *table = NULL;
    char series[64];
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int way = 0; way < WAYS; way++)
        for (int t = 0; t < f->n_lengths; t++)
            for (int l = 0; l < STATES; l++) {
                snprintf(series, sizeof series, "%d tokens, %s", (int)lengths[t], ways[way]);
                RS_TRY(rs_lab_curves_add(table, series, l, seen_of(f, 0, t, way, 1, l).mean, err));
            }
    return RS_OK;
}

/* Figure VI of the authors' rebuttal, RoBERTa with 282 tokens of real text, read by eye: behind layer 12. */
static double printed(int model, int length, int way, int rank, int layer)
{
    if (model == 0 || lengths[length] != 256 || rank == 0 || layer != LAYERS) return NAN;
    return way ? 1.26 : 1.005;
}

/* Differences of a network and a text by the deviations of DRAWN of them: with two to four runs their own
 * says little. */
static rs_status claim_ranks(rs_lab_report *report, const found *f, int model, int length, int way,
                             rs_error *err)
{
    const rs_awaited *expected = (length == 0 ? tokens_64 : tokens_256)[way];
    char text[160];
    for (int i = 0; i < SHOWN; i++)
        for (int rank = 0; rank < RANKS; rank++) {
            rs_awaited one = expected[i * RANKS + rank];
            rs_seen seen = seen_of(f, model, length, way, rank, shown[i]);
            const rs_awaited other = {one.mean, one.error / sqrt(DRAWN)};
            seen.error = one.error / sqrt(f->networks);
            snprintf(text, sizeof text, "%s, %d tokens, %s: stable rank of %s, layer %d",
                     models[model], (int)lengths[length], ways[way], rank ? "XX'" : "X", shown[i]);
            RS_TRY(rs_lab_seen_published(report, text, printed(model, length, way, rank, shown[i]),
                                         other, seen, err));
        }
    return RS_OK;
}

static rs_status claim_orders(rs_lab_report *report, const found *f, int model, rs_error *err)
{
    char text[160];
    for (int t = 0; t < lengths_of(f, model); t++) {
        rs_seen plain = seen_of(f, model, t, 0, 1, LAYERS);
        rs_seen fixed = seen_of(f, model, t, 1, 1, LAYERS);
        snprintf(text, sizeof text, "%s, %d tokens: gap removed leaves a larger rank, by",
                 models[model], (int)lengths[t]);
        RS_TRY(rs_lab_order(report, text, fixed.mean - plain.mean, hypot(fixed.error, plain.error),
                            err));
    }
    rs_seen first = seen_of(f, model, 0, 0, 1, 1), last = seen_of(f, model, 0, 0, 1, LAYERS);
    snprintf(text, sizeof text, "%s, 64 tokens: rank of XX' falls from layer 1 to 12, by",
             models[model]);
    return rs_lab_order(report, text, first.mean - last.mean, hypot(first.error, last.error), err);
}

static rs_status write_up(rs_lab_report *report, const found *f, rs_error *err)
{
    RS_TRY(draw(report, f, err));
    for (int model = 0; model < f->n_models; model++) {
        for (int t = 0; t < f->n_lengths; t += 2)
            for (int way = 0; way < WAYS; way++)
                RS_TRY(claim_ranks(report, f, model, t, way, err));
        RS_TRY(claim_orders(report, f, model, err));
    }
    return RS_OK;
}

static rs_status run_gap_bert_init(rs_lab_report *report, const rs_lab_options *options,
                                   const rs_context *context, rs_error *err)
{
    found *f = rs_calloc(1, sizeof *f);
    if (!f) return rs_fail_memory(err, "ranks", sizeof *f);
    f->networks = options->quick ? QUICK_NETWORKS : NETWORKS;
    f->n_lengths = options->quick ? QUICK_LENGTHS : LENGTHS;
    f->n_models = options->quick ? 1 : MODELS;
    rs_status status = run_all(f, context, err);
    if (status == RS_OK) status = write_up(report, f, err);
    rs_free(f);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "2 networks of BERT's shape with 64 tokens alone", err);
}

const rs_lab_experiment rs_lab_gap_bert_init = {
    "gap-bert-init",
    "Stable rank of BERT at its random start",
    "Nait Saada et al. 2025, models at initialisation",
    "BERT-base and RoBERTa-base with random weights, 64 to 512 tokens by Zipf's law: stable ranks "
    "of X and of XXᵀ by layer, as they are and with 11ᵀ/T taken away from attention. Nait Saada, "
    "Naderi, Tanner, ICML 2025 (arXiv 2410.07799).",
    run_gap_bert_init,
    "50 s",
    "4 s",
    &table_kind,
    0};
