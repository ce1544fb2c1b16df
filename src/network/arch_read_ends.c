/* arch_read_ends.c: what an architecture file says of what enters its first layer, and of its head. */
#include "network/arch_read.h"

static const rs_arch_word map_words[] = {{"none", RS_ARCH_MAP_NONE},
                                         {"linear", RS_ARCH_MAP_LINEAR},
                                         {"mlp", RS_ARCH_MAP_MLP},
                                         {NULL, 0}};

static const rs_arch_word fusion_words[] = {{"none", RS_FUSION_NONE},
                                            {"concat", RS_FUSION_CONCAT},
                                            {"max", RS_FUSION_MAX},
                                            {"gate", RS_FUSION_GATE},
                                            {NULL, 0}};

/* The object of a field; NULL: the file does not have it, or says null. */
static rs_status find_object(const json_t **out, const rs_arch_reader *r, const char *field)
{
    const json_t *json = json_object_get(r->json, field);
    *out = NULL;
    if (!json || json_is_null(json)) return RS_OK;
    if (!json_is_object(json)) return rs_arch_bad_value(r, field, "an object or null", json);
    *out = json;
    return RS_OK;
}

/* What "rows" and "embed" share; r->json is the object. */
static rs_status read_embed(const rs_arch_reader *r, rs_arch_map_kind unasked)
{
    rs_arch_embed *embed = &r->arch->embed;
    const json_t *width = json_object_get(r->json, "map_width");
    int kind = (int)unasked;
    RS_TRY(rs_arch_read_word(&kind, r, "map", map_words));
    embed->map = (rs_arch_map_kind)kind;
    if (!json_is_integer(width) || json_integer_value(width) != 0)
        RS_TRY(rs_arch_read_size(&embed->width, r, "map_width", RS_ARCH_LARGEST));
    RS_TRY(rs_arch_read_flag(&embed->norm, r, "norm"));
    if (embed->width && embed->map != RS_ARCH_MAP_MLP)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, r->arch->path, "give \"map\": \"mlp\"",
                       "\"map_width\" is %lld; \"map\" has no width inside",
                       (long long)embed->width);
    return RS_OK;
}

static rs_status read_rows(const rs_arch_reader *r, const json_t *rows)
{
    static const char *const names[] = {"width", "map", "map_width", "norm", NULL};
    rs_arch *arch = r->arch;
    rs_arch_reader inner = {arch, rows, r->err};
    if (!rows) return RS_OK;
    if (arch->vocab)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "leave one of them out",
                       "the network is fed \"rows\" of numbers and tokens of a \"vocab\"");
    RS_TRY(rs_arch_check_names(r, rows, names, " in \"rows\""));
    RS_TRY(rs_arch_read_size(&arch->rows, &inner, "width", RS_ARCH_LARGEST));
    if (!arch->rows)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "give {\"width\": NUMBERS}",
                       "\"rows\" names no \"width\"");
    RS_TRY(read_embed(&inner, RS_ARCH_MAP_LINEAR));
    if (arch->embed.map == RS_ARCH_MAP_NONE)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "choose linear or mlp",
                       "\"map\" in \"rows\" is none; rows become states by a map");
    return RS_OK;
}

static rs_status read_tokens(const rs_arch_reader *r, const json_t *embed)
{
    static const char *const names[] = {"map", "map_width", "norm", NULL};
    rs_arch_reader inner = {r->arch, embed, r->err};
    if (!embed) return RS_OK;
    if (!r->arch->vocab)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, r->arch->path,
                       r->arch->rows ? "say it in \"rows\"" : "give \"vocab\"",
                       "\"embed\" stands behind the embeddings of tokens, and \"vocab\" is null");
    RS_TRY(rs_arch_check_names(r, embed, names, " in \"embed\""));
    return read_embed(&inner, RS_ARCH_MAP_NONE);
}

static rs_status check_positions(const rs_arch_reader *r)
{
    const rs_arch *arch = r->arch;
    bool learned = arch->positions == RS_ARCH_POSITIONS_LEARNED;
    if ((!learned && arch->positions != RS_ARCH_POSITIONS_SINUSOIDAL) || arch->vocab || arch->rows)
        return RS_OK;
    return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path,
                   "give \"vocab\" or \"rows\", or choose rope, alibi or relative",
                   "%s positions are added to what is embedded, and \"vocab\" is null",
                   learned ? "learned" : "sinusoidal");
}

rs_status rs_arch_read_ends(const rs_arch_reader *r)
{
    const json_t *rows, *embed, *outputs = json_object_get(r->json, "outputs");
    int fusion = RS_FUSION_NONE;
    RS_TRY(find_object(&rows, r, "rows"));
    RS_TRY(find_object(&embed, r, "embed"));
    RS_TRY(read_rows(r, rows));
    RS_TRY(read_tokens(r, embed));
    if (outputs && !json_is_null(outputs))
        RS_TRY(rs_arch_read_size(&r->arch->outputs, r, "outputs", INT32_MAX));
    RS_TRY(rs_arch_read_word(&fusion, r, "fusion", fusion_words));
    r->arch->fusion = (rs_fusion)fusion;
    return check_positions(r);
}
