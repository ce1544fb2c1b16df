/* probe.c: rs_probe_checkpoint and rs_session_probe. */
#include "probe/probe.h"
#include "api/check.h"
#include "api/command.h"
#include "api/probe_path.h"
#include "probe/probe_sweep.h"

#include <string.h>

enum {
    MOST_GENERATED = 4096 /* each token is a pass over all before it */
};

/* What is about gradients, and what does not go with them. */
static rs_status check_gradients(const rs_probe_settings *s, rs_error *err)
{
    const struct {
        bool given;
        const char *name;
    } about[] = {
        {s->loss != RS_GRAD_LOSS_AUTO, "loss"},    {s->loss_at != RS_GRAD_AT_AUTO, "loss-at"},
        {s->freeze_attention, "freeze-attention"}, {s->freeze_norm, "freeze-norm"},
        {s->target && !s->relevance, "target"},    {s->recompute && !s->relevance, "recompute"}};
    for (size_t i = 0; i < sizeof about / sizeof *about && !s->grad; i++)
        if (about[i].given)
            return rs_fail(err, RS_E_USAGE, about[i].name,
                           i < 4 ? "ask for grad too" : "ask for grad too, or for relevance",
                           "it is about gradients, and none are taken");
    if (!s->grad) return RS_OK;
    if (s->sweep)
        return rs_fail(err, RS_E_UNSUPPORTED, "grad",
                       "take --lambda or --variants, one strength at a time",
                       "the points of a sweep run side by side, which has no way back");
    return RS_OK;
}

static rs_status check_ranks(const rs_probe_settings *s, rs_error *err)
{
    const char *other = s->sweep                                ? "a sweep"
                        : s->grad                               ? "gradients"
                        : s->relevance                          ? "relevance"
                        : s->precision == RS_PRECISION_RESIDUAL ? "the residual precision"
                                                                : NULL;
    if (!s->attention_rank || !other) return RS_OK;
    return rs_fail(err, RS_E_UNSUPPORTED, "attention-rank",
                   s->precision == RS_PRECISION_RESIDUAL ? "take --precision f64 or f32"
                                                         : "run them apart",
                   "attention of lower rank has not what %s needs: rows that sum to 1, and a way "
                   "back",
                   other);
}

static rs_status check_relevance(const rs_probe_settings *s, rs_error *err)
{
    if (!s->relevance) return RS_OK;
    if (s->sweep)
        return rs_fail(err, RS_E_UNSUPPORTED, "relevance",
                       "take --lambda or --variants, one strength at a time",
                       "the points of a sweep run side by side, which has no way back");
    if (s->precision == RS_PRECISION_RESIDUAL)
        return rs_fail(
            err, RS_E_UNSUPPORTED, "relevance", "take --precision f64 or f32",
            "the residual precision explains no single outputs: f64 conserves relevance to "
            "1e-12 of its terms");
    return RS_OK;
}

static rs_status check(const rs_probe_settings *s, rs_error *err)
{
    const rs_range ranges[] = {
        {"precision", (int)s->precision, RS_PRECISION_F32, RS_PRECISION_RESIDUAL},
        {"centre", (int)s->centre, RS_CENTRE_MEAN, RS_CENTRE_GRAPH},
        {"generate", s->generate, 0, MOST_GENERATED},
        {"loss", (int)s->loss, RS_GRAD_LOSS_AUTO, RS_GRAD_LOSS_NORM2},
        {"loss-at", (int)s->loss_at, RS_GRAD_AT_AUTO, RS_GRAD_AT_FINAL},
    };
    RS_TRY(RS_CHECK_RANGES(ranges, err));
    RS_TRY(check_gradients(s, err));
    RS_TRY(check_ranks(s, err));
    RS_TRY(check_relevance(s, err));
    RS_TRY(rs_check_heads(s->maps, s->n_maps, "maps", err));
    if (s->null && strcmp(s->null, "random") != 0)
        return rs_fail(err, RS_E_BAD_OPTION, "null", "random is the one that there is",
                       "there is no null '%s'", s->null);
    if (s->mixing && s->no_mixing)
        return rs_fail(err, RS_E_USAGE, "mixing", "give one of the two",
                       "no-mixing leaves out what mixing asks for");
    if (s->null && s->no_attention)
        return rs_fail(err, RS_E_USAGE, "null", "leave out --no-attention",
                       "the null is that of table attention, which is left out");
    if ((s->rigorous || s->fast) && !s->certify)
        return rs_fail(err, RS_E_USAGE, s->fast ? "fast" : "rigorous", "ask for certify too",
                       "there is nothing to certify without it");
    if (s->rigorous && s->fast)
        return rs_fail(err, RS_E_USAGE, "fast", "give one of the two",
                       "rigorous leaves out what fast shows");
    rs_sweep_spec sweep;
    if (s->sweep) RS_TRY(rs_sweep_parse(&sweep, s->sweep, err));
    return rs_check_two_files(s->output, s->taps, "output", "taps", err);
}

static rs_status take_compat(rs_edit *edit, const char *name, rs_error *err)
{
    if (!name) return RS_OK;
    edit->dong2021_code = strcmp(name, "dong2021-code") == 0;
    edit->mamba2_ungrouped = strcmp(name, "mamba2-ungrouped") == 0;
    if (edit->dong2021_code || edit->mamba2_ungrouped) return RS_OK;
    return rs_fail(err, RS_E_BAD_OPTION, "compat", "there are dong2021-code and mamba2-ungrouped",
                   "no definitions are known as '%s'", name);
}

static rs_status take_edits(rs_probe_options *o, const rs_probe_settings *s, rs_arena *arena,
                            rs_error *err)
{
    RS_TRY(rs_edit_of(&o->edit, NULL, &s->run, NULL, arena, err));
    /* Reading all states together changes none of them. */
    for (size_t i = 0; i < s->run.n_edits; i++)
        o->edited |= strcmp(s->run.edits[i].name, "fusion") != 0;
    return take_compat(&o->edit, s->compat, err);
}

static rs_status take_thresholds(rs_probe_thresholds *t, const rs_probe_settings *s, rs_error *err)
{
    const rs_known_threshold known[] = {{"token_collapse", &t->token_collapse},
                                        {"slow_collapse", &t->slow_collapse},
                                        {"attention_sink", &t->attention_sink},
                                        {"uniform_attention", &t->uniform_attention},
                                        {"condensed_attention", &t->condensed_attention},
                                        {"low_rank_attention", &t->low_rank_attention},
                                        {"attention_rank", &t->attention_rank},
                                        {"vanishing_qk_gradient", &t->vanishing_qk_gradient},
                                        {"gradient_imbalance", &t->gradient_imbalance}};
    return rs_take_thresholds(known, sizeof known / sizeof *known, s->thresholds, s->n_thresholds,
                              err);
}

static rs_status options_of(rs_probe_options *o, const rs_probe_settings *s, rs_arena *arena,
                            rs_error *err)
{
    RS_TRY(check(s, err));
    rs_probe_defaults(o);
    o->source = rs_source_of(&s->run);
    o->measure.precision = s->precision;
    o->measure.spectral = !s->no_spectral;
    o->measure.attention = !s->no_attention;
    if (s->mixing || s->no_mixing) o->measure.mixing = s->mixing ? RS_MIXING_ALL : RS_MIXING_NONE;
    o->measure.quadratic = s->quadratic;
    o->measure.loss = !s->no_loss && s->run.random == 0;
    o->measure.centre = s->centre;
    o->measure.batch = s->run.batch;
    o->variants = s->variants;
    o->ranks = s->attention_rank;
    o->sweep = s->sweep;
    o->grad = s->grad;
    o->loss = (rs_loss_request){.loss = s->loss, .at = s->loss_at};
    if (!s->relevance || s->loss == RS_GRAD_LOSS_CLASS) o->loss.target = s->target;
    o->relevance = s->relevance;
    o->explained = s->target;
    o->back = (rs_gradient_plan){.recompute = s->recompute,
                                 .hold = (s->freeze_attention ? RS_HOLD_ATTENTION : 0u) |
                                         (s->freeze_norm ? RS_HOLD_NORM : 0u)};
    o->maps = s->maps;
    o->n_maps = s->n_maps;
    o->generate = s->generate;
    o->output = s->output;
    o->taps = s->taps;
    RS_TRY(take_edits(o, s, arena, err));
    return take_thresholds(&o->thresholds, s, err);
}

static rs_status fill_one(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_probe_settings *s = &task->settings->probe;
    rs_probe_request request = {.lent = task->subject.lent,
                                .path = task->subject.path,
                                .init = s->run.init,
                                .lenient = s->run.lenient,
                                .scan = s->scan,
                                .certify = s->certify,
                                .twin = s->null != NULL,
                                .rigorous = !s->fast};
    RS_TRY(options_of(&request.options, s, task->arena, err));
    RS_TRY(rs_probe_path(result, rs_result_files(result), &request, task->context, err));
    return s->hold ? RS_OK : rs_place_outputs(result, err);
}

/* A file of activations is one model's. */
static rs_status fill(rs_result *result, const rs_task *task, rs_error *err)
{
    const rs_probe_settings *s = &task->settings->probe;
    if (s->n_others > 0 && (s->output || s->taps))
        return rs_fail(err, RS_E_USAGE, s->output ? "output" : "taps", "probe that model by itself",
                       "the file holds one model's numbers, and these are several");
    return rs_fill_beside(result, task, s->others, s->n_others, fill_one, err);
}

static const rs_command command = {
    .name = "probe", .opens = true, .size = sizeof(rs_probe_settings), .runs = true, .fill = fill};

void rs_probe_settings_init(rs_probe_settings *settings, size_t size)
{
    rs_settings_init(settings, size, &command);
}

rs_status rs_probe_checkpoint(rs_result **out, const char *path, const rs_probe_settings *settings,
                              rs_error *err)
{
    return rs_answer_path(out, &command, path, settings, err);
}

rs_status rs_session_probe(rs_result **out, rs_session *session, const rs_probe_settings *settings,
                           rs_error *err)
{
    return rs_answer_session(out, &command, session, settings, err);
}
