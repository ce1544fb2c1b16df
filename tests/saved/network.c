/* network.c: for tests of saved networks (tests/cli/saved.sh, loader.sh).
 *
 *     saved_network save ARCH.json SEED f32|f64 DIR      draws a network and saves it
 *     saved_network resave FROM f32|f64 DIR              opens a saved network and saves it again
 *     saved_network run DIR f32|f64 ID... | STATES.npy   prints the logits of each token, or its last
 *                                                        state, as the loader does
 *     saved_network loader [ARCH.json]                   prints the loader
 *     saved_network full ARCH.json BYTES DIR             saves where no file may have more bytes
 */
#include "base/memory.h"
#include "checkpoint/json_text.h"
#include "checkpoint/npy.h"
#include "engine/forward.h"
#include "network/saved.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static int told(const rs_error *err)
{
    fprintf(stderr, "%s: %s\n", err->where, err->what);
    return 2;
}

static json_t *read_json(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    rs_error err;
    json_t *json;
    if (rs_json_load(&json, path, text, length, &(rs_json_rules){.max_depth = 64}, &err)) {
        told(&err);
        return NULL;
    }
    return json;
}

static rs_dtype dtype_of(const char *word)
{
    return strcmp(word, "f64") == 0 ? RS_F64 : RS_F32;
}

static int save(const char *path, const char *seed, const char *dtype, const char *folder)
{
    rs_error err = {0};
    rs_init *init;
    rs_network *network;
    json_t *arch = read_json(path);
    if (!arch) return 2;
    if (rs_init_open(&init, NULL, strtoull(seed, NULL, 10), &err)) return told(&err);
    if (rs_network_from_arch(&network, arch, path, init, &err)) return told(&err);
    rs_status status = rs_network_save(&(rs_save_request){.folder = folder,
                                                          .network = network,
                                                          .arch = arch,
                                                          .arch_path = path,
                                                          .dtype = dtype_of(dtype)},
                                       &err);
    rs_network_close(network);
    rs_init_close(init);
    json_decref(arch);
    return status ? told(&err) : 0;
}

static int resave(const char *from, const char *dtype, const char *folder)
{
    rs_error err = {0};
    rs_checkpoint *checkpoint;
    rs_network *network;
    const json_t *arch;
    if (rs_checkpoint_open(&checkpoint, from, &(rs_checkpoint_options){0}, &err)) return told(&err);
    if (rs_network_open(&network, checkpoint, &err)) return told(&err);
    if (rs_saved_arch(&arch, checkpoint->config, checkpoint->config_path, &err)) return told(&err);
    rs_status status = rs_network_save(&(rs_save_request){.folder = folder,
                                                          .network = network,
                                                          .arch = arch,
                                                          .arch_path = checkpoint->config_path,
                                                          .dtype = dtype_of(dtype)},
                                       &err);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
    return status ? told(&err) : 0;
}

/* ---- running ---- */

static void print_rows(const rs_state_view *view)
{
    for (int64_t i = 0; i < view->rows; i++)
        for (int64_t j = 0; j < view->cols; j++) {
            int64_t at = i * view->cols + j;
            double x = view->precision == RS_PRECISION_F32 ? (double)((const float *)view->data)[at]
                                                           : ((const double *)view->data)[at];
            printf("%.17g%c", x, j + 1 < view->cols ? ' ' : '\n');
        }
}

static rs_status on_logits(void *user, int64_t first, const rs_state_view *view, rs_error *err)
{
    (void)user, (void)first, (void)err;
    print_rows(view);
    return RS_OK;
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)user, (void)site, (void)layer, (void)err;
    print_rows(view);
    return RS_OK;
}

static int run_batch(const rs_network *network, rs_precision precision, const rs_batch *batch)
{
    rs_error err = {0};
    rs_context context = {.threads = 1};
    rs_weights *weights;
    rs_runner *runner;
    rs_tap tap = {.state = on_state, .sites = 1u << RS_SITE_FINAL};
    if (network->head.decoder.weight) tap = (rs_tap){.logits = on_logits};
    const rs_tap *taps[] = {&tap};
    if (rs_weights_open(&weights, precision, UINT64_MAX, &err)) return told(&err);
    if (rs_runner_open(&runner, network, weights, &context, &err)) return told(&err);
    if (rs_runner_run(runner, batch, taps, 1, &err)) return told(&err);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return 0;
}

static int run_states(const rs_network *network, rs_precision precision, const char *path)
{
    rs_error err = {0};
    rs_mapping *file;
    rs_npy array;
    if (rs_mapping_open(&file, path, &err)) return told(&err);
    if (rs_npy_parse(&array, path, file->data, file->size, &err)) return told(&err);
    double *states = malloc((size_t)array.count * sizeof *states);
    if (!states) return 2;
    rs_npy_reals(states, &array, 0, array.count);
    const int64_t begin[2] = {0, array.shape[0]};
    rs_batch batch = {.samples = 1, .begin = begin};
    if (network->embedding.rows)
        batch.rows = states;
    else
        batch.states = states;
    int code = run_batch(network, precision, &batch);
    free(states);
    rs_mapping_close(file);
    return code;
}

static int run_ids(const rs_network *network, rs_precision precision, char **words, int n)
{
    int32_t ids[1024];
    const int64_t begin[2] = {0, n};
    for (int i = 0; i < n && i < 1024; i++)
        ids[i] = (int32_t)strtol(words[i], NULL, 10);
    return run_batch(network, precision, &(rs_batch){.samples = 1, .begin = begin, .ids = ids});
}

static int run(const char *folder, const char *precision, char **words, int n)
{
    rs_error err = {0};
    rs_checkpoint *checkpoint;
    rs_network *network;
    rs_precision as = dtype_of(precision) == RS_F64 ? RS_PRECISION_F64 : RS_PRECISION_F32;
    if (rs_checkpoint_open(&checkpoint, folder, &(rs_checkpoint_options){0}, &err))
        return told(&err);
    if (rs_network_open(&network, checkpoint, &err)) return told(&err);
    size_t length = strlen(words[0]);
    bool states = length > 4 && strcmp(words[0] + length - 4, ".npy") == 0;
    int code = states ? run_states(network, as, words[0]) : run_ids(network, as, words, n);
    rs_network_close(network);
    rs_checkpoint_close(checkpoint);
    return code;
}

static int loader(const char *path)
{
    rs_error err = {0};
    rs_arch *arch = NULL;
    rs_buffer text = {0};
    json_t *json = path ? read_json(path) : NULL;
    if (path && (!json || rs_arch_read(&arch, json, path, &err))) return told(&err);
    rs_loader_write(&text, arch);
    int code = text.failed || fwrite(text.data, 1, text.length, stdout) != text.length ? 2 : 0;
    rs_buffer_free(&text);
    rs_arch_close(arch);
    json_decref(json);
    return code;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 6 && strcmp(what, "save") == 0) return save(argv[2], argv[3], argv[4], argv[5]);
    if (argc == 5 && strcmp(what, "resave") == 0) return resave(argv[2], argv[3], argv[4]);
    if (argc >= 5 && strcmp(what, "run") == 0) return run(argv[2], argv[3], argv + 4, argc - 4);
    if (argc == 5 && strcmp(what, "full") == 0) {
        const struct rlimit limit = {strtoull(argv[3], NULL, 10), RLIM_INFINITY};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit)) return 2;
        return save(argv[2], "1", "f64", argv[4]);
    }
    if (strcmp(what, "loader") == 0) return loader(argc > 2 ? argv[2] : NULL);
    return 2;
}
