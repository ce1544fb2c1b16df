/*
 * edit.h: interventions as edits of a network (docs/design.md, 1): an ablation or a remedy changes
 * numbers of the description, never the forward pass.
 */
#ifndef RS_NETWORK_EDIT_H
#define RS_NETWORK_EDIT_H

#include "network/network.h"

/* Where the norms of blocks stand. */
typedef enum rs_placement {
    RS_PLACEMENT_AS_IT_IS,
    RS_PLACEMENT_PRE, /* before the branches: X <- skip X + op(norm(X)) */
    RS_PLACEMENT_POST /* behind the sum: X <- norm(skip X + op(X)) */
} rs_placement;

enum { RS_ABLATIONS = 8 }; /* lists of heads that an edit takes in */

/* What to change. Made by rs_edit_init (nothing), rs_edit_option and rs_edit_named. */
typedef struct rs_edit {
    bool no_skip;       /* the skip λ of every branch becomes 0 */
    bool no_mixer_skip; /* the skip λ around the mixer becomes 0 */
    bool no_mlp;        /* the MLP block goes, with its norm */
    bool no_mlp_branch; /* the MLP's function becomes 0; its skip and norm stay */
    bool no_norm;       /* norms of blocks go (not the embedding's, not the final one) */
    bool no_mask;       /* causal and sliding masks go */
    bool no_gate;       /* gates of gated mixers go; refused for a model that has none */
    bool no_inner_norm; /* norms inside of mixers go; refused for a model that has none */
    rs_placement placement;
    bool mamba2_ungrouped; /* one norm over all groups (transformers before its pull 40861) */
    bool remove_gap; /* P becomes P - 11ᵀ/n; refused for causal attention, where it would leak */
    /* "X" or "X,X,..." one a layer, each a number or a formula of L and l; a colon may stand for a
     * comma. NULL: as it is. The same pointer in both: a λ for all skips. */
    const char *mixer_lambda, *mlp_lambda;
    const char *residual_scale; /* α of every branch, written so too; NULL: as it is */
    double temperature;         /* multiplies the model's own; 1 changes nothing */
    double mix_identity, mix_softmax, mix_uniform; /* NaN: as it is */
    int64_t attention_rank;                        /* most rank of P; 0: as it is */
    double attention_energy; /* or the share of Σσ² that it keeps; 0: as it is */
    bool dong2021_code; /* ALBERT's MLP becomes what the released code leaves: LN(gelu(a) + a) */
    const char *ablate[RS_ABLATIONS]; /* "L:H,L:H..." heads whose output is left out, biases stay;
                                         a colon may stand for a comma. The first NULL ends them */
    int32_t depth;    /* number of layers: more repeat the stack, fewer cut it; 0: as it is */
    rs_fusion fusion; /* read-out over all states in the place of the network's; NONE: as it is */
} rs_edit;

void rs_edit_init(rs_edit *edit);

/* Takes in one option of the command line, without dashes: name and value (NULL for a flag):
 * "no-skip", "lambda" "mixer:0.5,0.9", "residual-scale" "1/sqrt(L)", "center-attention",
 * "remove-gap", "uniform-attention", "shaped" "A,B,C", "attention-rescale" "W" ((1+w)P - wC),
 * "attention-rank" "16" or "90%", "temperature" "2", "depth" "24", "no-mlp", "no-mlp-branch",
 * "no-norm", "no-mask", "no-gate", "no-inner-norm", "norm-placement" "pre" or "post", "ablate"
 * "0:3,1:2", "fusion" "max". Text is borrowed. An unknown
 * name is refused with the nearest known one. */
rs_status rs_edit_option(rs_edit *edit, const char *name, const char *value, rs_error *err);
bool rs_edit_cuts_attention(const rs_edit *edit); /* whether "attention-rank" was given */
/* Whether rs_edit_option knows the name. */
bool rs_edit_is_option(const char *name);
/* "full", "san", "san+mlp", "san+skip", "pure": docs/contract.md. RS_E_BAD_OPTION for others. */
rs_status rs_edit_named(rs_edit *edit, const char *name, rs_error *err);

/* An edit with a name. */
typedef struct rs_variant {
    const char *name; /* text of column `variant` */
    rs_edit edit;     /* on top of the options given for all */
} rs_variant;
/* Parses --variants "full,san,NAME=opt,opt,...|all|dong": the options given for all (`base`) apply
 * to each. dong = san, san+mlp, san+skip, full; all = those and pure. A comma separates variants;
 * inside NAME=..., options follow separated by commas until the next item that is a known name or
 * holds '=' with an unknown option name on its left; values use ':' (lambda:mixer:0.5,
 * temperature:2). Owned by the arena. */
rs_status rs_variants_parse(rs_variant **out, size_t *n, const char *text, const rs_edit *base,
                            rs_arena *arena, rs_error *err);

/* Edits the network in place (a copy made by rs_network_copy). Mixer means every attention branch
 * for λ, self-attention for masks, temperature and mixtures. In a parallel block (branch.joins)
 * only the mixer's skip is the layer's; the other branch's is the running sum and stays. Fails
 * where an edit says nothing about this network (no-mask is fine on one without masks and noted; a
 * λ list of the wrong length, no-gate without gates are errors). Adds what a user should know to
 * notes. */
rs_status rs_edit_apply(rs_network *network, const rs_edit *edit, rs_error *err);

/* How many heads of a branch can be left out one by one, numbered as its mixing matrices are; 0:
 * none, and *why (may be NULL) says why. */
int32_t rs_branch_ablatable(const rs_branch *branch, const char **why);
/* Leaves the heads [n] of a branch out, as rs_branch_ablatable numbers them: their part of the
 * output map (W_O,h; of values, and their bias, where heads have no output map) becomes 0, as a copy
 * in the arena. Every other number stays, biases of the output too. Each head must be one of them.
 * where: for messages. */
rs_status rs_branch_ablate(rs_branch *branch, const int32_t *heads, size_t n, rs_arena *arena,
                           const char *where, rs_error *err);
/* The most that these copies take where an edit leaves heads out, in bytes. */
double rs_ablation_bytes(const rs_network *network, const rs_edit *edit);

#endif
