/* network_open.c: a checkpoint or a configuration becomes a network: family, settings, weights,
 * remarks. */
#include "network/network_build.h"
#include "network/op_traits.h"
#include "network/saved.h"

#include <math.h>
#include <string.h>

enum { MOST_LAYERS = 10000 };

/* ---- which family ---- */

/* What a forward pass of a type that is not run would need; NULL: that is not known. */
static const char *missing_part(const char *type)
{
    static const struct {
        const char *in_type, *part;
    } parts[] = {
        {"zamba", "an attention that several layers share, and that reads the embedding beside the "
                  "state, is not built"},
        {"rwkv", "its time mixing (WKV) is not built"},
        {"xlstm", "its mLSTM and sLSTM cells are not built"},
        {"kimi", "its delta attention, its latent attention and mixtures of experts are not built"},
        {"moe", "mixtures of experts are not built"},
        {"mixtral", "mixtures of experts are not built"},
        {"deepseek", "latent attention is not built"},
        {"whisper", "an encoder of sound is not built"},
        {"deit", "its distillation token is not built"},
        {"olmo3", "its layers' two kinds of rotary positions are not described"},
    };
    for (size_t i = 0; type && i < sizeof parts / sizeof *parts; i++)
        if (strstr(type, parts[i].in_type)) return parts[i].part;
    return NULL;
}

static rs_status unknown_family(rs_net_builder *nb, const char *type)
{
    const char *part = missing_part(type);
    const char *known = "known are BERT, RoBERTa, DistilBERT, ALBERT, XLNet, GPT-2, GPT-NeoX, "
                        "LLaMA, Mistral, Qwen2, Qwen3, Gemma, Gemma 2, Gemma 3, Phi-3, OLMo, "
                        "Granite, Falcon, ViT, Mamba, Mamba-2, Falcon-Mamba, Jamba, Bamba, Granite "
                        "hybrid, Falcon-H1, Nemotron-H, LFM2, Qwen3.5, Qwen3-Next and OLMo Hybrid";
    if (nb->gguf)
        known =
            "known are llama, qwen2, qwen3, qwen35, gemma, gemma2, gemma3, phi3, granite, olmo2, "
            "gpt2, gptneox, bert, mamba, mamba2, jamba, granitehybrid, falcon-h1, nemotron_h and "
            "lfm2";
    if (part)
        return rs_fail(nb->err, RS_E_UNSUPPORTED, nb->b->fields.path, known,
                       "%.80s cannot be run: %s", type, part);
    return rs_fail(nb->err, RS_E_FAMILY_UNKNOWN, nb->b->fields.path, known,
                   "no forward pass is known for %s %.80s",
                   nb->gguf ? "GGUF architecture" : "model type", type ? type : "(none)");
}

static rs_status choose_family(rs_net_builder *nb, const char **type)
{
    rs_builder *b = nb->b;
    RS_TRY(rs_family_choose(b, type));
    if (!b->family) return unknown_family(nb, *type);
    const rs_forward *forward = nb->forward = b->family->forward;
    const char *part = missing_part(*type);
    bool experts = strstr(*type, "moe") != NULL;
    if (forward && (nb->gguf ? !experts : rs_type_listed(forward->types, *type))) return RS_OK;
    return rs_fail(nb->err, RS_E_UNSUPPORTED, b->fields.path, "scan reads its weights",
                   "%.80s cannot be run: %s", *type,
                   part ? part : "how its layers are wired is not described");
}

/* Points the fields at the settings: what the configuration says over what it leaves to
 * defaults. */
static rs_status settle_settings(rs_net_builder *nb, const char *type, json_t **settings)
{
    rs_builder *b = nb->b;
    json_t *translated = NULL;
    const json_t *source = b->fields.object;
    b->fields.dialect = nb->gguf ? rs_dialect_translated : b->family->dialect;
    if (nb->gguf) {
        RS_TRY(rs_net_translate(&translated, b, nb->forward, nb->err));
        source = b->fields.root = b->fields.object = translated;
        b->fields.prefix = NULL;
    }
    rs_status status = rs_net_settings(settings, nb->forward, &b->fields, source, nb->err);
    json_decref(translated);
    RS_TRY(status);
    if (b->fields.object == b->fields.root) b->fields.root = *settings;
    b->fields.object = *settings;
    /* Falcon's layout hangs on a field that may have been left to its default. */
    if (nb->gguf) return RS_OK;
    const rs_family *again = rs_family_find(b->checkpoint, &b->fields, type);
    if (again) b->family = again;
    return RS_OK;
}

/* ---- sizes of the whole ---- */

static rs_status read_sizes(rs_net_builder *nb)
{
    rs_builder *b = nb->b;
    const rs_forward *forward = nb->forward;
    int64_t layers, groups = 0;
    RS_TRY(rs_fields_need(&b->fields, RS_FIELD_WIDTH, -1, &nb->d_model, nb->err));
    RS_TRY(rs_fields_need(&b->fields, RS_FIELD_LAYERS, -1, &layers, nb->err));
    if (nb->gguf) RS_TRY(rs_fields_layers(&b->fields, &layers, nb->err));
    int64_t stored = layers, depth = layers;
    if (b->family->facts & RS_FACT_SHARED_LAYERS) {
        RS_TRY(rs_fields_need(&b->fields, RS_FIELD_LAYER_GROUPS, -1, &groups, nb->err));
        RS_TRY(rs_fields_need(&b->fields, RS_FIELD_INNER_GROUP, -1, &b->inner_group, nb->err));
        if (groups > layers)
            return rs_fail(nb->err, RS_E_CONFIG_LAYERS, b->fields.path, RS_CONFIG_HINT,
                           "%lld groups cannot share %lld layers", (long long)groups,
                           (long long)layers);
        bool fits = layers <= MOST_LAYERS && b->inner_group <= MOST_LAYERS;
        stored = fits ? groups * b->inner_group : MOST_LAYERS + 1;
        depth = fits ? layers * b->inner_group : MOST_LAYERS + 1;
    }
    if (depth < 1)
        return rs_fail(nb->err, RS_E_CONFIG_LAYERS, b->fields.path, RS_CONFIG_HINT,
                       "lists no layer: at least one is needed");
    if (depth > MOST_LAYERS || stored > MOST_LAYERS)
        return rs_fail(nb->err, RS_E_CONFIG_LAYERS, b->fields.path, RS_CONFIG_HINT,
                       "says that the model has %lld layers; at most %d are believed",
                       (long long)layers, MOST_LAYERS);
    nb->depth = (int32_t)depth;
    nb->stored = (int32_t)stored;
    nb->eps = forward->fixed_eps;
    if (forward->eps) RS_TRY(rs_net_real(nb, forward->eps, &nb->eps));
    if (!(nb->eps >= 0 && isfinite(nb->eps)))
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, b->fields.path, RS_CONFIG_HINT,
                       "%s is %g; it cannot be negative", forward->eps, nb->eps);
    nb->network->d_model = nb->d_model;
    nb->network->padding_id = nb->network->padding_row = -1;
    nb->network->family = b->family->name;
    nb->network->dong2021_code = forward->facts & RS_W_DONG2021_CODE;
    RS_TRY(rs_net_activation(nb, forward->activation, &nb->activation));
    if (!(forward->facts & RS_W_GELU_TANH) || nb->activation != RS_ACT_GELU) return RS_OK;
    nb->activation = RS_ACT_GELU_TANH;
    return rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "gelu_by_tanh", NULL,
                        "%s is \"gelu\", which this family's first release wrote for its "
                        "approximation by tanh: that is what is computed",
                        forward->activation);
}

/* ---- layers ---- */

/* Keys of GGUF that llama.cpp's hybrids may have and that are not run here. */
static rs_status refuse_keys(rs_net_builder *nb)
{
    const rs_fields *fields = &nb->b->fields;
    if (!nb->gguf || !nb->forward->ssm) return RS_OK;
    if (json_is_false(rs_fields_key(fields, "is_causal")))
        return rs_fail(nb->err, RS_E_UNSUPPORTED, fields->path, RS_NOT_RUN_HINT,
                       "attention.causal is false: hybrids that look ahead are not run");
    if (json_number_value(rs_fields_key(fields, "sliding_window")) > 0)
        return rs_fail(nb->err, RS_E_UNSUPPORTED, fields->path, RS_NOT_RUN_HINT,
                       "attention.sliding_window is set: hybrids with windows are not run");
    return RS_OK;
}

static rs_status refuse_others(rs_net_builder *nb)
{
    const rs_fields *fields = &nb->b->fields;
    RS_TRY(refuse_keys(nb));
    if (nb->forward->facts & RS_W_FALCON && rs_fields_true(fields, "alibi"))
        return rs_fail(nb->err, RS_E_UNSUPPORTED, fields->path, RS_NOT_RUN_HINT,
                       "alibi is true: Falcon with linear biases instead of rotary positions is "
                       "not run");
    if (nb->forward->facts & RS_W_CLIP && rs_fields_key(fields, "clip_qkv"))
        return rs_fail(nb->err, RS_E_UNSUPPORTED, fields->path, RS_NOT_RUN_HINT,
                       "clip_qkv is set: queries, keys and values are not clipped here");
    if (rs_fields_true(fields, "use_bidirectional_attention") &&
        !(nb->forward->facts & RS_W_BIDIRECTIONAL))
        return rs_fail(nb->err, RS_E_UNSUPPORTED, fields->path, RS_NOT_RUN_HINT,
                       "use_bidirectional_attention is true, which is run for Gemma 3 only");
    if (nb->forward->facts & RS_W_MLM && rs_fields_true(fields, "add_cross_attention") &&
        !rs_fields_true(fields, "is_decoder"))
        return rs_fail(nb->err, RS_E_CONFIG_SCHEMA, fields->path, RS_CONFIG_HINT,
                       "add_cross_attention is true and is_decoder is not: only decoders attend to "
                       "another model");
    if (rs_fields_true(fields, "sinusoidal_pos_embds"))
        return rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "sinusoidal_positions", NULL,
                            nb->init ? "positions are sinusoids, not drawn"
                                     : "positions are meant to be sinusoids; the table stored with "
                                       "the weights is used");
    return RS_OK;
}

static rs_status build_layers(rs_net_builder *nb)
{
    rs_network *network = nb->network;
    rs_layer *layers = NULL;
    size_t n = 0, capacity = 0;
    rs_status status = RS_OK;
    for (int32_t l = 0; l < nb->depth && status == RS_OK; l++) {
        rs_layer layer;
        int32_t stored = rs_net_stored(nb, l);
        const rs_layer *twin = NULL;
        for (size_t i = 0; i < n && stored != l && !twin; i++)
            if (layers[i].stored == stored) twin = &layers[i];
        if (twin)
            layer = *twin; /* its weights are the same ones, also when they are drawn */
        else
            status = rs_net_layer(nb, l, stored, &layer);
        if (status != RS_OK) break;
        if (RS_GROW(layers, n, capacity))
            layers[n++] = layer;
        else
            status = rs_fail_memory(nb->err, "network", sizeof layer);
    }
    if (status == RS_OK) {
        network->layers = rs_arena_alloc(network->arena, n, sizeof *layers);
        network->n_layers = (int32_t)n;
        if (network->layers)
            memcpy(network->layers, layers, n * sizeof *layers);
        else
            status = rs_fail_memory(nb->err, "network", n * sizeof *layers);
    }
    rs_free(layers);
    return status;
}

/* Layers of the checkpoint beyond those that the configuration names. */
static rs_status note_extra_layers(rs_net_builder *nb)
{
    const rs_builder *b = nb->b;
    int32_t last = -1;
    for (size_t i = 0; i < b->n_blocks; i++)
        if (b->blocks[i].slot == RS_SLOT_MAIN && b->blocks[i].layer > last)
            last = b->blocks[i].layer;
    if (last < nb->stored) return RS_OK;
    double ahead = 0;
    if (nb->gguf) RS_TRY(rs_net_real(nb, "num_nextn_predict_layers", &ahead));
    if (last < nb->stored + ahead)
        return rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "extra_layers", NULL,
                            "%d of the blocks guess tokens further on (nextn_predict_layers): the "
                            "first %d are run",
                            (int)ahead, (int)nb->stored);
    return rs_notes_say(&nb->network->notes, nb->err, RS_WARN, "extra_layers", NULL,
                        "the configuration names %d layers, the checkpoint has tensors up to layer "
                        "%d: the first %d are run",
                        (int)nb->stored, (int)last, (int)nb->stored);
}

/* Fields that the configuration's class has and no module of it reads: transformers 5.23 computes
 * as if they were not there. */
static rs_status note_unread(rs_net_builder *nb)
{
    unsigned facts = nb->forward->facts;
    double cap = 0, least = 0;
    if (nb->unread_steps)
        RS_TRY(rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "unread_setting", NULL,
                            "%s is set: steps of this family are bounded by %s alone, as "
                            "transformers computes them",
                            nb->forward->ssm->step_limit, nb->forward->ssm->step_least));
    if (nb->unstated_steps) {
        RS_TRY(rs_net_real(nb, nb->forward->ssm->step_least, &least));
        RS_TRY(rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "unstored_setting", NULL,
                            "GGUF has no key for the least step (%s): %g, as transformers has it, "
                            "is used",
                            nb->forward->ssm->step_least, least));
    }
    if (nb->unstated_place)
        RS_TRY(rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "unstored_setting", NULL,
                            "GGUF has no key that says whether a gate comes before its norm (%s): "
                            "it does, as llama.cpp computes it",
                            nb->forward->ssm->norm_first));
    RS_TRY(rs_net_real(nb, "attn_logit_softcapping", &cap));
    if (cap != 0 && !(facts & RS_W_SCORE_CAP))
        RS_TRY(
            rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "unread_setting", NULL,
                         "attn_logit_softcapping is %g: scores of this family are not capped, as "
                         "transformers computes them",
                         cap));
    return RS_OK;
}

static rs_status note_both_ways(rs_net_builder *nb)
{
    const rs_network *network = nb->network;
    if (!(nb->forward->facts & RS_W_CAUSAL) || !network->head.decoder.weight ||
        network->head.next_token)
        return RS_OK;
    return rs_notes_say(
        &nb->network->notes, nb->err, RS_INFO, "both_ways", NULL,
        "attention is bidirectional (use_bidirectional_attention, or attention.causal "
        "in GGUF): tokens see the next one, so there is no next-token loss and "
        "nothing to generate");
}

/* Of several mixers in a layer, the matrices of the first one are what tables are about. */
static rs_status note_two_mixers(rs_net_builder *nb)
{
    const rs_network *network = nb->network;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            if (rs_is_mixer(network, l, b) || !rs_layer_mixes_with(&network->layers[l], b))
                continue;
            return rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "two_mixers", NULL,
                                "layers have a %s mixer beside their attention: mixer_out is the "
                                "sum of both, table mixing has each, other tables the matrices "
                                "of the attention alone",
                                rs_branch_traits(branch)->name);
        }
    return RS_OK;
}

/* The length that rotary positions were trained for: a text may be longer, and should be told. */
static rs_status read_trained_length(rs_net_builder *nb)
{
    const rs_branch *mixer = rs_layer_mixer(&nb->network->layers[0]);
    const rs_attention_op *op = mixer ? rs_branch_attention(mixer) : NULL;
    double length = 0;
    if (!op || op->rope.kind == RS_ROPE_NONE) return RS_OK;
    RS_TRY(rs_net_real(nb, nb->forward->max_positions, &length));
    if (length >= 1 && length < 1e15) nb->network->trained_positions = (int64_t)length;
    return RS_OK;
}

/* Says which base was used: there are two forms of the field, and files that have both. */
static rs_status note_rope(rs_net_builder *nb)
{
    const rs_branch *mixer = rs_layer_mixer(&nb->network->layers[0]);
    const rs_attention_op *op = mixer ? rs_branch_attention(mixer) : NULL;
    double stated;
    if (nb->gguf || !op || op->rope.kind == RS_ROPE_NONE) return RS_OK;
    const char *form = rs_rope_form(&nb->b->fields, &stated);
    return rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "rope_form", NULL,
                        "RoPE: %s; base of the first layer %.17g", form, op->rope.theta);
}

/* ---- opening ---- */

/* A checkpoint's weights are not drawn: what its configuration says of drawing them is good for a
 * comparison, and no reason to refuse it. */
static double stated_std(rs_net_builder *nb)
{
    double std = 0.02;
    rs_error ignored = {0};
    bool found;
    rs_status status = rs_fields_real(&nb->b->fields, "initializer_range", &std, &found, &ignored);
    return status == RS_OK && std > 0 && std < 1e6 ? std : (double)NAN;
}

/* What transformers draws: normal(0, initializer_range); GPT-2's residual outputs smaller by
 * sqrt(2 layers), one factor for the two branches of each layer. */
static rs_status set_default(rs_net_builder *nb)
{
    double std = 0.02;
    nb->network->init_std = stated_std(nb);
    if (!nb->init) return RS_OK;
    RS_TRY(rs_net_real(nb, "initializer_range", &std));
    if (!(std >= 0 && std < 1e6))
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                       "initializer_range is %g; a standard deviation is needed", std);
    double residual = std;
    if (nb->forward->facts & RS_W_RESIDUAL_STD) residual = std / sqrt(2.0 * nb->depth);
    rs_init_set_default(nb->init, std, residual, nb->d_model, nb->depth);
    return RS_OK;
}

static rs_status build_parts(rs_net_builder *nb)
{
    rs_builder *b = nb->b;
    RS_TRY(read_sizes(nb));
    RS_TRY(refuse_others(nb));
    RS_TRY(set_default(nb));
    RS_TRY(rs_net_embedding(nb));
    RS_TRY(build_layers(nb));
    if (nb->forward->facts & RS_W_FINAL)
        RS_TRY(rs_net_norm(nb, RS_ROLE_NORM_FINAL, -1, nb->d_model, &nb->network->final_norm));
    RS_TRY(rs_net_head(nb));
    RS_TRY(rs_net_missing(nb));
    if (b->n_blocks) RS_TRY(note_extra_layers(nb));
    RS_TRY(read_trained_length(nb));
    RS_TRY(note_unread(nb));
    RS_TRY(note_both_ways(nb));
    RS_TRY(note_two_mixers(nb));
    RS_TRY(note_rope(nb));
    RS_TRY(rs_net_pooling(nb));
    return rs_net_account(nb);
}

static rs_status build_network(rs_net_builder *nb)
{
    rs_builder *b = nb->b;
    const char *type;
    json_t *settings = NULL;
    rs_fields_open(&b->fields, b->checkpoint);
    RS_TRY(choose_family(nb, &type));
    RS_TRY(settle_settings(nb, type, &settings));
    const rs_field_row *dialect = b->fields.dialect;
    rs_status status = rs_builder_roles(b);
    if (status == RS_OK) status = rs_family_match(b);
    b->fields.dialect = dialect;
    if (status == RS_OK) status = rs_blocks_make(b);
    if (status == RS_OK) status = build_parts(nb);
    json_decref(settings);
    return status;
}

/* model: NULL where it is not asked for. */
static rs_status open_network(rs_network **out, rs_model **model, const rs_checkpoint *checkpoint,
                              rs_init *init, rs_error *err)
{
    rs_net_builder nb = {.init = init, .err = err, .gguf = checkpoint->format == RS_FORMAT_GGUF};
    *out = NULL;
    RS_TRY(rs_builder_open(&nb.b, checkpoint, err));
    rs_status status = RS_OK;
    nb.network = rs_calloc(1, sizeof *nb.network);
    if (nb.network) nb.network->arena = rs_arena_new();
    if (!nb.network || !nb.network->arena) status = rs_fail_memory(err, "network", 0);
    if (status == RS_OK) status = build_network(&nb);
    rs_buffer_free(&nb.missing);
    if (status == RS_OK && model)
        status = rs_builder_model(model, nb.b, err);
    else
        rs_model_close(rs_builder_close(nb.b));
    if (status != RS_OK) {
        rs_network_close(nb.network);
        return status;
    }
    *out = nb.network;
    return RS_OK;
}

rs_status rs_network_open(rs_network **out, const rs_checkpoint *checkpoint, rs_error *err)
{
    return rs_network_open_with_model(out, NULL, checkpoint, err);
}

static rs_status open_saved(rs_network **out, rs_model **model, const rs_checkpoint *checkpoint,
                            rs_error *err)
{
    RS_TRY(rs_saved_open(out, checkpoint, err));
    rs_status status = model ? rs_saved_model(model, checkpoint, *out, err) : RS_OK;
    if (status == RS_OK) return RS_OK;
    rs_network_close(*out);
    *out = NULL;
    return status;
}

rs_status rs_network_open_with_model(rs_network **out, rs_model **model,
                                     const rs_checkpoint *checkpoint, rs_error *err)
{
    *out = NULL;
    if (model) *model = NULL;
    if (!checkpoint->config)
        return rs_fail(err, RS_E_CONFIG_MISSING, checkpoint->path, "put its config.json beside it",
                       "there is no config.json, and tensors alone do not tell how they are used");
    if (rs_is_saved(checkpoint->config)) return open_saved(out, model, checkpoint, err);
    RS_TRY(open_network(out, model, checkpoint, NULL, err));
    (*out)->checkpoint = checkpoint;
    return RS_OK;
}

/* A checkpoint without tensors, so that the same code reads a configuration. */
static rs_checkpoint bare_checkpoint(const json_t *config, const char *path)
{
    return (rs_checkpoint){.format = RS_FORMAT_SAFETENSORS,
                           .path = (char *)(uintptr_t)path,
                           .config = (json_t *)(uintptr_t)config,
                           .config_path = (char *)(uintptr_t)path};
}

rs_status rs_network_from_config(rs_network **out, const json_t *config, const char *path,
                                 rs_init *init, rs_error *err)
{
    rs_checkpoint bare = bare_checkpoint(config, path);
    rs_network *plan = NULL;
    *out = NULL;
    RS_TRY(rs_network_plan(&plan, config, path, init, err));
    rs_status status = rs_init_start(init, plan, err);
    rs_network_close(plan);
    RS_TRY(status);
    return open_network(out, NULL, &bare, init, err);
}

rs_status rs_network_plan(rs_network **out, const json_t *config, const char *path, rs_init *init,
                          rs_error *err)
{
    rs_checkpoint bare = bare_checkpoint(config, path);
    *out = NULL;
    rs_init_plan(init);
    return open_network(out, NULL, &bare, init, err);
}
