/* ops_f32.c: the operations of a forward pass in float. */
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

#define REAL float
#define KERNELS rs_kernels_f32
#define PAIRS rs_pairs_f32
#define SELECTED rs_select_f32
#define PRODUCT rs_product_f32
#define HEAD rs_head_f32
#define KERNELS_HERE rs_kernels_f32_here
#define GEMM rs_gemm_f32
#define GEMM_TEAM rs_gemm_team_f32
#define SUM_SQUARES(a, n) rs_sum_squares(a, n)
#define GEMV cblas_sgemv
#define SYRK cblas_ssyrk
#define DECODE rs_tensor_decode_f32
#define PRECISION RS_PRECISION_F32
#define BACK rs_back_f32
#define BACK_HERE &BACK
#define ROUNDOFF 0x1p-24
#include "engine/dense_real.inc"

#include "engine/ops_real.inc"

#include "engine/back_real.inc"

const rs_ops rs_ops_f32 = OPS;
