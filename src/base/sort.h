/* sort.h: sorting numbers. */
#ifndef RS_BASE_SORT_H
#define RS_BASE_SORT_H

#include <stdint.h>

/* Sorts values [n] in place, smallest first. NaNs have no order and must not be among them. */
void rs_sort_doubles(double *values, int64_t n);

#endif
