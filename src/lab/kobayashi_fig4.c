/*
 * kobayashi_fig4.c: figure 4 of Kobayashi, Akram, von Oswald (NeurIPS 2024, arXiv 2410.23819): in LLaMA 2
 * rows of W_Q and W_K, of W_V and columns of P have equal norms, and the heads' nuclear norms equal
 * H = (|A|^2 + |B|^2)/2. Of any checkpoint, beside what random factors of its shapes have: nuclear norms of
 * 1 - r/(4d) of H already, norms that differ by 2 sqrt(2/(pi d)). Under rotary positions the theory says
 * nothing of W_K'W_Q, only of planes (docs/theory/weight_decay.md, 8 and 10).
 */
#include "lab/toy.h"
#include "lab/training.h"

#include "base/memory.h"
#include "linalg/spectrum.h"
#include "network/saved.h"
#include "scan/heads.h"
#include "scan/scan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a head ---- */

/* A head's row of table kobayashi_fig4_heads; of grouped queries a group's. */
typedef struct head_cells {
    const char *product;
    int32_t layer, head;
    double ratio, ratio_null;   /* nuclear norm over H, and of random factors */
    double balance;             /* the score beta */
    double norms, norms_null;   /* mean relative difference of squared norms */
    double planes, planes_null; /* sum_j |q_j||k_j| over H; NaN without RoPE */
} head_cells;

static const rs_column head_columns[] = {
    RS_COLUMN(head_cells, layer, "layer", "layer", NULL, "from 0", NULL),
    RS_COLUMN(head_cells, head, "head", "head", NULL, "from 0; of grouped queries the group", NULL),
    RS_COLUMN(head_cells, product, "product", "product", NULL, "qk or ov", NULL),
    RS_COLUMN(head_cells, ratio, "nuclear_ratio", "nuclear norm over H", NULL,
              "|A B'|_* / ((|A|^2 + |B|^2)/2)", "measured"),
    RS_COLUMN(head_cells, ratio_null, "nuclear_ratio_null", "the same by chance", NULL,
              "of random Gaussian factors of this shape", "predicted"),
    RS_COLUMN(head_cells, balance, "balance_score", "balance score", NULL,
              "1 when A'A = B'B, 0 for a random rotation of one against the other", "measured"),
    RS_COLUMN(head_cells, norms, "norm_difference", "difference of squared norms", NULL,
              "mean over head units of | |a_k|^2 - |b_k|^2 | over their mean", "measured"),
    RS_COLUMN(head_cells, norms_null, "norm_difference_null", "the same by chance", NULL,
              "of Gaussian vectors of rows and of cols entries; 2 sqrt(2/(pi d)) where both are d",
              "predicted"),
    RS_COLUMN(head_cells, planes, "plane_ratio", "planes over H", NULL,
              "sum_j |q_j||k_j| over H; null without rotary positions", "measured"),
    RS_COLUMN(head_cells, planes_null, "plane_ratio_null", "the same by chance", NULL,
              "of Gaussian ones; 1 - 1/(4d) where rows and cols are d", "predicted"),
};
const rs_table_kind rs_lab_kobayashi_heads_kind = {
    "lab", "kobayashi_fig4_heads", {RS_PART(head_columns)}};

/* Mean relative difference of squared norms. */
static double difference(const double *a, const double *b, int64_t r)
{
    double sum = 0;
    for (int64_t k = 0; k < r; k++)
        sum += a[k] + b[k] > 0 ? 2 * fabs(a[k] - b[k]) / (a[k] + b[k]) : 0;
    return sum / (double)r;
}

/* Squared norms of Gaussian vectors of m and n entries: their relative difference is about normal, of
 * mean 2(m - n)/(m + n) and variance 2/m + 2/n; this is the mean of its size. */
static double difference_null(double m, double n)
{
    double mean = 2 * (m - n) / (m + n), spread = sqrt(2 / m + 2 / n), z = mean / spread;
    return spread * sqrt(2 / acos(-1)) * exp(-z * z / 2) + mean * erf(z / sqrt(2));
}

/* The same of a plane: sqrt(x y)/((x + y)/2), x and y of 2m and 2n entries. */
static double plane_null(double m, double n)
{
    return 2 * sqrt(m * n) / (m + n) * (1 - (1 / m + 1 / n) / 8);
}

/* sum_j |q_j||k_j| over the planes' own H. */
static double plane_ratio(const rs_head *head)
{
    const rs_product *p = head->product;
    const rs_rope_pairing at = rs_rope_pairs(p->rope, p->rope_dims);
    double sum = 0, half = 0;
    for (int64_t j = 0; j < p->rope_dims / 2; j++) {
        int64_t first = at.step * j, second = first + at.gap;
        double q = head->norms_a[first] + head->norms_a[second],
               k = head->norms_b[first] + head->norms_b[second];
        sum += sqrt(q) * sqrt(k);
        half += (q + k) / 2;
    }
    return sum / half;
}

static head_cells cells_of(const rs_head *h)
{
    const rs_product *p = h->product;
    const rs_scan_keys keys = rs_scan_keys_of(p, h->stacked ? p->kv_head : p->head);
    bool rope = p->kind == RS_PRODUCT_QK && p->rope_dims > 0;
    return (head_cells){
        .product = keys.product,
        .layer = keys.layer,
        .head = keys.head,
        .ratio = 1 - h->nuclear_excess,
        .ratio_null = h->null ? h->null->nuclear_ratio : (double)NAN,
        .balance = h->pair.balance_score,
        .norms = difference(h->norms_a, h->norms_b, h->inner),
        .norms_null = difference_null((double)h->rows, (double)h->cols),
        .planes = rope ? plane_ratio(h) : (double)NAN,
        .planes_null = rope ? plane_null((double)h->rows, (double)h->cols) : (double)NAN,
    };
}

/* ---- a model ---- */

/* A model's heads of one product. */
typedef struct kind_seen {
    int n;
    bool rope;
    double *ratio, *above, *nearer, *balance, *planes, *width; /* [n] each */
} kind_seen;

typedef struct seen {
    const char *missing; /* why nothing is judged, or NULL */
    kind_seen of[2];     /* qk, ov */
} seen;

static const char *const kind_names[2] = {"query-key", "value-output"};

static void free_seen(seen *s)
{
    for (int k = 0; k < 2; k++)
        rs_free(s->of[k].ratio);
}

static void add_head(kind_seen *k, const head_cells *cells, const rs_head *head)
{
    int i = k->n++;
    k->rope = k->rope || !isnan(cells->planes);
    k->ratio[i] = cells->ratio;
    k->above[i] = cells->ratio - cells->ratio_null;
    k->nearer[i] = cells->norms_null - cells->norms;
    k->balance[i] = cells->balance;
    k->planes[i] = cells->planes - cells->planes_null;
    k->width[i] = 2 * (double)head->inner / (double)(head->rows + head->cols);
}

static rs_status see_heads(seen *s, rs_table *table, const rs_heads *heads, rs_error *err)
{
    bool grouped = heads->n_groups > 0; /* the theory is about the whole group */
    const rs_head *items = grouped ? heads->groups : heads->items;
    size_t n = grouped ? heads->n_groups : heads->n;
    for (int k = 0; k < 2; k++) {
        double *room = rs_calloc(6 * (n + 1), sizeof *room);
        if (!room) return rs_fail_memory(err, "heads", 6 * n * sizeof *room);
        s->of[k] = (kind_seen){.ratio = room,
                               .above = room + n,
                               .nearer = room + 2 * n,
                               .balance = room + 3 * n,
                               .planes = room + 4 * n,
                               .width = room + 5 * n};
    }
    for (size_t i = 0; i < n; i++) {
        rs_product_kind kind = items[i].product->kind;
        if (!items[i].sigma || (kind != RS_PRODUCT_QK && kind != RS_PRODUCT_OV)) continue;
        const head_cells cells = cells_of(&items[i]);
        add_head(&s->of[kind == RS_PRODUCT_OV], &cells, &items[i]);
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status see_checkpoint(seen *s, rs_table *table, const rs_checkpoint *checkpoint,
                                const rs_context *context, rs_error *err)
{
    rs_model *model;
    rs_heads *heads = NULL;
    rs_scan_options options;
    rs_scan_defaults(&options);
    RS_TRY(rs_checkpoint_model(&model, checkpoint, NULL, NULL, err));
    rs_status status = rs_heads_measure(&heads, model, &options.heads, context, err);
    if (status == RS_OK) status = see_heads(s, table, heads, err);
    if (heads) rs_heads_free(heads);
    rs_model_close(model);
    return status;
}

static rs_status see_model(seen *s, rs_lab_report *report, const rs_lab_model *model,
                           const rs_context *context, rs_error *err)
{
    rs_table *table = NULL;
    rs_checkpoint *checkpoint;
    const rs_checkpoint_options how = {0};
    RS_TRY(rs_result_add_table(report->result, rs_lab_kobayashi_heads_kind.name, "Balance of heads",
                               "Each head beside random factors of its shape.", head_columns,
                               sizeof head_columns / sizeof *head_columns, &table, err));
    RS_TRY(rs_checkpoint_open(&checkpoint, model->path, &how, err));
    rs_status status = see_checkpoint(s, table, checkpoint, context, err);
    rs_checkpoint_close(checkpoint);
    return status;
}

/* ---- claims about a model ---- */

enum { RATIO, ABOVE, NEARER, BALANCE, CLAIMS };
static const char *const texts[CLAIMS] = {
    "trained, %s: nuclear norm over H, mean of heads",
    "trained, %s: that is above random factors', by",
    "trained, %s: squared norms nearer than random ones', by",
    "trained, %s: balance score above 0, by",
};

static const char *why_not(const seen *s, int kind, int claim)
{
    if (s->missing) return s->missing;
    if (s->of[kind].n == 0) return "the model has no such heads";
    bool rotated = s->of[kind].rope && claim != NEARER; /* the figure's norms are of rows */
    return rotated ? "rotary positions: decay balances planes, not this product" : NULL;
}

static rs_status claim_model(rs_lab_report *report, const seen *s, int kind, int claim,
                             rs_error *err)
{
    const kind_seen *k = &s->of[kind];
    const char *reason = why_not(s, kind, claim);
    const double *values[CLAIMS] = {k->ratio, k->above, k->nearer, k->balance};
    char text[120];
    snprintf(text, sizeof text, texts[claim], kind_names[kind]);
    rs_lab_claim is = {text, claim == RATIO ? 1 : (double)NAN,    NAN,
                       NAN,  claim == RATIO ? 0.02 : (double)NAN, false,
                       false};
    if (reason) return rs_lab_skip_claim(report, &is, reason, err);
    const rs_lab_spread spread = rs_lab_spread_of(values[claim], k->n);
    is.measured = spread.mean;
    return claim == RATIO
               ? rs_lab_add_claim(report, &is, err)
               : rs_lab_order_published(report, text, spread.mean, rs_lab_order_error(spread), err);
}

static rs_status claim_planes(rs_lab_report *report, const seen *s, rs_error *err)
{
    static const char text[] = "trained, RoPE: sum of planes over H above random planes', by";
    const rs_lab_claim is = {text, NAN, NAN, NAN, NAN, false, false};
    const kind_seen *k = &s->of[0];
    if (s->missing || !k->rope)
        return rs_lab_skip_claim(report, &is, s->missing ? s->missing : "no rotary positions", err);
    const rs_lab_spread spread = rs_lab_spread_of(k->planes, k->n);
    return rs_lab_order_published(report, text, spread.mean, rs_lab_order_error(spread), err);
}

static rs_status claim_models(rs_lab_report *report, const seen *s, rs_error *err)
{
    for (int kind = 1; kind >= 0; kind--)
        for (int claim = 0; claim < CLAIMS; claim++)
            RS_TRY(claim_model(report, s, kind, claim, err));
    return claim_planes(report, s, err);
}

/* ---- random factors: the null line ---- */

enum { SHAPES = 3, POINTS = 7, DRAWS = 8, QUICK_DRAWS = 3 };
/* tests/oracle/lab_weight_decay.py: means and standard deviations over its draws; 1 - r/(4d) is the limit
 * of small r/d. */
static const struct {
    int64_t d, r;
    double ratio, deviation, draws;
} shapes[SHAPES] = {{64, 32, 0.870838, 0.00763, 400},
                    {1024, 64, 0.984080, 4.97e-4, 60},
                    {4096, 128, 0.992104, 1.48e-4, 12}};

typedef struct random_seen {
    double ratio, norms, balance;
} random_seen;

static rs_status see_random(random_seen *out, int64_t d, int64_t r, rs_random *random,
                            rs_error *err)
{
    size_t factor = (size_t)(d * r), gram = (size_t)(r * r);
    double *room = rs_calloc(2 * factor + 2 * gram + 3 * (size_t)r, sizeof *room);
    if (!room) return rs_fail_memory(err, "random factors", factor * sizeof *room);
    double *a = room, *b = a + factor, *x = b + factor, *y = x + gram, *sigma = y + gram,
           *norms = sigma + r, nuclear = 0;
    rs_gram_pair pair;
    rs_draw_gaussian(a, d * r, 1, random);
    rs_draw_gaussian(b, d * r, 1, random);
    rs_gram_add_cols(x, a, d, r, r);
    rs_gram_add_cols(y, b, d, r, r);
    rs_gram_symmetrise(x, r);
    rs_gram_symmetrise(y, r);
    rs_gram_compare(&pair, x, y, r);
    for (int64_t k = 0; k < r; k++) {
        norms[k] = x[k * r + k];
        norms[r + k] = y[k * r + k];
    }
    rs_status status = rs_factor_spectrum(sigma, a, d, b, d, r, err);
    for (int64_t k = 0; k < r && status == RS_OK; k++)
        nuclear += sigma[k];
    *out = (random_seen){nuclear / pair.half_norm, difference(norms, norms + r, r),
                         pair.balance_score};
    rs_free(room);
    return status;
}

static rs_status claim_shape(rs_lab_report *report, int i, int draws, const rs_context *context,
                             rs_error *err)
{
    double ratio[DRAWS], norms[DRAWS], balance[DRAWS];
    int64_t d = shapes[i].d, r = shapes[i].r;
    char text[120];
    for (int draw = 0; draw < draws; draw++) {
        rs_random random = rs_random_new(context->seed, 0x66696734u + (uint64_t)(draw + 100 * i));
        random_seen s;
        RS_TRY(rs_check_cancelled(context, err));
        RS_TRY(see_random(&s, d, r, &random, err));
        ratio[draw] = s.ratio, norms[draw] = s.norms, balance[draw] = s.balance;
    }
    snprintf(text, sizeof text, "random factors %d by %d: nuclear norm over H", (int)d, (int)r);
    RS_TRY(rs_lab_expect(report, text, shapes[i].ratio, rs_lab_spread_of(ratio, draws).mean,
                         5 * shapes[i].deviation * sqrt(1.0 / draws + 1 / shapes[i].draws), err));
    /* each of r differences has a relative deviation of sqrt(pi/2 - 1); five standard errors, and the
     * second order in 1/d */
    const double null = difference_null((double)d, (double)d),
                 error =
                     null * (5 * sqrt((acos(-1) / 2 - 1) / (double)(r * draws)) + 1 / (double)d);
    snprintf(text, sizeof text, "random factors %d by %d: difference of squared norms", (int)d,
             (int)r);
    RS_TRY(rs_lab_expect(report, text, null, rs_lab_spread_of(norms, draws).mean, error, err));
    /* which is a ratio of sums of about r^2/2 squares */
    snprintf(text, sizeof text, "random factors %d by %d: 1 less balance score", (int)d, (int)r);
    return rs_lab_expect(report, text, 1, 1 - rs_lab_spread_of(balance, draws).mean,
                         10 / ((double)r * sqrt(draws)), err);
}

/* ---- the figure ---- */

static const rs_column point_columns[] =
    RS_LAB_POINTS(RS_LAB_X("width", "head width over features", "r/d"),
                  RS_LAB_Y("nuclear_ratio", "nuclear norm over H",
                           "|A B'|_* / ((|A|^2 + |B|^2)/2), mean over heads or draws"));
static const rs_table_kind table_kind = {"lab", "kobayashi_fig4", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Nuclear norms of heads beside random ones",
    .about =
        "The nuclear norm of a head's product over half its factors' squared norms, which "
        "weight decay brings to 1: what random factors have by the head's width, and the model's "
        "heads where one was named.",
};

static rs_status draw_random(rs_table *table, const rs_context *context, rs_error *err)
{
    enum { FEATURES = 256, NARROWEST = 2 };
    for (int k = 0; k < POINTS; k++) {
        int64_t r = NARROWEST << k;
        random_seen is;
        rs_random random = rs_random_new(context->seed, 0x6c696e65u + (uint64_t)k);
        RS_TRY(see_random(&is, FEATURES, r, &random, err));
        RS_TRY(rs_lab_curves_add(table, "random factors", (double)r / FEATURES, is.ratio, err));
    }
    for (int k = 0; k < POINTS; k++) {
        double width = (double)(NARROWEST << k) / FEATURES;
        RS_TRY(rs_lab_curves_compute(table, "1 - r/(4d)", width, 1 - width / 4, err));
    }
    return RS_OK;
}

static rs_status draw_figure(rs_lab_report *report, const seen *s, const rs_context *context,
                             rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    RS_TRY(draw_random(table, context, err));
    for (int kind = 0; kind < 2; kind++) {
        const kind_seen *k = &s->of[kind];
        if (k->n > 0)
            RS_TRY(rs_lab_curves_add(table, kind_names[kind], rs_lab_spread_of(k->width, k->n).mean,
                                     rs_lab_spread_of(k->ratio, k->n).mean, err));
    }
    return RS_OK;
}

static rs_status run_kobayashi_fig4(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    seen s = {0};
    const rs_lab_model *model = options->model;
    rs_status status = rs_check_cancelled(context, err);
    if (!model || !model->trained)
        s.missing = "random weights";
    else if (status == RS_OK)
        status = see_model(&s, report, model, context, err);
    if (status == RS_OK) status = draw_figure(report, &s, context, err);
    if (status == RS_OK) status = claim_models(report, &s, err);
    free_seen(&s);
    const int shown = options->quick ? SHAPES - 1 : SHAPES,
              draws = options->quick ? QUICK_DRAWS : DRAWS;
    for (int i = 0; i < shown && status == RS_OK; i++)
        status = claim_shape(report, i, draws, context, err);
    if (status != RS_OK || !options->quick) return status;
    return rs_lab_say_quick(report, "2 shapes of random factors instead of 3, 3 draws instead of 8",
                            err);
}

const rs_lab_experiment rs_lab_kobayashi_fig4 = {
    "kobayashi-fig4",
    "Nuclear norms of trained heads, and by chance",
    "Kobayashi et al. 2024, figure 4",
    "Of a checkpoint that --model names: nuclear norms of head products over half their factors' "
    "squared norms, norms of their vectors, balance, each beside random factors of its shape, "
    "under "
    "grouped queries of the group, with rotary positions by planes. Without a model random factors "
    "alone. After Kobayashi, Akram, von Oswald, NeurIPS 2024 (arXiv 2410.23819).",
    run_kobayashi_fig4,
    "2 s",
    "< 1 s",
    &table_kind,
    1};
