/* arch_read.c: ARCH.json as a description; tables say which words there are. */
#include "network/arch_read.h"
#include "network/arch_build.h"
#include "network/arch_input.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const field_names[] = {
    "depth",        "d_model",     "heads",     "kv_heads",    "d_head",     "seq_len",
    "vocab",        "mixer",       "attention", "shaped",      "rescale",    "mask",
    "temperature",  "positions",   "norm",      "norm_kind",   "skip_mixer", "skip_mlp",
    "branch_mixer", "branch_mlp",  "mlp",       "mlp_width",   "init",       "input",
    "state",        "groups",      "conv",      "gate",        "inner_norm", "dt_init",
    "share_layers", "decay",       "value_map", "feature_map", "normalised", "without_self",
    "graph",        "norm_affine", "bias",      "outputs",     "rows",       "embed",
    "block",        "fusion",      NULL};
static const char *const init_names[] = {"wq", "wk",        "wv",       "wo",       "w1",     "wg",
                                         "w2", "embedding", "position", "relative", "head",   "win",
                                         "wx", "wdt",       "conv",     "map",      "fusion", NULL};
static const char *const input_names[] = {"law", "rho", "norm2", NULL};

static const char *const whole_names[] = {"depth",     "d_model", "heads",  "kv_heads",
                                          "d_head",    "seq_len", "vocab",  "outputs",
                                          "mlp_width", "state",   "groups", "conv"};

bool rs_arch_field_is_whole(const char *field)
{
    for (size_t i = 0; i < sizeof whole_names / sizeof *whole_names; i++)
        if (strcmp(field, whole_names[i]) == 0) return true;
    return false;
}

/* What an object in the file holds; NULL: its names are not listed here. */
static const char *const *names_inside(const char *object)
{
    if (strcmp(object, "input") == 0) return input_names;
    return strcmp(object, "init") == 0 ? init_names : NULL;
}

static bool is_one_of(const char *const *known, const char *name)
{
    while (*known && strcmp(*known, name) != 0)
        known++;
    return *known;
}

bool rs_arch_has_field(char *nearest, size_t size, const char *field)
{
    char outer[64];
    const char *dot = strchr(field, '.');
    snprintf(outer, sizeof outer, "%.*s", dot ? (int)(dot - field) : 63, field);
    if (!is_one_of(field_names, outer)) {
        snprintf(nearest, size, "%s%s", rs_nearest_name(outer, field_names), dot ? dot : "");
        return false;
    }
    const char *const *inside = dot ? names_inside(outer) : NULL;
    if (!inside || is_one_of(inside, dot + 1)) return true;
    snprintf(nearest, size, "%s.%s", outer, rs_nearest_name(dot + 1, inside));
    return false;
}

enum { SOFTMAX, UNIFORM, CENTRED, SHAPED, RESCALED };
static const rs_arch_word attention_words[] = {{"softmax", SOFTMAX},   {"uniform", UNIFORM},
                                               {"centred", CENTRED},   {"shaped", SHAPED},
                                               {"rescaled", RESCALED}, {NULL, 0}};
static const rs_arch_word position_words[] = {{"none", RS_ARCH_POSITIONS_NONE},
                                              {"learned", RS_ARCH_POSITIONS_LEARNED},
                                              {"rope", RS_ARCH_POSITIONS_ROPE},
                                              {"alibi", RS_ARCH_POSITIONS_ALIBI},
                                              {"relative", RS_ARCH_POSITIONS_RELATIVE},
                                              {"sinusoidal", RS_ARCH_POSITIONS_SINUSOIDAL},
                                              {NULL, 0}};
static const rs_arch_word norm_words[] = {{"none", RS_ARCH_NORM_NONE},
                                          {"pre", RS_ARCH_NORM_PRE},
                                          {"post", RS_ARCH_NORM_POST},
                                          {"sandwich", RS_ARCH_NORM_SANDWICH},
                                          {NULL, 0}};
static const rs_arch_word kind_words[] = {
    {"layernorm", RS_NORM_LAYERNORM}, {"rmsnorm", RS_NORM_RMSNORM}, {NULL, 0}};
static const rs_arch_word affine_words[] = {{"none", RS_ARCH_AFFINE_NONE},
                                            {"gain", RS_ARCH_AFFINE_GAIN},
                                            {"both", RS_ARCH_AFFINE_BOTH},
                                            {NULL, 0}};
static const rs_arch_word mlp_words[] = {{"none", RS_ARCH_MLP_NONE},
                                         {"linear", RS_ARCH_MLP_LINEAR},
                                         {"relu", RS_ARCH_MLP_RELU},
                                         {"gelu", RS_ARCH_MLP_GELU},
                                         {"gelu_tanh", RS_ARCH_MLP_GELU_TANH},
                                         {"swiglu", RS_ARCH_MLP_SWIGLU},
                                         {"sin", RS_ARCH_MLP_SIN},
                                         {"sigmoid", RS_ARCH_MLP_SIGMOID},
                                         {NULL, 0}};
static const rs_arch_word block_words[] = {{"sequential", 0}, {"parallel", 1}, {NULL, 0}};
static const rs_arch_word law_words[] = {{"gaussian", 0}, {NULL, 0}};

/* ---- refusals ---- */

rs_status rs_arch_bad_value(const rs_arch_reader *r, const char *field, const char *wanted,
                            const json_t *value)
{
    bool whole = !json_is_array(value) && !json_is_object(value);
    char *text = whole ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    rs_status status = rs_fail(r->err, RS_E_ARCH_SCHEMA, r->arch->path, NULL,
                               "\"%s\" is %.80s; %s is needed", field,
                               text                   ? text
                               : json_is_array(value) ? "a list"
                                                      : "an object",
                               wanted);
    rs_memory_free_json(text);
    return status;
}

rs_status rs_arch_check_names(const rs_arch_reader *r, const json_t *object,
                              const char *const *known, const char *inside)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        bool found = false;
        for (size_t i = 0; known[i] && !found; i++)
            found = strcmp(known[i], name) == 0;
        if (found) continue;
        char hint[96];
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(name, known));
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, r->arch->path, hint, "unknown field \"%.80s\"%s",
                       name, inside);
    }
    return RS_OK;
}

rs_status rs_arch_find_word(int *value, const rs_arch_reader *r, const char *field,
                            const char *text, const rs_arch_word *words)
{
    const char *known[16];
    size_t n = 0;
    for (; words[n].name; n++) {
        known[n] = words[n].name;
        if (strcmp(text, words[n].name) != 0) continue;
        *value = words[n].value;
        return RS_OK;
    }
    known[n] = NULL;
    char hint[96], list[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < n && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", known[i]);
    snprintf(hint, sizeof hint, "did you mean \"%s\"?", rs_nearest_name(text, known));
    return rs_fail(r->err, RS_E_ARCH_SCHEMA, r->arch->path, hint,
                   "\"%s\" is \"%.60s\"; there are %s", field, text, list);
}

/* ---- one field ---- */

rs_status rs_arch_read_word(int *value, const rs_arch_reader *r, const char *field,
                            const rs_arch_word *words)
{
    const json_t *json = json_object_get(r->json, field);
    if (!json) return RS_OK;
    if (!json_is_string(json)) return rs_arch_bad_value(r, field, "a text", json);
    return rs_arch_find_word(value, r, field, json_string_value(json), words);
}

rs_status rs_arch_read_size(int64_t *value, const rs_arch_reader *r, const char *field,
                            int64_t most)
{
    const json_t *json = json_object_get(r->json, field);
    if (!json) return RS_OK;
    double number = json_is_number(json) ? json_number_value(json) : 0;
    if (!(number >= 1 && number <= (double)most) || number != floor(number)) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a whole number from 1 to %lld", (long long)most);
        return rs_arch_bad_value(r, field, wanted, json);
    }
    *value = (int64_t)number;
    return RS_OK;
}

static rs_status read_formula(double *value, const rs_arch_reader *r, const char *field,
                              const json_t *json, const char *const *names, const double *values)
{
    if (json_is_number(json) && isfinite(json_number_value(json))) {
        *value = json_number_value(json);
        return RS_OK;
    }
    if (!json_is_string(json)) return rs_arch_bad_value(r, field, "a number or a formula", json);
    char where[160];
    snprintf(where, sizeof where, "%.100s, \"%s\"", r->arch->path, field);
    return rs_expression(value, json_string_value(json), names, values, where, r->err);
}

static rs_status read_number(double *value, const rs_arch_reader *r, const char *field)
{
    const json_t *json = json_object_get(r->json, field);
    if (!json) return RS_OK;
    if (!json_is_number(json) || !isfinite(json_number_value(json)))
        return rs_arch_bad_value(r, field, "a number", json);
    *value = json_number_value(json);
    return RS_OK;
}

rs_status rs_arch_read_flag(bool *value, const rs_arch_reader *r, const char *field)
{
    const json_t *json = json_object_get(r->json, field);
    if (!json) return RS_OK;
    if (!json_is_boolean(json)) return rs_arch_bad_value(r, field, "true or false", json);
    *value = json_is_true(json);
    return RS_OK;
}

/* A layer's number of a field: `json` is a number or a formula. Where a formula fails, the layer is told,
 * since it may be the only one. */
static rs_status read_of_layer(double *value, const rs_arch_reader *r, const char *field,
                               const json_t *json, int64_t layer)
{
    static const char *const names[] = {"L", "l", NULL};
    const double values[] = {(double)r->arch->depth, (double)layer};
    char where[160];
    if (!json_is_string(json)) return read_formula(value, r, field, json, names, values);
    snprintf(where, sizeof where, "%.100s, \"%s\" of layer %lld", r->arch->path, field,
             (long long)layer);
    return rs_expression(value, json_string_value(json), names, values, where, r->err);
}

/* A number or formula for all layers, or a list with one for each. */
static rs_status read_strength(double **out, const rs_arch_reader *r, const char *field)
{
    rs_arch *arch = r->arch;
    double *list = *out = rs_arena_alloc(arch->arena, (size_t)arch->depth, sizeof *list);
    if (!list) return rs_fail_memory(r->err, field, (size_t)arch->depth * sizeof *list);
    const json_t *json = json_object_get(r->json, field);
    if (json_is_array(json) && (int64_t)json_array_size(json) != arch->depth)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "give one entry a layer",
                       "\"%s\" lists %zu layers; \"depth\" is %lld", field, json_array_size(json),
                       (long long)arch->depth);
    for (int64_t l = 0; l < arch->depth; l++) {
        const json_t *entry = json_is_array(json) ? json_array_get(json, (size_t)l) : json;
        list[l] = 1;
        if (entry) RS_TRY(read_of_layer(&list[l], r, field, entry, l));
    }
    return RS_OK;
}

/* Logits are divided by it: 0 and below are nobody's intention. */
static rs_status read_temperature(const rs_arch_reader *r)
{
    static const char field[] = "temperature";
    rs_arch *arch = r->arch;
    const json_t *json = json_object_get(r->json, field);
    RS_TRY(read_strength(&arch->temperature, r, field));
    for (int64_t l = 0; l < arch->depth; l++) {
        if (arch->temperature[l] > 0) continue;
        if (json_is_number(json)) return rs_arch_bad_value(r, field, "a number above 0", json);
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, NULL,
                       "\"%s\" of layer %lld is %g; a number above 0 is needed", field,
                       (long long)l, arch->temperature[l]);
    }
    return RS_OK;
}

/* ---- groups of fields ---- */

static rs_status read_sizes(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    RS_TRY(rs_arch_read_size(&arch->depth, r, "depth", RS_ARCH_MOST_LAYERS));
    RS_TRY(rs_arch_read_size(&arch->d_model, r, "d_model", RS_ARCH_LARGEST));
    RS_TRY(rs_arch_read_size(&arch->heads, r, "heads", RS_ARCH_MOST_LAYERS));
    arch->kv_heads = arch->heads;
    RS_TRY(rs_arch_read_size(&arch->kv_heads, r, "kv_heads", RS_ARCH_MOST_LAYERS));
    RS_TRY(rs_arch_read_size(&arch->seq_len, r, "seq_len", RS_ARCH_LARGEST));
    RS_TRY(rs_arch_read_size(&arch->d_head, r, "d_head", RS_ARCH_LARGEST));
    const json_t *vocab = json_object_get(r->json, "vocab");
    if (vocab && !json_is_null(vocab))
        RS_TRY(rs_arch_read_size(&arch->vocab, r, "vocab", INT32_MAX));
    arch->mlp_width = 4 * arch->d_model;
    RS_TRY(rs_arch_read_size(&arch->mlp_width, r, "mlp_width", 4 * RS_ARCH_LARGEST));
    if (arch->heads % arch->kv_heads != 0)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, NULL,
                       "\"heads\" %lld is no multiple of \"kv_heads\" %lld", (long long)arch->heads,
                       (long long)arch->kv_heads);
    if (arch->d_head) return RS_OK;
    if (arch->d_model % arch->heads != 0)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "give \"d_head\"",
                       "\"d_model\" %lld is no multiple of \"heads\" %lld",
                       (long long)arch->d_model, (long long)arch->heads);
    arch->d_head = arch->d_model / arch->heads;
    return RS_OK;
}

static rs_status read_gains(double gains[3], const rs_arch_reader *r, const json_t *json)
{
    if (json_array_size(json) != 3)
        return rs_arch_bad_value(r, "shaped", "a list of three numbers, or a list of such lists",
                                 json);
    for (size_t i = 0; i < 3; i++)
        RS_TRY(read_formula(&gains[i], r, "shaped", json_array_get(json, i), NULL, gains));
    return RS_OK;
}

/* a, b and c of each layer. */
static rs_status read_layer_gains(const rs_arch_reader *r, const json_t *json, bool used)
{
    rs_arch *arch = r->arch;
    if ((int64_t)json_array_size(json) != arch->depth)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "give one entry a layer",
                       "\"shaped\" lists %zu layers; \"depth\" is %lld", json_array_size(json),
                       (long long)arch->depth);
    double(*mix)[3] = rs_arena_alloc(arch->arena, (size_t)arch->depth, sizeof *mix);
    if (!mix) return rs_fail_memory(r->err, "shaped", (size_t)arch->depth * sizeof *mix);
    for (int64_t l = 0; l < arch->depth; l++)
        RS_TRY(read_gains(mix[l], r, json_array_get(json, (size_t)l)));
    if (used) arch->layer_mix = mix;
    return RS_OK;
}

static rs_status read_attention(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    int kind = SOFTMAX;
    RS_TRY(rs_arch_read_word(&kind, r, "attention", attention_words));
    double shaped[3] = {1, 1, 1}, w = 1;
    const json_t *json = json_object_get(r->json, "shaped");
    if (json_is_array(json_array_get(json, 0)))
        RS_TRY(read_layer_gains(r, json, kind == SHAPED));
    else if (json)
        RS_TRY(read_gains(shaped, r, json));
    RS_TRY(read_number(&w, r, "rescale"));
    const double mixes[][3] = {[SOFTMAX] = {0, 1, 0},
                               [UNIFORM] = {0, 0, -1},
                               [CENTRED] = {0, 1, 1},
                               [SHAPED] = {shaped[0], shaped[1], shaped[2]},
                               [RESCALED] = {0, 1 + w, w}};
    arch->mix_identity = mixes[kind][0];
    arch->mix_softmax = mixes[kind][1];
    arch->mix_uniform = mixes[kind][2];
    return read_temperature(r);
}

static rs_status read_mask(const rs_arch_reader *r)
{
    static const rs_arch_word words[] = {{"none", 0}, {"causal", 1}, {"sliding:W", 2}, {NULL, 0}};
    const json_t *json = json_object_get(r->json, "mask");
    if (!json) return RS_OK;
    if (!json_is_string(json)) return rs_arch_bad_value(r, "mask", "a text", json);
    const char *text = json_string_value(json);
    static const char sliding[] = "sliding:";
    if (strncmp(text, sliding, sizeof sliding - 1) == 0) {
        const char *digits = text + sizeof sliding - 1;
        size_t n = strspn(digits, "0123456789");
        int64_t width = 0;
        for (size_t i = 0; i < n && width <= RS_ARCH_LARGEST; i++)
            width = 10 * width + (digits[i] - '0');
        if (digits[n] || width < 1 || width > RS_ARCH_LARGEST)
            return rs_arch_bad_value(r, "mask", "sliding:W with W a whole number of tokens", json);
        r->arch->window = width;
        r->arch->causal = true;
        return RS_OK;
    }
    int causal = 0;
    RS_TRY(rs_arch_find_word(&causal, r, "mask", text, words));
    if (causal == 2)
        return rs_arch_bad_value(r, "mask", "sliding:W with W a whole number of tokens", json);
    r->arch->causal = causal == 1;
    return RS_OK;
}

/* One state is read by both branches, and one sum is left: a norm behind the mixer's part of it, or no
 * second branch, says something else. */
static rs_status read_order(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    int parallel = 0;
    RS_TRY(rs_arch_read_word(&parallel, r, "block", block_words));
    arch->parallel = parallel == 1;
    if (arch->parallel && arch->norm == RS_ARCH_NORM_POST)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path,
                       "choose \"norm\": \"pre\", \"sandwich\" or \"none\", or \"block\": "
                       "\"sequential\"",
                       "\"block\" is parallel, whose branches are added to one skip; \"norm\" post "
                       "stands behind each of them");
    if (arch->parallel && arch->mlp == RS_ARCH_MLP_NONE)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path,
                       "choose an \"mlp\", or \"block\": \"sequential\"",
                       "\"block\" is parallel; \"mlp\" is none, and nothing stands beside the "
                       "mixer");
    return RS_OK;
}

static rs_status read_block(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    int positions = RS_ARCH_POSITIONS_NONE, norm = RS_ARCH_NORM_PRE, kind = RS_NORM_LAYERNORM,
        mlp = RS_ARCH_MLP_GELU, affine = RS_ARCH_AFFINE_NONE;
    RS_TRY(rs_arch_read_word(&positions, r, "positions", position_words));
    RS_TRY(rs_arch_read_word(&norm, r, "norm", norm_words));
    RS_TRY(rs_arch_read_word(&kind, r, "norm_kind", kind_words));
    RS_TRY(rs_arch_read_word(&affine, r, "norm_affine", affine_words));
    RS_TRY(rs_arch_read_word(&mlp, r, "mlp", mlp_words));
    RS_TRY(rs_arch_read_flag(&arch->bias, r, "bias"));
    arch->positions = (rs_arch_positions)positions;
    arch->norm = (rs_arch_norm)norm;
    arch->norm_kind = (rs_norm_kind)kind;
    arch->affine = (rs_arch_affine)affine;
    arch->mlp = (rs_arch_mlp)mlp;
    RS_TRY(read_strength(&arch->skip_mixer, r, "skip_mixer"));
    RS_TRY(read_strength(&arch->skip_mlp, r, "skip_mlp"));
    RS_TRY(read_strength(&arch->branch_mixer, r, "branch_mixer"));
    RS_TRY(read_strength(&arch->branch_mlp, r, "branch_mlp"));
    if (positions == RS_ARCH_POSITIONS_ROPE && arch->d_head % 2 != 0)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, NULL,
                       "rope rotates pairs; \"d_head\" %lld is odd", (long long)arch->d_head);
    if (affine == RS_ARCH_AFFINE_BOTH && kind == RS_NORM_RMSNORM)
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, arch->path, "choose gain",
                       "\"norm_affine\" is both; an rmsnorm has no bias");
    return read_order(r);
}

static rs_status read_init(const rs_arch_reader *r)
{
    rs_arch *arch = r->arch;
    for (int w = 0; w < RS_ARCH_WEIGHTS; w++)
        arch->init[w] = "normal(0, 1/fan_in)";
    if (arch->mlp == RS_ARCH_MLP_RELU) arch->init[RS_ARCH_W1] = "normal(0, 2/fan_in)";
    arch->init[RS_ARCH_EMBEDDING] = arch->init[RS_ARCH_POSITION] = "normal(0, 1)";
    /* so that all layers weigh the same */
    if (arch->fusion == RS_FUSION_GATE) arch->init[RS_ARCH_FUSION] = "zero";
    arch->init[RS_ARCH_WDT] = arch->init[RS_ARCH_CONV] = "uniform(-1/sqrt(fan_in), 1/sqrt(fan_in))";
    const json_t *json = json_object_get(r->json, "init");
    if (!json) return RS_OK;
    if (!json_is_object(json)) return rs_arch_bad_value(r, "init", "an object of laws", json);
    RS_TRY(rs_arch_check_names(r, json, init_names, " in \"init\""));
    for (int w = 0; w < RS_ARCH_WEIGHTS; w++) {
        const json_t *law = json_object_get(json, init_names[w]);
        if (!law) continue;
        if (!json_is_string(law))
            return rs_arch_bad_value(r, init_names[w], "the text of a law", law);
        if (w == RS_ARCH_WO && strcmp(json_string_value(law), "none") == 0) {
            arch->merged_output = true;
            continue;
        }
        bool absent = strcmp(json_string_value(law), "identity") == 0;
        if (w == RS_ARCH_WV) arch->absent_values = absent;
        if (w == RS_ARCH_WO) arch->absent_output = absent;
        arch->init[w] = rs_arena_strdup(arch->arena, json_string_value(law));
        if (!arch->init[w]) return rs_fail_memory(r->err, "a law of weights", 1);
    }
    return RS_OK;
}

static rs_status read_input(const rs_arch_reader *r)
{
    static const char *const names[] = {"d", "n", "L", NULL};
    rs_arch *arch = r->arch;
    const int64_t width = arch->rows ? arch->rows : arch->d_model;
    const double values[] = {(double)width, (double)arch->seq_len, (double)arch->depth};
    arch->input_norm2 = (double)width;
    const json_t *json = json_object_get(r->json, "input");
    if (!json) return RS_OK;
    if (!json_is_object(json)) return rs_arch_bad_value(r, "input", "an object", json);
    RS_TRY(rs_arch_check_names(r, json, input_names, " in \"input\""));
    rs_arch_reader inner = {arch, json, r->err};
    int law = 0;
    RS_TRY(rs_arch_read_word(&law, &inner, "law", law_words));
    const json_t *rho = json_object_get(json, "rho"), *norm2 = json_object_get(json, "norm2");
    if (rho) RS_TRY(read_formula(&arch->input_rho, r, "rho", rho, names, values));
    if (!(arch->input_rho >= -1 && arch->input_rho <= 1))
        return rs_arch_bad_value(r, "rho", "a correlation from -1/(n-1) to 1", rho);
    RS_TRY(rs_arch_input_check(arch, r->err));
    if (norm2) RS_TRY(read_formula(&arch->input_norm2, r, "norm2", norm2, names, values));
    if (!(arch->input_norm2 > 0))
        return rs_arch_bad_value(r, "norm2", "a squared norm above 0", norm2);
    return RS_OK;
}

static rs_status read_all(const rs_arch_reader *r)
{
    if (!json_is_object(r->json))
        return rs_fail(r->err, RS_E_ARCH_SCHEMA, r->arch->path, NULL,
                       "an architecture file is a JSON object");
    RS_TRY(rs_arch_check_names(r, r->json, field_names, ""));
    RS_TRY(read_sizes(r));
    RS_TRY(rs_arch_read_mixer(r));
    RS_TRY(rs_arch_read_states(r));
    RS_TRY(read_attention(r));
    RS_TRY(read_mask(r));
    RS_TRY(rs_arch_read_linear(r));
    RS_TRY(read_block(r));
    RS_TRY(rs_arch_read_ends(r));
    RS_TRY(read_init(r));
    RS_TRY(rs_arch_read_graph(r->arch, r->json, r->err));
    return read_input(r);
}

rs_status rs_arch_read(rs_arch **out, const json_t *json, const char *path, rs_error *err)
{
    *out = NULL;
    rs_arch *arch = rs_calloc(1, sizeof *arch);
    if (!arch) return rs_fail_memory(err, "an architecture", sizeof *arch);
    *arch = (rs_arch){.depth = 12, .d_model = 64, .heads = 1, .seq_len = 16};
    arch->arena = rs_arena_new();
    arch->path = arch->arena ? rs_arena_strdup(arch->arena, path) : NULL;
    rs_arch_reader r = {arch, json, err};
    rs_status status =
        arch->path ? read_all(&r) : rs_fail_memory(err, "an architecture", sizeof *arch);
    if (status != RS_OK) {
        rs_arch_close(arch);
        return status;
    }
    *out = arch;
    return RS_OK;
}

void rs_arch_close(rs_arch *arch)
{
    if (!arch) return;
    rs_arch_graph_close(arch);
    rs_arena_free(arch->arena);
    rs_free(arch);
}
