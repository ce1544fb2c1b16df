/* trials_kernels_plain.c: loops of batched trials for any processor. */
#include "predict/trials_kernels.h"

#include <math.h>
#include <string.h>

#include "predict/trials_unroll.inc"
#define TABLE rs_trials_kernels_plain
#define LEVEL "plain"
#define WIDTH 2
#define TILE_ROWS 4
#include "predict/trials_kernels.inc"
