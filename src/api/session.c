/* session.c: what a caller that asks again and again keeps between its calls. */
#include "api/check.h"
#include "api/command.h"
#include "base/memory.h"
#include "network/saved.h"

#include <string.h>

struct rs_session {
    rs_session_settings settings;
    rs_ears ears;
    rs_context context;
    rs_null_cache nulls;
    rs_kept_memory kept;
    rs_checkpoint *checkpoint; /* NULL: no model */
    rs_model *model;           /* as scan understands it */
    rs_network *network;       /* as a pass runs it; NULL until one is asked for */
};

/* ---- opening ---- */

/* It fills no result: a row for its settings alone. */
static const rs_command opening = {.name = "session", .size = sizeof(rs_session_settings)};

void rs_session_settings_init(rs_session_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &opening);
}

rs_status rs_session_open(rs_session **out, const rs_session_settings *settings, rs_error *err)
{
    rs_session_settings defaults;
    rs_any_settings taken;
    if (out) *out = NULL;
    RS_TRY(rs_check_pointer(out, "out", err));
    rs_session_settings_init(&defaults, sizeof defaults);
    RS_TRY(rs_settings_take(&taken, &opening, settings ? settings : &defaults, err));
    RS_TRY(rs_check_call(&taken.common.call, err));
    rs_session *session = rs_calloc(1, sizeof *session);
    if (!session) return rs_fail_memory(err, "session", sizeof *session);
    session->settings = taken.session;
    session->context = rs_context_of(&session->ears, &session->settings.call);
    session->context.kept = &session->kept;
    *out = session;
    return RS_OK;
}

static void drop_model(rs_session *session)
{
    rs_network_close(session->network);
    rs_model_close(session->model);
    rs_checkpoint_close(session->checkpoint);
    session->network = NULL;
    session->model = NULL;
    session->checkpoint = NULL;
}

void rs_session_close(rs_session *session)
{
    if (!session) return;
    drop_model(session);
    rs_null_cache_close(&session->nulls);
    rs_kept_close(&session->kept);
    rs_free(session);
}

/* ---- the model ---- */

static rs_status parse(json_t **out, const char *name, const char *text, rs_error *err)
{
    *out = NULL;
    return text ? rs_config_parse(out, name, text, strlen(text), err) : RS_OK;
}

static rs_status take_tensors(rs_session *session, const rs_tensor_data *tensors, size_t n,
                              const char *config_text, const json_t *map, rs_error *err)
{
    json_t *config;
    RS_TRY(parse(&config, "config", config_text, err));
    rs_status status = rs_checkpoint_borrow(&session->checkpoint, tensors, n, config, err);
    if (status != RS_OK) {
        json_decref(config);
        return status;
    }
    return rs_checkpoint_model(&session->model, session->checkpoint, map, "map", err);
}

rs_status rs_session_tensors(rs_session *session, const rs_tensor_data *tensors, size_t n,
                             const char *config, const char *map_text, rs_error *err)
{
    RS_TRY(rs_check_pointer(session, "session", err));
    drop_model(session);
    if (n > 0) RS_TRY(rs_check_pointer(tensors, "tensors", err));
    json_t *map;
    RS_TRY(parse(&map, "map", map_text, err));
    rs_status status = take_tensors(session, tensors, n, config, map, err);
    json_decref(map);
    if (status != RS_OK) drop_model(session);
    return status;
}

/* ---- asking ---- */

static rs_status begin_call(rs_session *session, rs_error *err)
{
    if (!session->checkpoint)
        return rs_fail(err, RS_E_USAGE, "session", "call rs_session_tensors first",
                       "the session has no model");
    __atomic_store_n(&session->ears.stop, 0, __ATOMIC_RELAXED);
    rs_checkpoint_pack(session->checkpoint);
    return RS_OK;
}

/* The description that runs is made once; its weights are read anew in every call. */
static rs_status open_network(rs_session *session, const rs_run_settings *run, rs_error *err)
{
    if (run->init)
        return rs_fail(err, RS_E_USAGE, "init", "leave it NULL",
                       "the session's tensors are the weights");
    return session->network ? RS_OK : rs_network_open(&session->network, session->checkpoint, err);
}

rs_status rs_session_lend(rs_lent_model *lent, const rs_context **context, rs_session *session,
                          const rs_run_settings *run, rs_error *err)
{
    RS_TRY(begin_call(session, err));
    RS_TRY(open_network(session, run, err));
    *lent = (rs_lent_model){session->checkpoint, session->model, session->network};
    *context = &session->context;
    return RS_OK;
}

rs_status rs_answer_session(rs_result **out, const rs_command *command, rs_session *session,
                            const void *given, rs_error *err)
{
    rs_any_settings settings;
    if (out) *out = NULL;
    RS_TRY(rs_check_pointer(out, "out", err));
    RS_TRY(rs_check_pointer(session, "session", err));
    RS_TRY(rs_settings_take(&settings, command, given, err));
    RS_TRY(begin_call(session, err));
    if (command->runs) RS_TRY(open_network(session, &settings.common.run, err));
    const rs_lent_model lent = {session->checkpoint, session->model, session->network};
    const rs_task task = {.subject = {.lent = &lent, .nulls = &session->nulls},
                          .settings = &settings,
                          .context = &session->context};
    return rs_answer(out, command, &task, err);
}
