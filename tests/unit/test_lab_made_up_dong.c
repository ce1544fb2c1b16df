/*
 * test_lab_made_up_dong.c: claims of dong-sorting, dong-circle and dong-ensembles, in full, over runs that
 * are made up (made_up_runs.h), beside plain arithmetic on the same numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "made_up_runs.h"

enum { SEEDS = 5 };
static const rs_lab_options plain = {0};
static const double noise[SEEDS] = {0, 0.011, -0.007, 0.019, -0.004};

static double mean_of(const double *values, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += values[i];
    return sum / n;
}

/* ---- dong-sorting ---- */

enum { LENGTHS = 7 };
static const double two_rates[2] = {1e-5, 1e-3};

/* As a run is kept (lab/dong_lengths.h). */
typedef struct kept_lengths {
    double diverged, model, code[LENGTHS], theorem[LENGTHS], up_to[LENGTHS];
    double constant, alone, ceiling;
} kept_lengths;

/* Seed 4 diverges at the larger rate: never right, beside the floor in closed form. */
static kept_lengths sorted(int rate, int seed)
{
    kept_lengths r = {.constant = 0.34 + noise[seed] / 10, .alone = 0.4, .ceiling = 1};
    if (rate == 1 && seed == 4) return (kept_lengths){1, .constant = 0.338817535, .alone = NAN};
    r.model = (rate ? 0.97 : 0.59) + noise[seed];
    for (int k = 0; k < LENGTHS; k++) {
        r.code[k] = (k == 1 ? 0.62 : 0.33 - 0.03 * k) + noise[(seed + k) % SEEDS];
        r.theorem[k] = (k == 1 ? 0.345 : k == 2 ? 0.6 : 0.34) + noise[(seed + 2 * k) % SEEDS];
        r.up_to[k] = r.model - 0.05 * (LENGTHS - 1 - k);
    }
    if (rate == 0 && seed == 1) r.up_to[LENGTHS - 1] += 0.001;
    if (rate == 0 && seed == 2) r.theorem[0] = r.alone + 0.01;
    return r;
}

static void fill_sorting(double *numbers, size_t n, const made_up_task *task)
{
    const kept_lengths run = sorted(task_rate(task, two_rates, 2), task->seed);
    assert_int_equal(n, sizeof run / sizeof *numbers);
    memcpy(numbers, &run, sizeof run);
}

static void check_rate(const rs_result *result, int rate)
{
    static const char *const names[] = {"1e-5", "1e-3"}, *const ways[] = {"code", "theorem"};
    double model[SEEDS], shortest[SEEDS], by[3][2][SEEDS];
    char text[120];
    for (int s = 0; s < SEEDS; s++) {
        const kept_lengths r = sorted(rate, s);
        model[s] = r.model, shortest[s] = r.code[1];
        for (int way = 0; way < 2; way++) {
            const double *of = way ? r.theorem : r.code;
            by[0][way][s] = of[1] - r.constant;
            by[1][way][s] = of[1] - of[2];
            by[2][way][s] = r.constant - (of[2] + of[3] + of[4] + of[5] + of[6]) / 5;
        }
    }
    double whole = mean_of(model, SEEDS), one = mean_of(shortest, SEEDS);
    snprintf(text, sizeof text, "rate %s: the whole model is right", names[rate]);
    check_claim(result, text, whole, 0.05,
                fabs(whole - 0.98) <= 0.05 ? "pass" : "differs_from_paper");
    snprintf(text, sizeof text, "rate %s: paths of length 1 are right, code's way", names[rate]);
    check_claim(result, text, one, 0.05, fabs(one - 0.6) <= 0.05 ? "pass" : "differs_from_paper");
    for (int way = 0; way < 2; way++) {
        static const char *const orders[] = {"length 1 beats the floor", "length 1 beats length 2",
                                             "the floor beats lengths 2 to 6"};
        for (int i = 0; i < 3; i++) {
            snprintf(text, sizeof text, "rate %s: %s, %s's way, by", names[rate], orders[i],
                     ways[way]);
            check_order(result, text, by[i][way], SEEDS, "differs_from_paper");
        }
    }
}

static void sorting(void **state)
{
    (void)state;
    rs_kept_runs kept = {.fill = fill_sorting};
    rs_result *result = run_made_up("dong-sorting", &kept, &plain);
    for (int rate = 0; rate < 2; rate++)
        check_rate(result, rate);
    check_claim(result, "all lengths, biases and MLPs: other answers than the model's", 0.001,
                0.002, "pass");
    check_claim(result, "length 0: above the best answer by a token alone", 0.01, 0, "fail");
    const rs_table *table = rs_result_table(result, "dong_sorting_lengths"),
                   *runs = rs_result_table(result, "dong_sorting_runs");
    assert_int_equal(rs_table_rows(table), 2 * LENGTHS);
    for (size_t row = 0; row < 2 * LENGTHS; row++) {
        int rate = (int)row / LENGTHS, k = (int)row % LENGTHS;
        double code[SEEDS], theorem[SEEDS], floor[SEEDS];
        for (int s = 0; s < SEEDS; s++) {
            const kept_lengths r = sorted(rate, s);
            code[s] = r.code[k], theorem[s] = r.theorem[k], floor[s] = r.constant;
        }
        assert_true(fabs(rs_lab_cell(table, row, "released") - mean_of(code, SEEDS)) < 1e-12);
        assert_true(fabs(rs_lab_cell(table, row, "theorem") - mean_of(theorem, SEEDS)) < 1e-12);
        assert_true(fabs(rs_lab_cell(table, row, "floor") - mean_of(floor, SEEDS)) < 1e-12);
    }
    assert_int_equal(rs_table_rows(runs), 2 * SEEDS);
    for (size_t row = 0; row < 2 * SEEDS; row++)
        assert_string_equal(rs_lab_cell_text(runs, row, "end"), row == 9 ? "diverged" : "trained");
    rs_result_free(result);
}

/* ---- dong-circle ---- */

enum { KINDS = 6, WIDTHS = 3, STEPS = 300, LARGE = 2 };
static const int widths[WIDTHS] = {32, 64, 128};

/* As a run is kept (lab/dong_circle_loop.h). */
typedef struct kept_circle {
    double diverged, loss, apart[STEPS + 1], radius[STEPS + 1], stays;
} kept_circle;

typedef enum fate { MERGES, LEAVES, STAYS } fate;

static bool circle_diverges(int rate, int kind, int width, int seed)
{
    return rate == 1 && kind == 1 && width == 2 && seed == 0;
}

static fate circle_fate(int rate, int kind, int width, int seed)
{
    if (circle_diverges(rate, kind, width, seed)) return LEAVES;
    if (kind < 3) return (kind + width + seed) % 3 == 0 ? LEAVES : seed == 4 ? STAYS : MERGES;
    return rate == 0 && width == 0 && seed < 2 ? MERGES : STAYS;
}

/* What is left of the distance at the end: of what left the circle it counts as 1 at most. */
static double circle_end(int rate, int kind, int width, int seed)
{
    fate f = circle_fate(rate, kind, width, seed);
    return f == LEAVES ? 1.7 : f == MERGES ? 0.01 + 0.001 * seed : 0.06 + 0.1 * kind;
}

static double circle_stays(int rate, int kind, int width, int seed)
{
    if (circle_diverges(rate, kind, width, seed)) return 0;
    return 0.3 + 0.02 * kind - (kind == 4 ? 0.1 : 0) + 0.03 * width * (rate ? 1 : -1) +
           noise[(seed + kind + width) % SEEDS];
}

static double circle_loss(int rate, int kind, int width, int seed)
{
    double least =
        0.1799992771184715; /* of one constant, in closed form (tests/cli/dong_floors.py) */
    return kind == 0 && rate == 0 && width == 0 ? least * (0.97 - noise[seed]) : 0.01;
}

static int circle_kind(const made_up_task *task)
{
    if (task_has(task, "'dropout': 0"))
        return task_has(task, "'mlp': 'gelu'") ? 1 : task_has(task, "'skip_mixer': 0") ? 0 : 2;
    return task_has(task, "'mlp': 'gelu'") ? 4 : task_has(task, "'lag': 30") ? 5 : 3;
}

static void fill_circle(double *numbers, size_t n, const made_up_task *task)
{
    int rate = task_rate(task, two_rates, 2), kind = circle_kind(task), width = 0,
        seed = task->seed;
    kept_circle run = {.stays = 0};
    char words[32];
    for (width = 0; width < WIDTHS; width++) {
        snprintf(words, sizeof words, "'d_model': %d", widths[width]);
        const char *at = strstr(task->text, words);
        if (at && strchr(",}", at[strlen(words)])) break;
    }
    assert_true(width < WIDTHS && n == sizeof run / sizeof *numbers);
    bool gone = circle_diverges(rate, kind, width, seed);
    run.diverged = gone;
    run.loss = gone ? 0 : circle_loss(rate, kind, width, seed);
    run.stays = circle_stays(rate, kind, width, seed);
    for (int t = 0; t <= STEPS; t++) {
        double end = circle_end(rate, kind, width, seed);
        run.apart[t] = gone ? (double)INFINITY : t < STEPS ? 1 : end;
        run.radius[t] = gone                                             ? (double)INFINITY
                        : circle_fate(rate, kind, width, seed) == LEAVES ? 1 + LARGE * t / 300.0
                                                                         : 1;
    }
    memcpy(numbers, &run, sizeof run);
}

static void check_story(const rs_result *result, int rate, int first)
{
    static const char *const names[] = {"1e-5", "1e-3"};
    const char *name = first ? "released" : "attention";
    double left = 0, wide[SEEDS], mlp[SEEDS], skip[SEEDS];
    char text[120];
    for (int s = 0; s < SEEDS; s++) {
        double own = circle_stays(rate, first, 0, s);
        left += fmin(circle_end(rate, first, 0, s), 1) / SEEDS;
        wide[s] = circle_stays(rate, first, 2, s) - own;
        mlp[s] = circle_stays(rate, first + 1, 0, s) - own;
        skip[s] = circle_stays(rate, first + 2, 0, s) - own;
    }
    snprintf(text, sizeof text, "%s, 32, rate %s: distance left at step 300", name, names[rate]);
    check_claim(result, text, left, 0.1, left <= 0.1 ? "pass" : "differs_from_paper");
    snprintf(text, sizeof text, "%s, rate %s: width 128 stays apart more than 32, by", name,
             names[rate]);
    check_order(result, text, wide, SEEDS, "differs_from_paper");
    snprintf(text, sizeof text, "%s, rate %s: with an MLP it stays apart more, by", name,
             names[rate]);
    check_order(result, text, mlp, SEEDS, "differs_from_paper");
    snprintf(text, sizeof text, "%s, rate %s: with a skip it stays apart more, by", name,
             names[rate]);
    check_order(result, text, skip, SEEDS, "differs_from_paper");
}

static void circle(void **state)
{
    (void)state;
    rs_kept_runs kept = {.fill = fill_circle};
    rs_result *result = run_made_up("dong-circle", &kept, &plain);
    double stay[2] = {0}, worst = 0;
    for (int k = 0; k < 2 * KINDS * WIDTHS * SEEDS; k++) {
        int rate = k % 2, kind = k / 2 % KINDS, width = k / 2 / KINDS % WIDTHS,
            seed = k / 2 / KINDS / WIDTHS;
        stay[kind >= 3] += circle_fate(rate, kind, width, seed) == STAYS;
    }
    for (int s = 0; s < SEEDS; s++)
        worst = fmax(worst, 1 - circle_loss(0, 0, 0, s) / 0.1799992771184715);
    for (int k = 0; k < 4; k++)
        check_story(result, k % 2, k / 2 * 3);
    double runs = 2 * 3 * WIDTHS * SEEDS;
    check_claim(result, "without norms: share of runs that neither merge nor leave", stay[0] / runs,
                0.1, stay[0] / runs <= 0.1 ? "pass" : "fail");
    check_claim(result, "released, with norms: share of runs that merge or leave",
                1 - stay[1] / runs, 0.25, 1 - stay[1] / runs <= 0.25 ? "pass" : "fail");
    const rs_table *claims = rs_result_table(result, "claims"),
                   *table = rs_result_table(result, "dong_circle_runs");
    size_t at = claim_row(claims, "attention, 32, rate 1e-5: share of it that training takes away");
    assert_true(fabs(rs_lab_cell(claims, at, "measured") - worst) < 1e-9);
    assert_int_equal(rs_table_rows(table), 2 * KINDS * WIDTHS);
    for (size_t row = 0; row < rs_table_rows(table); row++) {
        int rate = (int)row / (KINDS * WIDTHS), kind = (int)row / WIDTHS % KINDS,
            width = (int)row % WIDTHS, counts[3] = {0}, gone = 0;
        double stays[SEEDS];
        for (int s = 0; s < SEEDS; s++) {
            counts[circle_fate(rate, kind, width, s)]++;
            gone += circle_diverges(rate, kind, width, s);
            stays[s] = circle_stays(rate, kind, width, s);
        }
        assert_true(rs_lab_cell(table, row, "width") == widths[width]);
        assert_true(rs_lab_cell(table, row, "merged") == counts[MERGES]);
        assert_true(rs_lab_cell(table, row, "left") == counts[LEAVES]);
        assert_true(rs_lab_cell(table, row, "stayed") == counts[STAYS]);
        assert_true(rs_lab_cell(table, row, "diverged") == gone);
        assert_true(fabs(rs_lab_cell(table, row, "stays") - mean_of(stays, SEEDS)) < 1e-12);
    }
    rs_result_free(result);
}

/* ---- dong-ensembles ---- */

enum { HEADS = 12, PLACES = 64, LOOKS = 3, LONGEST = 6, SETS = 4 };
static const int set_sizes[SETS] = {1, 2, 4, 12};

typedef struct kept_sum {
    double sum, squares, n;
} kept_sum;

/* As a network is kept (lab/dong_ensembles.c, put_list). */
typedef struct kept_look {
    double diverged, longest, loss, sets, heads[HEADS];
    kept_sum cosine[PLACES], missing[PLACES];
    double null[PLACES], nll[PLACES];
    kept_sum rise[HEADS], alone[HEADS];
    double cross[HEADS], most;
} kept_look;

static void put_sum(kept_sum *to, double value)
{
    to->sum += value, to->squares += value * value, to->n++;
}

/* By length of path, two samples; the longest paths leave rounding. Length 4 is the most alike; of one head
 * the cosine is above 0 in one seed and below it in another. */
static double path_cosine(int state, int length, int seed, int sample)
{
    if (length == 1) return -0.002 * state + noise[seed] + 0.01 * sample - 0.004;
    return (length == 4 ? -0.5 : 0.1) - 0.02 * length * state + noise[seed] + 0.01 * sample;
}

static double path_missing(int state, int length, int seed, int sample)
{
    return length == LONGEST ? 1e-13
                             : 0.9 - 0.1 * length - 0.2 * state + noise[seed] + 0.02 * sample;
}

/* Three draws of each size of set. */
static double set_rise(int set, int seed, int draw)
{
    return 0.1 * set_sizes[set] + 0.05 * (set > 1) + noise[seed] + 0.01 * draw;
}

/* Two heads of a network before training cost less than nothing alone. */
static double set_alone(int state, int set, int seed, int draw)
{
    return (!state && set == 1 ? -1 : 1) * 0.1 * set_sizes[set] +
           (set > 0 ? 0.03 * draw + 2 * noise[seed] : noise[seed] + 0.01 * draw);
}

static const double most_needed[LOOKS] = {0.3, 0.5, 0.45};

static void fill_ensembles(double *numbers, size_t n, const made_up_task *task)
{
    int state = !task_has(task, "'steps': 0,"), seed = task->seed;
    kept_look look = {.longest = LONGEST, .loss = 1, .sets = SETS, .most = most_needed[seed]};
    assert_int_equal(n, sizeof look / sizeof *numbers);
    for (int k = 0; k <= LONGEST; k++) {
        for (int sample = 0; sample < 2; sample++) {
            if (k > 0) put_sum(&look.cosine[k], path_cosine(state, k, seed, sample));
            put_sum(&look.missing[k], path_missing(state, k, seed, sample));
        }
        look.null[k] = 0.02 * k;
        look.nll[k] = 3 - 0.1 * k * state + noise[seed];
    }
    for (int set = 0; set < SETS; set++) {
        look.heads[set] = set_sizes[set];
        for (int draw = 0; draw < 3; draw++) {
            double rise = set_rise(set, seed, draw), alone = set_alone(state, set, seed, draw);
            put_sum(&look.rise[set], rise);
            put_sum(&look.alone[set], alone);
            look.cross[set] += rise * alone;
        }
    }
    memcpy(numbers, &look, sizeof look);
}

static double two_samples(double (*of)(int, int, int, int), int state, int length, int seed)
{
    return (of(state, length, seed, 0) + of(state, length, seed, 1)) / 2;
}

static void check_lesions(const rs_table *table)
{
    size_t at = 0;
    assert_int_equal(rs_table_rows(table), 2 * SETS);
    for (size_t row = 0; row < rs_table_rows(table); row++) {
        bool trained = strcmp(rs_lab_cell_text(table, row, "network"), "trained") == 0;
        double most = rs_lab_cell(table, row, "most");
        assert_true(row % SETS == 0 ? most == 0.5 : isnan(most));
        assert_true(isnan(rs_lab_cell(table, row, "ratio")) == (!trained && row % SETS == 1));
        if (!trained) continue;
        int set = (int)at++;
        double rises = 0, alones = 0, squares = 0;
        assert_true(rs_lab_cell(table, row, "heads") == set_sizes[set]);
        assert_true(rs_lab_cell(table, row, "draws") == 3 * LOOKS);
        for (int k = 0; k < 3 * LOOKS; k++)
            rises += set_rise(set, k / 3, k % 3), alones += set_alone(1, set, k / 3, k % 3);
        double ratio = rises / alones;
        for (int k = 0; k < 3 * LOOKS; k++)
            squares +=
                pow(set_rise(set, k / 3, k % 3) - ratio * set_alone(1, set, k / 3, k % 3), 2);
        double error = sqrt(squares / (9.0 * 8)) / (alones / 9);
        assert_true(fabs(rs_lab_cell(table, row, "ratio") - ratio) < 1e-12);
        assert_true(fabs(rs_lab_cell(table, row, "ratio_error") - error) < 1e-7);
        assert_true(fabs(rs_lab_cell(table, row, "loss_rise") - rises / 9) < 1e-12);
        squares = 0;
        for (int k = 0; k < 3 * LOOKS; k++)
            squares += pow(set_rise(set, k / 3, k % 3) - rises / 9, 2);
        assert_true(fabs(rs_lab_cell(table, row, "loss_rise_error") - sqrt(squares / 72)) < 1e-12);
    }
    assert_int_equal(at, SETS);
}

/* What claims are made of, network by network. */
static void check_seeds(const rs_result *result)
{
    const rs_table *lengths = rs_result_table(result, "dong_ensembles_seed_lengths"),
                   *lesions = rs_result_table(result, "dong_ensembles_seed_lesions");
    assert_int_equal(rs_table_rows(lengths), 2 * LOOKS * (LONGEST + 1));
    assert_int_equal(rs_table_rows(lesions), 2 * LOOKS * SETS);
    for (size_t row = 0; row < rs_table_rows(lengths); row++) {
        int k = (int)row % (LONGEST + 1), at = (int)row / (LONGEST + 1), trained = at / LOOKS,
            s = at % LOOKS;
        double cosine = rs_lab_cell(lengths, row, "cosine"),
               missing = rs_lab_cell(lengths, row, "cumulative_error");
        assert_true(rs_lab_cell(lengths, row, "seed") == s);
        assert_string_equal(rs_lab_cell_text(lengths, row, "network"),
                            trained ? "trained" : "start");
        assert_true(fabs(missing - two_samples(path_missing, trained, k, s)) < 1e-12);
        assert_true(k == 0 ? isnan(cosine)
                           : fabs(cosine - two_samples(path_cosine, trained, k, s)) < 1e-12);
    }
    for (size_t row = 0; row < rs_table_rows(lesions); row++) {
        int set = (int)row % SETS, at = (int)row / SETS, trained = at / LOOKS, s = at % LOOKS;
        double rise[3], alone[3], most = rs_lab_cell(lesions, row, "most"),
                                  ratio = rs_lab_cell(lesions, row, "ratio");
        for (int d = 0; d < 3; d++)
            rise[d] = set_rise(set, s, d), alone[d] = set_alone(trained, set, s, d);
        assert_true(rs_lab_cell(lesions, row, "seed") == s);
        assert_true(fabs(rs_lab_cell(lesions, row, "loss_rise") - mean_of(rise, 3)) < 1e-12);
        assert_true(set == 0 ? most == most_needed[s] : isnan(most));
        assert_true(!trained && set == 1
                        ? isnan(ratio)
                        : fabs(ratio - mean_of(rise, 3) / mean_of(alone, 3)) < 1e-12);
    }
}

static void ensembles(void **state)
{
    (void)state;
    rs_kept_runs kept = {.fill = fill_ensembles};
    rs_result *result = run_made_up("dong-ensembles", &kept, &plain);
    double missing[LOOKS], alike[LOOKS], above[LOOKS], one[LOOKS], four[LOOKS], more[LOOKS];
    for (int s = 0; s < LOOKS; s++) {
        double rise[3], alone[3], all[3];
        for (int d = 0; d < 3; d++)
            rise[d] = set_rise(2, s, d), alone[d] = set_alone(1, 2, s, d),
            all[d] = set_rise(3, s, d);
        double half = two_samples(path_missing, 1, 3, s),
               cosine = two_samples(path_cosine, 1, 4, s);
        missing[s] = 0.5 - half / two_samples(path_missing, 1, 0, s);
        more[s] = half - two_samples(path_missing, 0, 3, s);
        alike[s] = 0.5 - fabs(cosine);
        above[s] = two_samples(path_cosine, 1, 1, s);
        one[s] = 0.5 - most_needed[s] / mean_of(all, 3);
        four[s] = mean_of(rise, 3) / mean_of(alone, 3) - 1;
    }
    check_order(
        result,
        "trained: what paths of at most half the attentions miss of what all add, below 0.5 "
        "by",
        missing, LOOKS, "differs_from_paper");
    check_order(result,
                "trained: cosine of two paths of one length, where it is largest, below 0.5 by",
                alike, LOOKS, "differs_from_paper");
    assert_true(above[0] * above[1] < 0);
    check_either(result, "trained: cosine of two paths of one head, above 0 by",
                 "trained: cosine of two paths of one head, below 0 by", above, LOOKS);
    check_order(result,
                "trained: rise of the loss without one head, the most needed, over that without "
                "all, below 0.5 by",
                one, LOOKS, "differs_from_paper");
    check_either(result, "trained: four heads at once cost more than each alone, ratio above 1 by",
                 "trained: four heads at once cost less than each alone, ratio below 1 by", four,
                 LOOKS);
    check_either(result, "short paths miss more of the trained model than at its start",
                 "short paths miss less of the trained model than at its start", more, LOOKS);
    check_claim(result, "runs that diverged", 0, 0, "pass");
    check_claim(result, "what paths of all lengths miss of the last state, worst network", 1e-13,
                1e-9, "pass");
    check_lesions(rs_result_table(result, "dong_ensembles_lesions"));
    check_seeds(result);
    const rs_table *table = rs_result_table(result, "dong_ensembles_lengths");
    assert_int_equal(rs_table_rows(table), 2 * (LONGEST + 1));
    for (size_t row = 0; row < rs_table_rows(table); row++) {
        int trained = (int)row / (LONGEST + 1), k = (int)row % (LONGEST + 1);
        double miss[LOOKS], nll[LOOKS];
        for (int s = 0; s < LOOKS; s++)
            miss[s] = two_samples(path_missing, trained, k, s),
            nll[s] = 3 - 0.1 * k * trained + noise[s];
        assert_true(fabs(rs_lab_cell(table, row, "cumulative_error") - mean_of(miss, LOOKS)) <
                    1e-12);
        assert_true(fabs(rs_lab_cell(table, row, "nll") - mean_of(nll, LOOKS)) < 1e-12);
    }
    rs_result_free(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sorting), cmocka_unit_test(circle),
                                       cmocka_unit_test(ensembles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
