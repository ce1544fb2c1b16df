/* mixing_measures.c: norm and row sums of a matrix, and what a decay means. */
#include "measures/mixing_measures.h"

#include <math.h>

rs_mixing_measures rs_mixing_none(void)
{
    return (rs_mixing_measures){.frobenius = NAN,
                                .row_sum_min = INFINITY,
                                .row_sum_max = -INFINITY,
                                .log_decay = NAN,
                                .decay = NAN,
                                .half_life = NAN,
                                .delta_mean = NAN,
                                .share_of_d = NAN};
}

void rs_mixing_widen(rs_mixing_measures *m, double least, double most)
{
    if (isnan(least) || least < m->row_sum_min) m->row_sum_min = least;
    if (isnan(most) || most > m->row_sum_max) m->row_sum_max = most;
}

rs_mixing_measures rs_mixing_of_matrix(const void *matrix, bool wide, int64_t n, int64_t ld,
                                       bool causal)
{
    rs_mixing_measures m = rs_mixing_none();
    const float *narrow = matrix;
    const double *full = matrix;
    double square = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < (causal ? i + 1 : n); j++) {
            double entry = wide ? full[i * ld + j] : (double)narrow[i * ld + j];
            sum += entry;
            square += entry * entry;
        }
        rs_mixing_widen(&m, sum, sum);
    }
    m.frobenius = sqrt(square);
    return m;
}

void rs_mixing_decay(rs_mixing_measures *m)
{
    m->decay = exp(m->log_decay);
    m->half_life = m->log_decay < 0 ? -log(2) / m->log_decay : NAN;
}
