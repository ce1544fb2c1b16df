/* paths.c: the paths of every sample, measured, into one result. */
#include "paths/paths.h"

#include "base/memory.h"
#include "linalg/vector.h"
#include "observe/measure.h"
#include "paths/paths_lesions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PATHS = 8 };

void rs_paths_defaults(rs_paths_options *options)
{
    *options = (rs_paths_options){.max_length = -1, .paths = DEFAULT_PATHS};
    rs_edit_init(&options->edit);
}

/* ---- spreads ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The largest r for which the r-th smallest of n values lies above the median with probability at
 * most 2.5%: P(Binomial(n, 1/2) < r). 0: none. */
static int64_t median_rank(int64_t n)
{
    double below = 0, log_term = (double)n * log(0.5);
    for (int64_t r = 0; r < n; r++) {
        below += exp(log_term);
        if (below > 0.025) return r;
        log_term += log((double)(n - r)) - log((double)(r + 1));
    }
    return 0;
}

rs_path_spread rs_path_spread_of(double *values, int64_t n, bool exhaustive)
{
    int64_t m = 0;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(values[i])) values[m++] = values[i], sum += values[m - 1];
    rs_path_spread s = {m, NAN, NAN, NAN, NAN, NAN};
    if (m == 0) return s;
    s.mean = sum / (double)m;
    for (int64_t i = 0; i < m; i++)
        squares += (values[i] - s.mean) * (values[i] - s.mean);
    if (m > 1) s.error = sqrt(squares / (double)(m - 1) / (double)m);
    qsort(values, (size_t)m, sizeof *values, ascending);
    s.median = m % 2 ? values[m / 2] : 0.5 * (values[m / 2 - 1] + values[m / 2]);
    int64_t rank = median_rank(m);
    if (rank > 0) s.low = values[rank - 1], s.high = values[m - rank];
    if (exhaustive) s.error = 0, s.low = s.high = s.median;
    return s;
}

rs_status rs_path_measure_paths(rs_path_sample *out, const rs_paths_run *run, const double *states,
                                const double *products, int64_t n, rs_error *err)
{
    int64_t d = run->network->d_model, paths = (int64_t)run->set->n;
    double *values = rs_malloc((size_t)paths, RS_PATH_MEASURES * sizeof *values);
    if (!values) return rs_fail_memory(err, "sampled paths", 0);
    rs_status status = RS_OK;
    rs_error first = {0};
#pragma omp parallel for num_threads(run->context->threads) schedule(dynamic)
    for (int64_t i = 0; i < paths; i++) {
        rs_error own;
        rs_path_size size = {NAN, NAN, NAN};
        rs_rank1_distance rank1 = {NAN, NAN};
        rs_status made = rs_path_size_of(&size, states + i * n * d, n, d, &own);
        if (made == RS_OK) made = rs_rank1_distance_of(&rank1, products + i * n * n, n, &own);
        if (made != RS_OK) rs_keep_first(&status, &first, made, &own);
        values[i] = size.fro;
        values[paths + i] = size.residual;
        values[2 * paths + i] = rank1.fro;
        values[3 * paths + i] = rank1.composite;
    }
    for (int32_t k = 0; k <= run->plan->longest && status == RS_OK; k++)
        for (int m = 0; m < RS_PATH_MEASURES; m++) {
            size_t from = run->set->first[k], count = run->set->first[k + 1] - from;
            out->paths[k][m] = rs_path_spread_of(values + m * paths + from, (int64_t)count,
                                                 run->set->exhaustive[k]);
        }
    rs_free(values);
    if (status != RS_OK && err) *err = first;
    return status == RS_OK ? rs_path_measure_cosines(out, run, states, n, err) : status;
}

/* ---- one sample ---- */

/* Σ_{j<=k} embedding and sources by k, one behind the other, behind the output itself. */
static void accumulate(double *states, const rs_path_sums *s)
{
    int64_t count = s->n * s->d;
    memcpy(states, s->output, (size_t)count * sizeof *states);
    for (int32_t k = 0; k <= s->longest; k++) {
        double *at = states + (k + 1) * count;
        for (int64_t i = 0; i < count; i++)
            at[i] = (k > 0 ? at[i - count] : 0) + s->embedding[k * count + i] +
                    s->source[k * count + i];
    }
}

static double relative(double squares, double whole)
{
    return squares == 0 ? 0 : sqrt(squares / whole);
}

/* How far the sums up to k are from the output: with the sources' paths up to k, and with all of
 * the sources' paths. states: of accumulate. rest: [n*d] zeros, used up. */
static void cumulate_errors(rs_path_sample *out, const rs_path_sums *s, const double *states,
                            double *rest)
{
    int64_t count = s->n * s->d;
    double scale = rs_path_scale(s->output, count);
    double whole = rs_path_dot(s->output, s->output, count, scale);
    for (int32_t k = s->longest; k >= 0; k--) {
        const double *at = states + (k + 1) * count;
        double wrong = 0, wrong_sources = 0;
        const double *above = s->source + (k + 1) * count;
        for (int64_t i = 0; i < count; i++) {
            rest[i] += above[i]; /* sources' paths longer than k */
            double difference = scale * (at[i] - s->output[i]);
            double other = difference + scale * rest[i];
            wrong += difference * difference;
            wrong_sources += other * other;
        }
        out->lengths[k].cumulative_error = relative(wrong, whole);
        out->lengths[k].cumulative_error_sources = relative(wrong_sources, whole);
    }
}

static rs_status measure_lengths(rs_path_sample *out, const rs_path_sums *s, rs_error *err)
{
    int64_t count = s->n * s->d;
    double scale = rs_path_scale(s->output, count);
    double whole = rs_path_dot(s->output, s->output, count, scale);
    for (int32_t k = 0; k <= s->longest + 1; k++) {
        rs_path_length *length = &out->lengths[k];
        const double *embedding = s->embedding + k * count, *source = s->source + k * count;
        RS_TRY(rs_path_size_of(&length->embedding, embedding, s->n, s->d, err));
        RS_TRY(rs_path_size_of(&length->source, source, s->n, s->d, err));
        length->projection = rs_path_dot(embedding, s->output, count, scale) / whole;
        length->source_projection = rs_path_dot(source, s->output, count, scale) / whole;
        length->cumulative_error = length->cumulative_error_sources = NAN;
    }
    return RS_OK;
}

static void measure_layers(rs_path_sample *out, const rs_path_sums *s, int32_t n_layers)
{
    int64_t count = s->n * s->d;
    double scale = rs_path_scale(s->output, count);
    double whole = rs_path_dot(s->output, s->output, count, scale);
    for (int32_t l = 0; s->injected && l < n_layers; l++) {
        const double *at = s->injected + l * count;
        out->injection_fro[l] = s->injection[l];
        double own = rs_path_scale(at, count);
        out->injected_fro[l] = sqrt(rs_path_dot(at, at, count, own)) / own;
        out->injected_projection[l] = rs_path_dot(at, s->output, count, scale) / whole;
    }
}

static rs_status measure_truncated(rs_path_sample *out, const rs_paths_run *run,
                                   const rs_path_sums *s, const rs_batch *batch, rs_error *err)
{
    size_t count = (size_t)(s->n * s->d);
    double *states = rs_malloc((size_t)s->longest + 2, count * sizeof *states);
    double *rest = rs_calloc(count, sizeof *rest);
    rs_status status = RS_OK;
    if (!states || !rest) {
        status = rs_fail_memory(err, "truncated models", count * sizeof *states);
    } else {
        accumulate(states, s);
        cumulate_errors(out, s, states, rest);
        status = rs_path_outcomes(out->outcomes, run->network, run->weights, states, s->longest + 1,
                                  s->n, batch->ids, !run->options->no_logits, run->context, err);
    }
    rs_free(states);
    rs_free(rest);
    return status;
}

/* The identity fails beyond its limit: because rounding alone makes it, or because of a fault of
 * ours? One shake of the last bits moves the sums less than all roundings do. */
static rs_status explain_identity(const rs_paths_run *run, const rs_path_sums *sums,
                                  const rs_batch *batch, rs_error *err)
{
    const double more_than_one = 1e4;
    double error = sums->identity.error, moved;
    if (isnan(error) || error <= RS_PATH_IDENTITY) return RS_OK;
    RS_TRY(rs_path_sums_moved(&moved, sums, run->network, run->weights, batch, run->plan,
                              run->context, err));
    if (more_than_one * moved < error) return RS_OK;
    return rs_fail(err, RS_E_BEYOND_PRECISION, "the sums over paths",
                   "fewer layers (--depth) may do; look at the weights: values that cancel so are "
                   "huge, or rows of them are equal",
                   "values cancel in it beyond double precision: the sum leaves the output by %.2g "
                   "of its terms' norms, and a change of every number's last bit moves it by %.2g",
                   error, moved);
}

static rs_status theorem_sample(rs_paths_run *run, rs_path_sample *out, const rs_batch *batch,
                                rs_error *err)
{
    rs_path_sums *sums;
    RS_TRY(rs_path_sums_of(&sums, run->network, run->weights, batch, run->plan, run->set,
                           run->options->by_layer, run->context, err));
    out->identity = sums->identity;
    rs_status status = explain_identity(run, sums, batch, err);
    if (status == RS_OK) status = measure_lengths(out, sums, err);
    measure_layers(out, sums, run->network->n_layers);
    if (status == RS_OK) status = measure_truncated(out, run, sums, batch, err);
    if (status == RS_OK && run->set)
        status =
            rs_path_measure_paths(out, run, sums->path_state, sums->path_product, sums->n, err);
    if (status == RS_OK && run->strengths) rs_paths_add_strengths(run, sums);
    rs_path_sums_close(sums);
    return status;
}

static rs_status open_sample(rs_paths_run *run, rs_path_sample *out, rs_error *err)
{
    size_t lengths = (size_t)run->plan->longest + 2, layers = (size_t)run->network->n_layers;
    out->lengths = rs_calloc(lengths, sizeof *out->lengths);
    out->outcomes = rs_calloc(lengths, sizeof *out->outcomes);
    if (!out->lengths || !out->outcomes) return rs_fail_memory(err, "paths", 0);
    if (run->set) {
        out->paths = rs_calloc(lengths, sizeof *out->paths);
        out->cosines = rs_calloc(lengths, sizeof *out->cosines);
        if (!out->paths || !out->cosines) return rs_fail_memory(err, "paths", 0);
    }
    if (!run->options->by_layer) return RS_OK;
    out->injected_fro = rs_calloc(layers, 3 * sizeof(double));
    if (!out->injected_fro) return rs_fail_memory(err, "paths", 0);
    out->injected_projection = out->injected_fro + layers;
    out->injection_fro = out->injected_projection + layers;
    return RS_OK;
}

static void close_sample(rs_path_sample *sample)
{
    rs_free(sample->lengths);
    rs_free(sample->outcomes);
    rs_free(sample->paths);
    rs_free(sample->cosines);
    rs_free(sample->injected_fro);
}

/* ---- all samples ---- */

static rs_status check_identity(const rs_paths_run *run, const rs_path_sample *sample,
                                rs_error *err)
{
    char where[64];
    snprintf(where, sizeof where, "sample %lld", (long long)sample->sample);
    if (isnan(sample->identity.error))
        return rs_fail(err, RS_E_NOT_FINITE, where,
                       "stop before they do: --depth takes fewer layers, --max-length sums long "
                       "paths together",
                       "the pass is finite, but sums over paths that cancel in it leave the range "
                       "of float64");
    if (sample->identity.error <= RS_PATH_IDENTITY) return RS_OK;
    return rs_fail(err, RS_E_INTERNAL, where,
                   "this is a fault of the program: please report it; fewer layers (--depth) show "
                   "from where on",
                   "the sum over paths and sources leaves the output by %.2g of the sum of its "
                   "terms' norms; it must be at most %.0e, over %d layers",
                   sample->identity.error, RS_PATH_IDENTITY, (int)run->network->n_layers);
}

static void keep_largest(rs_path_identity *most, const rs_path_identity *one)
{
    most->error = fmax(most->error, one->error);
    most->output_error = fmax(most->output_error, one->output_error);
    most->cancellation = fmax(most->cancellation, one->cancellation);
}

static rs_status run_sample(rs_paths_run *run, rs_input_batch *batch, int64_t s, rs_error *err)
{
    rs_path_sample *sample = &run->samples[run->n_samples];
    rs_input_batch_set(batch, run->inputs, s, 1);
    if (batch->batch.begin[1] == 0) return RS_OK; /* nobody has a token */
    run->n_samples++;
    sample->sample = s;
    sample->tokens = batch->batch.begin[1];
    RS_TRY(open_sample(run, sample, err));
    bool code = run->options->semantics == RS_PATHS_CODE;
    rs_status status = code ? rs_paths_code_sample(run, sample, &batch->batch, err)
                            : theorem_sample(run, sample, &batch->batch, err);
    if ((status == RS_E_NOT_FINITE || status == RS_E_BEYOND_PRECISION) && err) {
        char place[128];
        snprintf(place, sizeof place, "%.120s", err->where);
        snprintf(err->where, sizeof err->where, "sample %lld, %s", (long long)s, place);
    }
    RS_TRY(status);
    if (code) return RS_OK;
    RS_TRY(check_identity(run, sample, err));
    if (run->lesions) RS_TRY(rs_lesions_sample(run, &batch->batch, err));
    keep_largest(&run->identity, &sample->identity);
    return RS_OK;
}

static rs_status run_samples(rs_paths_run *run, rs_error *err)
{
    rs_input_batch batch = {0};
    rs_status status = rs_input_batch_open(&batch, 1, err);
    for (int64_t s = 0; s < run->inputs->samples && status == RS_OK; s++) {
        rs_progress(run->context, "paths", (uint64_t)s, (uint64_t)run->inputs->samples, "samples");
        status = rs_check_cancelled(run->context, err);
        if (status == RS_OK) status = run_sample(run, &batch, s, err);
    }
    rs_input_batch_close(&batch);
    return status;
}

/* How much decoded weight to keep. A sample takes each weight two or three times: for a few of them
 * a fresh page for every number costs more than decoding it again. A head is taken by every
 * truncated model, a slice of the code's semantics by every path; lesions take all of it again and again. */
static uint64_t weights_to_keep(const rs_paths_run *run)
{
    enum { FEW_SAMPLES = 3 };
    bool head = !run->options->no_logits && run->network->head.decoder.weight;
    bool few = run->inputs->samples <= FEW_SAMPLES && run->options->semantics != RS_PATHS_CODE;
    return few && !head && !run->lesions ? 0 : rs_weight_limit(run->context);
}

static rs_status prepare_run(rs_paths_run *run, rs_error *err)
{
    const rs_paths_options *o = run->options;
    bool code = o->semantics == RS_PATHS_CODE;
    RS_TRY(rs_path_plan_open(&run->plan, run->network, o->max_length, err));
    if (code && o->paths == 0)
        return rs_fail(err, RS_E_BAD_OPTION, "--paths", "give a number of at least 1",
                       "--semantics code measures sampled paths, and there are none");
    if (code && o->by_layer)
        return rs_fail(err, RS_E_BAD_OPTION, "--sources", "leave it out",
                       "--semantics code leaves MLPs and their sources out");
    if (code && o->lesions)
        return rs_fail(err, RS_E_BAD_OPTION, "--lesions", "leave one of the two out",
                       "--semantics code runs other networks than the model");
    if (o->lesions) RS_TRY(rs_lesions_list(&run->lesions, run->network, run->context->seed, err));
    if (o->paths > 0)
        RS_TRY(rs_path_set_draw(&run->set, run->plan, o->paths, run->context->seed, err));
    if (o->paths > 0 && !code) RS_TRY(rs_paths_prepare_lattice(run, err));
    RS_TRY(rs_weights_open(&run->weights, RS_PRECISION_F64, weights_to_keep(run), err));
    run->samples = rs_calloc((size_t)run->inputs->samples + 1, sizeof *run->samples);
    return run->samples ? RS_OK : rs_fail_memory(err, "paths", 0);
}

static rs_status set_meta(const rs_paths_run *run, rs_error *err)
{
    const rs_inputs *in = run->inputs;
    bool code = run->options->semantics == RS_PATHS_CODE;
    json_t *inputs =
        json_pack("{s:s, s:I, s:I, s:I, s:I}", "kind", in->kind, "samples", (json_int_t)in->samples,
                  "empty_samples", (json_int_t)in->empty, "tokens",
                  (json_int_t)in->begin[in->samples], "longest", (json_int_t)in->longest);
    RS_TRY(rs_result_set_meta(run->result, "inputs", inputs, err));
    RS_TRY(
        rs_result_set_meta(run->result, "semantics", json_string(code ? "code" : "theorem"), err));
    RS_TRY(rs_result_set_meta(run->result, "longest_path", json_integer(run->plan->deepest), err));
    RS_TRY(rs_result_set_meta(run->result, "lengths_told_apart", json_integer(run->plan->longest),
                              err));
    bool none = code || !run->n_samples;
    const struct {
        const char *key;
        double value;
    } reals[] = {{"identity_error", run->identity.error},
                 {"identity_error_of_output", run->identity.output_error},
                 {"cancellation", run->identity.cancellation}};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        RS_TRY(rs_result_set_meta(
            run->result, reals[i].key,
            none || !isfinite(reals[i].value) ? json_null() : json_real(reals[i].value), err));
    return rs_result_set_meta(
        run->result, "identity_error_relative_to",
        none ? json_null()
             : json_string("sum of the norms of the terms (embedding and sources, by length)"),
        err);
}

static rs_status add_notes(const rs_paths_run *run, rs_error *err)
{
    RS_TRY(rs_input_findings(run->result, run->network, run->inputs, 0, err));
    if (run->network->checkpoint)
        RS_TRY(rs_result_add_notes(run->result, &run->network->checkpoint->notes, err));
    RS_TRY(rs_result_add_notes(run->result, &run->inputs->notes, err));
    return rs_result_add_notes(run->result, &run->network->notes, err);
}

static rs_status run_all(rs_paths_run *run, rs_error *err)
{
    RS_TRY(prepare_run(run, err));
    RS_TRY(run_samples(run, err));
    RS_TRY(set_meta(run, err));
    RS_TRY(rs_paths_tables(run, err));
    RS_TRY(rs_input_texts_table(run->result, run->inputs, err));
    RS_TRY(rs_paths_words(run, err));
    if (run->lesions) RS_TRY(rs_lesions_tell(run, err));
    RS_TRY(add_notes(run, err));
    RS_TRY(rs_paths_figures(run, err));
    return rs_paths_lattice(run, err);
}

/* The last state is a part of what such a head reads, and paths sum to it alone. */
static rs_status leave_read_out(rs_network *network, const rs_paths_options *options, rs_error *err)
{
    if (network->read_out.kind == RS_FUSION_NONE) return RS_OK;
    if (!options->no_logits)
        return rs_fail(
            err, RS_E_UNSUPPORTED, "paths", "--no-loss follows them to the last state",
            "the head reads the states of all layers together (\"fusion\"): paths sum to "
            "the last state, of which it makes no logits");
    network->read_out.kind = RS_FUSION_NONE;
    return RS_OK;
}

rs_status rs_paths(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                   const rs_paths_options *options, const rs_context *context, rs_error *err)
{
    rs_network *edited;
    RS_TRY(rs_network_copy(&edited, network, err));
    rs_paths_run run = {.result = result,
                        .network = edited,
                        .inputs = inputs,
                        .options = options,
                        .context = context};
    rs_status status = rs_edit_apply(edited, &options->edit, err);
    if (status == RS_OK) status = leave_read_out(edited, options, err);
    if (status == RS_OK) status = run_all(&run, err);
    for (size_t i = 0; i < run.n_samples; i++)
        close_sample(&run.samples[i]);
    rs_free(run.samples);
    rs_free(run.strengths);
    rs_path_set_close(run.set);
    rs_path_plan_close(run.plan);
    rs_lesions_close(run.lesions);
    rs_weights_close(run.weights);
    rs_network_close(edited);
    return status;
}
