/*
 * test_paths_sums.c: the identity on every model of tests/golden/forward and on drawn networks,
 * counts and draws of paths, measures of known matrices, and what must not change a number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "paths_support.h"
#include "property.h"

#include <dirent.h>

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

/* ---- deep and drawn networks ---- */

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

/* One feature, an embedding that decays by 1/4 a layer and MLPs that take it away faster: the
 * output is 1e-9 of the terms that cancel in it, and known to 1e-7 of itself alone. Judged by its
 * terms the identity holds; a term that is wrong by 1e-8 of all breaks it. */
static void cancelling_terms_add_up(void **state)
{
    (void)state;
    drawn o;
    double most = 0, worst = 0;
    for (int t = property_start(400, 1); property_next(&t);) {
        draw_network(&o,
                     "{\"depth\": 30, \"d_model\": 1, \"heads\": 3, \"d_head\": 1, \"norm\": "
                     "\"none\", \"mlp\": \"gelu\", \"mlp_width\": 3, \"skip_mixer\": 0.5, "
                     "\"skip_mlp\": 0.5, \"branch_mixer\": 0}",
                     1, property_seed());
        rs_path_plan *plan = plan_of(o.network, -1);
        rs_path_sums *sums = sums_drawn(&o, plan, NULL, 1);
        assert_true(sums->identity.error <= 1e-12);
        most = fmax(most, sums->identity.cancellation);
        worst = fmax(worst, sums->identity.output_error);
        double terms = fabs(sums->embedding[0]) + fabs(sums->source[0]);
        sums->source[0] += 1e-8 * terms;
        assert_true(rs_path_identity_of(sums).error > RS_PATH_IDENTITY);
        sums->source[0] -= 1e-8 * terms;
        sums->source[0] += terms;
        assert_true(rs_path_identity_of(sums).error > 0.3);
        sums->embedding[0] = NAN;
        assert_true(isnan(rs_path_identity_of(sums).error));
        rs_path_sums_close(sums);
        rs_path_plan_close(plan);
        close_drawn(&o);
    }
    if (!(most > 1e6 && worst > RS_PATH_IDENTITY)) fail_msg("%g %g", most, worst);
}

/* What tells a fault of ours from rounding: a shake of the last bits moves the sums of an ordinary
 * network by rounding alone, and those of a network whose norms take the mean from equal numbers by
 * the whole. */
static void shaken_sums_move_by_rounding(void **state)
{
    (void)state;
    for (int equal = 0; equal < 2; equal++) {
        drawn o;
        rs_error err = {0};
        rs_context context = {.threads = 2};
        rs_path_sums *sums;
        double moved;
        draw_network(&o,
                     "{\"depth\": 3, \"d_model\": 12, \"heads\": 3, \"d_head\": 4, \"norm\": "
                     "\"pre\", \"skip_mixer\": 0}",
                     5, 4);
        for (int64_t i = 0; i < 5 * 12 && equal; i++)
            o.states[i] = 1e38 * (1 + (double)(i / 12));
        rs_path_plan *plan = plan_of(o.network, -1);
        assert_int_equal(rs_path_sums_of(&sums, o.network, o.weights, &o.batch, plan, NULL, false,
                                         &context, &err),
                         RS_OK);
        rs_status status =
            rs_path_sums_moved(&moved, sums, o.network, o.weights, &o.batch, plan, &context, &err);
        assert_int_equal(status, RS_OK);
        if (equal ? !(moved > 1e-3) : !(moved > 0 && moved < 1e-13)) fail_msg("moved %g", moved);
        rs_path_sums_close(sums);
        rs_path_plan_close(plan);
        close_drawn(&o);
    }
}

static void infinite_passes_say_where(void **state)
{
    (void)state;
    drawn o;
    rs_error err = {0};
    rs_path_sums *sums;
    rs_context context = {.threads = 1};
    draw_network(&o,
                 "{\"depth\": 4, \"d_model\": 8, \"heads\": 2, \"d_head\": 4, \"norm\": \"pre\", "
                 "\"skip_mixer\": [1, 1e200, 1e200, 1]}",
                 3, 2);
    rs_path_plan *plan = plan_of(o.network, -1);
    assert_int_equal(
        rs_path_sums_of(&sums, o.network, o.weights, &o.batch, plan, NULL, false, &context, &err),
        RS_E_NOT_FINITE);
    assert_null(sums);
    assert_string_equal(err.where, "layer 2 (attention)");
    o.states[0] = NAN;
    assert_int_equal(
        rs_path_sums_of(&sums, o.network, o.weights, &o.batch, plan, NULL, false, &context, &err),
        RS_E_NOT_FINITE);
    assert_string_equal(err.where, "the embedding");
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
    /* so close that a power iteration would take ten thousand steps */
    const double close[] = {0.146368, 0, 0, 0, 0.094076, 0, 0, 0, 0.146425};
    assert_int_equal(rs_rank1_distance_of(&rank1, close, 3, &err), RS_OK);
    assert_true(fabs(rank1.fro - 0.765119583491014) < 1e-12);
    assert_true(fabs(rank1.composite - 0.146368 / 0.146425) < 1e-12);
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
    const double powers[] = {0x1p-1020, 0x1p-600, 0x1p-299, 0x1p299, 0x1p600, 0x1p1020};
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        double scaled[4], matrix[9];
        for (int j = 0; j < 9; j++)
            matrix[j] = powers[i] * diagonal[j];
        assert_int_equal(rs_rank1_distance_of(&rank1, matrix, 3, &err), RS_OK);
        assert_true(fabs(rank1.fro - sqrt(5.0 / 14)) < 1e-9);
        assert_true(fabs(rank1.composite - 2.0 / 3) < 1e-6);
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

/* ---- what must not change a number ---- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture_adds_up),
                                       cmocka_unit_test(deep_networks_add_up),
                                       cmocka_unit_test(cancelling_terms_add_up),
                                       cmocka_unit_test(shaken_sums_move_by_rounding),
                                       cmocka_unit_test(infinite_passes_say_where),
                                       cmocka_unit_test(counts_are_binomial),
                                       cmocka_unit_test(missing_skips_cut_paths),
                                       cmocka_unit_test(drawn_paths_are_uniform),
                                       cmocka_unit_test(measures_of_known_matrices),
                                       cmocka_unit_test(threads_agree)};
    int file = mkstemp(tokens_path);
    if (file >= 0) close(file);
    int failed = cmocka_run_group_tests_name("paths sums", tests, NULL, NULL);
    unlink(tokens_path);
    return failed;
}
