/* dense_matrix.h: the weights of a description as plain float64 matrices, for what is computed from
 * the weights themselves (certificates, paths). */
#ifndef RS_ENGINE_DENSE_MATRIX_H
#define RS_ENGINE_DENSE_MATRIX_H

#include "network/network.h"

/*
 * Reads weights. w [count, in]: row u - first is the weight vector of output unit u (y_u = <row, x>
 * + bias_u), for the `count` units from `first` on (for one head: head * head_dim, head_dim),
 * quantised weights decoded, FP8 scales applied; every element is the stored number exactly, or
 * rounded once where the map has factors, which are applied. bias [count], zeros when the map has
 * none; may be NULL. Serial.
 */
rs_status rs_dense_rows(double *w, double *bias, const rs_dense *dense, int64_t first,
                        int64_t count, rs_error *err);

/* Reads gain [dim] and bias [dim] of a norm as they are applied (1 + w where the family has it; 1
 * and 0 where there is none). Either may be NULL. */
void rs_norm_vectors(double *gain, double *bias, const rs_norm_op *norm);

#endif
