/* inputs_findings.c: what a person should know of the inputs, seen from the model. */
#include "observe/inputs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static rs_status add_finding(rs_result *result, rs_severity severity, const char *code,
                             int64_t value, int64_t threshold, const char *message,
                             const char *hint, rs_error *err)
{
    rs_finding f = rs_finding_of(severity, code);
    f.value = (double)value;
    f.threshold = threshold >= 0 ? (double)threshold : NAN;
    f.message = message;
    f.hint = hint;
    return rs_result_add_finding(result, &f, err);
}

/* Rotary positions have no end, but what a model does behind the length it was trained for is
 * extrapolation: a collapse there is no finding about the model as it is used. */
static rs_status trained_length(rs_result *result, const rs_network *network,
                                const rs_inputs *inputs, int64_t generate, rs_error *err)
{
    int64_t trained = network->trained_positions, length = inputs->longest;
    char message[300], more[64] = "";
    if (generate > 0) {
        length += generate;
        snprintf(more, sizeof more, " (with %lld to be generated)", (long long)generate);
    }
    if (trained <= 0 || length <= trained) return RS_OK;
    snprintf(message, sizeof message,
             "the longest sample has %lld tokens%s, the configuration is for %lld "
             "(max_position_embeddings): rotary positions go on, what the model learnt does not",
             (long long)length, more, (long long)trained);
    return add_finding(result, RS_WARN, "beyond_trained_length", length, trained, message,
                       "shorter samples (--seq-len) show the model as it was trained", err);
}

static rs_status padding(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                         rs_error *err)
{
    int64_t n = 0, samples = 0;
    char message[300];
    if (network->padding_id < 0 || !inputs->ids || strcmp(inputs->kind, "tokens") != 0)
        return RS_OK;
    for (int64_t s = 0; s < inputs->samples; s++) {
        int64_t before = n;
        for (int64_t i = inputs->begin[s]; i < inputs->begin[s + 1]; i++)
            n += inputs->ids[i] == network->padding_id;
        samples += n > before;
    }
    if (n == 0) return RS_OK;
    snprintf(
        message, sizeof message,
        "%lld of the ids given, in %lld %s, %s %lld, the configuration's pad_token_id: they are "
        "tokens like others here; transformers gives them no position of their own and counts "
        "the following ones without them",
        (long long)n, (long long)samples, samples == 1 ? "sample" : "samples",
        n == 1 ? "is" : "are", (long long)network->padding_id);
    return add_finding(
        result, RS_INFO, "padding_id", n, -1, message,
        "if they pad samples to one length, give ragged rows as JSON instead: [[5, 6], [7]]", err);
}

rs_status rs_input_findings(rs_result *result, const rs_network *network, const rs_inputs *inputs,
                            int64_t generate, rs_error *err)
{
    RS_TRY(trained_length(result, network, inputs, generate, err));
    return padding(result, network, inputs, err);
}
