/*
 * ops_residual.c: the operations of a forward pass, and of the way back, on X = 2^s (1xᵀ + 2^e M) (residual.h), each sample
 * with exponents of its own.
 *
 * An op that has no form of its own here is worked out in float64 (ops_residual_plain.inc).
 * The embedding, the logits and everything that needs plain numbers are those of float64, which are
 * compiled into this file for it. A state keeps M, x and the rest one behind the other in its store.
 */
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
#include "network/op_traits.h"

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
#define BACK rs_back_plain
#define BACK_HERE &BACK
#define ROUNDOFF 0x1p-53
#include "engine/dense_real.inc"

#include "engine/ops_real.inc"

#include "engine/back_real.inc"

static const rs_ops plain = OPS;

#include "engine/ops_residual_pair.inc"

#include "engine/ops_residual_shared.inc"

#include "engine/ops_residual_rows.inc"

#include "engine/ops_residual_attention.inc"

#include "engine/ops_residual_plain.inc"

#include "engine/back_residual.inc"

#include "engine/back_residual_attention.inc"

const rs_ops rs_ops_residual = {
    .precision = RS_PRECISION_RESIDUAL,
    .size = sizeof(double),
    .roundoff = ROUNDOFF,
    .embed = embed_pair,
    .norm = norm_state,
    .branch = {[RS_BRANCH_ATTENTION] = attention_pair, [RS_BRANCH_MLP] = mlp_pair},
    .any = plain_pair,
    .combine = combine_pair,
    .copy = copy_pair,
    .head = head_pair,
    .view = view_pair,
    .view_added = view_added_pair,
    .back = &rs_back_residual,
};
