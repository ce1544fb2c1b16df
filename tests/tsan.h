/*
 * tsan.h: memcpy, memmove and memset as loops that ThreadSanitizer watches; its build includes this
 * file first in all of src/engine.
 *
 * The sanitizer's own versions of the three report nothing under ignore_noninstrumented_modules,
 * without which OpenMP's runtime looks like a race (CONTRIBUTING.md): a race between two copies of
 * carried states went unseen that way.
 */
#ifndef RS_TESTS_TSAN_H
#define RS_TESTS_TSAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Eight bytes that may be of any type. */
typedef uint64_t __attribute__((may_alias)) tsan_word;

static inline void *tsan_copy(void *to, const void *from, size_t bytes)
{
    unsigned char *out = to;
    const unsigned char *in = from;
    size_t i = 0;
    if (((uintptr_t)to | (uintptr_t)from) % sizeof(tsan_word) == 0)
        for (; i + sizeof(tsan_word) <= bytes; i += sizeof(tsan_word))
            *(tsan_word *)(void *)(out + i) = *(const tsan_word *)(const void *)(in + i);
    for (; i < bytes; i++)
        out[i] = in[i];
    return to;
}

static inline void *tsan_move(void *to, const void *from, size_t bytes)
{
    unsigned char *out = to;
    const unsigned char *in = from;
    if ((uintptr_t)to <= (uintptr_t)from) return tsan_copy(to, from, bytes);
    for (size_t i = bytes; i > 0; i--)
        out[i - 1] = in[i - 1];
    return to;
}

static inline void *tsan_set(void *to, int byte, size_t bytes)
{
    unsigned char *out = to;
    const tsan_word all = (unsigned char)byte * (uint64_t)0x0101010101010101;
    size_t i = 0;
    if ((uintptr_t)to % sizeof(tsan_word) == 0)
        for (; i + sizeof(tsan_word) <= bytes; i += sizeof(tsan_word))
            *(tsan_word *)(void *)(out + i) = all;
    for (; i < bytes; i++)
        out[i] = (unsigned char)byte;
    return to;
}

#define memcpy tsan_copy
#define memmove tsan_move
#define memset tsan_set

#endif
