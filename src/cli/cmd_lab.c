/* cmd_lab.c: `rankscope lab`. */
#include "cli/cli.h"

#include "lab/lab.h"

#include <string.h>

static rs_status check_words(const cli_args *args, rs_error *err)
{
    static const char usage[] =
        "'rankscope lab list' shows the experiments, 'rankscope lab run ID' "
        "does one, 'rankscope lab run all' all";
    bool list = strcmp(args->input, "list") == 0, run = strcmp(args->input, "run") == 0;
    if (!list && !run) return rs_fail(err, RS_E_USAGE, args->input, usage, "lab can list and run");
    if (run && !args->second)
        return rs_fail(err, RS_E_USAGE, "lab run", usage, "needs the name of an experiment");
    if (list && args->second)
        return rs_fail(err, RS_E_USAGE, args->second, usage, "lab list takes no name");
    return RS_OK;
}

static rs_status lab(rs_result *result, cli_job *job, const rs_context *context, rs_error *err)
{
    const cli_args *args = job->args;
    rs_lab_options options = {.quick = args->quick};
    if (strcmp(args->input, "list") == 0) return rs_lab_list(result, err);
    return rs_lab_run(result, args->second, &options, context, err);
}

int cli_lab(const cli_args *args)
{
    rs_error err;
    if (check_words(args, &err) != RS_OK) return cli_fail(&err);
    cli_job job = {.args = args, .work = lab, .tables = args->second ? "claims" : "experiments"};
    return cli_run(&job);
}
