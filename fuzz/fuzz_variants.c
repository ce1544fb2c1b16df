/* fuzz_variants.c: any text as --variants; what is accepted edits a small network, or says why not,
 * and leaves a description that can be run. */
#include "engine/forward.h"
#include "network/edit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static rs_network *small_network(void)
{
    static rs_init *init;
    static rs_network *network;
    if (network) return network;
    json_t *json =
        json_loads("{\"depth\": 2, \"d_model\": 4, \"seq_len\": 3, \"mask\": \"causal\"}", 0, NULL);
    rs_error err;
    if (rs_init_open(&init, NULL, 1, &err) != RS_OK ||
        rs_network_from_arch(&network, json, "memory", init, &err) != RS_OK)
        abort();
    json_decref(json);
    return network;
}

static void run(const rs_network *network)
{
    static const double states[12] = {1, 0, -1, 2, 0.5, 3, 1, -2, 0, 1, 4, -1};
    int64_t begin[] = {0, 3};
    rs_batch batch = {.samples = 1, .begin = begin, .states = states};
    rs_context context = {.threads = 1};
    rs_weights *weights = NULL;
    rs_runner *runner = NULL;
    rs_error err;
    if (rs_weights_open(&weights, RS_PRECISION_F64, UINT64_MAX, &err) != RS_OK ||
        rs_runner_open(&runner, network, weights, &context, &err) != RS_OK ||
        rs_runner_run(runner, &batch, NULL, 0, &err) != RS_OK)
        abort(); /* whatever an edit leaves must be a network */
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static void apply(const rs_variant *variant)
{
    rs_network *network = NULL;
    rs_error err;
    if (rs_network_copy(&network, small_network(), &err) != RS_OK) return;
    if (variant->edit.depth <= 64 && rs_edit_apply(network, &variant->edit, &err) == RS_OK)
        run(network);
    rs_network_close(network);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    rs_arena *arena = rs_arena_new();
    rs_edit base;
    rs_variant *variants = NULL;
    size_t n = 0;
    rs_error err;
    if (!text || !arena) abort();
    memcpy(text, data, size);
    text[size] = 0;
    rs_edit_init(&base);
    if (rs_variants_parse(&variants, &n, text, &base, arena, &err) == RS_OK)
        for (size_t i = 0; i < n && i < 4; i++)
            apply(&variants[i]);
    rs_arena_free(arena);
    free(text);
    return 0;
}
