/* predict_answers.c: the eight questions that whoever is about to train asks, and their answers. */
#include "predict/predict_parts.h"

#include "predict/laws.h"
#include "predict/remedies.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SAY(a, ...) snprintf((a)->answer, sizeof(a)->answer, __VA_ARGS__)

const char *rs_predict_power(char out[32], double decades)
{
    const double most = 1e15; /* whose digits say something */
    if (isnan(decades))
        snprintf(out, 32, "not known");
    else if (decades == -INFINITY)
        snprintf(out, 32, "0");
    else if (fabs(decades) < 4)
        snprintf(out, 32, "%.2g", pow(10, decades));
    else
        snprintf(out, 32, fabs(decades) < most ? "10^%.1f" : "10^(%.2g)", decades);
    return out;
}

static const char *power(char out[32], double decades)
{
    return rs_predict_power(out, decades);
}

/* "× 71", "× 10^12.3", "× 0.02": 10^decades as people read it. */
static const char *times(char out[40], double decades)
{
    char number[32];
    if (fabs(decades) < 4)
        snprintf(number, sizeof number, "%.3g", pow(10, decades));
    else
        power(number, decades);
    snprintf(out, 40, "%s%s", isnan(decades) ? "" : "× ", number);
    return out;
}

static bool is_silent(rs_predict_answer *a, const rs_predict_run *run, double needed)
{
    const char *note = NULL;
    if (!isnan(needed)) return false;
    for (int32_t l = 0; l <= run->forecast.n_layers && !note; l++)
        note = run->forecast.rows[l].note;
    SAY(a, "theory does not say%s%.150s", note ? ": " : "", note ? note : "");
    a->value = NAN;
    return true;
}

bool rs_predict_by_trials(const rs_predict_run *run)
{
    return run->trials && run->forecast.found.verdict == RS_PREDICT_UNKNOWN &&
           run->measured.found.verdict != RS_PREDICT_UNKNOWN;
}

/* ---- 1 ---- */

static void say_apart(rs_predict_answer *a, const rs_predict_run *run)
{
    bool drawn = rs_predict_by_trials(run);
    const rs_forecast *f = drawn ? &run->measured : &run->forecast;
    const rs_forecast_row *last = &f->rows[f->n_layers];
    char apart[32], reached[64] = "ρ = 0.9 is not reached", who[32] = "";
    int32_t most = rs_forecast_depth_to(f, 0.9), all = rs_forecast_depth_to(f, 0.99);
    a->value = last->rho;
    if (is_silent(a, run, last->apart)) return;
    if (all >= 0)
        snprintf(reached, sizeof reached, "ρ = 0.9 at layer %d, 0.99 at %d", (int)most, (int)all);
    else if (most >= 0)
        snprintf(reached, sizeof reached, "ρ = 0.9 at layer %d", (int)most);
    double first =
        fabs(f->rows[0].rho) < 1e-12 ? 0 : f->rows[0].rho; /* rounding of a Gram matrix */
    if (drawn) snprintf(who, sizeof who, "%d drawn: ", (int)run->trials->trials);
    SAY(a, "%s%s: ρ %.3g → %.3g, 1 − ρ = %s; %s", who, rs_predict_verdict_code(f->found.verdict),
        first, last->rho, power(apart, last->apart), reached);
}

/* ---- 2 ---- */

/* The first state whose largest entry, of so many normal ones, is beyond the type; -1: none. */
static int32_t overflows(const rs_predict_run *run, double log10_most)
{
    double entries = (double)run->design->input.n * (double)run->design->network->d_model;
    double reach = log10(sqrt(2 * log(fmax(entries, 2))));
    for (int32_t l = 0; l <= run->forecast.n_layers; l++) {
        double rms = (run->forecast.rows[l].square - log10(entries)) / 2;
        if (rms + reach > log10_most) return l;
    }
    return -1;
}

static void say_size(rs_predict_answer *a, const rs_predict_run *run)
{
    const rs_forecast *f = &run->forecast;
    char there[40], back[40], limit[64] = "nothing overflows";
    int32_t half = overflows(run, 4.816), single = overflows(run, 38.53);
    a->value = rs_forecast_growth(f);
    if (is_silent(a, run, a->value)) return;
    if (single >= 0)
        snprintf(limit, sizeof limit, "overflow: f16 at layer %d, bf16 and f32 at %d", (int)half,
                 (int)single);
    else if (half >= 0)
        snprintf(limit, sizeof limit, "f16 overflows at layer %d", (int)half);
    SAY(a, "‖X‖² %s, gradient back %s; %s", times(there, a->value),
        times(back, rs_forecast_growth_back(f)), limit);
}

/* ---- 3 ---- */

/* What balances gQ and gV, or comes nearest to it: a temperature, or what those of the layers are times. */
static void say_balance(char out[80], const rs_predict_run *run, double least)
{
    char nearest[32];
    double one;
    bool alike = rs_predict_one_temperature(&one, rs_predict_changing(run));
    const char *what = alike ? "temperature" : "temperatures ×";
    double value = alike ? one * run->temper : run->temper;
    const rs_predict_run *changing = rs_predict_changing(run);
    if (rs_predict_too_many(changing, RS_PREDICT_BALANCE_STEPS) && fabs(run->balance) >= 0.1)
        snprintf(out, 80, "temperatures left out: theory would take too long");
    else if (fabs(run->balance) < 0.1)
        snprintf(out, 80, "%s %.2g balance%s", what, value, alike ? "s" : "");
    else if (least == -INFINITY)
        snprintf(out, 80, "queries do not learn there");
    else if (isfinite(run->balance) && !rs_predict_can_change(rs_predict_changing(run)))
        snprintf(out, 80, "%.20s on average; no other temperature is tried",
                 power(nearest, run->balance));
    else if (isfinite(run->balance))
        snprintf(out, 80, "none balances: %s%.2g gives %.20s", alike ? "" : "× ", value,
                 power(nearest, run->balance));
    else
        snprintf(out, 80, "no temperature balances them");
}

/* What has no gradient whatever is drawn: logits are products of queries and keys, so that where one of the
 * maps is 0 the other one has none. */
static void say_still(char out[96], const rs_predict_run *run)
{
    const rs_theory_network *net = rs_theory_model_network(run->design->theory);
    int32_t all = 0, queries = 0, keys = 0;
    for (int32_t l = 0; l < net->n_layers; l++) {
        for (int32_t b = 0; b < net->layers[l].n_branches; b++) {
            const rs_theory_branch *branch = &net->layers[l].branches[b];
            if (!branch->attends) continue;
            all++;
            queries += branch->attention.queries == 0;
            keys += branch->attention.keys == 0;
        }
    }
    int32_t both = queries < keys ? queries : keys, most = queries < keys ? keys : queries;
    const char *what = both ? "queries and keys" : queries ? "keys" : "queries";
    const char *why = both ? "W_Q = W_K = 0" : queries ? "W_Q = 0" : "W_K = 0";
    out[0] = '\0';
    if (most == 0) return;
    snprintf(out, 96, "%s get no gradient at the start (%s)%s", what, why,
             most < all ? " in some layers" : "");
}

/* Where values are the tokens themselves. */
static bool lacks_values(const rs_predict_run *run)
{
    const rs_theory_network *net = rs_theory_model_network(run->design->theory);
    for (int32_t l = 0; l < net->n_layers; l++)
        for (int32_t b = 0; b < net->layers[l].n_branches; b++)
            if (net->layers[l].branches[b].attention.no_values) return true;
    return false;
}

/* gQ by itself: no map of values is trained that it could be compared with. */
static void say_alone(rs_predict_answer *a, const rs_predict_run *run, const char *still)
{
    const rs_forecast *f = &run->forecast;
    char first[32], last[32];
    SAY(a, "no W_V is trained, so there is no gQ/gV; gQ %s … %s%s%s",
        power(first, f->rows[0].query), power(last, f->rows[f->n_layers - 1].query),
        still[0] ? "; " : "", still);
}

static void say_queries(rs_predict_answer *a, const rs_predict_run *run)
{
    const rs_forecast *f = &run->forecast;
    int32_t worst = rs_forecast_worst(f);
    char least[32], first[32], last[32], balance[80], still[96];
    a->value = worst < 0 ? NAN : rs_forecast_ratio(f, worst);
    say_still(still, run);
    if (f->n_layers > 0 && lacks_values(run) && !isnan(f->rows[0].query)) {
        say_alone(a, run, still);
        return;
    }
    if (worst < 0 && f->rows[0].value == -INFINITY) {
        SAY(a, "gV = 0: neither queries nor values have a gradient at the start");
        return;
    }
    if (is_silent(a, run, a->value)) {
        if (still[0]) SAY(a, "%s; else theory does not say", still);
        return;
    }
    say_balance(balance, run, a->value);
    SAY(a, "gQ/gV %.20s … %.20s, least %.20s in layer %d; %s",
        power(first, rs_forecast_ratio(f, 0)), power(last, rs_forecast_ratio(f, f->n_layers - 1)),
        power(least, a->value), (int)worst, still[0] ? still : balance);
}

/* ---- 4 ---- */

static void say_attention(rs_predict_answer *a, const rs_predict_run *run)
{
    const rs_forecast *f = &run->forecast;
    double n = (double)run->design->input.n, most = 0;
    int32_t least = -1;
    for (int32_t l = 0; l < f->n_layers; l++) {
        if (isnan(f->rows[l].keys)) continue;
        if (least < 0 || f->rows[l].keys < f->rows[least].keys) least = l;
        if (f->rows[l].deviation > most) most = f->rows[l].deviation;
    }
    a->value = least < 0 ? NAN : f->rows[least].keys;
    if (is_silent(a, run, a->value)) return;
    char deviation[32];
    bool condensed = rs_predict_condensed(a->value, run);
    const double most_of = 0.8; /* of the keys */
    const char *word = condensed                ? "condensed"
                       : a->value > most_of * n ? "nearly uniform"
                                                : "selective";
    SAY(a, "%s: at least %.3g of %.0f keys (layer %d); logits' s %s, landmark √(2 ln n) %.2g", word,
        a->value, n, (int)least, isfinite(most) ? power(deviation, log10(most)) : "beyond float64",
        rs_law_condensation(n));
}

/* ---- 5 ---- */

static rs_status say_depth(rs_predict_answer *a, const rs_predict_run *run, rs_error *err)
{
    const rs_predict_found *found = &run->forecast.found;
    rs_predict_reach reach;
    char law[64] = "";
    RS_TRY(rs_predict_reach_of(&reach, run, err));
    a->value = reach.deepest ? (double)reach.deepest : NAN;
    if (found->equal_from_start) {
        snprintf(law, sizeof law, "; nothing tells its tokens apart");
    } else if (found->verdict == RS_PREDICT_EXPONENTIAL && run->forecast.n_layers >= 2) {
        const rs_forecast_row *rows = run->forecast.rows;
        int32_t n = run->forecast.n_layers;
        snprintf(law, sizeof law, "; 1 − ρ falls %.3g decades a layer",
                 (rows[n / 2].apart - rows[n].apart) / (n - n / 2));
    } else if (isfinite(found->exponent) && found->verdict != RS_PREDICT_EXPLOSION) {
        bool still = fabs(found->exponent) < 0.005;
        if (still)
            snprintf(law, sizeof law, "; 1 − ρ no longer moves with depth");
        else
            snprintf(law, sizeof law, "; 1 − ρ ∝ L^%.2f", -found->exponent);
    }
    const char *word = rs_predict_verdict_code(found->verdict);
    if (!reach.deepest)
        SAY(a, "not known: %s%s", reach.why, law);
    else if (reach.ends)
        SAY(a, "%s to about %lld layers, then %s%s", word, (long long)reach.deepest,
            rs_predict_verdict_code(reach.then), law);
    else
        SAY(a, "%s to %lld layers at least (deepest tried)%s", word, (long long)reach.deepest, law);
    return RS_OK;
}

/* ---- 6 ---- */

/* What one remedy does, in a word: 1 − ρ, or where that does not move, the balance of gradients. */
static void say_remedy(char *out, size_t size, const rs_remedied *r)
{
    char apart[48], then[32], was[32];
    const rs_remedy_side with = rs_remedy_then(r);
    bool drawn = r->measured && !r->beyond, from_0 = r->before.growth == -INFINITY;
    if (!drawn || from_0 || rs_remedy_moves(r, RS_REMEDY_APART))
        snprintf(out, size, "%s: %s", r->remedy->name, rs_remedy_say_apart(apart, &with));
    else if (rs_remedy_moves(r, RS_REMEDY_RATIO))
        snprintf(out, size, "%s: gQ/gV %s → %s", r->remedy->name, power(was, r->before.ratio),
                 power(then, with.ratio));
    else
        snprintf(out, size, "%s: no measurable change of 1 − ρ", r->remedy->name);
    size_t used = strlen(out);
    if (r->worse_at[0]) snprintf(out + used, size - used, " (worse: %s)", r->worse_at);
}

/* The best three of those that were run in the same way; how many were tried. */
static size_t list_remedies(char *said, size_t size, double *value, const rs_predict_run *run,
                            size_t most)
{
    size_t n = 0;
    char one[120];
    said[0] = '\0';
    for (size_t i = 0; i < most && n < 3; i++) {
        const rs_remedied *r = &run->remedies->list[i];
        size_t used = strlen(said);
        if (!rs_remedy_helps(r, run)) continue;
        say_remedy(one, sizeof one, r);
        if (used + strlen(one) + 3 > size) break;
        snprintf(said + used, size - used, "%s%s", n++ ? "; " : "", one);
        if (n == 1) *value = rs_remedy_then(r).apart;
    }
    return n;
}

/* Each with what 1 − ρ becomes of what it is; where what it is could not be measured, by theory. */
static void say_remedies(rs_predict_answer *a, const rs_predict_run *run)
{
    const rs_remedies *all = run->remedies;
    char before[48], drawn[64] = "", said[140];
    if (!rs_predict_can_change(run)) {
        SAY(a, "not known: %s", rs_predict_fixed_because(run));
        return;
    }
    if (all->left_out) {
        SAY(a, "left out: theory of all would take too long; --remedies NAMES runs some");
        return;
    }
    bool beyond = all->trials && isnan(all->now.growth);
    const rs_remedy_side by_theory = rs_remedy_side_of(&run->forecast),
                         *now = all->trials && !beyond ? &all->now : &by_theory;
    size_t most = all->n_measured && !beyond ? all->n_measured : all->n;
    size_t helping = list_remedies(said, sizeof said, &a->value, run, most);
    if (all->trials)
        snprintf(drawn, sizeof drawn, "%d drawn%s%s: ", (int)all->trials,
                 all->twin ? ", narrower" : "", beyond ? " left float64; by theory" : "");
    if (helping)
        SAY(a, "%s1 − ρ %s → %s", drawn, rs_remedy_say_apart(before, now), said);
    else
        SAY(a, "%snone of %zu does %sbetter", drawn, most, beyond ? "" : "measurably ");
}

/* ---- 7 ---- */

/* What moves when a size doubles: 1 − ρ, growth and gQ/gV of the last layer, by more than a factor. */
typedef struct drift {
    const char *field;
    double factor;
    bool made;
    rs_predict_verdict verdict;
    double apart, growth, ratio; /* decades that it moved by */
} drift;

static rs_status measure_drift(drift *d, const rs_predict_run *run, rs_error *err)
{
    const json_t *json = run->design->json;
    const rs_arch *arch = run->design->arch;
    const rs_forecast *now = &run->forecast;
    rs_forecast then;
    if (!arch) return RS_OK;
    rs_predict_field fields[3];
    size_t n = 0;
    bool width = strcmp(d->field, "d_model") == 0;
    double size = width                              ? (double)arch->d_model
                  : strcmp(d->field, "seq_len") == 0 ? (double)arch->seq_len
                                                     : (double)arch->depth;
    fields[n++] = (rs_predict_field){d->field, d->factor * size};
    if (width && json_object_get(json, "mlp_width"))
        fields[n++] = (rs_predict_field){"mlp_width", d->factor * (double)arch->mlp_width};
    if (width && json_object_get(json, "d_head"))
        fields[n++] = (rs_predict_field){"d_head", d->factor * (double)arch->d_head};
    RS_TRY(rs_predict_changed(&then, &d->made, run, fields, n, err));
    if (d->made) {
        d->verdict = then.found.verdict;
        d->apart = then.rows[then.n_layers].apart - now->rows[now->n_layers].apart;
        d->growth = rs_forecast_growth(&then) - rs_forecast_growth(now);
        d->ratio =
            rs_forecast_ratio(&then, then.n_layers - 1) - rs_forecast_ratio(now, now->n_layers - 1);
    }
    rs_forecast_free(&then);
    return RS_OK;
}

/* Adds a number that moves by more than a factor of 1.4. */
static void add_move(char out[120], const char *name, double decades)
{
    const double moved = 0.15; /* decades */
    char factor[40];
    size_t used = strlen(out);
    if (!(fabs(decades) > moved) || decades == INFINITY) return;
    if (fabs(decades) < 4)
        snprintf(factor, sizeof factor, "× %.2g", pow(10, decades));
    else
        times(factor, decades);
    snprintf(out + used, 120 - used, " %s %s", name, factor);
}

static void say_drift(char out[120], const drift *d, const rs_predict_run *run)
{
    out[0] = '\0';
    if (d->verdict != run->forecast.found.verdict)
        snprintf(out, 120, " %s", rs_predict_verdict_code(d->verdict));
    add_move(out, "1−ρ", d->apart);
    add_move(out, "growth", d->growth);
    add_move(out, "gQ/gV", d->ratio);
}

static rs_status say_sizes(rs_predict_answer *a, const rs_predict_run *run, rs_error *err)
{
    static const struct {
        const char *field, *word;
    } sizes[] = {{"d_model", "2× width"}, {"seq_len", "½ length"}, {"depth", "2× depth"}};
    static const double factors[] = {2, 0.5, 2};
    const double runs = 4; /* that of twice the depth counts as two */
    char said[180] = "", what[120];
    size_t known = 0, used = 0;
    if (rs_predict_can_change(run) && rs_predict_too_many(run, runs)) {
        SAY(a, "left out: theory of other sizes would take too long");
        return RS_OK;
    }
    if (rs_predict_can_change(run) &&
        is_silent(a, run, run->forecast.rows[run->forecast.n_layers].square))
        return RS_OK;
    a->value = NAN;
    for (size_t i = 0; i < 3 && used < sizeof said; i++) {
        drift d = {.field = sizes[i].field, .factor = factors[i]};
        if (i == 1 && run->design->input.n < 2) continue;
        RS_TRY(measure_drift(&d, run, err));
        if (!d.made) continue;
        known++;
        say_drift(what, &d, run);
        if (isnan(a->value) || fabs(d.apart) > a->value) a->value = fabs(d.apart);
        if (what[0])
            used += (size_t)snprintf(said + used, sizeof said - used, "%s%s:%s", used ? "; " : "",
                                     sizes[i].word, what);
    }
    if (!known)
        SAY(a, "not known: %s", rs_predict_fixed_because(run));
    else
        SAY(a, "%s",
            used ? said : "yes: twice the width or depth, half the length move none of these");
    return RS_OK;
}

/* ---- 8 ---- */

static void say_trust(rs_predict_answer *a, const rs_predict_run *run)
{
    char drawn[64] = "", hidden[64] = "";
    if (!run->trials) {
        SAY(a, "theory alone, no trials: %s", run->choice.why);
        return;
    }
    snprintf(drawn, sizeof drawn, "%d trials%s", (int)run->trials->trials,
             run->twin.network ? " of a narrower twin" : "");
    const rs_predict_gap gap = rs_predict_widest_gap(run);
    rs_predict_verdict theory = run->forecast.found.verdict, measured = run->measured.found.verdict;
    a->value = gap.quantity ? gap.errors : NAN;
    const char *word = theory == measured               ? ", same verdict"
                       : measured == RS_PREDICT_UNKNOWN ? " have no verdict"
                                                        : " say ";
    bool says = theory != measured && measured != RS_PREDICT_UNKNOWN;
    if (run->measured.lost_from)
        snprintf(hidden, sizeof hidden, "; from layer %d on rounding hides 1 − ρ",
                 (int)run->measured.lost_from);
    if (!gap.quantity)
        SAY(a, "%s%s%s%s; theory has nothing to compare", drawn, word,
            says ? rs_predict_verdict_code(measured) : "", hidden);
    else
        SAY(a,
            "%s%s%s%s; widest gap %.2g s.e. (chance: %.2g): %s of layer %d, theory %.3g, "
            "drawn %.3g",
            drawn, word, says ? rs_predict_verdict_code(measured) : "", hidden, gap.errors,
            gap.chance, gap.quantity, (int)gap.layer, gap.theory, gap.measured);
}

/* ---- all ---- */

rs_status rs_predict_answer_all(rs_predict_answer answers[RS_PREDICT_ANSWERS],
                                const rs_predict_run *run, rs_error *err)
{
    static const struct {
        const char *question, *asks;
    } questions[RS_PREDICT_ANSWERS] = {
        {"apart", "do tokens stay apart?"},
        {"size", "does anything explode or vanish?"},
        {"queries", "do queries and keys learn?"},
        {"attention", "is attention uniform or condensed?"},
        {"depth", "how deep can it go?"},
        {"remedy", "what one change helps most?"},
        {"sizes", "does it hold at other widths and lengths?"},
        {"trust", "how far is this to be trusted?"},
    };
    for (int i = 0; i < RS_PREDICT_ANSWERS; i++)
        answers[i] = (rs_predict_answer){.number = i + 1,
                                         .question = questions[i].question,
                                         .asks = questions[i].asks,
                                         .value = NAN};
    say_apart(&answers[0], run);
    say_size(&answers[1], run);
    say_queries(&answers[2], run);
    say_attention(&answers[3], run);
    const rs_predict_run *changing = rs_predict_changing(run);
    RS_TRY(say_depth(&answers[4], changing, err));
    say_remedies(&answers[5], changing);
    RS_TRY(say_sizes(&answers[6], changing, err));
    say_trust(&answers[7], run);
    return RS_OK;
}
