/* gemm_team.c: products by a team of threads. */
#include "linalg/gemm.h"

#include "linalg/gemm_kernels.h"
#include "linalg/gemm_rooms.h"

#include <omp.h>
#include <stdatomic.h>
#include <stddef.h>

/* Operations that a team of threads, or a shared copy of B, is worth. */
static const double worth_threads = 1e6, worth_sharing = 3e7;

/* Rows of blocks at the end, so that all threads finish at about one time. */
enum { SMALL_ROWS = 36 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many pieces of `piece` there are in n. */
static int64_t pieces_of(int64_t n, int64_t piece)
{
    return (n + piece - 1) / piece;
}

/* The size of equal pieces of n, each at most `most` and a multiple of `step`; most: a multiple of it. */
static int64_t even_piece(int64_t n, int64_t most, int64_t step)
{
    int64_t each = pieces_of(n, pieces_of(n, most));
    return pieces_of(each, step) * step;
}

#define REAL float
#define PRODUCT rs_product_of_f32
#define STRIPS rs_strips_of_f32
#define BLOCK rs_block_of_f32
#define NAME(of) of##_f32
#include "linalg/gemm_team.inc"
#undef REAL
#undef PRODUCT
#undef STRIPS
#undef BLOCK
#undef NAME

#define REAL double
#define PRODUCT rs_product_of_f64
#define STRIPS rs_strips_of_f64
#define BLOCK rs_block_of_f64
#define NAME(of) of##_f64
#include "linalg/gemm_team.inc"
