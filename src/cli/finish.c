/* finish.c: from what was asked to files, the terminal and an exit code. */
#include "cli/cli.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- standard error ---- */

bool cli_has_unicode(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* Every character beyond ASCII becomes one '?'. */
static void to_ascii(char *text)
{
    char *out = text;
    for (const char *c = text; *c; c++)
        if ((*c & 0xC0) != 0x80) *out++ = (*c & 0x80) ? '?' : *c;
    *out = 0;
}

void cli_say(const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!cli_has_unicode()) to_ascii(text);
    fprintf(stderr, "%s\n", text);
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

/* ---- text for people ---- */

enum { AUTO, ALWAYS }; /* of --color */

static void fit_terminal(rs_output_settings *output, int color)
{
    bool tty = isatty(STDOUT_FILENO);
    struct winsize size;
    if (tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
        output->width = size.ws_col;
        output->height = size.ws_row;
    }
    const char *columns = getenv("COLUMNS");
    long wanted = columns ? strtol(columns, NULL, 10) : 0;
    if (wanted >= 40 && wanted <= 10000) output->width = (int)wanted;
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool dumb = !term || strcmp(term, "dumb") == 0;
    output->color =
        color == ALWAYS || (color == AUTO && tty && !dumb && !(no_color && no_color[0]));
    output->unicode = cli_has_unicode();
}

/* Keeps of the names of --table, in place, those that this result has; those that it has not (no grouped
 * queries, no RoPE) are said. NULL where none is left. */
static const char *present_tables(const rs_result *result, char *names)
{
    char *kept = names;
    if (strcmp(names, "all") == 0) return names;
    for (const char *p = names; *p;) {
        char name[64];
        size_t length = strcspn(p, ",");
        const char *next = p + length + (p[length] == ',');
        snprintf(name, sizeof name, "%.*s", (int)(length < 60 ? length : 60), p);
        if (rs_result_column_count(result, name) > 0) {
            if (kept > names) *kept++ = ',';
            memmove(kept, p, length); /* behind what was read */
            kept += length;
        } else {
            cli_say("rankscope: note: this model has no table %s", name);
        }
        p = next;
    }
    *kept = 0;
    return kept > names ? names : NULL;
}

/* A failure that names a field of the settings names the option that fills it. */
static void name_option(rs_error *err, const cli_args *args)
{
    char name[sizeof err->where];
    if (err->status != RS_E_BAD_OPTION && err->status != RS_E_USAGE) return;
    snprintf(name, sizeof name, "%s", err->where);
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    for (size_t i = 0; i < cli_n_options; i++)
        if ((cli_options[i].commands & args->command->bit) &&
            strcmp(cli_options[i].name, name) == 0) {
            snprintf(err->where, sizeof err->where, "--%s", cli_options[i].name);
            return;
        }
}

static rs_status write_result(rs_result *result, const cli_args *args, rs_error *err)
{
    rs_output_settings output = args->output;
    char *tables = NULL;
    output.text = !args->quiet && !cli_is_stdout(output.json) && !cli_is_stdout(output.html);
    if (output.text) {
        fit_terminal(&output, args->color);
        if (output.tables) {
            tables = strdup(output.tables);
            if (!tables) return cli_no_names("--table", err);
            output.tables = present_tables(result, tables);
        }
    }
    rs_status status = rs_result_write(result, &output, err);
    free(tables);
    if (status != RS_OK) name_option(err, args);
    return status;
}

/* ---- running ---- */

static rs_status note_words(rs_result *result, const cli_args *args, rs_error *err)
{
    char *words = cli_echo(args);
    if (!words)
        return rs_fail(err, RS_E_NO_MEMORY, "args", "free memory or use a machine with more",
                       "out of memory");
    rs_status status = rs_result_note(result, "args", words, err);
    free(words);
    return status;
}

static rs_status ask_and_write(rs_result **result, const cli_args *args, rs_error *err)
{
    CLI_TRY(cli_check_outputs(args, err));
    rs_status status = args->command->ask(result, args, err);
    if (status != RS_OK) {
        name_option(err, args);
        cli_name_stdin(err);
        return status;
    }
    if (cli_interrupted()) return rs_fail(err, RS_E_INTERRUPTED, "rankscope", NULL, "interrupted");
    CLI_TRY(note_words(*result, args, err));
    cli_progress_done();
    return write_result(*result, args, err);
}

/* fail_on: 0 none, 1 warn, 2 critical, as severities count. */
static bool reached(const rs_result *result, int fail_on)
{
    return fail_on > 0 && rs_result_severity(result) >= fail_on;
}

int cli_run(cli_args *args)
{
    rs_error err;
    rs_result *result = NULL;
    cli_watch(args);
    rs_status status = cli_take_stdin(args, &err);
    if (status == RS_OK) status = ask_and_write(&result, args, &err);
    bool met = status == RS_OK && (reached(result, args->fail_on) || rs_result_stopped(result));
    rs_result_free(result);
    if (status == RS_E_BROKEN_PIPE) cli_die_of_broken_pipe();
    if (status == RS_E_INTERRUPTED) cli_die_of_signal();
    return status != RS_OK ? cli_fail(&err) : met ? 3 : 0;
}
