/* forecast_trials.c: networks of a design, drawn and run, as a forecast. */
#include "predict/forecast_trials.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>

/* Four trials of more than this take too long, and a twin is run. */
static const double most_operations = 1e12;
enum { TWIN_WIDTH = 512, LEAST_TRIALS = 4, LEAST_HEAD = 32 };

/* ---- the twin's sizes ---- */

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Heads that stay together: those that share keys, and those that share B and C. */
static int64_t heads_together(const rs_arch *arch)
{
    return common_multiple(arch->heads / arch->kv_heads, arch->groups > 0 ? arch->groups : 1);
}

static rs_twin_size fewer_heads(const rs_arch *arch, double share)
{
    int64_t together = heads_together(arch);
    int64_t heads = (int64_t)(share * (double)arch->heads) / together * together;
    if (heads < together) heads = together;
    return (rs_twin_size){arch->d_model * heads / arch->heads, heads, arch->d_head};
}

/* Cuts each head to `share` of its width. */
static rs_twin_size narrower_heads(rs_twin_size from, double share)
{
    int64_t d_head = (int64_t)(share * (double)from.d_head);
    if (d_head < LEAST_HEAD) d_head = LEAST_HEAD;
    if (d_head > from.d_head) d_head = from.d_head;
    return (rs_twin_size){from.d_model * d_head / from.d_head, from.heads, d_head};
}

rs_twin_size rs_design_twin_size(const rs_design *d, int64_t widest, double operations)
{
    const rs_arch *arch = d->arch;
    double width =
        (double)arch->d_model * sqrt(operations / rs_trials_cost(d->network, d->input.n));
    double share = fmin(width, (double)widest) / (double)arch->d_model;
    rs_twin_size whole = {arch->d_model, arch->heads, arch->d_head};
    if (share >= 1) return whole;
    /* ALiBi's slopes and decays are of each head, rotary angles follow from a head's width */
    bool each = arch->positions == RS_ARCH_POSITIONS_ALIBI || arch->decay;
    bool few = arch->heads > heads_together(arch) && !each;
    rs_twin_size size = few ? fewer_heads(arch, share) : whole;
    double left = share * (double)arch->d_model / (double)size.d_model;
    bool turns = arch->positions == RS_ARCH_POSITIONS_ROPE;
    return left < 1 && !turns ? narrower_heads(size, left) : size;
}

bool rs_twin_is_narrower(rs_twin_size size, const rs_design *than)
{
    return size.d_model < than->arch->d_model;
}

static rs_twin_size twin_of_run(const rs_design *d)
{
    return rs_design_twin_size(d, TWIN_WIDTH, most_operations / LEAST_TRIALS);
}

rs_trials_choice rs_trials_choose(const rs_design *d, int64_t wanted, bool full_size)
{
    double one = rs_trials_cost(d->network, d->input.n);
    bool wide = LEAST_TRIALS * one > most_operations;
    if (wanted == 0) return (rs_trials_choice){.why = "none were asked for: --trials 0"};
    if (wide && !full_size && (d->published || d->checkpoint))
        return (rs_trials_choice){
            .why = "it is too large for trials; --full-size runs them all the same"};
    rs_trials_choice choice = {.twin =
                                   wide && !full_size && rs_twin_is_narrower(twin_of_run(d), d)};
    choice.trials = wanted > 0    ? (int32_t)wanted
                    : choice.twin ? LEAST_TRIALS
                                  : rs_trials_default(d->network, d->input.n);
    return choice;
}

/* ---- the twin ---- */

/* (Variance · fan_in) of a map's law. */
static double gain_of(const rs_dense *map, double mean)
{
    double square = rs_weight_law_square(rs_init_law(map->weight), map->in, map->out);
    return fmax(square - mean * mean, 0) * (double)map->in;
}

/* A map's law as one of fan_in; an orthogonal one is that already. A mean keeps its product with fan_in,
 * by which it multiplies the mean of a token's numbers. */
static rs_status put_gain(json_t *init, const char *name, const rs_dense *map, rs_error *err)
{
    char law[96] = "orthogonal";
    double mean = rs_weight_law_mean(rs_init_law(map->weight));
    if (rs_init_law(map->weight)->kind != RS_LAW_ORTHOGONAL)
        snprintf(law, sizeof law, "normal(0, %.17g/fan_in)", gain_of(map, 0));
    if (mean != 0)
        snprintf(law, sizeof law, "normal(%.17g/fan_in, %.17g/fan_in)", mean * (double)map->in,
                 gain_of(map, mean));
    return json_object_set_new(init, name, json_string(law)) == 0 ? RS_OK
                                                                  : rs_fail_memory(err, name, 1);
}

/* Laws of one branch's maps, by the names that "init" has for them. */
static rs_status put_branch(json_t *init, const rs_branch *branch, rs_error *err)
{
    const rs_weight_list *weights = &rs_branch_traits(branch)->weights;
    for (size_t i = 0; i < weights->n; i++) {
        const rs_dense *map = rs_weight_map(&weights->rows[i], branch);
        const char *name = rs_arch_init_name(weights->rows[i].role);
        if (!map || !map->weight || map->weight->fixed || !name) continue;
        RS_TRY(put_gain(init, name, map, err));
    }
    return RS_OK;
}

static rs_status put_gains(json_t *init, const rs_network *network, rs_error *err)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++)
            RS_TRY(put_branch(init, &network->layers[l].branches[b], err));
    return RS_OK;
}

static rs_status set_size(json_t *json, const char *name, int64_t size, rs_error *err)
{
    return json_object_set_new(json, name, json_integer(size)) == 0 ? RS_OK
                                                                    : rs_fail_memory(err, name, 1);
}

static rs_status narrow(json_t *json, const rs_design *from, rs_twin_size to, rs_error *err)
{
    const rs_arch *arch = from->arch;
    int64_t kv_heads = to.heads * arch->kv_heads / arch->heads;
    double ratio = (double)to.d_model / (double)arch->d_model;
    RS_TRY(set_size(json, "d_model", to.d_model, err));
    RS_TRY(set_size(json, "heads", to.heads, err));
    RS_TRY(set_size(json, "kv_heads", kv_heads, err));
    RS_TRY(set_size(json, "d_head", to.d_head, err));
    RS_TRY(set_size(json, "mlp_width", (int64_t)llround(ratio * (double)arch->mlp_width), err));
    json_t *init = json_object_get(json, "init");
    if (!init && json_object_set_new(json, "init", init = json_object()) != 0)
        return rs_fail_memory(err, "init", 1);
    RS_TRY(put_gains(init, from->network, err));
    json_t *input =
        json_pack("{s:f, s:f}", "rho", from->input.rho, "norm2", from->input.norm2 * ratio);
    return json_object_set_new(json, "input", input) == 0 ? RS_OK : rs_fail_memory(err, "input", 1);
}

rs_status rs_design_twin(rs_design *out, const rs_design *from, rs_twin_size size, rs_error *err)
{
    *out = (rs_design){0};
    json_t *json = json_deep_copy(from->json);
    rs_status status = json ? narrow(json, from, size, err) : rs_fail_memory(err, "a twin", 1);
    if (status != RS_OK) {
        json_decref(json);
        return status;
    }
    rs_design like = *from;
    like.law = NULL; /* it is in the numbers */
    return rs_design_of(out, &like, json, err);
}

rs_status rs_design_twin_of_run(rs_design *out, const rs_design *from, rs_error *err)
{
    *out = (rs_design){0};
    if (!from->arch)
        return rs_fail(err, RS_E_UNSUPPORTED, from->name, "give an architecture file",
                       "a published model has no narrower twin");
    return rs_design_twin(out, from, twin_of_run(from), err);
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

rs_status rs_design_trials_by(rs_trials **out, const rs_design *design, int32_t trials,
                              rs_trials_way way, bool after_final_norm, const rs_context *context,
                              rs_error *err)
{
    source from = {design, context->memory};
    const rs_trials_request request = {.input = design->input,
                                       .trials = trials,
                                       .after_final_norm = after_final_norm,
                                       .laws = design->init != NULL,
                                       .way = way,
                                       .opener = {open_drawn, close_drawn, &from}};
    RS_TRY(rs_trials_run(out, design->network, &request, context, err));
    rs_status status = rs_design_leave_below(*out, design, err);
    if (status == RS_OK) return RS_OK;
    rs_trials_free(*out);
    *out = NULL;
    return status;
}

rs_status rs_design_leave_below(rs_trials *trials, const rs_design *design, rs_error *err)
{
    const rs_forecast_settings settings = {.thresholds = rs_predict_defaults};
    rs_forecast theory;
    if (rs_trials_vanishing(trials) < 0) return RS_OK;
    RS_TRY(rs_forecast_theory(&theory, NULL, design, &settings, err));
    size_t n = (size_t)theory.n_layers + 1;
    bool *exactly_zero = rs_malloc(n, sizeof *exactly_zero);
    rs_status status = exactly_zero ? RS_OK : rs_fail_memory(err, "trials", n);
    for (size_t l = 0; l < n && exactly_zero; l++) /* what theory does not know may be 0 */
        exactly_zero[l] = !(theory.rows[l].square > -INFINITY);
    if (status == RS_OK) status = rs_trials_leave_below(trials, exactly_zero, design->input.n, err);
    rs_free(exactly_zero);
    rs_forecast_free(&theory);
    return status;
}

rs_status rs_design_trials(rs_trials **out, const rs_design *design, int32_t trials,
                           bool after_final_norm, const rs_context *context, rs_error *err)
{
    return rs_design_trials_by(out, design, trials, RS_TRIALS_EITHER, after_final_norm, context,
                               err);
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
                             .most = row->lost ? log10(row->most) : NAN,
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
    for (int32_t l = trials->n_layers; l >= 0; l--) {
        out->rows[l] = row_of(&trials->rows[l]);
        if (trials->rows[l].lost) out->lost_from = l;
    }
    rs_status status = rs_forecast_judge(out, &settings->thresholds, err);
    if (status != RS_OK) rs_forecast_free(out);
    return status;
}
