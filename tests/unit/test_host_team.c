/*
 * test_host_team.c: a call from inside a host's OpenMP team. Its threads have the host's numbers,
 * the library has rooms for its own: each call, on one thread, gives what it gives outside a team.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rankscope.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { TEAM = 4 };

/* What a call is about; which part of it a question looks at is its own. */
typedef struct subject {
    const char *model;
    rs_precision precision;
} subject;

static void make_run(rs_run_settings *run, rs_call_settings *call)
{
    run->random = 3;
    run->seq_len = 7;
    call->threads = 1;
}

static rs_status probe(rs_result **out, const subject *of, rs_error *err)
{
    rs_probe_settings s;
    rs_probe_settings_init(&s, sizeof s);
    make_run(&s.run, &s.call);
    s.precision = of->precision;
    return rs_probe_checkpoint(out, of->model, &s, err);
}

static rs_status gradients(rs_result **out, const subject *of, rs_error *err)
{
    rs_probe_settings s;
    rs_probe_settings_init(&s, sizeof s);
    make_run(&s.run, &s.call);
    s.precision = of->precision;
    s.grad = true;
    s.loss = RS_GRAD_LOSS_RANDOM;
    return rs_probe_checkpoint(out, of->model, &s, err);
}

static rs_status relevance(rs_result **out, const subject *of, rs_error *err)
{
    rs_probe_settings s;
    rs_probe_settings_init(&s, sizeof s);
    make_run(&s.run, &s.call);
    s.precision = of->precision;
    s.relevance = true;
    return rs_probe_checkpoint(out, of->model, &s, err);
}

static rs_status certify(rs_result **out, const subject *of, rs_error *err)
{
    rs_certify_settings s;
    rs_certify_settings_init(&s, sizeof s);
    make_run(&s.run, &s.call);
    return rs_certify_checkpoint(out, of->model, &s, err);
}

static rs_status paths(rs_result **out, const subject *of, rs_error *err)
{
    rs_paths_settings s;
    rs_paths_settings_init(&s, sizeof s);
    make_run(&s.run, &s.call);
    s.paths = 2;
    return rs_paths_checkpoint(out, of->model, &s, err);
}

static rs_status compare(rs_result **out, const subject *of, rs_error *err)
{
    const char *const others[] = {RS_TEST_DATA "/forward/gpt2"};
    rs_compare_settings s;
    rs_compare_settings_init(&s, sizeof s);
    s.call.threads = 1;
    s.others = others;
    s.n_others = 1;
    return rs_compare_checkpoints(out, of->model, &s, err);
}

static rs_status series(rs_result **out, const subject *of, rs_error *err)
{
    const char *const others[] = {RS_TEST_DATA "/forward/gpt2", of->model};
    rs_scan_settings s;
    rs_scan_settings_init(&s, sizeof s);
    s.call.threads = 1;
    s.others = others;
    s.n_others = 2;
    return rs_scan_checkpoint(out, of->model, &s, err);
}

static rs_status beside(rs_result **out, const subject *of, rs_error *err)
{
    const char *const others[] = {RS_TEST_DATA "/forward/gpt2"};
    rs_certify_settings s;
    rs_certify_settings_init(&s, sizeof s);
    make_run(&s.run, &s.call);
    s.others = others;
    s.n_others = 1;
    return rs_certify_checkpoint(out, of->model, &s, err);
}

static rs_status predict(rs_result **out, const subject *of, rs_error *err)
{
    rs_predict_settings s;
    rs_predict_settings_init(&s, sizeof s);
    s.call.threads = 1;
    s.seq_len = 6;
    s.trials = 3;
    s.preset = of->model;
    return rs_predict(out, NULL, &s, err);
}

typedef rs_status question(rs_result **out, const subject *of, rs_error *err);

/* The named table as text; NULL where the call fails. */
static char *answer(question *ask, const subject *of, const char *table)
{
    rs_result *result = NULL;
    char *text = NULL;
    rs_error err;
    if (ask(&result, of, &err) != RS_OK || rs_result_csv(&text, NULL, result, table, &err) != RS_OK)
        fprintf(stderr, "%s, %s: %s\n", table, of->model, err.what);
    rs_result_free(result);
    return text;
}

#define LLAMA RS_TEST_DATA "/forward/llama"
#define BERT RS_TEST_DATA "/forward/bert"
#define MAMBA RS_TEST_DATA "/forward/falcon_h1"

static const struct {
    question *ask;
    subject of;
    const char *table;
} cases[] = {
    {probe, {LLAMA, RS_PRECISION_F32}, "attention"},
    {probe, {LLAMA, RS_PRECISION_F64}, "tokens"},
    {probe, {LLAMA, RS_PRECISION_RESIDUAL}, "attention"},
    {probe, {BERT, RS_PRECISION_F64}, "attention"},
    {probe, {BERT, RS_PRECISION_RESIDUAL}, "tokens"},
    {probe, {BERT, RS_PRECISION_RESIDUAL}, "attention"},
    {probe, {MAMBA, RS_PRECISION_F64}, "mixing"},
    {gradients, {LLAMA, RS_PRECISION_F64}, "gradients"},
    {gradients, {BERT, RS_PRECISION_F32}, "gradients"},
    {gradients, {MAMBA, RS_PRECISION_F64}, "gradients"},
    {relevance, {LLAMA, RS_PRECISION_F64}, "relevance"},
    {certify, {BERT, RS_PRECISION_F64}, "bounds"},
    {paths, {BERT, RS_PRECISION_F64}, "paths"},
    {compare, {BERT, RS_PRECISION_F64}, "heads"},
    {series, {BERT, RS_PRECISION_F64}, "series"},
    {beside, {BERT, RS_PRECISION_F64}, "bounds"},
    {predict, {"attention-only-6", RS_PRECISION_F64}, "forward"},
};

static void each_call_inside_a_team(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char *alone = answer(cases[c].ask, &cases[c].of, cases[c].table), *inside[TEAM] = {NULL};
        assert_non_null(alone);
#pragma omp parallel num_threads(TEAM)
        inside[omp_get_thread_num()] = answer(cases[c].ask, &cases[c].of, cases[c].table);
        for (int t = 0; t < TEAM; t++) {
            if (!inside[t] || strcmp(alone, inside[t]) != 0)
                fail_msg("case %zu, %s of %s: thread %d of the host", c, cases[c].table,
                         cases[c].of.model, t);
            rs_text_free(inside[t]);
        }
        rs_text_free(alone);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_inside_a_team)};
    return cmocka_run_group_tests_name("host_team", tests, NULL, NULL);
}
