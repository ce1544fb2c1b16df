/* activation_hermite.h: expansions of φ'(√q x) in Hermite polynomials (docs/theory/mean_field.md, 3). */
#ifndef RS_PREDICT_ACTIVATION_HERMITE_H
#define RS_PREDICT_ACTIVATION_HERMITE_H

#include "predict/activation_maps.h"

enum { RS_HERMITE_MOST = 8192 };

typedef struct rs_hermite {
    int terms;
    double mean;                   /* E φ(√q x) */
    double power[RS_HERMITE_MOST]; /* squared coefficients of φ'(√q x) */
} rs_hermite;

/* false: more terms would be needed than there is room for. kind: RS_GAUSS_TANH or behind it. */
bool rs_hermite_expand(rs_hermite *out, rs_gauss_kind kind, double q);
/* Moments at correlation 1 − e, q·E… as they are. */
void rs_hermite_moments(rs_activation_moments *out, const rs_hermite *hermite, double ln_q,
                        double ln_e);

#endif
