/* kernels_plain_f64.c: the plain kernels, double. */
#include "model/kernels.h"

#include <math.h>

#define REAL double
#define KERNELS rs_kernels_f64
#define TABLE rs_kernels_f64_plain
#include "model/kernels_plain.inc"
