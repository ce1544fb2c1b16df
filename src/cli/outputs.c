/* outputs.c: no two outputs of a command may be one file: the second would replace the first. */
#include "cli/cli.h"

#include "report/output.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct output {
    const char *option, *path;
} output;

static bool to_a_file(const output *o)
{
    return o->path && strcmp(o->path, "-") != 0;
}

bool cli_is_stdout(const char *path)
{
    return path && (strcmp(path, "-") == 0 || rs_output_descriptor(path) == STDOUT_FILENO);
}

static rs_status refuse_output(const output *o, const char *other, rs_error *err)
{
    return rs_fail(err, RS_E_BAD_OPTION, o->option, "choose another name",
                   "%s is to be written by %s already", o->path, other);
}

/* --csv writes DIR/TABLE.csv for each table of the command. */
static rs_status check_tables(const output *o, const cli_args *args, rs_error *err)
{
    const cli_command *command = cli_find_command(args->command);
    char path[4096];
    for (const char *p = command->tables; p && *p;) {
        int length = (int)strcspn(p, "|");
        int n = snprintf(path, sizeof path, "%s/%.*s.csv", args->csv, length, p);
        if (n > 0 && (size_t)n < sizeof path && rs_output_same(o->path, path))
            return refuse_output(o, "--csv", err);
        p += length;
        p += *p == '|';
    }
    return RS_OK;
}

rs_status cli_check_outputs(const cli_args *args, rs_error *err)
{
    const output outputs[] = {{"--csv", args->csv},
                              {"--output", args->output},
                              {"--taps", args->taps},
                              {"--json", args->json},
                              {"--html", args->html}};
    if (args->csv_safe && !args->csv)
        return rs_fail(err, RS_E_BAD_OPTION, "--csv-safe", "add --csv DIR", "there is no --csv");
    if (cli_is_stdout(args->json) && cli_is_stdout(args->html))
        return rs_fail(err, RS_E_BAD_OPTION, "--html", "write one of them to a file",
                       "standard output carries one result, and --json has it");
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const output *o = &outputs[i];
        if (!to_a_file(o)) continue;
        for (size_t k = 0; k < i; k++)
            if (to_a_file(&outputs[k]) && rs_output_same(o->path, outputs[k].path))
                return refuse_output(o, outputs[k].option, err);
        if (args->csv && i > 0) RS_TRY(check_tables(o, args, err));
    }
    return RS_OK;
}
