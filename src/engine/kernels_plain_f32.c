/* kernels_plain_f32.c: the plain kernels, float. */
#include "engine/kernels.h"

#include <math.h>

#define REAL float
#define KERNELS rs_kernels_f32
#define PAIRS rs_pairs_f32
#define SELECTED rs_select_f32
#define TABLE rs_kernels_f32_plain
#include "engine/kernels_plain.inc"
