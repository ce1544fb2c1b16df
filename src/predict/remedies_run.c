/* remedies_run.c: each remedy run, and what it makes better and worse. Theory comes first, for it costs
 * little; what it ranks highest, or what the user names, is drawn. */
#include "predict/remedies_draws.h"

#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNASKED = 3 }; /* that are drawn where nobody names any */

/* ---- sides ---- */

static bool has_idle_queries(const rs_forecast *f)
{
    for (int32_t l = 0; l < f->n_layers; l++)
        if (f->rows[l].query == -INFINITY) return true;
    return false;
}

rs_remedy_side rs_remedy_side_of(const rs_forecast *f)
{
    int32_t worst = rs_forecast_worst(f);
    return (rs_remedy_side){.found = f->found,
                            .apart = f->rows[f->n_layers].apart,
                            .most = f->rows[f->n_layers].most,
                            .ratio = worst < 0 ? NAN : rs_forecast_ratio(f, worst),
                            .growth = rs_forecast_growth(f),
                            .back = rs_forecast_growth_back(f),
                            .keys = rs_forecast_least_keys(f),
                            .idle = has_idle_queries(f)};
}

double rs_remedy_number_of(const rs_remedy_side *side, rs_remedy_number number)
{
    const double numbers[RS_REMEDY_NUMBERS] = {side->apart, side->ratio, side->growth, side->back};
    return (unsigned)number < RS_REMEDY_NUMBERS ? numbers[number] : NAN;
}

/* 1 − ρ is there, and rounding of trials hides it. */
static bool is_hidden(const rs_remedy_side *side)
{
    return isnan(side->apart) && !isnan(side->most);
}

double rs_remedy_change(const rs_remedy_side *before, const rs_remedy_side *then,
                        rs_remedy_number number)
{
    double from = rs_remedy_number_of(before, number), to = rs_remedy_number_of(then, number);
    if (from == to) return 0; /* both may be -INFINITY */
    if (number != RS_REMEDY_APART || is_hidden(before) == is_hidden(then)) return to - from;
    if (is_hidden(before)) return to > before->most ? to - before->most : NAN;
    return from > then->most ? then->most - from : NAN;
}

const char *rs_remedy_say_apart(char out[48], const rs_remedy_side *side)
{
    if (is_hidden(side))
        snprintf(out, 48, "below 10^%.0f", ceil(side->most));
    else if (isnan(side->apart))
        snprintf(out, 48, "%s", side->growth == -INFINITY ? "nothing (states are 0)" : "not known");
    else if (fabs(side->apart) < 4)
        snprintf(out, 48, "%.2g", pow(10, side->apart));
    else
        snprintf(out, 48, isfinite(side->apart) ? "10^%.1f" : "0", side->apart);
    return out;
}

static bool is_known(const rs_remedy_side *side)
{
    return side->found.verdict != RS_PREDICT_UNKNOWN;
}

/* ---- better and worse ---- */

bool rs_remedy_moves(const rs_remedied *r, rs_remedy_number number)
{
    const double least = 0.005; /* decades: one percent, which helps nobody, however sure it is */
    double by = fabs(rs_remedy_change(&r->before, &r->drawn, number));
    if (isinf(by)) return true; /* one of them is 0 in every trial */
    return by > fmax(2 * r->change_error[number], least) && isfinite(r->change_error[number]);
}

static bool moves_at_all(const rs_remedied *r)
{
    bool moves = false;
    for (int i = 0; i < RS_REMEDY_NUMBERS; i++)
        moves = moves || rs_remedy_moves(r, (rs_remedy_number)i);
    return moves;
}

static void add_worse(rs_remedied *r, const char *word)
{
    size_t used = strlen(r->worse_at);
    snprintf(r->worse_at + used, sizeof r->worse_at - used, "%s%s", used ? " " : "", word);
}

/* Tokens collapse faster; what explodes is another question. */
static bool falls_faster(const rs_remedy_side *now, const rs_remedy_side *then)
{
    return is_known(now) && is_known(then) && then->found.verdict > now->found.verdict &&
           then->found.verdict != RS_PREDICT_EXPLOSION;
}

/* A question's answer is worse where its number moves by more than a factor of two, the wrong way; of
 * trials, by more than chance. What is not known of one side is not worse. */
static void compare(rs_remedied *r, const rs_remedy_side *now, const rs_remedy_side *then)
{
    const double twice = log10(2);
    bool moves[RS_REMEDY_NUMBERS], drawn = r->measured && !r->beyond;
    for (int i = 0; i < RS_REMEDY_NUMBERS; i++)
        moves[i] = !drawn || rs_remedy_moves(r, (rs_remedy_number)i);
    double ratio = fabs(then->ratio) - fabs(now->ratio);
    double size = fabs(then->growth) - fabs(now->growth);
    double back = fabs(then->back) - fabs(now->back);
    double keys = log10(now->keys / then->keys);
    bool nearer = rs_remedy_change(now, then, RS_REMEDY_APART) < -twice && moves[RS_REMEDY_APART];
    bool faster = falls_faster(now, then) && (!drawn || moves_at_all(r));
    r->worse_at[0] = '\0';
    if (nearer || faster) add_worse(r, "apart");
    if ((size > twice && moves[RS_REMEDY_GROWTH]) || (back > twice && moves[RS_REMEDY_BACK]))
        add_worse(r, "size");
    bool balance = ratio > twice && moves[RS_REMEDY_RATIO];
    if (balance || (then->idle && !now->idle)) add_worse(r, "queries");
    if (keys > twice && !r->fixed) add_worse(r, "attention");
}

/* Tokens that rounding alone keeps apart have collapsed, whatever the law. */
static double rank_of(const rs_remedy_side *side)
{
    if (is_known(side)) return (double)side->found.verdict;
    return (double)(is_hidden(side) ? RS_PREDICT_EXPONENTIAL : RS_PREDICT_COUNT);
}

/* Verdicts first, then digits of 1 − ρ, then the balance of gradients. Beyond three decades neither
 * counts for more: nobody trains better with it. */
static double score(const rs_remedy_side *side, bool worse)
{
    const double most = 3;
    double apart = isnan(side->apart) ? -most : fmax(side->apart, -most);
    double balance = isnan(side->ratio) ? -most : fmax(-fabs(side->ratio), -most);
    return -10 * rank_of(side) + 2 * apart + balance / 2 - (worse ? 0.5 : 0);
}

static void judge(rs_remedied *r, const rs_remedy_side *now, const rs_remedy_side *then)
{
    compare(r, now, then);
    r->score = score(then, r->worse_at[0] != '\0');
}

rs_remedy_side rs_remedy_before(const rs_remedied *r, const rs_predict_run *run)
{
    return r->measured && !r->beyond ? r->before : rs_remedy_side_of(&run->forecast);
}

rs_remedy_side rs_remedy_then(const rs_remedied *r)
{
    return r->measured && !r->beyond ? r->drawn : r->theory;
}

bool rs_remedy_helps(const rs_remedied *r, const rs_predict_run *run)
{
    const rs_remedy_side now = rs_remedy_before(r, run), then = rs_remedy_then(r);
    if (!is_known(&then) || r->score <= score(&now, false)) return false;
    /* who explodes is not helped, nor is who loses 1 − ρ for a gQ/gV that nothing is compared with */
    bool known = isfinite(now.ratio), apart = then.apart > now.apart;
    bool verdict = then.found.verdict < now.found.verdict;
    if (then.found.verdict == RS_PREDICT_EXPLOSION) return false;
    if (!known && !apart && !verdict && is_known(&now)) return false;
    return !r->measured || r->beyond || moves_at_all(r);
}

/* ---- one remedy ---- */

/* The file with the remedy; *json NULL: it does not apply, for the reason *why. */
static rs_status edit(json_t **json, const char **why, const rs_predict_run *run,
                      const rs_remedy *remedy, rs_error *err)
{
    bool applies = true;
    *json = json_deep_copy(run->design->json);
    *why = NULL;
    if (!*json) return rs_fail_memory(err, remedy->name, 1);
    rs_status status = remedy->apply(*json, &applies, run, err);
    if (status == RS_OK && !applies)
        *why = "it is not for such an architecture";
    else if (status == RS_OK && json_equal(*json, run->design->json))
        *why = "the architecture has it already";
    if (status == RS_OK && !*why) return RS_OK;
    json_decref(*json);
    *json = NULL;
    return status;
}

/* What a pass over it costs; fused states are read by a map of all layers' numbers to the width. */
static void put_price(rs_remedied *r, const rs_design *with, const rs_design *without)
{
    const rs_network *network = with->network;
    double n = (double)with->input.n, d = (double)network->d_model;
    double read = r->remedy->fuses ? (double)network->n_layers * d * d : 0;
    double time = rs_trials_cost(network, with->input.n) + 6 * n * read;
    if (network->read_out.map.weight) read = 0; /* counted with the others */
    r->parameters_ratio =
        ((double)network->stored.parameters + read) / (double)without->network->stored.parameters;
    r->time_ratio = time / rs_trials_cost(without->network, without->input.n);
}

/* As much of it as there is room for, in whole characters. */
static void note(rs_remedied *r, const char *why)
{
    const char *text = why ? why : "theory has no number";
    size_t length = strlen(text);
    if (length > sizeof r->note - 1) length = sizeof r->note - 1;
    while (length > 0 && !rs_utf8_valid(text, length))
        length--;
    memcpy(r->note, text, length);
    r->note[length] = '\0';
}

static void note_theory(rs_remedied *r, const rs_forecast *f)
{
    const char *why = NULL;
    for (int32_t l = 0; l <= f->n_layers && !why; l++)
        why = f->rows[l].note;
    note(r, why);
}

/* What theory says of the file with it. */
static rs_status take_theory(rs_remedied *out, rs_predict_variant *v, const rs_predict_run *run,
                             rs_error *err)
{
    rs_status status = RS_OK;
    out->made = v->made;
    if (!v->made) {
        note(out, v->why.what);
        return RS_OK;
    }
    if (out->remedy->fuses) {
        rs_forecast_fuse(&v->forecast);
        status = rs_forecast_judge(&v->forecast, &run->settings.thresholds, err);
    }
    out->theory = rs_remedy_side_of(&v->forecast);
    out->fixed = v->design.arch && v->design.arch->mix_softmax == 0 && !v->design.arch->layer_mix;
    put_price(out, &v->design, run->design);
    if (!is_known(&out->theory)) note_theory(out, &v->forecast);
    return status;
}

/* Sets what its trials do not tell, and why. */
static void note_trials(rs_remedied *r)
{
    char text[160], apart[48];
    const rs_remedy_side *hidden = is_hidden(&r->drawn) ? &r->drawn : &r->before;
    r->note[0] = '\0';
    r->beyond = isnan(r->before.growth);
    if (r->beyond) {
        note(r, "trials without it left the range of float64: it stands where theory has it");
    } else if (is_hidden(hidden)) {
        snprintf(text, sizeof text, "1 − ρ %s it is %s, where float64's rounding hides it",
                 hidden == &r->drawn ? "with" : "without", rs_remedy_say_apart(apart, hidden));
        note(r, text);
    } else if (!is_known(&r->drawn)) {
        note(r, "its trials have no verdict");
    }
}

/* By trials; what stops those of this remedy alone becomes its note. */
static rs_status ask_trials(rs_remedied *r, rs_remedy_draws *draws, rs_error *err)
{
    const rs_predict_run *run = draws->run;
    rs_design design = {0};
    json_t *json;
    const char *useless;
    RS_TRY(edit(&json, &useless, run, r->remedy, err));
    if (!json) return RS_OK;
    rs_error why;
    rs_status status = rs_design_of(&design, run->design, json, &why);
    if (status == RS_OK) status = rs_remedy_draw(r, draws, &design, &why);
    rs_design_close(&design);
    if (status == RS_OK) {
        note_trials(r);
        const rs_remedy_side now = rs_remedy_before(r, run), then = rs_remedy_then(r);
        judge(r, &now, &then);
        return RS_OK;
    }
    if (status == RS_E_NO_MEMORY || status == RS_E_INTERRUPTED) {
        *err = why;
        return status;
    }
    note(r, why.what);
    return RS_OK;
}

/* ---- all ---- */

/* Those that were drawn first, then those that theory knows, then the others. */
static int place_of(const rs_remedied *r)
{
    return r->measured ? 0 : is_known(&r->theory) ? 1 : 2;
}

static int by_score(const void *a, const void *b)
{
    const rs_remedied *x = a, *y = b;
    if (place_of(x) != place_of(y)) return place_of(x) - place_of(y);
    if (x->score != y->score) return (x->score < y->score) - (x->score > y->score);
    return (x->remedy > y->remedy) - (x->remedy < y->remedy); /* qsort keeps no order */
}

static bool is_named(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *p = names; p && *p; p += strspn(p, ",")) {
        size_t n = strcspn(p, ",");
        if (n == length && memcmp(p, name, n) == 0) return true;
        p += n;
    }
    return !names || strcmp(names, "all") == 0;
}

rs_status rs_remedies_check(const char *names, rs_error *err)
{
    const rs_remedy *remedy;
    if (!names || strcmp(names, "all") == 0) return RS_OK;
    for (const char *p = names; *p; p += strspn(p, ",")) {
        size_t n = strcspn(p, ",");
        RS_TRY(rs_remedy_find(&remedy, p, n, err));
        p += n;
    }
    return RS_OK;
}

/* Those of `names`, in the order of the table, and their files; one that does nothing is listed where it
 * was named, without a file. */
static rs_status list_all(rs_remedies *out, rs_predict_variant *variants, const rs_predict_run *run,
                          const char *names, rs_error *err)
{
    bool chosen = names && strcmp(names, "all") != 0;
    const rs_remedy *remedy;
    for (size_t i = 0; (remedy = rs_remedy_at(i)); i++) {
        const char *useless;
        rs_remedied *r = &out->list[out->n];
        if (!is_named(names, remedy->name)) continue;
        *r = (rs_remedied){.remedy = remedy, .parameters_ratio = NAN, .time_ratio = NAN};
        r->theory =
            (rs_remedy_side){.apart = NAN, .most = NAN, .ratio = NAN, .growth = NAN, .back = NAN};
        r->theory.keys = NAN;
        RS_TRY(edit(&variants[out->n].json, &useless, run, remedy, err));
        if (useless) note(r, useless);
        if (!useless || chosen) out->n++;
    }
    return RS_OK;
}

/* Those that make no architecture are told where they were named. */
static void take_all(rs_remedies *out, const rs_predict_run *run, const char *names)
{
    const rs_remedy_side now = rs_remedy_side_of(&run->forecast);
    bool chosen = names && strcmp(names, "all") != 0;
    size_t kept = 0;
    for (size_t i = 0; i < out->n; i++) {
        rs_remedied *r = &out->list[i];
        if (r->made) judge(r, &now, &r->theory);
        if (r->made || chosen) out->list[kept++] = *r;
    }
    out->n = kept;
    qsort(out->list, out->n, sizeof *out->list, by_score);
}

/* By theory, so many at once as memory holds the descriptions of: those of deep ones are large. */
static rs_status ask_some(rs_remedies *out, rs_predict_variant *variants, const rs_predict_run *run,
                          rs_error *err)
{
    enum { DEEP = 4096 };
    size_t threads = (size_t)run->context->threads;
    size_t at_once = run->design->network->n_layers < DEEP ? out->n : threads;
    rs_status status = RS_OK;
    for (size_t first = 0; first < out->n && status == RS_OK; first += at_once) {
        size_t last = first + at_once < out->n ? first + at_once : out->n;
        status = rs_predict_try_all(variants + first, last - first, run, err);
        for (size_t i = first; i < last && status == RS_OK; i++) {
            rs_remedied *r = &out->list[i];
            /* asked: its file was taken over */
            if (r->note[0] == '\0') status = take_theory(r, &variants[i], run, err);
            rs_predict_variant_close(&variants[i]);
            variants[i] = (rs_predict_variant){0};
        }
    }
    return status;
}

/* Fills the list by theory. */
static rs_status ask_all(rs_remedies *out, size_t most, const rs_predict_run *run,
                         const char *names, rs_error *err)
{
    rs_predict_variant *variants = rs_calloc(most, sizeof *variants);
    if (!variants) return rs_fail_memory(err, "remedies", most * sizeof *variants);
    rs_status status = list_all(out, variants, run, names, err);
    if (status == RS_OK) status = ask_some(out, variants, run, err);
    if (status == RS_OK) take_all(out, run, names);
    for (size_t i = 0; i < most; i++)
        rs_predict_variant_close(&variants[i]);
    rs_free(variants);
    return status;
}

/* How many from the front of the list are drawn. */
static size_t count_drawn(const rs_remedies *list, const rs_predict_run *run, bool asked)
{
    const rs_remedy_side now = rs_remedy_side_of(&run->forecast);
    size_t known = 0, made = 0;
    for (size_t i = 0; i < list->n; i++) {
        known += is_known(&list->list[i].theory);
        made += list->list[i].made;
    }
    if (asked || !is_known(&now)) return made;
    return known < UNASKED ? known : UNASKED;
}

static rs_status draw(rs_remedies *out, const rs_predict_run *run, bool asked, rs_error *err)
{
    rs_remedy_draws draws;
    size_t n = count_drawn(out, run, asked);
    if (n == 0) return RS_OK;
    rs_status status = rs_remedy_draws_open(&draws, run, (int32_t)n, asked, err);
    for (size_t i = 0; i < out->n && out->n_measured < n && status == RS_OK; i++) {
        rs_remedied *r = &out->list[i];
        if (!r->made) continue;
        status = ask_trials(r, &draws, err);
        out->n_measured += r->measured;
    }
    if (status == RS_OK) rs_remedy_draws_now(out, &draws);
    rs_remedy_draws_close(&draws);
    qsort(out->list, out->n, sizeof *out->list, by_score);
    return status;
}

rs_status rs_remedies_run(rs_remedies *out, const rs_predict_run *run, const char *names,
                          rs_error *err)
{
    size_t most = 0;
    *out = (rs_remedies){0};
    RS_TRY(rs_remedies_check(names, err));
    if (!rs_predict_can_change(run)) return RS_OK;
    while (rs_remedy_at(most))
        most++;
    out->left_out = !names && rs_predict_too_many(run, (double)most);
    if (out->left_out) return RS_OK;
    out->list = rs_malloc(most, sizeof *out->list);
    if (!out->list) return rs_fail_memory(err, "remedies", most * sizeof *out->list);
    RS_TRY(ask_all(out, most, run, names, err));
    return run->choice.trials > 0 ? draw(out, run, names != NULL, err) : RS_OK;
}

void rs_remedies_free(rs_remedies *remedies)
{
    rs_free(remedies->list);
    *remedies = (rs_remedies){0};
}
