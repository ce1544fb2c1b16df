/* builder.h: the builder that turns a checkpoint and a family table into an rs_model. For
 * src/recognise/ and for what src/network/ builds on it. */
#ifndef RS_RECOGNISE_BUILDER_H
#define RS_RECOGNISE_BUILDER_H

#include "recognise/family.h"

typedef enum rs_part {
    RS_PART_WEIGHT,
    RS_PART_BIAS,
    RS_PART_SCALE,  /* factor that an FP8 or INT8 weight is to be multiplied with */
    RS_PART_PACKED, /* GPTQ, AWQ, bitsandbytes: integers packed by a quantiser */
    RS_PART_BUFFER  /* helper tables of a quantiser */
} rs_part;

/* The configuration as fields. */
typedef struct rs_fields {
    const json_t *root, *object; /* object: text_config or the like, else root */
    const char *path;
    const char *prefix; /* GGUF: "llama."; HF: NULL */
    const rs_field_row *dialect;
    const rs_field_default *defaults;
} rs_fields;

/* One tensor recognised. */
typedef struct rs_match {
    uint32_t tensor;
    int32_t layer; /* -1: none */
    uint16_t slot;
    uint8_t order; /* stacks in order of printing */
    uint8_t role;
    uint8_t part;
    uint16_t flags; /* of the pattern row */
} rs_match;

/* The recognised tensors of one slot of one layer. */
typedef struct rs_block {
    const rs_match *matches;
    size_t n;
    int32_t layer;
    uint16_t slot;
} rs_block;

/* All that product building needs to know of one attention. */
typedef struct rs_attention {
    const char *stack, *attention;
    int64_t width, kv_width, out_width; /* inputs of q, of k and v, output of o */
    int64_t heads, kv_heads, head_dim, value_dim;
    rs_norm_kind norm, kv_norm, qk_norm; /* NONE: nothing to fold */
    const rs_tensor *gain, *gain_bias, *kv_gain, *kv_gain_bias;
    bool qk_norm_full, bare_qk_norm;
    rs_rope_kind rope;
    int32_t rope_dims, rope_asked; /* of a head, and by the configuration: see rs_rope_whole */
    const char *scale;             /* text of the score's scale, "" when there is none */
    double softcap, value_scale;   /* 0: none */
} rs_attention;

/* What --map says of one stack. */
typedef struct rs_map_entry {
    const char *where; /* "FILE.json: entry 0" */
    rs_attention attention;
    int64_t layers; /* -1: as many as are found */
    unsigned qkv_flags;
    uint64_t given; /* bit of each role that has a pattern */
    bool conv1d, wants_norm;
} rs_map_entry;

typedef struct rs_builder {
    rs_model *model;
    const rs_checkpoint *checkpoint;
    rs_error *err;
    const rs_family *family;
    rs_fields fields;
    rs_family guess;         /* a copy to which a guess is fitted */
    const char *prefixes[2]; /* the prefix that a guess found */
    const char *prefix;      /* the one before layers in this checkpoint; NULL: no layer yet */
    rs_map_entry *map;
    size_t n_map;
    rs_match *matches; /* sorted by order, layer, slot, role, part */
    size_t n_matches, matches_capacity;
    rs_block *blocks;
    size_t n_blocks, blocks_capacity, products_capacity;
    bool guessing;                         /* by names: nothing else of the model is known */
    bool partial;                          /* one shard of several, opened alone */
    bool seen[RS_SLOT_MAP][RS_ROLE_COUNT]; /* some layer has this weight */
    char text[RS_PRODUCT_IO + 2][512];     /* corrections of the block before, by kind */
    const char *shared[RS_PRODUCT_IO + 2]; /* and where they are stored */
    rs_buffer missing;                     /* names of tensors that are absent, and their number */
    size_t n_missing, n_skipped_layers;
    rs_error odd;     /* what was wrong with the first layer that is left out */
    rs_error unheard; /* takes what a caller does not want to know */
    rs_buffer odd_layers;
    size_t n_odd;
    int64_t inner_group;
} rs_builder;

/* model.c: what opening a model and opening a network (network_open.c) share. */
rs_status rs_builder_open(rs_builder **out, const rs_checkpoint *checkpoint, rs_error *err);
rs_status rs_builder_roles(rs_builder *b); /* room for a role for each tensor */
rs_model *rs_builder_close(rs_builder *b); /* hands out the model; the caller closes it */
bool rs_type_listed(const char *types, const char *type);
const char *rs_stack_name(const rs_family *family, unsigned slot); /* for column `stack` */
/* b->family by the configuration's model_type or GGUF's architecture (*type); NULL when unknown. */
rs_status rs_family_choose(rs_builder *b, const char **type);
/* The family's fields and the roles of all tensors. */
rs_status rs_family_match(rs_builder *b);

/* roles.c */
rs_role rs_role_bias(rs_role role);       /* the role of a module's bias */
const char *rs_role_reason(rs_role role); /* why a tensor of it is not analysed */
bool rs_role_counts(rs_role role);        /* its elements are parameters */
bool rs_dtype_is_weight(rs_dtype dtype);  /* floating or quantised, without a side table */

/* fields.c. `layer` picks from a list given per layer; -1 takes its first entry. */
void rs_fields_open(rs_fields *fields, const rs_checkpoint *checkpoint);
/* Points them at the section of a slot's tower, where the family has towers. */
void rs_fields_enter(rs_fields *fields, const rs_family *family, unsigned slot);
const json_t *rs_fields_key(const rs_fields *fields,
                            const char *key);                         /* NULL when absent or null */
const char *rs_fields_text(const rs_fields *fields, const char *key); /* NULL unless a string */
bool rs_fields_true(const rs_fields *fields, const char *key);
rs_status rs_fields_find(const rs_fields *fields, rs_field field, int64_t layer, int64_t *value,
                         bool *found, rs_error *err);
rs_status rs_fields_need(const rs_fields *fields, rs_field field, int64_t layer, int64_t *value,
                         rs_error *err);
/* A finite number; RS_E_CONFIG_SIZE when it is there but is none. */
rs_status rs_fields_real(const rs_fields *fields, const char *key, double *value, bool *found,
                         rs_error *err);
rs_status rs_json_size(const json_t *value, const char *where, const char *key, int64_t *size,
                       rs_error *err);

/* match.c */
typedef struct rs_lookup { /* a family's patterns, ready for lookup */
    const rs_family *family;
    const rs_module_pattern *rows[512];
    size_t n_rows;
    rs_strmap map;
} rs_lookup;
rs_status rs_lookup_open(rs_lookup *index, const rs_family *family, rs_error *err);
void rs_lookup_close(rs_lookup *index);
/* The row for a name without its prefix, or NULL; numbers[] receives its numeric components. */
const rs_module_pattern *rs_lookup_find(const rs_lookup *index, const char *name,
                                        int64_t numbers[4], size_t *n_numbers, rs_part *part);
rs_status rs_match_all(rs_builder *b);
rs_status rs_match_add(rs_builder *b, const rs_match *match);
rs_status rs_blocks_make(rs_builder *b); /* sorts matches, cuts them into blocks */

/* blocks */
const rs_match *rs_block_find(const rs_block *block, rs_role role, rs_part part);
const rs_tensor *rs_block_tensor(const rs_builder *b, const rs_block *block, rs_role role,
                                 rs_part part);
/* Outside layers, of the first stack. */
const rs_tensor *rs_top_tensor(const rs_builder *b, rs_slot slot, rs_role role, rs_part part);

/* factor.c: one factor, its tensor checked for type and shape. `expected` has `rank` sizes. */
typedef struct rs_weight {
    const rs_match *match; /* NULL: absent */
    const rs_tensor *tensor, *scale;
    int64_t rows, cols, block_rows, block_cols;
} rs_weight;
rs_status rs_weight_find(rs_builder *b, const rs_block *block, rs_role role, rs_weight *weight);
rs_status rs_weight_shape(rs_builder *b, rs_weight *weight, uint32_t rank, const int64_t *expected);
rs_status rs_vector_shape(rs_builder *b, const rs_tensor *tensor, int64_t count);
rs_factor rs_factor_make(const rs_weight *weight, bool vector_is_row, int64_t first, int64_t inner);
rs_status rs_product_add(rs_builder *b, const rs_product *product);

/* attention.c, ssm.c: the products of one block. */
rs_status rs_attention_build(rs_builder *b, const rs_block *block, const rs_attention *attention);
rs_status rs_ssm_build(rs_builder *b, const rs_block *block);
/* turning.c: what the configuration says of single layers. */
bool rs_layer_windowed(const rs_builder *b, int32_t layer);
bool rs_layer_turns(const rs_builder *b, int32_t layer);
/* sizes.c: an attention from config fields. */
rs_status rs_attention_sizes(rs_builder *b, const rs_block *block, rs_attention *attention);
rs_status rs_rope_note(rs_builder *b);
/* Says once where the whole head rotates although the configuration asks for a share of it. */
rs_status rs_rope_whole(rs_notes *notes, const rs_attention *at, rs_error *err);
/* Which form of RoPE's fields a configuration has, in words; *theta: the base it states, or NaN. */
const char *rs_rope_form(const rs_fields *fields, double *theta);

/* layers.c: which layers there should be, and their products. */
rs_status rs_layers_build(rs_builder *b);
/* Records an absent tensor of a product: an error for a whole checkpoint,
 * a note for a lone shard. */
rs_status rs_layers_missing(rs_builder *b, const rs_block *block, rs_role role);
/* The name that the family's first row for this role gives to a layer's tensor (-1:
 * to no layer). */
bool rs_expected_name(const rs_builder *b, unsigned slot, rs_role role, int32_t layer,
                      char name[256]);
const char *rs_shared_text(rs_builder *b, int kind, const char *text); /* NULL: out of memory */

/* guess.c, map.c */
rs_status rs_guess(rs_builder *b, const char *type); /* type: the unknown one, or NULL */
rs_status rs_map_read(rs_builder *b, const json_t *map, const char *map_path);
rs_status rs_map_build(rs_builder *b);
const rs_family *rs_family_find(const rs_checkpoint *checkpoint, const rs_fields *fields,
                                const char *type);

/* tensors.c: roles, status, parameters, notes about what was not recognised. */
rs_status rs_tensors_describe(rs_builder *b);
/* What the checkpoint stores, by the roles of its tensors. */
void rs_tensors_count(rs_stored *stored, const rs_builder *b);
/* At most 20 names, ", "-joined, of the tensors without a role (or of all); returns how many there
 * are. */
size_t rs_tensors_list(const rs_builder *b, bool unknown_only, rs_buffer *names);

#endif
