/* probe_centre.c: what a reader of residuals should know of their centre: where the search for an LP
 * centre stopped before its bounds met, and what collapse means on a graph. */
#include "probe/probe_parts.h"

#include "linalg/vector.h"
#include "network/graph.h"

#include <math.h>

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

/* Entries of u that differ by rounding alone are the mean's. */
static const double equal_entries = 1e-12;

/* The relative residual, about the mean, of tokens that are all multiples of u. */
static double left_by_mean(const double *u, int64_t n)
{
    double mean = rs_sum(u, n) / (double)n, apart = 0;
    for (int64_t i = 0; i < n; i++)
        apart += (u[i] - mean) * (u[i] - mean);
    return sqrt(apart / rs_dot(u, u, n));
}

rs_status rs_probe_graph(rs_result *result, const rs_probed *v, rs_centre centre, rs_error *err)
{
    const char *why;
    int64_t nodes;
    char message[400];
    const double *u = rs_network_right_vector(v->network, &nodes, &why);
    double left = u ? left_by_mean(u, nodes) : 0;
    if (left < equal_entries) return RS_OK;
    bool own = centre == RS_CENTRE_GRAPH;
    if (own)
        snprintf(message, sizeof message,
                 "%s: residuals are distances from multiples of the graph's right vector u, X - u "
                 "u'X/|u|^2: where this says that tokens are equal, read that each is its node's "
                 "multiple of one token",
                 v->name);
    else
        snprintf(message, sizeof message,
                 "%s: on this graph tokens collapse to multiples of its right vector, the root of "
                 "the degrees, not to equal tokens; these are still %.3g of their norm away from "
                 "their mean, so a relative residual of that size can be a complete collapse",
                 v->name, left);
    rs_finding f = rs_finding_of(own ? RS_INFO : RS_WARN, "graph_centre");
    f.variant = v->name;
    f.value = left;
    f.message = message;
    f.hint = own ? NULL : "--residual-centre graph measures the distance from them";
    f.table = "tokens";
    return rs_result_add_finding(result, &f, err);
}
