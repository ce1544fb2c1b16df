/* fuzz_arch.c: any bytes as an architecture file; what is accepted and small is built whole, and
 * its numbers are finite or the law said otherwise. */
#include "network/arch.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_small(const rs_arch *arch)
{
    int64_t most = 32;
    return arch->depth <= most && arch->d_model <= most && arch->heads <= most &&
           arch->d_head <= most && arch->seq_len <= most && arch->mlp_width <= 4 * most &&
           arch->vocab <= most;
}

static void check_input(const rs_arch *arch)
{
    rs_error err;
    double states[32 * 32];
    if (rs_arch_input(states, arch, 1, 0, &err) != RS_OK) return;
    for (int64_t i = 0; i < arch->seq_len * arch->d_model; i++)
        if (!isfinite(states[i])) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json;
    rs_error err;
    if (rs_config_parse(&json, "memory", (const char *)data, size, &err) != RS_OK) return 0;
    rs_arch *arch = NULL;
    bool small = rs_arch_read(&arch, json, "memory", &err) == RS_OK && is_small(arch);
    if (small) check_input(arch);
    rs_arch_close(arch);
    rs_init *init = NULL;
    rs_network *network = NULL;
    if (small && rs_init_open(&init, NULL, 1, &err) == RS_OK &&
        rs_network_from_arch(&network, json, "memory", init, &err) == RS_OK &&
        rs_layer_mixer(&network->layers[network->n_layers - 1])->attention.q.in != network->d_model)
        abort();
    rs_network_close(network);
    rs_init_close(init);
    json_decref(json);
    return 0;
}
