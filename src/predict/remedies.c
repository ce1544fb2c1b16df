/* remedies.c: edits of an architecture file, each the words of a paper. */
#include "predict/remedies.h"

#include "base/text.h"
#include "predict/laws.h"

#include <math.h>
#include <string.h>

/* ---- words of a file ---- */

static const char *word_of(const json_t *json, const char *field, const char *otherwise)
{
    const char *word = json_string_value(json_object_get(json, field));
    return word ? word : otherwise;
}

static bool has_mlp(const json_t *json)
{
    return strcmp(word_of(json, "mlp", "gelu"), "none") != 0;
}

static rs_status put(json_t *json, const char *field, json_t *value, rs_error *err)
{
    return json_object_set_new(json, field, value) == 0 ? RS_OK : rs_fail_memory(err, field, 1);
}

static rs_status put_text(json_t *json, const char *field, const char *text, rs_error *err)
{
    return put(json, field, json_string(text), err);
}

/* A law of "init", in place of the one that is there. */
static rs_status put_law(json_t *json, const char *weight, const char *law, rs_error *err)
{
    json_t *init = json_object_get(json, "init");
    if (!init) {
        RS_TRY(put(json, "init", json_object(), err));
        init = json_object_get(json, "init");
    }
    return put_text(init, weight, law, err);
}

/* ---- scales of branches ---- */

static rs_status scale(json_t *json, bool *applies, const char *formula, rs_error *err)
{
    *applies = true;
    RS_TRY(put_text(json, "branch_mixer", formula, err));
    return has_mlp(json) ? put_text(json, "branch_mlp", formula, err) : RS_OK;
}

#define SCALE(name_, formula_)                                                                     \
    static rs_status name_(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)  \
    {                                                                                              \
        (void)run;                                                                                 \
        return scale(json, applies, formula_, err);                                                \
    }
SCALE(scale_root, "1/sqrt(L)")
SCALE(scale_depth, "1/L")
SCALE(scale_layer, "1/sqrt(l+1)")

static rs_status rezero(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    (void)run;
    RS_TRY(put_text(json, "norm", "none", err));
    return scale(json, applies, "0", err);
}

/* ---- norms ---- */

static rs_status place_norm(json_t *json, bool *applies, const char *where, rs_error *err)
{
    *applies = strcmp(word_of(json, "norm", "pre"), where) != 0;
    return put_text(json, "norm", where, err);
}

#define PLACE(name_, where_)                                                                       \
    static rs_status name_(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)  \
    {                                                                                              \
        (void)run;                                                                                 \
        return place_norm(json, applies, where_, err);                                             \
    }
PLACE(norm_pre, "pre")
PLACE(norm_post, "post")
PLACE(norm_sandwich, "sandwich")

/* ---- skips ---- */

/* The law of a weight becomes its variance over `divisor`; *done: it is a normal law of mean 0. */
static rs_status divide_law(json_t *json, bool *done, const char *weight, const char *law,
                            const char *divisor, rs_error *err)
{
    static const char begin[] = "normal(0,";
    char text[300];
    size_t length = law ? strlen(law) : 0, before = sizeof begin - 1;
    *done = length > before + 1 && strncmp(law, begin, before) == 0;
    if (!*done) return RS_OK;
    snprintf(text, sizeof text, "normal(0, (%.*s)/%s)", (int)(length - before - 1), law + before,
             divisor);
    return put_law(json, weight, text, err);
}

/* Wang et al. 2022, encoders: post-norm, skips (2L)^¼, gain (8L)^−¼ of values and what follows. */
static rs_status deepnorm(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    static const struct {
        const char *name;
        rs_arch_weight weight;
    } weights[] = {{"wv", RS_ARCH_WV},
                   {"wo", RS_ARCH_WO},
                   {"w1", RS_ARCH_W1},
                   {"wg", RS_ARCH_WG},
                   {"w2", RS_ARCH_W2}};
    const rs_arch *arch = run->design->arch;
    *applies = true;
    RS_TRY(put_text(json, "norm", "post", err));
    RS_TRY(put_text(json, "skip_mixer", "(2*L)^0.25", err));
    RS_TRY(put_text(json, "skip_mlp", "(2*L)^0.25", err));
    RS_TRY(scale(json, applies, "1", err));
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        const char *law = arch->init[weights[i].weight];
        if (!law || (weights[i].weight == RS_ARCH_WO && arch->merged_output)) continue;
        bool done;
        RS_TRY(divide_law(json, &done, weights[i].name, law, "sqrt(8*L)", err));
    }
    return RS_OK;
}

/* Liu et al. 2020 (Admin): post-norm with skips that weigh what the branches before added: sqrt of
 * the sum of their variances, at unit input. */
static rs_status admin(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    const rs_theory_network *net = rs_theory_model_network(run->design->theory);
    double sum = 1;
    *applies = true;
    RS_TRY(put_text(json, "norm", "post", err));
    RS_TRY(put(json, "skip_mixer", json_array(), err));
    if (has_mlp(json)) RS_TRY(put(json, "skip_mlp", json_array(), err));
    for (int32_t l = 0; l < net->n_layers; l++) {
        const rs_theory_layer *layer = &net->layers[l];
        for (int32_t b = 0; b < layer->n_branches; b++) {
            const rs_theory_branch *branch = &layer->branches[b];
            json_t *list = json_object_get(json, branch->is_mlp ? "skip_mlp" : "skip_mixer");
            double gain = branch->attention.values * branch->attention.output, ignored;
            if (branch->refused) *applies = false;
            if (json_array_append_new(list, json_real(sqrt(sum))) != 0)
                return rs_fail_memory(err, "skips", 1);
            if (branch->is_mlp && !branch->refused)
                RS_TRY(rs_mlp_gains(&gain, &ignored, &branch->mlp, err));
            sum += isfinite(gain) ? gain : 1;
        }
    }
    return RS_OK;
}

/* Arangath Joseph et al. 2025: a skip stronger than 1, here 2. */
static rs_status strong_skip(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    (void)run;
    *applies = true;
    RS_TRY(put(json, "skip_mixer", json_integer(2), err));
    return has_mlp(json) ? put(json, "skip_mlp", json_integer(2), err) : RS_OK;
}

/* ---- attention ---- */

static bool is_softmax(const rs_predict_run *run)
{
    const rs_arch *arch = run->design->arch;
    bool attends = true;
    for (int64_t l = 0; l < arch->depth; l++)
        attends = attends && arch->mixer[l] == RS_ARCH_ATTENTION;
    return attends && arch->mix_identity == 0 && arch->mix_softmax == 1 && arch->mix_uniform == 0 &&
           !arch->layer_mix;
}

static rs_status temperature(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    *applies = is_softmax(run) && fabs(run->balance) < 0.1;
    return *applies ? rs_predict_temper(json, run, run->temper, err) : RS_OK;
}

static rs_status centred(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    *applies = is_softmax(run);
    return put_text(json, "attention", "centred", err);
}

static rs_status put_shaped(json_t *json, double a, double b, double c, rs_error *err)
{
    RS_TRY(put_text(json, "attention", "shaped", err));
    return put(json, "shaped", json_pack("[f, f, f]", a, b, c), err);
}

/* He and Hofmann 2023: I + P − C with W_Q = 0 is the identity at the start. */
static rs_status shaped(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    *applies = is_softmax(run);
    RS_TRY(put_shaped(json, 1, 1, 1, err));
    return put_law(json, "wq", "zero", err);
}

/* He et al. 2023: αI + βP with α = 1, β = 0 in place of the skip around attention. */
static rs_status value_skipinit(json_t *json, bool *applies, const rs_predict_run *run,
                                rs_error *err)
{
    *applies = is_softmax(run);
    RS_TRY(put_shaped(json, 1, 0, 0, err));
    return put(json, "skip_mixer", json_integer(0), err);
}

/* Wang et al. 2022 (AttnScale): what differs from the average counts twice. */
static rs_status attnscale(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    *applies = is_softmax(run);
    RS_TRY(put_text(json, "attention", "rescaled", err));
    return put(json, "rescale", json_integer(1), err);
}

/* ---- initialisation ---- */

/* GPT-2: outputs of branches over sqrt(2 L). */
static rs_status residual_init(json_t *json, bool *applies, const rs_predict_run *run,
                               rs_error *err)
{
    const rs_arch *arch = run->design->arch;
    static const struct {
        const char *name;
        rs_arch_weight weight;
    } outputs[] = {{"wo", RS_ARCH_WO}, {"w2", RS_ARCH_W2}};
    *applies = !arch->merged_output;
    for (size_t i = 0; i < 2 && *applies; i++) {
        const char *law = arch->init[outputs[i].weight];
        *applies = law && !strstr(law, "L"); /* else it knows the depth already */
        if (*applies) RS_TRY(divide_law(json, applies, outputs[i].name, law, "(2*L)", err));
    }
    return RS_OK;
}

/* ---- the table ---- */

static const rs_remedy remedies[] = {
    {"scale-root", "branches × 1/√L (Noci et al. 2022, depth-µP)", scale_root},
    {"scale-depth", "branches × 1/L (CompleteP)", scale_depth},
    {"scale-layer", "branches × 1/√(l+1)", scale_layer},
    {"rezero", "no norm, branches × 0 at the start (ReZero)", rezero},
    {"pre-norm", "norms in front of the branches", norm_pre},
    {"post-norm", "norms behind the sums", norm_post},
    {"sandwich", "norms in front of and behind the branches", norm_sandwich},
    {"deepnorm", "post-norm, skips (2L)^¼, gain (8L)^−¼ (DeepNet)", deepnorm},
    {"admin", "post-norm, skips by what was added before (Admin)", admin},
    {"lambda-skip", "skips of strength 2 (λ-skip)", strong_skip},
    {"temperature", "the temperature at which gQ = gV", temperature},
    {"centred", "attention P − C (in encoders: no spectral gap)", centred},
    {"shaped", "attention I + P − C, W_Q = 0 at the start", shaped},
    {"value-skipinit", "attention αI + βP, α = 1, β = 0, no skip around it", value_skipinit},
    {"attnscale", "attention 2P − C (AttnScale)", attnscale},
    {"residual-init", "W_O and W_2 / √(2L) at the start (GPT-2)", residual_init},
};
enum { REMEDIES = sizeof remedies / sizeof *remedies };

const rs_remedy *rs_remedy_at(size_t i)
{
    return i < REMEDIES ? &remedies[i] : NULL;
}

rs_status rs_remedy_find(const rs_remedy **out, const char *name, size_t length, rs_error *err)
{
    const char *known[REMEDIES + 1] = {NULL};
    char text[65], hint[128];
    for (size_t i = 0; i < REMEDIES; i++) {
        known[i] = remedies[i].name;
        if (strlen(known[i]) != length || memcmp(known[i], name, length) != 0) continue;
        *out = &remedies[i];
        return RS_OK;
    }
    snprintf(text, sizeof text, "%.*s", (int)(length < 64 ? length : 64), name);
    if (strcmp(text, "u-spa") == 0 || strcmp(text, "e-spa") == 0)
        return rs_fail(
            err, RS_E_UNSUPPORTED, "remedies",
            "'rankscope lab run espa' measures it; shaped is the nearest that a file says",
            "%s prescribes each layer's matrix, which no architecture file holds", text);
    snprintf(hint, sizeof hint, "did you mean \"%s\"? all: every one",
             rs_nearest_name(text, known));
    return rs_fail(err, RS_E_BAD_OPTION, "remedies", hint, "\"%s\" is no remedy", text);
}
