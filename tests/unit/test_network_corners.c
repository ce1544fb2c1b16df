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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stored_head_counts_unless_it_is_the_same),
    };
    return cmocka_run_group_tests_name("network_corners", tests, NULL, NULL);
}
