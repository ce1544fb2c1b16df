/* token_centre.c: column medians. */
#include "measures/token_matrix.h"

/* The k-th smallest (from 0) of a[0..n−1], which is reordered: Hoare's quickselect, with the median
 * of three as pivot. */
static double select_nth(double *a, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        double x = a[low], y = a[low + (high - low) / 2], z = a[high];
        double pivot = x < y ? (y < z ? y : (x < z ? z : x)) : (x < z ? x : (y < z ? z : y));
        int64_t i = low, j = high;
        while (i <= j) {
            while (a[i] < pivot)
                i++;
            while (a[j] > pivot)
                j--;
            if (i > j) break;
            double t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return a[k];
}

static double median(double *a, int64_t n)
{
    double upper = select_nth(a, n, n / 2);
    if (n % 2) return upper;
    /* Everything before n/2 is no larger: the lower middle is the largest of it. */
    double lower = a[0];
    for (int64_t i = 1; i < n / 2; i++)
        lower = a[i] > lower ? a[i] : lower;
    return lower + (upper - lower) / 2;
}

/* Columns are gathered a few at a time, so that each row is read in whole cache lines. */
enum { GROUP = 8 };

void rs_token_median(double *offset, const rs_token_matrix *x, const double *first, double *columns)
{
    int64_t n = x->n;
    for (int64_t k0 = 0; k0 < x->d; k0 += GROUP) {
        int64_t group = x->d - k0 < GROUP ? x->d - k0 : GROUP;
        for (int64_t i = 0; i < n; i++) {
            for (int64_t k = 0; k < group; k++) {
                int64_t at = i * x->ld + k0 + k;
                double entry = x->single ? (double)x->single[at] : x->wide[at] * x->scale;
                columns[k * n + i] = entry - first[k0 + k];
            }
        }
        for (int64_t k = 0; k < group; k++)
            offset[k0 + k] = median(columns + k * n, n);
    }
}
