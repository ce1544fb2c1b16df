/*
 * test_states.c: real-valued sequences in the place of tokens. What transformers makes of them, as
 * inputs_embeds and in the place of what its first block reads (tests/oracle/make_states_golden.py),
 * is what is made of a file of them here; and a model's own embeddings, given as rows, are its tokens
 * to the bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_catch.h"
#include "network/op_traits.h"
#include "observe/inputs.h"

#include <dirent.h>
#include <unistd.h>

static const char file_name[] = "states_rows.json";

static rs_checkpoint *open_file(const char *format, const char *name)
{
    char path[512];
    rs_checkpoint *checkpoint;
    rs_checkpoint_options options = {0};
    rs_error err = {0};
    snprintf(path, sizeof path, format, RS_TEST_DATA, name);
    if (rs_checkpoint_open(&checkpoint, path, &options, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return checkpoint;
}

/* ---- files of rows ---- */

/* Samples of rows [begin[samples], width], each number with all its digits. */
static void write_rows(const double *rows, const int64_t *begin, int64_t samples, int64_t width)
{
    FILE *file = fopen(file_name, "w");
    assert_non_null(file);
    fputc('[', file);
    for (int64_t s = 0; s < samples; s++) {
        fputs(s ? ", [" : "[", file);
        for (int64_t i = begin[s]; i < begin[s + 1]; i++)
            for (int64_t c = 0; c < width; c++)
                fprintf(file, "%s%.17g%s",
                        c              ? ", "
                        : i > begin[s] ? ", ["
                                       : "[",
                        rows[i * width + c], c == width - 1 ? "]" : "");
        fputc(']', file);
    }
    fputc(']', file);
    assert_int_equal(fclose(file), 0);
}

/* Runs what the file says. */
static void run_file(const rs_network *network, rs_precision precision, bool embeddings, catch *all)
{
    const rs_input_source source = {.states = file_name, .embeddings = embeddings};
    rs_error err = {0};
    rs_inputs *inputs;
    rs_input_batch batch;
    if (rs_inputs_open(&inputs, &source, network, NULL, 0, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    assert_int_equal(rs_input_batch_open(&batch, inputs->samples, NULL), RS_OK);
    rs_input_batch_set(&batch, inputs, 0, inputs->samples);
    run(network, precision, &(input){.batch = batch.batch}, all);
    rs_input_batch_close(&batch);
    rs_inputs_close(inputs);
}

/* ---- transformers ---- */

static bool runs_residual(const rs_network *network)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            const rs_attention_op *op = rs_branch_attention(branch);
            if ((!op && !rs_branch_mlp(branch)) || (op && op->gate.weight)) return false;
        }
    return true;
}

static int one_kind(const char *name, const rs_network *network, const rs_checkpoint *golden,
                    const char *kind)
{
    static catch all;
    char key[64];
    int64_t begin[ROWS_MAX] = {0};
    int wrong = 0;
    bool embeddings = strcmp(kind, "embeddings") == 0;
    snprintf(key, sizeof key, "input.%s", kind);
    const rs_tensor *rows = rs_checkpoint_find(golden, key),
                    *lengths = rs_checkpoint_find(golden, "lengths");
    if (!rows) return 0;
    double *numbers = malloc((size_t)rows->count * sizeof *numbers);
    assert_non_null(numbers);
    rs_tensor_decode_f64(numbers, rows, 0, rows->count);
    starts(begin, lengths);
    write_rows(numbers, begin, lengths->count, rows->count / begin[lengths->count]);
    free(numbers);
    snprintf(key, sizeof key, "%s.", kind);
    static const struct {
        rs_precision precision;
        double bound;
    } ways[] = {
        {RS_PRECISION_F64, 1e-12}, {RS_PRECISION_RESIDUAL, 1e-12}, {RS_PRECISION_F32, 5e-5}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        if (ways[w].precision == RS_PRECISION_RESIDUAL && !runs_residual(network)) continue;
        run_file(network, ways[w].precision, embeddings, &all);
        wrong += compare(name, golden, key, &all, ways[w].bound);
        forget(&all);
    }
    return wrong;
}

static void rows_are_what_transformers_makes_of_them(void **state)
{
    (void)state;
    int cases = 0, wrong = 0;
    DIR *folder = opendir(RS_TEST_DATA "/states");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[64];
        rs_network *network;
        rs_error err = {0};
        size_t length = strcspn(entry->d_name, ".");
        if (length == 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)length, entry->d_name);
        rs_checkpoint *golden = open_file("%s/states/%s.safetensors", name),
                      *checkpoint = open_file("%s/forward/%s", name);
        if (rs_network_open(&network, checkpoint, &err) != RS_OK)
            fail_msg("%s: %s: %s", name, err.where, err.what);
        wrong += one_kind(name, network, golden, "block");
        wrong += one_kind(name, network, golden, "embeddings");
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
        rs_checkpoint_close(golden);
        cases++;
    }
    closedir(folder);
    assert_true(cases >= 20);
    assert_int_equal(wrong, 0);
}

/* ---- a model's own embeddings ---- */

static void same_bits(const char *name, const catch *a, const catch *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const found *x = &a->items[i], *y = &b->items[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->count, y->count);
        if (memcmp(x->values, y->values, (size_t)x->count * sizeof *x->values) != 0)
            fail_msg("%s: %s has other bits", name, x->name);
    }
}

/* Rows of the table, as transformers' get_input_embeddings() gives them. */
static double *look_up(const rs_embedding_op *op, const input *in)
{
    int64_t width = rs_embedding_source(op), n = in->batch.begin[in->batch.samples];
    double *rows = malloc((size_t)(n * width) * sizeof *rows);
    assert_non_null(rows);
    for (int64_t i = 0; i < n; i++) {
        rs_tensor_decode_f64(rows + i * width, op->tokens, in->ids[i] * width, width);
        for (int64_t c = 0; c < width && !op->scales_rows; c++)
            rows[i * width + c] *= op->scale;
    }
    return rows;
}

static const found *find(const catch *all, const char *name)
{
    size_t i = 0;
    while (i < all->n && strcmp(all->items[i].name, name) != 0)
        i++;
    assert_true(i < all->n);
    return &all->items[i];
}

static void one_model(const char *name, const rs_network *network, const input *in,
                      rs_precision precision)
{
    static catch of_tokens, of_rows;
    const rs_batch *batch = &in->batch;
    run(network, precision, in, &of_tokens);
    /* what the residual precision carries is more than the doubles that a listener is shown */
    if (precision != RS_PRECISION_RESIDUAL) {
        write_rows(find(&of_tokens, "state.0")->values, batch->begin, batch->samples,
                   network->d_model);
        run_file(network, precision, false, &of_rows);
        same_bits(name, &of_tokens, &of_rows);
        forget(&of_rows);
    }
    double *rows = look_up(&network->embedding, in);
    write_rows(rows, batch->begin, batch->samples, rs_embedding_source(&network->embedding));
    run_file(network, precision, true, &of_rows);
    same_bits(name, &of_tokens, &of_rows);
    forget(&of_rows);
    forget(&of_tokens);
    free(rows);
}

static void own_embeddings_are_the_tokens(void **state)
{
    (void)state;
    static const char *const names[] = {"bert",   "albert",    "roberta", "xlnet",
                                        "gpt2",   "llama",     "gemma2",  "granite",
                                        "mamba2", "falcon_h1", "lfm2",    "granite_hybrid"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        rs_network *network;
        input in;
        rs_checkpoint *golden = open_file("%s/forward/%s/golden.safetensors", names[i]),
                      *checkpoint = open_file("%s/forward/%s", names[i]);
        assert_int_equal(rs_network_open(&network, checkpoint, NULL), RS_OK);
        read_input(&in, golden);
        one_model(names[i], network, &in, RS_PRECISION_F32);
        one_model(names[i], network, &in, RS_PRECISION_F64);
        if (runs_residual(network)) one_model(names[i], network, &in, RS_PRECISION_RESIDUAL);
        free(in.ids);
        rs_network_close(network);
        rs_checkpoint_close(checkpoint);
        rs_checkpoint_close(golden);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_what_transformers_makes_of_them),
        cmocka_unit_test(own_embeddings_are_the_tokens),
    };
    int failed = cmocka_run_group_tests_name("states", tests, NULL, NULL);
    unlink(file_name);
    return failed;
}
