/* arch_read_mixers.c: which mixer each layer of an architecture file has, and the fields of mixers
 * without a softmax. */
#include "network/arch_build.h"
#include "network/arch_read.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

static const rs_arch_word gate_words[] = {{"before", RS_GATE_BEFORE_NORM},
                                          {"after", RS_GATE_AFTER_NORM},
                                          {"none", RS_GATE_NONE},
                                          {NULL, 0}};
static const rs_arch_word value_words[] = {{"free", 0}, {"identity", 1}, {NULL, 0}};
static const rs_arch_word feature_words[] = {
    {"identity", RS_FEATURE_IDENTITY}, {"elu", RS_FEATURE_ELU}, {NULL, 0}};

/* ---- one mixer a layer ---- */

static rs_status find_mixer(rs_arch_mixer *mixer, const rs_arch_reader *r, const json_t *json)
{
    rs_arch_word words[RS_ARCH_MIXERS + 1] = {{NULL, 0}};
    int found = 0;
    for (int i = 0; i < RS_ARCH_MIXERS; i++)
        words[i] = (rs_arch_word){rs_arch_mixers[i].name, i};
    if (!json_is_string(json))
        return rs_arch_bad_value(r, "mixer", "a text or a list of texts", json);
    const char *name = json_string_value(json);
    RS_TRY(rs_arch_find_word(&found, r, "mixer", name, words));
    *mixer = (rs_arch_mixer)found;
    return RS_OK;
}

rs_status rs_arch_read_mixer(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    const json_t *json = json_object_get(r->json, "mixer");
    arch->mixer = rs_arena_alloc(arch->arena, (size_t)arch->depth, sizeof *arch->mixer);
    if (!arch->mixer) return rs_fail_memory(r->err, "mixer", (size_t)arch->depth);
    if (json_is_array(json) && (int64_t)json_array_size(json) != arch->depth)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "give one entry a layer",
                       "\"mixer\" lists %zu layers; \"depth\" is %lld", json_array_size(json),
                       (long long)arch->depth);
    for (int64_t l = 0; l < arch->depth; l++) {
        const json_t *entry = json_is_array(json) ? json_array_get(json, (size_t)l) : json;
        arch->mixer[l] = RS_ARCH_ATTENTION;
        if (entry) RS_TRY(find_mixer(&arch->mixer[l], r, entry));
    }
    return rs_arch_read_flag(&arch->share_layers, r, "share_layers");
}

/* One layer that is repeated has one mixer. */
static rs_status check_shared(const rs_arch_reader *r)
{
    const rs_arch *arch = r->arch;
    for (int64_t l = 1; l < arch->depth && arch->share_layers; l++)
        if (arch->mixer[l] != arch->mixer[0])
            return rs_fail(
                r->err, RS_E_ARCH_SCHEMA, arch->path, "give one mixer, or \"share_layers\": false",
                "\"share_layers\" repeats one layer; \"mixer\" lists %s and %s",
                rs_arch_mixers[arch->mixer[0]].name, rs_arch_mixers[arch->mixer[l]].name);
    return RS_OK;
}

/* What state-space mixers have. */
rs_status rs_arch_read_states(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    int gate = RS_GATE_BEFORE_NORM;
    bool inner_norm = false;
    const json_t *steps = json_object_get(r->json, "dt_init");
    arch->state = 16;
    arch->groups = 1;
    arch->conv = 4;
    arch->inner_norm = -1;
    arch->dt_init[0] = 1e-3;
    arch->dt_init[1] = 0.1;
    RS_TRY(rs_arch_read_size(&arch->state, r, "state", RS_ARCH_MOST_LAYERS));
    RS_TRY(rs_arch_read_size(&arch->groups, r, "groups", RS_ARCH_MOST_LAYERS));
    RS_TRY(rs_arch_read_size(&arch->conv, r, "conv", RS_ARCH_MOST_LAYERS));
    RS_TRY(rs_arch_read_word(&gate, r, "gate", gate_words));
    arch->gate = (rs_gate_place)gate;
    arch->gate_given = json_object_get(r->json, "gate") != NULL;
    if (json_object_get(r->json, "inner_norm")) {
        RS_TRY(rs_arch_read_flag(&inner_norm, r, "inner_norm"));
        arch->inner_norm = inner_norm;
    }
    for (size_t i = 0; i < 2 && steps; i++)
        arch->dt_init[i] = json_number_value(json_array_get(steps, i));
    if (!(arch->dt_init[0] > 0 && arch->dt_init[1] >= arch->dt_init[0]) ||
        (steps && json_array_size(steps) != 2))
        return rs_arch_bad_value(r, "dt_init", "a list of the least and the largest step, above 0",
                                 steps);
    if (arch->heads % arch->groups != 0)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, NULL,
                       "\"heads\" %lld is no multiple of \"groups\" %lld", (long long)arch->heads,
                       (long long)arch->groups);
    return check_shared(r);
}

/* ---- linear attention ---- */

/* RetNet's decays, whose heads remember 2^(5+h) tokens; a number for all heads; or one for each. */
static rs_status read_decay(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    const json_t *json = json_object_get(r->json, "decay");
    static const char wanted[] = "a number from 0 to 1, a list with one a head, or \"retnet\"";
    bool retnet = json_is_string(json) && strcmp(json_string_value(json), "retnet") == 0;
    if (!json) return RS_OK;
    if (json_is_array(json) && (int64_t)json_array_size(json) != arch->heads)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "give one entry a head",
                       "\"decay\" lists %zu heads; \"heads\" is %lld", json_array_size(json),
                       (long long)arch->heads);
    arch->decay = rs_arena_alloc(arch->arena, (size_t)arch->heads, sizeof *arch->decay);
    if (!arch->decay) return rs_fail_memory(r->err, "decays", (size_t)arch->heads);
    for (int64_t h = 0; h < arch->heads; h++) {
        const json_t *entry = json_is_array(json) ? json_array_get(json, (size_t)h) : json;
        double value = retnet                  ? 1 - exp2(-5 - (double)h)
                       : json_is_number(entry) ? json_number_value(entry)
                                               : NAN;
        if (!(value >= 0 && value <= 1)) return rs_arch_bad_value(r, "decay", wanted, json);
        arch->decay[h] = value;
    }
    return RS_OK;
}

static bool some_linear_attention(const rs_arch *arch)
{
    for (int64_t l = 0; l < arch->depth; l++)
        if (arch->mixer[l] == RS_ARCH_LINEAR_ATTENTION) return true;
    return false;
}

rs_status rs_arch_read_linear(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    int values = 0, features = RS_FEATURE_IDENTITY;
    bool decays = false;
    RS_TRY(read_decay(r));
    RS_TRY(rs_arch_read_word(&values, r, "value_map", value_words));
    RS_TRY(rs_arch_read_word(&features, r, "feature_map", feature_words));
    RS_TRY(rs_arch_read_flag(&arch->normalised, r, "normalised"));
    RS_TRY(rs_arch_read_flag(&arch->without_self, r, "without_self"));
    arch->identity_values = values == 1;
    arch->feature_map = (rs_feature_map)features;
    if (!some_linear_attention(arch)) return RS_OK;
    for (int64_t h = 0; arch->decay && h < arch->heads; h++)
        decays = decays || arch->decay[h] != 1;
    if (decays && !arch->causal)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "give \"mask\": \"causal\"",
                       "\"decay\" is of the distance to an earlier token; \"mask\" is none");
    if (arch->window)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "choose none or causal",
                       "\"mask\" is sliding:%lld; linear_attention has no window",
                       (long long)arch->window);
    return RS_OK;
}
