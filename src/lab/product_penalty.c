/*
 * product_penalty.c: a penalty on the product in place of decay on the factors. On |A B' - D|^2/2 the penalty
 * (mu/2)|A B'|^2 leaves d/(1 + mu) of each mode, where decay leaves max(d - decay, 0); and without decay
 * flow conserves A'A - B'B. Then both on the attention of a small transformer that learns associative
 * recall (docs/theory/weight_decay.md, 11).
 */
#include "lab/kobayashi_pairs.h"
#include "lab/toy.h"
#include "lab/training.h"
#include "train/optimiser.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- two factors ---- */

enum { M = 7, N = 6, R = 4, DRAWS = 24, QUICK_DRAWS = 12, MOST_STEPS = 200000 };
static const double mu = 1, decay = 1, rate = 0.02, least = 1e-13;

enum { STATIONARY, KEPT, LEAST_KEPT, DECAYED, MORE, CONSERVED, NUMBERS };
static const rs_pair_claim claims[NUMBERS] = {
    [STATIONARY] = {"norm of the gradient where descent ends", NAN, 1e-12},
    [KEPT] = {"penalty 1: singular values off d/(1 + mu)", NAN, 1e-11},
    [LEAST_KEPT] = {"penalty 1: least singular value over the target's", 0.5, 1e-11},
    [DECAYED] = {"decay 1: singular values off max(d - decay, 0)", NAN, 1e-10},
    [MORE] = {"effective rank: the penalty leaves more than decay, by", NAN, NAN},
    [CONSERVED] = {"penalty, flow: A'A - B'B off its start, relative", NAN, 1e-9},
};

/* Adds the trainer's own penalty to a loss of A B'. */
typedef struct penalised {
    rs_matrix_loss loss;
    double mu;
} penalised;

static double run_penalised(double *by_a, double *by_b, const rs_factor_pair *p, const void *user)
{
    const penalised *of = user;
    const rs_pair_loss plain = rs_pair_loss_of(&of->loss);
    double work[2 * RS_PAIR_GRAM], unused_a[RS_PAIR_A] = {0}, unused_b[RS_PAIR_B] = {0};
    const rs_product_factor a = {p->a, by_a ? by_a : unused_a, p->m, p->r, false},
                            b = {p->b, by_b ? by_b : unused_b, p->n, p->r, false};
    return plain.run(by_a, by_b, p, plain.user) +
           rs_product_penalty(&a, &b, p->r, of->mu, RS_PRECISION_F64, work);
}

static double effective_rank(const double *sigma)
{
    double sum = 0, entropy = 0;
    for (int k = 0; k < R; k++)
        sum += sigma[k];
    for (int k = 0; k < R; k++)
        entropy -= sigma[k] > 0 ? sigma[k] / sum * log(sigma[k] / sum) : 0;
    return exp(entropy);
}

/* Descends from p, penalised or with decay, and gives the singular values. */
static rs_status settle(double *sigma, double *numbers, rs_factor_pair p, const rs_pair_loss *loss,
                        double with_decay, rs_error *err)
{
    rs_pair_seen seen;
    rs_keep_worst(&numbers[STATIONARY],
                  rs_pair_descend(&p, loss, with_decay, rate, least, MOST_STEPS));
    RS_TRY(rs_pair_see(&seen, &p, err));
    memcpy(sigma, seen.sigma, R * sizeof *sigma);
    return RS_OK;
}

static double off_conserved(const rs_factor_pair *start, const rs_pair_loss *loss)
{
    static const rs_pair_decay none = {0};
    double q[RS_PAIR_GRAM], first[RS_PAIR_GRAM], off = 0;
    rs_factor_pair p = *start;
    rs_pair_balance(first, &p);
    rs_pair_flow(&p, loss, &none, 0, 2, 5000);
    rs_pair_balance(q, &p);
    for (int i = 0; i < R * R; i++)
        off += pow(q[i] - first[i], 2);
    return sqrt(off) / rs_norm_frobenius(first, R, R);
}

static rs_status see_draw(double *numbers, rs_random *random, rs_error *err)
{
    penalised with = {.loss = {.kind = RS_MATRIX_SQUARE, .m = M, .n = N}, .mu = mu};
    rs_factor_pair p = {.m = M, .n = N, .r = R};
    double u[M * N], d[N], vt[N * N], kept[R], decayed[R];
    rs_draw_gaussian(with.loss.d, M * N, 1, random);
    rs_pair_draw(&p, 0.7, random);
    const rs_pair_loss penalty = {run_penalised, &with}, plain = rs_pair_loss_of(&with.loss);
    RS_TRY(rs_small_svd(u, d, vt, with.loss.d, M, N, err));
    RS_TRY(settle(kept, numbers, p, &penalty, 0, err));
    RS_TRY(settle(decayed, numbers, p, &plain, decay, err));
    for (int k = 0; k < R; k++) {
        rs_keep_worst(&numbers[KEPT], fabs(kept[k] - d[k] / (1 + mu)));
        rs_keep_worst(&numbers[DECAYED], fabs(decayed[k] - fmax(d[k] - decay, 0)));
    }
    numbers[LEAST_KEPT] = kept[R - 1] / d[R - 1];
    numbers[MORE] = effective_rank(kept) - effective_rank(decayed);
    numbers[CONSERVED] = off_conserved(&p, &penalty);
    return RS_OK;
}

/* ---- associative recall ---- */

enum { ARMS = 4, SEEDS = 3, STEPS = 4000, QUICK_STEPS = 100, EVERY = 50, PRODUCTS = 4, HEADS = 2 };
enum { LOGS = STEPS / EVERY + 1, LATE = 1000 };
enum { NOTHING, DECAY, LITTLE, MUCH };
static const struct {
    const char *name;
    double decay, mu;
} arms[ARMS] = {
    {"neither", 0, 0}, {"decay 1", 1, 0}, {"penalty 0.01", 0, 0.01}, {"penalty 0.1", 0, 0.1}};
static const char *const products[PRODUCTS] = {"value-output, layer 1", "query-key, layer 1",
                                               "value-output, layer 2", "query-key, layer 2"};

/* A run; means over heads. */
typedef struct recall {
    int logs;
    double steps[LOGS], accuracy[LOGS], pseudo[PRODUCTS][LOGS];
    double nuclear[LOGS]; /* mean over products, too */
} recall;

typedef struct recalls {
    recall of[SEEDS][ARMS];
    int seeds, steps;
} recalls;

static rs_status learn(recall *r, int arm, int steps, uint64_t seed, const rs_context *context,
                       rs_error *err)
{
    char text[400];
    rs_result *result = NULL;
    snprintf(text, sizeof text,
             "{'task': 'associative-recall', 'steps': %d, 'seed': %llu, 'log_every': %d, "
             "'rank_every': %d, 'optimizer': {'product_penalty': %g, 'weight_decay': "
             "{'default': 0.1, 'attention': %g, 'norm': 0}}}",
             steps, (unsigned long long)seed, EVERY, EVERY, arms[arm].mu, arms[arm].decay);
    RS_TRY(rs_lab_train(&result, text, NULL, context, err));
    const rs_table *log = rs_result_table(result, "log"), *ranks = rs_result_table(result, "ranks");
    for (size_t i = 0; i < rs_table_rows(log) && r->logs < LOGS; i++) {
        r->steps[r->logs] = rs_lab_cell(log, i, "step");
        r->accuracy[r->logs++] = rs_lab_cell(log, i, "accuracy");
    }
    for (size_t i = 0, at = 0; i < rs_table_rows(ranks); i++) {
        int product = 2 * (int)rs_lab_cell(ranks, i, "layer") +
                      (strcmp(rs_lab_cell_text(ranks, i, "product"), "qk") == 0);
        while ((int)at + 1 < r->logs && r->steps[at] < rs_lab_cell(ranks, i, "step"))
            at++;
        r->pseudo[product][at] += rs_lab_cell(ranks, i, "pseudo_rank") / HEADS;
        r->nuclear[at] += rs_lab_cell(ranks, i, "nuclear_norm") / (HEADS * PRODUCTS);
    }
    rs_result_free(result);
    return RS_OK;
}

static rs_status learn_all(recalls *all, const rs_context *context, rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    RS_TRY(rs_check_cancelled(context, err));
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int i = 0; i < ARMS * all->seeds; i++) {
        rs_error own = {0};
        int seed = i / ARMS, arm = i % ARMS;
        rs_status made = learn(&all->of[seed][arm], arm, all->steps, context->seed + (uint64_t)seed,
                               context, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- claims ---- */

/* The mean over logs from a step on. */
static double mean_from(const recall *r, const double *values, double step)
{
    double sum = 0, n = 0;
    for (int i = 0; i < r->logs; i++)
        if (r->steps[i] >= step) sum += values[i], n++;
    return sum / n;
}

static double first_above(const recall *r, double accuracy)
{
    for (int i = 0; i < r->logs; i++)
        if (r->accuracy[i] > accuracy) return r->steps[i];
    return INFINITY;
}

static const char too_short[] = "--quick ends before ranks differ";

/* The logs of a run that a claim is about. */
typedef const double *(*logs_of)(const recall *r, int product);
static const double *pseudo_of(const recall *r, int product)
{
    return r->pseudo[product];
}
static const double *nuclear_of(const recall *r, int product)
{
    (void)product;
    return r->nuclear;
}
static const double *accuracy_of(const recall *r, int product)
{
    (void)product;
    return r->accuracy;
}

/* From step 1000 on one arm has more of something than another. */
static rs_status claim_order(rs_lab_report *report, const char *text, const recalls *all,
                             const int arm[2], logs_of logs, int product, rs_error *err)
{
    double by[SEEDS];
    const rs_lab_claim skipped = {text, NAN, NAN, NAN, NAN, false, false};
    if (all->steps < STEPS) return rs_lab_skip_claim(report, &skipped, too_short, err);
    for (int s = 0; s < all->seeds; s++) {
        const recall *more = &all->of[s][arm[0]], *less = &all->of[s][arm[1]];
        by[s] =
            mean_from(more, logs(more, product), LATE) - mean_from(less, logs(less, product), LATE);
    }
    const rs_lab_spread d = rs_lab_spread_of(by, all->seeds);
    return rs_lab_order(report, text, d.mean, rs_lab_order_error(d), err);
}

static rs_status claim_ranks(rs_lab_report *report, const recalls *all, int more, int less,
                             rs_error *err)
{
    const int arm[2] = {more, less};
    for (int product = 0; product < PRODUCTS; product++) {
        char text[160];
        snprintf(text, sizeof text, "recall, %s: %s keeps more pseudo-rank than %s",
                 products[product], arms[more].name, arms[less].name);
        RS_TRY(claim_order(report, text, all, arm, pseudo_of, product, err));
    }
    return RS_OK;
}

/* What a penalty takes from the products' nuclear norm, and from accuracy. */
static rs_status claim_price(rs_lab_report *report, const recalls *all, int penalty, rs_error *err)
{
    const int arm[2] = {NOTHING, penalty};
    char text[160];
    snprintf(text, sizeof text, "recall, %s: products' nuclear norm below that of neither, by",
             arms[penalty].name);
    RS_TRY(claim_order(report, text, all, arm, nuclear_of, 0, err));
    snprintf(text, sizeof text, "recall, %s: accuracy below that of neither, by",
             arms[penalty].name);
    return claim_order(report, text, all, arm, accuracy_of, 0, err);
}

static rs_status claim_learning(rs_lab_report *report, const recalls *all, int arm, rs_error *err)
{
    double latest = 0;
    char text[120];
    snprintf(text, sizeof text, "recall, %s: accuracy above 0.99 at step, latest seed",
             arms[arm].name);
    if (all->steps < STEPS)
        return rs_lab_skip_claim(report, &(rs_lab_claim){text, NAN, NAN, NAN, 800, true, false},
                                 too_short, err);
    for (int s = 0; s < all->seeds; s++)
        latest = fmax(latest, first_above(&all->of[s][arm], 0.99));
    return rs_lab_at_most(report, text, latest, 800, err);
}

static rs_status claim_recall(rs_lab_report *report, const recalls *all, rs_error *err)
{
    for (int arm = 0; arm <= LITTLE; arm++)
        RS_TRY(claim_learning(report, all, arm, err));
    for (int penalty = LITTLE; penalty <= MUCH; penalty++) {
        RS_TRY(claim_ranks(report, all, penalty, DECAY, err));
        RS_TRY(claim_price(report, all, penalty, err));
    }
    return claim_ranks(report, all, NOTHING, MUCH, err);
}

/* ---- the figure ---- */

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("step", "step", "steps that were made"),
    RS_LAB_Y("pseudo_rank", "pseudo-rank",
             "singular values of the first layer's value-output products that hold 95 % of their "
             "sum, divided by the inner width; mean over heads and seeds"));
static const rs_table_kind table_kind = {"lab", "product_penalty", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "A penalty on the product in place of decay",
    .about =
        "The pseudo-rank of the first layer's value-output products while associative recall is "
        "learnt: with decay 1 on attention's factors, with penalties (mu/2) |A B'|^2 on its "
        "products, and with neither.",
};

static rs_status draw_figure(rs_lab_report *report, const recalls *all, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int arm = 0; arm < ARMS; arm++)
        for (int i = 0; i < all->of[0][arm].logs; i++) {
            double mean = 0;
            for (int s = 0; s < all->seeds; s++)
                mean += all->of[s][arm].pseudo[0][i] / all->seeds;
            RS_TRY(rs_lab_curves_add(table, arms[arm].name, all->of[0][arm].steps[i], mean, err));
        }
    return RS_OK;
}

static rs_status run_product_penalty(rs_lab_report *report, const rs_lab_options *options,
                                     const rs_context *context, rs_error *err)
{
    recalls *all = rs_calloc(1, sizeof *all);
    if (!all) return rs_fail_memory(err, "an experiment", sizeof *all);
    all->seeds = rs_lab_seeds(options, SEEDS);
    all->steps = options->quick ? QUICK_STEPS : STEPS;
    int draws = rs_pair_draws(options, DRAWS, QUICK_DRAWS), seeds = all->seeds;
    rs_status status = learn_all(all, context, err);
    if (status == RS_OK) status = draw_figure(report, all, err);
    if (status == RS_OK)
        status = rs_pair_claims(report, claims, NUMBERS, draws, see_draw, context, err);
    if (status == RS_OK) status = claim_recall(report, all, err);
    rs_free(all);
    if (status != RS_OK) return status;
    if (!options->quick) return rs_lab_say_seeds(report, seeds, SEEDS, err);
    return rs_lab_say_quick(report,
                            "12 draws instead of 24, 1 seed instead of 3, 100 steps of 4000, and "
                            "judged no ranks of the trained ones",
                            err);
}

const rs_lab_experiment rs_lab_product_penalty = {
    "product-penalty",
    "A penalty on products keeps their rank",
    "after Kobayashi et al. 2024, section 3",
    "In place of decay on two factors a penalty on their product: every mode is kept, shrunk, "
    "where "
    "decay kills those below it; and on a small transformer's attention that learns associative "
    "recall. Ours, after Kobayashi, Akram, von Oswald, NeurIPS 2024 (arXiv 2410.23819).",
    run_product_penalty,
    "120 s",
    "2 s",
    &table_kind,
    0};
