/* sizes.c: the sizes and facts of one attention layer, out of the config. */
#include "recognise/builder.h"

#include <math.h>
#include <string.h>

static rs_status dividing(rs_builder *b, int64_t a, const char *what, int64_t by, const char *parts,
                          const char *hint)
{
    if (a % by == 0) return RS_OK;
    return rs_fail(b->err, RS_E_CONFIG_HEADS, b->fields.path, hint,
                   "%s (%lld) is no multiple of %s (%lld)", what, (long long)a, parts,
                   (long long)by);
}

static rs_status head_counts(rs_builder *b, const rs_block *block, rs_attention *at)
{
    static const rs_field fields[] = {[RS_SLOT_MAIN] = RS_FIELD_HEADS,
                                      [RS_SLOT_ENCODER] = RS_FIELD_ENCODER_HEADS,
                                      [RS_SLOT_DECODER] = RS_FIELD_DECODER_HEADS,
                                      [RS_SLOT_CROSS] = RS_FIELD_DECODER_HEADS};
    enum { MOST = 1 << 16 };
    bool found;
    RS_TRY(rs_fields_need(&b->fields, fields[block->slot], block->layer, &at->heads, b->err));
    RS_TRY(
        rs_fields_find(&b->fields, RS_FIELD_KV_HEADS, block->layer, &at->kv_heads, &found, b->err));
    if (!found || b->family->facts & RS_FACT_HEAD_PER_KV) at->kv_heads = at->heads;
    if (b->family->facts & RS_FACT_MULTI_QUERY) at->kv_heads = 1;
    if (b->family->facts & RS_FACT_WINDOWS_DOUBLE_KV && rs_layer_windowed(b, block->layer))
        at->kv_heads *= 2;
    if (at->heads < 1 || at->heads > MOST || at->kv_heads < 1)
        return rs_fail(b->err, RS_E_CONFIG_SIZE, b->fields.path, NULL,
                       "layer %d is said to have %lld heads and %lld key/value heads, and the "
                       "checkpoint has attention there; 1 to %d can be read",
                       (int)block->layer, (long long)at->heads, (long long)at->kv_heads, MOST);
    return dividing(b, at->heads, "the number of attention heads", at->kv_heads,
                    "the number of key/value heads", NULL);
}

static rs_status head_widths(rs_builder *b, const rs_block *block, rs_attention *at)
{
    bool found;
    RS_TRY(
        rs_fields_find(&b->fields, RS_FIELD_HEAD_DIM, block->layer, &at->head_dim, &found, b->err));
    /* The classes that have a default for it take null as width over heads. */
    if (!b->fields.prefix && json_is_null(json_object_get(b->fields.object, "head_dim")))
        found = false;
    if (!found) {
        RS_TRY(dividing(b, at->width, "the width", at->heads, "the number of attention heads",
                        "where that is meant, the configuration needs head_dim"));
        at->head_dim = at->width / at->heads;
    }
    RS_TRY(rs_fields_find(&b->fields, RS_FIELD_VALUE_DIM, block->layer, &at->value_dim, &found,
                          b->err));
    if (!found) at->value_dim = at->head_dim;
    return RS_OK;
}

/* Most families' modules do not read partial_rotary_factor: under the plain law all of a head
 * rotates (transformers 5.23; honoured by its gpt_neox, phi3 and bamba). */
static rs_status share(rs_builder *b, rs_attention *at)
{
    at->rope_dims = at->rope_asked;
    if (b->checkpoint->format == RS_FORMAT_GGUF || b->family->facts & RS_FACT_PARTIAL_ROPE)
        return RS_OK;
    at->rope_dims = (int32_t)at->head_dim;
    return rs_rope_whole(&b->model->notes, at, b->err);
}

rs_status rs_rope_whole(rs_notes *notes, const rs_attention *at, rs_error *err)
{
    static const char code[] = "whole_head_rotates";
    if (at->rope_asked == at->rope_dims) return RS_OK;
    for (size_t i = 0; i < notes->n; i++) /* one note, not one a layer */
        if (strcmp(notes->items[i].code, code) == 0) return RS_OK;
    return rs_notes_say(notes, err, RS_INFO, code, NULL,
                        "partial_rotary_factor asks for %d of a head's %lld dimensions to rotate; "
                        "in this family all do, as transformers computes it",
                        (int)at->rope_asked, (long long)at->head_dim);
}

/* A base that is said to be none; one that is not said has a default. */
static bool theta_is_null(const rs_fields *fields)
{
    return json_is_null(json_object_get(rs_fields_key(fields, "rope_parameters"), "rope_theta"));
}

/* Which share of each head rotates. */
static rs_status rope(rs_builder *b, int32_t layer, rs_attention *at)
{
    static const char *const keys[] = {"rope_parameters.partial_rotary_factor",
                                       "rope_parameters.full_attention.partial_rotary_factor",
                                       "partial_rotary_factor", "rotary_pct"};
    const rs_family *family = b->family;
    const char *text = family->rope_if ? rs_fields_text(&b->fields, family->rope_if) : NULL;
    bool on = !family->rope_if || rs_fields_true(&b->fields, family->rope_if) ||
              (text && strcmp(text, "rope") == 0);
    if (rs_fields_true(&b->fields, "alibi")) on = false; /* Falcon has either */
    const char *tuned = b->fields.prefix ? "rope.scaling.finetuned" : "rope_finetuned";
    if (family->facts & RS_FACT_ROPE_SWITCH && json_is_false(rs_fields_key(&b->fields, tuned)))
        on = false;
    if (family->facts & RS_FACT_NULL_ROPE && theta_is_null(&b->fields)) on = false;
    on = on && rs_layer_turns(b, layer);
    at->rope = on ? family->rope : RS_ROPE_NONE;
    if (at->rope == RS_ROPE_NONE) return RS_OK;
    bool found;
    int64_t dims;
    RS_TRY(rs_fields_find(&b->fields, RS_FIELD_ROPE_DIMS, -1, &dims, &found, b->err));
    if (!found) {
        double share = family->rope_fraction > 0 ? family->rope_fraction : 1;
        for (size_t i = 0; !found && !b->fields.prefix && i < sizeof keys / sizeof *keys; i++)
            RS_TRY(rs_fields_real(&b->fields, keys[i], &share, &found, b->err));
        if (!(share > 0 && share <= 1))
            return rs_fail(b->err, RS_E_CONFIG_SIZE, b->fields.path, NULL,
                           "the rotary share of a head is %g; it must lie above 0 and not above 1",
                           share);
        dims = (int64_t)floor((double)at->head_dim * share);
    }
    if (dims > at->head_dim)
        return rs_fail(b->err, RS_E_CONFIG_SIZE, b->fields.path, NULL,
                       "%lld rotary dimensions are more than the head's %lld", (long long)dims,
                       (long long)at->head_dim);
    at->rope_asked = (int32_t)dims;
    if (family->facts & RS_FACT_ROPE_SPREAD && dims < at->head_dim) {
        if (2 * dims > at->head_dim)
            return rs_fail(b->err, RS_E_UNSUPPORTED, b->fields.path, NULL,
                           "%lld of a head's %lld entries rotate: how GGUF pairs them is known "
                           "for at most half of a head",
                           (long long)dims, (long long)at->head_dim);
        at->rope = RS_ROPE_SPREAD;
    }
    return share(b, at);
}

/* By what the scores are multiplied, in words. */
static rs_status scale(rs_builder *b, rs_attention *at)
{
    const rs_fields *f = &b->fields;
    const char *form = b->fields.prefix ? "attention.scale" : "attention_multiplier";
    double value, root = (double)at->head_dim;
    bool found;
    rs_arena *arena = b->model->arena;
    if (b->family->facts & RS_FACT_HALF_SCALE) root /= 2;
    RS_TRY(rs_fields_real(f, form, &value, &found, b->err));
    if (b->guessing) {
        at->scale = "scale left out"; /* by what an unknown model scales is not known */
    } else if (b->family->facts & RS_FACT_UNIT_SCALE) {
        at->scale = "";
    } else if (found) {
        at->scale = rs_arena_printf(arena, "scale %g left out", value);
    } else {
        if (!f->prefix) {
            RS_TRY(rs_fields_real(f, "query_pre_attn_scalar", &value, &found, b->err));
            if (found) root = value;
        }
        if (b->family->facts & RS_FACT_SCALE_UNSTATED)
            at->scale = "scale left out";
        else if (json_is_false(rs_fields_key(f, "scale_attn_weights")))
            at->scale = "";
        else if (rs_fields_true(f, "scale_attn_by_inverse_layer_idx"))
            at->scale = rs_arena_printf(arena, "scale 1/(sqrt(%g)(layer + 1)) left out", root);
        else
            at->scale = rs_arena_printf(arena, "scale 1/sqrt(%g) left out", root);
    }
    if (!at->scale) return rs_fail_memory(b->err, "model", 0);
    RS_TRY(rs_fields_real(f, "attn_logit_softcapping", &value, &found, b->err));
    if (found) at->softcap = value;
    RS_TRY(rs_fields_real(f, "attention_value_scale", &value, &found, b->err));
    if (found) at->value_scale = value;
    return RS_OK;
}

/* The norm right before q, k and v, where there is one. In cross-attention k and v read what has
 * just left the encoder's final norm. */
static void norms(const rs_builder *b, const rs_block *block, rs_attention *at)
{
    const rs_family *family = b->family;
    if (!(family->facts & RS_FACT_PRE_NORM)) return;
    bool own = block->slot == RS_SLOT_CROSS || family->facts & RS_FACT_WIDE_INPUT;
    rs_role role = own ? RS_ROLE_NORM_CROSS : RS_ROLE_NORM_MIXER;
    at->norm = at->kv_norm = family->norm;
    at->gain = at->kv_gain = rs_block_tensor(b, block, role, RS_PART_WEIGHT);
    at->gain_bias = at->kv_gain_bias = rs_block_tensor(b, block, role, RS_PART_BIAS);
    if (block->slot == RS_SLOT_CROSS) {
        at->kv_gain = rs_top_tensor(b, RS_SLOT_ENCODER, RS_ROLE_NORM_FINAL, RS_PART_WEIGHT);
        at->kv_gain_bias = rs_top_tensor(b, RS_SLOT_ENCODER, RS_ROLE_NORM_FINAL, RS_PART_BIAS);
    }
    /* A norm whose gain should be in the file and is not cannot be folded. */
    if (!at->gain && !(family->facts & RS_FACT_BARE_NORM)) at->norm = RS_NORM_NONE;
    if (!at->kv_gain && !(family->facts & RS_FACT_BARE_NORM)) at->kv_norm = RS_NORM_NONE;
}

rs_status rs_attention_sizes(rs_builder *b, const rs_block *block, rs_attention *at)
{
    *at = (rs_attention){.attention = block->slot == RS_SLOT_CROSS ? "cross" : "self",
                         .stack = rs_stack_name(b->family, block->slot),
                         .qk_norm = b->family->norm,
                         .qk_norm_full = b->family->facts & RS_FACT_QK_NORM_FULL};
    RS_TRY(rs_fields_need(&b->fields, RS_FIELD_WIDTH, block->layer, &at->width, b->err));
    RS_TRY(head_counts(b, block, at));
    at->out_width = at->width;
    if (b->family->facts & RS_FACT_WIDE_INPUT) at->width *= 2;
    at->kv_width = at->width;
    RS_TRY(head_widths(b, block, at));
    RS_TRY(rope(b, block->layer, at));
    norms(b, block, at);
    unsigned facts = b->family->facts;
    at->bare_qk_norm = facts & RS_FACT_BARE_QK_NORM &&
                       !json_is_false(rs_fields_key(&b->fields, "use_qk_norm")) &&
                       (at->rope != RS_ROPE_NONE || !(facts & RS_FACT_QK_NORM_TURNED));
    return scale(b, at);
}

const char *rs_rope_form(const rs_fields *f, double *theta)
{
    const json_t *fresh = rs_fields_key(f, "rope_parameters");
    const json_t *old = rs_fields_key(f, "rope_theta");
    const json_t *base = NULL;
    const char *form = "neither rope_parameters nor rope_theta is there: the default base is used";
    if (old) {
        base = old;
        form = "the old form was used (rope_theta at the top)";
    }
    if (json_is_object(fresh)) {
        base = rs_fields_key(f, "rope_parameters.rope_theta");
        if (!base) base = rs_fields_key(f, "rope_parameters.full_attention.rope_theta");
        form = old ? "both forms are there; the new one was used (rope_parameters)"
                   : "the new form was used (rope_parameters)";
    }
    *theta = json_is_number(base) ? json_number_value(base) : (double)NAN;
    return form;
}

rs_status rs_rope_note(rs_builder *b)
{
    bool turns = false;
    double theta;
    for (size_t i = 0; i < b->model->n_products && !turns; i++)
        turns = b->model->products[i].rope != RS_ROPE_NONE;
    if (b->fields.prefix || !turns) return RS_OK;
    const char *form = rs_rope_form(&b->fields, &theta);
    if (!isnan(theta))
        return rs_notes_say(&b->model->notes, b->err, RS_INFO, "rope_form", NULL,
                            "RoPE: %s; base %.17g", form, theta);
    return rs_notes_say(&b->model->notes, b->err, RS_INFO, "rope_form", NULL, "RoPE: %s", form);
}
