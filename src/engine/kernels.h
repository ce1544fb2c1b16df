/*
 * kernels.h: the inner loops of a forward pass, for src/engine/ and for the loss of
 * src/observe/gather_loss.c.
 *
 * One table per element type and instruction set. The plain table is written for clarity with the
 * functions of libm; the others hold the same functions in vectors and are tested against it.
 * RS_KERNELS=plain or vector in the environment chooses that one.
 */
#ifndef RS_ENGINE_KERNELS_H
#define RS_ENGINE_KERNELS_H

#include "network/network.h"

/* The most channels that `turn` takes at once, and the most taps of `convolve`. */
enum { RS_TURN_MOST = 32, RS_CONV_TAPS = 4 };

/* Tokens that the mixing matrices of Mamba's channels take at once, at most; and the room that these
 * need a state. */
enum { RS_PAIR_TOKENS = 4, RS_PAIR_WORK = 9 * 16 };

/* Declares what `pair` of one element type takes. It adds rows of n channels' mixing matrices to their
 * sums: token t has a = decay_t, and, with p_st carried from state s and t and z from state s,
 *     others = sum over pairs of states of c_s c_t (a_s a_t p_st),  p = a a p + (step b)(step b)
 *     sum = c·z,  z = a z + step b,  diagonal = step b·c,
 * without d, which goes to `square` (others + (diagonal + d)^2), `least` and `most` (sum + d) alone.
 */
#define RS_KERNEL_PAIRS(real, name)                                                                \
    typedef struct name {                                                                          \
        int64_t n, states, tokens; /* tokens: RS_PAIR_TOKENS at most */                            \
        const real *decay;         /* [tokens, states, n] exp(step rate) */                        \
        const real *step;          /* [tokens, n] with leading dimension ld_step */                \
        const real *b, *c;         /* [tokens, states] with leading dimension ld */                \
        const real *d;             /* [n] */                                                       \
        int64_t ld_step, ld;                                                                       \
        real *p, *z;                /* [states (states + 1) / 2, n], row s (s + 1) / 2 + t for */  \
                                    /* t <= s; [states, n] */                                      \
        real *square, *mixed;       /* [n] sums of squares with d and without */                   \
        real *least, *most, *steps; /* [n] of the row sums; sum of steps */                        \
        real *work;                 /* [RS_PAIR_WORK states] */                                    \
    } name

RS_KERNEL_PAIRS(float, rs_pairs_f32);
RS_KERNEL_PAIRS(double, rs_pairs_f64);

/* Tokens that the scan of Mamba's channels takes at once, at most: as many as `pair`. */
enum { RS_SELECT_TOKENS = RS_PAIR_TOKENS };

/* Declares what `select` of one element type takes: token after token of n channels of Mamba,
 *     h = exp(step rate) h + step u b,  y = h c + d u.  No step is below 0, no rate above. */
#define RS_KERNEL_SELECT(real, name)                                                               \
    typedef struct name {                                                                          \
        int64_t n, states, tokens; /* tokens: RS_SELECT_TOKENS at most */                          \
        real *y;                   /* [tokens, n], with leading dimension ld as u and step */      \
        const real *u, *step;      /* [tokens, n] */                                               \
        const real *b, *c;         /* [tokens, states] with leading dimension ld_read */           \
        const real *rate, *d;      /* [states, n], [n] */                                          \
        real *h;                   /* [states, n] */                                               \
        real *decay;               /* [tokens, states, n] becomes exp(step rate), or NULL */       \
        int64_t ld, ld_read;                                                                       \
    } name

RS_KERNEL_SELECT(float, rs_select_f32);
RS_KERNEL_SELECT(double, rs_select_f64);

/* Declares a product of small matrices of one element type: out = factor out + a b, row by row, where
 * out is not read if its factor is 0. */
#define RS_KERNEL_PRODUCT(real, name)                                                              \
    typedef struct name {                                                                          \
        int64_t m, n, k;                                                                           \
        real *out;          /* [m, n] with leading dimension ldo */                                \
        const real *factor; /* [m]: of row i at i*factor_step */                                   \
        const real *a;      /* [m, k]: entry i, t at i*a_row + t*a_col */                          \
        const real *b;      /* [k, n] with leading dimension ldb */                                \
        int64_t ldo, factor_step, a_row, a_col, ldb;                                               \
        bool lower; /* row i of `a` is 0 behind entry i, which need not be read */                 \
    } name

RS_KERNEL_PRODUCT(float, rs_product_f32);
RS_KERNEL_PRODUCT(double, rs_product_f64);

/* Places from .. to-1 of a text. */
typedef struct rs_key_span {
    int64_t from, to;
} rs_key_span;

/* The most queries and keys that `head` takes, the widest of its vectors, and the numbers of its room. */
enum {
    RS_HEAD_QUERIES = 128,
    RS_HEAD_KEYS = 64,
    RS_HEAD_DIM = 256,
    RS_HEAD_WORK = 2 * (RS_HEAD_QUERIES + RS_HEAD_DIM) * RS_HEAD_KEYS
};

/* Declares one head of attention among few keys, forth and back:
 *     out = P v,  P = softmax(scale q kᵀ) over the keys that a query sees.
 * Rows of q, k, v and of their derivatives are as far apart. */
#define RS_KERNEL_HEAD(real, name)                                                                 \
    typedef struct name {                                                                          \
        int64_t n, keys;        /* RS_HEAD_QUERIES and RS_HEAD_KEYS at most */                     \
        int64_t dim, value_dim; /* whole vectors (rs_kernels.lanes), RS_HEAD_DIM at most */        \
        const rs_key_span *see; /* [n] */                                                          \
        const real *q, *k;      /* [n, dim] with leading dimension ldq, [keys, dim] with ldk */    \
        const real *v;          /* [keys, value_dim] with ldv */                                   \
        real *out;              /* [n, value_dim] with ldo: the way forth alone */                 \
        int64_t ldq, ldk, ldv, ldo;                                                                \
        real scale;                                                                                \
        double *sums; /* the largest logit of query i and the sum of e^(logit - largest) at */     \
        int64_t step; /* i*step and behind it; NULL: forth, not kept */                            \
        const real *d_out; /* [n, value_dim] with ldo: this and what follows the way back alone */ \
        real *dq, *dk, *dv; /* as q, k, v */                                                       \
        real factor;        /* of the derivatives by queries and keys */                           \
        bool adds;          /* to dk and dv; dq is written anew */                                 \
        real *work;         /* [RS_HEAD_WORK] */                                                   \
        real *logits, *p;   /* [n, keys] become the logits before the mask, and P; NULL: forth, */ \
                            /* not wanted */                                                       \
    } name

RS_KERNEL_HEAD(float, rs_head_f32);
RS_KERNEL_HEAD(double, rs_head_f64);

/* Numbers that a norm keeps of a row, at most. */
enum { RS_NORM_KEPT = 3 };

/* Declares the table of one element type. x, y and the like are rows [n]. */
#define RS_KERNEL_TABLE(real, name, pairs, selected, products, heads)                                   \
    typedef struct name {                                                                               \
        const char *level;                                                                              \
        /* out [rows, n]: the norm of each row of x; no row's bits depend on its neighbours. gain, */   \
        /* bias [n] may be NULL; out may be x */                                                        \
        void (*norm)(real * out, const real *x, int64_t rows, int64_t n, rs_norm_kind kind,             \
                     double eps, const real *gain, const real *bias);                                   \
        /* the same, where kept [rows, norm_kept] is not NULL: it becomes what was found of each row */ \
        /* before gain and bias, or, where it is known, has been found of these rows and is not */      \
        /* found again */                                                                               \
        void (*norm_of)(real * out, const real *x, int64_t rows, int64_t n, rs_norm_kind kind,          \
                        double eps, const real *gain, const real *bias, real *kept, bool known);        \
        int64_t norm_kept; /* numbers a row; 0: nothing is kept */                                      \
        /* dx [rows, n] = (d norm / d x)^T dy, row by row; dx may be dy. gain_sum, bias_sum [n] */      \
        /* gain the rows' shares, in order, of the derivatives by gain and bias. hold: what the */      \
        /* norm multiplies by is a constant. kept: NULL, or what norm_of kept of x */                   \
        void (*norm_back)(real * dx, const real *x, const real *dy, int64_t rows, int64_t n,            \
                          rs_norm_kind kind, double eps, const real *gain, real *gain_sum,              \
                          real *bias_sum, bool hold, const real *kept);                                 \
        /* x = skip x + scale y */                                                                      \
        void (*combine)(real * x, const real *y, int64_t n, double skip, double scale);                 \
        /* x = act(x + bias); bias may be NULL */                                                       \
        void (*activate)(real * x, const real *bias, int64_t n, rs_activation activation);              \
        /* d = d act'(x), 0 at a kink; ratio: d act(x) / x, its limit at 0 */                           \
        void (*slope)(real * d, const real *x, int64_t n, rs_activation activation, bool ratio);        \
        /* The same, and x = act(x) */                                                                  \
        void (*slope_value)(real * d, real *x, int64_t n, rs_activation activation, bool ratio);        \
        /* up = act(gate + gate_bias) * (up + up_bias) */                                               \
        void (*gate)(real * up, const real *up_bias, const real *gate, const real *gate_bias,           \
                     int64_t n, rs_activation activation);                                              \
        /* One head's vector: pair t is (step t, step t + gap) */                                       \
        void (*rotate)(real * x, const real *cosine, const real *sine, int64_t pairs,                   \
                       rs_rope_pairing at);                                                             \
        /* x = cap tanh(x / cap) */                                                                     \
        void (*cap)(real * x, int64_t n, double cap);                                                   \
        /* Softmax of a row that comes in pieces: x = exp(x - m), m the largest so far. */              \
        /* *largest starts at -infinity, *sum at 0; returns the factor of earlier pieces. */            \
        double (*softmax)(real * x, int64_t n, double *largest, double *sum);                           \
        /* The same row once more, whole or a piece, where its largest and its sum are known: */        \
        /* x = factor exp(x - largest) */                                                               \
        void (*probabilities)(real * x, int64_t n, double largest, double factor);                      \
        /* x = a x */                                                                                   \
        void (*scale)(real * x, int64_t n, double a);                                                   \
        /* The first of the largest of x [n], n > 0 */                                                  \
        int64_t (*first_largest)(const real *x, int64_t n);                                             \
        /* Sum of p (d - centre) over entries whose p is not 0; *seen: that of p */                     \
        double (*weigh)(const real *p, const real *d, int64_t n, double centre, double *seen);          \
        /* out [m, n] = in [m, k] wᵀ, w [n, k] */                                                     \
        void (*dots)(real * out, int64_t ldo, const real *in, int64_t ldi, int64_t m,                   \
                     const real *w, int64_t ldw, int64_t n, int64_t k);                                 \
        /* out [m, n] = in [m, k] w, w [k, n] */                                                        \
        void (*columns)(real * out, int64_t ldo, const real *in, int64_t ldi, int64_t m,                \
                        const real *w, int64_t ldw, int64_t n, int64_t k);                              \
        /* x [n] = log(1 + exp(x)) */                                                                   \
        void (*softplus)(real * x, int64_t n);                                                          \
        /* out [n] = sum over taps of weight in, at most RS_CONV_TAPS of them; or out += it */          \
        void (*convolve)(real * out, const real *const *in, const real *const *weight, int taps,        \
                         int64_t n, bool adds);                                                         \
        /* NULL: BLAS is better at it, also where it copies what it multiplies */                       \
        void (*product)(const products *of);                                                            \
        /* A head, forth and back (RS_KERNEL_HEAD); NULL: its products and softmax go one by one */     \
        void (*head)(const heads *of);                                                                  \
        void (*head_back)(const heads *of);                                                             \
        int64_t lanes; /* numbers of a vector */                                                        \
        /* Some tokens of some channels of Mamba */                                                     \
        void (*select)(const selected *of);                                                             \
        /* Some tokens of the mixing matrices of the same channels */                                   \
        void (*pair)(const pairs *of);                                                                  \
        /* One token of n channels of S4D: h = decay h + u, y = d u + Re sum of weight h; */            \
        /* h, decay, weight: [2, pairs, n] real parts, then imaginary ones; y, u, d: [n], n up to */    \
        /* RS_TURN_MOST */                                                                              \
        void (*turn)(real * y, const real *u, const real *d, double *h, const double *decay,            \
                     const double *weight, int64_t n, int64_t pairs);                                   \
    } name

RS_KERNEL_TABLE(float, rs_kernels_f32, rs_pairs_f32, rs_select_f32, rs_product_f32, rs_head_f32);
RS_KERNEL_TABLE(double, rs_kernels_f64, rs_pairs_f64, rs_select_f64, rs_product_f64, rs_head_f64);

extern const rs_kernels_f32 rs_kernels_f32_plain, rs_kernels_f32_vector;
#if defined(__x86_64__)
extern const rs_kernels_f32 rs_kernels_f32_avx2, rs_kernels_f32_avx512; /* where it has them */
#endif
/* All tables that this processor can run, [*n]; the widest comes last. */
const rs_kernels_f32 *const *rs_kernels_f32_tables(size_t *n);
extern const rs_kernels_f64 rs_kernels_f64_plain;

/* The table for this processor. */
const rs_kernels_f32 *rs_kernels_f32_here(void);
const rs_kernels_f64 *rs_kernels_f64_here(void);

#endif
