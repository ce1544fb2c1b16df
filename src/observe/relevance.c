/* relevance.c: explains the samples of a run one by one: three passes forward and back each, and
 * removal curves behind them. */
#include "observe/relevance.h"

#include "base/memory.h"

#include <math.h>

double rs_relevance_tolerance(rs_precision precision)
{
    return 1e-12 * (rs_precision_roundoff(precision) / rs_precision_roundoff(RS_PRECISION_F64));
}

double rs_relevance_bytes(const rs_network *network, int64_t longest, int64_t rows, int64_t samples)
{
    double cuts = network->n_layers + 1, n = (double)longest, d = (double)network->d_model;
    double matrices = longest <= RS_ROLLOUT_TOKENS ? (rs_rollout_heads(network) + 3) * n * n : 0;
    return sizeof(double) * (cuts * n * (d + 1) + 2 * (double)rows + n + matrices) +
           (double)samples * (sizeof(rs_explained) + cuts * sizeof(rs_relevance_cut)) +
           RS_REMOVAL_TEXTS * (n * sizeof(int32_t) + d * sizeof(double));
}

/* ---- passes ---- */

static rs_one_sample sample_of(const rs_inputs *in, int64_t s)
{
    int64_t row = in->begin[s], n = in->begin[s + 1] - row;
    rs_one_sample one = {.inputs = {.kind = in->kind,
                                    .samples = 1,
                                    .longest = n,
                                    .shortest = n,
                                    .d_model = in->d_model,
                                    .image_size = in->image_size,
                                    .row_size = in->row_size},
                         .begin = {0, n}};
    if (in->ids) one.inputs.ids = in->ids + row;
    if (in->images) one.inputs.images = in->images + s * in->image_size;
    if (in->states) one.inputs.states = in->states + row * in->d_model;
    if (in->rows) one.inputs.rows = in->rows + row * in->row_size;
    if (!in->memory) return one;
    one.memory_begin[1] = in->memory_begin[s + 1] - in->memory_begin[s];
    one.inputs.memory = in->memory + in->memory_begin[s] * in->d_model;
    return one;
}

rs_status rs_relevance_pass(double *loss, const rs_relevance_work *w, const rs_inputs *inputs,
                            const rs_pass_gradient *gradient, rs_listener *listener, rs_error *err)
{
    const rs_relevance_request *r = w->request;
    rs_pass_account account;
    const rs_pass_plan plan = {
        .network = w->network,
        .inputs = inputs,
        .precision = r->precision,
        .weights = w->weights,
        .capacity = rs_pass_capacity(w->network, r->precision, inputs, r->batch, w->context),
        .gradient = gradient,
        .phase = r->phase,
        .done = r->done,
        .total = r->total};
    RS_TRY(rs_observe_pass(&account, &plan, &listener, 1, w->context, err));
    rs_pass_account_add(w->account, &account);
    if (loss) *loss = account.loss;
    return RS_OK;
}

/* ---- a sample ---- */

/* A run, and the rooms of its longest sample. */
typedef struct explaining {
    rs_relevance *out;
    const rs_inputs *inputs;
    rs_relevance_request request; /* with the progress of the sample at hand */
    rs_relevance_work work;
    rs_cut_gather cuts;
    int32_t *targets; /* [longest] of the row that is explained */
    double *final;    /* [d_model] */
    double *rollout;  /* [longest] */
} explaining;

/* Explains `output` at row `row`, which the listener hears. */
static rs_status go_back(explaining *x, double *explained, int64_t row, int32_t output,
                         unsigned hold, rs_error *err)
{
    const rs_inputs *one = x->cuts.one;
    rs_pass_gradient gradient = {
        .loss = x->request.targets->loss,
        .plan = {.recompute = x->request.recompute, .hold = hold, .apart = true},
        .tap = &x->cuts.tap};
    for (int64_t i = 0; i < x->cuts.rows; i++)
        x->targets[i] = -1;
    x->targets[row] = output > 0 ? output : 0;
    gradient.loss.targets = x->targets;
    return rs_relevance_pass(explained, &x->work, one, &gradient, &x->cuts.listener, err);
}

/* The three ways back: relevance with its cuts, the same of the sample's other end, and the plain
 * gradient. */
static rs_status explain_row(explaining *x, rs_explained *e, int64_t first, rs_error *err)
{
    rs_cut_gather *cuts = &x->cuts;
    int64_t n = cuts->rows, other = e->row == 0 ? n - 1 : 0;
    cuts->cuts = e->cuts;
    cuts->own = x->out->relevance + first;
    cuts->hears = RS_CUTS_FIRST;
    RS_TRY(go_back(x, &e->explained, e->row, e->output, RS_HOLD_ALL, err));
    rs_cut_gather_finish(e->cuts, x->work.network->n_layers, e->explained);
    cuts->hears = RS_CUTS_OTHER;
    if (n > 1) RS_TRY(go_back(x, NULL, other, e->output, RS_HOLD_ALL, err));
    cuts->own = x->out->gradient_input + first;
    cuts->hears = RS_CUTS_PLAIN;
    return go_back(x, NULL, e->row, e->output, 0, err);
}

static rs_status find_output(explaining *x, rs_explained *e, int64_t first, rs_error *err)
{
    const rs_targets *t = x->request.targets;
    e->output = t->loss.kind == RS_LOSS_LENGTH ? -1 : t->rows[first + e->row];
    if (!t->largest) return RS_OK;
    RS_TRY(rs_final_rows(x->final, &x->work, x->cuts.one, e->row, err));
    return rs_head_largest(&e->output, &x->work, x->final, err);
}

static rs_status add_curves(explaining *x, const rs_explained *e, int64_t first, rs_error *err)
{
    bool there;
    if (x->request.stand_in < 0 || x->cuts.rows < 2) return RS_OK;
    RS_TRY(rs_rollout(x->rollout, &there, &x->work, x->cuts.one, e->row, err));
    const double *scores[RS_REMOVAL_METHODS] = {[RS_REMOVAL_RELEVANCE] = x->out->relevance + first,
                                                [RS_REMOVAL_GRADIENT_INPUT] =
                                                    x->out->gradient_input + first,
                                                [RS_REMOVAL_ROLLOUT] = there ? x->rollout : NULL};
    return rs_removal_add(&x->out->removal, &x->work, x->cuts.one, e, scores, err);
}

static rs_status explain_sample(explaining *x, int64_t s, rs_error *err)
{
    rs_one_sample one = sample_of(x->inputs, s);
    int64_t first = x->inputs->begin[s], n = one.begin[1], layers = x->work.network->n_layers;
    one.inputs.begin = one.begin;
    if (one.inputs.memory) one.inputs.memory_begin = one.memory_begin;
    if (n == 0) return RS_OK;
    rs_explained *e = &x->out->samples[x->out->n];
    *e = (rs_explained){.sample = s,
                        .row = x->request.targets->last ? n - 1 : 0,
                        .cuts = x->out->cuts + (int64_t)x->out->n * (layers + 1)};
    x->out->n++;
    x->cuts.one = &one.inputs;
    x->cuts.rows = n;
    x->request.done += (uint64_t)first;
    rs_status status = find_output(x, e, first, err);
    if (status == RS_OK) status = explain_row(x, e, first, err);
    if (status == RS_OK) status = add_curves(x, e, first, err);
    x->request.done -= (uint64_t)first;
    x->cuts.one = NULL;
    return status;
}

/* ---- all ---- */

static rs_status open_explaining(explaining *x, rs_error *err)
{
    const rs_inputs *in = x->inputs;
    rs_relevance *out = x->out;
    size_t rows = (size_t)in->begin[in->samples], longest = (size_t)in->longest;
    size_t samples = (size_t)in->samples, cuts = samples * ((size_t)x->work.network->n_layers + 1);
    out->samples = rs_calloc(samples + 1, sizeof *out->samples);
    out->cuts = rs_calloc(cuts + 1, sizeof *out->cuts);
    out->relevance = rs_calloc(rows + 1, sizeof *out->relevance);
    out->gradient_input = rs_calloc(rows + 1, sizeof *out->gradient_input);
    x->targets = rs_malloc(longest + 1, sizeof *x->targets);
    x->final = rs_malloc((size_t)x->work.network->d_model + 1, sizeof *x->final);
    x->rollout = rs_malloc(longest + 1, sizeof *x->rollout);
    if (!out->samples || !out->cuts || !out->relevance || !out->gradient_input || !x->targets ||
        !x->final || !x->rollout)
        return rs_fail_memory(err, "relevance", rows * sizeof *out->relevance);
    return rs_cut_gather_open(&x->cuts, &x->work, in->longest, err);
}

static void close_explaining(explaining *x)
{
    rs_cut_gather_close(&x->cuts);
    rs_free(x->targets);
    rs_free(x->final);
    rs_free(x->rollout);
}

rs_status rs_relevance_run(rs_relevance **out, const rs_network *network, rs_weights *weights,
                           const rs_inputs *inputs, const rs_relevance_request *request,
                           const rs_context *context, rs_error *err)
{
    explaining x = {.inputs = inputs, .request = *request};
    *out = NULL;
    x.out = rs_calloc(1, sizeof *x.out);
    if (!x.out) return rs_fail_memory(err, "relevance", sizeof *x.out);
    x.work = (rs_relevance_work){.network = network,
                                 .weights = weights,
                                 .request = &x.request,
                                 .context = context,
                                 .account = &x.out->account};
    rs_status status = open_explaining(&x, err);
    for (int64_t s = 0; s < inputs->samples && status == RS_OK; s++)
        status = explain_sample(&x, s, err);
    close_explaining(&x);
    if (status == RS_OK)
        *out = x.out;
    else
        rs_relevance_free(x.out);
    return status;
}

void rs_relevance_free(rs_relevance *relevance)
{
    if (!relevance) return;
    rs_free(relevance->samples);
    rs_free(relevance->cuts);
    rs_free(relevance->relevance);
    rs_free(relevance->gradient_input);
    rs_free(relevance);
}
