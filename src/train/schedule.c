/* schedule.c: schedules of the learning rate and of the temperature. */
#include "train/schedule.h"

#include <math.h>

/* The share of the way behind the warm-up that is done. */
static double share_done(const rs_schedule *s, int64_t t)
{
    int64_t way = s->steps - s->warmup, done = t - s->warmup;
    return done >= way ? 1 : (double)done / (double)way;
}

static double stepped(const rs_schedule *s, int64_t t)
{
    int64_t times = s->every > 0 ? t / s->every : 0;
    for (int64_t m = 0; m < s->n_milestones; m++)
        times += s->milestones[m] <= t;
    return pow(s->factor, (double)times);
}

static double behind_warmup(const rs_schedule *s, int64_t t)
{
    switch (s->kind) {
    case RS_SCHEDULE_COSINE:
        return s->last +
               (1 - s->last) * (1 + cos(3.1415926535897932384626433832795 * share_done(s, t))) / 2;
    case RS_SCHEDULE_LINEAR:
        return 1 + (s->last - 1) * share_done(s, t);
    case RS_SCHEDULE_INVERSE_SQRT:
        return sqrt((double)(s->warmup > 1 ? s->warmup : 1) / (double)(t + 1));
    case RS_SCHEDULE_STEP:
        return stepped(s, t);
    default:
        return 1;
    }
}

double rs_schedule_factor(const rs_schedule *s, int64_t t)
{
    return t < s->warmup ? (double)(t + 1) / (double)s->warmup : behind_warmup(s, t);
}

double rs_temperature_at(const rs_temperature *temperature, int64_t t)
{
    if (t >= temperature->steps) return temperature->final;
    return temperature->start +
           (temperature->final - temperature->start) * (double)t / (double)temperature->steps;
}
