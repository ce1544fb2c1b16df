/* arch_input.c: the law by which an architecture's tokens are drawn. */
#include "network/arch_input.h"

#include <math.h>

/* Streams of inputs lie apart from those of weights, whose first word is a role. */
#define INPUT_STREAM 0x80000000u

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

void rs_input_scale(double *x, double length, int64_t n)
{
    double factor = length / sqrt(dot(x, x, n));
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

/* Twice, so that rounding leaves nothing. */
void rs_input_orthogonalise(double *x, const double *u, int64_t n)
{
    for (int pass = 0; pass < 2; pass++) {
        double along = dot(x, u, n);
        for (int64_t i = 0; i < n; i++)
            x[i] -= along * u[i];
    }
}

rs_status rs_arch_input(double *states, const rs_arch *arch, uint64_t seed, int64_t sample,
                        rs_error *err)
{
    int64_t n = arch->seq_len, d = arch->rows ? arch->rows : arch->d_model;
    double rho = arch->input_rho, length = sqrt(arch->input_norm2);
    rs_draw stream = {seed, {INPUT_STREAM, (uint32_t)sample}};
    RS_TRY(rs_arch_input_check(arch, err));
    if (rho < 0) return rs_arch_input_apart(states, arch, &stream, err);
    double *shared = rs_malloc((size_t)d, sizeof *shared);
    if (!shared) return rs_fail_memory(err, "an input", (size_t)d * sizeof *shared);
    rs_draw_normal_f64(states, &stream, n * d, 0, 1, 1);
    stream.stream[0]++;
    rs_draw_normal_f64(shared, &stream, d, 0, 1, 1);
    rs_input_scale(shared, 1, d);
    for (int64_t k = 0; k < n; k++) {
        double *x = states + k * d;
        if (rho > 0 && rho < 1) rs_input_orthogonalise(x, shared, d);
        rs_input_scale(x, sqrt(1 - rho), d);
        for (int64_t i = 0; i < d; i++)
            x[i] = rho < 1 ? x[i] + sqrt(rho) * shared[i] : shared[i];
        rs_input_scale(x, length, d);
    }
    rs_free(shared);
    return RS_OK;
}
