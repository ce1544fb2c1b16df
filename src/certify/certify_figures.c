/* certify_figures.c: the figures of `certify`. */
#include "certify/certify_parts.h"
#include "report/figures.h"

static rs_status add_figure(rs_result *result, const char *name, const char *title,
                            const char *about, const rs_lines *lines, rs_error *err)
{
    return rs_result_add_figure(result, name, title, about, rs_figure_lines(lines), err);
}

rs_status rs_certify_figures(rs_result *result, const rs_certified *c, rs_error *err)
{
    static const char *const keys[] = {"source_layer"};
    rs_lines lines = {.table = "chains",
                      .x = {"layer", "layer"},
                      .y = {"log10_certified", "log10 of the certified diameter"},
                      .colour = {"source_layer", "starts at layer"},
                      .x_whole = true,
                      .keys = {keys, 1}};
    if (c->network->n_layers == 0) return RS_OK;
    if (!c->options->beside)
        rs_result_show_curve(result, &(rs_curve){.table = "summary",
                                                 .title = "Diameter of the tokens",
                                                 .x = "layer",
                                                 .x_title = "layer",
                                                 .y = {{"at_most", "at most"},
                                                       {"measured", "measured"},
                                                       {"at_least", "at least"}}});
    return add_figure(
        result, "chains", "Measure until small, then certify",
        "Each line starts from the measured tokens that enter one layer and carries the "
        "proved bound of their diameter through the layers behind it (the worst sample). A "
        "line that bends down proves doubly exponential collapse; one that rises proves "
        "nothing.",
        &lines, err);
}
