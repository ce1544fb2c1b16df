/* san_kernels_avx2.c: small products and exponentials for AVX2 with fused multiply-add; empty
 * elsewhere. */
#include "model/san_kernels.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__) && defined(__FMA__)
#define TABLE rs_san_kernels_avx2
#include "model/san_kernels.inc"
#endif
