/* cmd_certify.c: `rankscope certify`. */
#include "certify/certify.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>

static rs_status parse_kept(double *kept, const char *text, rs_error *err)
{
    char *end;
    if (!text) return RS_OK;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || *end || !(value > 0 && value < 1))
        return rs_fail(err, RS_E_BAD_OPTION, "--kept",
                       "give a fraction between 0 and 1, such as 0.9", "cannot take '%s'", text);
    *kept = value;
    return RS_OK;
}

static rs_status options_of(rs_certify_options *options, const cli_args *args, rs_error *err)
{
    rs_certify_defaults(options);
    RS_TRY(parse_kept(&options->kept, args->kept, err));
    options->source = cli_source(args);
    options->batch = (int64_t)args->batch;
    options->rigorous = args->rigorous;
    for (size_t i = 0; i < args->n_edits; i++)
        RS_TRY(rs_edit_option(&options->edit, args->edits[i].name, args->edits[i].value, err));
    options->edited = args->n_edits > 0;
    return RS_OK;
}

static rs_status certify(rs_result *result, cli_job *job, const rs_context *context, rs_error *err)
{
    return rs_certify_path(result, &job->inputs, job->request, context, err);
}

int cli_certify(const cli_args *args)
{
    rs_error err;
    rs_certify_request request = {
        .path = args->input, .init = args->init, .lenient = args->lenient};
    if (options_of(&request.options, args, &err) != RS_OK) return cli_fail(&err);
    cli_job job = {.args = args, .request = &request, .work = certify};
    return cli_run(&job);
}
