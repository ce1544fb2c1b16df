/*
 * safetensors_header.c: a strict parser of one JSON schema (RFC 8259 text):
 *
 *   {"__metadata__": {"key": "value", ...},                          optional, null allowed
 *    "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * in any order. Unknown members of an entry are checked as JSON and ignored, as the reference does.
 * A general JSON tree would need some twenty times the header's memory; this keeps one entry a
 * tensor.
 */
#include "checkpoint/safetensors_header.h"

#include "checkpoint/open.h"
#include "checkpoint/safetensors_scan.h"

#include <string.h>

static rs_status read_metadata_members(rs_json_scan *p, rs_strmap *seen)
{
    rs_slice key, value;
    bool more;
    p->at++, p->depth++;
    for (bool first = true;; first = false) {
        RS_TRY(rs_json_scan_member(p, first, &more, &key));
        if (!more) return RS_OK;
        RS_TRY(rs_json_scan_unique(p, seen, &key));
        RS_TRY(rs_json_scan_expect(p, ':', "':'"));
        if (rs_json_scan_peek(p) != '"')
            return rs_json_scan_fail(p, RS_E_ST_METADATA,
                                     "every value of __metadata__ must be a string");
        RS_TRY(rs_json_scan_string(p, &value, "a string"));
    }
}

static rs_status read_metadata(rs_json_scan *p)
{
    char c = rs_json_scan_peek(p);
    if (c == 'n' && rs_json_scan_word(p, "null")) return RS_OK;
    if (c != '{') return rs_json_scan_fail(p, RS_E_ST_METADATA, "__metadata__ must be an object");
    rs_strmap seen = {0};
    rs_status status = read_metadata_members(p, &seen);
    rs_strmap_free(&seen);
    return status;
}

static rs_status read_dtype(rs_json_scan *p, rs_st_entry *entry)
{
    rs_slice name;
    RS_TRY(rs_json_scan_string(p, &name, "the dtype as a string"));
    for (rs_dtype dtype = RS_BOOL; dtype <= RS_U64; dtype++)
        if (rs_json_scan_same(&name, rs_dtype_info(dtype)->name)) {
            entry->dtype = dtype;
            return RS_OK;
        }
    return rs_json_scan_fail(p, RS_E_ST_DTYPE, "the dtype '%s' of tensor '%s' is not known",
                             rs_show(name.data, name.length).text,
                             rs_show(entry->name, strlen(entry->name)).text);
}

static rs_status read_shape(rs_json_scan *p, rs_st_entry *entry)
{
    static const int64_t scalar[1];
    int64_t sizes[RS_MAX_RANK];
    uint32_t rank = 0;
    bool more;
    RS_TRY(rs_json_scan_enter(p, '[', "the shape as an array"));
    for (;; rank++) {
        uint64_t size;
        RS_TRY(rs_json_scan_element(p, rank == 0, &more));
        if (!more) break;
        if (rank == RS_MAX_RANK)
            return rs_json_scan_fail(p, RS_E_ST_RANK, "tensor '%s' has more than %d dimensions",
                                     rs_show(entry->name, strlen(entry->name)).text, RS_MAX_RANK);
        RS_TRY(rs_json_scan_u64(p, &size, "a size in shape"));
        memcpy(&sizes[rank], &size, sizeof size);
    }
    int64_t *shape = rank ? rs_arena_alloc(p->arena, rank, sizeof *shape) : NULL;
    if (rank && !shape) return rs_json_scan_no_memory(p);
    if (rank) memcpy(shape, sizes, rank * sizeof *shape);
    entry->rank = rank;
    entry->shape = rank ? shape : scalar;
    return RS_OK;
}

static rs_status read_offsets(rs_json_scan *p, rs_st_entry *entry)
{
    RS_TRY(rs_json_scan_enter(p, '[', "data_offsets as an array"));
    RS_TRY(rs_json_scan_u64(p, &entry->begin, "an integer in data_offsets"));
    RS_TRY(rs_json_scan_expect(p, ',', "',' and the second of two data_offsets"));
    RS_TRY(rs_json_scan_u64(p, &entry->end, "an integer in data_offsets"));
    RS_TRY(rs_json_scan_expect(p, ']', "']' behind two data_offsets"));
    p->depth--;
    return RS_OK;
}

static const struct member {
    const char *name;
    rs_status (*read)(rs_json_scan *p, rs_st_entry *entry);
} members[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
enum { MEMBERS = sizeof members / sizeof *members };

static rs_status read_member(rs_json_scan *p, rs_st_entry *entry, const rs_slice *key,
                             bool seen[MEMBERS], rs_strmap *unknown)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        if (!rs_json_scan_same(key, members[i].name)) continue;
        if (seen[i])
            return rs_json_scan_fail(p, RS_E_JSON_DUPLICATE_KEY,
                                     "'%s' of tensor '%s' is there twice", members[i].name,
                                     rs_show(entry->name, strlen(entry->name)).text);
        seen[i] = true;
        RS_TRY(rs_json_scan_expect(p, ':', "':'"));
        return members[i].read(p, entry);
    }
    RS_TRY(rs_json_scan_unique(p, unknown, key));
    RS_TRY(rs_json_scan_expect(p, ':', "':'"));
    return rs_json_scan_value(p);
}

static rs_status read_entry_members(rs_json_scan *p, rs_st_entry *entry, rs_strmap *unknown)
{
    bool seen[MEMBERS] = {false}, more;
    rs_slice key;
    RS_TRY(rs_json_scan_enter(p, '{', "an object {\"dtype\", \"shape\", \"data_offsets\"}"));
    for (bool first = true;; first = false) {
        RS_TRY(rs_json_scan_member(p, first, &more, &key));
        if (!more) break;
        RS_TRY(read_member(p, entry, &key, seen, unknown));
    }
    for (size_t i = 0; i < MEMBERS; i++)
        if (!seen[i])
            return rs_json_scan_fail(p, RS_E_ST_HEADER_JSON, "tensor '%s' has no '%s'",
                                     rs_show(entry->name, strlen(entry->name)).text,
                                     members[i].name);
    return RS_OK;
}

static rs_status read_name(rs_json_scan *p, rs_st_entry *entry, const rs_slice *key)
{
    if (key->length > RS_MAX_NAME)
        return rs_json_scan_fail(p, RS_E_TENSOR_NAME,
                                 "a tensor name of %zu bytes; at most %d are allowed", key->length,
                                 RS_MAX_NAME);
    if (memchr(key->data, 0, key->length))
        return rs_json_scan_fail(p, RS_E_TENSOR_NAME, "the tensor name '%s' holds a NUL character",
                                 rs_show(key->data, key->length).text);
    entry->name = rs_arena_strndup(p->arena, key->data, key->length);
    return entry->name ? RS_OK : rs_json_scan_no_memory(p);
}

static rs_status read_entry(rs_json_scan *p, rs_st_header *header, const rs_slice *key)
{
    if (header->n >= RS_MAX_TENSORS)
        return rs_json_scan_fail(p, RS_E_TOO_MANY_TENSORS, "more than %d tensors", RS_MAX_TENSORS);
    rs_st_entry entry = {0};
    RS_TRY(read_name(p, &entry, key));
    RS_TRY(rs_json_scan_expect(p, ':', "':'"));
    rs_strmap unknown = {0};
    rs_status status = read_entry_members(p, &entry, &unknown);
    rs_strmap_free(&unknown);
    if (status != RS_OK) return status;
    if (!RS_GROW(header->entries, header->n, header->capacity)) return rs_json_scan_no_memory(p);
    header->entries[header->n++] = entry;
    return RS_OK;
}

static rs_status read_header(rs_json_scan *p, rs_st_header *header)
{
    bool more, metadata_seen = false;
    rs_slice key;
    RS_TRY(rs_json_scan_enter(p, '{', "'{'"));
    for (bool first = true;; first = false) {
        RS_TRY(rs_json_scan_member(p, first, &more, &key));
        if (!more) break;
        if (!rs_json_scan_same(&key, "__metadata__")) {
            RS_TRY(read_entry(p, header, &key));
            continue;
        }
        if (metadata_seen)
            return rs_json_scan_fail(p, RS_E_ST_METADATA, "__metadata__ is there twice");
        metadata_seen = true;
        RS_TRY(rs_json_scan_expect(p, ':', "':'"));
        RS_TRY(read_metadata(p));
    }
    rs_json_scan_peek(p);
    if (p->at < p->length)
        return rs_json_scan_fail(p, RS_E_ST_HEADER_JSON,
                                 "something follows the end of the header's JSON");
    return RS_OK;
}

rs_status rs_st_header_parse(rs_st_header *header, rs_arena *arena, const char *path, rs_error *err)
{
    rs_json_scan p = {
        .text = header->text, .length = header->length, .arena = arena, .path = path, .err = err};
    rs_status status = read_header(&p, header);
    rs_buffer_free(&p.scratch);
    return status;
}

void rs_st_header_free(rs_st_header *header)
{
    rs_free(header->entries);
    *header = (rs_st_header){0};
}
