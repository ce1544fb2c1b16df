/* test_encode.c: numbers as bytes of a type, against the decoders: every number of F16 and BF16 comes back, and between
 * two neighbours the nearer is taken, of two as near the even one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "checkpoint/dtype.h"

#include <math.h>
#include <string.h>

static double value_of(rs_dtype dtype, uint16_t bits)
{
    float x;
    rs_dtype_info(dtype)->decode_f32(&x, (const uint8_t *)&bits, 1);
    return (double)x;
}

static uint16_t bits_of(rs_dtype dtype, double x, int64_t beyond)
{
    uint16_t bits;
    assert_int_equal(rs_dtype_encode((uint8_t *)&bits, dtype, &x, 1), beyond);
    return bits;
}

static void check_type(rs_dtype dtype)
{
    for (uint32_t i = 0; i < 0x8000; i++) {
        uint16_t bits = (uint16_t)i, next = (uint16_t)(i + 1);
        double a = value_of(dtype, bits), b = value_of(dtype, next);
        if (isnan(a)) {
            assert_true(isnan(value_of(dtype, bits_of(dtype, a, 0))));
            continue;
        }
        assert_int_equal(bits_of(dtype, a, 0), bits);
        assert_int_equal(bits_of(dtype, -a, 0), bits | 0x8000);
        if (!isfinite(a) || !isfinite(b)) continue;
        double middle = a + (b - a) / 2;
        assert_int_equal(bits_of(dtype, middle, 0), i % 2 ? next : bits);
        assert_int_equal(bits_of(dtype, nextafter(middle, b), 0), next);
        assert_int_equal(bits_of(dtype, nextafter(middle, a), 0), bits);
    }
}

static void halves(void **state)
{
    (void)state;
    check_type(RS_F16);
    assert_int_equal(bits_of(RS_F16, 65519.99, 0), 0x7bff);
    assert_int_equal(bits_of(RS_F16, 65520, 1), 0x7c00);
    assert_int_equal(bits_of(RS_F16, -1e300, 1), 0xfc00);
}

static void brains(void **state)
{
    (void)state;
    check_type(RS_BF16);
    assert_int_equal(bits_of(RS_BF16, 1e300, 1), 0x7f80);
}

static void whole_words(void **state)
{
    (void)state;
    const double x[] = {1.0 / 3, -1e300, 1e-310};
    double back[3];
    float single[3];
    assert_int_equal(rs_dtype_encode((uint8_t *)back, RS_F64, x, 3), 0);
    assert_memory_equal(back, x, sizeof x);
    assert_int_equal(rs_dtype_encode((uint8_t *)single, RS_F32, x, 3), 1);
    assert_true(single[0] == (float)x[0] && isinf(single[1]) && single[2] == 0);
    assert_true(rs_dtype_encodable(RS_BF16) && !rs_dtype_encodable(RS_Q4_K) &&
                !rs_dtype_encodable(RS_F8_E4M3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(halves), cmocka_unit_test(brains),
                                       cmocka_unit_test(whole_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
