/*
 * theory.h: what mean-field theory says of a network before a weight is drawn: tokens' squared norm
 * and correlation by layer, and squared gradients (docs/theory/mean_field.md).
 *
 * A network comes as numbers alone (rs_theory_network): variances times fan_in of its maps, norms,
 * skips, scales. theory_network.h reads them from an rs_network. Results are natural logarithms, so
 * that growth beyond the doubles is a number; -INFINITY stands for a quantity that is exactly 0.
 */
#ifndef RS_PREDICT_THEORY_H
#define RS_PREDICT_THEORY_H

#include "predict/activation_maps.h"
#include "predict/formula.h"

typedef struct rs_theory_norm {
    bool on;
    bool annihilates; /* LayerNorm of width 1: nothing is left */
    double eps;
    double gain; /* mean square of the gains */
} rs_theory_norm;

/* Variances are times fan_in: 1 keeps the squared norm of a linear map's input. */
typedef struct rs_theory_attention {
    double queries, keys, values;
    double output; /* W_O's; heads where it is merged into W_V: so many products are added */
    bool merged;
    bool no_values, no_output; /* W_V, W_O are absent: nothing is trained, and has no gradient */
    double logit;              /* scale² head_dim / temperature² */
    double identity, softmax, uniform; /* the matrix is identity I + softmax P − uniform C */
    bool causal;
    int64_t window;            /* 0: none */
    int32_t pairs;             /* of rotary positions; 0: none */
    int32_t still;             /* pairs of a head that are not rotated */
    const double *frequencies; /* [pairs] */
} rs_theory_attention;

typedef struct rs_theory_mlp {
    rs_gauss_kind kind;
    bool gated; /* φ(gate x) (up x) */
    double up, gate, down;
} rs_theory_mlp;

typedef struct rs_theory_branch {
    const char *refused; /* why theory does not cover it; NULL: it does */
    rs_theory_norm before, inside, after;
    double skip, scale;
    bool is_mlp;
    bool attends; /* of an attention with W_Q and W_K, which are read even where it is refused */
    rs_theory_attention attention;
    rs_theory_mlp mlp;
} rs_theory_branch;

enum { RS_THEORY_BRANCHES = 3 };
typedef struct rs_theory_layer {
    rs_theory_branch branches[RS_THEORY_BRANCHES];
    int32_t n_branches;
} rs_theory_layer;

typedef struct rs_theory_network {
    int64_t n, d; /* tokens and width */
    const rs_theory_layer *layers;
    int32_t n_layers;
    rs_theory_norm final_norm;
    double rho0;       /* correlation of the input's tokens, −1/(n−1) to 1 */
    double ln_square0; /* ln of a token's squared norm over d */
} rs_theory_network;

/* What a run under a mask leaves for the next one: scratch for so many tokens, and tables that it has
 * filled. Results are the same without. */
typedef struct rs_theory_kept rs_theory_kept;
rs_status rs_theory_kept_open(rs_theory_kept **out, rs_error *err); /* RS_E_NO_MEMORY */
void rs_theory_kept_close(rs_theory_kept *kept);                    /* NULL is fine */

typedef struct rs_theory_settings {
    bool after_final_norm; /* where the loss ⟨G, X⟩ reads the states */
    bool rough;            /* condensed attention by the annealed cross moment even where the double
                              integral (about 0.1 s a layer) can be had */
    bool
        annealed; /* masks: logits' variances as they are, without the correction by exact moments */
    bool
        leading; /* unmasked: to leading order, as published: weights of attention know nothing of the
                     tokens that they weigh, and E(ΣA²)² is (E ΣA²)² */
    rs_theory_kept *kept; /* of one run at a time; NULL: nothing is kept */
} rs_theory_settings;

/* What one run takes. Operations are those that trials are counted in: some 10¹⁰ a second on one core. */
typedef struct rs_theory_need {
    double operations, bytes;
} rs_theory_need;
rs_theory_need rs_theory_need_of(const rs_theory_network *network);

/* The tokens in front of layer l (l = n_layers: the last states, before the final norm), and that
 * layer's attention. NaN where there is no number. */
typedef struct rs_theory_row {
    double ln_square; /* E ‖X‖_F² */
    double ln_sum;    /* E ‖1ᵀX‖² */
    double rho;       /* NaN for one token */
    double ln_apart;  /* ln(1 − ρ), exact however small */
    double logit_deviation;
    double keys; /* effective keys 1/E ΣA²; masked: of the last row */
    double ln_query, ln_key, ln_value, ln_output; /* E ‖∂L/∂W‖_F² */
    double ln_state;                              /* E ‖∂L/∂X‖_F² */
    rs_formula forward, backward;
    rs_formula query; /* of ln_query and ln_key, which may be missing where ln_value is not */
    const char *note; /* why numbers are missing, or what to doubt; NULL: nothing */
    bool rough;       /* condensed attention of this layer makes correlations behind it rough */
} rs_theory_row;

/* rows: [n_layers + 1]. Refusals are rows' notes; RS_E_BAD_OPTION names sizes, variances and
 * correlations that no network has, RS_E_NO_MEMORY. */
rs_status rs_theory_run(rs_theory_row *rows, const rs_theory_network *network,
                        const rs_theory_settings *settings, rs_error *err);

/* ln(gQ/gV); NaN where one is missing or gV is 0. */
double rs_theory_ratio(const rs_theory_row *row);

#endif
