/* figure_spec.c: the frame of a specification and its data: see figure_spec.h. */
#include "report/figure_spec.h"

#include "report/emit.h"
#include "report/number.h"
#include "report/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA "https://vega.github.io/schema/vega-lite/v6.json"

/* ---- usermeta and parameters ---- */

/* Where the ground's stretches and upright lines are, when the axis does not reach them. */
static size_t beyond_notes(const char **out, const rs_drawing *d)
{
    const rs_lines *l = &d->plot->of.lines;
    char digits[RS_NUMBER_SIZE];
    double shades[2][2], uprights[2];
    size_t n = 0;
    if (d->plot->kind != RS_PLOT_LINES) return 0;
    if (l->x_shade > 0 && rs_drawing_shades(shades, d) == 0) {
        rs_number_outward(digits, l->x_shade, 6, true);
        out[n++] = rs_arena_printf(d->arena, "Beyond this axis: '%s', from |x| = %s on.",
                                   l->x_shade_label, digits);
    }
    if (l->x_rule > 0 && rs_drawing_uprights(uprights, d) == 0) {
        rs_number_brief(digits, l->x_rule, 6);
        out[n++] = rs_arena_printf(d->arena, "Beyond this axis: '%s', at |x| = %s.",
                                   l->x_rule_label, digits);
    }
    return n;
}

size_t rs_drawing_notes(const char *out[RS_MOST_NOTES], const rs_drawing *d)
{
    size_t n = beyond_notes(out, d);
    bool flagged = false;
    for (size_t i = 0; i < d->n_marks; i++)
        flagged |= d->marks[i].flagged;
    if (d->n_marks == 0)
        out[n++] = "There is nothing to draw: no row has a value that can be drawn.";
    if (flagged) out[n++] = "A dot marks a cell that a finding is about.";
    if (d->bordered) out[n++] = d->plot->of.heatmap.border_label;
    if (d->curves_left_out)
        out[n++] = rs_arena_printf(
            d->arena, "An even choice of %zu of %zu lines is drawn; the table has all.",
            d->n_curves, d->n_curves + d->curves_left_out);
    if (d->vacuous)
        out[n++] = rs_arena_printf(
            d->arena,
            "Not drawn: %zu point%s of '%s', more than a hundred times above all else here, where "
            "the bound says nothing; the table has all.",
            d->points_left_out, d->points_left_out == 1 ? "" : "s", d->vacuous);
    if (d->panels_left_out)
        out[n++] =
            rs_arena_printf(d->arena, "The first %zu of %zu panels are drawn; the table has all.",
                            d->n_panels, d->n_panels + d->panels_left_out);
    return n;
}

static json_t *names_array(rs_figure_names names)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < names.n; i++)
        json_array_append_new(array, json_string(names.names[i]));
    return array;
}

static json_t *dark_colours(const rs_drawing *d)
{
    json_t *map = json_object();
    for (size_t i = 0; i < d->n_curves; i++) {
        const rs_look *look = &rs_looks[d->curves[i].look];
        json_object_set_new(map, look->light, json_string(look->dark));
    }
    json_object_set_new(map, RS_COLOUR_RULE, json_string("#aab3bd"));
    return map;
}

static json_t *usermeta(const rs_drawing *d)
{
    const char *notes[RS_MOST_NOTES];
    size_t n = rs_drawing_notes(notes, d);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(notes[i]));
    json_t *meta = json_pack("{s:s, s:o, s:o, s:o, s:i}", "table", rs_table_name(d->table), "keys",
                             names_array(rs_plot_keys(d->plot)), "notes", list, "dark",
                             dark_colours(d), "label", (int)d->longest_label);
    if (d->plot->kind != RS_PLOT_HEATMAP) return json_pack("{s:o}", "rankscope", meta);
    const rs_heatmap *h = &d->plot->of.heatmap;
    json_t *measures = json_array();
    for (size_t i = 0; i < h->n_measures; i++)
        json_array_append_new(
            measures,
            json_pack("{s:s, s:s}", "field", h->measures[i].field, "title",
                      h->measures[i].title ? h->measures[i].title : h->measures[i].field));
    json_object_set_new(meta, "measures", measures);
    json_object_set_new(meta, "field", json_string(h->measures[0].field));
    return json_pack("{s:o}", "rankscope", meta);
}

static json_t *parameters(rs_figure_names keys)
{
    json_t *array = json_array();
    json_array_append_new(array, json_pack("{s:s, s:b}", "name", "rs_selected", "value", 0));
    for (size_t i = 0; i < keys.n; i++) {
        char name[64];
        snprintf(name, sizeof name, "rs_%s", keys.names[i]);
        json_array_append_new(array, json_pack("{s:s, s:n}", "name", name, "value"));
    }
    return array;
}

/* ---- the frame ---- */

static json_t *facet(const rs_drawing *d)
{
    json_t *order = json_array();
    for (size_t i = 0; i < d->n_panels; i++)
        json_array_append_new(order, json_string(d->panels[i]));
    return json_pack("{s:s, s:s, s:n, s:o}", "field", "panel", "type", "nominal", "title", "sort",
                     order);
}

static json_t *frame(const rs_drawing *d)
{
    json_t *panel = json_pack("{s:f, s:f, s:o}", "width", d->width, "height", d->height, "layer",
                              rs_figure_layers(d));
    json_t *spec =
        json_pack("{s:s, s:s, s:s, s:o, s:o}", "$schema", SCHEMA, "title", d->title, "description",
                  d->about, "usermeta", usermeta(d), "params", parameters(rs_plot_keys(d->plot)));
    if (d->n_panels > 1) {
        json_object_set_new(spec, "facet", facet(d));
        json_object_set_new(spec, "columns", json_integer((json_int_t)d->columns));
        json_object_set_new(spec, "spec", panel);
        if (d->plot->kind == RS_PLOT_LINES && d->plot->of.lines.small)
            json_object_set_new(spec, "spacing", json_integer(12));
        return spec;
    }
    json_object_update(spec, panel);
    json_decref(panel);
    return spec;
}

/* ---- data ---- */

enum { MOST_KEYS = 16 };

/* A column that names the table's rows. */
typedef struct key_column {
    const char *name;
    size_t column;
} key_column;

/* Fields of a row, each once. */
typedef struct row_writer {
    rs_buffer *out;
    const rs_drawing *d;
    const key_column *keys; /* [n_keys] */
    size_t n_keys;
    bool first;
    const char *done[16];
    size_t n_done;
} row_writer;

static bool is_done(row_writer *w, const char *name)
{
    for (size_t i = 0; i < w->n_done; i++)
        if (w->done[i][0] == name[0] && strcmp(w->done[i], name) == 0) return true;
    if (w->n_done < sizeof w->done / sizeof *w->done) w->done[w->n_done++] = name;
    return false;
}

/* Seven digits are more than a pixel. */
static void put_number(row_writer *w, const char *name, double value)
{
    char digits[RS_NUMBER_SIZE];
    if (is_done(w, name)) return;
    rs_emit_key(w->out, name, &w->first);
    if (!isfinite(value))
        rs_buffer_puts(w->out, "null");
    else if (fabs(value) < 1e6 && value == trunc(value)) /* layers, heads, rows */
        rs_emit_real(w->out, value);
    else
        rs_buffer_append(w->out, digits, rs_number_rounded(digits, value, 7));
}

static void put_text(row_writer *w, const char *name, const char *text)
{
    if (is_done(w, name)) return;
    rs_emit_key(w->out, name, &w->first);
    rs_emit_string(w->out, text);
}

static void put_true(row_writer *w, const char *name)
{
    rs_emit_key(w->out, name, &w->first);
    rs_buffer_puts(w->out, "true");
}

/* Keys that the row has: one that is null names nothing. */
static void put_keys(row_writer *w, const rs_mark *m)
{
    const rs_table *table = w->d->table;
    for (size_t i = 0; i < w->n_keys; i++) {
        const key_column *key = &w->keys[i];
        if (rs_table_is_null(table, m->row, key->column) || is_done(w, key->name)) continue;
        rs_emit_key(w->out, key->name, &w->first);
        rs_emit_cell(w->out, table, m->row, key->column);
    }
}

static void put_band(row_writer *w, const rs_mark *m)
{
    const rs_axis *y = &w->d->y;
    if (isnan(m->low) && isnan(m->high)) return;
    put_number(w, "low", fmax(m->low, y->low));
    put_number(w, "high", m->high);
}

static void put_axes(row_writer *w, const rs_mark *m, const char *x, const char *y)
{
    put_number(w, x, m->x);
    put_number(w, y, m->y);
}

static void put_line(row_writer *w, const rs_mark *m)
{
    const rs_lines *l = &w->d->plot->of.lines;
    put_text(w, "curve", w->d->curves[m->curve].name);
    put_axes(w, m, l->x.field, l->y.field);
    put_band(w, m);
    if (m->marker) put_true(w, "marker");
    if (w->d->curves[m->curve].published) put_true(w, "published");
    if (w->d->curves[m->curve].dots) put_true(w, "dots");
    if (!m->label) return;
    put_text(w, "label", m->label);
    put_number(w, "label_y", m->label_y);
}

static void put_mark(row_writer *w, const rs_mark *m)
{
    const rs_plot *plot = w->d->plot;
    if (w->d->n_panels > 1) put_text(w, "panel", w->d->panels[m->panel]);
    if (plot->kind == RS_PLOT_LINES) put_line(w, m);
    if (plot->kind == RS_PLOT_HEATMAP) {
        const rs_heatmap *h = &plot->of.heatmap;
        put_axes(w, m, h->x.field, h->y.field);
        put_number(w, h->measures[0].field, m->value);
        if (m->flagged) put_true(w, "flag");
        if (m->right) put_true(w, "right");
        if (m->below) put_true(w, "below");
        put_number(w, "row", (double)m->row); /* the page reads the other measures there */
    }
    if (plot->kind == RS_PLOT_SCATTER) {
        const rs_scatter *s = &plot->of.scatter;
        put_axes(w, m, s->x.field, s->y.field);
        put_band(w, m);
        if (s->colour.field) put_number(w, s->colour.field, m->value);
    }
    if (plot->kind == RS_PLOT_EDGES) {
        const rs_edges *e = &plot->of.edges;
        put_text(w, "curve", w->d->curves[m->curve].name);
        put_axes(w, m, e->x.field, e->y.field);
        put_number(w, e->x2.field, m->x2);
        put_number(w, e->y2.field, m->y2);
        put_number(w, e->width.field, m->value);
        put_number(w, "faint", rs_edge_opacity(w->d, m->value));
    }
    if (m->note) put_text(w, "note", m->note);
    put_keys(w, m);
}

static size_t find_keys(key_column out[MOST_KEYS], const rs_drawing *d)
{
    rs_figure_names keys = rs_plot_keys(d->plot);
    size_t n = 0;
    for (size_t i = 0; i < keys.n && n < MOST_KEYS; i++) {
        int column = rs_table_find_column(d->table, keys.names[i]);
        if (column >= 0) out[n++] = (key_column){keys.names[i], (size_t)column};
    }
    return n;
}

static void put_data(rs_buffer *out, const rs_drawing *d)
{
    key_column keys[MOST_KEYS];
    size_t n_keys = find_keys(keys, d);
    rs_buffer_puts(out, ",\"data\":{\"values\":[");
    for (size_t i = 0; i < d->n_marks; i++) {
        row_writer w = {.out = out, .d = d, .keys = keys, .n_keys = n_keys, .first = true};
        rs_buffer_puts(out, i ? ",\n{" : "\n{");
        put_mark(&w, &d->marks[i]);
        rs_buffer_puts(out, "}");
    }
    rs_buffer_puts(out, "]}");
}

/* The specification is small; its data are not, and are written straight from the drawing. */
static rs_status write_spec(rs_buffer *out, const rs_drawing *d, rs_error *err)
{
    int64_t failures = rs_memory_failures();
    bool first = true;
    json_t *spec = frame(d);
    rs_status status = rs_memory_check(failures, d->name, err);
    rs_buffer_puts(out, "{");
    for (void *i = json_object_iter(spec); i && status == RS_OK;
         i = json_object_iter_next(spec, i)) {
        rs_emit_key(out, json_object_iter_key(i), &first);
        status = rs_emit_json(out, json_object_iter_value(i), err);
    }
    put_data(out, d);
    rs_buffer_puts(out, "}");
    json_decref(spec);
    return status;
}

rs_status rs_figure_write(rs_buffer *out, const rs_result *result, size_t figure, rs_error *err)
{
    rs_drawing d;
    RS_TRY(rs_drawing_make(&d, result, figure, err));
    rs_status status = write_spec(out, &d, err);
    rs_drawing_free(&d);
    return status;
}
