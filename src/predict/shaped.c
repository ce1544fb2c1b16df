/* shaped.c: the stochastic differential equation of shaped attention (docs/theory/mean_field.md, 10). */
#include "predict/shaped.h"

#include "base/memory.h"
#include "base/random.h"
#include "base/sort.h"

#include <inttypes.h>
#include <math.h>

enum { PATHS_MOST = 100000, STEPS_MOST = 1000000 };
#define EXPLODED 50.0

static const double PI = 3.14159265358979323846;

void rs_shaped_drift(double *drift, const rs_shaped *shaped, const double *v)
{
    int64_t m = shaped->m;
    double mean[RS_SHAPED_TOKENS], second[RS_SHAPED_TOKENS], moved[RS_SHAPED_TOKENS];
    double all = 0, trace = 0, first = 0, size = (double)m;
    for (int64_t a = 0; a < m; a++) {
        mean[a] = 0;
        for (int64_t b = 0; b < m; b++)
            mean[a] += v[a * m + b] / size;
        all += mean[a] / size;
        trace += v[a * m + a] / size;
    }
    /* Σ V ∘ centred V / m²; and S2 over V_aa */
    for (int64_t a = 0; a < m; a++) {
        second[a] = (v[a * m + a] - 2 * mean[a] + 2 * all - trace) / 2;
        for (int64_t b = 0; b < m; b++)
            first += v[a * m + b] * (v[a * m + b] - mean[a] - mean[b] + all) / (size * size);
    }
    for (int64_t b = 0; b < m; b++) {
        moved[b] = 0;
        for (int64_t a = 0; a < m; a++)
            moved[b] += v[b * m + a] * second[a] / size;
    }
    double rate = shaped->gamma2 / (shaped->tau0 * shaped->tau0);
    for (int64_t a = 0; a < m; a++) {
        for (int64_t b = 0; b < m; b++)
            drift[a * m + b] =
                rate * (v[a * m + b] * first + v[a * m + a] * moved[b] + v[b * m + b] * moved[a]);
    }
}

double rs_shaped_noise(const rs_shaped *shaped, const double *v, int64_t a, int64_t b, int64_t c,
                       int64_t d)
{
    int64_t m = shaped->m;
    double products = v[a * m + c] * v[b * m + d] + v[a * m + d] * v[b * m + c];
    return shaped->gamma2 * (2 - shaped->gamma2) * products;
}

double rs_shaped_relu_drift(double plus, double minus, double rho)
{
    double root = sqrt(fmax(1 - rho * rho, 0));
    return (plus - minus) * (plus - minus) / (2 * PI) * (root - rho * acos(rho));
}

/* ---- paths ---- */

/* V = LLᵀ; what rounding made negative is 0. false where V is no covariance. */
static bool factor(double *l, const double *v, int64_t m)
{
    for (int64_t j = 0; j < m; j++) {
        double pivot = v[j * m + j];
        for (int64_t k = 0; k < j; k++)
            pivot -= l[j * m + k] * l[j * m + k];
        if (pivot < -1e-9 * (1 + fabs(v[j * m + j]))) return false;
        double root = sqrt(fmax(pivot, 0));
        for (int64_t i = 0; i < m; i++) {
            double rest = v[i * m + j];
            for (int64_t k = 0; k < j; k++)
                rest -= l[i * m + k] * l[j * m + k];
            l[i * m + j] = i < j ? 0 : i == j ? root : root > 0 ? rest / root : 0;
        }
    }
    return true;
}

typedef struct path {
    double v[RS_SHAPED_TOKENS * RS_SHAPED_TOKENS], drift[RS_SHAPED_TOKENS * RS_SHAPED_TOKENS];
    double l[RS_SHAPED_TOKENS * RS_SHAPED_TOKENS], g[RS_SHAPED_TOKENS * RS_SHAPED_TOKENS];
} path;

/* With G of independent normals, L(G + Gᵀ)Lᵀ/√2 has the noise's covariance but for its factor. */
static void add_noise(path *p, const rs_shaped *shaped, double dt, rs_random *random)
{
    int64_t m = shaped->m;
    double scale = sqrt(shaped->gamma2 * (2 - shaped->gamma2) * dt / 2);
    rs_random_normals(random, p->g, (size_t)(m * m));
    for (int64_t i = 0; i < m; i++) {
        double row[RS_SHAPED_TOKENS];
        for (int64_t k = 0; k < m; k++) {
            row[k] = 0;
            for (int64_t j = 0; j <= i; j++)
                row[k] += p->l[i * m + j] * (p->g[j * m + k] + p->g[k * m + j]);
        }
        for (int64_t a = 0; a < m; a++) {
            double sum = 0;
            for (int64_t k = 0; k <= a; k++)
                sum += row[k] * p->l[a * m + k];
            p->v[i * m + a] += scale * sum;
        }
    }
}

/* false: the path left its bound. */
static bool run_path(path *p, const rs_shaped *shaped, const double *v0, const rs_shaped_run *run,
                     rs_random *random)
{
    int64_t size = shaped->m * shaped->m;
    double dt = run->time / run->steps;
    for (int64_t i = 0; i < size; i++)
        p->v[i] = v0[i];
    for (int32_t s = 0; s < run->steps; s++) {
        rs_shaped_drift(p->drift, shaped, p->v);
        /* a step that overshot leaves no covariance: it went beyond what a step resolves */
        if (!factor(p->l, p->v, shaped->m)) return false;
        add_noise(p, shaped, dt, random);
        for (int64_t i = 0; i < size; i++) {
            p->v[i] += dt * p->drift[i];
            if (!(fabs(p->v[i]) <= EXPLODED)) return false;
        }
    }
    return true;
}

static double median_of(double *values, int64_t n)
{
    if (n == 0) return NAN;
    rs_sort_doubles(values, n);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static rs_status check_run(const rs_shaped *shaped, const double *v0, const rs_shaped_run *run,
                           path *p, rs_error *err)
{
    if (shaped->m < 1 || shaped->m > RS_SHAPED_TOKENS)
        return rs_fail(err, RS_E_BAD_OPTION, "tokens", NULL,
                       "%" PRId64 " tokens: 1 to %d can be run", shaped->m, RS_SHAPED_TOKENS);
    if (run->paths < 1 || run->paths > PATHS_MOST || run->steps < 1 || run->steps > STEPS_MOST ||
        !(run->time >= 0))
        return rs_fail(err, RS_E_BAD_OPTION, "paths", NULL, "%d paths of %d steps to time %g",
                       (int)run->paths, (int)run->steps, run->time);
    if (!(shaped->gamma2 >= 0 && shaped->gamma2 <= 1) || !(shaped->tau0 > 0))
        return rs_fail(err, RS_E_BAD_OPTION, "gamma and tau", NULL,
                       "gamma² %g is 0 to 1, tau %g > 0", shaped->gamma2, shaped->tau0);
    if (!factor(p->l, v0, shaped->m))
        return rs_fail(err, RS_E_BAD_OPTION, "covariance", NULL, "it has a negative eigenvalue");
    return RS_OK;
}

rs_status rs_shaped_paths(double *median, int32_t *exploded, const rs_shaped *shaped,
                          const double *v0, const rs_shaped_run *run, rs_error *err)
{
    path *p = rs_malloc(1, sizeof *p);
    if (!p) return rs_fail_memory(err, "paths", sizeof *p);
    rs_status status = check_run(shaped, v0, run, p, err);
    int64_t size = status == RS_OK ? shaped->m * shaped->m : 0, kept = 0;
    double *ends = rs_malloc((size_t)size, (size_t)(size > 0 ? run->paths : 1) * sizeof *ends);
    if (status == RS_OK && !ends) status = rs_fail_memory(err, "paths", (size_t)size);
    for (int32_t k = 0; status == RS_OK && k < run->paths; k++) {
        rs_random random = rs_random_new(run->seed, (uint64_t)k);
        if (!run_path(p, shaped, v0, run, &random)) continue;
        for (int64_t i = 0; i < size; i++)
            ends[i * run->paths + kept] = p->v[i];
        kept++;
    }
    for (int64_t i = 0; status == RS_OK && i < size; i++)
        median[i] = median_of(ends + i * run->paths, kept);
    if (status == RS_OK) *exploded = run->paths - (int32_t)kept;
    rs_free(ends);
    rs_free(p);
    return status;
}
