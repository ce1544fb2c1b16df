/* gram_attention.h: one masked attention on a Gram matrix, there and back (docs/theory/mean_field.md,
 * 6). */
#ifndef RS_PREDICT_GRAM_ATTENTION_H
#define RS_PREDICT_GRAM_ATTENTION_H

#include "predict/gram_mixing.h"
#include "predict/gram_state.h"

typedef struct rs_gram_attention rs_gram_attention;
/* Scratch for n tokens, and a table of softmax moments. RS_E_NO_MEMORY. */
rs_status rs_gram_attention_open(rs_gram_attention **out, int64_t n, rs_error *err);
void rs_gram_attention_close(rs_gram_attention *attention); /* NULL is fine */

/* What was seen of a layer's softmax. */
typedef struct rs_gram_seen {
    double deviation; /* of the last row's logits */
    double keys;      /* how many it sees */
    double second;    /* its E ΣA² */
    bool held;
} rs_gram_seen;

/* out = M X of the tokens read, before W_V; total [n (n + 1)/2]: what the way back reads. kappa: of the tokens.
 * annealed: without the corrections by exact moments and by finite width. Where seen->held is false there is nothing in out: attention is so condensed that there is no table for it,
 * or rotary positions meet tokens that differ in size by more than a half. RS_E_NO_MEMORY. */
rs_status rs_gram_attend(rs_gram_state *out, rs_gram_seen *seen, rs_gram_attention *attention,
                         double *total, const rs_theory_attention *op, const rs_gram_state *read,
                         double kappa, bool annealed, rs_error *err);
/* back = Mᵀ given M in the sense of Σ_ii' M_ij M_i'j' given_ii', where rs_gram_attend held of the same
 * tokens. */
rs_status rs_gram_attend_back(double *back, rs_gram_attention *attention, double *total,
                              const rs_theory_attention *op, const rs_gram_state *read,
                              const double *given, double kappa, bool annealed, rs_error *err);
/* Behind it: ln of what Σ_ii' (M K Mᵀ)_ii' given_ii' has beyond Σ_jj' K_jj' back_jj', because weights
 * are those of the tokens that they weigh; −INFINITY: nothing. */
double rs_gram_led_back(const rs_gram_attention *attention, const rs_theory_attention *op,
                        const rs_gram_state *read, const double *given);

/* Behind rs_gram_attend_back, of the same: back gains what comes through queries and keys, W_V and W_O
 * left out as there. Returns ln Σ_ii' K_ii' Q_ii', by which queries' and keys' gradients go
 * (docs/theory/mean_field.md, 6); −INFINITY: there are none. */
double rs_gram_logits_back(double *back, rs_gram_attention *attention,
                           const rs_theory_attention *op, const rs_gram_state *read,
                           const double *given, double kappa);

#endif
