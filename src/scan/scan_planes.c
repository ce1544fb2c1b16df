/*
 * scan_planes.c: table `planes`: RoPE models by frequency plane (docs/theory/products.md, 4).
 *
 * Under RoPE the loss sees W_Q, W_K only through one complex number pair a plane, so what decay
 * acts on is the group lasso Σ_j σ_j with σ_j = ‖q_j‖‖k_j‖, the norms of the two rows that rotate
 * together. Both come from the diagonals of the Grams. With grouped queries the query side is
 * summed over the heads that share the key.
 */
#include "scan/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row of table planes. */
typedef struct plane_cells {
    rs_scan_keys keys;
    int64_t planes;
    const char *pairing;
    double half_norm, excess, imbalance;
    rs_measures of;
    rs_list norms;
} plane_cells;

static const rs_column columns[] = {
    {.name = "stack", RS_CELL(plane_cells, keys.stack)},
    {.name = "attention", RS_CELL(plane_cells, keys.attention)},
    {.name = "layer", RS_CELL(plane_cells, keys.layer), .formula = "from 0"},
    {.name = "head",
     RS_CELL(plane_cells, keys.head),
     .formula = "key/value head, from 0 (with grouped queries: the whole group)"},
    {.name = "planes",
     RS_CELL(plane_cells, planes),
     .formula = "number of frequency planes: half the rotated width"},
    {.name = "pairing",
     RS_CELL(plane_cells, pairing),
     .formula = "rows that rotate together: half-split (j, j + c/2) or interleaved (2j, 2j + 1)"},
    {.name = "plane_sum",
     RS_CELL(plane_cells, of.nuclear_norm),
     .formula = "Σ_j σ_j, σ_j = ‖q_j‖‖k_j‖; meets half_norm at the decay equilibrium"},
    {.name = "half_norm",
     RS_CELL(plane_cells, half_norm),
     .formula = "½ Σ_j (‖q_j‖² + ‖k_j‖²) over the rotated rows"},
    {.name = "excess",
     RS_CELL(plane_cells, excess),
     .formula = "1 − plane_sum/half_norm; 0 at the decay equilibrium"},
    {.name = "imbalance",
     RS_CELL(plane_cells, imbalance),
     .formula = "max_j |‖q_j‖² − ‖k_j‖²| / (‖q_j‖² + ‖k_j‖²)"},
    {.name = "largest", RS_CELL(plane_cells, of.spectral_norm), .formula = "largest σ_j"},
    {.name = "effective_rank",
     RS_CELL(plane_cells, of.effective_rank),
     .formula = "exp(−Σ p ln p), p = σ_j/Σσ"},
    {.name = "stable_rank", RS_CELL(plane_cells, of.stable_rank), .formula = "Σσ_j² / max σ_j²"},
    {.name = "participation_ratio",
     RS_CELL(plane_cells, of.participation_ratio),
     .formula = "(Σσ_j²)² / Σσ_j⁴"},
    {.name = "energy_rank",
     RS_CELL(plane_cells, of.energy_rank),
     .formula = "least number of planes with 95 % of Σσ_j²"},
    {.name = "pseudo_rank",
     RS_CELL(plane_cells, of.pseudo_rank),
     .formula = "least number of planes with 95 % of Σσ_j, divided by planes"},
    {.name = "plane_norms",
     RS_CELL(plane_cells, norms),
     .formula = "σ_j by frequency, fastest first"},
};
const rs_table_kind rs_scan_planes_kind = {"scan", "planes", {RS_PART(columns)}};

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The two rows of plane j. */
static void plane_rows(int64_t rows[2], const rs_product *p, int64_t j)
{
    const rs_rope_pairing at = rs_rope_pairs(p->rope, p->rope_dims);
    rows[0] = at.step * j;
    rows[1] = rows[0] + at.gap;
}

typedef struct planes {
    int64_t n;
    double *sigma, *sorted;
    double half_norm, imbalance;
} planes;

static void measure_planes(planes *out, const rs_head *head)
{
    const rs_product *p = head->product;
    out->half_norm = out->imbalance = 0;
    for (int64_t j = 0; j < out->n; j++) {
        int64_t rows[2];
        plane_rows(rows, p, j);
        double q = head->norms_a[rows[0]] + head->norms_a[rows[1]],
               k = head->norms_b[rows[0]] + head->norms_b[rows[1]];
        out->sigma[j] = sqrt(q) * sqrt(k);
        out->half_norm += 0.5 * (q + k);
        if (q + k > 0) out->imbalance = fmax(out->imbalance, fabs(q - k) / (q + k));
    }
    memcpy(out->sorted, out->sigma, (size_t)out->n * sizeof *out->sorted);
    qsort(out->sorted, (size_t)out->n, sizeof *out->sorted, descending);
}

static const char *const pairings[] = {[RS_ROPE_NONE] = "none",
                                       [RS_ROPE_HALF_SPLIT] = "half-split",
                                       [RS_ROPE_INTERLEAVED] = "interleaved",
                                       [RS_ROPE_SPREAD] = "spread"};

static rs_status add_row(rs_table *table, const rs_product *p, const planes *plane, rs_error *err)
{
    plane_cells cells = {
        .keys = rs_scan_keys_of(p, p->kv_head),
        .planes = plane->n,
        .pairing = pairings[p->rope],
        .half_norm = plane->half_norm,
        .imbalance = plane->imbalance,
        .norms = {plane->sigma, (size_t)plane->n},
    };
    rs_measures_of(&cells.of, plane->sorted, plane->n, plane->n, 0.0);
    cells.excess = 1.0 - cells.of.nuclear_norm / plane->half_norm;
    return rs_table_append(table, &cells, err);
}

static rs_status add_rows(rs_table *table, const rs_head *heads, size_t n, bool stacked,
                          planes *plane, rs_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const rs_product *p = heads[i].product;
        bool grouped = p->group_size > 1;
        if (p->rope == RS_ROPE_NONE || p->rope_dims < 2 || !heads[i].sigma || grouped != stacked)
            continue;
        plane->n = p->rope_dims / 2;
        measure_planes(plane, &heads[i]);
        RS_TRY(add_row(table, p, plane, err));
    }
    return RS_OK;
}

static int64_t most_planes(const rs_heads *heads)
{
    int64_t most = 0;
    for (size_t i = 0; i < heads->n; i++)
        if (heads->items[i].product->rope != RS_ROPE_NONE &&
            heads->items[i].product->rope_dims / 2 > most)
            most = heads->items[i].product->rope_dims / 2;
    return most;
}

rs_status rs_scan_planes(rs_result *result, const rs_heads *heads, const rs_scan_options *options,
                         rs_error *err)
{
    int64_t most = most_planes(heads);
    if (most == 0) return RS_OK;
    rs_table *table;
    size_t n_columns = sizeof columns / sizeof *columns - !options->spectra;
    RS_TRY(rs_result_add_table(result, "planes", "RoPE planes",
                               "Rotary position embedding: the strength of each frequency plane, "
                               "which is what weight decay can remove",
                               columns, n_columns, &table, err));
    planes plane = {.sigma = rs_malloc(2 * (size_t)most, sizeof(double))};
    if (!plane.sigma) return rs_fail_memory(err, "planes", 2 * (size_t)most * sizeof(double));
    plane.sorted = plane.sigma + most;
    rs_status status = add_rows(table, heads->items, heads->n, false, &plane, err);
    if (status == RS_OK)
        status = add_rows(table, heads->groups, heads->n_groups, true, &plane, err);
    rs_free(plane.sigma);
    return status;
}
