/* figures.c: see figures.h. */
#include "report/figures.h"

#include "base/text.h"
#include "report/number.h"

#include <math.h>

#define SCHEMA "https://vega.github.io/schema/vega-lite/v6.json"
#define HIGHLIGHT "#d81b60" /* stands out on viridis, on white and on dark grey */
#define NO_VALUE "#9aa0a6"
#define ONE_COLOUR "#21918c" /* the middle of viridis */

/* ---- pieces ---- */

static const char *title_of(rs_figure_field f)
{
    return f.title ? f.title : f.field;
}

static json_t *names_array(rs_figure_names names)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < names.n; i++)
        json_array_append_new(array, json_string(names.names[i]));
    return array;
}

static json_t *fields_array(const rs_figure_field *fields, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < n; i++)
        json_array_append_new(
            array, json_pack("{s:s, s:s}", "field", fields[i].field, "title", title_of(fields[i])));
    return array;
}

/* Takes over the text of a buffer; NULL when it failed. */
static json_t *text_of(rs_buffer *buffer)
{
    json_t *text = buffer->failed || !buffer->data ? NULL : json_string(buffer->data);
    rs_buffer_free(buffer);
    return text;
}

/* An expression true for rows that the page has selected. */
static json_t *selected_expression(rs_figure_names keys)
{
    rs_buffer text = {0};
    rs_buffer_puts(&text, "rs_selected");
    for (size_t i = 0; i < keys.n; i++)
        rs_buffer_printf(&text, " && (rs_%s === null || datum['%s'] === rs_%s)", keys.names[i],
                         keys.names[i], keys.names[i]);
    return text_of(&text);
}

static json_t *parameters(rs_figure_names keys)
{
    json_t *array = json_array();
    json_array_append_new(array, json_pack("{s:s, s:b}", "name", "rs_selected", "value", 0));
    for (size_t i = 0; i < keys.n; i++) {
        rs_buffer name = {0};
        rs_buffer_printf(&name, "rs_%s", keys.names[i]);
        json_array_append_new(array, json_pack("{s:o, s:n}", "name", text_of(&name), "value"));
    }
    return array;
}

/* A field rs_panel with the words of the facets that the row has: "decoder cross qk"; a number
 * needs its name: "san, layer 0, head 3". */
static json_t *panel_transform(rs_figure_names facets)
{
    rs_buffer text = {0};
    rs_buffer_puts(&text, "trim(");
    for (size_t i = 0; i < facets.n; i++)
        rs_buffer_printf(
            &text,
            "%s(isNumber(datum['%s']) ? '%s%s ' + datum['%s'] : isValid(datum['%s']) ? "
            "' ' + datum['%s'] : '')",
            i ? " + " : "", facets.names[i], i ? ", " : "", facets.names[i], facets.names[i],
            facets.names[i], facets.names[i]);
    rs_buffer_puts(&text, ")");
    return json_pack("{s:o, s:s}", "calculate", text_of(&text), "as", "rs_panel");
}

static json_t *axis_field(rs_figure_field f, const char *type)
{
    return json_pack("{s:s, s:s, s:s}", "field", f.field, "type", type, "title", title_of(f));
}

static json_t *number_axis(rs_figure_field f, bool logarithmic)
{
    json_t *scale = logarithmic ? json_pack("{s:s, s:b}", "type", "log", "nice", 0)
                                : json_pack("{s:b}", "zero", 0);
    json_t *axis = axis_field(f, "quantitative");
    json_object_set_new(axis, "scale", scale);
    return axis;
}

/* Thin marks in the very ends of the scale would be lost on a dark or on a white page. */
static json_t *colour_field(rs_figure_field f, bool category)
{
    json_t *colour = axis_field(f, category ? "nominal" : "quantitative");
    if (category) {
        json_object_set_new(colour, "sort", json_null()); /* the order of the rows */
        return colour;
    }
    json_object_set_new(
        colour, "scale",
        json_pack("{s:{s:s, s:[f, f]}}", "scheme", "name", "viridis", "extent", 0.12, 0.94));
    json_object_set_new(colour, "legend", json_pack("{s:i, s:s}", "tickMinStep", 1, "format", "d"));
    return colour;
}

/* Tooltip entries: the keys, then the fields. */
static json_t *tooltip(rs_figure_names keys, const rs_figure_field *fields, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < keys.n; i++)
        json_array_append_new(
            array, json_pack("{s:s, s:s}", "field", keys.names[i], "title", keys.names[i]));
    for (size_t i = 0; i < n; i++)
        if (fields[i].field)
            json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:s}", "field", fields[i].field,
                                                   "type", "quantitative", "title",
                                                   title_of(fields[i]), "format", ".4~g"));
    return array;
}

typedef struct frame {
    const char *table;
    rs_figure_names facets, keys;
    json_t *usermeta;  /* taken over */
    json_t *transform; /* taken over; may be empty */
    json_t *panel;     /* taken over: a layered specification with its size */
    int columns;       /* panels side by side */
} frame;

/* Puts a panel into its frame: data, parameters, facets. */
static json_t *framed(frame f)
{
    json_t *spec =
        json_pack("{s:s, s:{s:o}, s:{s:s}, s:o}", "$schema", SCHEMA, "usermeta", "rankscope",
                  f.usermeta, "data", "name", f.table, "params", parameters(f.keys));
    if (f.facets.n) {
        json_array_append_new(f.transform, panel_transform(f.facets));
        json_array_append_new(f.transform, json_pack("{s:[{s:s, s:s}]}", "window", "op",
                                                     "row_number", "as", "rs_row"));
    }
    if (json_array_size(f.transform)) json_object_set(spec, "transform", f.transform);
    json_decref(f.transform);
    if (f.facets.n) {
        json_object_set_new(spec, "facet",
                            json_pack("{s:s, s:s, s:n, s:{s:s, s:s}}", "field", "rs_panel", "type",
                                      "nominal", "title", "sort", "field", "rs_row", "op", "min"));
        json_object_set_new(spec, "columns", json_integer(f.columns));
        json_object_set_new(spec, "spec", f.panel);
    } else {
        json_object_update(spec, f.panel);
        json_decref(f.panel);
    }
    return spec;
}

/* Keeps rows whose value can stand on a logarithmic axis, and is not below the floor. */
static void keep_positive(json_t *transform, rs_figure_field f, bool logarithmic, double least)
{
    if (!logarithmic) return;
    rs_buffer text = {0};
    char number[RS_NUMBER_SIZE];
    rs_number_format(number, least);
    rs_buffer_printf(&text, "datum['%s'] > %s", f.field, number);
    json_array_append_new(transform, json_pack("{s:o}", "filter", text_of(&text)));
}

/* ---- heat map ---- */

static double clamp(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* The scale includes 0: stretched over the data's own range, heads that hardly differ would look
 * worlds apart. */
static json_t *measured_cells(const rs_heatmap *h)
{
    rs_figure_field first = h->measures[0];
    json_t *colour =
        json_pack("{s:{s:{s:s, s:b}, s:s}, s:s, s:s, s:s, s:{s:s, s:b}, s:{s:s}}", "condition",
                  "test", "field", first.field, "valid", 0, "value", NO_VALUE, "field", first.field,
                  "type", "quantitative", "title", title_of(first), "scale", "scheme", "viridis",
                  "zero", 1, "legend", "format", ".3~g");
    return json_pack("{s:{s:s, s:n}, s:{s:o, s:o}}", "mark", "type", "rect", "invalid", "encoding",
                     "color", colour, "tooltip", tooltip(h->keys, h->measures, 1));
}

static json_t *selected_cell(rs_figure_names keys)
{
    return json_pack("{s:[{s:o}], s:{s:s, s:n, s:s, s:i, s:b}}", "transform", "filter",
                     selected_expression(keys), "mark", "type", "rect", "fill", "stroke", HIGHLIGHT,
                     "strokeWidth", 3, "clip", 0);
}

json_t *rs_figure_heatmap(const rs_heatmap *h)
{
    enum { WIDEST = 760, WIDEST_CELL = 30, TALLEST = 420, TALLEST_CELL = 26 };
    double n_x = h->n_x ? (double)h->n_x : 1, n_y = h->n_y ? (double)h->n_y : 1;
    double width = floor(n_x * clamp(WIDEST / n_x, 0, WIDEST_CELL));
    double height = floor(n_y * clamp(TALLEST / n_y, 5, TALLEST_CELL));
    json_t *x = axis_field(h->x, "ordinal"), *y = axis_field(h->y, "ordinal");
    json_object_set_new(x, "axis", json_pack("{s:i, s:b}", "labelAngle", 0, "labelOverlap", 1));
    json_object_set_new(y, "axis", json_pack("{s:b}", "labelOverlap", 1));
    json_t *panel =
        json_pack("{s:f, s:f, s:{s:o, s:o}, s:[o, o]}", "width", width, "height", height,
                  "encoding", "x", x, "y", y, "layer", measured_cells(h), selected_cell(h->keys));
    json_t *usermeta =
        json_pack("{s:o, s:s, s:o}", "measures", fields_array(h->measures, h->n_measures), "field",
                  h->measures[0].field, "keys", names_array(h->keys));
    return framed((frame){.table = h->table,
                          .facets = h->facets,
                          .keys = h->keys,
                          .usermeta = usermeta,
                          .transform = json_array(),
                          .panel = panel,
                          .columns = (int)clamp(floor(900 / (width + 60)), 1, 3)});
}

/* ---- lines and points ---- */

/* The band: at each x the mean of the two ends over the rows. */
static json_t *band(rs_figure_field x, rs_figure_field low, rs_figure_field high, bool log_x,
                    bool log_y, const char *y_title)
{
    json_t *bottom = number_axis(low, log_y), *top = axis_field(high, "quantitative");
    json_object_set_new(bottom, "aggregate", json_string("mean"));
    json_object_set_new(bottom, "title", json_string(y_title));
    json_object_set_new(top, "aggregate", json_string("mean"));
    json_object_del(top, "type");
    json_object_del(top, "title"); /* or the axis would name both ends */
    return json_pack("{s:{s:s, s:s, s:f, s:b}, s:{s:o, s:o, s:o}}", "mark", "type", "area", "color",
                     NO_VALUE, "opacity", 0.4, "tooltip", 0, "encoding", "x", number_axis(x, log_x),
                     "y", bottom, "y2", top);
}

/* The band of each line. On a logarithmic axis its lower end must stay above 0. */
static json_t *band_of_each(const rs_lines *l, json_t *transform, json_t *detail)
{
    rs_figure_field low = l->low;
    if (l->log_y) {
        char number[RS_NUMBER_SIZE];
        rs_buffer text = {0};
        rs_number_format(number, l->y_floor > 0 ? l->y_floor : 1e-300);
        rs_buffer_printf(&text, "max(datum['%s'], %s)", l->low.field, number);
        json_array_append_new(transform,
                              json_pack("{s:o, s:s}", "calculate", text_of(&text), "as", "rs_low"));
        low.field = "rs_low";
    }
    json_t *bottom = number_axis(low, l->log_y);
    json_object_set_new(bottom, "title", json_string(title_of(l->y)));
    json_t *colour = colour_field(l->colour, l->colour_is_category);
    json_object_set_new(colour, "legend", json_pack("{s:i}", "symbolOpacity", 1));
    return json_pack("{s:{s:s, s:f, s:b}, s:{s:o, s:o, s:{s:s}, s:o, s:O}}", "mark", "type", "area",
                     "opacity", 0.15, "tooltip", 0, "encoding", "x", number_axis(l->x, l->log_x),
                     "y", bottom, "y2", "field", l->high.field, "color", colour, "detail", detail);
}

/* A dashed line across the panel and its name. Only one mark of each, whatever the rows. */
static void add_rule(json_t *layers, double y, const char *label)
{
    json_t *once = json_pack("[{s:[{s:s, s:s}]}]", "aggregate", "op", "count", "as", "rs_count");
    json_array_append_new(layers,
                          json_pack("{s:O, s:{s:s, s:s, s:[i, i], s:b}, s:{s:{s:f}}}", "transform",
                                    once, "mark", "type", "rule", "color", NO_VALUE, "strokeDash",
                                    5, 4, "tooltip", 0, "encoding", "y", "datum", y));
    json_array_append_new(
        layers, json_pack("{s:O, s:{s:s, s:s, s:s, s:s, s:i, s:i}, s:{s:{s:f}, s:{s:i}, s:{s:s}}}",
                          "transform", once, "mark", "type", "text", "color", NO_VALUE, "align",
                          "left", "baseline", "bottom", "dx", 4, "dy", -2, "encoding", "y", "datum",
                          y, "x", "value", 0, "text", "value", label));
    json_decref(once);
}

/* {"condition": [{"test": SELECTED, "value": yes}, {"test": "rs_selected", "value": other}],
 * "value": none}: for the selected row, for the others beside it, and while none is selected. */
static json_t *if_selected(rs_figure_names keys, double yes, double other, double none)
{
    return json_pack("{s:[{s:o, s:f}, {s:s, s:f}], s:f}", "condition", "test",
                     selected_expression(keys), "value", yes, "test", "rs_selected", "value", other,
                     "value", none);
}

/* An encoding shared by lines and points. The selected row takes the colour of the highlight in
 * place: a layer of its own would be empty most of the time, and Vega warns of empty axes. */
static json_t *point_encoding(rs_figure_field x, rs_figure_field y, rs_figure_field colour,
                              bool category, bool log_x, bool log_y, rs_figure_names keys)
{
    const rs_figure_field shown[] = {x, y};
    json_t *encoding = json_pack("{s:o, s:o, s:o}", "x", number_axis(x, log_x), "y",
                                 number_axis(y, log_y), "tooltip", tooltip(keys, shown, 2));
    json_t *paint =
        colour.field ? colour_field(colour, category) : json_pack("{s:s}", "value", ONE_COLOUR);
    json_object_set_new(
        paint, "condition",
        json_pack("{s:o, s:s}", "test", selected_expression(keys), "value", HIGHLIGHT));
    json_object_set_new(encoding, "color", paint);
    return encoding;
}

static json_t *keys_only(rs_figure_names keys)
{
    return json_pack("{s:o}", "keys", names_array(keys));
}

json_t *rs_figure_lines(const rs_lines *l)
{
    json_t *layers = json_array(), *transform = json_array(), *detail = json_array();
    keep_positive(transform, l->x, l->log_x, 0);
    keep_positive(transform, l->y, l->log_y, l->y_floor);
    for (size_t i = 0; i < l->keys.n; i++)
        json_array_append_new(detail, json_pack("{s:s}", "field", l->keys.names[i]));
    if (l->low.field)
        json_array_append_new(layers, l->band_of_each ? band_of_each(l, transform, detail)
                                                      : band(l->x, l->low, l->high, l->log_x,
                                                             l->log_y, title_of(l->y)));
    if (l->y_rule > 0) add_rule(layers, l->y_rule, l->y_rule_label);
    json_t *encoding =
        point_encoding(l->x, l->y, l->colour, l->colour_is_category, l->log_x, l->log_y, l->keys);
    if (l->x_whole)
        json_object_set_new(json_object_get(encoding, "x"), "axis",
                            json_pack("{s:i}", "tickMinStep", 1));
    if (l->y_rule > 0) /* down to a floor: powers of ten are read as such */
        json_object_set_new(json_object_get(encoding, "y"), "axis",
                            json_pack("{s:s}", "format", "~e"));
    json_object_set_new(encoding, "detail", detail);
    json_object_set_new(encoding, "opacity", if_selected(l->keys, 1, 0.25, 0.6));
    json_object_set_new(encoding, "strokeWidth", if_selected(l->keys, 3, 1.2, 1.2));
    json_array_append_new(layers, json_pack("{s:s, s:o}", "mark", "line", "encoding", encoding));
    json_t *panel = json_pack("{s:i, s:i, s:o}", "width", l->facets.n ? 380 : 760, "height", 300,
                              "layer", layers);
    return framed((frame){.table = l->table,
                          .facets = l->facets,
                          .keys = l->keys,
                          .usermeta = keys_only(l->keys),
                          .transform = transform,
                          .panel = panel,
                          .columns = 2});
}

json_t *rs_figure_spectrum_curves(const char *table, rs_figure_names facets, rs_figure_names keys)
{
    return rs_figure_lines(&(rs_lines){
        .table = table,
        .x = {"index", "index of the singular value"},
        .y = {"sigma_normalised", "singular value / largest"},
        .low = {"null_low", NULL},
        .high = {"null_high", NULL},
        .colour = {"layer", "layer"},
        .facets = facets,
        .keys = keys,
        .log_y = true,
        .y_floor = 1e-6,
    });
}

json_t *rs_figure_scatter(const rs_scatter *s)
{
    json_t *layers = json_array(), *transform = json_array();
    keep_positive(transform, s->x, s->log_x, 0);
    keep_positive(transform, s->y, s->log_y, 0);
    if (s->low.field)
        json_array_append_new(layers,
                              band(s->x, s->low, s->high, s->log_x, s->log_y, title_of(s->y)));
    if (s->diagonal) {
        json_t *same = number_axis((rs_figure_field){s->x.field, title_of(s->y)}, s->log_y);
        json_array_append_new(layers,
                              json_pack("{s:{s:s, s:s, s:f, s:[i, i], s:b}, s:{s:o, s:o}}", "mark",
                                        "type", "line", "color", NO_VALUE, "strokeWidth", 1.2,
                                        "strokeDash", 4, 4, "tooltip", 0, "encoding", "x",
                                        number_axis(s->x, s->log_x), "y", same));
    }
    json_t *encoding =
        point_encoding(s->x, s->y, s->colour, s->colour_is_category, s->log_x, s->log_y, s->keys);
    json_object_set_new(encoding, "opacity", if_selected(s->keys, 1, 0.3, 0.75));
    json_object_set_new(encoding, "size", if_selected(s->keys, 110, 30, 30));
    json_array_append_new(layers, json_pack("{s:{s:s, s:b}, s:o}", "mark", "type", "point",
                                            "filled", 1, "encoding", encoding));
    json_t *panel = json_pack("{s:i, s:i, s:o}", "width", s->facets.n ? 380 : 640, "height", 360,
                              "layer", layers);
    return framed((frame){.table = s->table,
                          .facets = s->facets,
                          .keys = s->keys,
                          .usermeta = keys_only(s->keys),
                          .transform = transform,
                          .panel = panel,
                          .columns = 2});
}
