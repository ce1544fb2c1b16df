/* report_sample.h: a small result with every kind of cell, for the tests of the writers. */
#ifndef RS_TEST_REPORT_SAMPLE_H
#define RS_TEST_REPORT_SAMPLE_H

#include "report/figures.h"
#include "report/result.h"

#include <math.h>

static const rs_column sample_columns[] = {
    {.name = "layer", .type = RS_COLUMN_INT},
    {.name = "head", .type = RS_COLUMN_INT},
    {.name = "product", .type = RS_COLUMN_TEXT},
    {.name = "effective_rank",
     .type = RS_COLUMN_REAL,
     .title = "effective rank",
     .formula = "exp(H)"},
    {.name = "effective_rank_null", .type = RS_COLUMN_REAL, .provenance = "predicted"},
    {.name = "alive", .type = RS_COLUMN_BOOL},
    {.name = "singular_values", .type = RS_COLUMN_VECTOR},
};
enum { SAMPLE_COLUMNS = 7 };

/* Texts that a careless writer would break on. */
static const char *const sample_texts[] = {"qk",
                                           "a,b",
                                           "say \"hi\"",
                                           "two\nlines",
                                           "",
                                           "</script><!--",
                                           "caf\xC3\xA9 \xE6\xBC\xA2",
                                           "bad \xFF\xC0\x80 end",
                                           "tab\tand \x1b[31mred",
                                           "\xE2\x80\xA8",
                                           " padded "};
enum { SAMPLE_TEXTS = sizeof sample_texts / sizeof *sample_texts };

static rs_status sample_fill(rs_table *t, rs_error *err)
{
    for (size_t i = 0; i < SAMPLE_TEXTS; i++) {
        size_t row;
        const double values[] = {1.0 / (double)(i + 3), (double)INFINITY, -1e300 * (double)i};
        RS_TRY(rs_table_add_row(t, &row, err));
        rs_table_set_int(t, row, 0, (int64_t)i);
        RS_TRY(rs_table_set_text(t, row, 2, sample_texts[i], err));
        if (i == 3) continue; /* a row of nulls */
        rs_table_set_int(t, row, 1, (int64_t)(i % 3));
        rs_table_set_real(t, row, 3, i == 5 ? (double)NAN : 0.1 * (double)i + 1e-17);
        rs_table_set_real(t, row, 4, i == 6 ? (double)INFINITY : 3.0);
        rs_table_set_bool(t, row, 5, i % 2 == 0);
        RS_TRY(rs_table_set_vector(t, row, 6, values, i % 4, err));
    }
    return RS_OK;
}

static rs_status sample_findings(rs_result *r, rs_error *err)
{
    for (int i = 0; i < 30; i++) {
        const rs_finding f = {.severity = (rs_severity)(i % 3),
                              .code = i % 2 ? "odd_code" : "even_code",
                              .layer = i % 3 ? i : RS_NULL_INT,
                              .head = i % 3 ? 2 : RS_NULL_INT,
                              .value = i % 3 ? 0.5 * i : (double)NAN,
                              .threshold = NAN,
                              .message =
                                  "Something with \xCF\x83 happened that takes a long line to "
                                  "be told about, longer than any narrow terminal.",
                              .hint = i % 2 ? "do this" : NULL,
                              .table = i % 3 ? "heads" : NULL,
                              .product = i % 3 ? "qk" : NULL};
        RS_TRY(rs_result_add_finding(r, &f, err));
    }
    const rs_verdict verdict = {.answer = "Something happened.",
                                .code = "sample",
                                .severity = RS_WARN,
                                .value = 0.25,
                                .threshold = NAN,
                                .next = "look at it"};
    RS_TRY(rs_result_set_verdict(r, &verdict, err));
    return rs_result_group_findings(r, err);
}

/* Figures over the sample's table: one of each builder. */
static rs_status sample_figures(rs_result *r, rs_error *err)
{
    static const rs_figure_field measures[] = {{"effective_rank", "effective rank"},
                                               {"effective_rank_null", NULL}};
    static const char *const keys[] = {"layer", "head", "product"};
    const rs_figure_names names = {keys, 3}, panels = {&keys[2], 1};
    const rs_heatmap map = {.table = "heads",
                            .x = {"head", NULL},
                            .y = {"layer", NULL},
                            .measures = measures,
                            .n_measures = 2,
                            .facets = panels,
                            .keys = names,
                            .n_x = 3,
                            .n_y = 11};
    const rs_scatter scatter = {.table = "heads",
                                .x = {"layer", NULL},
                                .y = {"head", NULL},
                                .colour = {"head", NULL},
                                .keys = names,
                                .diagonal = true,
                                .log_x = true};
    const rs_lines lines = {.table = "heads",
                            .x = {"layer", NULL},
                            .y = {"effective_rank", NULL},
                            .low = {"effective_rank_null", NULL},
                            .high = {"effective_rank", NULL},
                            .colour = {"head", NULL},
                            .facets = panels,
                            .keys = names,
                            .y_rule = 2,
                            .y_rule_label = "two"};
    RS_TRY(rs_result_add_figure(r, "map", "A map", "about", rs_figure_heatmap(&map), err));
    RS_TRY(rs_result_add_figure(r, "points", NULL, NULL, rs_figure_scatter(&scatter), err));
    return rs_result_add_figure(r, "curves", NULL, NULL, rs_figure_lines(&lines), err);
}

/* The whole sample; *out is to be freed whatever is returned. */
static rs_status sample_result(rs_result **out, rs_error *err)
{
    rs_table *t;
    *out = rs_result_new("scan");
    if (!*out) return rs_fail_memory(err, "sample", 0);
    RS_TRY(rs_result_set_meta(*out, "extra", json_real(0.1), err));
    RS_TRY(rs_result_set_meta(
        *out, "model", json_pack("{s:s, s:i}", "family", "bert", "parameters", 22713216), err));
    RS_TRY(rs_result_set_meta(*out, "args",
                              json_pack("{s:s, s:n}", "path",
                                        "m\xC3\xB6"
                                        "del",
                                        "seed"),
                              err));
    RS_TRY(rs_result_add_table(*out, "heads", "Heads", "about heads", sample_columns,
                               SAMPLE_COLUMNS, &t, err));
    RS_TRY(sample_fill(t, err));
    RS_TRY(rs_result_add_table(*out, "empty", NULL, NULL, sample_columns, 2, &t, err));
    RS_TRY(sample_figures(*out, err));
    return sample_findings(*out, err);
}

#endif
