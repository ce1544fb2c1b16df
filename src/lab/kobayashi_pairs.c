/* kobayashi_pairs.c: small factors, their losses, descent, flow and spectra. */
#include "lab/kobayashi_pairs.h"

#include "lab/toy.h"
#include "linalg/spectrum.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

void rs_pair_draw(rs_factor_pair *p, double scale, rs_random *random)
{
    rs_draw_gaussian(p->a, p->m * p->r, scale, random);
    rs_draw_gaussian(p->b, p->n * p->r, scale, random);
}

void rs_pair_product(double *w, const rs_factor_pair *p)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < p->r; k++)
                sum += p->a[i * p->r + k] * p->b[j * p->r + k];
            w[i * p->n + j] = sum;
        }
}

/* Both triangles of AᵀA and BᵀB. */
static void grams_of(double *x, double *y, const rs_factor_pair *p)
{
    memset(x, 0, RS_PAIR_GRAM * sizeof *x);
    memset(y, 0, RS_PAIR_GRAM * sizeof *y);
    rs_gram_add_cols(x, p->a, p->m, p->r, p->r);
    rs_gram_add_cols(y, p->b, p->n, p->r, p->r);
    rs_gram_symmetrise(x, p->r);
    rs_gram_symmetrise(y, p->r);
}

void rs_pair_balance(double *q, const rs_factor_pair *p)
{
    double y[RS_PAIR_GRAM];
    grams_of(q, y, p);
    for (int64_t i = 0; i < p->r * p->r; i++)
        q[i] -= y[i];
}

/* ---- losses ---- */

const char *const rs_matrix_loss_names[3] = {"square", "logistic", "wavy"};

/* The loss of one entry, and its slope. */
static double entry(double *slope, rs_matrix_loss_kind kind, double w, double d)
{
    if (kind == RS_MATRIX_LOGISTIC) {
        double z = -d * w;
        *slope = -d / (1 + exp(-z));
        return z > 0 ? z + log1p(exp(-z)) : log1p(exp(z));
    }
    double by = w - d, wave = kind == RS_MATRIX_WAVY ? 0.5 : 0;
    *slope = by + 3 * wave * cos(3 * w);
    return by * by / 2 + wave * sin(3 * w);
}

double rs_matrix_loss_at(double *g, const rs_matrix_loss *loss, const double *w)
{
    double sum = 0;
    for (int64_t i = 0; i < loss->m * loss->n; i++) {
        double slope;
        sum += entry(&slope, loss->kind, w[i], loss->d[i]);
        if (g) g[i] = slope;
    }
    return sum;
}

/* dL/dA = G B, dL/dB = Gᵀ A. */
static double run_matrix(double *by_a, double *by_b, const rs_factor_pair *p, const void *user)
{
    double w[RS_PAIR_W] = {0}, g[RS_PAIR_W];
    rs_pair_product(w, p);
    double value = rs_matrix_loss_at(g, user, w);
    for (int64_t i = 0; i < p->m && by_a; i++)
        for (int64_t j = 0; j < p->n; j++)
            for (int64_t k = 0; k < p->r; k++) {
                by_a[i * p->r + k] += g[i * p->n + j] * p->b[j * p->r + k];
                by_b[j * p->r + k] += g[i * p->n + j] * p->a[i * p->r + k];
            }
    return value;
}

rs_pair_loss rs_pair_loss_of(const rs_matrix_loss *loss)
{
    return (rs_pair_loss){run_matrix, loss};
}

/* ---- motion ---- */

static double squares(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

double rs_pair_gradient(double *by_a, double *by_b, const rs_factor_pair *p,
                        const rs_pair_loss *loss, double decay)
{
    for (int64_t i = 0; i < p->m * p->r; i++)
        by_a[i] = decay * p->a[i];
    for (int64_t i = 0; i < p->n * p->r; i++)
        by_b[i] = decay * p->b[i];
    loss->run(by_a, by_b, p, loss->user);
    return sqrt(squares(by_a, p->m * p->r) + squares(by_b, p->n * p->r));
}

double rs_pair_value(const rs_factor_pair *p, const rs_pair_loss *loss, double decay)
{
    return loss->run(NULL, NULL, p, loss->user) +
           decay / 2 * (squares(p->a, p->m * p->r) + squares(p->b, p->n * p->r));
}

/* Adds `step` times a direction. */
static void move(rs_factor_pair *p, const double *a, const double *b, double step)
{
    for (int64_t i = 0; i < p->m * p->r; i++)
        p->a[i] += step * a[i];
    for (int64_t i = 0; i < p->n * p->r; i++)
        p->b[i] += step * b[i];
}

double rs_pair_descend(rs_factor_pair *p, const rs_pair_loss *loss, double decay, double rate,
                       double least, int64_t steps)
{
    double a[RS_PAIR_A], b[RS_PAIR_B], norm = rs_pair_gradient(a, b, p, loss, decay);
    for (int64_t t = 0; t < steps && norm > least; t++) {
        move(p, a, b, -rate);
        norm = rs_pair_gradient(a, b, p, loss, decay);
    }
    return norm;
}

double rs_pair_decay_at(const rs_pair_decay *decay, double t)
{
    return decay->mean + decay->swing * sin(decay->pace * t);
}

double rs_pair_decay_until(const rs_pair_decay *decay, double t)
{
    double swung = decay->pace != 0 ? (1 - cos(decay->pace * t)) / decay->pace : 0;
    return decay->mean * t + decay->swing * swung;
}

void rs_pair_flow(rs_factor_pair *p, const rs_pair_loss *loss, const rs_pair_decay *decay,
                  double from, double to, int steps)
{
    static const double part[4] = {0, 0.5, 0.5, 1},
                        weight[4] = {1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};
    const double h = (to - from) / steps;
    for (int t = 0; t < steps; t++) {
        const rs_factor_pair start = *p;
        double a[RS_PAIR_A] = {0}, b[RS_PAIR_B] = {0};
        for (int k = 0; k < 4; k++) { /* a, b: the slope that the part before found */
            rs_factor_pair at = start;
            move(&at, a, b, -h * part[k]);
            rs_pair_gradient(a, b, &at, loss, rs_pair_decay_at(decay, from + h * (t + part[k])));
            move(p, a, b, -h * weight[k]);
        }
    }
}

/* ---- what is seen ---- */

rs_status rs_pair_see(rs_pair_seen *seen, const rs_factor_pair *p, rs_error *err)
{
    rs_factor_pair copy = *p;
    double x[RS_PAIR_GRAM], y[RS_PAIR_GRAM], values[RS_PAIR_WIDTH];
    double work[4096];
    *seen = (rs_pair_seen){0};
    RS_TRY(rs_factor_spectrum(seen->sigma, copy.a, p->m, copy.b, p->n, p->r, err));
    for (int64_t k = 0; k < p->r; k++)
        seen->nuclear += seen->sigma[k];
    grams_of(x, y, p);
    rs_gram_compare(&seen->grams, x, y, p->r);
    seen->gap = seen->grams.half_norm - seen->nuclear;
    for (int64_t i = 0; i < p->r * p->r; i++)
        seen->q[i] = x[i] - y[i];
    memcpy(x, seen->q, sizeof x);
    if (rs_eigenvalue_work(p->r) > sizeof work / sizeof *work)
        return rs_fail(err, RS_E_INTERNAL, "eigenvalues", NULL, "their work does not fit");
    RS_TRY(rs_symmetric_eigenvalues(values, x, p->r, work, err));
    rs_gap_bracket(seen->bracket, values, p->r, seen->grams.half_norm, seen->nuclear);
    return RS_OK;
}

rs_status rs_small_svd(double *u, double *s, double *vt, const double *w, int64_t m, int64_t n,
                       rs_error *err)
{
    double copy[RS_PAIR_W];
    int64_t k = m < n ? m : n;
    memcpy(copy, w, (size_t)(m * n) * sizeof *copy);
    lapack_int info = LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'S', (lapack_int)m, (lapack_int)n, copy,
                                     (lapack_int)n, s, u, (lapack_int)k, vt, (lapack_int)n);
    return info == 0 ? RS_OK
                     : rs_fail(err, RS_E_INTERNAL, "dgesdd", NULL,
                               "the singular value decomposition failed (%d)", (int)info);
}

/* p's factors of cut rank from w - step g; w becomes their product. Returns its largest change. */
static rs_status step_nuclear(double *change, double *w, rs_factor_pair *p, const double *g,
                              double step, double decay, rs_error *err)
{
    double to[RS_PAIR_W], u[RS_PAIR_W], s[RS_PAIR_COLS], vt[RS_PAIR_W];
    int64_t width = p->m < p->n ? p->m : p->n;
    for (int64_t i = 0; i < p->m * p->n; i++)
        to[i] = w[i] - step * g[i];
    RS_TRY(rs_small_svd(u, s, vt, to, p->m, p->n, err));
    for (int64_t k = 0; k < p->r; k++) {
        double root = sqrt(fmax(s[k] - step * decay, 0));
        for (int64_t i = 0; i < p->m; i++)
            p->a[i * p->r + k] = u[i * width + k] * root;
        for (int64_t j = 0; j < p->n; j++)
            p->b[j * p->r + k] = vt[k * p->n + j] * root;
    }
    rs_pair_product(to, p);
    *change = 0;
    for (int64_t i = 0; i < p->m * p->n; i++) {
        *change = fmax(*change, fabs(to[i] - w[i]));
        w[i] = to[i];
    }
    return RS_OK;
}

rs_status rs_pair_minimise_nuclear(rs_factor_pair *p, const rs_matrix_loss *loss, double decay,
                                   double step, rs_random *random, rs_error *err)
{
    enum { STEPS = 4000 };
    double w[RS_PAIR_W], g[RS_PAIR_W], change = 1;
    rs_draw_gaussian(w, p->m * p->n, 1, random);
    for (int t = 0; t < STEPS && change > 1e-15; t++) {
        rs_matrix_loss_at(g, loss, w);
        RS_TRY(step_nuclear(&change, w, p, g, step, decay, err));
    }
    return RS_OK;
}
