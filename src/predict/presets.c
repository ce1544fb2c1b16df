/* presets.c: architectures by name. */
#include "predict/presets.h"

#include "base/text.h"

#include <string.h>

/* What every preset says unless its own text says otherwise: 128 tokens of width 512, 8 heads, ReLU,
 * Xavier. */
static const char common[] =
    "{\"d_model\": 512, \"heads\": 8, \"seq_len\": 128, \"mlp\": \"relu\", \"norm\": \"pre\"}";

#define XAVIER "\"normal(0, 2/(fan_in + fan_out))\""
#define ALL_XAVIER                                                                                 \
    "\"init\": {\"wq\": " XAVIER ", \"wk\": " XAVIER ", \"wv\": " XAVIER ", \"wo\": " XAVIER       \
    ", \"w1\": " XAVIER ", \"w2\": " XAVIER "}"
#define SMALL "\"normal(0, 0.02^2)\""
#define ALL_SMALL                                                                                  \
    "\"init\": {\"wq\": " SMALL ", \"wk\": " SMALL ", \"wv\": " SMALL ", \"wo\": " SMALL           \
    ", \"w1\": " SMALL ", \"wg\": " SMALL ", \"w2\": " SMALL "}"
/* GPT-2: outputs of branches have 0.02/sqrt(2 layers). */
#define OUTPUTS "\"normal(0, 0.02^2/(2*L))\""
#define GPT2                                                                                       \
    "\"mask\": \"causal\", \"mlp\": \"gelu_tanh\", \"init\": {\"wq\": " SMALL ", \"wk\": " SMALL   \
    ", \"wv\": " SMALL ", \"w1\": " SMALL ", \"wo\": " OUTPUTS ", \"w2\": " OUTPUTS                \
    "}, \"input\": {\"norm2\": \"2*0.02^2*d\"}"
/* DeepNet: values and what follows them are times (8 layers)^(-1/4), skips (2 layers)^(1/4). */
#define DEEP "\"normal(0, 2/(fan_in + fan_out)/sqrt(8*L))\""

static const rs_preset presets[] = {
    {"gpt2", "GPT-2 small at its start", NULL,
     "{\"depth\": 12, \"d_model\": 768, \"heads\": 12, " GPT2 "}"},
    {"gpt2-xl", "GPT-2 XL at its start", NULL,
     "{\"depth\": 48, \"d_model\": 1600, \"heads\": 25, " GPT2 "}"},
    {"llama-2-7b", "Llama 2 of 7 billion at its start", NULL,
     "{\"depth\": 32, \"d_model\": 4096, \"heads\": 32, \"mlp_width\": 11008, \"mlp\": \"swiglu\", "
     "\"mask\": \"causal\", \"positions\": \"rope\", \"norm_kind\": \"rmsnorm\", " ALL_SMALL
     ", \"input\": {\"norm2\": \"0.02^2*d\"}}"},
    {"bert-base", "BERT-base at its start", NULL,
     "{\"depth\": 12, \"d_model\": 768, \"heads\": 12, \"norm\": \"post\", \"mlp\": "
     "\"gelu\", " ALL_SMALL ", \"input\": {\"rho\": \"1/3\"}}"},
    {"vit-b16", "ViT-B/16 at its start", NULL,
     "{\"depth\": 12, \"d_model\": 768, \"heads\": 12, \"seq_len\": 197, \"mlp\": "
     "\"gelu\", " ALL_SMALL "}"},
    {"post-norm-xavier-6", "the transformer of 2017, 6 layers", NULL,
     "{\"depth\": 6, \"norm\": \"post\", " ALL_XAVIER "}"},
    {"post-norm-xavier-18", "the same with 18 layers", NULL,
     "{\"depth\": 18, \"norm\": \"post\", " ALL_XAVIER "}"},
    {"post-norm-xavier-96", "the same with 96 layers", NULL,
     "{\"depth\": 96, \"norm\": \"post\", " ALL_XAVIER "}"},
    {"pre-norm-96", "norms before the branches, 96 layers", NULL,
     "{\"depth\": 96, " ALL_XAVIER "}"},
    {"deepnet-1000", "post-norm with DeepNorm's skips and initialisation, 1000 layers", NULL,
     "{\"depth\": 1000, \"norm\": \"post\", \"skip_mixer\": \"(2*L)^0.25\", \"skip_mlp\": "
     "\"(2*L)^0.25\", \"init\": {\"wq\": " XAVIER ", \"wk\": " XAVIER ", \"wv\": " DEEP
     ", \"wo\": " DEEP ", \"w1\": " DEEP ", \"w2\": " DEEP "}}"},
    {"rezero-64", "no norm, branches times 0", NULL,
     "{\"depth\": 64, \"norm\": \"none\", \"branch_mixer\": 0, \"branch_mlp\": 0, " ALL_XAVIER "}"},
    {"no-norm-32", "no norm, branches as they are (Noci et al. 2022)", NULL,
     "{\"depth\": 32, \"heads\": 1, \"norm\": \"none\", \"init\": {\"wo\": \"none\"}}"},
    {"no-norm-32-scaled", "the same with branches times 1/sqrt(layers)", NULL,
     "{\"depth\": 32, \"heads\": 1, \"norm\": \"none\", \"branch_mixer\": \"1/sqrt(L)\", "
     "\"branch_mlp\": \"1/sqrt(L)\", \"init\": {\"wo\": \"none\"}}"},
    {"depth-mup-64", "pre-norm, branches times 1/sqrt(layers)", NULL,
     "{\"depth\": 64, \"branch_mixer\": \"1/sqrt(L)\", \"branch_mlp\": \"1/sqrt(L)\"}"},
    {"complete-p-64", "pre-norm, branches times 1/layers", NULL,
     "{\"depth\": 64, \"branch_mixer\": \"1/L\", \"branch_mlp\": \"1/L\"}"},
    {"layernorm-scaling-48",
     "pre-norm, norms' outputs times 1/sqrt(layer), from 1 (Sun et al. 2025)",
     NULL, /* of ReLU and linear maps: the branch scales with what it reads, logits with its square */
     "{\"depth\": 48, \"branch_mixer\": \"1/sqrt(l+1)\", \"branch_mlp\": \"1/sqrt(l+1)\", "
     "\"temperature\": \"l+1\"}"},
    {"attention-only-6", "attention alone (Dong et al. 2021)", NULL,
     "{\"depth\": 6, \"heads\": 1, \"norm\": \"none\", \"mlp\": \"none\", \"skip_mixer\": 0, "
     "\"init\": {\"wo\": \"none\"}}"},
    {"sas-18", "shaped attention without skip, values or outputs of its own (He and Hofmann 2023)",
     NULL,
     "{\"depth\": 18, \"skip_mixer\": 0, \"attention\": \"shaped\", \"branch_mlp\": \"1/sqrt(L)\", "
     "\"init\": {\"wq\": \"zero\", \"wk\": " XAVIER ", \"wv\": \"identity\", \"wo\": \"identity\", "
     "\"w1\": " XAVIER ", \"w2\": " XAVIER "}}"},
    {"moe", "mixtures of experts",
     "no theory of routed experts; ask about one expert, a dense model of its width: --preset "
     "llama-2-7b, or an architecture file",
     NULL},
};
enum { PRESETS = sizeof presets / sizeof *presets };

const rs_preset *rs_preset_at(size_t i)
{
    return i < PRESETS ? &presets[i] : NULL;
}

rs_status rs_preset_open(json_t **out, const char *name, rs_error *err)
{
    const char *known[PRESETS + 1] = {NULL};
    *out = NULL;
    for (size_t i = 0; i < PRESETS; i++) {
        known[i] = presets[i].name;
        if (strcmp(presets[i].name, name) != 0) continue;
        if (presets[i].refused)
            return rs_fail(err, RS_E_UNSUPPORTED, name, presets[i].refused, "%s are not predicted",
                           presets[i].says);
        json_t *base = json_loads(common, 0, NULL), *own = json_loads(presets[i].file, 0, NULL);
        bool made = base && own && json_object_update(base, own) == 0;
        json_decref(own);
        if (made) {
            *out = base;
            return RS_OK;
        }
        json_decref(base);
        return rs_fail_memory(err, "a preset", sizeof common);
    }
    char hint[128];
    snprintf(hint, sizeof hint, "did you mean \"%s\"? 'rankscope predict --preset list' shows all",
             rs_nearest_name(name, known));
    return rs_fail(err, RS_E_NOT_FOUND, name, hint, "there is no such preset");
}
