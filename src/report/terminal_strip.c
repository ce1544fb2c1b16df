/*
 * terminal_strip.c: the shape of a model at a glance: one character a head, one line a layer.
 *
 * The character shows effective_rank / effective_rank_null, that is, the effective rank against
 * what chance gives. Models with more heads or layers than fit are shown in bands, each by its
 * lowest value, because the lowest is what one looks for.
 */
#include "report/table.h"
#include "report/terminal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LINES = 48, MOST_STRIPS = 16, MOST_INDEX = 1 << 20 };

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
    int label; /* width of the layer numbers, with the blank behind */
} grid;

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
    static const char *const blocks[] = {"\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93",
                                         "\xE2\x96\x88"};
    if (isnan(ratio)) {
        rs_buffer_puts(term->out, term->unicode ? "\xC2\xB7" : ".");
        return;
    }
    double clamped = ratio < 0 ? 0 : ratio > 0.999 ? 0.999 : ratio;
    if (ratio < 0.5) rs_term_style(term, RS_RED);
    if (term->unicode)
        rs_buffer_puts(term->out, blocks[(int)(clamped * 4)]);
    else
        rs_buffer_printf(term->out, "%d", (int)(clamped * 10));
    if (ratio < 0.5) rs_term_style(term, RS_PLAIN);
}

static void print_title(const rs_term *term, const strip *s, const grid *g, int64_t heads)
{
    rs_buffer title = {0};
    if (s->stack[0] || s->attention[0]) rs_buffer_printf(&title, "%s %s ", s->stack, s->attention);
    rs_buffer_printf(&title, "%s effective rank / null: one line a layer, one cell a head (%lld)",
                     s->product, (long long)heads);
    if (g->layers_a_line > 1 || g->heads_a_cell > 1)
        rs_buffer_printf(&title, "; each cell is the lowest of %d layers x %d heads",
                         g->layers_a_line, g->heads_a_cell);
    rs_term_style(term, RS_BOLD);
    if (!title.failed) rs_term_wrap(term, title.data, 0, 2);
    rs_term_style(term, RS_PLAIN);
    term->out->failed |= title.failed;
    rs_buffer_free(&title);
}

static void print_strip(const rs_term *term, const strip *s, const grid *g)
{
    bool wide = g->label + 2 * g->cells <= term->width && term->unicode;
    for (int line = 0; line < g->lines; line++) {
        rs_buffer_printf(term->out, "%*lld ", g->label - 1,
                         (long long)(s->first_layer + (int64_t)line * g->layers_a_line));
        for (int cell = 0; cell < g->cells; cell++)
            for (int copy = 0; copy < (wide ? 2 : 1); copy++)
                print_cell(term, g->lowest[line * g->cells + cell]);
        rs_buffer_puts(term->out, "\n");
    }
}

rs_status rs_term_strips(const rs_term *term, const rs_table *heads, rs_error *err)
{
    columns c;
    strip strips[MOST_STRIPS];
    if (!find_columns(&c, heads)) return RS_OK;
    size_t n = find_strips(strips, heads, &c);
    for (size_t i = 0; i < n; i++) {
        const strip *s = &strips[i];
        int64_t layers = s->last_layer - s->first_layer + 1, count = s->last_head + 1;
        grid g = {.label = snprintf(NULL, 0, "%lld ", (long long)s->last_layer)};
        g.layers_a_line = divide_up(layers, MOST_LINES);
        g.lines = divide_up(layers, g.layers_a_line);
        g.heads_a_cell = divide_up(count, term->width - g.label);
        g.cells = divide_up(count, g.heads_a_cell);
        if (!fill_grid(&g, s, heads, &c)) return rs_fail_memory(err, "heat strip", 0);
        print_title(term, s, &g, count);
        print_strip(term, s, &g);
        rs_free(g.lowest);
        rs_buffer_puts(term->out, "\n");
    }
    if (n)
        rs_term_wrap(term,
                     term->unicode
                         ? "\xE2\x96\x91 below 0.25  \xE2\x96\x92 below 0.5  \xE2\x96\x93 below "
                           "0.75  \xE2\x96\x88 0.75 and more of what chance gives"
                         : "0 = below 0.1, 5 = 0.5, 9 = 0.9 and more of what chance gives",
                     0, 2);
    return RS_OK;
}
