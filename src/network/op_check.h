/* op_check.h: checks that the parts of a description share. A refusal is RS_E_TENSOR_SHAPE unless
 * it says otherwise; `where` is the layer or part, for messages. */
#ifndef RS_NETWORK_OP_CHECK_H
#define RS_NETWORK_OP_CHECK_H

#include "network/op_traits.h"

/* Positive, and no more than what BLAS can count in. */
bool rs_counts(int64_t n);
/* The map is there (RS_E_INTERNAL), maps `in` numbers to `out`, and its tensors hold what it takes
 * of them. */
rs_status rs_check_dense(const rs_dense *dense, int64_t in, int64_t out, const char *where,
                         rs_error *err);
/* The tensor has `count` entries at least; NULL is fine. */
rs_status rs_check_vector(const rs_tensor *tensor, int64_t count, rs_error *err);
/* The norm is of `dim` numbers; kind NONE is fine. */
rs_status rs_check_norm(const rs_norm_op *norm, int64_t dim, const char *where, rs_error *err);
/* Each tensor of plain numbers in the list holds what the op reads of it. */
rs_status rs_check_numbers(const rs_weight_list *list, const void *owner, rs_error *err);

#endif
