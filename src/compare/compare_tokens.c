/*
 * compare_tokens.c: two models over the same inputs: each is probed by itself (probe/probe.h), and their
 * rows are set side by side.
 *
 * The same text is not the same ids where the tokenizers differ, and the same ids are not the same words:
 * what is known of that is said. A model that cannot take the inputs is named with its reason.
 */
#include "base/memory.h"
#include "compare/compare_parts.h"
#include "observe/opened.h"
#include "probe/probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- running one model ---- */

/* What says something of the run, or of what was asked for, rather than of this model. */
static bool is_fatal(rs_status status)
{
    static const rs_status fatal[] = {
        RS_E_NO_MEMORY,   RS_E_READ,      RS_E_WRITE,       RS_E_TRUNCATED_WHILE_MAPPED,
        RS_E_INTERNAL,    RS_E_LAPACK,    RS_E_INTERRUPTED, RS_E_CHANGED_WHILE_READ,
        RS_E_USAGE,       RS_E_NOT_FOUND, RS_E_UNREADABLE,  RS_E_BAD_OPTION,
        RS_E_MEMORY_LIMIT};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (fatal[i] == status) return true;
    return false;
}

static rs_status keep_ids(rs_compared *model, const rs_opened *o, rs_error *err)
{
    const rs_inputs *inputs = o->inputs;
    model->vocabulary = o->network->embedding.vocabulary;
    if (!inputs->ids) return RS_OK;
    model->n_ids = inputs->begin[inputs->samples];
    model->ids = rs_malloc((size_t)model->n_ids, sizeof *model->ids);
    if (!model->ids) return rs_fail_memory(err, "token ids", (size_t)model->n_ids);
    memcpy(model->ids, inputs->ids, (size_t)model->n_ids * sizeof *model->ids);
    return RS_OK;
}

static rs_status probe_open(rs_compared *model, rs_opened *o, rs_input_files *files,
                            const rs_compare_request *request, const rs_context *context,
                            rs_error *err)
{
    rs_probe_options options;
    rs_probe_defaults(&options);
    options.source = request->options.source;
    options.measure.batch = request->options.batch;
    options.measure.mixing = RS_MIXING_NONE;
    options.measure.loss = options.source.random == 0;
    const rs_open_request open = {.path = model->path,
                                  .lenient = request->lenient,
                                  .source = options.source,
                                  .need = rs_probe_need,
                                  .options = &options};
    RS_TRY(rs_opened_open(o, model->probe, files, &open, context, err));
    RS_TRY(keep_ids(model, o, err));
    return rs_probe(model->probe, o->network, o->inputs, o->tokenizer, &options, files, NULL,
                    context, err);
}

static rs_status say_not_run(rs_result *result, const rs_compared *model, const rs_error *why,
                             rs_error *err)
{
    char message[1800];
    snprintf(message, sizeof message, "%.200s was not run on the inputs: %.500s: %.900s",
             model->path, why->where, why->what);
    rs_finding f = rs_finding_of(RS_WARN, "tokens_not_compared");
    f.message = message;
    f.hint = why->hint[0] ? why->hint : "its weights are compared all the same";
    return rs_result_add_finding(result, &f, err);
}

rs_status rs_compare_run(rs_compared *model, rs_result *result, rs_input_files *inputs,
                         const rs_compare_request *request, const rs_context *context,
                         rs_error *err)
{
    rs_opened o = {0};
    rs_error why = {0};
    model->probe = rs_result_new("probe");
    if (!model->probe) return rs_fail_memory(err, "result", 0);
    rs_status status = probe_open(model, &o, inputs, request, context, &why);
    rs_opened_close(&o);
    if (status == RS_OK) return RS_OK;
    rs_result_free(model->probe);
    model->probe = NULL;
    if (err) *err = why;
    return is_fatal(status) ? status : say_not_run(result, model, &why, err);
}

/* ---- are these the same tokens? ---- */

static bool same_ids(const rs_compared *a, const rs_compared *b)
{
    return a->n_ids == b->n_ids && a->ids && b->ids &&
           memcmp(a->ids, b->ids, (size_t)a->n_ids * sizeof *a->ids) == 0;
}

static rs_status say_other_tokens(rs_result *result, const rs_comparison *c, rs_error *err)
{
    const rs_compared *a = c->a, *b = c->b;
    char message[900];
    if (!a->ids || !b->ids) return RS_OK;
    bool same = same_ids(a, b);
    if (same && a->vocabulary == b->vocabulary) return RS_OK;
    if (same)
        snprintf(
            message, sizeof message,
            "%.200s: the same ids, of vocabularies of %lld and %lld tokens: an id may stand for "
            "another word",
            b->path, (long long)a->vocabulary, (long long)b->vocabulary);
    else
        snprintf(
            message, sizeof message,
            "%.200s reads other ids than %.200s: %lld and %lld tokens, of vocabularies of %lld "
            "and %lld",
            b->path, a->path, (long long)b->n_ids, (long long)a->n_ids, (long long)b->vocabulary,
            (long long)a->vocabulary);
    rs_finding f = rs_finding_of(RS_INFO, "other_tokens");
    f.message = message;
    f.hint = "each row is about that model's own tokens; losses a token are not comparable";
    f.table = "tokens";
    return rs_result_add_finding(result, &f, err);
}

/* ---- table tokens ---- */

/* A row of table tokens. */
typedef struct token_cells {
    const char *path, *site;
    int64_t layer;
    double of[RS_TOKEN_REALS][3];
} token_cells;

static const rs_column token_keys[] = {
    RS_COMPARE_PATH(token_cells),
    {.name = "layer",
     RS_CELL(token_cells, layer),
     .formula = "number of the state: 0 enters the first block"},
    {.name = "site",
     RS_CELL(token_cells, site),
     .formula = "block_out: the state; mixer_out: what the layer's mixer adds"},
};
const rs_table_kind rs_compare_tokens_kind = {
    "compare",
    "tokens",
    {RS_PART(token_keys), {rs_token_columns, RS_TOKEN_REALS, "_a|_b|_change"}}};

/* A column of a table of probe by name: NaN where it has none. Counts are numbers too. */
static double number_at(const rs_table *table, size_t row, const char *name)
{
    int column = rs_table_find_column(table, name);
    if (column < 0) return NAN;
    if (rs_table_column(table, (size_t)column)->type == RS_COLUMN_REAL)
        return rs_table_real(table, row, (size_t)column);
    int64_t whole = rs_table_int(table, row, (size_t)column);
    return whole == RS_NULL_INT ? NAN : (double)whole;
}

static const char *text_at(const rs_table *table, size_t row, const char *name)
{
    int column = rs_table_find_column(table, name);
    return column < 0 ? NULL : rs_table_text(table, row, (size_t)column);
}

/* The row of the same state; false where there is none. */
static bool same_state(size_t *out, const rs_table *b, const rs_table *a, size_t row)
{
    const char *site = text_at(a, row, "site");
    for (size_t i = 0; i < rs_table_rows(b); i++) {
        const char *other = text_at(b, i, "site");
        *out = i;
        if (site && other && strcmp(site, other) == 0 &&
            number_at(a, row, "layer") == number_at(b, i, "layer"))
            return true;
    }
    return false;
}

static rs_status add_states(rs_table *table, const rs_comparison *c, rs_error *err)
{
    const rs_table *a = rs_result_table(c->a->probe, "tokens"),
                   *b = rs_result_table(c->b->probe, "tokens");
    for (size_t row = 0, other; a && b && row < rs_table_rows(a); row++) {
        if (!same_state(&other, b, a, row)) continue;
        token_cells cells = {.path = c->b->path,
                             .site = text_at(a, row, "site"),
                             .layer = (int64_t)number_at(a, row, "layer")};
        for (size_t i = 0; i < RS_TOKEN_REALS; i++)
            rs_compare_set(cells.of[i], number_at(a, row, rs_token_columns[i].name),
                           number_at(b, other, rs_token_columns[i].name));
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

/* ---- table loss ---- */

/* A row of table loss. */
typedef struct loss_cells {
    const char *path;
    int64_t tokens_a, tokens_b;
    double nll[3];
} loss_cells;

static const rs_column loss_columns[] = {
    RS_COMPARE_PATH(loss_cells),
    {.name = "tokens_a", RS_CELL(loss_cells, tokens_a), .formula = "tokens that A predicted"},
    {.name = "tokens_b", RS_CELL(loss_cells, tokens_b), .formula = "tokens that B predicted"},
    {.name = "nll_a",
     RS_CELL(loss_cells, nll[0]),
     .unit = "nats",
     .formula = "mean of −ln p of the next token, in A"},
    {.name = "nll_b", RS_CELL(loss_cells, nll[1]), .unit = "nats", .formula = "the same in B"},
    {.name = "nll_change",
     RS_CELL(loss_cells, nll[2]),
     .unit = "nats",
     .formula = "nll_b − nll_a: above 0 where B predicts worse"},
};
const rs_table_kind rs_compare_loss_kind = {"compare", "loss", {RS_PART(loss_columns)}};

static bool have_losses(const rs_comparison *c)
{
    const rs_table *a = rs_result_table(c->a->probe, "loss"),
                   *b = rs_result_table(c->b->probe, "loss");
    return a && b && rs_table_rows(a) > 0 && rs_table_rows(b) > 0;
}

static rs_status loss_table(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    rs_table *table = NULL;
    for (size_t c = 0; c < n; c++) {
        if (!all[c].a->probe || !all[c].b->probe || !have_losses(&all[c])) continue;
        if (!table)
            RS_TRY(rs_result_add_table(result, "loss", "Loss",
                                       "How well each predicts the next token", loss_columns,
                                       sizeof loss_columns / sizeof *loss_columns, &table, err));
        const rs_table *a = rs_result_table(all[c].a->probe, "loss"),
                       *b = rs_result_table(all[c].b->probe, "loss");
        loss_cells cells = {.path = all[c].b->path,
                            .tokens_a = (int64_t)number_at(a, 0, "tokens"),
                            .tokens_b = (int64_t)number_at(b, 0, "tokens")};
        rs_compare_set(cells.nll, number_at(a, 0, "nll"), number_at(b, 0, "nll"));
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

/* ---- all of it ---- */

static rs_status token_table(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    enum { KEYS = sizeof token_keys / sizeof *token_keys };
    rs_column columns[KEYS + 3 * RS_TOKEN_REALS];
    rs_table *table;
    memcpy(columns, token_keys, sizeof token_keys);
    RS_TRY(rs_compare_three(columns + KEYS, rs_token_columns, RS_TOKEN_REALS,
                            offsetof(token_cells, of), rs_result_arena(result), err));
    RS_TRY(rs_result_add_table(result, "tokens", "Tokens",
                               "How far apart the tokens are, state by state, in both models",
                               columns, sizeof columns / sizeof *columns, &table, err));
    rs_table_show_first(table, "path,layer,site,relative_residual_a,relative_residual_b,"
                               "relative_residual_change,mean_cosine_a,mean_cosine_b,"
                               "effective_rank_a,effective_rank_b");
    for (size_t c = 0; c < n; c++)
        if (all[c].a->probe && all[c].b->probe) RS_TRY(add_states(table, &all[c], err));
    return RS_OK;
}

rs_status rs_compare_tokens(rs_result *result, const rs_comparison *all, size_t n, rs_error *err)
{
    bool any = false;
    for (size_t c = 0; c < n; c++) {
        if (!all[c].a->probe || !all[c].b->probe) continue;
        any = true;
        RS_TRY(say_other_tokens(result, &all[c], err));
    }
    if (!any) return RS_OK;
    RS_TRY(token_table(result, all, n, err));
    return loss_table(result, all, n, err);
}
