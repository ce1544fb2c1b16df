/*
 * scan_ssm.c: table `ssm`: how fast the states of state-space layers decay at rest, beside what
 * their initialisation gives (docs/scan.md).
 *
 * At rest a token asks for no step of its own (dt = 0): the step is softplus(dt_bias) within its
 * limits, and a state is multiplied by exp(a · step) from token to token (docs/theory/ssm.md, 2-3).
 */
#include "scan/scan.h"

#include <math.h>
#include <stdio.h>

/* A row of table ssm. */
typedef struct ssm_cells {
    int64_t layer, head;
    double decay_min, decay_max, delta_rest, d_mean, d_max;
    double decay_min_null, decay_max_null, delta_rest_null, d_mean_null, d_max_null;
} ssm_cells;

#define CELL(name_, formula_) RS_COLUMN(ssm_cells, name_, #name_, NULL, NULL, formula_, NULL)
#define EXPECTED(name_, formula_)                                                                  \
    RS_COLUMN(ssm_cells, name_, #name_, NULL, NULL, formula_, "predicted")

static const rs_column columns[] = {
    CELL(layer, "from 0"),
    CELL(head, "Mamba-2: head, from 0; null for Mamba, whose row is of all channels"),
    CELL(decay_min, "least exp(a · delta) over channels and states, by what a state is multiplied "
                    "from token to token at rest (Mamba-2: a head has one rate, so least = most)"),
    CELL(decay_max, "greatest exp(a · delta) over channels and states at rest"),
    CELL(delta_rest,
         "step at rest, softplus(dt bias) within its limits; Mamba: mean over channels"),
    CELL(d_mean, "mean of |D|, the direct path"),
    CELL(d_max, "greatest |D|"),
    EXPECTED(decay_min_null, "mean of decay_min at initialisation: A_log = ln 1, ..., ln n, steps "
                             "log-uniform from time_step_min to time_step_max"),
    EXPECTED(decay_max_null, "mean of decay_max at initialisation"),
    EXPECTED(delta_rest_null, "mean of delta_rest at initialisation"),
    EXPECTED(d_mean_null, "d_mean at initialisation: D = 1"),
    EXPECTED(d_max_null, "d_max at initialisation: D = 1"),
};
const rs_table_kind rs_scan_ssm_kind = {"scan", "ssm", {RS_PART(columns)}};

/* ---- the numbers of a layer ---- */

static bool in_run(const rs_ssm_rest *rest, const rs_scan_options *options)
{
    return rest->layer >= options->heads.first_layer && rest->layer <= options->heads.last_layer;
}

static bool usable(const rs_tensor *tensor, int64_t count)
{
    return tensor && tensor->count == count && rs_dtype_decodable(tensor->dtype);
}

/* One tensor that the layer's rows are made of. */
typedef struct numbers {
    const rs_tensor *tensor;
    const char *what; /* for messages, when it is absent */
    int64_t count;
    double *values; /* NULL: none are to be had */
} numbers;

enum { RATE, STEP, DIRECT, KINDS };

static void list_numbers(numbers out[KINDS], const rs_ssm_rest *rest)
{
    out[RATE] = (numbers){rest->a, "A_log", rest->channels * rest->states, NULL};
    out[STEP] = (numbers){rest->dt_bias, "bias of dt", rest->channels, NULL};
    out[DIRECT] = (numbers){rest->d, "D", rest->channels, NULL};
}

void rs_scan_mark_rests(bool *used, const rs_model *model, const rs_scan_options *options)
{
    for (size_t i = 0; i < model->n_rests; i++) {
        numbers all[KINDS];
        list_numbers(all, &model->rests[i]);
        for (int k = 0; k < KINDS; k++)
            if (in_run(&model->rests[i], options) && usable(all[k].tensor, all[k].count))
                used[all[k].tensor - model->checkpoint->tensors] = true;
    }
}

/* ---- what is wrong with them ---- */

static rs_status say(rs_result *result, rs_severity severity, const char *code, int64_t layer,
                     const char *message, const char *hint, rs_error *err)
{
    rs_finding f = rs_finding_of(severity, code);
    f.layer = layer;
    f.message = message;
    f.hint = hint;
    f.table = "ssm";
    return rs_result_add_finding(result, &f, err);
}

static rs_status say_unusable(rs_result *result, const numbers *of, int64_t layer, rs_error *err)
{
    char message[500];
    if (!of->tensor)
        snprintf(message, sizeof message, "layer %lld has no tensor with its %s", (long long)layer,
                 of->what);
    else
        snprintf(message, sizeof message,
                 "tensor %.300s: %lld numbers that can be read are needed, it has %lld of type %s",
                 of->tensor->name, (long long)of->count, (long long)of->tensor->count,
                 rs_dtype_info(of->tensor->dtype)->name);
    return say(result, RS_WARN, "rest_unknown", layer, message,
               "look whether the checkpoint is whole and its config.json its own", err);
}

/* Says which numbers, as they are used, are not finite; `stored` is the first of them. */
static rs_status say_nonfinite(rs_result *result, const numbers *of, int64_t layer, int64_t count,
                               int64_t first, double stored, rs_error *err)
{
    bool overflow = isfinite(stored);
    char message[600];
    if (!count || (!overflow && rs_scan_already_said(result, of->tensor->name))) return RS_OK;
    if (overflow)
        snprintf(message, sizeof message,
                 "tensor %.300s: exp overflows for %lld of %lld entries (entry %lld is %g), so "
                 "that their rates are not finite; cells of layer %lld are null",
                 of->tensor->name, (long long)count, (long long)of->count, (long long)first, stored,
                 (long long)layer);
    else
        snprintf(message, sizeof message,
                 "tensor %.300s: %lld entries are NaN or infinite, the first is entry %lld; cells "
                 "of layer %lld are null",
                 of->tensor->name, (long long)count, (long long)first, (long long)layer);
    return say(result, RS_CRITICAL, overflow ? "rate_overflow" : "nonfinite_weights", layer,
               message, "the checkpoint is damaged or training diverged: go back to an earlier one",
               err);
}

/* ---- from stored to used ---- */

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* A stored number as the rows use it: a rate, a step, the size of a direct path. */
static double used_as(int kind, double stored, const rs_ssm_rest *rest, const rs_step_law *law)
{
    if (isnan(stored)) return stored;
    if (kind == RATE) return rest->a_stored ? stored : -exp(stored);
    if (kind == DIRECT) return fabs(stored);
    /* Limits that are not known leave no step known, and fmax would pass over their NaN. */
    if (isnan(law->least) || isnan(law->most)) return NAN;
    return fmin(fmax(softplus(stored), law->least), law->most);
}

/* Fills of->values. What is not finite becomes NaN there and a finding, first of all the worst. */
static rs_status use_numbers(rs_result *result, numbers *of, int kind, const rs_ssm_rest *rest,
                             const rs_step_law *law, rs_error *err)
{
    int64_t count[2] = {0}, first[2] = {0}; /* of entries that are finite in the file, and not */
    double stored[2] = {0};
    if (!usable(of->tensor, of->count)) return say_unusable(result, of, rest->layer, err);
    of->values = rs_malloc((size_t)of->count, sizeof *of->values);
    if (!of->values) return rs_fail_memory(err, "table ssm", (size_t)of->count * sizeof(double));
    rs_tensor_decode_f64(of->values, of->tensor, 0, of->count);
    for (int64_t i = 0; i < of->count; i++) {
        double number = of->values[i];
        of->values[i] = used_as(kind, number, rest, law);
        if (isfinite(of->values[i])) continue;
        of->values[i] = NAN;
        if (kind == STEP && isfinite(number)) continue; /* the limits are unknown, which is said */
        int odd = !isfinite(number);
        if (!count[odd]++) first[odd] = i, stored[odd] = number;
    }
    for (int odd = 0; odd < 2; odd++)
        RS_TRY(say_nonfinite(result, of, rest->layer, count[odd], first[odd], stored[odd], err));
    return RS_OK;
}

/* ---- rows ---- */

/* The channels [from, to) as one row's measured cells; a NaN among them makes a cell null. */
static void measure_row(ssm_cells *cells, const numbers all[KINDS], int64_t states, int64_t from,
                        int64_t to)
{
    const double *rate = all[RATE].values, *step = all[STEP].values, *d = all[DIRECT].values;
    double least = INFINITY, most = -INFINITY, steps = 0, sum = 0, largest = 0;
    for (int64_t c = from; c < to; c++) {
        steps += step ? step[c] : NAN;
        sum += d ? d[c] : NAN;
        if (d) largest = fmax(largest, d[c]);
        for (int64_t s = 0; s < states; s++) {
            double decay = rate && step ? exp(rate[c * states + s] * step[c]) : NAN;
            least = isnan(decay) || isnan(least) ? NAN : fmin(least, decay);
            most = isnan(decay) || isnan(most) ? NAN : fmax(most, decay);
        }
    }
    cells->decay_min = least;
    cells->decay_max = most;
    cells->delta_rest = steps / (double)(to - from);
    cells->d_mean = sum / (double)(to - from);
    cells->d_max = isnan(sum) ? NAN : largest;
}

static void expect_row(ssm_cells *cells, const rs_ssm_rest *rest, const rs_step_law *law)
{
    double n = rest->by_head ? 1 : (double)rest->channels;
    double slow = rest->by_head ? (double)(cells->head + 1) : 1,
           fast = rest->by_head ? slow : (double)rest->states;
    cells->decay_min_null = rs_ssm_expected(law, fast, n, true);
    cells->decay_max_null =
        rest->by_head ? cells->decay_min_null : rs_ssm_expected(law, slow, n, false);
    cells->delta_rest_null = rs_ssm_expected(law, 0, 1, false);
    cells->d_mean_null = cells->d_max_null = 1;
}

static rs_status add_rows(rs_table *table, const numbers all[KINDS], const rs_ssm_rest *rest,
                          const rs_step_law *law, rs_error *err)
{
    int64_t rows = rest->by_head ? rest->channels : 1, share = rest->channels / rows;
    for (int64_t r = 0; r < rows; r++) {
        ssm_cells cells = {.layer = rest->layer, .head = rest->by_head ? r : RS_NULL_INT};
        measure_row(&cells, all, rest->states, r * share, (r + 1) * share);
        expect_row(&cells, rest, law);
        RS_TRY(rs_table_append(table, &cells, err));
    }
    return RS_OK;
}

static rs_status add_layer(rs_result *result, rs_table *table, const rs_ssm_rest *rest,
                           const rs_step_law *law, rs_error *err)
{
    numbers all[KINDS];
    rs_status status = RS_OK;
    list_numbers(all, rest);
    for (int k = 0; k < KINDS && status == RS_OK; k++)
        status = use_numbers(result, &all[k], k, rest, law, err);
    if (status == RS_OK) status = add_rows(table, all, rest, law, err);
    for (int k = 0; k < KINDS; k++)
        rs_free(all[k].values);
    return status;
}

rs_status rs_scan_ssm(rs_result *result, const rs_model *model, const rs_scan_options *options,
                      rs_error *err)
{
    rs_table *table = NULL;
    for (size_t i = 0; i < model->n_rests; i++) {
        if (!in_run(&model->rests[i], options)) continue;
        if (!table) {
            RS_TRY(rs_result_add_table(result, "ssm", "State-space layers at rest",
                                       "How fast states decay from token to token while no token "
                                       "asks for a step of its own, beside initialisation",
                                       columns, sizeof columns / sizeof *columns, &table, err));
            rs_table_show_first(table, "layer,head,decay_min,decay_min_null,decay_max,"
                                       "decay_max_null,delta_rest,delta_rest_null,d_mean,d_max");
        }
        RS_TRY(add_layer(result, table, &model->rests[i], &model->steps, err));
    }
    return RS_OK;
}
