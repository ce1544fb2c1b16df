/*
 * certify_lambda_parts.h: how table lambda is made, one way: what the weights alone say
 * (certify_lambda_weights.c), from it and one layer on one sample a row (certify_lambda_row.c), all
 * rows by the listener (certify_lambda.c), then certify_lambda_table.c.
 */
#ifndef RS_CERTIFY_CERTIFY_LAMBDA_PARTS_H
#define RS_CERTIFY_CERTIFY_LAMBDA_PARTS_H

#include "certify/certify_gather.h"
#include "proof/lambda.h"

/* What the weights alone say of each layer. */
typedef struct rs_certify_gains {
    double *mixers;         /* [layers] gain of the mixer's rows (L12); NaN: none */
    rs_lambda_number *mlps; /* [layers] the same of the MLP (L13) */
    /* [layers] the same of all branches that share the mixer's skip, where there are several or one
     * of them is no softmax attention (L21 to L25) */
    rs_lambda_number *sums;
    double *stretch; /* [layers] S of the published theorem, the branch's scale in it; NaN: none */
    size_t *head_at; /* [layers] first head of the layer's mixer in the two lists below */
    /* [heads] ‖W_V W_O‖₂, from above; read: with the gain of the norm before it folded in */
    double *plain, *read;
    size_t heads; /* of all layers, and one */
} rs_certify_gains;
rs_status rs_certify_gains_open(rs_certify_gains *gains, const rs_certify_scene *scene,
                                rs_error *err);
void rs_certify_gains_close(rs_certify_gains *gains);
/* The mixer of layer l as theorems take it, the gain of the norm before it in its heads' norms. */
rs_lambda_attention_weights rs_certify_attention_weights(const rs_certify_gains *gains,
                                                         const rs_network *network, int32_t l);
/* Why the rows of a mixer are not bounded by its weights alone; NULL: they are (L12). */
const char *rs_certify_gain_fails(const rs_network *network, int32_t l, const rs_branch *mixer);
/* The norm through which branch b of layer l reads the tokens; NULL: none. Its output is what the
 * branch sees, unless an unnormed skip carries something past it. */
const rs_norm_op *rs_certify_reads_through(const rs_network *network, int32_t l, int32_t b);
/* certify_mixer_gains.c: the gain of a branch that is no softmax attention, for inputs of at most so
 * many tokens. */
rs_status rs_certify_mixer_gain(rs_lambda_number *out, const rs_network *network, int32_t l,
                                int32_t b, int64_t tokens, rs_error *err);
/* certify_layer_gains.c: the gain of any branch by itself; of the scene the network, its norms and
 * the longest input are read. scratch: d doubles. */
rs_status rs_certify_branch_gain(rs_lambda_number *out, const rs_certify_scene *scene, int32_t l,
                                 int32_t b, double *scratch, rs_error *err);
/* The last of the branches that add to the mixer's skip what they read of the same tokens, with no
 * norm and no other strength of the skip in between: their sum is the O of λX + O. The mixer itself
 * where it is alone. */
const rs_branch *rs_certify_last_on_skip(const rs_layer *layer, const rs_branch *mixer);
/* Fills gains->sums; the rest of gains is there. */
rs_status rs_certify_sum_gains(rs_certify_gains *gains, const rs_certify_scene *scene,
                               rs_error *err);
/* The gain of an MLP, branch b of layer l; scratch: d doubles. */
rs_lambda_number rs_certify_mlp_gain(const rs_network *network, const rs_weight_norms *norms,
                                     int32_t l, int32_t b, double *scratch);
/* The same of an attention. plain, read: [heads], or NULL. */
rs_lambda_number rs_certify_attention_gain(double *plain, double *read, const rs_network *network,
                                           const rs_weight_norms *norms, int32_t l, int32_t b,
                                           double *scratch);
/* certify_stretch.c: S of the published theorem for layer l's mixer; gains has the norms of its
 * heads. And why the mixer adds more than M X C_V to the skip, which the theorem is not about;
 * NULL: it does not. */
rs_status rs_certify_stretch(double *out, const rs_certify_gains *gains, const rs_network *network,
                             int32_t l, rs_error *err);
const char *rs_certify_adds_more(const rs_network *network, const rs_weight_norms *norms,
                                 int32_t l);
/* Fills what row says of every input of n tokens (L19); head_norms: [heads] ‖W_V W_O‖₂, from above.
 */
void rs_certify_any_input(rs_lambda_row *row, const rs_branch *mixer, const double *head_norms,
                          int64_t n, double kept);

/* Workspaces of one thread. */
typedef struct rs_lambda_tools {
    rs_lambda_arcs *arcs;
    rs_lambda_set set;
} rs_lambda_tools;

/* certify_lambda_row.c: a row that says nothing, of a mixer whose skip is λ. */
void rs_lambda_row_clear(rs_lambda_row *row, double lambda);
/* Fills a cleared row: layer l on one sample. sum: [n, d], λX + O at the model's own λ, as the pass
 * has it. */
rs_status rs_lambda_row_fill(rs_lambda_row *row, const rs_certify_scene *scene,
                             const rs_certify_gains *gains, const rs_lambda_layer *layer,
                             const double *sum, int32_t l, rs_lambda_tools *tools, rs_error *err);
/* --rigorous: what hangs on the row's condition is left out, for that reason. */
void rs_lambda_row_leave_out(rs_lambda_row *row);
/* What the row says of X and O themselves: exact set, half lines, intervals, and what the model's
 * own λ keeps. */
rs_status rs_lambda_row_measure(rs_lambda_row *row, const rs_lambda_layer *layer, const double *sum,
                                double kept, rs_lambda_tools *tools, rs_error *err);
/* Theorem D at the λ that the model has, with rows of at most facts->row_gain; and the λ that a
 * theorem asks for, NaN with the reason where it does not apply. */
void rs_lambda_row_depth(rs_lambda_row *row, const rs_lambda_facts *facts, const rs_branch *mixer);
double rs_lambda_demanded(const rs_lambda_number *asked, const char **failed);
extern const char rs_lambda_pre_norm_text[];

/* certify_lambda_unproved.c: fills a cleared row of a mixer whose kind has no theorem: what its X
 * and O say, and theorems by the gain of its weights where that is more than they do. */
rs_status rs_lambda_row_unproved(rs_lambda_row *row, const rs_certify_scene *scene,
                                 const rs_certify_gains *gains, const rs_lambda_layer *layer,
                                 const double *sum, int32_t l, rs_lambda_tools *tools,
                                 rs_error *err);

#endif
