/*
 * safetensors.c: reads the header of a safetensors file.
 *
 *   byte 0     u64 little-endian N
 *   byte 8     N bytes of UTF-8 JSON, first byte '{', may be padded with white space behind
 *   byte 8+N   tensor data to the end of the file
 *
 * The checks and their order are those of the reference reader (huggingface/safetensors,
 * tensor.rs); see docs/formats.md, 1. The header may have 100 MB and millions of entries, so it is
 * read by the schema's own small parser (safetensors_header.c) in linear time.
 */
#include "checkpoint/safetensors_header.h"

#include "checkpoint/open.h"

#include <string.h>

#define MAX_HEADER UINT64_C(100000000) /* decimal, as in the reference */

static uint64_t load_u64(const uint8_t *p)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

/* Rules 1 to 4. */
static rs_status find_header(rs_st_header *header, const rs_mapping *mapping, rs_error *err)
{
    const char *path = mapping->path;
    if (mapping->size < 8)
        return rs_fail(err, RS_E_ST_HEADER_TOO_SMALL, path,
                       "the file is incomplete: fetch it again",
                       "has %zu bytes; a safetensors file begins with 8 bytes of header length",
                       mapping->size);
    uint64_t length = load_u64(mapping->data);
    if (length > MAX_HEADER)
        return rs_fail(err, RS_E_ST_HEADER_TOO_LARGE, path, "this is probably no safetensors file",
                       "its first 8 bytes give a header of %llu bytes; at most %llu are allowed",
                       (unsigned long long)length, (unsigned long long)MAX_HEADER);
    if (length > mapping->size - 8)
        return rs_fail(err, RS_E_ST_HEADER_LENGTH, path, "the file is incomplete: fetch it again",
                       "the header should have %llu bytes but only %zu follow",
                       (unsigned long long)length, mapping->size - 8);
    header->text = (const char *)mapping->data + 8;
    header->length = (size_t)length;
    if (!rs_utf8_valid(header->text, header->length))
        return rs_fail(err, RS_E_ST_HEADER_UTF8, path, NULL, "the header is not valid UTF-8");
    if (length == 0 || header->text[0] != '{')
        return rs_fail(err, RS_E_ST_HEADER_START, path, NULL,
                       length ? "the header does not begin with '{'" : "the header is empty");
    return RS_OK;
}

/* ---- order by offset ---- */

typedef struct sort_key {
    uint64_t begin, end;
    size_t index; /* in the header: equal ranges (zero-size tensors) keep the header's order */
} sort_key;

static bool in_order(const sort_key *a, const sort_key *b)
{
    if (a->begin != b->begin) return a->begin < b->begin;
    return a->end <= b->end;
}

/* Bottom-up merge sort: stable, and n log n for every input, which qsort does not promise. The
 * result is in *keys; both arrays hold n keys. */
static void merge_sort(sort_key **keys, sort_key **spare, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t left = 0; left < n; left += 2 * width) {
            size_t middle = n - left < width ? n : left + width;
            size_t right = n - middle < width ? n : middle + width;
            size_t i = left, j = middle;
            for (size_t k = left; k < right; k++) {
                bool first = j == right || (i < middle && in_order(*keys + i, *keys + j));
                (*spare)[k] = (*keys)[first ? i++ : j++];
            }
        }
        sort_key *swap = *keys;
        *keys = *spare, *spare = swap;
    }
}

/* The order of the header's entries by (begin, end), into keys (n of them, n more to spare). */
static void order_entries(sort_key **keys, sort_key **spare, const rs_st_header *header)
{
    bool sorted = true;
    for (size_t i = 0; i < header->n; i++) {
        const rs_st_entry *entry = &header->entries[i];
        (*keys)[i] = (sort_key){entry->begin, entry->end, i};
        if (i > 0 && !in_order(*keys + i - 1, *keys + i)) sorted = false;
    }
    if (!sorted) merge_sort(keys, spare, header->n);
}

/* Adds all tensors by offset, so that a name used twice is refused before any offset is looked at:
 * rule 5 comes before rule 6. They have no data yet. */
static rs_status add_in_order(rs_checkpoint *checkpoint, const rs_st_header *header,
                              const sort_key *keys, uint32_t file, rs_error *err)
{
    for (size_t i = 0; i < header->n; i++) {
        const rs_st_entry *entry = &header->entries[keys[i].index];
        rs_tensor tensor = {.name = entry->name,
                            .dtype = entry->dtype,
                            .rank = entry->rank,
                            .shape = entry->shape,
                            .file = file,
                            .type_id = -1};
        RS_TRY(rs_checkpoint_add(checkpoint, &tensor, err));
    }
    return RS_OK;
}

/* ---- rules 6 to 10 ---- */

static rs_status tensor_bits(uint64_t *bits, rs_tensor *tensor, const char *path, rs_error *err)
{
    const rs_dtype_traits *traits = rs_dtype_info(tensor->dtype);
    uint64_t count = 1;
    bool fits = true;
    for (uint32_t i = 0; i < tensor->rank && fits; i++)
        fits = tensor->shape[i] >= 0 &&
               !__builtin_mul_overflow(count, (uint64_t)tensor->shape[i], &count);
    /* F4 and F6 blocks hold several elements: bits of one */
    if (!fits || __builtin_mul_overflow(count, (uint64_t)(traits->bits / traits->block), bits))
        return rs_fail(err, RS_E_ST_OVERFLOW, path, NULL,
                       "the size of tensor '%s' (%s, %u dimensions) does not fit in 64 bits",
                       rs_show(tensor->name, strlen(tensor->name)).text, traits->name,
                       tensor->rank);
    tensor->count = (int64_t)count;
    return RS_OK;
}

static rs_status check_tensor(rs_tensor *tensor, const sort_key *range, uint64_t previous_end,
                              const char *path, rs_error *err)
{
    unsigned long long begin = range->begin, end = range->end;
    if (range->begin != previous_end || range->end < range->begin) {
        const char *why = range->end < range->begin     ? "they run backwards"
                          : range->begin > previous_end ? "a hole is before them"
                                                        : "they overlap another tensor";
        return rs_fail(err, RS_E_ST_OFFSETS, path, "the file is damaged or was made to mislead",
                       "data_offsets [%llu, %llu] of tensor '%s' are wrong: %s (expected to begin "
                       "at %llu)",
                       begin, end, rs_show(tensor->name, strlen(tensor->name)).text, why,
                       (unsigned long long)previous_end);
    }
    uint64_t bits = 0;
    RS_TRY(tensor_bits(&bits, tensor, path, err));
    const char *dtype = rs_dtype_info(tensor->dtype)->name;
    if (bits % 8 != 0)
        return rs_fail(err, RS_E_ST_MISALIGNED, path, NULL,
                       "the %lld elements of tensor '%s' in %s do not end at a byte (%llu bits)",
                       (long long)tensor->count, rs_show(tensor->name, strlen(tensor->name)).text,
                       dtype, (unsigned long long)bits);
    if (bits / 8 != range->end - range->begin)
        return rs_fail(err, RS_E_ST_SIZE, path, "the file is damaged or was made to mislead",
                       "tensor '%s' (%lld elements of %s) needs %llu bytes but its data_offsets "
                       "[%llu, %llu] hold %llu",
                       rs_show(tensor->name, strlen(tensor->name)).text, (long long)tensor->count,
                       dtype, (unsigned long long)bits / 8, begin, end, end - begin);
    return RS_OK;
}

static rs_status check_end(rs_checkpoint *checkpoint, const rs_mapping *mapping,
                           uint64_t data_begin, uint64_t end, bool lenient, rs_error *err)
{
    uint64_t available = mapping->size - data_begin;
    if (end > available)
        return rs_fail(err, RS_E_ST_INCOMPLETE, mapping->path,
                       "the download or the copy stopped early: fetch the file again",
                       "the tensors need %llu bytes of data but the file has only %llu",
                       (unsigned long long)end, (unsigned long long)available);
    if (end == available) return RS_OK;
    unsigned long long extra = available - end;
    if (!lenient)
        return rs_fail(err, RS_E_ST_TRAILING, mapping->path,
                       "--lenient reads the file and ignores them",
                       "%llu bytes follow the last tensor", extra);
    if (!rs_notes_add(&checkpoint->notes, RS_WARN, "trailing_bytes", NULL,
                      "%s: %llu bytes behind the last tensor are ignored (--lenient)",
                      rs_path_name(mapping->path), extra))
        return rs_fail_memory(err, mapping->path, 0);
    return RS_OK;
}

/* Checks tensors [first, n_tensors) and points them at their data. */
static rs_status place_tensors(rs_checkpoint *checkpoint, size_t first, const sort_key *keys,
                               const rs_mapping *mapping, uint64_t data_begin, bool lenient,
                               rs_error *err)
{
    uint64_t end = 0;
    for (size_t i = first; i < checkpoint->n_tensors; i++) {
        const sort_key *range = &keys[i - first];
        RS_TRY(check_tensor(&checkpoint->tensors[i], range, end, mapping->path, err));
        end = range->end;
    }
    RS_TRY(check_end(checkpoint, mapping, data_begin, end, lenient, err));
    for (size_t i = first; i < checkpoint->n_tensors; i++) {
        const sort_key *range = &keys[i - first];
        checkpoint->tensors[i].data = mapping->data + data_begin + range->begin;
        checkpoint->tensors[i].bytes = range->end - range->begin;
    }
    return RS_OK;
}

static rs_status read_tensors(rs_checkpoint *checkpoint, uint32_t file, const rs_st_header *header,
                              bool lenient, rs_error *err)
{
    const rs_mapping *mapping = checkpoint->files[file].mapping;
    sort_key *keys = rs_malloc(header->n, sizeof *keys);
    sort_key *spare = rs_malloc(header->n, sizeof *spare);
    rs_status status = RS_OK;
    if (!keys || !spare) status = rs_fail_memory(err, mapping->path, header->n * sizeof *keys);
    size_t first = checkpoint->n_tensors;
    if (status == RS_OK) {
        order_entries(&keys, &spare, header);
        status = add_in_order(checkpoint, header, keys, file, err);
    }
    if (status == RS_OK)
        status = place_tensors(checkpoint, first, keys, mapping, header->length + 8, lenient, err);
    rs_free(keys);
    rs_free(spare);
    return status;
}

rs_status rs_safetensors_read(rs_checkpoint *checkpoint, uint32_t file,
                              const rs_checkpoint_options *options, rs_error *err)
{
    const rs_mapping *mapping = checkpoint->files[file].mapping;
    rs_content content;
    RS_TRY(rs_content_check(&content, mapping, err));
    rs_st_header header = {0};
    RS_TRY(find_header(&header, mapping, err));
    rs_status status = rs_st_header_parse(&header, checkpoint->arena, mapping->path, err);
    if (status == RS_OK)
        status = read_tensors(checkpoint, file, &header, options && options->lenient, err);
    rs_st_header_free(&header);
    return status;
}
