/* toy_matrix.c: norms and draws of small matrices. */
#include "lab/toy.h"

#include "base/memory.h"
#include "linalg/spectrum.h"

#include <math.h>
#include <string.h>

double rs_norm_columns(const double *a, int64_t rows, int64_t cols)
{
    double largest = 0;
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += fabs(a[i * cols + j]);
        largest = fmax(largest, sum);
    }
    return largest;
}

double rs_norm_rows(const double *a, int64_t rows, int64_t cols)
{
    double largest = 0;
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < cols; j++)
            sum += fabs(a[i * cols + j]);
        largest = fmax(largest, sum);
    }
    return largest;
}

double rs_norm_composite(const double *a, int64_t rows, int64_t cols)
{
    return sqrt(rs_norm_columns(a, rows, cols) * rs_norm_rows(a, rows, cols));
}

double rs_norm_frobenius(const double *a, int64_t rows, int64_t cols)
{
    double sum = 0;
    for (int64_t i = 0; i < rows * cols; i++)
        sum += a[i] * a[i];
    return sqrt(sum);
}

double rs_norm_spectral(const double *a, int64_t rows, int64_t cols)
{
    size_t count = (size_t)rows * (size_t)cols, k = (size_t)(rows < cols ? rows : cols);
    double *copy = rs_malloc(count + k, sizeof *copy), norm = NAN;
    if (!copy) return NAN;
    memcpy(copy, a, count * sizeof *copy);
    rs_error err;
    if (rs_matrix_spectrum(copy + count, copy, rows, cols, &err) == RS_OK) norm = copy[count];
    rs_free(copy);
    return norm;
}

double rs_rows_diameter(const double *a, int64_t rows, int64_t cols)
{
    double largest = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < i; k++) {
            double sum = 0;
            for (int64_t j = 0; j < cols; j++) {
                double difference = a[i * cols + j] - a[k * cols + j];
                sum += difference * difference;
            }
            largest = fmax(largest, sum);
        }
    return sqrt(largest);
}

double rs_rows_variation(const double *a, int64_t rows, int64_t cols)
{
    double largest = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < i; k++) {
            double sum = 0;
            for (int64_t j = 0; j < cols; j++)
                sum += fabs(a[i * cols + j] - a[k * cols + j]);
            largest = fmax(largest, sum);
        }
    return largest / 2;
}

void rs_rows_centre(double *a, int64_t rows, int64_t cols)
{
    for (int64_t j = 0; j < cols; j++) {
        double sum = 0, first = a[j];
        for (int64_t i = 0; i < rows; i++)
            sum += a[i * cols + j] - first;
        for (int64_t i = 0; i < rows; i++)
            a[i * cols + j] = (a[i * cols + j] - first) - sum / (double)rows;
    }
}

void rs_small_product(double *c, const double *a, const double *b, int64_t m, int64_t k, int64_t n)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * k + l] * b[l * n + j];
            c[i * n + j] = sum;
        }
}

void rs_draw_gaussian(double *out, int64_t count, double scale, rs_random *random)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = scale * rs_random_normal(random);
}

uint32_t rs_lab_hash(uint32_t tag, uint32_t index)
{
    uint32_t h = (index + 1) * UINT32_C(2654435761) + tag * UINT32_C(2246822519);
    h = (h ^ h >> 15) * UINT32_C(2246822519);
    h = (h ^ h >> 13) * UINT32_C(3266489917);
    return h ^ h >> 16;
}
