/* test_series.c: which checkpoints a series has, in which order, and when a rank falls. Numbers are held
 * against scan's and NumPy's by tests/cli/series.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "property.h"
#include "rankscope.h"
#include "scan/series.h"
#include "scan/series_trend.h"
#include "session_support.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN RS_TEST_DATA "/compare/"

/* ---- names ---- */

static void steps_of_names(void **state)
{
    static const struct {
        const char *path, *words;
        int64_t step;
    } rows[] = {{"checkpoint-500", "checkpoint-", 500},
                {"run/checkpoint-1000/", "checkpoint-", 1000},
                {"run/checkpoint-1000//", "checkpoint-", 1000},
                {"run-7/final", "final", -1},
                {"step-000000500", "step-", 500},
                {"step0", "step", 0},
                {"0", "", 0},
                {"000", "", 0},
                {"/12", "", 12},
                {"epoch_3.safetensors", "epoch_", 3},
                {"model-20.gguf", "model-", 20},
                {".gguf", ".gguf", -1},
                {"llama-3.1", "llama-3.1", -1},
                {"v1.2.30", "v1.2.30", -1},
                {"step.30", "step.", 30},
                {"llama-7b", "llama-7b", -1},
                {"", "", -1},
                {"/", "", -1},
                {"a-999999999999999999", "a-", 999999999999999999},
                {"a-000999999999999999999", "a-", 999999999999999999},
                {"a-1000000000000000000", "a-1000000000000000000", -1},
                {"a--5", "a--", 5},
                {"a-5 ", "a-5 ", -1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *words;
        size_t n;
        int64_t step = rs_series_step(rows[i].path, &words, &n);
        if (step != rows[i].step || n != strlen(rows[i].words) ||
            memcmp(words, rows[i].words, n) != 0)
            fail_msg("%s: %lld, '%.*s'", rows[i].path, (long long)step, (int)n, words);
    }
}

static void order_of(rs_series_list *list, const char *const *paths, size_t n)
{
    bool series;
    rs_error err;
    *list = (rs_series_list){0};
    if (rs_series_list_make(list, &series, paths, n, &err) != RS_OK) fail_msg("%s", err.what);
    assert_int_equal(list->n, n);
    assert_true(series == (n > 1));
}

static void orders_of_paths(void **state)
{
    enum { MOST = 5 };
    static const struct {
        const char *given[MOST], *wanted[MOST];
        bool steps;
    } rows[] = {
        {{"c-1000", "c-500", "c-20"}, {"c-20", "c-500", "c-1000"}, true},
        {{"final", "c-1000", "best", "c-500"}, {"c-500", "c-1000", "final", "best"}, true},
        {{"c-0020", "c-3", "c-100"}, {"c-3", "c-0020", "c-100"}, true},
        {{"b", "a", "c"}, {"b", "a", "c"}, false},
        {{"gpt-2", "llama-1"},
         {"gpt-2", "llama-1"},
         false},                                        /* two models: their numbers say nothing */
        {{"y/c-2", "x/c-1"}, {"x/c-1", "y/c-2"}, true}, /* a run that went on in another folder */
        {{"x/c-2", "x/c-3", "y/c-1", "y/c-2"}, {"x/c-2", "x/c-3", "y/c-1", "y/c-2"}, false},
        {{"llama", "mamba2", "gpt"}, {"llama", "mamba2", "gpt"}, false},
        {{"c-10", "c-010"}, {"c-10", "c-010"}, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = 0;
        rs_series_list list;
        while (n < MOST && rows[i].given[n])
            n++;
        order_of(&list, rows[i].given, n);
        for (size_t k = 0; k < n; k++)
            assert_string_equal(list.items[k].path, rows[i].wanted[k]);
        assert_true(list.steps == rows[i].steps);
        rs_series_list_free(&list);
    }
}

/* Numbers at random, filled up with zeros at random, in an order at random, between names without one. */
static void numbered_names_are_sorted(void **state)
{
    enum { MOST = 40 };
    (void)state;
    for (int t = property_start(200, 5); property_next(&t);) {
        rs_random random = property_random();
        char names[MOST][32];
        const char *paths[MOST];
        rs_series_list list;
        size_t n = 2 + (size_t)(rs_random_uniform(&random) * (MOST - 2));
        long long step = 0;
        for (size_t i = 0; i < n; i++) {
            step += 1 + (long long)(rs_random_uniform(&random) * 700);
            int zeros = (int)(rs_random_uniform(&random) * 10);
            if (i > 1 && rs_random_uniform(&random) < 0.2)
                snprintf(names[i], sizeof names[i], "name %c", (char)('a' + i % 26));
            else
                snprintf(names[i], sizeof names[i], "c-%0*lld", zeros, step);
            paths[i] = names[i];
        }
        for (size_t i = n - 1; i > 0; i--) {
            size_t k = (size_t)(rs_random_uniform(&random) * (double)(i + 1));
            const char *other = paths[i];
            paths[i] = paths[k];
            paths[k] = other;
        }
        order_of(&list, paths, n);
        size_t numbered = 0, place = 0;
        while (numbered < n && list.items[numbered].step >= 0)
            numbered++;
        for (size_t i = 0; i + 1 < numbered; i++)
            assert_true(list.items[i].step < list.items[i + 1].step);
        for (size_t i = 0; i < n; i++) /* those without a number as they were given */
            if (strncmp(paths[i], "name", 4) == 0)
                assert_string_equal(list.items[numbered + place++].path, paths[i]);
        assert_int_equal(numbered + place, n);
        rs_series_list_free(&list);
    }
    property_holds(1);
}

/* ---- trends ---- */

enum { MOST_VALUES = 4096 };

static rs_trend trend(const double *values, size_t n, double spread)
{
    static double spreads[MOST_VALUES], scratch[MOST_VALUES];
    for (size_t i = 0; i < n; i++)
        spreads[i] = spread;
    return rs_trend_of(values, spreads, n, 0.2, scratch);
}

static void trends_by_hand(void **state)
{
    static const struct {
        double values[16];
        size_t n;
        double spread;
        rs_trend_kind kind;
        size_t since;
    } rows[] = {
        {{0.99, 0.89, 0.43}, 3, 0.01, RS_TREND_FALLS, 0},
        {{0.99}, 1, 0.01, RS_TREND_HOLDS, 0},
        {{0.99, 0.5}, 2, 0.01, RS_TREND_FALLS, 0},
        {{0.99, 0.5}, 2, 0.2, RS_TREND_HOLDS, 1}, /* chance alone does that */
        {{0.99, 0.82}, 2, 0.01, RS_TREND_HOLDS, 1},
        /* dead, whatever it swung before: it came from low, or was saved as zeros once */
        {{0.3, 0.7, 1, 0.75, 0.5, 0.25, 0}, 7, 0.01, RS_TREND_FALLS, 2},
        {{0.3, 0.7, 1, 0.75, 0.5, 0.25, 0.1}, 7, 0.01, RS_TREND_HOLDS, 6},
        {{1, 0, 1, 1, 1, 0}, 6, 0.01, RS_TREND_FALLS, 4},
        {{0, 0.5, 1, 0}, 4, 0.01, RS_TREND_FALLS, 2},
        {{0, 0, 0}, 3, 0.01, RS_TREND_HOLDS, 2},
        {{1, 1, 1, 1}, 4, 0, RS_TREND_HOLDS, 3},
        {{0.5, 0.6, 0.8, 0.9}, 4, 0.01, RS_TREND_RISES, 0},
        {{0.5, 0.9, 0.8, 0.2}, 4, 0.01, RS_TREND_FALLS, 1},
        {{0.5, 0.9, 0.8, 0.45}, 4, 0.01, RS_TREND_HOLDS, 3}, /* it is where it came from */
        {{0.9, 0.8, 0.3, 0}, 4, 0.01, RS_TREND_FALLS, 0},    /* it died */
        {{0.9, 0, 0.9}, 3, 0.01, RS_TREND_HOLDS, 2},         /* and this one came to life again */
        {{0.9, 0, 0}, 3, 0.01, RS_TREND_FALLS, 0},
        {{0.98, 0.99, 0.97, 0.985, 0.8, 0.5},
         6,
         0.001,
         RS_TREND_FALLS,
         3}, /* not since the maximum */
        {{0.9, 0.5, 0.88, 0.52}, 4, 0.01, RS_TREND_HOLDS, 3},
        {{0.9, 0.6, 0.85, 0.9}, 4, 0.01, RS_TREND_HOLDS, 3},        /* it came back: no rise */
        {{0.9, 0.6, 0.85, 1.2}, 4, 0.01, RS_TREND_RISES, 1},        /* and went on */
        {{0.9, 0.6, 0.59, 0.6, 0.61}, 5, 0.001, RS_TREND_FALLS, 0}, /* and this one did not */
        /* a slow dip that was made good, and then a fall: of many, neighbours tell what is noise */
        {{0.99, 0.9, 0.8, 0.72, 0.7, 0.72, 0.8, 0.9, 0.98, 0.97, 0.85, 0.72, 0.6, 0.5},
         14,
         0.001,
         RS_TREND_FALLS,
         9},
        /* the same dip, and one that is hardly deeper: the next may come back as the first did */
        {{0.99, 0.9, 0.8, 0.72, 0.7, 0.72, 0.8, 0.9, 0.98, 0.97, 0.85, 0.72, 0.66, 0.63},
         14,
         0.001,
         RS_TREND_HOLDS,
         13},
        /* random models differ by as much as it falls by, neighbours do not: it begins where it does */
        {{0.98, 0.984, 0.981, 0.983, 0.9, 0.8, 0.7, 0.66}, 8, 0.07, RS_TREND_FALLS, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rs_trend t = trend(rows[i].values, rows[i].n, rows[i].spread);
        if (t.kind != rows[i].kind || t.since != rows[i].since)
            fail_msg("row %zu: %s since %zu (noise %g, chance %g)", i, rs_trend_name(t.kind),
                     t.since, t.noise, t.chance);
    }
}

static void draw(double *values, size_t n, double noise, double slope, rs_random *random)
{
    rs_random_normals(random, values, n);
    for (size_t i = 0; i < n; i++)
        values[i] = 0.9 + noise * values[i] + (n > 1 ? slope * (double)i / (double)(n - 1) : 0);
}

/* What a level does of itself: independent numbers, a chain x_{i+1} = memory x_i + ..., a wave of some period with
 * little noise, or steps that add up to the noise at the end. */
typedef enum wander { ALONE, CHAIN, WAVE, WALK } wander;

/* n numbers about 1 of standard deviation (WAVE: amplitude) `noise`; more: the memory, or the period. */
static void draw_wander(double *values, size_t n, wander kind, double noise, double more,
                        rs_random *random)
{
    const double turn = 2 * acos(-1);
    double phase = turn * rs_random_uniform(random), at = 0;
    rs_random_normals(random, values, n);
    for (size_t i = 0; i < n; i++) {
        double fresh = values[i];
        if (kind == CHAIN) at = i ? more * at + sqrt(1 - more * more) * fresh : fresh;
        if (kind == WALK) at += fresh / sqrt((double)n);
        values[i] = kind == ALONE ? 1 + noise * fresh
                    : kind == WAVE
                        ? 1 + noise * cos(turn * (double)i / more + phase) + 0.005 * fresh
                        : 1 + noise * at;
        values[i] = fmax(values[i], 0.001);
    }
}

/* docs/series.md: how often what a level does of itself is called a fall, or a rise. */
static void noise_seldom_falls(void **state)
{
    static const struct {
        wander kind;
        double noise, more;
        double most; /* of all series, in percent */
        size_t lengths[12];
    } rows[] = {{ALONE, 0.02, 0, 0.01, {2, 3, 4, 6, 8, 11, 12, 20, 60, 200}},
                {ALONE, 0.05, 0, 0.5, {2, 3, 4, 6, 8, 11, 12, 14, 20, 60, 200, 300}},
                {ALONE, 0.1, 0, 10, {2, 3, 4, 6, 8}},
                {ALONE, 0.1, 0, 1, {11, 12, 13, 14, 16, 20, 30, 60, 100, 200, 300}},
                {ALONE, 0.25, 0, 1, {12, 14, 20, 60, 200}},
                {CHAIN, 0.05, 0.5, 1, {2, 3, 4, 6, 8, 11, 12, 20, 40, 60, 100, 300}},
                {CHAIN, 0.05, 0.8, 1, {2, 3, 4, 6, 8, 11, 12, 20, 40, 60, 100, 300}},
                {CHAIN, 0.05, 0.95, 1, {2, 3, 4, 6, 8, 11, 12, 20, 40, 60, 100, 300}},
                {CHAIN, 0.1, 0.5, 8, {2, 3, 4, 6, 8, 11, 12, 20, 40, 60}},
                {CHAIN, 0.1, 0.8, 8, {2, 3, 4, 6, 8, 11, 12, 16, 20, 40, 60}},
                {CHAIN, 0.1, 0.95, 9, {2, 3, 4, 6, 8, 11, 12, 20, 40, 60, 100}},
                {CHAIN, 0.1, 0.5, 1, {40, 60, 100, 200, 300}},
                {CHAIN, 0.1, 0.8, 1, {100, 200, 300}},
                {CHAIN, 0.1, 0.95, 1, {250, 300}},
                /* waves that were seen for one period and a half */
                {WAVE, 0.15, 8, 0.01, {12, 13, 20, 40, 100}},
                {WAVE, 0.25, 8, 0.01, {12, 13, 20, 40, 100}},
                {WAVE, 0.12, 15, 0.01, {23, 24, 40, 100}},
                {WAVE, 0.15, 15, 0.01, {23, 24, 40, 100}},
                {WAVE, 0.25, 5, 0.01, {8, 9, 12, 40}},
                {WAVE, 0.25, 30, 0.01, {45, 60, 100}},
                {WALK, 0.2, 0, 25, {12, 40, 100}}};
    double values[300];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < 12 && rows[i].lengths[k]; k++) {
            enum { DRAWS = 3000 };
            rs_random random = rs_random_new(29, 100 * i + k);
            int fell = 0;
            size_t n = rows[i].lengths[k];
            for (int t = 0; t < DRAWS; t++) {
                draw_wander(values, n, rows[i].kind, rows[i].noise, rows[i].more, &random);
                fell += trend(values, n, 1e-4).kind == RS_TREND_FALLS;
            }
            if (100.0 * fell > rows[i].most * DRAWS)
                fail_msg("kind %d, noise %g, %g: of %zu values %d of %d fell", (int)rows[i].kind,
                         rows[i].noise, rows[i].more, n, fell, DRAWS);
        }
}

/* The share of the way at the place at in [0, 1]: a line, a step in the middle, the last two of many, a line at
 * the end, and one that begins slowly. */
typedef enum descent { LINE, STEP, LATE, BENT, SLOW } descent;
static double way_at(descent kind, double at, size_t left)
{
    const double ways[] = {[LINE] = at,
                           [STEP] = at > 0.5 ? 1 : 0,
                           [LATE] = left < 2 ? 1 : 0,
                           [BENT] = at > 0.7 ? (at - 0.7) / 0.3 : 0,
                           [SLOW] = at * at * at};
    return ways[kind];
}

/* docs/series.md: a fall by half is found in noise of 5 %, alone and with a memory, whatever its shape. */
static void falls_are_found(void **state)
{
    static const size_t lengths[] = {4, 6, 12, 20, 60, 200, 300};
    static const struct {
        double noise, memory, least; /* of all series, in percent */
    } rows[] = {{0.02, 0, 99},   {0.02, 0.8, 99}, {0.05, 0, 80},
                {0.05, 0.5, 85}, {0.05, 0.8, 95}, {0.05, 0.95, 97}};
    double values[300];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int shape = LINE; shape <= SLOW; shape++)
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
                enum { DRAWS = 400 };
                rs_random random = rs_random_new(31, 1000 * i + 100 * (size_t)shape + k);
                size_t n = lengths[k];
                int fell = 0;
                for (int t = 0; t < DRAWS; t++) {
                    draw_wander(values, n, CHAIN, rows[i].noise, rows[i].memory, &random);
                    for (size_t j = 0; j < n; j++)
                        values[j] -=
                            0.5 * way_at((descent)shape, (double)j / (double)(n - 1), n - 1 - j);
                    fell += trend(values, n, 1e-4).kind == RS_TREND_FALLS;
                }
                if (100.0 * fell < rows[i].least * DRAWS)
                    fail_msg("noise %g, memory %g, shape %d: of %zu values %d of %d fell",
                             rows[i].noise, rows[i].memory, shape, n, fell, DRAWS);
            }
}

/* A line that loses half of its height, in noise of a hundredth, is seen at every length; level and rising ones
 * never are. */
static void slopes_are_told(void **state)
{
    (void)state;
    for (int t = property_start(400, 77); property_next(&t);) {
        rs_random random = property_random();
        double values[300];
        size_t n = 3 + (size_t)(rs_random_uniform(&random) * 290);
        draw(values, n, 0.009, -0.45, &random);
        assert_int_equal(trend(values, n, 1e-3).kind, RS_TREND_FALLS);
        draw(values, n, 0.009, 0, &random);
        assert_int_equal(trend(values, n, 1e-3).kind, RS_TREND_HOLDS);
        draw(values, n, 0.009, 0.45, &random);
        assert_int_equal(trend(values, n, 1e-3).kind, RS_TREND_RISES);
    }
    property_holds(1);
}

/* What falls for good is found whatever it is measured in, and upside down it rises. */
static void monotone_falls(void **state)
{
    (void)state;
    for (int t = property_start(300, 901); property_next(&t);) {
        rs_random random = property_random();
        double values[50], scaled[50];
        size_t n = 2 + (size_t)(rs_random_uniform(&random) * 48);
        values[0] = 1;
        for (size_t i = 1; i < n; i++)
            values[i] = values[i - 1] * (1 - 0.5 * rs_random_uniform(&random));
        for (size_t i = 0; i < n; i++)
            scaled[i] = 37 * values[i];
        rs_trend a = trend(values, n, 0), b = trend(scaled, n, 0);
        assert_int_equal(a.highest, 0);
        assert_true(a.kind == (values[n - 1] < 0.8 ? RS_TREND_FALLS : RS_TREND_HOLDS));
        assert_true(a.kind == b.kind && a.since == b.since && fabs(a.fall - b.fall) < 1e-12);
        for (size_t i = 0; i < n; i++)
            scaled[i] = 1 / values[n - 1 - i];
        assert_true(trend(scaled, n, 0).kind != RS_TREND_RISES);
        for (size_t i = 0; i < n; i++)
            scaled[i] = values[n - 1 - i];
        assert_true(trend(scaled, n, 0).kind != RS_TREND_FALLS);
    }
    property_holds(1);
}

/* ---- the library ---- */

static rs_result *series(const char *path, const char *const *others, size_t n)
{
    rs_scan_settings s;
    rs_result *result;
    rs_error err;
    rs_scan_settings_init(&s, sizeof s);
    s.others = others;
    s.n_others = n;
    if (rs_scan_checkpoint(&result, path, &s, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static void means_are_those_of_each_scan(void **state)
{
    static const char *const others[] = {GOLDEN "moved", GOLDEN "nowhere", GOLDEN "deep"};
    static const char *const read[] = {GOLDEN "base", GOLDEN "moved", GOLDEN "deep"};
    (void)state;
    rs_result *all = series(read[0], others, 3);
    rs_column_data ratio, path;
    size_t row = 0;
    assert_int_equal(rs_result_column(&ratio, all, "series", "effective_rank_ratio", NULL), RS_OK);
    assert_int_equal(rs_result_column(&path, all, "series", "path", NULL), RS_OK);
    for (size_t i = 0; i < 3; i++) {
        rs_result *one = series(read[i], NULL, 0);
        rs_column_data mean;
        assert_int_equal(rs_result_column(&mean, one, "layers", "effective_rank_ratio_mean", NULL),
                         RS_OK);
        for (size_t k = 0; k < mean.rows; k++, row++) {
            assert_true(row < ratio.rows);
            assert_true(ratio.real[row] == mean.real[k]);
            assert_string_equal(path.text[row], read[i]);
        }
        rs_result_free(one);
    }
    assert_int_equal(row, ratio.rows);
    assert_int_equal(rs_result_severity(all), 1); /* one was skipped */
    rs_result_free(all);
}

/* The folder of a run that changes under the reader: a step appears, another goes away. */
#define RUN "series_run"

static void change_folder(void *user, const char *phase, uint64_t done, uint64_t total,
                          const char *unit)
{
    bool *changed = user;
    (void)phase, (void)done, (void)total, (void)unit;
    if (*changed) return;
    *changed = true;
    assert_int_equal(symlink(GOLDEN "base", RUN "/checkpoint-30"), 0);
    assert_int_equal(unlink(RUN "/checkpoint-20"), 0);
}

static void remove_run(void)
{
    static const char *const steps[] = {"10", "15", "20", "30"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char path[64];
        snprintf(path, sizeof path, RUN "/checkpoint-%s", steps[i]);
        unlink(path);
    }
    rmdir(RUN);
}

static void a_run_that_goes_on(void **state)
{
    rs_scan_settings s;
    rs_result *result;
    rs_error err;
    bool changed = false;
    (void)state;
    remove_run();
    assert_int_equal(mkdir(RUN, 0700), 0);
    assert_int_equal(symlink(GOLDEN "base", RUN "/checkpoint-10"), 0);
    assert_int_equal(symlink(GOLDEN "moved", RUN "/checkpoint-15"), 0);
    assert_int_equal(symlink(GOLDEN "base", RUN "/checkpoint-20"), 0);
    rs_scan_settings_init(&s, sizeof s);
    s.call.progress = change_folder;
    s.call.user = &changed;
    if (rs_scan_checkpoint(&result, RUN, &s, &err) != RS_OK) fail_msg("%s", err.what);
    rs_column_data path, step, code;
    assert_int_equal(rs_result_column(&path, result, "checkpoints", "path", NULL), RS_OK);
    assert_int_equal(rs_result_column(&step, result, "checkpoints", "step", NULL), RS_OK);
    assert_int_equal(path.rows, 3);
    assert_int_equal(step.integer[0], 10);
    assert_int_equal(step.integer[2], 20);
    assert_int_equal(rs_result_column(&code, result, "findings", "code", NULL), RS_OK);
    size_t newer = 0, skipped = 0;
    for (size_t i = 0; i < code.rows; i++) {
        newer += strcmp(code.text[i], "newer_checkpoint") == 0;
        skipped += strcmp(code.text[i], "skipped_checkpoint") == 0;
    }
    assert_int_equal(newer, 1);
    assert_int_equal(skipped, 1);
    rs_result_free(result);
    remove_run();
}

/* A session has one model. */
static void sessions_have_no_others(void **state)
{
    static const char *const others[] = {GOLDEN "moved"};
    rs_scan_settings scan;
    rs_probe_settings probe;
    rs_certify_settings certify;
    rs_session *session;
    rs_result *result;
    rs_error err;
    held h = hold("forward/bert");
    (void)state;
    assert_int_equal(rs_session_open(&session, NULL, &err), RS_OK);
    assert_int_equal(rs_session_tensors(session, h.tensors, h.n, h.config, NULL, &err), RS_OK);
    rs_scan_settings_init(&scan, sizeof scan);
    rs_probe_settings_init(&probe, sizeof probe);
    rs_certify_settings_init(&certify, sizeof certify);
    probe.run.random = certify.run.random = 1;
    scan.others = probe.others = certify.others = others;
    scan.n_others = probe.n_others = certify.n_others = 1;
    assert_int_equal(rs_session_scan(&result, session, &scan, &err), RS_E_USAGE);
    assert_string_equal(err.where, "others");
    assert_int_equal(rs_session_probe(&result, session, &probe, &err), RS_E_USAGE);
    assert_string_equal(err.where, "others");
    assert_int_equal(rs_session_certify(&result, session, &certify, &err), RS_E_USAGE);
    assert_string_equal(err.where, "others");
    scan.n_others = 0;
    assert_int_equal(rs_session_scan(&result, session, &scan, &err), RS_OK);
    rs_result_free(result);
    rs_session_close(session);
    let_go(&h);
}

static void what_a_series_refuses(void **state)
{
    static const char *const moved[] = {GOLDEN "moved"}, *const none[] = {NULL},
                             *const lost[] = {GOLDEN "nowhere", GOLDEN "either"};
    static const double energy = 0.9;
    rs_scan_settings s;
    rs_result *result;
    rs_error err;
    (void)state;
    rs_scan_settings_init(&s, sizeof s);
    s.n_others = 1;
    assert_int_equal(rs_scan_checkpoint(&result, GOLDEN "base", &s, &err), RS_E_USAGE);
    s.others = none;
    assert_int_equal(rs_scan_checkpoint(&result, GOLDEN "base", &s, &err), RS_E_USAGE);
    s.others = lost;
    s.n_others = 2;
    assert_int_equal(rs_scan_checkpoint(&result, GOLDEN "gone", &s, &err), RS_E_NOT_FOUND);
    s.others = moved;
    s.n_others = 1;
    s.spectra = true;
    assert_int_equal(rs_scan_checkpoint(&result, GOLDEN "base", &s, &err), RS_E_USAGE);
    assert_string_equal(err.where, "spectra");
    s.spectra = false;
    s.energies = &energy;
    s.n_energies = 1;
    assert_int_equal(rs_scan_checkpoint(&result, GOLDEN "base", &s, &err), RS_E_USAGE);
    assert_string_equal(err.where, "energy");
    s.n_energies = 0;
    s.matrices = "all";
    assert_int_equal(rs_scan_checkpoint(&result, GOLDEN "base", &s, &err), RS_E_USAGE);
    s.matrices = NULL;
    s.first_layer = 90;
    assert_int_equal(rs_scan_checkpoint(&result, GOLDEN "base", &s, &err), RS_E_NO_PRODUCT);
    assert_null(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_names),
        cmocka_unit_test(orders_of_paths),
        cmocka_unit_test(numbered_names_are_sorted),
        cmocka_unit_test(trends_by_hand),
        cmocka_unit_test(noise_seldom_falls),
        cmocka_unit_test(falls_are_found),
        cmocka_unit_test(slopes_are_told),
        cmocka_unit_test(monotone_falls),
        cmocka_unit_test(means_are_those_of_each_scan),
        cmocka_unit_test(a_run_that_goes_on),
        cmocka_unit_test(sessions_have_no_others),
        cmocka_unit_test(what_a_series_refuses),
    };
    return cmocka_run_group_tests_name("series", tests, NULL, NULL);
}
