/*
 * test_forward_golden.c: small random models of every family, run here and by transformers
 * (tests/oracle/make_forward_golden.py): every state, the final one, the logits and some attention
 * matrices must agree. The measure is max|Δ| / max|reference| of a matrix.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_catch.h"

#include <dirent.h>

/* How many samples are not continued by the likeliest token of the golden logits. */
static int continued(const char *name, const rs_network *network, const input *in,
                     const rs_checkpoint *golden)
{
    const rs_tensor *logits = rs_checkpoint_find(golden, "double.logits");
    const rs_context context = {.threads = 1};
    rs_weights *weights;
    rs_runner *runner;
    int wrong = 0;
    if (!logits || !network->head.next_token || !in->ids) return 0;
    int64_t vocabulary = logits->count / in->batch.begin[in->batch.samples];
    double *row = malloc((size_t)vocabulary * sizeof *row);
    assert_non_null(row);
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, UINT64_MAX, NULL), RS_OK);
    assert_int_equal(rs_runner_open(&runner, network, weights, &context, NULL), RS_OK);
    for (int32_t s = 0; s < in->batch.samples; s++) {
        const int64_t *at = in->begin + s, *memory = in->memory_begin + s;
        const int64_t begin[] = {0, at[1] - at[0]}, memory_begin[] = {0, memory[1] - memory[0]};
        const rs_batch prompt = {.samples = 1,
                                 .begin = begin,
                                 .ids = in->ids + at[0],
                                 .memory =
                                     in->memory ? in->memory + memory[0] * network->d_model : NULL,
                                 .memory_begin = memory_begin};
        int32_t next, best = 0;
        if (!begin[1]) continue;
        assert_int_equal(rs_generate(&next, runner, &prompt, 1, NULL), RS_OK);
        rs_tensor_decode_f64(row, logits, (at[1] - 1) * vocabulary, vocabulary);
        for (int32_t i = 1; i < vocabulary; i++)
            if (row[i] > row[best]) best = i;
        wrong += next != best;
    }
    if (wrong) print_error("%s: %d samples are continued by another token\n", name, wrong);
    rs_runner_close(runner);
    rs_weights_close(weights);
    free(row);
    return wrong;
}

/* Some branch is a state-space mixer. */
static bool has_states(const rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            rs_branch_kind kind = network->layers[l].branches[b].kind;
            if (kind != RS_BRANCH_ATTENTION && kind != RS_BRANCH_MLP) return true;
        }
    return false;
}

static int one_case(const char *name)
{
    static catch all;
    char path[512];
    rs_checkpoint *checkpoint, *golden;
    rs_checkpoint_options options = {0};
    rs_network *network;
    rs_error err = {0};
    input in;
    int wrong = 0;
    snprintf(path, sizeof path, "%s/forward/%s/golden.safetensors", RS_TEST_DATA, name);
    assert_int_equal(rs_checkpoint_open(&golden, path, &options, &err), RS_OK);
    snprintf(path, sizeof path, "%s/forward/%s/model.gguf", RS_TEST_DATA, name);
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    else
        snprintf(path, sizeof path, "%s/forward/%s", RS_TEST_DATA, name);
    assert_int_equal(rs_checkpoint_open(&checkpoint, path, &options, &err), RS_OK);
    if (rs_network_open(&network, checkpoint, &err) != RS_OK) {
        print_error("%s: %s: %s\n", name, err.where, err.what);
        wrong = 1;
    } else {
        read_input(&in, golden);
        run(network, RS_PRECISION_F32, &in, &all);
        wrong += compare(name, golden, "shipped32.", &all, 2e-5);
        wrong += compare(name, golden, "double.", &all, 2e-5);
        forget(&all);
        run(network, RS_PRECISION_F64, &in, &all);
        wrong += compare(name, golden, "double.", &all, 1e-10);
        /* transformers' scans cast what they read to float32, also in a double model */
        wrong += compare(name, golden, "shipped64.", &all, has_states(network) ? 1e-5 : 2e-6);
        forget(&all);
        if (!has_states(network)) { /* which the residual precision does not run */
            run(network, RS_PRECISION_RESIDUAL, &in, &all);
            wrong += compare(name, golden, "double.", &all, 1e-10);
            forget(&all);
        }
        wrong += continued(name, network, &in, golden);
        free(in.ids);
        free(in.images);
        free(in.memory);
        rs_network_close(network);
    }
    rs_checkpoint_close(checkpoint);
    rs_checkpoint_close(golden);
    return wrong;
}

static void agrees_with_transformers(void **state)
{
    (void)state;
    char path[512];
    int cases = 0, wrong = 0;
    snprintf(path, sizeof path, "%s/forward", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        int bad = one_case(entry->d_name);
        if (bad) print_error("%s: %d matrices disagree\n", entry->d_name, bad);
        wrong += bad != 0;
        cases++;
    }
    closedir(folder);
    assert_true(cases >= 50);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_transformers)};
    return cmocka_run_group_tests_name("forward_golden", tests, NULL, NULL);
}
