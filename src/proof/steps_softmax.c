/* steps_softmax.c: one query's attention with and without E, and the difference of the two
 * (docs/perturbation.md, 1). */
#include "proof/steps_parts.h"

bool rs_steps_masked(const rs_steps_head *h)
{
    return h->n > 1 && (h->causal || (h->window > 0 && h->window < h->n));
}

bool rs_steps_seen(const rs_steps_head *h, int64_t query, int64_t key)
{
    int64_t behind = query - key;
    if (h->causal && behind < 0) return false;
    return h->window <= 0 || (behind < h->window && -behind < h->window);
}

/* The key with the largest of some numbers, among those that are seen. */
static int64_t largest(arb_srcptr a, const rs_steps_head *h, int64_t query)
{
    int64_t best = -1;
    for (int64_t j = 0; j < h->n; j++)
        if (rs_steps_seen(h, query, j) &&
            (best < 0 || arf_cmp(arb_midref(a + j), arb_midref(a + best)) > 0))
            best = j;
    return best;
}

/* out = softmax of the logits over the keys that are seen. */
static void softmax(arb_ptr out, arb_srcptr logits, const rs_steps_head *h, int64_t query,
                    arb_ptr sum)
{
    int64_t most = largest(logits, h, query);
    arb_zero(sum);
    for (int64_t j = 0; j < h->n; j++) {
        arb_zero(out + j);
        if (!rs_steps_seen(h, query, j)) continue;
        arb_sub(out + j, logits + j, logits + most, RS_BALL_BITS);
        if (j == most) arb_zero(out + j);
        rs_step_exp(out + j, out + j);
        arb_add(sum, sum, out + j, RS_BALL_BITS);
    }
    for (int64_t j = 0; j < h->n; j++)
        arb_div(out + j, out + j, sum, RS_BALL_BITS);
}

/* E_i, its range, and what it adds to the sums. */
static void set_change(rs_step_query *q, rs_step_balls *b)
{
    const rs_steps_head *h = b->head;
    arb_ptr low = b->spare, high = b->spare + 1, row = b->spare + 2, size = b->spare + 3;
    int64_t seen = 0;
    arb_zero(row);
    for (int64_t j = 0; j < h->n; j++) {
        arb_ptr e = q->change + j;
        arb_zero(e);
        if (!rs_steps_seen(h, q->at, j)) continue;
        rs_step_dot(e, b->queries + q->at * h->units, 1, b->keys + j * h->units, 1, h->units);
        arb_mul(e, e, b->number + RS_BALL_SCALE, RS_BALL_BITS);
        if (seen == 0) arb_set(low, e);
        if (seen == 0) arb_set(high, e);
        seen++;
        arb_min(low, low, e, RS_BALL_BITS);
        arb_max(high, high, e, RS_BALL_BITS);
        arb_abs(size, e);
        arb_add(row, row, size, RS_BALL_BITS);
        arb_add(b->change_sums + j, b->change_sums + j, size, RS_BALL_BITS);
        rs_step_raise(b->number + RS_BALL_CHANGE_MOST, size);
    }
    rs_step_raise(b->number + RS_BALL_CHANGE_INF, row);
    arb_add(b->number + RS_BALL_CHANGE_TOTAL, b->number + RS_BALL_CHANGE_TOTAL, row, RS_BALL_BITS);
    arb_sub(b->ranges + q->at, high, low, RS_BALL_BITS);
    arb_nonnegative_part(b->ranges + q->at, b->ranges + q->at);
    if (seen == 1) arb_zero(b->ranges + q->at);
}

/* u_j = E_ij − E_i* with * the likeliest key, into out; whether all are within ½ of 0. */
static bool differences(arb_ptr out, const rs_step_query *q, const rs_steps_head *h)
{
    int64_t likely = largest(q->base, h, q->at);
    bool small = true;
    for (int64_t j = 0; j < h->n; j++) {
        arb_zero(out + j);
        if (j == likely || !rs_steps_seen(h, q->at, j)) continue;
        arb_sub(out + j, q->change + j, q->change + likely, RS_BALL_BITS);
        small = small && arb_is_finite(out + j) && arf_cmpabs_2exp_si(arb_midref(out + j), -1) < 0;
    }
    return small;
}

/* P − p = p_j (e^{u_j} − 1 − S)/(1 + S), S = Σ p_k (e^{u_k} − 1), of which no digit is lost where P is
 * near p (docs/theory/corrections.md, 14). gap holds u, and then e^u − 1; sets S and 1 + S. */
static void set_sums(arb_t sum, arb_t over, rs_step_query *q, int64_t n)
{
    arb_zero(sum);
    for (int64_t j = 0; j < n; j++) {
        rs_step_expm1(q->gap + j, q->gap + j);
        arb_addmul(sum, q->base + j, q->gap + j, RS_BALL_BITS);
    }
    arb_add_ui(over, sum, 1, RS_BALL_BITS);
}

static void gap_by_sums(arb_t out, const rs_step_query *q, int64_t j, const arb_t sum,
                        const arb_t over)
{
    arb_sub(out, q->gap + j, sum, RS_BALL_BITS);
    arb_div(out, out, over, RS_BALL_BITS);
    arb_mul(out, out, q->base + j, RS_BALL_BITS);
}

/* Where E is small, P follows from it too. */
static void small_gap(rs_step_query *q, const rs_step_balls *b)
{
    arb_ptr sum = b->spare, over = b->spare + 1;
    set_sums(sum, over, q, b->head->n);
    for (int64_t j = 0; j < b->head->n; j++) {
        gap_by_sums(q->gap + j, q, j, sum, over);
        arb_add(q->mixed + j, q->base + j, q->gap + j, RS_BALL_BITS);
    }
}

/* Where E is not, P is worked out by itself, and of the difference of the two and that formula what is
 * known better is taken: near 1 the difference loses what is left to 1, far from p nothing. */
static void large_gap(rs_step_query *q, const rs_step_balls *b)
{
    arb_ptr sum = b->spare, over = b->spare + 1, apart = b->spare + 2;
    int64_t n = b->head->n;
    for (int64_t j = 0; j < n; j++)
        arb_add(q->change + j, b->shared + j, q->change + j, RS_BALL_BITS);
    softmax(q->mixed, q->change, b->head, q->at, b->spare);
    set_sums(sum, over, q, n);
    for (int64_t j = 0; j < n; j++) {
        gap_by_sums(q->gap + j, q, j, sum, over);
        arb_sub(apart, q->mixed + j, q->base + j, RS_BALL_BITS);
        if (!arb_is_finite(q->gap + j) ||
            arb_rel_accuracy_bits(apart) > arb_rel_accuracy_bits(q->gap + j))
            arb_set(q->gap + j, apart);
    }
}

void rs_steps_query(rs_step_query *q, rs_step_balls *b)
{
    const rs_steps_head *h = b->head;
    arb_ptr range = b->ranges + q->at, grown = b->grown + q->at, share = b->spare;
    set_change(q, b);
    if (q->at == 0 || rs_steps_masked(h)) softmax(q->base, b->shared, h, q->at, b->spare);
    if (differences(q->gap, q, h))
        small_gap(q, b);
    else
        large_gap(q, b);
    rs_step_expm1(grown, range);
    for (int64_t j = 0; j < h->n; j++) {
        rs_step_add_size(b->gap_sums + j, q->gap + j);
        arb_mul(share, range, q->base + j, RS_BALL_BITS);
        arb_add(b->base_sums + j, b->base_sums + j, share, RS_BALL_BITS);
        rs_step_raise(b->number + RS_BALL_SHARED_MOST, q->base + j);
    }
    arb_add(b->number + RS_BALL_RANGE_SUM, b->number + RS_BALL_RANGE_SUM, range, RS_BALL_BITS);
    rs_step_raise(b->number + RS_BALL_RANGE_MOST, range);
    arb_add(b->number + RS_BALL_GROWN_SUM, b->number + RS_BALL_GROWN_SUM, grown, RS_BALL_BITS);
}
