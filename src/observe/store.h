/* store.h: listeners (pass.h) that keep what a pass computes as it is: for --output, --taps and
 * --attention-maps. */
#ifndef RS_OBSERVE_STORE_H
#define RS_OBSERVE_STORE_H

#include "checkpoint/safetensors_write.h"
#include "observe/measure.h"

enum { RS_STORE_MAPS = 64 }; /* heads of --attention-maps, at most */

/* A safetensors file that is written while the network runs. */
typedef struct rs_store {
    rs_listener listener;
    rs_st_writer *writer;
    const rs_network *network;
    const rs_inputs *inputs;
    rs_precision precision;
    const rs_map_choice *maps;
    size_t n_maps;
    int64_t n, d, vocabulary; /* n: tokens of the longest sample */
    /* The tensors' numbers in the file; -1: it has none of that kind. */
    int hidden, logits, sentence, mask, first_state, first_map;
    int skips
        [RS_STORE_MAPS]; /* of each map's matrix, see rs_attention_view; -1: it is of softmax attention */
    int64_t first;       /* first sample of the running batch */
    double *pooled;
    void *row; /* one sentence embedding in the file's type */
} rs_store;

/* store.c: the file of --output: the last states, logits, sentence embeddings. */
rs_status rs_store_open_output(rs_store **out, const char *path, const rs_network *network,
                               const rs_inputs *inputs, rs_precision precision,
                               const rs_input_files *files, rs_error *err);
/* The file of --taps: every state, and the attention matrices of `maps`. */
rs_status rs_store_open_taps(rs_store **out, const char *path, const rs_network *network,
                             const rs_inputs *inputs, rs_precision precision,
                             const rs_map_choice *maps, size_t n_maps, const rs_input_files *files,
                             rs_error *err);
rs_status rs_store_commit(rs_store *store, rs_error *err); /* closes in any case; NULL is fine */
void rs_store_discard(rs_store *store);                    /* NULL is fine */

/* maps.c: keeps attention matrices of the first sample that has any for figures, at most
 * RS_MAP_TOKENS of its tokens; asks for those of no other. */
enum { RS_MAP_TOKENS = 64 };
typedef struct rs_map_keeper rs_map_keeper;
/* A head's attention matrix. */
typedef struct rs_kept_map {
    int64_t n;      /* queries and keys; 0: it was never seen */
    double *weight; /* [n, n] */
} rs_kept_map;
struct rs_map_keeper {
    rs_listener listener;
    const rs_network *network;
    const rs_map_choice *choices;
    rs_kept_map *maps; /* [n] one for each choice */
    size_t n;
    int32_t sample; /* of the running batch, whose matrices are kept; -1: none */
    bool done;      /* a batch has begun */
};
/* Fails with RS_E_BAD_OPTION for a layer or head of `option` that the network does not have. */
rs_status rs_map_choices_check(const char *option, const rs_map_choice *choices, size_t n,
                               const rs_network *network, rs_error *err);
rs_status rs_map_keeper_open(rs_map_keeper **out, const rs_map_choice *choices, size_t n,
                             const rs_network *network, rs_error *err);
void rs_map_keeper_close(rs_map_keeper *keeper);

#endif
