/*
 * lambda_arcs.h: the rows of norm(λX + O) as arcs of great circles (lambda.h 2), inside the room.
 *
 * With x, o a row (centred over features under LayerNorm) and √(dε) appended to o as one more
 * coordinate, which is dropped after normalising,
 *     λx + o = ‖x‖((λ − c)e + h n),  e = x/‖x‖,  n ⊥ e a unit vector,
 * so that row i of the norm's output, over √d and before the gain, is cos φ e + sin φ n with
 * (cos φ, sin φ) ∝ (λ − c, h). h is found without cancellation (docs/theory/corrections.md, 1).
 */
#ifndef RS_PROOF_LAMBDA_ARCS_H
#define RS_PROOF_LAMBDA_ARCS_H

#include "proof/lambda_span.h"

/* μ/√d is known to no less than this: nd squares of entries below 2^-537 vanish, which for nd ≤
 * 2^74 is less (docs/certificates.md, C10). */
#define RS_LAMBDA_LEAST 0x1p-500

/* How a row moves with λ. */
typedef enum rs_lambda_arc_kind {
    RS_LAMBDA_ROW_ARC,
    RS_LAMBDA_ROW_FIXED,    /* x = 0: the row does not move; φ = π/2 for every λ */
    RS_LAMBDA_ROW_UNDEFINED /* x = o = 0 and ε = 0: nothing to normalise */
} rs_lambda_arc_kind;

/* One row. */
typedef struct rs_lambda_arc {
    rs_lambda_arc_kind kind;
    double centre, height; /* c, h ≥ 0 */
    double input_error;    /* relative error of x and of o from centring over features */
    double lost;           /* length, over ‖x‖, of a remainder of o that was left out */
    double ee, en, nn;     /* e·e, e·n, n·n with the gain on both, as stored */
    double cosine, sine;   /* scratch: where the row is at the λ last asked for */
} rs_lambda_arc;

/* All rows of a layer, and workspace. */
struct rs_lambda_arcs {
    int64_t n, d;
    double *directions;  /* [2n, d]: e_i diag g, then n_i diag g without its last coordinate */
    rs_lambda_arc *rows; /* [n] */
    double *weights;     /* [2n] cosines, then sines; scratch */
    double *slopes;      /* [2n] their derivatives; scratch */
    double *mean, *mean_slope, *row, *row_branch; /* [d] scratch */
    size_t room_rows, room_entries, room_width;   /* what is allocated */
    double gain;           /* max |g|, rounded up for what stored rows may exceed it */
    double rounding;       /* η: error of a stored row at any λ, beside that of λ − c */
    double skew;           /* |e·n| of stored rows (gain 1) is at most this */
    rs_lambda_value input; /* μ(X)/√d */
};

/* One row of X or O, scaled by a power of two and centred over its features where asked. */
typedef struct rs_lambda_loaded {
    int exponent; /* the row is 2^exponent times what was stored */
    double norm;  /* length of what was stored */
    double error; /* error of what was stored, relative to that length */
    bool zero;    /* the row is certainly zero */
} rs_lambda_loaded;
rs_lambda_loaded rs_lambda_load_row(double *to, const double *from, int64_t d, bool centre);

/* Sets every row's cosine and sine, and arcs->weights, for λ (may be infinite). */
void rs_lambda_arcs_turn(const rs_lambda_arcs *arcs, double lambda);
/* √Σ_i E_i², E_i ≥ the distance of true row i from the stored one (gain 1) for every λ in [low,
 * high]; ends may be infinite. Rounded up. */
double rs_lambda_arcs_error(const rs_lambda_arcs *arcs, double low, double high);
/* min over [low, high] of √((λ − c)² + h²), rounded down. */
double rs_lambda_arc_reach(const rs_lambda_arc *row, double low, double high);

/* μ² of the stored rows where they were turned to, and a bound on the rounding of that number.
 * quick: O(nd) once, losing digits when the rows are nearly equal; else O(nd) twice, and never. */
rs_lambda_value rs_lambda_arcs_square(const rs_lambda_arcs *arcs, bool quick);
/* dμ²/dλ of the stored rows there, and ‖RY'‖², the square of how fast the centred rows move, with
 * what rounding may have done to each, for λ in units of 2^exponent (the size of the interval at
 * hand: in units of their own, rates leave the doubles). Needs rs_lambda_arcs_square before. */
typedef struct rs_lambda_motion {
    double slope, slope_error, speed, speed_error;
} rs_lambda_motion;
rs_lambda_motion rs_lambda_arcs_motion(const rs_lambda_arcs *arcs, int exponent);

/* Where μ/√d of the TRUE rows lies for every λ in [low, high] (finite ends), by the chords that the
 * stored rows sweep (first, L4) and to second order about `middle` (second, L5; left at [0, ∞)
 * where the first is enough to decide about `target`; target NaN: never). Rounding is included. */
typedef struct rs_lambda_bracket {
    rs_span first, second;
    double root, doubt; /* where the value may be the target, give or take; NaN: no guess */
    bool rounding;      /* what is left open is rounding's doing: smaller intervals do not help */
} rs_lambda_bracket;
void rs_lambda_bracket_of(rs_lambda_bracket *out, const rs_lambda_arcs *arcs, double low,
                          double high, double middle, double target);

/* What the value tends to for λ → ±∞ (sign ±1), enclosed; and the most that it can differ from that
 * on the half line from λ on (L3). */
rs_span rs_lambda_limit(const rs_lambda_arcs *arcs, int sign);
double rs_lambda_limit_distance(const rs_lambda_arcs *arcs, double lambda, int sign);
/* The λ closest to the middle of the line from which on the half line certainly is ≥ target (above)
 * or < target; ±∞ when there is none. */
double rs_lambda_half_line(const rs_lambda_arcs *arcs, double target, int sign, bool above,
                           double tolerance);

#endif
