/*
 * init.h: weights drawn at random for a network that has no checkpoint.
 *
 * Draws depend on (seed, role, layer, index) only: the same for any number of threads and any order
 * of asking. Weights are stored as float32 tensors, so that every precision runs the same model.
 */
#ifndef RS_NETWORK_INIT_H
#define RS_NETWORK_INIT_H

#include "base/budget.h"
#include "recognise/model.h"

struct rs_network; /* network.h */
typedef struct rs_init rs_init;

/* Opens a source of weights. law: "default" or NULL (what the model's own library does at
 * initialisation: see rs_init_set_default), "xavier" (normal of variance 2/(fan_in + fan_out)),
 * "orthogonal", or "normal(0, VARIANCE)" where VARIANCE is an expression of fan_in, fan_out, d and
 * L ("1/fan_in", "0.02^2"). Any other text is refused. A law other than default is for the maps of
 * mixers and MLP; embeddings and heads keep the default, biases are 0 and gains 1 under every
 * law. */
rs_status rs_init_open(rs_init **out, const char *law, uint64_t seed, rs_error *err);
void rs_init_close(rs_init *init);

/* What "default" means for this configuration: normal of standard deviation std; outputs of
 * residual branches (RS_ROLE_O, RS_ROLE_MLP_DOWN) use residual_std (GPT-2: std/sqrt(2L)). d and L
 * are what formulas know. */
void rs_init_set_default(rs_init *init, double std, double residual_std, int64_t d_model,
                         int32_t layers);

/* A model is asked for twice, so that one too large is refused before its first weight is drawn:
 * after rs_init_plan, rs_init_tensor only counts (data is NULL); rs_init_start refuses what the
 * memory cannot hold (RS_E_MEMORY_LIMIT, with the size) and forgets the plan. Without a
 * plan, each tensor is checked as it comes. */
void rs_init_plan(rs_init *init);
rs_status rs_init_start(rs_init *init, const struct rs_network *plan, rs_error *err);
/* Refuses `numbers` more float32 numbers than memory holds; and a description of that many layers,
 * which is the first thing that a model of 65536 of them takes. */
rs_status rs_init_expect(const rs_init *init, double numbers, rs_error *err);
rs_status rs_init_expect_layers(const rs_init *init, int64_t layers, size_t layer_bytes,
                                rs_error *err);

/* Adds what a run over the planned network will hold beside its weights, so that one too large is
 * refused before anything is drawn. where: who is refused (a literal, or what outlives init); NULL:
 * "random weights". */
typedef void rs_init_need(rs_budget *budget, const struct rs_network *plan, const void *user);
void rs_init_set_memory(rs_init *init, rs_memory_bound bound, const char *where, rs_init_need *need,
                        const void *user);
/* The bytes of all tensors drawn so far. */
uint64_t rs_init_bytes(const rs_init *init);

/* Gives a role a law of its own, in ARCH.json's words: normal(mean, variance), uniform(a, b),
 * orthogonal, zero, identity, with expressions. */
rs_status rs_init_set_role(rs_init *init, rs_role role, const char *law, const char *where,
                           rs_error *err);

/* Draws one tensor; asking again for the same role and layer draws another one. A norm whose stored
 * weight is added to 1 (Gemma) asks with `bias`. Its matrix view is out×in when out_is_row, else
 * in×out; fan_in and fan_out follow. Roles of norms give 1 (weight) or 0 (bias part). Owned by
 * init. Sizes are overflow-checked; a model beyond the memory at hand is RS_E_MEMORY_LIMIT with
 * the size it would need. */
rs_status rs_init_tensor(const rs_tensor **out, rs_init *init, rs_role role, bool bias,
                         int32_t layer, uint32_t rank, const int64_t *shape, bool out_is_row,
                         rs_error *err);

/* The law that a tensor was drawn from, or will be: numbers are those of its sizes. */
typedef enum rs_weight_law_kind {
    RS_LAW_NORMAL,  /* mean, deviation */
    RS_LAW_UNIFORM, /* low, high */
    RS_LAW_ORTHOGONAL,
    RS_LAW_ZERO,
    RS_LAW_ONE,
    RS_LAW_IDENTITY
} rs_weight_law_kind;
typedef struct rs_weight_law {
    rs_weight_law_kind kind;
    double mean, deviation, low, high;
} rs_weight_law;
/* Of a tensor that rs_init_tensor gave; planned ones have it too. What the functions below write over
 * it does not change it. NULL: the tensor is `fixed`, its numbers are given. Not of others. */
const rs_weight_law *rs_init_law(const rs_tensor *tensor);
/* The same as rs_init_tensor, [out, in] or [count], from a law that is given, whatever those of the init
 * are. */
rs_status rs_init_tensor_by(const rs_tensor **out, rs_init *init, rs_role role, int32_t layer,
                            const rs_weight_law *given, uint32_t rank, const int64_t *shape,
                            rs_error *err);
/* The mean of the squares of a matrix drawn from it. */
double rs_weight_law_square(const rs_weight_law *law, int64_t in, int64_t out);
/* The mean of its entries, of normal and uniform laws; 0 of the others. */
double rs_weight_law_mean(const rs_weight_law *law);

/* The numbers of a tensor that this init drew, for what no law says: a padding token's row of
 * zeros, sinusoids. NULL between rs_init_plan and rs_init_start. */
float *rs_init_numbers(const rs_init *init, const rs_tensor *tensor);
/* Number i, uniform in (0, 1), of a stream of that tensor's own, for such numbers. */
double rs_init_uniform(const rs_init *init, const rs_tensor *tensor, int64_t i);

/* The law that rs_init_open was given is "default". */
bool rs_init_is_default(const rs_init *init);

/* These overwrite a drawn tensor (init_numbers.c): with numbers uniform in (-bound, bound); with
 * one value; with the logarithms of 1, 2, ..., n again and again (rates of S4D's real part); with
 * logarithms of numbers uniform in (low, high); with the numbers whose softplus is a step between low and high, uniform in its logarithm, and no less
 * than `least`. The first two do nothing where tensor is NULL. */
void rs_init_fill_uniform(const rs_init *init, const rs_tensor *tensor, double bound);
void rs_init_fill(const rs_init *init, const rs_tensor *tensor, double value);
void rs_init_fill_rates(const rs_init *init, const rs_tensor *tensor, int64_t n);
void rs_init_fill_logs(const rs_init *init, const rs_tensor *tensor, double low, double high);
void rs_init_fill_steps(const rs_init *init, const rs_tensor *tensor, double low, double high,
                        double least);

/* The same for S4D: with logarithms of steps between low and high, uniform in them; with pi 0, pi 1,
 * ..., pi (n - 1) again and again. The last multiplies what was drawn. */
void rs_init_fill_log_steps(const rs_init *init, const rs_tensor *tensor, double low, double high);
void rs_init_fill_frequencies(const rs_init *init, const rs_tensor *tensor, int64_t n);
void rs_init_scale(const rs_init *init, const rs_tensor *tensor, double factor);

/* Sets how many threads draw (unasked: one); the numbers do not depend on it. */
void rs_init_set_threads(rs_init *init, int threads);

/* Evaluates an expression such as "1/sqrt(L)" over the names given (NULL-terminated) and their
 * values; + - * / ^ ( ) sqrt. values NULL: only the spelling is checked, *value means nothing. The
 * result is finite; RS_E_EXPRESSION otherwise. Shared with ARCH.json's formulas and with
 * --residual-scale. */
rs_status rs_expression(double *value, const char *text, const char *const *names,
                        const double *values, const char *where, rs_error *err);

#endif
