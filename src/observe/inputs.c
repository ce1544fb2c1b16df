/* inputs.c: opening inputs of any kind, checking them against the network, cutting batches. */
#include "observe/inputs_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <string.h>

void rs_inputs_close(rs_inputs *inputs)
{
    if (!inputs) return;
    rs_free(inputs->texts);
    rs_free(inputs->begin);
    rs_free(inputs->ids);
    rs_free(inputs->images);
    rs_free(inputs->states);
    rs_free(inputs->rows);
    rs_free(inputs->memory);
    rs_free(inputs->memory_begin);
    rs_notes_free(&inputs->notes);
    rs_free(inputs);
}

/* ---- pieces that the kinds share ---- */

rs_status rs_input_rows(rs_inputs *in, int64_t samples, int64_t n, const char *where, rs_error *err)
{
    size_t rows;
    in->samples = samples;
    in->begin = rs_calloc((size_t)samples + 1, sizeof *in->begin);
    if (!in->begin || !rs_size_mul((size_t)samples, (size_t)n, &rows) || rows > INT64_MAX)
        return rs_fail_memory(err, where, (size_t)samples * sizeof *in->begin);
    for (int64_t s = 0; s <= samples; s++)
        in->begin[s] = s * n;
    return RS_OK;
}

rs_status rs_input_id(int32_t *out, int64_t id, int64_t sample, int64_t position,
                      const rs_network *network, const char *where, rs_error *err)
{
    if (id < 0 || id >= network->embedding.vocabulary)
        return rs_fail(err, RS_E_TOKEN_RANGE, where,
                       "use the tokenizer that belongs to the model; ids count from 0",
                       "sample %lld, position %lld: id %lld is outside the vocabulary of %lld",
                       (long long)sample, (long long)position, (long long)id,
                       (long long)network->embedding.vocabulary);
    *out = (int32_t)id;
    return RS_OK;
}

int64_t rs_input_wanted_samples(const rs_input_source *source, int64_t there)
{
    return source->samples > 0 && source->samples < there ? source->samples : there;
}

rs_status rs_input_length(int64_t *n, const rs_input_source *source, const rs_network *network,
                          const char *where, rs_error *err)
{
    int64_t most = network->max_positions;
    *n = source->seq_len;
    if (*n == 0) *n = most > 0 && most < RS_DEFAULT_SEQ_LEN ? most : RS_DEFAULT_SEQ_LEN;
    if (most > 0 && *n > most)
        return rs_fail(err, RS_E_TOO_LONG, where, "lower --seq-len",
                       "sequences of %lld tokens are longer than the model's %lld positions",
                       (long long)*n, (long long)most);
    return RS_OK;
}

static bool takes_tokens(const rs_network *network)
{
    return network->embedding.tokens != NULL;
}

static bool takes_images(const rs_network *network)
{
    return network->embedding.patch.weight != NULL;
}

static rs_status need_tokens(const rs_network *network, const char *where, rs_error *err)
{
    if (takes_tokens(network)) return RS_OK;
    return rs_fail(err, RS_E_INPUT_FORMAT, where,
                   takes_images(network) ? "give --images FILE.npy or --random SAMPLES"
                                         : "give --states FILE.npy or --random SAMPLES",
                   "this model (%s) has no vocabulary: it does not read tokens", network->family);
}

/* ---- images ---- */

static int64_t rows_of_image(const rs_embedding_op *e)
{
    return (e->image_height / e->patch_height) * (e->image_width / e->patch_width) +
           (e->class_token != NULL);
}

static int64_t image_size(const rs_embedding_op *e)
{
    return e->channels * e->image_height * e->image_width;
}

static rs_status allocate_images(rs_inputs *in, const rs_network *network, int64_t samples,
                                 const char *where, rs_error *err)
{
    in->image_size = image_size(&network->embedding);
    RS_TRY(rs_input_rows(in, samples, rows_of_image(&network->embedding), where, err));
    size_t count;
    in->images = rs_size_mul((size_t)samples, (size_t)in->image_size, &count)
                     ? rs_malloc(count, sizeof *in->images)
                     : NULL;
    return in->images ? RS_OK : rs_fail_memory(err, where, count * sizeof *in->images);
}

static rs_status take_images(rs_inputs *in, const rs_npy *array, const char *path,
                             const rs_input_source *source, const rs_network *network,
                             rs_error *err)
{
    const rs_embedding_op *e = &network->embedding;
    if (array->type != RS_NPY_F32 || array->rank != 4)
        return rs_fail(err, RS_E_INPUT_FORMAT, path,
                       "save float32 [samples, channels, height, width], normalised as the model "
                       "wants it",
                       "images must be float32 of 4 dimensions; this is %s of %u",
                       rs_npy_type_name(array->type), array->rank);
    if (array->shape[1] != e->channels || array->shape[2] != e->image_height ||
        array->shape[3] != e->image_width)
        return rs_fail(err, RS_E_INPUT_SHAPE, path, "resize the images first",
                       "sample 0: images of %lld x %lld x %lld, where the model takes %lld x %lld "
                       "x %lld (channels, height, width)",
                       (long long)array->shape[1], (long long)array->shape[2],
                       (long long)array->shape[3], (long long)e->channels,
                       (long long)e->image_height, (long long)e->image_width);
    if (array->shape[0] == 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, path, NULL, "there is no image in it");
    int64_t samples = rs_input_wanted_samples(source, array->shape[0]);
    RS_TRY(allocate_images(in, network, samples, path, err));
    memcpy(in->images, array->data, (size_t)(samples * in->image_size) * sizeof *in->images);
    return RS_OK;
}

rs_status rs_input_npy(rs_npy *array, rs_mapping **file, const char *path, rs_error *err)
{
    RS_TRY(rs_mapping_open(file, path, err));
    rs_status status = rs_npy_parse(array, path, (*file)->data, (*file)->size, err);
    if (status != RS_OK) {
        rs_mapping_close(*file);
        *file = NULL;
    }
    return status;
}

static rs_status open_images(rs_inputs *in, const rs_input_source *source,
                             const rs_network *network, rs_error *err)
{
    if (!takes_images(network))
        return rs_fail(err, RS_E_INPUT_FORMAT, "--images", "give --text or --tokens",
                       "this model (%s) reads no images", network->family);
    rs_npy array;
    rs_mapping *file;
    RS_TRY(rs_input_npy(&array, &file, source->images, err));
    rs_status status = take_images(in, &array, source->images, source, network, err);
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, err);
    rs_mapping_close(file);
    return status;
}

/* ---- at random ---- */

static rs_status random_ids(rs_inputs *in, int64_t n, const rs_network *network, uint64_t seed,
                            rs_error *err)
{
    size_t rows = (size_t)in->begin[in->samples];
    in->ids = rs_malloc(rows, sizeof *in->ids);
    if (!in->ids) return rs_fail_memory(err, "--random", rows * sizeof *in->ids);
    return rs_input_draw_ids(in->ids, in->samples, n, network->embedding.vocabulary,
                             network->padding_row, seed, err);
}

/* What ARCH.json's "input" says: states, or rows for a network that is fed rows. */
static rs_status random_states(rs_inputs *in, int64_t n, const rs_input_source *source,
                               const rs_network *network, uint64_t seed, rs_error *err)
{
    int64_t width = network->embedding.rows ? network->embedding.rows : network->d_model;
    if (!source->arch)
        return rs_fail(err, RS_E_INPUT_FORMAT, "--random", NULL,
                       "this model (%s) has no vocabulary and says no law of input",
                       network->family);
    size_t count;
    rs_arch law = *source->arch;
    law.seq_len = n;
    double *drawn = rs_size_mul((size_t)in->begin[in->samples], (size_t)width, &count)
                        ? rs_malloc(count, sizeof *drawn)
                        : NULL;
    if (!drawn) return rs_fail_memory(err, "--random", count * sizeof *drawn);
    if (network->embedding.rows)
        in->rows = drawn, in->row_size = width;
    else
        in->states = drawn;
    for (int64_t s = 0; s < in->samples; s++)
        RS_TRY(rs_arch_input(drawn + s * n * width, &law, seed, s, err));
    return RS_OK;
}

static rs_status random_images(rs_inputs *in, const rs_input_source *source,
                               const rs_network *network, uint64_t seed, rs_error *err)
{
    RS_TRY(allocate_images(in, network, source->random, "--random", err));
    rs_input_draw_pixels(in->images, in->samples, in->image_size, seed);
    return RS_OK;
}

static rs_status open_random(rs_inputs *in, const rs_input_source *source,
                             const rs_network *network, uint64_t seed, rs_error *err)
{
    if (takes_images(network)) return random_images(in, source, network, seed, err);
    int64_t n;
    RS_TRY(rs_input_length(&n, source, network, "--random", err));
    RS_TRY(rs_input_rows(in, source->random, n, "--random", err));
    if (takes_tokens(network)) return random_ids(in, n, network, seed, err);
    return random_states(in, n, source, network, seed, err);
}

/* ---- what cross-attention reads ---- */

static rs_status take_memory(rs_inputs *in, const rs_npy *array, const char *path, int64_t d,
                             rs_error *err)
{
    bool real = !rs_npy_is_whole(array);
    if (!real || array->rank != 3)
        return rs_fail(err, RS_E_INPUT_FORMAT, path, "save float32 or float64 [samples, m, d]",
                       "encoder states must be real numbers in 3 dimensions; this is %s of %u",
                       rs_npy_type_name(array->type), array->rank);
    if (array->shape[0] < in->samples || array->shape[1] == 0 || array->shape[2] != d)
        return rs_fail(err, RS_E_INPUT_SHAPE, path, NULL,
                       "encoder states of %lld x %lld x %lld do not serve %lld samples of width "
                       "%lld",
                       (long long)array->shape[0], (long long)array->shape[1],
                       (long long)array->shape[2], (long long)in->samples, (long long)d);
    size_t count = (size_t)(in->samples * array->shape[1] * d);
    in->memory = rs_malloc(count, sizeof *in->memory);
    in->memory_begin = rs_calloc((size_t)in->samples + 1, sizeof *in->memory_begin);
    if (!in->memory || !in->memory_begin)
        return rs_fail_memory(err, path, count * sizeof *in->memory);
    rs_npy_reals(in->memory, array, 0, (int64_t)count);
    for (int64_t s = 0; s <= in->samples; s++)
        in->memory_begin[s] = s * array->shape[1];
    return RS_OK;
}

static rs_status open_memory(rs_inputs *in, const rs_input_source *source,
                             const rs_network *network, rs_error *err)
{
    const char *path = source->encoder_states;
    if (!rs_network_reads_memory(network))
        return path ? rs_fail(err, RS_E_BAD_OPTION, "--encoder-states", "leave it out",
                              "this model (%s) has no cross-attention", network->family)
                    : RS_OK;
    if (!path)
        return rs_fail(err, RS_E_INPUT_FORMAT, "--encoder-states",
                       "give --encoder-states FILE.npy, float32 [samples, m, d]",
                       "this model (%s) has cross-attention, which needs states to read",
                       network->family);
    rs_npy array;
    rs_mapping *file;
    RS_TRY(rs_input_npy(&array, &file, path, err));
    rs_status status = take_memory(in, &array, path, network->d_model, err);
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, err);
    rs_mapping_close(file);
    if (status != RS_OK) return status;
    if (!rs_notes_add(&in->notes, RS_INFO, "cross_attention", NULL,
                      "this model (%s) has cross-attention: the states of its tokens are measured "
                      "with it, but its attention matrices are not square and table attention "
                      "leaves them out",
                      network->family))
        return rs_fail_memory(err, path, 0);
    return RS_OK;
}

/* ---- all kinds ---- */

static void measure_lengths(rs_inputs *in)
{
    for (int64_t s = 0; s < in->samples; s++) {
        int64_t n = in->begin[s + 1] - in->begin[s];
        in->empty += n == 0;
        if (n > in->longest) in->longest = n;
        if (n > 0 && (in->shortest == 0 || n < in->shortest)) in->shortest = n;
    }
}

static rs_status check_lengths(rs_inputs *in, const rs_network *network, const char *where,
                               rs_error *err)
{
    bool placed = network->max_positions > 0 && (in->ids || in->rows);
    for (int64_t s = 0; s < in->samples && placed; s++) {
        int64_t n = in->begin[s + 1] - in->begin[s];
        if (n > network->max_positions)
            return rs_fail(err, RS_E_TOO_LONG, where, "cut the sequences",
                           "sample %lld: %lld tokens are more than the model's %lld positions",
                           (long long)s, (long long)n, (long long)network->max_positions);
    }
    if (in->empty == in->samples)
        return rs_fail(err, RS_E_INPUT_FORMAT, where, "give at least one token",
                       "all %lld samples are without tokens", (long long)in->samples);
    if (in->empty && !rs_notes_add(&in->notes, RS_WARN, "empty_sample",
                                   "leave such rows out if they are not meant",
                                   "%lld of %lld samples have no token: they are left out of all "
                                   "means",
                                   (long long)in->empty, (long long)in->samples))
        return rs_fail_memory(err, "notes", 0);
    return RS_OK;
}

rs_status rs_input_source_check(const rs_input_source *source, rs_error *err)
{
    int asked = (source->n_texts > 0) + !!source->tokens + !!source->ids + !!source->images +
                !!source->states + (source->random > 0);
    if (source->embeddings && !source->states)
        return rs_fail(err, RS_E_USAGE, "--states-as", "leave it out, or give --states FILE.npy",
                       "there are no states that could stand for embeddings");
    if (asked == 1) return RS_OK;
    return rs_fail(err, RS_E_USAGE, "input",
                   "give one of --text FILE, --tokens FILE, --images FILE, --states FILE, "
                   "--random SAMPLES",
                   asked ? "one kind of input is enough" : "there is nothing to feed the model");
}

static rs_status open_kind(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                           const rs_tokenizer *tokenizer, uint64_t seed, rs_error *err)
{
    RS_TRY(rs_input_source_check(source, err));
    if (source->images) return in->kind = "images", open_images(in, source, network, err);
    if (source->states) {
        in->kind = source->embeddings ? "embeddings" : "states";
        return rs_input_states(in, source, network, err);
    }
    if (source->random > 0) return in->kind = "random", open_random(in, source, network, seed, err);
    in->kind = source->n_texts ? "text" : "tokens";
    RS_TRY(need_tokens(network, source->n_texts ? "--text" : "--tokens", err));
    if (source->n_texts) return rs_input_texts(in, source, network, tokenizer, err);
    if (source->ids) return rs_input_ids(in, source, network, err);
    return rs_input_tokens(in, source, network, err);
}

rs_status rs_inputs_open(rs_inputs **out, const rs_input_source *source, const rs_network *network,
                         const rs_tokenizer *tokenizer, uint64_t seed, rs_error *err)
{
    *out = NULL;
    rs_inputs *in = rs_calloc(1, sizeof *in);
    if (!in) return rs_fail_memory(err, "inputs", sizeof *in);
    in->d_model = network->d_model;
    const char *where = source->n_texts  ? source->texts[0]
                        : source->tokens ? source->tokens
                        : source->ids    ? "ids"
                        : source->images ? source->images
                        : source->states ? source->states
                                         : "--random";
    rs_status status = open_kind(in, source, network, tokenizer, seed, err);
    if (status == RS_OK) measure_lengths(in);
    if (status == RS_OK) status = check_lengths(in, network, where, err);
    if (status == RS_OK) status = open_memory(in, source, network, err);
    if (status == RS_OK)
        *out = in;
    else
        rs_inputs_close(in);
    return status;
}

int64_t rs_inputs_prompts(const rs_inputs *inputs)
{
    return inputs->n_texts ? (int64_t)inputs->n_texts : inputs->samples;
}

int64_t rs_inputs_prompt(const rs_inputs *inputs, int64_t index)
{
    return inputs->n_texts ? inputs->texts[index].first : index;
}

/* ---- batches ---- */

rs_status rs_input_batch_open(rs_input_batch *batch, int64_t capacity, rs_error *err)
{
    *batch = (rs_input_batch){0};
    batch->begin = rs_calloc((size_t)capacity + 1, sizeof *batch->begin);
    batch->memory_begin = rs_calloc((size_t)capacity + 1, sizeof *batch->memory_begin);
    if (batch->begin && batch->memory_begin) return RS_OK;
    rs_input_batch_close(batch);
    return rs_fail_memory(err, "batch", (size_t)capacity * sizeof *batch->begin);
}

void rs_input_batch_set(rs_input_batch *b, const rs_inputs *in, int64_t first, int64_t samples)
{
    int64_t row = in->begin[first];
    b->first = first;
    b->batch = (rs_batch){.samples = (int32_t)samples, .begin = b->begin};
    for (int64_t s = 0; s <= samples; s++)
        b->begin[s] = in->begin[first + s] - row;
    if (in->ids) b->batch.ids = in->ids + row;
    if (in->images) b->batch.images = in->images + first * in->image_size;
    if (in->states) b->batch.states = in->states + row * in->d_model;
    if (in->rows) b->batch.rows = in->rows + row * in->row_size;
    if (!in->memory) return;
    for (int64_t s = 0; s <= samples; s++)
        b->memory_begin[s] = in->memory_begin[first + s] - in->memory_begin[first];
    b->batch.memory = in->memory + in->memory_begin[first] * in->d_model;
    b->batch.memory_begin = b->memory_begin;
}

void rs_input_batch_close(rs_input_batch *batch)
{
    rs_free(batch->begin);
    rs_free(batch->memory_begin);
    *batch = (rs_input_batch){0};
}
