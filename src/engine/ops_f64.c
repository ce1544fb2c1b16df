/* ops_f64.c: the operations of a forward pass in double. */
#include "engine/kernels.h"
#include "engine/loop.h"
#include "engine/residual.h"
#include "engine/tape.h"

#include "base/memory.h"
#include "base/random.h"
#include "linalg/blas.h"
#include "linalg/gemm.h"
#include "linalg/low_rank.h"
#include "linalg/threads.h"
#include "linalg/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REAL double
#define KERNELS rs_kernels_f64
#define PAIRS rs_pairs_f64
#define SELECTED rs_select_f64
#define PRODUCT rs_product_f64
#define HEAD rs_head_f64
#define KERNELS_HERE rs_kernels_f64_here
#define GEMM rs_gemm_f64
#define GEMM_TEAM rs_gemm_team_f64
#define SUM_SQUARES(a, n) rs_dot(a, a, n)
#define GEMV cblas_dgemv
#define SYRK cblas_dsyrk
#define DECODE rs_tensor_decode_f64
#define PRECISION RS_PRECISION_F64
#define BACK rs_back_f64
#define BACK_HERE &BACK
#define ROUNDOFF 0x1p-53
#include "engine/dense_real.inc"

#include "engine/ops_real.inc"

#include "engine/back_real.inc"

const rs_ops rs_ops_f64 = OPS;
