/*
 * dong_ensembles.c: whether a network with skips is an ensemble of weakly dependent shallow networks,
 * as Dong, Cordonnier, Loukas (ICML 2021, arXiv 2103.03404) read their sum over paths: what short paths
 * make of the output, how alike paths of one length are, and what is lost without heads, one by one and
 * several at once (docs/paths.md, Table paths, Table lesions). Of a small language model before and
 * behind its training, and of the user's.
 */
#include "lab/ensemble.h"
#include "lab/kept_runs.h"
#include "lab/language.h"
#include "lab/toy.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LAYERS = 6,
    HEADS = 2,
    SEEDS = 3,
    STEPS = 1200,
    QUICK_STEPS = 60,
    SAMPLES = 16,
    QUICK_SAMPLES = 2
};
/* ---- the small model ---- */

typedef struct trained_look {
    rs_ensemble *out;
    int64_t samples;
} trained_look;

/* The evaluation set's own samples, each its letters. */
static rs_status look_trained(void *user, rs_learner *learner, rs_train_task *task, rs_error *err)
{
    trained_look *t = user;
    rs_task_batch batch = {0};
    rs_inputs *inputs = NULL;
    RS_TRY(rs_task_batch_new(&batch, rs_task_sizes(task), t->samples, err));
    rs_status status = rs_task_fill(&batch, task, RS_TASK_EVAL, 0, err);
    const rs_input_source source = {
        .ids = batch.tokens, .n_ids = batch.samples, .id_length = rs_task_sizes(task)->n_tok};
    if (status == RS_OK) status = rs_inputs_open(&inputs, &source, learner->network, NULL, 0, err);
    if (status == RS_OK)
        status = rs_ensemble_look(t->out, learner->network, inputs, learner->context, err);
    rs_inputs_close(inputs);
    rs_task_batch_free(&batch);
    return status;
}

enum { START, TRAINED, STATES };
static const char *const state_names[STATES] = {"start", "trained"};

typedef struct ensembles {
    rs_ensemble of[STATES][SEEDS];
    bool diverged[STATES][SEEDS]; /* its training did; it is in no mean, and is counted */
    bool quick;
    int seeds;
    rs_ensemble model;
    const char *path; /* NULL: no model was named */
    rs_kept_runs *kept;
} ensembles;

typedef struct training {
    double list[RS_ENSEMBLE_NUMBERS];
    rs_ensemble seen;
    int64_t samples;
    const rs_context *context;
} training;

static rs_status train_task(void *user, const char *task, rs_error *err)
{
    training *t = user;
    bool diverged = false;
    trained_look looks = {&t->seen, t->samples};
    const rs_lab_finish finish = {&looks, look_trained};
    RS_TRY(rs_lab_train_seen(&diverged, task, &finish, t->context, err));
    rs_ensemble_put(t->list, &t->seen, diverged);
    return RS_OK;
}

/* The start is a run of no steps. */
static rs_status take_or_train(ensembles *e, training *t, int state, int seed, rs_error *err)
{
    char text[1200], name[60], *fields = NULL;
    const rs_kept_maker maker = {t, train_task};
    RS_TRY(rs_lab_language(&fields, NULL, err));
    snprintf(name, sizeof name, "dong-ensembles, %d samples", (int)t->samples);
    snprintf(
        text, sizeof text,
        "{%s, 'model': {'depth': %d, 'd_model': 48, 'heads': %d, 'mlp_width': 96}, 'steps': %d,"
        " 'seed': %llu, 'rank_every': 0, 'optimizer': {'lr': 2e-3%s}}",
        fields, LAYERS, HEADS,
        state == START ? 0
        : e->quick     ? QUICK_STEPS
                       : STEPS,
        (unsigned long long)(t->context->seed + (uint64_t)seed), RS_LANGUAGE_DECAYS("0.1", "0.1"));
    rs_status status =
        rs_kept_runs_take(e->kept, name, text, t->list, RS_ENSEMBLE_NUMBERS, &maker, err);
    rs_free(fields);
    if (status == RS_OK) rs_ensemble_take(&e->of[state][seed], &e->diverged[state][seed], t->list);
    return status;
}

static rs_status train_one(ensembles *e, int state, int seed, const rs_context *context,
                           rs_error *err)
{
    training *t = rs_calloc(1, sizeof *t);
    if (!t) return rs_fail_memory(err, "a run", sizeof *t);
    t->samples = e->quick ? QUICK_SAMPLES : SAMPLES;
    t->context = context;
    rs_status status = take_or_train(e, t, state, seed, err);
    rs_free(t);
    return status;
}

static rs_status train_all(ensembles *e, const rs_context *context, rs_error *err)
{
    rs_status status = RS_OK;
    rs_error first = {0};
    uint64_t done = 0, runs = (uint64_t)(STATES * e->seeds);
    rs_progress(context, "networks", 0, runs, "runs");
#pragma omp parallel for num_threads(context->threads) schedule(dynamic)
    for (int i = 0; i < STATES * e->seeds; i++) {
        rs_error own = {0};
        rs_status made = rs_check_cancelled(context, &own);
        if (made == RS_OK)
            made = train_one(e, STATES - 1 - i / e->seeds, i % e->seeds, context, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
#pragma omp critical(rs_ensembles_progress)
        rs_progress(context, "networks", ++done, runs, "runs");
    }
    if (status != RS_OK && err) *err = first;
    return status;
}

/* ---- tables and the figure ---- */

/* Columns without the first, of the table of all seeds. */
#define ALL_SEEDS(columns)                                                                         \
    {                                                                                              \
        columns + 1, sizeof columns / sizeof *columns - 1, NULL                                    \
    }

typedef struct length_cells {
    const char *network;
    int64_t seed, length;
    double cosine, cosine_error, null, missing, missing_error, nll;
} length_cells;

#define LENGTH(member, name, title, formula, provenance)                                           \
    RS_COLUMN(length_cells, member, name, title, NULL, formula, provenance)
static const rs_column length_columns[] = {
    LENGTH(seed, "seed", "seed", "of weights and data, from --seed on", NULL), /* of one network */
    LENGTH(network, "network", "network", "start, trained, or the model that was named", NULL),
    LENGTH(length, "length", "length", "heads that a path takes", NULL),
    LENGTH(cosine, "cosine", "cosine",
           "of what two paths of that length add to the output, mean over pairs, samples and seeds",
           "measured"),
    LENGTH(cosine_error, "cosine_error", "its error", "standard error over seeds, or samples",
           "measured"),
    LENGTH(null, "cosine_null", "cosine by chance", "1/sqrt(n d pairs)", "predicted"),
    LENGTH(missing, "cumulative_error", "what is missing",
           "|sum of all paths of at most that length - X|_F/|X|_F, X the last state", "measured"),
    LENGTH(missing_error, "cumulative_error_error", "its error",
           "standard error over seeds, or samples", "measured"),
    LENGTH(nll, "nll", "loss with these alone", "nats a token, mean over seeds", "measured"),
};
const rs_table_kind rs_lab_ensembles_lengths_kind = {
    "lab", "dong_ensembles_lengths", {ALL_SEEDS(length_columns)}};
const rs_table_kind rs_lab_ensembles_seed_lengths_kind = {
    "lab", "dong_ensembles_seed_lengths", {RS_PART(length_columns)}};

typedef struct lesion_cells {
    const char *network;
    int64_t seed, heads, draws;
    double rise, rise_error, most, alone, ratio, ratio_error;
} lesion_cells;

#define LESION(member, name, title, formula, provenance)                                           \
    RS_COLUMN(lesion_cells, member, name, title, NULL, formula, provenance)
static const rs_column lesion_columns[] = {
    LESION(seed, "seed", "seed", "of weights and data, from --seed on", NULL),
    LESION(network, "network", "network", "start, trained, or the model that was named", NULL),
    LESION(heads, "heads", "heads left out", "at once", NULL),
    LESION(draws, "draws", "draws", "single heads, or sets of heads", NULL),
    LESION(rise, "loss_rise", "rise of the loss", "nats a token, mean over draws", "measured"),
    LESION(rise_error, "loss_rise_error", "its error", "standard error over draws", "measured"),
    LESION(most, "most", "most", "of single heads: the largest rise", "measured"),
    LESION(alone, "single_rises", "sum of single rises", "of the same heads, each left out alone",
           "measured"),
    LESION(ratio, "ratio", "together over alone",
           "mean rise of the loss over the mean sum of single rises: 1 where heads work "
           "independently; null where these cost nothing",
           "measured"),
    LESION(ratio_error, "ratio_error", "its error", "standard error over draws", "measured"),
};
const rs_table_kind rs_lab_ensembles_lesions_kind = {
    "lab", "dong_ensembles_lesions", {ALL_SEEDS(lesion_columns)}};
const rs_table_kind rs_lab_ensembles_seed_lesions_kind = {
    "lab", "dong_ensembles_seed_lesions", {RS_PART(lesion_columns)}};

/* All seeds of a state together: lengths by seeds, draws by draws. */
static rs_ensemble pool(const ensembles *e, int state)
{
    rs_ensemble all = {.most = -INFINITY};
    double n = 0;
    for (int s = 0; s < e->seeds; s++) {
        const rs_ensemble *one = &e->of[state][s];
        if (e->diverged[state][s]) continue;
        all.longest = one->longest;
        all.sets = one->sets;
        all.loss = one->loss;
        all.most = fmax(all.most, one->most);
        n++;
        for (int k = 0; k <= one->longest; k++) {
            rs_gathered_add(&all.cosine[k], rs_gathered_spread(&one->cosine[k]).mean);
            rs_gathered_add(&all.missing[k], rs_gathered_spread(&one->missing[k]).mean);
            all.null[k] = one->null[k];
            all.nll[k] += one->nll[k];
        }
        for (int k = 0; k < one->sets; k++) {
            all.heads[k] = one->heads[k];
            rs_gathered_join(&all.rise[k], &one->rise[k]);
            rs_gathered_join(&all.alone[k], &one->alone[k]);
            all.cross[k] += one->cross[k];
        }
    }
    for (int k = 0; k < RS_ENSEMBLE_LENGTHS; k++)
        all.nll[k] /= n;
    return all;
}

/* seed: of one network; -1: of all, or of a model, whose tables have no such column. */
static rs_status add_rows(rs_table *lengths, rs_table *lesions, const char *name, int seed,
                          const rs_ensemble *s, rs_error *err)
{
    for (int k = 0; k <= s->longest; k++) {
        const rs_lab_spread c = rs_gathered_spread(&s->cosine[k]),
                            m = rs_gathered_spread(&s->missing[k]);
        const length_cells cells = {.network = name,
                                    .seed = seed,
                                    .length = k,
                                    .cosine = c.mean,
                                    .cosine_error = isnan(c.mean) ? (double)NAN : c.error,
                                    .null = isnan(c.mean) ? (double)NAN : s->null[k],
                                    .missing = m.mean,
                                    .missing_error = m.error,
                                    .nll = s->nll[k]};
        RS_TRY(rs_table_append(lengths, &cells, err));
    }
    for (int k = 0; k < s->sets; k++) {
        const rs_lab_spread r = rs_gathered_spread(&s->rise[k]), q = rs_ensemble_ratio(s, k);
        const lesion_cells cells = {.network = name,
                                    .seed = seed,
                                    .heads = s->heads[k],
                                    .draws = (int64_t)s->rise[k].n,
                                    .rise = r.mean,
                                    .rise_error = r.error,
                                    .most = s->heads[k] == 1 ? s->most : (double)NAN,
                                    .alone = rs_gathered_spread(&s->alone[k]).mean,
                                    .ratio = q.mean,
                                    .ratio_error = q.error};
        RS_TRY(rs_table_append(lesions, &cells, err));
    }
    return RS_OK;
}

static rs_status open_tables(rs_table *tables[2], rs_lab_report *report,
                             const rs_table_kind *lengths, const rs_table_kind *lesions,
                             rs_error *err)
{
    RS_TRY(rs_result_add_table(report->result, lengths->name, "Paths by length",
                               "How alike they are, and what short ones miss.",
                               lengths->parts[0].columns, lengths->parts[0].n, &tables[0], err));
    return rs_result_add_table(report->result, lesions->name, "Without heads",
                               "What the loss rises by without some heads, and what they cost "
                               "alone.",
                               lesions->parts[0].columns, lesions->parts[0].n, &tables[1], err);
}

static rs_status add_tables(rs_lab_report *report, const ensembles *e,
                            const rs_ensemble pooled[STATES], rs_error *err)
{
    rs_table *all[2] = {NULL}, *each[2] = {NULL};
    RS_TRY(open_tables(all, report, &rs_lab_ensembles_lengths_kind, &rs_lab_ensembles_lesions_kind,
                       err));
    for (int state = 0; state < STATES; state++)
        RS_TRY(add_rows(all[0], all[1], state_names[state], -1, &pooled[state], err));
    if (e->path) RS_TRY(add_rows(all[0], all[1], "model", -1, &e->model, err));
    RS_TRY(open_tables(each, report, &rs_lab_ensembles_seed_lengths_kind,
                       &rs_lab_ensembles_seed_lesions_kind, err));
    for (int i = 0; i < STATES * e->seeds; i++) {
        int state = i / e->seeds, seed = i % e->seeds;
        if (e->diverged[state][seed]) continue;
        RS_TRY(add_rows(each[0], each[1], state_names[state], seed, &e->of[state][seed], err));
    }
    return RS_OK;
}

static const rs_column point_columns[] = RS_LAB_POINTS(
    RS_LAB_X_WHOLE("length", "length", "heads that a path takes"),
    RS_LAB_Y("value", "cosine, or what is missing",
             "mean cosine of what two paths of that length add; |sum of all paths of at most that "
             "length - X|_F/|X|_F"));
static const rs_table_kind table_kind = {"lab", "dong_ensembles", {RS_PART(point_columns)}};
static const rs_lab_curves curves = {
    .kind = &table_kind,
    .title = "Paths of a network: how alike, and how far short ones reach",
    .about =
        "By the length of paths: the cosine of what two of them add to the output, and what all "
        "paths up to that length miss of it.",
};

static rs_status draw_one(rs_table *table, const char *name, const rs_ensemble *s, rs_error *err)
{
    char series[60];
    for (int k = 1; k <= s->longest; k++) {
        snprintf(series, sizeof series, "cosine, %s", name);
        if (s->cosine[k].n > 0)
            RS_TRY(
                rs_lab_curves_add(table, series, k, rs_gathered_spread(&s->cosine[k]).mean, err));
    }
    for (int k = 0; k <= s->longest; k++) {
        snprintf(series, sizeof series, "missing, %s", name);
        RS_TRY(rs_lab_curves_add(table, series, k, rs_gathered_spread(&s->missing[k]).mean, err));
    }
    return RS_OK;
}

static rs_status draw(rs_lab_report *report, const ensembles *e, const rs_ensemble pooled[STATES],
                      rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &curves, err));
    for (int state = 0; state < STATES; state++)
        RS_TRY(draw_one(table, state_names[state], &pooled[state], err));
    return e->path ? draw_one(table, "model", &e->model, err) : RS_OK;
}

/* ---- claims ---- */

/* A number of a network that is claimed to be below `below`; or, NaN, of which nothing is claimed.
 * "Shallow" is at most half of the attentions, "weakly" and "not needed" are below 1/2: ours, for the
 * paper names no numbers. `none`: why it is no number. */
typedef struct asked {
    const char *up, *down; /* of nothing claimed: how it is called above 0, and below */
    rs_lab_spread (*of)(const rs_ensemble *s);
    double below;
    bool loss; /* it needs a loss */
    const char *none;
} asked;
static const char no_pair[] = "there are no two paths of one length",
                  costs_nothing[] = "the loss is no higher without heads";
static const asked questions[] = {
    {"what paths of at most half the attentions miss of what all add, below 0.5 by", NULL,
     rs_ensemble_missing_share, 0.5, false, "attention adds nothing"},
    {"cosine of two paths of one length, where it is largest, below 0.5 by", NULL,
     rs_ensemble_alike, 0.5, false, no_pair},
    {"cosine of two paths of one head, above 0 by", "cosine of two paths of one head, below 0 by",
     rs_ensemble_of_one_head, NAN, false, no_pair},
    {"rise of the loss without one head, the most needed, over that without all, below 0.5 by",
     NULL, rs_ensemble_one_head, 0.5, true, costs_nothing},
    {"four heads at once cost more than each alone, ratio above 1 by",
     "four heads at once cost less than each alone, ratio below 1 by", rs_ensemble_together, NAN,
     true, costs_nothing},
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

static rs_status claim(rs_lab_report *report, const asked *q, const char *name, rs_lab_spread found,
                       const char *reason, rs_error *err)
{
    char text[200];
    bool published = !isnan(q->below), turned = !published && found.mean < 0;
    snprintf(text, sizeof text, "%s: %s", name, turned ? q->down : q->up);
    const rs_lab_claim absent = {text, NAN, NAN, NAN, NAN, false, false};
    if (!reason && !isfinite(found.mean)) reason = q->none;
    if (reason) return rs_lab_skip_claim(report, &absent, reason, err);
    double error = rs_lab_order_error(found);
    return published ? rs_lab_order_published(report, text, q->below - found.mean, error, err)
                     : rs_lab_order(report, text, fabs(found.mean), error, err);
}

/* By seeds of the trained model. */
static rs_status claim_trained(rs_lab_report *report, const ensembles *e, const asked *q,
                               rs_error *err)
{
    double values[SEEDS];
    int n = 0;
    for (int s = 0; s < e->seeds; s++)
        if (!e->diverged[TRAINED][s]) values[n++] = q->of(&e->of[TRAINED][s]).mean;
    const rs_lab_spread found = n > 0 ? rs_lab_spread_of(values, n) : (rs_lab_spread){NAN, NAN, 0};
    return claim(report, q, "trained", found, n > 0 ? NULL : "every seed diverged", err);
}

/* By samples or draws of the one model that was named. */
static rs_status claim_model(rs_lab_report *report, const ensembles *e, const asked *q,
                             rs_error *err)
{
    const char *reason = !e->path                    ? "no model: --model PATH names one"
                         : q->loss && !e->model.loss ? "this model predicts no next token here"
                         : q->loss && !rs_ensemble_needs_heads(&e->model)
                             ? "this model's loss is no higher without all of its heads"
                             : NULL;
    const rs_lab_spread found = reason ? (rs_lab_spread){0, 0, 0} : q->of(&e->model);
    return claim(report, q, "model", found, reason, err);
}

/* What training does to how far short paths reach. */
static rs_status claim_training(rs_lab_report *report, const ensembles *e, bool quick,
                                rs_error *err)
{
    double by[SEEDS], diverged = 0;
    int n = 0;
    for (int s = 0; s < e->seeds; s++) {
        diverged += e->diverged[TRAINED][s];
        if (!e->diverged[TRAINED][s])
            by[n++] = rs_ensemble_missing(&e->of[TRAINED][s]).mean -
                      rs_ensemble_missing(&e->of[START][s]).mean;
    }
    RS_TRY(rs_lab_at_most(report, "runs that diverged", diverged, 0, err));
    if (n == 0 || quick) return RS_OK;
    const rs_lab_spread d = rs_lab_spread_of(by, n);
    return rs_lab_order(report,
                        d.mean > 0 ? "short paths miss more of the trained model than at its start"
                                   : "short paths miss less of the trained model than at its start",
                        fabs(d.mean), rs_lab_order_error(d), err);
}

/* All paths together are the output, of every network that was looked at. */
static rs_status claim_whole(rs_lab_report *report, const ensembles *e, rs_error *err)
{
    double worst = 0;
    for (int i = 0; i < STATES * e->seeds; i++) {
        const rs_ensemble *s = &e->of[i / e->seeds][i % e->seeds];
        if (e->diverged[i / e->seeds][i % e->seeds]) continue;
        worst = fmax(worst, rs_gathered_spread(&s->missing[s->longest]).mean);
    }
    return rs_lab_at_most(report, "what paths of all lengths miss of the last state, worst network",
                          worst, 1e-9, err);
}

static rs_status claim_all(rs_lab_report *report, const ensembles *e, bool quick, rs_error *err)
{
    RS_TRY(claim_whole(report, e, err));
    RS_TRY(claim_training(report, e, quick, err));
    for (int k = 0; k < QUESTIONS && !quick; k++) /* one seed shows no order */
        RS_TRY(claim_trained(report, e, &questions[k], err));
    for (int k = 0; k < QUESTIONS; k++)
        RS_TRY(claim_model(report, e, &questions[k], err));
    return RS_OK;
}

/* ---- the whole ---- */

static rs_status report_all(rs_lab_report *report, const ensembles *e, bool quick, rs_error *err)
{
    rs_ensemble *pooled = rs_calloc(STATES, sizeof *pooled);
    if (!pooled) return rs_fail_memory(err, "an experiment", STATES * sizeof *pooled);
    for (int state = 0; state < STATES; state++)
        pooled[state] = pool(e, state);
    rs_status status = draw(report, e, pooled, err);
    if (status == RS_OK) status = add_tables(report, e, pooled, err);
    if (status == RS_OK) status = claim_all(report, e, quick, err);
    rs_free(pooled);
    return status;
}

static rs_status run_dong_ensembles(rs_lab_report *report, const rs_lab_options *options,
                                    const rs_context *context, rs_error *err)
{
    ensembles *e = rs_calloc(1, sizeof *e);
    if (!e) return rs_fail_memory(err, "an experiment", sizeof *e);
    const rs_lab_model *model = options->model;
    e->quick = options->quick;
    e->kept = options->kept;
    e->seeds = rs_lab_seeds(options, SEEDS);
    e->path = model ? model->path : NULL;
    rs_status status = train_all(e, context, err);
    if (status == RS_OK && model)
        status = rs_ensemble_look(&e->model, model->network, model->inputs, context, err);
    if (status == RS_OK) status = report_all(report, e, options->quick, err);
    int seeds = e->seeds;
    rs_free(e);
    if (status != RS_OK) return status;
    if (!options->quick) return rs_lab_say_seeds(report, seeds, SEEDS, err);
    return rs_lab_say_quick(report, "1 seed of 3, 60 steps of 1200, 2 samples of 16, and no orders",
                            err);
}

const rs_lab_experiment rs_lab_dong_ensembles = {
    "dong-ensembles",
    "Alike paths, missing heads",
    "Dong, Cordonnier, Loukas 2021, section 2.3",
    "Six layers of two heads before and behind learning a source of letters, and the model that "
    "--model names: how alike paths of one length are, what short paths miss of the output, and "
    "what "
    "is lost without heads, one by one and several at once.",
    run_dong_ensembles,
    "60 s",
    "4 s",
    &table_kind,
    1};
