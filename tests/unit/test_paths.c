/*
 * test_paths.c: sums over paths against the enumeration of every path
 * (tests/oracle/make_paths_golden.py), the identity on every model of tests/golden/forward, and
 * what must not change a number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "collapse/paths.h"
#include "forward_catch.h"

#include <dirent.h>
#include <unistd.h>

/* ---- opening ---- */

typedef struct opened {
    rs_checkpoint *checkpoint;
    rs_network *network;
    rs_weights *weights;
} opened;

/* False where the model is not one to run. */
static bool open_model(opened *o, const char *name)
{
    char path[512];
    rs_error err = {0};
    rs_checkpoint_options how = {0};
    snprintf(path, sizeof path, "%s/forward/%s/model.gguf", RS_TEST_DATA, name);
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, "%s/forward/%s", RS_TEST_DATA, name);
    assert_int_equal(rs_checkpoint_open(&o->checkpoint, path, &how, &err), RS_OK);
    assert_int_equal(rs_network_open(&o->network, o->checkpoint, &err), RS_OK);
    return rs_weights_open(&o->weights, RS_PRECISION_F64, UINT64_MAX, &err) == RS_OK;
}

static void close_model(opened *o)
{
    rs_weights_close(o->weights);
    rs_network_close(o->network);
    rs_checkpoint_close(o->checkpoint);
}

static rs_path_sums *sums_of(const opened *o, const rs_batch *batch, const rs_path_plan *plan,
                             const rs_path_set *set, int threads)
{
    rs_error err = {0};
    rs_path_sums *sums;
    rs_context context = {.threads = threads};
    if (rs_path_sums_of(&sums, o->network, o->weights, batch, plan, set, true, &context, &err) !=
        RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return sums;
}

static rs_path_plan *plan_of(const rs_network *network, int64_t most)
{
    rs_error err = {0};
    rs_path_plan *plan;
    if (rs_path_plan_open(&plan, network, most, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return plan;
}

/* ---- against the enumeration ---- */

static void near(const char *name, const char *what, double got, const json_t *expected,
                 double tolerance)
{
    assert_non_null(expected);
    if (json_is_null(expected)) {
        if (!isnan(got)) fail_msg("%s: %s is %.15g, expected none", name, what, got);
        return;
    }
    double value = json_number_value(expected);
    if (!(fabs(got - value) <= tolerance * fmax(1, fabs(value))))
        fail_msg("%s: %s is %.15g, expected %.15g", name, what, got, value);
}

static void compare_matrices(const char *name, const double *got, const json_t *expected,
                             int64_t count, int32_t lengths)
{
    assert_int_equal(json_array_size(expected), lengths);
    for (int32_t k = 0; k < lengths; k++) {
        const json_t *list = json_array_get(expected, (size_t)k);
        assert_int_equal(json_array_size(list), count);
        for (int64_t i = 0; i < count; i++)
            near(name, "an entry of a sum", got[k * count + i], json_array_get(list, (size_t)i),
                 1e-12);
    }
}

static void compare_sums(const char *name, const opened *o, const json_t *expected)
{
    int32_t ids[16];
    int64_t begin[2] = {0, json_integer_value(json_object_get(expected, "n"))};
    const json_t *list = json_object_get(expected, "ids");
    for (int64_t i = 0; i < begin[1]; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    const rs_batch batch = {.samples = 1, .begin = begin, .ids = ids};
    rs_path_plan *plan = plan_of(o->network, -1);
    rs_path_sums *sums = sums_of(o, &batch, plan, NULL, 2);
    int32_t lengths = plan->longest + 1;
    assert_int_equal(sums->d, json_integer_value(json_object_get(expected, "d")));
    compare_matrices(name, sums->embedding, json_object_get(expected, "embedding"),
                     sums->n * sums->d, lengths);
    compare_matrices(name, sums->source, json_object_get(expected, "source"), sums->n * sums->d,
                     lengths);
    assert_true(sums->identity.output_error < 1e-14);
    rs_path_sums_close(sums);
    rs_path_plan_close(plan);
}

static char tokens_path[] = "/tmp/rs_paths_XXXXXX";

static rs_result *run_paths(const char *name, const rs_paths_options *options, int threads)
{
    char path[512];
    rs_error err = {0};
    rs_context context = {.threads = threads, .seed = 3};
    rs_result *result = rs_result_new("paths");
    snprintf(path, sizeof path, RS_TEST_DATA "/forward/%s", name);
    rs_paths_request request = {.path = path, .options = *options};
    request.options.source.tokens = tokens_path;
    if (rs_paths_path(result, NULL, &request, &context, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return result;
}

static double cell(const rs_table *table, size_t row, const char *column)
{
    int c = rs_table_find_column(table, column);
    if (c < 0) fail_msg("no column %s", column);
    return rs_table_real(table, row, (size_t)c);
}

static int64_t whole(const rs_table *table, size_t row, const char *column)
{
    int c = rs_table_find_column(table, column);
    if (c < 0) fail_msg("no column %s", column);
    return rs_table_int(table, row, (size_t)c);
}

/* The row of a sample and a length. */
static size_t row_of(const rs_table *table, const char *column, int64_t sample, int64_t length)
{
    for (size_t row = 0; row < rs_table_rows(table); row++)
        if (whole(table, row, "sample") == sample && whole(table, row, column) == length)
            return row;
    fail_msg("%s has no row for sample %lld, length %lld", rs_table_name(table), (long long)sample,
             (long long)length);
    return 0;
}

static void compare_length(const char *name, const rs_result *result, int64_t s, const json_t *want)
{
    static const struct {
        const char *column, *object, *key;
    } reals[] = {{"contribution_fro", "embedding", "fro"},
                 {"residual_ratio", "embedding", "residual"},
                 {"residual_ratio_1inf", "embedding", "residual_1inf"},
                 {"source_fro", "source", "fro"},
                 {"source_residual_ratio", "source", "residual"},
                 {"projection", NULL, "projection"},
                 {"source_projection", NULL, "source_projection"},
                 {"cumulative_error", NULL, "cumulative_error"},
                 {"cumulative_error_sources", NULL, "cumulative_error_sources"}};
    int64_t k = json_integer_value(json_object_get(want, "length"));
    const rs_table *table = rs_result_table(result, "lengths");
    size_t row = row_of(table, "length", s, k);
    assert_int_equal(whole(table, row, "count"),
                     json_integer_value(json_object_get(want, "count")));
    near(name, "log10_count", pow(10, cell(table, row, "log10_count")),
         json_object_get(want, "count"), 1e-12);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        const json_t *object = reals[i].object ? json_object_get(want, reals[i].object) : want;
        near(name, reals[i].column, cell(table, row, reals[i].column),
             json_object_get(object, reals[i].key), 1e-11);
    }
}

static void compare_paths(const char *name, const rs_result *result, int64_t s, const json_t *want)
{
    static const char *const measures[] = {"contribution_fro", "residual_ratio", "rank1_distance",
                                           "rank1_distance_1inf"};
    int64_t k = json_integer_value(json_object_get(want, "length"));
    const rs_table *table = rs_result_table(result, "paths");
    size_t row = row_of(table, "length", s, k);
    assert_int_equal(whole(table, row, "exhaustive"), 1);
    assert_int_equal(whole(table, row, "paths"),
                     json_integer_value(json_object_get(want, "count")));
    for (size_t m = 0; m < 4; m++) {
        char median[64];
        /* Where P has two equal largest singular values (length 0: the identity), its best rank one
         * is not unique, and only the Frobenius distance is determined. */
        if (m == 3 && k == 0) continue;
        /* A power iteration knows the singular vector to the root of what it knows the value to. */
        double tolerance = m == 3 ? 1e-6 : m == 2 ? 1e-9 : 1e-11;
        snprintf(median, sizeof median, "%s_median", measures[m]);
        near(name, measures[m], cell(table, row, measures[m]),
             json_array_get(json_object_get(want, "path_mean"), m), tolerance);
        near(name, median, cell(table, row, median),
             json_array_get(json_object_get(want, "path_median"), m), tolerance);
    }
}

static void compare_outcome(const char *name, const rs_result *result, int64_t s,
                            const json_t *want)
{
    const char *key;
    json_t *value;
    int64_t k = json_integer_value(json_object_get(want, "length"));
    const rs_table *table = rs_result_table(result, "truncated");
    size_t row = row_of(table, "max_length", s, k);
    json_object_foreach(json_object_get(want, "outcome"), key, value)
        near(name, key, cell(table, row, key), value, 1e-10);
}

static void compare_case(const char *name)
{
    char path[512];
    opened o;
    snprintf(path, sizeof path, RS_TEST_DATA "/paths/%s.json", name);
    json_t *json = json_load_file(path, 0, NULL), *ids = json_array();
    assert_non_null(json);
    const json_t *samples = json_object_get(json, "samples");
    assert_true(open_model(&o, name));
    for (size_t s = 0; s < json_array_size(samples); s++) {
        const json_t *sample = json_array_get(samples, s);
        compare_sums(name, &o, sample);
        json_array_append(ids, json_object_get(sample, "ids"));
    }
    close_model(&o);
    assert_int_equal(json_dump_file(ids, tokens_path, 0), 0);
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.paths = 1000;
    options.by_layer = true;
    rs_result *result = run_paths(name, &options, 2);
    assert_true(json_number_value(json_object_get(rs_result_meta(result), "identity_error")) <
                1e-13);
    for (size_t s = 0; s < json_array_size(samples); s++) {
        const json_t *sample = json_array_get(samples, s), *lengths, *layers;
        lengths = json_object_get(sample, "lengths");
        for (size_t k = 0; k < json_array_size(lengths); k++) {
            compare_length(name, result, (int64_t)s, json_array_get(lengths, k));
            compare_paths(name, result, (int64_t)s, json_array_get(lengths, k));
            compare_outcome(name, result, (int64_t)s, json_array_get(lengths, k));
        }
        layers = json_object_get(sample, "injected");
        const rs_table *table = rs_result_table(result, "sources");
        for (size_t l = 0; l < json_array_size(layers); l++) {
            size_t row = row_of(table, "layer", (int64_t)s, (int64_t)l);
            near(name, "contribution of a layer's sources", cell(table, row, "contribution_fro"),
                 json_array_get(layers, l), 1e-11);
            near(name, "their projection", cell(table, row, "projection"),
                 json_array_get(json_object_get(sample, "injected_projection"), l), 1e-11);
        }
    }
    rs_result_free(result);
    json_decref(ids);
    json_decref(json);
}

static void agrees_with_enumeration(void **state)
{
    (void)state;
    static const char *const names[] = {"bert", "gpt2", "llama", "gemma2", "gpt_neox"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare_case(names[i]);
}

/* ---- the identity, whatever the architecture ---- */

static void identity_of(const char *name)
{
    char path[512];
    opened o;
    rs_error err = {0};
    rs_checkpoint *golden;
    rs_checkpoint_options how = {0};
    rs_path_set *set;
    input in;
    snprintf(path, sizeof path, "%s/forward/%s/golden.safetensors", RS_TEST_DATA, name);
    assert_int_equal(rs_checkpoint_open(&golden, path, &how, &err), RS_OK);
    read_input(&in, golden);
    assert_true(open_model(&o, name));
    rs_path_plan *plan = plan_of(o.network, -1);
    assert_int_equal(rs_path_set_draw(&set, plan, 100000, 0, &err), RS_OK);
    for (int32_t s = 0; s < in.batch.samples; s++) {
        int64_t from = in.begin[s], begin[] = {0, in.begin[s + 1] - from}, memory[2] = {0, 0};
        rs_batch batch = in.batch;
        if (begin[1] == 0) continue;
        batch.samples = 1;
        batch.begin = begin;
        if (batch.ids) batch.ids += from;
        if (batch.images)
            batch.images += s * o.network->embedding.channels * o.network->embedding.image_height *
                            o.network->embedding.image_width;
        if (batch.memory) {
            memory[1] = in.memory_begin[s + 1] - in.memory_begin[s];
            batch.memory += in.memory_begin[s] * o.network->d_model;
            batch.memory_begin = memory;
        }
        rs_path_sums *sums = sums_of(&o, &batch, plan, s < 2 ? set : NULL, 2);
        if (!(sums->identity.output_error <= 1e-12))
            fail_msg("%s, sample %d: %g", name, (int)s, sums->identity.output_error);
        /* All single paths of a length add up to the length's sum. */
        int64_t count = sums->n * sums->d;
        for (int32_t k = 0; k <= plan->longest && s < 2; k++)
            for (int64_t i = 0; i < count; i++) {
                double sum = 0, most = 1;
                for (size_t p = set->first[k]; p < set->first[k + 1]; p++) {
                    sum += sums->path_state[p * (size_t)count + (size_t)i];
                    most = fmax(most, fabs(sums->path_state[p * (size_t)count + (size_t)i]));
                }
                assert_true(set->exhaustive[k]);
                if (!(fabs(sum - sums->embedding[k * count + i]) <= 1e-11 * most))
                    fail_msg("%s: single paths of length %d add up to %g, not %g", name, (int)k,
                             sum, sums->embedding[k * count + i]);
            }
        rs_path_sums_close(sums);
    }
    rs_path_set_close(set);
    rs_path_plan_close(plan);
    close_model(&o);
    free(in.ids);
    free(in.images);
    free(in.memory);
    rs_checkpoint_close(golden);
}

static void every_architecture_adds_up(void **state)
{
    (void)state;
    char path[512];
    int cases = 0;
    snprintf(path, sizeof path, "%s/forward", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        identity_of(entry->d_name);
        cases++;
    }
    closedir(folder);
    assert_true(cases >= 50);
}

/* ---- deep, drawn and edited networks ---- */

/* A network of an architecture file, fed states of N(0, 1). */
typedef struct drawn {
    rs_init *init;
    rs_network *network;
    rs_weights *weights;
    double *states;
    int64_t begin[2];
    rs_batch batch;
} drawn;

static void draw_network(drawn *o, const char *arch, int64_t n, uint64_t seed)
{
    rs_error err = {0};
    json_t *json = json_loads(arch, 0, NULL);
    assert_non_null(json);
    assert_int_equal(rs_init_open(&o->init, NULL, seed, &err), RS_OK);
    if (rs_network_from_arch(&o->network, json, "ARCH", o->init, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    json_decref(json);
    assert_int_equal(rs_weights_open(&o->weights, RS_PRECISION_F64, UINT64_MAX, &err), RS_OK);
    rs_random random = rs_random_new(seed, 5);
    int64_t count = n * o->network->d_model;
    o->states = malloc((size_t)count * sizeof *o->states);
    for (int64_t i = 0; i < count; i++)
        o->states[i] = rs_random_normal(&random);
    o->begin[0] = 0;
    o->begin[1] = n;
    o->batch = (rs_batch){.samples = 1, .begin = o->begin, .states = o->states};
}

static void close_drawn(drawn *o)
{
    free(o->states);
    rs_weights_close(o->weights);
    rs_network_close(o->network);
    rs_init_close(o->init);
}

static rs_path_sums *sums_drawn(const drawn *o, const rs_path_plan *plan, const rs_path_set *set,
                                int threads)
{
    const opened as = {.network = o->network, .weights = o->weights};
    return sums_of(&as, &o->batch, plan, set, threads);
}

static void deep_networks_add_up(void **state)
{
    (void)state;
    static const char *const archs[] = {
        "{\"depth\": 200, \"d_model\": 16, \"heads\": 2, \"d_head\": 8, \"norm\": \"post\"}",
        "{\"depth\": 200, \"d_model\": 16, \"heads\": 2, \"d_head\": 8, \"norm\": \"pre\", "
        "\"mask\": \"causal\", \"mlp\": \"gelu\", \"mlp_width\": 20}",
        "{\"depth\": 200, \"d_model\": 16, \"heads\": 4, \"d_head\": 4, \"kv_heads\": 2, \"norm\": "
        "\"none\", \"branch_mixer\": \"1/sqrt(L)\", \"skip_mixer\": 0.98}"};
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        drawn o;
        draw_network(&o, archs[a], 7, a + 1);
        const int64_t lengths[] = {-1, 3, 0, 100000};
        double first = 0;
        for (size_t i = 0; i < 4; i++) {
            rs_path_plan *plan = plan_of(o.network, lengths[i]);
            assert_int_equal(plan->deepest, 200);
            assert_int_equal(plan->longest, lengths[i] == 3 ? 3 : lengths[i] == 0 ? 0 : 200);
            rs_path_sums *sums = sums_drawn(&o, plan, NULL, 2);
            if (!(sums->identity.output_error <= 1e-12))
                fail_msg("%zu: %g", a, sums->identity.output_error);
            if (i == 0) first = sums->embedding[5];
            assert_true(sums->embedding[5] == first); /* length 0, whatever else is told apart */
            rs_path_sums_close(sums);
            rs_path_plan_close(plan);
        }
        close_drawn(&o);
    }
}

/* With skip and branch given, (1 + x)^L: the counts are those of Pascal's triangle times H^k. */
static void counts_are_binomial(void **state)
{
    (void)state;
    drawn o;
    draw_network(&o, "{\"depth\": 12, \"d_model\": 24, \"heads\": 12, \"d_head\": 2}", 2, 1);
    rs_path_plan *plan = plan_of(o.network, -1);
    /* C(12, k) 12^k */
    static const int64_t expected[] = {1,
                                       144,
                                       9504,
                                       380160,
                                       10264320,
                                       197074944,
                                       2759049216,
                                       28378791936,
                                       212840939520,
                                       1135151677440,
                                       4086546038784,
                                       8916100448256,
                                       8916100448256};
    double total = 0;
    for (int k = 0; k <= 12; k++) {
        assert_int_equal(plan->count[k], expected[k]);
        assert_true(fabs(plan->log_count[k] - log((double)expected[k])) < 1e-13 * 30);
        total += (double)expected[k];
    }
    assert_true(total == pow(13, 12));
    assert_true(fabs(plan->log_total - 12 * log(13)) < 1e-13 * 30);
    rs_path_plan_close(plan);
    close_drawn(&o);
    /* 96 heads, 96 layers: 2^63 - 1 is passed from length 6 on (C(96, 6) 96^6 = 7.3e20). */
    draw_network(&o, "{\"depth\": 96, \"d_model\": 96, \"heads\": 96, \"d_head\": 1}", 2, 1);
    plan = plan_of(o.network, -1);
    assert_true(plan->count[4] == INT64_C(3321960) * 84934656);
    assert_true(plan->count[96] == RS_NULL_INT && plan->count[6] == RS_NULL_INT);
    for (int k = 0; k <= 96; k++) {
        double exact = lgamma(97) - lgamma(k + 1) - lgamma(97 - k) + k * log(96);
        assert_true(fabs(plan->log_count[k] - exact) <= 1e-12 * 440);
    }
    rs_path_plan_close(plan);
    close_drawn(&o);
}

/* Without skips every path has full length; where the MLP has no skip, none comes from below. */
static void missing_skips_cut_paths(void **state)
{
    (void)state;
    drawn o;
    rs_error err = {0};
    draw_network(&o,
                 "{\"depth\": 3, \"d_model\": 8, \"heads\": 2, \"d_head\": 4, \"norm\": \"none\", "
                 "\"skip_mixer\": 0}",
                 4, 2);
    rs_path_plan *plan = plan_of(o.network, -1);
    rs_path_set *set;
    const int64_t expected[] = {0, 0, 0, 8};
    for (int k = 0; k <= 3; k++)
        assert_int_equal(plan->count[k], expected[k]);
    assert_int_equal(rs_path_set_draw(&set, plan, 20, 0, &err), RS_OK);
    assert_int_equal(set->n, 8);
    rs_path_sums *sums = sums_drawn(&o, plan, set, 1);
    assert_true(sums->identity.output_error < 1e-14);
    for (int64_t i = 0; i < sums->n * sums->d; i++)
        assert_true(sums->embedding[i] == 0);
    rs_path_sums_close(sums);
    rs_path_set_close(set);
    rs_path_plan_close(plan);
    close_drawn(&o);
    draw_network(&o,
                 "{\"depth\": 2, \"d_model\": 8, \"heads\": 2, \"d_head\": 4, \"norm\": \"post\", "
                 "\"mlp\": \"relu\", \"mlp_width\": 9, \"skip_mlp\": [1, 0]}",
                 4, 2);
    plan = plan_of(o.network, -1);
    for (int k = 0; k <= 2; k++)
        assert_int_equal(plan->count[k], 0);
    assert_int_equal(rs_path_set_draw(&set, plan, 20, 0, &err), RS_OK);
    assert_int_equal(set->n, 0);
    sums = sums_drawn(&o, plan, set, 1);
    assert_true(sums->identity.output_error < 1e-14);
    rs_path_sums_close(sums);
    rs_path_set_close(set);
    rs_path_plan_close(plan);
    close_drawn(&o);
}

/* Drawn paths have the asked length and are uniform: each of the C(4,2) 2^2 = 24 paths of length 2
 * comes up as often as another (chi-squared with 23 degrees of freedom, 0.1% quantile 49.7). */
static void drawn_paths_are_uniform(void **state)
{
    (void)state;
    drawn o;
    rs_error err = {0};
    enum { DRAWS = 23 };
    int seen[81] = {0}, total = 0;
    draw_network(&o, "{\"depth\": 4, \"d_model\": 8, \"heads\": 2, \"d_head\": 4}", 2, 1);
    rs_path_plan *plan = plan_of(o.network, -1);
    for (uint64_t seed = 0; seed < 400; seed++) {
        rs_path_set *set;
        assert_int_equal(rs_path_set_draw(&set, plan, DRAWS, seed, &err), RS_OK);
        for (size_t p = 0; p < set->n; p++) {
            int code = 0, heads = 0;
            for (int32_t i = 0; i < plan->n_hops; i++) {
                int32_t choice = set->choice[p * (size_t)plan->n_hops + (size_t)i];
                if (plan->hops[i].heads == 0) {
                    assert_int_equal(choice, -1);
                    continue;
                }
                assert_in_range(choice + 1, 0, 2);
                code = code * 3 + choice + 1;
                heads += choice >= 0;
            }
            assert_int_equal(heads, set->length[p]);
            if (heads == 2) seen[code]++, total++;
        }
        assert_true(set->exhaustive[0] && set->exhaustive[1] && set->exhaustive[4]);
        assert_false(set->exhaustive[2]);
        rs_path_set_close(set);
    }
    double chi = 0, expected = total / 24.0;
    int different = 0;
    for (int i = 0; i < 81; i++)
        if (seen[i]) chi += pow(seen[i] - expected, 2) / expected, different++;
    assert_int_equal(different, 24);
    assert_true(chi < 49.7);
    rs_path_plan_close(plan);
    close_drawn(&o);
}

/* ---- measures ---- */

static void measures_of_known_matrices(void **state)
{
    (void)state;
    rs_error err;
    rs_path_size size;
    rs_rank1_distance rank1;
    const double diagonal[] = {3, 0, 0, 0, 2, 0, 0, 0, 1};
    assert_int_equal(rs_rank1_distance_of(&rank1, diagonal, 3, &err), RS_OK);
    assert_true(fabs(rank1.fro - sqrt(5.0 / 14)) < 1e-9);
    assert_true(fabs(rank1.composite - 2.0 / 3) < 1e-6);
    const double identity[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    assert_int_equal(rs_rank1_distance_of(&rank1, identity, 3, &err), RS_OK);
    assert_true(fabs(rank1.fro - sqrt(2.0 / 3)) < 1e-14);
    double product[9], zero[9] = {0};
    for (int i = 0; i < 9; i++)
        product[i] = (1 + i / 3) * (0.5 + i % 3);
    assert_int_equal(rs_rank1_distance_of(&rank1, product, 3, &err), RS_OK);
    assert_true(rank1.fro < 1e-15 && rank1.composite < 1e-15);
    assert_int_equal(rs_rank1_distance_of(&rank1, zero, 3, &err), RS_OK);
    assert_true(isnan(rank1.fro) && isnan(rank1.composite));
    assert_int_equal(rs_path_size_of(&size, zero, 3, 3, &err), RS_OK);
    assert_true(size.fro == 0 && isnan(size.residual) && isnan(size.residual_1inf));
    /* Rows (1, 2) and (3, 2): mean (2, 2), residual (-1, 0), (1, 0). */
    const double rows[] = {1, 2, 3, 2};
    assert_int_equal(rs_path_size_of(&size, rows, 2, 2, &err), RS_OK);
    assert_true(fabs(size.fro - sqrt(18)) < 1e-15 * 5);
    assert_true(fabs(size.residual - sqrt(2.0 / 18)) < 1e-15);
    assert_true(fabs(size.residual_1inf - sqrt(2.0) / sqrt(20.0)) < 1e-15);
    /* The same numbers where squares leave the range of a double. */
    const double powers[] = {0x1p-1020, 0x1p-600, 0x1p600, 0x1p1020};
    for (int i = 0; i < 4; i++) {
        double scaled[4];
        for (int j = 0; j < 4; j++)
            scaled[j] = powers[i] * rows[j];
        assert_int_equal(rs_path_size_of(&size, scaled, 2, 2, &err), RS_OK);
        assert_true(fabs(size.fro / powers[i] - sqrt(18)) < 1e-15 * 5);
        assert_true(fabs(size.residual - sqrt(2.0 / 18)) < 1e-15);
        assert_true(fabs(size.residual_1inf - sqrt(2.0) / sqrt(20.0)) < 1e-15);
    }
    /* Equal rows: exactly none. */
    const double equal[] = {0.1, 0.7, 0.1, 0.7, 0.1, 0.7};
    assert_int_equal(rs_path_size_of(&size, equal, 3, 2, &err), RS_OK);
    assert_true(size.residual == 0);
}

/* ---- what must not change a number, and refusals ---- */

static void threads_agree(void **state)
{
    (void)state;
    rs_error err = {0};
    drawn o;
    rs_path_set *set;
    draw_network(&o,
                 "{\"depth\": 5, \"d_model\": 24, \"heads\": 3, \"d_head\": 8, \"norm\": \"pre\", "
                 "\"mlp\": \"swiglu\", \"mlp_width\": 30}",
                 33, 7);
    rs_path_plan *plan = plan_of(o.network, -1);
    assert_int_equal(rs_path_set_draw(&set, plan, 5, 1, &err), RS_OK);
    rs_path_sums *one = sums_drawn(&o, plan, set, 1);
    for (int threads = 2; threads <= 5; threads++) {
        rs_path_sums *many = sums_drawn(&o, plan, set, threads);
        size_t count = (size_t)(one->n * one->d);
        assert_memory_equal(one->embedding, many->embedding, 7 * count * sizeof(double));
        assert_memory_equal(one->source, many->source, 7 * count * sizeof(double));
        assert_memory_equal(one->injected, many->injected, 5 * count * sizeof(double));
        assert_memory_equal(one->path_state, many->path_state, set->n * count * sizeof(double));
        rs_path_sums_close(many);
    }
    rs_path_sums_close(one);
    rs_path_set_close(set);
    rs_path_plan_close(plan);
    close_drawn(&o);
}

static void put_tokens(const char *text)
{
    FILE *file = fopen(tokens_path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Lengths beyond the longest path, samples without tokens, single tokens, repeated tokens. */
static void corners(void **state)
{
    (void)state;
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.max_length = 50;
    put_tokens("[[], [3], [4, 4, 4, 4], [5, 2]]");
    rs_result *result = run_paths("llama", &options, 2);
    const rs_table *table = rs_result_table(result, "lengths");
    assert_int_equal(rs_table_rows(table), 3 * 3);
    for (int64_t k = 0; k <= 2; k++) {
        size_t row = row_of(table, "length", 1, k);
        assert_true(cell(table, row, "residual_ratio") == 0); /* one token is its own mean */
    }
    assert_int_equal(rs_table_rows(rs_result_table(result, "truncated")), 4 * 4);
    rs_result_free(result);
    options.max_length = 0;
    options.paths = 0;
    result = run_paths("llama", &options, 2);
    assert_int_equal(rs_table_rows(rs_result_table(result, "lengths")), 3);
    assert_null(rs_result_table(result, "paths"));
    rs_result_free(result);
}

/* All single-head chains of a model, against NumPy. */
static void compare_code(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, RS_TEST_DATA "/paths/%s.json", name);
    json_t *json = json_load_file(path, 0, NULL), *ids = json_array();
    assert_non_null(json);
    const json_t *samples = json_object_get(json, "samples");
    for (size_t s = 0; s < json_array_size(samples); s++)
        json_array_append(ids, json_object_get(json_array_get(samples, s), "ids"));
    assert_int_equal(json_dump_file(ids, tokens_path, 0), 0);
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.semantics = RS_PATHS_CODE;
    options.paths = 1000;
    rs_result *result = run_paths(name, &options, 2);
    const rs_table *lengths = rs_result_table(result, "lengths");
    const rs_table *combined = rs_result_table(result, "combined");
    const rs_table *paths = rs_result_table(result, "paths");
    for (size_t s = 0; s < json_array_size(samples); s++) {
        const json_t *rows = json_object_get(json_array_get(samples, s), "code");
        assert_true(json_array_size(rows) > 0);
        for (size_t k = 0; k < json_array_size(rows); k++) {
            const json_t *want = json_array_get(rows, k);
            const json_t *size = json_object_get(want, "combined");
            const json_t *means = json_object_get(want, "path_mean");
            size_t row = row_of(lengths, "length", (int64_t)s, (int64_t)k);
            near(name, "norm of the combined state", cell(lengths, row, "contribution_fro"),
                 json_object_get(size, "fro"), 1e-10);
            near(name, "its residual", cell(lengths, row, "residual_ratio"),
                 json_object_get(size, "residual"), 1e-10);
            row = row_of(paths, "length", (int64_t)s, (int64_t)k);
            static const char *const measures[] = {"contribution_fro", "residual_ratio",
                                                   "rank1_distance"};
            for (size_t m = 0; m < 3; m++)
                near(name, measures[m], cell(paths, row, measures[m]), json_array_get(means, m),
                     1e-9);
            row = row_of(combined, "length", (int64_t)s, (int64_t)k);
            const char *key;
            json_t *value;
            json_object_foreach(json_object_get(want, "outcome"), key, value)
                near(name, key, cell(combined, row, key), value, 1e-9);
        }
    }
    rs_result_free(result);
    json_decref(ids);
    json_decref(json);
}

static void code_agrees_with_numpy(void **state)
{
    (void)state;
    compare_code("bert");
    compare_code("gpt2");
}

static void code_semantics(void **state)
{
    (void)state;
    rs_paths_options options;
    rs_paths_defaults(&options);
    options.semantics = RS_PATHS_CODE;
    options.paths = 3;
    put_tokens("[[5, 2, 9, 1], [7, 7, 3]]");
    rs_result *result = run_paths("bert", &options, 2), *again = run_paths("bert", &options, 1);
    const rs_table *table = rs_result_table(result, "combined");
    assert_non_null(table);
    assert_null(rs_result_table(result, "truncated"));
    assert_true(json_is_null(json_object_get(rs_result_meta(result), "identity_error")));
    assert_string_equal(json_string_value(json_object_get(rs_result_meta(result), "semantics")),
                        "code");
    assert_true(cell(table, row_of(table, "length", 0, RS_NULL_INT), "state_rel_error") == 0);
    const rs_table *lengths = rs_result_table(result, "lengths");
    const rs_table *other = rs_result_table(again, "lengths");
    for (size_t row = 0; row < rs_table_rows(lengths); row++) {
        /* A row of plain LayerNorm has length sqrt(d v/(v + 1e-5)) <= sqrt(d); d = 15. */
        double n = whole(lengths, row, "sample") == 0 ? 4 : 3, fro;
        fro = cell(lengths, row, "contribution_fro");
        assert_true(fro <= sqrt(15 * n) * (1 + 1e-12) && fro > 0.9 * sqrt(15 * n));
        assert_true(fabs(fro - cell(other, row, "contribution_fro")) <= 1e-12 * fro);
        assert_true(isnan(cell(lengths, row, "cumulative_error")));
    }
    rs_result_free(result);
    rs_result_free(again);
}

static void survives_without_memory(void **state)
{
    (void)state;
    char path[] = RS_TEST_DATA "/forward/gemma2";
    put_tokens("[[5, 2, 9]]");
    for (int semantics = 0; semantics < 2; semantics++) {
        int64_t at = 1;
        for (bool done = false; !done; at += 1 + at / 60) {
            rs_error err = {0};
            rs_context context = {.threads = 1};
            rs_result *result = rs_result_new("paths");
            rs_paths_request request = {.path = path};
            rs_paths_defaults(&request.options);
            request.options.source.tokens = tokens_path;
            request.options.by_layer = semantics == 0;
            request.options.semantics = (rs_path_semantics)semantics;
            request.options.paths = 2;
            rs_memory_fail_at(at);
            rs_status status = rs_paths_path(result, NULL, &request, &context, &err);
            rs_memory_fail_at(0);
            done = status == RS_OK;
            if (!done && status != RS_E_NO_MEMORY)
                fail_msg("request %lld: %s: %s", (long long)at, err.where, err.what);
            rs_result_free(result);
        }
        assert_true(at > 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_enumeration),
                                       cmocka_unit_test(every_architecture_adds_up),
                                       cmocka_unit_test(deep_networks_add_up),
                                       cmocka_unit_test(counts_are_binomial),
                                       cmocka_unit_test(missing_skips_cut_paths),
                                       cmocka_unit_test(drawn_paths_are_uniform),
                                       cmocka_unit_test(measures_of_known_matrices),
                                       cmocka_unit_test(threads_agree),
                                       cmocka_unit_test(corners),
                                       cmocka_unit_test(code_agrees_with_numpy),
                                       cmocka_unit_test(code_semantics),
                                       cmocka_unit_test(survives_without_memory)};
    int file = mkstemp(tokens_path);
    if (file >= 0) close(file);
    int failed = cmocka_run_group_tests_name("paths", tests, NULL, NULL);
    unlink(tokens_path);
    return failed;
}
