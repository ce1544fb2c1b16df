/* theory_run.h: the two recursions behind theory.h: of equally correlated tokens, and of a Gram matrix. */
#ifndef RS_PREDICT_THEORY_RUN_H
#define RS_PREDICT_THEORY_RUN_H

#include "predict/theory.h"

/* What a layer without a mask is kept in. */
size_t rs_theory_pairs_bytes(void);

/* Both take a checked network and rows without numbers. */
rs_status rs_theory_run_pairs(rs_theory_row *rows, const rs_theory_network *network,
                              const rs_theory_settings *settings, rs_error *err);
rs_status rs_theory_run_gram(rs_theory_row *rows, const rs_theory_network *network,
                             const rs_theory_settings *settings, rs_error *err);

/* Maps of the activations that a network has, opened when first asked for; all closed at once. */
typedef struct rs_theory_maps {
    rs_activation_map *of[RS_GAUSS_KINDS];
} rs_theory_maps;
rs_status rs_theory_map(rs_activation_map **out, rs_theory_maps *maps, rs_gauss_kind kind,
                        rs_error *err);
void rs_theory_maps_close(rs_theory_maps *maps);

#define RS_THEORY_TOO_FAR                                                                          \
    "the variance in front of this activation is beyond its expansion "                            \
    "(docs/theory/mean_field.md, 3)"
#define RS_THEORY_CONDENSED                                                                        \
    "attention is condensed: there is no theory of its gradients (docs/theory/mean_field.md, 2)"
#define RS_THEORY_BOTH                                                                             \
    "attention is condensed: correlations behind it are rough, and there is no theory of "         \
    "gradients (docs/theory/mean_field.md, 2)"
#define RS_THEORY_ROUGH                                                                            \
    "attention is condensed: correlations are rough (docs/theory/mean_field.md, 2)"

#endif
