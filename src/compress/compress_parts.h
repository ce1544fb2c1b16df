/* compress_parts.h: what the files of this room share. */
#ifndef RS_COMPRESS_COMPRESS_PARTS_H
#define RS_COMPRESS_COMPRESS_PARTS_H

#include "compress/compress.h"
#include "observe/measure.h"
#include "scan/scan_energy.h"

/* ---- compress_activations.c: what maps read and write, over all inputs ---- */

/* A listener of a pass. Layers are those of the checkpoint, both included. */
typedef struct rs_watch rs_watch;
rs_status rs_watch_open(rs_watch **out, const rs_network *network, int32_t first, int32_t last,
                        const rs_context *context, rs_error *err);
void rs_watch_close(rs_watch *watch); /* NULL is fine */
rs_listener *rs_watch_listener(rs_watch *watch);
/* What was met so far; lives as long as the watch. */
const rs_activations *rs_watch_seen(const rs_watch *watch, size_t *n);
/* Bytes that its Grams take. */
double rs_watch_bytes(const rs_network *network, int32_t first, int32_t last);

/* ---- compress_cut.c: the stored tensors once they are cut ---- */

/* A tensor whose numbers are others. */
typedef struct rs_recut {
    const rs_tensor *from;
    rs_tensor to;   /* of the same type where that can be written, else F32 */
    int64_t beyond; /* numbers that the type cannot hold */
} rs_recut;

/* Two small factors in the place of vectors of a tensor: up · down stands for them, [vectors, features] or
 * turned. `down` is NULL where the tensor's share is one matrix. */
typedef struct rs_small {
    const rs_factor *factor; /* whose vectors they are */
    int64_t *vectors;        /* [n] numbers of the tensor's vectors that have entries */
    int64_t n, k;
    bool outputs;      /* vectors are what the map writes; else what it reads */
    float *by_vector;  /* [n, k]; where there is no `by_feature` [n, features]; NULL: all zero */
    float *by_feature; /* [k, features]; or NULL */
    float *shift;      /* [n]; or NULL */
} rs_small;

typedef struct rs_cut_weights {
    rs_recut *items;
    size_t n, capacity;
    rs_small *smalls; /* in the order of what was chosen; none unless asked for */
    size_t n_smalls, small_capacity;
} rs_cut_weights;

/* Cuts what was chosen; seen: what weighs it. smalls: the factors are kept, too. On failure, too, *out is
 * to be freed. */
rs_status rs_cut_weights_make(rs_cut_weights *out, const rs_chosen *chosen, size_t n,
                              const rs_activations *seen, size_t n_seen, bool smalls,
                              const rs_context *context, rs_error *err);
void rs_cut_weights_free(rs_cut_weights *weights);
const rs_recut *rs_recut_of(const rs_cut_weights *weights, const rs_tensor *from);
/* Puts them into a network of the same checkpoint, wherever it uses the tensors. */
void rs_cut_weights_use(rs_network *network, const rs_cut_weights *weights);

/* ---- a folder ---- */

/* compress_place.c: refuses the model's own folder, one that has files, a GGUF file, types whose numbers are
 * not written and a disk without room; makes the folder, which goes again with the other outputs. */
rs_status rs_cut_write_check(const char *folder, const rs_scan_request *scan,
                             const rs_input_files *files, rs_error *err);
/* compress_write.c: writes the checkpoint with what was cut inside, and the factors, into such a folder. */
rs_status rs_cut_write(const char *folder, const rs_checkpoint *checkpoint,
                       const rs_cut_weights *weights, const rs_input_files *files, rs_error *err);
/* compress_factors.c */
enum { RS_FACTORS_PATH = 4096 };
rs_status rs_cut_write_factors(const char *folder, const rs_cut_weights *weights,
                               const rs_input_files *files, rs_error *err);
/* compress_loader.c: the text of load.py. */
const char *rs_factors_loader(size_t *length);

/* ---- compress_table.c ---- */

/* A row of table compression, and what its sentence says. */
typedef struct rs_compression {
    double energy;
    const char *weighing;
    int64_t matrices, products, parameters, left, saved, tokens;
    double share, nll, nll_cut, change;
    const char *reason; /* why there is no loss; NULL: there is */
    bool written;       /* with --write */
} rs_compression;
rs_status rs_compression_table(rs_table **out, rs_result *result, rs_error *err);
rs_status rs_compression_add(rs_table *table, rs_result *result, const rs_compression *row,
                             rs_error *err);
/* Says what --write left in a folder, and how PyTorch takes the factors. */
rs_status rs_compression_written(rs_result *result, const char *folder, double energy,
                                 rs_error *err);

#endif
