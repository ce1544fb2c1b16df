/* kernels_f32_vector.c: the vector kernels for the instruction set that every processor of the
 * architecture has (SSE2, NEON). */
#include "engine/kernels.h"

#include "linalg/turn_f32.h"

#include <math.h>
#include <string.h>

#define TABLE rs_kernels_f32_vector
#define LEVEL "vector"
#define LANES 8
#define MASKED 0
#include "engine/kernels_vector.inc"
