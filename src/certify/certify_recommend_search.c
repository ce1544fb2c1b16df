/*
 * certify_recommend_search.c: the nearest λ that keep enough, by runs alone.
 *
 * Relative μ is no monotone function of λ (with X = I and O the swap of both tokens it is kept at 0
 * and at 2, and not at 1), so that a search of points can pass by a λ that would do. What is found
 * has been run; the λ beside it, within the step, has been run and fell short.
 */
#include "certify/certify_recommend.h"

#include "observe/gather.h"

#include <math.h>
#include <stdlib.h>

enum {
    STEPS_A_DECADE = 4, /* of the first grid, from NEAREST on */
    CHUNK = 8,          /* of its steps on either side in one pass */
    PIECES = 9,         /* into which a pass cuts what is left between two λ */
    MOST_CUTS = 12,
    DIGITS = 4 /* of a change of λ */
};
#define NEAREST 1e-3   /* first step of the grid, times max(|own λ|, 1) */
#define TOLERANCE 1e-2 /* of the change */

bool rs_recommend_enough(const rs_recommending *w, double relative)
{
    return relative >= w->kept && relative > rs_residual_floor(RS_PRECISION_F64);
}

/* ---- lists of λ ---- */

/* The same λ in every layer that has one. */
static void fill_one(double *lambdas, const rs_recommending *w, double lambda)
{
    for (int32_t l = 0; l < w->layers; l++)
        lambdas[l] = isnan(w->own[l]) ? (double)NAN : lambda;
}

/* λ at this distance to one side (±1) of the own one, away from it to a decimal number of few
 * digits. */
static double lambda_at(const rs_recommending *w, double side, double distance)
{
    int places = DIGITS - 1 - (int)floor(log10(distance));
    double unit = pow(10, abs(places)), exact = side * (w->centre + side * distance);
    double steps = places >= 0 ? ceil(exact * unit) : ceil(exact / unit);
    return side * (places >= 0 ? steps / unit : steps * unit) + 0.0; /* never -0 */
}

/* ---- one λ ---- */

/* The search on one side of the own λ. */
typedef struct side {
    rs_recommended *r;
    double sign;
    double low, high;  /* distances: of λ that fell short (0: the own one), and of one that does */
    double last;       /* the grid's last distance so far */
    bool found, ended; /* ended: the grid has passed the limit */
} side;

typedef struct probing {
    double *lambdas; /* [points, layers] */
    double *one;     /* [points] */
    double *relative;
    int32_t n;
} probing;

enum { MOST_POINTS = 2 * CHUNK };

static rs_status open_probing(probing *p, const rs_recommending *w, size_t points, rs_error *err)
{
    p->lambdas = rs_arena_alloc(w->arena, points * (size_t)w->layers, sizeof *p->lambdas);
    p->one = rs_arena_alloc(w->arena, points, sizeof *p->one);
    p->relative = rs_arena_alloc(w->arena, points, sizeof *p->relative);
    return p->lambdas && p->one && p->relative ? RS_OK : rs_fail_memory(err, "recommendation", 0);
}

static void add_point(probing *p, const rs_recommending *w, double lambda)
{
    p->one[p->n] = lambda;
    fill_one(p->lambdas + (int64_t)p->n * w->layers, w, lambda);
    p->n++;
}

static rs_status run_points(probing *p, const rs_recommending *w, rs_error *err)
{
    return rs_recommend_sweep(p->relative, w, p->lambdas, p->n, err);
}

/* The next stretch of the grid, on each side where nothing is found yet. */
static rs_status try_stretch(side sides[2], probing *p, const rs_recommending *w, int32_t first,
                             rs_error *err)
{
    int32_t of[MOST_POINTS];
    double distances[MOST_POINTS];
    p->n = 0;
    for (int32_t s = 0; s < 2; s++)
        for (int32_t k = first; k < first + CHUNK && !sides[s].found && !sides[s].ended; k++) {
            double distance =
                NEAREST * fmax(fabs(w->centre), 1) * pow(10, k / (double)STEPS_A_DECADE);
            double lambda = w->centre + sides[s].sign * distance;
            sides[s].ended = fabs(lambda) > w->limit;
            if (sides[s].ended) break;
            of[p->n] = s;
            distances[p->n] = distance;
            add_point(p, w, lambda);
        }
    RS_TRY(run_points(p, w, err));
    for (int32_t i = 0; i < p->n; i++) {
        side *at = &sides[of[i]];
        if (at->found) continue;
        at->found = rs_recommend_enough(w, p->relative[i]);
        if (at->found)
            at->high = distances[i];
        else
            at->low = distances[i];
    }
    return RS_OK;
}

/* Draws what falls short and what does together, to the tolerance. */
static rs_status narrow(side *at, probing *p, const rs_recommending *w, rs_error *err)
{
    for (int cut = 0; cut < MOST_CUTS && at->high - at->low > TOLERANCE * at->high; cut++) {
        double low = at->low, step = (at->high - at->low) / PIECES;
        p->n = 0;
        for (int32_t i = 1; i < PIECES; i++)
            add_point(p, w, w->centre + at->sign * (low + i * step));
        RS_TRY(run_points(p, w, err));
        int32_t i = 0;
        while (i < p->n && !rs_recommend_enough(w, p->relative[i]))
            i++;
        if (i < p->n) at->high = low + (i + 1) * step;
        at->low = low + i * step;
    }
    return RS_OK;
}

static void set_one(rs_recommended *r, const rs_recommending *w, double lambda)
{
    r->lambda = lambda;
    for (int32_t l = 0; l < w->layers; l++)
        r->layers[l].lambda = isnan(w->own[l]) ? (double)NAN : lambda;
}

/* Runs what was found by itself; where that falls short by a hair, a little further out. */
static rs_status settle(side *at, const rs_recommending *w, rs_error *err)
{
    rs_recommended *r = at->r;
    const double tries[] = {lambda_at(w, at->sign, at->high), w->centre + at->sign * at->high,
                            lambda_at(w, at->sign, at->high * (1 + TOLERANCE))};
    r->falls_short = at->low > 0 ? w->centre + at->sign * at->low : w->of[RS_RECOMMEND_NONE].lambda;
    for (size_t i = 0; i < sizeof tries / sizeof *tries && !r->found; i++) {
        set_one(r, w, tries[i]);
        RS_TRY(rs_recommend_run(r, w, err));
        r->found = rs_recommend_enough(w, r->relative);
    }
    if (!r->found)
        r->failed = "points of a sweep keep it and a run by itself does not: rounding decides";
    return RS_OK;
}

rs_status rs_recommend_one(rs_recommending *w, rs_error *err)
{
    side sides[] = {{.r = &w->of[RS_RECOMMEND_POSITIVE], .sign = 1},
                    {.r = &w->of[RS_RECOMMEND_NEGATIVE], .sign = -1}};
    probing p = {0};
    RS_TRY(open_probing(&p, w, MOST_POINTS, err));
    for (int32_t first = 0;
         (!sides[0].found && !sides[0].ended) || (!sides[1].found && !sides[1].ended);
         first += CHUNK)
        RS_TRY(try_stretch(sides, &p, w, first, err));
    for (int s = 0; s < 2; s++) {
        sides[s].r->tried = true;
        if (!sides[s].found) {
            sides[s].r->failed = "no λ of the search on this side keeps enough";
            continue;
        }
        RS_TRY(narrow(&sides[s], &p, w, err));
        RS_TRY(settle(&sides[s], w, err));
    }
    return RS_OK;
}
