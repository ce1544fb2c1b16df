/* predict_trust.c: how far theory is from networks that were drawn, and why. */
#include "predict/predict_parts.h"

#include "base/memory.h"

#include <math.h>

const rs_forecast *rs_predict_drawn_theory(const rs_predict_run *run)
{
    return run->twin.network ? &run->twin_theory : &run->forecast;
}

/* A quantity of a row: what theory says, what was measured, its standard error, and by how much they may
 * differ without a note. All in the same unit. */
typedef struct pair {
    const char *name, *assumption;
    double theory, measured, error, promised;
    int32_t trials; /* of which the error is */
} pair;
enum { PAIRS = 5 };

static const char of_width[] = "infinite width: E[p/q] is taken for E p/E q, wrong by O(1/d)";
static const char of_condensed[] =
    "condensed attention: what two rows have in common is rough (docs/theory/mean_field.md, 2)";
static const char of_sizes[] = "no correlation between a token's size and what is added to it";
static const char of_values[] = "derivatives and states are independent";
static const char of_states[] =
    "two rows of attention have a softmax's moments of independent rows";
static const char of_queries[] = "products of centred tokens are those of wide networks";

/* Standard error of a stat's level in decades. */
static double error_of(const rs_trials_stat *stat)
{
    double of_mean = stat->se / (fabs(stat->mean) * log(10)), of_log = stat->log_se / log(10);
    return stat->ruled_by_few ? of_log : of_mean;
}

static bool lacks_skips(const rs_predict_run *run)
{
    const rs_theory_network *net = rs_theory_model_network(run->design->theory);
    for (int32_t l = 0; l < net->n_layers; l++)
        for (int32_t b = 0; b < net->layers[l].n_branches; b++)
            if (net->layers[l].branches[b].skip == 0) return true;
    return false;
}

static void pairs_of(pair out[PAIRS], const rs_predict_run *run, int32_t l)
{
    const rs_forecast_row *theory = &rs_predict_drawn_theory(run)->rows[l],
                          *measured = &run->measured.rows[l];
    const rs_trials_row *row = &run->trials->rows[l];
    const rs_trials_stat *of = row->of;
    const rs_design *drawn = run->twin.network ? &run->twin : run->design;
    bool bare = lacks_skips(run), near = bare || measured->apart < -1;
    double width = (double)drawn->network->d_model;
    out[0] = (pair){"rho",
                    theory->rough ? of_condensed : of_width,
                    theory->rho,
                    measured->rho,
                    row->rho_ruled_by_few ? NAN : row->rho_se,
                    (bare ? 0.08 : 0.03) + 1.5 / width,
                    of[RS_TRIALS_SQUARE].n};
    out[1] = (pair){"F2",
                    of_sizes,
                    theory->square,
                    measured->square,
                    error_of(&of[RS_TRIALS_SQUARE]),
                    log10(1.1),
                    of[RS_TRIALS_SQUARE].n};
    out[2] = (pair){"gV",
                    of_values,
                    theory->value,
                    measured->value,
                    error_of(&of[RS_TRIALS_VALUE]),
                    log10(1.25),
                    of[RS_TRIALS_VALUE].n};
    out[3] = (pair){"gQ",
                    of_queries,
                    theory->query,
                    measured->query,
                    error_of(&of[RS_TRIALS_QUERY]),
                    log10(near ? 3.5 : 1.6),
                    of[RS_TRIALS_QUERY].n};
    out[4] = (pair){"dX",
                    of_states,
                    theory->state,
                    measured->state,
                    error_of(&of[RS_TRIALS_STATE]),
                    log10(1.25),
                    of[RS_TRIALS_STATE].n};
}

static double apart_by(const pair *p)
{
    double by = fabs(p->theory - p->measured);
    return isfinite(by) ? by : NAN;
}

/* A difference over its standard error has Student's law: as many deviations of a normal law are as rare
 * (Wallace 1959: to 3 % from 3 degrees of freedom on). */
static double normal_of(double errors, int32_t trials)
{
    double free = trials - 1.0;
    if (free < 1) return NAN;
    return (8 * free + 1) / (8 * free + 3) * sqrt(free * log1p(errors * errors / free));
}

/* The largest of so many normal numbers, without their signs, is above it as often as not. */
static double largest_by_chance(int32_t count)
{
    double low = 0, high = 40;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (-count * log1p(-erfc(middle / sqrt(2))) > log(2))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Whether there is a difference: what has one value in every trial differs by rounding alone. */
static bool measure_gap(double *errors, const pair *p)
{
    double by = apart_by(p);
    *errors = normal_of(by / p->error, p->trials);
    return by > 1e-9 && isfinite(*errors);
}

rs_predict_gap rs_predict_widest_gap(const rs_predict_run *run)
{
    rs_predict_gap widest = {.layer = -1, .errors = -1};
    int32_t count = 0, last = run->measured.n_layers;
    for (int32_t l = 1; l <= last; l++) {
        pair pairs[PAIRS];
        pairs_of(pairs, run, l);
        /* the derivative by the last state is the loss's own G, not theory */
        int known = l == last && !run->settings.after_final_norm ? PAIRS - 1 : PAIRS;
        for (int i = 0; i < known; i++) {
            const pair *p = &pairs[i];
            double errors;
            if (!measure_gap(&errors, p)) continue;
            count++;
            if (!(errors > widest.errors)) continue;
            widest = (rs_predict_gap){p->name, l, errors, 0, p->theory, p->measured, p->assumption};
        }
    }
    widest.chance = largest_by_chance(count);
    return widest;
}

rs_status rs_predict_note(const char **note, const rs_predict_run *run, int32_t layer,
                          rs_arena *arena, rs_error *err)
{
    pair pairs[PAIRS];
    *note = run->forecast.rows[layer].note;
    if (!run->trials) return RS_OK;
    pairs_of(pairs, run, layer);
    for (int i = 0; i < PAIRS; i++) {
        const pair *p = &pairs[i];
        if (!(apart_by(p) > p->promised + 3 * (isfinite(p->error) ? p->error : 0))) continue;
        *note = rs_arena_printf(arena, "%s%strials differ: %s %.3g, theory %.3g (%s)",
                                *note ? *note : "", *note ? "; " : "", p->name, p->measured,
                                p->theory, p->assumption);
        if (!*note) return rs_fail_memory(err, "a note", 200);
    }
    return RS_OK;
}
