/* cmd_scan.c: `rankscope scan`. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

static rs_status parse_layers(rs_scan_options *options, const char *text, rs_error *err)
{
    char *end;
    errno = 0;
    long first = strtol(text, &end, 10), last = first;
    bool valid = end != text && text[0] != '-';
    if (valid && *end == '-') {
        const char *second = end + 1;
        last = strtol(second, &end, 10);
        valid = end != second && *second != '-';
    }
    if (!valid || *end || errno || first < 0 || last < first || last > INT32_MAX)
        return rs_fail(err, RS_E_BAD_OPTION, "--layers",
                       "give A-B or a single number, counted from 0", "'%s' is no range of layers",
                       text);
    options->heads.first_layer = (int32_t)first;
    options->heads.last_layer = (int32_t)last;
    return RS_OK;
}

static bool parse_real(double *out, const char *text, const char **rest)
{
    char *end;
    *out = strtod(text, &end);
    *rest = end;
    return end != text && isfinite(*out);
}

static rs_status parse_energies(rs_scan_options *options, const char *text, rs_error *err)
{
    for (const char *p = text;;) {
        double value;
        if (!parse_real(&value, p, &p) || !(value > 0 && value <= 1) || (*p && *p != ','))
            return rs_fail(err, RS_E_BAD_OPTION, "--energy", "give fractions such as 0.9,0.95,0.99",
                           "'%s' is no list of fractions above 0 and up to 1", text);
        if (options->n_energies == RS_MAX_ENERGIES)
            return rs_fail(err, RS_E_BAD_OPTION, "--energy", NULL, "at most %d fractions",
                           RS_MAX_ENERGIES);
        options->energies[options->n_energies++] = value;
        if (!*p) return RS_OK;
        p++;
    }
}

static rs_status parse_thresholds(rs_scan_options *options, const char *text, rs_error *err)
{
    const cli_threshold known[] = {{"qk_low_rank", &options->thresholds.qk_low_rank},
                                   {"ov_low_rank", &options->thresholds.ov_low_rank},
                                   {"dead_head", &options->thresholds.dead_head},
                                   {"decay_equilibrium", &options->thresholds.decay_equilibrium}};
    return cli_parse_thresholds(text, known, sizeof known / sizeof *known, err);
}

static rs_status scan_options(rs_scan_options *options, const cli_args *args, rs_error *err)
{
    rs_scan_defaults(options);
    options->heads.fold = (rs_fold){.norms = args->fold_norms, .biases = args->with_bias};
    options->spectra = args->spectra;
    if (strcmp(args->precision, "residual") == 0)
        return rs_fail(err, RS_E_UNSUPPORTED, "--precision", "leave it out",
                       "scan has no forward pass: it works in float64");
    if (args->matrices && strcmp(args->matrices, "attention") != 0)
        options->matrices = args->matrices;
    if (args->layers) RS_TRY(parse_layers(options, args->layers, err));
    if (args->energy) RS_TRY(parse_energies(options, args->energy, err));
    if (args->threshold) RS_TRY(parse_thresholds(options, args->threshold, err));
    const char *rest;
    if (args->tol && (!parse_real(&options->heads.tolerance, args->tol, &rest) || *rest ||
                      options->heads.tolerance < 0))
        return rs_fail(err, RS_E_BAD_OPTION, "--tol", "give a number such as 1e-6",
                       "'%s' is no tolerance", args->tol);
    return RS_OK;
}

/* ---- running ---- */

static rs_status scan(rs_result *result, cli_job *job, const rs_context *context, rs_error *err)
{
    return rs_scan_path(result, &job->inputs, job->request, context, err);
}

int cli_scan(const cli_args *args)
{
    rs_error err;
    rs_scan_request request = {.path = args->input, .map = args->map, .lenient = args->lenient};
    if (scan_options(&request.options, args, &err) != RS_OK) return cli_fail(&err);
    cli_job job = {.args = args, .request = &request, .work = scan};
    return cli_run(&job);
}
