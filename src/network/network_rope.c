/*
 * network_rope.c: which rotary law a configuration asks for (transformers 5.23,
 * modeling_rope_utils): rope_scaling and rope_theta as older files write them, rope_parameters as
 * newer ones do, one object for all layers or one for each kind of layer.
 */
#include "network/network_build.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    rs_rope_law law;
} laws[] = {
    {"default", RS_ROPE_PLAIN},   {"none", RS_ROPE_PLAIN},    {"linear", RS_ROPE_LINEAR},
    {"dynamic", RS_ROPE_DYNAMIC}, {"llama3", RS_ROPE_LLAMA3}, {"yarn", RS_ROPE_YARN},
};

typedef struct numbers {
    rs_net_builder *nb;
    const json_t *object; /* the law's own object, or NULL */
} numbers;

/* A number that must be finite and above zero. */
static rs_status positive(const numbers *from, const char *key, double *value, bool *found)
{
    const json_t *json = json_object_get(from->object, key);
    if (json_is_null(json)) json = NULL;
    *found = json != NULL;
    if (!json) return RS_OK;
    *value = json_number_value(json);
    if (json_is_number(json) && isfinite(*value) && *value > 0) return RS_OK;
    return rs_fail(from->nb->err, RS_E_CONFIG_SIZE, from->nb->b->fields.path, RS_CONFIG_HINT,
                   "%s of the rotary positions is no number above 0", key);
}

/* One where 0 is as good as absent: Python's `if value`. */
static rs_status positive_or_absent(const numbers *from, const char *key, double *value,
                                    bool *found)
{
    const json_t *json = json_object_get(from->object, key);
    *found = false;
    if (json_is_number(json) && json_number_value(json) == 0) return RS_OK;
    return positive(from, key, value, found);
}

static rs_status needed(const numbers *from, const char *key, double *value)
{
    bool found;
    RS_TRY(positive(from, key, value, &found));
    if (found) return RS_OK;
    return rs_fail(from->nb->err, RS_E_CONFIG_SCHEMA, from->nb->b->fields.path, RS_CONFIG_HINT,
                   "the scaling of rotary positions needs %s, and the configuration has none", key);
}

static rs_status find_law(rs_net_builder *nb, const json_t *object, rs_rope_law *law)
{
    const json_t *type = json_object_get(object, "rope_type");
    if (!type || json_is_null(type)) type = json_object_get(object, "type");
    *law = RS_ROPE_PLAIN;
    if (!type || json_is_null(type)) return RS_OK;
    const char *name = json_string_value(type);
    if (!name)
        return rs_fail(nb->err, RS_E_CONFIG_SCHEMA, nb->b->fields.path, RS_CONFIG_HINT,
                       "rope_type, the name of the law of rotary positions, is no text");
    for (size_t i = 0; i < sizeof laws / sizeof *laws; i++) {
        if (strcmp(laws[i].name, name) != 0) continue;
        *law = laws[i].law;
        if (*law == RS_ROPE_PLAIN || !(nb->forward->facts & RS_W_PLAIN_ROPE)) return RS_OK;
    }
    if (nb->forward->facts & RS_W_PLAIN_ROPE)
        return rs_fail(nb->err, RS_E_UNSUPPORTED, nb->b->fields.path, RS_NOT_RUN_HINT,
                       "asks for rotary positions of type \"%.60s\"; of this family only default "
                       "ones are run",
                       name);
    return rs_fail(nb->err, RS_E_UNSUPPORTED, nb->b->fields.path, RS_NOT_RUN_HINT,
                   "asks for rotary positions of type \"%.60s\"; known are default, linear, "
                   "dynamic, llama3 and yarn",
                   name);
}

/* The trained length that dynamic, llama3 and yarn refer to. */
static rs_status original(rs_net_builder *nb, const numbers *from, rs_rope_op *rope)
{
    double positions = 0;
    int64_t top = 0;
    bool found, stated;
    RS_TRY(rs_net_size(nb, nb->forward->max_positions, -1, &top, &stated));
    RS_TRY(positive(from, "original_max_position_embeddings", &positions, &found));
    if (rope->law == RS_ROPE_DYNAMIC) found = false; /* it goes by the model's own length */
    if (found && positions >= 1 && positions < 1e9)
        rope->original_positions = (int64_t)positions;
    else if (!found && stated)
        rope->original_positions = top;
    else
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                       "the scaling of rotary positions needs the trained length "
                       "(original_max_position_embeddings or max_position_embeddings)");
    return RS_OK;
}

static double gain(double factor, double by)
{
    return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

static rs_status yarn(rs_net_builder *nb, const numbers *from, rs_rope_op *rope)
{
    bool found, one, all;
    double mscale = 0, mscale_all = 0;
    const json_t *truncate = json_object_get(from->object, "truncate");
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = !json_is_false(truncate);
    RS_TRY(positive(from, "factor", &rope->factor, &found));
    if (!found) {
        int64_t top = rope->original_positions;
        RS_TRY(rs_net_size(nb, nb->forward->max_positions, -1, &top, &found));
        rope->factor = (double)top / (double)rope->original_positions;
    }
    RS_TRY(positive_or_absent(from, "beta_fast", &rope->beta_fast, &found));
    RS_TRY(positive_or_absent(from, "beta_slow", &rope->beta_slow, &found));
    RS_TRY(positive_or_absent(from, "mscale", &mscale, &one));
    RS_TRY(positive_or_absent(from, "mscale_all_dim", &mscale_all, &all));
    rope->attention_factor = one && all
                                 ? gain(rope->factor, mscale) / gain(rope->factor, mscale_all)
                                 : gain(rope->factor, 1);
    return positive(from, "attention_factor", &rope->attention_factor, &found);
}

static rs_status fill_law(rs_net_builder *nb, const numbers *from, rs_rope_op *rope)
{
    if (rope->law == RS_ROPE_PLAIN) return RS_OK;
    if (rope->law == RS_ROPE_LINEAR) return needed(from, "factor", &rope->factor);
    RS_TRY(original(nb, from, rope));
    if (rope->law == RS_ROPE_YARN) return yarn(nb, from, rope);
    RS_TRY(needed(from, "factor", &rope->factor));
    if (rope->law == RS_ROPE_DYNAMIC) return RS_OK;
    RS_TRY(needed(from, "low_freq_factor", &rope->low_freq_factor));
    RS_TRY(needed(from, "high_freq_factor", &rope->high_freq_factor));
    if (rope->low_freq_factor < rope->high_freq_factor) return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                   "low_freq_factor (%g) is not below high_freq_factor (%g)", rope->low_freq_factor,
                   rope->high_freq_factor);
}

/* The object that describes the rotation of this kind of layer, NULL for none. */
static const json_t *describing(const rs_net_builder *nb, bool sliding)
{
    const rs_fields *fields = &nb->b->fields;
    const json_t *object = rs_fields_key(fields, "rope_parameters");
    const json_t *old = rs_fields_key(fields, "rope_scaling");
    bool local = sliding && nb->forward->facts & RS_W_ROPE_BY_KIND;
    const json_t *kind = json_object_get(object, sliding ? "sliding_attention" : "full_attention");
    if (json_is_object(kind)) object = kind;
    if (!json_is_object(object) || json_object_get(object, "full_attention")) object = NULL;
    if (json_is_object(old) && json_object_size(old) && !local) return old;
    return local && !json_is_object(kind) ? NULL : object;
}

/* What is no object describes no rotation, and must not pass for silence. */
static rs_status check_objects(rs_net_builder *nb)
{
    static const char *const keys[] = {"rope_parameters", "rope_scaling"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = rs_fields_key(&nb->b->fields, keys[i]);
        if (value && !json_is_object(value))
            return rs_fail(nb->err, RS_E_CONFIG_SCHEMA, nb->b->fields.path, RS_CONFIG_HINT,
                           "%s is no object", keys[i]);
    }
    return RS_OK;
}

static rs_status base(rs_net_builder *nb, const numbers *from, bool sliding, rs_rope_op *rope)
{
    const rs_forward *forward = nb->forward;
    bool found, local = sliding && forward->facts & RS_W_ROPE_BY_KIND;
    static const char *const keys[] = {"rope_theta", "rotary_emb_base"};
    numbers top = {nb, nb->b->fields.object};
    RS_TRY(positive(from, "rope_theta", &rope->theta, &found));
    if (found) return RS_OK;
    rope->theta = local ? forward->local_theta : forward->theta;
    if (local) return positive(&top, "rope_local_base_freq", &rope->theta, &found);
    for (size_t i = 0; !found && i < sizeof keys / sizeof *keys; i++)
        RS_TRY(positive(&top, keys[i], &rope->theta, &found));
    return RS_OK;
}

/* GGUF bakes LLaMA 3's law into divisors. */
static rs_status divisors(rs_net_builder *nb, rs_rope_op *rope)
{
    int64_t pairs = rope->dims / 2;
    if (!nb->gguf || !rs_net_has(nb, RS_ROLE_ROPE_DIVISORS, -1)) return RS_OK;
    rope->law = RS_ROPE_FACTORS;
    return rs_net_tensor(nb, RS_ROLE_ROPE_DIVISORS, RS_PART_WEIGHT, -1, 1, &pairs, &rope->divisors);
}

/* A share that this family's module does not read (rs_rope_whole) fits no scaled law: transformers'
 * own shapes do not. */
static rs_status share(rs_net_builder *nb, const rs_attention *at, const rs_rope_op *rope)
{
    if (at->rope_asked == at->rope_dims || rope->law == RS_ROPE_PLAIN)
        return rs_rope_whole(&nb->network->notes, at, nb->err);
    return rs_fail(nb->err, RS_E_UNSUPPORTED, nb->b->fields.path, RS_NOT_RUN_HINT,
                   "partial_rotary_factor leaves %d of a head's %lld dimensions to rotate under "
                   "a scaled law, which this family cannot compute",
                   (int)at->rope_asked, (long long)at->head_dim);
}

static rs_status refuse_odd(const rs_net_builder *nb, int32_t dims)
{
    if (dims % 2 == 0 && dims > 0) return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                   "%d dimensions of a head rotate in pairs; an even number above 0 is needed",
                   (int)dims);
}

rs_status rs_net_rope(rs_net_builder *nb, const rs_attention *at, bool sliding, rs_rope_op *rope)
{
    *rope = (rs_rope_op){.kind = at->rope,
                         .dims = at->rope_dims,
                         .theta = 10000,
                         .factor = 1,
                         .attention_factor = 1};
    if (at->rope == RS_ROPE_NONE) return RS_OK;
    RS_TRY(check_objects(nb));
    numbers from = {nb, describing(nb, sliding)};
    RS_TRY(base(nb, &from, sliding, rope));
    if (rope->theta <= 1)
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                       "the base of the rotary positions is %g; it must be above 1", rope->theta);
    RS_TRY(find_law(nb, from.object, &rope->law));
    RS_TRY(share(nb, at, rope));
    RS_TRY(refuse_odd(nb, rope->dims));
    RS_TRY(fill_law(nb, &from, rope));
    return divisors(nb, rope);
}
