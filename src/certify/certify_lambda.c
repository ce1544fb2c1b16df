/* certify_lambda.c: the listener to the mixer of every layer: what it reads and what it adds, on
 * every sample, become a row of table lambda. */
#include "certify/certify_exact_states.h"
#include "certify/certify_lambda_parts.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "linalg/threads.h"
#include "network/op_traits.h"
#include "proof/lambda_span.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct rs_certify_lambda {
    rs_listener listener;
    const rs_certify_scene *scene;
    const rs_certify_pass *pass;
    rs_lambda_row *rows; /* [samples, layers] */
    double *told_norms;  /* [samples, layers] largest ‖M‖_F that a mixer told; NaN: none did */
    rs_certify_gains gains;
    rs_certify_consensus consensus;
    rs_certify_scalar scalar;
    rs_lambda_tools *tools;      /* [threads] */
    const rs_input_batch *batch; /* the one that runs */
    rs_certify_room input;       /* [rows of the batch, d] X before the mixer */
    rs_certify_room branch;      /* [rows of the batch, d] what it adds, its scale included */
    rs_certify_room norm;        /* [2, d] gain and bias of the norm behind it */
    rs_certify_room rounding;    /* [branches, capacity] of what state-space mixers add (C11) */
};

/* ---- one layer ---- */

static rs_lambda_norm norm_of(const rs_norm_op *norm, double *gain, double *bias)
{
    rs_lambda_norm out = {.kind = RS_LAMBDA_NO_NORM};
    if (norm->kind == RS_NORM_NONE) return out;
    rs_norm_vectors(gain, bias, norm);
    out.kind = norm->kind == RS_NORM_LAYERNORM ? RS_LAMBDA_LAYERNORM : RS_LAMBDA_RMSNORM;
    out.gain = norm->gain ? gain : NULL;
    out.bias = norm->bias ? bias : NULL;
    out.epsilon = norm->eps;
    return out;
}

/* Why no bound is known of what rounding does to the branch; NULL: one is, of state-space mixers by a
 * second evaluation that --fast leaves out. */
static const char *unbounded(const rs_certify_lambda *lambda, const rs_layer *layer,
                             const rs_branch *branch)
{
    if (!rs_branch_unproved(branch)) return NULL;
    if (rs_exact_states_unbounded(branch) ||
        (branch->joins && rs_layer_mixer(layer) != layer->branches))
        return "how far rounding moves what the layer adds is not bounded";
    return lambda->scene->options->rigorous
               ? NULL
               : "how far rounding moves what the layer adds is not bounded by --fast";
}

/* What of the exact branch b, its scale included, may be missing in the pass's (C9). */
static rs_status one_error(double *error, rs_lambda_row *row, const rs_certify_lambda *lambda,
                           int64_t s, int32_t l, int32_t b, rs_error *err)
{
    const rs_branch *branch = &lambda->scene->network->layers[l].branches[b];
    const rs_branch_norms *norms = &lambda->scene->norms->layers[l].branches[b];
    rs_exact_branch at = {branch, norms,
                          rs_pass_branch(lambda->pass, lambda->batch->first + s, l, b),
                          rs_batch_rows(lambda->batch, s)};
    const char *why = unbounded(lambda, &lambda->scene->network->layers[l], branch);
    double *slack = rs_malloc((size_t)norms->n_heads + 1, sizeof *slack), off = 0;
    if (!slack) return rs_fail_memory(err, "table lambda", 0);
    if (why)
        row->condition = row->condition ? row->condition : why;
    else if (rs_branch_unproved(branch))
        off = lambda->rounding.data[b * lambda->scene->capacity + s];
    else
        off = rs_exact_added(slack, &row->condition, &at);
    rs_free(slack);
    /* the scale's own rounding and that of adding three branches in 4 DBL_EPSILON, that of this
     * line in 8 (C10) */
    *error = fabs(branch->scale) * (off + 4 * DBL_EPSILON * rs_exact_longest(&at)) *
                 (1 + 8 * DBL_EPSILON) +
             1e-290; /* what underflows */
    if (isnan(*error)) *error = INFINITY;
    return RS_OK;
}

/* How far rows of the exact O from the tapped state may be from those of the pass: of all branches
 * on the mixer's skip. */
static rs_status branch_error(double *error, rs_lambda_row *row, const rs_certify_lambda *lambda,
                              int64_t s, int32_t l, rs_error *err)
{
    const rs_layer *layer = &lambda->scene->network->layers[l];
    const rs_branch *mixer = rs_layer_mixer(layer), *last = rs_certify_last_on_skip(layer, mixer);
    *error = 0;
    for (const rs_branch *branch = mixer; branch <= last; branch++) {
        double one = INFINITY;
        if (branch->scale == 0) continue;
        RS_TRY(one_error(&one, row, lambda, s, l, (int32_t)(branch - layer->branches), err));
        *error = *error == 0 ? one : rs_up(*error + one);
    }
    return RS_OK;
}

/* Row of sample s of the batch, of which `layer` has all but the error of the branch. */
static rs_status fill_row(rs_lambda_row *row, rs_certify_lambda *lambda, rs_lambda_layer *layer,
                          const double *sum, int64_t s, int32_t l, rs_error *err)
{
    const rs_certify_scene *scene = lambda->scene;
    rs_lambda_tools *tools = &lambda->tools[rs_thread_number()];
    RS_TRY(branch_error(&layer->branch_error, row, lambda, s, l, err));
    if (rs_layer_unproved(&scene->network->layers[l])) {
        RS_TRY(rs_lambda_row_unproved(row, scene, &lambda->gains, layer, sum, l, tools, err));
        return rs_scalar_row(row, &lambda->scalar, layer, s, l, err);
    }
    RS_TRY(rs_lambda_row_fill(row, scene, &lambda->gains, layer, sum, l, tools, err));
    RS_TRY(rs_consensus_row(row, &lambda->consensus, layer, s, l, err));
    if (row->condition && scene->options->rigorous) rs_lambda_row_leave_out(row);
    return RS_OK;
}

static rs_status sample_row(rs_certify_lambda *lambda, rs_lambda_layer *layer, const double *sum,
                            int64_t s, int32_t l, rs_error *err)
{
    const rs_network *network = lambda->scene->network;
    const rs_branch *mixer = rs_layer_mixer(&network->layers[l]);
    int64_t sample = lambda->batch->first + s;
    const rs_certify_state *in = rs_pass_state(lambda->pass, sample, l);
    rs_lambda_row *row = &lambda->rows[sample * network->n_layers + l];
    rs_lambda_row_clear(row, mixer->skip);
    row->nonfinite = layer->n > 1 && !in->finite;
    if (layer->n < 2 || !in->finite || in->equal) return RS_OK;
    rs_status status = fill_row(row, lambda, layer, sum, s, l, err);
    if (status != RS_E_INPUT_FORMAT) return status;
    /* A branch that is not finite: no row, and the findings of the pass say where. */
    rs_lambda_row_clear(row, mixer->skip);
    row->nonfinite = true;
    return RS_OK;
}

/* sum: what the skip and its branches make together; after: the norm behind it. */
static rs_status told_sum(rs_certify_lambda *lambda, int32_t l, const rs_norm_op *after,
                          const rs_state_view *sum, rs_error *err)
{
    int64_t d = sum->cols;
    RS_TRY(rs_certify_room_for(&lambda->norm, 2, d, err));
    rs_lambda_norm norm = norm_of(after, lambda->norm.data, lambda->norm.data + d);
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for num_threads(lambda->scene->context->threads) schedule(dynamic)
    for (int32_t s = 0; s < sum->batch->samples; s++) {
        int64_t from = sum->batch->begin[s] * d;
        rs_error error = {0};
        rs_lambda_layer layer = {.input = lambda->input.data + from,
                                 .branch = lambda->branch.data + from,
                                 .n = rs_batch_rows(lambda->batch, s),
                                 .d = d,
                                 .input_ld = d,
                                 .branch_ld = d,
                                 .norm = norm};
        rs_status status =
            sample_row(lambda, &layer, (const double *)sum->data + from, s, l, &error);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

/* ---- what the pass tells ---- */

static rs_status told_in(rs_certify_lambda *lambda, int32_t l, int32_t b, const rs_state_view *x,
                         rs_error *err)
{
    RS_TRY(rs_certify_room_for(&lambda->input, x->rows, x->cols, err));
    memcpy(lambda->input.data, x->data, (size_t)(x->rows * x->cols) * sizeof(double));
    RS_TRY(rs_scalar_begin(&lambda->scalar, l, b, err));
    return rs_consensus_begin(&lambda->consensus, l, b, err);
}

/* What rounding did to a state-space mixer, of all samples. */
static rs_status find_rounding(rs_certify_lambda *lambda, int32_t l, int32_t b,
                               const rs_state_view *added, rs_error *err)
{
    const rs_certify_scene *scene = lambda->scene;
    const rs_layer *layer = &scene->network->layers[l];
    const rs_branch *branch = &layer->branches[b];
    if (!rs_branch_unproved(branch) || unbounded(lambda, layer, branch)) return RS_OK;
    const rs_exact_states at = {branch, lambda->input.data, added->data, added->batch,
                                scene->context};
    RS_TRY(rs_certify_room_for(&lambda->rounding, RS_BRANCHES_MAX, scene->capacity, err));
    return rs_exact_states_added(lambda->rounding.data + b * scene->capacity, &at, err);
}

/* O so far: the first of the branches on the mixer's skip is the mixer. */
static rs_status told_added(rs_certify_lambda *lambda, int32_t l, int32_t b,
                            const rs_state_view *added, rs_error *err)
{
    const rs_layer *layer = &lambda->scene->network->layers[l];
    const double *rows = added->data;
    double scale = layer->branches[b].scale;
    bool first = &layer->branches[b] == rs_layer_mixer(layer);
    RS_TRY(rs_certify_room_for(&lambda->branch, added->rows, added->cols, err));
    double *branch = lambda->branch.data;
    for (int64_t i = 0; i < added->rows * added->cols; i++)
        branch[i] = first ? scale * rows[i] : branch[i] + scale * rows[i];
    return find_rounding(lambda, l, b, added, err);
}

static rs_status on_branch(void *user, int32_t l, int32_t b, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    rs_certify_lambda *lambda = user;
    const rs_layer *layer = &lambda->scene->network->layers[l];
    const rs_branch *branch = &layer->branches[b], *mixer = rs_layer_mixer(layer);
    if (!mixer || mixer->scale == 0 || branch < mixer) return RS_OK;
    const rs_branch *last = rs_certify_last_on_skip(layer, mixer);
    if (branch > last) return RS_OK;
    switch (moment) {
    case RS_MOMENT_IN:
        return branch == mixer ? told_in(lambda, l, b, view, err) : RS_OK;
    case RS_MOMENT_ADDED:
        return told_added(lambda, l, b, view, err);
    default:
        return branch == last ? told_sum(lambda, l, &last->after, view, err) : RS_OK;
    }
}

static bool wants_attention(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const rs_certify_lambda *lambda = user;
    (void)head;
    const rs_branch *at = &lambda->scene->network->layers[layer].branches[branch];
    bool told = rs_branch_plain_attention(at) || rs_scalar_wants(&lambda->scalar, layer, branch);
    return told && rs_is_mixer(lambda->scene->network, layer, branch);
}

/* Worker threads call it. */
static rs_status on_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    const rs_certify_lambda *lambda = user;
    if (rs_scalar_wants(&lambda->scalar, view->layer, view->branch))
        rs_scalar_mixing(&lambda->scalar, view);
    return rs_consensus_mixing(&lambda->consensus, view, lambda->listener.scratch[view->thread],
                               err);
}

/* Attention has its matrices formed and tells nothing without. */
static bool wants_mixing(void *user, int32_t layer, int32_t branch)
{
    const rs_certify_lambda *lambda = user;
    const rs_layer *at = &lambda->scene->network->layers[layer];
    return &at->branches[branch] == rs_layer_mixer(at) && !rs_branch_attention(rs_layer_mixer(at));
}

static rs_status on_mixing(void *user, const rs_mixing_view *view, rs_error *err)
{
    rs_certify_lambda *lambda = user;
    int64_t s = lambda->batch->first + view->sample;
    double *most = &lambda->told_norms[s * lambda->scene->network->n_layers + view->layer];
    (void)err;
    for (int32_t k = 0; k < view->matrices; k++) {
        double norm = sqrt(view->of[k].square);
        if (!(norm <= *most)) *most = norm; /* a NaN stays */
        if (isnan(norm)) break;
    }
    return RS_OK;
}

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_certify_lambda *lambda = user;
    (void)err;
    lambda->batch = batch;
    return RS_OK;
}

/* ---- opening and closing ---- */

static rs_status open_lambda(rs_certify_lambda *lambda, rs_error *err)
{
    const rs_certify_scene *scene = lambda->scene;
    size_t n = (size_t)scene->widest, threads = (size_t)scene->context->threads, rows;
    lambda->listener = (rs_listener){
        .tap = {.user = lambda,
                .moments = 1u << RS_MOMENT_IN | 1u << RS_MOMENT_ADDED | 1u << RS_MOMENT_SUM,
                .branch = on_branch,
                .wants_attention = wants_attention,
                .attention = on_attention,
                .wants_mixing = wants_mixing,
                .mixing = on_mixing},
        .begin = begin_batch};
    if (!rs_size_mul((size_t)scene->inputs->samples, (size_t)scene->network->n_layers, &rows) ||
        !rs_size_mul(n, n * sizeof(double), &lambda->listener.scratch_bytes))
        return rs_fail_memory(err, "table lambda", SIZE_MAX);
    lambda->rows = rs_calloc(rows, sizeof *lambda->rows);
    lambda->tools = rs_calloc(threads, sizeof *lambda->tools);
    lambda->told_norms = rs_calloc(rows, sizeof *lambda->told_norms);
    if (!lambda->rows || !lambda->tools || !lambda->told_norms)
        return rs_fail_memory(err, "table lambda", rows * sizeof *lambda->rows);
    for (size_t i = 0; i < rows; i++)
        lambda->told_norms[i] = NAN;
    for (size_t t = 0; t < threads; t++)
        RS_TRY(rs_lambda_arcs_open(&lambda->tools[t].arcs, err));
    return rs_certify_gains_open(&lambda->gains, scene, err);
}

rs_status rs_certify_lambda_open(rs_certify_lambda **out, const rs_certify_scene *scene,
                                 const rs_certify_pass *pass, rs_error *err)
{
    rs_certify_lambda *lambda = rs_calloc(1, sizeof *lambda);
    *out = lambda;
    if (!lambda) return rs_fail_memory(err, "table lambda", sizeof *lambda);
    lambda->scene = scene;
    lambda->pass = pass;
    lambda->consensus.scene = lambda->scalar.scene = scene;
    return open_lambda(lambda, err);
}

rs_listener *rs_certify_lambda_listener(rs_certify_lambda *lambda)
{
    return &lambda->listener;
}

void rs_certify_lambda_close(rs_certify_lambda *lambda)
{
    if (!lambda) return;
    const rs_certify_scene *scene = lambda->scene;
    for (int64_t i = 0; lambda->rows && i < scene->inputs->samples * scene->network->n_layers; i++)
        rs_free(lambda->rows[i].intervals);
    for (int t = 0; lambda->tools && t < scene->context->threads; t++) {
        rs_lambda_arcs_close(lambda->tools[t].arcs);
        rs_lambda_set_free(&lambda->tools[t].set);
    }
    rs_certify_gains_close(&lambda->gains);
    rs_consensus_close(&lambda->consensus);
    rs_scalar_close(&lambda->scalar);
    rs_free(lambda->rows);
    rs_free(lambda->tools);
    rs_free(lambda->told_norms);
    rs_free(lambda->input.data);
    rs_free(lambda->branch.data);
    rs_free(lambda->norm.data);
    rs_free(lambda->rounding.data);
    rs_free(lambda);
}

/* ---- behind the pass ---- */

rs_status rs_certify_lambda_finish(rs_certify_lambda *lambda, rs_error *err)
{
    const rs_certify_scene *scene = lambda->scene;
    size_t heads = 3 * lambda->gains.heads;
    double *work = rs_malloc(heads, sizeof *work);
    if (!work) return rs_fail_memory(err, "table lambda", heads * sizeof *work);
    for (int64_t s = 0; s < scene->inputs->samples; s++)
        for (int32_t l = 0; l < scene->network->n_layers; l++) {
            rs_lambda_row *row = &lambda->rows[s * scene->network->n_layers + l];
            row->at_floor = rs_pass_state(lambda->pass, s, l)->at_floor;
            if (row->at_floor && !row->failed_exact)
                row->failed_exact = "the tokens that enter differ by rounding alone";
            if (row->told) rs_certify_smoothing(row, scene->norms, lambda->pass, s, l, work);
        }
    rs_free(work);
    return RS_OK;
}

int64_t rs_certify_lambda_samples(const rs_certify_lambda *lambda)
{
    return lambda->scene->inputs->samples;
}

const rs_lambda_row *rs_certify_lambda_row(const rs_certify_lambda *lambda, int64_t s, int32_t l)
{
    return &lambda->rows[s * lambda->scene->network->n_layers + l];
}

const rs_network *rs_certify_lambda_network(const rs_certify_lambda *lambda)
{
    return lambda->scene->network;
}

double rs_certify_lambda_kept(const rs_certify_lambda *lambda)
{
    return lambda->scene->options->kept;
}

double rs_certify_lambda_stretch(const rs_certify_lambda *lambda, int32_t l)
{
    return lambda->gains.stretch[l];
}

double rs_certify_lambda_frobenius(const rs_certify_lambda *lambda, int64_t s, int32_t l)
{
    const rs_layer *layer = &lambda->scene->network->layers[l];
    const rs_branch *mixer = rs_layer_mixer(layer);
    double most = lambda->told_norms[s * lambda->scene->network->n_layers + l];
    if (!mixer || mixer->scale == 0) return NAN;
    const rs_certify_head *heads = rs_pass_heads(lambda->pass, s, l, mixer - layer->branches);
    for (int32_t h = 0; h < rs_branch_proved_heads(mixer) && rs_branch_attention(mixer); h++) {
        if (isnan(heads[h].frobenius)) return NAN;
        if (!(heads[h].frobenius <= most)) most = heads[h].frobenius;
    }
    return most;
}

const char *rs_certify_lambda_adds_more(const rs_certify_lambda *lambda, int32_t l)
{
    return rs_certify_adds_more(lambda->scene->network, lambda->scene->norms, l);
}

bool rs_certify_least_by_mixer(rs_certify_least *out, const rs_certify_lambda *lambda, int64_t s,
                               int32_t l)
{
    const rs_layer *layer = &lambda->scene->network->layers[l];
    const rs_branch *mixer = rs_layer_mixer(layer), *end = layer->branches + layer->n_branches;
    const rs_lambda_row *row = rs_certify_lambda_row(lambda, s, l);
    if (!row->told || row->at_floor || isnan(row->kept_now) || mixer != layer->branches ||
        rs_certify_last_on_skip(layer, mixer) + 1 != end)
        return false;
    /* of n tokens some two are at least √(2/(n − 1)) μ apart: squares of distances add up to nμ² */
    rs_span n = rs_span_of((double)row->facts.n), d = rs_span_of((double)row->facts.d);
    rs_span share = rs_span_sub(rs_span_of(row->kept_now), rs_span_of(row->kept_now_error));
    rs_span before = rs_span_mul(rs_span_of(row->facts.diversity), rs_span_sqrt(rs_span_mul(n, d)));
    rs_span two = rs_span_sqrt(rs_span_div(rs_span_of(2), rs_span_sub(n, rs_span_of(1))));
    double lower = rs_span_mul(rs_span_mul(share, before), two).low;
    if (!(lower > 0)) return false;
    /* log10 is within a few units of the last place */
    *out = (rs_certify_least){lower, log10(lower) - 1e-12 * (1 + fabs(log10(lower))), "mixer",
                              row->condition, NULL};
    return true;
}
