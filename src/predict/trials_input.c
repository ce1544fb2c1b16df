/* trials_input.c: the sample of a trial, and seeds of what it draws elsewhere. */
#include "predict/trials.h"
#include "predict/trials_draw.h"

#include "base/memory.h"

#include <float.h>
#include <math.h>

/* Roles of these streams lie behind those of weights. */
enum { TOKENS_ROLE = 1 << 20, SHARED_ROLE };

uint64_t rs_trials_seed(uint64_t seed, int32_t trial)
{
    /* splitmix64 (Steele, Lea, Flood, OOPSLA 2014) */
    uint64_t x = seed + ((uint64_t)trial + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void scale_to(double *x, double length, int64_t n)
{
    double factor = length / sqrt(dot(x, x, n));
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* x -= (x·u) u for a unit vector u; twice, so that rounding leaves nothing. */
static void orthogonalise(double *x, const double *u, int64_t n)
{
    for (int pass = 0; pass < 2; pass++) {
        double along = dot(x, u, n);
        for (int64_t i = 0; i < n; i++)
            x[i] -= along * u[i];
    }
}

/* Tokens sqrt(rho) u + sqrt(1 - rho) v. */
static void together(double *states, double *shared, int64_t d, const rs_theory_input *input)
{
    double rho = input->rho;
    scale_to(shared, 1, d);
    for (int64_t k = 0; k < input->n; k++) {
        double *x = states + k * d;
        if (rho > 0 && rho < 1 && d > 1) orthogonalise(x, shared, d);
        if (rho < 1) scale_to(x, sqrt(1 - rho), d);
        for (int64_t i = 0; i < d; i++)
            x[i] = rho < 1 ? x[i] + sqrt(rho) * shared[i] : shared[i];
        scale_to(x, sqrt(input->norm2), d);
    }
}

/* Tokens about their mean, which is brought to the length that makes ‖1ᵀX‖² what rho says. */
static void apart(double *states, double *mean, int64_t d, const rs_theory_input *input)
{
    int64_t n = input->n;
    double count = (double)n, all = count * input->norm2;
    double share = 1 + (count - 1) * input->rho;
    double sum = share > count * DBL_EPSILON ? all * share : 0; /* ‖1ᵀX‖² */
    for (int64_t i = 0; i < d; i++) {
        mean[i] = 0;
        for (int64_t k = 0; k < n; k++)
            mean[i] += states[k * d + i] / count;
        for (int64_t k = 0; k < n; k++)
            states[k * d + i] -= mean[i];
    }
    scale_to(states, sqrt(all - sum / count), n * d);
    scale_to(mean, sqrt(sum) / count, d);
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < d; i++)
            states[k * d + i] += mean[i];
}

rs_status rs_trials_input(double *states, int64_t d, const rs_theory_input *input, uint64_t seed,
                          int32_t trial, rs_error *err)
{
    int64_t n = input->n, most = n > 1 ? n * d : d;
    rs_trials_stream stream = {seed, (uint32_t)trial, TOKENS_ROLE, 0};
    float *drawn = rs_malloc((size_t)most, sizeof *drawn);
    double *shared = rs_malloc((size_t)d, sizeof *shared);
    if (!drawn || !shared) {
        rs_free(drawn);
        rs_free(shared);
        return rs_fail_memory(err, "a sample", (size_t)most * sizeof *drawn);
    }
    rs_trials_normals(drawn, &stream, n * d, 0, 1);
    for (int64_t i = 0; i < n * d; i++)
        states[i] = (double)drawn[i];
    stream.role = SHARED_ROLE;
    rs_trials_normals(drawn, &stream, d, 0, 1);
    for (int64_t i = 0; i < d; i++)
        shared[i] = (double)drawn[i];
    if (input->rho >= 0 || n == 1)
        together(states, shared, d, &(rs_theory_input){n, input->norm2, fmax(0, input->rho)});
    else
        apart(states, shared, d, input);
    rs_free(drawn);
    rs_free(shared);
    return RS_OK;
}
