/* squares.c: which instructions reduce matrices side by side here, and who waits. */
#include "linalg/squares.h"

#include "base/cpu.h"
#include "linalg/bidiagonalise.h"
#include "linalg/blas.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Rows of a matrix that waits, at most: eight larger ones leave the second cache of many processors, where
 * one alone fits. */
enum { MOST_ROWS = 64 };

typedef void reduce(double *d, double *e, double *matrix, int64_t n, const double *least,
                    double *work);
typedef struct lanes_set {
    int lanes;
    reduce *reduce;
} lanes_set;

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define LANES 4
#define TARGET __attribute__((target("avx2")))
#define NAME(of) of##_avx2
#include "linalg/squares_lanes.inc"
#define LANES 8
#define TARGET __attribute__((target("avx512f,avx512dq")))
#define NAME(of) of##_avx512
#include "linalg/squares_lanes.inc"
static const lanes_set avx2 = {4, bidiagonalise_avx2}, avx512 = {8, bidiagonalise_avx512};
#endif

static atomic_int most_lanes = -1;

void rs_squares_use(int lanes)
{
    atomic_store_explicit(&most_lanes, lanes, memory_order_relaxed);
}

/* NULL: this processor's vectors are too short. */
static const lanes_set *set_here(void)
{
    int most = atomic_load_explicit(&most_lanes, memory_order_relaxed);
    const lanes_set *set = NULL;
#if defined(__x86_64__)
    rs_cpu_level level = rs_cpu_vector_level();
    if (level == RS_CPU_AVX512)
        set = most < 0 || most >= avx512.lanes ? &avx512 : &avx2;
    else if (level == RS_CPU_AVX2)
        set = &avx2;
#endif
    return set && (most < 0 || most >= set->lanes) ? set : NULL;
}

/* ---- at once ---- */

/* The largest magnitude; four running maxima, for one alone would wait for itself. */
static double largest_of(const double *x, size_t n)
{
    double largest[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t k = 0; k < 4; k++)
            largest[k] = fabs(x[i + k]) > largest[k] ? fabs(x[i + k]) : largest[k];
    for (; i < n; i++)
        largest[0] = fabs(x[i]) > largest[0] ? fabs(x[i]) : largest[0];
    return fmax(fmax(largest[0], largest[1]), fmax(largest[2], largest[3]));
}

static bool reflects(int64_t n, double largest)
{
    enum { MOST = 128 }; /* rows: such a matrix is done before LAPACK's calls for it are prepared */
    return n <= MOST && largest >= RS_BIDIAGONALISE_LEAST && largest <= 1 / RS_BIDIAGONALISE_LEAST;
}

size_t rs_squares_work(int64_t n)
{
    return (size_t)(n * n + 64 * n + 64);
}

/* dgesvd's first half. Where the largest entry is so small or large that dgesvd would rescale, it does all
 * of it, and *out is empty. */
static lapack_int reduce_one(rs_bidiagonal *out, double *matrix, double largest, double *work)
{
    int64_t r = out->n;
    lapack_int n = (lapack_int)r, size = (lapack_int)rs_squares_work(r);
    double least = sqrt(DBL_MIN) / DBL_EPSILON;
    if (reflects(r, largest)) {
        rs_bidiagonalise(out->d, out->e, matrix, r, largest, work);
        return 0;
    }
    if (largest >= least && largest <= 1 / least)
        return LAPACKE_dgebrd_work(LAPACK_COL_MAJOR, n, n, matrix, n, out->d, out->e, work,
                                   work + r, work + 2 * r, size - 2 * n);
    out->n = 0;
    return LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'N', 'N', n, n, matrix, n, out->d, NULL, 1, NULL,
                               1, work, size);
}

/* ---- side by side ---- */

size_t rs_squares_room(int64_t n)
{
    int64_t rows = n < MOST_ROWS ? n : MOST_ROWS;
    return (size_t)(RS_SQUARES_AT_ONCE * (rows * rows + 5 * rows + 1));
}

/* The room from its first boundary of a cache line on. */
static double *begin_of(const rs_squares *all)
{
    return (double *)(((uintptr_t)all->room + 63) / 64 * 64);
}

/* Reduces those from `first` on that fill a vector; lanes without a matrix have zeros. */
static void reduce_some(rs_squares *all, int first, const lanes_set *set)
{
    int64_t n = all->n, lanes = set->lanes;
    double *matrices = begin_of(all) + first * n * n;
    double *d = begin_of(all) + RS_SQUARES_AT_ONCE * n * n, *e = d + n * lanes,
           *work = e + n * lanes;
    double least[RS_SQUARES_AT_ONCE] = {0};
    int here = all->count - first < set->lanes ? all->count - first : set->lanes;
    for (int64_t l = here; l < lanes; l++)
        for (int64_t i = 0; i < n * n; i++)
            matrices[i * lanes + l] = 0;
    memcpy(least, all->least + first, (size_t)here * sizeof *least);
    set->reduce(d, e, matrices, n, least, work);
    for (int l = 0; l < here; l++)
        for (int64_t i = 0; i < n; i++) {
            all->waiting[first + l].d[i] = d[i * lanes + l];
            if (i + 1 < n) all->waiting[first + l].e[i] = e[i * lanes + l];
        }
}

void rs_squares_finish(rs_squares *all)
{
    const lanes_set *set = set_here();
    for (int first = 0; first < all->count; first += set->lanes)
        reduce_some(all, first, set);
    all->count = 0;
}

rs_status rs_squares_add(rs_squares *all, rs_bidiagonal *out, double *matrix, double *work,
                         rs_error *err)
{
    const lanes_set *set = set_here();
    int64_t n = out->n;
    double largest = largest_of(matrix, (size_t)(n * n));
    if (!set || n > MOST_ROWS || !reflects(n, largest)) {
        lapack_int info = reduce_one(out, matrix, largest, work);
        if (info == 0) return RS_OK;
        return rs_fail(err, RS_E_LAPACK, "singular values", NULL, "dgebrd gave up (info %d)",
                       (int)info);
    }
    if (all->count > 0 && n != all->n) rs_squares_finish(all);
    int at = all->count++, lane = at % set->lanes;
    double *to = begin_of(all) + (at - lane) * n * n + lane;
    all->n = n;
    all->waiting[at] = *out;
    all->least[at] = rs_bidiagonalise_least(largest);
    for (int64_t i = 0; i < n * n; i++)
        to[i * set->lanes] = matrix[i];
    if (all->count == RS_SQUARES_AT_ONCE) rs_squares_finish(all);
    return RS_OK;
}
