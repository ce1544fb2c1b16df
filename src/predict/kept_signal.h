/*
 * kept_signal.h: attention that carries a chosen kernel from layer to layer (U-SPA, E-SPA; He et al.
 * 2023, docs/theory/mean_field.md, 9). All matrices [tokens, tokens], lower triangular.
 */
#ifndef RS_PREDICT_KEPT_SIGNAL_H
#define RS_PREDICT_KEPT_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

/* The attention that turns the kernel (1 − r)I + r11ᵀ of `from` into that of `to`; no entry is negative
 * where from <= to. false: a correlation is outside [0, 1). */
bool rs_uspa_attention(double *a, int64_t tokens, double from, double to);
/* The same of e^{−γ|i−j|}, γ falling; from may be INFINITY (the identity). false unless 0 < to <= from. */
bool rs_espa_attention(double *a, int64_t tokens, double from, double to);
/* γ_l of layer l in 1 … layers: √(1 − e^{−2γ_l}) = (√(1 − e^{−2γ_L}))^{l/L}; γ_0 = ∞. */
double rs_espa_rate(int32_t layer, int32_t layers, double last);

#endif
