/* steps_matrix.c: a line of the proof between matrices, entry by entry and in both norms. */
#include "proof/steps_parts.h"

enum { LEFT, RIGHT, REPAIRED, SIDES, REPAIRED_SIZE = SIDES };

int64_t rs_step_matrix_count(int64_t cols)
{
    return 3 * SIDES + 2 + SIDES * cols;
}

void rs_step_matrix_open(rs_step_matrix *m, rs_step_balls *b, int64_t cols, rs_step_sense sense)
{
    *m = (rs_step_matrix){.sense = sense,
                          .cols = cols,
                          .at_row = -1,
                          .at_column = -1,
                          .all = {true, true},
                          .entry = rs_step_take(b, SIDES),
                          .tight = rs_step_take(b, 2),
                          .row = rs_step_take(b, SIDES),
                          .most = rs_step_take(b, SIDES),
                          .sums = rs_step_take(b, SIDES * cols)};
}

/* How tight the entry is, into out; false: it says nothing, as both sides are 0, or known too
 * badly. A right side that may be 0 is still known to be too small where left less right is above 0. */
static bool tightness(arb_ptr out, const rs_step_matrix *m, arb_srcptr side, arb_srcptr over)
{
    if (m->sense == RS_SENSE_SIGNED) {
        arb_set(out, over);
        return arb_is_finite(out);
    }
    if (arb_is_zero(side + RIGHT) && arb_is_positive(side + LEFT)) {
        arb_pos_inf(out);
        return true;
    }
    arb_div(out, side + LEFT, side + RIGHT, RS_BALL_BITS);
    if (arb_is_finite(out)) return true;
    arb_pos_inf(out);
    return arb_is_finite(over) && arb_is_positive(over);
}

/* 1: it is not above 0, 0: it is. */
static signed char below(const arb_t over)
{
    if (!arb_is_finite(over)) return -1;
    if (arb_is_nonpositive(over)) return 1;
    return arb_is_positive(over) ? 0 : -1;
}

static void tell(rs_step_matrix *m, int64_t i, int64_t j, arb_srcptr side, arb_srcptr over)
{
    m->at_row = i;
    m->at_column = j;
    for (int s = 0; s < SIDES; s++)
        arb_set(m->entry + s, side + s);
    for (int o = 0; o < 2; o++)
        m->holds[o] = below(over + o);
}

void rs_step_matrix_add(rs_step_matrix *m, int64_t i, int64_t j, arb_srcptr side, arb_srcptr over)
{
    arb_ptr found = m->tight + 1;
    bool says = tightness(found, m, side, over), first = m->at_row < 0;
    bool tighter = says && arf_cmp(arb_midref(found), arb_midref(m->tight)) > 0;
    if (first || tighter) {
        tell(m, i, j, side, over);
        if (says)
            arb_set(m->tight, found);
        else
            arb_neg_inf(m->tight);
    }
    for (int o = 0; o < 2; o++)
        m->all[o] = m->all[o] && below(over + o) == 1;
    for (int s = 0; s < SIDES; s++) {
        bool sized = s == REPAIRED && m->sense == RS_SENSE_SIGNED;
        arb_srcptr size = side + (sized ? REPAIRED_SIZE : s);
        if (s == LEFT && m->sense == RS_SENSE_CLIPPED && !arb_is_positive(size)) continue;
        rs_step_add_size(m->row + s, size);
        rs_step_add_size(m->sums + s * m->cols + j, size);
    }
}

void rs_step_matrix_row(rs_step_matrix *m)
{
    for (int s = 0; s < SIDES; s++) {
        rs_step_raise(m->most + s, m->row + s);
        arb_zero(m->row + s);
    }
}

/* The line speaks of every entry: it holds where that is certain of all of them. The one that is told
 * fails where any is known to. */
static void decide_entry(rs_step_row *entry, const rs_step_matrix *m, bool repaired)
{
    if (entry->holds < 0) entry->holds = m->holds[0];
    if (entry->holds == 1 && !m->all[0]) entry->holds = -1;
    if (!repaired) return;
    if (entry->repaired_holds < 0) entry->repaired_holds = m->holds[1];
    if (entry->repaired_holds == 1 && !m->all[1]) entry->repaired_holds = -1;
}

/* What holds of every entry holds of sums of them, but where signs cancel. */
static void decide(rs_step_row *row, const rs_step_matrix *m, bool repaired)
{
    if (m->sense == RS_SENSE_SIGNED) return;
    if (row->holds < 0 && m->all[0]) row->holds = 1;
    if (repaired && row->repaired_holds < 0 && m->all[1]) row->repaired_holds = 1;
    rs_step_row_settle(row);
}

void rs_step_matrix_tell(rs_step_row rows[RS_STEP_NORMS], const rs_step_matrix *m, bool repaired)
{
    bool cancels = m->sense == RS_SENSE_SIGNED;
    rs_step_row *entry = &rows[RS_STEP_ENTRY];
    arb_ptr one = m->row; /* between rows it is not used */
    for (int s = 0; s < SIDES; s++) {
        arb_zero(one + s);
        for (int64_t j = 0; j < m->cols; j++)
            rs_step_raise(one + s, m->sums + s * m->cols + j);
    }
    rs_step_row_set(entry, m->entry + LEFT, m->entry + RIGHT, repaired ? m->entry + REPAIRED : NULL,
                    cancels);
    entry->at_row = m->at_row;
    entry->at_column = m->at_column;
    decide_entry(entry, m, repaired);
    rs_step_row_settle(entry);
    rs_step_row_set(&rows[RS_STEP_ONE], one + LEFT, one + RIGHT, repaired ? one + REPAIRED : NULL,
                    cancels);
    rs_step_row_set(&rows[RS_STEP_INF], m->most + LEFT, m->most + RIGHT,
                    repaired ? m->most + REPAIRED : NULL, cancels);
    decide(&rows[RS_STEP_ONE], m, repaired);
    decide(&rows[RS_STEP_INF], m, repaired);
}
