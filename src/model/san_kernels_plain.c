/* san_kernels_plain.c: small products and exponentials for any processor. */
#include "model/san_kernels.h"

#include <math.h>
#include <string.h>

#define TABLE rs_san_kernels_plain
#include "model/san_kernels.inc"
