/* network_ends.c: what stands before the first layer and behind the last one. */
#include "network/network_build.h"

#include "network/op_traits.h"

#include <math.h>
#include <string.h>

/* Rows of a table that a GGUF file gives no number for. */
static rs_status rows(rs_net_builder *nb, const char *field, rs_role role, int64_t *n)
{
    const rs_tensor *table =
        nb->init ? NULL : rs_top_tensor(nb->b, RS_SLOT_MAIN, role, RS_PART_WEIGHT);
    bool found;
    if (nb->gguf && table && table->rank == 2) {
        *n = table->shape[0];
        return RS_OK;
    }
    RS_TRY(rs_net_size(nb, field, -1, n, &found));
    if (found) return RS_OK;
    return rs_fail(nb->err, RS_E_CONFIG_SCHEMA, nb->b->fields.path, RS_CONFIG_HINT, "has no %s",
                   field);
}

/* The row that transformers calls padding_idx, which nn.Embedding counts from the end when it is
 * negative; -1: none, or outside of the table. */
static rs_status padding_row(rs_net_builder *nb, int64_t rows_there, int64_t *row)
{
    double pad = NAN;
    *row = -1;
    RS_TRY(rs_net_real(nb, "pad_token_id", &pad));
    if (pad < 0) pad += (double)rows_there;
    if (pad >= 0 && pad < (double)rows_there) *row = (int64_t)pad;
    return RS_OK;
}

/* A drawn embedding's padding row is 0, as transformers' _init_weights leaves it. table: NULL when
 * the checkpoint lacks it, which is told once all that is missing is known. */
static rs_status zero_padding(rs_net_builder *nb, const rs_tensor *table)
{
    int64_t row, width = table ? table->shape[1] : 0;
    float *numbers = nb->init && table ? rs_init_numbers(nb->init, table) : NULL;
    if (!numbers) return RS_OK;
    RS_TRY(padding_row(nb, table->shape[0], &row));
    for (int64_t i = 0; row >= 0 && i < width; i++)
        numbers[row * width + i] = 0;
    return RS_OK;
}

/* Where transformers makes a padding row it does not start with an id that the table lacks. */
static rs_status check_padding(rs_net_builder *nb, int64_t vocabulary)
{
    double pad = NAN;
    int64_t row;
    RS_TRY(rs_net_real(nb, "pad_token_id", &pad));
    RS_TRY(padding_row(nb, vocabulary, &row));
    if (isnan(pad) || row >= 0 || nb->gguf) return RS_OK;
    return rs_notes_say(&nb->network->notes, nb->err, RS_WARN, "padding_outside_vocabulary",
                        "correct pad_token_id in the configuration, or set it to null",
                        "pad_token_id is %g and the vocabulary has %lld ids: no row of the "
                        "embedding is taken for padding (transformers refuses to build this model)",
                        pad, (long long)vocabulary);
}

static rs_status token_table(rs_net_builder *nb, rs_embedding_op *e)
{
    bool found;
    e->width = nb->d_model;
    if (nb->forward->facts & RS_W_EMBED_PROJECTION)
        RS_TRY(rs_net_size(nb, "embedding_size", -1, &e->width, &found));
    const char *old = rs_fields_key(&nb->b->fields, "n_token") ? "n_token" : "vocab_size";
    RS_TRY(rows(nb, old, RS_ROLE_EMBED_TOKEN, &e->vocabulary));
    int64_t shape[2] = {e->vocabulary, e->width};
    RS_TRY(rs_net_tensor(nb, RS_ROLE_EMBED_TOKEN, RS_PART_WEIGHT, -1, 2, shape, &e->tokens));
    RS_TRY(padding_row(nb, e->vocabulary, &nb->network->padding_row));
    if (!(nb->forward->facts & RS_W_PAD_ROW)) return RS_OK;
    RS_TRY(check_padding(nb, e->vocabulary));
    return zero_padding(nb, e->tokens);
}

/* DistilBERT's table of sinusoids instead of a draw: angle position / 10000^(2 floor(i/2) / width),
 * sine at even i, cosine at odd ones. */
static void sinusoids(float *numbers, int64_t rows_there, int64_t width)
{
    for (int64_t p = 0; p < rows_there; p++)
        for (int64_t i = 0; i < width; i++) {
            double angle = (double)p / pow(10000, 2 * (double)(i / 2) / (double)width);
            numbers[p * width + i] = (float)(i % 2 ? cos(angle) : sin(angle));
        }
}

static rs_status drawn_positions(rs_net_builder *nb, const rs_tensor *table)
{
    float *numbers = nb->init ? rs_init_numbers(nb->init, table) : NULL;
    if (!numbers) return RS_OK;
    if (rs_fields_true(&nb->b->fields, "sinusoidal_pos_embds"))
        sinusoids(numbers, table->shape[0], table->shape[1]);
    return nb->forward->facts & RS_W_POSITIONS_PAD ? zero_padding(nb, table) : RS_OK;
}

static rs_status positions(rs_net_builder *nb, rs_embedding_op *e)
{
    const char *field = nb->forward->max_positions;
    const char *kind = rs_fields_text(&nb->b->fields, "position_embedding_type");
    if (kind && strcmp(kind, "absolute") != 0)
        return rs_fail(nb->err, RS_E_UNSUPPORTED, nb->b->fields.path, RS_NOT_RUN_HINT,
                       "position_embedding_type is \"%.60s\"; only absolute positions are run",
                       kind);
    RS_TRY(rows(nb, field, RS_ROLE_EMBED_POSITION, &e->n_positions));
    int64_t shape[2] = {e->n_positions, e->width};
    if (nb->forward->facts & RS_W_POSITIONS_PAD && !nb->gguf) {
        double pad = 0;
        RS_TRY(rs_net_real(nb, "pad_token_id", &pad));
        if (!(pad >= 0 && pad + 1 < (double)e->n_positions))
            return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                           "positions begin behind pad_token_id, and %g leaves none of %lld", pad,
                           (long long)e->n_positions);
        e->position_offset = (int64_t)pad + 1;
        nb->network->padding_id = (int64_t)pad;
    }
    nb->network->max_positions = e->n_positions - e->position_offset;
    RS_TRY(rs_net_tensor(nb, RS_ROLE_EMBED_POSITION, RS_PART_WEIGHT, -1, 2, shape, &e->positions));
    return drawn_positions(nb, e->positions);
}

static rs_status token_types(rs_net_builder *nb, rs_embedding_op *e)
{
    int64_t types;
    if (nb->gguf && !rs_net_has(nb, RS_ROLE_EMBED_TYPE, -1)) return RS_OK;
    RS_TRY(rows(nb, "type_vocab_size", RS_ROLE_EMBED_TYPE, &types));
    int64_t shape[2] = {types, e->width};
    return rs_net_tensor(nb, RS_ROLE_EMBED_TYPE, RS_PART_WEIGHT, -1, 2, shape, &e->types);
}

/* A number, or [height, width]. */
static rs_status two_sizes(rs_net_builder *nb, const char *field, int64_t *height, int64_t *width)
{
    bool found;
    RS_TRY(rs_net_size(nb, field, 0, height, &found));
    if (!found)
        return rs_fail(nb->err, RS_E_CONFIG_SCHEMA, nb->b->fields.path, RS_CONFIG_HINT, "has no %s",
                       field);
    return rs_net_size(nb, field, 1, width, &found);
}

static rs_status images(rs_net_builder *nb, rs_embedding_op *e)
{
    bool found;
    e->width = nb->d_model;
    RS_TRY(two_sizes(nb, "image_size", &e->image_height, &e->image_width));
    RS_TRY(two_sizes(nb, "patch_size", &e->patch_height, &e->patch_width));
    RS_TRY(rs_net_size(nb, "num_channels", -1, &e->channels, &found));
    enum { MOST = 1 << 20 }; /* keeps products of three sizes inside int64 */
    if (e->image_height > MOST || e->image_width > MOST || e->channels > MOST ||
        e->patch_height > e->image_height || e->patch_width > e->image_width)
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                       "images of %lld x %lld with patches of %lld x %lld and %lld channels "
                       "cannot be cut",
                       (long long)e->image_height, (long long)e->image_width,
                       (long long)e->patch_height, (long long)e->patch_width,
                       (long long)e->channels);
    int64_t patches = (e->image_height / e->patch_height) * (e->image_width / e->patch_width);
    int64_t kernel[4] = {e->width, e->channels, e->patch_height, e->patch_width};
    int64_t class_shape[3] = {1, 1, e->width}, table[3] = {1, patches + 1, e->width};
    int64_t in = e->channels * e->patch_height * e->patch_width;
    e->n_positions = patches + 1;
    nb->network->max_positions = e->n_positions;
    e->patch = (rs_dense){.rows = e->width,
                          .cols = in,
                          .out_is_row = true,
                          .in = in,
                          .out = e->width,
                          .run = e->width,
                          .stride = e->width};
    RS_TRY(rs_net_tensor(nb, RS_ROLE_EMBED_PATCH, RS_PART_WEIGHT, -1, 4, kernel, &e->patch.weight));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_EMBED_PATCH, RS_PART_BIAS, -1, 1, &e->width, &e->patch.bias));
    RS_TRY(rs_net_tensor(nb, RS_ROLE_EMBED_CLASS, RS_PART_WEIGHT, -1, 3, class_shape,
                         &e->class_token));
    return rs_net_tensor(nb, RS_ROLE_EMBED_POSITION, RS_PART_WEIGHT, -1, 3, table, &e->positions);
}

rs_status rs_net_embedding(rs_net_builder *nb)
{
    rs_embedding_op *e = &nb->network->embedding;
    unsigned facts = nb->forward->facts;
    *e = (rs_embedding_op){.scale = 1};
    if (facts & RS_W_IMAGES) return images(nb, e);
    RS_TRY(token_table(nb, e));
    if (facts & RS_W_EMBED_SQRT) e->scale = sqrt((double)nb->d_model);
    if (nb->forward->embedding_multiplier)
        RS_TRY(rs_net_real(nb, nb->forward->embedding_multiplier, &e->scale));
    e->scales_rows = facts & RS_W_GRANITE;
    if (facts & RS_W_POSITIONS) RS_TRY(positions(nb, e));
    if (facts & RS_W_TYPES) RS_TRY(token_types(nb, e));
    if (facts & RS_W_EMBED_NORM)
        RS_TRY(rs_net_norm(nb, RS_ROLE_NORM_EMBED, -1, e->width, &e->norm));
    if (!(facts & RS_W_EMBED_PROJECTION)) return RS_OK;
    return rs_net_dense(nb, RS_ROLE_EMBED_PROJECTION, -1, e->width, nb->d_model, RS_BIAS_YES,
                        &e->projection);
}

/* ---- the head ---- */

/* Logits by the embedding's own rows. */
static void tie(rs_net_builder *nb, rs_dense *decoder)
{
    const rs_embedding_op *e = &nb->network->embedding;
    *decoder = (rs_dense){.weight = e->tokens,
                          .rows = e->vocabulary,
                          .cols = e->width,
                          .out_is_row = true,
                          .in = e->width,
                          .out = e->vocabulary,
                          .run = e->vocabulary,
                          .stride = e->vocabulary};
}

/* Whether two stored tensors hold the same numbers. */
static rs_status same_numbers(rs_net_builder *nb, const rs_tensor *a, const rs_tensor *b,
                              bool *same)
{
    enum { CHUNK = 512 };
    double left[CHUNK], right[CHUNK];
    *same = a->count == b->count;
    if (*same && a->dtype == b->dtype && a->bytes == b->bytes) {
        *same = memcmp(a->data, b->data, a->bytes) == 0;
    } else {
        for (int64_t i = 0; *same && i < a->count; i += CHUNK) {
            int64_t n = a->count - i < CHUNK ? a->count - i : CHUNK;
            rs_tensor_decode_f64(left, a, i, n);
            rs_tensor_decode_f64(right, b, i, n);
            *same = memcmp(left, right, (size_t)n * sizeof *left) == 0;
        }
    }
    RS_TRY(rs_tensor_check(nb->b->checkpoint, a, nb->err));
    return rs_tensor_check(nb->b->checkpoint, b, nb->err);
}

/* Where the text model's fields are a section, the output layer belongs to the whole: what the
 * whole says of tying counts before what the section says, which counts for an output layer that is
 * not stored. */
static bool says_tied(const rs_net_builder *nb, bool stored)
{
    const rs_fields *fields = &nb->b->fields;
    const json_t *top = json_object_get(fields->root, "tie_word_embeddings");
    const char *old = nb->forward->old_tied;
    if (old && json_is_boolean(rs_fields_key(fields, old))) return rs_net_flag(nb, old);
    if (fields->root == fields->object || !json_is_boolean(top) || (json_is_false(top) && !stored))
        return rs_net_flag(nb, "tie_word_embeddings");
    return json_is_true(top);
}

/* A configuration that ties the output layer to the embedding, over a checkpoint that stores both:
 * transformers 5 ties them only if they are equal, and else believes what is stored. */
static rs_status tied_or_stored(rs_net_builder *nb, bool stored, rs_dense *decoder)
{
    const rs_embedding_op *e = &nb->network->embedding;
    rs_dense own = {0};
    bool same = true;
    tie(nb, decoder);
    if (!stored || nb->init || nb->gguf || !e->tokens) return RS_OK;
    RS_TRY(rs_net_dense(nb, RS_ROLE_LM_HEAD, -1, e->width, e->vocabulary, RS_BIAS_NO, &own));
    if (!own.weight) return RS_OK;
    if (own.weight != e->tokens) RS_TRY(same_numbers(nb, own.weight, e->tokens, &same));
    if (same && !own.scale) return RS_OK;
    *decoder = own;
    return rs_notes_say(&nb->network->notes, nb->err, RS_WARN, "untied_head",
                        "set tie_word_embeddings to false if the stored output layer is meant",
                        "tie_word_embeddings is true, but %.200s and %.200s are both stored and "
                        "differ: logits are by %.200s, as transformers computes them",
                        e->tokens->name, own.weight->name, own.weight->name);
}

/* The class of a model of these layers that puts tokens or texts into classes (NULL: it is none). Its
 * configuration ties the language model's output layer, which it does not have, all the same. */
static const char *classifier_of(const rs_net_builder *nb)
{
    static const char *const kinds[] = {"ForSequenceClassification", "ForTokenClassification",
                                        "ForQuestionAnswering", "ForMultipleChoice"};
    const char *name =
        json_string_value(json_array_get(json_object_get(nb->b->fields.root, "architectures"), 0));
    for (size_t i = 0; name && i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(name, kinds[i])) return name;
    return NULL;
}

static rs_status decoder(rs_net_builder *nb)
{
    rs_head_op *head = &nb->network->head;
    const rs_embedding_op *e = &nb->network->embedding;
    bool stored = rs_net_has(nb, RS_ROLE_LM_HEAD, -1);
    bool tied = nb->gguf ? !stored : says_tied(nb, stored);
    const char *classifier = stored ? NULL : classifier_of(nb);
    if (classifier)
        return rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "no_head", NULL,
                            "the checkpoint is a %.100s, whose own output layer is not run, and "
                            "has none for tokens: no logits",
                            classifier);
    if (!tied && !stored)
        return rs_notes_say(&nb->network->notes, nb->err, RS_INFO, "no_head", NULL,
                            "the checkpoint has no output layer: no logits");
    if (tied)
        RS_TRY(tied_or_stored(nb, stored, &head->decoder));
    else
        RS_TRY(rs_net_dense(nb, RS_ROLE_LM_HEAD, -1, e->width, e->vocabulary, RS_BIAS_NO,
                            &head->decoder));
    if (nb->init) return RS_OK;
    /* Tied, both biases are one; untied, both are stored and the output layer's own is added. */
    const rs_tensor *apart = rs_top_tensor(nb->b, RS_SLOT_MAIN, RS_ROLE_LM_HEAD, RS_PART_BIAS);
    if (!apart) apart = rs_top_tensor(nb->b, RS_SLOT_MAIN, RS_ROLE_HEAD_BIAS, RS_PART_BIAS);
    if (!apart) apart = rs_top_tensor(nb->b, RS_SLOT_MAIN, RS_ROLE_HEAD_BIAS, RS_PART_WEIGHT);
    head->bias = apart;
    return rs_vector_shape(nb->b, apart, e->vocabulary);
}

/* A token that sees the next one does not predict it. */
static bool sees_behind_only(const rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
        if (mixer && !rs_branch_traits(mixer)->causal(mixer)) return false;
    }
    return network->n_layers > 0;
}

/* The head of a masked language model is there or not: checkpoints are saved with and without. */
static rs_status masked_head(rs_net_builder *nb)
{
    rs_head_op *head = &nb->network->head;
    int64_t width = nb->network->embedding.width;
    if (nb->init || !rs_net_has(nb, RS_ROLE_HEAD_TRANSFORM, -1)) return RS_OK;
    RS_TRY(rs_net_dense(nb, RS_ROLE_HEAD_TRANSFORM, -1, nb->d_model, width, RS_BIAS_YES,
                        &head->transform));
    head->activation = nb->forward->gelu_head ? RS_ACT_GELU : nb->activation;
    RS_TRY(rs_net_norm(nb, RS_ROLE_NORM_HEAD, -1, width, &head->norm));
    head->next_token = sees_behind_only(nb->network);
    return decoder(nb);
}

rs_status rs_net_head(rs_net_builder *nb)
{
    rs_head_op *head = &nb->network->head;
    unsigned facts = nb->forward->facts;
    *head = (rs_head_op){.scale = 1};
    if (facts & RS_W_MLM) return masked_head(nb);
    if (facts & RS_W_RELATIVE) {
        bool there =
            !nb->init && (rs_net_has(nb, RS_ROLE_LM_HEAD, -1) ||
                          rs_top_tensor(nb->b, RS_SLOT_MAIN, RS_ROLE_LM_HEAD, RS_PART_BIAS));
        return there ? decoder(nb) : RS_OK;
    }
    if (!(facts & RS_W_CAUSAL)) return RS_OK;
    double scaling = 1;
    RS_TRY(rs_net_real(nb, "final_logit_softcapping", &head->softcap));
    if (facts & RS_W_GRANITE) RS_TRY(rs_net_real(nb, "logits_scaling", &scaling));
    if (scaling == 0 || head->softcap < 0)
        return rs_fail(nb->err, RS_E_CONFIG_SIZE, nb->b->fields.path, RS_CONFIG_HINT,
                       "logits cannot be divided by %g and capped at %g", scaling, head->softcap);
    head->scale = 1 / scaling;
    if (nb->forward->logits_multiplier)
        RS_TRY(rs_net_real(nb, nb->forward->logits_multiplier, &head->scale));
    RS_TRY(decoder(nb));
    head->next_token = head->decoder.weight != NULL && sees_behind_only(nb->network);
    return RS_OK;
}
