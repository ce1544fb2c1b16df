/*
 * lp_interior.c: the centre of the smallest ℓ1 ball, by a primal-dual interior-point method.
 *
 *   primal  min t   s.t.  X_ik − x_k = p_ik − q_ik,  Σ_k (p_ik + q_ik) + z_i = t,  p, q, z ≥ 0
 *   dual    max Σ_ik X_ik y_ik   s.t.  Σ_i y_ik = 0,  a = w − y ≥ 0,  b = w + y ≥ 0,  Σ_i w_i = 1
 *
 * with pa = qb = zw = 0 at the optimum (a, b: n×d, w: n, written a_ik = w_i − y_ik). There are
 * 2nd + n inequalities but only n + d unknowns that couple them: with α = p/a, β = q/b,
 * D = 1/(α + β), Γ = (α − β)D and S_k = Σ_i D_ik, Newton's equations reduce to the n×n positive
 * definite system
 *
 *   (diag(E) + Γ S⁻¹ Γᵀ) Δw = r − Δt 1,   E_i = Σ_k 4αβD + z_i/w_i,   Σ_i Δw_i = 0
 *
 * from which Δx_k = ((ΓᵀΔw)_k − h_k)/S_k, Δy = −D(Δx + ρ_p − ρ_q) + ΓΔw and the rest follow. The
 * steps are Mehrotra's predictor and corrector (SIAM J. Optim. 2, 1992); what rounding takes from
 * primal feasibility is put into the right side of the next step. A strictly feasible start
 * of both problems is at hand (x = mean, w = 1/n, y = 0), so that primal and dual objective bracket
 * the optimum at every step.
 */
#include "linalg/blas.h"
#include "linalg/lp_parts.h"
#include "linalg/vector.h"

#include <math.h>
#include <string.h>

enum { MOST_ITERATIONS = 250, PATIENCE = 30 };
#define LEAST_REGULARISED 1e-15
#define REGULARISED 1e-6
#define TO_BOUNDARY 0.995 /* share of the way to the boundary that a step may go */

typedef struct problem {
    int64_t n, d;
    const double *points;      /* [n, d] centred and scaled */
    double *p, *q, *a, *b;     /* [n, d] */
    double *dp, *dq, *da, *db; /* [n, d] steps; before a solve dp, dq hold the targets of pa, qb */
    double *alpha, *beta;      /* [n, d] p/a, q/b */
    double *slope;             /* [n, d] Γ/√S */
    double *damp;              /* [n, d] D */
    double *z, *w, *dz, *dw;   /* [n] */
    double *ones, *right;      /* [n] solutions of the two right sides */
    double *diagonal;          /* [n] E */
    double *drift;             /* [n] t − Σ(p + q) − z, which rounding keeps from 0 */
    double *matrix;            /* [n, n] and its Cholesky factor */
    double *x, *dx;            /* [d] */
    double *weight, *pull;     /* [d] √S, h */
    double t, dt;
} problem;

static void take_problem(problem *s, int64_t n, int64_t d, rs_workspace *space)
{
    double **large[] = {&s->p,  &s->q,  &s->a,     &s->b,    &s->dp,    &s->dq,
                        &s->da, &s->db, &s->slope, &s->damp, &s->alpha, &s->beta};
    double **by_row[] = {&s->z,    &s->w,     &s->dz,       &s->dw,
                         &s->ones, &s->right, &s->diagonal, &s->drift};
    double **by_column[] = {&s->x, &s->dx, &s->weight, &s->pull};
    s->n = n;
    s->d = d;
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        *large[i] = rs_workspace_take(space, (size_t)n, (size_t)d * sizeof(double));
    for (size_t i = 0; i < sizeof by_row / sizeof *by_row; i++)
        *by_row[i] = rs_workspace_doubles(space, n);
    for (size_t i = 0; i < sizeof by_column / sizeof *by_column; i++)
        *by_column[i] = rs_workspace_doubles(space, d);
    s->matrix = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof(double));
}

void rs_lp_interior_space(int64_t n, int64_t d, rs_workspace *space)
{
    problem s;
    take_problem(&s, n, d, space);
}

static void start_problem(problem *s)
{
    int64_t n = s->n, d = s->d;
    double inside = 0.1 * rs_sum_absolute(s->points, n * d) / (double)(n * d);
    memset(s->x, 0, (size_t)d * sizeof *s->x);
    s->t = 0;
    for (int64_t i = 0; i < n; i++) {
        double row = 0;
        for (int64_t k = 0; k < d; k++) {
            int64_t at = i * d + k;
            double r = s->points[at], length = sqrt(r * r + 4 * inside * inside);
            /* The root with the cancelling sign from the product pq = inside². */
            double large = (fabs(r) + length) / 2, small = inside * inside / large;
            s->p[at] = r >= 0 ? large : small;
            s->q[at] = r >= 0 ? small : large;
            s->a[at] = s->b[at] = 1 / (double)n;
            row += length;
        }
        s->w[i] = 1 / (double)n;
        s->z[i] = row;
        s->t = fmax(s->t, row);
    }
    s->t *= 1.1;
    for (int64_t i = 0; i < n; i++)
        s->z[i] = s->t - s->z[i];
}

/* D, Γ/√S, √S, E and the Cholesky factor of the system; solves it for the right side 1. */
static bool factorise(problem *s)
{
    int64_t n = s->n, d = s->d;
    memset(s->weight, 0, (size_t)d * sizeof *s->weight);
    for (int64_t i = 0; i < n; i++) {
        double diagonal = s->z[i] / s->w[i], row = 0;
        for (int64_t k = 0; k < d; k++) {
            int64_t at = i * d + k;
            double alpha = s->p[at] / s->a[at], beta = s->q[at] / s->b[at];
            double damp = 1 / (alpha + beta);
            s->alpha[at] = alpha;
            s->beta[at] = beta;
            s->damp[at] = damp;
            s->slope[at] = (alpha - beta) * damp;
            s->weight[k] += damp;
            diagonal += 4 * alpha * (beta * damp);
            row += s->p[at] + s->q[at];
        }
        s->diagonal[i] = diagonal;
        s->drift[i] = (s->t - row) - s->z[i];
    }
    for (int64_t k = 0; k < d; k++)
        s->weight[k] = sqrt(s->weight[k]);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < d; k++)
            s->slope[i * d + k] /= s->weight[k];
        s->ones[i] = 1;
    }
    /* Near the optimum E spans many orders of magnitude and rounding can take definiteness away: a
     * little more on the diagonal shortens the step but keeps it a step of ascent. Feasibility does
     * not depend on it, and both bounds are taken from x and y themselves. */
    blasint m = (blasint)n;
    for (double more = 0; more<REGULARISED; more = more> 0 ? 100 * more : LEAST_REGULARISED) {
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, m, (blasint)d, 1, s->slope, (blasint)d,
                    0, s->matrix, m);
        for (int64_t i = 0; i < n; i++)
            s->matrix[i * n + i] = (s->matrix[i * n + i] + s->diagonal[i]) * (1 + more);
        if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', m, s->matrix, m) != 0) continue;
        LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'L', m, 1, s->matrix, m, s->ones, m);
        return true;
    }
    return false;
}

/* What rounding has made of X − x = p − q at one entry: the next step takes it back. */
static double drift(const problem *s, int64_t at, int64_t k)
{
    return (s->points[at] - s->x[k]) - (s->p[at] - s->q[at]);
}

/* The right side r and h from the targets in dp, dq, dz; dp and dq become ρ_p and ρ_q. */
static void right_side(problem *s)
{
    int64_t n = s->n, d = s->d;
    memset(s->pull, 0, (size_t)d * sizeof *s->pull);
    for (int64_t i = 0; i < n; i++) {
        double sum = s->dz[i] / s->w[i] - s->drift[i];
        for (int64_t k = 0; k < d; k++) {
            int64_t at = i * d + k;
            double rho_p = s->dp[at] / s->a[at], rho_q = s->dq[at] / s->b[at];
            double push = rho_p - rho_q - drift(s, at, k);
            s->dp[at] = rho_p;
            s->dq[at] = rho_q;
            sum += rho_p + rho_q - s->slope[at] * s->weight[k] * push;
            s->pull[k] += s->damp[at] * push;
        }
        s->right[i] = sum;
    }
    for (int64_t k = 0; k < d; k++)
        s->dx[k] = s->pull[k] / s->weight[k];
    for (int64_t i = 0; i < n; i++)
        s->right[i] += rs_dot(s->slope + i * d, s->dx, d);
}

/* The step that moves pa, qb, zw by the targets held in dp, dq, dz, which it overwrites. */
static void solve_problem(problem *s)
{
    int64_t n = s->n, d = s->d;
    blasint m = (blasint)n;
    right_side(s);
    LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'L', m, 1, s->matrix, m, s->right, m);
    s->dt = rs_sum(s->right, n) / rs_sum(s->ones, n);
    memset(s->dx, 0, (size_t)d * sizeof *s->dx);
    for (int64_t i = 0; i < n; i++) {
        s->dw[i] = s->right[i] - s->dt * s->ones[i];
        for (int64_t k = 0; k < d; k++)
            s->dx[k] += s->slope[i * d + k] * s->dw[i];
    }
    for (int64_t k = 0; k < d; k++)
        s->dx[k] = (s->dx[k] - s->pull[k] / s->weight[k]) / s->weight[k];
    for (int64_t i = 0; i < n; i++) {
        s->dz[i] = (s->dz[i] - s->z[i] * s->dw[i]) / s->w[i];
        for (int64_t k = 0; k < d; k++) {
            int64_t at = i * d + k;
            double rho_p = s->dp[at], rho_q = s->dq[at];
            double dy = s->slope[at] * s->weight[k] * s->dw[i] -
                        s->damp[at] * (s->dx[k] + rho_p - rho_q - drift(s, at, k));
            s->da[at] = s->dw[i] - dy;
            s->db[at] = s->dw[i] + dy;
            s->dp[at] = rho_p - s->alpha[at] * s->da[at];
            s->dq[at] = rho_q - s->beta[at] * s->db[at];
        }
    }
}

/* The largest step ≤ 1 that keeps value + step·change ≥ 0. */
static double room(const double *value, const double *change, int64_t n)
{
    double step = 1;
    for (int64_t i = 0; i < n; i++)
        if (value[i] + step * change[i] < 0) step = -value[i] / change[i];
    return step;
}

static void lengths(const problem *s, double *primal, double *dual)
{
    int64_t all = s->n * s->d;
    *primal = fmin(room(s->z, s->dz, s->n), fmin(room(s->p, s->dp, all), room(s->q, s->dq, all)));
    *dual = fmin(room(s->w, s->dw, s->n), fmin(room(s->a, s->da, all), room(s->b, s->db, all)));
}

/* Σ (u + step_u du)(v + step_v dv). */
static double product_after(const double *u, const double *du, double step_u, const double *v,
                            const double *dv, double step_v, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (u[i] + step_u * du[i]) * (v[i] + step_v * dv[i]);
    return sum;
}

/* Predictor: targets −pa, −qb, −zw. Returns Mehrotra's centring target σμ, and in `short_of` the
 * product of its step lengths. */
static double predict(problem *s, double *short_of)
{
    int64_t n = s->n, all = n * s->d;
    double count = 2 * (double)all + (double)n, primal, dual;
    double now = rs_dot(s->p, s->a, all) + rs_dot(s->q, s->b, all) + rs_dot(s->z, s->w, n);
    for (int64_t i = 0; i < all; i++) {
        s->dp[i] = -s->p[i] * s->a[i];
        s->dq[i] = -s->q[i] * s->b[i];
    }
    for (int64_t i = 0; i < n; i++)
        s->dz[i] = -s->z[i] * s->w[i];
    solve_problem(s);
    lengths(s, &primal, &dual);
    double after = product_after(s->p, s->dp, primal, s->a, s->da, dual, all) +
                   product_after(s->q, s->dq, primal, s->b, s->db, dual, all) +
                   product_after(s->z, s->dz, primal, s->w, s->dw, dual, n);
    double ratio = after / now;
    *short_of = primal * dual;
    return ratio * ratio * ratio * now / count;
}

/* Corrector: targets σμ − pa − θ ΔpΔa and so on, with the predictor's steps and the share θ of the
 * products that steps of those lengths would have made (Colombo and Gondzio, Comput. Optim. Appl.
 * 41, 2008): the whole product of a step that can only be taken a tenth of the way throws the
 * corrector against the boundary, and the method stalls. */
static void correct(problem *s, double target, double share)
{
    int64_t n = s->n, all = n * s->d;
    for (int64_t i = 0; i < all; i++) {
        s->dp[i] = target - s->p[i] * s->a[i] - share * s->dp[i] * s->da[i];
        s->dq[i] = target - s->q[i] * s->b[i] - share * s->dq[i] * s->db[i];
    }
    for (int64_t i = 0; i < n; i++)
        s->dz[i] = target - s->z[i] * s->w[i] - share * s->dz[i] * s->dw[i];
    solve_problem(s);
}

static void add_scaled(double *value, double step, const double *change, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        value[i] += step * change[i];
}

static void advance(problem *s)
{
    int64_t all = s->n * s->d;
    double primal, dual;
    lengths(s, &primal, &dual);
    primal = primal < 1 ? primal * TO_BOUNDARY : 1;
    dual = dual < 1 ? dual * TO_BOUNDARY : 1;
    add_scaled(s->x, primal, s->dx, s->d);
    add_scaled(s->p, primal, s->dp, all);
    add_scaled(s->q, primal, s->dq, all);
    add_scaled(s->z, primal, s->dz, s->n);
    s->t += primal * s->dt;
    add_scaled(s->w, dual, s->dw, s->n);
    add_scaled(s->a, dual, s->da, all);
    add_scaled(s->b, dual, s->db, all);
}

/* ⟨X, y⟩/Σ_i max_k |y_ik|, which bounds the radius from below for every y whose columns sum to
 * zero, as these do. */
static double lower(const problem *s)
{
    double value = 0, weights = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const double *a = s->a + i * s->d, *b = s->b + i * s->d, *row = s->points + i * s->d;
        double most = 0, sum = 0;
        for (int64_t k = 0; k < s->d; k++) {
            double y = (b[k] - a[k]) / 2;
            most = fmax(most, fabs(y));
            sum += y * row[k];
        }
        value += sum;
        weights += most;
    }
    return weights > 0 ? value / weights : 0;
}

void rs_lp_interior(rs_lp_ball *ball, rs_workspace space)
{
    problem s;
    rs_lp_centre *found = &ball->found;
    take_problem(&s, ball->n, ball->d, &space);
    s.points = ball->points;
    start_problem(&s);
    rs_lp_offer_centre(ball, s.x, NULL);
    /* Steps since the gap was last halved: rounding ends the progress before the limit does. */
    double halved = INFINITY;
    for (int step = 0, idle = 0; step < MOST_ITERATIONS && idle < PATIENCE; step++) {
        if (rs_lp_closed(ball) || !factorise(&s)) break;
        double share, target = predict(&s, &share);
        correct(&s, target, share);
        advance(&s);
        found->iterations++;
        double below = lower(&s), gap = rs_lp_offer_centre(ball, s.x, NULL) - below;
        rs_lp_offer_lower(ball, below);
        idle = gap <= halved / 2 ? 0 : idle + 1;
        halved = idle == 0 ? gap : halved;
    }
}
