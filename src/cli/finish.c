/* finish.c: from a result to files, the terminal and an exit code. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "linalg/blas.h"

#include <errno.h>
#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int cli_fail(const rs_error *err)
{
    cli_progress_done();
    if (err->status == RS_E_INTERRUPTED)
        fprintf(stderr, "rankscope: interrupted; nothing was written\n");
    else
        fprintf(stderr, "rankscope: error: %s: %s [%s]%s%s\n", err->where, err->what,
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

/* Only what the command has: two commands may have options of one name with defaults of their own.
 */
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

static rs_status to_stdout(const rs_buffer *bytes, rs_error *err)
{
    if (fwrite(bytes->data ? bytes->data : "", 1, bytes->length, stdout) != bytes->length ||
        fflush(stdout) != 0)
        return rs_fail(err, RS_E_WRITE, "standard output", "free space or choose another place",
                       "cannot be written: %s", strerror(errno));
    return RS_OK;
}

static rs_status emit(const char *path, writer *write, const rs_result *result,
                      const rs_file_id *inputs, size_t n_inputs, rs_error *err)
{
    rs_buffer bytes = {0};
    rs_status status = write(&bytes, result, err);
    if (status == RS_OK && bytes.failed) status = rs_fail_memory(err, path, bytes.length);
    if (status == RS_OK && strcmp(path, "-") == 0)
        status = to_stdout(&bytes, err);
    else if (status == RS_OK)
        status = rs_output_write(path, bytes.data, bytes.length, inputs, n_inputs, err);
    rs_buffer_free(&bytes);
    return status;
}

static rs_status emit_csv(const cli_args *args, const rs_result *result, const rs_file_id *inputs,
                          size_t n_inputs, rs_error *err)
{
    const char *directory = args->csv;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return rs_fail(err, RS_E_WRITE, directory, "choose a place that can be written",
                       "cannot be made: %s", strerror(errno));
    for (size_t i = 0; i < rs_result_table_count(result); i++) {
        const rs_table *table = rs_result_table_at(result, i);
        char path[4096];
        if ((size_t)snprintf(path, sizeof path, "%s/%s.csv", directory, rs_table_name(table)) >=
            sizeof path)
            return rs_fail(err, RS_E_BAD_OPTION, "--csv", NULL, "the path is too long");
        rs_buffer bytes = {0};
        rs_status status = (args->csv_safe ? rs_write_csv_safe : rs_write_csv)(&bytes, table, err);
        if (status == RS_OK && bytes.failed) status = rs_fail_memory(err, path, bytes.length);
        if (status == RS_OK)
            status = rs_output_write(path, bytes.data, bytes.length, inputs, n_inputs, err);
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
    terminal.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
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
            fprintf(stderr, "rankscope: note: this model has no table %s\n", name);
        p += length;
        p += *p == ',';
    }
    return kept[0] ? kept : NULL;
}

static rs_status emit_terminal(const cli_args *args, const rs_result *result, rs_error *err)
{
    bool taken = (args->json && strcmp(args->json, "-") == 0) ||
                 (args->html && strcmp(args->html, "-") == 0);
    if (args->quiet || taken) return RS_OK;
    rs_terminal terminal = terminal_of(args);
    char kept[512];
    terminal.tables = present_tables(result, args->tables, kept, sizeof kept, args->quiet);
    rs_buffer bytes = {0};
    rs_status status = rs_write_terminal(&bytes, result, &terminal, err);
    if (status == RS_OK && bytes.failed) status = rs_fail_memory(err, "terminal", bytes.length);
    if (status == RS_OK) status = to_stdout(&bytes, err);
    rs_buffer_free(&bytes);
    return status;
}

/* Files first, standard output last: when a file fails nothing has been printed. */
static rs_status emit_all(const rs_result *result, const cli_args *args, const rs_file_id *inputs,
                          size_t n_inputs, rs_error *err)
{
    const struct {
        const char *path;
        writer *write;
    } files[] = {{args->json, rs_write_json}, {args->html, rs_write_html}};
    for (int to_standard = 0; to_standard < 2; to_standard++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++)
            if (files[i].path && (strcmp(files[i].path, "-") == 0) == to_standard)
                RS_TRY(emit(files[i].path, files[i].write, result, inputs, n_inputs, err));
        if (!to_standard && args->csv) RS_TRY(emit_csv(args, result, inputs, n_inputs, err));
    }
    return emit_terminal(args, result, err);
}

static bool reached(const rs_result *result, const char *fail_on)
{
    if (strcmp(fail_on, "none") == 0) return false;
    rs_severity least = strcmp(fail_on, "warn") == 0 ? RS_WARN : RS_CRITICAL;
    for (size_t i = 0; i < rs_result_finding_count(result); i++)
        if (rs_result_finding_at(result, i)->severity >= least) return true;
    return false;
}

static rs_status finish(rs_result *result, const cli_job *job, rs_error *err)
{
    if (cli_interrupted())
        return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL,
                       "interrupted; nothing was written");
    RS_TRY(rs_result_seal(result, err));
    cli_progress_done();
    cli_args shown = *job->args;
    if (!shown.tables) shown.tables = job->tables;
    return emit_all(result, &shown, job->inputs.ids, job->inputs.n, err);
}

static rs_status run(rs_result *result, cli_job *job, rs_error *err)
{
    double started = rs_seconds();
    rs_context context = cli_context(job->args);
    if (!result) return rs_fail_memory(err, "result", 0);
    RS_TRY(cli_check_outputs(job->args, err));
    RS_TRY(set_meta(result, job->args, err));
    RS_TRY(job->work(result, job, &context, err));
    RS_TRY(rs_result_set_meta(result, "seconds", json_real(rs_seconds() - started), err));
    return finish(result, job, err);
}

int cli_run(cli_job *job)
{
    rs_error err;
    rs_result *result = rs_result_new(job->args->command);
    int code = run(result, job, &err) != RS_OK       ? cli_fail(&err)
               : reached(result, job->args->fail_on) ? 3
                                                     : 0;
    rs_result_free(result);
    rs_free(job->inputs.ids);
    return code;
}
