/*
 * paths_lattice.c: the strongest single paths, and the lattice of layers and heads that they run
 * through.
 *
 * All paths of one head are measured, and of those that were drawn the strongest are shown. A path's
 * strength is the Frobenius norm of what it adds to the output, mean over the samples. Between two
 * attentions a path stays in the lane of the head or the skip that it took: its edges are from the
 * lane that it took at one attention to that at the next, from the skip's at the embedding to the
 * skip's behind the last layer. An edge of the figure has the strength of the strongest path of its
 * kind that runs along it, and the number of those that do.
 */
#include "paths/paths_parts.h"
#include "report/figures.h"

#include "base/memory.h"
#include "observe/pass.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRONGEST = 40,  /* of the drawn paths */
    MOST_ONES = 4096 /* paths of one head; of more the drawn ones have to do */
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- measuring ---- */

bool rs_paths_take_ones(double ones, double state, const rs_context *context)
{
    return ones <= MOST_ONES && ones * state <= (double)rs_weight_limit(context) / 8;
}

rs_status rs_paths_prepare_lattice(rs_paths_run *run, rs_error *err)
{
    const rs_path_plan *plan = run->plan;
    int64_t ones = plan->longest >= 1 ? plan->count[1] : 0;
    double state = (double)run->inputs->longest * (double)run->network->d_model * sizeof(double);
    if (ones != RS_NULL_INT && rs_paths_take_ones((double)ones, state, run->context))
        RS_TRY(rs_path_set_add_single(run->set, plan, err));
    run->strengths = rs_calloc(run->set->total, sizeof *run->strengths);
    return run->strengths ? RS_OK : rs_fail_memory(err, "strengths of paths", run->set->total);
}

static double norm_of(const double *a, int64_t count)
{
    double scale = rs_path_scale(a, count);
    return sqrt(rs_path_dot(a, a, count, scale)) / scale;
}

void rs_paths_add_strengths(rs_paths_run *run, const rs_path_sums *sums)
{
    int64_t count = sums->n * sums->d, paths = (int64_t)run->set->total;
    double whole = norm_of(sums->output, count);
#pragma omp parallel for num_threads(run->context->threads) schedule(dynamic)
    for (int64_t i = 0; i < paths; i++) {
        double fro = norm_of(sums->path_state + i * count, count);
        run->strengths[i].fro += fro;
        run->strengths[i].relative += fro / whole;
    }
}

/* ---- the paths that are shown ---- */

/* A path among those of the set. */
typedef struct shown_path {
    size_t at;
    int32_t length;
    double fro; /* summed over samples */
} shown_path;

/* The strongest first; of equal ones the shorter, then the one that was drawn first. */
static int by_strength(const void *a, const void *b)
{
    const shown_path *x = a, *y = b;
    if (x->fro != y->fro) return x->fro < y->fro ? 1 : -1;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static const int32_t *choice_of(const rs_paths_run *run, size_t at)
{
    return run->set->choice + at * (size_t)run->plan->n_hops;
}

/* A path that was drawn twice has the same strength, so that its copies stand side by side. */
static bool is_copy(const rs_paths_run *run, const shown_path *kept, size_t n, const shown_path *p)
{
    size_t bytes = (size_t)run->plan->n_hops * sizeof(int32_t);
    for (size_t i = n; i-- > 0 && kept[i].fro == p->fro;)
        if (memcmp(choice_of(run, kept[i].at), choice_of(run, p->at), bytes) == 0) return true;
    return false;
}

static shown_path path_at(const rs_paths_run *run, size_t at)
{
    bool drawn = at < run->set->n;
    return (shown_path){at, drawn ? run->set->length[at] : 1, run->strengths[at].fro};
}

/* All of one head, and the strongest of the others, by strength; returns how many. */
static size_t choose(shown_path *out, const rs_paths_run *run)
{
    const rs_path_set *set = run->set;
    bool all_ones = run->plan->longest >= 1 && (set->total > set->n || set->exhaustive[1]);
    size_t n = 0, m = 0, kept = 0;
    for (size_t i = 0; i < set->total; i++) {
        shown_path p = path_at(run, i);
        bool twice = p.length == 1 && i < set->n && set->total > set->n;
        if (!twice) out[n++] = p;
    }
    qsort(out, n, sizeof *out, by_strength);
    for (size_t i = 0; i < n; i++) {
        bool one = all_ones && out[i].length == 1;
        if ((!one && m == STRONGEST) || is_copy(run, out, kept, &out[i])) continue;
        m += !one;
        out[kept++] = out[i];
    }
    return kept;
}

/* ---- table strongest_paths ---- */

/* A row of it. */
typedef struct strong_cells {
    int64_t path;
    int32_t length;
    const char *route;
    double fro, log_fro, relative;
    int64_t samples;
} strong_cells;

static const rs_column strong_columns[] = {
    RS_COLUMN(strong_cells, path, "path", "path", NULL, "0 is the strongest", NULL),
    RS_COLUMN(strong_cells, length, "length", "length", "heads", NULL, NULL),
    RS_COLUMN(strong_cells, route, "route", "route", NULL,
              "layer:head of each head that it takes; elsewhere it takes the skip", NULL),
    RS_COLUMN(strong_cells, fro, "contribution_fro", "contribution", NULL,
              "|P_path X W_path|_F, mean over samples", "measured"),
    RS_COLUMN(strong_cells, log_fro, "log10_contribution_fro", "log10 contribution", NULL, NULL,
              "measured"),
    RS_COLUMN(strong_cells, relative, "relative_contribution", "relative contribution", NULL,
              "that over |X|_F, X the last state, mean over samples", "measured"),
    RS_COLUMN(strong_cells, samples, "samples", "samples", NULL, "over which the means are", NULL),
};
const rs_table_kind rs_paths_strongest_kind = {
    "paths", "strongest_paths", {RS_PART(strong_columns)}};

/* "0:3 5:1"; NULL: no memory. */
static const char *route_of(const rs_paths_run *run, size_t at)
{
    rs_buffer text = {0};
    const int32_t *choice = choice_of(run, at);
    rs_buffer_puts(&text, "");
    for (int32_t i = 0; i < run->plan->n_hops; i++)
        if (choice[i] >= 0)
            rs_buffer_printf(&text, "%s%d:%d", text.length ? " " : "",
                             (int)run->plan->hops[i].layer, (int)choice[i]);
    const char *route =
        text.failed ? NULL
                    : rs_arena_strdup(rs_result_arena(run->result), text.length ? text.data : "-");
    rs_buffer_free(&text);
    return route;
}

static rs_status strongest(const rs_paths_run *run, const shown_path *shown, size_t n,
                           rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_result_add_table(run->result, "strongest_paths", "Strongest single paths",
                               "All paths of one head, and the 40 strongest of the others that "
                               "were drawn, each by itself.",
                               strong_columns, COUNT(strong_columns), &table, err));
    rs_table_show_first(table, "path,length,route,contribution_fro,relative_contribution");
    for (size_t i = 0; i < n; i++) {
        const rs_path_strength *s = &run->strengths[shown[i].at];
        double fro = s->fro / (double)run->n_samples;
        const strong_cells cells = {.path = (int64_t)i,
                                    .length = shown[i].length,
                                    .route = route_of(run, shown[i].at),
                                    .fro = fro,
                                    .log_fro = fro > 0 ? log10(fro) : NAN,
                                    .relative = s->relative / (double)run->n_samples,
                                    .samples = (int64_t)run->n_samples};
        if (!cells.route) return rs_fail_memory(err, "routes of paths", 0);
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

/* ---- table path_edges ---- */

static const char *const kinds[] = {"no head", "one head", "several heads"};

/* A row of it. */
typedef struct edge_cells {
    int32_t kind_of;
    const char *kind;
    int32_t layer, lane, to_layer, to_lane; /* -1: null in the table */
    int64_t paths;
    double fro, log_fro;
} edge_cells;

static const rs_column edge_columns[] = {
    RS_COLUMN(edge_cells, kind, "kind", "paths with", NULL, "how many heads these paths take",
              NULL),
    RS_COLUMN(edge_cells, layer, "layer", "from layer", NULL, "null: the embedding", NULL),
    RS_COLUMN(edge_cells, lane, "lane", "from head", NULL, "null: the skip", NULL),
    RS_COLUMN(edge_cells, to_layer, "to_layer", "to layer", NULL,
              "as many as there are layers: the output", NULL),
    RS_COLUMN(edge_cells, to_lane, "to_lane", "to head", NULL, "null: the skip", NULL),
    RS_COLUMN(edge_cells, paths, "paths", "paths", NULL, "of this kind that run along it", NULL),
    RS_COLUMN(edge_cells, fro, "contribution_fro", "contribution", NULL,
              "|P_path X W_path|_F of the strongest of them, mean over samples", "measured"),
    RS_COLUMN(edge_cells, log_fro, "log10_contribution_fro", "log10 contribution", NULL, NULL,
              "measured"),
};
const rs_table_kind rs_paths_edges_kind = {"paths", "path_edges", {RS_PART(edge_columns)}};

static int by_place(const void *a, const void *b)
{
    const edge_cells *x = a, *y = b;
    const int32_t p[] = {x->kind_of, x->layer, x->lane, x->to_layer, x->to_lane};
    const int32_t q[] = {y->kind_of, y->layer, y->lane, y->to_layer, y->to_lane};
    for (size_t i = 0; i < COUNT(p); i++)
        if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
    return 0;
}

/* Of a kind the strongest first: it is drawn below the others. */
static int by_width(const void *a, const void *b)
{
    const edge_cells *x = a, *y = b;
    if (x->kind_of != y->kind_of) return x->kind_of < y->kind_of ? -1 : 1;
    if (x->fro != y->fro) return x->fro < y->fro ? 1 : -1;
    return by_place(a, b);
}

/* The edges of one path: one more than there are attentions. */
static size_t edges_of(edge_cells *out, const rs_paths_run *run, const shown_path *path)
{
    const rs_path_plan *plan = run->plan;
    const int32_t *choice = choice_of(run, path->at);
    int32_t kind = path->length < 2 ? path->length : 2, layer = -1, lane = -1;
    size_t n = 0;
    for (int32_t i = 0; i <= plan->n_hops; i++) {
        bool end = i == plan->n_hops;
        if (!end && plan->hops[i].heads == 0) continue;
        int32_t to = end ? run->network->n_layers : plan->hops[i].layer;
        int32_t to_lane = end ? -1 : choice[i];
        out[n++] = (edge_cells){.kind_of = kind,
                                .kind = kinds[kind],
                                .layer = layer,
                                .lane = lane,
                                .to_layer = to,
                                .to_lane = to_lane,
                                .paths = 1,
                                .fro = path->fro / (double)run->n_samples};
        layer = to, lane = to_lane;
    }
    return n;
}

/* One edge for all paths of a kind that run along it; returns how many. */
static size_t merge(edge_cells *edges, size_t n)
{
    size_t kept = 0;
    qsort(edges, n, sizeof *edges, by_place);
    for (size_t i = 0; i < n; i++) {
        edge_cells *last = kept ? &edges[kept - 1] : NULL;
        if (last && by_place(last, &edges[i]) == 0) {
            last->paths++;
            last->fro = fmax(last->fro, edges[i].fro);
        } else {
            edges[kept++] = edges[i];
        }
    }
    for (size_t i = 0; i < kept; i++)
        edges[i].log_fro = edges[i].fro > 0 ? log10(edges[i].fro) : NAN;
    qsort(edges, kept, sizeof *edges, by_width);
    return kept;
}

static rs_status edge_rows(rs_table *table, const rs_paths_run *run, const shown_path *shown,
                           size_t n, rs_error *err)
{
    size_t each = (size_t)run->plan->deepest + 1, cells, used = 0;
    bool fits = rs_size_mul(n, each, &cells);
    edge_cells *edges = fits ? rs_malloc(cells, sizeof *edges) : NULL;
    if (!edges) return rs_fail_memory(err, "edges of paths", n * each * sizeof *edges);
    for (size_t i = 0; i < n; i++)
        used += edges_of(edges + used, run, &shown[i]);
    used = merge(edges, used);
    rs_status status = RS_OK;
    for (size_t i = 0; i < used && status == RS_OK; i++)
        status = rs_table_append(table, &edges[i], err);
    rs_free(edges);
    return status;
}

static int32_t most_heads(const rs_path_plan *plan)
{
    int32_t most = 0;
    for (int32_t i = 0; i < plan->n_hops; i++)
        most = plan->hops[i].heads > most ? plan->hops[i].heads : most;
    return most;
}

static rs_status lattice_figure(const rs_paths_run *run, rs_error *err)
{
    static const char *const keys[] = {"kind", "layer", "lane", "to_layer", "to_lane"};
    const rs_edges edges = {.table = "path_edges",
                            .x = {"layer", "layer"},
                            .y = {"lane", "head"},
                            .x2 = {"to_layer", NULL},
                            .y2 = {"to_lane", NULL},
                            .width = {"log10_contribution_fro", "‖contribution‖_F"},
                            .colour = {"kind", NULL},
                            .n_x = run->network->n_layers,
                            .n_y = most_heads(run->plan),
                            .x_first = "in",
                            .x_last = "out",
                            .y_first = "skip",
                            .keys = {keys, COUNT(keys)}};
    return rs_result_add_figure(
        run->result, "lattice", "The strongest paths through layers and heads",
        "Each path runs from left to right, at each layer through a head or along the skip: all "
        "paths of one head, and the 40 strongest of the others that were drawn. The width goes by "
        "the logarithm of the norm of what the strongest path along an edge adds to the output, "
        "down to a millionth of the largest.",
        rs_figure_edges(&edges), err);
}

rs_status rs_paths_lattice(const rs_paths_run *run, rs_error *err)
{
    if (!run->strengths || run->n_samples == 0) return RS_OK;
    rs_table *table = NULL;
    shown_path *shown = rs_malloc(run->set->total, sizeof *shown);
    if (!shown) return rs_fail_memory(err, "strongest paths", run->set->total * sizeof *shown);
    size_t n = choose(shown, run);
    rs_status status = strongest(run, shown, n, err);
    if (status == RS_OK)
        status = rs_result_add_table(run->result, "path_edges", "Edges of the strongest paths",
                                     "Where the paths of strongest_paths run, and how many of "
                                     "them: what the figure draws.",
                                     edge_columns, COUNT(edge_columns), &table, err);
    if (status == RS_OK) status = edge_rows(table, run, shown, n, err);
    if (status == RS_OK && most_heads(run->plan) > 0) status = lattice_figure(run, err);
    rs_free(shown);
    return status;
}
