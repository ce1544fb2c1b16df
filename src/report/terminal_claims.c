/*
 * terminal_claims.c: a table of claims for people: the verdict as a mark before its claim, what was
 * measured beside what it should be, and last how many hold.
 */
#include "report/number.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/unicode.h"

#include <math.h>
#include <string.h>

typedef struct columns {
    int experiment, claim, verdict, measured, computed, expected, published, tolerance, ordering,
        repeat;
} columns;

static bool find_columns(columns *c, const rs_table *t)
{
    *c = (columns){
        .experiment = rs_table_find_column(t, "experiment"),
        .claim = rs_table_find_column(t, "claim"),
        .verdict = rs_table_find_column(t, "verdict"),
        .measured = rs_table_find_column(t, "measured"),
        .computed = rs_table_find_column(t, "computed"),
        .expected = rs_table_find_column(t, "expected"),
        .published = rs_table_find_column(t, "published"),
        .tolerance = rs_table_find_column(t, "tolerance"),
        .ordering = rs_table_find_column(t, "ordering"),
        .repeat = rs_table_find_column(t, "repeat"),
    };
    return c->claim >= 0 && c->verdict >= 0 && c->measured >= 0 && c->tolerance >= 0;
}

bool rs_term_is_claims(const rs_table *table)
{
    columns c;
    return find_columns(&c, table);
}

/* ---- verdicts ---- */

static const struct {
    const char *verdict, *mark, *ascii, *one, *many;
    rs_style style;
} verdicts[] = {
    {"pass", "\xE2\x9C\x93", "pass", "holds", "hold", RS_PLAIN},
    {"differs_from_paper", "~", "diff", "differs from the paper", "differ from the paper",
     RS_YELLOW},
    {"fail", "\xE2\x9C\x97", "FAIL", "fails", "fail", RS_RED},
    {"no_difference", "=", "same", "shows no difference", "show no difference", RS_YELLOW},
    {"skipped", "-", "skip", "was skipped", "were skipped", RS_DIM},
};
enum { VERDICTS = sizeof verdicts / sizeof *verdicts };

/* The verdict's row; a word that is none counts as skipped: nobody is told that it holds. */
static int verdict_of(const rs_table *t, size_t row, const columns *c)
{
    const char *word = rs_table_text(t, row, (size_t)c->verdict);
    for (int i = 0; word && i < VERDICTS; i++)
        if (strcmp(word, verdicts[i].verdict) == 0) return i;
    return VERDICTS - 1;
}

static const char *mark_of(const rs_term *term, int verdict)
{
    return term->unicode ? verdicts[verdict].mark : verdicts[verdict].ascii;
}

void rs_term_claims_defer(rs_view *view, size_t n)
{
    columns c;
    size_t end = view->n_rows;
    if (!find_columns(&c, view->table)) return;
    for (size_t i = end; i-- > 0 && n > 0;) {
        size_t row = view->rows[i];
        if (verdict_of(view->table, row, &c) != 0) continue;
        memmove(&view->rows[i], &view->rows[i + 1], (--end - i) * sizeof *view->rows);
        view->rows[end] = row;
        n--;
    }
}

/* ---- the lines ---- */

typedef struct claim_line {
    rs_buffer claim, measured, against;
} claim_line;

static double real_at(const rs_table *t, size_t row, int column)
{
    return column >= 0 ? rs_table_real(t, row, (size_t)column) : NAN;
}

static void put_number(rs_buffer *text, const char *before, double value)
{
    char number[RS_NUMBER_SIZE];
    rs_buffer_puts(text, before);
    rs_buffer_append(text, number, rs_number_brief(number, value, 4));
}

/* "0.5 ± 0.0001, paper 0.6", "≤ 0.01", "> 0.02" of an ordering; of one seed the spread is not known */
static void put_against(const rs_term *term, rs_buffer *text, const rs_table *t, size_t row,
                        const columns *c)
{
    const char *within = term->unicode ? " \xC2\xB1 " : " +- ";
    double expected = real_at(t, row, c->expected), paper = real_at(t, row, c->published),
           tolerance = real_at(t, row, c->tolerance);
    if (isnan(expected) && isnan(paper)) {
        bool above = c->ordering >= 0 && rs_table_int(t, row, (size_t)c->ordering) == 1;
        const char *most = term->unicode ? "\xE2\x89\xA4 " : "<= ";
        if (above && !isfinite(tolerance))
            rs_buffer_puts(text, "> ? (no spread)");
        else if (!isnan(tolerance))
            put_number(text, above ? "> " : most, tolerance);
        return;
    }
    put_number(text, isnan(expected) ? "paper " : "", isnan(expected) ? paper : expected);
    if (!isnan(tolerance)) put_number(text, within, tolerance);
    if (!isnan(expected) && !isnan(paper)) put_number(text, ", paper ", paper);
}

static void fill_line(const rs_term *term, claim_line *line, const rs_table *t, size_t row,
                      const columns *c)
{
    const char *claim = rs_table_text(t, row, (size_t)c->claim);
    double value = real_at(t, row, c->measured);
    if (isnan(value)) value = real_at(t, row, c->computed);
    line->claim.length = line->measured.length = line->against.length = 0;
    rs_buffer_puts(&line->claim, "");
    rs_buffer_puts(&line->against, "");
    rs_term_clean(term, &line->claim, claim ? claim : "");
    if (isnan(value))
        rs_buffer_puts(&line->measured, "-");
    else
        put_number(&line->measured, "", value);
    put_against(term, &line->against, t, row, c);
    term->out->failed |= line->claim.failed || line->measured.failed || line->against.failed;
}

/* Widths of the parts; beside: numbers stand beside the claim, else below it. */
typedef struct widths {
    int mark, claim, measured, against;
    bool beside;
} widths;

enum { GAP = 2, NARROWEST_CLAIM = 30 };

static int width_of(const rs_buffer *text)
{
    return rs_text_width(text->data, text->length);
}

static void measure(const rs_term *term, widths *w, const rs_view *view, const columns *c,
                    claim_line *line)
{
    *w = (widths){.mark = term->unicode ? 2 : 5, .measured = 8, .against = 8, .claim = 5};
    for (size_t r = 0; r < view->n_rows && !term->out->failed; r++) {
        fill_line(term, line, view->table, view->rows[r], c);
        if (term->out->failed) return;
        if (width_of(&line->claim) > w->claim) w->claim = width_of(&line->claim);
        if (width_of(&line->measured) > w->measured) w->measured = width_of(&line->measured);
        if (width_of(&line->against) > w->against) w->against = width_of(&line->against);
    }
    int left = term->width - w->mark - w->measured - w->against - 2 * GAP;
    w->beside = left >= NARROWEST_CLAIM || left >= w->claim;
    if (!w->beside) left = term->width - w->mark;
    if (w->claim > left && !term->wide) w->claim = left;
}

static void put_numbers(const rs_term *term, const widths *w, const claim_line *line)
{
    rs_term_pad(term, line->measured.data, line->measured.length, w->measured, w->beside);
    rs_term_spaces(term, GAP);
    rs_buffer_append(term->out, line->against.data, line->against.length);
}

static void put_line(const rs_term *term, const widths *w, const claim_line *line, int verdict)
{
    const char *mark = mark_of(term, verdict);
    bool first = true;
    rs_term_style(term, verdicts[verdict].style);
    rs_term_pad(term, mark, strlen(mark), w->mark, false);
    rs_term_style(term, RS_PLAIN);
    for (size_t at = 0, next; at < line->claim.length || first; at += next) {
        const char *rest = line->claim.data + at;
        size_t length = rs_term_line(rest, line->claim.length - at, w->claim, &next);
        if (!first) rs_term_spaces(term, w->mark);
        rs_term_pad(term, rest, length, w->claim, false);
        if (first && w->beside) {
            rs_term_spaces(term, GAP);
            put_numbers(term, w, line);
        }
        rs_term_end_line(term);
        first = false;
    }
    if (w->beside) return;
    rs_term_spaces(term, w->mark + GAP);
    put_numbers(term, w, line);
    rs_term_end_line(term);
}

static void put_names(const rs_term *term, const widths *w)
{
    if (!w->beside) return;
    rs_term_style(term, RS_BOLD);
    rs_term_spaces(term, w->mark);
    rs_term_pad(term, "claim", 5, w->claim + GAP, false);
    rs_term_pad(term, "measured", 8, w->measured, true);
    rs_term_spaces(term, GAP);
    rs_buffer_puts(term->out, "expected");
    rs_term_style(term, RS_PLAIN);
    rs_term_end_line(term);
}

/* "35 of 37 claims hold; ~ 2 differ from the paper": what the marks above mean, too. */
static void put_count(const rs_term *term, const size_t counts[VERDICTS], size_t rows)
{
    rs_buffer text = {0};
    rs_buffer_printf(&text, "%s %zu of %zu claim%s hold%s", mark_of(term, 0), counts[0], rows,
                     rows == 1 ? "" : "s", counts[0] == 1 ? "s" : "");
    for (int i = 1; i < VERDICTS; i++)
        if (counts[i])
            rs_buffer_printf(&text, "; %s %zu %s", mark_of(term, i), counts[i],
                             counts[i] == 1 ? verdicts[i].one : verdicts[i].many);
    if (!text.failed) rs_term_wrap(term, text.data, 0, 2);
    term->out->failed |= text.failed;
    rs_buffer_free(&text);
}

/* Whether the claims are of several experiments, shown or not. */
static bool are_several(const rs_view *view, size_t column)
{
    const char *first = rs_table_text(view->table, view->rows[0], column);
    for (size_t r = 1; first && r < view->n_rows + view->n_left; r++) {
        const char *other = rs_table_text(view->table, view->rows[r], column);
        if (other && strcmp(first, other) != 0) return true;
    }
    return false;
}

/* The command that repeats an experiment (else its name) above its claims, where there are several; r: of
 * the rows that are shown, which need not be all of an experiment's. */
static void put_experiment(const rs_term *term, const rs_view *view, size_t r, const columns *c)
{
    if (c->experiment < 0 || !are_several(view, (size_t)c->experiment)) return;
    size_t column = (size_t)c->experiment, row = view->rows[r];
    const char *this = rs_table_text(view->table, row, column);
    const char *before = r ? rs_table_text(view->table, view->rows[r - 1], column) : NULL;
    if (!this || (before && strcmp(before, this) == 0)) return;
    const char *repeat = c->repeat >= 0 ? rs_table_text(view->table, row, (size_t)c->repeat) : NULL;
    rs_term_style(term, RS_BOLD);
    rs_term_wrap(term, repeat ? repeat : this, 0, 4);
    rs_term_style(term, RS_PLAIN);
}

rs_status rs_term_claims(const rs_term *term, const rs_view *view, rs_error *err)
{
    columns c;
    widths w;
    claim_line line = {{0}, {0}, {0}};
    size_t counts[VERDICTS] = {0};
    if (!find_columns(&c, view->table))
        return rs_fail(err, RS_E_INTERNAL, rs_table_name(view->table), NULL, "no table of claims");
    measure(term, &w, view, &c, &line);
    put_names(term, &w);
    for (size_t r = 0; r < view->n_rows && !term->out->failed; r++) {
        int verdict = verdict_of(view->table, view->rows[r], &c);
        counts[verdict]++;
        fill_line(term, &line, view->table, view->rows[r], &c);
        put_experiment(term, view, r, &c);
        if (!term->out->failed) put_line(term, &w, &line, verdict);
    }
    for (size_t r = view->n_rows; r < view->n_rows + view->n_left; r++)
        counts[verdict_of(view->table, view->rows[r], &c)]++;
    put_count(term, counts, view->n_rows + view->n_left);
    rs_buffer_free(&line.claim);
    rs_buffer_free(&line.measured);
    rs_buffer_free(&line.against);
    if (term->out->failed) return rs_fail_memory(err, rs_table_name(view->table), 0);
    return RS_OK;
}
