/* forward_check.c: whether a description fits together, and a batch the network. */
#include "engine/ops.h"

#include "network/op_check.h"

#include <stdio.h>

static rs_status check_branch(const rs_branch *branch, int64_t d, const char *where, rs_error *err)
{
    RS_TRY(rs_check_norm(&branch->before, d, where, err));
    RS_TRY(rs_check_norm(&branch->inside, d, where, err));
    RS_TRY(rs_check_norm(&branch->after, d, where, err));
    if (branch->scale == 0) return RS_OK;
    return rs_branch_traits(branch)->check(branch, d, where, err);
}

static rs_status check_images(const rs_embedding_op *op, rs_error *err)
{
    if (!op->patch.weight) return RS_OK;
    const char *where = op->patch.weight->name;
    if (!rs_counts(op->channels) || !rs_counts(op->patch_height) || !rs_counts(op->patch_width) ||
        !rs_counts(op->image_height) || !rs_counts(op->image_width) ||
        op->image_height < op->patch_height || op->image_width < op->patch_width ||
        !rs_counts(op->channels * op->patch_height) ||
        !rs_counts(op->channels * op->patch_height * op->patch_width))
        return rs_fail(err, RS_E_CONFIG_SIZE, where, NULL,
                       "images of %lld x %lld x %lld in patches of %lld x %lld",
                       (long long)op->channels, (long long)op->image_height,
                       (long long)op->image_width, (long long)op->patch_height,
                       (long long)op->patch_width);
    RS_TRY(rs_check_dense(&op->patch, op->channels * op->patch_height * op->patch_width, op->width,
                          where, err));
    int64_t rows = op->image_height / op->patch_height * (op->image_width / op->patch_width) +
                   (op->class_token != NULL);
    if (op->positions)
        RS_TRY(rs_check_vector(op->positions, (rows + op->position_offset) * op->width, err));
    return rs_check_vector(op->class_token, op->width, err);
}

/* Rows need a map: it makes states of them. */
static rs_status check_maps(const rs_embedding_op *op, rs_error *err)
{
    int64_t inner = op->map_out.weight ? op->map_out.in : op->width;
    if (op->rows && (!op->map.weight || op->tokens || op->patch.weight))
        return rs_fail(err, RS_E_INTERNAL, "embedding", "please report this",
                       "a network that is fed rows %s",
                       op->map.weight ? "and something else" : "has no map of them");
    if (op->map.weight)
        RS_TRY(rs_check_dense(&op->map, op->rows ? op->rows : op->map.in, inner, "embedding", err));
    if (!op->map_out.weight) return RS_OK;
    if (!op->map.weight)
        return rs_fail(err, RS_E_INTERNAL, "embedding", "please report this",
                       "the second of two maps stands alone");
    return rs_check_dense(&op->map_out, inner, op->width, "embedding", err);
}

static rs_status check_embedding(const rs_network *network, rs_error *err)
{
    const rs_embedding_op *op = &network->embedding;
    if (!op->tokens && !op->rows && !op->patch.weight) return RS_OK; /* fed states */
    int64_t out = op->projection.weight ? op->width : network->d_model;
    if (!rs_counts(op->width) || op->width != out)
        return rs_fail(err, RS_E_TENSOR_SHAPE, "embedding", NULL, "%lld wide, the model %lld",
                       (long long)op->width, (long long)out);
    RS_TRY(check_maps(op, err));
    int64_t source = rs_embedding_source(op);
    if (op->tokens && (op->vocabulary < 0 || op->tokens->count / source < op->vocabulary))
        return rs_fail(err, RS_E_TENSOR_SHAPE, op->tokens->name, NULL,
                       "holds %lld numbers, not %lld x %lld", (long long)op->tokens->count,
                       (long long)op->vocabulary, (long long)source);
    if (op->positions && (op->n_positions < 0 || op->position_offset < 0 ||
                          op->positions->count / op->width < op->n_positions))
        return rs_fail(err, RS_E_TENSOR_SHAPE, op->positions->name, NULL,
                       "holds %lld numbers, not %lld x %lld", (long long)op->positions->count,
                       (long long)op->n_positions, (long long)op->width);
    RS_TRY(rs_check_vector(op->types, op->width, err));
    RS_TRY(rs_check_norm(&op->norm, op->width, "embedding", err));
    if (op->projection.weight)
        RS_TRY(rs_check_dense(&op->projection, op->width, network->d_model, "embedding", err));
    return check_images(op, err);
}

static rs_status check_head(const rs_network *network, rs_error *err)
{
    const rs_head_op *op = &network->head;
    int64_t width = network->d_model;
    if (!op->decoder.weight) return RS_OK;
    if (op->transform.weight) {
        width = op->transform.out;
        RS_TRY(rs_check_dense(&op->transform, network->d_model, width, "head", err));
    }
    RS_TRY(rs_check_norm(&op->norm, width, "head", err));
    RS_TRY(rs_check_vector(op->bias, op->decoder.out, err));
    return rs_check_dense(&op->decoder, width, op->decoder.out, "head", err);
}

rs_status rs_network_check(const rs_network *network, rs_error *err)
{
    char where[64];
    if (!rs_counts(network->d_model))
        return rs_fail(err, RS_E_CONFIG_SIZE, "network", NULL, "width %lld",
                       (long long)network->d_model);
    RS_TRY(check_embedding(network, err));
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            snprintf(where, sizeof where, "layer %d", l);
            RS_TRY(check_branch(&network->layers[l].branches[b], network->d_model, where, err));
        }
    RS_TRY(rs_check_norm(&network->final_norm, network->d_model, "final norm", err));
    return check_head(network, err);
}

/* ---- batches ---- */

static rs_status check_spans(const int64_t *begin, int32_t samples, const char *where,
                             rs_error *err)
{
    if (samples < 0 || !begin || begin[0] != 0)
        return rs_fail(err, RS_E_INPUT_SHAPE, where, NULL, "%d samples", samples);
    for (int32_t s = 0; s < samples; s++)
        if (begin[s + 1] < begin[s] || begin[s + 1] > INT32_MAX)
            return rs_fail(err, RS_E_INPUT_SHAPE, where, "use smaller batches",
                           "sample %d is rows %lld to %lld", s, (long long)begin[s],
                           (long long)begin[s + 1]);
    return RS_OK;
}

/* Longest text, 0: any. */
static int64_t longest_text(const rs_network *network)
{
    const rs_embedding_op *op = &network->embedding;
    int64_t limit = network->max_positions, held = op->n_positions - op->position_offset;
    if (!op->positions || op->patch.weight) return limit;
    if (held < 0) held = 0;
    return limit > 0 && limit < held ? limit : held;
}

/* Texts or rows that the embedding reads. */
static rs_status check_texts(const rs_network *network, const rs_batch *batch, rs_error *err)
{
    int64_t limit = longest_text(network);
    bool bounded = limit > 0 || network->embedding.positions;
    char where[64];
    for (int32_t s = 0; s < batch->samples; s++) {
        int64_t n = batch->begin[s + 1] - batch->begin[s];
        snprintf(where, sizeof where, "sample %d", s);
        if (bounded && n > limit)
            return rs_fail(err, RS_E_TOO_LONG, where, "choose a smaller --seq-len",
                           "%lld tokens; the model has positions for %lld", (long long)n,
                           (long long)limit);
        for (int64_t p = 0; batch->ids && !batch->rows && !network->embedding.rows && p < n; p++) {
            int32_t id = batch->ids[batch->begin[s] + p];
            if (id >= 0 && id < network->embedding.vocabulary) continue;
            return rs_fail(err, RS_E_TOKEN_RANGE, where,
                           "are these tokens of this model's tokenizer?",
                           "id %d at position %lld; the vocabulary has %lld", id, (long long)p,
                           (long long)network->embedding.vocabulary);
        }
    }
    return RS_OK;
}

static rs_status check_image_rows(const rs_network *network, const rs_batch *batch, rs_error *err)
{
    const rs_embedding_op *op = &network->embedding;
    char where[64];
    int64_t rows = op->image_height / op->patch_height * (op->image_width / op->patch_width) +
                   (op->class_token != NULL);
    for (int32_t s = 0; s < batch->samples; s++) {
        snprintf(where, sizeof where, "image %d", s);
        if (batch->begin[s + 1] - batch->begin[s] != rows)
            return rs_fail(err, RS_E_INPUT_SHAPE, where, NULL,
                           "%lld rows; an image of this model makes %lld",
                           (long long)(batch->begin[s + 1] - batch->begin[s]), (long long)rows);
    }
    return RS_OK;
}

/* Samples without tokens run through everything. */
static rs_status check_lengths(const rs_branch *branch, int32_t layer, const rs_batch *batch,
                               rs_error *err)
{
    const rs_op_traits *traits = rs_branch_traits(branch);
    int64_t wanted = traits->tokens && branch->scale != 0 ? traits->tokens(branch) : 0;
    for (int32_t s = 0; s < batch->samples && wanted > 0; s++) {
        int64_t n = batch->begin[s + 1] - batch->begin[s];
        char where[64];
        snprintf(where, sizeof where, "sample %d", s);
        if (n != 0 && n != wanted)
            return rs_fail(err, RS_E_INPUT_SHAPE, where,
                           "a sample has one token for each node of the graph",
                           "%lld tokens; the mixing matrix of layer %d is given, %lld x %lld",
                           (long long)n, layer, (long long)wanted, (long long)wanted);
    }
    return RS_OK;
}

static rs_status check_all_lengths(const rs_network *network, const rs_batch *batch, rs_error *err)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            RS_TRY(check_lengths(&network->layers[l].branches[b], l, batch, err));
    return RS_OK;
}

rs_status rs_batch_check(const rs_network *network, const rs_batch *batch, rs_error *err)
{
    RS_TRY(check_spans(batch->begin, batch->samples, "batch", err));
    RS_TRY(check_all_lengths(network, batch, err));
    if (rs_network_reads_memory(network)) {
        if (!batch->memory)
            return rs_fail(err, RS_E_INPUT_SHAPE, "batch", NULL,
                           "the model's cross-attention has nothing to read");
        RS_TRY(check_spans(batch->memory_begin, batch->samples, "memory", err));
    }
    if (batch->states) return RS_OK;
    if (batch->images && network->embedding.patch.weight)
        return check_image_rows(network, batch, err);
    if (batch->ids && network->embedding.tokens) return check_texts(network, batch, err);
    if (batch->rows && rs_embedding_reads_rows(&network->embedding))
        return check_texts(network, batch, err);
    return rs_fail(err, RS_E_INPUT_SHAPE, "batch", NULL, "the model takes %s",
                   network->embedding.tokens         ? "token ids"
                   : network->embedding.rows         ? "rows of numbers"
                   : network->embedding.patch.weight ? "images"
                                                     : "states");
}
