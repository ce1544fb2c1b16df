/* figure_layers.c: the marks of a panel in the words of Vega-Lite: see figure_spec.h. */
#include "report/figure_spec.h"

#include "base/text.h"
#include "report/number.h"

#include <math.h>
#include <string.h>

/* ---- pieces ---- */

/* Rounded as the data are. */
static json_t *number_array(const double *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, json_real(values[i]));
    return array;
}

static json_t *domain_of(const rs_axis *axis)
{
    const double ends[] = {axis->low, axis->high};
    return number_array(ends, 2);
}

#define TICK_WORDS                                                                                 \
    "datum.value == 0 || (abs(datum.value) >= 1e-3 && abs(datum.value) < 1e5) ? "                  \
    "format(datum.value, '.6~g') : format(datum.value, '~e')"

/* What stands at a tick: words at the ends of some axes. */
static json_t *tick_words(const rs_axis *axis)
{
    if (!axis->first) return json_string(TICK_WORDS);
    return json_sprintf("datum.value == %g ? '%s' : datum.value == %g ? '%s' : datum.value",
                        axis->ticks[0], axis->first,
                        axis->last ? axis->ticks[axis->n_ticks - 1] : -2,
                        axis->last ? axis->last : "");
}

/* A column on an axis. All layers of a panel share scales, ticks and titles. */
static json_t *on_axis(const rs_axis *axis, const char *field)
{
    json_t *scale = json_pack("{s:o, s:b}", "domain", domain_of(axis), "nice", 0);
    if (axis->log)
        json_object_set_new(scale, "type", json_string("log"));
    else
        json_object_set_new(scale, "zero", json_false());
    return json_pack("{s:s, s:s, s:s, s:o, s:{s:o, s:o}}", "field", field, "type", "quantitative",
                     "title", axis->title, "scale", scale, "axis", "values",
                     number_array(axis->ticks, axis->n_ticks), "labelExpr", tick_words(axis));
}

/* An expression true for rows that the page has selected. */
static json_t *selected(rs_figure_names keys)
{
    rs_buffer text = {0};
    rs_buffer_puts(&text, "rs_selected");
    for (size_t i = 0; i < keys.n; i++)
        rs_buffer_printf(&text, " && (rs_%s === null || datum['%s'] === rs_%s)", keys.names[i],
                         keys.names[i], keys.names[i]);
    json_t *made = text.failed ? NULL : json_string(text.data);
    rs_buffer_free(&text);
    return made;
}

/* For the selected row, for the others beside it, and while none is selected. */
static json_t *if_selected(rs_figure_names keys, double yes, double other, double none)
{
    return json_pack("{s:[{s:o, s:f}, {s:s, s:f}], s:f}", "condition", "test", selected(keys),
                     "value", yes, "test", "rs_selected", "value", other, "value", none);
}

static json_t *filter(const char *expression)
{
    return json_pack("[{s:s}]", "filter", expression);
}

static void add_tooltip(json_t *array, const char *field, const char *title, bool number)
{
    json_t *entry = json_pack("{s:s, s:s}", "field", field, "title", title ? title : field);
    if (number) {
        json_object_set_new(entry, "type", json_string("quantitative"));
        json_object_set_new(entry, "format", json_string(".4~g"));
    }
    json_array_append_new(array, entry);
}

/* Keys, then two fields. */
static json_t *tooltip(rs_figure_names keys, rs_figure_field a, rs_figure_field b)
{
    json_t *array = json_array();
    for (size_t i = 0; i < keys.n; i++)
        add_tooltip(array, keys.names[i], NULL, false);
    add_tooltip(array, a.field, a.title, true);
    if (b.field) add_tooltip(array, b.field, b.title, true);
    return array;
}

/* ---- curves ---- */

static json_t *curve_names(const rs_drawing *d)
{
    json_t *names = json_array();
    for (size_t i = 0; i < d->n_curves; i++)
        json_array_append_new(names, json_string(d->curves[i].name));
    return names;
}

typedef json_t *look_part(const rs_drawn_curve *curve);

static json_t *colour_of(const rs_drawn_curve *curve)
{
    return json_string(rs_looks[curve->look].light);
}

static json_t *marker_of(const rs_drawn_curve *curve)
{
    return json_string(rs_marker_name(rs_looks[curve->look].marker));
}

static json_t *dash_of(const rs_drawn_curve *curve)
{
    const double *dash = curve->published ? rs_published_dash : rs_looks[curve->look].dash;
    size_t n = 0;
    while (n < RS_DASHES && dash[n] > 0)
        n++;
    return n ? number_array(dash, n) : json_pack("[i, i]", 1, 0);
}

/* The name of a row's curve, as a colour, a dash, a marker. */
static json_t *by_curve(const rs_drawing *d, look_part *part, bool legend)
{
    json_t *range = json_array();
    for (size_t i = 0; i < d->n_curves; i++)
        json_array_append_new(range, part(&d->curves[i]));
    json_t *channel = json_pack("{s:s, s:s, s:{s:o, s:o}}", "field", "curve", "type", "nominal",
                                "scale", "domain", curve_names(d), "range", range);
    json_object_set_new(channel, "legend",
                        legend && d->legend ? json_pack("{s:n, s:s}", "title", "orient", "top")
                                            : json_null());
    return channel;
}

static json_t *coloured(const rs_drawing *d, bool selectable)
{
    json_t *colour = by_curve(d, colour_of, true);
    if (selectable)
        json_object_set_new(colour, "condition",
                            json_pack("{s:o, s:s}", "test", selected(rs_plot_keys(d->plot)),
                                      "value", RS_COLOUR_HIGHLIGHT));
    return colour;
}

/* Chance is grey, a curve's own spread has its colour. */
static json_t *band(const rs_drawing *d, const char *x, const char *label)
{
    json_t *encoding = json_pack("{s:o, s:o, s:{s:s}}", "x", on_axis(&d->x, x), "y",
                                 on_axis(&d->y, "low"), "y2", "field", "high");
    if (d->plot->kind == RS_PLOT_LINES)
        json_object_set_new(encoding, "detail", json_pack("{s:s}", "field", "curve"));
    json_object_set_new(encoding, "color",
                        label ? json_pack("{s:s}", "value", RS_COLOUR_CHANCE)
                              : by_curve(d, colour_of, true));
    return json_pack("{s:o, s:{s:s, s:f, s:b}, s:o}", "transform",
                     filter("isValid(datum.low) && isValid(datum.high)"), "mark", "type", "area",
                     "fillOpacity", label ? 0.38 : 0.14, "tooltip", 0, "encoding", encoding);
}

/* A line across and its name, once. */
static void add_rule(json_t *layers, const rs_axis *axis, double y, const char *label)
{
    json_t *once = json_pack("{s:[{s:i}]}", "values", "once", 1);
    json_array_append_new(layers,
                          json_pack("{s:O, s:{s:s, s:s, s:f, s:[i, i], s:b}, s:{s:{s:f, s:s}}}",
                                    "data", once, "mark", "type", "rule", "color", RS_COLOUR_RULE,
                                    "strokeWidth", 1.2, "strokeDash", 2, 2, "tooltip", 0,
                                    "encoding", "y", "datum", y, "title", axis->title));
    json_array_append_new(
        layers,
        json_pack("{s:o, s:{s:s, s:s, s:s, s:s, s:i, s:i, s:i}, s:{s:{s:f, s:s}, s:{s:i}, "
                  "s:{s:s}}}",
                  "data", once, "mark", "type", "text", "color", RS_COLOUR_RULE, "align", "left",
                  "baseline", "bottom", "dx", 4, "dy", -3, "fontSize", 11, "encoding", "y", "datum",
                  y, "title", axis->title, "x", "value", 0, "text", "value", label));
}

static json_t *once(void)
{
    return json_pack("{s:[{s:i}]}", "values", "once", 1);
}

/* Words at x near the foot of the panel, where curves of what is kept do not run. */
static void add_foot(json_t *layers, const rs_axis *axis, double x, const char *label, bool upwards)
{
    json_t *mark = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i}", "type", "text", "color",
                             RS_COLOUR_RULE, "align", upwards ? "left" : "right", "baseline",
                             "bottom", "dx", upwards ? 22 : -4, "dy", -4, "fontSize", 11);
    if (upwards) json_object_set_new(mark, "angle", json_integer(270));
    json_array_append_new(layers,
                          json_pack("{s:o, s:o, s:{s:{s:f, s:s}, s:{s:s}, s:{s:s}}}", "data",
                                    once(), "mark", mark, "encoding", "x", "datum", x, "title",
                                    axis->title, "y", "value", "height", "text", "value", label));
}

/* A shaded stretch of the ground. */
static void add_shade(json_t *layers, const rs_axis *axis, const double ends[2])
{
    json_array_append_new(
        layers,
        json_pack("{s:o, s:{s:s, s:s, s:f, s:b}, s:{s:{s:f, s:s}, s:{s:f}}}", "data", once(),
                  "mark", "type", "rect", "color", RS_COLOUR_CHANCE, "opacity", 0.22, "tooltip", 0,
                  "encoding", "x", "datum", ends[0], "title", axis->title, "x2", "datum", ends[1]));
}

/* An upright line. */
static void add_upright(json_t *layers, const rs_axis *axis, double x)
{
    json_array_append_new(layers,
                          json_pack("{s:o, s:{s:s, s:s, s:f, s:[i, i], s:b}, s:{s:{s:f, s:s}}}",
                                    "data", once(), "mark", "type", "rule", "color", RS_COLOUR_RULE,
                                    "strokeWidth", 1.2, "strokeDash", 2, 2, "tooltip", 0,
                                    "encoding", "x", "datum", x, "title", axis->title));
}

/* What lies behind the curves. */
static void add_ground(json_t *layers, const rs_drawing *d)
{
    const rs_lines *l = &d->plot->of.lines;
    double shades[2][2], uprights[2];
    size_t n = rs_drawing_shades(shades, d);
    for (size_t i = 0; i < n; i++)
        add_shade(layers, &d->x, shades[i]);
    if (n) add_foot(layers, &d->x, shades[n - 1][1], l->x_shade_label, false);
    n = rs_drawing_uprights(uprights, d);
    for (size_t i = 0; i < n; i++)
        add_upright(layers, &d->x, uprights[i]);
    if (n) add_foot(layers, &d->x, uprights[n - 1], l->x_rule_label, true);
    if (l->y_rule > 0) add_rule(layers, &d->y, l->y_rule, l->y_rule_label);
}

static json_t *words(const rs_drawing *d, const char *test, const char *x, const char *y,
                     const char *field, json_t *colour)
{
    bool end = strcmp(field, "label") == 0, points = d->plot->kind == RS_PLOT_SCATTER;
    return json_pack("{s:o, s:{s:s, s:s, s:s, s:i, s:i, s:i, s:b}, s:{s:o, s:o, s:{s:s}, s:o}}",
                     "transform", filter(test), "mark", "type", "text", "align",
                     points ? "right" : "left", "baseline", end ? "middle" : "bottom", "dx",
                     end ? 9 : 2, "dy", end ? 0 : -4, "fontSize", 11, "tooltip", 0, "encoding", "x",
                     on_axis(&d->x, x), "y", on_axis(&d->y, y), "text", "field", field, "color",
                     colour);
}

static bool has_dots(const rs_drawing *d)
{
    for (size_t i = 0; i < d->n_curves; i++)
        if (d->curves[i].dots) return true;
    return false;
}

static json_t *line_mark(const rs_drawing *d, const rs_lines *l)
{
    json_t *encoding = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "x", on_axis(&d->x, l->x.field), "y",
        on_axis(&d->y, l->y.field), "color", coloured(d, true), "strokeDash",
        by_curve(d, dash_of, true), "strokeWidth", if_selected(l->keys, 4, 2, 2), "strokeOpacity",
        if_selected(l->keys, 1, 0.3, 1), "tooltip", tooltip(l->keys, l->x, l->y));
    json_t *mark = json_pack("{s:{s:s}, s:o}", "mark", "type", "line", "encoding", encoding);
    if (has_dots(d)) json_object_set_new(mark, "transform", filter("!datum.dots"));
    return mark;
}

/* Markers of published curves are hollow: filled with the ground. */
static json_t *marker_mark(const rs_drawing *d, const rs_lines *l, bool published)
{
    json_t *encoding =
        json_pack("{s:o, s:o, s:o, s:o, s:o}", "x", on_axis(&d->x, l->x.field), "y",
                  on_axis(&d->y, l->y.field), "color", coloured(d, true), "shape",
                  by_curve(d, marker_of, true), "tooltip", tooltip(l->keys, l->x, l->y));
    json_t *mark =
        json_pack("{s:s, s:i, s:b, s:f, s:i}", "type", "point", "size", d->legend ? 24 : 46,
                  "filled", !published, "strokeWidth", 1.4, "opacity", 1);
    if (published) json_object_set_new(mark, "fill", json_string("#ffffff"));
    return json_pack(
        "{s:o, s:o, s:o}", "transform",
        filter(published ? "datum.marker && datum.published" : "datum.marker && !datum.published"),
        "mark", mark, "encoding", encoding);
}

static bool has_published(const rs_drawing *d)
{
    for (size_t i = 0; i < d->n_curves; i++)
        if (d->curves[i].published) return true;
    return false;
}

static json_t *grey(void)
{
    return json_pack("{s:s}", "value", RS_COLOUR_RULE);
}

static void add_note(json_t *layers, const rs_drawing *d, const char *x)
{
    for (size_t i = 0; i < d->n_marks; i++) {
        if (!d->marks[i].note) continue;
        json_array_append_new(layers, words(d, "isValid(datum.note)", x, "high", "note", grey()));
        return;
    }
}

static json_t *line_layers(const rs_drawing *d)
{
    const rs_lines *l = &d->plot->of.lines;
    json_t *layers = json_array();
    if (l->low.field) json_array_append_new(layers, band(d, l->x.field, l->band_label));
    add_ground(layers, d);
    json_array_append_new(layers, line_mark(d, l));
    json_array_append_new(layers, marker_mark(d, l, false));
    if (has_published(d)) json_array_append_new(layers, marker_mark(d, l, true));
    add_note(layers, d, l->x.field);
    if (d->labels)
        json_array_append_new(layers, words(d, "isValid(datum.label)", l->x.field, "label_y",
                                            "label", coloured(d, false)));
    return layers;
}

/* ---- points ---- */

static json_t *ramp_between(double from, double to)
{
    enum { STEPS = 9 };
    json_t *range = json_array();
    for (int i = 0; i < STEPS; i++) {
        char colour[8];
        rs_ramp(colour, from + (to - from) * i / (STEPS - 1));
        json_array_append_new(range, json_string(colour));
    }
    return range;
}

/* Marks in the very ends of the ramp would be lost on a dark or on a white ground. */
static json_t *ramp_channel(const rs_axis *axis, const char *field, bool cells)
{
    return json_pack("{s:s, s:s, s:s, s:{s:o, s:o}, s:{s:s, s:o}}", "field", field, "type",
                     "quantitative", "title", axis->title, "scale", "domain", domain_of(axis),
                     "range", cells ? ramp_between(0, 1) : ramp_between(0.05, 0.85), "legend",
                     "format", ".4~g", "values", number_array(axis->ticks, axis->n_ticks));
}

static json_t *diagonal(const rs_drawing *d, const rs_scatter *s)
{
    double low = fmax(d->x.low, d->y.low), high = fmin(d->x.high, d->y.high);
    return json_pack("{s:{s:[{s:f, s:f}, {s:f, s:f}]}, s:{s:s, s:s, s:f, s:[i, i], s:b}, s:{s:o, "
                     "s:o}}",
                     "data", "values", s->x.field, low, s->y.field, low, s->x.field, high,
                     s->y.field, high, "mark", "type", "line", "color", RS_COLOUR_RULE,
                     "strokeWidth", 1.4, "strokeDash", 5, 4, "tooltip", 0, "encoding", "x",
                     on_axis(&d->x, s->x.field), "y", on_axis(&d->y, s->y.field));
}

static json_t *point_layers(const rs_drawing *d)
{
    const rs_scatter *s = &d->plot->of.scatter;
    json_t *layers = json_array();
    if (s->low.field) json_array_append_new(layers, band(d, s->x.field, "chance"));
    if (s->diagonal) json_array_append_new(layers, diagonal(d, s));
    json_t *colour = s->colour.field ? ramp_channel(&d->colour, s->colour.field, false)
                                     : json_pack("{s:s}", "value", rs_looks[0].light);
    json_object_set_new(
        colour, "condition",
        json_pack("{s:o, s:s}", "test", selected(s->keys), "value", RS_COLOUR_HIGHLIGHT));
    json_t *encoding =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "x", on_axis(&d->x, s->x.field), "y",
                  on_axis(&d->y, s->y.field), "color", colour, "fillOpacity",
                  if_selected(s->keys, 1, 0.3, 0.8), "size", if_selected(s->keys, 110, 26, 26),
                  "tooltip", tooltip(s->keys, s->x, s->y));
    json_array_append_new(layers, json_pack("{s:{s:s, s:b}, s:o}", "mark", "type", "point",
                                            "filled", 1, "encoding", encoding));
    add_note(layers, d, s->x.field);
    return layers;
}

/* ---- cells ---- */

/* "[1, 2.5][datum.value]": the values that stand at the places of cells; NULL: no memory. */
static json_t *words_of(const rs_axis *axis)
{
    rs_buffer text = {0};
    char digits[RS_NUMBER_SIZE];
    for (size_t i = 0; i < axis->n_values; i++) {
        rs_number_brief(digits, axis->values[i], 4);
        rs_buffer_puts(&text, i ? ",'" : "['");
        rs_buffer_puts(&text, digits);
        rs_buffer_puts(&text, "'");
    }
    rs_buffer_puts(&text, "][datum.value]");
    json_t *words = text.failed ? NULL : json_string(text.data);
    rs_buffer_free(&text);
    return words;
}

static json_t *cell_axis(const rs_axis *axis, const char *field)
{
    json_t *out = json_pack("{s:s, s:s, s:s, s:{s:i, s:b}}", "field", field, "type", "ordinal",
                            "title", axis->title, "axis", "labelAngle", 0, "labelOverlap", 1);
    if (out && axis->values)
        json_object_set_new(json_object_get(out, "axis"), "labelExpr", words_of(axis));
    return out;
}

static json_t *at_edge(const char *field, int edge)
{
    return json_pack("{s:s, s:s, s:{s:s}, s:i}", "field", field, "type", "ordinal", "scale", "type",
                     "band", "bandPosition", edge);
}

/* A line at the right edge of the cells that `test` names, or at their lower one. */
static json_t *edges(const rs_heatmap *h, const char *test, bool right)
{
    json_t *encoding = json_pack(
        "{s:o, s:o, s:o}", "x", at_edge(h->x.field, right), "y", at_edge(h->y.field, !right),
        right ? "y2" : "x2",
        json_pack("{s:s, s:i}", "field", right ? h->y.field : h->x.field, "bandPosition", 1));
    return json_pack("{s:o, s:{s:s, s:s, s:i, s:b}, s:o}", "transform", filter(test), "mark",
                     "type", "rule", "color", RS_COLOUR_HIGHLIGHT, "strokeWidth", 2, "tooltip", 0,
                     "encoding", encoding);
}

/* A filled mark in each cell of which the expression is true. */
static json_t *cell_layers(const rs_drawing *d)
{
    const rs_heatmap *h = &d->plot->of.heatmap;
    const char *measure = h->measures[0].field;
    json_t *x = cell_axis(&d->x, h->x.field), *y = cell_axis(&d->y, h->y.field);
    json_t *colour = ramp_channel(&d->colour, measure, true);
    json_object_set_new(colour, "condition",
                        json_pack("{s:{s:s, s:b}, s:s}", "test", "field", measure, "valid", 0,
                                  "value", RS_COLOUR_NONE));
    json_t *layers = json_pack("[{s:{s:s, s:n}, s:{s:O, s:O, s:o, s:o}}]", "mark", "type", "rect",
                               "invalid", "encoding", "x", x, "y", y, "color", colour, "tooltip",
                               tooltip(h->keys, h->measures[0], (rs_figure_field){NULL, NULL}));
    json_array_append_new(
        layers, json_pack("{s:o, s:{s:s, s:b, s:s, s:s, s:f, s:i, s:b}, s:{s:O, s:O}}", "transform",
                          filter("datum.flag"), "mark", "type", "point", "filled", 1, "fill",
                          "#ffffff", "stroke", "#000000", "strokeWidth", 1.2, "size", 26, "tooltip",
                          0, "encoding", "x", x, "y", y));
    json_array_append_new(layers,
                          json_pack("{s:[{s:o}], s:{s:s, s:n, s:s, s:i, s:b, s:b}, s:{s:o, s:o}}",
                                    "transform", "filter", selected(h->keys), "mark", "type",
                                    "rect", "fill", "stroke", RS_COLOUR_HIGHLIGHT, "strokeWidth", 3,
                                    "clip", 0, "tooltip", 0, "encoding", "x", x, "y", y));
    if (d->bordered) {
        json_array_append_new(layers, edges(h, "datum.right", true));
        json_array_append_new(layers, edges(h, "datum.below", false));
    }
    return layers;
}

/* ---- edges ---- */

/* The places of a lattice, as dots: made by Vega, since there may be thousands. */
static json_t *lattice(const rs_drawing *d, const rs_edges *e)
{
    int32_t rows = e->n_y + 1;
    json_t *made =
        json_pack("[{s:o, s:s}, {s:o, s:s}]", "calculate",
                  json_sprintf("floor(datum.i / %d)", (int)rows), "as", e->x.field, "calculate",
                  json_sprintf("datum.i %% %d - 1", (int)rows), "as", e->y.field);
    return json_pack("{s:{s:{s:i, s:I, s:s}}, s:o, s:{s:s, s:b, s:i, s:s, s:i, s:b}, s:{s:o, s:o}}",
                     "data", "sequence", "start", 0, "stop", (json_int_t)rows * e->n_x, "as", "i",
                     "transform", made, "mark", "type", "point", "filled", 1, "size", 9, "color",
                     RS_COLOUR_CHANCE, "opacity", 1, "tooltip", 0, "encoding", "x",
                     on_axis(&d->x, e->x.field), "y", on_axis(&d->y, e->y.field));
}

#define POWER_WORDS                                                                                \
    "abs(datum.value) <= 3 ? format(pow(10, datum.value), '~g') : '1e' + datum.value"

/* The width of an edge; its legend has powers of ten, since a column of logarithms is drawn. */
static json_t *width_channel(const rs_drawing *d, const rs_edges *e)
{
    bool powers = d->colour.high - d->colour.low >= 2;
    const double range[] = {RS_EDGE_LEAST, rs_edges_most(e)};
    return json_pack("{s:s, s:s, s:s, s:{s:o, s:o, s:b, s:b, s:b}, s:{s:s, s:o, s:s, s:s, s:s}}",
                     "field", e->width.field, "type", "quantitative", "title", d->colour.title,
                     "scale", "domain", domain_of(&d->colour), "range", number_array(range, 2),
                     "clamp", 1, "nice", 0, "zero", 0, "legend", "format", ".2~g", "values",
                     number_array(d->colour.ticks, d->colour.n_ticks), "labelExpr",
                     powers ? POWER_WORDS : "format(pow(10, datum.value), '.2~g')", "symbolType",
                     "stroke", "symbolStrokeColor", RS_COLOUR_RULE);
}

/* Weak edges are faint, too, since many lie on each other: field `faint` has how much. */
static json_t *faint_channel(const rs_edges *e)
{
    json_t *channel = if_selected(e->keys, 1, 0.15, 1);
    json_object_del(channel, "value");
    json_t *field = json_pack("{s:s, s:s, s:n, s:n}", "field", "faint", "type", "quantitative",
                              "scale", "legend");
    json_object_update(channel, field);
    json_decref(field);
    return channel;
}

static json_t *edge_layers(const rs_drawing *d)
{
    const rs_edges *e = &d->plot->of.edges;
    json_t *encoding = json_pack(
        "{s:o, s:o, s:{s:s}, s:{s:s}, s:o, s:o, s:o, s:o}", "x", on_axis(&d->x, e->x.field), "y",
        on_axis(&d->y, e->y.field), "x2", "field", e->x2.field, "y2", "field", e->y2.field, "color",
        coloured(d, true), "strokeWidth", width_channel(d, e), "strokeOpacity", faint_channel(e),
        "tooltip", tooltip(e->keys, e->width, (rs_figure_field){NULL, NULL}));
    return json_pack("[o, {s:{s:s, s:s}, s:o}]", lattice(d, e), "mark", "type", "rule", "strokeCap",
                     "round", "encoding", encoding);
}

json_t *rs_figure_layers(const rs_drawing *d)
{
    return d->plot->kind == RS_PLOT_HEATMAP ? cell_layers(d)
           : d->plot->kind == RS_PLOT_LINES ? line_layers(d)
           : d->plot->kind == RS_PLOT_EDGES ? edge_layers(d)
                                            : point_layers(d);
}
