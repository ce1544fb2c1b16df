/* certify_figures.c: the figures of `certify`. */
#include "certify/certify_parts.h"
#include "report/figures.h"

rs_status rs_certify_figures(rs_result *result, const rs_certified *c, rs_error *err)
{
    bool fast = !c->options->rigorous;
    const rs_lines lines = {
        .table = c->options->beside ? "certificate" : "summary",
        .x = {"layer", "behind layer"},
        .y = {"measured", "largest distance of two tokens"},
        .first = "measured",
        .more = {{.field = "at_most",
                  .title = fast ? "at most (--fast)" : "proved: at most",
                  .upper = true},
                 {.field = "at_least", .title = fast ? "at least (--fast)" : "proved: at least"}},
        .x_whole = true,
        .log_y = true};
    if (c->network->n_layers == 0) return RS_OK;
    if (!c->options->beside)
        rs_result_show_curve(result, &(rs_curve){.table = "summary",
                                                 .title = "Diameter of the tokens",
                                                 .x = "layer",
                                                 .x_title = "layer",
                                                 .y = {{"at_most", "at most", true},
                                                       {"measured", "measured", false},
                                                       {"at_least", "at least", false}}});
    return rs_result_add_figure(result, "bounds", "Measured, at least, at most",
                                fast ? "The largest distance between two tokens behind each layer. "
                                       "Between the bounds of --fast "
                                       "lies the truth where their conditions hold (columns "
                                       "..._conditional of table bounds)."
                                     : "The largest distance between two tokens behind each layer: "
                                       "the largest that was measured "
                                       "over the samples, and what is proved of every sample's at "
                                       "least and at most. A line is "
                                       "missing where nothing is proved; where the two lie apart, "
                                       "what is proved says little.",
                                rs_figure_lines(&lines), err);
}
