/*
 * test_paths_lesions.c: on networks of random shapes, a lesion of `paths --lesions` is the whole
 * pass of the network that --ablate makes, bit for bit, and the cosines of single paths are those of
 * all their pairs. tests/cli/lesions.sh holds both against transformers and NumPy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "paths/paths_parts.h"
#include "paths_support.h"
#include "property.h"

enum { SEED = 5, PATHS = 6 };

static int64_t pick(rs_random *random, int64_t from, int64_t to)
{
    return from + (int64_t)(rs_random_uniform(random) * (double)(to - from + 1));
}

typedef struct shape {
    int64_t depth, heads, n;
} shape;

static shape draw_shape(drawn *o, rs_random *random)
{
    static const char *const norms[] = {"none", "pre", "post"};
    char text[320];
    shape s = {pick(random, 1, 3), pick(random, 1, 4), pick(random, 1, 6)};
    int64_t shared = pick(random, 0, 1);
    snprintf(text, sizeof text,
             "{\"depth\": %d, \"d_model\": %d, \"heads\": %d, \"kv_heads\": %d, \"d_head\": %d, "
             "\"norm\": \"%s\", \"mask\": \"%s\", \"mlp\": \"gelu\", \"mlp_width\": 7}",
             (int)s.depth, (int)pick(random, 2, 9), (int)s.heads, (int)(shared ? 1 : s.heads),
             (int)pick(random, 1, 5), norms[pick(random, 0, 2)],
             pick(random, 0, 1) ? "causal" : "none");
    draw_network(o, text, s.n, property_bits());
    return s;
}

static rs_result *run_drawn(const drawn *o, const char *ablate)
{
    rs_error err = {0};
    rs_context context = {.threads = 2, .seed = SEED};
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.paths = PATHS;
    options.lesions = true;
    options.edit.ablate[0] = ablate;
    int64_t begin[2] = {0, o->begin[1]};
    const rs_inputs inputs = {.kind = "random",
                              .samples = 1,
                              .begin = begin,
                              .states = o->states,
                              .longest = begin[1],
                              .shortest = begin[1],
                              .d_model = o->network->d_model};
    rs_result *result = rs_result_new("paths");
    if (rs_paths(result, o->network, &inputs, &options, &context, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

/* Equal, or undefined both. */
static void same_cell(const rs_table *a, size_t i, const rs_table *b, size_t j, const char *column)
{
    double x = cell(a, i, column), y = cell(b, j, column);
    if (!(x == y || (isnan(x) && isnan(y)))) fail_msg("%s: %.17g and %.17g", column, x, y);
}

static void lesions_are_passes_of_edited_networks(void **state)
{
    (void)state;
    for (int t = property_start(60, 1900); property_next(&t);) {
        rs_random random = property_random();
        drawn o;
        char ablate[32];
        shape s = draw_shape(&o, &random);
        int64_t layer = pick(&random, 0, s.depth - 1), head = pick(&random, 0, s.heads - 1);
        snprintf(ablate, sizeof ablate, "%d:%d", (int)layer, (int)head);
        rs_result *intact = run_drawn(&o, NULL), *edited = run_drawn(&o, ablate);
        const rs_table *a = rs_result_table(intact, "lesions");
        const rs_table *b = rs_result_table(edited, "lesions");
        /* the model, then of each layer its heads, its attention and its MLP */
        size_t row = (size_t)(1 + layer * (s.heads + 2) + head);
        assert_int_equal(whole(a, row, "layer"), layer);
        assert_int_equal(whole(a, row, "head"), head);
        same_cell(a, row, b, 0, "residual_ratio");
        same_cell(b, row, b, 0, "residual_ratio"); /* what is gone cannot be left out */
        assert_true(isnan(cell(a, row, "nll")));
        rs_result_free(intact);
        rs_result_free(edited);
        close_drawn(&o);
    }
}

/* The mean over all pairs of different paths, one by one. */
static double pair_mean(const rs_path_sums *sums, const rs_path_set *set, int32_t length,
                        int32_t hops)
{
    int64_t count = sums->n * sums->d, pairs = 0;
    double sum = 0;
    for (size_t i = set->first[length]; i < set->first[length + 1]; i++)
        for (size_t j = i + 1; j < set->first[length + 1]; j++) {
            const double *x = sums->path_state + (int64_t)i * count;
            const double *y = sums->path_state + (int64_t)j * count;
            double xx = 0, yy = 0, xy = 0;
            if (memcmp(set->choice + i * (size_t)hops, set->choice + j * (size_t)hops,
                       (size_t)hops * sizeof *set->choice) == 0)
                continue;
            for (int64_t c = 0; c < count; c++)
                xx += x[c] * x[c], yy += y[c] * y[c], xy += x[c] * y[c];
            if (xx > 0 && yy > 0) sum += xy / sqrt(xx * yy), pairs++;
        }
    return pairs ? sum / (double)pairs : NAN;
}

static void cosines_are_those_of_all_pairs(void **state)
{
    (void)state;
    for (int t = property_start(60, 1960); property_next(&t);) {
        rs_random random = property_random();
        rs_error err = {0};
        drawn o;
        rs_path_set *set;
        draw_shape(&o, &random);
        rs_result *result = run_drawn(&o, NULL);
        const rs_table *table = rs_result_table(result, "paths");
        rs_path_plan *plan = plan_of(o.network, -1);
        assert_int_equal(rs_path_set_draw(&set, plan, PATHS, SEED, &err), RS_OK);
        rs_path_sums *sums = sums_drawn(&o, plan, set, 2);
        for (int32_t k = 0; k <= plan->longest; k++) {
            size_t row = row_of(table, "length", 0, k);
            double want = pair_mean(sums, set, k, plan->n_hops), got = cell(table, row, "cosine");
            assert_int_equal(isnan(want), isnan(got));
            if (!isnan(want)) property_worst(fabs(got - want));
            double error = cell(table, row, "cosine_se");
            assert_true(isnan(error) || error >= 0);
        }
        rs_path_sums_close(sums);
        rs_path_set_close(set);
        rs_path_plan_close(plan);
        rs_result_free(result);
        close_drawn(&o);
    }
    property_holds(1e-12);
}

enum { BUNDLE = 12, NUMBERS = 24 };

/* Contributions of as many paths as `m`, drawn from `kinds` of them: independent, or of one direction with
 * a share of their own. */
static rs_path_cosine one_bundle(int m, int kinds, double common, rs_random *random)
{
    double paths[BUNDLE][NUMBERS], states[BUNDLE * NUMBERS];
    int64_t copies[BUNDLE];
    bool again[BUNDLE], exhaustive[] = {false};
    int which[BUNDLE];
    size_t first[] = {0, (size_t)m};
    for (int k = 0; k < kinds; k++) {
        double share = common * (1 + 0.3 * rs_random_normal(random));
        rs_random_normals(random, paths[k], NUMBERS);
        for (int c = 0; c < NUMBERS; c++)
            paths[k][c] += c % 2 ? share : -share;
    }
    for (int i = 0; i < m; i++) {
        which[i] = kinds == m ? i : (int)(rs_random_uniform(random) * kinds);
        memcpy(states + i * NUMBERS, paths[which[i]], sizeof *paths);
    }
    for (int i = 0; i < m; i++) {
        copies[i] = 0, again[i] = false;
        for (int j = 0; j < m; j++) {
            copies[i] += which[i] == which[j];
            again[i] |= j < i && which[i] == which[j];
        }
    }
    rs_path_set set = {
        .n = (size_t)m, .first = first, .exhaustive = exhaustive, .copies = copies, .again = again};
    const rs_network network = {.d_model = NUMBERS};
    rs_path_plan plan = {.longest = 0};
    const rs_context context = {.threads = 1};
    const rs_paths_run run = {.set = &set, .network = &network, .plan = &plan, .context = &context};
    rs_path_cosine cosine;
    rs_path_sample sample = {.cosines = &cosine};
    rs_error err;
    assert_int_equal(rs_path_measure_cosines(&sample, &run, states, 1, &err), RS_OK);
    return cosine;
}

/* The root mean square of the error beside the spread of the mean, and of the null beside the root mean
 * square of the mean, over many draws. What differs from one drawn set of paths to the next is no part of an
 * error, so that where they are drawn from others, nine or six here, only the null is held. */
static void errors_are_spreads(void **state)
{
    static const struct {
        int m, kinds;
        double common;
    } cases[] = {{5, 5, 0}, {8, 8, 0}, {12, 12, 0}, {8, 8, 1}, {12, 12, 2}, {8, 9, 0}, {5, 6, 0}};
    enum { DRAWS = 2000 };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rs_random random = rs_random_new(71, k);
        double sum = 0, squares = 0, errors = 0, nulls = 0;
        int n = 0;
        for (int draw = 0; draw < DRAWS; draw++) {
            rs_path_cosine c = one_bundle(cases[k].m, cases[k].kinds, cases[k].common, &random);
            if (isnan(c.mean) || isnan(c.error)) continue;
            sum += c.mean, squares += c.mean * c.mean, n++;
            errors += c.error * c.error, nulls += c.null * c.null;
        }
        double spread = sqrt(squares / n - sum / n * (sum / n));
        double ratio = sqrt(errors / n) / spread, chance = sqrt(nulls / squares);
        if ((cases[k].kinds == cases[k].m && !(ratio > 0.93 && ratio < 1.3)) ||
            (cases[k].common == 0 && !(chance > 0.93 && chance < 1.07)))
            fail_msg("%d of %d paths, share %g: error over spread %.3f, null over mean %.3f",
                     cases[k].m, cases[k].kinds, cases[k].common, ratio, chance);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lesions_are_passes_of_edited_networks),
        cmocka_unit_test(cosines_are_those_of_all_pairs),
        cmocka_unit_test(errors_are_spreads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
