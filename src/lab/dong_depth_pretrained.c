/*
 * dong_depth_pretrained.c: Dong, Cordonnier, Loukas 2021, the twelve curves of pretrained BERT, ALBERT
 * and XLNet of the figure whose panels at initialisation are dong-depth-init
 * (docs/theory/collapse.md, 13), of checkpoints that the user has.
 *
 * The paper took bert-base-cased, albert-base-v2 and xlnet-base-cased, and 32 texts of 128 tokens. A
 * model of another depth has no state that theirs could be compared with: it is drawn, and its claims
 * are skipped. ALBERT without MLPs was run with what the released code leaves in their place
 * (--compat dong2021-code), and is drawn without it too. Everything runs in float64: what the published
 * curves have below 4e-7 is float32's rounding.
 */
#include "lab/dong_depth_kin.h"
#include "lab/random_bert.h"
#include "lab/toy.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LAYERS = RS_LAB_BERT_STATES - 1,
    STATES = RS_LAB_BERT_STATES,
    RUNS = 14, /* of variants, of the three */
    NONE = -1  /* no published curve */
};
enum { SAN, SAN_MLP, SAN_SKIP, FULL };

static const char source[] = "Dong et al. 2021, pretrained, read from the vector figure";

/* Means over 32 texts, float32, by variant (san, san+mlp, san+skip, full) and state. */
static const double published[RS_LAB_ENCODERS][RS_LAB_BERT_VARIANTS][STATES] = {
    [RS_LAB_BERT] = {{.6872, .6758, .3153, .1389, .0308, 3.492e-3, 1.630e-5, 2.1e-7, 2.0e-7, 2.0e-7,
                      1.6e-7, 2.0e-7, 2.0e-7},
                     {.6872, .4334, .2093, .0402, 2.169e-3, 3.791e-5, 2.2e-7, 2.0e-7, 1.9e-7,
                      2.2e-7, 2.2e-7, 2.3e-7, 2.3e-7},
                     {.6872, .7169, .6364, .4890, .3531, .2233, .2048, .2401, .2332, .1738, .1408,
                      .0962, .0743},
                     {.6872, .6660, .5592, .5041, .4657, .4006, .3789, .3805, .3898, .3912, .3952,
                      .3690, .3096}},
    [RS_LAB_ALBERT] = {{.8964, .5467, .5449, .2799, .1196, .0268, 2.796e-3, 6.478e-5, 1.8e-7,
                        1.7e-7, 1.7e-7, 1.7e-7, 1.7e-7},
                       {.8964, .4781, .8802, .1686, .0448, 2.119e-4, 3.4e-7, 3.3e-7, 3.3e-7, 3.6e-7,
                        3.5e-7, 2.9e-7, 3.5e-7},
                       {.8964, .6888, .5154, .3354, .1827, .0680, .0233, 8.933e-3, 3.665e-3,
                        1.574e-3, 6.966e-4, 3.144e-4, 1.437e-4},
                       {.8964, .4900, .4314, .4296, .4209, .4161, .4090, .4103, .4156, .4216, .4343,
                        .5690, .5557}},
    [RS_LAB_XLNET] = {
        {.7159, .9225, .5424, .4155, .3782, .1638, .0523, .0453, .0217, .0245, .0294, .0209,
         8.910e-3},
        {.7159, .8405, .2775, .0746, .0269, .0195, .0107, 5.606e-3, 2.952e-3, 1.773e-3, 1.632e-3,
         1.146e-3, 1.681e-4},
        {.7159, .7941, .3954, .2450, .5340, .7557, .7529, .6538, .6292, .5261, .5010, .3707, .1026},
        {.7159, .9855, .9267, .6509, .4013, .3336, .2165, .1988, .2009, .1706, .1785, .1734,
         .5131}}};

/* published: its row there. */
static const struct {
    rs_lab_encoder encoder;
    const char *name, *variant;
    bool code;
    int published;
} runs[RUNS] = {
    {RS_LAB_BERT, "bert, san", "san", false, SAN},
    {RS_LAB_BERT, "bert, san+mlp", "san+mlp", false, SAN_MLP},
    {RS_LAB_BERT, "bert, san+skip", "san+skip", false, SAN_SKIP},
    {RS_LAB_BERT, "bert, full", "full", false, FULL},
    {RS_LAB_ALBERT, "albert, san, their code", "san", true, SAN},
    {RS_LAB_ALBERT, "albert, san", "san", false, NONE},
    {RS_LAB_ALBERT, "albert, san+mlp", "san+mlp", false, SAN_MLP},
    {RS_LAB_ALBERT, "albert, san+skip, their code", "san+skip", true, SAN_SKIP},
    {RS_LAB_ALBERT, "albert, san+skip", "san+skip", false, NONE},
    {RS_LAB_ALBERT, "albert, full", "full", false, FULL},
    {RS_LAB_XLNET, "xlnet, san", "san", false, SAN},
    {RS_LAB_XLNET, "xlnet, san+mlp", "san+mlp", false, SAN_MLP},
    {RS_LAB_XLNET, "xlnet, san+skip", "san+skip", false, SAN_SKIP},
    {RS_LAB_XLNET, "xlnet, full", "full", false, FULL},
};

/* The three. absent: why their claims are skipped without a checkpoint. */
static const struct {
    const char *family, *checkpoint, *absent;
} encoders[RS_LAB_ENCODERS] = {
    [RS_LAB_BERT] = {"bert", "bert-base-cased", "no BERT was named by --model"},
    [RS_LAB_ALBERT] = {"albert", "albert-base-v2", "no ALBERT was named by --model"},
    [RS_LAB_XLNET] = {"xlnet", "xlnet-base-cased", "no XLNet was named by --model"},
};

/* One of the three, as it was measured. */
typedef struct pretrained {
    const rs_lab_model *model; /* NULL: none */
    int32_t states;
    double *state[RUNS]; /* [states] */
} pretrained;

/* ---- which model is which ---- */

static const char *family_of(const rs_lab_model *model)
{
    return model->network->family ? model->network->family : "unknown";
}

static rs_status say_unused(rs_lab_report *report, const rs_lab_model *model, bool second,
                            rs_error *err)
{
    char message[500];
    snprintf(message, sizeof message,
             second ? "dong-depth-pretrained: %.300s is a second %s, and the first was run"
                    : "dong-depth-pretrained: %.300s is of family %s, which has no published curve",
             model->path, family_of(model));
    rs_finding finding = rs_finding_of(RS_WARN, "model_unused");
    finding.message = message;
    finding.hint = "the figure has bert-base-cased, albert-base-v2 and xlnet-base-cased: give "
                   "--model a checkpoint of model_type bert, albert or xlnet, one of each";
    return rs_result_add_finding(report->result, &finding, err);
}

static rs_status assign(pretrained all[RS_LAB_ENCODERS], rs_lab_report *report,
                        const rs_lab_options *options, rs_error *err)
{
    for (int32_t m = 0; m < options->n_models; m++) {
        const rs_lab_model *model = &options->model[m];
        int e = 0;
        while (e < RS_LAB_ENCODERS && strcmp(encoders[e].family, family_of(model)) != 0)
            e++;
        if (e < RS_LAB_ENCODERS && !all[e].model)
            all[e].model = model;
        else
            RS_TRY(say_unused(report, model, e < RS_LAB_ENCODERS, err));
    }
    return RS_OK;
}

/* ---- runs ---- */

static rs_status run_variants(pretrained *of, rs_lab_encoder which, const rs_context *context,
                              rs_error *err)
{
    rs_weights *weights = NULL;
    RS_TRY(rs_weights_open(&weights, RS_PRECISION_F64, rs_weight_limit(context), err));
    rs_status status = RS_OK;
    for (int r = 0; r < RUNS && status == RS_OK; r++) {
        if (runs[r].encoder != which) continue;
        const rs_lab_depth_run how = {runs[r].variant, runs[r].code, RS_PRECISION_F64,
                                      "dong-depth-pretrained"};
        of->state[r] = rs_malloc((size_t)of->states, sizeof *of->state[r]);
        status = of->state[r]
                     ? rs_lab_depth_states(of->state[r], of->states, of->model->network, weights,
                                           of->model->inputs, &how, context, err)
                     : rs_fail_memory(err, "curves", (size_t)of->states * sizeof *of->state[r]);
    }
    rs_weights_close(weights);
    return status;
}

static rs_status run_models(pretrained all[RS_LAB_ENCODERS], const rs_context *context,
                            rs_error *err)
{
    RS_TRY(rs_check_cancelled(context, err));
    for (int e = 0; e < RS_LAB_ENCODERS; e++) {
        if (!all[e].model) continue;
        all[e].states = all[e].model->network->n_layers + 1;
        RS_TRY(run_variants(&all[e], (rs_lab_encoder)e, context, err));
    }
    return RS_OK;
}

/* ---- tables and figures ---- */

#define RESIDUAL_COLUMN                                                                            \
    RS_LAB_Y("relative_residual_1inf", "relative residual, composite norm",                        \
             "|X - 1x|/|X| in the composite norm, x the mean token, mean over samples")
static const rs_column state_columns[] = RS_LAB_POINTS(RS_LAB_X_STATE, RESIDUAL_COLUMN);
static const rs_table_kind bert_kind = {"lab", "dong_depth_pretrained", {RS_PART(state_columns)}};
const rs_table_kind rs_lab_pretrained_albert_kind = {
    "lab", "dong_depth_pretrained_albert", {RS_PART(state_columns)}};
const rs_table_kind rs_lab_pretrained_xlnet_kind = {
    "lab", "dong_depth_pretrained_xlnet", {RS_PART(state_columns)}};

static const rs_lab_curves panels[RS_LAB_ENCODERS] = {
    [RS_LAB_BERT] =
        {.kind = &bert_kind,
         .title = "BERT, pretrained",
         .about = "Relative residual by state, mean over samples, of the BERT that --model named: "
                  "four variants, in float64; and the published means of bert-base-cased, whose "
                  "plateau is float32's rounding.",
         .log_y = true,
         .y_floor = 1e-17},
    [RS_LAB_ALBERT] =
        {.kind = &rs_lab_pretrained_albert_kind,
         .title = "ALBERT, pretrained",
         .about =
             "The same of ALBERT, and of albert-base-v2: without MLPs as the released code ran "
             "it, and as the paper describes it.",
         .log_y = true,
         .y_floor = 1e-17},
    [RS_LAB_XLNET] = {.kind = &rs_lab_pretrained_xlnet_kind,
                      .title = "XLNet, pretrained",
                      .about =
                          "The same of XLNet, and of xlnet-base-cased, whose relative positions "
                          "keep tokens apart for longer.",
                      .log_y = true,
                      .y_floor = 1e-17},
};

/* A row of table dong_depth_models. */
typedef struct model_cells {
    const char *encoder, *path, *inputs;
    int32_t layers;
    int64_t width, samples, tokens;
    bool trained;
} model_cells;

static const rs_column model_columns[] = {
    RS_COLUMN(model_cells, encoder, "published", "published", NULL,
              "the checkpoint whose curves the paper has", NULL),
    RS_COLUMN(model_cells, path, "path", "path", NULL, "the one that ran in its place", NULL),
    RS_COLUMN(model_cells, trained, "trained", "trained", NULL,
              "its weights are a checkpoint's, not drawn", NULL),
    RS_COLUMN(model_cells, layers, "layers", "layers", NULL, "its blocks; published: 12", NULL),
    RS_COLUMN(model_cells, width, "d_model", "width", NULL, "its features; published: 768", NULL),
    RS_COLUMN(model_cells, inputs, "inputs", "inputs", NULL, "text, or random ids", NULL),
    RS_COLUMN(model_cells, samples, "samples", "samples", NULL, "windows; published: 32", NULL),
    RS_COLUMN(model_cells, tokens, "tokens", "tokens", NULL,
              "of the longest window; published: 128", NULL),
};
const rs_table_kind rs_lab_pretrained_models_kind = {
    "lab", "dong_depth_models", {RS_PART(model_columns)}};

static rs_status add_models(rs_lab_report *report, const pretrained all[RS_LAB_ENCODERS],
                            rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(report->result, "dong_depth_models", "Models of the curves",
                               "What ran in the place of each published checkpoint.", model_columns,
                               sizeof model_columns / sizeof *model_columns, &table, err));
    for (int e = 0; e < RS_LAB_ENCODERS; e++) {
        const rs_lab_model *model = all[e].model;
        if (!model) continue;
        const model_cells cells = {.encoder = encoders[e].checkpoint,
                                   .path = model->path,
                                   .inputs = model->inputs->kind,
                                   .layers = model->network->n_layers,
                                   .width = model->network->d_model,
                                   .samples = model->inputs->samples,
                                   .tokens = model->inputs->longest,
                                   .trained = model->trained};
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status add_panel(rs_lab_report *report, const pretrained *of, rs_lab_encoder which,
                           rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, &panels[which], err));
    for (int r = 0; r < RUNS; r++) {
        if (runs[r].encoder != which) continue;
        for (int32_t l = 0; l < of->states; l++)
            RS_TRY(rs_lab_curves_add(table, runs[r].name, l, of->state[r][l], err));
        char name[80];
        snprintf(name, sizeof name, "%s, published", runs[r].name);
        for (int l = 0; l < STATES && runs[r].published != NONE; l++)
            RS_TRY(rs_lab_curves_publish(table, source, name, l,
                                         published[which][runs[r].published][l], err));
    }
    return RS_OK;
}

/* The curves that a terminal draws: of the first model that there is. */
static void show_measured(rs_lab_report *report, const pretrained all[RS_LAB_ENCODERS])
{
    for (int e = 0; e < RS_LAB_ENCODERS; e++)
        if (all[e].model) {
            rs_result_show_curve(report->result,
                                 &(rs_curve){.table = panels[e].kind->name,
                                             .title = panels[e].title,
                                             .x = "layer",
                                             .x_title = "state",
                                             .y = {{.column = "relative_residual_1inf"}},
                                             .series = "series",
                                             .floor = panels[e].y_floor});
            return;
        }
}

/* ---- claims ---- */

/* How a curve is compared: at a state, there by its logarithm, or by the first state below GONE. */
typedef enum compared { AT, LOG_AT, GONE } compared;
static const double gone = 1e-6; /* above float32's rounding, of which the published plateaus are */

/* What is said of one curve. tolerance: other texts than the published. Samples deviate by 0.03 at
 * most of what they have before they collapse, of which 0.1 is three; while they do, by more than the
 * mean, which is the slowest sample's: half a decade, or a whole one. */
static const struct {
    int run;
    compared how;
    int state;
    double tolerance;
} said[] = {
    {3, AT, 0, 0.1},          {0, GONE, 0, 1},           {1, GONE, 0, 1},
    {2, LOG_AT, LAYERS, 0.5}, {3, AT, LAYERS, 0.1},      {9, AT, 0, 0.1},
    {4, GONE, 0, 1},          {6, GONE, 0, 1},           {7, LOG_AT, LAYERS, 1},
    {9, AT, LAYERS, 0.1},     {13, AT, 0, 0.1},          {10, LOG_AT, LAYERS, 1},
    {11, LOG_AT, LAYERS, 1},  {12, LOG_AT, LAYERS, 0.5}, {13, AT, LAYERS, 0.1},
};

static int first_gone(const double *states)
{
    int l = 0;
    while (l < STATES && states[l] >= gone)
        l++;
    return l;
}

static double number_of(const double *states, compared how, int state)
{
    if (!states) return NAN;
    for (int l = 0; l < STATES && how == GONE; l++)
        if (!isfinite(states[l])) return NAN;
    return how == AT ? states[state] : how == LOG_AT ? log10(states[state]) : first_gone(states);
}

static const char *reason_of(const pretrained *of, rs_lab_encoder which)
{
    if (!of->model) return encoders[which].absent;
    if (!of->model->trained) return "random weights";
    return of->states == STATES ? NULL : "it has not the published 12 layers";
}

static rs_status judge(rs_lab_report *report, rs_lab_claim *claim, const char *reason,
                       int32_t *skipped, rs_error *err)
{
    if (!reason && !isfinite(claim->measured)) reason = "the states are not finite, or all equal";
    if (!reason) return rs_lab_add_claim(report, claim, err);
    ++*skipped;
    return rs_lab_skip_claim(report, claim, reason, err);
}

static void name_claim(char *text, size_t size, int run, compared how, int state)
{
    const char *name = runs[run].name;
    if (how == GONE)
        snprintf(text, size, "%s: first state whose relative residual is below 1e-6 (13: none)",
                 name);
    else
        snprintf(text, size, "%s: %srelative residual of state %d", name,
                 how == LOG_AT ? "log10 of the " : "", state);
}

static rs_status claim_curves(rs_lab_report *report, const pretrained *of, rs_lab_encoder which,
                              int32_t *skipped, rs_error *err)
{
    const char *reason = reason_of(of, which);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        int run = said[i].run;
        if (runs[run].encoder != which) continue;
        char text[120];
        name_claim(text, sizeof text, run, said[i].how, said[i].state);
        rs_lab_claim claim = {
            text,
            number_of(published[which][runs[run].published], said[i].how, said[i].state),
            NAN,
            reason ? NAN : number_of(of->state[run], said[i].how, said[i].state),
            said[i].tolerance,
            false,
            false};
        RS_TRY(judge(report, &claim, reason, skipped, err));
    }
    return RS_OK;
}

/* The paper says that MLPs slow the collapse down: its own curves have them speed it up. */
static rs_status claim_mlp(rs_lab_report *report, const pretrained *of, rs_lab_encoder which,
                           int32_t *skipped, rs_error *err)
{
    enum { STATE = 5 }; /* the last that all three have above rounding with MLPs */
    const char *reason = reason_of(of, which);
    const double *paper_san = published[which][SAN], *paper_mlp = published[which][SAN_MLP];
    const double *san = NULL, *mlp = NULL;
    for (int r = 0; r < RUNS && !reason; r++) {
        if (runs[r].encoder == which && runs[r].published == SAN) san = of->state[r];
        if (runs[r].encoder == which && runs[r].published == SAN_MLP) mlp = of->state[r];
    }
    char text[120];
    snprintf(text, sizeof text, "%s: decades by which san+mlp is below san at state %d",
             encoders[which].family, STATE);
    double apart = log10(paper_san[STATE] / paper_mlp[STATE]);
    rs_lab_claim claim = {text,  apart, NAN,  reason ? NAN : log10(san[STATE] / mlp[STATE]),
                          apart, false, false};
    return judge(report, &claim, reason, skipped, err);
}

static rs_status say_skipped(rs_lab_report *report, int32_t skipped, rs_error *err)
{
    if (skipped == 0) return RS_OK;
    char message[160];
    snprintf(message, sizeof message,
             "dong-depth-pretrained: %d published claims are skipped: column reason says why",
             (int)skipped);
    rs_finding finding = rs_finding_of(RS_INFO, "not_measured");
    finding.message = message;
    finding.hint = "--model BERT,ALBERT,XLNET --text FILE judges them: folders of "
                   "bert-base-cased, albert-base-v2, xlnet-base-cased, or of one or two of them";
    return rs_result_add_finding(report->result, &finding, err);
}

static rs_status write_up(rs_lab_report *report, const pretrained all[RS_LAB_ENCODERS],
                          const rs_lab_options *options, rs_error *err)
{
    int32_t skipped = 0;
    show_measured(report, all);
    for (int e = 0; e < RS_LAB_ENCODERS; e++)
        RS_TRY(add_panel(report, &all[e], (rs_lab_encoder)e, err));
    if (options->n_models > 0) RS_TRY(add_models(report, all, err));
    for (int e = 0; e < RS_LAB_ENCODERS; e++) {
        RS_TRY(claim_curves(report, &all[e], (rs_lab_encoder)e, &skipped, err));
        RS_TRY(claim_mlp(report, &all[e], (rs_lab_encoder)e, &skipped, err));
    }
    RS_TRY(say_skipped(report, skipped, err));
    if (!options->quick || options->n_models == 0) return RS_OK;
    return rs_lab_say_quick(report, "4 windows of tokens instead of 32", err);
}

static rs_status run_dong_depth_pretrained(rs_lab_report *report, const rs_lab_options *options,
                                           const rs_context *context, rs_error *err)
{
    pretrained all[RS_LAB_ENCODERS] = {{0}};
    rs_status status = assign(all, report, options, err);
    if (status == RS_OK) status = run_models(all, context, err);
    if (status == RS_OK) status = write_up(report, all, options, err);
    for (int e = 0; e < RS_LAB_ENCODERS; e++)
        for (int r = 0; r < RUNS; r++)
            rs_free(all[e].state[r]);
    return status;
}

const rs_lab_experiment rs_lab_dong_depth_pretrained = {
    "dong-depth-pretrained",
    "BERT, ALBERT, XLNet pretrained",
    "Dong et al. 2021, pretrained models",
    "The relative residual behind every layer of the BERT, ALBERT and XLNet checkpoints that "
    "--model names, for self-attention alone, with MLPs, with skips, and whole, beside the twelve "
    "published curves; nothing is downloaded, and without a checkpoint its claims are skipped. "
    "After "
    "the figure on pretrained models of Dong, Cordonnier, Loukas, ICML 2021 (arXiv 2103.03404).",
    run_dong_depth_pretrained,
    "< 1 s",
    "< 1 s",
    &bert_kind,
    RS_LAB_ENCODERS};
