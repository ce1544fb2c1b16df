/* test_probe_nonfinite.c: whichever weight that a pass reads is not finite, the finding about the
 * state behind it names that weight, and no weight that it does not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"

#include "network/op_traits.h"
#include "probe/probe_parts.h"

#include <stdio.h>

/* Makes the tensor's first number a NaN. */
static void poison(const rs_tensor *tensor)
{
    uint8_t *bytes = (uint8_t *)(uintptr_t)tensor->data;
    float f = NAN;
    double d = NAN;
    uint16_t half = tensor->dtype == RS_BF16 ? 0x7fc0 : 0x7e00;
    switch (tensor->dtype) {
    case RS_F32:
        memcpy(bytes, &f, sizeof f);
        return;
    case RS_F64:
        memcpy(bytes, &d, sizeof d);
        return;
    case RS_F8_E4M3:
        *bytes = 0x7f;
        return;
    default: /* halves; and the scale of a block of Q8_0 */
        memcpy(bytes, &half, sizeof half);
    }
}

/* Whether the finding about that state names the weight. */
static bool named(const built *b, int32_t layer, const char *name)
{
    rs_token_row row = {.site = RS_TOKEN_SITE_BLOCK_OUT, .layer = layer, .nonfinite = 1};
    rs_measured measured = {.tokens = &row, .n_tokens = 1, .samples = 1};
    const rs_probed variant = {.name = "full", .measured = &measured, .network = &b->network};
    rs_result *result = rs_result_new("probe");
    rs_error err = {0};
    assert_int_equal(rs_probe_nonfinite(result, &variant, RS_PRECISION_F32, &err), RS_OK);
    assert_int_equal(rs_result_finding_count(result), 1);
    bool found = strstr(rs_result_finding_at(result, 0)->message, name) != NULL;
    rs_result_free(result);
    return found;
}

static bool of_map(const rs_dense *map, const rs_tensor *tensor)
{
    return tensor == map->weight || tensor == map->bias || tensor == map->scale;
}

/* What runs behind the last state brings nothing into any. */
static bool behind_states(const rs_network *network, const rs_tensor *tensor)
{
    const rs_head_op *head = &network->head;
    return tensor == network->final_norm.gain || tensor == network->final_norm.bias ||
           tensor == head->norm.gain || tensor == head->norm.bias || tensor == head->bias ||
           of_map(&head->transform, tensor) || of_map(&head->decoder, tensor);
}

static bool is_tensor(void *user, const rs_tensor *tensor)
{
    return tensor == user;
}

/* A branch of scale 0 is not run: it brings nothing into a state but through the norm behind the
 * sum. */
static bool not_run(const rs_network *network, rs_tensor *tensor)
{
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t k = 0; k < network->layers[l].n_branches; k++) {
            const rs_branch *branch = &network->layers[l].branches[k];
            if (branch->scale == 0 && tensor != branch->after.gain &&
                tensor != branch->after.bias && rs_branch_walk(branch, is_tensor, tensor))
                return true;
        }
    return false;
}

/* draw_images puts its own positions in the place of those of the texts. */
static bool replaced(const built *b, const rs_tensor *tensor)
{
    const rs_embedding_op *op = &b->network.embedding;
    bool kept = tensor == op->positions || tensor == op->types || tensor == op->class_token ||
                tensor == op->norm.gain || tensor == op->norm.bias ||
                of_map(&op->projection, tensor) || of_map(&op->patch, tensor);
    return b->images && !kept;
}

static void check_tensor(const built *b, int t, uint64_t seed)
{
    char name[32];
    rs_tensor *tensor = (rs_tensor *)(uintptr_t)&b->tensors[t];
    uint8_t kept[8];
    memcpy(kept, tensor->data, sizeof kept);
    snprintf(name, sizeof name, "weight-%d ", t);
    tensor->name = name;
    poison(tensor);
    bool found = false;
    for (int32_t l = 0; l <= b->network.n_layers; l++)
        found |= named(b, l, name);
    memcpy((uint8_t *)(uintptr_t)tensor->data, kept, sizeof kept);
    bool unread = behind_states(&b->network, tensor) || not_run(&b->network, tensor);
    if (found == unread && !(replaced(b, tensor) && !found))
        fail_msg("seed %d: weight %d is%s named", (int)seed, t, found ? "" : " not");
}

static void test_each_weight(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        built *b = built_new(seed, 8);
        for (int t = 0; t < b->n_tensors; t++)
            check_tensor(b, t, seed);
        built_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_weight)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
