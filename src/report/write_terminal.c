/* write_terminal.c: the result for a person at a terminal: what was looked at, the summary, the
 * shape of the model, the tables asked for, and last (next to the prompt) the findings. */
#include "report/number.h"
#include "report/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NARROWEST = 32, MOST_FINDINGS = 12 };

/* ---- what was looked at ---- */

/* Members of "model" in the order in which people want them; %s is the value. */
static const struct {
    const char *key, *format;
} model_words[] = {
    {"family", "%s"},
    {"layers", "%s layers"},
    {"depth", "depth %s"},
    {"heads", "%s heads"},
    {"kv_heads", "%s kv heads"},
    {"d_model", "d_model %s"},
    {"d_head", "d_head %s"},
    {"parameters", "%s parameters"},
    {"dtype", "%s"},
    {"file_type", "file type %s"},
};

/* A scalar as text; counts above a million are shortened. False for objects, lists, null. */
static bool scalar_text(rs_buffer *text, const json_t *value)
{
    char number[RS_NUMBER_SIZE];
    if (json_is_string(value)) {
        rs_buffer_puts(text, json_string_value(value));
    } else if (json_is_integer(value) && json_integer_value(value) >= 1000000) {
        bool billions = json_integer_value(value) >= 1000000000;
        double scaled = (double)json_integer_value(value) / (billions ? 1e9 : 1e6);
        rs_buffer_append(text, number, rs_number_brief(number, scaled, 3));
        rs_buffer_puts(text, billions ? " B" : " M");
    } else if (json_is_integer(value)) {
        rs_buffer_append(text, number, rs_integer_format(number, json_integer_value(value)));
    } else if (json_is_real(value)) {
        rs_buffer_append(text, number, rs_number_brief(number, json_real_value(value), 4));
    } else {
        return false;
    }
    return true;
}

static void model_line(const rs_term *term, const json_t *model)
{
    rs_buffer line = {0}, value = {0};
    for (size_t i = 0; i < sizeof model_words / sizeof *model_words; i++) {
        /* Blocks that are applied more than once (ALBERT) make the model deeper than it has
         * layers. */
        bool depth = strcmp(model_words[i].key, "depth") == 0;
        if (depth && json_equal(json_object_get(model, "depth"), json_object_get(model, "layers")))
            continue;
        bool kv = strcmp(model_words[i].key, "kv_heads") == 0;
        if (kv && json_equal(json_object_get(model, "kv_heads"), json_object_get(model, "heads")))
            continue;
        value.length = 0;
        if (!scalar_text(&value, json_object_get(model, model_words[i].key))) continue;
        if (line.length) rs_buffer_puts(&line, term->unicode ? " \xC2\xB7 " : ", ");
        const char *at = strstr(model_words[i].format, "%s");
        rs_buffer_append(&line, model_words[i].format, (size_t)(at - model_words[i].format));
        rs_buffer_append(&line, value.data ? value.data : "", value.length);
        rs_buffer_puts(&line, at + 2);
    }
    term->out->failed |= line.failed || value.failed;
    if (line.length && !line.failed) rs_term_wrap(term, line.data, 0, 2);
    rs_buffer_free(&line);
    rs_buffer_free(&value);
}

static void header(const rs_term *term, const rs_result *result)
{
    static const char *const input_keys[] = {"path", "input", "checkpoint"};
    rs_buffer line = {0};
    rs_buffer_printf(&line, "rankscope %s", rs_result_command(result));
    const json_t *arguments = json_object_get(rs_result_meta(result), "args");
    for (size_t i = 0; i < sizeof input_keys / sizeof *input_keys; i++) {
        const char *input = json_string_value(json_object_get(arguments, input_keys[i]));
        if (!input) continue;
        rs_buffer_printf(&line, " %s", input);
        break;
    }
    const json_t *others = json_object_get(arguments, "others"), *other;
    size_t index;
    json_array_foreach((json_t *)(uintptr_t)others, index, other)
        rs_buffer_printf(&line, " %s", json_string_value(other));
    rs_term_style(term, RS_BOLD);
    if (!line.failed) rs_term_wrap(term, line.data, 0, 2);
    rs_term_style(term, RS_PLAIN);
    term->out->failed |= line.failed;
    rs_buffer_free(&line);
    model_line(term, json_object_get(rs_result_meta(result), "model"));
    rs_buffer_puts(term->out, "\n");
}

/* ---- tables ---- */

static void table_title(const rs_term *term, const rs_view *view)
{
    rs_buffer title = {0};
    size_t rows = rs_table_rows(view->table);
    rs_buffer_printf(&title, "%s (%s, ", rs_table_title(view->table), rs_table_name(view->table));
    if (view->n_rows + view->n_left < rows) rs_buffer_printf(&title, "%zu of ", view->n_rows);
    rs_buffer_printf(&title, "%zu row%s)", rows, rows == 1 ? "" : "s");
    rs_term_style(term, RS_BOLD);
    if (!title.failed) rs_term_wrap(term, title.data, 0, 2);
    rs_term_style(term, RS_PLAIN);
    term->out->failed |= title.failed;
    rs_buffer_free(&title);
}

/* Unasked, a summary of a row a layer does not push what it sums up off the screen. */
enum { FIRST_ROWS = 12, ROWS_TO_SPARE = 4 };

static void leave_rows_out(rs_view *view, size_t left)
{
    if (rs_term_is_claims(view->table)) rs_term_claims_defer(view, left);
    view->n_rows -= left;
    view->n_left += left;
}

/* What is not shown on any screen, nor in a pipe. */
static void shorten(rs_view *view, bool summary)
{
    size_t few = rs_table_few(view->table), rows = view->n_rows;
    if (rs_table_is_entries(view->table))
        view->most_lines = few;
    else if (few && rows > few)
        leave_rows_out(view, rows - few);
    else if (!few && summary && rows > FIRST_ROWS + ROWS_TO_SPARE)
        leave_rows_out(view, rows - FIRST_ROWS);
}

static size_t lines_of(const rs_buffer *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->length; i++)
        n += text->data[i] == '\n';
    return n;
}

static rs_status write_view(const rs_term *term, const rs_view *view, rs_error *err)
{
    bool plain = view->n_columns || term->wide;
    if (rs_table_is_entries(view->table) && !plain) return rs_term_entries(term, view, err);
    if (rs_term_is_claims(view->table) && !plain) return rs_term_claims(term, view, err);
    return rs_term_table(term, view, err);
}

/* Writes the view without the rows that a screen has no room for, but never without all of them:
 * lines: how many it may take. */
static rs_status write_fitting(const rs_term *term, rs_view *view, size_t lines, rs_error *err)
{
    enum { FEWEST = 1 };
    rs_buffer text = {0};
    rs_term aside = *term;
    aside.out = &text;
    rs_status status = write_view(&aside, view, err);
    while (status == RS_OK && view->n_rows > FEWEST && lines_of(&text) > lines) {
        /* rows are not equally high: what would be enough of them is come near to, then met */
        size_t rows = view->n_rows, near = 2 * rows * lines / lines_of(&text);
        leave_rows_out(view, near < rows && near > FEWEST ? rows - near : 1);
        text.length = 0;
        status = write_view(&aside, view, err);
    }
    rs_buffer_append(term->out, text.data ? text.data : "", text.length);
    term->out->failed |= text.failed;
    rs_buffer_free(&text);
    return status;
}

/* The lines that are left for the rows of a table whose title stands. */
static size_t room_left(const rs_term *term)
{
    enum { LINES_BELOW = 2 }; /* how many rows are not shown, and a blank one */
    size_t used = lines_of(term->out) + LINES_BELOW, room = (size_t)term->room;
    return !term->room ? SIZE_MAX : used < room ? room - used : 0;
}

/* summary: it is the command's own, and needs no title. asked: the table was named. */
static rs_status show_table(const rs_term *term, const rs_table *table, const rs_shape *shape,
                            bool summary, bool asked, rs_error *err)
{
    rs_view view;
    rs_status status = rs_view_make(&view, table, shape, err);
    if (status == RS_OK) {
        bool plain = view.n_columns || term->wide, entries = rs_table_is_entries(table) && !plain;
        bool shaped = plain || view.n_rows < rs_table_rows(table);
        bool whole = asked || shaped || term->verbose;
        if (!whole) shorten(&view, summary);
        if (!entries && (!summary || asked || shaped)) table_title(term, &view);
        status = write_fitting(term, &view, whole ? SIZE_MAX : room_left(term), err);
        if (view.n_left)
            rs_buffer_printf(term->out, "and %zu more%s: --table %s\n", view.n_left,
                             entries            ? ""
                             : view.n_left == 1 ? " row"
                                                : " rows",
                             rs_table_name(table));
        if (!entries || view.n_left) rs_buffer_puts(term->out, "\n");
    }
    rs_view_free(&view);
    return status;
}

static rs_status unknown_table(const rs_result *result, const char *name, rs_error *err)
{
    rs_buffer hint = {0};
    const char *nearest = "summary";
    int least = 1000;
    rs_buffer_puts(&hint, "tables of this result: all");
    for (size_t i = 0; i < rs_result_table_count(result); i++) {
        const char *known = rs_table_name(rs_result_table_at(result, i));
        int distance = rs_edit_distance(name, known);
        if (distance < least) least = distance, nearest = known;
        rs_buffer_printf(&hint, ", %s", known);
    }
    rs_status status = rs_fail(err, RS_E_BAD_OPTION, "--table", hint.failed ? NULL : hint.data,
                               "no table '%s'; nearest is '%s'", name, nearest);
    rs_buffer_free(&hint);
    return status;
}

/* True when the comma list holds the name, or is "all". */
static bool is_asked(const char *list, const char *name)
{
    if (!list) return false;
    if (strcmp(list, "all") == 0) return true;
    size_t length = strlen(name);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == length && memcmp(p, name, n) == 0) return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static rs_status check_list(const rs_result *result, const char *list, rs_error *err)
{
    if (!list || strcmp(list, "all") == 0) return RS_OK;
    for (const char *p = list; *p;) {
        char name[128];
        size_t n = strcspn(p, ","), kept = n < sizeof name - 1 ? n : sizeof name - 1;
        memcpy(name, p, kept);
        name[kept] = 0;
        if (n && !rs_result_table(result, name)) return unknown_table(result, name, err);
        p += n + (p[n] == ',');
    }
    return RS_OK;
}

/* Whether the options shape the table: those that were asked for, else all that is shown. */
static bool is_shaped(const rs_table *table, const rs_terminal *terminal, const char *list)
{
    const char *name = rs_table_name(table);
    return is_asked(list, name) || (!terminal->tables && strcmp(name, "summary") == 0);
}

static rs_status read_shape(rs_shape *shape, const rs_result *result, const rs_terminal *terminal,
                            const char *list, rs_error *err)
{
    size_t most = rs_result_table_count(result), n = 0;
    RS_TRY(rs_shape_read(shape, terminal, err));
    const rs_table **shaped = rs_malloc(most, sizeof(const rs_table *));
    if (!shaped) return rs_fail_memory(err, "tables", most);
    for (size_t i = 0; i < most; i++)
        if (is_shaped(rs_result_table_at(result, i), terminal, list))
            shaped[n++] = rs_result_table_at(result, i);
    rs_status status = rs_shape_check(shape, result, shaped, n, err);
    rs_free(shaped);
    return status;
}

/* As high as the screen has room for behind what is above it and before the findings, and before the
 * first rows of a table where one follows; 0: it has no room beside them. */
static int curve_rows(const rs_term *term, bool table_follows)
{
    enum { BELOW = 9, TABLE = 12, FEWEST = 4, MOST = 10 };
    bool shared = table_follows && term->room;
    int screen = shared ? term->room - TABLE : term->height - BELOW;
    int rows = screen - (int)lines_of(term->out);
    if (shared && rows < FEWEST) return 0;
    return rows < FEWEST ? FEWEST : rows > MOST ? MOST : rows;
}

/* Takes the blank line at the end of the text away. */
static void close_up(rs_buffer *out)
{
    if (out->length > 1 && out->data[out->length - 1] == '\n' && out->data[out->length - 2] == '\n')
        out->length--;
}

static rs_status pictures(const rs_term *term, const rs_result *result, rs_error *err)
{
    const rs_table *heads = rs_result_table(result, "heads");
    const rs_curve *curve = rs_result_curve(result);
    enum { ROOMY = 30 };
    /* a low screen has no line for a blank one above the title */
    if (curve && term->height < ROOMY) close_up(term->out);
    size_t before = term->out->length;
    int rows = curve_rows(term, rs_result_shown(result) != NULL);
    if (curve && rows) RS_TRY(rs_term_curve(term, result, curve, rows, err));
    if (heads && !curve) RS_TRY(rs_term_strips(term, heads, err));
    if (term->out->length > before) rs_buffer_puts(term->out, "\n");
    return RS_OK;
}

/* "not shown: components (What holds the tokens apart?): --table or --verbose", below the summary. */
static void tell_more(const rs_term *term, const rs_table *table)
{
    rs_buffer line = {0};
    if (!table) return;
    rs_buffer_printf(&line, "not shown: %s (%s): --table or --verbose", rs_table_name(table),
                     rs_table_title(table));
    close_up(term->out);
    rs_term_style(term, RS_DIM);
    if (!line.failed) rs_term_wrap(term, line.data, 0, 2);
    rs_term_style(term, RS_PLAIN);
    rs_buffer_puts(term->out, "\n");
    term->out->failed |= line.failed;
    rs_buffer_free(&line);
}

static rs_status tables(const rs_term *term, const rs_result *result, const rs_terminal *terminal,
                        const char *list, rs_error *err)
{
    const rs_table *summary = rs_result_table(result, "summary");
    rs_shape shape;
    RS_TRY(read_shape(&shape, result, terminal, list, err));
    bool asked = terminal->tables != NULL;
    const char *more = asked ? NULL : rs_result_shown_more(result);
    if (summary && rs_table_rows(summary))
        RS_TRY(show_table(term, summary, is_shaped(summary, terminal, list) ? &shape : NULL, true,
                          asked, err));
    if (more && !term->verbose) tell_more(term, rs_result_table(result, more));
    if (!asked) RS_TRY(pictures(term, result, err));
    for (size_t i = 0; i < rs_result_table_count(result); i++) {
        const rs_table *table = rs_result_table_at(result, i);
        const char *name = rs_table_name(table);
        bool shown = is_asked(list, name) || (more && term->verbose && strcmp(more, name) == 0);
        if (table != summary && shown) RS_TRY(show_table(term, table, &shape, false, asked, err));
    }
    return RS_OK;
}

/* ---- findings ---- */

static const struct {
    rs_style style;
    const char *mark, *ascii, *one, *many;
} severities[] = {
    [RS_INFO] = {RS_BLUE, "\xE2\x84\xB9", "i", "note", "notes"},
    [RS_WARN] = {RS_YELLOW, "\xE2\x96\xB2", "!", "warning", "warnings"},
    [RS_CRITICAL] = {RS_RED, "\xE2\x9C\x96", "X", "critical finding", "critical findings"},
};

static void mark(const rs_term *term, int severity, const char *before)
{
    rs_term_style(term, severities[severity].style);
    rs_buffer_printf(term->out, "%s%s ", before,
                     term->unicode ? severities[severity].mark : severities[severity].ascii);
    rs_term_style(term, RS_PLAIN);
}

/* What to do, below what is said. */
static void next_step(const rs_term *term, const char *text, int indent)
{
    rs_buffer line = {0};
    rs_buffer_printf(&line, "-> %s", text);
    rs_term_style(term, RS_DIM);
    rs_term_spaces(term, indent);
    if (!line.failed) rs_term_wrap(term, line.data, indent, indent + 3);
    if (term->color && term->out->length) term->out->length--; /* the text ends with a newline */
    rs_term_style(term, RS_PLAIN);
    if (term->color) rs_buffer_puts(term->out, "\n");
    term->out->failed |= line.failed;
    rs_buffer_free(&line);
}

/* Whether a person is to read it: the verdict is not said twice, housekeeping on demand. */
static bool is_shown(const rs_result *result, const rs_finding_group *group, bool verbose)
{
    const rs_verdict *v = rs_result_verdict(result);
    if (v && strcmp(v->answer, group->message) == 0) return false;
    return verbose || !group->housekeeping;
}

static void show_finding(const rs_term *term, const rs_finding_group *group, bool with_hint)
{
    rs_buffer text = {0};
    mark(term, (int)group->worst->severity, "  ");
    rs_buffer_printf(&text, "%s: %s", group->worst->code, group->message);
    if (!text.failed) rs_term_wrap(term, text.data, 4, 4);
    term->out->failed |= text.failed;
    rs_buffer_free(&text);
    if (with_hint && group->worst->hint) next_step(term, group->worst->hint, 4);
}

/* Shows a note where it still stands on the screen; false where it does not. */
static bool show_note(const rs_term *term, const rs_finding_group *group, size_t room)
{
    rs_buffer text = {0};
    rs_term aside = *term;
    aside.out = &text;
    show_finding(&aside, group, false);
    bool fits = lines_of(&text) <= room;
    if (fits) rs_buffer_append(term->out, text.data ? text.data : "", text.length);
    term->out->failed |= text.failed;
    rs_buffer_free(&text);
    return fits;
}

static size_t count_shown(const rs_result *result, rs_severity severity, bool verbose)
{
    size_t total = 0;
    for (size_t i = 0; i < rs_result_group_count(result); i++) {
        const rs_finding_group *group = rs_result_group_at(result, i);
        total += group->worst->severity == severity && is_shown(result, group, verbose);
    }
    return total;
}

static void heading(const rs_term *term, size_t total, rs_severity severity)
{
    rs_term_style(term, severities[severity].style);
    rs_buffer_printf(term->out, "%zu %s", total,
                     total == 1 ? severities[severity].one : severities[severity].many);
    rs_term_style(term, RS_PLAIN);
    rs_buffer_puts(term->out, "\n");
}

/* What warns is shown with what to do about it. */
static void warnings_of(const rs_term *term, const rs_result *result, rs_severity severity)
{
    size_t total = count_shown(result, severity, term->verbose), shown = 0;
    size_t most = term->verbose ? total : MOST_FINDINGS;
    if (total) heading(term, total, severity);
    for (size_t i = 0; i < rs_result_group_count(result) && shown < most; i++) {
        const rs_finding_group *group = rs_result_group_at(result, i);
        if (group->worst->severity != severity || !is_shown(result, group, term->verbose)) continue;
        show_finding(term, group, true);
        shown++;
    }
    if (shown < total) rs_buffer_printf(term->out, "    and %zu more: --verbose\n", total - shown);
}

/* Whether the name still stands on the line of the notes that are not written out. */
static bool has_room(const rs_term *term, const rs_buffer *names, const char *name)
{
    enum { INDENT = 4 };
    size_t behind = strlen(", ") + strlen(" and 99 more: --verbose");
    return !names->length || INDENT + names->length + strlen(name) + behind <= (size_t)term->width;
}

/* Notes ask for nothing: on a screen those are written out that leave the answer on it, and the
 * others are named. screen: its lines; 0: it is none (a pipe, a file), and has room for all. */
static void notes(const rs_term *term, const rs_result *result, size_t screen, bool asked)
{
    size_t total = count_shown(result, RS_INFO, false), used = lines_of(term->out) + 3;
    size_t room = !screen ? SIZE_MAX : asked ? screen / 2 : used < screen ? screen - used : 0;
    rs_buffer names = {0};
    size_t unnamed = 0;
    if (!total) return;
    heading(term, total, RS_INFO);
    for (size_t i = 0; i < rs_result_group_count(result); i++) {
        const rs_finding_group *group = rs_result_group_at(result, i);
        if (group->worst->severity != RS_INFO || !is_shown(result, group, false)) continue;
        size_t before = lines_of(term->out);
        if (show_note(term, group, room))
            room -= lines_of(term->out) - before;
        else if (!unnamed && has_room(term, &names, group->worst->code))
            rs_buffer_printf(&names, "%s%s", names.length ? ", " : "", group->worst->code);
        else
            unnamed++;
    }
    if (names.length) {
        if (unnamed) rs_buffer_printf(&names, " and %zu more", unnamed);
        rs_buffer_puts(&names, ": --verbose");
        rs_term_spaces(term, 4);
        rs_term_wrap(term, names.data ? names.data : "", 4, 4);
    }
    term->out->failed |= names.failed;
    rs_buffer_free(&names);
}

/* The lines of a screen that tables may take: behind them the warnings stand, a line that counts the
 * notes and one that names them, and the prompt. */
static int room_above(const rs_term *term, const rs_result *result, size_t warnings)
{
    enum { PROMPT = 1, NOTES = 2 };
    int below = (int)warnings + PROMPT + (count_shown(result, RS_INFO, false) ? NOTES : 0);
    return term->height > below ? term->height - below : 1;
}

/* The command's question answered, before anything else. */
static void verdict(const rs_term *term, const rs_verdict *v)
{
    if (!v) return;
    if (v->severity > RS_INFO) mark(term, v->severity, "");
    rs_term_style(term, RS_BOLD);
    rs_term_wrap(term, v->answer, v->severity > RS_INFO ? 2 : 0, v->severity > RS_INFO ? 2 : 0);
    rs_term_style(term, RS_PLAIN);
    if (v->next) next_step(term, v->next, v->severity > RS_INFO ? 2 : 0);
}

rs_status rs_write_terminal(rs_buffer *out, const rs_result *result, const rs_terminal *terminal,
                            rs_error *err)
{
    rs_term term = {.out = out,
                    .width = terminal->width < NARROWEST ? NARROWEST : terminal->width,
                    .height = terminal->height > 0 ? terminal->height : 24,
                    .color = terminal->color,
                    .unicode = terminal->unicode,
                    .wide = terminal->wide,
                    .verbose = terminal->verbose,
                    .said = rs_result_verdict(result) ? rs_result_verdict(result)->answer : ""};
    int64_t failures = rs_memory_failures();
    RS_TRY(rs_result_complete(result, err));
    const char *asked = terminal->tables ? terminal->tables : rs_result_shown(result);
    RS_TRY(check_list(result, asked, err));
    rs_buffer below = {0};
    rs_term aside = term;
    aside.out = &below;
    warnings_of(&aside, result, RS_CRITICAL);
    warnings_of(&aside, result, RS_WARN);
    if (terminal->height > 0 && !terminal->tables)
        term.room = room_above(&term, result, lines_of(&below));
    verdict(&term, rs_result_verdict(result));
    header(&term, result);
    rs_status status = tables(&term, result, terminal, asked, err);
    rs_buffer_append(out, below.data ? below.data : "", below.length);
    out->failed |= below.failed;
    rs_buffer_free(&below);
    RS_TRY(status);
    if (terminal->verbose)
        warnings_of(&term, result, RS_INFO);
    else
        notes(&term, result, terminal->height > 0 ? (size_t)terminal->height : 0,
              terminal->tables != NULL);
    if (rs_result_group_count(result) == 0 && !rs_result_verdict(result))
        rs_term_wrap(&term, "Nothing to report: no finding.", 0, 2);
    if (out->failed) return rs_fail_memory(err, "terminal output", out->length);
    return rs_memory_check(failures, "terminal output", err);
}
