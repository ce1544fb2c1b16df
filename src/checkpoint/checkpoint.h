/*
 * checkpoint.h: a checkpoint on disk as a list of named tensors and a configuration, whatever its
 * format.
 *
 * Tensor data stays in memory-mapped files; nothing is converted before rs_tensor_decode asks for a
 * stretch of it.
 */
#ifndef RS_CHECKPOINT_CHECKPOINT_H
#define RS_CHECKPOINT_CHECKPOINT_H

#include "base/error.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "base/notes.h"
#include "base/text.h"
#include "checkpoint/dtype.h"

#include <jansson.h>

/* The formats of checkpoints. */
typedef enum rs_format {
    RS_FORMAT_SAFETENSORS,
    RS_FORMAT_GGUF,
    RS_FORMAT_MEMORY /* tensors that a caller holds in memory; there are no files */
} rs_format;
const char *rs_format_name(rs_format format); /* "safetensors", "gguf", "memory" */

/* A named array of numbers in a file. */
typedef struct rs_tensor {
    const char *name; /* NUL-terminated, in the checkpoint's arena */
    rs_dtype dtype;
    uint32_t rank;        /* number of dimensions, 0 = scalar */
    const int64_t *shape; /* [rank] shape[0] is the slowest, as in PyTorch (GGUF's ne[] reversed) */
    int64_t count;        /* product of shape */
    const uint8_t *data;  /* [bytes] inside the file's mapping, at any alignment */
    uint64_t bytes;
    uint32_t file;   /* index into rs_checkpoint.files */
    int32_t type_id; /* GGUF's number of the type, for messages; -1 in safetensors */
    bool fixed;      /* of no file: a description's own numbers (ALiBi's slopes, decays, a graph),
                        which are neither trained nor stored as weights */
} rs_tensor;

/* A file of a checkpoint. */
typedef struct rs_checkpoint_file {
    char *name;          /* plain name, such as "model-00001-of-00003.safetensors" */
    rs_mapping *mapping; /* owned */
} rs_checkpoint_file;

/* A checkpoint that is open. */
typedef struct rs_checkpoint {
    rs_format format;
    char *path;                /* as the user gave it */
    rs_checkpoint_file *files; /* [n_files] files with tensors */
    size_t n_files;
    rs_tensor *tensors; /* [n_tensors] sorted by file, then by offset */
    size_t n_tensors, tensor_capacity;
    rs_strmap by_name; /* from a name to the index into tensors */
    /* The configuration as a JSON object. safetensors: config.json (NULL when there is none beside
     * the file; bare NaN/Infinity became {"__float__": "..."}). GGUF: the metadata keys with their
     * scalars and numeric arrays of at most 65536 elements (longer or string arrays appear as
     * {"__array__": [type, count]}). Owned. */
    json_t *config;
    char *config_path;      /* where config came from, for messages; may be NULL */
    json_t *adapter_config; /* adapter_config.json; NULL when there is none */
    rs_notes notes;
    rs_arena *arena;
    struct rs_packing *packings; /* borrowed tensors that are copied, in the arena */
    size_t n_packings;
} rs_checkpoint;

/* How strictly a checkpoint is read. */
typedef struct rs_checkpoint_options {
    bool lenient; /* trailing bytes behind the last tensor are a warning, not an error
                     (docs/formats.md, 1, rule 10) */
} rs_checkpoint_options;

/*
 * Opens PATH: a Hugging Face directory, one .safetensors file, or a .gguf file (all parts of a
 * split one). Maps the files, parses and checks every header (docs/formats.md, 1, 2, 6, 9). On
 * failure *out is NULL and err says what was wrong. The precedence inside a directory:
 * model.safetensors, model.safetensors.index.json, any single *.safetensors, any single
 * *.gguf (or one split set).
 */
rs_status rs_checkpoint_open(rs_checkpoint **out, const char *path,
                             const rs_checkpoint_options *options, rs_error *err);
void rs_checkpoint_close(rs_checkpoint *checkpoint); /* NULL is fine */

/*
 * A checkpoint of tensors that a caller holds (borrowed.c): `config` is a parsed config.json or
 * NULL, and taken over on success. Data is read where it lies and must outlive the checkpoint; what
 * has gaps between its elements is copied by rs_checkpoint_pack, which is called again whenever the
 * values have changed. Errors name the tensor: RS_E_USAGE (no name, no data), RS_E_TENSOR_DTYPE
 * (unknown, or blocks with gaps), RS_E_ST_RANK, RS_E_ST_OVERFLOW, RS_E_DUPLICATE_TENSOR.
 */
rs_status rs_checkpoint_borrow(rs_checkpoint **out, const rs_tensor_data *tensors, size_t n,
                               json_t *config, rs_error *err);
void rs_checkpoint_pack(rs_checkpoint *checkpoint);

/* The name of the file that holds the tensor; "memory" where it is no file. */
const char *rs_tensor_file(const rs_checkpoint *checkpoint, const rs_tensor *tensor);

/* The tensor of that name, or NULL. */
const rs_tensor *rs_checkpoint_find(const rs_checkpoint *checkpoint, const char *name);

/* What a GGUF file calls its mixture of types (general.file_type), such as "Q4_K_M"; NULL for other
 * formats and unknown numbers. */
const char *rs_gguf_file_type(const rs_checkpoint *checkpoint);

/* Fails with RS_E_TRUNCATED_WHILE_MAPPED when the tensor's file lost pages. */
rs_status rs_tensor_check(const rs_checkpoint *checkpoint, const rs_tensor *tensor, rs_error *err);

/*
 * Decodes elements [first, first+count) of the flattened tensor to float32 or float64. first and
 * count need not be block aligned (a partial block costs one block in a small buffer on the stack).
 * The range must lie inside the tensor and the dtype must be decodable: callers have checked both.
 * Thread safe, allocates nothing.
 */
void rs_tensor_decode_f32(float *out, const rs_tensor *tensor, int64_t first, int64_t count);
void rs_tensor_decode_f64(double *out, const rs_tensor *tensor, int64_t first, int64_t count);
/* Has the memory of elements fetched that will be decoded soon; count > 0. */
void rs_tensor_expect(const rs_tensor *tensor, int64_t first, int64_t count);

/* ---- readers, one file each; used by checkpoint.c, tests and fuzz targets ---- */

/* safetensors.c: parses the mapping's header and appends its tensors to the checkpoint (file index
 * `file`). */
rs_status rs_safetensors_read(rs_checkpoint *checkpoint, uint32_t file,
                              const rs_checkpoint_options *options, rs_error *err);
/* gguf.c: does so for one GGUF file; part 0 also fills config. rs_gguf_open finds the parts of a
 * split set. */
rs_status rs_gguf_read(rs_checkpoint *checkpoint, uint32_t file, rs_error *err);
/* gguf_split.c: opens `path` and, when it is part of a split set, all its parts, in order. */
rs_status rs_gguf_open(rs_checkpoint *checkpoint, const char *path, rs_error *err);
/* index.c: reads the text of model.safetensors.index.json into an object
 * {"tensor.name": "shard.safetensors", ...}, every path checked, that the caller owns. */
rs_status rs_index_parse(json_t **weight_map, const char *path, const char *text, size_t length,
                         rs_error *err);
/* config.c: opens the JSON file at `path`, or config.json in the folder that it is: *config is the
 * caller's, and *file, its path (rs_free), set on failure too. */
rs_status rs_config_open(json_t **config, char **file, const char *path, rs_error *err);
/* The same of a text: reads the text of config.json into an object; NaN and infinities become what
 * rs_checkpoint.config says. */
rs_status rs_config_parse(json_t **config, const char *path, const char *text, size_t length,
                          rs_error *err);

/* checkpoint.c: adds a tensor (name copied already into the arena); refuses a duplicate name. */
rs_status rs_checkpoint_add(rs_checkpoint *checkpoint, const rs_tensor *tensor, rs_error *err);
/* checkpoint.c: maps a file and appends it to files; returns its index in *file. */
rs_status rs_checkpoint_add_file(rs_checkpoint *checkpoint, const char *path, const char *name,
                                 uint32_t *file, rs_error *err);
/* checkpoint.c: makes an empty checkpoint to read into (tests, fuzzing). NULL: out of memory. */
rs_checkpoint *rs_checkpoint_new(rs_format format, const char *path);

#endif
