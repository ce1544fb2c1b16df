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
    rs_lines lines = {.table = c->options->beside ? "certificate" : "summary",
                      .x = {"layer", "layer"},
                      .y = {"measured", "token diameter"},
                      .low = {"at_least", NULL},
                      .high = {"at_most", NULL},
                      .x_whole = true,
                      .log_y = true};
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
        result, "bounds", "How far apart the tokens are, and must be",
        "Token diameter behind each layer. The line is what was measured, the largest "
        "over the samples; the band reaches from what is proved to be left at least "
        "to what is proved at most, and is missing where nothing is proved.",
        &lines, err);
}
