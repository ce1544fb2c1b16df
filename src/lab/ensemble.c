/* ensemble.c: see ensemble.h. */
#include "lab/ensemble.h"

#include "paths/paths.h"

#include <math.h>
#include <string.h>

enum { PATHS = 16 }; /* of each length */

void rs_gathered_add(rs_gathered *g, double value)
{
    if (isnan(value)) return;
    g->sum += value, g->squares += value * value, g->n++;
}

rs_lab_spread rs_gathered_spread(const rs_gathered *g)
{
    double mean = g->n > 0 ? g->sum / g->n : (double)NAN;
    double spread = g->n > 1 ? fmax(g->squares - g->sum * mean, 0) / (g->n - 1) / g->n : INFINITY;
    return (rs_lab_spread){mean, sqrt(spread), (int)g->n};
}

void rs_gathered_join(rs_gathered *to, const rs_gathered *from)
{
    to->sum += from->sum, to->squares += from->squares, to->n += from->n;
}

/* ---- as it is kept ---- */

enum { REALS = offsetof(rs_ensemble, longest) / sizeof(double), WHOLE = 4 + RS_ENSEMBLE_SETS };

void rs_ensemble_put(double list[RS_ENSEMBLE_NUMBERS], const rs_ensemble *s, bool diverged)
{
    const double front[] = {diverged, s->longest, s->loss, s->sets};
    memcpy(list, front, sizeof front);
    for (int i = 0; i < RS_ENSEMBLE_SETS; i++)
        list[4 + i] = s->heads[i];
    memcpy(list + WHOLE, s, REALS * sizeof *list);
}

void rs_ensemble_take(rs_ensemble *s, bool *diverged, const double list[RS_ENSEMBLE_NUMBERS])
{
    *diverged = list[0] != 0;
    s->longest = (int)list[1];
    s->loss = list[2] != 0;
    s->sets = (int)list[3];
    for (int i = 0; i < RS_ENSEMBLE_SETS; i++)
        s->heads[i] = (int)list[4 + i];
    memcpy(s, list + WHOLE, REALS * sizeof *list);
}

/* ---- reading the tables of paths ---- */

static void read_lengths(rs_ensemble *s, const rs_result *result)
{
    const rs_table *lengths = rs_result_table(result, "lengths"),
                   *paths = rs_result_table(result, "paths"),
                   *truncated = rs_result_table(result, "truncated");
    for (size_t i = 0; lengths && i < rs_table_rows(lengths); i++) {
        int k = (int)rs_lab_cell(lengths, i, "length");
        if (k < 0 || k >= RS_ENSEMBLE_LENGTHS) continue;
        s->longest = k > s->longest ? k : s->longest;
        rs_gathered_add(&s->missing[k], rs_lab_cell(lengths, i, "cumulative_error"));
    }
    for (size_t i = 0; paths && i < rs_table_rows(paths); i++) {
        int k = (int)rs_lab_cell(paths, i, "length");
        if (k < 0 || k >= RS_ENSEMBLE_LENGTHS) continue;
        rs_gathered_add(&s->cosine[k], rs_lab_cell(paths, i, "cosine"));
        s->null[k] = rs_lab_cell(paths, i, "cosine_null");
    }
    for (size_t i = 0; truncated && i < rs_table_rows(truncated); i++) {
        int sample = rs_table_find_column(truncated, "sample"),
            length = rs_table_find_column(truncated, "max_length");
        int64_t k = rs_table_int(truncated, i, (size_t)length);
        if (rs_table_int(truncated, i, (size_t)sample) != RS_NULL_INT || k < 0 ||
            k >= RS_ENSEMBLE_LENGTHS)
            continue;
        s->nll[k] = rs_lab_cell(truncated, i, "nll");
    }
}

static int set_of(rs_ensemble *s, int heads)
{
    for (int i = 0; i < s->sets; i++)
        if (s->heads[i] == heads) return i;
    if (s->sets == RS_ENSEMBLE_SETS) return -1;
    s->heads[s->sets] = heads;
    return s->sets++;
}

static void read_lesions(rs_ensemble *s, const rs_result *result)
{
    const rs_table *lesions = rs_result_table(result, "lesions");
    s->most = -INFINITY;
    for (size_t i = 0; lesions && i < rs_table_rows(lesions); i++) {
        const char *kind = rs_lab_cell_text(lesions, i, "kind");
        double rise = rs_lab_cell(lesions, i, "loss_rise");
        bool one = strcmp(kind, "head") == 0;
        if ((!one && strcmp(kind, "heads") != 0) || isnan(rise)) continue;
        int set = set_of(s, (int)rs_lab_cell(lesions, i, "heads"));
        double alone = one ? rise : rs_lab_cell(lesions, i, "single_rises");
        s->loss = true;
        if (one) s->most = fmax(s->most, rise);
        if (set < 0) continue;
        rs_gathered_add(&s->rise[set], rise);
        rs_gathered_add(&s->alone[set], alone);
        s->cross[set] += rise * alone;
    }
}

rs_status rs_ensemble_look(rs_ensemble *s, const rs_network *network, const rs_inputs *inputs,
                           const rs_context *context, rs_error *err)
{
    rs_paths_options options;
    rs_result *result = rs_result_new("paths");
    if (!result) return rs_fail_memory(err, "a result", 1);
    rs_paths_defaults(&options);
    options.paths = PATHS;
    options.lesions = true;
    *s = (rs_ensemble){0};
    for (int k = 0; k < RS_ENSEMBLE_LENGTHS; k++)
        s->nll[k] = NAN;
    rs_status status = rs_paths(result, network, inputs, &options, context, err);
    if (status == RS_OK) {
        read_lengths(s, result);
        read_lesions(s, result);
    }
    rs_result_free(result);
    return status;
}

/* ---- numbers ---- */

rs_lab_spread rs_ensemble_missing(const rs_ensemble *s)
{
    return rs_gathered_spread(&s->missing[s->longest / 2]);
}

rs_lab_spread rs_ensemble_missing_share(const rs_ensemble *s)
{
    const rs_lab_spread m = rs_ensemble_missing(s);
    double all = rs_gathered_spread(&s->missing[0]).mean;
    return (rs_lab_spread){m.mean / all, m.error / all, m.n};
}

/* The length whose paths are most alike. */
static int most_alike(const rs_ensemble *s)
{
    int most = 1;
    for (int k = 1; k <= s->longest; k++)
        if (fabs(rs_gathered_spread(&s->cosine[k]).mean) >
            fabs(rs_gathered_spread(&s->cosine[most]).mean))
            most = k;
    return most;
}

rs_lab_spread rs_ensemble_alike(const rs_ensemble *s)
{
    rs_lab_spread a = rs_gathered_spread(&s->cosine[most_alike(s)]);
    return (rs_lab_spread){fabs(a.mean), a.error, a.n};
}

rs_lab_spread rs_ensemble_of_one_head(const rs_ensemble *s)
{
    const rs_lab_spread a = rs_gathered_spread(&s->cosine[1]);
    return (rs_lab_spread){a.mean, hypot(a.error, s->null[1]), a.n};
}

bool rs_ensemble_needs_heads(const rs_ensemble *s)
{
    return rs_gathered_spread(&s->rise[s->sets - 1]).mean > 0;
}

rs_lab_spread rs_ensemble_one_head(const rs_ensemble *s)
{
    double all = rs_gathered_spread(&s->rise[s->sets - 1]).mean;
    return (rs_lab_spread){rs_ensemble_needs_heads(s) ? s->most / all : (double)NAN, INFINITY, 1};
}

rs_lab_spread rs_ensemble_ratio(const rs_ensemble *s, int set)
{
    const rs_gathered *r = &s->rise[set], *a = &s->alone[set];
    if (!(a->sum > 0)) return (rs_lab_spread){NAN, NAN, 0};
    double ratio = r->sum / a->sum;
    double residuals = r->squares - 2 * ratio * s->cross[set] + ratio * ratio * a->squares;
    double error =
        r->n > 1 ? sqrt(fmax(residuals, 0) / (r->n - 1) * r->n) / fabs(a->sum) : INFINITY;
    return (rs_lab_spread){ratio, error, (int)r->n};
}

rs_lab_spread rs_ensemble_together(const rs_ensemble *s)
{
    rs_lab_spread r = rs_ensemble_ratio(s, s->sets > 2 ? 2 : s->sets - 1);
    return (rs_lab_spread){r.mean - 1, r.error, r.n};
}
