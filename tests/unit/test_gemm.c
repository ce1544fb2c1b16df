/* test_gemm.c: products of matrices by the kernels of every instruction set that runs here, against sums
 * in long double, over shapes around every edge of a tile; and a team's against those of a thread. */
#include "linalg/gemm.h"
#include "linalg/gemm_kernels.h"
#include "linalg/gemm_rooms.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* m, n, k, what the leading dimensions are wider by, and what lies turned. */
typedef struct instance {
    int64_t m, n, k, wider;
    bool turn_a, turn_b;
    double alpha, beta;
} instance;

static int64_t below(uint64_t *state, int64_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)n);
}

static instance draw(uint64_t *state)
{
    const int64_t near[] = {1, 2, 3, 5, 11, 12, 13, 24, 31, 32, 33, 48, 95, 96, 97, 130};
    const int64_t deep[] = {1, 2, 3, 4, 7, 64, 383, 384, 385, 769};
    const double factors[] = {0, 1, -.5, 2};
    instance i = {.m = near[below(state, 16)],
                  .n = near[below(state, 16)],
                  .k = deep[below(state, 10)],
                  .wider = below(state, 3),
                  .turn_a = below(state, 2),
                  .turn_b = below(state, 2),
                  .alpha = factors[below(state, 4)],
                  .beta = factors[below(state, 4)]};
    return i;
}

/* What a team is given and must give back. */
typedef struct kept {
    char *c;             /* where blocks of C are put */
    unsigned char *seen; /* [m, n] how often each entry came */
    int64_t ldc, n;
    size_t size;
} kept;

static void keep_block(void *user, const rs_gemm_whole *block)
{
    kept *k = user;
    assert_int_equal(block->j % RS_GEMM_GRAIN, 0);
    for (int64_t i = 0; i < block->rows; i++) {
        memcpy(k->c + (size_t)((block->i + i) * k->ldc + block->j) * k->size,
               (char *)block->c + (size_t)(i * block->ldc) * k->size,
               (size_t)block->columns * k->size);
        for (int64_t j = 0; j < block->columns; j++)
            k->seen[(block->i + i) * k->n + block->j + j]++;
    }
}

/* Every number of threads, with and without rooms. */
typedef struct manner {
    int threads;
    bool no_shared, no_own, inside;
} manner;
static const manner manners[] = {
    {1, false, false, false}, {2, false, false, false}, {3, false, false, false},
    {7, false, false, false}, {1, false, true, false},  {3, false, true, false},
    {3, true, false, false},  {2, true, true, false},   {3, false, false, true},
};
enum { MANNERS = sizeof manners / sizeof *manners };

#define CASES(real, suffix, unit)                                                                    \
    static real *drawn_##suffix(size_t n, uint64_t *state)                                           \
    {                                                                                                \
        real *x = malloc((n + 1) * sizeof *x);                                                       \
        assert_non_null(x);                                                                          \
        for (size_t i = 0; i < n; i++)                                                               \
            x[i] = (real)((double)below(state, 2001) / 1000 - 1);                                    \
        return x;                                                                                    \
    }                                                                                                \
                                                                                                     \
    static void check_##suffix(const instance *i, rs_gemm_kernel_##suffix *kernel,                   \
                               const char *level, uint64_t *state)                                   \
    {                                                                                                \
        int64_t lda = (i->turn_a ? i->m : i->k) + i->wider;                                          \
        int64_t ldb = (i->turn_b ? i->k : i->n) + i->wider, ldc = i->n + i->wider;                   \
        real *a = drawn_##suffix((size_t)(lda * (i->turn_a ? i->k : i->m)), state);                  \
        real *b = drawn_##suffix((size_t)(ldb * (i->turn_b ? i->n : i->k)), state);                  \
        real *was = drawn_##suffix((size_t)(ldc * i->m), state);                                     \
        real *c = malloc((size_t)(ldc * i->m) * sizeof *c);                                          \
        enum { SMALL = GEMM_DEPTH * (GEMM_ROWS + 32) };                                              \
        real *room = aligned_alloc(64, SMALL * sizeof(real));                                        \
        assert_true(c &&room);                                                                       \
        for (int64_t at = 0; at < ldc * i->m; at++)                                                  \
            c[at] = i->beta == 0 && at % ldc < i->n ? (real)NAN : was[at];                           \
        if (kernel)                                                                                  \
            kernel(&(rs_product_of_##suffix){.m = i->m,                                              \
                                             .n = i->n,                                              \
                                             .k = i->k,                                              \
                                             .a = a,                                                 \
                                             .b = b,                                                 \
                                             .a_row = i->turn_a ? 1 : lda,                           \
                                             .a_col = i->turn_a ? lda : 1,                           \
                                             .b_row = i->turn_b ? 1 : ldb,                           \
                                             .b_col = i->turn_b ? ldb : 1,                           \
                                             .alpha = (real)i->alpha,                                \
                                             .beta = (real)i->beta,                                  \
                                             .c = c,                                                 \
                                             .ldc = ldc},                                            \
                   room, SMALL);                                                                     \
        else                                                                                         \
            rs_gemm_##suffix(i->turn_a ? RS_TURNED : RS_AS_IS, i->turn_b ? RS_TURNED : RS_AS_IS,     \
                             i->m, i->n, i->k, (real)i->alpha, a, lda, b, ldb, (real)i->beta, c,     \
                             ldc);                                                                   \
        for (int64_t r = 0; r < i->m; r++)                                                           \
            for (int64_t s = 0; s < ldc; s++) {                                                      \
                long double sum = 0, size = 0, before = was[r * ldc + s];                            \
                for (int64_t p = 0; p < i->k && s < i->n; p++) {                                     \
                    long double term = (long double)a[i->turn_a ? p * lda + r : r * lda + p] *       \
                                       (long double)b[i->turn_b ? s * ldb + p : p * ldb + s];        \
                    sum += term, size += fabsl(term);                                                \
                }                                                                                    \
                long double want =                                                                   \
                    s < i->n ? (long double)i->alpha * sum + (long double)i->beta * before           \
                             : before;                                                               \
                long double bound = (long double)(i->k + 3) * unit *                                 \
                                    (fabsl(i->alpha) * size + fabsl(i->beta * before));              \
                if (!(fabsl(c[r * ldc + s] - want) <= (s < i->n ? bound : 0)))                       \
                    fail_msg("%s %s: m %d n %d k %d wider %d turned %d %d alpha %g beta %g: "        \
                             "C[%d][%d] = %.17g, not %.17Lg",                                        \
                             level, #suffix, (int)i->m, (int)i->n, (int)i->k, (int)i->wider,         \
                             i->turn_a, i->turn_b, i->alpha, i->beta, (int)r, (int)s,                \
                             (double)c[r * ldc + s], want);                                          \
            }                                                                                        \
        free(a), free(b), free(was), free(c), free(room);                                            \
    }                                                                                                \
                                                                                                     \
    static void equals_definition_##suffix(void **unused)                                            \
    {                                                                                                \
        (void)unused;                                                                                \
        uint64_t state = 20261126;                                                                   \
        for (const rs_gemm_kernels *const *t = rs_gemm_tables(); *t; t++)                            \
            for (int trial = 0; trial < 250; trial++) {                                              \
                instance i = draw(&state);                                                           \
                check_##suffix(&i, (*t)->suffix, (*t)->level, &state);                               \
            }                                                                                        \
        for (int trial = 0; trial < 100; trial++) {                                                  \
            instance i = draw(&state);                                                               \
            check_##suffix(&i, NULL, "chosen", &state);                                              \
        }                                                                                            \
        check_##suffix(&(instance){3, 700, 300, 1, false, true, 1, 0}, NULL, "wide", &state);        \
        check_##suffix(&(instance){3, 2100, 257, 0, false, false, 1, 1}, NULL, "wide", &state);      \
    }                                                                                                \
                                                                                                     \
    /* blocks of any size, in a small room and a large one: the same bits */                         \
    static void blocks_change_no_bit_##suffix(void **unused)                                         \
    {                                                                                                \
        (void)unused;                                                                                \
        enum { M = 131, N = 203, K = 600, SMALL = GEMM_DEPTH * (GEMM_ROWS + 32) };                   \
        uint64_t state = 7;                                                                          \
        real *a = drawn_##suffix(M * K, &state), *b = drawn_##suffix(N * K, &state);                 \
        real *was = drawn_##suffix(M * N, &state);                                                   \
        real *whole = malloc(M * N * sizeof *whole), *cut = malloc(M * N * sizeof *cut);             \
        real *room = aligned_alloc(64, SMALL * sizeof(real));                                        \
        const rs_gemm_kernels *const *last = rs_gemm_tables();                                       \
        assert_true(whole &&cut &&room);                                                             \
        while (last[1])                                                                              \
            last++;                                                                                  \
        for (int trial = 0; trial < 30; trial++) {                                                   \
            int64_t rows = 1 + below(&state, M), cols = 1 + below(&state, N);                        \
            real alpha = trial % 3 ? (real).3 : 1, beta = (real)(trial % 4) * (real).35;             \
            rs_product_of_##suffix of = {.m = M,                                                     \
                                         .n = N,                                                     \
                                         .k = K,                                                     \
                                         .a = a,                                                     \
                                         .b = b,                                                     \
                                         .a_row = K,                                                 \
                                         .a_col = 1,                                                 \
                                         .b_row = 1,                                                 \
                                         .b_col = K,                                                 \
                                         .alpha = alpha,                                             \
                                         .beta = beta,                                               \
                                         .c = cut,                                                   \
                                         .ldc = N};                                                  \
            memcpy(whole, was, M *N * sizeof *whole);                                                \
            memcpy(cut, was, M *N * sizeof *cut);                                                    \
            rs_gemm_##suffix(RS_AS_IS, RS_TURNED, M, N, K, alpha, a, K, b, K, beta, whole, N);       \
            (*last)->suffix(&of, room, SMALL);                                                       \
            assert_memory_equal(whole, cut, M *N * sizeof *whole);                                   \
            memcpy(cut, was, M *N * sizeof *cut);                                                    \
            for (int64_t i = 0; i < M; i += rows)                                                    \
                for (int64_t j = 0; j < N; j += cols)                                                \
                    rs_gemm_##suffix(RS_AS_IS, RS_TURNED, M - i < rows ? M - i : rows,               \
                                     N - j < cols ? N - j : cols, K, alpha, a + i * K, K,            \
                                     b + j * K, K, beta, cut + i * N + j, N);                        \
            if (memcmp(whole, cut, M * N * sizeof *whole) != 0)                                      \
                fail_msg("blocks of %d x %d change bits: trial %d", (int)rows, (int)cols, trial);    \
        }                                                                                            \
        free(a), free(b), free(was), free(whole), free(cut), free(room);                             \
    }                                                                                                \
                                                                                                     \
    static void multiply_in_##suffix(const manner *how, rs_gemm_after *after, void *user,            \
                                     const instance *i, const real *a, int64_t lda, const real *b,   \
                                     int64_t ldb, real *c, int64_t ldc)                              \
    {                                                                                                \
        rs_gemm_team team = {.threads = how->threads, .after = after, .user = user};                 \
        rs_gemm_refuse_rooms(RS_GEMM_SHARED, how->no_shared);                                        \
        rs_gemm_refuse_rooms(RS_GEMM_OWN, how->no_own);                                              \
        if (how->inside) {                                                                           \
            /* only one of the region's threads multiplies: it may wait for no other */              \
            _Pragma("omp parallel num_threads(2)") _Pragma("omp single") rs_gemm_team_##suffix(      \
                &team, i->turn_a ? RS_TURNED : RS_AS_IS, i->turn_b ? RS_TURNED : RS_AS_IS, i->m,     \
                i->n, i->k, (real)i->alpha, a, lda, b, ldb, (real)i->beta, c, ldc);                  \
        } else                                                                                       \
            rs_gemm_team_##suffix(&team, i->turn_a ? RS_TURNED : RS_AS_IS,                           \
                                  i->turn_b ? RS_TURNED : RS_AS_IS, i->m, i->n, i->k,                \
                                  (real)i->alpha, a, lda, b, ldb, (real)i->beta, c, ldc);            \
        rs_gemm_refuse_rooms(RS_GEMM_SHARED, false);                                                 \
        rs_gemm_refuse_rooms(RS_GEMM_OWN, false);                                                    \
    }                                                                                                \
                                                                                                     \
    /* a team's product, kept in C and block by block, against the one of a thread: the same bits */ \
    static void check_team_##suffix(const instance *i, uint64_t *state)                              \
    {                                                                                                \
        int64_t lda = (i->turn_a ? i->m : i->k) + i->wider;                                          \
        int64_t ldb = (i->turn_b ? i->k : i->n) + i->wider, ldc = i->n + i->wider;                   \
        size_t count = (size_t)(ldc * i->m), bytes = count * sizeof(real);                           \
        real *a = drawn_##suffix((size_t)(lda * (i->turn_a ? i->k : i->m)), state);                  \
        real *b = drawn_##suffix((size_t)(ldb * (i->turn_b ? i->n : i->k)), state);                  \
        real *was = drawn_##suffix(count, state), *want = malloc(bytes), *c = malloc(bytes);         \
        real *blocks = malloc(bytes);                                                                \
        unsigned char *seen = malloc(count);                                                         \
        assert_true(want &&c &&blocks &&seen);                                                       \
        memcpy(want, was, bytes);                                                                    \
        rs_gemm_##suffix(i->turn_a ? RS_TURNED : RS_AS_IS, i->turn_b ? RS_TURNED : RS_AS_IS, i->m,   \
                         i->n, i->k, (real)i->alpha, a, lda, b, ldb, (real)i->beta, want, ldc);      \
        for (int trial = 0; trial < MANNERS * 2; trial++) {                                          \
            const manner *how = &manners[trial / 2];                                                 \
            bool keeps = trial % 2 == 0;                                                             \
            kept user = {.c = (char *)blocks, .seen = seen, .ldc = ldc, .n = i->n};                  \
            user.size = sizeof(real);                                                                \
            if (!keeps && i->beta != 0) continue;                                                    \
            memcpy(c, was, bytes);                                                                   \
            memcpy(blocks, was, bytes);                                                              \
            memset(seen, 0, count);                                                                  \
            multiply_in_##suffix(how, keep_block, &user, i, a, lda, b, ldb, keeps ? c : NULL,        \
                                 keeps ? ldc : 0);                                                   \
            for (int64_t at = 0; at < i->m * i->n; at++)                                             \
                assert_int_equal(seen[at], 1);                                                       \
            if ((keeps && memcmp(c, want, bytes) != 0) || memcmp(blocks, want, bytes) != 0)          \
                fail_msg(                                                                            \
                    "%s: m %d n %d k %d turned %d %d alpha %g beta %g, manner %d: other bits",       \
                    #suffix, (int)i->m, (int)i->n, (int)i->k, i->turn_a, i->turn_b, i->alpha,        \
                    i->beta, trial);                                                                 \
        }                                                                                            \
        free(a), free(b), free(was), free(want), free(c), free(blocks), free(seen);                  \
    }                                                                                                \
                                                                                                     \
    static void team_changes_no_bit_##suffix(void **unused)                                          \
    {                                                                                                \
        (void)unused;                                                                                \
        static const instance fixed[] = {                                                            \
            {250, 203, 600, 1, false, true, .3, 0},  {131, 301, 1025, 0, true, false, 1, 1},         \
            {97, 800, 257, 0, false, false, 1, .35}, {1100, 33, 300, 2, true, true, -.5, 0},         \
            {13, 2100, 256, 0, false, true, 1, 2},   {40, 40, 0, 0, false, false, 1, .5},            \
            {30, 97, 70000, 0, true, false, 1, 0},   {14, 9000, 520, 0, false, false, 1, 1},         \
        };                                                                                           \
        uint64_t state = 11;                                                                         \
        for (const rs_gemm_kernels *const *t = rs_gemm_tables(); *t; t++) {                          \
            rs_gemm_use(*t);                                                                         \
            for (size_t f = 0; f < sizeof fixed / sizeof *fixed; f++)                                \
                check_team_##suffix(&fixed[f], &state);                                              \
            for (int trial = 0; trial < 60; trial++) {                                               \
                instance i = draw(&state);                                                           \
                check_team_##suffix(&i, &state);                                                     \
            }                                                                                        \
        }                                                                                            \
        rs_gemm_use(NULL);                                                                           \
    }                                                                                                \
                                                                                                     \
    static void nothing_to_add_##suffix(void **unused)                                               \
    {                                                                                                \
        (void)unused;                                                                                \
        real c[6] = {1, 2, 3, 4, 5, 6};                                                              \
        rs_gemm_##suffix(RS_AS_IS, RS_AS_IS, 0, 3, 4, 1, NULL, 4, NULL, 3, 0, NULL, 3);              \
        rs_gemm_##suffix(RS_AS_IS, RS_AS_IS, 2, 2, 0, 1, NULL, 0, NULL, 2, 2, c, 3);                 \
        assert_true(c[0] == 2 && c[1] == 4 && c[2] == 3 && c[3] == 8 && c[4] == 10 && c[5] == 6);    \
        rs_gemm_##suffix(RS_AS_IS, RS_AS_IS, 1, 3, 0, 1, NULL, 0, NULL, 3, 0, c, 3);                 \
        assert_true(c[0] == 0 && c[1] == 0 && c[2] == 0 && c[3] == 8);                               \
    }

CASES(float, f32, 0x1p-23L)
CASES(double, f64, 0x1p-52L)

/* Products inside of a caller's own loop, whose region has one thread: each turn of it is taken. */
static void a_callers_loop_goes_on(void **unused)
{
    (void)unused;
    enum { SIZE = 200, TURNS = 5 };
    double *a = calloc(SIZE * SIZE, sizeof *a), *c = calloc(SIZE * SIZE, sizeof *c);
    assert_true(a && c);
    for (int i = 0; i < SIZE; i++)
        a[i * SIZE + i] = 3;
    int turns = 0;
#pragma omp parallel for num_threads(1) schedule(dynamic)
    for (int t = 0; t < TURNS; t++) {
        rs_gemm_team team = {.threads = 1};
        rs_gemm_team_f64(&team, RS_AS_IS, RS_AS_IS, SIZE, SIZE, SIZE, 1, a, SIZE, a, SIZE, 0, c,
                         SIZE);
        turns++;
    }
    assert_int_equal(turns, TURNS);
    assert_true(c[0] == 9 && c[1] == 0 && c[SIZE * SIZE - 1] == 9);
    free(a);
    free(c);
}

/* On and above the diagonal a Gram has the bits of the whole product. */
static void upper_half_of_grams(void **unused)
{
    (void)unused;
    enum { MOST = 140 };
    static double t[MOST * (MOST + 3)], x[MOST * MOST], whole[MOST * MOST];
    uint64_t state = 5;
    for (const rs_gemm_kernels *const *table = rs_gemm_tables(); *table; table++) {
        rs_gemm_use(*table);
        for (int trial = 0; trial < 120; trial++) {
            int64_t r = 1 + below(&state, MOST), k = 1 + below(&state, MOST);
            bool turned = below(&state, 2);
            int64_t ld = (turned ? r : k) + below(&state, 3);
            for (int i = 0; i < MOST * (MOST + 3); i++)
                t[i] = (double)below(&state, 2001) / 1000 - 1;
            for (int64_t i = 0; i < r * r; i++)
                x[i] = whole[i] = (double)below(&state, 9);
            rs_gemm_gram_f64(turned, r, k, t, ld, x);
            rs_gemm_f64(turned ? RS_TURNED : RS_AS_IS, turned ? RS_AS_IS : RS_TURNED, r, r, k, 1, t,
                        ld, t, ld, 1, whole, r);
            for (int64_t i = 0; i < r; i++)
                if (memcmp(x + i * r + i, whole + i * r + i, (size_t)(r - i) * sizeof *x) != 0)
                    fail_msg("r %d k %d turned %d: row %d", (int)r, (int)k, turned, (int)i);
        }
    }
    rs_gemm_use(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_callers_loop_goes_on),   cmocka_unit_test(equals_definition_f32),
        cmocka_unit_test(equals_definition_f64),    cmocka_unit_test(blocks_change_no_bit_f32),
        cmocka_unit_test(blocks_change_no_bit_f64), cmocka_unit_test(team_changes_no_bit_f32),
        cmocka_unit_test(team_changes_no_bit_f64),  cmocka_unit_test(nothing_to_add_f32),
        cmocka_unit_test(nothing_to_add_f64),       cmocka_unit_test(upper_half_of_grams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
