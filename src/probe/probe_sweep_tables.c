/* probe_sweep_tables.c: tables sweep and sweep_ends, what they say in words, and their figure. */
#include "probe/probe_sweep_parts.h"
#include "report/figures.h"
#include "report/number.h"

#include <math.h>
#include <stdio.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* A row of tables sweep and sweep_ends. */
typedef struct sweep_cells {
    double lambda;
    const char *gate, *norm;
    int64_t layer;
    double relative, log10_relative, mu, log10_mu;
    double residual, kept, from, eq7;
    const char *failed, *from_failed, *eq7_from, *eq7_failed;
    const char *precision, *line;
} sweep_cells;

#define POINT_COLUMNS                                                                              \
    {.name = "lambda",                                                                             \
     RS_CELL(sweep_cells, lambda),                                                                 \
     .title = "λ",                                                                                 \
     .formula = "skip strength: the state becomes λ times itself plus the branch"},                \
        {.name = "gate",                                                                           \
         RS_CELL(sweep_cells, gate),                                                               \
         .formula = "off: without the gates of gated mixers"},                                     \
    {                                                                                              \
        .name = "norm", RS_CELL(sweep_cells, norm), .formula = "off: without the norms of blocks"  \
    }
#define SPREAD_COLUMNS                                                                             \
    {.name = "relative_residual",                                                                  \
     RS_CELL(sweep_cells, relative),                                                               \
     .formula = "μ(X)/‖X‖_F of the state behind the layer; mean over the samples"},                \
        {.name = "log10_relative_residual",                                                        \
         RS_CELL(sweep_cells, log10_relative),                                                     \
         .formula = "mean over the samples of log10 μ(X)/‖X‖_F"},                                  \
        {.name = "mu",                                                                             \
         RS_CELL(sweep_cells, mu),                                                                 \
         .title = "μ",                                                                             \
         .formula = "μ(X) = ‖X − 11ᵀX/n‖_F; mean over the samples"},                               \
    {                                                                                              \
        .name = "log10_mu", RS_CELL(sweep_cells, log10_mu),                                        \
        .formula = "mean over the samples of log10 μ(X), which may be beyond every double"        \
    }

#define CERTIFIED(member, n, f)                                                                    \
    {                                                                                              \
        .name = n, RS_CELL(sweep_cells, member), .provenance = "certified",                        \
        .bound = RS_BOUND_LOWER, .formula = f                                                      \
    }
#define PROVED_COLUMNS                                                                              \
    CERTIFIED(residual, "certified_residual",                                                       \
              "a lower bound of relative_residual at this λ: the mean over the samples of what "   \
              "the weights allow (docs/certificates_lambda.md, L29); of points, not of what lies "  \
              "between them"),                                                                      \
        CERTIFIED(kept, "certified_kept",                                                           \
                  "the same over the relative μ that entered the first layer, of the sample that " \
                  "keeps least"),                                                                   \
        {.name = "certified_failed",                                                                \
         RS_CELL(sweep_cells, failed),                                                              \
         .provenance = "certified",                                                                 \
         .formula = "why nothing is proved: the hypothesis that fails"},                            \
    {                                                                                               \
        .name = "demanded_by_eq7", RS_CELL(sweep_cells, eq7), .provenance = "published",            \
        .formula =                                                                                  \
            "|λ| above which equation 7 of the published theorem holds, S C_M (a + √a)/"         \
            "(1 − a) with a = kept² (kept=A of --sweep, 0.9); whether or not the theorem's "     \
            "hypotheses hold"                                                                       \
    }

static const rs_column sweep_columns[] = {
    POINT_COLUMNS,
    {.name = "layer",
     RS_CELL(sweep_cells, layer),
     .formula = "number of the state; 0 enters the first block"},
    SPREAD_COLUMNS,
    PROVED_COLUMNS,
};
const rs_table_kind rs_probe_sweep_kind = {"probe", "sweep", {RS_PART(sweep_columns)}};

static const rs_column end_columns[] = {
    POINT_COLUMNS,
    SPREAD_COLUMNS,
    PROVED_COLUMNS,
    {.name = "demanded_by_eq7_from",
     RS_CELL(sweep_cells, eq7_from),
     .provenance = "published",
     .formula = "where its C_M = sup ‖M‖_F is from: the weights (√n of softmax attention), or "
                "measured in the run of the model at its own λ"},
    {.name = "demanded_by_eq7_failed",
     RS_CELL(sweep_cells, eq7_failed),
     .provenance = "published",
     .formula = "what is missing where it has no number"},
    {.name = "certified_from",
     RS_CELL(sweep_cells, from),
     .provenance = "certified",
     .bound = RS_BOUND_UPPER,
     .formula =
         "a half line: every |λ| ≥ this, of either sign, is proved to keep kept=A of the "
         "relative μ that enters, behind the last layer, on these samples and on every "
         "input of no more tokens whose relative μ and ‖X‖_F/√n are no less than a sample's"},
    {.name = "certified_from_failed",
     RS_CELL(sweep_cells, from_failed),
     .provenance = "certified",
     .formula = "why there is no such half line"},
    {.name = "precision",
     RS_CELL(sweep_cells, precision),
     .formula = "what the point was run in: |λ|^layers may need more than was asked for"},
    {.name = "line", RS_CELL(sweep_cells, line), .formula = "gate and norm in a word, for figures"},
};
const rs_table_kind rs_probe_sweep_ends_kind = {"probe", "sweep_ends", {RS_PART(end_columns)}};

static const char *line_of(const rs_sweep_setting *s)
{
    static const char *const lines[] = {"no gate, no norm", "no norm", "no gate", "as it is"};
    return lines[(s->edit.no_gate ? 0 : 1) + (s->edit.no_norm ? 0 : 2)];
}

static const char differ_text[] = "the tokens of the input differ";
static const char reach_text[] = "branches that some λ is large enough for";

static sweep_cells cells_of(const rs_sweep_setting *s, const rs_sweep_point *p, int32_t layer)
{
    const rs_swept_state *x = &p->states[layer];
    const rs_lambda_left *proved = &p->proved[layer];
    const char *failed = s->failed ? s->failed : isnan(proved->kept) ? differ_text : NULL;
    return (sweep_cells){.lambda = p->lambda,
                         .gate = p->gate ? "on" : "off",
                         .norm = p->norm ? "on" : "off",
                         .layer = layer,
                         .relative = x->relative,
                         .log10_relative = x->log10_relative,
                         .mu = x->mu,
                         .log10_mu = x->log10_mu,
                         .residual = proved->relative,
                         .kept = proved->kept,
                         .failed = failed,
                         .from = s->from,
                         .from_failed = !isnan(s->from) ? NULL
                                        : failed        ? failed
                                                        : reach_text,
                         .eq7 = s->eq7,
                         .eq7_from = s->eq7_from,
                         .eq7_failed = s->eq7_failed,
                         .precision = rs_probe_precision_name(p->precision),
                         .line = line_of(s)};
}

static rs_status add_rows(const rs_sweeping *w, rs_table *sweep, rs_table *ends, rs_error *err)
{
    for (size_t i = 0; i < w->n_settings; i++)
        for (int32_t k = 0; k < w->spec.n; k++) {
            const rs_sweep_setting *s = &w->settings[i];
            const rs_sweep_point *p = &s->points[k];
            for (int32_t l = 0; l <= w->layers; l++) {
                const sweep_cells cells = cells_of(s, p, l);
                RS_TRY(rs_table_append(sweep, &cells, err));
            }
            const sweep_cells cells = cells_of(s, p, w->layers);
            RS_TRY(rs_table_append(ends, &cells, err));
        }
    return RS_OK;
}

static rs_status add_tables(const rs_sweeping *w, rs_error *err)
{
    rs_table *sweep, *ends;
    RS_TRY(rs_result_add_table(w->result, "sweep", "Skip strengths, layer by layer",
                               "How far apart the tokens are behind every layer, at every skip "
                               "strength λ",
                               sweep_columns, COUNT(sweep_columns), &sweep, err));
    RS_TRY(rs_result_add_table(w->result, "sweep_ends", "Skip strengths",
                               "How far apart the tokens are behind the last layer, at every skip "
                               "strength λ",
                               end_columns, COUNT(end_columns), &ends, err));
    rs_table_show_first(ends,
                        "lambda,gate,norm,relative_residual,certified_residual,log10_mu,precision");
    return add_rows(w, sweep, ends, err);
}

/* ---- figure and words ---- */

/* The setting whose half line, or whose demand by equation 7, begins at the smallest size; NULL: none
 * has one. */
static const rs_sweep_setting *nearest(const rs_sweeping *w, bool proved)
{
    const rs_sweep_setting *best = NULL;
    for (size_t i = 0; i < w->n_settings; i++) {
        const rs_sweep_setting *s = &w->settings[i];
        double size = proved ? s->from : s->eq7, least = !best    ? (double)NAN
                                                         : proved ? best->from
                                                                  : best->eq7;
        if (!isnan(size) && !(size >= least)) best = s;
    }
    return best;
}

/* "every |λ| ≥ 37.13 is proved to keep 0.9 of …", or why nothing is; and equation 7's demand. */
static void put_claims(char *out, size_t size, const rs_sweeping *w)
{
    const rs_sweep_setting *proved = nearest(w, true), *asked = nearest(w, false);
    char from[RS_NUMBER_SIZE], kept[RS_NUMBER_SIZE], eq7[RS_NUMBER_SIZE];
    double end = fmax(fabs(w->spec.low), fabs(w->spec.high));
    int used;
    rs_number_brief(kept, w->spec.kept, 6);
    if (proved) {
        rs_number_outward(from, proved->from, 6, true);
        used = snprintf(out, size,
                        "every |λ| ≥ %s%s is proved to keep %s of the relative residual that "
                        "enters, behind the last layer, whatever lies between the points (%s)",
                        from, proved->from > end ? ", beyond these points," : "", kept,
                        line_of(proved));
    } else {
        const rs_sweep_setting *s = &w->settings[0];
        used = snprintf(out, size, "no half line of λ is proved to keep %s of anything: %s%s", kept,
                        s->failed ? "it takes " : "",
                        s->failed ? s->failed : "the tokens or the weights allow none");
    }
    if (!asked || used < 0 || (size_t)used >= size) return;
    rs_number_brief(eq7, asked->eq7, 6);
    snprintf(out + used, size - (size_t)used, "; the published equation 7 asks for |λ| > %s%s", eq7,
             asked->eq7 > end ? ", beyond these points" : "");
}

static rs_status add_figure(const rs_sweeping *w, const char *claims, rs_error *err)
{
    static const char *const keys[] = {"lambda", "gate", "norm"};
    const rs_sweep_setting *proved = nearest(w, true), *asked = nearest(w, false);
    char about[1000], kept[RS_NUMBER_SIZE];
    rs_lines lines = {.table = "sweep_ends",
                      .x = {"lambda", "skip strength λ"},
                      .y = {"relative_residual", "relative residual ‖R‖/‖X‖ behind the last layer"},
                      .colour = {"line", "model"},
                      .more = {{.field = "certified_residual", .title = "at least", .dots = true}},
                      .x_rule = asked ? asked->eq7 : 0,
                      .x_rule_label = "equation 7 (published)",
                      .keys = {keys, COUNT(keys)}};
    if (w->spec.n < 2) return RS_OK;
    rs_number_brief(kept, w->spec.kept, 6);
    if (proved) {
        lines.x_shade = proved->from;
        lines.x_shade_label = rs_arena_printf(rs_result_arena(w->result), "proved: %s kept%s%s",
                                              kept, w->n_settings > 1 ? ", " : "",
                                              w->n_settings > 1 ? line_of(proved) : "");
        if (!lines.x_shade_label) return rs_fail_memory(err, "sweep", 0);
    }
    snprintf(
        about, sizeof about,
        "Relative residual behind the last layer against the skip strength λ: 0 where all "
        "tokens are equal. Each point is one run, points without a line ('at least') are "
        "certified lower bounds of it; between points nothing is known but what is shaded: %s.",
        claims);
    rs_result_show_curve(w->result, &(rs_curve){.table = "sweep_ends",
                                                .title = "Relative residual behind the last layer",
                                                .x = "lambda",
                                                .x_title = "skip strength",
                                                .y = {{.column = "relative_residual"}},
                                                .series = "line"});
    return rs_result_add_figure(w->result, "sweep", "What a skip strength keeps", about,
                                rs_figure_lines(&lines), err);
}

static rs_status say_claims(const rs_sweeping *w, const char *claims, rs_error *err)
{
    const rs_sweep_setting *proved = nearest(w, true);
    rs_finding f = rs_finding_of(RS_INFO, "sweep_certified");
    f.value = proved ? proved->from : (double)NAN;
    f.threshold = w->spec.kept;
    f.message = claims;
    f.hint =
        "columns certified_... of table sweep_ends say what each point keeps, or why nothing is "
        "proved";
    f.table = "sweep_ends";
    return rs_result_add_finding(w->result, &f, err);
}

/* Points that ran in more than was asked for. */
static rs_status say_precision(const rs_sweeping *w, rs_error *err)
{
    char message[300];
    rs_precision asked = w->options->measure.precision;
    int64_t wide = asked == RS_PRECISION_F32 ? w->moved[RS_PRECISION_F64] : 0;
    int64_t carried = asked < RS_PRECISION_RESIDUAL ? w->moved[RS_PRECISION_RESIDUAL] : 0;
    if (wide + carried == 0) return RS_OK;
    snprintf(message, sizeof message,
             "of %lld points of the sweep %lld ran in float64 and %lld in the residual precision: "
             "the state grows like the product of |λ| over the layers, or has no norm to hold it",
             (long long)((int64_t)w->n_settings * w->spec.n), (long long)wide, (long long)carried);
    rs_finding f = rs_finding_of(RS_INFO, "sweep_precision");
    f.value = (double)(wide + carried);
    f.message = message;
    f.hint = "column precision of table sweep_ends says which";
    f.table = "sweep_ends";
    return rs_result_add_finding(w->result, &f, err);
}

rs_status rs_sweep_tables(const rs_sweeping *w, rs_error *err)
{
    char claims[600];
    put_claims(claims, sizeof claims, w);
    RS_TRY(add_tables(w, err));
    RS_TRY(say_precision(w, err));
    RS_TRY(say_claims(w, claims, err));
    return add_figure(w, claims, err);
}
