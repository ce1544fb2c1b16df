/* test_decode_float.c: every code of the small float types, halves, integers, and stretches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "property.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t canonical(float value)
{
    return isnan(value) ? 0x7FC00000u : bits_of(value);
}

static rs_dtype dtype_named(const char *name)
{
    for (rs_dtype dtype = RS_BOOL; dtype < RS_DTYPE_COUNT; dtype++)
        if (strcmp(rs_dtype_info(dtype)->name, name) == 0) return dtype;
    fail_msg("no dtype %s", name);
    return RS_DTYPE_UNKNOWN;
}

/* One code alone in a block of zeros, at each place of the block. */
static void check_code(rs_dtype dtype, unsigned code, uint32_t expected)
{
    const rs_dtype_traits *traits = rs_dtype_info(dtype);
    unsigned width = traits->bits / traits->block;
    for (unsigned place = 0; place < traits->block; place++) {
        uint32_t word = code << (place * width);
        uint8_t source[4];
        float out[4];
        memcpy(source, &word, 4);
        traits->decode_f32(out, source, 1);
        if (canonical(out[place]) != expected)
            fail_msg("%s code %u at %u: %08x instead of %08x", traits->name, code, place,
                     bits_of(out[place]), expected);
    }
}

/* Golden: ml_dtypes and torch (tests/oracle/make_dtype_golden.py). */
static void every_code_of_the_small_types(void **state)
{
    (void)state;
    FILE *file = fopen(RS_TEST_DATA "/dtypes/codes.txt", "r");
    assert_non_null(file);
    char name[32];
    unsigned code, expected;
    int n = 0;
    for (; fscanf(file, "%31s %u %x", name, &code, &expected) == 3; n++)
        check_code(dtype_named(name), code, expected);
    fclose(file);
    assert_int_equal(n, 5 * 256 + 2 * 64 + 16);
}

/* The definition of an IEEE half: (-1)^s * 2^(e-15) * (1 + f/1024), or 2^-14 * f/1024. */
static double half_by_definition(unsigned code)
{
    int exponent = code >> 10 & 31, fraction = code & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(1024 + fraction, exponent - 25);
    return code >> 15 ? -value : value;
}

static uint64_t checksum(const float *values, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        for (int byte = 0; byte < 4; byte++)
            h = (h ^ (canonical(values[i]) >> (8 * byte) & 0xFF)) * 0x100000001b3u;
    return h;
}

static uint16_t all_codes[65536];
static float decoded[65536], plain[65536];

static void every_half_and_bfloat(void **state)
{
    (void)state;
    unsigned long long f16, bf16;
    FILE *file = fopen(RS_TEST_DATA "/dtypes/half.txt", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "F16 %llx BF16 %llx", &f16, &bf16), 2);
    fclose(file);
    for (unsigned i = 0; i < 65536; i++)
        all_codes[i] = (uint16_t)i;
    rs_decode_f16(decoded, (const uint8_t *)all_codes, 65536);
    for (unsigned i = 0; i < 65536; i++)
        if (canonical(decoded[i]) != canonical((float)half_by_definition(i)))
            fail_msg("half %04x: %a", i, (double)decoded[i]);
    assert_true(checksum(decoded, 65536) == f16);
    rs_decode_f16_plain(plain, (const uint8_t *)all_codes, 65536);
    assert_memory_equal(plain, decoded, sizeof plain); /* NaN payloads too */
    rs_decode_bf16(decoded, (const uint8_t *)all_codes, 65536);
    for (uint32_t i = 0; i < 65536; i++)
        assert_int_equal(bits_of(decoded[i]), i << 16);
    assert_true(checksum(decoded, 65536) == bf16);
}

/* Any length and alignment gives what a whole aligned run gives. */
static void halves_of_any_length_and_alignment(void **state)
{
    (void)state;
    static uint8_t shifted[2 * 64 + 8];
    float out[64 + 1];
    for (size_t offset = 0; offset < 5; offset++)
        for (size_t n = 0; n <= 64; n++) {
            memcpy(shifted + offset, all_codes + 15000, 2 * n);
            out[n] = 12345;
            rs_decode_f16(out, shifted + offset, n);
            rs_decode_f16_plain(plain, (const uint8_t *)(all_codes + 15000), n);
            assert_memory_equal(out, plain, n * sizeof *out);
            assert_true(out[n] == 12345);
        }
}

static void check_integer(rs_dtype dtype, const void *stored, double expected)
{
    rs_tensor tensor = {.dtype = dtype, .count = 1, .data = stored};
    double wide = 0;
    float narrow = 0;
    rs_tensor_decode_f64(&wide, &tensor, 0, 1);
    rs_tensor_decode_f32(&narrow, &tensor, 0, 1);
    assert_true(wide == expected);
    assert_true(narrow == (float)expected);
}

static void integers_and_wide_floats(void **state)
{
    (void)state;
    check_integer(RS_BOOL, &(uint8_t){1}, 1);
    check_integer(RS_BOOL, &(uint8_t){0}, 0);
    check_integer(RS_U8, &(uint8_t){255}, 255);
    check_integer(RS_I8, &(int8_t){-128}, -128);
    check_integer(RS_I16, &(int16_t){-32768}, -32768);
    check_integer(RS_U16, &(uint16_t){65535}, 65535);
    check_integer(RS_I32, &(int32_t){INT32_MIN}, -0x1p31);
    check_integer(RS_U32, &(uint32_t){UINT32_MAX}, 4294967295.0);
    check_integer(RS_I64, &(int64_t){INT64_MIN}, -0x1p63);
    check_integer(RS_I64, &(int64_t){(INT64_C(1) << 53) + 1}, 0x1p53);
    check_integer(RS_U64, &(uint64_t){UINT64_MAX}, 0x1p64);
    check_integer(RS_F64, &(double){1.0 + 0x1p-40}, 1.0 + 0x1p-40);
    check_integer(RS_F64, &(double){1e300}, 1e300); /* float32: infinity, as a cast gives */
    check_integer(RS_F32, &(float){0x1p-149f}, 0x1p-149);
}

/* A stretch [first, first+count) equals the same part of the whole, as floats and as doubles. */
static void any_stretch_of_any_type(void **state)
{
    (void)state;
    enum { N = 3072 };
    static uint8_t bytes[8 * N + 1];
    static float whole[N], part[N];
    static double wide[N];
    rs_random random = rs_random_new(7, 1);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(rs_random_uniform(&random) * 256);
    for (rs_dtype dtype = RS_BOOL; dtype <= RS_U64; dtype++) {
        if (!rs_dtype_decodable(dtype)) continue;
        rs_tensor tensor = {.dtype = dtype, .count = N, .data = bytes + 1};
        const rs_dtype_traits *traits = rs_dtype_info(dtype);
        if (traits->decode_f32)
            traits->decode_f32(whole, bytes + 1, N / traits->block);
        else
            traits->decode_f64(wide, bytes + 1, N);
        for (size_t i = 0; i < N && !traits->decode_f32; i++)
            whole[i] = (float)wide[i];
        for (int trial = property_start(60, 7000000); property_next(&trial);) {
            rs_random drawn = property_random();
            int64_t first = (int64_t)(rs_random_uniform(&drawn) * N);
            int64_t count = (int64_t)(rs_random_uniform(&drawn) * (double)(N - first + 1));
            rs_tensor_decode_f32(part, &tensor, first, count);
            assert_memory_equal(part, whole + first, (size_t)count * sizeof *part);
            rs_tensor_decode_f64(wide, &tensor, first, count);
            for (int64_t i = 0; i < count; i++)
                assert_int_equal(canonical((float)wide[i]), canonical(whole[first + i]));
        }
    }
}

static void names_and_epsilons(void **state)
{
    (void)state;
    assert_false(rs_dtype_decodable(RS_C64));
    assert_false(rs_dtype_decodable(RS_DTYPE_UNKNOWN));
    assert_true(rs_dtype_epsilon(RS_F64) == 0x1p-52);
    assert_true(rs_dtype_epsilon(RS_BF16) == 0x1p-23);
    assert_string_equal(rs_dtype_info(RS_F8_E4M3FNUZ)->name, "F8_E4M3FNUZ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_of_the_small_types),
        cmocka_unit_test(every_half_and_bfloat),
        cmocka_unit_test(halves_of_any_length_and_alignment),
        cmocka_unit_test(integers_and_wide_floats),
        cmocka_unit_test(any_stretch_of_any_type),
        cmocka_unit_test(names_and_epsilons),
    };
    return cmocka_run_group_tests_name("decode_float", tests, NULL, NULL);
}
