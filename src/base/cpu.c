/* cpu.c: CPUID on x86-64, names from the system elsewhere. */
#include "base/cpu.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

static void vendor_of(char vendor[13])
{
    unsigned a, b, c, d;
    memset(vendor, 0, 13);
    if (!__get_cpuid(0, &a, &b, &c, &d)) return;
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
}

void rs_cpu_name(char *name, size_t size)
{
    unsigned words[12];
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                         &words[4 * i + 3])) {
            snprintf(name, size, "x86-64");
            return;
        }
    char text[49];
    memcpy(text, words, 48);
    text[48] = 0;
    const char *begin = text + strspn(text, " ");
    size_t length = strlen(begin);
    while (length > 0 && begin[length - 1] == ' ')
        length--;
    snprintf(name, size, "%.*s", (int)length, begin);
}

rs_cpu_level rs_cpu_vector_level(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return RS_CPU_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return RS_CPU_AVX2;
    if (__builtin_cpu_supports("avx")) return RS_CPU_AVX;
    return RS_CPU_SSE;
}

bool rs_cpu_is_amd(void)
{
    char vendor[13];
    vendor_of(vendor);
    return strcmp(vendor, "AuthenticAMD") == 0 || strcmp(vendor, "HygonGenuine") == 0;
}

#else

void rs_cpu_name(char *name, size_t size)
{
#if defined(__aarch64__)
    snprintf(name, size, "aarch64");
#else
    snprintf(name, size, "unknown processor");
#endif
}

rs_cpu_level rs_cpu_vector_level(void)
{
#if defined(__aarch64__)
    return RS_CPU_NEON;
#else
    return RS_CPU_PLAIN;
#endif
}

bool rs_cpu_is_amd(void)
{
    return false;
}
#endif

const char *rs_cpu_level_name(rs_cpu_level level)
{
    static const char *const names[] = {"none", "SSE", "AVX", "AVX2+FMA", "AVX-512", "NEON"};
    return names[level];
}
