/*
 * paths_cosine.c: how much single paths of one length point the same way.
 *
 * For contributions Y_i (n×d) the Frobenius cosine is <Y_i, Y_j>/(‖Y_i‖‖Y_j‖). With U_i = Y_i/‖Y_i‖
 * and T = Σ U_i, path i's cosines with all others sum to <U_i, T> less one for itself and for each
 * of its copies, so that the mean over pairs takes as many operations as there are paths, not pairs.
 * Pairs of one path drawn twice are no pairs, nor are those of a path that contributes nothing.
 */
#include "paths/paths_parts.h"

#include "base/memory.h"

#include <math.h>

/* The contributions of one length. */
typedef struct bundle {
    const double *states;  /* [m][count] */
    const int64_t *copies; /* [m] how often each path is among them */
    const bool *again;     /* [m] it is a copy of an earlier one */
    int64_t m, count;
    int threads;
    double *scale, *weight; /* [m] a power of two, and 1/‖scale Y‖; 0: no direction */
    double *total;          /* [count] T */
    double *others;         /* [m] the sum of a path's cosines with all other ones */
} bundle;

static void find_directions(bundle *b)
{
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < b->m; i++) {
        const double *y = b->states + i * b->count;
        b->scale[i] = rs_path_scale(y, b->count);
        double norm = sqrt(rs_path_dot(y, y, b->count, b->scale[i]));
        b->weight[i] = norm > 0 && isfinite(norm) ? 1 / norm : 0;
    }
}

/* Each entry adds up the paths in their order, whatever the number of threads. */
static void add_directions(bundle *b)
{
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t c = 0; c < b->count; c++) {
        double sum = 0;
        for (int64_t i = 0; i < b->m; i++)
            if (b->weight[i] > 0) sum += b->scale[i] * b->states[i * b->count + c] * b->weight[i];
        b->total[c] = sum;
    }
}

static void compare_directions(bundle *b)
{
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < b->m; i++) {
        double sum = 0;
        const double *y = b->states + i * b->count;
        for (int64_t c = 0; c < b->count && b->weight[i] > 0; c++)
            sum += b->scale[i] * y[c] * b->weight[i] * b->total[c];
        b->others[i] = b->weight[i] > 0 ? sum - (double)b->copies[i] : 0;
    }
}

/* Sums over the paths that have a direction. */
typedef struct tally {
    int64_t paths;
    double pairs, cosines;
    double
        squares; /* over pairs of different paths, as often as they are among the pairs, squared */
} tally;

/* The pairs of a path with others than its copies. */
static double pairs_of(const bundle *b, const tally *t, int64_t i)
{
    return (double)t->paths - (double)b->copies[i];
}

static tally tally_of(const bundle *b)
{
    tally t = {0};
    double copies = 0, cubes = 0;
    for (int64_t i = 0; i < b->m; i++)
        t.paths += b->weight[i] > 0;
    for (int64_t i = 0; i < b->m; i++)
        if (b->weight[i] > 0) {
            double c = (double)b->copies[i];
            t.pairs += pairs_of(b, &t, i) / 2;
            t.cosines += b->others[i] / 2;
            copies += c, cubes += c * c * c;
        }
    t.squares = (copies * copies - cubes) / 2; /* Σ c_a² c_b², the sums being over all copies */
    return t;
}

/* The jackknife's variance: (m-1)/m Σ (U_i − mean U)², U_i the mean without path i. NaN where some U_i
 * has no pair. */
static double jackknife(const bundle *b, const tally *t)
{
    double sum = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < b->m; i++) {
            if (!(b->weight[i] > 0)) continue;
            double left = t->pairs - pairs_of(b, t, i);
            double without = left > 0 ? (t->cosines - b->others[i]) / left : NAN;
            double apart = without - sum / (double)t->paths;
            if (pass == 0)
                sum += without;
            else
                squares += apart * apart;
        }
    return squares * (double)(t->paths - 1) / (double)t->paths;
}

/* Different paths that are compared pair by pair, at most. */
enum { COMPARED = 64 };

/* cosine [k, k], the upper triangle: of the paths `of`. */
static void compare_pairs(double cosine[COMPARED][COMPARED], const bundle *b, const int64_t *of,
                          int k)
{
#pragma omp parallel for num_threads(b->threads) schedule(dynamic)
    for (int i = 0; i < k; i++)
        for (int j = i + 1; j < k; j++) {
            const double *x = b->states + of[i] * b->count, *y = b->states + of[j] * b->count;
            double sum = 0, by_x = b->scale[of[i]], by_y = b->scale[of[j]];
            for (int64_t c = 0; c < b->count; c++)
                sum += by_x * x[c] * (by_y * y[c]);
            cosine[i][j] = sum * b->weight[of[i]] * b->weight[of[j]];
        }
}

/* The variance of what a pair has beside the shares of its two paths: cos_ij = mean + a_i + a_j + e_ij, by
 * least squares over the pairs of k paths, on k(k−3)/2 degrees of freedom. NaN: fewer than four paths. */
static double pair_variance(const bundle *b)
{
    static const int least = 4;
    double cosine[COMPARED][COMPARED], row[COMPARED] = {0}, mean = 0, squares = 0;
    int64_t of[COMPARED];
    int k = 0;
    for (int64_t i = 0; i < b->m && k < COMPARED; i++)
        if (b->weight[i] > 0 && !b->again[i]) of[k++] = i;
    if (k < least) return NAN;
    compare_pairs(cosine, b, of, k);
    for (int i = 0; i < k; i++)
        for (int j = i + 1; j < k; j++)
            row[i] += cosine[i][j], row[j] += cosine[i][j], mean += cosine[i][j];
    mean /= k * (k - 1) / 2.0;
    for (int i = 0; i < k; i++)
        row[i] = (row[i] - (k - 1) * mean) / (k - 2);
    for (int i = 0; i < k; i++)
        for (int j = i + 1; j < k; j++)
            squares += pow(cosine[i][j] - mean - row[i] - row[j], 2);
    return squares / (k * (k - 3) / 2.0);
}

/* The mean's standard error. The jackknife counts the variance of the e_ij 2(m−1)/(m−2) times (Efron &
 * Stein, Ann. Statist. 9, 1981), and that is all of it where paths are independent: what is too much
 * is taken off, but for what few paths may take too much. */
static double error_of(const bundle *b, const tally *t)
{
    double m = (double)t->paths, whole = jackknife(b, t), pair = pair_variance(b);
    if (isnan(pair) || isnan(whole)) return sqrt(whole);
    double own = pair * t->squares / (t->pairs * t->pairs);
    return sqrt(fmax(own / 4, whole - own * m / (m - 2)));
}

static rs_path_cosine cosine_of(bundle *b, bool exhaustive)
{
    rs_path_cosine out = {NAN, NAN, NAN};
    find_directions(b);
    add_directions(b);
    compare_directions(b);
    tally t = tally_of(b);
    if (!(t.pairs > 0)) return out;
    out.mean = fmax(-1, fmin(1, t.cosines / t.pairs));
    out.error = exhaustive ? 0 : error_of(b, &t);
    out.null = sqrt(t.squares / (double)b->count) / t.pairs;
    return out;
}

rs_status rs_path_measure_cosines(rs_path_sample *out, const rs_paths_run *run,
                                  const double *states, int64_t n, rs_error *err)
{
    const rs_path_set *set = run->set;
    int64_t count = n * run->network->d_model, paths = (int64_t)set->n;
    double *room = rs_malloc((size_t)(3 * paths + count), sizeof *room);
    if (!room) return rs_fail_memory(err, "cosines of paths", (size_t)count * sizeof *room);
    for (int32_t k = 0; k <= run->plan->longest; k++) {
        bundle b = {.states = states + (int64_t)set->first[k] * count,
                    .copies = set->copies + set->first[k],
                    .again = set->again + set->first[k],
                    .m = (int64_t)(set->first[k + 1] - set->first[k]),
                    .count = count,
                    .threads = run->context->threads,
                    .scale = room,
                    .weight = room + paths,
                    .others = room + 2 * paths,
                    .total = room + 3 * paths};
        out->cosines[k] = cosine_of(&b, set->exhaustive[k]);
    }
    rs_free(room);
    return RS_OK;
}
