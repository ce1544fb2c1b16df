/* san_kernels_plain.c: small products and exponentials for any processor. */
#include "engine/san_kernels.h"

#include <math.h>

/* The larger of two; y where one is not a number. */
#define LARGER(x, y) ((four)(((four_bits)(x) & ((x) > (y))) | ((four_bits)(y) & ~((x) > (y)))))
#define TABLE rs_san_kernels_plain
#include "engine/san_kernels.inc"
