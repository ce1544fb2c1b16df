/* paths_plan.c: which paths a network has, how many of each length, and some of them at random. */
#include "paths/paths.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_PATHS = 0x9a7 };

static double log_add(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

/* ---- the hops ---- */

static rs_status list_hops(rs_path_plan *plan, const rs_network *network, rs_error *err)
{
    size_t n = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        n += (size_t)network->layers[l].n_branches;
    plan->hops = rs_calloc(n, sizeof *plan->hops);
    if (!plan->hops) return rs_fail_memory(err, "paths", n * sizeof *plan->hops);
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            const rs_attention_op *op = rs_branch_plain_attention(branch);
            bool attends = op && !op->cross && branch->scale != 0;
            if (attends && b > 0 && branch->joins)
                return rs_fail(err, RS_E_UNSUPPORTED, "paths", NULL,
                               "layer %d has a self-attention beside another branch, which reads "
                               "the state that the other one read",
                               (int)l);
            plan->hops[plan->n_hops++] = (rs_path_hop){.layer = l,
                                                       .branch = b,
                                                       .heads = attends ? op->heads : 0,
                                                       .skips = branch->skip != 0};
            plan->deepest += attends;
        }
    return RS_OK;
}

/* ---- counts: C(L, l) H^l where all layers are alike ---- */

/* c[m] <- (skips) c[m] + heads c[m-1], RS_NULL_INT where it leaves int64. */
static int64_t next_count(int64_t stay, int64_t step, int64_t heads, bool skips)
{
    int64_t product = 0, sum = 0;
    if (!skips) stay = 0;
    if (heads == 0) step = 0;
    if (stay == RS_NULL_INT || step == RS_NULL_INT) return RS_NULL_INT;
    if (__builtin_mul_overflow(step, heads, &product) ||
        __builtin_add_overflow(stay, product, &sum))
        return RS_NULL_INT;
    return sum;
}

static rs_status count_paths(rs_path_plan *plan, rs_error *err)
{
    size_t lengths = (size_t)plan->longest + 1, rows = (size_t)plan->n_hops + 1, cells;
    if (!rs_size_mul(lengths, rows, &cells)) return rs_fail_memory(err, "path counts", SIZE_MAX);
    plan->count = rs_calloc(lengths, sizeof *plan->count);
    plan->log_count = rs_calloc(lengths, sizeof *plan->log_count);
    plan->log_ways = rs_calloc(cells, sizeof *plan->log_ways);
    if (!plan->count || !plan->log_count || !plan->log_ways)
        return rs_fail_memory(err, "path counts", cells * sizeof *plan->log_ways);
    double *end = plan->log_ways + (size_t)plan->n_hops * lengths;
    for (size_t m = 0; m < lengths; m++)
        end[m] = m == 0 ? 0 : -INFINITY;
    plan->count[0] = 1;
    for (int32_t i = plan->n_hops - 1; i >= 0; i--) {
        const rs_path_hop *hop = &plan->hops[i];
        const double *above = plan->log_ways + (size_t)(i + 1) * lengths;
        double *here = plan->log_ways + (size_t)i * lengths;
        plan->log_total += log((hop->skips ? 1 : 0) + (double)hop->heads);
        for (size_t m = lengths; m-- > 0;) {
            double take = m > 0 && hop->heads > 0 ? above[m - 1] + log(hop->heads) : -INFINITY;
            here[m] = log_add(hop->skips ? above[m] : -INFINITY, take);
            plan->count[m] =
                next_count(plan->count[m], m > 0 ? plan->count[m - 1] : 0, hop->heads, hop->skips);
        }
    }
    memcpy(plan->log_count, plan->log_ways, lengths * sizeof *plan->log_count);
    /* The logarithm of a count that is known to the last digit needs no sum of logarithms. */
    for (size_t m = 0; m < lengths; m++)
        if (plan->count[m] > 0) plan->log_count[m] = log((double)plan->count[m]);
    return RS_OK;
}

static rs_status open_plan(rs_path_plan *plan, const rs_network *network, int64_t max_length,
                           rs_error *err)
{
    RS_TRY(list_hops(plan, network, err));
    plan->longest =
        max_length >= 0 && max_length < plan->deepest ? (int32_t)max_length : plan->deepest;
    return count_paths(plan, err);
}

rs_status rs_path_plan_open(rs_path_plan **out, const rs_network *network, int64_t max_length,
                            rs_error *err)
{
    *out = NULL;
    rs_path_plan *plan = rs_calloc(1, sizeof *plan);
    if (!plan) return rs_fail_memory(err, "paths", sizeof *plan);
    rs_status status = open_plan(plan, network, max_length, err);
    if (status == RS_OK)
        *out = plan;
    else
        rs_path_plan_close(plan);
    return status;
}

void rs_path_plan_close(rs_path_plan *plan)
{
    if (!plan) return;
    rs_free(plan->hops);
    rs_free(plan->count);
    rs_free(plan->log_count);
    rs_free(plan->log_ways);
    rs_free(plan);
}

/* ---- individual paths ---- */

static double ways(const rs_path_plan *plan, int32_t hop, int32_t heads)
{
    if (heads < 0) return -INFINITY;
    return plan->log_ways[(size_t)hop * ((size_t)plan->longest + 1) + (size_t)heads];
}

/* One path of that length, each with the same probability. */
static void draw_path(int32_t *choice, const rs_path_plan *plan, int32_t length, rs_random *random)
{
    for (int32_t i = 0; i < plan->n_hops; i++) {
        const rs_path_hop *hop = &plan->hops[i];
        double stay = hop->skips ? exp(ways(plan, i + 1, length) - ways(plan, i, length)) : 0;
        bool may_take = hop->heads > 0 && ways(plan, i + 1, length - 1) > -INFINITY;
        choice[i] = -1;
        if (!may_take || (stay > 0 && rs_random_uniform(random) < stay)) continue;
        int32_t head = (int32_t)(rs_random_uniform(random) * hop->heads);
        choice[i] = head < hop->heads ? head : hop->heads - 1;
        length--;
    }
}

/* Path number `rank` of a length that has few. */
static void unrank_path(int32_t *choice, const rs_path_plan *plan, int32_t length, int64_t rank)
{
    for (int32_t i = 0; i < plan->n_hops; i++) {
        const rs_path_hop *hop = &plan->hops[i];
        int64_t stay = hop->skips ? llround(exp(ways(plan, i + 1, length))) : 0;
        choice[i] = -1;
        if (rank < stay) continue;
        int64_t each = llround(exp(ways(plan, i + 1, length - 1)));
        choice[i] = (int32_t)((rank - stay) / each);
        rank = (rank - stay) % each;
        length--;
    }
}

/* A path and its place among those that were drawn. */
typedef struct drawn_path {
    const int32_t *choice;
    size_t bytes, at;
} drawn_path;

static int by_choice(const void *a, const void *b)
{
    const drawn_path *x = a, *y = b;
    return memcmp(x->choice, y->choice, x->bytes);
}

/* Counts how often each path of a length was drawn. */
static rs_status count_copies(rs_path_set *set, const rs_path_plan *plan, int32_t length,
                              rs_error *err)
{
    size_t from = set->first[length], n = set->first[length + 1] - from;
    size_t hops = (size_t)plan->n_hops;
    for (size_t i = 0; i < n; i++)
        set->copies[from + i] = 1;
    if (set->exhaustive[length] || n < 2) return RS_OK;
    drawn_path *drawn = rs_malloc(n, sizeof *drawn);
    if (!drawn) return rs_fail_memory(err, "sampled paths", n * sizeof *drawn);
    for (size_t i = 0; i < n; i++)
        drawn[i] = (drawn_path){set->choice + (from + i) * hops, hops * sizeof *set->choice, i};
    qsort(drawn, n, sizeof *drawn, by_choice);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && by_choice(&drawn[i], &drawn[end]) == 0;)
            end++;
        size_t earliest = drawn[i].at;
        for (size_t j = i; j < end; j++)
            earliest = drawn[j].at < earliest ? drawn[j].at : earliest;
        for (size_t j = i; j < end; j++) {
            set->copies[from + drawn[j].at] = (int64_t)(end - i);
            set->again[from + drawn[j].at] = drawn[j].at != earliest;
        }
    }
    rs_free(drawn);
    return RS_OK;
}

static size_t wanted(const rs_path_plan *plan, int32_t length, int64_t each)
{
    int64_t count = plan->count[length];
    return (size_t)(count != RS_NULL_INT && count < each ? count : each);
}

static rs_status draw_set(rs_path_set *set, const rs_path_plan *plan, int64_t each, uint64_t seed,
                          rs_error *err)
{
    size_t cells;
    for (int32_t k = 0; k <= plan->longest; k++)
        set->n += wanted(plan, k, each);
    if (!rs_size_mul(set->n, (size_t)plan->n_hops, &cells))
        return rs_fail_memory(err, "sampled paths", SIZE_MAX);
    set->choice = rs_calloc(cells, sizeof *set->choice);
    set->length = rs_calloc(set->n, sizeof *set->length);
    set->first = rs_calloc((size_t)plan->longest + 2, sizeof *set->first);
    set->exhaustive = rs_calloc((size_t)plan->longest + 1, sizeof *set->exhaustive);
    set->copies = rs_calloc(set->n, sizeof *set->copies);
    set->again = rs_calloc(set->n, sizeof *set->again);
    if (!set->choice || !set->length || !set->first || !set->exhaustive || !set->copies ||
        !set->again)
        return rs_fail_memory(err, "sampled paths", cells * sizeof *set->choice);
    size_t at = 0;
    for (int32_t k = 0; k <= plan->longest; k++) {
        rs_random random = rs_random_new(seed, (uint64_t)STREAM_PATHS << 40 ^ (uint64_t)k);
        size_t n = wanted(plan, k, each);
        set->first[k] = at;
        set->exhaustive[k] = plan->count[k] == (int64_t)n;
        for (size_t i = 0; i < n; i++, at++) {
            int32_t *choice = set->choice + at * (size_t)plan->n_hops;
            set->length[at] = k;
            if (set->exhaustive[k])
                unrank_path(choice, plan, k, (int64_t)i);
            else
                draw_path(choice, plan, k, &random);
        }
    }
    set->first[plan->longest + 1] = set->total = at;
    for (int32_t k = 0; k <= plan->longest; k++)
        RS_TRY(count_copies(set, plan, k, err));
    return RS_OK;
}

rs_status rs_path_set_draw(rs_path_set **out, const rs_path_plan *plan, int64_t each, uint64_t seed,
                           rs_error *err)
{
    *out = NULL;
    rs_path_set *set = rs_calloc(1, sizeof *set);
    if (!set) return rs_fail_memory(err, "sampled paths", sizeof *set);
    rs_status status = draw_set(set, plan, each, seed, err);
    if (status == RS_OK)
        *out = set;
    else
        rs_path_set_close(set);
    return status;
}

rs_status rs_path_set_add_single(rs_path_set *set, const rs_path_plan *plan, rs_error *err)
{
    if (plan->longest < 1 || set->exhaustive[1]) return RS_OK;
    size_t hops = (size_t)plan->n_hops, more = (size_t)plan->count[1], cells;
    if (plan->count[1] == RS_NULL_INT || !rs_size_mul(set->n + more, hops, &cells))
        return rs_fail_memory(err, "paths of one head", SIZE_MAX);
    int32_t *choice = rs_realloc(set->choice, cells, sizeof *choice);
    if (!choice) return rs_fail_memory(err, "paths of one head", cells * sizeof *choice);
    set->choice = choice;
    for (size_t i = 0; i < more; i++)
        unrank_path(choice + (set->n + i) * hops, plan, 1, (int64_t)i);
    set->total = set->n + more;
    return RS_OK;
}

void rs_path_set_close(rs_path_set *set)
{
    if (!set) return;
    rs_free(set->choice);
    rs_free(set->length);
    rs_free(set->first);
    rs_free(set->exhaustive);
    rs_free(set->copies);
    rs_free(set->again);
    rs_free(set);
}
