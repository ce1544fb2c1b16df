/* probe_centre.c: where the search for an LP centre stopped before its bounds met. */
#include "probe/probe_parts.h"

#include <stdio.h>

rs_status rs_probe_centre(rs_result *result, const rs_probed *v, rs_error *err)
{
    const rs_token_row *worst = NULL;
    int64_t samples = 0, rows = 0;
    char message[600], place[RS_PROBE_PLACE];
    for (size_t i = 0; i < v->measured->n_tokens; i++) {
        const rs_token_row *row = &v->measured->tokens[i];
        if (row->open_centres == 0) continue;
        samples += row->open_centres;
        rows++;
        if (!worst || row->open_gap > worst->open_gap) worst = row;
    }
    if (!worst) return RS_OK;
    snprintf(
        message, sizeof message,
        "%s: the search for the smallest l1 ball stopped early for %lld token %s in %lld %s of "
        "table tokens; worst %s, sample %lld: the ball used there is at most "
        "%.2g %% larger than the smallest, and the numbers are of its centre",
        v->name, (long long)samples, samples == 1 ? "matrix" : "matrices", (long long)rows,
        rows == 1 ? "row" : "rows", rs_probe_place(place, worst), (long long)worst->open_sample,
        100 * worst->open_gap / (1 - worst->open_gap));
    rs_finding f = rs_finding_of(RS_WARN, "lp_centre_open");
    f.variant = v->name;
    f.layer = worst->layer > 0 ? worst->layer - 1 : RS_NULL_INT;
    f.value = worst->open_gap;
    f.message = message;
    f.hint = "--residual-centre mean or median needs no search";
    f.table = "tokens";
    return rs_result_add_finding(result, &f, err);
}
