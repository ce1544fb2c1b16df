/*
 * saved.h: a network of an architecture file as a folder that is opened like any checkpoint.
 *
 *     model.safetensors   its weights, F32 or F64, by the names of names.h
 *     config.json         {"model_type": "rankscope", "arch": {...}}: the architecture with all its
 *                         fields, and the network's own numbers (skips, factors of branches, gains of
 *                         shaped attention) as lists with one entry a layer
 *     graph.npy           the matrix of mixer "graph", where there is one
 */
#ifndef RS_NETWORK_SAVED_H
#define RS_NETWORK_SAVED_H

#include "network/arch.h"
#include "report/output.h"

/* ---- writing ---- */

typedef struct rs_save_request {
    const char *folder; /* made where it is not there; what else it holds stays */
    const rs_network *network;
    const json_t *arch;    /* what the network was made of */
    const char *arch_path; /* the file of that, where a graph's relative path begins */
    rs_dtype dtype;        /* RS_F32 or RS_F64 */
    /* The numbers of a tensor as they are now, [count] of that type; what gives NULL is stored as the
     * network has it. numbers NULL: all are. */
    const void *(*numbers)(void *user, const rs_tensor *tensor);
    void *user;
    const json_t *more;  /* members of config.json beside those; NULL: none */
    rs_outputs *outputs; /* what the files wait with, to be placed by the caller; NULL: they appear
                            when all are complete */
} rs_save_request;

/* Writes the folder. Each file appears whole or not at all, and an older one stays until then; a
 * config.json that would not change is left alone. Errors: RS_E_WRITE with the file's name,
 * RS_E_TENSOR_VALUE (a number of the network that is not finite), RS_E_NO_MEMORY. */
rs_status rs_network_save(const rs_save_request *request, rs_error *err);

/* arch_write.c: the architecture with all its fields and the network's numbers; owned by the caller.
 * `graph` is the path that it has for the graph's file, where there is one. */
rs_status rs_arch_write(json_t **out, const json_t *given, const rs_arch *arch,
                        const rs_network *network, const char *graph, rs_error *err);

/* ---- reading ---- */

/* Whether a configuration is that of a saved network. NULL: no. */
bool rs_is_saved(const json_t *config);
/* Its architecture. RS_E_CONFIG_SCHEMA where it has none. */
rs_status rs_saved_arch(const json_t **arch, const json_t *config, const char *path, rs_error *err);
/* The network of such a checkpoint, which must outlive it. Errors: those of rs_arch_read and of
 * rs_names_bind. */
rs_status rs_saved_open(rs_network **out, const rs_checkpoint *checkpoint, rs_error *err);
/* arch_model.c: what scan sees in such a checkpoint: the products of its heads. */
rs_status rs_saved_model(rs_model **out, const rs_checkpoint *checkpoint, const rs_network *network,
                         rs_error *err);
/* rs_model_open of any checkpoint, a saved network's among them. */
rs_status rs_checkpoint_model(rs_model **out, const rs_checkpoint *checkpoint, const json_t *map,
                              const char *map_path, rs_error *err);

/* ---- without rankscope ---- */

/* loader.c: writes a program in Python that needs PyTorch alone and computes what the engine does of
 * such a folder: python loader.py DIR ID... prints the logits of each token, or the last states. Of
 * mixers it has those of `arch`; NULL: all. A failure is out's. */
void rs_loader_write(rs_buffer *out, const rs_arch *arch);

#endif
