/* source_sets.c: what of the user's data is trained on, evaluated, and looked at by the instruments. */
#include "train/source.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

/* ---- samples: in a drawn order, so that labels that lie sorted are spread ---- */

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static rs_status too_few(const rs_source *s, int64_t n, const char *what, int64_t least,
                         rs_error *err)
{
    return rs_fail(err, RS_E_INPUT_SHAPE, s->settings.files.x,
                   "training, evaluation and the probe batch share no sample",
                   "there are %lld %s; at least %lld are needed", (long long)n, what,
                   (long long)least);
}

/* Who belongs to which set of n; inside a set the file's order stays. */
static rs_status split_members(rs_source *s, int64_t n, int64_t probe_most, const char *what,
                               rs_error *err)
{
    rs_source_sets *sets = &s->sets;
    double share = s->settings.files.eval_share;
    int64_t least = share > 0 ? 3 : 2, held = (int64_t)floor(share * (double)n + 0.5);
    if (n < least) return too_few(s, n, what, least, err);
    if (share == 0) held = n / 10 < probe_most ? n / 10 : probe_most;
    if (held < least - 1) held = least - 1;
    if (held > n - 1) held = n - 1;
    int64_t half = share == 0 ? held : held / 2;
    sets->probe = half < probe_most ? half : probe_most;
    sets->eval = share == 0 ? 0 : held - sets->probe;
    sets->train = n - sets->probe - sets->eval;
    sets->order = rs_malloc((size_t)n, sizeof *sets->order);
    if (!sets->order) return rs_fail_memory(err, what, (size_t)n * sizeof *sets->order);
    for (int64_t i = 0; i < n; i++)
        sets->order[i] = i;
    rs_random random = rs_task_draws(s->task, RS_DRAWS_SPLIT, 0, 0);
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = rs_draw_below(&random, i + 1), other = sets->order[j];
        sets->order[j] = sets->order[i];
        sets->order[i] = other;
    }
    int64_t *next = sets->order;
    qsort(next, (size_t)sets->train, sizeof *next, by_number);
    qsort(next += sets->train, (size_t)sets->eval, sizeof *next, by_number);
    qsort(next + sets->eval, (size_t)sets->probe, sizeof *next, by_number);
    return RS_OK;
}

static void say_sets(rs_source *s, int64_t n, const char *what, int64_t train)
{
    rs_source_say(s, "%lld %s: %lld to train on, %lld %s to evaluate, %lld of the probe batch",
                  (long long)n, what, (long long)train, (long long)s->sets.n_eval,
                  s->sets.windows ? "windows" : what, (long long)s->sets.n_probe);
    if (s->sets.n_probe < s->settings.probe_samples)
        rs_source_say(s, "more than %lld for the probe batch would leave too little of the rest",
                      (long long)s->sets.n_probe);
}

rs_status rs_sets_of_samples(rs_source *s, int64_t n, const char *what, rs_error *err)
{
    RS_TRY(split_members(s, n, s->settings.probe_samples, what, err));
    s->sets.n_eval = s->sets.eval;
    s->sets.n_probe = s->sets.probe;
    say_sets(s, n, what, s->sets.train);
    return RS_OK;
}

/* ---- windows ---- */

static rs_status too_short(const rs_source *s, int64_t steps, const char *what, int64_t need,
                           int64_t held, rs_error *err)
{
    bool text = s->settings.files.text && !s->settings.files.x;
    return rs_fail(err, RS_E_INPUT_SHAPE, text ? s->settings.files.text : s->settings.files.x,
                   "give more data, or a smaller \"length\"",
                   "there are %lld %s; a window takes %lld, and %lld are kept back for evaluation "
                   "and the probe batch",
                   (long long)steps, what, (long long)need, (long long)held);
}

/* The end of one series is kept back: windows of evaluation, then the probe's. */
static rs_status split_series(rs_source *s, int64_t stride, int64_t need, const char *what,
                              rs_error *err)
{
    rs_source_sets *sets = &s->sets;
    double share = s->settings.files.eval_share;
    int64_t over = need - stride, most = s->settings.probe_samples;
    int64_t held = (int64_t)(share * (double)sets->steps), least = share > 0 ? 2 * need : need;
    if (share == 0) {
        int64_t tenth = sets->steps / 10 / stride;
        held = (tenth < most ? tenth : most) * stride + over;
    }
    bool wider = held < least;
    if (wider) held = least;
    if (need > sets->steps - held) return too_short(s, sets->steps, what, need, held, err);
    int64_t windows = (held - (share > 0 ? 2 : 1) * over) / stride;
    int64_t half = share > 0 ? windows / 2 : windows;
    sets->n_probe = half < most ? half : most;
    sets->probe_first = sets->steps - sets->n_probe * stride - over;
    sets->n_eval = share > 0 ? windows - sets->n_probe : 0;
    sets->eval_first = sets->probe_first - sets->n_eval * stride - over;
    if (share == 0) sets->eval_first = sets->probe_first;
    sets->starts = sets->eval_first - need + 1;
    sets->train = 1;
    say_sets(s, sets->steps, what, sets->eval_first);
    if (wider && share > 0)
        rs_source_say(s, "an \"eval_share\" of %g is less than the two windows that are kept back",
                      share);
    return RS_OK;
}

rs_status rs_sets_of_series(rs_source *s, int64_t n, int64_t steps, int64_t stride, int64_t need,
                            const char *what, rs_error *err)
{
    rs_source_sets *sets = &s->sets;
    sets->windows = true;
    sets->steps = steps;
    sets->stride = stride;
    if (need > steps) return too_short(s, steps, what, need, n == 1 ? 2 * need : 0, err);
    if (n == 1) return split_series(s, stride, need, what, err);
    sets->starts = steps - need + 1;
    sets->per_series = (steps - need) / stride + 1;
    int64_t most = s->settings.probe_samples;
    RS_TRY(split_members(s, n, (most + sets->per_series - 1) / sets->per_series, "series", err));
    int64_t probe = sets->probe * sets->per_series;
    sets->n_eval = sets->eval * sets->per_series;
    sets->n_probe = probe < most ? probe : most;
    say_sets(s, n, "series", sets->train);
    return RS_OK;
}

int64_t rs_sets_draw(const rs_source_sets *sets, rs_random *random)
{
    int64_t series = sets->order ? sets->order[rs_draw_below(random, sets->train)] : 0;
    return series * sets->steps + rs_draw_below(random, sets->starts);
}

int64_t rs_sets_place(const rs_source_sets *sets, rs_task_set set, int64_t number)
{
    bool eval = set == RS_TASK_EVAL;
    if (set == RS_TASK_TRAIN) return sets->order[number];
    if (!sets->order) return (eval ? sets->eval_first : sets->probe_first) + number * sets->stride;
    const int64_t *members = sets->order + sets->train + (eval ? 0 : sets->eval);
    if (!sets->windows) return members[number];
    return members[number / sets->per_series] * sets->steps +
           number % sets->per_series * sets->stride;
}

/* ---- once over the training part ---- */

static int64_t walked_windows(const rs_source_sets *sets)
{
    return (sets->starts - 1 + sets->stride - 1) / sets->stride + 1;
}

int64_t rs_sets_walk(const rs_source_sets *sets)
{
    return sets->windows ? sets->train * walked_windows(sets) : sets->train;
}

int64_t rs_sets_walked(int64_t *fresh, const rs_source_sets *sets, int64_t number)
{
    *fresh = 0;
    if (!sets->windows) return sets->order[number];
    int64_t each = walked_windows(sets), series = number / each;
    int64_t at = number % each * sets->stride, last = sets->starts - 1;
    if (at > last) *fresh = at - last, at = last;
    return (sets->order ? sets->order[series] : 0) * sets->steps + at;
}
