/* probe_generate.c: greedy continuation of the samples. */
#include "base/memory.h"
#include "probe/probe_parts.h"

#include <stdio.h>

/* A row of table generate. */
typedef struct generate_cells {
    int64_t sample, prompt;
    rs_list ids;
    const char *text;
} generate_cells;

static const rs_column columns[] = {
    {.name = "sample", RS_CELL(generate_cells, sample)},
    {.name = "prompt_tokens", RS_CELL(generate_cells, prompt)},
    {.name = "ids", RS_CELL(generate_cells, ids), .formula = "the most likely next token, N times"},
    {.name = "text", RS_CELL(generate_cells, text)},
};
const rs_table_kind rs_probe_generate_kind = {"probe", "generate", {RS_PART(columns)}};

/* Continued samples, and the places they are put in. */
typedef struct generation {
    rs_result *result;
    rs_table *table;
    const rs_inputs *inputs;
    const rs_tokenizer *tokenizer;
    double *reals; /* [n] */
    int64_t n;
} generation;

static rs_status say_generated(generation *g, int64_t sample, const int32_t *ids, const char *text,
                               rs_error *err)
{
    rs_buffer message = {0};
    rs_buffer_printf(&message, "sample %lld continues with", (long long)sample);
    for (int64_t i = 0; i < g->n; i++)
        rs_buffer_printf(&message, " %d", (int)ids[i]);
    if (text) rs_buffer_printf(&message, ": \"%s\"", text);
    rs_finding f = rs_finding_of(RS_INFO, "generated");
    f.message = message.data;
    f.table = "generate";
    rs_status status = message.failed ? rs_fail_memory(err, "generate", 0)
                                      : rs_result_add_finding(g->result, &f, err);
    rs_buffer_free(&message);
    return status;
}

static rs_status add_row(void *user, int64_t sample, const int32_t *ids, rs_error *err)
{
    generation *g = user;
    int64_t prompt = g->inputs->begin[sample + 1] - g->inputs->begin[sample];
    char *text = NULL;
    for (int64_t i = 0; i < g->n; i++)
        g->reals[i] = ids[i];
    if (g->tokenizer)
        RS_TRY(rs_tokenizer_decode(&text, g->tokenizer, ids, (size_t)g->n, true, err));
    const generate_cells cells = {sample, prompt, {g->reals, (size_t)g->n}, text};
    rs_status status = rs_table_append(g->table, &cells, err);
    if (status == RS_OK) status = say_generated(g, sample, ids, text, err);
    rs_free(text);
    return status;
}

rs_status rs_probe_check_generate(const rs_network *network, const rs_inputs *inputs, int64_t n_new,
                                  rs_error *err)
{
    int64_t limit = network->max_positions;
    bool predicts = network->head.decoder.weight && network->head.next_token;
    if (predicts && !inputs->ids)
        return rs_fail(err, RS_E_UNSUPPORTED, "--generate", "leave it out, or give token ids",
                       "the inputs are no token ids, behind which tokens could be generated");
    if (!predicts)
        return rs_fail(err, RS_E_UNSUPPORTED, "--generate", "leave it out",
                       "this model (%s) predicts no next token", network->family);
    for (int64_t i = 0; i < rs_inputs_prompts(inputs) && limit > 0; i++) {
        int64_t s = rs_inputs_prompt(inputs, i);
        int64_t n = inputs->begin[s + 1] - inputs->begin[s];
        if (n > 0 && n_new > limit - n)
            return rs_fail(err, RS_E_TOO_LONG, "--generate",
                           "generate fewer, or shorten the samples",
                           "%lld tokens behind the %lld of sample %lld are more than the model's "
                           "%lld positions",
                           (long long)n_new, (long long)n, (long long)s, (long long)limit);
    }
    return RS_OK;
}

rs_status rs_probe_generate(rs_result *result, const rs_network *network, rs_weights *weights,
                            const rs_inputs *inputs, const rs_tokenizer *tokenizer,
                            const rs_probe_options *options, const rs_context *context,
                            rs_error *err)
{
    generation g = {
        .result = result, .inputs = inputs, .tokenizer = tokenizer, .n = options->generate};
    RS_TRY(rs_result_add_table(result, "generate", "Continuations",
                               "What the model writes on, the most likely token each time", columns,
                               sizeof columns / sizeof *columns, &g.table, err));
    g.reals = rs_malloc((size_t)g.n, sizeof *g.reals);
    if (!g.reals) return rs_fail_memory(err, "generate", (size_t)g.n * sizeof *g.reals);
    rs_status status =
        rs_observe_continuations(network, weights, inputs, g.n, add_row, &g, context, err);
    rs_free(g.reals);
    return status;
}
