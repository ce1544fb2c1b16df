/* test_arch_ends.c: what architecture files store of norms, biases, the embedding and the head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "arch_support.h"

static void assert_all(const rs_tensor *tensor, int64_t count, float value)
{
    const float *x = (const float *)(const void *)tensor->data;
    assert_int_equal(tensor->count, count);
    assert_int_equal(tensor->rank, 1);
    for (int64_t i = 0; i < count; i++)
        assert_true(x[i] == value);
}

static void assert_biased(const rs_dense *map)
{
    assert_non_null(map->weight);
    assert_non_null(map->bias);
    assert_all(map->bias, map->out, 0);
}

static void assert_norm(const rs_norm_op *norm, bool gain, bool bias)
{
    assert_int_not_equal(norm->kind, RS_NORM_NONE);
    assert_true(norm->eps == 1e-5);
    assert_int_equal(norm->gain != NULL, gain);
    assert_int_equal(norm->bias != NULL, bias);
    if (gain) assert_all(norm->gain, norm->dim, 1);
    if (bias) assert_all(norm->bias, norm->dim, 0);
}

/* The weight decay paper's model: 70 thousand numbers. */
static void describes_the_recall_model(void **state)
{
    (void)state;
    built b =
        good("{\"depth\": 2, \"d_model\": 64, \"heads\": 2, \"mask\": \"causal\","
             " \"positions\": \"learned\", \"norm_affine\": \"gain\", \"mlp\": \"relu\","
             " \"mlp_width\": 128, \"vocab\": 32, \"outputs\": 16, \"seq_len\": 18,"
             " \"init\": {\"w1\": \"normal(0, 1/fan_in)\", \"embedding\": \"normal(0, 0.09)\","
             " \"position\": \"normal(0, 0.09)\"}}");
    const rs_network *n = b.network;
    assert_variance(n->embedding.tokens, 0.09);
    assert_variance(n->embedding.positions, 0.09);
    assert_false(n->embedding.positions_fixed);
    for (int l = 0; l < 2; l++) {
        const rs_branch *mixer = &n->layers[l].branches[0], *mlp = &n->layers[l].branches[1];
        assert_norm(&mixer->before, true, false);
        assert_norm(&mlp->before, true, false);
        assert_int_equal(mixer->after.kind, RS_NORM_NONE);
        assert_dense(&mixer->attention.q, 64, 64);
        assert_dense(&mixer->attention.o, 64, 64);
        assert_dense(&mlp->mlp.up, 128, 64);
        assert_dense(&mlp->mlp.down, 64, 128);
    }
    assert_norm(&n->final_norm, true, false);
    assert_dense(&n->head.decoder, 16, 64);
    assert_false(n->head.next_token);
    assert_int_equal(n->stored.parameters,
                     32 * 64 + 18 * 64 + 16 * 64 + 64 + 2 * (4 * 64 * 64 + 2 * 64 * 128 + 2 * 64));
    unbuild(&b);
}

static void norms_and_biases(void **state)
{
    (void)state;
    built b =
        good("{\"depth\": 1, \"d_model\": 8, \"heads\": 2, \"norm\": \"sandwich\", \"vocab\": 5,"
             " \"norm_affine\": \"both\", \"bias\": true, \"mlp\": \"swiglu\"}");
    const rs_branch *mixer = &b.network->layers[0].branches[0],
                    *mlp = &b.network->layers[0].branches[1];
    const rs_norm_op *norms[] = {&mixer->before, &mixer->inside, &mlp->before, &mlp->inside,
                                 &b.network->final_norm};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) {
        assert_norm(norms[i], true, true);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(norms[i]->gain, norms[j]->gain);
    }
    assert_biased(&mixer->attention.q);
    assert_biased(&mixer->attention.k);
    assert_biased(&mixer->attention.v);
    assert_biased(&mixer->attention.o);
    assert_biased(&mlp->mlp.up);
    assert_biased(&mlp->mlp.gate);
    assert_biased(&mlp->mlp.down);
    assert_biased(&b.network->head.decoder);
    unbuild(&b);
}

/* Nothing of that is there unasked; a merged W_O has no bias. */
static void unasked_there_is_nothing(void **state)
{
    (void)state;
    built b = good("{\"depth\": 1, \"d_model\": 8, \"norm\": \"post\", \"vocab\": 5}");
    assert_norm(&b.network->layers[0].branches[0].after, false, false);
    assert_null(b.network->layers[0].branches[0].attention.q.bias);
    assert_null(b.network->embedding.map.weight);
    assert_int_equal(b.network->embedding.norm.kind, RS_NORM_NONE);
    assert_dense(&b.network->head.decoder, 5, 8);
    unbuild(&b);
    b = good("{\"depth\": 2, \"d_model\": 8, \"bias\": true, \"init\": {\"wo\": \"none\"},"
             " \"norm_affine\": \"gain\", \"share_layers\": true}");
    const rs_branch *first = b.network->layers[0].branches, *second = b.network->layers[1].branches;
    assert_null(first->attention.o.weight);
    assert_biased(&first->attention.v);
    assert_ptr_equal(first->before.gain, second->before.gain);
    assert_ptr_equal(first->attention.v.bias, second->attention.v.bias);
    assert_null(b.network->head.decoder.weight);
    unbuild(&b);
}

static void rows_and_maps(void **state)
{
    (void)state;
    built b =
        good("{\"depth\": 1, \"d_model\": 8, \"rows\": {\"width\": 3, \"map\": \"mlp\","
             " \"map_width\": 400, \"norm\": true}, \"outputs\": 2, \"positions\": \"learned\","
             " \"init\": {\"map\": \"normal(0, 4/fan_in)\"}}");
    const rs_embedding_op *op = &b.network->embedding;
    assert_int_equal(op->rows, 3);
    assert_null(op->tokens);
    assert_int_equal(op->map.in, 3);
    assert_int_equal(op->map.out, 400);
    assert_int_equal(op->map_out.in, 400);
    assert_int_equal(op->map_out.out, 8);
    assert_biased(&op->map);
    assert_biased(&op->map_out);
    assert_variance(op->map.weight, 4.0 / 3);
    assert_variance(op->map_out.weight, 4.0 / 400);
    assert_norm(&op->norm, true, true);
    assert_int_equal(op->positions->count, 16 * 8);
    assert_int_equal(b.network->max_positions, 16);
    assert_int_equal(b.network->head.decoder.out, 2);
    assert_false(b.network->head.next_token);
    unbuild(&b);
    b = good("{\"depth\": 1, \"d_model\": 8, \"rows\": {\"width\": 3, \"map_width\": 0}}");
    assert_int_equal(b.network->embedding.map.out, 8);
    assert_null(b.network->embedding.map_out.weight);
    assert_int_equal(b.network->embedding.norm.kind, RS_NORM_NONE);
    unbuild(&b);
    b = good("{\"depth\": 1, \"d_model\": 8, \"vocab\": 5, \"mask\": \"causal\", \"outputs\": 5,"
             " \"embed\": {\"map\": \"mlp\"}}");
    assert_int_equal(b.network->embedding.map.out, 8);
    assert_int_equal(b.network->embedding.tokens->count, 40);
    assert_true(b.network->head.next_token);
    unbuild(&b);
}

/* Vaswani et al. 2017, 3.5: entries of angle 0, and p 10000^(-2i/d) of their own. */
static void sinusoids(void **state)
{
    (void)state;
    built b = good("{\"depth\": 1, \"d_model\": 4, \"vocab\": 5, \"positions\": \"sinusoidal\"}");
    const float *x = (const float *)(const void *)b.network->embedding.positions->data;
    assert_true(b.network->embedding.positions_fixed);
    for (int p = 0; p < 16; p++) {
        const double expected[] = {sin(p), cos(p), sin(p / 100.0), cos(p / 100.0)};
        for (int c = 0; c < 4; c++)
            assert_true(fabs((double)x[4 * p + c] - expected[c]) < 1e-7);
    }
    assert_int_equal(b.network->stored.parameters, 20 + 20 + 4 * 16 + 2 * 64);
    unbuild(&b);
}

/* Rows have the law of "input", in their own width. */
static void rows_are_drawn(void **state)
{
    (void)state;
    rs_arch *arch;
    rs_error err;
    json_t *json = json_loads("{\"rows\": {\"width\": 5}, \"seq_len\": 3, \"input\": {\"norm2\":"
                              " \"2*d\"}}",
                              0, NULL);
    assert_int_equal(rs_arch_read(&arch, json, "ARCH.json", &err), RS_OK);
    double rows[15], square = 0;
    assert_int_equal(rs_arch_input(rows, arch, 7, 0, &err), RS_OK);
    for (int c = 0; c < 5; c++)
        square += rows[10 + c] * rows[10 + c];
    assert_true(fabs(square - 10) < 1e-12);
    rs_arch_close(arch);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_the_recall_model),
        cmocka_unit_test(norms_and_biases),
        cmocka_unit_test(unasked_there_is_nothing),
        cmocka_unit_test(rows_and_maps),
        cmocka_unit_test(sinusoids),
        cmocka_unit_test(rows_are_drawn),
    };
    return cmocka_run_group_tests_name("ends of an architecture", tests, NULL, NULL);
}
