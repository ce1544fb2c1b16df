/* schedule.h: what the learning rate and the temperature are at each step (docs/train.md,
 * Schedules). Pure functions of the step, so that a resumed run goes on where it was. */
#ifndef RS_TRAIN_SCHEDULE_H
#define RS_TRAIN_SCHEDULE_H

#include <stdint.h>

/* How the rate falls behind the warm-up, with u = (t - warmup) / (steps - warmup), at most 1. */
typedef enum rs_schedule_kind {
    RS_SCHEDULE_CONSTANT,
    RS_SCHEDULE_COSINE,       /* last + (1 - last) (1 + cos(pi u)) / 2 */
    RS_SCHEDULE_LINEAR,       /* 1 + (last - 1) u */
    RS_SCHEDULE_INVERSE_SQRT, /* sqrt(w / (t + 1)), w = max(warmup, 1) */
    RS_SCHEDULE_STEP          /* factor^(t / every, rounded down, and milestones m <= t) */
} rs_schedule_kind;

enum { RS_SCHEDULE_MILESTONES = 16 };

typedef struct rs_schedule {
    rs_schedule_kind kind;
    int64_t warmup; /* the first steps, t = 0 ..., have the factor (t + 1) / warmup */
    int64_t steps;  /* of the run */
    double last;    /* what is left of the rate at the end of cosine and linear */
    double factor;  /* step */
    int64_t every;  /* step; 0: at the milestones alone */
    int64_t milestones[RS_SCHEDULE_MILESTONES], n_milestones;
} rs_schedule;

/* What the learning rate is multiplied by at step t, from 0. */
double rs_schedule_factor(const rs_schedule *schedule, int64_t t);

/* What attention's logits are multiplied by: from `start` to `final` along a line over `steps`
 * steps (ARCH.json's "temperature" divides them). */
typedef struct rs_temperature {
    double start, final;
    int64_t steps;
} rs_temperature;
double rs_temperature_at(const rs_temperature *temperature, int64_t t);

#endif
