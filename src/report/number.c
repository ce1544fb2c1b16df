/*
 * number.c: shortest decimal text of a double.
 *
 * After R. Giulietti, "The Schubfach way to render doubles" (2020). A double v = c 2^q stands for
 * every real number that rounds to it: an interval about v, half a unit in the last place to each
 * side. With 10^k the largest power of ten not wider than that interval, at least one multiple of
 * 10^k lies inside, and at most one multiple of 10^(k+1) does. So the shortest text is that
 * multiple of 10^(k+1) when there is one, otherwise the multiple of 10^k nearest to v. The three
 * numbers v 10^-k and the scaled ends of the interval are compared with integers only; for that,
 * 128-bit products with powers of ten given to 126 bits, rounded "to odd", are exact enough
 * (theorem there).
 */
#include "report/number.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    POWER_MIN = -324, /* powers 10^p for p = -k of every double */
    POWER_MAX = 324,
    LIMBS = 42 /* 32-bit limbs: 1344 bits hold 10^324 and 2^1300 */
};

typedef struct u128 {
    uint64_t high, low;
} u128;

/* g(p) = floor(10^p 2^-r) + 1 with r such that 2^125 <= g < 2^126. */
static u128 powers[POWER_MAX - POWER_MIN + 1];
static pthread_once_t powers_once = PTHREAD_ONCE_INIT;

/* floor(x log10 2), floor(x log10 2 + log10 3/4), floor(x log2 10): exact for |x| < 5000, as
 * integer arithmetic with enough digits of the constant (checked for every exponent by the tests,
 * which read the texts back). Right shifts of negative numbers are avoided by a bias. */
static int floor_scaled(int64_t product, int shift)
{
    const int64_t bias = (int64_t)1 << 20;
    return (int)(((product + (bias << shift)) >> shift) - bias);
}
static int floor_log10_pow2(int x)
{
    return floor_scaled((int64_t)x * 1292913986, 32);
}
static int floor_log10_three_quarters_pow2(int x)
{
    return floor_scaled((int64_t)x * 1292913986 - 536607789, 32);
}
static int floor_log2_pow10(int x)
{
    return floor_scaled((int64_t)x * 14267572527, 32);
}

/* 32 bits of a big number (limbs from the lowest) from bit `at` on; around the number are zeros. */
static uint64_t bits_at(const uint32_t *limbs, int at)
{
    int limb = (at + 32 * LIMBS) / 32 - LIMBS; /* down, for negative ones too */
    uint64_t low = limb >= 0 && limb < LIMBS ? limbs[limb] : 0;
    uint64_t high = limb + 1 >= 0 && limb + 1 < LIMBS ? limbs[limb + 1] : 0;
    return (high << 32 | low) >> (at - 32 * limb) & 0xFFFFFFFFu;
}

/* The top 126 bits of a big number, plus one. A small one is filled with zeros. */
static u128 top_bits(const uint32_t *limbs)
{
    int top = LIMBS - 1;
    while (limbs[top] == 0)
        top--;
    int shift = 32 * top + 32 - __builtin_clz(limbs[top]) - 126;
    u128 value = {bits_at(limbs, shift + 64) | bits_at(limbs, shift + 96) << 32,
                  bits_at(limbs, shift) | bits_at(limbs, shift + 32) << 32};
    value.low++;
    value.high += value.low == 0;
    return value;
}

static void make_powers(void)
{
    uint32_t up[LIMBS] = {1}, down[LIMBS] = {0};
    down[LIMBS - 1] = 0x80000000u; /* 2^1343; floor(2^1343 / 10^n) is exact by repeated division */
    for (int p = 0; p <= POWER_MAX; p++) {
        powers[p - POWER_MIN] = top_bits(up);
        if (p > 0) powers[-p - POWER_MIN] = top_bits(down);
        uint64_t carry = 0, rest = 0;
        for (int i = 0; i < LIMBS; i++) {
            carry += (uint64_t)up[i] * 10;
            up[i] = (uint32_t)carry;
            carry >>= 32;
        }
        for (int i = LIMBS - 1; i >= 0; i--) {
            rest = rest << 32 | down[i];
            down[i] = (uint32_t)(rest / 10);
            rest %= 10;
        }
    }
}

/* The product of two 64-bit numbers; gcc and clang have it on every 64-bit machine. */
__extension__ typedef unsigned __int128 wide;

static u128 multiply(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;
    return (u128){(uint64_t)(product >> 64), (uint64_t)product};
}

/* floor(g x / 2^127), its last bit set when anything was cut off ("round to odd"). */
static uint64_t round_to_odd(u128 g, uint64_t x)
{
    u128 low = multiply(g.low, x), high = multiply(g.high, x);
    uint64_t middle = high.low + low.high;
    uint64_t top = high.high + (middle < high.low);
    /* g x = top 2^128 + middle 2^64 + low.low; g has 126 bits and the shift makes g x / 2^127 */
    uint64_t whole = top << 1 | middle >> 63;
    return whole | ((middle << 1) != 0);
}

/* The shortest decimal digits 10^exponent * digits of a positive finite double. */
static void shortest(double value, uint64_t *digits, int *exponent)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    int biased = (int)(bits >> 52 & 0x7FF);
    uint64_t c = biased ? fraction | (uint64_t)1 << 52 : fraction;
    int q = (biased ? biased : 1) - 1075;
    /* Just above a power of two the interval is only half as wide below. */
    bool even = (c & 1) == 0, irregular = fraction == 0 && biased > 1;
    int k = irregular ? floor_log10_three_quarters_pow2(q) : floor_log10_pow2(q);
    int h = q + floor_log2_pow10(-k) + 2;
    u128 g = powers[-k - POWER_MIN];
    uint64_t middle = round_to_odd(g, (c << 2) << h);
    uint64_t low = round_to_odd(g, ((c << 2) - (irregular ? 1 : 2)) << h);
    uint64_t high = round_to_odd(g, ((c << 2) + 2) << h);
    /* The ends belong to the interval when c is even (ties go to even). */
    low += even ? 0 : 1;
    high -= even ? 0 : 1;
    uint64_t s = middle >> 2, ten = s / 10 * 10;
    bool ten_below = low <= ten << 2, ten_above = (ten + 10) << 2 <= high;
    if (s >= 10 && ten_below != ten_above) {
        *digits = ten_below ? ten : ten + 10;
    } else {
        bool below = low <= s << 2, above = (s + 1) << 2 <= high;
        uint64_t half = (s << 2) + 2;
        bool up = middle > half || (middle == half && (s & 1));
        if (below != above) up = above;
        *digits = s + up;
    }
    *exponent = k;
}

/* 10^0 to 10^19. */
static const uint64_t tens[] = {1u,
                                10u,
                                100u,
                                1000u,
                                10000u,
                                100000u,
                                1000000u,
                                10000000u,
                                100000000u,
                                1000000000u,
                                10000000000u,
                                100000000000u,
                                1000000000000u,
                                10000000000000u,
                                100000000000000u,
                                1000000000000000u,
                                10000000000000000u,
                                100000000000000000u,
                                1000000000000000000u,
                                10000000000000000000u};

/* How many digits the number has; 1 for 0. */
static size_t count_digits(uint64_t value)
{
    /* 1233/4096 is just above log10 2: the product is the count, or one less. */
    size_t n = (size_t)(64 - __builtin_clzll(value | 1)) * 1233 >> 12;
    return n + (value >= tens[n] || value == 0);
}

static size_t put_digits(char *out, uint64_t value)
{
    size_t n = count_digits(value), at = n;
    for (; value >= 10; value /= 100) {
        unsigned two = (unsigned)(value % 100);
        out[--at] = (char)('0' + two % 10);
        out[--at] = (char)('0' + two / 10);
    }
    if (at) out[0] = (char)('0' + value);
    return n;
}

static size_t put_integer(char *out, int64_t value)
{
    size_t n = 0;
    if (value < 0) out[n++] = '-';
    return n + put_digits(out + n, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

size_t rs_integer_format(char out[RS_NUMBER_SIZE], int64_t value)
{
    size_t n = put_integer(out, value);
    out[n] = 0;
    return n;
}

/* d.ddde±x, d digits with the point behind the first. */
static size_t put_scientific(char *out, const char *digits, size_t n, int point)
{
    size_t at = 0;
    out[at++] = digits[0];
    if (n > 1) {
        out[at++] = '.';
        memcpy(out + at, digits + 1, n - 1);
        at += n - 1;
    }
    out[at++] = 'e';
    return at + put_integer(out + at, point - 1);
}

/* Plain notation while it needs at most 17 digits before the point and 5 zeros behind it. */
static size_t put_decimal(char *out, const char *digits, size_t n, int point)
{
    size_t at = 0;
    if (point <= 0) {
        memcpy(out, "0.", 2);
        memset(out + 2, '0', (size_t)-point);
        at = 2 + (size_t)-point;
        memcpy(out + at, digits, n);
        return at + n;
    }
    size_t whole = (size_t)point;
    if (whole >= n) {
        memcpy(out, digits, n);
        memset(out + n, '0', whole - n);
        return whole;
    }
    memcpy(out, digits, whole);
    out[whole] = '.';
    memcpy(out + whole + 1, digits + whole, n - whole);
    return n + 1;
}

/* At most `most` digits: rounded to the nearest, ties to even. */
static void round_digits(uint64_t *digits, int *exponent, int most)
{
    int extra = (int)count_digits(*digits) - most;
    if (extra <= 0) return;
    *exponent += extra;
    uint64_t cut = tens[extra];
    uint64_t rest = *digits % cut, half = cut / 2;
    *digits /= cut;
    *digits += rest > half || (rest == half && (*digits & 1));
}

size_t rs_number_rounded(char out[RS_NUMBER_SIZE], double value, int most)
{
    enum { ALL = 17 };
    size_t at = 0;
    if (value < 0) {
        out[at++] = '-';
        value = -value;
    }
    if (value == 0) {
        memcpy(out, "0", 2); /* -0 too: the sign of a zero says nothing here */
        return 1;
    }
    pthread_once(&powers_once, make_powers);
    uint64_t number;
    int exponent;
    shortest(value, &number, &exponent);
    if (most < ALL) round_digits(&number, &exponent, most);
    while (number % 10 == 0) {
        number /= 10;
        exponent++;
    }
    char digits[20];
    size_t n = put_digits(digits, number);
    int point = (int)n + exponent; /* value = 0.ddd 10^point */
    if (point > -5 && point <= 17)
        at += put_decimal(out + at, digits, n, point);
    else
        at += put_scientific(out + at, digits, n, point);
    out[at] = 0;
    return at;
}

size_t rs_number_format(char out[RS_NUMBER_SIZE], double value)
{
    /* Most numbers of a table are small and whole. */
    if (fabs(value) < 1e6 && value == trunc(value)) return rs_integer_format(out, (int64_t)value);
    return rs_number_rounded(out, value, 17);
}

size_t rs_number_brief(char out[RS_NUMBER_SIZE], double value, int digits)
{
    snprintf(out, RS_NUMBER_SIZE, "%.*g", digits, value);
    /* Whatever is none of these is the locale's decimal point, which may be several bytes. */
    size_t at = 0;
    bool in_point = false;
    for (const char *c = out; *c; c++) {
        bool plain = strchr("0123456789+-einfa", *c) != NULL;
        if (plain)
            out[at++] = *c;
        else if (!in_point)
            out[at++] = '.';
        in_point = !plain;
    }
    out[at] = 0;
    return at;
}

size_t rs_number_outward(char out[RS_NUMBER_SIZE], double value, int digits, bool up)
{
    char text[RS_NUMBER_SIZE + 16], exact[RS_NUMBER_SIZE + 16];
    if (!isfinite(value)) return rs_number_brief(out, value, digits);
    snprintf(text, sizeof text, "%.*e", digits - 1, value);
    snprintf(exact, sizeof exact, "%.16e", value); /* rounding may have moved the exponent */
    double printed = strtod(text, NULL);
    int last = atoi(strchr(exact, 'e') + 1) - (digits - 1); /* power of ten of the last digit */
    if (up ? printed < value : printed > value) printed += (up ? 1 : -1) * pow(10, last);
    return rs_number_brief(out, printed, digits);
}
