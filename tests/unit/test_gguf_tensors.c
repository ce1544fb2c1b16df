/* test_gguf_tensors.c: what the GGUF reader refuses in a list of tensors, with which status and
 * words. Oracle: docs/formats.md, 6 and 9. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gguf_builder.h"

/* ---- refused: tensors ---- */

static void refuses_five_dimensions(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(5, NE(1, 1, 1, 1, 1), 0, 0, 32);
    REFUSED(RS_E_GGUF_DIMS, "'blk.0.attn_q.weight'", "5 dimensions");
}

static void refuses_2_to_the_32_minus_1_dimensions(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 1, 0);
    put_string(&b, "x");
    put(&b, UINT32_MAX, 4);
    put_zeros(&b, 64);
    REFUSED(RS_E_GGUF_DIMS, "4294967295");
}

static void refuses_a_negative_dimension(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(2, NE(4, UINT64_MAX), 0, 0, 32);
    REFUSED(RS_E_GGUF_DIMS, "dimension 1", "-1");
}

static void refuses_a_product_of_dimensions_that_overflows(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(2, NE((uint64_t)1 << 32, (uint64_t)1 << 31), 0, 0, 32);
    REFUSED(RS_E_GGUF_OVERFLOW, "elements");
    b = one_tensor(3, NE((uint64_t)1 << 62, 0, 4), 0, 0, 32); /* a 0 does not hide it */
    REFUSED(RS_E_GGUF_OVERFLOW, "elements");
}

static void refuses_a_byte_size_that_overflows(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(1, NE((uint64_t)1 << 61), 28, 0, 32); /* F64 */
    REFUSED(RS_E_GGUF_OVERFLOW, "bytes");
}

static void refuses_a_total_size_that_overflows(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 3, 0);
    for (uint64_t i = 0; i < 3; i++) /* 2^63 bytes of F32 each, from offsets that are right */
        put_tensor(&b, i == 0 ? "a" : i == 1 ? "b" : "c", 1, NE((uint64_t)1 << 61), 0, i << 63);
    REFUSED(RS_E_GGUF_OVERFLOW, "'b'");
}

static void refuses_padding_that_overflows(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(1, NE(INT64_MAX), 1, 0, 32); /* F16: 2^64 - 2 bytes */
    REFUSED(RS_E_GGUF_OVERFLOW, "offset");
}

static void refuses_rows_that_are_no_whole_blocks(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(2, NE(48, 2), 2, 0, 54); /* Q4_0: 96 = 3 blocks, but rows of 1.5 */
    REFUSED(RS_E_GGUF_BLOCK, "Q4_0", "32", "48");
    b = one_tensor(1, NE(128), 12, 0, 72); /* Q4_K */
    REFUSED(RS_E_GGUF_BLOCK, "Q4_K", "256", "128");
    b = one_tensor(0, NULL, 8, 0, 34); /* a scalar of Q8_0 */
    REFUSED(RS_E_GGUF_BLOCK, "Q8_0");
    b = one_tensor(1, NE(32), 16, 0, 34); /* IQ2_XXS, which is not decoded */
    REFUSED(RS_E_GGUF_BLOCK, "IQ2_XXS");
}

static rs_buffer two_tensors(uint64_t second, uint32_t first_type)
{
    rs_buffer b = {0};
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "a", 1, NE(9), first_type, 0);
    put_tensor(&b, "b", 1, NE(2), 0, second);
    put_padding(&b, 32);
    put_zeros(&b, 128);
    return b;
}

static void refuses_a_gap(void **state)
{
    (void)state;
    rs_buffer b = two_tensors(96, 0); /* 36 bytes of "a" take 64 with their padding */
    REFUSED(RS_E_GGUF_OFFSET, "'b'", "96", "64", "gap");
    b = one_tensor(1, NE(2), 0, 32, 64);
    REFUSED(RS_E_GGUF_OFFSET, "gap");
}

static void refuses_an_overlap(void **state)
{
    (void)state;
    rs_buffer b = two_tensors(32, 0);
    REFUSED(RS_E_GGUF_OFFSET, "'b'", "32", "64", "overlap");
    b = two_tensors(0, 0);
    REFUSED(RS_E_GGUF_OFFSET, "overlap");
}

static void refuses_an_offset_without_padding(void **state)
{
    (void)state;
    rs_buffer b = two_tensors(36, 0);
    REFUSED(RS_E_GGUF_OFFSET, "'b'", "36");
}

static void refuses_an_offset_not_behind_a_tensor_of_unknown_type(void **state)
{
    (void)state;
    rs_buffer b = two_tensors(0, 4);
    REFUSED(RS_E_GGUF_OFFSET, "'b'");
    b = two_tensors(40, 4); /* behind, but not aligned */
    REFUSED(RS_E_GGUF_OFFSET, "multiple of 32");
}

static void refuses_a_type_number_beyond_int32(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(1, NE(4), 0x80000000u, 0, 32);
    REFUSED(RS_E_TENSOR_DTYPE, "2147483648");
}

static void refuses_a_name_of_64_bytes(void **state)
{
    (void)state;
    char name[64];
    memset(name, 'n', sizeof name);
    rs_buffer b = named(name, sizeof name);
    REFUSED(RS_E_GGUF_TENSOR_NAME, "64 bytes", "at most 63");
}

static void refuses_a_name_that_is_no_text(void **state)
{
    (void)state;
    rs_buffer b = named("a\0b", 3);
    REFUSED(RS_E_GGUF_TENSOR_NAME, "UTF-8");
    b = named("a\xC3", 2);
    REFUSED(RS_E_GGUF_TENSOR_NAME, "UTF-8");
}

static void refuses_a_duplicate_tensor(void **state)
{
    (void)state;
    rs_checkpoint *checkpoint;
    rs_error err;
    rs_buffer b = {0};
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "same", 1, NE(8), 0, 0);
    put_tensor(&b, "same", 1, NE(8), 0, 32);
    put_padding(&b, 32);
    put_zeros(&b, 64);
    assert_int_equal(open_bytes(&checkpoint, b.data, b.length, &err), RS_E_DUPLICATE_TENSOR);
    close_bytes(checkpoint);
    rs_buffer_free(&b);
}

static void refuses_a_tensor_list_that_is_cut(void **state)
{
    (void)state;
    rs_buffer whole = {0};
    put_header(&whole, 3, 1, 0);
    put_tensor(&whole, "a longer name", 2, NE(1, 1), 0, 0);
    /* from the byte on where the count can no longer be told to be wrong */
    for (size_t length = 24 + 24; length < whole.length; length++) {
        rs_buffer b = {0};
        rs_buffer_append(&b, whole.data, length);
        REFUSED(RS_E_GGUF_EOF, "a tensor's");
    }
    rs_buffer_free(&whole);
}

static void refuses_truncated_data(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(2, NE(256, 3), 12, 0, 3 * 144 - 1);
    REFUSED(RS_E_GGUF_TRUNCATED, "need 432", "partial download");
    b = one_tensor(1, NE(1), 0, 0, 0);
    REFUSED(RS_E_GGUF_TRUNCATED, "need 4");
    b = one_tensor(1, NE(1), 0, 0, 0);
    b.length -= 1; /* within the padding before the data */
    REFUSED(RS_E_GGUF_TRUNCATED, "need 4");
    b = one_tensor(1, NE((uint64_t)1 << 60), 0, 0, 100);
    REFUSED(RS_E_GGUF_TRUNCATED, "4611686018427387904");
}

static void refuses_truncated_data_of_an_unknown_type(void **state)
{
    (void)state;
    rs_buffer b = one_tensor(1, NE(7), 77, 0, 0);
    REFUSED(RS_E_GGUF_TRUNCATED, "more than 0");
    b = one_tensor(1, NE(7), 77, 0, 0);
    b.length -= 1;
    REFUSED(RS_E_GGUF_TRUNCATED, "more than 0");
}

/* Found by fuzzing: the empty tensor needs no bytes,
 * but the one before it is said to reach there. */
static void refuses_truncated_data_of_an_unknown_type_before_an_empty_tensor(void **state)
{
    (void)state;
    rs_buffer b = {0};
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "unknown", 1, NE(3), 4, 0);
    put_tensor(&b, "empty", 1, NE(0), 0, (uint64_t)1 << 40);
    put_padding(&b, 32);
    put_zeros(&b, 100);
    REFUSED(RS_E_GGUF_TRUNCATED, "1099511627776");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_five_dimensions),
        cmocka_unit_test(refuses_2_to_the_32_minus_1_dimensions),
        cmocka_unit_test(refuses_a_negative_dimension),
        cmocka_unit_test(refuses_a_product_of_dimensions_that_overflows),
        cmocka_unit_test(refuses_a_byte_size_that_overflows),
        cmocka_unit_test(refuses_a_total_size_that_overflows),
        cmocka_unit_test(refuses_padding_that_overflows),
        cmocka_unit_test(refuses_rows_that_are_no_whole_blocks),
        cmocka_unit_test(refuses_a_gap),
        cmocka_unit_test(refuses_an_overlap),
        cmocka_unit_test(refuses_an_offset_without_padding),
        cmocka_unit_test(refuses_an_offset_not_behind_a_tensor_of_unknown_type),
        cmocka_unit_test(refuses_a_type_number_beyond_int32),
        cmocka_unit_test(refuses_a_name_of_64_bytes),
        cmocka_unit_test(refuses_a_name_that_is_no_text),
        cmocka_unit_test(refuses_a_duplicate_tensor),
        cmocka_unit_test(refuses_a_tensor_list_that_is_cut),
        cmocka_unit_test(refuses_truncated_data),
        cmocka_unit_test(refuses_truncated_data_of_an_unknown_type),
        cmocka_unit_test(refuses_truncated_data_of_an_unknown_type_before_an_empty_tensor),
    };
    return cmocka_run_group_tests_name("gguf_tensors", tests, NULL, NULL);
}
