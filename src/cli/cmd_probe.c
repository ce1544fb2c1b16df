/* cmd_probe.c: `rankscope probe`. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_MAPS = 64,
    MOST_GENERATED = 4096 /* each token is a pass over all before it */
};

/* ---- options ---- */

static rs_status parse_maps(rs_map_choice *maps, size_t *n, const char *text, rs_error *err)
{
    for (const char *p = text;;) {
        char *end;
        errno = 0;
        long layer = strtol(p, &end, 10);
        bool valid = end != p && *p >= '0' && *p <= '9' && *end == ':';
        const char *second = valid ? end + 1 : p;
        long head = valid ? strtol(second, &end, 10) : 0;
        valid = valid && end != second && *second >= '0' && *second <= '9' && !errno;
        if (!valid || (*end && *end != ',') || layer > INT32_MAX || head > INT32_MAX)
            return rs_fail(err, RS_E_BAD_OPTION, "--attention-maps",
                           "give layer:head pairs counted from 0, such as 0:0,5:11",
                           "'%s' is no list of layers and heads", text);
        if (*n == MOST_MAPS)
            return rs_fail(err, RS_E_BAD_OPTION, "--attention-maps", NULL, "at most %d heads",
                           MOST_MAPS);
        maps[(*n)++] = (rs_map_choice){(int32_t)layer, (int32_t)head};
        if (!*end) return RS_OK;
        p = end + 1;
    }
}

static rs_status parse_edits(rs_probe_options *options, const cli_args *args, rs_error *err)
{
    for (size_t i = 0; i < args->n_edits; i++)
        RS_TRY(rs_edit_option(&options->edit, args->edits[i].name, args->edits[i].value, err));
    /* Reading all states together changes none of them. */
    for (size_t i = 0; i < args->n_edits; i++)
        options->edited |= strcmp(args->edits[i].name, "fusion") != 0;
    if (!args->compat) return RS_OK;
    if (strcmp(args->compat, "dong2021-code") != 0)
        return rs_fail(err, RS_E_BAD_OPTION, "--compat", "dong2021-code is the one that there is",
                       "no definitions are known as '%s'", args->compat);
    options->edit.dong2021_code = true;
    return RS_OK;
}

static rs_status check_refused(const cli_args *args, rs_error *err)
{
    if (args->grad)
        return rs_fail(err, RS_E_UNSUPPORTED, "--grad",
                       "leave it out; table attention shows what starves the gradients (entropy, "
                       "logit variance)",
                       "there is no backward pass yet");
    return RS_OK;
}

static rs_centre centre_of(const char *name)
{
    return strcmp(name, "median") == 0 ? RS_CENTRE_MEDIAN
           : strcmp(name, "lp") == 0   ? RS_CENTRE_LP
                                       : RS_CENTRE_MEAN;
}

static rs_precision precision_of(const char *name)
{
    return strcmp(name, "f64") == 0        ? RS_PRECISION_F64
           : strcmp(name, "residual") == 0 ? RS_PRECISION_RESIDUAL
                                           : RS_PRECISION_F32;
}

static rs_status parse_thresholds(rs_probe_thresholds *t, const char *text, rs_error *err)
{
    const cli_threshold known[] = {{"token_collapse", &t->token_collapse},
                                   {"attention_sink", &t->attention_sink},
                                   {"uniform_attention", &t->uniform_attention},
                                   {"condensed_attention", &t->condensed_attention}};
    return cli_parse_thresholds(text, known, sizeof known / sizeof *known, err);
}

static rs_status probe_options(rs_probe_options *options, rs_map_choice *maps, const cli_args *args,
                               rs_error *err)
{
    rs_probe_defaults(options);
    RS_TRY(check_refused(args, err));
    if (args->generate > MOST_GENERATED)
        return rs_fail(err, RS_E_BAD_OPTION, "--generate", "give a smaller number",
                       "%llu is more than %d", (unsigned long long)args->generate,
                       (int)MOST_GENERATED);
    options->source = cli_source(args);
    rs_measure_options *m = &options->measure;
    m->precision = precision_of(args->precision);
    m->spectral = !args->no_spectral;
    m->attention = !args->no_attention;
    m->loss = !args->no_loss && !args->random;
    m->centre = centre_of(args->centre);
    m->batch = (int64_t)args->batch;
    options->variants = args->variants;
    options->taps = args->taps;
    options->output = args->output;
    options->generate = (int64_t)args->generate;
    options->maps = maps;
    RS_TRY(parse_edits(options, args, err));
    if (args->attention_maps) RS_TRY(parse_maps(maps, &options->n_maps, args->attention_maps, err));
    return args->threshold ? parse_thresholds(&options->thresholds, args->threshold, err) : RS_OK;
}

/* ---- running ---- */

static rs_status probe(rs_result *result, cli_job *job, const rs_context *context, rs_error *err)
{
    return rs_probe_path(result, &job->inputs, job->request, context, err);
}

int cli_probe(const cli_args *args)
{
    rs_error err;
    rs_map_choice maps[MOST_MAPS];
    rs_probe_request request = {.path = args->input,
                                .init = args->init,
                                .lenient = args->lenient,
                                .scan = args->scan_too,
                                .certify = args->certify_too,
                                .rigorous = args->rigorous};
    if (args->rigorous && !args->certify_too) {
        rs_fail(&err, RS_E_USAGE, "--rigorous", "add --certify",
                "there is nothing to certify without it");
        return cli_fail(&err);
    }
    if (probe_options(&request.options, maps, args, &err) != RS_OK) return cli_fail(&err);
    cli_job job = {.args = args, .request = &request, .work = probe};
    return cli_run(&job);
}
