/* finish.c: from a result to files, the terminal and an exit code. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "linalg/blas.h"
#include "linalg/threads.h"
#include "report/output.h"
#include "report/terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static bool has_unicode(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void cli_say(const char *format, ...)
{
    char text[4096];
    rs_buffer clean = {0};
    const rs_term term = {.unicode = has_unicode()};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rs_term_clean(&term, &clean, text);
    /* without memory for the filter, what is no plain ASCII is left out of the message */
    for (char *c = text; clean.failed && *c; c++)
        if (*c < 0x20 || *c > 0x7e) *c = '?';
    fprintf(stderr, "%s\n", clean.failed ? text : clean.data);
    rs_buffer_free(&clean);
}

int cli_fail(const rs_error *err)
{
    cli_progress_done();
    if (err->status == RS_E_INTERRUPTED)
        cli_say("rankscope: interrupted; %s", err->hint[0] ? err->hint : "nothing was written");
    else
        cli_say("rankscope: error: %s: %s [%s]%s%s", err->where, err->what,
                rs_status_name(err->status), err->hint[0] ? "; " : "", err->hint);
    return rs_status_exit_code(err->status);
}

/* ---- meta ---- */

static void add_text(json_t *object, const char *key, const char *value)
{
    if (value) json_object_set_new(object, key, json_string(value));
}

/* Interventions by name; those given more than once as a list. */
static void add_edits(json_t *object, const cli_args *args)
{
    for (size_t i = 0; i < args->n_edits; i++) {
        const cli_edit *edit = &args->edits[i];
        json_t *before = json_object_get(object, edit->name);
        json_t *value = edit->value ? json_string(edit->value) : json_true();
        if (json_is_array(before))
            json_array_append_new(before, value);
        else if (before && edit->value)
            json_object_set_new(object, edit->name, json_pack("[O, o]", before, value));
        else
            json_object_set_new(object, edit->name, value);
    }
}

/* Only what the command has: two commands may have options of one name with defaults of their
 * own. */
static json_t *args_object(const cli_args *args)
{
    json_t *object = json_object();
    const cli_command *command = cli_find_command(args->command);
    add_text(object, "input", args->input);
    add_text(object, "experiment", args->second);
    for (size_t i = 0; i < cli_n_options && object && command; i++) {
        const cli_option *option = &cli_options[i];
        const char *field = (const char *)args + option->offset;
        if (!(option->commands & command->bit)) continue;
        if (option->kind == CLI_FLAG && *(const bool *)(const void *)field)
            json_object_set_new(object, option->name, json_true());
        else if (option->kind == CLI_TEXT)
            add_text(object, option->name, *(const char *const *)(const void *)field);
        else if (option->kind == CLI_COUNT && *(const uint64_t *)(const void *)field)
            json_object_set_new(object, option->name,
                                json_integer((json_int_t) * (const uint64_t *)(const void *)field));
        else if (option->kind == CLI_CHOICE && option->fallback &&
                 strcmp(*(const char *const *)(const void *)field, option->fallback) != 0)
            add_text(object, option->name, *(const char *const *)(const void *)field);
    }
    add_edits(object, args);
    if (args->threads > 0)
        json_object_set_new(object, "threads", json_integer((json_int_t)args->threads));
    json_object_set_new(object, "seed", json_integer((json_int_t)args->seed));
    return object;
}

static json_t *machine_object(const cli_args *args, double gflops)
{
    char cpu[64];
    rs_cpu_name(cpu, sizeof cpu);
    rs_context context = cli_context(args);
    json_t *blas = json_pack("{s:s, s:s}", "name", "OpenBLAS", "core", rs_blas_core());
    json_object_set_new(blas, "gflops", isnan(gflops) ? json_null() : json_real(gflops));
    return json_pack("{s:s, s:i, s:o}", "cpu", cpu, "threads", context.threads, "blas", blas);
}

rs_status cli_set_machine(rs_result *result, const cli_args *args, double gflops, rs_error *err)
{
    return rs_result_set_meta(result, "machine", machine_object(args, gflops), err);
}

static rs_status set_meta(rs_result *result, const cli_args *args, rs_error *err)
{
    RS_TRY(rs_result_set_meta(result, "args", args_object(args), err));
    RS_TRY(cli_set_machine(result, args, NAN, err));
    char text[64];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return rs_result_set_meta(result, "started", json_string(text), err);
}

/* ---- writing ---- */

typedef rs_status writer(rs_buffer *out, const rs_result *result, rs_error *err);

static rs_status write_bytes(const char *path, const rs_buffer *bytes, rs_status status,
                             const rs_input_files *files, rs_error *err)
{
    if (status == RS_OK && bytes->failed) status = rs_fail_memory(err, path, bytes->length);
    if (status != RS_OK) return status;
    return rs_output_write(path, bytes->data, bytes->length, files, err);
}

static rs_status emit_file(const char *path, writer *write, const rs_result *result,
                           const rs_input_files *files, rs_error *err)
{
    rs_buffer bytes = {0};
    rs_status status = write(&bytes, result, err);
    status = write_bytes(cli_is_stdout(path) ? "/dev/stdout" : path, &bytes, status, files, err);
    rs_buffer_free(&bytes);
    return status;
}

static rs_status emit_csv(const cli_args *args, const rs_result *result,
                          const rs_input_files *files, rs_error *err)
{
    const char *directory = args->csv;
    RS_TRY(rs_outputs_make_folder(files->outputs, directory, err));
    for (size_t i = 0; i < rs_result_table_count(result); i++) {
        const rs_table *table = rs_result_table_at(result, i);
        char path[4096];
        if ((size_t)snprintf(path, sizeof path, "%s/%s.csv", directory, rs_table_name(table)) >=
            sizeof path)
            return rs_fail(err, RS_E_BAD_OPTION, "--csv", NULL, "the path is too long");
        rs_buffer bytes = {0};
        rs_status status = (args->csv_safe ? rs_write_csv_safe : rs_write_csv)(&bytes, table, err);
        status = write_bytes(path, &bytes, status, files, err);
        rs_buffer_free(&bytes);
        RS_TRY(status);
    }
    return RS_OK;
}

static rs_terminal terminal_of(const cli_args *args)
{
    bool tty = isatty(STDOUT_FILENO);
    struct winsize size;
    rs_terminal terminal = {.width = 80, .tables = args->tables};
    if (tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
        terminal.width = size.ws_col;
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool dumb = !term || strcmp(term, "dumb") == 0;
    terminal.color =
        strcmp(args->color, "always") == 0 ||
        (strcmp(args->color, "auto") == 0 && tty && !dumb && !(no_color && no_color[0]));
    terminal.unicode = has_unicode();
    return terminal;
}

/* The names of --table that this result has, "" for none; those that it has not (no grouped
 * queries, no RoPE) are said. */
static const char *present_tables(const rs_result *result, const char *names, char *kept,
                                  size_t size, bool quiet)
{
    if (!names || strcmp(names, "all") == 0) return names;
    kept[0] = 0;
    for (const char *p = names; *p;) {
        char name[64];
        size_t length = strcspn(p, ","), used = strlen(kept);
        snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), p);
        if (rs_result_table(result, name))
            snprintf(kept + used, size - used, "%s%s", used ? "," : "", name);
        else if (!quiet)
            cli_say("rankscope: note: this model has no table %s", name);
        p += length;
        p += *p == ',';
    }
    return kept[0] ? kept : NULL;
}

/* Text for people. A reader that has seen enough of it takes nothing from the files. */
static rs_status to_stdout(const rs_buffer *bytes, rs_outputs *outputs, rs_error *err)
{
    size_t left = bytes->length;
    int code = rs_output_descriptor_write(STDOUT_FILENO, bytes->data, &left, outputs->cancel);
    if (code == EPIPE) {
        rs_outputs_keep(outputs);
        outputs->broken_pipe = true;
    }
    if (code == EINTR) return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL, "interrupted");
    if (code)
        return rs_fail(err, RS_E_WRITE, "standard output", "free space or choose another place",
                       "cannot be written: %s", strerror(code));
    return RS_OK;
}

static rs_status emit_terminal(const cli_args *args, const rs_result *result, rs_outputs *outputs,
                               rs_error *err)
{
    if (args->quiet || cli_is_stdout(args->json) || cli_is_stdout(args->html)) return RS_OK;
    rs_terminal terminal = terminal_of(args);
    char kept[512];
    terminal.tables = present_tables(result, args->tables, kept, sizeof kept, args->quiet);
    rs_buffer bytes = {0};
    rs_status status = rs_write_terminal(&bytes, result, &terminal, err);
    if (status == RS_OK && bytes.failed) status = rs_fail_memory(err, "terminal", bytes.length);
    if (status == RS_OK) status = to_stdout(&bytes, outputs, err);
    rs_buffer_free(&bytes);
    return status;
}

/* Files first, then pipes and standard output; when one of them fails the others are taken back. */
static rs_status emit_all(const rs_result *result, const cli_args *args,
                          const rs_input_files *files, rs_error *err)
{
    if (args->json) RS_TRY(emit_file(args->json, rs_write_json, result, files, err));
    if (args->html) RS_TRY(emit_file(args->html, rs_write_html, result, files, err));
    if (args->csv) RS_TRY(emit_csv(args, result, files, err));
    if (cli_interrupted()) return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL, "interrupted");
    RS_TRY(rs_outputs_place(files->outputs, err));
    return emit_terminal(args, result, files->outputs, err);
}

static bool reached(const rs_result *result, const char *fail_on)
{
    if (strcmp(fail_on, "none") == 0) return false;
    rs_severity least = strcmp(fail_on, "warn") == 0 ? RS_WARN : RS_CRITICAL;
    for (size_t i = 0; i < rs_result_finding_count(result); i++)
        if (rs_result_finding_at(result, i)->severity >= least) return true;
    return false;
}

static rs_status finish_result(rs_result *result, const cli_job *job, rs_error *err)
{
    if (cli_interrupted()) return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL, "interrupted");
    RS_TRY(rs_result_seal(result, err));
    cli_progress_done();
    cli_args shown = *job->args;
    if (!shown.tables) shown.tables = job->tables;
    return emit_all(result, &shown, &job->inputs, err);
}

static rs_status run_job(rs_result *result, cli_job *job, rs_error *err)
{
    double started = rs_seconds();
    rs_context context = cli_context(job->args);
    if (!result) return rs_fail_memory(err, "result", 0);
    RS_TRY(cli_check_outputs(job->args, err));
    RS_TRY(set_meta(result, job->args, err));
    rs_threads_hold();
    rs_status status = job->work(result, job, &context, err);
    rs_threads_release();
    RS_TRY(status);
    RS_TRY(rs_result_set_meta(result, "seconds", json_real(rs_seconds() - started), err));
    return finish_result(result, job, err);
}

/* Outputs stay after a success only; the message then says what became of them. */
static void settle_outputs(rs_outputs *outputs, rs_status status, rs_error *err)
{
    char what[512];
    bool say = status == RS_E_WRITE || status == RS_E_INTERRUPTED || outputs->first;
    if (status == RS_OK) rs_outputs_keep(outputs);
    if (outputs->kept) return;
    rs_outputs_undo(outputs, what, sizeof what);
    if (!say) return;
    const rs_error was = *err;
    char hint[sizeof was.hint + sizeof what + 2];
    snprintf(hint, sizeof hint, "%s%s%s", was.hint, was.hint[0] ? "; " : "", what);
    rs_fail(err, status, was.where, hint, "%s", was.what);
}

int cli_run(cli_job *job)
{
    rs_error err;
    rs_context context = cli_context(job->args);
    rs_outputs outputs = {.cancel = context.cancel};
    rs_result *result = rs_result_new(job->args->command);
    job->inputs.outputs = &outputs;
    rs_status status = run_job(result, job, &err);
    settle_outputs(&outputs, status, &err);
    if (outputs.broken_pipe) cli_die_of_broken_pipe();
    if (status == RS_E_INTERRUPTED) cli_die_of_signal();
    int code = status != RS_OK ? cli_fail(&err) : reached(result, job->args->fail_on) ? 3 : 0;
    rs_result_free(result);
    rs_input_files_free(&job->inputs);
    return code;
}
