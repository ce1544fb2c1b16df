/* sort.c: numbers in order. */
#include "base/sort.h"

#include <stdlib.h>

static int smaller_first(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void rs_sort_doubles(double *values, int64_t n)
{
    if (n > 1) qsort(values, (size_t)n, sizeof *values, smaller_first);
}
