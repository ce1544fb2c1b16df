/*
 * dong_paths.c: the path decomposition of Dong, Cordonnier, Loukas (ICML 2021, arXiv 2103.03404):
 * the identity on random networks, how many paths there are of each length, the toy model of path
 * strength in the repository's plot.py, and the notebook's products of attention matrices along
 * random paths, on a BERT-base with random weights. Pretrained weights and trained models are not
 * here: what is published about those is not measured again.
 */
#include "lab/lab.h"
#include "lab/random_bert.h"

#include "base/json_parse.h"
#include "base/memory.h"
#include "base/random.h"
#include "linalg/blas.h"
#include "observe/measure.h"
#include "paths/paths.h"
#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LAYERS = 12,
    HEADS = 12,
    TOKENS = RS_LAB_BERT_TOKENS,
    PATHS = 100,
    QUICK_PATHS = 20,
    STREAM = 0xd0a7
};
/* P^k ... P^1, and P^1 ... P^k, as the notebook multiplies. */
enum { DECOMPOSITION, NOTEBOOK, ORDERS };

static rs_status claim(rs_lab_report *report, const char *text, double published, double expected,
                       double measured, double tolerance, bool at_most, rs_error *err)
{
    const rs_lab_claim c = {text, published, expected, measured, tolerance, at_most, false};
    return rs_lab_add_claim(report, &c, err);
}

static rs_status compute(rs_lab_report *report, const char *text, double published, double expected,
                         double computed, double tolerance, rs_error *err)
{
    const rs_lab_claim c = {text, published, expected, computed, tolerance, false, true};
    return rs_lab_add_claim(report, &c, err);
}

/* ---- the identity (docs/theory/collapse.md, 12; corrections.md, 19) ---- */

/* With and without skips, norms, MLPs, masks and grouped queries; the first two are the paper's. */
static const char *const networks[] = {
    "{\"depth\": 6, \"d_model\": 24, \"heads\": 3, \"d_head\": 8, \"norm\": \"none\", \"mlp\": "
    "\"none\", \"skip_mixer\": 0}",
    "{\"depth\": 6, \"d_model\": 24, \"heads\": 3, \"d_head\": 8, \"norm\": \"none\", \"mlp\": "
    "\"none\"}",
    "{\"depth\": 6, \"d_model\": 24, \"heads\": 3, \"d_head\": 8, \"norm\": \"post\", \"mlp\": "
    "\"gelu\", \"mlp_width\": 48}",
    "{\"depth\": 12, \"d_model\": 24, \"heads\": 4, \"d_head\": 6, \"kv_heads\": 2, \"norm\": "
    "\"pre\", \"norm_kind\": \"rmsnorm\", \"mask\": \"causal\", \"positions\": \"rope\", \"mlp\": "
    "\"swiglu\", \"mlp_width\": 48}",
    "{\"depth\": 12, \"d_model\": 24, \"heads\": 2, \"d_head\": 12, \"norm\": \"sandwich\", "
    "\"mlp\": \"relu\", \"mlp_width\": 48, \"skip_mixer\": 0.7, \"branch_mixer\": \"1/sqrt(L)\"}"};

static rs_status sum_network(double *error, const rs_network *network, uint64_t seed,
                             const rs_context *context, rs_error *err)
{
    enum { N = 10, MOST_WIDTH = 24 };
    double states[N * MOST_WIDTH];
    int64_t begin[] = {0, N};
    rs_random random = rs_random_new(seed, STREAM);
    rs_weights *weights = NULL;
    rs_path_plan *plan = NULL;
    rs_path_sums *sums = NULL;
    for (int i = 0; i < N * MOST_WIDTH; i++)
        states[i] = rs_random_normal(&random);
    const rs_batch batch = {.samples = 1, .begin = begin, .states = states};
    rs_status status = rs_weights_open(&weights, RS_PRECISION_F64, UINT64_MAX, err);
    if (status == RS_OK) status = rs_path_plan_open(&plan, network, -1, err);
    if (status == RS_OK)
        status = rs_path_sums_of(&sums, network, weights, &batch, plan, NULL, false, context, err);
    if (status == RS_OK) *error = fmax(*error, sums->identity.output_error);
    rs_path_sums_close(sums);
    rs_path_plan_close(plan);
    rs_weights_close(weights);
    return status;
}

static rs_status draw_and_sum(double *error, const char *text, uint64_t seed,
                              const rs_context *context, rs_error *err)
{
    rs_init *init = NULL;
    rs_network *network = NULL;
    json_t *arch = rs_json_parse(text, strlen(text), 0, NULL);
    if (!arch) return rs_fail_memory(err, "an architecture", 1);
    rs_status status = rs_init_open(&init, NULL, seed, err);
    if (status == RS_OK) status = rs_network_from_arch(&network, arch, "dong-paths", init, err);
    if (status == RS_OK) status = sum_network(error, network, seed, context, err);
    rs_network_close(network);
    rs_init_close(init);
    json_decref(arch);
    return status;
}

static rs_status identity(rs_lab_report *report, const rs_context *context, rs_error *err)
{
    enum { SEEDS = 20 };
    double worst = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
            RS_TRY(rs_check_cancelled(context, err));
            RS_TRY(draw_and_sum(&worst, networks[i], context->seed + (seed << 32), context, err));
        }
    return claim(report,
                 "output = sum of P_path X W_path and sources: worst relative error of 100 random "
                 "networks",
                 NAN, NAN, worst, 1e-13, true, err);
}

/* ---- counts (3.2) ---- */

static const struct {
    const char *name;
    int32_t heads, layers;
    double mean, log10_share; /* mean length; share of paths of at most half of the layers */
} models[] = {
    {"DistilBERT", 12, 6, 72.0 / 13, -2.1178949134},
    {"MobileBERT", 4, 12, 48.0 / 5, -1.7120801036},
    {"BERT-base", 12, 12, 144.0 / 13, -3.8950351355},
    {"BERT-large", 16, 24, 384.0 / 17, -8.6237314111},
    {"ViT-H", 16, 32, 512.0 / 17, -11.3033746627},
    {"T5-3B", 32, 24, 768.0 / 33, -11.9378474282},
    {"T5-11B", 128, 24, 3072.0 / 129, -18.9324617903},
    {"GPT-3", 96, 96, 9216.0 / 97, -67.7680617515},
    {"DeiT-T", 3, 12, 9, -1.2643832805},
};

static rs_status plan_of_shape(rs_path_plan **plan, int32_t heads, int32_t layers, rs_error *err)
{
    rs_layer *list = rs_calloc((size_t)layers, sizeof *list);
    if (!list) return rs_fail_memory(err, "layers", (size_t)layers * sizeof *list);
    for (int32_t l = 0; l < layers; l++) {
        list[l].n_branches = 1;
        list[l].branches[0] = (rs_branch){.kind = RS_BRANCH_ATTENTION,
                                          .skip = 1,
                                          .scale = 1,
                                          .attention = {.heads = heads, .kv_heads = heads}};
    }
    const rs_network shape = {.family = "shape", .layers = list, .n_layers = layers};
    rs_status status = rs_path_plan_open(plan, &shape, -1, err);
    rs_free(list);
    return status;
}

static rs_status count_model(rs_lab_report *report, size_t i, rs_error *err)
{
    rs_path_plan *plan;
    double mean = 0, share = -INFINITY;
    char text[160];
    RS_TRY(plan_of_shape(&plan, models[i].heads, models[i].layers, err));
    for (int32_t k = 0; k <= plan->longest; k++) {
        double log_part = plan->log_count[k] - plan->log_total;
        mean += k * exp(log_part);
        if (2 * k > models[i].layers) continue;
        double high = fmax(share, log_part), low = fmin(share, log_part);
        share = high + log1p(exp(low - high));
    }
    rs_path_plan_close(plan);
    snprintf(text, sizeof text, "%s (%d heads, %d layers): mean length of a path", models[i].name,
             (int)models[i].heads, (int)models[i].layers);
    RS_TRY(compute(report, text, NAN, models[i].mean, mean, 1e-10 * models[i].mean, err));
    snprintf(text, sizeof text, "%s: log10 of the share of paths of at most half its layers",
             models[i].name);
    return compute(report, text, NAN, models[i].log10_share, share / log(10), 1e-9, err);
}

static rs_status counts(rs_lab_report *report, rs_error *err)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        RS_TRY(count_model(report, i, err));
    return RS_OK;
}

/* ---- the toy model of path strength (docs/theory/collapse.md, 12) ---- */

static rs_status strengths(rs_lab_report *report, rs_error *err)
{
    enum { L = 6 };
    static const double alpha[L] = {0.9014, 0.9049, 0.9074, 0.8888, 0.8564, 0.7784};
    static const double printed[L + 1] = {175.4, 142.5, 38.3, 3.00, 0.0229, 5e-7, 9e-19};
    /* The same sum over all 2^6 subsets of layers, in Python. */
    static const double expected[L + 1] = {
        175.41246033821173,  142.48330216623123,    38.312852093457565,   2.998534427533562,
        0.02292844748501794, 5.169692914989178e-07, 8.579803489901898e-19};
    /* Half a unit of the last printed digit. */
    static const double digit[L + 1] = {0.05, 0.05, 0.05, 0.005, 5e-5, 5e-8, 5e-20};
    double strength[L + 2] = {1};
    for (int l = 0; l < L; l++)
        for (int k = l + 1; k >= 0; k--)
            strength[k] = alpha[l] * strength[k] + (k > 0 ? (1 - alpha[l]) * strength[k - 1] : 0);
    for (int k = 0; k <= L; k++) {
        char text[120];
        double value = strength[k] * 400 / pow(1.0491046, pow(3, k) - 1);
        snprintf(text, sizeof text, "toy model of path strength (plot.py): length %d", k);
        RS_TRY(compute(report, text, printed[k], expected[k], value, digit[k], err));
    }
    return RS_OK;
}

/* ---- products of attention matrices (docs/theory/collapse.md, 12) ---- */

typedef struct products {
    double *p;        /* [LAYERS][HEADS][TOKENS*TOKENS] */
    double *distance; /* [ORDERS][LAYERS][paths] */
    int paths;
} products;

static rs_status keep(void *user, const rs_attention_view *view, rs_error *err)
{
    products *all = user;
    const double *from = view->mixing;
    double *to = all->p + (view->layer * HEADS + view->head) * TOKENS * TOKENS;
    (void)err;
    for (int64_t i = 0; i < TOKENS; i++)
        memcpy(to + i * TOKENS, from + i * view->ld, TOKENS * sizeof *to);
    return RS_OK;
}

/* A path of that length: random layers in order, a random head in each. */
static void draw_path(int *matrix, int length, rs_random *random)
{
    int n = 0;
    for (int l = 0; l < LAYERS; l++) {
        double take = (double)(length - n) / (double)(LAYERS - l);
        int head = (int)(rs_random_uniform(random) * HEADS);
        if (rs_random_uniform(random) < take) matrix[n++] = l * HEADS + head;
    }
}

static void multiply(double *out, const double *a, const double *b)
{
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, TOKENS, TOKENS, TOKENS, 1, a, TOKENS, b,
                TOKENS, 0, out, TOKENS);
}

static rs_status one_path(products *all, int length, int path, uint64_t seed, rs_error *err)
{
    enum { SIZE = TOKENS * TOKENS };
    int matrix[LAYERS] = {0};
    rs_random random =
        rs_random_new(seed, (uint64_t)STREAM << 32 ^ (uint64_t)(length * 1000 + path));
    double *room = rs_malloc(2, SIZE * sizeof *room);
    if (!room) return rs_fail_memory(err, "products", 2 * SIZE * sizeof *room);
    rs_status status = RS_OK;
    draw_path(matrix, length, &random);
    for (int order = 0; order < ORDERS && status == RS_OK; order++) {
        double *product = room, *next = room + SIZE, *swap;
        rs_rank1_distance distance = {NAN, NAN};
        memcpy(product, all->p + matrix[0] * SIZE, SIZE * sizeof *product);
        for (int i = 1; i < length; i++) {
            const double *p = all->p + matrix[i] * SIZE;
            multiply(next, order == NOTEBOOK ? product : p, order == NOTEBOOK ? p : product);
            swap = product, product = next, next = swap;
        }
        status = rs_rank1_distance_of(&distance, product, TOKENS, err);
        all->distance[(order * LAYERS + length - 1) * all->paths + path] = distance.composite;
    }
    rs_free(room);
    return status;
}

static rs_status all_paths(products *all, const rs_context *context, rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    for (int length = 1; length <= LAYERS; length++) {
        rs_progress(context, "dong-paths", (uint64_t)length, LAYERS, "lengths");
        RS_TRY(rs_check_cancelled(context, err));
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
        for (int path = 0; path < all->paths; path++) {
            rs_error own;
            rs_status made = one_path(all, length, path, context->seed, &own);
            if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
        }
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

static rs_status run_bert(products *all, rs_lab_bert *bert, const rs_context *context,
                          rs_error *err)
{
    const rs_batch batch = {.samples = 1, .begin = bert->begin, .ids = bert->ids};
    const rs_tap tap = {.user = all, .attention = keep};
    rs_weights *weights = NULL;
    RS_TRY(rs_weights_open(&weights, RS_PRECISION_F64, rs_weight_limit(context), err));
    rs_status status = rs_observe_batch(bert->network, weights, &batch, &tap, context, err);
    rs_weights_close(weights);
    return status;
}

static rs_status draw_bert(products *all, const rs_context *context, rs_error *err)
{
    rs_lab_bert bert;
    RS_TRY(rs_lab_bert_open(&bert, LAYERS, context->seed, context, err));
    rs_status status = run_bert(all, &bert, context, err);
    rs_lab_bert_close(&bert);
    return status;
}

/* ---- what came out ---- */

/* Medians read by eye from the notebook's boxes; beyond three matrices the boxes at initialisation
 * are float32 rounding. */
static const double published_init[LAYERS] = {1.6e-1, 3e-3,   6e-5,   1.5e-6, 1.5e-6, 1.5e-6,
                                              1.5e-6, 1.5e-6, 1.5e-6, 1.5e-6, 1.5e-6, 1.5e-6};
static const double published_trained[LAYERS] = {4e-1, 1.9e-1, 8e-2, 4e-2, 2e-2,   1e-2,
                                                 5e-3, 2e-3,   6e-4, 3e-4, 1.3e-4, 5e-5};

/* A row of table dong_paths. */
typedef struct path_cells {
    const char *order;
    int32_t length;
    rs_spread of;
    double published_init, published_trained;
} path_cells;

static const rs_column path_columns[] = {
    RS_COLUMN(path_cells, order, "order", "order", NULL,
              "decomposition: P^k ... P^1; notebook: P^1 ... P^k", NULL),
    RS_COLUMN(path_cells, length, "length", "matrices", NULL, "attention matrices in the product",
              NULL),
    RS_COLUMN(path_cells, of.median, "median", "median", NULL,
              "|P - SVD_1(P)| / |P| in the composite norm, over random paths", "measured"),
    RS_COLUMN(path_cells, of.min, "min", "least", NULL, "over random paths", "measured"),
    RS_COLUMN(path_cells, of.max, "max", "largest", NULL, "over random paths", "measured"),
    RS_COLUMN(
        path_cells, published_init, "published_init", "published, at initialisation", NULL,
        "median of the notebook's box, read by eye from the figure; from 4 on float32 rounding",
        "published"),
    RS_COLUMN(path_cells, published_trained, "published_pretrained", "published, pretrained", NULL,
              "median of the notebook's box, read by eye from the figure; not measured here",
              "published"),
};
static const rs_table_kind table_kind = {"lab", "dong_paths", {RS_PART(path_columns)}};

static rs_status add_table(rs_lab_report *report, rs_spread spreads[ORDERS][LAYERS], rs_error *err)
{
    static const char *const orders[ORDERS] = {"decomposition", "notebook"};
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, "dong_paths", "Attention along random paths",
                               "How far products of attention matrices of a random BERT-base are "
                               "from rank one.",
                               path_columns, sizeof path_columns / sizeof *path_columns, &table,
                               err));
    for (int order = 0; order < ORDERS; order++)
        for (int k = 0; k < LAYERS; k++) {
            bool printed = order == NOTEBOOK;
            const path_cells cells = {orders[order], k + 1, spreads[order][k],
                                      printed ? published_init[k] : (double)NAN,
                                      printed ? published_trained[k] : (double)NAN};
            RS_TRY(rs_table_append(table, &cells, err));
        }
    return RS_OK;
}

static rs_status add_figure(rs_lab_report *report, rs_error *err)
{
    static const char *const keys[] = {"order"};
    const rs_lines lines = {
        .table = "dong_paths",
        .x = {"length", "attention matrices in the product"},
        .y = {"median", "distance from rank one, composite norm"},
        .low = {"min", NULL},
        .high = {"max", NULL},
        .colour = {"order", "order"},
        .more = {{.field = "published_init", .title = "published, by eye", .published = true}},
        .x_whole = true,
        .keys = {keys, 1},
        .log_y = true,
        .y_floor = 1e-17};
    rs_result_show_curve(report->result, &(rs_curve){.table = "dong_paths",
                                                     .title = "Distance from rank one, median",
                                                     .x = "length",
                                                     .x_title = "attention matrices in the product",
                                                     .y = {{.column = "median"}},
                                                     .series = "order",
                                                     .floor = 1e-17});
    return rs_result_add_figure(report->result, "dong_paths",
                                "Long paths average everything: products of attention matrices",
                                "Median over random paths of a random BERT-base; the band reaches "
                                "from the least path to the largest. Dotted, with hollow marks: "
                                "the notebook's medians, read by eye from its figure, from "
                                "four matrices on float32 rounding.",
                                rs_figure_lines(&lines), err);
}

static rs_status claim_products(rs_lab_report *report, rs_spread spreads[ORDERS][LAYERS],
                                rs_error *err)
{
    /* By eye from a logarithmic axis: a third either way. */
    for (int k = 0; k < 3; k++) {
        char text[160];
        snprintf(text, sizeof text,
                 "BERT at random: median distance from rank one, products of %d, notebook's order",
                 k + 1);
        RS_TRY(claim(report, text, published_init[k], NAN, spreads[NOTEBOOK][k].median,
                     published_init[k] / 3, false, err));
    }
    RS_TRY(claim(
        report, "BERT at random: products of 5 are below the notebook's floor of 1.5e-6 in float64",
        published_init[4], NAN, spreads[NOTEBOOK][4].median, 1.5e-6 / 10, true, err));
    double worst = 0;
    for (int k = 0; k < 6; k++)
        worst =
            fmax(worst, fabs(log(spreads[DECOMPOSITION][k].median / spreads[NOTEBOOK][k].median)));
    return claim(report,
                 "the order of the product (P^k ... P^1 or P^1 ... P^k) changes no median by more "
                 "than a factor 2 (lengths 1 to 6)",
                 NAN, NAN, exp(worst), 2, true, err);
}

static rs_status say_left_out(rs_lab_report *report, bool quick, rs_error *err)
{
    char message[400];
    snprintf(message, sizeof message,
             "%s: the pretrained BERT of the notebook is not measured again: it needs pretrained "
             "weights (dong-sorting, dong-convex-hull and dong-memorization train what the paper's "
             "accuracies are of)%s",
             report->experiment, quick ? "; --quick took 20 paths a length instead of 100" : "");
    rs_finding finding = rs_finding_of(RS_INFO, "not_measured");
    finding.message = message;
    finding.hint = "'rankscope paths MODEL --text FILE' measures the decomposition of a trained "
                   "model";
    return rs_result_add_finding(report->result, &finding, err);
}

static rs_status measure_products(rs_lab_report *report, bool quick, const rs_context *context,
                                  rs_error *err)
{
    products all = {.paths = quick ? QUICK_PATHS : PATHS};
    rs_spread spreads[ORDERS][LAYERS];
    all.p = rs_malloc((size_t)LAYERS * HEADS, (size_t)TOKENS * TOKENS * sizeof(double));
    all.distance = rs_calloc((size_t)ORDERS * LAYERS, (size_t)all.paths * sizeof(double));
    rs_status status = all.p && all.distance ? draw_bert(&all, context, err)
                                             : rs_fail_memory(err, "attention matrices", 0);
    if (status == RS_OK) status = all_paths(&all, context, err);
    for (int i = 0; i < ORDERS * LAYERS && status == RS_OK; i++)
        spreads[i / LAYERS][i % LAYERS] = rs_spread_of(all.distance + i * all.paths, all.paths);
    rs_free(all.p);
    rs_free(all.distance);
    RS_TRY(status);
    RS_TRY(add_table(report, spreads, err));
    RS_TRY(add_figure(report, err));
    return claim_products(report, spreads, err);
}

static rs_status run_dong_paths(rs_lab_report *report, const rs_lab_options *options,
                                const rs_context *context, rs_error *err)
{
    RS_TRY(identity(report, context, err));
    RS_TRY(counts(report, err));
    RS_TRY(strengths(report, err));
    RS_TRY(measure_products(report, options->quick, context, err));
    return say_left_out(report, options->quick, err);
}

const rs_lab_experiment rs_lab_dong_paths = {
    "dong-paths",
    "Paths through the heads",
    "Dong et al. 2021, section 2.3",
    "The output as a sum over paths on random networks; how many paths there are of each length in "
    "nine published models; the repository's toy model of path strength; and products of attention "
    "matrices along random paths of a BERT-base with random weights, in both orders of "
    "multiplication. After Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_paths,
    "25 s",
    "25 s",
    &table_kind,
    0};
