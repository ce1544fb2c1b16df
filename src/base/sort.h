/* sort.h: numbers in order. */
#ifndef RS_BASE_SORT_H
#define RS_BASE_SORT_H

#include <stdint.h>

/* Smallest first, in place. NaNs have no order and must not be among them. */
void rs_sort_doubles(double *values, int64_t n);

#endif
