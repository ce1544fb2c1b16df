/* kernels_plain_f64.c: the plain kernels, double. */
#include "engine/kernels.h"

#include <math.h>

#define REAL double
#define KERNELS rs_kernels_f64
#define PAIRS rs_pairs_f64
#define SELECTED rs_select_f64
#define TABLE rs_kernels_f64_plain
#include "engine/kernels_plain.inc"
