/* session.c: what a caller that asks again and again keeps between its calls. */
#include "api/library_check.h"
#include "api/library_options.h"
#include "api/probe_path.h"
#include "base/memory.h"
#include "linalg/null_model.h"
#include "linalg/threads.h"
#include "report/result.h"
#include "scan/scan.h"

#include <string.h>

struct rs_session {
    rs_session_settings settings;
    rs_context context;
    volatile sig_atomic_t stop; /* what settings.cancel said; the context points here */
    rs_null_cache nulls;
    rs_checkpoint *checkpoint; /* NULL: no model */
    rs_model *model;           /* as scan understands it */
    rs_network *network;       /* as a pass runs it; NULL until one is asked for */
};

enum { MOST_THREADS = 4096 };

/* ---- opening ---- */

void rs_session_settings_init(rs_session_settings *settings, size_t size)
{
    if (!settings || size < sizeof settings->size) return;
    memset(settings, 0, size); /* all that the caller has, be it more than this library knows */
    settings->size = size;
}

/* Both callbacks of the caller run here, on the thread that called. */
static void tell(void *user, const char *phase, uint64_t done, uint64_t total, const char *unit)
{
    rs_session *session = user;
    const rs_session_settings *s = &session->settings;
    if (s->progress) s->progress(s->user, phase, done, total, unit);
    if (s->cancel && s->cancel(s->user)) __atomic_store_n(&session->stop, 1, __ATOMIC_RELAXED);
}

/* A caller that was built with an earlier header knows fewer members: the rest stay at zero. */
static rs_status take_settings(rs_session_settings *out, const rs_session_settings *given,
                               rs_error *err)
{
    *out = (rs_session_settings){0};
    if (!given) return RS_OK;
    if (given->size < sizeof given->size || given->size > sizeof *out)
        return rs_fail(err, RS_E_USAGE, "size",
                       "rs_session_settings_init sets it; a library older than its header refuses "
                       "what it does not know",
                       "%zu is no size of rs_session_settings", given->size);
    memcpy(out, given, given->size);
    if (out->threads < 0 || out->threads > MOST_THREADS)
        return rs_fail(err, RS_E_BAD_OPTION, "threads", NULL, "%d is not among 0 to %d",
                       out->threads, (int)MOST_THREADS);
    return RS_OK;
}

rs_status rs_session_open(rs_session **out, const rs_session_settings *settings, rs_error *err)
{
    if (out) *out = NULL;
    RS_TRY(rs_check_pointer(out, "out", err));
    rs_session_settings taken;
    RS_TRY(take_settings(&taken, settings, err));
    rs_session *session = rs_calloc(1, sizeof *session);
    if (!session) return rs_fail_memory(err, "session", sizeof *session);
    session->settings = taken;
    session->context = (rs_context){
        .threads = taken.threads > 0 ? taken.threads : rs_default_threads(),
        .seed = taken.seed,
        .progress = taken.progress || taken.cancel ? tell : NULL,
        .progress_user = session,
        .cancel = &session->stop,
        .memory = rs_memory_bound_of(taken.memory),
    };
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
    return rs_model_open(&session->model, session->checkpoint, map, "map", err);
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
    __atomic_store_n(&session->stop, 0, __ATOMIC_RELAXED);
    rs_checkpoint_pack(session->checkpoint);
    return RS_OK;
}

/* The description that runs, made once; its weights are read anew in every call. */
static rs_status open_network(rs_lent_model *lent, rs_session *session, const rs_run_settings *run,
                              rs_error *err)
{
    if (run->init)
        return rs_fail(err, RS_E_USAGE, "init", "leave it NULL",
                       "the session's tensors are the weights");
    if (!session->network) RS_TRY(rs_network_open(&session->network, session->checkpoint, err));
    *lent = (rs_lent_model){session->checkpoint, session->model, session->network};
    return RS_OK;
}

/* subject: where the pointer to the session stands, for what is filled changes it. */
static rs_session *session_of(const void *subject)
{
    return *(rs_session *const *)subject;
}

static rs_status ask(rs_result **out, const char *name, rs_answer_fill *fill, rs_session *session,
                     const void *settings, rs_error *err)
{
    if (out) *out = NULL;
    RS_TRY(rs_check_pointer(out, "out", err));
    RS_TRY(rs_check_pointer(session, "session", err));
    RS_TRY(begin_call(session, err));
    return rs_answer(out, name, fill, &session, settings, err);
}

static rs_status fill_scan(rs_result *result, const void *subject, const void *settings,
                           rs_arena *arena, rs_error *err)
{
    rs_session *session = session_of(subject);
    rs_scan_options options;
    (void)arena;
    RS_TRY(rs_options_of_scan(&options, settings, err));
    options.heads.nulls = &session->nulls;
    return rs_scan(result, session->model, &options, &session->context, err);
}

rs_status rs_session_scan(rs_result **out, rs_session *session, const rs_scan_settings *settings,
                          rs_error *err)
{
    return ask(out, "scan", fill_scan, session, settings, err);
}

static rs_status fill_probe(rs_result *result, const void *subject, const void *given,
                            rs_arena *arena, rs_error *err)
{
    rs_session *session = session_of(subject);
    const rs_probe_settings *settings = given;
    rs_lent_model lent;
    rs_probe_request request = {.lent = &lent};
    (void)arena;
    RS_TRY(rs_options_of_probe(&request.options, settings, err));
    RS_TRY(open_network(&lent, session, &settings->run, err));
    return rs_probe_path(result, NULL, &request, &session->context, err);
}

rs_status rs_session_probe(rs_result **out, rs_session *session, const rs_probe_settings *settings,
                           rs_error *err)
{
    return ask(out, "probe", fill_probe, session, settings, err);
}

static rs_status fill_certify(rs_result *result, const void *subject, const void *given,
                              rs_arena *arena, rs_error *err)
{
    rs_session *session = session_of(subject);
    const rs_certify_settings *settings = given;
    rs_lent_model lent;
    rs_certify_request request = {.lent = &lent};
    RS_TRY(rs_options_of_certify(&request.options, settings, arena, err));
    RS_TRY(open_network(&lent, session, &settings->run, err));
    return rs_certify_path(result, NULL, &request, &session->context, err);
}

rs_status rs_session_certify(rs_result **out, rs_session *session,
                             const rs_certify_settings *settings, rs_error *err)
{
    return ask(out, "certify", fill_certify, session, settings, err);
}

static rs_status fill_paths(rs_result *result, const void *subject, const void *given,
                            rs_arena *arena, rs_error *err)
{
    rs_session *session = session_of(subject);
    const rs_paths_settings *settings = given;
    rs_lent_model lent;
    rs_paths_request request = {.lent = &lent};
    RS_TRY(rs_options_of_paths(&request.options, settings, arena, err));
    RS_TRY(open_network(&lent, session, &settings->run, err));
    return rs_paths_path(result, NULL, &request, &session->context, err);
}

rs_status rs_session_paths(rs_result **out, rs_session *session, const rs_paths_settings *settings,
                           rs_error *err)
{
    return ask(out, "paths", fill_paths, session, settings, err);
}
