/*
 * gram_attention.c: the weights of masked attention from tokens' Gram matrix
 * (docs/theory/mean_field.md, 6).
 *
 * Logits of rows i, i' and keys j, j' have covariance t K_ii' K_jj'. In annealed form
 *
 *     w ∝ exp(t[K_ii K_jj/2 + K_i'i' K_j'j'/2 + K_ii' K_jj'])
 *
 * and with K_jj' = top − apart_jj', top the largest square, what is common to all keys drops out. Where
 * keys are of one size, so does all but exp(−t K_ii' apart_jj'), and apart is the gap itself.
 */
#include "predict/gram_attention.h"

#include "base/memory.h"
#include "linalg/gemm.h"
#include "predict/gram_logits.h"
#include "predict/gram_turned.h"
#include "predict/ln.h"
#include "predict/softmax_moments.h"

enum { TABLE = 49, AROUND = 8 };
#define TABLE_LOW (-9.2) /* ln c: below, ĉ/c is 1 − O(c) */
#define TABLE_HIGH 7.6
#define TURNED_UNEQUAL 1.5 /* largest square over the least under rotary positions */

struct rs_gram_attention {
    int64_t n;
    rs_gram_mixing *mixing;
    rs_gram_turned *turned;                           /* opened when first asked for */
    double *part, *own, *turn;                        /* of positions: [n, n], [n], [2n − 1] */
    int64_t *first, *end;                             /* [n]: keys that rows see */
    double *pull, *apart, *tilt, *rest, *flat, *half; /* [n, n] */
    double *shared;                                   /* [n, n]: E Σ_j A_ij A_i'j, i' <= i */
    double *lift;                                     /* [n]: √(ĉ/c) of each row */
    double *rate, *size; /* [n]: of a row, and of a key beside the largest */
    double *spread, *tail; /* [n]: what logits vary by over a row's keys, its 2E ΣA³ − E(ΣA²)² */
    double *varied;        /* [n]: of the tokens under a row's weights, in units of apart */
    double *gaps, *uneven;   /* [n]: the keys' mean gap, and how far gaps are from it */
    double *squares, *means; /* [n + 1]: scratch of gram_logits.h */
    double *table, *tails;   /* [n, TABLE]: ĉ/c, and ln(n² tail), where filled */
    bool filled[TABLE];
    rs_softmax_moments *moments; /* [n] */
    double *block;
    double ln_unit; /* of apart */
    double ratio;   /* of that unit to the largest square */
    double led;     /* what a row gathers along its own query, per varied² and product of tokens */
    /* keys differ in size or in who sees them; by powers of rate and size where it is split */
    bool tilted, split;
};

static double table_point(int k)
{
    return TABLE_LOW + (TABLE_HIGH - TABLE_LOW) * k / (TABLE - 1);
}

/* 2E ΣA³ − E(ΣA²)², never less than E ΣA³: what E ΣA² loses in the square of a derivative by logits. */
static double tail_of(const rs_softmax_moments *m)
{
    return 2 * m->third - m->square;
}

/* Columns around `at`, counted in points, that there are not yet. */
static void fill_table(rs_gram_attention *a, int first)
{
    for (int k = first; k < first + AROUND; k++) {
        if (a->filled[k]) continue;
        double c = exp(table_point(k));
        rs_softmax_moments_causal(a->moments, a->n, c);
        for (int64_t i = 0; i < a->n; i++) {
            double keys = (double)(i + 1);
            a->table[i * TABLE + k] = i == 0 ? 1 : a->moments[i].equal / c;
            a->tails[i * TABLE + k] = log(keys * keys * tail_of(&a->moments[i]));
        }
        a->filled[k] = true;
    }
}

rs_status rs_gram_attention_open(rs_gram_attention **out, int64_t n, rs_error *err)
{
    enum { MATRICES = 7 };
    size_t size = (size_t)n * (size_t)n, all = MATRICES * size + (size_t)n * (2 * TABLE + 10) + 2;
    rs_gram_attention *a = *out = rs_calloc(1, sizeof *a);
    if (!a) return rs_fail_memory(err, "attention", sizeof *a);
    a->n = n;
    a->block = rs_malloc(all, sizeof *a->block);
    a->first = rs_malloc((size_t)n, 2 * sizeof *a->first);
    a->moments = rs_malloc((size_t)n, sizeof *a->moments);
    rs_status status = a->block && a->first && a->moments
                           ? rs_gram_mixing_open(&a->mixing, n, err)
                           : rs_fail_memory(err, "attention", all * sizeof *a->block);
    if (status == RS_OK) {
        double **parts[] = {&a->pull, &a->apart, &a->tilt,   &a->rest,
                            &a->flat, &a->half,  &a->shared, &a->lift};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            *parts[k] = a->block + k * size;
        a->spread = a->lift + n;
        a->tail = a->spread + n;
        a->varied = a->tail + n;
        a->gaps = a->varied + n;
        a->uneven = a->gaps + n;
        a->rate = a->uneven + n;
        a->size = a->rate + n;
        a->squares = a->size + n;
        a->means = a->squares + n + 1;
        a->table = a->means + n + 1;
        a->end = a->first + n;
        a->tails = a->table + n * TABLE;
    }
    if (status == RS_OK) return RS_OK;
    rs_gram_attention_close(a);
    *out = NULL;
    return status;
}

void rs_gram_attention_close(rs_gram_attention *attention)
{
    if (!attention) return;
    rs_gram_mixing_close(attention->mixing);
    rs_gram_turned_close(attention->turned);
    rs_free(attention->first);
    rs_free(attention->part);
    rs_free(attention->moments);
    rs_free(attention->block);
    rs_free(attention);
}

/* ---- who sees whom ---- */

typedef struct span {
    int64_t first, end;
} span;

static span keys_of(const rs_theory_attention *op, int64_t i, int64_t n)
{
    span keys = {0, op->causal ? i + 1 : n};
    if (op->window <= 0) return keys;
    if (i - op->window + 1 > 0) keys.first = i - op->window + 1;
    if (!op->causal && i + op->window < n) keys.end = i + op->window;
    return keys;
}

static int64_t count_of(span keys)
{
    return keys.end - keys.first;
}

/* ---- moments of rows ---- */

/* Shares of AROUND points from *first on in what a polynomial through them is at ln c = at, counted in
 * points of the table. */
static void share_out(double share[AROUND], int *first, double at)
{
    static const double below[AROUND] = {-5040, 720, -240, 144,
                                         -144,  240, -720, 5040}; /* Π (i − j) */
    int k = (int)fmin(fmax(floor(at) - AROUND / 2 + 1, 0), TABLE - AROUND);
    double x = at - k;
    for (int i = 0; i < AROUND; i++) {
        share[i] = 1 / below[i];
        for (int j = 0; j < AROUND; j++) {
            if (j != i) share[i] *= x - j;
        }
    }
    *first = k;
}

static double interpolate(const double *row, const double share[AROUND])
{
    double value = 0;
    for (int i = 0; i < AROUND; i++)
        value += share[i] * row[i];
    return value;
}

/* ĉ/c and the tail of a row of so many keys. */
static double lift_of(double *tail, rs_gram_attention *a, int64_t keys, double c)
{
    const double *row = a->table + (keys - 1) * TABLE, *tails = a->tails + (keys - 1) * TABLE;
    double low = exp(TABLE_LOW), n = (double)keys;
    double at = (log(c) - TABLE_LOW) / (TABLE_HIGH - TABLE_LOW) * (TABLE - 1);
    if (keys == 1 || !(c > 0)) {
        *tail = 1 / (n * n);
        return 1;
    }
    if (c < low) {
        fill_table(a, 0);
        *tail = exp(tails[0] * c / low) / (n * n);
        return 1 - (1 - row[0]) * c / low;
    }
    if (at >= TABLE - 1) {
        rs_softmax_moments moments;
        rs_softmax_moments_of(&moments, n, c);
        *tail = tail_of(&moments);
        return fmin(moments.equal, 745) / c;
    }
    double share[AROUND];
    int first;
    share_out(share, &first, at);
    fill_table(a, first);
    *tail = exp(interpolate(tails + first, share)) / (n * n);
    return interpolate(row + first, share);
}

/* Mean of apart over different keys of the span, less that over the same key twice: what variance within
 * a row is made of. */
static double spread_over(const double *apart, int64_t n, span keys)
{
    double all = 0, same = 0, count = (double)count_of(keys);
    for (int64_t j = keys.first; j < keys.end; j++) {
        same += apart[j * n + j];
        for (int64_t k = keys.first; k < keys.end; k++)
            all += apart[j * n + k];
    }
    return count > 1 ? (all - same) / (count * (count - 1)) - same / count : 0;
}

/* The same of all prefixes at once. */
static void spread_of_prefixes(double *out, const double *apart, int64_t n)
{
    double all = 0, same = 0;
    for (int64_t i = 0; i < n; i++) {
        double row = 0;
#pragma omp simd reduction(+ : row)
        for (int64_t j = 0; j < i; j++)
            row += apart[i * n + j];
        all += 2 * row;
        same += apart[i * n + i];
        double keys = (double)(i + 1);
        out[i] = i > 0 ? all / (keys * (keys - 1)) - same / keys : 0;
    }
}

/* apart [n, n] in units of e^ln_unit: what logits' variance within a row is made of. */
static void set_lifts(rs_gram_seen *seen, rs_gram_attention *a, const rs_theory_attention *op,
                      const rs_gram_state *read, double ln_t, const double *apart, double ln_unit)
{
    int64_t n = a->n;
    bool prefixes = op->causal && op->window <= 0;
    if (prefixes) spread_of_prefixes(a->lift, apart, n);
    double whole = !op->causal && op->window <= 0 ? spread_over(apart, n, (span){0, n}) : 0;
    double scale = exp(rs_ln_times(ln_t, rs_ln_times(read->ln_square, ln_unit)));
    for (int64_t i = 0; i < n; i++) {
        span keys = keys_of(op, i, n);
        double spread = prefixes         ? a->lift[i]
                        : op->window > 0 ? spread_over(apart, n, keys)
                                         : whole;
        double c = scale * read->square[i] * spread;
        double lift = lift_of(&a->tail[i], a, count_of(keys), c);
        a->spread[i] = spread;
        a->lift[i] = sqrt(lift);
        seen->deviation = exp(ln_t / 2 + read->ln_square) * read->square[i];
        seen->keys = (double)count_of(keys);
        seen->second = rs_softmax_annealed((double)count_of(keys), fmin(lift * c, 745));
        a->varied[i] = (1 - seen->second) * spread;
    }
}

/* ---- the law of the weights ---- */

/* apart = top − K in units of e^ln_unit. */
static void set_apart(rs_gram_attention *a, const rs_gram_state *read, bool equal)
{
    int64_t n = a->n;
    double ratio = rs_gram_state_ratio(read);
    a->ln_unit = equal ? read->ln_gap : read->ln_square;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double gap = read->gap[i * n + j];
            if (!equal) gap = ratio * gap + 1 - (read->square[i] + read->square[j]) / 2;
            a->apart[i * n + j] = gap;
        }
    }
}

/* Row i sees key j by exp(rate_i size_j). */
static void set_rates(rs_gram_attention *a, const rs_gram_state *read, double ln_t)
{
    double t = exp(ln_t + 2 * read->ln_square) / 2;
    for (int64_t i = 0; i < a->n; i++) {
        a->rate[i] = t * a->lift[i] * a->lift[i] * read->square[i];
        a->size[i] = read->square[i] - 1;
    }
}

static void set_tilt(rs_gram_attention *a, const rs_theory_attention *op)
{
    int64_t n = a->n;
    for (int64_t i = 0; i < n; i++) {
        span keys = keys_of(op, i, n);
        for (int64_t j = 0; j < n; j++) {
            bool sees = j >= keys.first && j < keys.end;
            a->tilt[i * n + j] = sees ? exp(a->rate[i] * a->size[j]) : 0;
        }
    }
}

static void set_pull(rs_gram_attention *a, const rs_gram_state *read, double scale)
{
    int64_t n = a->n;
    double ratio = rs_gram_state_ratio(read);
    for (int64_t i = 0; i < n; i++) {
        const double *gap = read->gap + i * n;
        double *pull = a->pull + i * n, own = read->square[i], lift = scale * a->lift[i];
        for (int64_t j = 0; j < n; j++)
            pull[j] = lift * a->lift[j] * ((own + read->square[j]) / 2 - ratio * gap[j]);
    }
}

/* ---- rotary positions ---- */

/* Logits at distance δ from each other keep turn_|δ| of their covariance: the mean of cos(δθ) over a
 * head's pairs. */
static void set_turn(rs_gram_attention *a, const rs_theory_attention *op)
{
    for (int64_t distance = 0; distance < 2 * a->n - 1; distance++) {
        double sum = op->still;
        for (int32_t t = 0; t < op->pairs; t++)
            sum += cos((double)distance * op->frequencies[t]);
        a->turn[distance] = sum / (op->pairs + op->still);
    }
}

/* Within a row: 1 − turn (1 − apart) of the largest square. */
static void set_part(rs_gram_attention *a, double ratio)
{
    for (int64_t j = 0; j < a->n; j++) {
        for (int64_t k = 0; k < a->n; k++) {
            double turn = a->turn[j > k ? j - k : k - j];
            a->part[j * a->n + k] = 1 - turn + turn * ratio * a->apart[j * a->n + k];
        }
    }
}

static rs_status open_turned(rs_gram_attention *a, rs_error *err)
{
    size_t n = (size_t)a->n, all = n * n + 3 * n;
    if (a->turned) return RS_OK;
    if (!a->part) a->part = rs_malloc(all, sizeof *a->part);
    if (!a->part) return rs_fail_memory(err, "rotary positions", all * sizeof *a->part);
    a->own = a->part + n * n;
    a->turn = a->own + n;
    return rs_gram_turned_open(&a->turned, a->n, err);
}

/* Keys of larger tokens weigh more; by how much is the same for all rows here. */
static void set_own(rs_gram_attention *a, const rs_gram_state *read, double t)
{
    double mean = 0;
    for (int64_t i = 0; i < a->n; i++)
        mean += a->lift[i] * a->lift[i] * read->square[i] / (double)a->n;
    for (int64_t i = 0; i < a->n; i++)
        a->own[i] = exp(t * mean * (read->square[i] - 1) / 2);
}

/* ---- one attention ---- */

/* Leaves everything in place for the sums of either way. */
static rs_status prepare(rs_gram_seen *seen, rs_gram_attention *a, const rs_theory_attention *op,
                         const rs_gram_state *read, double kappa, bool annealed, rs_error *err)
{
    bool equal = rs_gram_state_unequal(read)<1 + 1e-13, turned = op->pairs> 0;
    double ln_t = op->softmax == 0 ? -INFINITY : log(op->logit) + log(op->queries) + log(op->keys);
    a->tilted = !(equal && op->causal && op->window <= 0);
    for (int64_t i = 0; i < a->n; i++) {
        span keys = keys_of(op, i, a->n);
        a->first[i] = keys.first;
        a->end[i] = keys.end;
    }
    set_apart(a, read, equal);
    a->ratio = exp(rs_ln_times(a->ln_unit, -read->ln_square));
    if (turned) {
        RS_TRY(open_turned(a, err));
        set_turn(a, op);
        set_part(a, a->ratio);
    }
    double ln_unit = turned ? read->ln_square : a->ln_unit;
    set_lifts(seen, a, op, read, ln_t, turned ? a->part : a->apart, ln_unit);
    for (int64_t i = 0; annealed && i < a->n; i++)
        a->lift[i] = 1;
    double scale = exp(rs_ln_times(ln_t, rs_ln_times(read->ln_square, ln_unit)));
    if (turned)
        set_own(a, read, scale);
    else if (a->tilted)
        set_rates(a, read, ln_t);
    a->split = a->tilted && !turned && op->causal && op->window <= 0 &&
               rs_gram_is_split(a->rate, a->size, a->n);
    if (a->tilted && !turned && !a->split) set_tilt(a, op);
    set_pull(a, read, scale);
    /* rotary positions turn what is gathered, another way for each key */
    a->led = annealed || turned ? 0 : scale * kappa;
    return RS_OK;
}

/* E⟨x_i, x_k⟩/d beside the largest square. */
static double product_of(const rs_gram_attention *a, int64_t i, int64_t k)
{
    return 1 - a->ratio * a->apart[i * a->n + k];
}

/* A row gathers tokens that lie along its own query: Σ_j A_ij x_j has more of it than of other
 * directions, and K'_ik gains κ t K_ik v_i v_k, v_i what tokens vary by under the row's weights. */
static void gather_led(rs_gram_attention *a)
{
    for (int64_t i = 0; i < a->n && a->led > 0; i++) {
        for (int64_t k = 0; k < a->n; k++)
            a->rest[i * a->n + k] -= a->led * product_of(a, i, k) * a->varied[i] * a->varied[k];
    }
}

double rs_gram_led_back(const rs_gram_attention *a, const rs_theory_attention *op,
                        const rs_gram_state *read, const double *given)
{
    double sum = 0;
    for (int64_t i = 0; i < a->n && a->led > 0; i++) {
        for (int64_t k = 0; k < a->n; k++)
            sum += given[i * a->n + k] * product_of(a, i, k) * a->varied[i] * a->varied[k];
    }
    double ln = sum > 0 ? log(sum * a->led * a->ratio) : -INFINITY;
    return rs_ln_times(ln, read->ln_square + rs_ln_square(op->softmax));
}

static rs_gram_law plain_law(const rs_gram_attention *a, double *total)
{
    return (rs_gram_law){.pull = a->pull,
                         .apart = a->apart,
                         .tilt = a->tilted && !a->split ? a->tilt : NULL,
                         .rate = a->split ? a->rate : NULL,
                         .size = a->split ? a->size : NULL,
                         .total = total};
}

static rs_gram_turned_law turned_law(const rs_gram_attention *a, double *total)
{
    return (rs_gram_turned_law){.pull = a->pull,
                                .apart = a->apart,
                                .ratio = a->ratio,
                                .own = a->own,
                                .turn = a->turn,
                                .first = a->first,
                                .end = a->end,
                                .total = total};
}

/* ---- identity I + softmax P − uniform C ---- */

/* C: uniform over the keys seen. */
static void set_flat(rs_gram_attention *a, const rs_theory_attention *op)
{
    for (int64_t i = 0; i < a->n; i++) {
        span keys = keys_of(op, i, a->n);
        for (int64_t j = 0; j < a->n; j++)
            a->flat[i * a->n + j] =
                j >= keys.first && j < keys.end ? 1 / (double)count_of(keys) : 0;
    }
}

static bool is_plain(const rs_theory_attention *op)
{
    return op->identity == 0 && op->uniform == 0 && op->softmax == 1;
}

/* rest, Σ over P alone, becomes that of the whole matrix M, C standing for E P: of M a Mᵀ, or of Mᵀ a M
 * where turned. */
static void mix(double *rest, rs_gram_attention *a, const rs_theory_attention *op, const double *in,
                bool turned)
{
    int64_t n = a->n;
    double self = op->identity, soft = op->softmax, flat = soft - op->uniform;
    rs_gemm_side one = turned ? RS_TURNED : RS_AS_IS, other = turned ? RS_AS_IS : RS_TURNED;
    if (is_plain(op)) return;
    set_flat(a, op);
    rs_gemm_f64(one, RS_AS_IS, n, n, n, 1, a->flat, n, in, n, 0, a->half, n); /* C a */
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            rest[i * n + j] = soft * soft * rest[i * n + j] + self * self * in[i * n + j] +
                              self * flat * (a->half[i * n + j] + a->half[j * n + i]);
        }
    }
    rs_gemm_f64(RS_AS_IS, other, n, n, n, flat * flat - soft * soft, a->half, n, a->flat, n, 1,
                rest, n);
}

rs_status rs_gram_attend(rs_gram_state *out, rs_gram_seen *seen, rs_gram_attention *a,
                         double *total, const rs_theory_attention *op, const rs_gram_state *read,
                         double kappa, bool annealed, rs_error *err)
{
    int64_t n = a->n;
    RS_TRY(prepare(seen, a, op, read, kappa, annealed, err));
    rs_gram_law law = plain_law(a, total);
    rs_gram_turned_law turning = turned_law(a, total);
    seen->held = op->pairs > 0 ? rs_gram_state_unequal(read) < TURNED_UNEQUAL &&
                                     rs_gram_turned_gather(a->rest, a->turned, &turning)
                               : rs_gram_gather(a->rest, a->mixing, &law);
    if (!seen->held) return RS_OK;
    double rows = op->identity + op->softmax - op->uniform;
    gather_led(a);
    mix(a->rest, a, op, a->apart, false);
    out->ln_square = read->ln_square;
    out->ln_gap = a->ln_unit;
    for (int64_t i = 0; i < n; i++) {
        out->square[i] = fmax(rows * rows - a->ratio * a->rest[i * n + i], 0);
        for (int64_t j = 0; j < n; j++) {
            double gap = a->rest[i * n + j] - (a->rest[i * n + i] + a->rest[j * n + j]) / 2;
            out->gap[i * n + j] = i != j && gap > 0 ? gap : 0;
        }
    }
    rs_gram_state_scale(out);
    return RS_OK;
}

rs_status rs_gram_attend_back(double *back, rs_gram_attention *a, double *total,
                              const rs_theory_attention *op, const rs_gram_state *read,
                              const double *given, double kappa, bool annealed, rs_error *err)
{
    rs_gram_seen seen;
    RS_TRY(prepare(&seen, a, op, read, kappa, annealed, err));
    rs_gram_law law = plain_law(a, total);
    rs_gram_turned_law turning = turned_law(a, total);
    if (op->pairs > 0)
        rs_gram_turned_scatter(back, a->shared, a->turned, &turning, given);
    else
        rs_gram_scatter(back, a->mixing, &law, given);
    mix(back, a, op, given, true);
    return RS_OK;
}

/* Of the keys of a span: their mean gap g, and ‖H‖²/((m − 1) g²) of their Gram matrix H about their
 * mean, tr H = (m − 1) g: 1 where all are equally far apart, never less. What differs by a row or a
 * column alone drops out of H, so that gaps take the place of products. */
static double uneven_over(double *mean, const double *gap, int64_t n, span keys)
{
    double squares = 0, rows = 0, all = 0, m = (double)count_of(keys);
    *mean = spread_over(gap, n, keys);
    if (!(*mean > 0)) return 1;
    for (int64_t j = keys.first; j < keys.end; j++) {
        double row = 0;
        for (int64_t k = keys.first; k < keys.end; k++) {
            row += gap[j * n + k];
            squares += gap[j * n + k] * gap[j * n + k];
        }
        rows += row * row;
        all += row;
    }
    return fmax((squares - 2 * rows / m + all * all / (m * m)) / ((m - 1) * *mean * *mean), 1);
}

/* The same of all prefixes at once; rows [n] is scratch. */
static void uneven_of_prefixes(double *uneven, const double *mean, double *rows, const double *gap,
                               int64_t n)
{
    double squares = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        double of_rows = 0, m = (double)(i + 1);
        rows[i] = 0;
        for (int64_t j = 0; j < i; j++) {
            double a = gap[i * n + j];
            squares += 2 * a * a;
            all += 2 * a;
            rows[i] += a;
            rows[j] += a;
        }
        for (int64_t j = 0; j <= i; j++)
            of_rows += rows[j] * rows[j];
        double about = squares - 2 * of_rows / m + all * all / (m * m);
        uneven[i] = mean[i] > 0 ? fmax(about / ((m - 1) * mean[i] * mean[i]), 1) : 1;
    }
}

/* Of the keys that rows see. */
static void set_gaps(rs_gram_attention *a, const rs_theory_attention *op, const double *gap)
{
    int64_t n = a->n;
    bool whole = !op->causal && op->window <= 0, prefixes = op->causal && op->window <= 0;
    if (prefixes) {
        spread_of_prefixes(a->gaps, gap, n);
        uneven_of_prefixes(a->uneven, a->gaps, a->half, gap, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        bool same = whole && i > 0;
        a->uneven[i] = same ? a->uneven[0] : uneven_over(&a->gaps[i], gap, n, keys_of(op, i, n));
        if (same) a->gaps[i] = a->gaps[0];
    }
}

double rs_gram_logits_back(double *back, rs_gram_attention *a, const rs_theory_attention *op,
                           const rs_gram_state *read, const double *given, double kappa)
{
    int64_t n = a->n;
    double ln_w = log(op->logit) + log(op->queries) + log(op->keys) + rs_ln_square(op->softmax);
    rs_gram_law law = plain_law(a, NULL);
    if (op->softmax == 0) return -INFINITY;
    set_gaps(a, op, read->gap);
    for (int64_t i = 0; i < n && op->pairs == 0; i++) {
        for (int64_t k = 0; k <= i; k++)
            a->shared[i * n + k] = rs_gram_shared(a->mixing, &law, i, k);
    }
    const rs_gram_logits logits = {.read = read,
                                   .ratio = rs_gram_state_ratio(read),
                                   .gaps = a->gaps,
                                   .uneven = a->uneven,
                                   .shared = a->shared,
                                   .tail = a->tail,
                                   .kappa = kappa,
                                   .first = a->first,
                                   .end = a->end,
                                   .turn = op->pairs > 0 ? a->turn : NULL,
                                   .diagonal = a->flat,
                                   .off = a->half,
                                   .squares = a->squares,
                                   .means = a->means,
                                   .noted = a->rest,
                                   .turns = a->tilt,
                                   .sums = a->part};
    double ln_unit = read->ln_square + read->ln_gap, ln_scale = rs_ln_times(ln_w, ln_unit);
    double sum = rs_gram_through_logits(back, &logits, given, exp(ln_scale));
    return rs_ln_times(log(sum), rs_ln_times(ln_unit, read->ln_square));
}
