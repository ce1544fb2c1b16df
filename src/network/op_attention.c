/* op_attention.c: attention's row of op_traits.h. */
#include "network/op_check.h"

bool rs_attention_is_cut(const rs_attention_op *op)
{
    return op->most_rank > 0 || op->most_energy > 0;
}

bool rs_attention_is_edited(const rs_attention_op *op)
{
    return rs_attention_is_cut(op) || op->mix_identity != 0 || op->mix_softmax != 1 ||
           op->mix_uniform != 0;
}

/* ---- weights ---- */

static int64_t entries_of_heads(const void *owner)
{
    const rs_attention_op *op = &((const rs_branch *)owner)->attention;
    return op->heads * op->head_dim;
}

static int64_t entries_of_segments(const void *owner)
{
    return 2 * entries_of_heads(owner);
}

static int64_t entries_of_distances(const void *owner)
{
    const rs_attention_op *op = &((const rs_branch *)owner)->attention;
    return op->heads * (2 * op->distance_reach + 1);
}

static int64_t entries_of_rotation(const void *owner)
{
    return ((const rs_branch *)owner)->attention.rope.dims / 2;
}

#define AT(member) offsetof(rs_branch, attention.member)

static const rs_weight_row rows[] = {
    {"q", RS_WEIGHT_MAP, AT(q), RS_ROLE_Q, NULL},
    {"k", RS_WEIGHT_MAP, AT(k), RS_ROLE_K, NULL},
    {"v", RS_WEIGHT_MAP, AT(v), RS_ROLE_V, NULL},
    {"o", RS_WEIGHT_MAP, AT(o), RS_ROLE_O, NULL},
    {"gate", RS_WEIGHT_MAP, AT(gate), RS_ROLE_Q_GATE, NULL},
    {"q_norm", RS_WEIGHT_NORM, AT(q_norm), RS_ROLE_Q_NORM, NULL},
    {"k_norm", RS_WEIGHT_NORM, AT(k_norm), RS_ROLE_K_NORM, NULL},
    {"rope.divisors", RS_WEIGHT_NUMBERS, AT(rope.divisors), RS_ROLE_ROPE_DIVISORS,
     entries_of_rotation},
    {"relative.r", RS_WEIGHT_MAP, AT(relative.r), RS_ROLE_R, NULL},
    {"relative.content_bias", RS_WEIGHT_NUMBERS, AT(relative.content_bias), RS_ROLE_CONTENT_BIAS,
     entries_of_heads},
    {"relative.position_bias", RS_WEIGHT_NUMBERS, AT(relative.position_bias), RS_ROLE_POSITION_BIAS,
     entries_of_heads},
    {"relative.segment_bias", RS_WEIGHT_NUMBERS, AT(relative.segment_bias), RS_ROLE_SEGMENT_BIAS,
     entries_of_heads},
    {"relative.segment_embed", RS_WEIGHT_NUMBERS, AT(relative.segment_embed), RS_ROLE_SEGMENT_EMBED,
     entries_of_segments},
    {"distance_bias", RS_WEIGHT_NUMBERS, AT(distance_bias), RS_ROLE_POSITION_BIAS,
     entries_of_distances},
};

/* ---- what it is ---- */

static int32_t matrices(const rs_branch *branch)
{
    return branch->attention.heads;
}

static int32_t parts(const rs_branch *branch, rs_role role)
{
    const rs_attention_op *op = &branch->attention;
    if (role == RS_ROLE_Q) return op->q.weight ? op->heads : 0;
    if (role == RS_ROLE_K) return op->k.weight ? op->kv_heads : 0;
    if (role == RS_ROLE_V) return op->v.weight ? op->kv_heads : 0;
    return role == RS_ROLE_O && op->o.weight ? op->heads : 0;
}

static rs_op_width width(const rs_branch *branch)
{
    const rs_attention_op *op = &branch->attention;
    int64_t gates = op->gate.weight ? op->gate.out : 0;
    return (rs_op_width){.projected = op->q.out + op->k.out + op->v.out + gates,
                         .inner = op->v.out};
}

static bool causal(const rs_branch *branch)
{
    return branch->attention.causal;
}

static bool reads_memory(const rs_branch *branch)
{
    return branch->attention.cross;
}

static double row_sum(const rs_branch *branch)
{
    const rs_attention_op *op = &branch->attention;
    return op->mix_identity + op->mix_softmax - op->mix_uniform;
}

static const char *not_stochastic(const rs_branch *branch)
{
    const rs_attention_op *op = &branch->attention;
    bool softmax_alone = op->mix_identity == 0 && op->mix_softmax == 1 && op->mix_uniform == 0;
    return softmax_alone ? NULL : "edited attention";
}

bool rs_attention_turns(const rs_attention_op *op)
{
    return op->rope.kind != RS_ROPE_NONE && op->rope.dims > 0;
}

bool rs_attention_moves_alike(const rs_attention_op *op)
{
    return !rs_attention_turns(op) && op->k_norm.kind == RS_NORM_NONE && op->softcap == 0;
}

static const char *not_bilinear(const rs_branch *branch)
{
    const rs_attention_op *op = &branch->attention;
    if (op->cross) return "cross-attention reads other tokens";
    if (op->causal) return "causal mask";
    if (op->window > 0) return "sliding window";
    if (rs_attention_turns(op)) return "rotary positions";
    if (op->relative.r.weight) return "relative positions";
    if (op->distance_bias) return "a bias that depends on the distance";
    if (op->q_norm.kind != RS_NORM_NONE || op->k_norm.kind != RS_NORM_NONE) return "QK-norm";
    if (op->softcap != 0) return "soft-capped logits";
    return NULL;
}

/* ---- what can be taken away ---- */

static bool drop_gate(rs_branch *branch)
{
    return rs_op_drop_map(&branch->attention.gate);
}

static bool drop_inner_norms(rs_branch *branch)
{
    bool queries = rs_op_drop_norm(&branch->attention.q_norm);
    return rs_op_drop_norm(&branch->attention.k_norm) || queries;
}

/* ---- check ---- */

static rs_status check_relative(const rs_attention_op *op, rs_error *err)
{
    int64_t all = op->heads * op->head_dim;
    if (op->relative.r.weight) {
        if (op->cross)
            return rs_fail(err, RS_E_UNSUPPORTED, op->relative.r.weight->name, NULL,
                           "relative positions in a cross-attention");
        RS_TRY(rs_check_dense(&op->relative.r, op->q.in, all, "positional keys", err));
        if (op->q.in % 2)
            return rs_fail(err, RS_E_UNSUPPORTED, op->relative.r.weight->name, NULL,
                           "sinusoids of odd width %lld", (long long)op->q.in);
    }
    return RS_OK;
}

static rs_status check(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    const rs_attention_op *op = &branch->attention;
    if (op->heads < 1 || op->kv_heads < 1 || op->heads % op->kv_heads || !rs_counts(op->head_dim) ||
        !rs_counts(op->value_dim) || !rs_counts(op->heads * op->head_dim) ||
        !rs_counts(op->heads * op->value_dim))
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "%d query heads over %d key heads of dimension %lld and %lld", op->heads,
                       op->kv_heads, (long long)op->head_dim, (long long)op->value_dim);
    int64_t source = op->cross ? op->k.in : d;
    RS_TRY(rs_check_dense(&op->q, d, op->heads * op->head_dim, where, err));
    RS_TRY(rs_check_dense(&op->k, source, op->kv_heads * op->head_dim, where, err));
    RS_TRY(rs_check_dense(&op->v, source, op->kv_heads * op->value_dim, where, err));
    if (op->o.weight) RS_TRY(rs_check_dense(&op->o, op->heads * op->value_dim, d, where, err));
    if (op->gate.weight)
        RS_TRY(rs_check_dense(&op->gate, d, op->heads * op->value_dim, where, err));
    if (!op->o.weight && op->value_dim != d)
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "values of %lld numbers are added to a state of %lld",
                       (long long)op->value_dim, (long long)d);
    RS_TRY(rs_check_norm(&op->q_norm, op->q_norm.dim == op->q.out ? op->q.out : op->head_dim, where,
                         err));
    RS_TRY(rs_check_norm(&op->k_norm, op->k_norm.dim == op->k.out ? op->k.out : op->head_dim, where,
                         err));
    if (op->rope.kind != RS_ROPE_NONE &&
        (op->rope.dims < 0 || op->rope.dims % 2 ||
         op->rope.dims > op->head_dim / (op->rope.kind == RS_ROPE_SPREAD ? 2 : 1)))
        return rs_fail(err, RS_E_CONFIG_HEADS, where, NULL,
                       "%d of %lld dimensions of a head rotate", op->rope.dims,
                       (long long)op->head_dim);
    if (op->distance_reach < 0 || op->distance_reach > INT32_MAX || !(op->temperature != 0))
        return rs_fail(err, RS_E_INTERNAL, where, NULL, "reach %lld, temperature %g",
                       (long long)op->distance_reach, op->temperature);
    RS_TRY(check_relative(op, err));
    return rs_check_numbers(&rs_traits_attention.weights, branch, err);
}

const rs_op_traits rs_traits_attention = {
    .name = "attention",
    .word = "attention",
    .mixes = true,
    .weights = RS_WEIGHT_LIST(rows),
    .matrices = matrices,
    .parts = parts,
    .width = width,
    .causal = causal,
    .reads_memory = reads_memory,
    .row_sum = row_sum,
    .not_stochastic = not_stochastic,
    .not_bilinear = not_bilinear,
    .drop_gate = drop_gate,
    .drop_inner_norms = drop_inner_norms,
    .check = check,
};
