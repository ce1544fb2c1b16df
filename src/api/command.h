/* command.h: the commands of rankscope.h: each a row of how its settings begin and what it does. */
#ifndef RS_API_COMMAND_H
#define RS_API_COMMAND_H

#include "base/context.h"
#include "linalg/null_model.h"
#include "observe/opened.h"
#include "report/result.h"

/* The settings of any command; all begin as `common` does, `run` where the command runs a model. */
typedef union rs_any_settings {
    struct {
        size_t size;
        rs_call_settings call;
        rs_run_settings run;
    } common;
    rs_scan_settings scan;
    rs_probe_settings probe;
    rs_certify_settings certify;
    rs_paths_settings paths;
    rs_compare_settings compare;
    rs_tokenize_settings tokenize;
    rs_lab_settings lab;
    rs_training_settings training;
    rs_predict_settings predict;
    rs_doctor_settings doctor;
    rs_explain_settings explain;
    rs_session_settings session;
    rs_gradients_settings gradients;
    rs_output_settings output; /* it has no `call` */
} rs_any_settings;

/* What a command works on: a path, or a session's model. */
typedef struct rs_subject {
    const char *path;          /* NULL: the model is lent */
    const rs_lent_model *lent; /* NULL: there is a path */
    rs_null_cache *nulls;      /* the session's; NULL */
} rs_subject;

/* What a command is given once its settings are taken. */
typedef struct rs_task {
    rs_subject subject;
    const rs_any_settings *settings;
    const rs_context *context;
    rs_arena *arena; /* what it holds lives until the result is filled */
} rs_task;

/* Fills a result from a task. */
typedef rs_status rs_fill(rs_result *result, const rs_task *task, rs_error *err);

typedef struct rs_command {
    const char *name;
    size_t size;                                 /* of its settings */
    void (*defaults)(rs_any_settings *settings); /* on zeros; NULL: they are all 0 */
    bool opens;                                  /* it needs a path */
    bool runs;                                   /* its settings have `run` */
    rs_fill *fill;
} rs_command;

/* ---- settings.c ---- */

/* The body of every *_settings_init: the defaults, and zeros where the caller knows more. */
void rs_settings_init(void *settings, size_t size, const rs_command *command);
/* Takes what the caller knows of the settings; what it does not know is as by default. Errors:
 * RS_E_USAGE (NULL, sizes that cannot be), those of rs_check_run. `call` is not checked. */
rs_status rs_settings_take(rs_any_settings *out, const rs_command *command, const void *given,
                           rs_error *err);

/* The inputs that `run` says; all is borrowed, `run` itself too. */
rs_input_source rs_source_of(const rs_run_settings *run);
/* Takes in the edits of `run`, and on top of them the one variant that the text describes (NULL:
 * none); *edited (may be NULL): whether there are any. */
rs_status rs_edit_of(rs_edit *edit, bool *edited, const rs_run_settings *run, const char *variant,
                     rs_arena *arena, rs_error *err);

/* ---- answer.c ---- */

/* The callbacks of a caller, as a context tells them; it must not move while the context lives. */
typedef struct rs_ears {
    const rs_call_settings *call;
    volatile sig_atomic_t stop; /* what call->cancel said */
} rs_ears;
rs_context rs_context_of(rs_ears *ears, const rs_call_settings *call);

/* Makes a result, has it filled while BLAS is held to one thread, seals it and hands it out; the
 * body of every public function that computes. */
rs_status rs_answer(rs_result **out, const rs_command *command, const rs_task *task, rs_error *err);
/* The same of a path, or of none, from what a caller hands in; the result's meta says when it was
 * made, where, and how long that took. */
rs_status rs_answer_path(rs_result **out, const rs_command *command, const char *path,
                         const void *settings, rs_error *err);
/* Sets meta machine; gflops: measured, or NaN. */
rs_status rs_set_machine(rs_result *result, int threads, double gflops, rs_error *err);

/* ---- beside.c ---- */

/* Fills the result from the task's path alone or, where there are others, from each of them: all stand in
 * each table, with column `path` first. Errors: those of fill, RS_E_USAGE (a session has one model). */
rs_status rs_fill_beside(rs_result *result, const rs_task *task, const char *const *others,
                         size_t n_others, rs_fill *fill, rs_error *err);

/* ---- write.c ---- */

/* Puts the files that wait in their places, for good. */
rs_status rs_place_outputs(rs_result *result, rs_error *err);
/* After a failure: takes back what waits or was placed, and says in err's hint what became of it. */
void rs_undo_outputs(rs_result *result, rs_status status, rs_error *err);

/* ---- session.c ---- */

/* The same of a session's model. */
rs_status rs_answer_session(rs_result **out, const rs_command *command, rs_session *session,
                            const void *settings, rs_error *err);

/* Lends the session's model for one call that runs it, with the session's context. */
rs_status rs_session_lend(rs_lent_model *lent, const rs_context **context, rs_session *session,
                          const rs_run_settings *run, rs_error *err);

/* ---- tables.c ---- */

/* The tables of all commands; NULL behind the last. */
const rs_table_kind *rs_table_kind_at(size_t index);

/* What tables of commands that have no room of their own can have. */
extern const rs_table_kind rs_tokenize_ids_kind, rs_tokenize_summary_kind, rs_doctor_machine_kind,
    rs_doctor_speed_kind, rs_explain_words_kind, rs_explain_names_kind;

#endif
