/* op_check.h: checks and answers that the rows of op_traits.h share. A refusal is RS_E_TENSOR_SHAPE unless
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
/* The convolution is of `channels` numbers and there (RS_E_INTERNAL), of a width that counts. */
rs_status rs_check_conv(const rs_conv_op *conv, int64_t channels, const char *where, rs_error *err);
/* Each tensor of plain numbers in the list holds what the op reads of it. */
rs_status rs_check_numbers(const rs_weight_list *list, const void *owner, rs_error *err);

/* What a row says of a kind that no certificate is about. */
#define RS_UNPROVED_MIXER "no theorem here is about mixers without a softmax yet"

/* Answers of a row that hold for every branch of its kind. */
bool rs_op_always(const rs_branch *branch);
bool rs_op_never(const rs_branch *branch);
/* Rows of its matrices differ in their sums (NaN). */
double rs_op_no_row_sum(const rs_branch *branch);
/* Why the rows of a mixer without a softmax are no distributions, and why it has no logits. */
const char *rs_op_no_distribution(const rs_branch *branch);
const char *rs_op_no_logits(const rs_branch *branch);
/* What the rows of mixers without a softmax have in common. */
#define RS_OP_NO_SOFTMAX                                                                           \
    .mixes = true, .reads_memory = rs_op_never, .row_sum = rs_op_no_row_sum,                       \
    .not_stochastic = rs_op_no_distribution, .not_bilinear = rs_op_no_logits,                      \
    .unproved = RS_UNPROVED_MIXER

/* Take a norm or a map away; false: there was none. */
bool rs_op_drop_norm(rs_norm_op *norm);
bool rs_op_drop_map(rs_dense *map);

#endif
