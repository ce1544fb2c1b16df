/*
 * lp_simplex.c: max ⟨f, w⟩ − ½ wᵀMw over the simplex. Rows with weight form the active set; on it
 * M w = f − t 1, Σw = 1. A row whose weight would turn negative leaves on the way there; when none
 * does, the row whose f_i − (Mw)_i exceeds t most comes in. The value rises with every change, so
 * that no set comes twice.
 */
#include "linalg/lp_simplex.h"

#include "linalg/blas.h"

#include <math.h>
#include <string.h>

#define REGULARISED 1e-10 /* of the mean diagonal: equal rows make M singular */
#define SETTLED 1e-9      /* of the largest f: no row exceeds t by more */

void rs_lp_simplex_take(rs_lp_simplex *s, int64_t n, rs_workspace *space)
{
    s->curve = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof(double));
    s->factor = rs_workspace_take(space, (size_t)n, (size_t)n * sizeof(double));
    s->gain = rs_workspace_doubles(space, n);
    s->weights = rs_workspace_doubles(space, n);
    s->right = rs_workspace_take(space, (size_t)n, 2 * sizeof(double));
    s->kept = rs_workspace_take(space, (size_t)n, sizeof(int64_t));
}

static double largest(const double *a, int64_t n)
{
    double most = a[0];
    for (int64_t i = 1; i < n; i++)
        most = a[i] > most ? a[i] : most;
    return most;
}

/* The answer on the rows kept, into right[0 … c); returns t less `top`. */
static bool solve_kept(rs_lp_simplex *s, int64_t m, int64_t c, double top, double *level)
{
    double trace = 0;
    for (int64_t i = 0; i < m; i++)
        trace += s->curve[i * m + i];
    blasint order = (blasint)c;
    double more = REGULARISED * trace / (double)m;
    for (int attempt = 0;; attempt++, more *= 100) {
        if (attempt == 4 || !(more >= 0)) return false;
        for (int64_t i = 0; i < c; i++) {
            for (int64_t j = 0; j <= i; j++)
                s->factor[i * c + j] = s->curve[s->kept[i] * m + s->kept[j]];
            s->factor[i * c + i] += more;
            s->right[i] = s->gain[s->kept[i]] - top;
            s->right[c + i] = 1;
        }
        /* Row-major lower is column-major upper. */
        if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'U', order, 2, s->factor, order, s->right,
                               order) == 0)
            break;
    }
    double sum = 0, ones = 0;
    for (int64_t i = 0; i < c; i++) {
        sum += s->right[i];
        ones += s->right[c + i];
    }
    *level = (sum - 1) / ones;
    for (int64_t i = 0; i < c; i++)
        s->right[i] -= *level * s->right[c + i];
    return isfinite(*level);
}

/* Moves the weights towards the answer as far as none turns negative and drops the rows that reach
 * zero; returns how many stay, c when the whole way was free. */
static int64_t move(rs_lp_simplex *s, int64_t c)
{
    double way = 1, sum = 0;
    for (int64_t i = 0; i < c; i++) {
        double now = s->weights[s->kept[i]], then = s->right[i];
        if (then <= 0) way = fmin(way, now > 0 ? now / (now - then) : 0);
    }
    int64_t stay = 0;
    for (int64_t i = 0; i < c; i++) {
        int64_t row = s->kept[i];
        double now = s->weights[row], then = s->right[i];
        double reached = now + way * (then - now);
        bool drop = then <= 0 && (now <= 0 || now / (now - then) <= way * (1 + 1e-9));
        s->weights[row] = drop ? 0 : fmax(reached, 0);
        if (!drop) s->kept[stay++] = row;
        sum += s->weights[row];
    }
    for (int64_t i = 0; i < stay; i++)
        s->weights[s->kept[i]] /= sum;
    return stay;
}

/* The row outside that exceeds the level most, −1: none does. */
static int64_t entering(const rs_lp_simplex *s, int64_t m, int64_t c, double level)
{
    double most = SETTLED * largest(s->gain, m);
    int64_t best = -1;
    for (int64_t i = 0; i < m; i++) {
        if (s->weights[i] > 0) continue;
        double excess = s->gain[i] - level;
        for (int64_t j = 0; j < c; j++)
            excess -= s->curve[i * m + s->kept[j]] * s->weights[s->kept[j]];
        if (!(excess > most)) continue;
        most = excess;
        best = i;
    }
    return best;
}

bool rs_lp_simplex_solve(rs_lp_simplex *s, int64_t m)
{
    int64_t c = 0;
    double top = largest(s->gain, m), level;
    for (int64_t i = 0; i < m; i++)
        if (s->weights[i] > 0) s->kept[c++] = i;
    for (int64_t change = 0; change < 4 * m + 16 && c > 0; change++) {
        if (!solve_kept(s, m, c, top, &level)) return false;
        int64_t stay = move(s, c);
        if (stay < c) {
            c = stay;
            continue;
        }
        int64_t row = entering(s, m, c, level + top);
        if (row < 0) return true;
        s->kept[c++] = row;
    }
    return false;
}
