/* stdin.c: '--text -': standard input as a text. The library maps files, and a pipe is none, so the
 * bytes go into a nameless file first. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The nameless file takes the place of standard input, so that results can name it. */
static const char name[] = "/dev/stdin";
static bool taken;

size_t cli_count_texts(const cli_args *args)
{
    if (args->command->bit == CLI_TOKENIZE) return args->tokenize.n_texts;
    if (args->command->bit == CLI_SCAN) return args->scan.n_texts;
    return args->command->bit & CLI_FED ? args->common.run.n_texts : 0;
}

const char *cli_text_said(const char *text)
{
    return text == name ? "-" : text;
}

static bool is_stdin(const char *path)
{
    return path && (strcmp(path, "-") == 0 || rs_output_same(path, "/dev/stdin"));
}

/* What else is read and could be the same stream. */
static rs_status check_others(const cli_args *args, size_t own, rs_error *err)
{
    for (size_t i = 0; i < cli_count_texts(args); i++)
        if (i != own && is_stdin(args->texts[i]))
            return rs_fail(err, RS_E_USAGE, "--text", "put one of them into a file",
                           "standard input can be read once, and two texts are '%s' and '%s'",
                           args->texts[own], args->texts[i]);
    const bool runs = (args->command->bit & CLI_FED) != 0;
    const struct {
        const char *what, *path;
    } others[] = {{"PATH", args->input},
                  {"--tokens", runs ? args->common.run.tokens : NULL},
                  {"--images", runs ? args->common.run.images : NULL},
                  {"--states", runs ? args->common.run.states : NULL},
                  {"--encoder-states", runs ? args->common.run.encoder_states : NULL}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_stdin(others[i].path))
            return rs_fail(err, RS_E_USAGE, others[i].what, "put one of them into a file",
                           "standard input can be read once, and --text reads it");
    return RS_OK;
}

static rs_status copy_all(FILE *file, rs_error *err)
{
    char bytes[1 << 16];
    for (;;) {
        ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
        if (cli_interrupted())
            return rs_fail(err, RS_E_INTERRUPTED, "standard input", NULL, "interrupted");
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return rs_fail(err, RS_E_READ, "standard input", NULL, "cannot be read: %s",
                           strerror(errno));
        if (n == 0) break;
        if (fwrite(bytes, 1, (size_t)n, file) != (size_t)n) break;
    }
    if (ferror(file) || fflush(file) != 0)
        return rs_fail(err, RS_E_WRITE, "standard input", "make room for temporary files",
                       "cannot be kept in a temporary file: %s", strerror(errno));
    return RS_OK;
}

rs_status cli_take_stdin(cli_args *args, rs_error *err)
{
    size_t own = 0, n = cli_count_texts(args);
    while (own < n && strcmp(args->texts[own], "-") != 0)
        own++;
    if (own == n) return RS_OK;
    CLI_TRY(check_others(args, own, err));
    FILE *file = tmpfile(); /* gone when the program ends */
    if (!file)
        return rs_fail(err, RS_E_WRITE, "standard input", "name a file",
                       "no temporary file can be made: %s", strerror(errno));
    rs_status status = copy_all(file, err);
    if (status == RS_OK && dup2(fileno(file), STDIN_FILENO) < 0)
        status = rs_fail(err, RS_E_WRITE, "standard input", "name a file",
                         "a temporary file cannot take its place: %s", strerror(errno));
    fclose(file);
    if (status != RS_OK) return status;
    args->texts[own] = name;
    taken = true;
    return RS_OK;
}

void cli_name_stdin(rs_error *err)
{
    if (taken && strcmp(err->where, name) == 0)
        snprintf(err->where, sizeof err->where, "standard input");
}
