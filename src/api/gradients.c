/* gradients.c: rs_session_gradients: each stored tensor's gradient, told to a caller. */
#include "api/check.h"
#include "api/command.h"
#include "base/memory.h"
#include "linalg/threads.h"
#include "network/edit.h"
#include "observe/pass.h"
#include "observe/targets.h"

#include <string.h>

/* It fills no result: a row for its settings alone. */
static const rs_command command = {
    .name = "gradients", .size = sizeof(rs_gradients_settings), .runs = true};

void rs_gradients_settings_init(rs_gradients_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

/* The gradients of one call: values[t] belongs to tensor t of the checkpoint. */
typedef struct gathering {
    const rs_gradients_settings *settings;
    const rs_checkpoint *checkpoint;
    void **values; /* [tensors]; NULL: none so far */
} gathering;

static rs_status take_gradient(void *user, const rs_gradient_view *view, rs_error *err)
{
    gathering *g = user;
    const rs_tensor *tensor = view->parameter->tensor;
    if (!tensor || tensor->fixed || view->use == RS_USE_ONE) return RS_OK;
    void **values = &g->values[tensor - g->checkpoint->tensors];
    if (!*values) *values = rs_calloc((size_t)tensor->count, rs_precision_size(view->precision));
    if (!*values) return rs_fail_memory(err, tensor->name, (size_t)tensor->count * sizeof(double));
    return rs_gradient_store(*values, view);
}

static rs_status tell_all(const gathering *g, rs_gradient_fn *tell, void *user, rs_error *err)
{
    for (size_t t = 0; t < g->checkpoint->n_tensors; t++) {
        const rs_tensor *tensor = &g->checkpoint->tensors[t];
        if (!g->values[t]) continue;
        const rs_gradient_data data = {.name = tensor->name,
                                       .rank = (int)tensor->rank,
                                       .shape = tensor->shape,
                                       .count = tensor->count,
                                       .precision = g->settings->precision,
                                       .values = g->values[t]};
        rs_status status = tell(user, &data);
        if (status != RS_OK)
            return rs_fail(err, status, "tell", NULL, "the caller ended the call at %s",
                           tensor->name);
    }
    return RS_OK;
}

static rs_status run_pass(gathering *g, double *loss, const rs_network *network, rs_opened *o,
                          const rs_context *context, rs_error *err)
{
    const rs_gradients_settings *s = g->settings;
    const rs_loss_request request = {
        .loss = s->loss, .at = s->loss_at, .target = s->target, .seed = context->seed};
    const rs_gradient_tap tap = {.user = g, .parameter = take_gradient};
    rs_targets targets;
    rs_pass_account account;
    rs_status status = rs_targets_open(&targets, &request, network, o->inputs, o->tokenizer, err);
    const rs_pass_gradient gradient = {
        .loss = targets.loss,
        .ids = targets.ids,
        .plan = {.recompute = s->recompute,
                 .hold = (s->freeze_attention ? RS_HOLD_ATTENTION : 0u) |
                         (s->freeze_norm ? RS_HOLD_NORM : 0u)},
        .tap = &tap};
    const rs_pass_plan plan = {
        .network = network,
        .inputs = o->inputs,
        .precision = s->precision,
        .capacity = rs_pass_capacity(network, s->precision, o->inputs, s->run.batch, context),
        .gradient = &gradient,
        .phase = "gradients"};
    if (status == RS_OK) status = rs_observe_pass(&account, &plan, NULL, 0, context, err);
    if (status == RS_OK && loss) *loss = account.loss;
    rs_targets_close(&targets);
    return status;
}

/* The network with the edits of `run`: the session's own where there are none. */
static rs_status edited_network(rs_network **own, const rs_gradients_settings *s,
                                const rs_network *network, rs_arena *arena, rs_error *err)
{
    rs_edit edit;
    *own = NULL;
    if (s->run.n_edits == 0) return RS_OK;
    rs_edit_init(&edit);
    RS_TRY(rs_edit_of(&edit, NULL, &s->run, NULL, arena, err));
    RS_TRY(rs_network_copy(own, network, err));
    return rs_edit_apply(*own, &edit, err);
}

/* What is held: the tape of a batch, every stored tensor's gradient, and as much again where several
 * batches, or places, are added up. */
static void need(rs_budget *budget, const rs_network *network, rs_run_shape shape,
                 const void *options, const rs_context *context)
{
    const rs_gradients_settings *s = options;
    const rs_gradient_plan plan = {.recompute = s->recompute};
    double numbers = (double)network->stored.parameters;
    int64_t batch = rs_need_samples(network, shape, s->run.batch, s->precision, context);
    rs_need_pass(budget, network, (double)(batch * shape.longest), s->precision);
    rs_budget_add(budget, "tapes of the way back",
                  (double)rs_tape_bytes(network, s->precision, &plan, batch * shape.longest));
    rs_budget_add(budget, "gradients", 2 * numbers * (double)rs_precision_size(s->precision));
}

static rs_status run(gathering *g, double *loss, const rs_lent_model *lent, rs_result *scratch,
                     rs_arena *arena, const rs_context *context, rs_error *err)
{
    rs_opened opened;
    rs_network *own = NULL;
    const rs_open_request request = {.lent = lent,
                                     .source = rs_source_of(&g->settings->run),
                                     .need = need,
                                     .options = g->settings};
    rs_status status =
        rs_opened_open(&opened, scratch, rs_result_files(scratch), &request, context, err);
    if (status == RS_OK) status = edited_network(&own, g->settings, lent->network, arena, err);
    if (status == RS_OK)
        status = run_pass(g, loss, own ? own : lent->network, &opened, context, err);
    rs_network_close(own);
    rs_opened_close(&opened);
    return status;
}

/* Has the gradients gathered while BLAS is held to one thread, and tells them behind that. */
static rs_status gather(double *loss, const rs_gradients_settings *settings,
                        const rs_lent_model *lent, const rs_context *context, rs_gradient_fn *tell,
                        void *user, rs_error *err)
{
    gathering g = {.settings = settings, .checkpoint = lent->checkpoint};
    size_t n = lent->checkpoint->n_tensors;
    rs_result *scratch = rs_result_new(command.name);
    rs_arena *arena = rs_arena_new();
    g.values = rs_calloc(n + 1, sizeof *g.values);
    rs_status status = scratch && arena && g.values
                           ? RS_OK
                           : rs_fail_memory(err, "gradients", n * sizeof *g.values);
    if (status == RS_OK) {
        rs_threads_hold();
        status = run(&g, loss, lent, scratch, arena, context, err);
        rs_threads_release();
    }
    if (status == RS_OK) status = tell_all(&g, tell, user, err);
    for (size_t t = 0; g.values && t < n; t++)
        rs_free(g.values[t]);
    rs_free(g.values);
    rs_arena_free(arena);
    rs_result_free(scratch);
    return status;
}

static rs_status check(const rs_gradients_settings *s, rs_error *err)
{
    const rs_range ranges[] = {
        {"precision", (int)s->precision, RS_PRECISION_F32, RS_PRECISION_RESIDUAL},
        {"loss", (int)s->loss, RS_GRAD_LOSS_AUTO, RS_GRAD_LOSS_NORM2},
        {"loss_at", (int)s->loss_at, RS_GRAD_AT_AUTO, RS_GRAD_AT_FINAL},
    };
    RS_TRY(RS_CHECK_RANGES(ranges, err));
    if (s->precision != RS_PRECISION_RESIDUAL) return RS_OK;
    return rs_fail(err, RS_E_UNSUPPORTED, "precision",
                   "take f32 or f64; rs_session_probe tells the norms of the residual precision",
                   "its gradients may be below every double, and what is told here are doubles");
}

rs_status rs_session_gradients(double *loss, rs_session *session,
                               const rs_gradients_settings *given, rs_gradient_fn *tell, void *user,
                               rs_error *err)
{
    rs_any_settings settings;
    rs_lent_model lent;
    const rs_context *context;
    RS_TRY(rs_check_pointer(session, "session", err));
    RS_TRY(rs_settings_take(&settings, &command, given, err));
    RS_TRY(check(&settings.gradients, err));
    if (!tell) RS_TRY(rs_check_pointer(NULL, "tell", err));
    RS_TRY(rs_session_lend(&lent, &context, session, &settings.common.run, err));
    return gather(loss, &settings.gradients, &lent, context, tell, user, err);
}
