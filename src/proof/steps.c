/* steps.c: the proof of the cubic bound on one head: all lines (steps.h). */
#include "proof/steps_parts.h"

#include "base/memory.h"

#include <math.h>

enum { LEFT, RIGHT, REPAIRED, REPAIRED_SIZE, SIDES };

/* The lines between matrices, while the queries are gone through. */
typedef struct walk {
    rs_step_balls *b;
    rs_step_query query;
    rs_step_matrix low, high, moved, product, absolute;
    arb_ptr mean, mean_size; /* [d] pᵀR, pᵀ|R| */
    arb_ptr values;          /* [out] pᵀ|RW| */
    arb_ptr side;            /* [SIDES] */
    arb_ptr over;            /* [2] left less right, left less repaired; two spare balls */
    arb_ptr tight;           /* how tight the row of line `moved` is that is told */
    arb_ptr row;             /* [3] its sides */
    int64_t at;              /* its number */
} walk;

static void open_walk(walk *w, rs_step_balls *b)
{
    const rs_steps_head *h = b->head;
    *w = (walk){.b = b, .at = -1};
    w->query = (rs_step_query){.change = rs_step_take(b, h->n),
                               .base = rs_step_take(b, h->n),
                               .gap = rs_step_take(b, h->n),
                               .mixed = rs_step_take(b, h->n)};
    rs_step_matrix_open(&w->low, b, h->n, RS_SENSE_CLIPPED);
    rs_step_matrix_open(&w->high, b, h->n, RS_SENSE_PLAIN);
    rs_step_matrix_open(&w->moved, b, h->n, RS_SENSE_PLAIN);
    rs_step_matrix_open(&w->product, b, h->d, RS_SENSE_SIGNED);
    rs_step_matrix_open(&w->absolute, b, h->out, RS_SENSE_PLAIN);
    w->mean = rs_step_take(b, h->d);
    w->mean_size = rs_step_take(b, h->d);
    w->values = rs_step_take(b, h->out);
    w->side = b->spare + 4; /* those before are of the files below */
    w->over = b->spare + 8;
    w->tight = b->spare + 12;
    w->row = b->spare + 14;
}

/* ---- one query ---- */

/* P_ij beside p_j, and their difference: which is right where E is too small for P to tell. */
static void probability(walk *w, int64_t j)
{
    const rs_step_query *q = &w->query;
    arb_srcptr base = q->base + j, gap = q->gap + j, mixed = q->mixed + j;
    arb_ptr side = w->side, over = w->over, twice = w->over + 2, grown = w->over + 3;
    arb_mul(over, w->b->ranges + q->at, base, RS_BALL_BITS);
    arb_mul_2exp_si(twice, over, 1);                         /* 2D p */
    arb_mul(grown, w->b->grown + q->at, base, RS_BALL_BITS); /* (e^D − 1) p */

    arb_sub(side + LEFT, base, over, RS_BALL_BITS);
    arb_set(side + RIGHT, mixed);
    arb_zero(side + REPAIRED);
    arb_add(over, over, gap, RS_BALL_BITS);
    arb_neg(over, over);
    rs_step_matrix_add(&w->low, q->at, j, side, over);

    arb_set(side + LEFT, mixed);
    arb_add(side + RIGHT, base, twice, RS_BALL_BITS);
    arb_add(side + REPAIRED, base, grown, RS_BALL_BITS);
    arb_sub(over, gap, twice, RS_BALL_BITS);
    arb_sub(over + 1, gap, grown, RS_BALL_BITS);
    rs_step_matrix_add(&w->high, q->at, j, side, over);

    arb_abs(side + LEFT, gap);
    arb_set(side + RIGHT, twice);
    arb_set(side + REPAIRED, grown);
    arb_sub(over, side + LEFT, twice, RS_BALL_BITS);
    arb_sub(over + 1, side + LEFT, grown, RS_BALL_BITS);
    rs_step_matrix_add(&w->moved, q->at, j, side, over);
}

/* The lines between P and p. */
static void probabilities(walk *w)
{
    for (int64_t j = 0; j < w->b->head->n; j++)
        if (rs_steps_seen(w->b->head, w->query.at, j)) probability(w, j);
    rs_step_matrix_row(&w->low);
    rs_step_matrix_row(&w->high);
    rs_step_matrix_row(&w->moved);
}

/* How much probability the query moves: the one where that is nearest to the most that it can. */
static void moved_row(walk *w)
{
    const rs_step_query *q = &w->query;
    arb_ptr range = w->b->ranges + q->at, side = w->side;
    arb_zero(side + LEFT);
    for (int64_t j = 0; j < w->b->head->n; j++)
        rs_step_add_size(side + LEFT, q->gap + j);
    arb_mul_2exp_si(side + RIGHT, range, 1);
    arb_mul_2exp_si(side + REPAIRED, range, -2);
    rs_step_tanh(side + REPAIRED, side + REPAIRED);
    arb_mul_2exp_si(side + REPAIRED, side + REPAIRED, 1);
    arb_div(w->tight + 1, side + LEFT, side + REPAIRED, RS_BALL_BITS);
    bool says = arb_is_finite(w->tight + 1);
    bool tighter = says && arf_cmp(arb_midref(w->tight + 1), arb_midref(w->tight)) > 0;
    if (w->at >= 0 && !tighter) return;
    w->at = q->at;
    if (says) arb_set(w->tight, w->tight + 1);
    for (int s = LEFT; s <= REPAIRED; s++)
        arb_set(w->row + s, side + s);
}

/* Σ_j weights_j rows_jk for all k < cols. */
static void weighed(arb_ptr out, const walk *w, arb_srcptr weights, arb_srcptr rows, int64_t cols)
{
    for (int64_t k = 0; k < cols; k++)
        rs_step_dot(out + k, weights, 1, rows + k, cols, w->b->head->n);
}

/* PR beside 1pᵀR. */
static void products(walk *w)
{
    const rs_steps_head *h = w->b->head;
    const rs_step_query *q = &w->query;
    arb_ptr range = w->b->ranges + q->at, grown = w->b->grown + q->at;
    arb_ptr side = w->side, over = w->over;
    if (q->at == 0 || rs_steps_masked(h)) {
        weighed(w->mean, w, q->base, w->b->residual, h->d);
        weighed(w->mean_size, w, q->base, w->b->residual_size, h->d);
    }
    for (int64_t k = 0; k < h->d; k++) {
        rs_step_dot(side + LEFT, q->mixed, 1, w->b->residual + k, h->d, h->n);
        rs_step_dot(over, q->gap, 1, w->b->residual + k, h->d, h->n); /* (P − 1pᵀ)R */
        arb_mul(side + RIGHT, range, w->mean + k, RS_BALL_BITS);
        arb_mul_2exp_si(side + RIGHT, side + RIGHT, 1);
        arb_mul(side + REPAIRED, grown, w->mean_size + k, RS_BALL_BITS);
        arb_sub(over + 1, over, side + REPAIRED, RS_BALL_BITS);
        arb_sub(over, over, side + RIGHT, RS_BALL_BITS);
        arb_add(side + RIGHT, side + RIGHT, w->mean + k, RS_BALL_BITS);
        arb_set(side + REPAIRED_SIZE, side + REPAIRED);
        arb_add(side + REPAIRED, side + REPAIRED, w->mean + k, RS_BALL_BITS);
        rs_step_add_size(side + REPAIRED_SIZE, w->mean + k);
        rs_step_matrix_add(&w->product, q->at, k, side, over);
    }
    rs_step_matrix_row(&w->product);
}

/* R' = (P − 1pᵀ) R W. */
static void residuals(walk *w)
{
    const rs_steps_head *h = w->b->head;
    const rs_step_query *q = &w->query;
    arb_ptr range = w->b->ranges + q->at, grown = w->b->grown + q->at;
    arb_ptr side = w->side, over = w->over;
    arb_ptr left = w->b->left + q->at * h->out;
    if (q->at == 0 || rs_steps_masked(h)) weighed(w->values, w, q->base, w->b->moved_size, h->out);
    weighed(left, w, q->gap, w->b->moved, h->out);
    for (int64_t k = 0; k < h->out; k++) {
        arb_abs(side + LEFT, left + k);
        arb_mul(side + RIGHT, range, w->values + k, RS_BALL_BITS);
        arb_mul_2exp_si(side + RIGHT, side + RIGHT, 1);
        arb_mul(side + REPAIRED, grown, w->values + k, RS_BALL_BITS);
        arb_sub(over, side + LEFT, side + RIGHT, RS_BALL_BITS);
        arb_sub(over + 1, side + LEFT, side + REPAIRED, RS_BALL_BITS);
        rs_step_matrix_add(&w->absolute, q->at, k, side, over);
    }
    rs_step_matrix_row(&w->absolute);
}

static rs_status all_queries(walk *w, const rs_context *context, rs_error *err)
{
    for (int64_t i = 0; i < w->b->head->n; i++) {
        if (context) RS_TRY(rs_check_cancelled(context, err));
        w->query.at = i;
        rs_steps_query(&w->query, w->b);
        probabilities(w);
        moved_row(w);
        products(w);
        residuals(w);
    }
    return RS_OK;
}

/* ---- all of them ---- */

/* What is said of a key, and of all of them. */
static void tell_column(rs_step_row *row, walk *w, int64_t j, bool all[2])
{
    rs_step_balls *b = w->b;
    arb_ptr side = w->side, found = w->tight + 1;
    bool masked = rs_steps_masked(b->head);
    rs_step_row here;
    arb_mul_2exp_si(side + RIGHT, b->base_sums + j, 1);
    arb_mul(side + REPAIRED, b->number + RS_BALL_CONSTANT, b->number + RS_BALL_CHANGE_ONE,
            RS_BALL_BITS);
    arb_mul(side + REPAIRED, side + REPAIRED, w->query.base + j, RS_BALL_BITS);
    rs_step_row_set(&here, b->gap_sums + j, side + RIGHT, masked ? NULL : side + REPAIRED, false);
    all[0] = all[0] && here.holds == 1;
    all[1] = all[1] && here.repaired_holds == 1;
    arb_div(found, b->gap_sums + j, side + RIGHT, RS_BALL_BITS);
    if (!arb_is_finite(found) && here.holds == 0) arb_pos_inf(found);
    bool says = arb_is_finite(found) || here.holds == 0;
    if (row->at_column >= 0 && !(says && arf_cmp(arb_midref(found), arb_midref(w->tight)) > 0))
        return;
    if (says) arb_set(w->tight, found);
    here.met = row->met;
    here.at_row = -1;
    here.at_column = j;
    *row = here;
}

/* The key that takes, or loses, the most of what it can. With a mask each row has its own p, and no
 * repaired side. */
static void moved_column(rs_step_row *row, walk *w)
{
    bool all[2] = {true, true};
    arb_neg_inf(w->tight);
    row->at_column = -1;
    for (int64_t j = 0; j < w->b->head->n; j++)
        tell_column(row, w, j, all);
    if (row->holds == 1 && !all[0]) row->holds = -1;
    if (row->repaired_holds == 1 && !all[1]) row->repaired_holds = -1;
}

static void tell_matrices(rs_steps *out, walk *w)
{
    rs_step_row *moved = out->rows[RS_LINE_MOVED];
    rs_step_matrix_tell(out->rows[RS_LINE_LOW], &w->low, false);
    rs_step_matrix_tell(out->rows[RS_LINE_HIGH], &w->high, true);
    rs_step_matrix_tell(out->rows[RS_LINE_SIGNED], &w->product, true);
    rs_step_matrix_tell(out->rows[RS_LINE_ABSOLUTE], &w->absolute, true);
    rs_step_matrix_tell(moved, &w->moved, true);
    rs_step_row_set(&moved[RS_STEP_INF], w->row + LEFT, w->row + RIGHT, w->row + REPAIRED, false);
    moved[RS_STEP_INF].at_row = w->at;
    moved_column(&moved[RS_STEP_ONE], w);
}

static void clear_rows(rs_steps *out)
{
    for (int l = 0; l < RS_LINES; l++)
        for (int n = 0; n < RS_STEP_NORMS; n++)
            out->rows[l][n] = (rs_step_row){.left = {NAN, NAN},
                                            .right = {NAN, NAN},
                                            .repaired = {NAN, NAN},
                                            .ratio = NAN,
                                            .repaired_ratio = NAN,
                                            .holds = -1,
                                            .repaired_holds = -1,
                                            .met = -1,
                                            .at_row = -1,
                                            .at_column = -1};
}

/* Lines that are not taken in a norm, or that have no number under a mask. */
static void drop_rows(rs_steps *out, const rs_steps_head *h)
{
    bool masked = rs_steps_masked(h);
    for (int l = 0; l < RS_LINES; l++)
        for (int n = 0; n < RS_STEP_NORMS; n++) {
            const rs_step_text *text = &rs_step_kinds[l].in[n];
            if (!text->published || (masked && text->one_row)) out->rows[l][n].known = false;
        }
}

static rs_status work_out(rs_steps *out, rs_step_balls *b, const rs_context *context, rs_error *err)
{
    const rs_steps_head *h = b->head;
    int64_t wide = h->d > h->out ? h->d : h->out;
    walk w;
    wide = wide > h->n ? wide : h->n;
    b->number = rs_step_take(b, RS_STEP_BALLS);
    b->spare = rs_step_take(b, RS_STEP_SPARE);
    arb_ptr sums = rs_step_take(b, wide > h->units ? wide : h->units);
    rs_steps_set(b, sums);
    b->left = rs_step_take(b, h->n * h->out);
    b->ranges = rs_step_take(b, h->n);
    b->grown = rs_step_take(b, h->n);
    b->change_sums = rs_step_take(b, h->n);
    b->base_sums = rs_step_take(b, h->n);
    b->gap_sums = rs_step_take(b, h->n);
    open_walk(&w, b);
    RS_TRY(all_queries(&w, context, err));
    rs_steps_scalars(out, b, sums);
    tell_matrices(out, &w);
    rs_steps_conditions(out, b);
    drop_rows(out, h);
    return RS_OK;
}

rs_status rs_steps_of(rs_steps *out, const rs_steps_head *head, const rs_context *context,
                      rs_error *err)
{
    rs_step_balls b = {.head = head, .count = rs_step_count(head)};
    clear_rows(out);
    b.all = rs_malloc((size_t)b.count, sizeof *b.all);
    if (!b.all) return rs_fail_memory(err, "proof steps", (size_t)b.count * sizeof *b.all);
    for (int64_t i = 0; i < b.count; i++)
        arb_init(b.all + i);
    rs_status status = work_out(out, &b, context, err);
    for (int64_t i = 0; i < b.count; i++)
        arb_clear(b.all + i);
    rs_free(b.all);
    return status;
}

double rs_steps_bytes(const rs_steps_head *head)
{
    return (double)rs_step_count(head) * sizeof(arb_struct);
}
