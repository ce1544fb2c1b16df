/* test_decode_gguf.c: GGUF blocks to floats, bit for bit, against gguf.quants.dequantize of the
 * Python package gguf (tests/oracle/make_gguf_golden.py); quantisation steps against differences
 * between the values that an element can take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "gguf_builder.h"
#include "property.h"

#include <math.h>
#include <stdio.h>

/* Every type of GGUF blocks that is decoded. For the steps: how to write the code of element i. */
typedef void set_code_fn(uint8_t *block, int i, unsigned code);

static void set_nibble(uint8_t *qs, int i, unsigned code)
{
    unsigned shift = i % 32 < 16 ? 0 : 4;
    uint8_t *q = &qs[i / 32 * 16 + i % 16];
    *q = (uint8_t)((*q & ~(15u << shift)) | (code & 15) << shift);
}

static void set_bits(uint8_t *byte, int shift, unsigned width, unsigned code)
{
    unsigned mask = ((1u << width) - 1) << shift;
    *byte = (uint8_t)((*byte & ~mask) | ((code << shift) & mask));
}

static void set_q4_0(uint8_t *b, int i, unsigned code)
{
    set_nibble(b + 2, i, code);
}
static void set_q4_1(uint8_t *b, int i, unsigned code)
{
    set_nibble(b + 4, i, code);
}
static void set_q5_0(uint8_t *b, int i, unsigned code)
{
    set_nibble(b + 6, i, code);
    set_bits(b + 2 + i / 8, i % 8, 1, code >> 4);
}
static void set_q5_1(uint8_t *b, int i, unsigned code)
{
    set_nibble(b + 8, i, code);
    set_bits(b + 4 + i / 8, i % 8, 1, code >> 4);
}
static void set_q8_0(uint8_t *b, int i, unsigned code)
{
    b[2 + i] = (uint8_t)(code + 128);
}
static void set_mxfp4(uint8_t *b, int i, unsigned code)
{
    set_nibble(b + 1, i, code);
}
static void set_iq4_xs(uint8_t *b, int i, unsigned code)
{
    set_nibble(b + 8, i, code);
}
static void set_q2_k(uint8_t *b, int i, unsigned code)
{
    set_bits(b + 16 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2, code);
}
static void set_q3_k(uint8_t *b, int i, unsigned code)
{
    set_bits(b + 32 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2, code);
    set_bits(b + i % 32, i / 32, 1, code >> 2);
}
static void set_q4_k(uint8_t *b, int i, unsigned code)
{
    set_bits(b + 16 + i / 64 * 32 + i % 32, i % 64 / 32 * 4, 4, code);
}
static void set_q5_k(uint8_t *b, int i, unsigned code)
{
    set_bits(b + 48 + i / 64 * 32 + i % 32, i % 64 / 32 * 4, 4, code);
    set_bits(b + 16 + i % 32, i / 32, 1, code >> 4);
}
static void set_q6_k(uint8_t *b, int i, unsigned code)
{
    set_bits(b + i / 128 * 64 + i % 64, i % 128 / 64 * 4, 4, code);
    set_bits(b + 128 + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 2, code >> 4);
}

/* `scales`: offsets of half-precision scales, -1 for none. */
static const struct kind {
    rs_dtype dtype;
    int scales[2];
    unsigned codes;
    set_code_fn *set;
} kinds[] = {
    {RS_Q4_0, {0, -1}, 16, set_q4_0},     {RS_Q4_1, {0, 2}, 16, set_q4_1},
    {RS_Q5_0, {0, -1}, 32, set_q5_0},     {RS_Q5_1, {0, 2}, 32, set_q5_1},
    {RS_Q8_0, {0, -1}, 256, set_q8_0},    {RS_IQ4_NL, {0, -1}, 16, set_q4_0},
    {RS_MXFP4, {-1, -1}, 16, set_mxfp4},  {RS_Q2_K, {80, 82}, 4, set_q2_k},
    {RS_Q3_K, {108, -1}, 8, set_q3_k},    {RS_Q4_K, {0, 2}, 16, set_q4_k},
    {RS_Q5_K, {0, 2}, 32, set_q5_k},      {RS_Q6_K, {208, -1}, 64, set_q6_k},
    {RS_IQ4_XS, {0, -1}, 16, set_iq4_xs},
};
enum { KINDS = sizeof kinds / sizeof *kinds, MAX_BLOCK = 256, MAX_BYTES = 256 };

static void set_half(uint8_t *p, uint32_t half)
{
    p[0] = (uint8_t)half;
    p[1] = (uint8_t)(half >> 8);
}

/* The value of the elements of one block, at an odd address. */
static void decode(float *out, const struct kind *kind, const uint8_t *block)
{
    const rs_dtype_traits *traits = rs_dtype_info(kind->dtype);
    uint8_t moved[MAX_BYTES + 1];
    memcpy(moved + 1, block, traits->bits / 8);
    traits->decode_f32(out, moved + 1, 1);
}

/* ---- values ---- */

static float *read_expected(size_t *count)
{
    static const char path[] = RS_TEST_DATA "/gguf/blocks.f32";
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *count = (size_t)ftell(file) / 4;
    rewind(file);
    float *values = rs_malloc(*count, 4);
    for (size_t i = 0; i < *count; i++) {
        uint8_t bytes[4];
        assert_int_equal(fread(bytes, 1, 4, file), 4);
        uint32_t bits = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                        (uint32_t)bytes[3] << 24;
        memcpy(&values[i], &bits, 4);
    }
    fclose(file);
    return values;
}

static void every_type_is_bitwise_the_reference(void **state)
{
    (void)state;
    static const char path[] = RS_TEST_DATA "/gguf/blocks.gguf";
    size_t total, done = 0;
    float *expected = read_expected(&total);
    rs_error err = {0};
    rs_checkpoint *checkpoint = rs_checkpoint_new(RS_FORMAT_GGUF, path);
    assert_int_equal(rs_gguf_open(checkpoint, path, &err), RS_OK);
    assert_int_equal(checkpoint->n_tensors, KINDS);
    for (size_t k = 0; k < checkpoint->n_tensors; k++) {
        const rs_tensor *t = &checkpoint->tensors[k];
        const rs_dtype_traits *traits = rs_dtype_info(t->dtype);
        assert_string_equal(t->name, traits->name);
        assert_true(rs_dtype_decodable(t->dtype));
        size_t n = (size_t)t->count, n_blocks = n / traits->block;
        assert_int_equal(t->bytes, n_blocks * traits->bits / 8);
        assert_true(done + n <= total);
        float *values = rs_malloc(n, 4);
        traits->decode_f32(values, t->data, n_blocks);
        for (size_t i = 0; i < n; i++)
            if (memcmp(&values[i], &expected[done + i], 4) != 0)
                fail_msg("%s element %zu: %a, expected %a", t->name, i, (double)values[i],
                         (double)expected[done + i]);
        rs_free(values);
        done += n;
    }
    assert_int_equal(done, total);
    rs_checkpoint_close(checkpoint);
    rs_free(expected);
}

/* All 65536 scales, with ldexp as the oracle: the codes that Q8_0 multiplies are 1. */
static void every_half_precision_scale_is_exact(void **state)
{
    (void)state;
    uint8_t block[34];
    float out[32];
    memset(block, 1, sizeof block);
    for (uint32_t half = 0; half < 65536; half++) {
        int exponent = (int)(half >> 10 & 31), fraction = (int)(half & 1023);
        double value = exponent == 0    ? ldexp(fraction, -24)
                       : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                        : ldexp(1024 + fraction, exponent - 25);
        if (half >> 15) value = -value;
        set_half(block, half);
        decode(out, &kinds[4], block);
        if (isnan(value)) {
            assert_true(isnan(out[31]));
        } else {
            assert_true((double)out[31] == value);
            assert_int_equal(!!signbit(out[31]), half >> 15);
        }
    }
}

static void every_mxfp4_scale_is_exact(void **state)
{
    (void)state;
    uint8_t block[17];
    float out[32];
    memset(block, 0x11, sizeof block); /* code 1: the scale itself */
    for (int e = 0; e < 256; e++) {
        block[0] = (uint8_t)e;
        decode(out, &kinds[6], block);
        assert_true((double)out[0] == ldexp(1, e - 128));
    }
}

/* Whatever the bytes: no undefined behaviour (under the sanitizers), and a NaN scale shows. */
static void random_bytes_and_nan_scales_are_decoded(void **state)
{
    (void)state;
    uint8_t block[MAX_BYTES];
    float out[MAX_BLOCK];
    for (int round = property_start(2000, 1000000); property_next(&round);) {
        rs_random random = property_random();
        for (int k = 0; k < KINDS; k++) {
            const rs_dtype_traits *traits = rs_dtype_info(kinds[k].dtype);
            for (size_t i = 0; i < sizeof block; i++)
                block[i] = (uint8_t)(rs_random_uniform(&random) * 256);
            if (round % 2 && kinds[k].scales[0] >= 0) set_half(block + kinds[k].scales[0], 0x7E00);
            decode(out, &kinds[k], block);
            double step = traits->step_squared(block);
            assert_false(step < 0);
            if (round % 2 && kinds[k].scales[0] >= 0) {
                assert_true(isnan(step));
                for (uint32_t i = 0; i < traits->block; i++)
                    assert_true(isnan(out[i]));
            }
        }
    }
}

/* ---- steps ---- */

static int ascending(const void *a, const void *b)
{
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The mean square spacing between the different values that element i takes as its code runs
 * through all there are. */
static double spacing_squared(const struct kind *kind, const uint8_t *block, int i)
{
    uint8_t changed[MAX_BYTES];
    float out[MAX_BLOCK], values[256];
    memcpy(changed, block, sizeof changed);
    for (unsigned code = 0; code < kind->codes; code++) {
        kind->set(changed, i, code);
        decode(out, kind, changed);
        values[code] = out[i];
    }
    qsort(values, kind->codes, sizeof *values, ascending);
    double sum = 0;
    int intervals = 0;
    for (unsigned code = 1; code < kind->codes; code++) {
        double width = (double)values[code] - (double)values[code - 1];
        if (width == 0) continue; /* a zero scale, or the two zeros of MXFP4 */
        sum += width * width;
        intervals++;
    }
    return intervals ? sum / intervals : 0;
}

/* Scales are 2^-k, and minima of like size: values and their differences are then exact. */
static void steps_are_the_spacing_between_values(void **state)
{
    (void)state;
    static const uint32_t scales[] = {0x3C00, 0xBC00, 0x2C00, 0x0000, 0x1400};
    rs_random random = rs_random_new(2, 2);
    uint8_t block[MAX_BYTES];
    for (int k = 0; k < KINDS; k++) {
        const rs_dtype_traits *traits = rs_dtype_info(kinds[k].dtype);
        for (int round = 0; round < 5; round++) {
            for (size_t i = 0; i < sizeof block; i++)
                block[i] = (uint8_t)(rs_random_uniform(&random) * 256);
            for (int s = 0; s < 2; s++)
                if (kinds[k].scales[s] >= 0) set_half(block + kinds[k].scales[s], scales[round]);
            if (kinds[k].dtype == RS_MXFP4) block[0] = (uint8_t)(100 + 10 * round);
            double sum = 0;
            for (int i = 0; i < (int)traits->block; i++)
                sum += spacing_squared(&kinds[k], block, i);
            double expected = sum / traits->block, found = traits->step_squared(block);
            if (fabs(found - expected) > 1e-12 * expected)
                fail_msg("%s: %.17g, expected %.17g", traits->name, found, expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_bitwise_the_reference),
        cmocka_unit_test(every_half_precision_scale_is_exact),
        cmocka_unit_test(every_mxfp4_scale_is_exact),
        cmocka_unit_test(random_bytes_and_nan_scales_are_decoded),
        cmocka_unit_test(steps_are_the_spacing_between_values),
    };
    return cmocka_run_group_tests_name("decode_gguf", tests, NULL, NULL);
}
