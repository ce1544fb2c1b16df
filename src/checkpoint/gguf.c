/*
 * gguf.c: the header and the tensor list of a GGUF file, versions 2 and 3 (docs/formats.md, 6).
 *
 *   +-----------+---------+-----------+------+-------+---------+-----+-------------+
 *   | "GGUF"    | version | n_tensors | n_kv | pairs | tensors | pad | tensor data |
 *   | 4 bytes   | u32     | i64       | i64  | n_kv  | n_tens. |     | each padded |
 *   +-----------+---------+-----------+------+-------+---------+-----+-------------+
 *
 *   tensor   name: string, n_dims: u32, ne[n_dims]: i64, type: u32, offset: u64
 *
 * ne[0] is the fastest axis. Offsets count from the start of the data, which is padded to
 * `general.alignment` (32 when absent), as is each tensor's size: offset i is the sum of the padded
 * sizes before it, so the tensors lie in file order without holes. That rule cannot be checked
 * behind a tensor whose type is not known; its size is then what lies before the next tensor.
 */
#include "checkpoint/gguf.h"

#include <string.h>

enum {
    MAGIC_BYTES = 4,
    DEFAULT_ALIGNMENT = 32,
    /* Eight huge pages of x86-64. The reference has no upper limit, but padding to it costs up to
     * that many bytes a tensor, and one value of 2^31 would ask for a file of gigabytes. */
    LARGEST_ALIGNMENT = 1 << 24,
    MAX_DIMS = 4,
    MAX_NAME = 63,                 /* bytes, without the NUL that the reference stores too */
    SMALLEST_PAIR = 8 + 1 + 4 + 1, /* a key of one byte and a value of one */
    SMALLEST_TENSOR = 8 + 4 + 4 + 8,
    MAX_TENSORS = 4000000
};

static const rs_dtype by_type_id[] = {
    /* 4 and 5, 31 to 33 and 36 to 38 were removed from the format */
    [0] = RS_F32,     [1] = RS_F16,      [2] = RS_Q4_0,   [3] = RS_Q4_1,    [6] = RS_Q5_0,
    [7] = RS_Q5_1,    [8] = RS_Q8_0,     [9] = RS_Q8_1,   [10] = RS_Q2_K,   [11] = RS_Q3_K,
    [12] = RS_Q4_K,   [13] = RS_Q5_K,    [14] = RS_Q6_K,  [15] = RS_Q8_K,   [16] = RS_IQ2_XXS,
    [17] = RS_IQ2_XS, [18] = RS_IQ3_XXS, [19] = RS_IQ1_S, [20] = RS_IQ4_NL, [21] = RS_IQ3_S,
    [22] = RS_IQ2_S,  [23] = RS_IQ4_XS,  [24] = RS_I8,    [25] = RS_I16,    [26] = RS_I32,
    [27] = RS_I64,    [28] = RS_F64,     [29] = RS_IQ1_M, [30] = RS_BF16,   [34] = RS_TQ1_0,
    [35] = RS_TQ2_0,  [39] = RS_MXFP4,   [40] = RS_NVFP4, [41] = RS_Q1_0,   [42] = RS_Q2_0,
};

/* One entry of the tensor list. */
typedef struct entry {
    const char *name; /* in the mapping, not terminated */
    uint32_t name_length;
    uint32_t n_dims;
    int64_t ne[MAX_DIMS]; /* ne[0] fastest; 1 behind n_dims */
    int64_t count;        /* product of ne */
    int32_t type_id;
    rs_dtype dtype;
    bool sized; /* bytes is known */
    uint64_t bytes;
    uint64_t offset; /* from the start of the data */
} entry;

typedef struct reader {
    rs_gguf_cursor cursor;
    uint64_t n_tensors, n_pairs;
    uint64_t alignment;
    entry *entries;
} reader;

/* ---- header ---- */

static rs_status check_start(const rs_gguf_cursor *cursor, rs_error *err)
{
    static const char pointer[] = "version https://git-lfs";
    if (cursor->size == 0)
        return rs_fail(err, RS_E_EMPTY_FILE, cursor->path, "fetch the file again", "is empty");
    if (cursor->size >= sizeof pointer - 1 &&
        memcmp(cursor->data, pointer, sizeof pointer - 1) == 0)
        return rs_fail(err, RS_E_LFS_POINTER, cursor->path, "run: git lfs pull",
                       "is a Git LFS pointer, not the model itself");
    if (cursor->size < MAGIC_BYTES || memcmp(cursor->data, "GGUF", MAGIC_BYTES) != 0)
        return rs_fail(err, RS_E_GGUF_MAGIC, cursor->path,
                       "name a .gguf file; older GGML and GGJT files must be converted again",
                       "does not begin with the letters GGUF");
    return RS_OK;
}

static rs_status check_version(const rs_gguf_cursor *cursor, uint32_t version, rs_error *err)
{
    if (version == 2 || version == 3) return RS_OK;
    /* A number below 65536 that was written in the other byte order has its low half empty. */
    if (version != 0 && (version & 0xFFFF) == 0)
        return rs_fail(err, RS_E_GGUF_VERSION, cursor->path,
                       "convert it: gguf-convert-endian FILE little (from the Python package gguf)",
                       "is a big-endian file (its version reads 0x%08X); only little-endian ones "
                       "are supported",
                       version);
    if (version <= 1)
        return rs_fail(err, RS_E_GGUF_VERSION, cursor->path,
                       "convert the original model with a current converter",
                       "has GGUF version %u; versions 2 and 3 are supported", version);
    return rs_fail(err, RS_E_GGUF_VERSION, cursor->path, "use a newer rankscope",
                   "has GGUF version %u; versions 2 and 3 are supported", version);
}

static rs_status check_count(const rs_gguf_cursor *cursor, uint64_t n, size_t smallest,
                             const char *what, rs_error *err)
{
    if (n > INT64_MAX)
        return rs_fail(err, RS_E_GGUF_COUNTS, cursor->path, "the file is damaged",
                       "claims a negative number of %s (%lld)", what, (long long)n);
    if (n > rs_gguf_left(cursor) / smallest)
        return rs_fail(err, RS_E_GGUF_COUNTS, cursor->path, RS_GGUF_PARTIAL_HINT,
                       "claims %llu %s of at least %zu bytes each, but only %zu bytes follow",
                       (unsigned long long)n, what, smallest, rs_gguf_left(cursor));
    return RS_OK;
}

static rs_status read_header(reader *r, rs_error *err)
{
    rs_gguf_cursor *cursor = &r->cursor;
    uint32_t version;
    RS_TRY(check_start(cursor, err));
    cursor->at = MAGIC_BYTES;
    RS_TRY(rs_gguf_u32(cursor, &version, "the version", err));
    RS_TRY(check_version(cursor, version, err));
    RS_TRY(rs_gguf_u64(cursor, &r->n_tensors, "the number of tensors", err));
    RS_TRY(rs_gguf_u64(cursor, &r->n_pairs, "the number of metadata keys", err));
    RS_TRY(check_count(cursor, r->n_tensors, SMALLEST_TENSOR, "tensors", err));
    RS_TRY(check_count(cursor, r->n_pairs, SMALLEST_PAIR, "metadata keys", err));
    if (r->n_tensors > MAX_TENSORS)
        return rs_fail(err, RS_E_TOO_MANY_TENSORS, cursor->path, NULL,
                       "has %llu tensors; at most %d are supported",
                       (unsigned long long)r->n_tensors, MAX_TENSORS);
    return RS_OK;
}

static rs_status find_alignment(reader *r, const json_t *metadata, rs_error *err)
{
    const json_t *value = json_object_get(metadata, RS_GGUF_ALIGNMENT_KEY);
    json_int_t alignment = value ? json_integer_value(value) : DEFAULT_ALIGNMENT;
    if (alignment < 1 || alignment > LARGEST_ALIGNMENT || (alignment & (alignment - 1)) != 0)
        return rs_fail(err, RS_E_GGUF_ALIGNMENT, r->cursor.path, "the file is damaged",
                       "%s is %lld; it must be a power of two of at most %d", RS_GGUF_ALIGNMENT_KEY,
                       (long long)alignment, LARGEST_ALIGNMENT);
    r->alignment = (uint64_t)alignment;
    return RS_OK;
}

/* ---- the tensor list ---- */

static rs_status check_name(const reader *r, const char *name, size_t length, uint64_t index,
                            rs_error *err)
{
    unsigned long long number = (unsigned long long)index + 1;
    unsigned long long total = (unsigned long long)r->n_tensors;
    if (length > MAX_NAME)
        return rs_fail(err, RS_E_GGUF_TENSOR_NAME, r->cursor.path, "the file is damaged",
                       "tensor %llu of %llu has a name of %zu bytes; at most %d are allowed",
                       number, total, length, MAX_NAME);
    if (memchr(name, 0, length) || !rs_utf8_valid(name, length))
        return rs_fail(err, RS_E_GGUF_TENSOR_NAME, r->cursor.path, "the file is damaged",
                       "tensor %llu of %llu has a name that is not UTF-8 text", number, total);
    return RS_OK;
}

/* Dimensions of 0 are left out of the product that must fit, so that no part of it overflows. */
static rs_status read_dims(reader *r, entry *e, rs_error *err)
{
    const char *path = r->cursor.path;
    int length = (int)e->name_length;
    RS_TRY(rs_gguf_u32(&r->cursor, &e->n_dims, "a tensor's number of dimensions", err));
    if (e->n_dims > MAX_DIMS)
        return rs_fail(err, RS_E_GGUF_DIMS, path, "the file is damaged",
                       "tensor '%.*s' has %u dimensions; at most %d are allowed", length, e->name,
                       e->n_dims, MAX_DIMS);
    int64_t product = 1;
    bool empty = false;
    for (uint32_t i = 0; i < MAX_DIMS; i++) {
        uint64_t n = 1;
        if (i < e->n_dims) RS_TRY(rs_gguf_u64(&r->cursor, &n, "a tensor's dimensions", err));
        if (n > INT64_MAX)
            return rs_fail(err, RS_E_GGUF_DIMS, path, "the file is damaged",
                           "dimension %u of tensor '%.*s' is negative (%lld)", i, length, e->name,
                           (long long)n);
        e->ne[i] = (int64_t)n;
        empty = empty || n == 0;
        if (n != 0 && __builtin_mul_overflow(product, e->ne[i], &product))
            return rs_fail(err, RS_E_GGUF_OVERFLOW, path, "the file is damaged",
                           "tensor '%.*s' has more elements than a 64-bit count can hold", length,
                           e->name);
    }
    e->count = empty ? 0 : product;
    return RS_OK;
}

static rs_status find_size(const reader *r, entry *e, uint32_t type_id, rs_error *err)
{
    const char *path = r->cursor.path;
    int length = (int)e->name_length;
    if (type_id > INT32_MAX)
        return rs_fail(err, RS_E_TENSOR_DTYPE, path, "the file is damaged",
                       "tensor '%.*s' has the type number %u, which no version of GGUF can have",
                       length, e->name, type_id);
    e->type_id = (int32_t)type_id;
    e->dtype =
        type_id < sizeof by_type_id / sizeof *by_type_id ? by_type_id[type_id] : RS_DTYPE_UNKNOWN;
    const rs_dtype_traits *traits = rs_dtype_info(e->dtype);
    e->sized = traits->block != 0 || e->count == 0;
    if (!traits->block) return RS_OK;
    if (e->ne[0] % traits->block != 0)
        return rs_fail(
            err, RS_E_GGUF_BLOCK, path, "the file is damaged",
            "tensor '%.*s' is of type %s, in blocks of %u elements, but has rows of %lld", length,
            e->name, traits->name, traits->block, (long long)e->ne[0]);
    if (__builtin_mul_overflow((uint64_t)(e->count / traits->block), traits->bits / 8, &e->bytes))
        return rs_fail(err, RS_E_GGUF_OVERFLOW, path, "the file is damaged",
                       "tensor '%.*s' has more bytes than a 64-bit size can hold", length, e->name);
    return RS_OK;
}

static rs_status read_entry(reader *r, uint64_t index, rs_error *err)
{
    entry *e = &r->entries[index];
    size_t length;
    uint32_t type_id;
    RS_TRY(rs_gguf_string(&r->cursor, &e->name, &length, "a tensor's name", err));
    RS_TRY(check_name(r, e->name, length, index, err));
    e->name_length = (uint32_t)length;
    RS_TRY(read_dims(r, e, err));
    RS_TRY(rs_gguf_u32(&r->cursor, &type_id, "a tensor's type", err));
    RS_TRY(find_size(r, e, type_id, err));
    return rs_gguf_u64(&r->cursor, &e->offset, "a tensor's offset", err);
}

/* ---- where the data lie ---- */

/* n rounded up to the alignment, a power of two; false when that does not fit. */
static bool pad(const reader *r, uint64_t n, uint64_t *padded)
{
    if (__builtin_add_overflow(n, r->alignment - 1, padded)) return false;
    *padded &= ~(r->alignment - 1);
    return true;
}

/* Checks entry i's offset against what lies before it, and gives an entry before it whose size is
 * not known the bytes in between. */
static rs_status check_offset(const reader *r, uint64_t i, uint64_t expected, rs_error *err)
{
    entry *e = &r->entries[i], *before = i ? e - 1 : NULL;
    int length = (int)e->name_length;
    if (!before || before->sized) {
        if (e->offset == expected) return RS_OK;
        return rs_fail(
            err, RS_E_GGUF_OFFSET, r->cursor.path, "the file is damaged",
            "tensor '%.*s' begins at offset %llu, but the tensors before it end at %llu: "
            "there is %s",
            length, e->name, (unsigned long long)e->offset, (unsigned long long)expected,
            e->offset > expected ? "a gap" : "an overlap");
    }
    if (e->offset <= before->offset || e->offset % r->alignment != 0)
        return rs_fail(err, RS_E_GGUF_OFFSET, r->cursor.path, "the file is damaged",
                       "tensor '%.*s' begins at offset %llu, which is not behind the tensor before "
                       "it (at %llu) at a multiple of %llu",
                       length, e->name, (unsigned long long)e->offset,
                       (unsigned long long)before->offset, (unsigned long long)r->alignment);
    before->bytes = e->offset - before->offset;
    return RS_OK;
}

/* Checks every offset; *end is where the last tensor's bytes end, *padded_end the same with its
 * padding, both from the start of the data. */
static rs_status check_layout(reader *r, uint64_t *end, uint64_t *padded_end, rs_error *err)
{
    *end = *padded_end = 0;
    for (uint64_t i = 0; i < r->n_tensors; i++) {
        const entry *e = &r->entries[i];
        RS_TRY(check_offset(r, i, *padded_end, err));
        uint64_t own_end;
        if (__builtin_add_overflow(e->offset, e->bytes, &own_end) || !pad(r, own_end, padded_end))
            return rs_fail(err, RS_E_GGUF_OVERFLOW, r->cursor.path, "the file is damaged",
                           "tensor '%.*s' ends behind what a 64-bit offset can reach",
                           (int)e->name_length, e->name);
        if (i && !e[-1].sized) *end = e->offset;
        /* An empty tensor may lie behind the end of a file that lacks its last padding. */
        if (e->bytes || !e->sized) *end = own_end;
    }
    return RS_OK;
}

/* Compares the data with the file, and gives a last tensor whose size is not known all that is
 * left. *start is where the data begin in the file. */
static rs_status check_extent(const reader *r, uint64_t *start, uint64_t end, rs_error *err)
{
    const rs_gguf_cursor *cursor = &r->cursor;
    entry *last = r->n_tensors ? &r->entries[r->n_tensors - 1] : NULL;
    *start = cursor->at;
    if (last && !pad(r, cursor->at, start)) *start = UINT64_MAX;
    /* Without bytes to hold, the padding in front of them may be missing too. */
    if (*start > cursor->size && end == 0 && (!last || last->sized)) *start = cursor->size;
    uint64_t available = *start <= cursor->size ? cursor->size - *start : 0;
    if (*start > cursor->size || end > available || (last && !last->sized && end == available))
        return rs_fail(err, RS_E_GGUF_TRUNCATED, cursor->path, RS_GGUF_PARTIAL_HINT,
                       "has %zu bytes; its tensors begin at byte %llu and need %s%llu more",
                       cursor->size, (unsigned long long)*start,
                       last && !last->sized ? "more than " : "", (unsigned long long)end);
    if (last && !last->sized) last->bytes = available - last->offset;
    return RS_OK;
}

static rs_status add_tensor(rs_checkpoint *checkpoint, uint32_t file, const entry *e,
                            const uint8_t *data, rs_error *err)
{
    int64_t *shape = rs_arena_alloc(checkpoint->arena, e->n_dims, sizeof *shape);
    const char *name = rs_arena_strndup(checkpoint->arena, e->name, e->name_length);
    if (!shape || !name) return rs_fail_memory(err, "the list of tensors", 0);
    for (uint32_t i = 0; i < e->n_dims; i++)
        shape[i] = e->ne[e->n_dims - 1 - i];
    rs_tensor tensor = {.name = name,
                        .dtype = e->dtype,
                        .rank = e->n_dims,
                        .shape = shape,
                        .count = e->count,
                        .data = data,
                        .bytes = e->bytes,
                        .file = file,
                        .type_id = e->type_id};
    return rs_checkpoint_add(checkpoint, &tensor, err);
}

static rs_status add_tensors(rs_checkpoint *checkpoint, uint32_t file, reader *r, rs_error *err)
{
    const rs_gguf_cursor *cursor = &r->cursor;
    uint64_t start, end, padded_end;
    RS_TRY(check_layout(r, &end, &padded_end, err));
    RS_TRY(check_extent(r, &start, end, err));
    for (uint64_t i = 0; i < r->n_tensors; i++) {
        const entry *e = &r->entries[i];
        const uint8_t *data = e->bytes ? cursor->data + start + e->offset : cursor->data;
        RS_TRY(add_tensor(checkpoint, file, e, data, err));
    }
    bool sized = r->n_tensors == 0 || r->entries[r->n_tensors - 1].sized;
    if (sized && cursor->size - start > padded_end &&
        !rs_notes_add(&checkpoint->notes, RS_INFO, "trailing_bytes",
                      "they belong to no tensor and are not read",
                      "%s: %llu bytes behind the last tensor", checkpoint->files[file].name,
                      (unsigned long long)(cursor->size - start - padded_end)))
        return rs_fail_memory(err, "a note", 0);
    return RS_OK;
}

/* ---- one file ---- */

static rs_status read_tensors(rs_checkpoint *checkpoint, uint32_t file, reader *r, rs_error *err)
{
    /* n_tensors was compared with the bytes left: this is at most four times the list itself. */
    r->entries = rs_calloc((size_t)r->n_tensors, sizeof *r->entries);
    if (!r->entries) return rs_fail_memory(err, "the list of tensors", 0);
    rs_status status = RS_OK;
    for (uint64_t i = 0; i < r->n_tensors && status == RS_OK; i++)
        status = read_entry(r, i, err);
    if (status == RS_OK) status = add_tensors(checkpoint, file, r, err);
    rs_free(r->entries);
    return status;
}

rs_status rs_gguf_read_part(rs_checkpoint *checkpoint, uint32_t file, json_t **metadata,
                            rs_error *err)
{
    const rs_mapping *mapping = checkpoint->files[file].mapping;
    reader r = {.cursor = {.data = mapping->data, .size = mapping->size, .path = mapping->path}};
    *metadata = NULL;
    rs_status status = read_header(&r, err);
    if (status == RS_OK) status = rs_gguf_metadata(metadata, &r.cursor, r.n_pairs, err);
    if (status == RS_OK) status = find_alignment(&r, *metadata, err);
    if (status == RS_OK) status = read_tensors(checkpoint, file, &r, err);
    /* Pages that vanished read as zeros: whatever was made of them, this is the reason. */
    rs_status vanished = rs_mapping_check(mapping, err);
    if (vanished != RS_OK) status = vanished;
    if (status != RS_OK) {
        json_decref(*metadata);
        *metadata = NULL;
    }
    return status;
}

void rs_gguf_keep(rs_checkpoint *checkpoint, uint32_t file, json_t *metadata)
{
    if (file == 0) {
        json_decref(checkpoint->config);
        checkpoint->config = metadata;
    } else {
        json_decref(metadata);
    }
}

rs_status rs_gguf_read(rs_checkpoint *checkpoint, uint32_t file, rs_error *err)
{
    json_t *metadata;
    RS_TRY(rs_gguf_read_part(checkpoint, file, &metadata, err));
    rs_gguf_keep(checkpoint, file, metadata);
    return RS_OK;
}
