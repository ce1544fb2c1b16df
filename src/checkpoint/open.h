/*
 * open.h: what the files of this room share to open a checkpoint: which kind of file it is, which
 * file of a folder is meant, and the side files beside it.
 */
#ifndef RS_CHECKPOINT_OPEN_H
#define RS_CHECKPOINT_OPEN_H

#include "checkpoint/checkpoint.h"

/* The limits of what is read. */
enum {
    RS_MAX_TENSORS = 4000000, /* tensors of a checkpoint; the largest models have some 100 000 */
    RS_MAX_RANK = 16,
    RS_MAX_NAME = 4096 /* bytes of a tensor's name */
};

/* A name that a message shows: cut to a length that leaves room for the rest of the message. */
typedef struct rs_shown {
    char text[208];
} rs_shown;
rs_shown rs_show(const char *name, size_t length);

/* ---- content.c: what a file is by its first bytes ---- */

typedef enum rs_content { RS_CONTENT_OTHER, RS_CONTENT_SAFETENSORS, RS_CONTENT_GGUF } rs_content;
/* Says what a file is. Errors: RS_E_EMPTY_FILE, RS_E_LFS_POINTER, RS_E_PICKLE, RS_E_UNKNOWN_FORMAT
 * (a web page saved under the name of a model). Everything else is RS_CONTENT_OTHER and left to the
 * reader. */
rs_status rs_content_check(rs_content *content, const rs_mapping *mapping, rs_error *err);
/* True for the first line of a Git LFS pointer. */
bool rs_is_lfs_pointer(const char *text, size_t length);

/* ---- directory.c: precedence inside a folder (docs/formats.md, 2) ---- */

typedef enum rs_choice_kind {
    RS_CHOICE_SAFETENSORS,
    RS_CHOICE_INDEX,
    RS_CHOICE_GGUF
} rs_choice_kind;
/* The file of a folder that is meant. */
typedef struct rs_choice {
    rs_choice_kind kind;
    char *name; /* plain name inside the folder; owned */
} rs_choice;
/* Chooses the file. Errors: RS_E_UNREADABLE, RS_E_NO_CHECKPOINT (lists what was found),
 * RS_E_PICKLE. */
rs_status rs_directory_choose(rs_choice *choice, rs_notes *notes, const char *folder,
                              rs_error *err);
/* Reads the name of a shard: "model-00002-of-00007.safetensors" gives the length of "model", 2 and
 * 7; false for any other name. */
bool rs_shard_name(const char *name, const char *suffix, size_t *stem, unsigned *part,
                   unsigned *parts);
/* The text folder/name, which the caller frees by rs_free; NULL when out of memory. */
char *rs_path_join(const char *folder, const char *name);
/* The part of a path behind its last '/'. */
const char *rs_path_name(const char *path);

/* ---- index.c ---- */

/* Reads the weight map of folder/name (an index): an object that gives each tensor's file. */
rs_status rs_index_load(json_t **weight_map, const char *folder, const char *name, rs_error *err);
/* Opens every shard that folder/name (an index) lists, and holds the index against them. */
rs_status rs_index_open(rs_checkpoint *checkpoint, const char *folder, const char *name,
                        const rs_checkpoint_options *options, rs_error *err);

/* ---- config.c ---- */

/* Reads config.json and adapter_config.json of the folder where they exist. */
rs_status rs_config_load(rs_checkpoint *checkpoint, const char *folder, rs_error *err);

/* ---- checkpoint.c ---- */

/* Maps one safetensors file, reads it, and tells damage under the mapping from a bad file. */
rs_status rs_checkpoint_read_safetensors(rs_checkpoint *checkpoint, const char *path,
                                         const char *name, const rs_checkpoint_options *options,
                                         rs_error *err);

#endif
