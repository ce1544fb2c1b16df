/* cmd_lab.c: `rankscope lab`. */
#include "cli/cli.h"

#include "lab/lab.h"

#include <math.h>
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

static rs_status fill(rs_result *result, const cli_args *args, rs_error *err)
{
    rs_context context = cli_context(args);
    rs_lab_options options = {.quick = args->quick};
    RS_TRY(cli_set_meta(result, args, NAN, err));
    if (strcmp(args->input, "list") == 0) return rs_lab_list(result, err);
    return rs_lab_run(result, args->second, &options, &context, err);
}

int cli_lab(const cli_args *args)
{
    double started = cli_now();
    rs_error err;
    if (check_words(args, &err) != RS_OK) return cli_fail(&err);
    cli_args shown = *args;
    if (!shown.tables) shown.tables = args->second ? "claims" : "experiments";
    rs_result *result = rs_result_new("lab");
    rs_status status =
        result ? fill(result, args, &err) : rs_fail_memory(&err, "result", sizeof(void *));
    if (status == RS_OK) return cli_finish(result, &shown, started, NULL, 0);
    rs_result_free(result);
    return cli_fail(&err);
}
