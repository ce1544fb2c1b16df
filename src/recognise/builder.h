/* builder.h: the builder that turns a checkpoint and a family table into an rs_model. For
 * src/recognise/ and for what src/network/ builds on it. */
#ifndef RS_RECOGNISE_BUILDER_H
#define RS_RECOGNISE_BUILDER_H

#include "recognise/family.h"

/* Which part of its module a tensor is, by the suffix of its name. */
typedef enum rs_part {
    RS_PART_WEIGHT,
    RS_PART_BIAS,
    RS_PART_SCALE,  /* factor that an FP8 or INT8 weight is multiplied by */
    RS_PART_PACKED, /* integers packed by a quantiser (GPTQ, AWQ, bitsandbytes) */
    RS_PART_BUFFER  /* helper tables of a quantiser */
} rs_part;

/* A configuration whose fields are looked up by what they mean. */
typedef struct rs_fields {
    const json_t *root, *object; /* the file; the part of it that counts: text_config or root */
    const char *path;
    const char *prefix; /* what stands before every key: "llama." in GGUF, NULL elsewhere */
    const rs_field_row *dialect;
    const rs_field_default *defaults;
} rs_fields;

/* A tensor whose name a pattern of the family matched. */
typedef struct rs_match {
    uint32_t tensor; /* its number in the checkpoint */
    int32_t layer;   /* -1: it belongs to none */
    uint16_t slot;   /* an rs_slot */
    uint8_t order;   /* place of its stack in the tables */
    uint8_t role;    /* an rs_role */
    uint8_t part;    /* an rs_part */
    uint16_t flags;  /* those of the pattern */
} rs_match;

/* The recognised tensors of one slot of one layer. */
typedef struct rs_block {
    const rs_match *matches;
    size_t n;
    int32_t layer;
    uint16_t slot;
} rs_block;

/* An attention, as far as its head products need to know it. */
typedef struct rs_attention {
    const char *stack, *attention;
    int64_t width, kv_width, out_width; /* inputs of q, of k and v, output of o */
    int64_t heads, kv_heads, head_dim, value_dim;
    rs_norm_kind norm, kv_norm, qk_norm; /* NONE: there is nothing to fold */
    const rs_tensor *gain, *gain_bias, *kv_gain, *kv_gain_bias;
    bool qk_norm_full, bare_qk_norm;
    rs_rope_kind rope;
    int32_t rope_dims, rope_asked; /* entries that rotate, and that the configuration asks for */
    const char *scale;             /* the score's scale as text, "" when there is none */
    double softcap, value_scale;   /* 0: there is none */
} rs_attention;

/* What --map says of one stack. */
typedef struct rs_map_entry {
    const char *where; /* "FILE.json: entry 0" */
    rs_attention attention;
    int64_t layers; /* number of layers; -1: as many as are found */
    unsigned qkv_flags;
    uint64_t given; /* one bit for each role that has a pattern */
    bool conv1d, wants_norm;
} rs_map_entry;

/* A model in the making: what was read so far, and where it goes. */
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
    size_t n_blocks, blocks_capacity, products_capacity, rests_capacity;
    bool guessing;                         /* the family is guessed from the tensors' names */
    bool partial;                          /* the file is one shard of several, opened alone */
    bool seen[RS_SLOT_MAP][RS_ROLE_COUNT]; /* some layer has a weight of this slot and role */
    char text[RS_PRODUCT_IO + 2][512];     /* corrections of the block before, by kind */
    const char *shared[RS_PRODUCT_IO + 2]; /* where the same texts are stored */
    rs_buffer missing;                     /* names of absent tensors; n_missing counts them */
    size_t n_missing, n_skipped_layers;
    rs_error odd;     /* what was wrong with the first layer that is left out */
    rs_error unheard; /* takes errors that nobody reads */
    rs_buffer odd_layers;
    size_t n_odd;
    int64_t inner_group;
} rs_builder;

/* model.c: what opening a model and opening a network (network_open.c) share. */
rs_status rs_builder_open(rs_builder **out, const rs_checkpoint *checkpoint, rs_error *err);
rs_status rs_builder_roles(rs_builder *b); /* room for a role for each tensor */
rs_model *rs_builder_close(rs_builder *b); /* hands out the model; the caller closes it */
/* Closes a builder whose tensors were matched and cut into blocks for a network, and hands out what
 * rs_model_open makes of the checkpoint. */
rs_status rs_builder_model(rs_model **out, rs_builder *b, rs_error *err);
/* Behind the last product: says what became of every tensor; RS_E_NO_PRODUCT where there is none. */
rs_status rs_builder_describe(rs_builder *b);
bool rs_type_listed(const char *types, const char *type);          /* types: separated by blanks */
const char *rs_stack_name(const rs_family *family, unsigned slot); /* for column `stack` */
/* Sets b->family from the configuration's model_type or GGUF's architecture, which *type becomes;
 * NULL when the family is unknown. */
rs_status rs_family_choose(rs_builder *b, const char **type);
/* Points the fields at the family's spellings and finds the role of every tensor. */
rs_status rs_family_match(rs_builder *b);

/* roles.c */
rs_role rs_role_bias(rs_role role);       /* the role of a module's bias */
const char *rs_role_reason(rs_role role); /* why a tensor of this role is not analysed */
bool rs_role_counts(rs_role role);        /* whether its elements are parameters */
bool rs_dtype_is_weight(rs_dtype dtype);  /* floating or quantised, without a side table */

/* fields.c. Where a field is a list by layer, `layer` picks an entry; -1 picks the first. */
void rs_fields_open(rs_fields *fields, const rs_checkpoint *checkpoint);
/* Points the fields at the section of a slot's tower, where the family has towers. */
void rs_fields_enter(rs_fields *fields, const rs_family *family, unsigned slot);
const json_t *rs_fields_key(const rs_fields *fields,
                            const char *key);                         /* NULL when absent or null */
const char *rs_fields_text(const rs_fields *fields, const char *key); /* NULL unless a string */
bool rs_fields_true(const rs_fields *fields, const char *key);
/* Looks a size up: *found says whether it is there. rs_fields_need fails where it is not. */
rs_status rs_fields_find(const rs_fields *fields, rs_field field, int64_t layer, int64_t *value,
                         bool *found, rs_error *err);
rs_status rs_fields_need(const rs_fields *fields, rs_field field, int64_t layer, int64_t *value,
                         rs_error *err);
/* Looks up a finite number; RS_E_CONFIG_SIZE when the field is there but holds none. */
rs_status rs_fields_real(const rs_fields *fields, const char *key, double *value, bool *found,
                         rs_error *err);
/* Looks [least, most] up, where "Infinity" may stand for a number; 0 and infinity when absent. */
rs_status rs_fields_limits(const rs_fields *fields, const char *key, double *least, double *most,
                           rs_error *err);
/* Takes the blocks of a GGUF file that guess tokens further on away from *layers. */
rs_status rs_fields_layers(const rs_fields *fields, int64_t *layers, rs_error *err);
rs_status rs_json_size(const json_t *value, const char *where, const char *key, int64_t *size,
                       rs_error *err);

/* match.c */
/* A family's patterns, ready for lookup. */
typedef struct rs_lookup {
    const rs_family *family;
    const rs_module_pattern *rows[512];
    size_t n_rows;
    rs_strmap map;
} rs_lookup;
rs_status rs_lookup_open(rs_lookup *index, const rs_family *family, rs_error *err);
void rs_lookup_close(rs_lookup *index);
/* The pattern that a name without its prefix matches, or NULL; numbers[] receives the numbers in
 * the name. */
const rs_module_pattern *rs_lookup_find(const rs_lookup *index, const char *name,
                                        int64_t numbers[4], size_t *n_numbers, rs_part *part);
rs_status rs_match_all(rs_builder *b);
rs_status rs_match_add(rs_builder *b, const rs_match *match);
rs_status rs_blocks_make(rs_builder *b); /* sorts the matches and cuts them into blocks */

/* The match, or the tensor, of a role in a block; NULL when the block has none. */
const rs_match *rs_block_find(const rs_block *block, rs_role role, rs_part part);
const rs_tensor *rs_block_tensor(const rs_builder *b, const rs_block *block, rs_role role,
                                 rs_part part);
/* A tensor of the first stack that belongs to no layer; NULL when there is none. */
const rs_tensor *rs_top_tensor(const rs_builder *b, rs_slot slot, rs_role role, rs_part part);

/* factor.c: a weight of a block, its tensor checked for type and shape (`rank` sizes expected). */
typedef struct rs_weight {
    const rs_match *match; /* NULL: the block has no such weight */
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
/* layers.c: what the configuration says that a layer has, a sum of these; 0: it says nothing.
 * *field: which of its fields does; NULL: none, all layers of the family are alike. */
enum {
    RS_LAYER_ATTENTION = 1,
    RS_LAYER_SSM = 2,
    RS_LAYER_NEITHER = 4, /* an MLP alone */
    RS_LAYER_EXPERTS = 8  /* which is a mixture of experts */
};
int rs_layer_parts(const rs_builder *b, int32_t layer, const char **field);
/* ssm.c: a state-space mixer's sizes from config fields; groups 0: they do not say. */
typedef struct rs_ssm_sizes {
    int64_t width, inner, state, rank, heads, head_dim, groups;
} rs_ssm_sizes;
rs_status rs_ssm_sizes_of(rs_builder *b, const rs_block *block, rs_ssm_sizes *sizes);
/* ssm_rest.c: notes down the tensors that decide a mixer's decay at rest. */
rs_status rs_ssm_rest_add(rs_builder *b, const rs_block *block, const rs_ssm_sizes *sizes);
/* sizes.c: an attention from config fields. */
rs_status rs_attention_sizes(rs_builder *b, const rs_block *block, rs_attention *attention);
rs_status rs_rope_note(rs_builder *b);
/* Says once where the whole head rotates although the configuration asks for a share of it. */
rs_status rs_rope_whole(rs_notes *notes, const rs_attention *at, rs_error *err);
/* Which form of RoPE's fields a configuration has, in words; *theta: its base, or NaN. */
const char *rs_rope_form(const rs_fields *fields, double *theta);

/* layers.c: which layers there should be, and their products. */
rs_status rs_layers_build(rs_builder *b);
/* Records an absent tensor of a product: an error for a whole checkpoint,
 * a note for a lone shard. */
rs_status rs_layers_missing(rs_builder *b, const rs_block *block, rs_role role);
/* The name that the family's first pattern for this role gives to a layer's tensor (layer -1: to
 * one outside the layers). False when the family has no such pattern. */
bool rs_expected_name(const rs_builder *b, unsigned slot, rs_role role, int32_t layer,
                      char name[256]);
/* The text as the model keeps it, stored once while it does not change; NULL: out of memory. */
const char *rs_shared_text(rs_builder *b, int kind, const char *text);

/* guess.c: fits a family to names that are recognisable; type: the unknown one, or NULL. */
rs_status rs_guess(rs_builder *b, const char *type);
/* map.c: what --map says in place of a family. */
rs_status rs_map_read(rs_builder *b, const json_t *map, const char *map_path);
rs_status rs_map_build(rs_builder *b);
const rs_family *rs_family_find(const rs_checkpoint *checkpoint, const rs_fields *fields,
                                const char *type);

/* tensors.c: roles, status, parameters, notes about what was not recognised. */
rs_status rs_tensors_describe(rs_builder *b);
/* What the checkpoint stores, by the roles of its tensors. */
void rs_tensors_count(rs_stored *stored, const rs_builder *b);
/* Writes at most 20 names, joined by ", ", of the tensors without a role (or of all); returns how
 * many there are. */
size_t rs_tensors_list(const rs_builder *b, bool unknown_only, rs_buffer *names);

#endif
