/* write.c: results into files that appear together, and text to standard output. */
#include "api/check.h"
#include "api/command.h"
#include "base/memory.h"
#include "checkpoint/json_text.h"
#include "report/canvas.h"
#include "report/output.h"
#include "report/picture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- outputs that wait ---- */

rs_status rs_place_outputs(rs_result *result, rs_error *err)
{
    rs_outputs *outputs = rs_result_files(result)->outputs;
    RS_TRY(rs_outputs_place(outputs, err));
    rs_outputs_keep(outputs);
    return RS_OK;
}

void rs_undo_outputs(rs_result *result, rs_status status, rs_error *err)
{
    char what[512];
    rs_outputs *outputs = rs_result_files(result)->outputs;
    bool say = status == RS_E_WRITE || status == RS_E_BROKEN_PIPE || status == RS_E_INTERRUPTED ||
               outputs->first;
    rs_outputs_undo(outputs, what, sizeof what);
    if (!say || !err || !what[0]) return;
    const rs_error was = *err;
    char hint[sizeof was.hint + sizeof what + 2];
    snprintf(hint, sizeof hint, "%s%s%s", was.hint, was.hint[0] ? "; " : "", what);
    rs_fail(err, status, was.where, hint, "%s", was.what);
}

/* ---- one form after the other ---- */

typedef rs_status writer(rs_buffer *out, const rs_result *result, rs_error *err);

static rs_status write_bytes(rs_result *result, const char *path, const rs_buffer *bytes,
                             rs_error *err)
{
    if (bytes->failed) return rs_fail_memory(err, path, bytes->length);
    return rs_output_write(path, bytes->data, bytes->length, rs_result_files(result), err);
}

/* "-" is a name for standard output. */
static const char *real_name(const char *path)
{
    return path && strcmp(path, "-") == 0 ? "/dev/stdout" : path;
}

static rs_status emit_file(rs_result *result, const char *path, writer *write, rs_error *err)
{
    rs_buffer bytes = {0};
    if (!path) return RS_OK;
    rs_status status = write(&bytes, result, err);
    if (status == RS_OK) status = write_bytes(result, real_name(path), &bytes, err);
    rs_buffer_free(&bytes);
    return status;
}

static rs_status emit_table(rs_result *result, const rs_table *table, const rs_output_settings *s,
                            rs_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.csv", s->csv, rs_table_name(table));
    if (n < 0 || (size_t)n >= sizeof path)
        return rs_fail(err, RS_E_BAD_OPTION, "csv", NULL, "the path is too long");
    rs_buffer bytes = {0};
    rs_status status = (s->csv_safe ? rs_write_csv_safe : rs_write_csv)(&bytes, table, err);
    if (status == RS_OK) status = write_bytes(result, path, &bytes, err);
    rs_buffer_free(&bytes);
    return status;
}

static rs_status emit_tables(rs_result *result, const rs_output_settings *s, rs_error *err)
{
    if (!s->csv) return RS_OK;
    RS_TRY(rs_outputs_make_folder(rs_result_files(result)->outputs, s->csv, err));
    for (size_t i = 0; i < rs_result_table_count(result); i++)
        RS_TRY(emit_table(result, rs_result_table_at(result, i), s, err));
    return RS_OK;
}

typedef rs_status rs_figure_writer(rs_buffer *out, const rs_result *result, size_t figure,
                                   rs_error *err);

static rs_status emit_figure(rs_result *result, const char *folder, const char *kind, size_t figure,
                             rs_figure_writer *write, rs_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.%s", folder, rs_result_figure_name(result, figure),
                     kind);
    if (n < 0 || (size_t)n >= sizeof path)
        return rs_fail(err, RS_E_BAD_OPTION, kind, NULL, "the path is too long");
    rs_buffer bytes = {0};
    rs_status status = write(&bytes, result, figure, err);
    if (status == RS_OK) status = write_bytes(result, path, &bytes, err);
    rs_buffer_free(&bytes);
    return status;
}

static rs_status emit_figures(rs_result *result, const char *folder, const char *kind,
                              rs_figure_writer *write, rs_error *err)
{
    if (!folder) return RS_OK;
    RS_TRY(rs_outputs_make_folder(rs_result_files(result)->outputs, folder, err));
    for (size_t i = 0; i < rs_result_figure_count(result); i++)
        RS_TRY(emit_figure(result, folder, kind, i, write, err));
    return RS_OK;
}

/* Text for people. A reader that has seen enough of it takes nothing from the files. */
static rs_status to_stdout(const rs_buffer *bytes, rs_outputs *outputs, rs_error *err)
{
    size_t left = bytes->length;
    int code = rs_output_descriptor_write(STDOUT_FILENO, bytes->data, &left, outputs->cancel);
    if (code == EPIPE) {
        rs_outputs_keep(outputs);
        return rs_fail(err, RS_E_BROKEN_PIPE, "standard output", "the files were written",
                       "its reader went away");
    }
    if (code == EINTR) return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL, "interrupted");
    if (code)
        return rs_fail(err, RS_E_WRITE, "standard output", "free space or choose another place",
                       "cannot be written: %s", strerror(code));
    return RS_OK;
}

static rs_status emit_text(rs_result *result, const rs_output_settings *s, rs_error *err)
{
    const rs_terminal terminal = {.width = s->width,
                                  .color = s->color,
                                  .unicode = s->unicode,
                                  .tables = s->tables,
                                  .columns = s->columns,
                                  .sort = s->sort,
                                  .where = s->where,
                                  .top = s->top,
                                  .wide = s->wide,
                                  .verbose = s->verbose,
                                  .height = s->height};
    rs_buffer bytes = {0};
    if (!s->text) return RS_OK;
    rs_status status = rs_write_terminal(&bytes, result, &terminal, err);
    if (status == RS_OK && bytes.failed) status = rs_fail_memory(err, "terminal", bytes.length);
    if (status == RS_OK) status = to_stdout(&bytes, rs_result_files(result)->outputs, err);
    rs_buffer_free(&bytes);
    return status;
}

/* Files first, then pipes and standard output. */
static rs_status emit_all(rs_result *result, const rs_output_settings *s, rs_error *err)
{
    rs_outputs *outputs = rs_result_files(result)->outputs;
    RS_TRY(emit_file(result, s->json, rs_write_json, err));
    RS_TRY(emit_file(result, s->html, rs_write_html, err));
    RS_TRY(emit_tables(result, s, err));
    RS_TRY(emit_figures(result, s->svg, "svg", rs_write_svg, err));
    RS_TRY(emit_figures(result, s->png, "png", rs_write_png, err));
    if (s->stop && __atomic_load_n(s->stop, __ATOMIC_RELAXED))
        return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL, "interrupted");
    RS_TRY(rs_outputs_place(outputs, err));
    return emit_text(result, s, err);
}

/* ---- the public functions ---- */

static void defaults(rs_any_settings *settings)
{
    settings->output.width = 80;
}

static const rs_command writing = {
    .name = "output", .size = sizeof(rs_output_settings), .defaults = defaults};

void rs_output_settings_init(rs_output_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &writing);
}

rs_status rs_output_png_ready(rs_error *err)
{
    return rs_canvas_png_ready(err);
}

/* What one output would take from another. */
static rs_status check_outputs(const rs_output_settings *s, rs_error *err)
{
    const char *json = real_name(s->json), *html = real_name(s->html);
    RS_TRY(rs_check_two_files(json, html, "json", "html", err));
    RS_TRY(rs_check_two_files(s->csv, json, "csv", "json", err));
    RS_TRY(rs_check_two_files(s->csv, html, "csv", "html", err));
    for (int i = 0; i < 2; i++) {
        RS_TRY(rs_check_two_files(i ? s->png : s->svg, json, i ? "png" : "svg", "json", err));
        RS_TRY(rs_check_two_files(i ? s->png : s->svg, html, i ? "png" : "svg", "html", err));
    }
    if (s->png) RS_TRY(rs_canvas_png_ready(err));
    if (!s->text) return RS_OK;
    RS_TRY(rs_check_two_files(json, "/dev/stdout", "json", "text", err));
    return rs_check_two_files(html, "/dev/stdout", "html", "text", err);
}

rs_status rs_result_write(rs_result *result, const rs_output_settings *settings, rs_error *err)
{
    rs_any_settings taken;
    RS_TRY(rs_check_pointer(result, "result", err));
    RS_TRY(rs_settings_take(&taken, &writing, settings, err));
    const rs_output_settings *s = &taken.output;
    rs_outputs *outputs = rs_result_files(result)->outputs;
    outputs->cancel = s->stop;
    outputs->kept = false;
    rs_status status = check_outputs(s, err);
    if (status == RS_OK) status = emit_all(result, s, err);
    if (status == RS_OK)
        rs_outputs_keep(outputs);
    else if (!outputs->kept)
        rs_undo_outputs(result, status, err);
    outputs->cancel = NULL;
    return status;
}

static bool is_taken(const rs_result *result, const char *key)
{
    static const char *const keys[] = {"rankscope", "command", "verdict",
                                       "tables",    "figures", "findings"};
    bool taken = json_object_get(rs_result_meta(result), key) != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        taken |= strcmp(key, keys[i]) == 0;
    return taken;
}

rs_status rs_result_note(rs_result *result, const char *key, const char *text, rs_error *err)
{
    static const rs_json_rules rules = {.max_depth = 64};
    json_t *value;
    RS_TRY(rs_check_pointer(result, "result", err));
    RS_TRY(rs_check_pointer(key, "key", err));
    RS_TRY(rs_check_pointer(text, "json", err));
    if (is_taken(result, key))
        return rs_fail(err, RS_E_BAD_OPTION, "key", "choose another name",
                       "the result has a member '%s' already", key);
    RS_TRY(rs_json_load(&value, key, text, strlen(text), &rules, err));
    return rs_result_set_meta(result, key, value, err);
}
