/* steps_parts.h: what the files of steps.h share: one head in balls. */
#ifndef RS_PROOF_STEPS_PARTS_H
#define RS_PROOF_STEPS_PARTS_H

#include "linalg/ball.h"
#include "proof/steps.h"

/* Numbers of a head by name, beside its arrays. */
typedef enum rs_step_ball {
    RS_BALL_SCALE,
    RS_BALL_RESIDUAL_ONE,
    RS_BALL_RESIDUAL_INF,
    RS_BALL_QK_ONE,
    RS_BALL_QK_INF,
    RS_BALL_VALUE_ONE,
    RS_BALL_VALUE_INF,
    RS_BALL_SHARED_RANGE,
    RS_BALL_SHARED_MOST,
    RS_BALL_CHANGE_ONE,
    RS_BALL_CHANGE_INF,
    RS_BALL_CHANGE_MOST,
    RS_BALL_CHANGE_TOTAL, /* Σ |E_ij| */
    RS_BALL_RANGE_SUM,
    RS_BALL_RANGE_MOST,
    RS_BALL_GROWN_SUM,
    RS_BALL_CONSTANT,
    RS_BALL_LEFT_ONE,
    RS_BALL_LEFT_INF,
    RS_STEP_BALLS
} rs_step_ball;
enum { RS_STEP_SPARE = 24 };

/* Everything of one head. All are arrays of balls in one block, row-major. */
typedef struct rs_step_balls {
    const rs_steps_head *head;
    arb_ptr all;
    int64_t count, used;
    /* weights, as rs_steps_head has them */
    arb_ptr q, k, v, o;
    arb_ptr x;             /* [d] the centre, doubles */
    arb_ptr residual;      /* [n, d] R */
    arb_ptr queries, keys; /* [n, units] R W_Q, R W_K */
    arb_ptr values;        /* [n, values] R W_V */
    arb_ptr moved;         /* [n, out] R W */
    arb_ptr shared;        /* [n] r */
    arb_ptr residual_size; /* [n, d] |R|, entry by entry */
    arb_ptr moved_size;    /* [n, out] |RW| */
    arb_ptr left;          /* [n, out] R' */
    arb_ptr ranges;        /* [n] D_ii */
    arb_ptr grown;         /* [n] e^{D_ii} − 1 */
    arb_ptr change_sums;   /* [n] column sums of |E| */
    arb_ptr base_sums;     /* [n] column sums of D 1pᵀ */
    arb_ptr gap_sums;      /* [n] of |P − 1pᵀ| */
    arb_ptr number;        /* [RS_STEP_BALLS] by name */
    arb_ptr spare;         /* [RS_STEP_SPARE] */
} rs_step_balls;

bool rs_steps_masked(const rs_steps_head *head);
bool rs_steps_seen(const rs_steps_head *head, int64_t query, int64_t key);

/* ---- steps_balls.c ---- */

/* So many of the block's balls, 0 at first. */
arb_ptr rs_step_take(rs_step_balls *b, int64_t count);
/* out += |a|; out = max(out, a). */
void rs_step_add_size(arb_t out, const arb_t a);
void rs_step_raise(arb_t out, const arb_t a);
/* e^x and e^x − 1. Exponents beyond 2^50 are not counted: what is below e^(−2^50) is enclosed with 0,
 * what is above e^(2^50) is not known. */
void rs_step_exp(arb_t out, const arb_t x);
void rs_step_expm1(arb_t out, const arb_t x);
/* tanh x of x ≥ 0; 1, which is above it, where it is not known. */
void rs_step_tanh(arb_t out, const arb_t x);
/* K(ρ) = (e^ρ − 1)/ρ + (e^{2ρ} − 1)/(2ρ), K(0) = 2. */
void rs_step_constant(arb_t out, const arb_t range);
/* √(ab) */
void rs_step_both(arb_t out, const arb_t a, const arb_t b);
/* Σ a_i b_i over n, with steps in the arrays. */
void rs_step_dot(arb_t out, arb_srcptr a, int64_t step_a, arb_srcptr b, int64_t step_b, int64_t n);
/* Norms of a [rows, cols]: largest column sum and row sum of |entries|, and largest of them. sums:
 * [cols] workspace. */
typedef struct rs_step_sizes {
    arb_ptr one, inf, most; /* each may be NULL */
} rs_step_sizes;
void rs_step_norms(const rs_step_sizes *out, arb_ptr sums, arb_srcptr a, int64_t rows,
                   int64_t cols);
/* Of a ball that holds 0 there is a number only where signs are meant to cancel. */
rs_step_number rs_step_number_of(const arb_t ball, bool cancels);
/* 1: a ≤ b, 0: a > b, −1: the balls do not say. */
signed char rs_step_at_most(const arb_t a, const arb_t b);
/* Ratios are rounded to the nearest: to no other side of 1 than what is known to hold. */
void rs_step_row_settle(rs_step_row *row);
/* Fills a row from its sides; repaired NULL: there is none. */
void rs_step_row_set(rs_step_row *row, const arb_t left, const arb_t right, const arb_t repaired,
                     bool cancels);

/* ---- steps_head.c ---- */

/* How many balls a head takes. */
int64_t rs_step_count(const rs_steps_head *head);
/* Takes the weights, X = 1xᵀ + R, what R becomes, r, and norms. sums: [the widest of d, out, n]
 * workspace. */
void rs_steps_set(rs_step_balls *b, arb_ptr sums);

/* ---- steps_softmax.c ---- */

/* Of one query: E_i (a workspace behind rs_steps_query), p_i, P_i − p_i and P_i, [n] each; keys that
 * it does not see have 0. */
typedef struct rs_step_query {
    int64_t at;
    arb_ptr change, base, gap, mixed;
} rs_step_query;
/* Also sets D_ii and adds to the sums over the queries. */
void rs_steps_query(rs_step_query *query, rs_step_balls *b);

/* ---- steps_matrix.c ---- */

/* What is told of the entries of a line |left| ≤ right. */
typedef enum rs_step_sense {
    RS_SENSE_PLAIN,   /* the entry with the largest left/right */
    RS_SENSE_CLIPPED, /* so, and negative left sides are 0 in the norms */
    RS_SENSE_SIGNED   /* the entry where left exceeds right by most */
} rs_step_sense;
/* Such a line of matrices, told entry by entry, row by row. */
typedef struct rs_step_matrix {
    rs_step_sense sense;
    int64_t cols, at_row, at_column;
    signed char holds[2]; /* of the entry that is told, as published and as repaired; −1: unknown */
    bool all[2];          /* it is certain of every entry so far */
    arb_ptr entry;        /* [3] left, right, repaired of the entry that is told */
    arb_ptr tight;        /* how tight it is */
    arb_ptr row;          /* [3] sums of the row at hand */
    arb_ptr most;         /* [3] the largest so far */
    arb_ptr sums;         /* [3, cols] */
} rs_step_matrix;
int64_t rs_step_matrix_count(int64_t cols); /* of balls */
void rs_step_matrix_open(rs_step_matrix *m, rs_step_balls *b, int64_t cols, rs_step_sense sense);
/* side: left, right, repaired; of the signed sense then what bounds |left| of the repaired one. over:
 * left less right, and left less repaired, for the sides may be too close to be subtracted. */
void rs_step_matrix_add(rs_step_matrix *m, int64_t i, int64_t j, arb_srcptr side, arb_srcptr over);
void rs_step_matrix_row(rs_step_matrix *m); /* the row is over */
void rs_step_matrix_tell(rs_step_row rows[RS_STEP_NORMS], const rs_step_matrix *m, bool repaired);

/* ---- steps_scalars.c ---- */

/* The lines in norms alone, and the quantities. sums: as rs_steps_set. */
void rs_steps_scalars(rs_steps *out, rs_step_balls *b, arb_ptr sums);
/* Whether what each line rests on holds here. */
void rs_steps_conditions(rs_steps *out, const rs_step_balls *b);

#endif
