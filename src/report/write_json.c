/* write_json.c: the result as JSON (docs/contract.md, "The JSON result"). */
#include "report/emit.h"
#include "report/figure_spec.h"
#include "report/output.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

/* Meta members that come first, in this order; all others follow as they were set. */
static const char *const meta_order[] = {"args", "started", "seconds", "machine", "model"};
enum { META_ORDERED = sizeof meta_order / sizeof *meta_order };

static rs_status write_meta(rs_buffer *out, const rs_result *result, bool *first, rs_error *err)
{
    json_t *meta = (json_t *)(uintptr_t)rs_result_meta(result); /* iterators take no const */
    for (size_t i = 0; i < META_ORDERED; i++) {
        const json_t *value = json_object_get(meta, meta_order[i]);
        if (!value) continue;
        rs_emit_key(out, meta_order[i], first);
        RS_TRY(rs_emit_json(out, value, err));
    }
    for (void *i = json_object_iter(meta); i; i = json_object_iter_next(meta, i)) {
        const char *key = json_object_iter_key(i);
        bool done = false;
        for (size_t k = 0; k < META_ORDERED; k++)
            done |= strcmp(key, meta_order[k]) == 0;
        if (done) continue;
        rs_emit_key(out, key, first);
        RS_TRY(rs_emit_json(out, json_object_iter_value(i), err));
    }
    return RS_OK;
}

/* The text before each cell of a row: `{"layer":`, `,"head":` ... made once a table. */
static bool make_prefixes(rs_buffer *prefixes, size_t *ends, const rs_table *table)
{
    for (size_t c = 0; c < rs_table_columns(table); c++) {
        rs_buffer_puts(prefixes, c ? "," : "{");
        rs_emit_string(prefixes, rs_table_column(table, c)->name);
        rs_buffer_puts(prefixes, ":");
        ends[c] = prefixes->length;
    }
    return !prefixes->failed;
}

static void write_rows(rs_buffer *out, const rs_table *table, const char *prefixes,
                       const size_t *ends)
{
    size_t rows = rs_table_rows(table), columns = rs_table_columns(table);
    rs_buffer_puts(out, "[");
    for (size_t r = 0; r < rows; r++) {
        rs_buffer_puts(out, r ? ",\n" : "\n");
        for (size_t c = 0; c < columns; c++) {
            size_t begin = c ? ends[c - 1] : 0;
            rs_buffer_append(out, prefixes + begin, ends[c] - begin);
            rs_emit_cell(out, table, r, c);
        }
        rs_buffer_puts(out, columns ? "}" : "{}");
    }
    rs_buffer_puts(out, "]");
}

static rs_status write_table(rs_buffer *out, const rs_table *table, rs_error *err)
{
    RS_TRY(rs_table_check(table, err));
    rs_buffer prefixes = {0};
    size_t *ends = rs_malloc(rs_table_columns(table), sizeof *ends);
    bool ok = ends && make_prefixes(&prefixes, ends, table);
    if (ok) write_rows(out, table, prefixes.data, ends);
    rs_free(ends);
    rs_buffer_free(&prefixes);
    return ok ? RS_OK : rs_fail_memory(err, rs_table_name(table), 0);
}

static void write_optional(rs_buffer *out, const char *key, const char *text, bool *first)
{
    if (!text) return;
    rs_emit_key(out, key, first);
    rs_emit_string(out, text);
}

static void write_finding(rs_buffer *out, const rs_finding_group *group)
{
    const rs_finding *finding = group->worst;
    bool first = true;
    rs_buffer_puts(out, "{");
    rs_emit_key(out, "severity", &first);
    rs_emit_string(out, rs_severity_name(finding->severity));
    rs_emit_key(out, "code", &first);
    rs_emit_string(out, finding->code);
    rs_emit_key(out, "count", &first);
    rs_emit_integer(out, (int64_t)group->count);
    rs_emit_key(out, "layer", &first);
    rs_emit_integer(out, finding->layer);
    rs_emit_key(out, "head", &first);
    rs_emit_integer(out, finding->head);
    rs_emit_key(out, "value", &first);
    rs_emit_real(out, finding->value);
    rs_emit_key(out, "threshold", &first);
    rs_emit_real(out, finding->threshold);
    rs_emit_key(out, "message", &first);
    rs_emit_string(out, group->message);
    rs_emit_key(out, "hint", &first);
    rs_emit_string(out, finding->hint);
    write_optional(out, "table", finding->table, &first);
    write_optional(out, "product", finding->product, &first);
    write_optional(out, "stack", finding->stack, &first);
    write_optional(out, "attention", finding->attention, &first);
    write_optional(out, "variant", finding->variant, &first);
    if (group->housekeeping) {
        rs_emit_key(out, "housekeeping", &first);
        rs_buffer_puts(out, "true");
    }
    rs_buffer_puts(out, "}");
}

static void write_verdict(rs_buffer *out, const rs_verdict *verdict)
{
    bool first = true;
    if (!verdict) {
        rs_buffer_puts(out, "null");
        return;
    }
    rs_buffer_puts(out, "{");
    rs_emit_key(out, "answer", &first);
    rs_emit_string(out, verdict->answer);
    rs_emit_key(out, "code", &first);
    rs_emit_string(out, verdict->code);
    rs_emit_key(out, "severity", &first);
    rs_emit_string(out, rs_severity_name((rs_severity)verdict->severity));
    rs_emit_key(out, "value", &first);
    rs_emit_real(out, verdict->value);
    rs_emit_key(out, "threshold", &first);
    rs_emit_real(out, verdict->threshold);
    rs_emit_key(out, "next", &first);
    rs_emit_string(out, verdict->next);
    rs_buffer_puts(out, "}");
}

static rs_status write_tables(rs_buffer *out, const rs_result *result, rs_error *err)
{
    bool first = true;
    rs_buffer_puts(out, "{");
    for (size_t i = 0; i < rs_result_table_count(result); i++) {
        const rs_table *table = rs_result_table_at(result, i);
        rs_buffer_puts(out, first ? "\n" : "");
        rs_emit_key(out, rs_table_name(table), &first);
        RS_TRY(write_table(out, table, err));
    }
    rs_buffer_puts(out, "}");
    return RS_OK;
}

static rs_status write_figures(rs_buffer *out, const rs_result *result, rs_error *err)
{
    bool first = true;
    rs_buffer_puts(out, "{");
    for (size_t i = 0; i < rs_result_figure_count(result); i++) {
        rs_buffer_puts(out, first ? "\n" : "");
        rs_emit_key(out, rs_result_figure_name(result, i), &first);
        RS_TRY(rs_figure_write(out, result, i, err));
    }
    rs_buffer_puts(out, "}");
    return RS_OK;
}

rs_status rs_write_json(rs_buffer *out, const rs_result *result, rs_error *err)
{
    bool first = false; /* behind the mark */
    int64_t failures = rs_memory_failures();
    RS_TRY(rs_result_complete(result, err));
    rs_buffer_puts(out, RS_MARK_JSON);
    rs_buffer_printf(out, "%s\"", rs_version());
    rs_emit_key(out, "command", &first);
    rs_emit_string(out, rs_result_command(result));
    RS_TRY(write_meta(out, result, &first, err));
    rs_buffer_puts(out, ",\n\"tables\":");
    RS_TRY(write_tables(out, result, err));
    rs_buffer_puts(out, ",\n\"figures\":");
    RS_TRY(write_figures(out, result, err));
    rs_buffer_puts(out, ",\n\"verdict\":");
    write_verdict(out, rs_result_verdict(result));
    rs_buffer_puts(out, ",\n\"findings\":[");
    for (size_t i = 0; i < rs_result_group_count(result); i++) {
        rs_buffer_puts(out, i ? ",\n" : "\n");
        write_finding(out, rs_result_group_at(result, i));
    }
    rs_buffer_puts(out, "]}\n");
    if (out->failed) return rs_fail_memory(err, "JSON result", out->length);
    return rs_memory_check(failures, "JSON result", err);
}
