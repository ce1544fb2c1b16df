/*
 * alarms.h: when a training run should be looked at (docs/train.md, Alarms): a state machine over
 * losses and readings of the instruments. It knows no learner, so a log that is read back rings the
 * same alarms.
 */
#ifndef RS_TRAIN_ALARMS_H
#define RS_TRAIN_ALARMS_H

#include "train/instruments.h"

typedef enum rs_alarm_kind {
    RS_ALARM_TOKEN_COLLAPSE,
    RS_ALARM_VANISHING_QK_GRADIENT, /* of each layer, as the next two are */
    RS_ALARM_QK_RANK_LOSS,
    RS_ALARM_OV_RANK_LOSS,
    RS_ALARM_CONTEXT_UNUSED,
    RS_ALARM_LOSS_SPIKE,
    RS_ALARM_NONFINITE_LOSS,
    RS_ALARMS
} rs_alarm_kind;
/* "token_collapse" */
const char *rs_alarm_code(rs_alarm_kind kind);
/* Returns the kind of a code, RS_ALARMS: there is none. */
rs_alarm_kind rs_alarm_find(const char *code);

/* What a run is told of its alarms. */
typedef struct rs_alarm_rules {
    rs_alarm_limits limits;
    int64_t warmup; /* steps; a warning is critical once it has lasted max(limits.hold, 2 warmup) */
    int32_t layers;
    bool single; /* samples have one token */
    /* Entropy of the tokens by themselves, in nats, of a language model; NaN: of none, or not known */
    double unigram_entropy;
} rs_alarm_rules;

/* An alarm that began, or became critical. */
typedef struct rs_alarm_event {
    rs_alarm_kind kind;
    rs_severity severity;
    int64_t step;
    int32_t layer; /* -1: of no layer */
    double value, threshold;
    char message[480]; /* a sentence */
    const char *hint;  /* what to try */
} rs_alarm_event;

typedef struct rs_alarms rs_alarms;

rs_status rs_alarms_open(rs_alarms **out, const rs_alarm_rules *rules, rs_error *err);
void rs_alarms_close(rs_alarms *alarms); /* NULL is fine */

/* What a log says of the loss. */
typedef struct rs_alarm_loss {
    double mean, batch; /* running mean; of the batch itself */
    bool there;         /* false: the batch has no target, so alarms of losses stay as they are */
} rs_alarm_loss;

/*
 * Takes in one log: its loss, and the reading where there was one (NULL: the alarms that need one stay
 * as they are). Steps ascend. Returns the events
 * [*n], the alarms' own until the next call. A condition that a log cannot say (NaN) neither counts
 * nor ends.
 */
const rs_alarm_event *rs_alarms_feed(size_t *n, rs_alarms *alarms, int64_t step,
                                     const rs_alarm_loss *loss,
                                     const rs_instrument_reading *reading);

/* Whether an alarm rings: RS_INFO: no; RS_WARN, RS_CRITICAL. layer: of alarms of layers. */
rs_severity rs_alarms_state(const rs_alarms *alarms, rs_alarm_kind kind, int32_t layer);

/* The event as a finding of a result, whose texts are the event's own. Events of one layer are told
 * of one thing; so are, of an alarm of no layer, those of its `nth` ringing, from 1. */
rs_finding rs_alarm_finding(const rs_alarm_event *event, int64_t nth);

/* What a run that is taken up again needs: an object; NULL when out of memory. */
json_t *rs_alarms_save(const rs_alarms *alarms);
/* Errors: RS_E_CONFIG_SCHEMA where it is of another network. */
rs_status rs_alarms_load(rs_alarms *alarms, const json_t *json, const char *where, rs_error *err);

#endif
