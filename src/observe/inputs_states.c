/* inputs_states.c: real-valued sequences, such as features of speech or a time series, from a file:
 * what enters the first layer, or stands in the place of embeddings. */
#include "observe/inputs_parts.h"

#include "base/budget.h"
#include "base/memory.h"
#include "checkpoint/json_text.h"

#include <math.h>
#include <stdio.h>

static const char finite_hint[] = "states are finite numbers: fill gaps, or leave such tokens out";

/* ---- widths ---- */

/* The numbers of a row. */
static rs_status find_width(int64_t *width, const rs_input_source *source,
                            const rs_network *network, rs_error *err)
{
    const rs_embedding_op *op = &network->embedding;
    *width = source->embeddings ? rs_embedding_source(op) : network->d_model;
    if (!source->embeddings || rs_embedding_reads_rows(op)) return RS_OK;
    return rs_fail(err, RS_E_INPUT_FORMAT, "--states-as",
                   "leave it out: the rows enter the first block then",
                   "this model (%s) has no embeddings that rows could stand for", network->family);
}

/* Says both widths, and which way the rows would fit. */
static rs_status bad_width(const rs_input_source *source, const rs_network *network,
                           const char *which, int64_t there, int64_t width, rs_error *err)
{
    const rs_embedding_op *op = &network->embedding;
    bool reads = rs_embedding_reads_rows(op);
    int64_t other = source->embeddings ? network->d_model : reads ? rs_embedding_source(op) : 0;
    const char *hint = "project or cut the features to the model's width first";
    if (there == other)
        hint = source->embeddings ? "leave --states-as out, if they are states of the first block"
                                  : "give --states-as embeddings, if they stand for embeddings";
    return rs_fail(err, RS_E_INPUT_SHAPE, source->states, hint, "%s of %lld numbers, where %s %lld",
                   which, (long long)there,
                   source->embeddings ? "the model's embeddings have"
                                      : "the model's first block takes",
                   (long long)width);
}

/* ---- room ---- */

/* Room for the rows that in->begin counts; where what they take is more than there is, it is refused
 * before it is asked for. */
static rs_status make_room(double **numbers, rs_inputs *in, int64_t width,
                           const rs_input_source *source, rs_error *err)
{
    rs_budget budget = {0};
    size_t count, rows = (size_t)in->begin[in->samples];
    rs_budget_add(&budget, "states", (double)rows * (double)width * (double)sizeof **numbers);
    RS_TRY(rs_budget_check(&budget, source->memory, source->states,
                           "take fewer samples (--samples N), or say how much it may take: "
                           "--memory SIZE",
                           err));
    *numbers =
        rs_size_mul(rows, (size_t)width, &count) ? rs_malloc(count + 1, sizeof **numbers) : NULL;
    if (!*numbers) return rs_fail_memory(err, source->states, rows * sizeof **numbers);
    if (source->embeddings)
        in->rows = *numbers, in->row_size = width;
    else
        in->states = *numbers;
    return RS_OK;
}

static rs_status not_finite(const char *path, int64_t sample, int64_t token, int64_t feature,
                            const char *what, rs_error *err)
{
    return rs_fail(err, RS_E_INPUT_FORMAT, path, finite_hint,
                   "sample %lld, token %lld, feature %lld is %s", (long long)sample,
                   (long long)token, (long long)feature, what);
}

/* ---- .npy ---- */

static rs_status check_npy(const rs_npy *array, const rs_input_source *source,
                           const rs_network *network, int64_t width, rs_error *err)
{
    if (rs_npy_is_whole(array) || array->rank != 3)
        return rs_fail(err, RS_E_INPUT_FORMAT, source->states,
                       array->rank == 2 ? "one sequence is array[None].astype('float32')"
                                        : "save float32 or float64 [samples, n, d]",
                       "states must be real numbers in 3 dimensions; this is %s of %u",
                       rs_npy_type_name(array->type), array->rank);
    if (array->shape[2] != width)
        return bad_width(source, network, "rows", array->shape[2], width, err);
    if (array->count == 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, source->states, "give at least one token",
                       "there is no token in %lld samples of %lld tokens",
                       (long long)array->shape[0], (long long)array->shape[1]);
    return RS_OK;
}

static rs_status take_npy(rs_inputs *in, const rs_npy *array, const rs_input_source *source,
                          const rs_network *network, int64_t width, rs_error *err)
{
    double *numbers;
    RS_TRY(check_npy(array, source, network, width, err));
    int64_t n = array->shape[1], samples = rs_input_wanted_samples(source, array->shape[0]);
    RS_TRY(rs_input_rows(in, samples, n, source->states, err));
    RS_TRY(make_room(&numbers, in, width, source, err));
    rs_npy_reals(numbers, array, 0, samples * n * width);
    for (int64_t i = 0; i < samples * n * width; i++)
        if (!isfinite(numbers[i]))
            return not_finite(source->states, i / width / n, i / width % n, i % width,
                              isnan(numbers[i]) ? "NaN"
                              : numbers[i] > 0  ? "Infinity"
                                                : "-Infinity",
                              err);
    return RS_OK;
}

/* ---- JSON ---- */

static const char form_hint[] =
    "write [[[x, ...], [x, ...], ...], ...]: samples of rows of numbers";

/* One number; Python's NaN and infinities come as objects that name them (json_text.h). */
static rs_status take_number(double *out, const json_t *value, const char *path, int64_t sample,
                             int64_t token, int64_t feature, rs_error *err)
{
    const char *name = json_string_value(json_object_get(value, "__float__"));
    *out = json_number_value(value);
    if (json_is_number(value) && isfinite(*out)) return RS_OK;
    return not_finite(path, sample, token, feature, name ? name : "no number", err);
}

static rs_status take_row(double *out, const json_t *row, int64_t sample, int64_t token,
                          int64_t width, const rs_input_source *source, const rs_network *network,
                          rs_error *err)
{
    char which[80];
    if (!json_is_array(row))
        return rs_fail(err, RS_E_INPUT_FORMAT, source->states, form_hint,
                       "sample %lld, token %lld is not a list of numbers", (long long)sample,
                       (long long)token);
    if (json_array_size(row) != (size_t)width) {
        snprintf(which, sizeof which, "sample %lld, token %lld: a row", (long long)sample,
                 (long long)token);
        return bad_width(source, network, which, (int64_t)json_array_size(row), width, err);
    }
    for (int64_t c = 0; c < width; c++)
        RS_TRY(take_number(&out[c], json_array_get(row, (size_t)c), source->states, sample, token,
                           c, err));
    return RS_OK;
}

static rs_status count_rows(rs_inputs *in, const json_t *samples, const rs_input_source *source,
                            rs_error *err)
{
    if (!json_is_array(samples) || json_array_size(samples) == 0)
        return rs_fail(err, RS_E_INPUT_FORMAT, source->states, form_hint,
                       "there is no list of samples in it");
    int64_t n = rs_input_wanted_samples(source, (int64_t)json_array_size(samples));
    RS_TRY(rs_input_rows(in, n, 0, source->states, err));
    for (int64_t s = 0; s < n; s++) {
        const json_t *rows = json_array_get(samples, (size_t)s);
        if (!json_is_array(rows))
            return rs_fail(err, RS_E_INPUT_FORMAT, source->states, form_hint,
                           "sample %lld is not a list of rows", (long long)s);
        in->begin[s + 1] = in->begin[s] + (int64_t)json_array_size(rows);
    }
    return RS_OK;
}

static rs_status take_json(rs_inputs *in, const json_t *samples, int64_t width,
                           const rs_input_source *source, const rs_network *network, rs_error *err)
{
    double *numbers;
    RS_TRY(count_rows(in, samples, source, err));
    RS_TRY(make_room(&numbers, in, width, source, err));
    for (int64_t s = 0; s < in->samples; s++) {
        const json_t *rows = json_array_get(samples, (size_t)s);
        for (int64_t t = 0; t < in->begin[s + 1] - in->begin[s]; t++)
            RS_TRY(take_row(numbers + (in->begin[s] + t) * width, json_array_get(rows, (size_t)t),
                            s, t, width, source, network, err));
    }
    return RS_OK;
}

rs_status rs_input_states_read(rs_inputs *in, const uint8_t *bytes, size_t length, int64_t width,
                               const rs_input_source *source, const rs_network *network,
                               rs_error *err)
{
    static const rs_json_rules rules = {.max_depth = 8, .non_finite = true};
    json_t *samples;
    rs_npy array;
    if (!rs_input_is_json(bytes, length)) {
        RS_TRY(rs_npy_parse(&array, source->states, bytes, length, err));
        return take_npy(in, &array, source, network, width, err);
    }
    RS_TRY(rs_json_load(&samples, source->states, (const char *)bytes, length, &rules, err));
    rs_status status = take_json(in, samples, width, source, network, err);
    json_decref(samples);
    return status;
}

/* ---- what is said of them ---- */

static rs_status note(rs_inputs *in, const char *code, const char *what, const char *hint,
                      rs_error *err)
{
    return rs_notes_add(&in->notes, RS_INFO, code, hint, "%s", what)
               ? RS_OK
               : rs_fail_memory(err, "notes", 0);
}

static rs_status add_notes(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                           rs_error *err)
{
    const rs_embedding_op *op = &network->embedding;
    bool adds = op->positions || op->types || op->norm.kind != RS_NORM_NONE;
    if (!source->embeddings && adds)
        RS_TRY(note(in, "past_embedding",
                    "the rows enter the first block as they are: what the model's embedding adds "
                    "(positions, token types) and its norm are not applied",
                    "--states-as embeddings applies them, where the rows stand for word vectors",
                    err));
    if (!network->head.decoder.weight || !network->head.next_token) return RS_OK;
    return note(in, "no_token_ids",
                "the inputs are rows of numbers without token ids: there is no next token that a "
                "loss could be about, so losses are left out",
                NULL, err);
}

/* ---- all ---- */

rs_status rs_input_states(rs_inputs *in, const rs_input_source *source, const rs_network *network,
                          rs_error *err)
{
    int64_t width;
    rs_mapping *file;
    RS_TRY(find_width(&width, source, network, err));
    RS_TRY(rs_mapping_open(&file, source->states, err));
    rs_status status =
        rs_input_states_read(in, file->data, file->size, width, source, network, err);
    if (status == RS_OK) status = rs_mapping_verify(file, NULL, err);
    rs_mapping_close(file);
    return status == RS_OK ? add_notes(in, source, network, err) : status;
}

rs_status rs_inputs_check_precision(const rs_inputs *inputs, rs_precision precision, rs_error *err)
{
    const double *numbers = inputs->states ? inputs->states : inputs->rows;
    int64_t width = inputs->states ? inputs->d_model : inputs->row_size, s = 0;
    if (precision != RS_PRECISION_F32 || !numbers) return RS_OK;
    for (int64_t row = 0; row < inputs->begin[inputs->samples]; row++) {
        while (row >= inputs->begin[s + 1])
            s++;
        for (int64_t c = 0; c < width; c++)
            if (isinf((float)numbers[row * width + c]))
                return rs_fail(err, RS_E_INPUT_FORMAT, "--precision",
                               "take --precision f64, or scale the states",
                               "sample %lld, token %lld, feature %lld is %g, which float32 does "
                               "not hold",
                               (long long)s, (long long)(row - inputs->begin[s]), (long long)c,
                               numbers[row * width + c]);
    }
    return RS_OK;
}
