/* encode.c: numbers as the bytes of a type, rounded to nearest, ties to even. */
#include "checkpoint/dtype.h"

#include <math.h>
#include <string.h>

/* What is between two numbers of p bits, the least exponent being `least`. */
static double quantum_at(double x, int p, int least)
{
    int exponent = x == 0 || !isfinite(x) ? least : ilogb(x);
    return ldexp(1, (exponent < least ? least : exponent) - (p - 1));
}

static uint16_t half_of(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs(x), quantum = quantum_at(size, 11, -14);
    if (isnan(x)) return 0x7e00;
    double rounded = nearbyint(size / quantum) * quantum;
    if (rounded >= 65536) return sign | 0x7c00;
    if (rounded < ldexp(1, -14)) return (uint16_t)(sign | (uint16_t)ldexp(rounded, 24));
    int exponent = ilogb(rounded);
    uint16_t fraction = (uint16_t)(ldexp(rounded, 10 - exponent) - 1024);
    return (uint16_t)(sign | (exponent + 15) << 10 | fraction);
}

static uint16_t brain_of(double x)
{
    double quantum = quantum_at(x, 8, -126);
    float rounded = isfinite(x) ? (float)(nearbyint(x / quantum) * quantum) : (float)x;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(bits >> 16 | (isnan(x) ? 0x40 : 0));
}

bool rs_dtype_encodable(rs_dtype dtype)
{
    return dtype == RS_F64 || dtype == RS_F32 || dtype == RS_F16 || dtype == RS_BF16;
}

/* Infinite where the number is not. */
static bool overflows(rs_dtype dtype, const uint8_t *element, double x)
{
    double back = x;
    float single;
    if (!isfinite(x)) return false;
    if (dtype == RS_F64) return false;
    rs_dtype_info(dtype)->decode_f32(&single, element, 1);
    back = (double)single;
    return !isfinite(back);
}

int64_t rs_dtype_encode(uint8_t *out, rs_dtype dtype, const double *numbers, int64_t n)
{
    size_t size = rs_dtype_info(dtype)->bits / 8;
    int64_t beyond = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t *element = out + (size_t)i * size;
        float single = (float)numbers[i];
        uint16_t word =
            dtype == RS_F16 ? half_of(numbers[i]) : (dtype == RS_BF16 ? brain_of(numbers[i]) : 0);
        const void *from = dtype == RS_F64   ? (const void *)&numbers[i]
                           : dtype == RS_F32 ? (const void *)&single
                                             : (const void *)&word;
        memcpy(element, from, size);
        beyond += overflows(dtype, element, numbers[i]);
    }
    return beyond;
}
