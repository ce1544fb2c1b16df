/*
 * certify.h: `rankscope certify`: what can be proved, for these inputs, about how a network's
 * layers draw the tokens together or keep them apart (docs/certify.md, docs/certificates.md).
 *
 * From below: certify_weights.c bounds the norms of every layer's weights once; three listeners
 * hear one float64 pass (certify_gather.h): certify_gather.c keeps a few numbers for each sample,
 * branch and head, certify_predict.c follows the leading-order law, certify_lambda.c weighs skip
 * strengths; certify_chain.c turns what was kept into certificates, certify_published.c into the
 * published bounds; certify_tables.c and certify_findings.c say it. rs_certify_open and
 * rs_certify_finish stand before and behind a pass that others may hear too, rs_certify runs one of
 * its own, rs_certify_path opens a path first.
 */
#ifndef RS_CERTIFY_CERTIFY_H
#define RS_CERTIFY_CERTIFY_H

#include "engine/forward.h"
#include "linalg/norm_bounds.h"
#include "measures/token_measures.h"
#include "network/edit.h"
#include "observe/opened.h"
#include "observe/stack.h"
#include "proof/bounds.h"

/* ---- weights: certified upper bounds, once a layer (certify_weights.c) ---- */

/* Upper bounds of norms of one head's weights. */
typedef struct rs_head_norms {
    rs_product_norms qk;           /* of W_QK = W_QW_Kᵀ, without the scale; left W_Q, right W_K */
    rs_product_norms w;            /* of W_h = W_VW_O; left W_V, right W_O */
    double q_bias, k_bias, v_bias; /* lengths of the biases */
    double distance_most;          /* largest |bias that depends on the distance| */
} rs_head_norms;

/* A norm's largest |gain| and the length of its bias; 1 and 0 where it has none. */
typedef struct rs_gain_norms {
    double largest, bias;
    bool plain; /* gain 1 and bias 0 */
} rs_gain_norms;

/* Upper bounds of norms of one branch's weights. */
typedef struct rs_branch_norms {
    rs_head_norms *heads; /* [n_heads]; NULL: the branch is no attention */
    int32_t n_heads;
    double o_bias; /* length of the output's bias */
    /* MLP */
    rs_mlp_bound mlp;
    double up_fro, gate_fro, down_fro, up_bias, gate_bias, down_bias; /* biases: lengths */
    double up_one, up_inf, down_one, down_inf; /* ‖W‖₁ and ‖W‖∞ of the maps x ↦ xW */
    rs_gain_norms before, inside, after;
    rs_gain_norms q_norm, k_norm; /* those of QK-norm */
} rs_branch_norms;

typedef struct rs_layer_norms {
    rs_branch_norms branches[RS_BRANCHES_MAX];
} rs_layer_norms;

typedef struct rs_weight_norms {
    rs_layer_norms *layers; /* [n_layers]; layers that share weights share what they point to */
    int32_t n_layers;
    rs_head_norms *heads;
} rs_weight_norms;
rs_status rs_weight_norms_open(rs_weight_norms **out, const rs_network *network,
                               const rs_context *context, rs_error *err);
void rs_weight_norms_close(rs_weight_norms *norms); /* NULL is fine */
/* Reads the largest |gain| and the length of the bias of one norm. scratch: dim doubles. */
void rs_gain_norms_of(rs_gain_norms *out, double *scratch, const rs_norm_op *norm);

/* ---- a pass: what is kept of it (certify_gather.c) ---- */

/* One head on one sample. */
typedef struct rs_certify_head {
    double tau;         /* τ of the mixing matrix (proof/bounds.h), computed */
    double range;       /* max_i range_j E_ij about the mean token; NaN: logits not of that form */
    double sum_ranges;  /* Σ_i range_j E_ij */
    double range_error; /* what the evaluation of `range` may have lost */
    double second;  /* |λ₂| of the mixing matrix where a linear law may apply; NaN: not asked */
    double centred; /* ‖(I − 11ᵀ/n) P‖_F, rounded up: bounds the spectral norm */
    double frobenius; /* ‖P‖_F, computed */
} rs_certify_head;

/* One branch on one sample. Lengths are of rows, 2-norm; stds are min over rows of √(var + ε), the
 * root mean square instead under RMSNorm, rounded down past their own evaluation. NaN: no norm. */
typedef struct rs_certify_branch {
    double longest_in, longest_op_in, longest_op_out, longest_sum;
    double longest_read; /* longest row that the norm `before` reads */
    double before_std, inside_std, after_std;
    double mlp_stretch; /* of an MLP: how far it moved two tokens apart at most; NaN: none are */
    double turn;        /* rotary positions: by how much an angle may be wrong, radians */
    int64_t empty_rows; /* rows of attention that see nothing, summed over the heads */
} rs_certify_branch;

/* A state on one sample: 0 enters the first layer, l leaves layer l − 1. */
typedef struct rs_certify_state {
    double diameter, residual_1inf, residual_fro, relative_residual, norm_fro, longest;
    bool at_floor, equal; /* its residual is rounding; all rows are the same bit for bit */
    bool finite;
} rs_certify_state;
/* What the leading-order law says of one layer on one sample. */
typedef struct rs_certify_prediction {
    double diameter, residual, error; /* predicted; ‖R_pred‖_F; ‖R_pred − R‖_F/‖R‖_F */
    const char *reason;               /* why there is no prediction; NULL: there is one */
} rs_certify_prediction;

/* Certified and published skip strengths of one layer on one sample (certify_lambda.c). */
typedef struct rs_certify_lambda rs_certify_lambda;

/* What is kept of a pass. */
typedef struct rs_certify_pass {
    const rs_network *network;
    int64_t samples;
    int64_t *tokens;             /* [samples] */
    rs_certify_state *states;    /* [samples, layers+1] */
    rs_certify_branch *branches; /* [samples, layers, RS_BRANCHES_MAX] */
    rs_certify_head *heads;      /* [samples, n_heads of all branches] */
    size_t *head_at;             /* [layers*RS_BRANCHES_MAX + 1] */
} rs_certify_pass;

static inline const rs_certify_state *rs_pass_state(const rs_certify_pass *p, int64_t s, int64_t l)
{
    return &p->states[s * (p->network->n_layers + 1) + l];
}
static inline rs_certify_branch *rs_pass_branch(const rs_certify_pass *p, int64_t s, int64_t l,
                                                int64_t b)
{
    return &p->branches[(s * p->network->n_layers + l) * RS_BRANCHES_MAX + b];
}
static inline rs_certify_head *rs_pass_heads(const rs_certify_pass *p, int64_t s, int64_t l,
                                             int64_t b)
{
    size_t all = p->head_at[(size_t)p->network->n_layers * RS_BRANCHES_MAX];
    return p->heads + (size_t)s * all + p->head_at[l * RS_BRANCHES_MAX + b];
}

/* ---- certificates (certify_chain.c, certify_deviation.c) ---- */

/* Bounds of the state that leaves a layer; logs are to base 10, −∞ for 0, +∞ or NaN:
 * nothing known. */
typedef struct rs_certificate {
    double log_upper, upper; /* upper rounded up; +∞ beyond the range of doubles */
    double log_lower, lower;
    int32_t source;        /* the chain begins with the measured state that enters this layer */
    const char *condition; /* NULL: proved; else it holds if the exact layers apply the mixing
                              matrices that the float64 pass met, and this is why that is asked */
    bool enclosed;         /* lower: from the pass with its rounding bounded, not from C6 */
    const char *failed;    /* why there is no certificate; NULL: there is one */
} rs_certificate;

/* The certificates of one layer: the best, of this layer alone, and from the input on. */
typedef struct rs_certify_layer {
    rs_certificate best, one_step, from_input;
} rs_certify_layer;

/* What certificates may rest on. */
typedef struct rs_chain_options {
    bool rigorous;     /* what hangs on a condition is no certificate: it failed, for that reason */
    bool weights_only; /* mixings are bounded from the weights alone, not as measured */
    rs_bound_constants constants;
} rs_chain_options;

/* out [layers] of sample s, may be NULL; chains [layers, layers] log_upper from source (row)
 * through layer (column), the largest over the samples so far is kept (NaN: none yet); may be NULL.
 * heads, slack: workspace for the heads of one branch. */
void rs_certify_chains(rs_certify_layer *out, double *chains, const rs_certify_pass *pass,
                       const rs_weight_norms *norms, int64_t s, const rs_chain_options *options,
                       rs_head_bound *heads, double *slack);

/* C9: how far, at most, the exact trajectory from a tapped state is from the computed one (row
 * norms; float64, rounded up past their own evaluation). */
typedef struct rs_norm_site {
    double largest_gain, bias; /* the norm's largest |gain| and the length of its bias */
    double least_std;          /* lower bound of the computed rows' stds */
    double longest;            /* longest row that it reads */
    int64_t dim;
    double epsilon; /* what is added under the root */
} rs_norm_site;
/* Deviation behind a norm of rows that deviate by `deviation`; *least_std becomes the lower bound
 * of the exact rows' stds (0: none is known, and the deviation is infinite). */
double rs_deviation_norm(double *least_std, const rs_norm_site *site, double deviation);

/* The rows that an op reads. */
typedef struct rs_op_site {
    double longest;   /* longest of the rows */
    double deviation; /* how far the exact rows are from the computed ones, at most */
    double diameter;  /* upper bound of the computed rows' diameter */
    int64_t dim, tokens;
    double turn; /* rotary positions: by how much an angle may be wrong, radians */
    bool given;  /* the exact layer applies the pass's mixing matrices: a condition */
} rs_op_site;
/* Why it is not bounded how far rounding moves this attention's mixing matrices, with angles known
 * to `turn`; NULL: it is. */
const char *rs_mixing_unbounded(const rs_attention_op *op, double turn);
/* The deviation behind attention; infinite where mixings are neither bounded nor given. slack
 * [heads]: what a computed τ may miss of the exact one, and a row of the mixing matrix too
 * (2-norm). */
double rs_deviation_attention(double *slack, const rs_attention_op *op,
                              const rs_branch_norms *norms, const rs_op_site *site);
double rs_deviation_mlp(const rs_mlp_op *op, const rs_branch_norms *norms, const rs_op_site *site,
                        double lipschitz, const rs_bound_constants *c);
/* A lower bound of the diameter of exact rows of width d, of which the computed ones have this
 * one. */
double rs_deviation_diameter(double diameter, int64_t d, double deviation);
/* The deviation of skip·x + scale·y. longest_op: the longest row that is scaled, behind an inside
 * norm. */
double rs_deviation_sum(double skip, double state, double longest_state, double scale, double op,
                        double longest_op);

/* ---- one branch of one sample, exact beside computed (certify_exact.c) ---- */

/* A branch on a sample. */
typedef struct rs_exact_branch {
    const rs_branch *branch;
    const rs_branch_norms *norms;
    const rs_certify_branch *seen;
    int64_t tokens;
} rs_exact_branch;
/* The deviation behind a norm, which may be none, of computed rows with these stds and lengths;
 * *low: the least std of the exact rows. Infinite where *low is 0. */
double rs_exact_norm(double *low, const rs_norm_op *norm, const rs_gain_norms *gain,
                     double least_std, double longest, double deviation);
/* The deviation behind the attention. *condition: set, unless it was, where the mixings of the pass
 * have to be taken as they are. slack as rs_deviation_attention. */
double rs_exact_attention(double *slack, const char **condition, const rs_exact_branch *at,
                          double diameter, double deviation);
/* The deviation behind an MLP; *lipschitz: of the MLP, on rows as long as these. */
double rs_exact_mlp(const rs_exact_branch *at, double *lipschitz, const rs_bound_constants *c,
                    double deviation);
/* The longest row that the branch's scale multiplies. */
double rs_exact_longest(const rs_exact_branch *at);
/* The deviation behind before-norm, attention or MLP, and inside norm, from a tapped state that is
 * taken as exact. */
double rs_exact_added(double *slack, const char **condition, const rs_exact_branch *at);

/* ---- the command ---- */

/* What to certify and say. */
typedef struct rs_certify_options {
    rs_input_source source;
    rs_edit edit;
    bool edited;
    int64_t batch; /* samples that are run at once; 0: as memory allows */
    bool rigorous; /* what hangs on a condition is left out, with the reason */
    bool beside;   /* the result is probe's: the summary is table "certificate", and inputs and run
                      are described already */
    double kept;   /* fraction of μ that a layer is to keep, for table lambda */
    double recommend; /* relative μ that recommended λ are to leave behind the last layer; 0: no λ
                         is recommended */
    const rs_map_choice *steps; /* [n_steps] heads on which the published proof is gone through,
                                   borrowed */
    size_t n_steps;
} rs_certify_options;
void rs_certify_defaults(rs_certify_options *options);
/* certify_needs.c: adds up the memory of a run with these options. */
rs_run_need rs_certify_need;
/* Adds up what it keeps beside the pass, which may be another's. */
void rs_certify_need_kept(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                          const rs_edit *edit);
/* Adds up what the norms of mixing matrices, and of what MLPs do, take of a float64 pass in batches
 * of so many samples. */
void rs_certify_need_norms(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                           int64_t batch, const rs_context *context);
/* The same of bounds on the rounding of state-space mixers, which are evaluated once more one at a
 * time: without --fast. */
void rs_certify_need_rounding(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                              int64_t batch, const rs_context *context);
/* The same of the heads of options->steps. */
void rs_certify_need_steps(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                           const rs_certify_options *options, const rs_context *context);

/* A certification that hears a pass: opened before it, finished behind it. */
typedef struct rs_certifying rs_certifying;
enum { RS_CERTIFY_LISTENERS = 3 };
/* Bounds the norms of the weights and opens the listeners. They must hear, in their order, a
 * float64 pass of the network with options->edit over `inputs`, in batches as rs_pass_capacity says
 * for that network and options->batch; network, inputs, options and context outlive it. */
rs_status rs_certify_open(rs_certifying **out, const rs_network *network, const rs_inputs *inputs,
                          const rs_certify_options *options, const rs_context *context,
                          rs_error *err);
void rs_certify_listeners(rs_listener *out[RS_CERTIFY_LISTENERS], const rs_certifying *certifying);
/* Runs such a pass for the listeners alone. */
rs_status rs_certify_run(const rs_certifying *certifying, rs_error *err);
/* Fills `result` with the tables, figures and findings of docs/contract.md, certify. */
rs_status rs_certify_finish(rs_result *result, rs_certifying *certifying, rs_error *err);
void rs_certify_close(rs_certifying *certifying); /* NULL is fine */

/* Does all of that, with a pass of its own. */
rs_status rs_certify(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                     const rs_certify_options *options, const rs_context *context, rs_error *err);

/* The command as the command line asks for it. */
typedef struct rs_certify_request {
    const rs_lent_model *lent; /* a model that is open already, instead of path; NULL */
    const char *path;
    const char *init; /* NULL: the weights of a checkpoint */
    bool lenient;
    rs_certify_options options;
} rs_certify_request;
/* Opens, certifies and closes. inputs receives the files never to overwrite. */
rs_status rs_certify_path(rs_result *result, rs_input_files *inputs,
                          const rs_certify_request *request, const rs_context *context,
                          rs_error *err);

/* certify_stack.c: what the weights of a network say of all its branches, for whoever proves something
 * of the whole stack. */
rs_stack_bounds_of rs_certify_stack;

/* What its tables can have, for rs_explain. */
extern const rs_table_kind rs_certify_summary_kind, rs_certify_bounds_kind, rs_certify_chains_kind,
    rs_certify_lambda_kind, rs_certify_intervals_kind, rs_certify_demands_kind,
    rs_certify_recommendation_kind, rs_certify_recommendation_layers_kind, rs_certify_proof_kind,
    rs_certify_proof_numbers_kind;

#endif
