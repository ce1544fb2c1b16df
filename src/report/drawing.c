/* drawing.c: rows into marks: see drawing.h. */
#include "report/drawing.h"

#include "report/findings.h"
#include "report/number.h"

#include <math.h>
#include <string.h>

/* More curves than that cannot be told from each other; an even choice is drawn. Of panels the
 * first are. */
enum { MOST_CURVES = 8, MOST_PANELS = 128 };
/* A bound from above that is above all other curves by this factor tells nothing of them. */
#define FAR_ABOVE 100.0

double rs_cell_number(const rs_table *table, size_t row, int column)
{
    if (column < 0) return NAN;
    size_t c = (size_t)column;
    switch (rs_table_column(table, c)->type) {
    case RS_COLUMN_REAL:
        return rs_table_real(table, row, c);
    case RS_COLUMN_INT:
    case RS_COLUMN_BOOL: {
        int64_t value = rs_table_int(table, row, c);
        return value == RS_NULL_INT ? (double)NAN : (double)value;
    }
    case RS_COLUMN_TEXT:
    case RS_COLUMN_VECTOR:
        break;
    }
    return NAN;
}

/* ---- words ---- */

static int column_of(const rs_drawing *d, const char *name)
{
    return name ? rs_table_find_column(d->table, name) : -1;
}

static bool is_text(const rs_drawing *d, int column)
{
    return rs_table_column(d->table, (size_t)column)->type == RS_COLUMN_TEXT;
}

/* Whether the cells of a column are all the same: it tells no panel from another. */
static bool is_constant(const rs_drawing *d, int column)
{
    for (size_t row = 1; row < rs_table_rows(d->table); row++) {
        if (is_text(d, column)) {
            const char *a = rs_table_text(d->table, 0, (size_t)column);
            const char *b = rs_table_text(d->table, row, (size_t)column);
            if (a != b && (!a || !b || strcmp(a, b) != 0)) return false;
        } else {
            double a = rs_cell_number(d->table, 0, column), b;
            b = rs_cell_number(d->table, row, column);
            if (a != b && !(isnan(a) && isnan(b))) return false;
        }
    }
    return true;
}

/* "qk", "layer 3". */
static void put_word(rs_buffer *out, const rs_drawing *d, size_t row, int column, const char *title)
{
    const char *between = out->length ? ", " : "";
    char digits[RS_NUMBER_SIZE];
    if (is_text(d, column)) {
        const char *text = rs_table_text(d->table, row, (size_t)column);
        rs_buffer_puts(out, text ? between : "");
        rs_buffer_puts(out, text ? text : "");
        return;
    }
    double number = rs_cell_number(d->table, row, column);
    if (isnan(number)) return;
    if (fabs(number) < 1e6 && number == trunc(number))
        rs_integer_format(digits, (int64_t)number); /* layers and heads: what brief gives too */
    else
        rs_number_brief(digits, number, 6);
    rs_buffer_puts(out, between);
    rs_buffer_puts(out, title);
    rs_buffer_puts(out, " ");
    rs_buffer_puts(out, digits);
}

/* The place of a text in a list that grows; SIZE_MAX: no memory. */
static size_t place_of(rs_drawing *d, rs_strmap *map, const char ***list, size_t *n, size_t *room,
                       const char *text)
{
    size_t length = strlen(text);
    int64_t found = rs_strmap_get(map, text, length, -1);
    if (found >= 0) return (size_t)found;
    const char *copy = rs_arena_strdup(d->arena, text);
    bool existed;
    if (!copy || !RS_GROW(*list, *n, *room) ||
        !rs_strmap_insert(map, copy, length, (int64_t)*n, &existed))
        return SIZE_MAX;
    (*list)[*n] = copy;
    return (*n)++;
}

/* ---- what rows are told apart by ---- */

enum { MOST_FACETS = 4, MOST_COLUMNS = 1 + RS_MOST_CURVES };

typedef struct sorter {
    rs_drawing *d;
    int facets[MOST_FACETS];
    const char *facet_names[MOST_FACETS];
    size_t n_facets;
    int colour, origin, x, x2, y2, low, high, value;
    const char *colour_title;
    int y[MOST_COLUMNS];
    rs_figure_curve y_of[MOST_COLUMNS];
    size_t n_y;
    rs_strmap panel_map, curve_map;
    const char **names; /* [n_names] of curves */
    struct {
        bool published, dots;
    } * kinds; /* [n_names] */
    size_t n_names, names_room, kinds_room, panels_room, marks_room;
    rs_buffer text;
} sorter;

static void find_facets(sorter *s)
{
    rs_figure_names facets = rs_plot_facets(s->d->plot);
    for (size_t i = 0; i < facets.n && s->n_facets < MOST_FACETS; i++) {
        int column = column_of(s->d, facets.names[i]);
        if (column < 0 || is_constant(s->d, column)) continue;
        s->facet_names[s->n_facets] = facets.names[i];
        s->facets[s->n_facets++] = column;
    }
}

static void find_lines(sorter *s, const rs_lines *l)
{
    s->x = column_of(s->d, l->x.field);
    s->low = column_of(s->d, l->low.field);
    s->high = column_of(s->d, l->high.field);
    s->colour = column_of(s->d, l->colour.field);
    s->colour_title = l->colour.title ? l->colour.title : l->colour.field;
    s->origin = column_of(s->d, l->origin);
    s->y_of[0] = (rs_figure_curve){.field = l->y.field, .title = l->first};
    s->n_y = 1;
    for (size_t i = 0; i < RS_MOST_CURVES; i++)
        if (column_of(s->d, l->more[i].field) >= 0) s->y_of[s->n_y++] = l->more[i];
    for (size_t i = 0; i < s->n_y; i++)
        s->y[i] = column_of(s->d, s->y_of[i].field);
}

static void find_edges(sorter *s, const rs_edges *e)
{
    s->x = column_of(s->d, e->x.field);
    s->y[0] = column_of(s->d, e->y.field);
    s->n_y = 1;
    s->x2 = column_of(s->d, e->x2.field);
    s->y2 = column_of(s->d, e->y2.field);
    s->value = column_of(s->d, e->width.field);
    s->colour = column_of(s->d, e->colour.field);
}

static void find_columns(sorter *s)
{
    const rs_plot *plot = s->d->plot;
    s->colour = s->origin = s->low = s->high = s->value = s->x2 = s->y2 = -1;
    find_facets(s);
    if (plot->kind == RS_PLOT_LINES) {
        find_lines(s, &plot->of.lines);
        return;
    }
    if (plot->kind == RS_PLOT_EDGES) {
        find_edges(s, &plot->of.edges);
        return;
    }
    bool cells = plot->kind == RS_PLOT_HEATMAP;
    const rs_heatmap *h = &plot->of.heatmap;
    const rs_scatter *p = &plot->of.scatter;
    s->x = column_of(s->d, cells ? h->x.field : p->x.field);
    s->y[0] = column_of(s->d, cells ? h->y.field : p->y.field);
    s->n_y = 1;
    s->value = column_of(s->d, cells ? h->measures[0].field : p->colour.field);
    if (cells) return;
    s->low = column_of(s->d, p->low.field);
    s->high = column_of(s->d, p->high.field);
}

static size_t panel_of(sorter *s, size_t row)
{
    s->text.length = 0;
    rs_buffer_append(&s->text, "", 0);
    for (size_t i = 0; i < s->n_facets; i++)
        put_word(&s->text, s->d, row, s->facets[i], s->facet_names[i]);
    if (s->text.failed) return SIZE_MAX;
    return place_of(s->d, &s->panel_map, &s->d->panels, &s->d->n_panels, &s->panels_room,
                    s->text.length ? s->text.data : "");
}

static size_t curve_of(sorter *s, size_t row, size_t which)
{
    const rs_figure_curve *of = &s->y_of[which];
    s->text.length = 0;
    if (s->colour >= 0) put_word(&s->text, s->d, row, s->colour, s->colour_title);
    if (of->title) rs_buffer_printf(&s->text, "%s%s", s->text.length ? ", " : "", of->title);
    if (s->text.failed) return SIZE_MAX;
    size_t before = s->n_names;
    size_t place = place_of(s->d, &s->curve_map, &s->names, &s->n_names, &s->names_room,
                            s->text.length ? s->text.data : "");
    if (place == SIZE_MAX || place < before) return place;
    if (!RS_GROW(s->kinds, place, s->kinds_room)) return SIZE_MAX;
    const char *origin = s->origin >= 0 ? rs_table_text(s->d->table, row, (size_t)s->origin) : NULL;
    s->kinds[place].published = of->published || (origin && strcmp(origin, "published") == 0);
    s->kinds[place].dots = of->dots;
    return place;
}

/* ---- marks ---- */

/* Whether the row can stand on the axes. */
static bool is_drawn(const rs_plot *plot, double x, double y)
{
    bool cells = plot->kind == RS_PLOT_HEATMAP, lines = plot->kind == RS_PLOT_LINES;
    if (!isfinite(x) || !isfinite(y)) return false;
    if (cells || plot->kind == RS_PLOT_EDGES) return true;
    bool log_x = lines ? plot->of.lines.log_x : plot->of.scatter.log_x;
    bool log_y = lines ? plot->of.lines.log_y : plot->of.scatter.log_y;
    double floor = lines ? plot->of.lines.y_floor : 0;
    return !(log_x && !(x > 0)) && !(log_y && !(y > floor));
}

/* Puts the ends of an edge that are null before the first place; false: it has no width. */
static bool place_edge(rs_mark *m)
{
    double *ends[] = {&m->x, &m->y, &m->x2, &m->y2};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (isnan(*ends[i])) *ends[i] = -1;
    return isfinite(m->value);
}

static rs_status add_mark(sorter *s, size_t row, size_t which, rs_error *err)
{
    rs_drawing *d = s->d;
    rs_mark mark = {.row = row,
                    .x = rs_cell_number(d->table, row, s->x),
                    .y = rs_cell_number(d->table, row, s->y[which]),
                    .x2 = rs_cell_number(d->table, row, s->x2),
                    .y2 = rs_cell_number(d->table, row, s->y2),
                    .low = which ? (double)NAN : rs_cell_number(d->table, row, s->low),
                    .high = which ? (double)NAN : rs_cell_number(d->table, row, s->high),
                    .value = rs_cell_number(d->table, row, s->value),
                    .upper = s->y_of[which].upper};
    if (d->plot->kind == RS_PLOT_EDGES && !place_edge(&mark)) return RS_OK;
    if (!is_drawn(d->plot, mark.x, mark.y)) return RS_OK;
    if (rs_cell_number(d->table, row, column_of(d, s->y_of[which].unless)) > 0) return RS_OK;
    if (s->y_of[which].dots && !(mark.y > 0)) return RS_OK;
    if ((mark.panel = panel_of(s, row)) >= MOST_PANELS && mark.panel != SIZE_MAX) return RS_OK;
    mark.curve = curve_of(s, row, which);
    if (mark.panel == SIZE_MAX || mark.curve == SIZE_MAX ||
        !RS_GROW(d->marks, d->n_marks, s->marks_room))
        return rs_fail_memory(err, d->name, 0);
    d->marks[d->n_marks++] = mark;
    return RS_OK;
}

/* Gives each curve its look: a published one, or dots beside a line, that of the curve before it,
 * lighter; a published one behind another is about no curve, and has one of its own. */
static void give_looks(rs_drawing *d)
{
    bool taken[RS_LOOKS] = {false};
    for (size_t i = 0; i < d->n_curves; i++) {
        int look = -1;
        bool twin = d->curves[i].published || d->curves[i].dots;
        if (i > 0 && d->curves[i].published && d->curves[i - 1].published) twin = false;
        if (twin && i > 0 && !taken[d->curves[i - 1].look ^ 1]) look = d->curves[i - 1].look ^ 1;
        for (int k = 0; look < 0 && k < RS_LOOKS; k++)
            if (!taken[rs_look_order[k]]) look = rs_look_order[k];
        if (look < 0) look = 0;
        taken[look] = true;
        d->curves[i].look = look;
    }
}

/* Keeps an even choice of the curves, and their marks. */
static rs_status choose_curves(sorter *s, rs_error *err)
{
    rs_drawing *d = s->d;
    size_t all = s->n_names, most = s->n_y > 1 || s->origin >= 0 ? RS_LOOKS : MOST_CURVES;
    size_t n = all < most ? all : most, *place = rs_malloc(all ? all : 1, sizeof *place);
    d->curves = rs_calloc(n ? n : 1, sizeof *d->curves);
    if (!place || !d->curves) {
        rs_free(place);
        return rs_fail_memory(err, d->name, 0);
    }
    for (size_t i = 0; i < all; i++)
        place[i] = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t from = n > 1 ? i * (all - 1) / (n - 1) : 0;
        place[from] = i;
        d->curves[i] =
            (rs_drawn_curve){s->names[from], 0, s->kinds[from].published, s->kinds[from].dots};
    }
    size_t kept = 0;
    for (size_t i = 0; i < d->n_marks; i++) {
        if (place[d->marks[i].curve] == SIZE_MAX) continue;
        d->marks[kept] = d->marks[i];
        d->marks[kept++].curve = place[d->marks[i].curve];
    }
    d->n_marks = kept;
    d->n_curves = n;
    d->curves_left_out = all - n;
    rs_free(place);
    give_looks(d);
    return RS_OK;
}

/* Leaves out what a bound from above says nothing with, and would stretch the axis for. */
static void leave_out_vacuous(rs_drawing *d, const sorter *s)
{
    size_t kept = 0;
    double highest = 0;
    for (size_t i = 0; i < d->n_marks; i++)
        if (!d->marks[i].upper) highest = fmax(highest, d->marks[i].y);
    for (size_t i = 0; i < d->n_marks; i++) {
        const rs_mark *m = &d->marks[i];
        bool vacuous = m->upper && highest > 0 && m->y > FAR_ABOVE * highest;
        if (vacuous) d->vacuous = s->names[m->curve];
        if (!vacuous) d->marks[kept++] = *m;
    }
    d->points_left_out = d->n_marks - kept;
    d->n_marks = kept;
}

static rs_status sort_rows(sorter *s, rs_error *err)
{
    find_columns(s);
    for (size_t row = 0; row < rs_table_rows(s->d->table); row++)
        for (size_t which = 0; which < s->n_y; which++)
            RS_TRY(add_mark(s, row, which, err));
    leave_out_vacuous(s->d, s);
    return choose_curves(s, err);
}

/* ---- cells that findings are about ---- */

static bool same_cell(const rs_drawing *d, size_t row, const rs_finding *f)
{
    static const char *const names[] = {"layer", "head"};
    const int64_t numbers[] = {f->layer, f->head};
    const char *const texts[][2] = {{"product", f->product},
                                    {"stack", f->stack},
                                    {"attention", f->attention},
                                    {"variant", f->variant}};
    for (size_t i = 0; i < 2; i++) {
        int column = column_of(d, names[i]);
        if (column < 0 || rs_cell_number(d->table, row, column) != (double)numbers[i]) return false;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int column = texts[i][1] ? column_of(d, texts[i][0]) : -1;
        const char *text = column < 0 ? NULL : rs_table_text(d->table, row, (size_t)column);
        if (text && strcmp(text, texts[i][1]) != 0) return false;
    }
    return true;
}

static void flag(rs_drawing *d, const rs_finding *f)
{
    if (f->layer == RS_NULL_INT || f->head == RS_NULL_INT || rs_finding_is_housekeeping(f)) return;
    if (f->table && strcmp(f->table, rs_table_name(d->table)) != 0) return;
    for (size_t i = 0; i < d->n_marks; i++)
        if (!d->marks[i].flagged) d->marks[i].flagged = same_cell(d, d->marks[i].row, f);
}

static const char *text_in(const rs_table *table, size_t row, const char *name)
{
    int column = rs_table_find_column(table, name);
    return column < 0 || rs_table_column(table, (size_t)column)->type != RS_COLUMN_TEXT
               ? NULL
               : rs_table_text(table, row, (size_t)column);
}

static int64_t whole_in(const rs_table *table, size_t row, const char *name)
{
    double number = rs_cell_number(table, row, rs_table_find_column(table, name));
    return isnan(number) ? RS_NULL_INT : (int64_t)number;
}

/* Table findings has every case; where there is none, the findings themselves are the cases. */
static void flag_cells(rs_drawing *d, const rs_result *result)
{
    const rs_table *cases = rs_result_table(result, "findings");
    if (d->plot->kind != RS_PLOT_HEATMAP || column_of(d, "head") < 0) return;
    for (size_t i = 0; cases && i < rs_table_rows(cases); i++) {
        const char *code = text_in(cases, i, "code");
        const rs_finding f = {.code = code,
                              .layer = whole_in(cases, i, "layer"),
                              .head = whole_in(cases, i, "head"),
                              .table = text_in(cases, i, "table"),
                              .product = text_in(cases, i, "product"),
                              .stack = text_in(cases, i, "stack"),
                              .attention = text_in(cases, i, "attention"),
                              .variant = text_in(cases, i, "variant")};
        flag(d, &f);
    }
    for (size_t i = 0; !cases && i < rs_result_finding_count(result); i++)
        flag(d, rs_result_finding_at(result, i));
}

/* ---- borders between cells ---- */

/* The marks of a panel by their places, [n_x, n_y]; NULL where there is no cell. */
typedef struct places {
    rs_mark **at;
    double x, y; /* of the first */
    size_t n_x, n_y;
} places;

static rs_mark **cell_at(const places *p, double x, double y)
{
    double column = x - p->x, row = y - p->y;
    if (!(column >= 0 && row >= 0 && column < (double)p->n_x && row < (double)p->n_y)) return NULL;
    return &p->at[(size_t)column * p->n_y + (size_t)row];
}

static bool differs(const rs_drawing *d, const rs_mark *a, rs_mark *const *b, const char *column)
{
    const char *own = text_in(d->table, a->row, column);
    const char *other = b && *b ? text_in(d->table, (*b)->row, column) : NULL;
    return own && other && strcmp(own, other) != 0;
}

static void part_cells(rs_drawing *d, const places *p, size_t panel, const char *column)
{
    for (size_t i = 0; i < p->n_x * p->n_y; i++)
        p->at[i] = NULL;
    for (size_t i = 0; i < d->n_marks; i++) {
        rs_mark **at = cell_at(p, d->marks[i].x, d->marks[i].y);
        if (d->marks[i].panel == panel && at) *at = &d->marks[i];
    }
    for (size_t i = 0; i < d->n_marks; i++) {
        rs_mark *m = &d->marks[i];
        if (m->panel != panel) continue;
        m->right = differs(d, m, cell_at(p, m->x + 1, m->y), column);
        m->below = differs(d, m, cell_at(p, m->x, m->y + 1), column);
        d->bordered |= m->right || m->below;
    }
}

static rs_status find_borders(rs_drawing *d, rs_error *err)
{
    const rs_heatmap *h = &d->plot->of.heatmap;
    if (d->plot->kind != RS_PLOT_HEATMAP || !h->border || d->n_marks == 0) return RS_OK;
    double high_x = d->marks[0].x, high_y = d->marks[0].y;
    places p = {.x = high_x, .y = high_y};
    for (size_t i = 1; i < d->n_marks; i++) {
        p.x = fmin(p.x, d->marks[i].x), high_x = fmax(high_x, d->marks[i].x);
        p.y = fmin(p.y, d->marks[i].y), high_y = fmax(high_y, d->marks[i].y);
    }
    p.n_x = (size_t)(high_x - p.x) + 1;
    p.n_y = (size_t)(high_y - p.y) + 1;
    p.at = rs_malloc(p.n_x * p.n_y, sizeof *p.at);
    if (!p.at) return rs_fail_memory(err, d->name, p.n_x * p.n_y * sizeof *p.at);
    for (size_t k = 0; k < d->n_panels; k++)
        part_cells(d, &p, k, h->border);
    rs_free(p.at);
    return RS_OK;
}

/* ---- the whole ---- */

static void give_sizes(rs_drawing *d)
{
    const rs_plot *plot = d->plot;
    d->width = 420, d->height = 300, d->columns = 2;
    if (plot->kind == RS_PLOT_LINES) {
        bool small = plot->of.lines.small && d->n_panels > 4;
        if (d->n_panels <= 1) d->width = 760, d->columns = 1;
        if (small) d->width = 132, d->height = 104, d->columns = 6;
        d->labels = !small && d->n_curves > 1;
        d->legend = small && d->n_curves > 1;
    } else if (plot->kind == RS_PLOT_SCATTER) {
        d->height = 360;
        if (d->n_panels <= 1) d->width = 640, d->columns = 1;
    } else if (plot->kind == RS_PLOT_EDGES) {
        d->width = 760, d->columns = 1;
        d->height = fmin(fmax(22.0 * (plot->of.edges.n_y + 1), 120), 420);
        d->legend = true;
    } else {
        enum { WIDEST = 760, WIDEST_CELL = 30, TALLEST = 420, TALLEST_CELL = 26 };
        const rs_heatmap *h = &plot->of.heatmap;
        double n_x = h->n_x ? (double)h->n_x : 1, n_y = h->n_y ? (double)h->n_y : 1;
        d->width = floor(n_x * fmin(WIDEST / n_x, WIDEST_CELL));
        d->height = floor(n_y * fmax(fmin(TALLEST / n_y, TALLEST_CELL), 5));
        d->columns = (size_t)fmin(fmax(floor(960 / (d->width + 60)), 1), 3);
    }
    if (d->columns > d->n_panels && d->n_panels > 0) d->columns = d->n_panels;
}

static rs_status make(rs_drawing *d, const rs_result *result, rs_error *err)
{
    sorter s = {.d = d};
    rs_status status = d->arena ? sort_rows(&s, err) : rs_fail_memory(err, d->name, 0);
    rs_strmap_free(&s.panel_map);
    rs_strmap_free(&s.curve_map);
    rs_buffer_free(&s.text);
    rs_free(s.names);
    rs_free(s.kinds);
    RS_TRY(status);
    d->panels_left_out = d->n_panels > MOST_PANELS ? d->n_panels - MOST_PANELS : 0;
    d->n_panels -= d->panels_left_out;
    flag_cells(d, result);
    RS_TRY(find_borders(d, err));
    give_sizes(d);
    rs_drawing_scales(d);
    return rs_drawing_labels(d, err);
}

rs_status rs_drawing_make(rs_drawing *out, const rs_result *result, size_t figure, rs_error *err)
{
    const rs_plot *plot = rs_result_figure_plot(result, figure);
    *out = (rs_drawing){.plot = plot,
                        .table = rs_result_table(result, rs_plot_table(plot)),
                        .name = rs_result_figure_name(result, figure),
                        .title = rs_result_figure_title(result, figure),
                        .about = rs_result_figure_about(result, figure)};
    if (!out->table)
        return rs_fail(err, RS_E_INTERNAL, out->name, "please report this",
                       "the figure's table '%s' is not there", rs_plot_table(plot));
    out->arena = rs_arena_new();
    rs_status status = make(out, result, err);
    if (status != RS_OK) rs_drawing_free(out);
    return status;
}

void rs_drawing_free(rs_drawing *drawing)
{
    rs_arena_free(drawing->arena);
    rs_free((void *)drawing->panels);
    rs_free(drawing->curves);
    rs_free(drawing->marks);
    *drawing = (rs_drawing){0};
}
