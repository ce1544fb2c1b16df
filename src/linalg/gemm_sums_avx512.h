/*
 * gemm_sums_avx512.h: the sums of a whole tile, 12 rows by two vectors of columns, in assembly: a
 * compiler that is left to it has too few of the 32 registers for 24 sums and keeps some in memory.
 *
 * sums_f32, sums_f64: sum[i][w] = sum over p < k of a's number (i, p) times b's vector (p, w). Number
 * (i, p) is i*a_row + p*a_term bytes behind `a`, the two vectors of p are p*b_term bytes behind `b`; a
 * line from `next` on is asked for every four terms, and during the last 48 terms the rows of C, which begin
 * at `c`, c_row bytes apart: asked for earlier, rows that lie 4096 bytes apart push one another and b
 * out of the nearest cache before they are wanted. Terms are added one by one in order, each by one fused
 * multiply-add.
 */
#ifndef RS_LINALG_GEMM_SUMS_AVX512_H
#define RS_LINALG_GEMM_SUMS_AVX512_H

#include <stddef.h>
#include <stdint.h>

typedef struct sums_operands {
    const void *a, *b, *next;
    int64_t a_row, a_term, b_term, k;
    const void *c;
    int64_t c_row;
} sums_operands;
_Static_assert(sizeof(void *) == 8 && offsetof(sums_operands, c_row) == 64,
               "nine words of 8 bytes");

/* Lines of assembly stand as they are. */
/* clang-format off */

/* A member of sums_operands, by its offset. */
#define SUMS_LOAD(offset, to) "mov " #offset "(%[of]),%%" to "\n\t"
#define SUMS_CLEAR(at) "vpxord %" #at ",%" #at ",%" #at "\n\t"

/* The number at an address, into zmm`into`, times b's vectors, which are in zmm0 and zmm1. */
#define SUMS_ROW(type, address, into, first, second)                                              \
    "vbroadcasts" type " " address ",%%zmm" #into "\n\t"                                          \
    "vfmadd231p" type " %%zmm" #into ",%%zmm0,%" #first "\n\t"                                    \
    "vfmadd231p" type " %%zmm" #into ",%%zmm1,%" #second "\n\t"

/* Three rows, the first at `base`; r8: a_row, r9: a_term. */
#define SUMS_ROWS(type, base, i0, i1, i2, s0, s1, s2, s3, s4, s5)                                 \
    SUMS_ROW(type, "(%%" base ")", i0, s0, s1)                                                    \
    SUMS_ROW(type, "(%%" base ",%%r8)", i1, s2, s3)                                               \
    SUMS_ROW(type, "(%%" base ",%%r8,2)", i2, s4, s5)                                             \
    "add %%r9,%%" base "\n\t"

/* A term; rax, rcx, rdx, rsi: rows 0, 3, 6, 9 of a; rdi: b, r10: b_term. */
#define SUMS_TERM(type)                                                                           \
    "vmovups (%%rdi),%%zmm0\n\t"                                                                  \
    "vmovups 64(%%rdi),%%zmm1\n\t"                                                                \
    "add %%r10,%%rdi\n\t"                                                                         \
    SUMS_ROWS(type, "rax", 2, 3, 4, 0, 1, 2, 3, 4, 5)                                             \
    SUMS_ROWS(type, "rcx", 5, 6, 7, 6, 7, 8, 9, 10, 11)                                           \
    SUMS_ROWS(type, "rdx", 2, 3, 4, 12, 13, 14, 15, 16, 17)                                       \
    SUMS_ROWS(type, "rsi", 5, 6, 7, 18, 19, 20, 21, 22, 23)

/* r11: next; r12: terms that are left, less four while four are taken at once, less 52 before rows of C
 * are asked for; r13: such a row, r14: c_row. A macro of the assembler has a term's text stand once. */
#define SUMS_TEXT(type)                                                                           \
    SUMS_LOAD(0, "rax") SUMS_LOAD(8, "rdi") SUMS_LOAD(16, "r11") SUMS_LOAD(24, "r8")              \
    SUMS_LOAD(32, "r9") SUMS_LOAD(40, "r10") SUMS_LOAD(48, "r12") SUMS_LOAD(56, "r13")            \
    SUMS_LOAD(64, "r14")                                                                          \
    "lea (%%r8,%%r8,2),%%rsi\n\t"                                                                 \
    "lea (%%rax,%%rsi),%%rcx\n\t"                                                                 \
    "lea (%%rax,%%rsi,2),%%rdx\n\t"                                                               \
    "add %%rdx,%%rsi\n\t"                                                                         \
    SUMS_CLEAR(0) SUMS_CLEAR(1) SUMS_CLEAR(2) SUMS_CLEAR(3) SUMS_CLEAR(4) SUMS_CLEAR(5)           \
    SUMS_CLEAR(6) SUMS_CLEAR(7) SUMS_CLEAR(8) SUMS_CLEAR(9) SUMS_CLEAR(10) SUMS_CLEAR(11)         \
    SUMS_CLEAR(12) SUMS_CLEAR(13) SUMS_CLEAR(14) SUMS_CLEAR(15) SUMS_CLEAR(16) SUMS_CLEAR(17)     \
    SUMS_CLEAR(18) SUMS_CLEAR(19) SUMS_CLEAR(20) SUMS_CLEAR(21) SUMS_CLEAR(22) SUMS_CLEAR(23)     \
    ".macro rs_sums_term\n\t"                                                                     \
    SUMS_TERM(type)                                                                               \
    ".endm\n\t"                                                                                   \
    "sub $52,%%r12\n\t"                                                                           \
    "js 2f\n\t"                                                                                   \
    ".p2align 5\n"                                                                                \
    "1:\tprefetcht1 (%%r11)\n\t"                                                                  \
    "add $64,%%r11\n\t"                                                                           \
    "rs_sums_term\n\trs_sums_term\n\trs_sums_term\n\trs_sums_term\n\t"                            \
    "sub $4,%%r12\n\t"                                                                            \
    "jns 1b\n"                                                                                    \
    "2:\tadd $48,%%r12\n\t"                                                                       \
    "js 4f\n\t"                                                                                   \
    ".p2align 5\n"                                                                                \
    "3:\tprefetcht1 (%%r11)\n\t"                                                                  \
    "prefetcht0 (%%r13)\n\t"                                                                      \
    "prefetcht0 64(%%r13)\n\t"                                                                    \
    "prefetcht0 127(%%r13)\n\t"                                                                   \
    "add $64,%%r11\n\t"                                                                           \
    "add %%r14,%%r13\n\t"                                                                         \
    "rs_sums_term\n\trs_sums_term\n\trs_sums_term\n\trs_sums_term\n\t"                            \
    "sub $4,%%r12\n\t"                                                                            \
    "jns 3b\n"                                                                                    \
    "4:\tadd $4,%%r12\n\t"                                                                        \
    "jz 6f\n"                                                                                     \
    "5:\trs_sums_term\n\t"                                                                        \
    "dec %%r12\n\t"                                                                               \
    "jnz 5b\n"                                                                                    \
    "6:\t.purgem rs_sums_term\n"

#define SUMS(suffix, real, type)                                                                  \
    typedef real sums_lanes_##suffix __attribute__((vector_size(64)));                            \
    __attribute__((always_inline)) static inline void sums_##suffix(sums_lanes_##suffix s[12][2], \
                                                                    const sums_operands *of)      \
    {                                                                                             \
        __asm__ volatile(                                                                         \
            SUMS_TEXT(type)                                                                       \
            : "=&v"(s[0][0]), "=&v"(s[0][1]), "=&v"(s[1][0]), "=&v"(s[1][1]), "=&v"(s[2][0]),     \
              "=&v"(s[2][1]), "=&v"(s[3][0]), "=&v"(s[3][1]), "=&v"(s[4][0]), "=&v"(s[4][1]),     \
              "=&v"(s[5][0]), "=&v"(s[5][1]), "=&v"(s[6][0]), "=&v"(s[6][1]), "=&v"(s[7][0]),     \
              "=&v"(s[7][1]), "=&v"(s[8][0]), "=&v"(s[8][1]), "=&v"(s[9][0]), "=&v"(s[9][1]),     \
              "=&v"(s[10][0]), "=&v"(s[10][1]), "=&v"(s[11][0]), "=&v"(s[11][1])                  \
            : [of] "r"(of)                                                                        \
            : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "xmm0", "xmm1", \
              "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc", "memory");                    \
    }

SUMS(f32, float, "s")
SUMS(f64, double, "d")

/* clang-format on */

#endif
