/* predict.c: an architecture as a result: its answers, tables, verdict, findings and figures. */
#include "predict/predict_parts.h"

#include "network/saved.h"
#include "predict/design_likeness.h"
#include "predict/grid.h"
#include "predict/presets.h"
#include "predict/remedies.h"
#include "predict/shapes.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- the first screen ---- */

typedef struct answer_row {
    int64_t number;
    const char *question, *asks, *answer;
    double value;
} answer_row;
#define ANSWER(...) RS_COLUMN(answer_row, __VA_ARGS__)
static const rs_column answer_columns[] = {
    ANSWER(number, "number", NULL, NULL, "1 to 8, in the order of the page; 9: --budget", NULL),
    ANSWER(question, "question", NULL, NULL, "what it is about, in a word", NULL),
    ANSWER(asks, "asks", NULL, NULL, "the question in words", NULL),
    ANSWER(answer, "answer", NULL, NULL, "the answer in a line", "predicted"),
    ANSWER(
        value, "value", NULL, NULL,
        "apart: ρ behind the last layer; size: decades that ‖X‖² grows; queries: log₁₀ gQ/gV of "
        "the worst layer; attention: fewest effective keys; depth: layers with the same verdict; "
        "budget: layers of the deepest healthy shape",
        "predicted"),
};
const rs_table_kind rs_predict_answers_kind = {"predict", "answers", {RS_PART(answer_columns)}};

static rs_status add_answers(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    rs_predict_answer answers[RS_PREDICT_ANSWERS + 1];
    rs_table *table;
    bool more = run->shapes != NULL;
    RS_TRY(rs_predict_answer_all(answers, run, err));
    if (more) rs_shapes_answer(&answers[RS_PREDICT_ANSWERS], run->shapes);
    RS_TRY(rs_result_add_table(result, "answers", more ? "Nine answers" : "Eight answers", NULL,
                               answer_columns, COUNT(answer_columns), &table, err));
    rs_table_show_first(table, "question,answer");
    rs_table_lead(table);
    for (int i = 0; i < RS_PREDICT_ANSWERS + more; i++) {
        const rs_predict_answer *a = &answers[i];
        const answer_row row = {a->number, a->question, a->asks, a->answer, a->value};
        RS_TRY(rs_table_append(table, &row, err));
    }
    return RS_OK;
}

/* ---- the verdict ---- */

/* Where correlations of theory are rough from some layer on, and nothing was drawn beside them. */
static const char *rough_of(const rs_predict_run *run)
{
    if (!run->trials && run->forecast.rows[run->forecast.n_layers].rough)
        return ", by a rough theory of condensed attention";
    return "";
}

static rs_status set_verdict(rs_result *result, const rs_predict_run *run, rs_error *err)
{
    static const char *const says[RS_PREDICT_COUNT] = {
        [RS_PREDICT_UNKNOWN] = "theory cannot say what becomes of its tokens",
        [RS_PREDICT_HEALTHY] = "its tokens stay apart",
        [RS_PREDICT_SLOW] = "its tokens draw together slowly, as a power of the depth",
        [RS_PREDICT_EXPONENTIAL] = "its tokens collapse exponentially with depth",
        [RS_PREDICT_DOUBLY_EXPONENTIAL] = "its tokens collapse doubly exponentially with depth",
        [RS_PREDICT_EXPLOSION] = "its states or gradients explode or vanish",
    };
    bool drawn = rs_predict_by_trials(run);
    const rs_forecast *f = drawn ? &run->measured : &run->forecast;
    const rs_predict_found *found = &f->found;
    const char *code = rs_predict_verdict_code(found->verdict);
    char answer[400], next[200];
    bool bad = found->verdict > RS_PREDICT_SLOW;
    int used = snprintf(answer, sizeof answer, "%.80s at its start: %s%s", run->design->name,
                        found->equal_from_start ? "its tokens are equal from the start; " : "",
                        says[found->verdict]);
    if (drawn)
        snprintf(answer + used, sizeof answer - (size_t)used,
                 ", as %d networks that were drawn say; theory does not.",
                 (int)run->trials->trials);
    else
        snprintf(answer + used, sizeof answer - (size_t)used, "%s.", rough_of(run));
    snprintf(next, sizeof next, "--table forward,backward shows every layer%s",
             bad ? "" : "; --explain prints the architecture");
    const rs_verdict verdict = {.answer = answer,
                                .code = code,
                                .severity = (int)found->severity,
                                .value = f->rows[f->n_layers].rho,
                                .threshold = NAN,
                                .next = next};
    return rs_result_set_verdict(result, &verdict, err);
}

/* ---- figures ---- */

/* Theory's line, and of networks that were drawn their mean and the band that holds 80 % of them. */
static rs_lines drawn_beside(rs_lines lines, bool drawn, const char *measured, const char *low,
                             const char *high)
{
    if (!drawn) return lines;
    lines.first = "theory";
    lines.more[0] = (rs_figure_curve){.field = measured, .title = "drawn"};
    lines.low.field = low;
    lines.high.field = high;
    lines.band_label = "80 % of the networks drawn";
    return lines;
}

static rs_status add_figures(rs_result *result, bool drawn, bool twin, rs_error *err)
{
    static const char *const keys[] = {"layer"};
    const rs_lines plain = {.x = {"layer", "layer"}, .keys = {keys, 1}, .x_whole = true};
    rs_lines apart = plain, size = plain, gradients = plain, ratio = plain;
    apart.table = size.table = "forward";
    apart.y = (rs_figure_field){"log10_one_minus_rho_theory", "log10 (1 − ρ)"};
    size.y = (rs_figure_field){"log10_F2_theory", "log10 ‖X‖²"};
    gradients.table = ratio.table = "backward";
    gradients.y = (rs_figure_field){"log10_gQ_theory", "log10 squared norm"};
    gradients.first = "gQ";
    gradients.more[0] = (rs_figure_curve){.field = "log10_gV_theory", .title = "gV"};
    gradients.more[1] = (rs_figure_curve){.field = "log10_dX_theory", .title = "state"};
    ratio.y = (rs_figure_field){"ratio_gQ_gV_theory", "gQ/gV"};
    ratio.log_y = true;
    apart = drawn_beside(apart, drawn, "log10_one_minus_rho", "log10_one_minus_rho_low",
                         "log10_one_minus_rho_high");
    size = drawn_beside(size, drawn && !twin, "log10_F2", "log10_F2_low", "log10_F2_high");
    ratio = drawn_beside(ratio, drawn, "ratio_gQ_gV", "ratio_gQ_gV_low", "ratio_gQ_gV_high");
    RS_TRY(rs_result_add_figure(result, "apart", "How far apart the tokens are", NULL,
                                rs_figure_lines(&apart), err));
    RS_TRY(rs_result_add_figure(result, "size", "Size of the states", NULL, rs_figure_lines(&size),
                                err));
    RS_TRY(rs_result_add_figure(result, "gradients", "Gradients of queries, values and states",
                                NULL, rs_figure_lines(&gradients), err));
    return rs_result_add_figure(result, "balance", "Gradients of queries over those of values",
                                NULL, rs_figure_lines(&ratio), err);
}

/* ---- the description ---- */

typedef struct field_row {
    const char *field, *value;
} field_row;
#define FIELD(...) RS_COLUMN(field_row, __VA_ARGS__)
static const rs_column architecture_columns[] = {
    FIELD(field, "field", NULL, NULL, "of ARCH.json; of an object in it as init.wq", NULL),
    FIELD(value, "value", NULL, NULL, "as ARCH.json has it", NULL),
};
const rs_table_kind rs_predict_architecture_kind = {
    "predict", "architecture", {RS_PART(architecture_columns)}};

static rs_status add_field(rs_table *table, const char *prefix, const char *key,
                           const json_t *value, rs_error *err)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    char name[80];
    snprintf(name, sizeof name, "%s%s", prefix, key);
    const field_row row = {name, text};
    rs_status status = text ? rs_table_append(table, &row, err) : rs_fail_memory(err, name, 1);
    rs_free(text);
    return status;
}

/* Fields of an object one by one, those of an object in it as "init.wq". */
static rs_status add_fields(rs_table *table, const char *prefix, const json_t *json, rs_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        char inner[64];
        snprintf(inner, sizeof inner, "%s.", key);
        if (json_is_object(value) && !*prefix)
            RS_TRY(add_fields(table, inner, value, err));
        else
            RS_TRY(add_field(table, prefix, key, value, err));
    }
    return RS_OK;
}

/* The laws of the maps, and of the input, that the file leaves to their defaults. */
static rs_status add_laws(json_t *whole, const rs_arch *arch, rs_error *err)
{
    static const struct {
        const char *name;
        rs_arch_weight weight;
    } maps[] = {{"wq", RS_ARCH_WQ}, {"wk", RS_ARCH_WK}, {"wv", RS_ARCH_WV}, {"wo", RS_ARCH_WO},
                {"w1", RS_ARCH_W1}, {"wg", RS_ARCH_WG}, {"w2", RS_ARCH_W2}};
    /* what is set belongs to `whole` at once, whether there is memory for the rest or not */
    const json_t *given = json_object_get(whole, "init");
    bool set =
        json_object_set_new(whole, "init", given ? json_deep_copy(given) : json_object()) == 0;
    json_t *own = json_object_get(whole, "init");
    for (size_t i = 0; i < sizeof maps / sizeof *maps && set; i++) {
        const char *law = arch->init[maps[i].weight];
        if (!json_object_get(own, maps[i].name))
            set = json_object_set_new(own, maps[i].name, json_string(law)) == 0;
    }
    set = set && json_object_set_new(whole, "input",
                                     json_pack("{s:s, s:f, s:f}", "law", "gaussian", "rho",
                                               arch->input_rho, "norm2", arch->input_norm2)) == 0;
    return set ? RS_OK : rs_fail_memory(err, "an architecture", 1);
}

static rs_status explain(rs_result *result, const rs_design *design, rs_error *err)
{
    json_t *whole = NULL;
    rs_table *table;
    if (!design->arch)
        return rs_fail(err, RS_E_UNSUPPORTED, "explain",
                       "give an architecture file or --preset NAME",
                       "a published model's config.json is no architecture file");
    RS_TRY(rs_result_add_table(result, "architecture", "The architecture", NULL,
                               architecture_columns, COUNT(architecture_columns), &table, err));
    RS_TRY(rs_arch_write(&whole, design->json, design->arch, design->network,
                         rs_arch_graph_path(design->arch), err));
    rs_status status = add_laws(whole, design->arch, err);
    if (status == RS_OK) status = add_fields(table, "", whole, err);
    if (status == RS_OK) {
        char answer[160];
        snprintf(answer, sizeof answer, "%.80s is an architecture of %llu numbers.", design->name,
                 (unsigned long long)design->network->stored.parameters);
        const rs_verdict verdict = {.answer = answer,
                                    .code = "explained",
                                    .value = NAN,
                                    .threshold = NAN,
                                    .next = "the same without --explain predicts it"};
        status = rs_result_set_verdict(result, &verdict, err);
    }
    if (status == RS_OK)
        status = rs_result_set_meta(result, "architecture", whole, err);
    else
        json_decref(whole);
    rs_result_show(result, "architecture");
    return status;
}

/* ---- all ---- */

/* The network, or its twin, drawn and run. */
static rs_status run_trials(rs_predict_run *run, rs_error *err)
{
    const rs_design *drawn = run->design;
    run->choice = rs_trials_choose(run->design, run->options->trials, run->options->full_size);
    if (run->choice.trials == 0) return RS_OK;
    if (run->choice.twin) {
        RS_TRY(rs_design_twin_of_run(&run->twin, run->design, err));
        RS_TRY(rs_forecast_theory(&run->twin_theory, NULL, &run->twin, &run->settings, err));
        drawn = &run->twin;
    }
    RS_TRY(rs_design_trials(&run->trials, drawn, run->choice.trials, run->options->after_final_norm,
                            run->context, err));
    return rs_forecast_trials(&run->measured, run->trials, &run->settings, err);
}

static const char *shown(const rs_predict_run *run)
{
    if (run->options->grid) return run->shapes ? "answers,budget,grid" : "answers,grid";
    return run->shapes ? "answers,budget" : "answers";
}

static rs_status write_result(rs_result *result, rs_predict_run *run, rs_error *err)
{
    rs_result_show(result, shown(run));
    RS_TRY(add_answers(result, run, err));
    RS_TRY(rs_predict_tables(result, run, err));
    if (run->remedies->n) RS_TRY(rs_remedies_table(result, rs_predict_changing(run), err));
    RS_TRY(set_verdict(result, run, err));
    RS_TRY(rs_predict_findings(result, run, err));
    if (run->shapes) RS_TRY(rs_shapes_table(result, run->shapes, run, err));
    if (run->options->grid)
        RS_TRY(rs_predict_grid(result, rs_predict_changing(run), run->options->grid, err));
    return add_figures(result, run->trials != NULL, run->twin.network != NULL, err);
}

static rs_status run_design(rs_result *result, rs_predict_run *run, rs_shapes *shapes,
                            rs_error *err)
{
    rs_remedies remedies = {0};
    rs_predict_run *like = run->like;
    rs_status status = rs_predict_balance(like ? like : run, err);
    if (status == RS_OK) status = run_trials(run, err);
    if (like) {
        like->choice = run->choice;
        run->temper = like->temper;
        run->balance = like->balance;
        like->remedies = &remedies;
    }
    run->remedies = &remedies;
    if (status == RS_OK)
        status = rs_remedies_run(&remedies, rs_predict_changing(run), run->options->remedies, err);
    if (status == RS_OK && shapes) status = rs_shapes_run(shapes, rs_predict_changing(run), err);
    if (status == RS_OK) status = write_result(result, run, err);
    rs_trials_free(run->trials);
    rs_forecast_free(&run->measured);
    rs_forecast_free(&run->twin_theory);
    rs_design_close(&run->twin);
    rs_remedies_free(&remedies);
    return status;
}

/* ---- the first theory ---- */

static rs_status run_theory(rs_predict_run *run, rs_error *err)
{
    size_t n = (size_t)run->design->network->n_layers + 1;
    RS_TRY(rs_predict_check_need(run->design, run->context, err));
    run->theory = rs_malloc(n, sizeof *run->theory);
    if (!run->theory) return rs_fail_memory(err, "theory", n * sizeof *run->theory);
    return rs_forecast_theory(&run->forecast, run->theory, run->design, &run->settings, err);
}

static void close_theory(rs_predict_run *run)
{
    rs_forecast_free(&run->forecast);
    rs_free(run->theory);
}

/* An architecture file says the same: what its norms add to a variance may differ, no verdict. */
static bool is_like(const rs_forecast *a, const rs_forecast *b)
{
    const double most = 0.02; /* decades */
    const rs_forecast_row *x = &a->rows[a->n_layers], *y = &b->rows[b->n_layers];
    return a->found.verdict == b->found.verdict && fabs(x->square - y->square) <= most &&
           (fabs(x->apart - y->apart) <= most || x->apart == y->apart);
}

/* What else can be asked of a published configuration is asked of the file that is like it; where there
 * is none, run->like stays NULL. */
static rs_status open_like(rs_predict_run *run, rs_predict_run *like, rs_design *design,
                           rs_error *err)
{
    json_t *json;
    rs_error why;
    if (!run->design->published || run->design->checkpoint) return RS_OK;
    RS_TRY(rs_design_likeness(&json, run->design, err));
    if (!json) return RS_OK;
    rs_status made = rs_design_of(design, run->design, json, &why);
    if (made == RS_E_NO_MEMORY) *err = why;
    if (made != RS_OK) return made == RS_E_NO_MEMORY ? made : RS_OK;
    *like = *run;
    like->theory = NULL;
    like->forecast = (rs_forecast){0};
    like->design = design;
    rs_status status = run_theory(like, err);
    if (status == RS_OK && is_like(&run->forecast, &like->forecast)) run->like = like;
    if (!run->like) close_theory(like);
    return status;
}

static void close_kept(rs_predict_run *run)
{
    for (int t = 0; run->kept && t < run->context->threads; t++)
        rs_theory_kept_close(run->kept[t]);
    rs_free(run->kept);
}

static rs_status open_kept(rs_predict_run *run, rs_error *err)
{
    size_t threads = (size_t)run->context->threads;
    run->kept = rs_calloc(threads, sizeof *run->kept);
    if (!run->kept) return rs_fail_memory(err, "theory", threads * sizeof *run->kept);
    for (size_t t = 0; t < threads; t++)
        RS_TRY(rs_theory_kept_open(&run->kept[t], err));
    run->settings.kept = run->kept[0];
    return RS_OK;
}

/* What remedies, grids and shapes refuse, they refuse before anything is run. */
static rs_status check_asked(const rs_predict_run *run, rs_error *err)
{
    const rs_predict_options *options = run->options;
    const rs_predict_run *changing = rs_predict_changing(run);
    if (options->remedies && !rs_predict_can_change(changing))
        return rs_fail(err, RS_E_UNSUPPORTED, "remedies",
                       "give an architecture file or --preset NAME", "%s",
                       rs_predict_fixed_because(changing));
    return options->grid ? rs_predict_grid_check(changing, options->grid, err) : RS_OK;
}

static rs_status run_all(rs_result *result, rs_predict_run *run, rs_error *err)
{
    rs_shapes shapes;
    RS_TRY(check_asked(run, err));
    if (!(run->options->budget > 0)) return run_design(result, run, NULL, err);
    rs_status status = rs_shapes_find(&shapes, rs_predict_changing(run), run->options->budget, err);
    run->shapes = &shapes;
    if (status == RS_OK) status = run_design(result, run, &shapes, err);
    rs_shapes_free(&shapes);
    return status;
}

rs_status rs_predict_fill(rs_result *result, const rs_predict_options *options,
                          const rs_context *context, rs_error *err)
{
    rs_design design, of_like = {0};
    rs_predict_run like;
    rs_status status = rs_design_open(&design, &options->source, err);
    rs_predict_run run = {.options = options,
                          .design = &design,
                          .settings = {options->after_final_norm, options->thresholds, NULL},
                          .context = context};
    if (status == RS_OK) status = open_kept(&run, err);
    if (status == RS_OK && options->explain) {
        status = explain(result, &design, err);
    } else {
        if (status == RS_OK) status = rs_remedies_check(options->remedies, err);
        if (status == RS_OK) status = run_theory(&run, err);
        if (status == RS_OK) status = open_like(&run, &like, &of_like, err);
        if (status == RS_OK) status = run_all(result, &run, err);
        close_theory(&run);
        if (run.like) close_theory(&like);
    }
    rs_design_close(&of_like);
    close_kept(&run);
    rs_design_close(&design);
    return status;
}

/* ---- presets ---- */

typedef struct preset_row {
    const char *name, *says;
} preset_row;
#define PRESET(...) RS_COLUMN(preset_row, __VA_ARGS__)
static const rs_column preset_columns[] = {
    PRESET(name, "name", NULL, NULL, "what --preset takes", NULL),
    PRESET(says, "says", NULL, NULL, "what it is, or what to ask instead", NULL),
};
const rs_table_kind rs_predict_presets_kind = {"predict", "presets", {RS_PART(preset_columns)}};

rs_status rs_predict_presets(rs_result *result, rs_error *err)
{
    rs_table *table;
    RS_TRY(rs_result_add_table(result, "presets", "Architectures by name", NULL, preset_columns,
                               COUNT(preset_columns), &table, err));
    size_t n = 0;
    for (const rs_preset *p; (p = rs_preset_at(n)); n++) {
        const preset_row row = {p->name, p->refused ? p->refused : p->says};
        RS_TRY(rs_table_append(table, &row, err));
    }
    char answer[80];
    snprintf(answer, sizeof answer, "%zu architectures have names.", n);
    const rs_verdict verdict = {.answer = answer,
                                .code = "listed",
                                .value = (double)n,
                                .threshold = NAN,
                                .next = "rankscope predict --preset gpt2"};
    rs_result_show(result, "presets");
    return rs_result_set_verdict(result, &verdict, err);
}
