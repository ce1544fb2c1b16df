/* trials_input.c: the sample of a trial, and seeds of what it draws elsewhere. */
#include "network/arch.h"
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

rs_status rs_trials_input(double *states, int64_t d, const rs_theory_input *input, uint64_t seed,
                          int32_t trial, rs_error *err)
{
    int64_t n = input->n, most = n > 1 ? n * d : d;
    const rs_arch like = {
        .d_model = d, .seq_len = n, .input_rho = input->rho, .input_norm2 = input->norm2};
    if (input->rho < 0 && n > 1) return rs_arch_input(states, &like, seed, trial, err);
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
    together(states, shared, d, &(rs_theory_input){n, input->norm2, fmax(0, input->rho)});
    rs_free(drawn);
    rs_free(shared);
    return RS_OK;
}
