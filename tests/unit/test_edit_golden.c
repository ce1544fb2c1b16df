/*
 * test_edit_golden.c: interventions run here and written out by hand in NumPy
 * (tests/oracle/make_interventions_golden.py) on small models of eight families: the state after
 * the last layer must agree to max|Δ| / max|reference| of 1e-10 in float64 and 2e-5 in float32.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/forward.h"
#include "network/edit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 3, NUMBERS = 75 * 32 };

typedef struct inputs {
    int64_t begin[SAMPLES + 1];
    int32_t ids[NUMBERS];
    rs_batch batch;
} inputs;

typedef struct last_state {
    int32_t layer;
    int64_t count;
    double values[NUMBERS];
} last_state;

static rs_checkpoint *open_file(const char *format, const char *model)
{
    char path[512];
    snprintf(path, sizeof path, format, RS_TEST_DATA, model);
    rs_checkpoint *checkpoint;
    rs_error err;
    const rs_checkpoint_options options = {0};
    if (rs_checkpoint_open(&checkpoint, path, &options, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return checkpoint;
}

static void read_inputs(inputs *in, const char *model)
{
    rs_checkpoint *golden = open_file("%s/forward/%s/golden.safetensors", model);
    const rs_tensor *ids = rs_checkpoint_find(golden, "ids");
    const rs_tensor *lengths = rs_checkpoint_find(golden, "lengths");
    assert_true(ids && lengths && lengths->count == SAMPLES && ids->count <= NUMBERS);
    in->begin[0] = 0;
    double value;
    for (int s = 0; s < SAMPLES; s++) {
        rs_tensor_decode_f64(&value, lengths, s, 1);
        in->begin[s + 1] = in->begin[s] + (int64_t)value;
    }
    for (int64_t i = 0; i < ids->count; i++) {
        rs_tensor_decode_f64(&value, ids, i, 1);
        in->ids[i] = (int32_t)value;
    }
    in->batch = (rs_batch){.samples = SAMPLES, .begin = in->begin, .ids = in->ids};
    rs_checkpoint_close(golden);
}

static rs_status keep(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                      rs_error *err)
{
    (void)err, (void)site;
    last_state *last = user;
    last->layer = layer;
    last->count = view->rows * view->cols;
    assert_true(last->count <= NUMBERS);
    for (int64_t i = 0; i < last->count; i++)
        last->values[i] = view->precision == RS_PRECISION_F32
                              ? (double)((const float *)view->data)[i]
                              : ((const double *)view->data)[i];
    return RS_OK;
}

static rs_status run(last_state *last, const rs_network *network, rs_weights *weights,
                     const rs_batch *batch, rs_error *err)
{
    rs_context context = {.threads = 1};
    rs_tap tap = {.user = last, .sites = 1u << RS_SITE_BLOCK_OUT, .state = keep};
    const rs_tap *taps[] = {&tap};
    rs_runner *runner;
    RS_TRY(rs_runner_open(&runner, network, weights, &context, err));
    rs_status status = rs_runner_run(runner, batch, taps, 1, err);
    rs_runner_close(runner);
    return status;
}

/* The network of a variant in the golden's spelling. */
static rs_status vary(rs_network **out, const rs_network *network, const char *spelling,
                      rs_error *err)
{
    static const char compat[] = "compat:";
    rs_edit base;
    rs_edit_init(&base);
    if (strncmp(spelling, compat, sizeof compat - 1) == 0) {
        base.dong2021_code = base.mamba2_ungrouped = true; /* of which a model knows one */
        spelling += sizeof compat - 1;
    }
    rs_arena *arena = rs_arena_new();
    rs_variant *variants;
    size_t n;
    rs_status status = rs_variants_parse(&variants, &n, spelling, &base, arena, err);
    if (status == RS_OK) {
        assert_int_equal(n, 1);
        status = rs_network_copy(out, network, err);
    }
    if (status == RS_OK) status = rs_edit_apply(*out, &variants->edit, err);
    rs_arena_free(arena);
    return status;
}

static double distance(const last_state *last, const rs_tensor *reference)
{
    double worst = 0, largest = 0;
    assert_int_equal(last->count, reference->count);
    for (int64_t i = 0; i < last->count; i++) {
        double value;
        rs_tensor_decode_f64(&value, reference, i, 1);
        if (!isfinite(last->values[i])) return INFINITY;
        worst = fmax(worst, fabs(last->values[i] - value));
        largest = fmax(largest, fabs(value));
    }
    return worst / largest;
}

static void check_model(const char *model)
{
    static const char *const names[RS_PRECISIONS] = {"f32", "f64", "residual"};
    static const double bounds[RS_PRECISIONS] = {2e-5, 1e-10, 1e-10};
    rs_checkpoint *checkpoint = open_file("%s/forward/%s", model);
    rs_checkpoint *golden = open_file("%s/edit/%s.safetensors", model);
    inputs in;
    read_inputs(&in, model);
    rs_network *network, *varied = NULL;
    rs_error err;
    if (rs_network_open(&network, checkpoint, &err) != RS_OK) fail_msg("%s", err.what);
    double largest[RS_PRECISIONS] = {0};
    for (int p = 0; p < RS_PRECISIONS; p++) {
        rs_weights *weights;
        assert_int_equal(rs_weights_open(&weights, (rs_precision)p, UINT64_MAX, &err), RS_OK);
        for (size_t t = 0; t < golden->n_tensors; t++) {
            const char *name = golden->tensors[t].name;
            static last_state last;
            if (vary(&varied, network, name, &err) != RS_OK ||
                run(&last, varied, weights, &in.batch, &err) != RS_OK)
                fail_msg("%s, %s: %s: %s", model, name, err.where, err.what);
            assert_int_equal(last.layer, varied->n_layers);
            double found = distance(&last, &golden->tensors[t]);
            /* behind rotary positions the residual precision forms P - U from P, and Gemma's inside
             * norm makes what is left of it full size */
            bool cancels = p == RS_PRECISION_RESIDUAL && strcmp(model, "gemma3") == 0 &&
                           strstr(name, "center-attention");
            if (!(found <= (cancels ? 1e-5 : bounds[p])))
                fail_msg("%s, %s: %s differs by %.3g", model, names[p], name, found);
            largest[p] = fmax(largest[p], found);
            rs_network_close(varied);
        }
        rs_weights_close(weights);
    }
    assert_true(golden->n_tensors > 7);
    print_message("%s: %zu variants, f32 %.1e, f64 %.1e, residual %.1e\n", model, golden->n_tensors,
                  largest[RS_PRECISION_F32], largest[RS_PRECISION_F64],
                  largest[RS_PRECISION_RESIDUAL]);
    rs_network_close(network);
    rs_checkpoint_close(golden);
    rs_checkpoint_close(checkpoint);
}

#define MODEL(name)                                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check_model(#name);                                                                        \
    }
MODEL(bert)
MODEL(albert)
MODEL(xlnet)
MODEL(gpt2)
MODEL(llama)
MODEL(gpt_neox)
MODEL(gemma3)
MODEL(mamba2)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bert),   cmocka_unit_test(albert), cmocka_unit_test(xlnet),
        cmocka_unit_test(gpt2),   cmocka_unit_test(llama),  cmocka_unit_test(gpt_neox),
        cmocka_unit_test(gemma3), cmocka_unit_test(mamba2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
