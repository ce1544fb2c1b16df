/* lambda_layers.c: lines of residual over norm, layer by layer, of random layers and of a model. */
#include "lab/lambda_layers.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>

enum { SIZE = RS_STRENGTHS_SIZE, LINES = RS_LAYER_LINES_MOST, STATES = RS_LAYER_LINES_STATES };
const int32_t rs_layer_lines_states[STATES] = {1, 8, 32, 64};

typedef struct drawn {
    const rs_layer_lines *lines;
    const rs_sweep_spec *spec;
    int32_t draws;
    double sum[LINES][SIZE + 1]; /* over draws, behind every layer */
    double hashed[LINES][STATES];
    double tokens[SIZE * SIZE];
} drawn;

double rs_layer_lines_left(const rs_layer_lines *lines, const rs_strengths_states *states,
                           int32_t line, int32_t layer)
{
    bool setting = lines->by_setting;
    return rs_strengths_left(states, setting ? line : 0, setting ? 0 : line, layer);
}

static rs_status run_stack(rs_strengths_states *found, drawn *f, uint64_t seed, bool hashed,
                           const rs_context *context, rs_error *err)
{
    rs_toy toy;
    *found = (rs_strengths_states){.spec = *f->spec};
    RS_TRY(rs_strengths_mamba2(&toy, "pre", seed, context, err));
    rs_status status = hashed ? rs_strengths_hash_weights(&toy, err) : RS_OK;
    if (status == RS_OK) status = rs_strengths_run_toy(found, &toy, f->tokens, SIZE, err);
    rs_toy_close(&toy);
    return status;
}

static rs_status measure_draws(drawn *f, const rs_context *context, rs_error *err)
{
    const rs_layer_lines *lines = f->lines;
    rs_strengths_states found;
    for (int32_t i = 0; i < f->draws; i++) {
        uint64_t seed = rs_strengths_seed(context, i);
        rs_random random = rs_random_new(seed, lines->stream);
        rs_progress(context, lines->id, (uint64_t)i, (uint64_t)f->draws, "networks");
        rs_strengths_tokens(f->tokens, &random);
        RS_TRY(run_stack(&found, f, seed, false, context, err));
        for (int32_t s = 0; s < lines->n; s++)
            for (int32_t l = 0; l <= SIZE; l++)
                f->sum[s][l] += rs_layer_lines_left(lines, &found, s, l);
        rs_strengths_close(&found);
    }
    rs_strengths_hash_tokens(f->tokens);
    RS_TRY(run_stack(&found, f, 0, true, context, err));
    for (int32_t s = 0; s < lines->n; s++)
        for (int k = 0; k < STATES; k++)
            f->hashed[s][k] = rs_layer_lines_left(lines, &found, s, rs_layer_lines_states[k]);
    rs_strengths_close(&found);
    return RS_OK;
}

static rs_status claim_draws(rs_lab_report *report, const drawn *f, rs_error *err)
{
    const rs_layer_lines *lines = f->lines;
    double worst = 0;
    for (int32_t s = 0; s < lines->n; s++)
        for (int k = 0; k < STATES; k++) {
            char text[120];
            int32_t layer = rs_layer_lines_states[k];
            snprintf(text, sizeof text, "%s, layer %d: mean residual over norm", lines->claims[s],
                     (int)layer);
            RS_TRY(rs_strengths_expect(report, text, lines->expected[s][k],
                                       f->sum[s][layer] / f->draws, f->draws, 0, err));
            worst = fmax(worst, fabs(f->hashed[s][k] - lines->hashed[s][k]));
        }
    return rs_lab_at_most(report, "weights from a hash: largest error over all of these", worst,
                          1e-9, err);
}

static rs_status show_draws(rs_lab_report *report, const drawn *f, rs_error *err)
{
    rs_table *table = NULL;
    RS_TRY(rs_lab_curves_open(&table, report, f->lines->curves, err));
    for (int32_t s = 0; s < f->lines->n; s++)
        for (int32_t l = 0; l <= SIZE; l++)
            RS_TRY(rs_lab_curves_add(table, f->lines->series[s], l, f->sum[s][l] / f->draws, err));
    return claim_draws(report, f, err);
}

rs_status rs_layer_lines_draw(rs_lab_report *report, const rs_layer_lines *lines,
                              const rs_sweep_spec *spec, const rs_lab_options *options,
                              const rs_context *context, rs_error *err)
{
    drawn *f = rs_calloc(1, sizeof *f);
    if (!f) return rs_fail_memory(err, "an experiment", sizeof *f);
    f->lines = lines;
    f->spec = spec;
    f->draws = options->quick ? RS_STRENGTHS_QUICK_DRAWS : RS_STRENGTHS_DRAWS;
    rs_status status = measure_draws(f, context, err);
    if (status == RS_OK) status = show_draws(report, f, err);
    rs_free(f);
    return status;
}

rs_status rs_layer_lines_show(rs_lab_report *report, const rs_layer_lines *lines,
                              const rs_strengths_states *states, rs_error *err)
{
    rs_table *table = NULL;
    int32_t n = lines->by_setting ? states->settings : lines->n;
    RS_TRY(rs_lab_curves_open(&table, report, lines->curves, err));
    for (int32_t s = 0; s < n; s++)
        for (int32_t l = 0; l <= states->layers; l++)
            RS_TRY(rs_lab_curves_add(table, lines->series[s], l,
                                     rs_layer_lines_left(lines, states, s, l), err));
    return RS_OK;
}
