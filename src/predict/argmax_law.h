/*
 * argmax_law.h: how often two rows of correlated logits have their largest one at the same key, which is
 * what condensed attention's rows have in common (docs/theory/mean_field.md, 2).
 */
#ifndef RS_PREDICT_ARGMAX_LAW_H
#define RS_PREDICT_ARGMAX_LAW_H

/* Of n ≥ 2 pairs of normal numbers; the probability is e^ξ/(e^ξ + n − 1) at ξ(θ), θ = acos of their
 * correlation. Within 0.03 for n up to 10⁴. */
typedef struct rs_argmax_law {
    double n;
    double start, end; /* of the correction at correlation 0 and 1 */
} rs_argmax_law;

rs_argmax_law rs_argmax_law_of(double n);
/* ξ at an angle in (0, π). */
double rs_argmax_exponent(const rs_argmax_law *law, double angle);
/* The angle in (0, π/2] at which ξ ≥ 0 is that. */
double rs_argmax_angle(const rs_argmax_law *law, double exponent);
/* ξ where the correlation at ξ = `equal` is multiplied by 1 − e^ln_apart; *ln_lost: ln of what ξ loses,
 * exact however small. */
double rs_argmax_moved(double *ln_lost, const rs_argmax_law *law, double equal, double ln_apart);

#endif
