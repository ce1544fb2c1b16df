/* test_lab_table1.c: gradients by skip strength in lambda-table1-small: of attention those of the
 * trainer's instruments; of state-space layers what the loss changes by where C, B, what the states are
 * fed, or the step is moved; and the strength is the network's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lab/lambda_table1.h"

#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const rs_context context = {.threads = 1};

static void write_task(char *text, size_t size, const rs_table1_mixer *mixer, double strength,
                       const char *more)
{
    snprintf(
        text, size,
        "{'task': 'mqar', 'data': {%s}, 'model': {'depth': 2, 'd_model': 32, %s, 'skip_mixer': "
        "%g}, 'steps': 0, 'seed': 4, %s%s}",
        mixer->data, mixer->model, strength, rs_table1_training, more);
}

static void attention_is_as_the_instruments_have_it(void **state)
{
    (void)state;
    for (int m = 0; m < 2; m++)
        for (double strength = 0; strength < 1; strength += 0.5) {
            const rs_table1_mixer *mixer = &rs_table1_mixers[m];
            rs_table1_gradients seen;
            rs_result *result = NULL;
            rs_error err;
            char text[1000];
            assert_int_equal(rs_table1_look(&seen, mixer, strength, 4, &context, &err), RS_OK);
            write_task(text, sizeof text, mixer, strength, ", 'rank_every': 1");
            assert_int_equal(rs_lab_train(&result, text, NULL, &context, &err), RS_OK);
            const rs_table *layers = rs_result_table(result, "layers");
            int rows = 0;
            for (size_t i = 0; i < rs_table_rows(layers); i++) {
                static const char *const names[] = {"g_q", "g_k", "g_v"};
                int layer = (int)rs_lab_cell(layers, i, "layer");
                if (layer < 0 || layer >= RS_TABLE1_LAYERS) continue;
                rows++;
                assert_true(rs_lab_cell(layers, i, "mixer_skip") == strength);
                for (int k = 0; k < 3; k++) {
                    double expected = rs_lab_cell(layers, i, names[k]);
                    assert_true(expected > 0);
                    assert_true(fabs(seen.squared[layer][k] / expected - 1) < 1e-6);
                }
                assert_true(isnan(seen.squared[layer][RS_TABLE1_STEP]));
            }
            assert_int_equal(rows, RS_TABLE1_LAYERS);
            rs_result_free(result);
        }
}

/* ---- state-space layers ---- */

/* Rows of a map's weight that stand for a part, as the papers' maps are laid out (docs/theory/ssm.md). */
typedef struct rows_of {
    const rs_tensor *weight;
    int64_t first, count, cols;
} rows_of;

static rows_of find_rows(const rs_branch *b, int part)
{
    if (b->kind == RS_BRANCH_S6) {
        int64_t inner = 64, rank = 2, n = 16;
        const rows_of of[] = {{b->s6.x.weight, rank + n, n, inner},
                              {b->s6.x.weight, rank, n, inner},
                              {b->s6.in.weight, 0, inner, 32},
                              {b->s6.step.weight, 0, inner, rank}};
        assert_int_equal(b->s6.inner, inner);
        assert_int_equal(b->s6.rank, rank);
        return of[part];
    }
    int64_t wide = 64, n = 16, heads = 4;
    const rows_of of[] = {{b->ssd.in.weight, 2 * wide + n, n, 32},
                          {b->ssd.in.weight, 2 * wide, n, 32},
                          {b->ssd.in.weight, wide, wide, 32},
                          {b->ssd.in.weight, 2 * wide + 2 * n, heads, 32}};
    assert_int_equal(b->kind, RS_BRANCH_SSD);
    return of[part];
}

typedef struct moved {
    int layer, part;
    double expected; /* squared norm of the gradient */
} moved;

static double loss_of(rs_learner *learner, const rs_task_batch *batch)
{
    rs_batch_outcome outcome;
    rs_error err;
    assert_int_equal(rs_learner_evaluate(&outcome, learner, batch, &err), RS_OK);
    return outcome.loss;
}

/* The loss's change along the gradient of those rows, over its length, is its norm. */
static rs_status move_rows(void *user, rs_learner *learner, rs_train_task *task, rs_error *err)
{
    const moved *m = user;
    const rows_of rows = find_rows(rs_layer_mixer(&learner->network->layers[m->layer]), m->part);
    const rs_trained *item = rs_trained_find(&learner->trained, rows.weight);
    assert_non_null(item);
    int64_t first = rows.first * rows.cols, count = rows.count * rows.cols;
    assert_true(first + count <= item->count);
    double *w = (double *)item->weight + first, *g = (double *)item->gradient + first;
    double length = sqrt(m->expected), h = 1e-4;
    rs_task_batch batch = {0};
    assert_int_equal(rs_task_batch_new(&batch, rs_task_sizes(task), 32, err), RS_OK);
    assert_int_equal(rs_task_fill(&batch, task, RS_TASK_TRAIN, 0, err), RS_OK);
    for (int64_t i = 0; i < count; i++)
        w[i] += h * g[i] / length;
    double above = loss_of(learner, &batch);
    for (int64_t i = 0; i < count; i++)
        w[i] -= 2 * h * g[i] / length;
    double below = loss_of(learner, &batch);
    assert_true(fabs((above - below) / (2 * h) / length - 1) < 1e-3);
    rs_task_batch_free(&batch);
    return RS_OK;
}

static void states_are_what_the_loss_says(void **state)
{
    (void)state;
    for (int m = 2; m < RS_TABLE1_MIXERS; m++) {
        rs_table1_gradients seen;
        rs_error err;
        assert_int_equal(rs_table1_look(&seen, &rs_table1_mixers[m], 1, 4, &context, &err), RS_OK);
        for (int k = 0; k < RS_TABLE1_LAYERS * RS_TABLE1_PARTS; k++) {
            moved one = {k / RS_TABLE1_PARTS, k % RS_TABLE1_PARTS, 0};
            bool diverged;
            char text[1000];
            one.expected = seen.squared[one.layer][one.part];
            assert_true(one.expected > 0);
            const rs_lab_finish finish = {&one, move_rows};
            write_task(text, sizeof text, &rs_table1_mixers[m], 1,
                       ", 'rank_every': 0, 'precision': 'f64'");
            assert_int_equal(rs_lab_train_seen(&diverged, text, &finish, &context, &err), RS_OK);
            assert_false(diverged);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention_is_as_the_instruments_have_it),
                                       cmocka_unit_test(states_are_what_the_loss_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
