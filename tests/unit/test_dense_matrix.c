/*
 * test_dense_matrix.c: weights as plain matrices, and the moments of a branch.
 *
 * The small models of tests/golden/forward hold every way in which a map is stored (rows, columns,
 * fused, interleaved, quantised). The forward pass, which transformers confirms, is the oracle: an
 * MLP without activation between is applied here from the plain matrices to what the pass read, and
 * must give what the pass gave.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/dense_matrix.h"
#include "forward_catch.h"

#include <dirent.h>

typedef struct moments {
    const rs_network *network;
    double *states[RS_MOMENT_COUNT];
    int64_t rows, d;
    int told[RS_MOMENT_COUNT]; /* of the branch at hand */
    int32_t layer, branch;
    int maps, combined, wrong;
} moments;

/* y [rows, out] = x Wᵀ + b by plain loops. */
static double *apply(const rs_dense *dense, const double *x, int64_t rows)
{
    rs_error err;
    double *w = calloc((size_t)(dense->in * dense->out), sizeof *w);
    double *b = calloc((size_t)dense->out, sizeof *b);
    double *y = calloc((size_t)(rows * dense->out), sizeof *y);
    /* in two pieces: the second begins inside the map */
    int64_t half = dense->out / 2;
    assert_int_equal(rs_dense_rows(w, b, dense, 0, half, &err), RS_OK);
    assert_int_equal(
        rs_dense_rows(w + half * dense->in, b + half, dense, half, dense->out - half, &err), RS_OK);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t u = 0; u < dense->out; u++) {
            double sum = b[u];
            for (int64_t k = 0; k < dense->in; k++)
                sum += w[u * dense->in + k] * x[i * dense->in + k];
            y[i * dense->out + u] = sum;
        }
    free(w);
    free(b);
    return y;
}

static int differ(const double *a, const double *b, int64_t n)
{
    double most = 0, top = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs(a[i] - b[i]));
        top = fmax(top, fabs(b[i]));
    }
    return !(most <= 1e-12 * top);
}

/* One token attends to itself alone: the op is W_O (W_V x + b_V) + b_O whatever the logits are. */
static void check_attention(moments *m, const rs_attention_op *op)
{
    if (m->rows != 1 || op->cross || !op->o.weight || op->mix_softmax != 1) return;
    double *v = apply(&op->v, m->states[RS_MOMENT_OP_IN], 1);
    double *mixed = calloc((size_t)(op->heads * op->value_dim), sizeof *mixed);
    for (int64_t h = 0; h < op->heads; h++)
        memcpy(mixed + h * op->value_dim, v + h / (op->heads / op->kv_heads) * op->value_dim,
               (size_t)op->value_dim * sizeof *mixed);
    double *y = apply(&op->o, mixed, 1);
    m->wrong += differ(y, m->states[RS_MOMENT_OP_OUT], op->o.out);
    m->maps += 2;
    free(v);
    free(mixed);
    free(y);
}

static void check_combine(moments *m, const rs_branch *branch)
{
    if (branch->inside.kind != RS_NORM_NONE || branch->after.kind != RS_NORM_NONE) return;
    double *sum = calloc((size_t)(m->rows * m->d), sizeof *sum);
    for (int64_t i = 0; i < m->rows * m->d; i++)
        sum[i] = branch->skip * m->states[RS_MOMENT_IN][i] +
                 branch->scale * m->states[RS_MOMENT_OP_OUT][i];
    m->wrong += differ(sum, m->states[RS_MOMENT_OUT], m->rows * m->d);
    m->combined++;
    free(sum);
}

static rs_status on_branch(void *user, int32_t layer, int32_t branch, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    (void)err;
    moments *m = user;
    assert_int_equal(view->precision, RS_PRECISION_F64);
    if (moment == RS_MOMENT_IN) {
        memset(m->told, 0, sizeof m->told);
        m->layer = layer;
        m->branch = branch;
    }
    assert_int_equal(layer, m->layer);
    assert_int_equal(branch, m->branch);
    for (int before = 0; before < (int)moment; before++)
        assert_int_equal(m->told[before], 1);
    m->told[moment]++;
    m->rows = view->rows;
    m->d = view->cols;
    free(m->states[moment]);
    m->states[moment] = malloc((size_t)(view->rows * view->cols) * sizeof(double));
    memcpy(m->states[moment], view->data, (size_t)(view->rows * view->cols) * sizeof(double));
    if (moment != RS_MOMENT_OUT) return RS_OK;
    const rs_branch *b = &m->network->layers[layer].branches[branch];
    const rs_attention_op *plain = rs_branch_plain_attention(b);
    if (plain) check_attention(m, plain);
    check_combine(m, b);
    return RS_OK;
}

static void one_case(const char *name, int *maps, int *combined, int *wrong)
{
    char path[512];
    rs_checkpoint *checkpoint;
    rs_checkpoint_options options = {0};
    rs_network *network;
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = 1};
    snprintf(path, sizeof path, "%s/forward/%s/model.gguf", RS_TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    else
        snprintf(path, sizeof path, "%s/forward/%s", RS_TEST_DATA, name);
    assert_int_equal(rs_checkpoint_open(&checkpoint, path, &options, &err), RS_OK);
    assert_int_equal(rs_network_open(&network, checkpoint, &err), RS_OK);
    if (network->embedding.tokens) {
        int32_t id = 1;
        int64_t begin[] = {0, 1}, memory_begin[] = {0, 2};
        double *memory = calloc((size_t)(2 * network->d_model * 4), sizeof *memory);
        rs_batch batch = {.samples = 1,
                          .begin = begin,
                          .ids = &id,
                          .memory = memory,
                          .memory_begin = memory_begin};
        moments m = {.network = network};
        rs_tap tap = {.user = &m, .moments = (1u << RS_MOMENT_COUNT) - 1, .branch = on_branch};
        const rs_tap *taps[] = {&tap};
        assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 20, &err), RS_OK);
        assert_int_equal(rs_runner_open(&runner, network, weights, &context, &err), RS_OK);
        if (rs_runner_run(runner, &batch, taps, 1, &err) != RS_OK)
            fail_msg("%s: %s: %s", name, err.where, err.what);
        if (m.wrong) print_error("%s: %d matrices differ\n", name, m.wrong);
        *maps += m.maps;
        *combined += m.combined;
        *wrong += m.wrong;
        for (int i = 0; i < RS_MOMENT_COUNT; i++)
            free(m.states[i]);
        rs_runner_close(runner);
        rs_weights_close(weights);
        free(memory);
    }
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
}

static void maps_are_what_the_pass_applies(void **state)
{
    (void)state;
    char path[512];
    int maps = 0, combined = 0, wrong = 0;
    snprintf(path, sizeof path, "%s/forward", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.') one_case(entry->d_name, &maps, &combined, &wrong);
    closedir(folder);
    assert_int_equal(wrong, 0);
    assert_true(maps > 200);
    assert_true(combined > 50);
}

static rs_tensor tensor_of(const char *name, float *data, int64_t count)
{
    return (rs_tensor){
        .name = name, .dtype = RS_F32, .data = (const uint8_t *)data, .count = count};
}

static void norm_vectors_are_as_applied(void **state)
{
    (void)state;
    float stored[] = {0.5f, -0.25f, 0};
    rs_tensor tensor = tensor_of("norm.weight", stored, 3);
    double gain[3], bias[3];
    rs_norm_op plain = {.kind = RS_NORM_RMSNORM, .dim = 3, .gain = &tensor};
    rs_norm_vectors(gain, bias, &plain);
    assert_true(gain[0] == 0.5 && gain[1] == -0.25 && gain[2] == 0 && bias[1] == 0);
    rs_norm_op plus = {.kind = RS_NORM_RMSNORM_PLUS_ONE, .dim = 3, .gain = &tensor};
    rs_norm_vectors(gain, NULL, &plus);
    assert_true(gain[0] == 1.5 && gain[1] == 0.75 && gain[2] == 1);
    rs_norm_op bare = {.kind = RS_NORM_LAYERNORM, .dim = 3, .bias = &tensor};
    rs_norm_vectors(gain, bias, &bare);
    assert_true(gain[0] == 1 && bias[0] == 0.5 && bias[1] == -0.25);
}

static void units_outside_are_refused(void **state)
{
    (void)state;
    float stored[6] = {0};
    rs_tensor tensor = tensor_of("w", stored, 6);
    rs_dense dense = {.weight = &tensor,
                      .rows = 2,
                      .cols = 3,
                      .out_is_row = true,
                      .in = 3,
                      .out = 2,
                      .run = 2,
                      .stride = 2};
    double w[9];
    rs_error err;
    assert_int_equal(rs_dense_rows(w, NULL, &dense, 0, 2, &err), RS_OK);
    assert_int_equal(rs_dense_rows(w, NULL, &dense, 1, 2, &err), RS_E_INTERNAL);
    assert_int_equal(rs_dense_rows(w, NULL, &dense, -1, 1, &err), RS_E_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_are_what_the_pass_applies),
        cmocka_unit_test(norm_vectors_are_as_applied),
        cmocka_unit_test(units_outside_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
