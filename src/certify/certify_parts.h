/* certify_parts.h: parts of `certify` that its files share. */
#ifndef RS_CERTIFY_CERTIFY_PARTS_H
#define RS_CERTIFY_CERTIFY_PARTS_H

#include "certify/certify.h"
#include "certify/certify_lambda.h"

/* certify_floor.c: marks states that are rounding, and those that carry on what was. */
rs_status rs_certify_mark_floor(rs_certify_pass *pass, rs_error *err);

/* certify_published.c: the published bounds and the corrected recursion for all layers of a sample;
 * logs to base 10, NaN: none. */
typedef struct rs_published_row {
    double log_depth, log_layer; /* theorem from the input; lemma from the measured state */
    double log_recursion, log_recursion_layer; /* of ‖R‖₁,∞ about the mean */
    double gamma_min, beta, range;             /* numbers of this layer alone */
    const char *failed; /* first hypothesis that fails up to here; NULL: none does */
    const char *recursion_failed;
} rs_published_row;
void rs_certify_published(rs_published_row *out, const rs_certify_pass *pass,
                          const rs_weight_norms *norms, int64_t s, rs_head_sums *heads,
                          double *slack, const rs_chain_options *options);

/* certify_rate.c: how fast the tokens of a sample draw together in a layer, and by which law. */
typedef struct rs_rate {
    const char *class; /* cubic, linear, causal_half, none */
    double measured;   /* relative residual behind the layer over the one before it */
    double predicted;  /* that ratio with the predicted residual; NaN: there is none */
    double law;        /* |λ₂| that a linear law names; NaN: there is no such law */
    const char *evidence;
} rs_rate;
rs_rate rs_certify_rate(const rs_certify_pass *pass, const rs_certify_prediction *predicted,
                        int64_t s, int32_t l);

/* certify_mlp.c: how far the MLP of a layer moves tokens apart, as proved of rows no longer than the
 * sample's (rounded up), and as met; of several the most. NaN: there is no MLP, no bound of it, or
 * no two tokens to tell apart. */
typedef struct rs_certify_slope {
    double lipschitz, stretch;
} rs_certify_slope;
rs_certify_slope rs_certify_slope_of(const rs_certify_pass *pass, const rs_weight_norms *norms,
                                     int64_t s, int32_t l);

/* All that is known of one sample and layer, a row of table bounds. */
typedef struct rs_certify_row {
    int64_t sample, tokens;
    int32_t layer;
    const rs_certify_state *in, *out;
    rs_certify_layer certificate;
    rs_certify_least apart;
    rs_published_row published;
    rs_certify_prediction predicted;
    rs_rate rate;
    bool equal_input; /* the tokens that enter layer 0 are all the same */
    double tau;       /* largest τ of the heads; NaN: there is no attention */
    rs_certify_slope mlp;
} rs_certify_row;

/* All rows of a run. */
typedef struct rs_certified {
    const rs_network *network;
    rs_certify_row *rows; /* [samples, layers]; samples without tokens have tokens 0 */
    int64_t samples;
    double *chains;        /* [layers, layers] as rs_certify_chains leaves them */
    double *weight_chains; /* [layers, layers] with mixings bounded from the weights */
    const rs_certify_options *options;
} rs_certified;

/* A column of the tables: its member of the row's struct, its name, what kind of number it holds,
 * its formula. */
#define RS_CERTIFY_COLUMN(type_, member_, n, p, f)                                                 \
    {                                                                                              \
        .name = n, RS_CELL(type_, member_), .provenance = p, .formula = f                          \
    }
/* The same of numbers that bound the truth from above (UPPER) or below (LOWER). */
#define RS_CERTIFY_BOUND(type_, member_, n, side_, f)                                              \
    {                                                                                              \
        .name = n, RS_CELL(type_, member_), .provenance = "certified", .bound = RS_BOUND_##side_,  \
        .formula = f                                                                               \
    }
/* The same, null where `number` is. */
#define RS_CERTIFY_TWIN(type_, member_, number, n, p, f)                                           \
    {                                                                                              \
        .name = n, RS_CELL(type_, member_), RS_WITH(type_, number), .provenance = p, .formula = f  \
    }

/* certify_tables.c, certify_findings.c, certify_figures.c */
rs_status rs_certify_tables(rs_result *result, const rs_certified *c, rs_error *err);
rs_status rs_certify_findings(rs_result *result, const rs_certified *c, rs_error *err);
rs_status rs_certify_figures(rs_result *result, const rs_certified *c, rs_error *err);

#endif
