/* compare_verdict.c: the answer: did anything change, and is it for the worse? */
#include "compare/compare_parts.h"

#include <math.h>
#include <string.h>

/* What the pairs of one comparison have in common. */
typedef struct tally {
    size_t measured, same, rounding, changed, ranked, overlapping;
    double relative, most, ratio_a, ratio_b, overlap, chance;
    const rs_product *at; /* of the largest relative change */
} tally;

static void count_change(tally *t, const rs_product_pair *pair)
{
    const rs_change *c = &pair->change;
    if (pair->reason || c->moved == RS_MOVED_UNKNOWN) return;
    t->measured++;
    t->same += c->moved == RS_MOVED_SAME;
    t->rounding += c->moved == RS_MOVED_ROUNDING;
    t->changed += c->moved == RS_MOVED_CHANGED;
    t->relative += isnan(c->relative) ? 0 : c->relative;
    if (!t->at || c->relative > t->most) {
        t->most = c->relative;
        t->at = pair->a->product;
    }
    if (isnan(c->left.overlap) || isnan(c->right.overlap)) return;
    t->overlapping++;
    t->overlap += (c->left.overlap + c->right.overlap) / 2;
    t->chance += (c->left.chance + c->right.chance) / 2;
}

static tally tally_of(const rs_comparison *c)
{
    tally t = {0};
    for (size_t i = 0; i < c->pairs.n; i++) {
        const rs_product_pair *pair = &c->pairs.items[i];
        if (!pair->a || !pair->b) continue;
        count_change(&t, pair);
        double a = rs_compare_ratio(pair->a), b = rs_compare_ratio(pair->b);
        if (isnan(a) || isnan(b)) continue;
        t.ranked++;
        t.ratio_a += a;
        t.ratio_b += b;
    }
    return t;
}

static void say_ranks(rs_buffer *text, const tally *t)
{
    rs_buffer_printf(text, "on average %.3g %% of chance's effective rank became %.3g %%",
                     100 * t->ratio_a / (double)t->ranked, 100 * t->ratio_b / (double)t->ranked);
}

/* ---- the answers, the gravest first ---- */

static bool say_nothing_in_common(rs_buffer *text, rs_verdict *v, const rs_comparison *c)
{
    if (c->pairs.both > 0) return false;
    rs_buffer_printf(text,
                     "The two have no product in common: %s has %zu, %s has %zu, and none is of "
                     "the same layer, head and kind.",
                     c->a->model->family, c->a->heads->n, c->b->model->family, c->b->heads->n);
    v->code = "nothing_in_common";
    v->severity = RS_WARN;
    v->next = "--table not_compared lists them";
    return true;
}

static bool say_came(rs_buffer *text, rs_verdict *v, const rs_comparison *c)
{
    size_t grave = c->came[RS_WARN] + c->came[RS_CRITICAL];
    if (grave == 0) return false;
    rs_buffer_printf(text, "%zu finding%s came", grave, grave == 1 ? "" : "s");
    if (c->went) rs_buffer_printf(text, " and %zu went", c->went);
    rs_buffer_printf(text, "%s%s.", grave == 1 ? ": " : ", the gravest: ", c->worst->message);
    v->code = "findings_came";
    v->severity = c->came[RS_CRITICAL] ? RS_CRITICAL : RS_WARN;
    v->value = (double)grave;
    v->threshold = 0;
    v->next = "--table findings_changed lists what came and went";
    return true;
}

static bool say_fell(rs_buffer *text, rs_verdict *v, const rs_comparison *c, const tally *t,
                     double threshold)
{
    if (!c->fell) return false;
    double a = rs_compare_ratio(c->fell_most->a), b = rs_compare_ratio(c->fell_most->b);
    const rs_product *p = c->fell_most->a->product;
    rs_buffer_printf(
        text,
        "%zu of %zu products lost more than %.3g %% of their effective rank, most of all "
        "layer %d, head %d, %s: from %.3g %% to %.3g %% of chance.",
        c->fell, t->ranked, 100 * threshold, (int)p->layer, (int)p->head, rs_product_name(p->kind),
        100 * a, 100 * b);
    v->code = "rank_fell";
    v->severity = RS_WARN;
    v->value = b / a - 1;
    v->threshold = -threshold;
    v->next = "--table layers shows where; 'rankscope scan' of the later one where it stands";
    return true;
}

static bool say_ranks_alone(rs_buffer *text, rs_verdict *v, const tally *t)
{
    if (t->measured > 0) return false;
    v->code = t->ranked ? "ranks_alone" : "no_spectrum";
    if (t->ranked) {
        rs_buffer_printf(
            text,
            "The models differ in width, so ranks alone are compared: %zu products of the "
            "first have on average %.3g %% of chance's effective rank, their counterparts "
            "%.3g %%.",
            t->ranked, 100 * t->ratio_a / (double)t->ranked, 100 * t->ratio_b / (double)t->ranked);
        v->value = (t->ratio_b - t->ratio_a) / (double)t->ranked;
    } else {
        rs_buffer_puts(text, "No product has a spectrum in both: none could be compared.");
    }
    v->next = "--table layers has both, layer by layer";
    return true;
}

static bool say_same(rs_buffer *text, rs_verdict *v, const rs_comparison *c, const tally *t)
{
    if (t->changed) return false;
    bool same = t->rounding == 0;
    size_t rest = c->pairs.n - t->measured;
    if (same && rest > 0)
        rs_buffer_printf(text,
                         "No product changed: the %zu that both have %s bit for bit the same; %zu "
                         "more cannot be compared.",
                         t->measured, t->measured == 1 ? "is" : "are", rest);
    else if (same)
        rs_buffer_printf(text, "No product changed: %s%zu product%s bit for bit the same.",
                         t->measured == 1 ? "the " : "all ", t->measured,
                         t->measured == 1 ? " is" : "s are");
    else
        rs_buffer_printf(text,
                         "No product changed by more than the rounding of its stored numbers: the "
                         "largest relative change of %zu is %.2g (layer %d, head %d, %s).",
                         t->measured, t->most, (int)t->at->layer, (int)t->at->head,
                         rs_product_name(t->at->kind));
    v->code = same ? "same" : "rounding";
    v->value = t->most;
    v->next = same ? "MLPs, embeddings, norms and biases are not compared; with --text FILE the "
                     "tokens are"
                   : "factors may still have turned: W_Q R and W_K R give one product for every "
                     "rotation R";
    return true;
}

static void say_changed(rs_buffer *text, rs_verdict *v, const tally *t)
{
    rs_buffer_printf(
        text,
        "%zu of %zu products changed, by %.2g of their norm on average, most of all layer "
        "%d, head %d, %s (%.2g); ",
        t->changed, t->measured, t->relative / (double)t->measured, (int)t->at->layer,
        (int)t->at->head, rs_product_name(t->at->kind), t->most);
    say_ranks(text, t);
    if (t->overlapping)
        rs_buffer_printf(text, ", and leading directions overlap %.2f (chance %.2f)",
                         t->overlap / (double)t->overlapping, t->chance / (double)t->overlapping);
    rs_buffer_puts(text, ".");
    v->code = "changed";
    v->value = t->most;
    v->next = "--table layers shows where";
}

/* " Behind the last layer the relative residual went from 0.75 to 0.31." */
static void say_tokens(rs_buffer *text, const rs_result *result, const rs_comparison *c)
{
    const rs_table *table = rs_result_table(result, "tokens");
    if (!table || !c->a->probe || !c->b->probe) return;
    size_t path = (size_t)rs_table_find_column(table, "path"),
           site = (size_t)rs_table_find_column(table, "site"),
           a = (size_t)rs_table_find_column(table, "relative_residual_a");
    for (size_t row = rs_table_rows(table); row-- > 0;) {
        if (strcmp(rs_table_text(table, row, path), c->b->path) != 0 ||
            strcmp(rs_table_text(table, row, site), "block_out") != 0)
            continue;
        double before = rs_table_real(table, row, a), after = rs_table_real(table, row, a + 1);
        if (isnan(before) || isnan(after)) return;
        rs_buffer_printf(text,
                         " The tokens' relative residual behind the last layer that both have is "
                         "%.3g in A and %.3g in B.",
                         before, after);
        return;
    }
}

/* By severity; of equals what changed comes before what did not. */
static int gravity(const rs_comparison *c)
{
    if (c->came[RS_CRITICAL]) return 2 * RS_CRITICAL;
    if (c->came[RS_WARN] || c->fell || c->pairs.both == 0) return 2 * RS_WARN;
    return tally_of(c).changed > 0;
}

/* Of several the gravest, of equals the last. */
static const rs_comparison *most_telling(const rs_comparison *all, size_t n)
{
    const rs_comparison *best = &all[0];
    for (size_t c = 1; c < n; c++)
        if (gravity(&all[c]) >= gravity(best)) best = &all[c];
    return best;
}

rs_status rs_compare_verdict(rs_result *result, const rs_comparison *all, size_t n,
                             const rs_compare_options *options, rs_error *err)
{
    const rs_comparison *c = most_telling(all, n);
    const tally t = tally_of(c);
    rs_buffer text = {0};
    rs_verdict v = {.severity = RS_INFO, .value = NAN, .threshold = NAN};
    if (n > 1) rs_buffer_printf(&text, "%.200s: ", c->b->path);
    if (!say_nothing_in_common(&text, &v, c) && !say_came(&text, &v, c) &&
        !say_fell(&text, &v, c, &t, options->thresholds.rank_fell) &&
        !say_ranks_alone(&text, &v, &t) && !say_same(&text, &v, c, &t))
        say_changed(&text, &v, &t);
    say_tokens(&text, result, c);
    v.answer = text.data;
    rs_status status =
        text.failed ? rs_fail_memory(err, "verdict", 0) : rs_result_set_verdict(result, &v, err);
    rs_buffer_free(&text);
    return status;
}
