/*
 * softmax_cross.c: the product of two rows of attention, by a double integral
 * (docs/theory/mean_field.md, 2). With t = e^u, t' = e^u' and (m, m') of correlation rho,
 *
 *     E Σ_j A_j B_j = n ∫∫ E[e^{u+m} h(u+m) e^{u'+m'} h(u'+m')] (E h(u+m) h(u'+m'))^{n−1} du du'.
 *
 * m and m' share a part y of variance |rho| c, with the sign of rho: given y they are independent, so
 * that both expectations are products of matrices over (u, y) and (u', y).
 */
#include "predict/softmax_moments.h"

#include "base/memory.h"
#include "linalg/vector.h"

#include <math.h>

#define STEP 0.25
#define REACH 8.9
#define LEFT                                                                                       \
    34.0 /* of the integrand, which falls like e^u in either variable, e^−LEFT is left out */
#define RIGHT 4.5
#define MOST 36.0 /* c: the mesh grows like its square root, and the work like c^1.5 */

/* Equal steps of a standard normal, fine enough for functions of deviation·z that change over STEP. */
typedef struct normal_nodes {
    int half;
    double step, total;
} normal_nodes;

static normal_nodes nodes_for(double deviation)
{
    normal_nodes nodes = {.step = fmin(0.7, STEP / deviation)};
    nodes.half = (int)ceil(REACH / nodes.step);
    for (int k = -nodes.half; k <= nodes.half; k++)
        nodes.total += exp(-(k * nodes.step) * (k * nodes.step) / 2);
    return nodes;
}

static double node_weight(const normal_nodes *nodes, int k)
{
    return exp(-(k * nodes->step) * (k * nodes->step) / 2) / nodes->total;
}

/* Matrices over (u, y): 1 − h and e^w h averaged over what m does not share; [points, width]. */
typedef struct rows {
    int points, width;
    double first;
    double *hidden, *growth;           /* at u + y */
    double *hidden_twin, *growth_twin; /* at u ± y, times the weight of y */
    double *mean;                      /* [points]: 1 − E h */
} rows;

/* 1 − E h(u + s z) and E e^w h(w) there. */
static void smooth(double *hidden, double *growth, double u, double s, const normal_nodes *z)
{
    *hidden = *growth = 0;
    for (int k = -z->half; k <= z->half; k++) {
        double rate = exp(u + s * k * z->step), weight = node_weight(z, k);
        *hidden -= weight * expm1(-rate);
        *growth += weight * rate * exp(-rate);
    }
}

static void fill_rows(rows *r, double own, double shared, double sign, const normal_nodes *y)
{
    normal_nodes z = nodes_for(own);
    for (int i = 0; i < r->points; i++) {
        r->mean[i] = 0;
        for (int k = 0; k < r->width; k++) {
            int64_t at = (int64_t)i * r->width + k;
            smooth(&r->hidden[at], &r->growth[at],
                   r->first + i * STEP + shared * (k - y->half) * y->step, own, &z);
        }
        for (int k = 0; k < r->width; k++) {
            int twin = sign < 0 ? r->width - 1 - k : k;
            double weight = node_weight(y, k - y->half);
            int64_t at = (int64_t)i * r->width;
            r->hidden_twin[at + k] = weight * r->hidden[at + twin];
            r->growth_twin[at + k] = weight * r->growth[at + twin];
            r->mean[i] += weight * r->hidden[at + k];
        }
    }
}

static double integrate(const rows *r, double n)
{
    double sum = 0;
    for (int i = 0; i < r->points; i++) {
        const double *hidden = r->hidden + (int64_t)i * r->width;
        const double *growth = r->growth + (int64_t)i * r->width;
        for (int j = 0; j < r->points; j++) {
            int64_t at = (int64_t)j * r->width;
            double both = rs_dot(hidden, r->hidden_twin + at, r->width);
            double lost = fmin(r->mean[i] + r->mean[j] - both, 1);
            double others = exp((n - 1) * log1p(-lost));
            if (others > 0) sum += others * rs_dot(growth, r->growth_twin + at, r->width);
        }
    }
    return n * sum * STEP * STEP;
}

rs_status rs_softmax_cross_moment(double *out, double n, double c, double rho, rs_error *err)
{
    *out = NAN;
    if (!(n >= 1) || !(c >= 0 && c <= MOST) || !(fabs(rho) <= 1)) return RS_OK;
    if (n == 1 || c == 0 || rho == 0) {
        *out = 1 / n;
        return RS_OK;
    }
    double shared = sqrt(fabs(rho) * c), own = sqrt((1 - fabs(rho)) * c);
    double low = -log(n) - REACH * sqrt(c) - LEFT, high = RIGHT + REACH * sqrt(c);
    normal_nodes y = nodes_for(shared);
    rows r = {.points = (int)ceil((high - low) / STEP) + 1, .width = 2 * y.half + 1, .first = low};
    size_t size = (size_t)r.points * (size_t)r.width;
    double *block = rs_malloc(4 * size + (size_t)r.points, sizeof *block);
    if (!block) return rs_fail_memory(err, "moments of a softmax", 4 * size * sizeof *block);
    r.hidden = block;
    r.growth = block + size;
    r.hidden_twin = block + 2 * size;
    r.growth_twin = block + 3 * size;
    r.mean = block + 4 * size;
    fill_rows(&r, own, shared, rho, &y);
    *out = integrate(&r, n);
    rs_free(block);
    return RS_OK;
}
