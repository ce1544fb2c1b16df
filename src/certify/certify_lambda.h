/* certify_lambda.h: table lambda of `certify`: which skip strengths would keep the tokens of each
 * layer apart (lambda.h, docs/certificates_lambda.md). */
#ifndef RS_CERTIFY_CERTIFY_LAMBDA_H
#define RS_CERTIFY_CERTIFY_LAMBDA_H

#include "certify/certify.h"
#include "proof/lambda.h"

/* Which theorems have their number from the weights: it hangs on no rounding (L25). */
typedef struct rs_lambda_by_weights {
    bool a, a_layer, d, d_kept;
} rs_lambda_by_weights;

/* One mixer on one sample; NaN: nothing is known or it does not apply. */
typedef struct rs_lambda_row {
    bool told, at_floor;   /* at_floor: the spread that enters is rounding */
    bool nonfinite;        /* no row: what enters or is added is not finite */
    const char *condition; /* why the pass's branch is taken as it is; NULL: that is proved */
    rs_lambda_by_weights by_weights;
    double lambda;                /* the model's own λ */
    double exact_low, exact_high; /* all λ outside are certified for the sum, before any norm */
    double worst, worst_kept;     /* λ at which the sum keeps least of μ, and that fraction */
    double certified, certified_negative; /* half lines with the norm of the sum, or as above */
    double kept_now, kept_now_error;      /* μ behind the mixer over μ before it, at the own λ */
    double theorem_a, theorem_a_layer, theorem_b, theorem_d, eq7, published_both;
    const char *failed_kept, *failed_certified;
    const char *failed_exact, *failed_a, *failed_a_layer, *failed_b, *failed_d, *failed_eq7;
    double gain, smoothing, smoothing_published, consensus;
    const char *failed_gain, *failed_consensus, *failed_smoothing;
    double mlp_gain;                            /* gain of the layer's MLP, from its weights */
    double any_demand, any_kept;                /* λ, and what is kept, for every input */
    double theorem_d_kept, theorem_d_published; /* what is left at every depth, own λ */
    double eq7_input;                           /* b of the published condition μ² ≥ b */
    const char *failed_mlp_gain, *failed_any, *failed_d_kept, *failed_eq7_input;
    double theorem_c;              /* what is kept of μ, with the matrices of the pass */
    bool theorem_c_hangs;          /* those matrices are the tokens' own */
    double fixed_kept, mean_share; /* what is kept by all X with no larger a share of √n‖x̄‖/μ(X) */
    const char *failed_fixed;
    const char *outcome; /* where nearly equal tokens go; NULL: not known */
    const char *failed_c;
    double stack_rate;         /* the consensus multiplier of the layers up to this one */
    const char *stack_outcome; /* and where nearly equal tokens have gone by then */
    const char *failed_stack;
    double published;              /* S C_M of the published theorem, from the weights; NaN: none */
    rs_lambda_facts facts;         /* of X and O */
    rs_lambda_interval *intervals; /* [n_intervals] that make up all λ, ascending */
    size_t n_intervals;
} rs_lambda_row;

/* How far apart two tokens of every sample provably are, at least, behind a layer, from the measured
 * state that enters it. */
typedef struct rs_certify_least {
    double lower, log_lower;
    const char *by;        /* what it rests on, as column at_least_by has it; NULL: lower is 0 */
    const char *condition; /* as that of a certificate */
    const char *failed;    /* why there is none; NULL: there is one */
} rs_certify_least;

/* certify_lambda.c: the same by what the mixer keeps of μ, where nothing stands behind it in the
 * layer; false: there is none. */
bool rs_certify_least_by_mixer(rs_certify_least *out, const rs_certify_lambda *lambda, int64_t s,
                               int32_t l);
/* certify_smoothing.c: fills what row says of the over-smoothing factor; work: three numbers a
 * head. */
void rs_certify_smoothing(rs_lambda_row *row, const rs_weight_norms *norms,
                          const rs_certify_pass *pass, int64_t s, int32_t l, double *work);
/* certify_lambda.c: what the table shows. */
int64_t rs_certify_lambda_samples(const rs_certify_lambda *lambda);
const rs_lambda_row *rs_certify_lambda_row(const rs_certify_lambda *lambda, int64_t s, int32_t l);
const rs_network *rs_certify_lambda_network(const rs_certify_lambda *lambda);
double rs_certify_lambda_kept(const rs_certify_lambda *lambda);
/* S of the published theorem for the mixer of layer l: what its value map stretches by at most. NaN:
 * not known. */
double rs_certify_lambda_stretch(const rs_certify_lambda *lambda, int32_t l);
/* The largest ‖M‖_F of its mixing matrices on sample s, as measured. NaN: the pass has none. */
double rs_certify_lambda_frobenius(const rs_certify_lambda *lambda, int64_t s, int32_t l);
/* Why the mixer of layer l is not what the published theorem is about, M X C_V alone; NULL: it
 * is. */
const char *rs_certify_lambda_adds_more(const rs_certify_lambda *lambda, int32_t l);
/* certify_lambda_table.c */
rs_status rs_certify_lambda_table(rs_result *result, const rs_certify_lambda *lambda,
                                  rs_error *err);
/* certify_demands_stack.c: what the published theorem asks of the whole network on one sample. K:
 * the number of its mixers. */
typedef struct rs_stack_demand {
    double bound, measured;      /* S C_M with C_M from the weights; with the measured ‖M‖_F */
    double eq7_measured;         /* equation 7 of it */
    double both, both_measured;  /* it and the condition on what enters the first layer */
    int32_t layer;               /* the one with the largest ‖M‖_F */
    int32_t layers;              /* K */
    const char *failed;          /* hypothesis that fails; NULL: none does */
    const char *failed_measured; /* the same, or why there is no number */
} rs_stack_demand;
/* False: the sample has no tokens that differ by more than rounding. */
bool rs_certify_stack_demand(rs_stack_demand *out, const rs_certify_lambda *lambda, int64_t s);
/* certify_demands.c: what the statements ask for over all layers and samples. */
rs_status rs_certify_demands_table(rs_result *result, const rs_certify_lambda *lambda,
                                   rs_error *err);
/* certify_lambda_findings.c */
rs_status rs_certify_lambda_findings(rs_result *result, const rs_certify_lambda *lambda,
                                     rs_error *err);

#endif
