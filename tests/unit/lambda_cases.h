/* lambda_cases.h: layers made from a vector of free numbers, their measures in long double, and a
 * search that tries to break an inequality: random starts, then hill climbing on left/right. */
#ifndef RS_TEST_LAMBDA_CASES_H
#define RS_TEST_LAMBDA_CASES_H

#include "proof/lambda.h"
#include "property.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 6, MAX_D = 6, MAX_FREE = 128 };
typedef long double real;

static uint64_t lambda_seed = 0x9e3779b97f4a7c15u;

static inline double uniform(void)
{
    lambda_seed ^= lambda_seed << 13;
    lambda_seed ^= lambda_seed >> 7;
    lambda_seed ^= lambda_seed << 17;
    return (double)(lambda_seed >> 11) * 0x1p-53;
}

static inline double normal(void)
{
    return sqrt(-2 * log(uniform() + 1e-300)) * cos(6.283185307179586 * uniform());
}

/* ---- measures in long double ---- */

static inline real mu_of(const real *y, int n, int d)
{
    real sum = 0;
    for (int j = 0; j < d; j++) {
        real mean = 0;
        for (int i = 0; i < n; i++)
            mean += y[i * d + j] / n;
        for (int i = 0; i < n; i++)
            sum += (y[i * d + j] - mean) * (y[i * d + j] - mean);
    }
    return sqrtl(sum);
}

static inline real mu_of_doubles(const double *y, int n, int d)
{
    real copy[MAX_N * MAX_D];
    for (int i = 0; i < n * d; i++)
        copy[i] = (real)y[i];
    return mu_of(copy, n, d);
}

/* norm(row)/√d in place, by the definition of the norm. */
static inline void norm_row(real *row, int d, const rs_lambda_norm *norm)
{
    real mean = 0, square = 0;
    for (int j = 0; j < d && norm->kind == RS_LAMBDA_LAYERNORM; j++)
        mean += row[j] / d;
    for (int j = 0; j < d; j++) {
        row[j] -= mean;
        square += row[j] * row[j];
    }
    real root = sqrtl(square / d + (real)norm->epsilon) * sqrtl((real)d);
    for (int j = 0; j < d; j++)
        row[j] = (root > 0 ? row[j] / root : 0) * (norm->gain ? (real)norm->gain[j] : 1);
}

/* Y = norm(λX + O)/√d, or λX + O without a norm. */
static inline void apply_layer(real *y, const rs_lambda_layer *layer, real lambda)
{
    int n = (int)layer->n, d = (int)layer->d;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < d; j++)
            y[i * d + j] = lambda * (real)layer->input[i * layer->input_ld + j] +
                           (real)layer->branch[i * layer->branch_ld + j];
        if (layer->norm.kind != RS_LAMBDA_NO_NORM) norm_row(y + i * d, d, &layer->norm);
    }
}

static inline real mu_after(const rs_lambda_layer *layer, real lambda)
{
    real y[MAX_N * MAX_D];
    apply_layer(y, layer, lambda);
    return mu_of(y, (int)layer->n, (int)layer->d);
}

/* How far a ratio of μ's can be off in the oracle: rounding of what is added up,
 * over what is left. */
static inline double oracle_slack(const rs_lambda_layer *layer, real lambda, real left)
{
    real size = 0;
    for (int64_t i = 0; i < layer->n * layer->d; i++)
        size += fabsl(lambda * (real)layer->input[i]) + fabsl((real)layer->branch[i]);
    return (double)(1e-15L + 1e-18L * size / left);
}

/* ---- layers made of free numbers ---- */

typedef struct trial {
    int n, d;
    const double *free; /* [MAX_FREE] roughly normal */
    int used;
} trial;

static inline double take(trial *t)
{
    return t->free[t->used++ % MAX_FREE];
}

/* In (low, high). */
static inline double take_between(trial *t, double low, double high)
{
    return low + (high - low) / (1 + exp(-2 * take(t)));
}

static inline double take_scale(trial *t, double low, double high)
{
    return exp(take_between(t, log(low), log(high)));
}

typedef struct made_layer {
    double x[MAX_N * MAX_D], o[MAX_N * MAX_D], gain[MAX_D];
    rs_lambda_layer layer;
} made_layer;

/* Tokens around one direction; unit_rows: on the sphere of radius √d. The branch is a mixture of
 * what undoes the differences, what adds to the mean, a common vector and noise. */
static inline void make_layer(made_layer *m, trial *t, bool unit_rows)
{
    int n = t->n, d = t->d;
    double common[MAX_D], other[MAX_D], mean[MAX_D] = {0};
    double spread = take_scale(t, 1e-3, 30), undo = take(t), along = take(t);
    double shared = take(t), noise = take(t) * take_between(t, 0, 1);
    for (int j = 0; j < d; j++)
        common[j] = take(t) + (j == 0);
    for (int j = 0; j < d; j++)
        other[j] = take(t);
    for (int i = 0; i < n; i++) {
        double square = 0;
        for (int j = 0; j < d; j++) {
            m->x[i * d + j] = common[j] + spread * take(t);
            square += m->x[i * d + j] * m->x[i * d + j];
        }
        double scale = sqrt(d / square);
        for (int j = 0; j < d; j++) {
            if (unit_rows) m->x[i * d + j] *= scale;
            mean[j] += m->x[i * d + j] / n;
        }
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < d; j++)
            m->o[i * d + j] = undo * (mean[j] - m->x[i * d + j]) + along * mean[j] +
                              shared * other[j] + noise * take(t);
    }
    m->layer = (rs_lambda_layer){
        .input = m->x, .branch = m->o, .n = n, .d = d, .input_ld = d, .branch_ld = d};
}

/* A norm of either kind; plain: gain 1 and ε = 0. */
static inline void make_norm(made_layer *m, trial *t, bool plain)
{
    rs_lambda_norm *norm = &m->layer.norm;
    norm->kind = take(t) > 0 && t->d > 2 ? RS_LAMBDA_LAYERNORM : RS_LAMBDA_RMSNORM;
    double kind = take(t), epsilon = take(t);
    for (int j = 0; j < t->d; j++)
        m->gain[j] = 1 + 0.7 * take(t);
    norm->gain = plain || kind < 0 ? NULL : m->gain;
    norm->epsilon = plain || epsilon < 0 ? 0 : take_scale(t, 1e-12, 1);
}

/* ---- the search ---- */

/* left/right of an inequality left ≤ right for one trial; NaN: the hypotheses fail. */
typedef double (*ratio_function)(trial *t);

typedef struct searched {
    double largest; /* the largest ratio */
    int64_t trials; /* that met the hypotheses */
    int64_t broken; /* with a ratio above 1 */
} searched;

static inline double try_one(searched *all, ratio_function ratio, int n, int d, const double *free)
{
    trial t = {n, d, free, 0};
    double found = ratio(&t);
    if (isnan(found)) return -1;
    all->trials++;
    all->broken += found > 1;
    property_worst(found);
    if (found > all->largest) all->largest = found;
    return found;
}

/* `starts` random starts (instances of the property, from seed `seed` on), each followed by `steps`
 * steps of a walk that only goes up, its step size adapted to how often it succeeds. until_broken:
 * the first violation is enough. */
static inline searched search_ratio(ratio_function ratio, uint64_t seed, int starts, int steps,
                                    bool until_broken)
{
    searched all = {0};
    for (int s = property_start(starts, seed); property_next(&s);) {
        if (until_broken && all.broken) continue;
        lambda_seed = property_bits() | 1;
        int n = 2 + (int)(uniform() * (MAX_N - 1)), d = 1 + (int)(uniform() * MAX_D);
        if (s % 4) n = 2, d = 2 + s / 4 % 2; /* small enough for the walk to get far */
        double here[MAX_FREE], there[MAX_FREE], size = 0.5;
        for (int k = 0; k < MAX_FREE; k++)
            here[k] = normal();
        double best = try_one(&all, ratio, n, d, here);
        for (int step = 0; step < steps; step++) {
            memcpy(there, here, sizeof there);
            bool all_at_once = uniform() < 0.3;
            for (int k = 0; k < MAX_FREE; k++) {
                if (all_at_once || uniform() < 0.1) there[k] += size * normal();
            }
            double found = try_one(&all, ratio, n, d, there);
            size *= found > best ? 1.6 : 0.93;
            if (size < 1e-6) size = 0.5;
            if (found >= best) {
                best = found;
                memcpy(here, there, sizeof here);
            }
        }
    }
    return all;
}

#endif
