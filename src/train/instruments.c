/* instruments.c: opens the instruments of a learner, surrounds its steps, and keeps what a run that is
 * taken up again needs. */
#include "train/instruments_parts.h"

#include "base/memory.h"
#include "network/op_traits.h"

#include <math.h>
#include <string.h>

/* Laws of balance are looked at unasked where their sums take less than this many products. */
static const double CHEAP = 4e6;

/* ---- opening ---- */

static rs_status open_rows(rs_instruments *i, rs_error *err)
{
    size_t items = (size_t)i->learner->trained.n, layers = (size_t)i->network->n_layers + 1;
    i->changes = rs_calloc(items + 1, sizeof *i->changes);
    i->layers = rs_calloc(layers, sizeof *i->layers);
    return i->changes && i->layers ? RS_OK : rs_fail_memory(err, "instruments", 0);
}

static rs_status open_instruments(rs_instruments *i, rs_train_task *task, rs_error *err)
{
    RS_TRY(rs_instruments_list(i, err));
    RS_TRY(rs_instruments_ranks_open(i, err));
    RS_TRY(open_rows(i, err));
    i->checks = rs_instruments_balance_cost(i) <= CHEAP;
    return rs_instruments_probe_open(i, task, err);
}

rs_status rs_instruments_open(rs_instruments **out, rs_learner *learner, rs_train_task *task,
                              rs_error *err)
{
    *out = NULL;
    rs_instruments *i = rs_calloc(1, sizeof *i);
    if (!i) return rs_fail_memory(err, "instruments", sizeof *i);
    i->learner = learner;
    i->network = learner->network;
    i->context = learner->context;
    i->first_step = -1;
    i->update_ratio = NAN;
    rs_status status = open_instruments(i, task, err);
    if (status != RS_OK)
        rs_instruments_close(i);
    else
        *out = i;
    return status;
}

void rs_instruments_close(rs_instruments *i)
{
    if (!i) return;
    if (i->learner->optimiser) rs_optimiser_watch(i->learner->optimiser, NULL);
    rs_instruments_probe_close(i);
    rs_instruments_balance_close(i);
    rs_instruments_ranks_close(i);
    rs_free(i->changes);
    rs_free(i->layers);
    rs_free(i->mixers);
    rs_free(i->products);
    rs_free(i->factors);
    rs_free(i);
}

void rs_instruments_check_balance(rs_instruments *i, bool check)
{
    i->checks = check;
}

/* ---- a reading ---- */

static rs_layer_row empty_layer(const rs_instruments *i, int32_t layer)
{
    rs_layer_row row;
    const rs_column_part *part = rs_train_layers_kind.parts;
    rs_columns_clear(part->columns, part->n, &row);
    row.step = i->step;
    row.layer = layer;
    return row;
}

/* The step's rate was not made yet when it is read. */
static void add_rates(rs_instruments *i)
{
    const rs_train_settings *s = i->learner->settings;
    if (i->first_step < 0) i->first_step = i->summed = i->step;
    for (; i->summed < i->step; i->summed++)
        i->rates += s->lr * rs_schedule_factor(&s->schedule, i->summed);
}

rs_status rs_instruments_before_step(rs_instruments *i, rs_error *err)
{
    i->step = i->learner->step;
    i->update_ratio = NAN;
    rs_trained_end(&i->learner->trained.sink);
    for (int32_t l = 0; l <= i->network->n_layers; l++)
        i->layers[l] = empty_layer(i, l - 1);
    add_rates(i);
    RS_TRY(rs_instruments_grams(i, err));
    RS_TRY(rs_instruments_ranks(i, err));
    rs_instruments_contract(i);
    RS_TRY(rs_instruments_probe(i, err));
    rs_instruments_gradients(i);
    i->checking = i->checks;
    if (i->checking) RS_TRY(rs_instruments_balance_before(i, err));
    rs_optimiser_watch(i->learner->optimiser, i->changes);
    return RS_OK;
}

rs_status rs_instruments_after_step(rs_instruments *i, rs_error *err)
{
    rs_instruments_updates(i);
    return i->checking ? rs_instruments_balance_after(i, err) : RS_OK;
}

rs_instrument_reading rs_instruments_reading(const rs_instruments *i)
{
    return (rs_instrument_reading){.step = i->step,
                                   .ranks = i->ranks,
                                   .n_ranks = i->n_products,
                                   .layers = i->layers,
                                   .n_layers = (size_t)i->network->n_layers + 1,
                                   .update_ratio = i->update_ratio};
}

/* ---- what a run that is taken up again needs ---- */

json_t *rs_instruments_save(const rs_instruments *i)
{
    json_t *norms = json_array();
    for (size_t p = 0; norms && p < i->n_products; p++) {
        double norm = i->products[p].first_norm;
        json_t *value = isfinite(norm) ? json_real(norm) : json_null();
        if (json_array_append_new(norms, value) == 0) continue;
        json_decref(norms);
        norms = NULL;
    }
    if (!norms) return NULL;
    return json_pack("{s:I, s:I, s:f, s:o}", "first_step", (json_int_t)i->first_step, "summed",
                     (json_int_t)i->summed, "rates", i->rates, "first_norms", norms);
}

rs_status rs_instruments_load(rs_instruments *i, const json_t *json, const char *where,
                              rs_error *err)
{
    json_int_t first, summed;
    json_t *norms;
    double rates;
    bool fits = json_unpack((json_t *)(uintptr_t)json, "{s:I, s:I, s:F, s:o}", "first_step", &first,
                            "summed", &summed, "rates", &rates, "first_norms", &norms) == 0 &&
                json_is_array(norms) && json_array_size(norms) == i->n_products;
    for (size_t p = 0; fits && p < i->n_products; p++) {
        const json_t *norm = json_array_get(norms, p);
        fits = json_is_number(norm) || json_is_null(norm);
    }
    if (!fits)
        return rs_fail(err, RS_E_CONFIG_SCHEMA, where, NULL,
                       "the state of the instruments is that of another network");
    i->first_step = first;
    i->summed = summed;
    i->rates = rates;
    for (size_t p = 0; p < i->n_products; p++) {
        const json_t *norm = json_array_get(norms, p);
        i->products[p].first_norm = json_is_null(norm) ? NAN : json_number_value(norm);
    }
    return RS_OK;
}
