/* test_gguf.c: what the GGUF reader refuses in a header and in metadata, with which status and
 * words. Oracle: docs/formats.md, 6 and 9. Tensors are in test_gguf_tensors.c, what is accepted in
 * test_gguf_read.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf_builder.h"

#include <stdio.h>

/* ---- refused: header ---- */

static void refuses_an_empty_file(void **state)
{
    (void)state;
    rs_buffer b = {0};
    REFUSED(RS_E_EMPTY_FILE, "empty");
}

static void refuses_a_bad_magic(void **state)
{
    (void)state;
    static const char *const texts[] = {"G", "GGU", "GGML", "FUGG\0\0\0\3", "GGUf\3\0\0\0\0\0\0\0"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        rs_buffer b = {0};
        rs_buffer_puts(&b, texts[i]);
        REFUSED(RS_E_GGUF_MAGIC, "GGUF");
    }
}

static void refuses_a_git_lfs_pointer(void **state)
{
    (void)state;
    rs_buffer b = {0};
    rs_buffer_puts(&b, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
    REFUSED(RS_E_LFS_POINTER, "git lfs pull");
}

static void refuses_versions_0_1_and_4(void **state)
{
    (void)state;
    static const uint32_t versions[] = {0, 1, 4, 0xFFFFFFFF};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        rs_buffer b = {0};
        put_header(&b, versions[i], 0, 0);
        char text[32];
        snprintf(text, sizeof text, "version %u;", versions[i]);
        REFUSED(RS_E_GGUF_VERSION, text);
    }
}

static void refuses_a_big_endian_file_and_says_so(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 0x03000000, 0, 0);
    REFUSED(RS_E_GGUF_VERSION, "big-endian", "0x03000000", "gguf-convert-endian");
}

static void refuses_a_byte_swap_of_a_version_above_65535(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 0x03000100, 0, 0);
    REFUSED(RS_E_GGUF_VERSION, "50331904");
}

static void refuses_a_file_that_ends_in_the_header(void **state)
{
    (void)state;
    for (size_t length = 4; length < 24; length++) {
        rs_buffer b = {0};
        put_header(&b, 3, 0, 0);
        b.length = length;
        REFUSED(RS_E_GGUF_EOF, "ends at byte", "download");
    }
}

static void refuses_a_negative_number_of_tensors(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, UINT64_MAX, 0);
    put_zeros(&b, 100);
    REFUSED(RS_E_GGUF_COUNTS, "negative", "-1", "tensors");
}

static void refuses_a_negative_number_of_keys(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, (uint64_t)1 << 63);
    REFUSED(RS_E_GGUF_COUNTS, "negative", "metadata keys");
}

static void refuses_2_to_the_40_keys(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, (uint64_t)1 << 40);
    put_zeros(&b, 1000);
    REFUSED(RS_E_GGUF_COUNTS, "1099511627776 metadata keys", "1000 bytes");
}

static void refuses_more_tensors_than_the_file_can_hold(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 5, 0);
    put_zeros(&b, 5 * 24 - 1);
    REFUSED(RS_E_GGUF_COUNTS, "5 tensors", "119 bytes");
}

static void refuses_more_than_four_million_tensors(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 4000001, 0);
    size_t header = b.length, size = header + (size_t)4000001 * 24;
    char *large = rs_calloc(size, 1);
    assert_non_null(large);
    memcpy(large, b.data, header);
    rs_buffer_free(&b);
    b = (rs_buffer){.data = large, .length = size, .capacity = size};
    REFUSED(RS_E_TOO_MANY_TENSORS, "4000001", "4000000");
}

/* ---- refused: metadata ---- */

static void refuses_a_string_past_the_end(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.name", STRING);
    put(&b, 6, 8);
    rs_buffer_puts(&b, "hello");
    REFUSED(RS_E_GGUF_STRING, "general.name", "6 bytes", "5 are left");
}

static void refuses_a_key_past_the_end(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put(&b, UINT64_MAX - 7, 8);
    put_zeros(&b, 20);
    REFUSED(RS_E_GGUF_STRING, "key");
}

static void refuses_a_string_over_one_gibibyte(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "k", STRING);
    put(&b, ((uint64_t)1 << 30) + 1, 8);
    REFUSED(RS_E_GGUF_STRING, "1073741825", "at most 1073741824");
}

static void refuses_a_value_that_is_cut(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        int bytes;
    } cases[] = {{U8, 1},  {I8, 1},   {U16, 2}, {I16, 2}, {U32, 4}, {I32, 4},
                 {F32, 4}, {BOOL, 1}, {U64, 8}, {I64, 8}, {F64, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_buffer b = {0};
        put_header(&b, 3, 0, 1);
        put_key(&b, "some key", cases[i].type); /* long enough to pass the count's check */
        put_zeros(&b, (size_t)cases[i].bytes - 1);
        REFUSED(RS_E_GGUF_EOF, "'some key'");
    }
}

static void refuses_an_unknown_value_type(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "k", 13);
    put_zeros(&b, 16);
    REFUSED(RS_E_GGUF_VALUE_TYPE, "'k'", "type 13");
}

static void refuses_an_array_of_an_unknown_type(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", 4000000000, 0);
    REFUSED(RS_E_GGUF_VALUE_TYPE, "'k'", "4000000000");
}

static void refuses_an_array_of_2_to_the_31_strings(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_array(&b, "tokens", STRING, (uint64_t)1 << 31);
    put_zeros(&b, 4096);
    REFUSED(RS_E_GGUF_ARRAY, "'tokens'", "2147483648");
}

static void refuses_an_array_past_the_end(void **state)
{
    (void)state;
    static const struct {
        uint32_t type;
        size_t size;
    } cases[] = {{U8, 1}, {U16, 2}, {F32, 4}, {U64, 8}, {STRING, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_buffer b = {0};
        put_header(&b, 3, 0, 1);
        put_array(&b, "k", cases[i].type, 100);
        put_zeros(&b, 100 * cases[i].size - 1);
        REFUSED(RS_E_GGUF_ARRAY, "'k'", "100 elements");
    }
}

static void refuses_a_string_of_an_array_past_the_end(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", STRING, 2);
    put_string(&b, "one");
    put(&b, 4, 8);
    rs_buffer_puts(&b, "two");
    REFUSED(RS_E_GGUF_STRING, "4 bytes", "3 are left");
}

static void refuses_an_array_of_strings_that_are_cut(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", STRING, 2);
    put_string(&b, "long enough");
    REFUSED(RS_E_GGUF_EOF, "string of an array");
}

static void refuses_a_nested_array(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_array(&b, "k", ARRAY, 1);
    put(&b, U8, 4);
    put(&b, 1, 8);
    put(&b, 7, 1);
    REFUSED(RS_E_GGUF_ARRAY, "array of arrays");
}

static void refuses_a_duplicate_key(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 3);
    for (int i = 0; i < 3; i++) {
        put_key(&b, i == 1 ? "other" : "general.name", U8);
        put(&b, 1, 1);
    }
    REFUSED(RS_E_GGUF_KEY, "'general.name'", "key 3 of 3", "twice");
}

static void a_long_key_is_cut_between_characters(void **state)
{
    (void)state;
    rs_buffer b = {0}, key = {0};
    rs_buffer_puts(&key, "k");
    for (int i = 0; i < 100; i++) /* two bytes each: the cut at 80 falls inside the 40th */
        rs_buffer_puts(&key, "\xC3\xA9");
    put_header(&b, 3, 0, 1);
    put_key(&b, key.data, 13);
    key.data[79] = 0;
    char quoted[128];
    snprintf(quoted, sizeof quoted, "'%s'", key.data);
    rs_buffer_free(&key);
    REFUSED(RS_E_GGUF_VALUE_TYPE, quoted);
}

static void refuses_an_empty_key(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 0, 1);
    put_key(&b, "", U64);
    put_zeros(&b, 8);
    REFUSED(RS_E_GGUF_KEY, "key 1 of 1", "empty");
}

static void refuses_a_key_that_is_no_text(void **state)
{
    (void)state;
    static const char keys[2][4] = {"a\0b", "a\xFF!"};
    for (int i = 0; i < 2; i++) {
        rs_buffer b = {0};
        put_header(&b, 3, 0, 1);
        put_text(&b, keys[i], 3);
        put(&b, U8, 4);
        put(&b, 1, 1);
        REFUSED(RS_E_GGUF_KEY, "UTF-8");
    }
}

static void refuses_an_alignment(rs_buffer b, uint64_t value)
{
    char text[64];
    put_header(&b, 3, 0, 1);
    put_key(&b, "general.alignment", U32);
    put(&b, value, 4);
    snprintf(text, sizeof text, "general.alignment is %llu;", (unsigned long long)value);
    REFUSED(RS_E_GGUF_ALIGNMENT, text, "power of two");
}

static void refuses_alignment_0(void **state)
{
    (void)state;
    refuses_an_alignment((rs_buffer){0}, 0);
}

static void refuses_alignment_3(void **state)
{
    (void)state;
    refuses_an_alignment((rs_buffer){0}, 3);
}

static void refuses_alignment_2_to_the_31(void **state)
{
    (void)state;
    refuses_an_alignment((rs_buffer){0}, (uint64_t)1 << 31);
}

static void refuses_an_alignment_of_the_wrong_type(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {U8, I32, U64, F32, STRING, ARRAY, 99};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        rs_buffer b = {0};
        put_header(&b, 3, 0, 1);
        put_key(&b, "general.alignment", kinds[i]);
        put(&b, 32, 8);
        put_zeros(&b, 100);
        REFUSED(RS_E_GGUF_ALIGNMENT, "u32");
    }
}

/* Hostile counts must be found before memory is asked for: with all requests failing, they still
 * are. */
static void *no_memory(size_t size)
{
    (void)size;
    return NULL;
}

static void counts_are_checked_before_memory_is_asked_for(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rs_checkpoint *checkpoint;
        rs_error err;
        rs_buffer b = {0};
        put_header(&b, 3, i == 0 ? (uint64_t)1 << 40 : 0, i == 0 ? 0 : (uint64_t)1 << 40);
        assert_int_equal(open_bytes(&checkpoint, b.data, b.length, &err), RS_E_GGUF_COUNTS);
        json_set_alloc_funcs(no_memory, free);
        rs_memory_fail_at(1);
        rs_status status = rs_gguf_read(checkpoint, 0, &err);
        rs_memory_fail_at(0);
        json_set_alloc_funcs(malloc, free);
        assert_int_equal(status, RS_E_GGUF_COUNTS);
        close_bytes(checkpoint);
        rs_buffer_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_an_empty_file),
        cmocka_unit_test(refuses_a_bad_magic),
        cmocka_unit_test(refuses_a_git_lfs_pointer),
        cmocka_unit_test(refuses_versions_0_1_and_4),
        cmocka_unit_test(refuses_a_big_endian_file_and_says_so),
        cmocka_unit_test(refuses_a_byte_swap_of_a_version_above_65535),
        cmocka_unit_test(refuses_a_file_that_ends_in_the_header),
        cmocka_unit_test(refuses_a_negative_number_of_tensors),
        cmocka_unit_test(refuses_a_negative_number_of_keys),
        cmocka_unit_test(refuses_2_to_the_40_keys),
        cmocka_unit_test(refuses_more_tensors_than_the_file_can_hold),
        cmocka_unit_test(refuses_more_than_four_million_tensors),
        cmocka_unit_test(refuses_a_string_past_the_end),
        cmocka_unit_test(refuses_a_key_past_the_end),
        cmocka_unit_test(refuses_a_string_over_one_gibibyte),
        cmocka_unit_test(refuses_a_value_that_is_cut),
        cmocka_unit_test(refuses_an_unknown_value_type),
        cmocka_unit_test(refuses_an_array_of_an_unknown_type),
        cmocka_unit_test(refuses_an_array_of_2_to_the_31_strings),
        cmocka_unit_test(refuses_an_array_past_the_end),
        cmocka_unit_test(refuses_a_string_of_an_array_past_the_end),
        cmocka_unit_test(refuses_an_array_of_strings_that_are_cut),
        cmocka_unit_test(refuses_a_nested_array),
        cmocka_unit_test(refuses_a_duplicate_key),
        cmocka_unit_test(a_long_key_is_cut_between_characters),
        cmocka_unit_test(refuses_an_empty_key),
        cmocka_unit_test(refuses_a_key_that_is_no_text),
        cmocka_unit_test(refuses_alignment_0),
        cmocka_unit_test(refuses_alignment_3),
        cmocka_unit_test(refuses_alignment_2_to_the_31),
        cmocka_unit_test(refuses_an_alignment_of_the_wrong_type),
        cmocka_unit_test(counts_are_checked_before_memory_is_asked_for),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
