/*
 * terminal_strip.c: which heads have lost rank, at a glance: one character a head, one line a layer.
 *
 * The character shows effective_rank / effective_rank_null, that is, the effective rank against
 * what chance gives: the more ink, the less rank. Layers in a row that have nothing to say share a
 * line. Models with more heads or layers than fit are shown in bands, each by its lowest value,
 * because the lowest is what one looks for.
 */
#include "report/table.h"
#include "report/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STRIPS = 16, MOST_INDEX = 1 << 20, LEAST_LINES = 3, OTHER_LINES = 14 };
#define FINE 0.75

typedef struct strip {
    const char *stack, *attention, *product;
    int64_t first_layer, last_layer, last_head;
} strip;

typedef struct columns {
    int stack, attention, layer, head, product, rank, null_rank;
} columns;

static bool find_columns(columns *c, const rs_table *t)
{
    *c = (columns){
        .stack = rs_table_find_column(t, "stack"),
        .attention = rs_table_find_column(t, "attention"),
        .layer = rs_table_find_column(t, "layer"),
        .head = rs_table_find_column(t, "head"),
        .product = rs_table_find_column(t, "product"),
        .rank = rs_table_find_column(t, "effective_rank"),
        .null_rank = rs_table_find_column(t, "effective_rank_null"),
    };
    return c->layer >= 0 && c->head >= 0 && c->product >= 0 && c->rank >= 0 && c->null_rank >= 0;
}

static const char *text_at(const rs_table *t, size_t row, int column)
{
    const char *text = column >= 0 ? rs_table_text(t, row, (size_t)column) : NULL;
    return text ? text : "";
}

/* Where the row belongs; false when its layer or head is no plausible index. */
static bool place(const rs_table *t, const columns *c, size_t row, int64_t *layer, int64_t *head)
{
    *layer = rs_table_int(t, row, (size_t)c->layer);
    *head = rs_table_int(t, row, (size_t)c->head);
    return *layer >= 0 && *layer < MOST_INDEX && *head >= 0 && *head < MOST_INDEX;
}

static bool belongs(const strip *s, const rs_table *t, const columns *c, size_t row)
{
    return strcmp(s->product, text_at(t, row, c->product)) == 0 &&
           strcmp(s->stack, text_at(t, row, c->stack)) == 0 &&
           strcmp(s->attention, text_at(t, row, c->attention)) == 0;
}

static size_t find_strips(strip strips[MOST_STRIPS], const rs_table *t, const columns *c)
{
    size_t n = 0;
    for (size_t r = 0; r < rs_table_rows(t); r++) {
        int64_t layer, head;
        if (!place(t, c, r, &layer, &head)) continue;
        size_t i = 0;
        while (i < n && !belongs(&strips[i], t, c, r))
            i++;
        if (i == MOST_STRIPS) continue;
        if (i == n)
            strips[n++] = (strip){.stack = text_at(t, r, c->stack),
                                  .attention = text_at(t, r, c->attention),
                                  .product = text_at(t, r, c->product),
                                  .first_layer = layer,
                                  .last_layer = layer};
        strip *s = &strips[i];
        if (layer < s->first_layer) s->first_layer = layer;
        if (layer > s->last_layer) s->last_layer = layer;
        if (head > s->last_head) s->last_head = head;
    }
    return n;
}

typedef struct grid {
    double *lowest; /* [lines, cells]; NaN: no value */
    int lines, cells;
    int layers_a_line, heads_a_cell;
    int label;   /* width of the layer numbers */
    int copies;  /* characters that a cell takes */
    int columns; /* of lines, side by side */
} grid;

enum { GAP = 2, ALL = 5 }; /* ALL: the width of "all ." */

static int width_of_cells(const grid *g)
{
    return g->cells * g->copies > ALL ? g->cells * g->copies : ALL;
}

static int divide_up(int64_t a, int b)
{
    return (int)((a + b - 1) / b);
}

static bool fill_grid(grid *g, const strip *s, const rs_table *t, const columns *c)
{
    size_t n = (size_t)g->lines * (size_t)g->cells;
    g->lowest = rs_malloc(n, sizeof *g->lowest);
    if (!g->lowest) return false;
    for (size_t i = 0; i < n; i++)
        g->lowest[i] = NAN;
    for (size_t r = 0; r < rs_table_rows(t); r++) {
        int64_t layer, head;
        if (!place(t, c, r, &layer, &head) || !belongs(s, t, c, r)) continue;
        double ratio =
            rs_table_real(t, r, (size_t)c->rank) / rs_table_real(t, r, (size_t)c->null_rank);
        if (!isfinite(ratio)) continue;
        int64_t line = (layer - s->first_layer) / g->layers_a_line, cell = head / g->heads_a_cell;
        double *lowest = &g->lowest[line * g->cells + cell];
        if (!(*lowest <= ratio)) *lowest = ratio;
    }
    return true;
}

static void print_cell(const rs_term *term, double ratio)
{
    /* below 0.25, 0.5, 0.75; more; no such head */
    static const char *const ink[] = {"\xE2\x96\x88", "\xE2\x96\x93", "\xE2\x96\x92", "\xC2\xB7"},
                             *const ascii[] = {"#", "+", "-", "."};
    if (isnan(ratio)) {
        rs_buffer_puts(term->out, " ");
        return;
    }
    double clamped = ratio < 0 ? 0 : ratio > 0.999 ? 0.999 : ratio;
    if (ratio < 0.5) rs_term_style(term, RS_RED);
    rs_buffer_puts(term->out, (term->unicode ? ink : ascii)[(int)(clamped * 4)]);
    if (ratio < 0.5) rs_term_style(term, RS_PLAIN);
}

/* ---- lines ---- */

typedef enum line_kind { EMPTY_LINE, FINE_LINE, ILL_LINE } line_kind;

static line_kind kind_of(const grid *g, int line)
{
    line_kind kind = EMPTY_LINE;
    for (int cell = 0; cell < g->cells; cell++) {
        double ratio = g->lowest[line * g->cells + cell];
        if (ratio < FINE) return ILL_LINE;
        if (!isnan(ratio)) kind = FINE_LINE;
    }
    return kind;
}

/* The line behind those that are like this one and share a line with it. */
static int end_of_run(const grid *g, int line)
{
    line_kind kind = kind_of(g, line++);
    while (kind != ILL_LINE && line < g->lines && kind_of(g, line) == kind)
        line++;
    return line;
}

static int count_lines(const grid *g)
{
    int count = 0;
    for (int line = 0; line < g->lines; line = end_of_run(g, line))
        count += kind_of(g, line) != EMPTY_LINE;
    return count;
}

/* "12" or "3-11": the layers from `line` to before `end`. */
static void layers_text(char text[48], const strip *s, const grid *g, int line, int end)
{
    int64_t first = s->first_layer + (int64_t)line * g->layers_a_line;
    int64_t last = s->first_layer + (int64_t)end * g->layers_a_line - 1;
    if (last > s->last_layer) last = s->last_layer;
    if (first == last)
        snprintf(text, 48, "%lld", (long long)first);
    else
        snprintf(text, 48, "%lld-%lld", (long long)first, (long long)last);
}

/* The first line of the n-th entry: a line, or those that share one. */
static int entry(const grid *g, int n)
{
    int line = 0;
    for (; line < g->lines; line = end_of_run(g, line))
        if (kind_of(g, line) != EMPTY_LINE && n-- == 0) break;
    return line;
}

static void print_entry(const rs_term *term, const strip *s, const grid *g, int n)
{
    char layers[48];
    int line = entry(g, n);
    layers_text(layers, s, g, line, end_of_run(g, line));
    rs_buffer_printf(term->out, "%*s ", g->label, layers);
    if (kind_of(g, line) != ILL_LINE) {
        rs_buffer_puts(term->out, g->columns == 1 ? "all 0.75 or more"
                                  : term->unicode ? "all \xC2\xB7"
                                                  : "all .");
    } else {
        for (int cell = 0; cell < g->cells; cell++)
            for (int copy = 0; copy < g->copies; copy++)
                print_cell(term, g->lowest[line * g->cells + cell]);
    }
    if (g->columns > 1 && !term->out->failed) {
        int used = g->label + 1 + (kind_of(g, line) == ILL_LINE ? g->cells * g->copies : ALL);
        rs_term_spaces(term, g->label + 1 + width_of_cells(g) - used + GAP);
    }
}

/* Entries go down, then into the next column. */
static void print_strip(const rs_term *term, const strip *s, const grid *g, const char *name)
{
    int n = count_lines(g), rows = divide_up(n, g->columns);
    for (int row = 0; row < rows; row++) {
        rs_buffer_printf(term->out, "%-*s ", (int)strlen(name), row ? "" : name);
        for (int at = row; at < n; at += rows)
            print_entry(term, s, g, at);
        rs_term_end_line(term);
    }
}

/* ---- strips ---- */

/* "decoder cross qk": without what all strips have in common. */
static void name_strip(char name[96], const strip *strips, size_t n, const strip *s)
{
    bool stacks = false, attentions = false;
    for (size_t i = 1; i < n; i++) {
        stacks |= strcmp(strips[i].stack, strips[0].stack) != 0;
        attentions |= strcmp(strips[i].attention, strips[0].attention) != 0;
    }
    snprintf(name, 96, "%.28s%s%.28s%s%.28s", stacks ? s->stack : "",
             stacks && s->stack[0] ? " " : "", attentions ? s->attention : "",
             attentions && s->attention[0] ? " " : "", s->product);
}

/* Fills the grid with as few layers a line as `most` lines of as many columns as fit allow. */
static rs_status fill_lines(grid *g, const strip *s, const rs_table *heads, const columns *c,
                            int room, int most, rs_error *err)
{
    int64_t layers = s->last_layer - s->first_layer + 1;
    for (g->layers_a_line = 1;; g->layers_a_line++) {
        g->lines = divide_up(layers, g->layers_a_line);
        if (!fill_grid(g, s, heads, c)) return rs_fail_memory(err, "heat strip", 0);
        int n = count_lines(g), fit = (room + GAP) / (g->label + 1 + width_of_cells(g) + GAP);
        g->columns = n > most ? divide_up(n, most) : 1;
        if (g->columns <= (fit > 1 ? fit : 1) || g->lines <= 1) return RS_OK;
        if (g->lines > 16 * most) g->layers_a_line = divide_up(layers, 16 * most) - 1;
        rs_free(g->lowest);
    }
}

static rs_status strip_lines(const rs_term *term, const strip *strips, size_t n, const strip *s,
                             const rs_table *heads, const columns *c, rs_error *err)
{
    char name[96];
    int most = (term->height - OTHER_LINES) / (int)n;
    int64_t count = s->last_head + 1;
    name_strip(name, strips, n, s);
    grid g = {.label = snprintf(NULL, 0, "%lld-%lld", (long long)s->last_layer,
                                (long long)s->last_layer)};
    int room = term->width - (int)strlen(name) - 1, cells = room - g.label - 1;
    g.heads_a_cell = divide_up(count, cells > 8 ? cells : 8);
    g.cells = divide_up(count, g.heads_a_cell);
    g.copies = term->unicode && 2 * g.cells <= cells ? 2 : 1;
    RS_TRY(fill_lines(&g, s, heads, c, room, most < LEAST_LINES ? LEAST_LINES : most, err));
    if (g.heads_a_cell > 1 || g.layers_a_line > 1)
        rs_buffer_printf(term->out, "%s: each cell is the lowest of %d layers x %d heads\n", name,
                         g.layers_a_line, g.heads_a_cell);
    print_strip(term, s, &g, name);
    rs_free(g.lowest);
    return RS_OK;
}

rs_status rs_term_strips(const rs_term *term, const rs_table *heads, rs_error *err)
{
    columns c;
    strip strips[MOST_STRIPS];
    if (!find_columns(&c, heads)) return RS_OK;
    size_t n = find_strips(strips, heads, &c);
    if (n == 0) return RS_OK;
    rs_term_style(term, RS_BOLD);
    rs_term_wrap(term, "Effective rank against chance: a line a layer, a cell a head", 0, 2);
    rs_term_style(term, RS_PLAIN);
    for (size_t i = 0; i < n; i++)
        RS_TRY(strip_lines(term, strips, n, &strips[i], heads, &c, err));
    rs_term_wrap(term,
                 term->unicode ? "\xE2\x96\x88 below 0.25  \xE2\x96\x93 below 0.5  "
                                 "\xE2\x96\x92 below 0.75  \xC2\xB7 more"
                               : "# below 0.25  + below 0.5  - below 0.75  . more",
                 0, 2);
    return RS_OK;
}
