/* scan_verdict.c: the answer to a scan's question, whether products of heads have lost rank. */
#include "report/findings.h"
#include "scan/scan.h"

#include <math.h>
#include <string.h>

bool rs_scan_lost_rank(const rs_head *head, const rs_scan_thresholds *thresholds)
{
    rs_product_kind kind = head->product->kind;
    if ((kind != RS_PRODUCT_QK && kind != RS_PRODUCT_OV) || !head->sigma) return false;
    double least = kind == RS_PRODUCT_QK ? thresholds->qk_low_rank : thresholds->ov_low_rank;
    return head->measures.effective_rank < least * head->null->effective_rank;
}

size_t rs_scan_measured(const rs_heads *heads, const rs_product *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < heads->n; i++)
        n += heads->items[i].sigma && rs_same_kind(heads->items[i].product, kind);
    return n;
}

/* The heads of a layer and product that begin at item `at`: how many, and how many lost rank. */
typedef struct cell {
    size_t n, lost;
} cell;

static cell cell_at(const rs_heads *heads, size_t at, const rs_scan_thresholds *thresholds)
{
    cell c = {0};
    while (at + c.n < heads->n &&
           rs_same_cell(heads->items[at].product, heads->items[at + c.n].product))
        c.lost += rs_scan_lost_rank(&heads->items[at + c.n++], thresholds);
    return c;
}

/* ---- where ---- */

/* What the layers of one list have in common. */
typedef enum share { ALL_HEADS, ONE_HEAD, SOME_HEADS, N_SHARES } share;
enum { MOST_LISTED = 12 };

static share share_of(cell c)
{
    return c.lost == c.n ? ALL_HEADS : c.lost == 1 ? ONE_HEAD : SOME_HEADS;
}

/* The layers of one share, ascending. */
typedef struct layer_list {
    int32_t layers[MOST_LISTED];
    size_t n; /* of which the first MOST_LISTED are kept */
} layer_list;

static void list_layers(layer_list lists[N_SHARES], const rs_heads *heads, const rs_product *kind,
                        const rs_scan_thresholds *thresholds)
{
    cell c;
    for (size_t i = 0; i < heads->n; i += c.n) {
        c = cell_at(heads, i, thresholds);
        if (!c.lost || !rs_same_kind(heads->items[i].product, kind)) continue;
        layer_list *list = &lists[share_of(c)];
        if (list->n < MOST_LISTED) list->layers[list->n] = heads->items[i].product->layer;
        list->n++;
    }
}

/* "3", "3 and 5", "0-4, 7 and 9"; "17 layers" where they are too many to name. */
static void say_layers(rs_buffer *text, const layer_list *list)
{
    if (list->n > MOST_LISTED) {
        rs_buffer_printf(text, "%zu layers", list->n);
        return;
    }
    for (size_t i = 0, next; i < list->n; i = next) {
        for (next = i + 1; next < list->n && list->layers[next] == list->layers[next - 1] + 1;)
            next++;
        if (next - i == 2) next = i + 1; /* two in a row are no range */
        rs_buffer_printf(text, "%s%d",
                         i == 0            ? ""
                         : next == list->n ? " and "
                                           : ", ",
                         (int)list->layers[i]);
        if (next - i > 1) rs_buffer_printf(text, "-%d", (int)list->layers[next - 1]);
    }
}

/* "all of layers 12 and 14, one each in 5 and 11" */
static void say_places(rs_buffer *text, const rs_heads *heads, const rs_product *kind,
                       const rs_scan_thresholds *thresholds)
{
    static const struct {
        const char *one, *many;
    } words[N_SHARES] = {[ALL_HEADS] = {"all of layer ", "all of layers "},
                         [ONE_HEAD] = {"one in layer ", "one each in layers "},
                         [SOME_HEADS] = {"several in layer ", "several each in layers "}};
    layer_list lists[N_SHARES] = {{{0}, 0}};
    const char *between = "";
    list_layers(lists, heads, kind, thresholds);
    for (int s = 0; s < N_SHARES; s++) {
        if (!lists[s].n) continue;
        bool counted = lists[s].n > MOST_LISTED;
        const char *word = lists[s].n == 1 ? words[s].one : words[s].many;
        rs_buffer_printf(text, "%s%.*s", between,
                         (int)strlen(word) - (counted ? (int)strlen("layers ") : 0), word);
        say_layers(text, &lists[s]);
        between = ", ";
    }
}

/* ---- what ---- */

/* "query-key", with the stack and the kind of attention where a model has several. */
static void say_kind(rs_buffer *text, const rs_product *kind)
{
    bool plain = !kind->attention || strcmp(kind->attention, "self") == 0;
    rs_buffer_printf(text, "%s%s%s%s%s", kind->stack ? kind->stack : "", kind->stack ? " " : "",
                     plain ? "" : kind->attention, plain ? "" : " ", rs_product_title(kind->kind));
}

static bool is_first_of_kind(const rs_heads *heads, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (rs_same_kind(heads->items[i].product, heads->items[index].product)) return false;
    return true;
}

static size_t lost_of_kind(const rs_heads *heads, const rs_product *kind,
                           const rs_scan_thresholds *thresholds)
{
    size_t n = 0;
    for (size_t i = 0; i < heads->n; i++)
        n += rs_same_kind(heads->items[i].product, kind) &&
             rs_scan_lost_rank(&heads->items[i], thresholds);
    return n;
}

/* "10 of 72 query-key products have lost rank: all of layers 12 and 14, one each in 5 and 11." */
static size_t say_lost(rs_buffer *text, const rs_heads *heads, const rs_scan_thresholds *thresholds)
{
    size_t total = 0;
    for (size_t i = 0; i < heads->n; i++) {
        const rs_product *kind = heads->items[i].product;
        size_t lost = is_first_of_kind(heads, i) ? lost_of_kind(heads, kind, thresholds) : 0;
        if (!lost) continue;
        rs_buffer_printf(text, "%s%zu of %zu ", total ? "; " : "", lost,
                         rs_scan_measured(heads, kind));
        say_kind(text, kind);
        rs_buffer_printf(text, " products %s lost rank: ", lost == 1 ? "has" : "have");
        say_places(text, heads, kind, thresholds);
        total += lost;
    }
    if (total) rs_buffer_puts(text, ".");
    return total;
}

/* Of the products that lost rank the one that lost most, by its own threshold: sets the ratio to
 * chance and that threshold. */
static void most_lost(rs_verdict *v, const rs_heads *heads, const rs_scan_thresholds *thresholds)
{
    double least = INFINITY;
    for (size_t i = 0; i < heads->n; i++) {
        const rs_head *head = &heads->items[i];
        if (!rs_scan_lost_rank(head, thresholds)) continue;
        bool qk = head->product->kind == RS_PRODUCT_QK;
        double threshold = qk ? thresholds->qk_low_rank : thresholds->ov_low_rank;
        double ratio = head->measures.effective_rank / head->null->effective_rank;
        if (ratio / threshold >= least) continue;
        least = ratio / threshold;
        v->value = ratio, v->threshold = threshold;
    }
}

/* All measured products beside chance. */
typedef struct overall {
    double sum, lowest;
    size_t n;
    const rs_product *at;
} overall;

static overall beside_chance(const rs_heads *heads)
{
    overall all = {.lowest = INFINITY};
    for (size_t i = 0; i < heads->n; i++) {
        const rs_head *head = &heads->items[i];
        if (!head->sigma || isnan(head->measures.effective_rank)) continue;
        double ratio = head->measures.effective_rank / head->null->effective_rank;
        all.sum += ratio;
        all.n++;
        if (ratio < all.lowest) all.lowest = ratio, all.at = head->product;
    }
    return all;
}

static void say_kept(rs_buffer *text, const overall *all)
{
    rs_buffer_printf(text,
                     "No product has lost rank: the %zu have %.0f %% of the effective rank that "
                     "chance gives, the lowest %.0f %% (layer %d, head %d, %s).",
                     all->n, 100 * all->sum / (double)all->n, 100 * all->lowest,
                     (int)all->at->layer, (int)all->at->head, rs_product_name(all->at->kind));
}

/* ---- the verdict ---- */

/* The worst finding of this code, furthest beyond its threshold; NULL where there is none. */
static const rs_finding *finding_of(const rs_result *result, const char *code, size_t *count)
{
    const rs_finding *worst = NULL;
    *count = 0;
    for (size_t i = 0; i < rs_result_finding_count(result); i++) {
        const rs_finding *f = rs_result_finding_at(result, i);
        if (strcmp(f->code, code) != 0) continue;
        if (!worst || rs_finding_beyond(f) > rs_finding_beyond(worst)) worst = f;
        ++*count;
    }
    return worst;
}

/* What makes the ranks meaningless comes before them. */
static bool say_broken(rs_buffer *text, rs_verdict *v, const rs_result *result)
{
    size_t n;
    const rs_finding *bad = finding_of(result, "nonfinite_weights", &n);
    if (bad) {
        rs_buffer_printf(text, "%zu tensor%s NaN or infinite entries: %s.", n,
                         n == 1 ? " has" : "s have", bad->message);
        *v = (rs_verdict){.code = "nonfinite_weights",
                          .severity = RS_CRITICAL,
                          .threshold = 0,
                          .value = (double)n,
                          .next = bad->hint};
        return true;
    }
    bad = finding_of(result, "self_check_failed", &n);
    if (!bad) return false;
    rs_buffer_printf(text, "%zu spectr%s not to be trusted: %s.", n, n == 1 ? "um is" : "a are",
                     bad->message);
    *v = (rs_verdict){.code = "self_check_failed",
                      .severity = RS_CRITICAL,
                      .value = bad->value,
                      .threshold = bad->threshold,
                      .next = bad->hint};
    return true;
}

static void say_ranks(rs_buffer *text, rs_verdict *v, const rs_result *result,
                      const rs_heads *heads, const rs_scan_thresholds *thresholds)
{
    size_t dead, lost = say_lost(text, heads, thresholds);
    const rs_finding *weakest = finding_of(result, "dead_head", &dead);
    overall all = beside_chance(heads);
    *v = (rs_verdict){.value = all.n ? all.lowest : NAN,
                      .threshold = thresholds->qk_low_rank,
                      .severity = lost || dead ? RS_WARN : RS_INFO};
    if (lost) {
        v->code = "lost_rank";
        most_lost(v, heads, thresholds);
        v->next = "--table findings lists them; --energy 0.9,0.99 says what factorising them saves";
    } else if (dead) {
        v->code = "dead_heads";
        v->value = weakest->value;
        v->threshold = weakest->threshold;
        v->next = "--table findings lists them";
    } else {
        v->code = all.n ? "full_rank" : "no_spectrum";
        v->next = "rankscope probe MODEL --text FILE measures whether its tokens stay apart";
    }
    if (dead)
        rs_buffer_printf(text, "%s%zu product%s dead: %s.", lost ? " " : "", dead,
                         dead == 1 ? " is" : "s are", weakest->message);
    else if (!lost && all.n)
        say_kept(text, &all);
    else if (!lost)
        rs_buffer_puts(text, "No product has a spectrum: none could be measured.");
}

rs_status rs_scan_verdict(rs_result *result, const rs_heads *heads, const rs_scan_options *options,
                          rs_error *err)
{
    rs_buffer text = {0};
    rs_verdict verdict;
    size_t n;
    if (!say_broken(&text, &verdict, result))
        say_ranks(&text, &verdict, result, heads, &options->thresholds);
    const rs_finding *written = finding_of(result, "written", &n);
    if (written && verdict.severity < RS_CRITICAL) verdict.next = written->hint;
    verdict.answer = text.data;
    rs_status status = text.failed ? rs_fail_memory(err, "verdict", 0)
                                   : rs_result_set_verdict(result, &verdict, err);
    rs_buffer_free(&text);
    return status;
}
