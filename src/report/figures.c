/* figures.c: see figures.h. */
#include "report/figures.h"

#include <math.h>

rs_plot rs_figure_heatmap(const rs_heatmap *heatmap)
{
    return (rs_plot){.kind = RS_PLOT_HEATMAP, .of.heatmap = *heatmap};
}

rs_plot rs_figure_lines(const rs_lines *lines)
{
    return (rs_plot){.kind = RS_PLOT_LINES, .of.lines = *lines};
}

rs_plot rs_figure_scatter(const rs_scatter *scatter)
{
    return (rs_plot){.kind = RS_PLOT_SCATTER, .of.scatter = *scatter};
}

rs_plot rs_figure_edges(const rs_edges *edges)
{
    return (rs_plot){.kind = RS_PLOT_EDGES, .of.edges = *edges};
}

double rs_edges_most(const rs_edges *edges)
{
    const double widest = 6, narrowest = 1.6, together = 36;
    return fmin(widest, fmax(narrowest, together / (edges->n_y + 1)));
}

rs_plot rs_figure_spectrum_curves(const char *table, rs_figure_names facets, rs_figure_names keys,
                                  rs_figure_field colour)
{
    return rs_figure_lines(&(rs_lines){.table = table,
                                       .x = {"index", "index i"},
                                       .y = {"sigma_normalised", "singular value, share of the "
                                                                 "largest"},
                                       .low = {"null_low", NULL},
                                       .high = {"null_high", NULL},
                                       .band_label = "chance, 5 to 95 %",
                                       .colour = colour,
                                       .facets = facets,
                                       .keys = keys,
                                       .log_y = true,
                                       .y_floor = 1e-6,
                                       .small = true});
}

const char *rs_plot_table(const rs_plot *plot)
{
    return plot->kind == RS_PLOT_HEATMAP ? plot->of.heatmap.table
           : plot->kind == RS_PLOT_LINES ? plot->of.lines.table
           : plot->kind == RS_PLOT_EDGES ? plot->of.edges.table
                                         : plot->of.scatter.table;
}

rs_figure_names rs_plot_facets(const rs_plot *plot)
{
    return plot->kind == RS_PLOT_HEATMAP ? plot->of.heatmap.facets
           : plot->kind == RS_PLOT_LINES ? plot->of.lines.facets
           : plot->kind == RS_PLOT_EDGES ? (rs_figure_names){NULL, 0}
                                         : plot->of.scatter.facets;
}

rs_figure_names rs_plot_keys(const rs_plot *plot)
{
    return plot->kind == RS_PLOT_HEATMAP ? plot->of.heatmap.keys
           : plot->kind == RS_PLOT_LINES ? plot->of.lines.keys
           : plot->kind == RS_PLOT_EDGES ? plot->of.edges.keys
                                         : plot->of.scatter.keys;
}
