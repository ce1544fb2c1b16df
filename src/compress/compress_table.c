/* compress_table.c: table compression (--energy), and its one sentence an energy. */
#include "compress/compress_parts.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>

static const rs_column columns[] = {
    {.name = "energy", RS_CELL(rs_compression, energy), .formula = "fraction of Σσ² to keep"},
    {.name = "weighting",
     RS_CELL(rs_compression, weighing),
     .formula = "weights: ranks and truncations of the matrices M; activations: those of XM, X the "
                "rows that M reads (--text), where X is known"},
    {.name = "parameters",
     RS_CELL(rs_compression, parameters),
     .formula = "stored numbers of all attention (or state-space) matrices, each once"},
    {.name = "parameters_left",
     RS_CELL(rs_compression, left),
     .formula = "parameters − parameters_saved"},
    {.name = "parameters_saved",
     RS_CELL(rs_compression, saved),
     .formula = "for each pair of factors by its two matrices or by its products, what saves more"},
    {.name = "share", RS_CELL(rs_compression, share), .formula = "parameters_saved / parameters"},
    {.name = "matrices",
     RS_CELL(rs_compression, matrices),
     .formula = "stored matrices that are replaced by two factors"},
    {.name = "products",
     RS_CELL(rs_compression, products),
     .formula = "products that take the place of their factors"},
    {.name = "tokens",
     RS_CELL(rs_compression, tokens),
     .formula = "next tokens that the losses are over"},
    {.name = "nll",
     RS_CELL(rs_compression, nll),
     .unit = "nats",
     .formula = "mean of −ln p of the next token, of the model as it is"},
    {.name = "nll_truncated",
     RS_CELL(rs_compression, nll_cut),
     .unit = "nats",
     .formula = "the same of the model with the truncations inside, rounded as it stores them"},
    {.name = "loss_change",
     RS_CELL(rs_compression, change),
     .unit = "nats",
     .formula = "nll_truncated − nll; null: it was not measured, and column reason says why"},
    {.name = "reason",
     RS_CELL(rs_compression, reason),
     .formula = "why there is no loss; null: there is"},
};
const rs_table_kind rs_scan_compression_kind = {"scan", "compression", {RS_PART(columns)}};

rs_status rs_compression_table(rs_table **out, rs_result *result, rs_error *err)
{
    return rs_result_add_table(result, "compression", "What a smaller model loses",
                               "At each energy of --energy: the parameters that are left, and how "
                               "much worse the model predicts with the truncations inside",
                               columns, sizeof columns / sizeof *columns, out, err);
}

/* "29.5 M" */
static const char *amount(char text[32], int64_t n)
{
    static const struct {
        double size;
        const char *unit;
    } units[] = {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if ((double)n >= 0.9995 * units[i].size) {
            snprintf(text, 32, "%.3g%s", (double)n / units[i].size, units[i].unit);
            return text;
        }
    snprintf(text, 32, "%lld", (long long)n);
    return text;
}

static rs_status say(rs_result *result, const rs_compression *row, rs_error *err)
{
    char message[700], before[32], after[32], loss[400];
    if (row->reason)
        snprintf(loss, sizeof loss, "loss not measured: %.300s", row->reason);
    else
        snprintf(loss, sizeof loss, "expected loss change measured: %+.4g nats over %lld tokens",
                 row->change, (long long)row->tokens);
    snprintf(
        message, sizeof message,
        "at %.6g %% of the energy of the %s: %s -> %s attention parameters (%.3g %% saved), %s",
        100 * row->energy, row->weighing, amount(before, row->parameters), amount(after, row->left),
        100 * row->share, loss);
    rs_finding f = rs_finding_of(RS_INFO, "compression");
    f.message = message;
    f.value = row->share;
    f.table = "compression";
    f.cases = "energies";
    f.worst = "most saved";
    f.hint = row->written ? NULL : "--write DIR with one energy writes that model, and its factors";
    return rs_result_add_finding(result, &f, err);
}

rs_status rs_compression_written(rs_result *result, const char *folder, double energy,
                                 rs_error *err)
{
    rs_buffer message = {0}, hint = {0};
    rs_finding f = rs_finding_of(RS_INFO, "written");
    rs_buffer_printf(&message,
                     "%s has the checkpoint as it is at %.6g %% of the energy, %s/factors its "
                     "small factors and load.py, their loader for PyTorch",
                     folder, 100 * energy, folder);
    rs_buffer_printf(&hint,
                     "%s loads as the model itself does; with its small factors in Python: "
                     "sys.path.insert(0, \"%s/factors\"); import load; model = load.load(model)",
                     folder, folder);
    f.message = message.data;
    f.hint = hint.data;
    rs_status status = message.failed || hint.failed ? rs_fail_memory(err, "a finding", 0)
                                                     : rs_result_add_finding(result, &f, err);
    rs_buffer_free(&message);
    rs_buffer_free(&hint);
    return status;
}

rs_status rs_compression_add(rs_table *table, rs_result *result, const rs_compression *row,
                             rs_error *err)
{
    RS_TRY(rs_table_append(table, row, err));
    return say(result, row, err);
}
