/*
 * write_html.c: the report: one HTML file that needs nothing else.
 *
 * page.html has three marks. They are replaced by the title, by the result (the same JSON as
 * rs_write_json gives, so that a program can take it out of the file again), and by what people
 * want to know about tables, columns and figures, which is not part of that JSON.
 */
#include "report/emit.h"
#include "report/page.h"
#include "report/words.h"

#include <string.h>

/* What web/template.html has where something is put in, in this order. */
static const char mark_title[] = "<!--rankscope-title-->";
static const char mark_result[] = "<!--rankscope-result-->";
static const char mark_about[] = "<!--rankscope-about-->";

static const char *const column_types[] = {
    [RS_COLUMN_TEXT] = "text", [RS_COLUMN_INT] = "int",       [RS_COLUMN_REAL] = "real",
    [RS_COLUMN_BOOL] = "bool", [RS_COLUMN_VECTOR] = "vector",
};

static void member(rs_buffer *out, const char *key, const char *text, bool *first)
{
    if (!text) return;
    rs_emit_key(out, key, first);
    rs_emit_string(out, text);
}

/* What a column's numbers bound, as the page rounds them. */
static const char *const bounds[] = {
    [RS_BOUND_NONE] = NULL, [RS_BOUND_UPPER] = "upper", [RS_BOUND_LOWER] = "lower"};

static void about_column(rs_buffer *out, const rs_column *column)
{
    bool first = true;
    rs_buffer_puts(out, "{");
    member(out, "name", column->name, &first);
    member(out, "type", column_types[column->type], &first);
    member(out, "title", column->title, &first);
    member(out, "unit", column->unit, &first);
    member(out, "formula", column->formula, &first);
    member(out, "provenance", column->provenance, &first);
    member(out, "bound", bounds[column->bound], &first);
    rs_buffer_puts(out, "}");
}

static void about_table(rs_buffer *out, const rs_table *table)
{
    bool first = true;
    rs_buffer_puts(out, "{");
    member(out, "title", rs_table_title(table), &first);
    member(out, "about", rs_table_about(table), &first);
    if (rs_table_is_lead(table)) {
        rs_emit_key(out, "lead", &first);
        rs_buffer_puts(out, "true");
    }
    rs_emit_key(out, "columns", &first);
    rs_buffer_puts(out, "[");
    for (size_t c = 0; c < rs_table_columns(table); c++) {
        rs_buffer_puts(out, c ? "," : "");
        about_column(out, rs_table_column(table, c));
    }
    rs_buffer_puts(out, "]}");
}

/* ---- the words that this result uses, for tooltips ---- */

/* Where a page shows words: of its tables and figures. */
static bool in_headings(const rs_word *word, const rs_result *result)
{
    for (size_t i = 0; i < rs_result_figure_count(result); i++)
        if (rs_word_stands_in(word, rs_result_figure_title(result, i)) ||
            rs_word_stands_in(word, rs_result_figure_about(result, i)))
            return true;
    for (size_t i = 0; i < rs_result_table_count(result); i++) {
        const rs_table *table = rs_result_table_at(result, i);
        if (rs_word_stands_in(word, rs_table_title(table)) ||
            rs_word_stands_in(word, rs_table_about(table)))
            return true;
        for (size_t c = 0; c < rs_table_columns(table); c++) {
            const rs_column *column = rs_table_column(table, c);
            if (rs_word_stands_in(word, column->title ? column->title : column->name)) return true;
        }
    }
    return false;
}

static bool is_used(const rs_word *word, const rs_result *result)
{
    bool code = word->kind == RS_WORD_FINDING || word->kind == RS_WORD_VERDICT;
    const rs_verdict *verdict = rs_result_verdict(result);
    if (verdict &&
        (code ? strcmp(verdict->code, word->name) == 0 : rs_word_stands_in(word, verdict->answer)))
        return true;
    for (size_t i = 0; i < rs_result_finding_count(result); i++) {
        const rs_finding *finding = rs_result_finding_at(result, i);
        if (code ? strcmp(finding->code, word->name) == 0
                 : rs_word_stands_in(word, finding->message))
            return true;
    }
    return !code && in_headings(word, result);
}

/* Commands may have a code each of the same name: the result's own counts. */
static bool is_another_command(const rs_word *word, const rs_result *result)
{
    const char *command = rs_result_command(result);
    const rs_word *other;
    if (rs_word_is_of(word, command)) return false;
    for (size_t i = 0; (other = rs_word_at(i)); i++)
        if (other != word && other->kind == word->kind && strcmp(other->name, word->name) == 0 &&
            rs_word_is_of(other, command))
            return true;
    return false;
}

/* {NAME: {kind, also, meaning, rule, todo}} */
static void glossary(rs_buffer *out, const rs_result *result)
{
    bool first = true;
    const rs_word *word;
    rs_buffer_puts(out, "{");
    for (size_t i = 0; (word = rs_word_at(i)); i++) {
        bool own = true;
        if (!is_used(word, result) || is_another_command(word, result)) continue;
        rs_emit_key(out, word->name, &first);
        rs_buffer_puts(out, "{");
        member(out, "kind", rs_word_kind_name(word->kind), &own);
        member(out, "also", word->also, &own);
        member(out, "meaning", word->meaning, &own);
        member(out, "rule", word->rule, &own);
        member(out, "todo", word->todo, &own);
        rs_buffer_puts(out, "}");
    }
    rs_buffer_puts(out, "}");
}

/* {"tables": {NAME: {title, about, columns}}, "figures": {NAME: {title, about}}, "words": ...} */
static void about(rs_buffer *out, const rs_result *result)
{
    bool first = true;
    rs_buffer_puts(out, "{\"tables\":{");
    for (size_t i = 0; i < rs_result_table_count(result); i++) {
        const rs_table *table = rs_result_table_at(result, i);
        rs_emit_key(out, rs_table_name(table), &first);
        about_table(out, table);
    }
    rs_buffer_puts(out, "},\"figures\":{");
    first = true;
    for (size_t i = 0; i < rs_result_figure_count(result); i++) {
        bool own = true;
        rs_emit_key(out, rs_result_figure_name(result, i), &first);
        rs_buffer_puts(out, "{");
        member(out, "title", rs_result_figure_title(result, i), &own);
        member(out, "about", rs_result_figure_about(result, i), &own);
        rs_buffer_puts(out, "}");
    }
    rs_buffer_puts(out, "},\"words\":");
    glossary(out, result);
    rs_buffer_puts(out, "}");
}

/* Copies the page up to the mark; *from moves behind it. */
static rs_status copy_to(rs_buffer *out, const char **from, const char *mark, rs_error *err)
{
    size_t length = strlen(mark), left = (size_t)(rs_page_end - *from);
    const char *found = memmem(*from, left, mark, length);
    if (!found)
        return rs_fail(err, RS_E_INTERNAL, "report page", "build the program again",
                       "the embedded page lacks its mark %s", mark);
    rs_buffer_append(out, *from, (size_t)(found - *from));
    *from = found + length;
    return RS_OK;
}

static void html_text(rs_buffer *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"'", *text))
            rs_buffer_printf(out, "&#%d;", *text);
        else
            rs_buffer_append(out, text, 1);
    }
}

rs_status rs_write_html(rs_buffer *out, const rs_result *result, rs_error *err)
{
    const char *from = rs_page_begin;
    int64_t failures = rs_memory_failures();
    RS_TRY(rs_result_complete(result, err));
    RS_TRY(copy_to(out, &from, mark_title, err));
    html_text(out, "rankscope ");
    html_text(out, rs_result_command(result));
    RS_TRY(copy_to(out, &from, mark_result, err));
    RS_TRY(rs_write_json(out, result, err));
    RS_TRY(copy_to(out, &from, mark_about, err));
    about(out, result);
    rs_buffer_append(out, from, (size_t)(rs_page_end - from));
    if (out->failed) return rs_fail_memory(err, "HTML report", out->length);
    return rs_memory_check(failures, "HTML report", err);
}
