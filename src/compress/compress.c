/*
 * compress.c: from a path to a filled result. A run over the text shows what each matrix reads and what the
 * model predicts; the scan weighs by the first, and each energy's truncations are run against the second.
 */
#include "compress/compress_parts.h"

#include "base/memory.h"

#include <math.h>

/* What a scan is told of, from its energies on. */
typedef struct compressing {
    const rs_compress_request *request; /* NULL: a model that is lent */
    const rs_scan_options *options;
    const rs_context *context;
    const rs_opened *opened; /* NULL: no text */
    rs_weights *weights;
    const rs_activations *seen;
    size_t n_seen;
    double nll;
    int64_t scored;
    const char *reason;          /* why there is no loss */
    const rs_input_files *files; /* of what is written */
} compressing;

/* ---- losses ---- */

static const char *why_no_loss(const rs_opened *o)
{
    const rs_network *network = o->network;
    if (!network->head.decoder.weight) return "the model has no head";
    if (!network->head.next_token) return "its head does not predict the next token";
    if (o->inputs->longest < 2) return "no sample has two tokens";
    return NULL;
}

/* The loss of a network on all inputs, heard by those who listen. */
static rs_status loss_of(double *nll, int64_t *scored, const compressing *c,
                         const rs_network *network, rs_listener *const *listeners, size_t n,
                         const char *phase, rs_error *err)
{
    rs_measure_options options;
    rs_measured *measured;
    rs_measure_defaults(&options);
    options.precision = c->request->precision;
    options.tokens = options.spectral = options.attention = false;
    options.loss = c->reason == NULL;
    options.phase = phase;
    RS_TRY(rs_measure_network(&measured, network, c->weights, c->opened->inputs, &options,
                              listeners, n, c->context, err));
    *nll = measured->nll;
    *scored = measured->scored;
    rs_measured_free(measured);
    return RS_OK;
}

static rs_status cut_loss(rs_compression *row, const compressing *c, const rs_cut_weights *cut,
                          rs_error *err)
{
    rs_network *network;
    row->nll = c->nll;
    row->tokens = c->scored;
    RS_TRY(rs_network_copy(&network, c->opened->network, err));
    rs_cut_weights_use(network, cut);
    rs_weights_changed(c->weights); /* the last cut's numbers may have stood where these do */
    int64_t scored;
    rs_status status = loss_of(&row->nll_cut, &scored, c, network, NULL, 0, "truncated", err);
    row->change = row->nll_cut - row->nll;
    rs_network_close(network);
    return status;
}

/* ---- one energy ---- */

static rs_compression row_of(const compressing *c, const rs_stored_matrices *all,
                             const rs_chosen *chosen, size_t n, double energy)
{
    rs_compression row = {.energy = energy,
                          .weighing = c->n_seen ? "activations" : "weights",
                          .saved = rs_chosen_saved(chosen, n),
                          .nll = NAN,
                          .nll_cut = NAN,
                          .change = NAN,
                          .tokens = RS_NULL_INT,
                          .reason = c->reason};
    for (size_t i = 0; i < all->n; i++)
        row.parameters += all->items[i].numbers;
    for (size_t i = 0; i < n; i++)
        row.matrices += chosen[i].matrix != NULL;
    row.products = (int64_t)n - row.matrices;
    row.left = row.parameters - row.saved;
    row.share = row.parameters > 0 ? (double)row.saved / (double)row.parameters : NAN;
    return row;
}

static rs_status try_cut(rs_compression *row, const compressing *c, const rs_stored_matrices *all,
                         const rs_chosen *chosen, size_t n, rs_error *err)
{
    rs_cut_weights cut = {0};
    const char *folder = c->request ? c->request->write : NULL;
    if (c->reason && !folder) return RS_OK;
    rs_status status =
        rs_cut_weights_make(&cut, chosen, n, c->seen, c->n_seen, folder != NULL, c->context, err);
    if (status == RS_OK && !c->reason) status = cut_loss(row, c, &cut, err);
    if (status == RS_OK && folder)
        status = rs_cut_write(folder, all->checkpoint, &cut, c->files, err);
    row->written = folder != NULL;
    rs_cut_weights_free(&cut);
    return status;
}

static rs_status try_energy(rs_table *table, rs_result *result, const compressing *c,
                            const rs_stored_matrices *all, double energy, rs_error *err)
{
    rs_chosen *chosen;
    size_t n;
    RS_TRY(rs_energy_choose(&chosen, &n, all, energy, c->n_seen > 0, err));
    rs_compression row = row_of(c, all, chosen, n, energy);
    rs_status status = try_cut(&row, c, all, chosen, n, err);
    rs_free(chosen);
    if (status == RS_OK) status = rs_compression_add(table, result, &row, err);
    if (status != RS_OK || !row.written) return status;
    return rs_compression_written(result, c->request->write, energy, err);
}

static rs_status told(void *user, rs_result *result, const rs_stored_matrices *all, rs_error *err)
{
    const compressing *c = user;
    rs_table *table;
    RS_TRY(rs_compression_table(&table, result, err));
    for (size_t e = 0; e < c->options->n_energies; e++)
        RS_TRY(try_energy(table, result, c, all, c->options->energies[e], err));
    return RS_OK;
}

/* ---- without a text ---- */

static const char no_text[] = "there is no text to measure it on: --text FILE";

static rs_scan_options told_options(const rs_scan_options *options, compressing *c)
{
    rs_scan_options own = *options;
    own.told = told;
    own.told_user = c;
    own.seen = c->seen;
    own.n_seen = c->n_seen;
    return own;
}

rs_status rs_compress_model(rs_result *result, const rs_model *model,
                            const rs_scan_options *options, const rs_context *context,
                            rs_error *err)
{
    compressing c = {.options = options, .context = context, .reason = no_text};
    const rs_scan_options own = told_options(options, &c);
    return rs_scan(result, model, &own, context, err);
}

static rs_status without_text(rs_result *result, rs_input_files *inputs,
                              const rs_compress_request *request, const rs_context *context,
                              rs_error *err)
{
    rs_scan_request scan = request->scan;
    compressing c = {.request = request,
                     .options = &request->scan.options,
                     .context = context,
                     .files = inputs,
                     .reason = no_text};
    scan.options = told_options(&request->scan.options, &c);
    return rs_scan_path(result, inputs, &scan, context, err);
}

/* ---- with one ---- */

static void need(rs_budget *budget, const rs_network *network, rs_run_shape shape, const void *user,
                 const rs_context *context)
{
    const rs_compress_request *request = user;
    const rs_heads_options *heads = &request->scan.options.heads;
    int64_t batch = rs_need_samples(network, shape, 0, request->precision, context);
    double rows = (double)batch * (double)shape.longest;
    rs_need_pass(budget, network, rows, request->precision);
    if (network->head.next_token) rs_need_logits(budget, network, rows, 0, request->precision);
    rs_budget_add(budget, "Grams of activations",
                  rs_watch_bytes(network, heads->first_layer, heads->last_layer));
}

static rs_status scan_weighed(rs_result *result, compressing *c, rs_watch *watch, rs_error *err)
{
    rs_listener *listener = rs_watch_listener(watch);
    c->reason = why_no_loss(c->opened);
    RS_TRY(loss_of(&c->nll, &c->scored, c, c->opened->network, &listener, 1, "activations", err));
    c->seen = rs_watch_seen(watch, &c->n_seen);
    const rs_scan_options own = told_options(c->options, c);
    return rs_scan(result, c->opened->model, &own, c->context, err);
}

static rs_status run_opened(rs_result *result, compressing *c, rs_error *err)
{
    const rs_heads_options *heads = &c->options->heads;
    rs_watch *watch = NULL;
    RS_TRY(rs_weights_open(&c->weights, c->request->precision, rs_weight_limit(c->context), err));
    rs_status status = rs_watch_open(&watch, c->opened->network, heads->first_layer,
                                     heads->last_layer, c->context, err);
    if (status == RS_OK) status = scan_weighed(result, c, watch, err);
    rs_watch_close(watch);
    rs_weights_close(c->weights);
    return status;
}

static rs_status with_text(rs_result *result, rs_input_files *inputs,
                           const rs_compress_request *request, const rs_context *context,
                           rs_error *err)
{
    rs_opened o = {0};
    const rs_open_request open = {.path = request->scan.path,
                                  .lenient = request->scan.lenient,
                                  .wants_model = true,
                                  .source = request->source,
                                  .need = need,
                                  .options = request};
    compressing c = {.request = request,
                     .options = &request->scan.options,
                     .context = context,
                     .files = inputs,
                     .opened = &o};
    rs_status status = rs_opened_open(&o, result, inputs, &open, context, err);
    if (status == RS_OK) status = run_opened(result, &c, err);
    if (status == RS_OK) status = rs_verify_checkpoint(result, o.checkpoint, err);
    rs_opened_close(&o);
    return status;
}

rs_status rs_compress_path(rs_result *result, rs_input_files *inputs,
                           const rs_compress_request *request, const rs_context *context,
                           rs_error *err)
{
    if (request->write) RS_TRY(rs_cut_write_check(request->write, &request->scan, inputs, err));
    return request->source.n_texts > 0 ? with_text(result, inputs, request, context, err)
                                       : without_text(result, inputs, request, context, err);
}
