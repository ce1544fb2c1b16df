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

static bool attends(const rs_predict_run *run)
{
    const rs_arch *arch = run->design->arch;
    for (int64_t l = 0; l < arch->depth; l++)
        if (arch->mixer[l] != RS_ARCH_ATTENTION) return false;
    return true;
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
    *applies = true;
    bool there = strcmp(word_of(json, "norm", "pre"), where) == 0;
    return there ? RS_OK : put_text(json, "norm", where, err);
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
    RS_TRY(put_text(json, "norm", "post", err));
    RS_TRY(put_text(json, "skip_mixer", "(2*L)^0.25", err));
    RS_TRY(put_text(json, "skip_mlp", "(2*L)^0.25", err));
    RS_TRY(scale(json, applies, "1", err));
    *applies = attends(run);
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
    return attends(run) && arch->mix_identity == 0 && arch->mix_softmax == 1 &&
           arch->mix_uniform == 0 && !arch->layer_mix;
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

/* ---- simpler blocks ---- */

/* A field at its default is left out, so that a file that has the remedy stays as it is. */
static void leave_out(json_t *json, const char *const *fields)
{
    for (; *fields; fields++)
        json_object_del(json, *fields);
}

/* He and Hofmann 2023: shaped attention that is the identity at the start, of values that are the normed
 * tokens, without a skip around it; MLPs by 1/sqrt(L). */
static rs_status simplify(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    static const char *const defaults[] = {"skip_mlp", "branch_mixer", "shaped", NULL};
    const rs_arch *arch = run->design->arch;
    bool whole = arch->heads * arch->d_head == arch->d_model && arch->kv_heads == arch->heads;
    *applies = attends(run) && has_mlp(json) && whole;
    leave_out(json, defaults);
    RS_TRY(put_text(json, "norm", "pre", err));
    RS_TRY(put_text(json, "attention", "shaped", err));
    RS_TRY(put(json, "skip_mixer", json_integer(0), err));
    RS_TRY(put_text(json, "branch_mlp", "1/sqrt(L)", err));
    RS_TRY(put_law(json, "wq", "zero", err));
    RS_TRY(put_law(json, "wv", "identity", err));
    return put_law(json, "wo", "identity", err);
}

/* The MLP behind attention keeps its skip. */
static rs_status sas(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    static const char *const defaults[] = {"block", NULL};
    leave_out(json, defaults);
    return simplify(json, applies, run, err);
}

/* The MLP stands beside attention, and nothing has a skip. */
static rs_status sas_parallel(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    RS_TRY(put_text(json, "block", "parallel", err));
    return simplify(json, applies, run, err);
}

/* ---- what reads the states ---- */

/* Shi et al. 2022: the states of all layers side by side. */
static rs_status fusion(json_t *json, bool *applies, const rs_predict_run *run, rs_error *err)
{
    *applies = run->design->arch->fusion == RS_FUSION_NONE && run->design->arch->depth > 1;
    return put_text(json, "fusion", "concat", err);
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
    {"scale-root", "branches × 1/√L (Noci et al. 2022, depth-µP)", "branches count less",
     scale_root, false},
    {"scale-depth", "branches × 1/L (CompleteP)", "branches count less", scale_depth, false},
    {"scale-layer", "branches × 1/√(l+1)", "later branches count less", scale_layer, false},
    {"rezero", "no norm, branches × 0 at the start (ReZero)", "it is the identity", rezero, false},
    {"pre-norm", "norms in front of the branches", "states grow, branches read normed ones",
     norm_pre, false},
    {"post-norm", "norms behind the sums", "states are normed behind each branch", norm_post,
     false},
    {"sandwich", "norms in front of and behind the branches",
     "what branches read and add is normed", norm_sandwich, false},
    {"deepnorm", "post-norm, skips (2L)^¼, gain (8L)^−¼ (DeepNet)",
     "states are normed behind each branch, branches count less", deepnorm, false},
    {"admin", "post-norm, skips by what was added before (Admin)",
     "states are normed behind each branch, later branches count less", admin, false},
    {"lambda-skip", "skips of strength 2 (λ-skip)", "branches count less, states double",
     strong_skip, false},
    {"temperature", "the temperature at which gQ = gV", "attention is another: logits are divided",
     temperature, false},
    {"centred", "attention P − C (in encoders: no spectral gap)",
     "attention gives no mean of what it sees", centred, false},
    {"shaped", "attention I + P − C, W_Q = 0 at the start", "attention is the identity", shaped,
     false},
    {"value-skipinit", "attention αI + βP, α = 1, β = 0, no skip around it",
     "attention is the identity, and stands for its skip", value_skipinit, false},
    {"sas", "I + P − C with W_Q = 0, no W_V, W_O or skip; MLPs × 1/√L (He, Hofmann 2023)",
     "an attention block gives what its norm gives; MLPs count less", sas, false},
    {"sas-p", "the same, MLPs beside attention, no skips (He, Hofmann 2023)",
     "a layer gives what its norm gives, and its MLP, which counts less", sas_parallel, false},
    {"attnscale", "attention 2P − C (AttnScale)", "what differs from the mean counts twice",
     attnscale, false},
    {"residual-init", "W_O and W_2 / √(2L) at the start (GPT-2)", "branches count less",
     residual_init, false},
    {"fusion", "states of all layers side by side, read by a map L d × d (Shi et al. 2022)",
     "states are as they were; more of them are read", fusion, true},
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
