/* alarms.c: conditions, how long they have held, and what is said of them. */
#include "train/alarms.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

/* When an alarm rings. */
typedef enum ring {
    RING_WARN, /* a warning, from the second log in a row on */
    RING_HELD, /* and critical once it has lasted */
    RING_LAST, /* critical once it has lasted, no warning */
    RING_ONCE  /* critical at once */
} ring;

typedef struct alarm_row {
    const char *code;
    ring ring;
    bool by_layer;
    const char *hint;
} alarm_row;

static const alarm_row rows[RS_ALARMS] = {
    [RS_ALARM_TOKEN_COLLAPSE] =
        {.code = "token_collapse",
         .ring = RING_HELD,
         .hint = "the loss can no longer fall below what single tokens say: put the norm in front "
                 "of the branches (norm pre), keep the skips, multiply branches by 1/sqrt(layers) "
                 "(branch_mixer, branch_mlp), or warm up for longer and at a lower rate"},
    [RS_ALARM_VANISHING_QK_GRADIENT] =
        {.code = "vanishing_qk_gradient",
         .ring = RING_HELD,
         .by_layer = true,
         .hint =
             "attention there stays what it is while the values learn: look at the relative "
             "residual in front of that layer, or scale branches by 1/sqrt(layers); steps of SGD "
             "and heavy ball hang on the size of gradients, Adam's do not"},
    [RS_ALARM_QK_RANK_LOSS] =
        {.code = "qk_rank_loss",
         .ring = RING_WARN,
         .by_layer = true,
         .hint = "where it goes with a worse loss, take the attention matrices out of weight decay "
                 "or lower it there (optimizer.weight_decay.attention)"},
    [RS_ALARM_OV_RANK_LOSS] =
        {.code = "ov_rank_loss",
         .ring = RING_WARN,
         .by_layer = true,
         .hint = "where it goes with a worse loss, take the attention matrices out of weight decay "
                 "or lower it there (optimizer.weight_decay.attention)"},
    [RS_ALARM_CONTEXT_UNUSED] =
        {.code = "context_unused",
         .ring = RING_LAST,
         .hint = "the run will not get better by itself: stop it, cure the collapse of its tokens "
                 "(token_collapse), and start again"},
    [RS_ALARM_LOSS_SPIKE] = {.code = "loss_spike",
                             .ring = RING_WARN,
                             .hint =
                                 "lower the learning rate or warm up for longer, clip gradients "
                                 "(optimizer.clip), and look at the largest logits of attention"},
    [RS_ALARM_NONFINITE_LOSS] =
        {.code = "nonfinite_loss",
         .ring = RING_ONCE,
         .hint = "go back to the last good checkpoint with a lower learning rate, clip gradients, "
                 "or train in f64 to see whether rounding is to blame"},
};

const char *rs_alarm_code(rs_alarm_kind kind)
{
    return rows[kind].code;
}

rs_alarm_kind rs_alarm_find(const char *code)
{
    for (int k = 0; k < RS_ALARMS; k++)
        if (strcmp(rows[k].code, code) == 0) return (rs_alarm_kind)k;
    return RS_ALARMS;
}

/* ---- states ---- */

/* An alarm, or one layer's. */
typedef struct alarm_state {
    int64_t since; /* step at which the condition began to hold; -1: it does not */
    int64_t logs;  /* logs in a row in which it held */
    int64_t level; /* rs_severity: RS_INFO, RS_WARN, RS_CRITICAL */
} alarm_state;

struct rs_alarms {
    rs_alarm_rules rules;
    size_t first[RS_ALARMS + 1]; /* the first state of each kind */
    alarm_state *states;
    double *most; /* [2, layers] largest mean effective rank so far of qk and ov; 0: none */
    rs_alarm_event *events;
    size_t n_events;
};

rs_status rs_alarms_open(rs_alarms **out, const rs_alarm_rules *rules, rs_error *err)
{
    *out = NULL;
    rs_alarms *a = rs_calloc(1, sizeof *a);
    if (!a) return rs_fail_memory(err, "alarms", sizeof *a);
    a->rules = *rules;
    for (int k = 0; k < RS_ALARMS; k++)
        a->first[k + 1] = a->first[k] + (rows[k].by_layer ? (size_t)rules->layers : 1);
    size_t n = a->first[RS_ALARMS];
    a->states = rs_malloc(n, sizeof *a->states);
    a->most = rs_calloc(2 * (size_t)rules->layers + 1, sizeof *a->most);
    a->events = rs_calloc(n, sizeof *a->events);
    if (!a->states || !a->most || !a->events) {
        rs_alarms_close(a);
        return rs_fail_memory(err, "alarms", n * sizeof *a->events);
    }
    for (size_t k = 0; k < n; k++)
        a->states[k] = (alarm_state){.since = -1, .level = RS_INFO};
    *out = a;
    return RS_OK;
}

void rs_alarms_close(rs_alarms *a)
{
    if (!a) return;
    rs_free(a->states);
    rs_free(a->most);
    rs_free(a->events);
    rs_free(a);
}

static alarm_state *state_of(const rs_alarms *a, rs_alarm_kind kind, int32_t layer)
{
    return &a->states[a->first[kind] + (rows[kind].by_layer ? (size_t)layer : 0)];
}

rs_severity rs_alarms_state(const rs_alarms *a, rs_alarm_kind kind, int32_t layer)
{
    if (rows[kind].by_layer && (layer < 0 || layer >= a->rules.layers)) return RS_INFO;
    return (rs_severity)state_of(a, kind, layer)->level;
}

static int64_t hold_of(const rs_alarms *a)
{
    int64_t warmup = 2 * a->rules.warmup;
    return warmup > a->rules.limits.hold ? warmup : a->rules.limits.hold;
}

/* What a log says of a condition. */
typedef struct sign {
    rs_alarm_kind kind;
    int32_t layer;
    bool holds;
    double value, threshold;
} sign;

static rs_severity level_of(const rs_alarms *a, const alarm_state *s, ring when, int64_t step)
{
    bool lasts = s->logs >= 2 && step - s->since >= hold_of(a);
    if (when == RING_ONCE) return RS_CRITICAL;
    if (when == RING_LAST) return lasts ? RS_CRITICAL : RS_INFO;
    if (when == RING_HELD && lasts) return RS_CRITICAL;
    return s->logs >= 2 ? RS_WARN : RS_INFO;
}

static bool is_worse(rs_severity a, rs_severity b)
{
    return a == RS_CRITICAL ? b != RS_CRITICAL : a == RS_WARN && b == RS_INFO;
}

/* ---- words ---- */

static void say_rank(char *text, size_t size, const sign *f, const double *numbers)
{
    snprintf(text, size,
             "the %s products of layer %d have a mean effective rank of %.1f: random weights have "
             "%.1f, and this layer once had %.1f. By itself that is no proof of harm (associative "
             "recall is learnt as well at a sixth of its rank); published as harmful for language "
             "models",
             f->kind == RS_ALARM_QK_RANK_LOSS ? "query-key" : "value-output", (int)f->layer,
             f->value, numbers[0], numbers[1]);
}

static void say(char *text, size_t size, const sign *f, const double *numbers, bool lasting,
                int64_t steps)
{
    char held[64] = "";
    if (lasting) snprintf(held, sizeof held, ", for %lld steps now", (long long)steps);
    switch (f->kind) {
    case RS_ALARM_TOKEN_COLLAPSE:
        snprintf(text, size,
                 "the tokens that leave the last layer are nearly one vector: their relative "
                 "residual is %.2g, below %g%s",
                 f->value, f->threshold, held);
        return;
    case RS_ALARM_VANISHING_QK_GRADIENT:
        snprintf(text, size,
                 "the gradient of layer %d's query weights is %.2g times that of its value "
                 "weights, below %g%s",
                 (int)f->layer, f->value, f->threshold, held);
        return;
    case RS_ALARM_CONTEXT_UNUSED:
        snprintf(text, size,
                 "the loss is %.4f, within %g nats of the entropy of single tokens, %.4f%s: the "
                 "model tells how often tokens come and nothing of their context",
                 f->value, numbers[0], f->threshold, held);
        return;
    case RS_ALARM_LOSS_SPIKE:
        snprintf(text, size,
                 "the loss of a batch is %.4g, more than %g times the running mean %.4g", f->value,
                 numbers[0], numbers[1]);
        return;
    case RS_ALARM_NONFINITE_LOSS:
        snprintf(text, size, "the loss is %s: nothing that is computed from here on means anything",
                 isnan(f->value) ? "not a number" : "infinite");
        return;
    default:
        say_rank(text, size, f, numbers);
    }
}

/* ---- one condition ---- */

/* numbers: what its sentence says beside value and threshold. */
static void take(rs_alarms *a, int64_t step, const sign *f, const double *numbers)
{
    alarm_state *s = state_of(a, f->kind, f->layer);
    if (!f->holds) {
        *s = (alarm_state){.since = -1, .level = RS_INFO};
        return;
    }
    if (s->since < 0) s->since = step;
    s->logs++;
    rs_severity level = level_of(a, s, rows[f->kind].ring, step), old = (rs_severity)s->level;
    if (!is_worse(level, old)) return;
    s->level = (int64_t)level;
    rs_alarm_event *event = &a->events[a->n_events++];
    *event = (rs_alarm_event){.kind = f->kind,
                              .severity = level,
                              .step = step,
                              .layer = f->layer,
                              .value = f->value,
                              .threshold = f->threshold,
                              .hint = rows[f->kind].hint};
    say(event->message, sizeof event->message, f, numbers, level == RS_CRITICAL, step - s->since);
}

/* ---- what readings say ---- */

static void look_at_tokens(rs_alarms *a, int64_t step, const rs_instrument_reading *reading)
{
    double limit = a->rules.limits.token_collapse;
    double value = reading->n_layers > 1 ? reading->layers[reading->n_layers - 1].relative_residual
                                         : (double)NAN;
    const sign f = {RS_ALARM_TOKEN_COLLAPSE, -1, value < limit, value, limit};
    if (!isnan(value)) take(a, step, &f, NULL);
}

/* The limit is of norms, the ratio of their squares. */
static void look_at_gradients(rs_alarms *a, int64_t step, const rs_instrument_reading *reading)
{
    double limit = a->rules.limits.vanishing_qk_gradient;
    if (a->rules.single) return; /* attention to one token has no gradient to vanish */
    for (size_t k = 0; k < reading->n_layers; k++) {
        const rs_layer_row *row = &reading->layers[k];
        if (row->layer < 0 || row->layer >= a->rules.layers || isnan(row->ratio_q_v)) continue;
        const sign f = {RS_ALARM_VANISHING_QK_GRADIENT, row->layer, row->ratio_q_v < limit * limit,
                        sqrt(row->ratio_q_v), limit};
        take(a, step, &f, NULL);
    }
}

/* Means over the heads of a layer that have a rank; false: none has. */
static bool mean_rank(double *rank, double *null, const rs_instrument_reading *reading,
                      int32_t layer, const char *product)
{
    double sum = 0, nulls = 0, n = 0;
    for (size_t k = 0; k < reading->n_ranks; k++) {
        const rs_rank_row *row = &reading->ranks[k];
        if (row->layer != layer || strcmp(row->product, product) != 0) continue;
        if (isnan(row->effective_rank)) continue;
        sum += row->effective_rank, nulls += row->effective_rank_null, n++;
    }
    *rank = sum / n;
    *null = nulls / n;
    return n > 0;
}

static void look_at_ranks(rs_alarms *a, int64_t step, const rs_instrument_reading *reading,
                          rs_alarm_kind kind)
{
    bool qk = kind == RS_ALARM_QK_RANK_LOSS;
    double share = qk ? a->rules.limits.qk_rank_loss : a->rules.limits.ov_rank_loss;
    for (int32_t l = 0; l < a->rules.layers; l++) {
        double rank, null, *most = &a->most[qk ? l : a->rules.layers + l];
        if (!mean_rank(&rank, &null, reading, l, qk ? "qk" : "ov")) continue;
        *most = fmax(*most, rank);
        double limit = share * fmin(null, *most);
        const sign f = {kind, l, rank < limit, rank, limit};
        take(a, step, &f, (const double[]){null, *most});
    }
}

/* ---- what losses say ---- */

static void look_at_loss(rs_alarms *a, int64_t step, double loss, double batch_loss)
{
    const rs_alarm_limits *limits = &a->rules.limits;
    double unigram = a->rules.unigram_entropy;
    bool finite = isfinite(loss) && isfinite(batch_loss);
    const sign broken = {RS_ALARM_NONFINITE_LOSS, -1, !finite,
                         isfinite(batch_loss) ? loss : batch_loss, NAN};
    take(a, step, &broken, NULL);
    if (!finite) return;
    const sign spike = {RS_ALARM_LOSS_SPIKE, -1, batch_loss > limits->loss_spike * loss, batch_loss,
                        limits->loss_spike * loss};
    take(a, step, &spike, (const double[]){limits->loss_spike, loss});
    bool collapsed = rs_alarms_state(a, RS_ALARM_TOKEN_COLLAPSE, -1) != RS_INFO;
    const sign unused = {RS_ALARM_CONTEXT_UNUSED, -1,
                         collapsed && fabs(loss - unigram) <= limits->context_unused, loss,
                         unigram};
    if (!isnan(unigram)) take(a, step, &unused, (const double[]){limits->context_unused});
}

const rs_alarm_event *rs_alarms_feed(size_t *n, rs_alarms *a, int64_t step,
                                     const rs_alarm_loss *loss,
                                     const rs_instrument_reading *reading)
{
    a->n_events = 0;
    if (reading) {
        look_at_tokens(a, step, reading);
        look_at_gradients(a, step, reading);
        look_at_ranks(a, step, reading, RS_ALARM_QK_RANK_LOSS);
        look_at_ranks(a, step, reading, RS_ALARM_OV_RANK_LOSS);
    }
    if (loss->there) look_at_loss(a, step, loss->mean, loss->batch);
    *n = a->n_events;
    return a->events;
}

/* ---- findings ---- */

rs_finding rs_alarm_finding(const rs_alarm_event *event, int64_t nth)
{
    bool of_layer = event->layer >= 0;
    rs_finding f = rs_finding_of(event->severity, rows[event->kind].code);
    if (of_layer) f.layer = event->layer;
    f.value = event->value;
    f.threshold = event->threshold;
    f.message = event->message;
    f.hint = event->hint;
    f.cases = of_layer ? "layers" : "alarms";
    f.worst = "worst";
    f.thing = of_layer ? event->layer + 1 : nth;
    bool ranks = event->kind == RS_ALARM_QK_RANK_LOSS || event->kind == RS_ALARM_OV_RANK_LOSS;
    bool losses = event->kind >= RS_ALARM_CONTEXT_UNUSED;
    f.table = ranks ? "ranks" : losses ? NULL : "layers";
    return f;
}

/* ---- what a run that is taken up again needs ---- */

json_t *rs_alarms_save(const rs_alarms *a)
{
    json_t *states = json_array(), *most = json_array();
    bool whole = states && most;
    for (size_t k = 0; whole && k < a->first[RS_ALARMS]; k++) {
        const alarm_state *s = &a->states[k];
        json_t *one =
            json_pack("[I, I, I]", (json_int_t)s->since, (json_int_t)s->logs, (json_int_t)s->level);
        whole = one && json_array_append_new(states, one) == 0;
    }
    for (int32_t k = 0; whole && k < 2 * a->rules.layers; k++)
        whole = json_array_append_new(most, json_real(a->most[k])) == 0;
    if (whole) return json_pack("{s:o, s:o}", "states", states, "most", most);
    json_decref(states);
    json_decref(most);
    return NULL;
}

rs_status rs_alarms_load(rs_alarms *a, const json_t *json, const char *where, rs_error *err)
{
    size_t n = a->first[RS_ALARMS], numbers = 2 * (size_t)a->rules.layers;
    const json_t *states = json_object_get(json, "states"), *most = json_object_get(json, "most");
    bool fits = json_array_size(states) == n && json_array_size(most) == numbers;
    for (size_t k = 0; fits && k < n; k++) {
        json_int_t since, logs, level;
        fits = json_unpack(json_array_get(states, k), "[I, I, I!]", &since, &logs, &level) == 0;
        fits = fits && since >= -1 && logs >= 0 && level >= RS_INFO && level <= RS_CRITICAL;
        if (fits) a->states[k] = (alarm_state){since, logs, level};
    }
    for (size_t k = 0; fits && k < numbers; k++) {
        fits = json_is_number(json_array_get(most, k));
        a->most[k] = json_number_value(json_array_get(most, k));
    }
    if (fits) return RS_OK;
    return rs_fail(err, RS_E_CONFIG_SCHEMA, where, NULL,
                   "the state of the alarms is that of another network");
}
