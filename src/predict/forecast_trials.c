/* forecast_trials.c: networks of a design, drawn and run, as a forecast. */
#include "predict/forecast_trials.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>

/* Four trials of more than this take too long, and a twin is run. */
static const double most_operations = 1e12;
enum { TWIN_WIDTH = 512, LEAST_TRIALS = 4 };

/* Heads of a twin that is as wide as four trials allow. */
static int64_t twin_heads(const rs_design *d)
{
    const rs_arch *arch = d->arch;
    double one = rs_trials_cost(d->network, d->input.n);
    double width = (double)arch->d_model * sqrt(most_operations / (LEAST_TRIALS * one));
    if (width > TWIN_WIDTH) width = TWIN_WIDTH;
    int64_t group = arch->heads / arch->kv_heads;
    int64_t heads = (int64_t)(width / (double)arch->d_model * (double)arch->heads) / group * group;
    return heads < group ? group : heads;
}

rs_trials_choice rs_trials_choose(const rs_design *d, int64_t wanted, bool full_size)
{
    double one = rs_trials_cost(d->network, d->input.n);
    bool wide = LEAST_TRIALS * one > most_operations;
    if (wanted == 0) return (rs_trials_choice){.why = "none were asked for: --trials 0"};
    if (d->checkpoint)
        return (rs_trials_choice){.why = "measured weights have no law to draw others from"};
    if (wide && !full_size && d->published)
        return (rs_trials_choice){
            .why = "it is too large for trials; --full-size runs them all the same"};
    rs_trials_choice choice = {.twin = wide && !full_size && twin_heads(d) < d->arch->heads};
    choice.trials = wanted > 0    ? (int32_t)wanted
                    : choice.twin ? LEAST_TRIALS
                                  : rs_trials_default(d->network, d->input.n);
    return choice;
}

/* ---- the twin ---- */

/* variance · fan_in of a map's law. */
static double gain_of(const rs_dense *map)
{
    return rs_weight_law_square(rs_init_law(map->weight), map->in, map->out) * (double)map->in;
}

static rs_status put_gain(json_t *init, const char *name, const rs_dense *map, rs_error *err)
{
    char law[64];
    if (!map->weight || map->weight->fixed) return RS_OK;
    snprintf(law, sizeof law, "normal(0, %.17g/fan_in)", gain_of(map));
    return json_object_set_new(init, name, json_string(law)) == 0 ? RS_OK
                                                                  : rs_fail_memory(err, name, 1);
}

static rs_status put_gains(json_t *init, const rs_network *network, rs_error *err)
{
    if (network->n_layers == 0) return RS_OK;
    const rs_layer *layer = &network->layers[0];
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_attention_op *attention = rs_branch_attention(&layer->branches[b]);
        const rs_mlp_op *mlp = rs_branch_mlp(&layer->branches[b]);
        if (attention) {
            RS_TRY(put_gain(init, "wq", &attention->q, err));
            RS_TRY(put_gain(init, "wk", &attention->k, err));
            RS_TRY(put_gain(init, "wv", &attention->v, err));
            RS_TRY(put_gain(init, "wo", &attention->o, err));
        }
        if (mlp) {
            RS_TRY(put_gain(init, "w1", &mlp->up, err));
            RS_TRY(put_gain(init, "wg", &mlp->gate, err));
            RS_TRY(put_gain(init, "w2", &mlp->down, err));
        }
    }
    return RS_OK;
}

static rs_status set_size(json_t *json, const char *name, int64_t size, rs_error *err)
{
    return json_object_set_new(json, name, json_integer(size)) == 0 ? RS_OK
                                                                    : rs_fail_memory(err, name, 1);
}

/* Fewer heads of the width that they have. */
static rs_status narrow(json_t *json, const rs_design *from, rs_error *err)
{
    const rs_arch *arch = from->arch;
    int64_t group = arch->heads / arch->kv_heads, heads = twin_heads(from);
    int64_t width = arch->d_model * heads / arch->heads;
    double ratio = (double)width / (double)arch->d_model;
    RS_TRY(set_size(json, "d_model", width, err));
    RS_TRY(set_size(json, "heads", heads, err));
    RS_TRY(set_size(json, "kv_heads", heads / group, err));
    RS_TRY(set_size(json, "d_head", arch->d_head, err));
    RS_TRY(set_size(json, "mlp_width", (int64_t)llround(ratio * (double)arch->mlp_width), err));
    json_t *init = json_object_get(json, "init");
    if (!init && json_object_set_new(json, "init", init = json_object()) != 0)
        return rs_fail_memory(err, "init", 1);
    RS_TRY(put_gains(init, from->network, err));
    json_t *input =
        json_pack("{s:f, s:f}", "rho", from->input.rho, "norm2", from->input.norm2 * ratio);
    return json_object_set_new(json, "input", input) == 0 ? RS_OK : rs_fail_memory(err, "input", 1);
}

rs_status rs_design_twin(rs_design *out, const rs_design *from, rs_error *err)
{
    *out = (rs_design){0};
    if (!from->arch)
        return rs_fail(err, RS_E_UNSUPPORTED, from->name, "give an architecture file",
                       "a published model has no narrower twin");
    json_t *json = json_deep_copy(from->json);
    rs_status status = json ? narrow(json, from, err) : rs_fail_memory(err, "a twin", 1);
    if (status != RS_OK) {
        json_decref(json);
        return status;
    }
    rs_design like = *from;
    like.law = NULL; /* it is in the numbers */
    return rs_design_of(out, &like, json, err);
}

/* ---- running ---- */

/* What a trial's network is drawn from. */
typedef struct source {
    const rs_design *design;
    rs_memory_bound memory;
} source;

/* A network of the engine and what owns it. */
typedef struct drawn {
    rs_network *network, *fed; /* fed: the one that takes states in place of ids */
    rs_init *init;
} drawn;

static void close_drawn(void *user, void *of)
{
    (void)user;
    drawn *d = of;
    rs_network_close(d->fed);
    rs_network_close(d->network);
    rs_init_close(d->init);
    rs_free(d);
}

static rs_status open_drawn(void *user, const rs_network **network, void **of, int32_t trial,
                            uint64_t seed, rs_error *err)
{
    (void)trial;
    const source *from = user;
    drawn *d = rs_calloc(1, sizeof *d);
    if (!d) return rs_fail_memory(err, "a trial", sizeof *d);
    rs_status status = rs_design_draw(&d->network, &d->init, from->design, seed, from->memory, err);
    if (status == RS_OK) status = rs_network_copy(&d->fed, d->network, err);
    if (status != RS_OK) {
        close_drawn(NULL, d);
        return status;
    }
    d->fed->embedding = (rs_embedding_op){.scale = 1};
    *network = d->fed;
    *of = d;
    return RS_OK;
}

rs_status rs_design_trials(rs_trials **out, const rs_design *design, int32_t trials,
                           bool after_final_norm, const rs_context *context, rs_error *err)
{
    source from = {design, context->memory};
    const rs_trials_request request = {.input = design->input,
                                       .trials = trials,
                                       .after_final_norm = after_final_norm,
                                       .laws = design->init != NULL,
                                       .opener = {open_drawn, close_drawn, &from}};
    return rs_trials_run(out, design->network, &request, context, err);
}

/* ---- as a forecast ---- */

double rs_trials_level(const rs_trials_stat *stat)
{
    if (stat->n == 0) return NAN;
    if (stat->ruled_by_few) return stat->log_mean / log(10);
    return log10(stat->mean);
}

static rs_forecast_row row_of(const rs_trials_row *row)
{
    const rs_trials_stat *of = row->of;
    double apart =
        row->rho_ruled_by_few ? of[RS_TRIALS_APART].log_mean / log(10) : log10(row->apart);
    return (rs_forecast_row){.square = rs_trials_level(&of[RS_TRIALS_SQUARE]),
                             .sum = rs_trials_level(&of[RS_TRIALS_SUM]),
                             .rho = row->rho,
                             .apart = apart,
                             .keys = 1 / of[RS_TRIALS_CONCENTRATION].mean,
                             .deviation = sqrt(of[RS_TRIALS_LOGIT].mean),
                             .query = rs_trials_level(&of[RS_TRIALS_QUERY]),
                             .key = rs_trials_level(&of[RS_TRIALS_KEY]),
                             .value = rs_trials_level(&of[RS_TRIALS_VALUE]),
                             .output = rs_trials_level(&of[RS_TRIALS_OUTPUT]),
                             .state = rs_trials_level(&of[RS_TRIALS_STATE])};
}

rs_status rs_forecast_trials(rs_forecast *out, const rs_trials *trials,
                             const rs_forecast_settings *settings, rs_error *err)
{
    RS_TRY(rs_forecast_new(out, trials->n_layers, err));
    for (int32_t l = 0; l <= trials->n_layers; l++)
        out->rows[l] = row_of(&trials->rows[l]);
    rs_status status = rs_forecast_judge(out, &settings->thresholds, err);
    if (status != RS_OK) rs_forecast_free(out);
    return status;
}
