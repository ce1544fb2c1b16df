/* gemm_kernels.h: what gemm.c asks of the kernels of one instruction set. */
#ifndef RS_LINALG_GEMM_KERNELS_H
#define RS_LINALG_GEMM_KERNELS_H

#include "linalg/gemm.h"

#include <stdbool.h>
#include <stddef.h>

/* Terms of a sum that are taken together, and rows of A that are copied together. */
enum { GEMM_DEPTH = 384, GEMM_ROWS = 96 };

/* One product. A[i][p] = a[i*a_row + p*a_col], B[p][j] = b[p*b_row + j*b_col]: one of the two steps of
 * each is 1. rs_strips_of_: a copy of B's columns j .. j+n-1, terms p .. p+k-1 (p is where a stretch
 * begins), in strips of columns for each stretch of GEMM_DEPTH terms; it takes whole strips. */
#define RS_GEMM_KERNELS(real, suffix)                                                                       \
    typedef struct rs_product_of_##suffix {                                                                 \
        int64_t m, n, k;                                                                                    \
        const real *a, *b;                                                                                  \
        int64_t a_row, a_col, b_row, b_col;                                                                 \
        real alpha, beta;                                                                                   \
        real *c;                                                                                            \
        int64_t ldc;                                                                                        \
        bool upper; /* tiles that are below the diagonal altogether are left out */                         \
    } rs_product_of_##suffix;                                                                               \
    typedef struct rs_strips_of_##suffix {                                                                  \
        real *strips;                                                                                       \
        int64_t j, n, p, k;                                                                                 \
        bool reads_a, reads_b; /* whole tiles take A, whole strips B, from where they lie */                \
    } rs_strips_of_##suffix;                                                                                \
    /* room: at least GEMM_DEPTH (GEMM_ROWS + 32) numbers on a boundary of 64 bytes; the more, the \
     * more columns are taken at once */        \
    typedef void rs_gemm_kernel_##suffix(const rs_product_of_##suffix *of, real *room,                      \
                                         size_t numbers);                                                   \
    /* copies columns first .. end-1 of the strips' n, terms p .. p+k-1 of their k: one stretch, from \
     * where a strip begins */     \
    typedef void rs_gemm_copy_##suffix(const rs_product_of_##suffix *of,                                    \
                                       const rs_strips_of_##suffix *strips, int64_t first,                  \
                                       int64_t end, int64_t p, int64_t k);                                  \
    /* rows i .. i+rows-1 of C, GEMM_ROWS at most, by columns first .. end-1 of the strips' n, from where \
     * a strip begins; at c, with ldc */ \
    typedef struct rs_block_of_##suffix {                                                                   \
        int64_t i, rows, first, end;                                                                        \
        real *c;                                                                                            \
        int64_t ldc;                                                                                        \
    } rs_block_of_##suffix;                                                                                 \
    /* adds what the strips add, or begins with it at the first terms; left: GEMM_DEPTH GEMM_ROWS \
     * numbers of room */         \
    typedef void rs_gemm_block_##suffix(const rs_product_of_##suffix *of,                                   \
                                        const rs_strips_of_##suffix *strips, real *left,                    \
                                        const rs_block_of_##suffix *block);

RS_GEMM_KERNELS(float, f32)
RS_GEMM_KERNELS(double, f64)

typedef struct rs_gemm_kernels {
    const char *level;
    rs_gemm_kernel_f32 *f32;
    rs_gemm_kernel_f64 *f64;
    int64_t columns_f32, columns_f64; /* of a strip: 96 is a multiple of each */
    rs_gemm_copy_f32 *copy_f32;
    rs_gemm_copy_f64 *copy_f64;
    rs_gemm_block_f32 *block_f32;
    rs_gemm_block_f64 *block_f64;
} rs_gemm_kernels;

extern const rs_gemm_kernels rs_gemm_vector, rs_gemm_avx2, rs_gemm_avx512;
/* All that this processor can run, ended by NULL; the last is what gemm.c uses. */
const rs_gemm_kernels *const *rs_gemm_tables(void);
const rs_gemm_kernels *rs_gemm_kernels_here(void);
/* Test hook: products take this table from now on; NULL: the last again. */
void rs_gemm_use(const rs_gemm_kernels *table);

#endif
