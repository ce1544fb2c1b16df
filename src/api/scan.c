/* scan.c: rs_scan_checkpoint and rs_session_scan. */
#include "api/check.h"
#include "api/command.h"
#include "compress/compress.h"
#include "scan/series.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static void defaults(rs_any_settings *settings)
{
    settings->scan.last_layer = -1;
    settings->scan.tolerance = -1;
}

static rs_status check_tolerance(const rs_scan_settings *s, rs_error *err)
{
    if (s->tolerance == -1 || (isfinite(s->tolerance) && s->tolerance >= 0)) return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, "tolerance", "give a number such as 1e-6, or -1",
                   "%g is no tolerance", s->tolerance);
}

static rs_status take_energies(rs_scan_options *options, const rs_scan_settings *s, rs_error *err)
{
    RS_TRY(rs_check_array(s->energies, s->n_energies, "energies", err));
    if (s->n_energies > RS_MAX_ENERGIES)
        return rs_fail(err, RS_E_BAD_OPTION, "energies", NULL, "at most %d fractions",
                       RS_MAX_ENERGIES);
    for (size_t i = 0; i < s->n_energies; i++)
        if (!(s->energies[i] > 0 && s->energies[i] <= 1))
            return rs_fail(err, RS_E_BAD_OPTION, "energies", "give fractions such as 0.9",
                           "%g is no fraction above 0 and up to 1", s->energies[i]);
    if (s->n_energies) memcpy(options->energies, s->energies, s->n_energies * sizeof *s->energies);
    options->n_energies = s->n_energies;
    return RS_OK;
}

static rs_status take_thresholds(rs_scan_options *options, const rs_scan_settings *s, rs_error *err)
{
    rs_scan_thresholds *t = &options->thresholds;
    const rs_known_threshold known[] = {{"qk_low_rank", &t->qk_low_rank},
                                        {"ov_low_rank", &t->ov_low_rank},
                                        {"dead_head", &t->dead_head},
                                        {"decay_equilibrium", &t->decay_equilibrium},
                                        {"rank_falls", &t->rank_falls}};
    RS_TRY(rs_take_thresholds(known, sizeof known / sizeof *known, s->thresholds, s->n_thresholds,
                              err));
    if (t->rank_falls <= 1) return RS_OK;
    return rs_fail(
        err, RS_E_BAD_OPTION, "thresholds",
        "rank_falls is the share of its highest rank that a layer lost: give one from 0 to 1",
        "rank_falls=%g: no rank loses more than all of itself", t->rank_falls);
}

static rs_status options_of(rs_scan_options *options, const rs_scan_settings *s, rs_error *err)
{
    const rs_range ranges[] = {{"first_layer", s->first_layer, 0, INT_MAX},
                               {"last_layer", s->last_layer, -1, INT_MAX}};
    RS_TRY(RS_CHECK_RANGES(ranges, err));
    RS_TRY(check_tolerance(s, err));
    rs_scan_defaults(options);
    options->heads.fold = (rs_fold){.norms = s->fold_norms, .biases = s->with_bias};
    options->heads.first_layer = s->first_layer;
    if (s->last_layer >= 0) options->heads.last_layer = s->last_layer;
    if (s->tolerance >= 0) options->heads.tolerance = s->tolerance;
    options->spectra = s->spectra;
    options->matrices = s->matrices;
    RS_TRY(take_energies(options, s, err));
    return take_thresholds(options, s, err);
}

/* What is about a text, and what cannot be with one. */
static rs_status check_text(const rs_scan_settings *s, const rs_subject *subject, rs_error *err)
{
    const rs_range ranges[] = {
        {"seq_len", s->seq_len, 0, RS_MOST_COUNT},
        {"samples", s->samples, 0, RS_MOST_COUNT},
        {"precision", (int64_t)s->precision, RS_PRECISION_F32, RS_PRECISION_F64}};
    const struct {
        bool given;
        const char *name, *what, *hint;
    } against[] = {
        {s->n_energies == 0, "text", "weighs the ranks of --energy, which is not given",
         "add --energy 0.9,0.99"},
        {s->fold_norms, "fold-norms", "folds norms into matrices, which a text runs through before",
         "leave one of the two out"},
        {s->with_bias, "with-bias",
         "makes biases part of matrices, and what a text shows is not "
         "about them",
         "leave one of the two out"},
        {s->map != NULL, "map", "names tensors, not how a model runs: a text cannot be run",
         "leave one of the two out"}};
    RS_TRY(RS_CHECK_RANGES(ranges, err));
    RS_TRY(rs_check_texts(NULL, s->texts, s->n_texts, err));
    for (size_t i = 0; i < sizeof against / sizeof *against && s->n_texts > 0; i++)
        if (against[i].given)
            return rs_fail(err, RS_E_USAGE, against[i].name, against[i].hint, "%s",
                           against[i].what);
    if (s->n_texts > 0 && subject->lent)
        return rs_fail(err, RS_E_UNSUPPORTED, s->texts[0], "scan the checkpoint itself",
                       "a model in memory has no tokenizer");
    if (s->n_texts == 0 && (s->seq_len || s->samples))
        return rs_fail(err, RS_E_USAGE, s->seq_len ? "seq-len" : "samples", "give --text FILE too",
                       "is about a text, and there is none");
    return RS_OK;
}

static rs_status check_write(const rs_scan_settings *s, const rs_subject *subject, rs_error *err)
{
    if (!s->write) return RS_OK;
    if (s->n_energies != 1)
        return rs_fail(err, RS_E_USAGE, "write", "give one, such as --energy 0.99",
                       "writes the model that is cut at one energy, and %zu are given",
                       s->n_energies);
    if (s->fold_norms || s->with_bias)
        return rs_fail(err, RS_E_USAGE, s->fold_norms ? "fold-norms" : "with-bias",
                       "leave one of the two out",
                       "makes other matrices of the stored ones, and the stored ones are written");
    if (subject->lent)
        return rs_fail(err, RS_E_UNSUPPORTED, s->write, "scan the checkpoint itself",
                       "a model in memory has no files to write again");
    return RS_OK;
}

static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_scan_settings *s = &task->settings->scan;
    const rs_subject *subject = &task->subject;
    rs_compress_request request = {.scan = {.path = subject->path,
                                            .others = s->others,
                                            .n_others = s->n_others,
                                            .map = s->map,
                                            .lenient = s->lenient},
                                   .source = {.texts = s->texts,
                                              .n_texts = s->n_texts,
                                              .seq_len = s->seq_len,
                                              .samples = s->samples},
                                   .precision = s->precision,
                                   .write = s->write};
    rs_scan_options *options = &request.scan.options;
    RS_TRY(rs_check_others(s->others, s->n_others, subject->lent != NULL, err));
    RS_TRY(options_of(options, s, err));
    RS_TRY(check_text(s, subject, err));
    options->heads.nulls = subject->nulls;
    RS_TRY(check_write(s, subject, err));
    if (subject->lent)
        return rs_compress_model(result, subject->lent->model, options, task->context, err);
    if (s->n_energies == 0 || s->n_others > 0) /* a series refuses energies by name */
        return rs_series_path(result, rs_result_files(result), &request.scan, task->context, err);
    RS_TRY(rs_series_check_alone(&request.scan, err));
    RS_TRY(rs_compress_path(result, rs_result_files(result), &request, task->context, err));
    return s->hold ? RS_OK : rs_place_outputs(result, err);
}

static const rs_command command = {.name = "scan",
                                   .opens = true,
                                   .size = sizeof(rs_scan_settings),
                                   .defaults = defaults,
                                   .fill = fill};

void rs_scan_settings_init(rs_scan_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_scan_checkpoint(rs_result **out, const char *path, const rs_scan_settings *settings,
                             rs_error *err)
{
    return rs_answer_path(out, &command, path, settings, err);
}

rs_status rs_session_scan(rs_result **out, rs_session *session, const rs_scan_settings *settings,
                          rs_error *err)
{
    return rs_answer_session(out, &command, session, settings, err);
}
