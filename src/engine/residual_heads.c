/* residual_heads.c: the softmax of one head around the weights that all queries share. */
#include "engine/residual.h"

#include <math.h>
#include <string.h>

/* From here on e^x - 1 is as good as the difference of the two. */
static const double apart = 1;
/* Of ln p: below, a key's weight is nothing beside 1, and its own size is what counts. */
static const double alone = -230;

void rs_shared_weights(rs_shared_head *h)
{
    double top = -(double)INFINITY, sum = 0;
    h->star = 0;
    for (int64_t j = 0; j < h->keys; j++)
        if (h->r[j] > top) top = h->r[j], h->star = j;
    for (int64_t j = 0; j < h->keys; j++)
        if (j != h->star) sum += exp(h->r[j] - top);
    double total = log1p(sum);
    h->second = -(double)INFINITY;
    for (int64_t j = 0; j < h->keys; j++) {
        h->lp[j] = (h->r[j] - top) - total;
        h->p[j] = exp(h->r[j] - top) / (1 + sum);
        if (j != h->star && h->lp[j] > h->second) h->second = h->lp[j];
    }
}

void rs_shared_centre(rs_shared_head *h, const double *k, int64_t ldk, const double *v, int64_t ldv)
{
    const double *k_star = k + h->star * ldk, *v_star = v + h->star * ldv;
    memset(h->mean, 0, (size_t)h->value_dim * sizeof *h->mean);
    for (int64_t j = 0; j < h->keys; j++) {
        for (int64_t c = 0; c < h->dim; c++)
            h->k[j * h->dim + c] = k[j * ldk + c] - k_star[c];
        for (int64_t c = 0; c < h->value_dim; c++) {
            double difference = v[j * ldv + c] - v_star[c];
            h->c[j * h->value_dim + c] = difference;
            h->mean[c] += h->p[j] * difference;
        }
    }
    for (int64_t j = 0; j < h->keys; j++)
        for (int64_t c = 0; c < h->value_dim; c++)
            h->c[j * h->value_dim + c] -= h->mean[c];
}

/* Small logits: with s = Σ p_k (e^{E_k} - 1), Δ_j = p_j (e^{E_j} - 1 - s) / (1 + s). The sum of Δ_j
 * C_j needs no s in the brackets, for Σ p_j C_j = 0; here it stays, so that Δ is what it says. */
static void short_row(double *row, const rs_shared_head *h)
{
    double s = 0;
    for (int64_t j = 0; j < h->keys; j++) {
        row[j] = expm1(row[j]);
        s += h->p[j] * row[j];
    }
    double factor = 1 / (1 + s);
    for (int64_t j = 0; j < h->keys; j++)
        row[j] = h->p[j] * (row[j] - s) * factor;
}

/* ln Σ p_k e^{E_k} */
static double log_sum(const double *row, const rs_shared_head *h)
{
    double top = -(double)INFINITY, sum = 0;
    for (int64_t j = 0; j < h->keys; j++)
        if (h->lp[j] + row[j] > top) top = h->lp[j] + row[j];
    if (top > 600) {
        for (int64_t j = 0; j < h->keys; j++)
            sum += exp(h->lp[j] + row[j] - top);
        return top + log(sum);
    }
    for (int64_t j = 0; j < h->keys; j++)
        if (j != h->star)
            sum += row[j] < apart ? h->p[j] * expm1(row[j]) : exp(h->lp[j] + row[j]) - h->p[j];
    return log1p(sum);
}

/* Any logits, weights as they are; c is log_sum's. */
static void long_row(double *row, const rs_shared_head *h, double c)
{
    double sum = 0;
    for (int64_t j = 0; j < h->keys; j++) {
        double g = row[j] - c;
        if (j == h->star) continue;
        row[j] = g < apart ? h->p[j] * expm1(g) : exp(h->lp[j] + g) - h->p[j];
        sum += row[j];
    }
    row[h->star] = -sum;
}

/* Any logits, weights of any size: by their logarithms. */
static double logarithmic_row(double *row, const rs_shared_head *h, double c, int64_t shift)
{
    double sum = 0, up = (double)shift * M_LN2, largest = -(double)INFINITY;
    for (int64_t j = 0; j < h->keys; j++) {
        double g = row[j] - c, size;
        if (j == h->star) continue;
        if (g < apart) {
            size = h->lp[j] + log(fabs(expm1(g)));
            row[j] = exp(h->lp[j] + up) * expm1(g);
        } else {
            size = h->lp[j] + g + log1p(-exp(-g));
            row[j] = exp(h->lp[j] + g + up) - exp(h->lp[j] + up);
        }
        largest = size > largest ? size : largest;
        sum += row[j];
    }
    row[h->star] = -sum;
    return largest;
}

double rs_shared_row(double *row, const rs_shared_head *h, int64_t shift, bool logarithms)
{
    double most = 0;
    for (int64_t j = 0; j < h->keys; j++)
        most = fabs(row[j]) > most ? fabs(row[j]) : most;
    if (!logarithms && shift == 0 && most <= 2 && h->second > alone) {
        short_row(row, h);
        return 0;
    }
    double c = log_sum(row, h);
    if (logarithms || shift != 0) return logarithmic_row(row, h, c, shift);
    long_row(row, h, c);
    return 0;
}
