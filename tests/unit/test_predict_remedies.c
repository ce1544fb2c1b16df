/* test_predict_remedies.c: trials that are taken apart and fused again, errors of what they share, twins of
 * one head, and remedies whose exact facts are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "predict/forecast_trials.h"
#include "predict/remedies.h"
#include "predict_support.h"

static rs_forecast_settings settings; /* the default thresholds: main */
static const rs_context context = {.threads = 1, .seed = 7};

static rs_design design_of(const char *text)
{
    const rs_design like = {.name = "arch"};
    rs_design design;
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    OK(rs_design_of(&design, &like, json, &err));
    return design;
}

static rs_trials *drawn(const rs_design *design, int32_t trials)
{
    rs_trials *out;
    OK(rs_design_trials(&out, design, trials, false, &context, &err));
    return out;
}

/* ---- trials taken apart ---- */

static const char small[] = "{\"depth\": 4, \"d_model\": 24, \"heads\": 2, \"seq_len\": 6, "
                            "\"mlp\": \"relu\", \"norm\": \"post\"}";

/* The first trials of many are the trials of a few. */
static void the_first_are_trials_of_their_own(void **state)
{
    (void)state;
    rs_design design = design_of(small);
    rs_trials *many = drawn(&design, 9), *few = drawn(&design, 4), *first;
    OK(rs_trials_first(&first, many, 4, 6, &err));
    assert_int_equal(first->trials, 4);
    for (int32_t l = 0; l <= 4; l++) {
        assert_true(first->rows[l].rho == few->rows[l].rho);
        assert_true(first->rows[l].of[RS_TRIALS_SQUARE].mean ==
                    few->rows[l].of[RS_TRIALS_SQUARE].mean);
    }
    rs_trials_free(first);
    OK(rs_trials_first(&first, few, 100, 6, &err)); /* there are no more */
    assert_int_equal(first->trials, 4);
    rs_trials_free(first);
    rs_trials_free(many);
    rs_trials_free(few);
    rs_design_close(&design);
}

/* To first order pulls are what a level loses without its trial, times n - 1, and their spread is its
 * standard error. */
static void pulls_are_what_trials_do_to_a_mean(void **state)
{
    (void)state;
    enum { N = 40 };
    rs_design design = design_of(small);
    rs_trials *all = drawn(&design, N);
    const rs_trials_stat *value = &all->rows[3].of[RS_TRIALS_VALUE];
    double sum = 0, square = 0, apart = 0;
    for (int32_t t = 0; t < N; t++) {
        double pull = rs_trials_pull(all, t, 3, RS_TRIALS_VALUE);
        double number = rs_trials_number(all, t, 3, RS_TRIALS_VALUE);
        double others = (value->mean * N - number) / (N - 1);
        double left = log10(value->mean) - log10(others);
        assert_true(fabs(pull - left * (N - 1)) < 0.05 * (fabs(pull) + 0.1));
        sum += pull;
        square += pull * pull;
        pull = rs_trials_pull_apart(all, t, 4);
        apart += pull * pull;
    }
    assert_true(fabs(sum) < 1e-12 * N);
    is_near("standard error", sqrt(square / (N - 1) / N), value->se / value->mean / log(10), 1e-9);
    is_near("of 1 - rho", sqrt(apart / (N - 1) / N),
            all->rows[4].rho_se / all->rows[4].apart / log(10), 1e-9);
    rs_trials_free(all);
    rs_design_close(&design);
}

/* ---- states side by side ---- */

/* 1 - rho of states side by side is the mean of theirs, by their squared norms: of trials and of theory;
 * the first state is the input alone and stays. */
static void fused_states_are_sums(void **state)
{
    (void)state;
    rs_design design = design_of(small);
    rs_trials *all = drawn(&design, 5), *fused;
    rs_forecast plain, theory;
    double square = 0, residual = 0, expected = 0, weight = 0;
    OK(rs_trials_fused(&fused, all, 6, &err));
    OK(rs_forecast_theory(&plain, NULL, &design, &settings, &err));
    OK(rs_forecast_theory(&theory, NULL, &design, &settings, &err));
    rs_forecast_fuse(&theory);
    assert_true(fused->rows[0].rho == all->rows[0].rho);
    assert_true(theory.rows[0].apart == plain.rows[0].apart);
    for (int32_t l = 1; l <= 4; l++) {
        square += all->rows[l].of[RS_TRIALS_SQUARE].mean;
        residual += all->rows[l].of[RS_TRIALS_RESIDUAL].mean;
        is_near("drawn", fused->rows[l].apart, 6.0 / 5 * residual / square, 1e-12);
        weight += pow(10, plain.rows[l].square);
        expected += pow(10, plain.rows[l].square + plain.rows[l].apart);
        is_near("theory", pow(10, theory.rows[l].apart), expected / weight, 1e-12);
        assert_true(theory.rows[l].square == plain.rows[l].square);
        assert_true(isnan(fused->rows[l].of[RS_TRIALS_COSINE].mean));
    }
    rs_forecast_free(&plain);
    rs_forecast_free(&theory);
    rs_trials_free(fused);
    rs_trials_free(all);
    rs_design_close(&design);
}

/* Equal tokens, and states of 0, are no reason for a number that is none. */
static void fused_nothing(void **state)
{
    (void)state;
    rs_forecast f;
    OK(rs_forecast_new(&f, 2, &err));
    for (int32_t l = 0; l <= 2; l++)
        f.rows[l] = (rs_forecast_row){.square = 400, .apart = -INFINITY, .rho = 1};
    rs_forecast_fuse(&f);
    assert_true(f.rows[2].apart == -INFINITY && f.rows[2].rho == 1);
    f.rows[1].apart = f.rows[2].apart = 0;
    rs_forecast_fuse(&f);
    is_near("beyond the doubles", 1 + f.rows[2].apart, 1, 1e-12);
    rs_forecast_free(&f);
}

/* ---- twins ---- */

/* What cannot have fewer heads has narrower ones; rotary angles follow from their width, which stays. */
static void twins_of_few_heads(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t d_model, heads, d_head;
    } cases[] = {
        {"{\"depth\": 2, \"d_model\": 512, \"seq_len\": 16}", 256, 1, 256},
        {"{\"depth\": 2, \"d_model\": 512, \"heads\": 8, \"seq_len\": 16}", 256, 4, 64},
        {"{\"depth\": 2, \"d_model\": 512, \"heads\": 8, \"kv_heads\": 1, \"seq_len\": 16}", 256, 8,
         32},
        {"{\"depth\": 2, \"d_model\": 512, \"heads\": 8, \"seq_len\": 16, \"mask\": \"causal\", "
         "\"positions\": \"alibi\"}",
         256, 8, 32},
        {"{\"depth\": 2, \"d_model\": 512, \"heads\": 2, \"seq_len\": 16, \"positions\": "
         "\"rope\"}",
         256, 1, 256},
        {"{\"depth\": 2, \"d_model\": 512, \"heads\": 1, \"seq_len\": 16, \"positions\": "
         "\"rope\"}",
         512, 1, 512},
        {"{\"depth\": 2, \"d_model\": 512, \"heads\": 8, \"seq_len\": 16, \"mixer\": "
         "\"linear_attention\", \"mask\": \"causal\", \"decay\": \"retnet\", \"init\": {\"wq\": "
         "\"normal(0, 0.01)\"}}",
         256, 8, 32},
        {"{\"depth\": 2, \"d_model\": 128, \"seq_len\": 16}", 128, 1, 128},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_design design = design_of(cases[i].text), twin;
        rs_twin_size size = rs_design_twin_size(&design, 256, 1e15);
        if (size.d_model != cases[i].d_model || size.heads != cases[i].heads ||
            size.d_head != cases[i].d_head)
            fail_msg("%s: width %d, %d heads of %d", cases[i].text, (int)size.d_model,
                     (int)size.heads, (int)size.d_head);
        OK(rs_design_twin(&twin, &design, size, &err));
        assert_int_equal(twin.network->d_model, cases[i].d_model);
        is_near("token", twin.input.norm2 / (double)size.d_model,
                design.input.norm2 / (double)design.arch->d_model, 1e-12);
        rs_design_close(&twin);
        rs_design_close(&design);
    }
}

/* Laws are kept as variance times fan_in, of every mixer; orthogonal ones are such already. */
static void twins_keep_laws(void **state)
{
    (void)state;
    rs_design design =
        design_of("{\"depth\": 2, \"d_model\": 256, \"heads\": 4, \"seq_len\": 8, \"mixer\": "
                  "[\"linear_attention\", \"attention\"], \"init\": {\"wq\": \"normal(0, "
                  "0.0009)\", \"wk\": \"orthogonal\"}}");
    rs_design twin;
    OK(rs_design_twin(&twin, &design, (rs_twin_size){128, 2, 64}, &err));
    const rs_dense *q = &twin.network->layers[0].branches[0].linear.q,
                   *other = &twin.network->layers[1].branches[0].attention.q,
                   *k = &twin.network->layers[1].branches[0].attention.k;
    is_near("W_Q", rs_weight_law_square(rs_init_law(q->weight), q->in, q->out) * 128, 0.0009 * 256,
            1e-12);
    is_near("W_Q", rs_weight_law_square(rs_init_law(other->weight), other->in, other->out) * 128,
            0.0009 * 256, 1e-12);
    assert_int_equal(rs_init_law(k->weight)->kind, RS_LAW_ORTHOGONAL);
    rs_design_close(&twin);
    rs_design_close(&design);
}

/* ---- remedies by trials ---- */

static void run_remedies(rs_remedies *out, const char *text, const char *names, int64_t trials)
{
    rs_design design = design_of(text);
    rs_predict_options options = {.trials = trials, .thresholds = settings.thresholds};
    rs_predict_run run = {.options = &options,
                          .design = &design,
                          .settings = settings,
                          .choice = {.trials = (int32_t)trials},
                          .context = &context};
    OK(rs_forecast_theory(&run.forecast, NULL, &design, &run.settings, &err));
    OK(rs_predict_balance(&run, &err));
    OK(rs_remedies_run(out, &run, names, &err));
    rs_forecast_free(&run.forecast);
    rs_design_close(&design);
}

/* What changes nothing for the tokens has a change of 0 and no error; ReZero is the identity. */
static void exact_changes(void **state)
{
    (void)state;
    rs_remedies all;
    run_remedies(&all,
                 "{\"depth\": 3, \"d_model\": 16, \"heads\": 2, \"seq_len\": 5, \"norm\": "
                 "\"post\", \"mlp\": \"relu\", \"input\": {\"rho\": 0.25}}",
                 "rezero,fusion", 6);
    assert_true(all.n == 2 && all.n_measured == 2 && all.trials == 6 && all.width == 16);
    for (size_t i = 0; i < all.n; i++) {
        const rs_remedied *r = &all.list[i];
        if (strcmp(r->remedy->name, "rezero") == 0) {
            assert_true(fabs(r->drawn.growth) < 1e-12 && fabs(r->drawn.back) < 1e-12);
            assert_true(isnan(r->drawn.ratio) && strstr(r->worse_at, "queries"));
        } else {
            assert_true(r->drawn.growth == r->before.growth && r->drawn.ratio == r->before.ratio);
            assert_true(r->change_error[RS_REMEDY_GROWTH] == 0);
            assert_false(rs_remedy_moves(r, RS_REMEDY_GROWTH));
            assert_true(rs_remedy_moves(r, RS_REMEDY_APART));
        }
    }
    rs_remedies_free(&all);
}

/* Draws that are shared make a change known better than what it is a change of. */
static void shared_draws_have_smaller_errors(void **state)
{
    (void)state;
    rs_remedies all;
    run_remedies(&all,
                 "{\"depth\": 4, \"d_model\": 24, \"heads\": 2, \"seq_len\": 6, \"mlp\": \"relu\"}",
                 "temperature,attnscale", 40);
    for (size_t i = 0; i < all.n; i++) {
        const rs_remedied *r = &all.list[i];
        if (strcmp(r->remedy->name, "attnscale") != 0) continue;
        double apart = hypot(r->error[RS_REMEDY_APART], all.now_error[RS_REMEDY_APART]);
        assert_true(r->change_error[RS_REMEDY_APART] < 0.7 * apart);
    }
    rs_remedies_free(&all);
}

int main(void)
{
    settings.thresholds = rs_predict_defaults;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_are_trials_of_their_own),
        cmocka_unit_test(pulls_are_what_trials_do_to_a_mean),
        cmocka_unit_test(fused_states_are_sums),
        cmocka_unit_test(fused_nothing),
        cmocka_unit_test(twins_of_few_heads),
        cmocka_unit_test(twins_keep_laws),
        cmocka_unit_test(exact_changes),
        cmocka_unit_test(shared_draws_have_smaller_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
