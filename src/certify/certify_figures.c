/* certify_figures.c: the figures of `certify`. */
#include "certify/certify_parts.h"
#include "report/figures.h"

static rs_status add_figure(rs_result *result, const char *name, const char *title,
                            const char *about, const rs_lines *lines, rs_error *err)
{
    return rs_result_add_figure(result, name, title, about, rs_figure_lines(lines), err);
}

/* One panel a sample: what is proved on both sides of what was measured. */
static rs_status diameters(rs_result *result, rs_error *err)
{
    static const char *const facets[] = {"sample"}, *const keys[] = {"sample", "layer"};
    rs_lines lines = {
        .table = "bounds",
        .x = {"layer", "behind layer"},
        .y = {"log10_measured", "log10 of the largest distance of two tokens"},
        .first = "measured",
        .more = {{"log10_certified", "proved: at most", false, "certified_diameter_conditional"},
                 {"log10_certified_at_least", "proved: at least", false,
                  "certified_at_least_conditional"}},
        .x_whole = true,
        .small = true,
        .facets = {facets, 1},
        .keys = {keys, 2}};
    return add_figure(
        result, "diameters", "Measured, at least, at most, sample by sample",
        "The largest distance between two tokens behind each layer, from the measured "
        "tokens that enter it: as measured, and the bounds that are proved for it. "
        "Where the two bounds lie apart, what is proved says little.",
        &lines, err);
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
    RS_TRY(
        add_figure(result, "bounds", "How far apart the tokens are, and must be",
                   "Token diameter behind each layer. The line is what was measured, the largest "
                   "over the samples; the band reaches from what is proved to be left at least "
                   "to what is proved at most, and is missing where nothing is proved.",
                   &lines, err));
    return diameters(result, err);
}
