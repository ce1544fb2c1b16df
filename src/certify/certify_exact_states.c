/* certify_exact_states.c: a state-space mixer's branch once more, panel by panel, and how far it is
 * from what was tapped (docs/certificates.md, C11). */
#include "certify/certify_exact_states.h"

#include "linalg/vector.h"

#include <string.h>

static const rs_states_kind *const kinds[RS_BRANCH_KINDS] = {
    [RS_BRANCH_SSD] = &rs_states_ssd,
    [RS_BRANCH_S6] = &rs_states_s6,

};

const char *rs_exact_states_unbounded(const rs_branch *branch)
{
    return kinds[branch->kind] ? NULL
                               : "how far rounding moves what this mixer adds is not bounded";
}

/* The op's last map. */
static const rs_dense *last_map(const rs_branch *branch)
{
    return branch->kind == RS_BRANCH_SSD ? &branch->ssd.o : &branch->s6.o;
}

/* One evaluation. */
typedef struct shadow {
    const rs_exact_states *at;
    int64_t d;
    rs_states_panel panel;
    rs_radius_norm before, inside;
    double *x, *radius; /* [most, d], [most] */
    double *off;        /* [most] distances of rows */
    double two;         /* ‖W_out‖₂, from above */
    void *mixer;
} shadow;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The row behind the panel that begins with row0: a sample is cut between its own chunks only, so
 * that the batch changes no number. */
static int64_t panel_end(const rs_batch *batch, int64_t row0)
{
    int64_t end = row0 + RS_STATES_PANEL;
    if (end >= batch->begin[batch->samples]) return batch->begin[batch->samples];
    for (int32_t s = 0; s < batch->samples; s++)
        if (batch->begin[s] < end && end < batch->begin[s + 1])
            return end - (end - batch->begin[s]) % RS_STATES_CHUNK;
    return end;
}

static void list_parts(shadow *p, int64_t row0, int64_t end)
{
    const int64_t *begin = p->at->batch->begin;
    p->panel.n_parts = 0;
    for (int32_t s = 0; s < p->at->batch->samples; s++) {
        int64_t from = begin[s] > row0 ? begin[s] : row0, to = least(begin[s + 1], end);
        if (from >= to) continue;
        p->panel.parts[p->panel.n_parts++] =
            (rs_states_part){from - row0, to - row0, s, from == begin[s]};
    }
}

static rs_status open_shadow(shadow *p, rs_error *err)
{
    const rs_exact_states *at = p->at;
    rs_arena *arena = p->panel.arena;
    int64_t most = least(at->batch->begin[at->batch->samples], RS_STATES_PANEL);
    size_t parts = (size_t)at->batch->samples;
    p->panel.most = most;
    p->panel.parts = rs_arena_alloc(arena, parts, sizeof *p->panel.parts);
    if (!p->panel.parts) return rs_fail_memory(err, "rounding of a mixer", parts);
    RS_TRY(rs_radius_room(&p->x, arena, most, p->d, err));
    RS_TRY(rs_radius_room(&p->radius, arena, most, 1, err));
    RS_TRY(rs_radius_room(&p->off, arena, most, 1, err));
    RS_TRY(rs_radius_map_open(&p->panel.out, arena, most, p->d, err));
    RS_TRY(rs_radius_map_norm(&p->two, last_map(at->branch), err));
    RS_TRY(rs_radius_norm_open(&p->before, arena, &at->branch->before, true, err));
    RS_TRY(rs_radius_norm_open(&p->inside, arena, &at->branch->inside, true, err));
    return kinds[at->branch->kind]->open(&p->mixer, &p->panel, err);
}

/* The rows that the op reads; the tapped state is exact. */
static void read_rows(shadow *p, int64_t row0, int64_t rows)
{
    memcpy(p->x, p->at->read + row0 * p->d, (size_t)(rows * p->d) * sizeof *p->x);
#pragma omp parallel for num_threads(p->at->context->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        p->radius[i] = 0;
        rs_radius_normalise(p->x + i * p->d, p->radius + i, p->d, &p->before, 0);
    }
    p->panel.in = (rs_radius_rows){p->x, p->radius, rows, p->d};
}

/* How far exact rows may be from the tapped ones. */
static void compare_rows(shadow *p, int64_t row0, int64_t rows)
{
    const rs_radius_map *out = &p->panel.out;
    double share = rs_radius_length(out->share, p->d), own = rs_radius_length(out->own, p->d);
#pragma omp parallel for num_threads(p->at->context->threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const double *added = p->at->added + (row0 + i) * p->d;
        double *row = out->x + i * p->d;
        /* the radius of what the last map reads passes it whole, its rounding entry by entry */
        double radius = (out->radius[i] * p->two + out->rounding[i] * share + own) * RS_RADIUS_GROW;
        rs_radius_normalise(row, &radius, p->d, &p->inside, 0);
        for (int64_t k = 0; k < p->d; k++)
            row[k] -= added[k];
        p->off[i] = (radius + rs_radius_length(row, p->d)) * RS_RADIUS_GROW;
        if (isnan(p->off[i])) p->off[i] = INFINITY;
    }
}

static void keep_largest(double *error, const shadow *p)
{
    for (int64_t t = 0; t < p->panel.n_parts; t++) {
        const rs_states_part *part = &p->panel.parts[t];
        for (int64_t i = part->from; i < part->to; i++)
            error[part->sample] = fmax(error[part->sample], p->off[i]);
    }
}

static rs_status run_shadow(double *error, shadow *p, rs_error *err)
{
    int64_t rows = p->at->batch->begin[p->at->batch->samples];
    RS_TRY(open_shadow(p, err));
    for (int64_t row0 = 0, end; row0 < rows; row0 = end) {
        RS_TRY(rs_check_cancelled(p->at->context, err));
        end = panel_end(p->at->batch, row0);
        list_parts(p, row0, end);
        read_rows(p, row0, end - row0);
        RS_TRY(kinds[p->at->branch->kind]->run(p->mixer, &p->panel, err));
        compare_rows(p, row0, end - row0);
        keep_largest(error, p);
    }
    return RS_OK;
}

rs_status rs_exact_states_added(double *error, const rs_exact_states *at, rs_error *err)
{
    shadow p = {.at = at,
                .d = last_map(at->branch)->out,
                .panel = {.branch = at->branch, .context = at->context, .arena = rs_arena_new()}};
    if (!p.panel.arena) return rs_fail_memory(err, "rounding of a mixer", 0);
    memset(error, 0, (size_t)at->batch->samples * sizeof *error);
    rs_status status = run_shadow(error, &p, err);
    rs_arena_free(p.panel.arena);
    return status;
}

/* The op's first map, the widest that is applied but the last. */
static const rs_dense *first_map(const rs_branch *branch)
{
    return branch->kind == RS_BRANCH_SSD ? &branch->ssd.in : &branch->s6.in;
}

double rs_exact_states_bytes(const rs_branch *branch, int64_t rows, int threads)
{
    const rs_dense *last = last_map(branch), *first = first_map(branch);
    double most = (double)least(rows, RS_STATES_PANEL), d = (double)last->out;
    double own = most * (d + 3) + rs_radius_map_size(most, d) + 4 * d;
    double applied =
        fmax(rs_radius_apply_size(first, most, threads), rs_radius_apply_size(last, most, threads));
    double kept = kinds[branch->kind]->size(branch, most, threads);
    /* the norm of the last map is found before the kind asks for its rooms */
    return (own + fmax(kept + applied, rs_radius_map_norm_size(last))) * sizeof(double);
}
