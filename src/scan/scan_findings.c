/* scan_findings.c: what a person should act on, each with the numbers that triggered it. */
#include "scan/scan.h"
#include "scan/scan_energy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

rs_finding rs_scan_finding_for(const rs_product *p, rs_severity severity, const char *code)
{
    rs_finding f = rs_finding_of(severity, code);
    f.layer = p->layer;
    f.head = p->head;
    f.table = "heads";
    f.product = rs_product_name(p->kind);
    f.stack = p->stack;
    f.attention = p->attention;
    return f;
}

const char *rs_scan_place(char *text, size_t size, const rs_product *p, bool with_head)
{
    char head[32] = "";
    if (with_head) snprintf(head, sizeof head, ", head %d", (int)p->head);
    bool plain = !p->attention || strcmp(p->attention, "self") == 0;
    snprintf(text, size, "%s%slayer %d%s%s%s%s", p->stack ? p->stack : "", p->stack ? " " : "",
             (int)p->layer, head, plain ? "" : " (", plain ? "" : p->attention, plain ? "" : ")");
    return text;
}

/* What to do about a product of low rank: to factorise it, only where the model lets it stand in
 * the place of its factors. */
static const char *remedy(char *text, size_t size, const rs_model *model, const rs_head *head,
                          rs_fold fold)
{
    static const char *const verbs[] = {
        [RS_FEASIBLE_NO] = "cannot", [RS_FEASIBLE_UNKNOWN] = "may not"};
    static const char training[] = "in training: lower or drop weight decay on the attention "
                                   "matrices and compare a later checkpoint; to compress: ";
    const char *reason;
    rs_feasible feasible = rs_product_feasible(&reason, model, head->product, fold);
    if (feasible == RS_FEASIBLE_YES)
        snprintf(text, size, "%sscan --energy 0.9,0.99 shows the rank to factorise the product at",
                 training);
    else
        snprintf(
            text, size,
            "%sthe product %s take the place of its factors (%s); scan --energy 0.9,0.99 shows "
            "how far each matrix can be factorised by itself",
            training, verbs[feasible], reason);
    return text;
}

/* A share in percent, with digits enough to be below `least` as it is printed. */
static const char *percent_below(char text[32], double share, double least)
{
    int digits = share < 0.1 ? 1 : 2;
    do
        snprintf(text, 32, "%.*g", digits, 100 * share);
    while (strtod(text, NULL) >= 100 * least && ++digits < 17);
    return text;
}

static rs_status low_rank(rs_result *result, const rs_model *model, const rs_heads *heads,
                          const rs_head *head, const rs_scan_options *options, rs_error *err)
{
    if (!rs_scan_lost_rank(head, &options->thresholds)) return RS_OK;
    const rs_scan_thresholds *thresholds = &options->thresholds;
    rs_product_kind kind = head->product->kind;
    double least = kind == RS_PRODUCT_QK ? thresholds->qk_low_rank : thresholds->ov_low_rank;
    double rank = head->measures.effective_rank, chance = head->null->effective_rank;
    char message[400], where[96], hint[512], share[32];
    snprintf(message, sizeof message,
             "%s: the %s product has effective rank %.3g where random weights of this shape have "
             "%.3g (%s %%); %lld of %lld "
             "directions carry 95 %% of its energy",
             rs_scan_place(where, sizeof where, head->product, true),
             kind == RS_PRODUCT_QK ? "query-key" : "value-output", rank, chance,
             percent_below(share, rank / chance, least), (long long)head->measures.energy_rank,
             (long long)head->k);
    rs_finding f = rs_scan_finding_for(head->product, RS_WARN,
                                       kind == RS_PRODUCT_QK ? "qk_low_rank" : "ov_low_rank");
    f.value = rank;
    f.threshold = least * chance;
    f.cases = kind == RS_PRODUCT_QK ? "query-key products" : "value-output products";
    f.worst = "lowest";
    f.of = (int64_t)rs_scan_measured(heads, head->product);
    f.message = message;
    f.hint = remedy(hint, sizeof hint, model, head, options->heads.fold);
    return rs_result_add_finding(result, &f, err);
}

/* The heads of one layer and product. */
typedef struct cell {
    const rs_head *heads;
    size_t n;
} cell;

static rs_status dead_heads(rs_result *result, cell c, const rs_scan_thresholds *thresholds,
                            double *scratch, rs_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < c.n; i++)
        if (c.heads[i].sigma) scratch[n++] = c.heads[i].measures.frobenius_norm;
    /* With QK-norm the scale of a factor has no effect: a small one is not dead, a zero one is. */
    if (n == 0) return RS_OK;
    bool scale_free = c.heads->product->qk_norm && c.heads->product->kind == RS_PRODUCT_QK;
    double median = rs_median(scratch, n);
    for (size_t i = 0; i < c.n; i++) {
        const rs_head *head = &c.heads[i];
        bool zero = head->sigma && head->measures.frobenius_norm == 0;
        bool small = !scale_free && head->sigma &&
                     head->measures.frobenius_norm < thresholds->dead_head * median;
        if (!small && !zero) continue;
        char message[300], where[96], than[64] = "";
        if (!zero) snprintf(than, sizeof than, ", less than %g of", thresholds->dead_head);
        snprintf(message, sizeof message,
                 "%s: the %s product has norm %.3g%s the layer's median%s %.3g",
                 rs_scan_place(where, sizeof where, head->product, true),
                 rs_product_name(head->product->kind), head->measures.frobenius_norm,
                 zero ? ";" : than, zero ? " is" : "", median);
        rs_finding f = rs_scan_finding_for(head->product, RS_WARN, "dead_head");
        f.value = head->measures.frobenius_norm;
        f.threshold = thresholds->dead_head * median;
        f.cases = "products";
        f.worst = "weakest";
        f.message = message;
        f.hint = "the head contributes next to nothing here: prune it, or in training look whether "
                 "its gradients vanish";
        RS_TRY(rs_result_add_finding(result, &f, err));
    }
    return RS_OK;
}

static rs_status equilibrium(rs_result *result, cell c, const rs_scan_thresholds *thresholds,
                             rs_error *err)
{
    double least = INFINITY;
    for (size_t i = 0; i < c.n; i++) {
        const rs_head *head = &c.heads[i];
        /* r = 1 and isotropic factors look the same under any rotation: no evidence. */
        if (!head->sigma || head->pair.isotropic || head->inner < 2 ||
            isnan(head->pair.balance_score))
            return RS_OK;
        least = fmin(least, head->pair.balance_score);
    }
    if (!(least > thresholds->decay_equilibrium)) return RS_OK;
    char message[400], where[96];
    const rs_product *p = c.heads->product;
    snprintf(message, sizeof message,
             "%s: every head's %s factors are balanced (least balance score %.3f), as weight decay "
             "leaves them at its equilibrium; "
             "there it acts as a nuclear-norm penalty and lowers the rank",
             rs_scan_place(where, sizeof where, p, false), rs_product_name(p->kind), least);
    rs_finding f = rs_scan_finding_for(p, RS_INFO, "decay_equilibrium");
    f.head = RS_NULL_INT;
    f.value = least;
    f.threshold = thresholds->decay_equilibrium;
    f.cases = "layers' products";
    f.worst = "most balanced";
    f.message = message;
    f.hint = "if the effective rank falls as well, exclude the attention matrices from weight "
             "decay or lower it there";
    return rs_result_add_finding(result, &f, err);
}

/* Has table matrices, which comes first, spoken of this tensor already? */
bool rs_scan_already_said(const rs_result *result, const char *tensor)
{
    for (size_t i = 0; i < rs_result_finding_count(result); i++) {
        const rs_finding *f = rs_result_finding_at(result, i);
        if (strcmp(f->code, "nonfinite_weights") == 0 && strstr(f->message, tensor)) return true;
    }
    return false;
}

static rs_status unusable(rs_result *result, const rs_heads *heads, rs_error *err)
{
    for (size_t i = 0; i < heads->n_nonfinite; i++) {
        const rs_nonfinite *bad = &heads->nonfinite[i];
        if (bad->count && rs_scan_already_said(result, bad->tensor->name)) continue;
        char message[900];
        rs_finding f = rs_finding_of(RS_CRITICAL, "nonfinite_weights");
        f.layer = bad->layer;
        f.value = (double)bad->count;
        f.threshold = 0;
        f.message = message;
        f.hint = "the checkpoint is damaged or training diverged: go back to an earlier one";
        f.table = "tensors";
        if (bad->count) {
            snprintf(message, sizeof message,
                     "tensor %.300s: %lld entries are NaN or infinite, the first at row %lld, "
                     "column %lld; its products are left "
                     "empty",
                     bad->tensor->name, (long long)bad->count, (long long)bad->row,
                     (long long)bad->col);
        } else {
            f.code = "weights_out_of_range";
            f.value = bad->largest;
            f.threshold = bad->largest > 1 ? 1e70 : 1e-70;
            snprintf(message, sizeof message,
                     "tensor %.300s: its largest entry is %.3g; products of such weights leave the "
                     "range of float64, and their rows "
                     "are left empty",
                     bad->tensor->name, bad->largest);
        }
        RS_TRY(rs_result_add_finding(result, &f, err));
    }
    return RS_OK;
}

/* tr(XY) = Σσ² on every head (docs/theory/products.md, 6): a failed check is a defect of ours and
 * is said. */
static rs_status self_check(rs_result *result, const rs_heads *heads, rs_error *err)
{
    const double limit = 1e-10;
    for (size_t i = 0; i < heads->n; i++) {
        const rs_head *head = &heads->items[i];
        if (!head->sigma || !(head->self_check > limit)) continue;
        char message[300], where[96];
        snprintf(message, sizeof message,
                 "%s: the %s spectrum misses the trace of its Grams by %.2g (relative)",
                 rs_scan_place(where, sizeof where, head->product, true),
                 rs_product_name(head->product->kind), head->self_check);
        rs_finding f = rs_scan_finding_for(head->product, RS_CRITICAL, "self_check_failed");
        f.value = head->self_check;
        f.threshold = limit;
        f.message = message;
        f.hint = "do not use this row; please report the checkpoint";
        RS_TRY(rs_result_add_finding(result, &f, err));
    }
    return RS_OK;
}

/* One sentence for each kind of product: where the model stands as a whole. */
static rs_status rank_summary(rs_result *result, const rs_heads *heads, const rs_product *kind,
                              rs_error *err)
{
    double sum = 0, lowest = INFINITY, count = 0;
    const rs_product *at = NULL;
    for (size_t i = 0; i < heads->n; i++) {
        const rs_head *head = &heads->items[i];
        if (!rs_same_kind(head->product, kind) || !head->sigma ||
            isnan(head->measures.effective_rank))
            continue;
        double ratio = head->measures.effective_rank / head->null->effective_rank;
        sum += ratio;
        count++;
        if (ratio < lowest) lowest = ratio, at = head->product;
    }
    if (!at) return RS_OK;
    char message[400], where[96];
    bool plain = !kind->attention || strcmp(kind->attention, "self") == 0;
    snprintf(message, sizeof message,
             "%s%s%s%s%s products: effective rank is %.0f %% of what random weights of the same "
             "shape have, on average over %.0f head%s; the lowest, %.0f %%, at %s",
             kind->stack ? kind->stack : "", kind->stack ? " " : "", plain ? "" : kind->attention,
             plain ? "" : " ", rs_product_title(kind->kind), 100 * sum / count, count,
             count == 1 ? "" : "s", 100 * lowest, rs_scan_place(where, sizeof where, at, true));
    rs_finding f = rs_scan_finding_for(at, RS_INFO, "rank_summary");
    f.value = sum / count;
    f.message = message;
    return rs_result_add_finding(result, &f, err);
}

static rs_status rank_summaries(rs_result *result, const rs_heads *heads, rs_error *err)
{
    for (size_t i = 0; i < heads->n; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++)
            seen = rs_same_kind(heads->items[j].product, heads->items[i].product);
        if (!seen) RS_TRY(rank_summary(result, heads, heads->items[i].product, err));
    }
    return RS_OK;
}

rs_status rs_scan_findings(rs_result *result, const rs_model *model, const rs_heads *heads,
                           const rs_scan_options *options, rs_error *err)
{
    RS_TRY(unusable(result, heads, err));
    RS_TRY(self_check(result, heads, err));
    double *scratch = rs_malloc(heads->n, sizeof *scratch);
    if (!scratch) return rs_fail_memory(err, "findings", heads->n * sizeof *scratch);
    rs_status status = RS_OK;
    for (size_t i = 0; i < heads->n && status == RS_OK;) {
        cell c = {.heads = heads->items + i, .n = 1};
        while (i + c.n < heads->n && rs_same_cell(c.heads->product, heads->items[i + c.n].product))
            c.n++;
        for (size_t h = 0; h < c.n && status == RS_OK; h++)
            status = low_rank(result, model, heads, &c.heads[h], options, err);
        if (status == RS_OK) status = dead_heads(result, c, &options->thresholds, scratch, err);
        if (status == RS_OK) status = equilibrium(result, c, &options->thresholds, err);
        i += c.n;
    }
    rs_free(scratch);
    return status == RS_OK ? rank_summaries(result, heads, err) : status;
}
