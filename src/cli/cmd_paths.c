/* cmd_paths.c: `rankscope paths`. */
#include "cli/cli.h"
#include "paths/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COUNT = 1 << 30, MOST_PATHS = 1 << 20 };

/* A whole number that may be 0, which options of kind CLI_COUNT refuse. */
static rs_status whole_number(int64_t *value, const char *option, const char *text, int64_t most,
                              rs_error *err)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number > most)
        return rs_fail(err, RS_E_BAD_OPTION, option, NULL, "'%s' is no whole number from 0 to %lld",
                       text, (long long)most);
    *value = number;
    return RS_OK;
}

static rs_status paths_options(rs_paths_options *options, const cli_args *args, rs_error *err)
{
    rs_paths_defaults(options);
    options->source = cli_source(args);
    options->by_layer = args->sources;
    options->no_logits = args->no_loss;
    options->semantics = strcmp(args->semantics, "code") == 0 ? RS_PATHS_CODE : RS_PATHS_THEOREM;
    if (strcmp(args->precision, "f64") != 0)
        return rs_fail(err, RS_E_UNSUPPORTED, "--precision", "leave it out",
                       "paths are summed in float64 alone: their sum must be the output to 1e-10");
    if (args->max_length)
        RS_TRY(
            whole_number(&options->max_length, "--max-length", args->max_length, MOST_COUNT, err));
    if (args->paths) RS_TRY(whole_number(&options->paths, "--paths", args->paths, MOST_PATHS, err));
    for (size_t i = 0; i < args->n_edits; i++)
        RS_TRY(rs_edit_option(&options->edit, args->edits[i].name, args->edits[i].value, err));
    return RS_OK;
}

static rs_status paths(rs_result *result, cli_job *job, const rs_context *context, rs_error *err)
{
    return rs_paths_path(result, &job->inputs, job->request, context, err);
}

int cli_paths(const cli_args *args)
{
    rs_error err;
    rs_paths_request request = {.path = args->input, .init = args->init, .lenient = args->lenient};
    if (paths_options(&request.options, args, &err) != RS_OK) return cli_fail(&err);
    cli_job job = {.args = args, .request = &request, .work = paths};
    return cli_run(&job);
}
