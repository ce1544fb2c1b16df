/*
 * theory_gram.c: networks with masks or rotary positions, by the tokens' Gram matrix
 * (docs/theory/mean_field.md, 6).
 */
#include "predict/gram_attention.h"
#include "predict/gram_mlp.h"
#include "predict/ln.h"
#include "predict/mean_field.h"
#include "predict/theory_run.h"

#include "base/memory.h"

#define BEYOND                                                                                     \
    "attention is beyond the theory of masks: condensed, or rotary over tokens of different size " \
    "(docs/theory/mean_field.md, 6)"
#define UNEQUAL                                                                                    \
    "tokens differ too much in size for one map of this activation (docs/theory/mean_field.md, 6)"

/* A branch as it ran: what its op read, and factors [n] of its norms. */
typedef struct step {
    rs_gram_state read;
    double *before, *inside, *after;
    double ln_before, ln_inside, ln_after;
    double *total; /* [n (n + 1)/2] of an attention */
    double *block;
    double kappa; /* in front of it */
    bool condensed;
} step;

/* Of n tokens. Steps are opened when they are first run. */
struct rs_theory_kept {
    int64_t n;
    rs_gram_state x, added;
    rs_gram_attention *attention;
    rs_theory_maps maps;
    step *steps;
    size_t n_steps;
    double *block;
};

typedef struct run {
    const rs_theory_network *net;
    const rs_theory_settings *settings;
    rs_theory_row *rows;
    int64_t n;
    rs_gram_state *x, *added;
    rs_gram_attention *attention;
    rs_theory_maps *maps;
    step *steps;
    double *skipped, *given, *back; /* [n, n] each: derivatives over e^ln_given */
    double *room;                   /* of the MLPs */
    double *root;                   /* [n]: of a norm's factors */
    double ln_given;
    double kappa; /* docs/theory/mean_field.md, 5 */
    bool turned;  /* some layer so far had rotary positions */
} run;

static rs_status open_step(step *s, int64_t n, bool is_mlp, rs_error *err)
{
    size_t all = 3 * (size_t)n, total = (size_t)n * ((size_t)n + 1) / 2;
    s->condensed = false;
    if (!s->read.square) RS_TRY(rs_gram_state_open(&s->read, n, err));
    if (!is_mlp && !s->total) s->total = rs_malloc(total, sizeof *s->total);
    if (!is_mlp && !s->total) return rs_fail_memory(err, "theory", total * sizeof *s->total);
    if (!s->block) s->block = rs_malloc(all, sizeof *s->block);
    if (!s->block) return rs_fail_memory(err, "theory", all * sizeof *s->block);
    s->before = s->block;
    s->inside = s->block + n;
    s->after = s->block + 2 * n;
    return RS_OK;
}

static void put_row(run *r, int32_t l)
{
    rs_theory_row *row = &r->rows[l];
    rs_gram_sums sums;
    rs_gram_state_sums(&sums, r->x);
    row->ln_square = rs_ln_times(sums.ln_squares, log((double)r->net->d));
    row->ln_sum = rs_ln_times(sums.ln_all, log((double)r->net->d));
    if (sums.ln_squares != -INFINITY) {
        row->rho = 1 - exp(sums.ln_apart);
        row->ln_apart = sums.ln_apart;
    }
    row->forward = l == 0 ? RS_FORMULA_INPUT : r->turned ? RS_FORMULA_GRAM_TURNED : RS_FORMULA_GRAM;
}

static rs_status run_mlp(run *r, step *s, const rs_theory_mlp *op, const char **reason,
                         rs_error *err)
{
    rs_activation_map *map = NULL;
    RS_TRY(rs_theory_map(&map, r->maps, op->kind, err));
    if (!rs_gram_mlp(r->added, map, op, &s->read, r->room)) *reason = UNEQUAL;
    return RS_OK;
}

static rs_status run_attention(run *r, step *s, rs_theory_row *row, const rs_theory_attention *op,
                               const char **reason, rs_error *err)
{
    rs_gram_seen seen;
    RS_TRY(rs_gram_attend(r->added, &seen, r->attention, s->total, op, &s->read, r->kappa,
                          r->settings->annealed, err));
    if (!seen.held) *reason = BEYOND;
    if (!seen.held) return RS_OK;
    double gain = log(op->values) + log(op->output);
    r->added->ln_square = rs_ln_times(r->added->ln_square, gain);
    r->added->ln_gap = rs_ln_times(r->added->ln_gap, gain);
    s->condensed = rs_field_condensed(seen.second, seen.keys);
    r->turned = r->turned || op->pairs > 0;
    row->logit_deviation = seen.deviation;
    row->keys = 1 / seen.second;
    row->rough = s->condensed;
    if (s->condensed) row->note = RS_THEORY_ROUGH;
    return RS_OK;
}

/* ln of the mean gap of all pairs, but for n. */
static double ln_gaps_of(const rs_gram_state *state)
{
    rs_gram_sums sums;
    rs_gram_state_sums(&sums, state);
    return sums.ln_apart + sums.ln_squares;
}

static void grow_kappa(run *r, const rs_theory_branch *b)
{
    double all = ln_gaps_of(r->x);
    if (!(all > -INFINITY)) return;
    double share = fmin(exp(ln_gaps_of(r->added) + rs_ln_square(b->scale) - all), 1);
    double growth = b->is_mlp ? 2 * share : share * (2 - share);
    /* where neither W_V nor W_O is there to mix features */
    bool still = b->attention.no_values && (b->attention.merged || b->attention.no_output);
    if (!b->is_mlp && still) return;
    r->kappa = fmin(r->kappa + growth * (1 + r->kappa) / (double)r->net->d, 1);
}

static rs_status run_branch(run *r, step *s, rs_theory_row *row, const rs_theory_branch *b,
                            const char **reason, rs_error *err)
{
    bool runs = b->scale != 0;
    RS_TRY(open_step(s, r->n, b->is_mlp, err));
    if (runs) {
        rs_gram_state_copy(&s->read, r->x);
        rs_gram_state_norm(&s->read, s->before, &s->ln_before, &b->before);
        if (b->is_mlp)
            RS_TRY(run_mlp(r, s, &b->mlp, reason, err));
        else
            RS_TRY(run_attention(r, s, row, &b->attention, reason, err));
        if (*reason) return RS_OK;
        rs_gram_state_norm(r->added, s->inside, &s->ln_inside, &b->inside);
    } else {
        r->added->ln_square = r->added->ln_gap = -INFINITY;
    }
    s->kappa = r->kappa;
    rs_gram_state_add(r->x, rs_ln_square(b->skip), r->added, rs_ln_square(b->scale));
    if (runs) grow_kappa(r, b);
    rs_gram_state_norm(r->x, s->after, &s->ln_after, &b->after);
    return RS_OK;
}

static rs_status run_layer(run *r, int32_t l, bool *whole, rs_error *err)
{
    const rs_theory_layer *layer = &r->net->layers[l];
    for (int32_t b = 0; b < layer->n_branches; b++) {
        const rs_theory_branch *branch = &layer->branches[b];
        const char *reason = branch->refused;
        step *s = &r->steps[l * RS_THEORY_BRANCHES + b];
        if (!reason) RS_TRY(run_branch(r, s, &r->rows[l], branch, &reason, err));
        *whole = !reason;
        /* nothing comes back from behind it either */
        for (int32_t k = 0; reason && k <= r->net->n_layers; k++)
            r->rows[k].note = reason;
        if (reason) return RS_OK;
    }
    put_row(r, l + 1);
    return RS_OK;
}

/* ---- back ---- */

static void scale_given(run *r, double *given)
{
    int64_t size = r->n * r->n;
    rs_gram_range range = rs_gram_range_of(given, size);
    double largest = fmax(fabs(range.low), fabs(range.high));
    /* nothing is done to numbers of a middling size */
    if (largest > 1e-6 && largest < 1e6) return;
    for (int64_t i = 0; i < size && largest > 0; i++)
        given[i] /= largest;
    r->ln_given = rs_ln_times(r->ln_given, largest > 0 ? log(largest) : -INFINITY);
}

/* Through a norm: given ∘ √(f_i f_j), and what is common in *ln. */
static void through_norm(run *r, double *given, const double *factor, const rs_theory_norm *norm)
{
    int64_t n = r->n;
    if (!norm->on) return;
    for (int64_t i = 0; i < n; i++)
        r->root[i] = sqrt(factor[i]);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            given[i * n + j] *= r->root[i] * r->root[j];
    }
}

/* ln Σ_ij K_ij given_ij of the tokens read. */
static double ln_sum_with(const rs_gram_state *read, const double *given)
{
    double sum = 0, ratio = rs_gram_state_ratio(read);
    int64_t n = read->n;
    for (int64_t i = 0; i < n; i++) {
        const double *gap = read->gap + i * n, *row = given + i * n;
        double own = read->square[i];
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++)
            sum += ((own + read->square[j]) / 2 - ratio * gap[j]) * row[j];
    }
    return sum > 0 ? read->ln_square + log(sum) : -INFINITY;
}

/* Queries and keys; ln of r->given and of d². */
static void logits_back(run *r, rs_theory_row *row, const step *s, const rs_theory_attention *op,
                        double ln)
{
    double sum = rs_gram_logits_back(r->back, r->attention, op, &s->read, r->given, s->kappa);
    double all = rs_ln_times(sum, ln + log(op->logit) + rs_ln_square(op->softmax));
    all = rs_ln_times(all, log(op->values) + log(op->output));
    row->ln_query = rs_ln_times(all, log(op->keys));
    row->ln_key = rs_ln_times(all, log(op->queries));
    row->query = RS_FORMULA_GRAM_QUERIES;
}

/* r->back of r->given, both over e^ln; what comes in adds to *ln. */
static rs_status attention_back(run *r, rs_theory_row *row, const step *s,
                                const rs_theory_attention *op, double *ln, rs_error *err)
{
    double width = 2 * log((double)r->net->d);
    RS_TRY(rs_gram_attend_back(r->back, r->attention, s->total, op, &s->read, r->given, s->kappa,
                               r->settings->annealed, err));
    /* Σ_ii' (M K Mᵀ)_ii' given_ii' = Σ_jj' K_jj' (Mᵀ given M)_jj' where M knows nothing of K */
    double sums = rs_ln_add(ln_sum_with(&s->read, r->back),
                            rs_gram_led_back(r->attention, op, &s->read, r->given));
    sums = rs_ln_times(sums, *ln + width);
    if (!op->no_values) row->ln_value = rs_ln_times(sums, log(op->output));
    if (!op->merged && !op->no_output) row->ln_output = rs_ln_times(sums, log(op->values));
    logits_back(r, row, s, op, *ln + width);
    *ln = rs_ln_times(*ln, log(op->values) + log(op->output));
    return RS_OK;
}

static rs_status mlp_back(run *r, const step *s, const rs_theory_mlp *op, rs_error *err)
{
    rs_activation_map *map = NULL;
    RS_TRY(rs_theory_map(&map, r->maps, op->kind, err));
    rs_gram_mlp_back(r->back, map, op, &s->read, r->room);
    for (int64_t i = 0; i < r->n * r->n; i++)
        r->back[i] *= r->given[i];
    return RS_OK;
}

/* Of a branch of scale 0: none of its maps has any. */
static void no_gradients(rs_theory_row *row, const rs_theory_attention *op)
{
    row->ln_query = row->ln_key = -INFINITY;
    row->ln_value = op->no_values ? NAN : -INFINITY;
    row->ln_output = op->no_output ? NAN : -INFINITY;
}

static rs_status branch_back(run *r, rs_theory_row *row, const step *s, const rs_theory_branch *b,
                             rs_error *err)
{
    int64_t n = r->n, size = n * n;
    through_norm(r, r->given, s->after, &b->after);
    double ln = r->ln_given = rs_ln_times(r->ln_given, s->ln_after);
    for (int64_t i = 0; i < size; i++)
        r->skipped[i] = r->given[i];
    ln = rs_ln_times(ln, rs_ln_square(b->scale));
    if (b->scale == 0) {
        if (!b->is_mlp) no_gradients(row, &b->attention);
        r->ln_given = rs_ln_times(r->ln_given, rs_ln_square(b->skip));
        return RS_OK;
    }
    through_norm(r, r->given, s->inside, &b->inside);
    ln = rs_ln_times(ln, s->ln_inside);
    if (b->is_mlp)
        RS_TRY(mlp_back(r, s, &b->mlp, err));
    else
        RS_TRY(attention_back(r, row, s, &b->attention, &ln, err));
    through_norm(r, r->back, s->before, &b->before);
    ln = rs_ln_times(ln, s->ln_before);
    double kept = rs_ln_times(r->ln_given, rs_ln_square(b->skip)), high = fmax(kept, ln);
    double of_skip = high == -INFINITY ? 0 : exp(kept - high);
    double of_op = high == -INFINITY ? 0 : exp(ln - high);
    for (int64_t i = 0; i < size; i++)
        r->given[i] = of_skip * r->skipped[i] + of_op * r->back[i];
    r->ln_given = high;
    scale_given(r, r->given);
    return RS_OK;
}

static void put_state_gradient(run *r, int32_t l)
{
    double trace = 0;
    for (int64_t i = 0; i < r->n; i++)
        trace += r->given[i * r->n + i];
    r->rows[l].ln_state =
        trace > 0 ? rs_ln_times(r->ln_given, log(trace) + log((double)r->net->d)) : -INFINITY;
    r->rows[l].backward = RS_FORMULA_GRAM_BACKWARD;
}

static void start_back(run *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t j = 0; j < r->n; j++)
            r->given[i * r->n + j] = i == j;
    }
    r->ln_given = 0;
    if (r->settings->after_final_norm) {
        double *factor = r->skipped, ln = 0;
        rs_gram_state_copy(r->added, r->x);
        rs_gram_state_norm(r->added, factor, &ln, &r->net->final_norm);
        through_norm(r, r->given, factor, &r->net->final_norm);
        r->ln_given = ln;
    }
}

static bool is_condensed(const run *r, int32_t l)
{
    for (int32_t b = 0; b < r->net->layers[l].n_branches; b++) {
        if (r->steps[l * RS_THEORY_BRANCHES + b].condensed) return true;
    }
    return false;
}

static rs_status run_back(run *r, rs_error *err)
{
    const rs_theory_network *net = r->net;
    start_back(r);
    put_state_gradient(r, net->n_layers);
    for (int32_t l = net->n_layers - 1; l >= 0; l--) {
        const rs_theory_layer *layer = &net->layers[l];
        if (is_condensed(r, l)) {
            for (int32_t k = 0; k <= l; k++)
                r->rows[k].note = r->rows[k].rough ? RS_THEORY_BOTH : RS_THEORY_CONDENSED;
            return RS_OK;
        }
        for (int32_t b = layer->n_branches - 1; b >= 0; b--)
            RS_TRY(branch_back(r, &r->rows[l], &r->steps[l * RS_THEORY_BRANCHES + b],
                               &layer->branches[b], err));
        put_state_gradient(r, l);
    }
    return RS_OK;
}

/* ---- a run ---- */

static void close_parts(rs_theory_kept *kept)
{
    for (size_t k = 0; k < kept->n_steps; k++) {
        rs_gram_state_close(&kept->steps[k].read);
        rs_free(kept->steps[k].total);
        rs_free(kept->steps[k].block);
    }
    rs_free(kept->steps);
    rs_free(kept->block);
    rs_theory_maps_close(&kept->maps);
    rs_gram_attention_close(kept->attention);
    rs_gram_state_close(&kept->x);
    rs_gram_state_close(&kept->added);
    *kept = (rs_theory_kept){0};
}

static rs_status open_parts(rs_theory_kept *kept, int64_t n, rs_error *err)
{
    size_t all = 3 * (size_t)n * (size_t)n + rs_gram_mlp_room(n) + (size_t)n;
    kept->n = n;
    RS_TRY(rs_gram_state_open(&kept->x, n, err));
    RS_TRY(rs_gram_state_open(&kept->added, n, err));
    RS_TRY(rs_gram_attention_open(&kept->attention, n, err));
    kept->block = rs_malloc(all, sizeof *kept->block);
    return kept->block ? RS_OK : rs_fail_memory(err, "theory", all * sizeof *kept->block);
}

static rs_status grow_steps(rs_theory_kept *kept, size_t n, rs_error *err)
{
    if (n <= kept->n_steps) return RS_OK;
    step *steps = rs_realloc(kept->steps, n, sizeof *steps);
    if (!steps) return rs_fail_memory(err, "theory", n * sizeof *steps);
    for (size_t k = kept->n_steps; k < n; k++)
        steps[k] = (step){0};
    kept->steps = steps;
    kept->n_steps = n;
    return RS_OK;
}

static rs_status open_run(run *r, rs_theory_kept *kept, rs_error *err)
{
    int64_t size = r->n * r->n;
    if (kept->n != r->n) {
        close_parts(kept);
        RS_TRY(open_parts(kept, r->n, err));
    }
    RS_TRY(grow_steps(kept, (size_t)r->net->n_layers * RS_THEORY_BRANCHES, err));
    r->x = &kept->x;
    r->added = &kept->added;
    r->attention = kept->attention;
    r->maps = &kept->maps;
    r->steps = kept->steps;
    r->skipped = kept->block;
    r->given = kept->block + size;
    r->back = kept->block + 2 * size;
    r->root = kept->block + 3 * size;
    r->room = r->root + r->n;
    return RS_OK;
}

static rs_status run_all(run *r, rs_error *err)
{
    bool whole = true;
    rs_gram_state_start(r->x, r->net->ln_square0, r->net->rho0);
    put_row(r, 0);
    for (int32_t l = 0; l < r->net->n_layers && whole; l++)
        RS_TRY(run_layer(r, l, &whole, err));
    return whole ? run_back(r, err) : RS_OK;
}

rs_status rs_theory_run_gram(rs_theory_row *rows, const rs_theory_network *network,
                             const rs_theory_settings *settings, rs_error *err)
{
    run r = {.net = network,
             .settings = settings,
             .rows = rows,
             .n = network->n,
             .kappa = 1 / (double)network->d};
    rs_theory_kept own = {0}, *kept = settings->kept ? settings->kept : &own;
    rs_status status = open_run(&r, kept, err);
    if (status == RS_OK) status = run_all(&r, err);
    /* what a failure has left half open is not kept */
    if (kept == &own || status != RS_OK) close_parts(kept);
    return status;
}

rs_status rs_theory_kept_open(rs_theory_kept **out, rs_error *err)
{
    *out = rs_calloc(1, sizeof **out);
    return *out ? RS_OK : rs_fail_memory(err, "theory", sizeof **out);
}

void rs_theory_kept_close(rs_theory_kept *kept)
{
    if (kept) close_parts(kept);
    rs_free(kept);
}
