/* gram_mlp.h: one MLP on a Gram matrix (docs/theory/mean_field.md, 6). */
#ifndef RS_PREDICT_GRAM_MLP_H
#define RS_PREDICT_GRAM_MLP_H

#include "predict/gram_state.h"

/* Numbers of scratch that both ask for. */
size_t rs_gram_mlp_room(int64_t n);

/* out = MLP of the tokens read. false: there is no map at these variances, or tokens differ so much in
 * size that one map does not serve all. */
bool rs_gram_mlp(rs_gram_state *out, rs_activation_map *map, const rs_theory_mlp *op,
                 const rs_gram_state *read, double *room);
/* factors [n, n] by which derivatives E⟨∂_i, ∂_j⟩ are multiplied; rs_gram_mlp was true of the same. */
void rs_gram_mlp_back(double *factors, rs_activation_map *map, const rs_theory_mlp *op,
                      const rs_gram_state *read, double *room);

#endif
