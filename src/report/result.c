/* result.c: the result object: meta, tables, figures, findings. */
#include "report/result.h"

#include "report/findings.h"
#include "report/output.h"
#include "report/table.h"

#include <string.h>

typedef struct figure {
    const char *name, *title, *about;
    rs_plot plot;
} figure;

struct rs_result {
    rs_strings strings;
    const char *command;
    json_t *meta;
    rs_table **tables;
    size_t n_tables, tables_capacity;
    figure *figures;
    size_t n_figures, figures_capacity;
    rs_finding *findings;
    size_t n_findings, findings_capacity;
    rs_finding_group *groups;
    size_t n_groups;
    rs_verdict verdict; /* answer NULL: there is none */
    const char *shown;  /* tables shown unasked, or NULL */
    const char *more;   /* see rs_result_show_more */
    rs_curve curve;     /* table NULL: there is none */
    bool has_curve;     /* which it is, is said */
    rs_input_files files;
    rs_outputs outputs; /* those of files */
    int64_t failures;   /* rs_memory_failures when it was made */
    bool damaged;       /* sticky: a request has failed since, while it was filled */
    rs_arena **adopted; /* [n_adopted] arenas of results that became part of this one */
    size_t n_adopted, adopted_capacity;
};

rs_result *rs_result_new(const char *command)
{
    rs_memory_watch_json();
    rs_result *result = rs_calloc(1, sizeof *result);
    if (!result) return NULL;
    result->failures = rs_memory_failures();
    result->files.outputs = &result->outputs;
    result->strings.arena = rs_arena_new();
    if (result->strings.arena) result->command = rs_strings_intern(&result->strings, command);
    result->meta = json_object();
    if (result->command && result->meta) return result;
    rs_result_free(result);
    return NULL;
}

rs_arena *rs_result_arena(rs_result *result)
{
    return result->strings.arena;
}

void rs_result_show(rs_result *result, const char *tables)
{
    result->shown = tables;
}

void rs_result_show_more(rs_result *result, const char *table)
{
    result->more = table;
}

void rs_result_show_curve(rs_result *result, const rs_curve *curve)
{
    if (!curve)
        result->curve = (rs_curve){0};
    else if (!result->has_curve)
        result->curve = *curve;
    result->has_curve = true;
}

const rs_curve *rs_result_curve(const rs_result *result)
{
    return result->curve.table ? &result->curve : NULL;
}

const char *rs_result_shown_more(const rs_result *result)
{
    return result->more;
}

const char *rs_result_shown(const rs_result *result)
{
    return result->shown;
}

rs_input_files *rs_result_files(rs_result *result)
{
    return &result->files;
}

void rs_result_free(rs_result *result)
{
    char what[512];
    if (!result) return;
    if (result->outputs.first || result->outputs.n_folders)
        rs_outputs_undo(&result->outputs, what, sizeof what);
    rs_input_files_free(&result->files);
    for (size_t i = 0; i < result->n_tables; i++)
        rs_table_free(result->tables[i]);
    rs_free(result->tables);
    rs_free(result->figures);
    rs_free(result->findings);
    rs_free(result->groups);
    json_decref(result->meta);
    rs_strmap_free(&result->strings.map);
    rs_arena_free(result->strings.arena);
    for (size_t i = 0; i < result->n_adopted; i++)
        rs_arena_free(result->adopted[i]);
    rs_free(result->adopted);
    rs_free(result);
}

static rs_status take_files(rs_input_files *files, const rs_input_files *of, rs_error *err)
{
    for (size_t i = 0; i < of->n; i++)
        RS_TRY(rs_input_files_add(files, of->ids[i], err));
    for (size_t i = 0; i < of->n_models; i++)
        RS_TRY(rs_input_files_model(files, of->models[i], err));
    return RS_OK;
}

rs_status rs_result_adopt(rs_result *result, rs_result *part, rs_error *err)
{
    rs_status status = take_files(&result->files, &part->files, err);
    if (status == RS_OK && !RS_GROW(result->adopted, result->n_adopted, result->adopted_capacity))
        status = rs_fail_memory(err, "result", 0);
    if (status == RS_OK) {
        result->adopted[result->n_adopted++] = part->strings.arena;
        part->strings.arena = NULL;
    }
    rs_result_free(part);
    return status;
}

/* ---- building ---- */

rs_status rs_result_complete(const rs_result *result, rs_error *err)
{
    return result->damaged ? rs_fail_memory(err, "result", 0) : RS_OK;
}

/* JSON built by the caller is where a failed request would stay unseen: a member is then absent. */
static rs_status whole(rs_result *result, const char *name, rs_error *err)
{
    result->damaged |= rs_memory_failures() != result->failures;
    return result->damaged ? rs_fail_memory(err, name, 0) : RS_OK;
}

rs_status rs_result_seal(rs_result *result, rs_error *err)
{
    RS_TRY(rs_result_group_findings(result, err));
    return whole(result, "result", err);
}

/* Frees the JSON that was to be taken over. */
static rs_status refused(json_t *value, rs_status status)
{
    json_decref(value);
    return status;
}

rs_status rs_result_set_meta(rs_result *result, const char *key, json_t *value, rs_error *err)
{
    if (!value) return rs_fail_memory(err, key, 0); /* the caller's json_pack ran out of it */
    rs_status status = whole(result, key, err);
    if (status != RS_OK) return refused(value, status);
    static const char *const taken[] = {"rankscope", "command",  "tables",
                                        "figures",   "findings", "verdict"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (strcmp(key, taken[i]) == 0)
            return refused(value, rs_fail(err, RS_E_INTERNAL, key, "please report this",
                                          "this key of the result belongs to the writer"));
    }
    if (json_object_set_new(result->meta, key, value) != 0) return rs_fail_memory(err, key, 0);
    return whole(result, key, err);
}

rs_status rs_result_add_table(rs_result *result, const char *name, const char *title,
                              const char *about, const rs_column *columns, size_t n_columns,
                              rs_table **out, rs_error *err)
{
    *out = NULL;
    if (rs_result_table(result, name))
        return rs_fail(err, RS_E_INTERNAL, name, "please report this",
                       "a table of this name exists already");
    if (!RS_GROW(result->tables, result->n_tables, result->tables_capacity))
        return rs_fail_memory(err, name, 0);
    rs_table *table = rs_table_new(&result->strings, name, title, about, columns, n_columns);
    if (!table) return rs_fail_memory(err, name, 0);
    *out = result->tables[result->n_tables++] = table;
    return RS_OK;
}

rs_status rs_result_add_figure(rs_result *result, const char *name, const char *title,
                               const char *about, rs_plot plot, rs_error *err)
{
    figure added = {
        .name = rs_strings_intern(&result->strings, name),
        .title = rs_strings_intern(&result->strings, title ? title : name),
        .about = rs_strings_intern(&result->strings, about ? about : ""),
        .plot = plot,
    };
    if (whole(result, name, NULL) != RS_OK || !added.name || !added.title || !added.about ||
        !RS_GROW(result->figures, result->n_figures, result->figures_capacity))
        return rs_fail_memory(err, name, 0);
    result->figures[result->n_figures++] = added;
    return RS_OK;
}

/* Copies *text into the result; true also for NULL. */
static bool keep(rs_result *result, const char **text)
{
    if (*text) *text = rs_strings_intern(&result->strings, *text);
    return *text != NULL;
}

rs_status rs_result_add_finding(rs_result *result, const rs_finding *finding, rs_error *err)
{
    rs_finding added = *finding;
    if (!added.code) added.code = "note";
    if (!added.message) added.message = added.code;
    const char **texts[] = {&added.code,    &added.message, &added.hint,      &added.table,
                            &added.product, &added.stack,   &added.attention, &added.variant,
                            &added.cases,   &added.worst,   &added.said};
    bool kept = true;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i]) kept &= keep(result, texts[i]);
    if (!kept || !RS_GROW(result->findings, result->n_findings, result->findings_capacity))
        return rs_fail_memory(err, "findings", 0);
    result->findings[result->n_findings++] = added;
    return RS_OK;
}

static bool says(const rs_result *result, const rs_note *note)
{
    for (size_t i = 0; i < result->n_findings; i++)
        if (strcmp(result->findings[i].code, note->code) == 0 &&
            strcmp(result->findings[i].message, note->message) == 0)
            return true;
    return false;
}

rs_status rs_result_add_notes(rs_result *result, const rs_notes *notes, rs_error *err)
{
    for (size_t i = 0; i < notes->n; i++) {
        const rs_note *note = &notes->items[i];
        if (says(result, note)) continue;
        rs_finding finding = rs_finding_of(note->severity, note->code);
        finding.message = note->message;
        finding.hint = note->hint;
        RS_TRY(rs_result_add_finding(result, &finding, err));
    }
    return RS_OK;
}

rs_status rs_result_group_findings(rs_result *result, rs_error *err)
{
    rs_table *table;
    if (result->groups) return RS_OK;
    rs_findings_sort(result->findings, result->n_findings);
    result->groups = rs_calloc(result->n_findings + 1, sizeof *result->groups);
    if (!result->groups) return rs_fail_memory(err, "findings", 0);
    RS_TRY(rs_findings_group(result->groups, &result->n_groups, result->findings,
                             result->n_findings, result->strings.arena, err));
    RS_TRY(rs_result_add_table(result, "findings", "Findings, case by case",
                               "Every case of every finding: the severest first, and of these the "
                               "furthest beyond its threshold.",
                               rs_findings_columns, RS_FINDINGS_COLUMNS, &table, err));
    return rs_findings_list(table, result->findings, result->n_findings, err);
}

rs_status rs_result_set_verdict(rs_result *result, const rs_verdict *verdict, rs_error *err)
{
    rs_verdict set = *verdict;
    if (result->verdict.answer || !set.answer || !set.code)
        return rs_fail(err, RS_E_INTERNAL, "verdict", "please report this",
                       "a result has one verdict, with an answer and a code");
    bool kept = keep(result, &set.answer) && keep(result, &set.code);
    if (!kept || (set.next && !keep(result, &set.next))) return rs_fail_memory(err, "verdict", 0);
    result->verdict = set;
    return RS_OK;
}

/* ---- reading ---- */

const char *rs_result_command(const rs_result *result)
{
    return result->command;
}

const json_t *rs_result_meta(const rs_result *result)
{
    return result->meta;
}

size_t rs_result_table_count(const rs_result *result)
{
    return result->n_tables;
}

const rs_table *rs_result_table_at(const rs_result *result, size_t index)
{
    return index < result->n_tables ? result->tables[index] : NULL;
}

const rs_table *rs_result_table(const rs_result *result, const char *name)
{
    for (size_t i = 0; i < result->n_tables; i++)
        if (strcmp(rs_table_name(result->tables[i]), name) == 0) return result->tables[i];
    return NULL;
}

size_t rs_result_figure_count(const rs_result *result)
{
    return result->n_figures;
}

const char *rs_result_figure_name(const rs_result *result, size_t index)
{
    return index < result->n_figures ? result->figures[index].name : NULL;
}

const char *rs_result_figure_title(const rs_result *result, size_t index)
{
    return index < result->n_figures ? result->figures[index].title : NULL;
}

const char *rs_result_figure_about(const rs_result *result, size_t index)
{
    return index < result->n_figures ? result->figures[index].about : NULL;
}

const rs_plot *rs_result_figure_plot(const rs_result *result, size_t index)
{
    return index < result->n_figures ? &result->figures[index].plot : NULL;
}

size_t rs_result_finding_count(const rs_result *result)
{
    return result->n_findings;
}

const rs_finding *rs_result_finding_at(const rs_result *result, size_t index)
{
    return index < result->n_findings ? &result->findings[index] : NULL;
}

size_t rs_result_group_count(const rs_result *result)
{
    return result->n_groups;
}

const rs_finding_group *rs_result_group_at(const rs_result *result, size_t index)
{
    return index < result->n_groups ? &result->groups[index] : NULL;
}

const rs_verdict *rs_result_verdict(const rs_result *result)
{
    return result && result->verdict.answer ? &result->verdict : NULL;
}
