/*
 * test_network_corners.c: configurations that contradict their weights, or ask for what
 * transformers 5.23 does not compute: the network is what transformers runs, and a note says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "network_cases.h"

typedef struct opened {
    rs_checkpoint *checkpoint;
    rs_network *network;
} opened;

/* A stored case under a changed configuration. */
static opened open_changed(const char *name, const char *change)
{
    opened o = {.checkpoint = open_case(name)};
    rs_error err = {0};
    overlay(o.checkpoint->config, change);
    if (rs_network_open(&o.network, o.checkpoint, &err) != RS_OK)
        fail_msg("%s %s: %s: %s", name, change, err.where, err.what);
    return o;
}

static void close_opened(opened *o)
{
    rs_network_close(o->network);
    rs_checkpoint_close(o->checkpoint);
}

static const char *note_of(const rs_network *network, const char *code)
{
    for (size_t i = 0; i < network->notes.n; i++)
        if (strcmp(network->notes.items[i].code, code) == 0) return network->notes.items[i].message;
    return NULL;
}

/* Tied by the configuration, stored as two: equal ones are tied, else the stored head counts. */
static void a_stored_head_counts_unless_it_is_the_same(void **state)
{
    (void)state;
    opened o = open_changed("llama", "{\"tie_word_embeddings\":true}");
    rs_tensor *head = NULL, *tokens = NULL;
    for (size_t t = 0; t < o.checkpoint->n_tensors; t++) {
        rs_tensor *tensor = &o.checkpoint->tensors[t];
        if (strcmp(tensor->name, "lm_head.weight") == 0) head = tensor;
        if (strcmp(tensor->name, "model.embed_tokens.weight") == 0) tokens = tensor;
    }
    assert_non_null(head);
    assert_non_null(tokens);
    assert_ptr_equal(o.network->head.decoder.weight, head);
    const char *note = note_of(o.network, "untied_head");
    assert_non_null(note);
    assert_non_null(strstr(note, "lm_head.weight"));
    assert_non_null(strstr(note, "model.embed_tokens.weight"));
    rs_network_close(o.network);

    rs_error err = {0};
    head->data = tokens->data;
    assert_int_equal(rs_network_open(&o.network, o.checkpoint, &err), RS_OK);
    assert_ptr_equal(o.network->head.decoder.weight, tokens);
    assert_null(note_of(o.network, "untied_head"));
    assert_null(note_of(o.network, "unused_tensor"));
    close_opened(&o);
}

/* Settings that transformers' classes have and their modules do not compute with. */
static void unread_settings_change_nothing(void **state)
{
    (void)state;
    opened o = open_changed("gemma3", "{\"attn_logit_softcapping\":0.5}");
    assert_true(rs_layer_mixer(&o.network->layers[0])->attention.softcap == 0);
    assert_non_null(strstr(note_of(o.network, "unread_setting"), "attn_logit_softcapping is 0.5"));
    close_opened(&o);
    o = open_changed("gemma2", "{\"attn_logit_softcapping\":0.5}");
    assert_true(rs_layer_mixer(&o.network->layers[0])->attention.softcap == 0.5);
    assert_null(note_of(o.network, "unread_setting"));
    close_opened(&o);

    static const char *const whole[] = {"llama", "mistral", "qwen2", "olmo"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        o = open_changed(whole[i], "{\"partial_rotary_factor\":0.1}");
        for (int32_t l = 0; l < o.network->n_layers; l++) {
            const rs_attention_op *op = &rs_layer_mixer(&o.network->layers[l])->attention;
            assert_int_equal(op->rope.dims, op->head_dim);
        }
        assert_non_null(note_of(o.network, "whole_head_rotates"));
        close_opened(&o);
    }
    o = open_changed("phi3", "{}");
    assert_null(note_of(o.network, "whole_head_rotates"));
    close_opened(&o);
}

/* Gemma's first release wrote "gelu" for gelu_pytorch_tanh. */
static void gemma_means_the_approximation(void **state)
{
    (void)state;
    opened o = open_changed("gemma", "{\"hidden_act\":\"gelu\"}");
    assert_int_equal(o.network->layers[0].branches[1].mlp.activation, RS_ACT_GELU_TANH);
    assert_non_null(note_of(o.network, "gelu_by_tanh"));
    close_opened(&o);
    o = open_changed("gemma", "{}");
    assert_null(note_of(o.network, "gelu_by_tanh"));
    close_opened(&o);
    o = open_changed("gemma2", "{\"hidden_activation\":\"gelu\"}");
    assert_int_equal(o.network->layers[0].branches[1].mlp.activation, RS_ACT_GELU);
    close_opened(&o);
}

/* Zeros that Python takes for nothing. */
static void yarn_zeros_are_absent(void **state)
{
    (void)state;
#define YARN(more)                                                                                 \
    "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":300,\"factor\":4,"                \
    "\"original_max_position_embeddings\":8" more "}}"
    opened plain = open_changed("llama", YARN(""));
    const rs_rope_op *a = &rs_layer_mixer(&plain.network->layers[0])->attention.rope;
    static const char *const zeros[] = {
        YARN(",\"mscale\":0,\"mscale_all_dim\":0.7"), YARN(",\"mscale\":2,\"mscale_all_dim\":0"),
        YARN(",\"mscale\":0.0,\"mscale_all_dim\":0.0"), YARN(",\"beta_fast\":0,\"beta_slow\":0")};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        opened o = open_changed("llama", zeros[i]);
        const rs_rope_op *b = &rs_layer_mixer(&o.network->layers[0])->attention.rope;
        assert_true(a->attention_factor == b->attention_factor && a->beta_fast == b->beta_fast &&
                    a->beta_slow == b->beta_slow);
        close_opened(&o);
    }
    opened other = open_changed("llama", YARN(",\"mscale\":2,\"mscale_all_dim\":0.7"));
    assert_true(rs_layer_mixer(&other.network->layers[0])->attention.rope.attention_factor !=
                a->attention_factor);
    close_opened(&other);
    close_opened(&plain);
}

/* A model that sees both ways has logits, but no loss and nothing to generate. */
static void both_ways_predict_no_next_token(void **state)
{
    (void)state;
    opened o = open_changed("gemma3", "{}");
    assert_true(o.network->head.next_token);
    assert_null(note_of(o.network, "both_ways"));
    close_opened(&o);
    o = open_changed("gemma3", "{\"use_bidirectional_attention\":true}");
    assert_non_null(o.network->head.decoder.weight);
    assert_false(o.network->head.next_token);
    assert_non_null(note_of(o.network, "both_ways"));
    close_opened(&o);
    o = open_changed("gemma3_gguf", "{\"gemma3.attention.causal\":false}");
    assert_false(o.network->head.next_token);
    close_opened(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stored_head_counts_unless_it_is_the_same),
        cmocka_unit_test(unread_settings_change_nothing),
        cmocka_unit_test(gemma_means_the_approximation),
        cmocka_unit_test(yarn_zeros_are_absent),
        cmocka_unit_test(both_ways_predict_no_next_token),
    };
    return cmocka_run_group_tests_name("network_corners", tests, NULL, NULL);
}
