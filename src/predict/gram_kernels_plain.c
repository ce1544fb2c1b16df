/* gram_kernels_plain.c: loops over pairs of tokens for any processor. */
#include "predict/gram_kernels.h"

#include <math.h>
#include <string.h>

#define TABLE rs_gram_kernels_plain
#define LEVEL "plain"
#define WIDTH 2
#include "predict/gram_kernels.inc"
