/*
 * lp_smooth.c: the centre of the smallest ℓ1 ball by Newton steps on a smoothed problem.
 *
 * With h = sqrt(r² + e²) in place of |r|, r_ik = X_ik − x_k, the distances f_i(x) = Σ_k h_ik are
 * smooth and the problem min_x max_i f_i is a saddle point in x and the weights w of the rows on
 * the simplex:
 *
 *   y_ik h_ik = w_i r_ik,   Σ_i y_ik = 0,   f_i = t where w_i > 0, f_i ≤ t elsewhere.
 *
 * Newton's equations in (x, w, y), with y a variable of its own as Chan, Golub and Mulet (SIAM J.
 * Sci. Comput. 20, 1999) have it for total variation, because y h = w r stays nearly linear where y
 * = w r/h is not: with slopes Γ = r/h, D = (w − yΓ)/h, S_k = Σ_i D_ik the new weights are the
 * solution of a small quadratic programme,
 *
 *   w = argmax over the simplex of ⟨f, w⟩ − ½ wᵀ(Γ S⁻¹ Γᵀ)w,   Δx = S⁻¹ Γᵀw,   y = Γw − DΔx,
 *
 * and y is cut back into |y| ≤ 0.99 w. No step is ever shortened because single entries of the nd
 * are in the way, which is what costs an interior-point method most of its steps here. e falls with
 * the length of the steps: 13 steps reach 1e-4 or 1e-5, 20 to 30 reach 1e-6 on states of
 * transformers.
 *
 * Only rows near the surface of the ball can have weight: of 128 tokens 2 to 40 after the first
 * layers of a model, so that a step costs a fraction of a pass over X. The direction is taken in
 * float32; the bounds are not: the radius is max_i ‖X_i − x‖₁ over all rows, and the lower bound
 * φ(w) = Σ_k min_c Σ_i w_i|X_ik − c|, attained at weighted medians, holds for all weights w.
 */
#include "linalg/blas.h"
#include "linalg/lp_kernels.h"
#include "linalg/lp_parts.h"
#include "linalg/lp_simplex.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

enum {
    MOST_STEPS = 160,
    PATIENCE = 16, /* steps in which the gap was not halved */
    RESTARTS = 4,
    FEWEST_ROWS = 24,
    MORE_ROWS = 4,   /* beyond those with weight */
    FIRST_BOUND = 5, /* steps before lower bounds are worth their time */
    MOST_MOVES = 12
};
#define FIRST_WIDTH 0.5   /* e, in units of the largest mean magnitude of a row */
#define LEAST_WIDTH 1e-7  /* float32 knows no less */
#define NEAR 0.002        /* rows this near the surface, relative to the radius, are looked at */
#define AGAIN_WIDTH 0.1   /* e of a restart, relative to the first */
#define PROXIMAL 1e-6     /* added to S, where no entry is near its kink */
#define LEAST_WEIGHT 1e-4 /* of 1/n: rows without weight keep a D */
#define INSIDE 0.99f

typedef struct smooth {
    const rs_lp_ball *ball;
    float *points, *y, *slope, *damp; /* [n, d] by row of X */
    float *packed;                    /* [n, d] slopes/√S of the rows looked at, in their order */
    float *gram;                      /* [n, n] packed·packedᵀ */
    float *x32, *step, *sum, *root;   /* [d] centre, Δx, S, 1/√S */
    double *x, *median;               /* [d] */
    double *w, *distance;             /* [n] by row of X */
    double *sorted;                   /* [n] */
    int64_t *rows, *active;           /* rows looked at; those of them with weight */
    int64_t m, n_active;
    double width; /* e */
    rs_lp_simplex simplex;
} smooth;

static void take_smooth(smooth *s, int64_t n, int64_t d, rs_workspace *space)
{
    float **large[] = {&s->points, &s->y, &s->slope, &s->damp, &s->packed};
    float **by_column[] = {&s->x32, &s->step, &s->sum, &s->root};
    double **by_row[] = {&s->w, &s->distance, &s->sorted};
    size_t rows = (size_t)n;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        *large[i] = rs_workspace_take(space, rows, (size_t)d * sizeof(float));
    for (size_t i = 0; i < sizeof by_column / sizeof *by_column; i++)
        *by_column[i] = rs_workspace_take(space, (size_t)d, sizeof(float));
    for (size_t i = 0; i < sizeof by_row / sizeof *by_row; i++)
        *by_row[i] = rs_workspace_doubles(space, n);
    s->x = rs_workspace_doubles(space, d);
    s->median = rs_workspace_doubles(space, d);
    s->gram = rs_workspace_take(space, rows, rows * sizeof(float));
    s->rows = rs_workspace_take(space, rows, sizeof(int64_t));
    s->active = rs_workspace_take(space, rows, sizeof(int64_t));
    rs_lp_simplex_take(&s->simplex, n, space);
}

void rs_lp_smooth_space(int64_t n, int64_t d, rs_workspace *space)
{
    smooth s;
    take_smooth(&s, n, d, space);
}

/* The k-th largest distance, by partial selection over few values. */
static double kth_distance(smooth *s, int64_t k)
{
    int64_t n = s->ball->n, low = 0, high = n - 1;
    memcpy(s->sorted, s->distance, (size_t)n * sizeof *s->sorted);
    while (low < high) {
        double pivot = s->sorted[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (s->sorted[i] > pivot)
                i++;
            while (s->sorted[j] < pivot)
                j--;
            if (i > j) break;
            double other = s->sorted[i];
            s->sorted[i++] = s->sorted[j];
            s->sorted[j--] = other;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return s->sorted[k];
}

/* The rows that may have weight next: those that have, and those near the surface. */
static void look_at(smooth *s, double radius)
{
    int64_t n = s->ball->n,
            fewest = s->n_active + MORE_ROWS > FEWEST_ROWS ? s->n_active + MORE_ROWS : FEWEST_ROWS;
    double limit = radius * (1 - NEAR);
    if (fewest >= n)
        limit = -1;
    else
        limit = fmin(limit, kth_distance(s, fewest - 1));
    s->m = 0;
    for (int64_t i = 0; i < n; i++)
        if (s->w[i] > 0 || s->distance[i] >= limit) s->rows[s->m++] = i;
}

/* Slopes, D, S and f of the rows looked at, and the matrix of the quadratic programme. */
static void linearise(smooth *s)
{
    int64_t n = s->ball->n, d = s->ball->d, m = s->m;
    memset(s->sum, 0, (size_t)d * sizeof *s->sum);
    for (int64_t j = 0; j < m; j++) {
        int64_t at = s->rows[j] * d;
        double weight = fmax(s->w[s->rows[j]], LEAST_WEIGHT / (double)n);
        const rs_lp_row row = {s->points + at, s->x32, s->y + at,       s->slope + at,
                               s->damp + at,   s->sum, (float)s->width, (float)weight};
        s->simplex.gain[j] = rs_lp_smooth_row(&row, d);
        s->simplex.weights[j] = s->w[s->rows[j]];
    }
    for (int64_t k = 0; k < d; k++) {
        s->sum[k] += (float)PROXIMAL;
        s->root[k] = 1 / sqrtf(s->sum[k]);
    }
    for (int64_t j = 0; j < m; j++)
        rs_lp_product(s->packed + j * d, s->slope + s->rows[j] * d, s->root, d);
    blasint order = (blasint)m;
    cblas_ssyrk(CblasRowMajor, CblasLower, CblasNoTrans, order, (blasint)d, 1, s->packed,
                (blasint)d, 0, s->gram, order);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j <= i; j++)
            s->simplex.curve[i * m + j] = s->simplex.curve[j * m + i] = (double)s->gram[i * m + j];
}

/* Takes the step to the weights that the quadratic programme found; returns its length, the root
 * mean square over the columns. */
static double advance(smooth *s)
{
    int64_t n = s->ball->n, d = s->ball->d;
    const double *weights = s->simplex.weights;
    double square = 0;
    s->n_active = 0;
    memset(s->w, 0, (size_t)n * sizeof *s->w);
    memset(s->step, 0, (size_t)d * sizeof *s->step);
    for (int64_t j = 0; j < s->m; j++) {
        s->w[s->rows[j]] = weights[j];
        if (!(weights[j] > 0)) continue;
        s->active[s->n_active++] = s->rows[j];
        rs_lp_add(s->step, s->slope + s->rows[j] * d, (float)weights[j], d);
    }
    for (int64_t k = 0; k < d; k++) {
        s->step[k] /= s->sum[k];
        s->x[k] += (double)s->step[k];
        s->x32[k] = (float)s->x[k];
        square += (double)s->step[k] * (double)s->step[k];
    }
    for (int64_t j = 0; j < s->m; j++) {
        int64_t i = s->rows[j], at = i * d;
        float weight = (float)s->w[i];
        rs_lp_step_row(s->y + at, s->slope + at, s->damp + at, s->step, weight, INSIDE * weight, d);
    }
    return sqrt(square / (double)d);
}

/* φ(w) by weighted medians, which near the end are an entry or two from x; 0 when they are further
 * away than is worth the walk. */
static double lower(smooth *s)
{
    int64_t d = s->ball->d;
    const double *points = s->ball->points;
    double value = 0, weights = 0;
    memcpy(s->median, s->x, (size_t)d * sizeof *s->x);
    for (int64_t k = 0; k < d; k += RS_LP_COLUMNS) {
        int64_t columns = d - k < RS_LP_COLUMNS ? d - k : RS_LP_COLUMNS, moves = 0;
        while (
            !rs_lp_median_move(s->median + k, points + k, s->active, s->w, s->n_active, d, columns))
            if (++moves > MOST_MOVES) return 0;
    }
    for (int64_t j = 0; j < s->n_active; j++) {
        int64_t i = s->active[j];
        weights += s->w[i];
        value += s->w[i] * rs_distance_1(points + i * d, s->median, d);
    }
    return value / weights;
}

/* How e follows the length of a step: while steps are longer than e, the kinks that they cross are
 * not those that they were computed with; when they are much longer, steps go in circles. */
static double next_width(double width, double length)
{
    static const struct {
        double below, factor;
    } rules[] = {{0.5, 0.15}, {1, 0.3}, {2, 0.5}, {6, 1}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (length < rules[i].below * width) return rules[i].factor * width;
    return 2 * width;
}

static void start_smooth(smooth *s, rs_lp_ball *ball)
{
    size_t n = (size_t)ball->n, d = (size_t)ball->d;
    s->ball = ball;
    s->width = FIRST_WIDTH;
    s->n_active = 0;
    memset(s->x, 0, d * sizeof *s->x);
    memset(s->x32, 0, d * sizeof *s->x32);
    memset(s->w, 0, n * sizeof *s->w);
    memset(s->y, 0, n * d * sizeof *s->y);
    for (size_t i = 0; i < n * d; i++)
        s->points[i] = (float)ball->points[i];
}

/* No row has weight yet: those looked at share it. */
static void first_weights(smooth *s)
{
    s->n_active = s->m;
    for (int64_t j = 0; j < s->m; j++) {
        s->active[j] = s->rows[j];
        s->w[s->rows[j]] = 1 / (double)s->m;
    }
}

/* Steps that went in circles, or e too small for what is still wrong: again from the best centre
 * with a wider e, each time another one, so that it does not run into the same circle. */
static double restart(smooth *s, int count)
{
    size_t d = (size_t)s->ball->d;
    s->width = FIRST_WIDTH * ldexp(AGAIN_WIDTH, -2 * count);
    memcpy(s->x, s->ball->best, d * sizeof *s->x);
    for (size_t k = 0; k < d; k++)
        s->x32[k] = (float)s->x[k];
    for (int64_t i = 0; i < s->ball->n; i++)
        s->distance[i] = rs_distance_1(s->ball->points + i * s->ball->d, s->x, s->ball->d);
    return s->ball->found.radius;
}

/* One step; returns the radius it leads to, a negative number when none can be taken. */
static double take_step(smooth *s, rs_lp_ball *ball, double radius, bool first)
{
    look_at(s, radius);
    if (first) first_weights(s);
    linearise(s);
    if (!rs_lp_simplex_solve(&s->simplex, s->m)) return -1;
    s->width = next_width(s->width, advance(s));
    ball->found.iterations++;
    return rs_lp_offer_centre(ball, s->x, s->distance);
}

void rs_lp_smooth(rs_lp_ball *ball, rs_workspace space)
{
    smooth s;
    take_smooth(&s, ball->n, ball->d, &space);
    start_smooth(&s, ball);
    double radius = rs_lp_offer_centre(ball, s.x, s.distance), halved = INFINITY;
    int idle = 0, restarts = 0;
    for (int step = 0; step < MOST_STEPS && !rs_lp_closed(ball); step++) {
        if (idle >= PATIENCE || !(s.width > LEAST_WIDTH)) {
            if (restarts == RESTARTS) break;
            radius = restart(&s, restarts++);
            idle = 0;
        }
        radius = take_step(&s, ball, radius, step == 0);
        if (!(radius >= 0)) break;
        /* Weights that make the best centre so far tend to make the best bound, too. */
        if (step >= FIRST_BOUND && radius <= ball->found.radius * (1 + ball->tolerance))
            rs_lp_offer_lower(ball, lower(&s));
        double gap = ball->found.radius - ball->found.lower;
        idle = gap <= halved / 2 ? 0 : idle + 1;
        halved = idle == 0 ? gap : halved;
    }
}
