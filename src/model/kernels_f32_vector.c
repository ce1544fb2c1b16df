/* kernels_f32_vector.c: the vector kernels for the instruction set that every processor of the
 * architecture has (SSE2, NEON). */
#include "model/kernels.h"

#include <math.h>
#include <string.h>

#define TABLE rs_kernels_f32_vector
#define LEVEL "vector"
#include "model/kernels_vector.inc"
