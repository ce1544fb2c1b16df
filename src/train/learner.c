/* learner.c: opens the network of a task, and runs its steps. */
#include "train/learner.h"

#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "network/saved.h"
#include "train/needs.h"
#include "train/start.h"

#include <math.h>
#include <string.h>

/* ---- opening ---- */

/* Only what is plain numbers can be trained. */
static rs_status check_stored(const rs_checkpoint *checkpoint, rs_error *err)
{
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        rs_dtype dtype = checkpoint->tensors[i].dtype;
        if (dtype != RS_F32 && dtype != RS_F64 && dtype != RS_F16 && dtype != RS_BF16 &&
            dtype != RS_I64)
            return rs_fail(err, RS_E_UNSUPPORTED, checkpoint->path,
                           "give a checkpoint of floating-point numbers",
                           "tensor %s is stored as %s, which cannot be trained",
                           checkpoint->tensors[i].name, rs_dtype_info(dtype)->name);
    }
    return RS_OK;
}

static rs_status open_checkpoint(rs_learner *l, const rs_task_shape *shape, rs_error *err)
{
    const char *path = l->settings->model_path;
    RS_TRY(rs_checkpoint_open(&l->checkpoint, path, NULL, err));
    RS_TRY(check_stored(l->checkpoint, err));
    RS_TRY(rs_network_open(&l->network, l->checkpoint, err));
    const rs_network *network = l->network;
    if (shape->vocab > network->embedding.vocabulary)
        return rs_fail(err, RS_E_TASK_SCHEMA, path, NULL,
                       "the model has %lld token ids, the task needs %lld",
                       (long long)network->embedding.vocabulary, (long long)shape->vocab);
    if (shape->vocab == 0 && network->embedding.rows == 0)
        return rs_fail(err, RS_E_TASK_SCHEMA, path, "give a model that is fed rows of numbers",
                       "the model is fed no rows, and samples of the task are rows of %lld numbers",
                       (long long)shape->d_in);
    if (shape->vocab == 0 && shape->d_in != network->embedding.rows)
        return rs_fail(err, RS_E_TASK_SCHEMA, path, NULL,
                       "the model reads rows of %lld numbers, those of the task have %lld",
                       (long long)network->embedding.rows, (long long)shape->d_in);
    if (network->max_positions > 0 && shape->n_tok > network->max_positions)
        return rs_fail(err, RS_E_TASK_SCHEMA, path, "set data.length",
                       "the model reads %lld tokens, samples of the task have %lld",
                       (long long)network->max_positions, (long long)shape->n_tok);
    return RS_OK;
}

static void need(rs_budget *budget, const rs_network *network, const void *learner)
{
    rs_train_need(budget, network, learner);
}

static rs_status check_memory(const rs_learner *l, rs_error *err)
{
    rs_budget budget = {0};
    rs_memory_bound bound = l->context->memory;
    if (bound.bytes == 0) bound = rs_memory_bound_of(0);
    need(&budget, l->network, l);
    return rs_budget_check(&budget, bound, l->settings->task,
                           "choose a smaller model or batch, or say how much it may take: --memory "
                           "SIZE",
                           err);
}

/* The threads that draw, and the memory that drawing may take, are the run's. */
static rs_status open_network(rs_learner *l, const rs_task_shape *shape, rs_error *err)
{
    const rs_train_settings *s = l->settings;
    if (!s->model) {
        RS_TRY(open_checkpoint(l, shape, err));
        return check_memory(l, err);
    }
    RS_TRY(rs_init_open(&l->init, NULL, (uint64_t)s->seed, err));
    rs_init_set_threads(l->init, l->context->threads);
    rs_init_set_memory(l->init, l->context->memory, s->task, need, l);
    return rs_network_from_arch(&l->network, s->model, s->model_path ? s->model_path : s->path,
                                l->init, err);
}

/* What a class has to be below. */
static rs_status check_outputs(const rs_learner *l, const rs_task_shape *shape, rs_error *err)
{
    const rs_dense *decoder = &l->network->head.decoder;
    if (!decoder->weight)
        return rs_fail(err, RS_E_UNSUPPORTED, l->settings->path, NULL,
                       "the model has no head that gives outputs");
    if (decoder->out >= shape->d_out) return RS_OK;
    return rs_fail(err, RS_E_TASK_SCHEMA, l->settings->path, NULL,
                   "the model gives %lld outputs, the task has %lld", (long long)decoder->out,
                   (long long)shape->d_out);
}

/* What the network was made of, where that is an architecture. */
static rs_status read_arch(rs_learner *l, rs_error *err)
{
    const rs_train_settings *s = l->settings;
    const char *path = s->model_path ? s->model_path : s->path;
    l->arch_json = s->model;
    if (l->checkpoint && rs_is_saved(l->checkpoint->config)) {
        path = l->checkpoint->config_path ? l->checkpoint->config_path : "config";
        RS_TRY(rs_saved_arch(&l->arch_json, l->checkpoint->config, path, err));
    }
    return l->arch_json ? rs_arch_read(&l->arch, l->arch_json, path, err) : RS_OK;
}

/* What a schedule of temperatures begins at: not what it made last, whose rounding would hang on where a
 * run was taken up again. */
static rs_status keep_temperatures(rs_learner *l, rs_error *err)
{
    const rs_network *network = l->network;
    size_t n = (size_t)network->n_layers * RS_BRANCHES_MAX;
    l->temperatures = rs_calloc(n + 1, sizeof *l->temperatures);
    if (!l->temperatures) return rs_fail_memory(err, "temperatures", n * sizeof(double));
    for (int32_t i = 0; i < network->n_layers; i++)
        for (int32_t b = 0; b < network->layers[i].n_branches; b++) {
            const rs_branch *branch = &network->layers[i].branches[b];
            if (branch->kind == RS_BRANCH_ATTENTION)
                l->temperatures[i * RS_BRANCHES_MAX + b] = branch->attention.temperature;
        }
    return RS_OK;
}

static rs_status open_learner(rs_learner *l, const rs_task_shape *shape, rs_error *err)
{
    const rs_train_settings *s = l->settings;
    RS_TRY(open_network(l, shape, err));
    RS_TRY(read_arch(l, err));
    RS_TRY(check_outputs(l, shape, err));
    RS_TRY(keep_temperatures(l, err));
    RS_TRY(rs_trained_open(&l->trained, l->network, l->precision, s, err));
    RS_TRY(rs_train_start(&l->trained, s, err));
    RS_TRY(rs_optimiser_new(&l->optimiser, &s->rule, l->precision, l->trained.items, l->trained.n,
                            err));
    RS_TRY(rs_feed_open(&l->feed, shape, s->batch, s->loss == RS_TRAIN_LOSS_SQUARED, err));
    RS_TRY(rs_weights_open(&l->weights, l->precision, UINT64_MAX, err));
    RS_TRY(rs_runner_open(&l->runner, l->network, l->weights, l->context, err));
    return rs_crew_open(&l->crew, &l->trained, l->precision, s->batch, shape->n_tok, l->runner,
                        l->context, err);
}

rs_status rs_learner_open(rs_learner *out, const rs_train_settings *settings,
                          const rs_task_shape *shape, const rs_context *context, rs_error *err)
{
    *out = (rs_learner){.settings = settings,
                        .context = context,
                        .precision = (rs_precision)settings->precision,
                        .temperature = 1};
    rs_status status = open_learner(out, shape, err);
    if (status != RS_OK) rs_learner_close(out);
    return status;
}

void rs_learner_close(rs_learner *l)
{
    rs_crew_close(l->crew);
    rs_runner_close(l->runner);
    rs_weights_close(l->weights);
    rs_feed_close(&l->feed);
    rs_optimiser_free(l->optimiser);
    rs_trained_close(&l->trained);
    rs_free(l->temperatures);
    rs_network_close(l->network);
    rs_arch_close(l->arch);
    rs_checkpoint_close(l->checkpoint);
    rs_init_close(l->init);
    *l = (rs_learner){0};
}

/* ---- a batch ---- */

/* Logits of every attention are multiplied by `factor` from here on. */
static void set_temperature(rs_learner *l, double factor)
{
    if (factor == l->temperature) return;
    for (int32_t i = 0; i < l->network->n_layers; i++)
        for (int32_t b = 0; b < l->network->layers[i].n_branches; b++) {
            rs_branch *branch = &l->network->layers[i].branches[b];
            if (branch->kind == RS_BRANCH_ATTENTION)
                branch->attention.temperature = l->temperatures[i * RS_BRANCHES_MAX + b] / factor;
        }
    l->temperature = factor;
}

/* NaN where a loss has no right and wrong. */
static double accuracy_of(const rs_loss *loss)
{
    bool has = loss->kind != RS_LOSS_SQUARED && loss->told->targets > 0;
    return has ? (double)loss->told->right / (double)loss->told->targets : NAN;
}

rs_status rs_learner_batch(rs_batch_outcome *out, rs_learner *l, const rs_task_batch *batch,
                           int64_t number, rs_error *err)
{
    rs_feed *feed = &l->feed;
    rs_feed_pack(feed, batch);
    set_temperature(l, rs_temperature_at(&l->settings->temperature, l->step));
    double share = 1 / (double)l->settings->accumulate, sum = 0;
    rs_loss_told told = {0};
    const rs_dropout dropout = {.rate = l->settings->dropout,
                                .seed = (uint64_t)l->settings->seed,
                                .step = (uint64_t)l->step,
                                .first_row = number * feed->capacity * feed->n_tok};
    const rs_loss wanted = rs_feed_loss(feed, l->settings, share, &told);
    if (number == 0) rs_trained_begin(&l->trained.sink);
    RS_TRY(rs_crew_run(&sum, l->crew, feed, &wanted, dropout.rate > 0 ? &dropout : NULL, err));
    *out = (rs_batch_outcome){.loss = feed->n_targets > 0 ? sum / share : (double)NAN,
                              .accuracy = accuracy_of(&wanted),
                              .tokens = feed->begin[batch->samples],
                              .targets = feed->n_targets};
    return RS_OK;
}

rs_status rs_learner_evaluate(rs_batch_outcome *out, rs_learner *l, const rs_task_batch *batch,
                              rs_error *err)
{
    rs_loss_told told = {0};
    *out = (rs_batch_outcome){0};
    rs_feed_pack(&l->feed, batch);
    const rs_loss wanted = rs_feed_loss(&l->feed, l->settings, 1, &told);
    RS_TRY(rs_runner_loss(&out->loss, l->runner, &l->feed.batch, &wanted, NULL, 0, err));
    out->accuracy = accuracy_of(&wanted);
    out->tokens = l->feed.begin[batch->samples];
    out->targets = l->feed.n_targets;
    return RS_OK;
}

/* ---- a step ---- */

void rs_learner_clip(rs_learner *l)
{
    const rs_train_settings *s = l->settings;
    bool each = !isinf(s->clip_each);
    rs_trained_end(&l->trained.sink);
    l->rate = s->lr * rs_schedule_factor(&s->schedule, l->step);
    l->norm = rs_optimiser_clip(l->optimiser, each ? RS_CLIP_EACH : RS_CLIP_ALL,
                                each ? s->clip_each : s->clip, l->context->threads);
}

void rs_learner_step(rs_learner *l)
{
    rs_optimiser_step(l->optimiser, l->rate, l->context->threads);
    rs_trained_hand_over(&l->trained);
    rs_weights_changed(l->weights);
    rs_crew_weights_changed(l->crew);
    l->step++;
}

double rs_learner_bytes(const rs_learner *l)
{
    rs_budget budget = {0};
    need(&budget, l->network, l);
    return rs_budget_sum(&budget) + (l->init ? (double)rs_init_bytes(l->init) : 0);
}

rs_status rs_learner_config(json_t **out, const rs_learner *l, rs_error *err)
{
    json_t *arch = NULL;
    if (!l->arch) {
        *out = json_deep_copy(l->checkpoint->config);
    } else {
        RS_TRY(rs_arch_write(&arch, l->arch_json, l->arch, l->network, "graph.npy", err));
        *out = json_pack("{ssso}", "model_type", "rankscope", "arch", arch);
    }
    return *out ? RS_OK : rs_fail_memory(err, "config.json", 1);
}

const char *rs_learner_graph(const rs_learner *l)
{
    return l->arch ? rs_arch_graph_path(l->arch) : NULL;
}
