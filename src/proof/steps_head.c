/* steps_head.c: one head in balls: X = 1xᵀ + R, R W_Q, R W_K, R W, r, and the norms that do not
 * depend on the attention (steps.h). */
#include "proof/steps_parts.h"

static int64_t most_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t widest(const rs_steps_head *h)
{
    return most_of(most_of(h->d, h->out), most_of(h->n, h->units));
}

int64_t rs_step_count(const rs_steps_head *h)
{
    int64_t weights = (2 * h->units + h->values) * h->d + (h->o ? h->values * h->out : 0);
    int64_t rows = h->n * (2 * h->d + 2 * h->units + h->values + (h->o ? 3 : 2) * h->out + 6);
    int64_t query = 4 * h->n + 2 * h->d + h->out;
    int64_t lines =
        3 * rs_step_matrix_count(h->n) + rs_step_matrix_count(h->d) + rs_step_matrix_count(h->out);
    return weights + rows + query + lines + h->d + widest(h) + RS_STEP_BALLS + RS_STEP_SPARE;
}

/* ---- what is read ---- */

static arb_ptr taken(rs_step_balls *b, const double *a, int64_t count)
{
    arb_ptr out = rs_step_take(b, count);
    for (int64_t i = 0; i < count; i++)
        arb_set_d(out + i, a[i]);
    return out;
}

/* x, the mean of the differences from the first token and it: equal tokens give that token. */
static void set_centre(rs_step_balls *b, int64_t k)
{
    const rs_steps_head *h = b->head;
    arb_ptr sum = b->spare, one = b->spare + 1;
    arb_zero(sum);
    for (int64_t i = 1; i < h->n; i++) {
        arb_set_d(one, h->x[i * h->d + k]);
        arb_add(sum, sum, one, RS_BALL_BITS);
        arb_set_d(one, h->x[k]);
        arb_sub(sum, sum, one, RS_BALL_BITS);
    }
    arb_div_si(sum, sum, (slong)h->n, RS_BALL_BITS);
    arb_set_d(one, h->x[k]);
    arb_add(sum, sum, one, RS_BALL_BITS);
    arb_set_d(b->x + k, arf_get_d(arb_midref(sum), ARF_RND_NEAR));
}

static void set_residual(rs_step_balls *b)
{
    const rs_steps_head *h = b->head;
    b->x = rs_step_take(b, h->d);
    b->residual = rs_step_take(b, h->n * h->d);
    for (int64_t k = 0; k < h->d; k++) {
        set_centre(b, k);
        for (int64_t i = 0; i < h->n; i++) {
            arb_ptr r = b->residual + i * h->d + k;
            arb_set_d(r, h->x[i * h->d + k]);
            arb_sub(r, r, b->x + k, RS_BALL_BITS);
        }
    }
}

/* ---- products ---- */

/* rows [n, d] times the rows of weights [units, d]. */
static arb_ptr projected(rs_step_balls *b, arb_srcptr rows, arb_srcptr weights, int64_t units)
{
    int64_t d = b->head->d, n = b->head->n;
    arb_ptr out = rs_step_take(b, n * units);
    for (int64_t i = 0; i < n; i++)
        for (int64_t u = 0; u < units; u++)
            rs_step_dot(out + i * units + u, rows + i * d, 1, weights + u * d, 1, d);
    return out;
}

/* R W: as the values of R are, or as the output writes them. */
static void set_moved(rs_step_balls *b)
{
    const rs_steps_head *h = b->head;
    b->values = projected(b, b->residual, b->v, h->values);
    b->moved = b->values;
    if (!h->o) return;
    b->moved = rs_step_take(b, h->n * h->out);
    for (int64_t i = 0; i < h->n; i++)
        for (int64_t k = 0; k < h->out; k++)
            rs_step_dot(b->moved + i * h->out + k, b->values + i * h->values, 1, b->o + k, h->out,
                        h->values);
}

/* r_j = scale (R W_K)_j (W_Qᵀ x + b_Q). sums: [units] workspace. */
static void set_shared(rs_step_balls *b, arb_ptr sums)
{
    const rs_steps_head *h = b->head;
    arb_ptr one = b->spare, low = b->spare + 1, high = b->spare + 2;
    b->shared = rs_step_take(b, h->n);
    for (int64_t u = 0; u < h->units; u++) {
        rs_step_dot(sums + u, b->x, 1, b->q + u * h->d, 1, h->d);
        arb_set_d(one, h->q_bias ? h->q_bias[u] : 0);
        arb_add(sums + u, sums + u, one, RS_BALL_BITS);
    }
    for (int64_t j = 0; j < h->n; j++) {
        arb_ptr r = b->shared + j;
        rs_step_dot(r, b->keys + j * h->units, 1, sums, 1, h->units);
        arb_mul(r, r, b->number + RS_BALL_SCALE, RS_BALL_BITS);
        if (j == 0) arb_set(low, r);
        if (j == 0) arb_set(high, r);
        arb_min(low, low, r, RS_BALL_BITS);
        arb_max(high, high, r, RS_BALL_BITS);
    }
    arb_sub(b->number + RS_BALL_SHARED_RANGE, high, low, RS_BALL_BITS);
}

/* ‖·‖₁ and ‖·‖∞ of the matrix with entries Σ_u left[u, c] right[u, e], left [units, rows], right
 * [units, cols]. sums: [cols]. */
static void product_norms(rs_step_balls *b, arb_ptr one, arb_ptr inf, arb_ptr sums, arb_srcptr left,
                          arb_srcptr right, int64_t units, int64_t rows, int64_t cols)
{
    arb_ptr row = b->spare, entry = b->spare + 1;
    for (int64_t e = 0; e < cols; e++)
        arb_zero(sums + e);
    for (int64_t c = 0; c < rows; c++) {
        arb_zero(row);
        for (int64_t e = 0; e < cols; e++) {
            rs_step_dot(entry, left + c, rows, right + e, cols, units);
            rs_step_add_size(row, entry);
            rs_step_add_size(sums + e, entry);
        }
        rs_step_raise(inf, row);
    }
    for (int64_t e = 0; e < cols; e++)
        rs_step_raise(one, sums + e);
}

static void weight_norms(rs_step_balls *b, arb_ptr sums)
{
    const rs_steps_head *h = b->head;
    arb_ptr qk_one = b->number + RS_BALL_QK_ONE, qk_inf = b->number + RS_BALL_QK_INF;
    arb_ptr one = b->number + RS_BALL_VALUE_ONE, inf = b->number + RS_BALL_VALUE_INF;
    const rs_step_sizes transposed = {inf, one, NULL};
    product_norms(b, qk_one, qk_inf, sums, b->q, b->k, h->units, h->d, h->d);
    if (h->o)
        product_norms(b, one, inf, sums, b->v, b->o, h->values, h->d, h->out);
    else /* stored rows are outputs: transposed as a map of row vectors */
        rs_step_norms(&transposed, sums, b->v, h->values, h->d);
}

static arb_ptr sizes(rs_step_balls *b, arb_srcptr a, int64_t count)
{
    arb_ptr out = rs_step_take(b, count);
    for (int64_t i = 0; i < count; i++)
        arb_abs(out + i, a + i);
    return out;
}

void rs_steps_set(rs_step_balls *b, arb_ptr sums)
{
    const rs_steps_head *h = b->head;
    const rs_step_sizes residual = {b->number + RS_BALL_RESIDUAL_ONE,
                                    b->number + RS_BALL_RESIDUAL_INF, NULL};
    b->q = taken(b, h->q, h->units * h->d);
    b->k = taken(b, h->k, h->units * h->d);
    b->v = taken(b, h->v, h->values * h->d);
    if (h->o) b->o = taken(b, h->o, h->values * h->out);
    arb_set_d(b->number + RS_BALL_SCALE, h->scale);
    set_residual(b);
    b->queries = projected(b, b->residual, b->q, h->units);
    b->keys = projected(b, b->residual, b->k, h->units);
    set_moved(b);
    set_shared(b, sums);
    rs_step_norms(&residual, sums, b->residual, h->n, h->d);
    b->residual_size = sizes(b, b->residual, h->n * h->d);
    b->moved_size = sizes(b, b->moved, h->n * h->out);
    weight_norms(b, sums);
}
