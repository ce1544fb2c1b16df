/* stdin.c: '--text -': standard input as a text. The library maps files, and a pipe is none, so the
 * bytes go into a nameless file first. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of the nameless file: "/dev/fd/5". */
static char name[32];

static const char **text_of(cli_args *args)
{
    if (args->command->bit == CLI_TOKENIZE) return &args->tokenize.text;
    return args->command->bit & CLI_RUNS ? &args->common.run.text : NULL;
}

static bool is_stdin(const char *path)
{
    return path && (strcmp(path, "-") == 0 || rs_output_same(path, "/dev/stdin"));
}

/* What else is read and could be the same stream. */
static rs_status check_others(const cli_args *args, rs_error *err)
{
    const bool runs = (args->command->bit & CLI_RUNS) != 0;
    const struct {
        const char *what, *path;
    } others[] = {{"PATH", args->input},
                  {"--tokens", runs ? args->common.run.tokens : NULL},
                  {"--images", runs ? args->common.run.images : NULL},
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
    const char **text = text_of(args);
    if (!text || !*text || strcmp(*text, "-") != 0) return RS_OK;
    CLI_TRY(check_others(args, err));
    FILE *file = tmpfile(); /* gone when the program ends */
    if (!file)
        return rs_fail(err, RS_E_WRITE, "standard input", "name a file",
                       "no temporary file can be made: %s", strerror(errno));
    rs_status status = copy_all(file, err);
    if (status != RS_OK) {
        fclose(file);
        return status;
    }
    snprintf(name, sizeof name, "/dev/fd/%d", fileno(file));
    *text = name;
    return RS_OK;
}

void cli_name_stdin(rs_error *err)
{
    if (name[0] && strcmp(err->where, name) == 0)
        snprintf(err->where, sizeof err->where, "standard input");
}
