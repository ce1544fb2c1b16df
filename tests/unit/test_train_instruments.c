/* test_train_instruments.c: what the instruments of a training run say, against plain long double
 * arithmetic on the weights, a pass over the same batch, and differences of weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "longdouble_svd.h"
#include "train_learner.h"

#include "base/memory.h"
#include "engine/dense_matrix.h"
#include "network/op_traits.h"
#include "train/instruments.h"

#include <float.h>
#include <math.h>

/* ---- products from the weights ---- */

typedef struct wanted {
    long double pseudo, effective, stable, q, relative, half, nuclear, score;
} wanted;

/* [count, in] of the map's outputs from `first` on. */
static double *outputs(const rs_dense *map, int64_t first, int64_t count)
{
    rs_error err = {0};
    double *w = malloc((size_t)(count * map->in) * sizeof *w);
    assert_int_equal(rs_dense_rows(w, NULL, map, first, count, &err), RS_OK);
    return w;
}

/* [count, out]: columns of the map. */
static double *inputs(const rs_dense *map, int64_t first, int64_t count)
{
    double *all = outputs(map, 0, map->out), *w = malloc((size_t)(count * map->out) * sizeof *w);
    for (int64_t k = 0; k < count; k++)
        for (int64_t u = 0; u < map->out; u++)
            w[k * map->out + u] = all[u * map->in + first + k];
    free(all);
    return w;
}

/* a [r, m], b [r, n]: vectors are rows. b NULL: a alone. */
static wanted product_of(const double *a, int64_t m, const double *b, int64_t n, int64_t r)
{
    wanted w = {0};
    int64_t columns = b ? n : r;
    int64_t rows = m > columns ? m : columns, cols = m > columns ? columns : m;
    long double *full = calloc((size_t)(rows * cols), sizeof *full);
    double *sigma = malloc((size_t)cols * sizeof *sigma);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < columns; j++) {
            long double sum = b ? 0 : a[j * m + i];
            for (int64_t k = 0; b && k < r; k++)
                sum += (long double)a[k * m + i] * b[k * n + j];
            full[m > columns ? i * cols + j : j * cols + i] = sum;
        }
    oracle_svd(sigma, full, rows, cols);
    int64_t k95 = 0;
    long double entropy = 0, energy = 0, part = 0;
    for (int64_t k = 0; k < cols; k++)
        w.nuclear += sigma[k], energy += (long double)sigma[k] * sigma[k];
    for (int64_t k = 0; k < cols; k++) {
        long double p = sigma[k] / w.nuclear;
        if (p > 0) entropy -= p * logl(p);
        if (part < 0.95L * w.nuclear * (1 - 1e-12L)) k95 = k + 1;
        part += sigma[k];
    }
    w.pseudo = (long double)k95 / r;
    w.effective = expl(entropy);
    w.stable = energy / ((long double)sigma[0] * sigma[0]);
    long double xx = 0, yy = 0, qq = 0, tx = 0, ty = 0;
    for (int64_t i = 0; b && i < r; i++)
        for (int64_t j = 0; j < r; j++) {
            long double x = 0, y = 0;
            for (int64_t k = 0; k < m; k++)
                x += (long double)a[i * m + k] * a[j * m + k];
            for (int64_t k = 0; k < n; k++)
                y += (long double)b[i * n + k] * b[j * n + k];
            xx += x * x, yy += y * y, qq += (x - y) * (x - y);
            if (i == j) tx += x, ty += y;
        }
    w.q = sqrtl(qq);
    w.relative = w.q / sqrtl(sqrtl(xx) * sqrtl(yy));
    w.half = (tx + ty) / 2;
    w.score = 1 - qq / (xx + yy - 2 * tx * ty / r);
    free(full);
    free(sigma);
    return w;
}

static void near(const char *what, double is, long double should, double tolerance)
{
    if (!(fabsl(is - should) <= tolerance * (1 + fabsl(should))))
        fail_msg("%s is %.17g, should be %.17Lg", what, is, should);
}

static void check_row(const rs_rank_row *row, const wanted *w, bool pair, int64_t r)
{
    near("pseudo-rank", row->pseudo_rank, w->pseudo, 1e-14);
    near("count", row->pseudo_count, w->pseudo * r, 1e-13);
    near("effective rank", row->effective_rank, w->effective, 1e-11);
    near("stable rank", row->stable_rank, w->stable, 1e-11);
    near("nuclear norm", row->nuclear_norm, w->nuclear, 1e-11);
    if (!pair) {
        assert_true(isnan(row->q_norm) && isnan(row->q_relative) && isnan(row->half_norm) &&
                    isnan(row->gap) && isnan(row->balance_score));
        return;
    }
    near("|Q|", row->q_norm, w->q, 1e-12);
    near("relative |Q|", row->q_relative, w->relative, 1e-12);
    near("H", row->half_norm, w->half, 1e-12);
    near("gap", row->gap, fmaxl(w->half - w->nuclear, 0), 1e-11);
    if (r > 1) near("balance score", row->balance_score, w->score, 1e-10);
}

static const rs_rank_row *row_of(const rs_instrument_reading *reading, int32_t layer,
                                 const char *product, int32_t head)
{
    for (size_t k = 0; k < reading->n_ranks; k++) {
        const rs_rank_row *row = &reading->ranks[k];
        if (row->layer == layer && row->head == head && strcmp(row->product, product) == 0)
            return row;
    }
    fail_msg("no row of layer %d, %s, head %d", (int)layer, product, (int)head);
    return NULL;
}

/* The maps of a mixer, as the test reads them. */
typedef struct maps {
    const rs_dense *q, *k, *v, *o;
    int64_t heads, shared, width, value_width;
} maps;

static maps maps_of(const rs_branch *b)
{
    if (b->kind == RS_BRANCH_ATTENTION) {
        const rs_attention_op *op = &b->attention;
        return (maps){&op->q,    &op->k,       &op->v,       &op->o,
                      op->heads, op->kv_heads, op->head_dim, op->value_dim};
    }
    if (b->kind == RS_BRANCH_LINEAR) {
        const rs_linear_op *op = &b->linear;
        return (maps){&op->q,    &op->k,       &op->v,       &op->o,
                      op->heads, op->kv_heads, op->head_dim, op->value_dim};
    }
    assert_int_equal(b->kind, RS_BRANCH_DELTA);
    const rs_delta_op *op = &b->delta;
    return (maps){&op->q,        &op->k,    &op->v,      &op->o,
                  op->key_heads, op->heads, op->key_dim, op->value_dim};
}

static size_t check_mixer(const rs_instrument_reading *reading, int32_t layer, const rs_branch *b)
{
    maps m = maps_of(b);
    bool delta = b->kind == RS_BRANCH_DELTA, merged = !m.o->weight;
    int64_t keys = delta ? m.heads : m.shared, values = delta ? m.shared : m.heads;
    int64_t d = m.q->in, r = m.width, v = m.value_width;
    for (int64_t h = 0; h < m.heads; h++) {
        double *a = outputs(m.q, h * r, r), *k = outputs(m.k, h / (m.heads / keys) * r, r);
        wanted w = product_of(a, d, k, d, r);
        check_row(row_of(reading, layer, "qk", (int32_t)h), &w, true, r);
        free(a);
        free(k);
    }
    if (merged) values = m.shared;
    for (int64_t h = 0; h < values; h++) {
        int64_t from = delta || merged ? h : h / (m.heads / m.shared);
        double *a = outputs(m.v, from * v, v), *o = merged ? NULL : inputs(m.o, h * v, v);
        wanted w = product_of(a, d, o, d, v);
        check_row(row_of(reading, layer, "ov", (int32_t)h), &w, !merged, v);
        free(a);
        free(o);
    }
    return (size_t)(m.heads + values);
}

static void test_products(void **state)
{
    (void)state;
    static const char *const models[] = {
        "{'depth': 2, 'd_model': 12, 'heads': 3}",
        "{'depth': 1, 'd_model': 12, 'heads': 4, 'kv_heads': 2}",
        "{'depth': 1, 'd_model': 10, 'heads': 1}",
        "{'depth': 1, 'd_model': 1, 'heads': 1}",
        "{'depth': 1, 'd_model': 6, 'heads': 2, 'd_head': 9}", /* wider than the tokens */
        "{'depth': 1, 'd_model': 8, 'heads': 2, 'init': {'wo': 'none'}}",
        "{'depth': 1, 'd_model': 8, 'heads': 4, 'kv_heads': 2, 'mixer': 'linear_attention'}",
        "{'depth': 1, 'd_model': 8, 'heads': 4, 'kv_heads': 2, 'mixer': 'gated_delta'}",
    };
    for (int m = 0; m < (int)(sizeof models / sizeof *models); m++)
        for (int single = 0; single < 2; single++) {
            trial t;
            open_trial(&t, models[m], single ? "'precision': 'f32'" : "'precision': 'f64'",
                       1 + m % 2);
            read_trial(&t);
            const rs_instrument_reading reading = rs_instruments_reading(t.instruments);
            size_t rows = 0;
            for (int32_t l = 0; l < t.learner.network->n_layers; l++)
                rows += check_mixer(&reading, l, rs_layer_mixer(&t.learner.network->layers[l]));
            assert_int_equal(reading.n_ranks, rows);
            close_trial(&t);
        }
}

/* Numbers of a model of width 4 with one head of width r. */
static void set_factors(trial *t, const double *a, const double *b, int64_t r)
{
    const rs_attention_op *op = &rs_layer_mixer(&t->learner.network->layers[0])->attention;
    double *v = (double *)(uintptr_t)op->v.weight->data,
           *o = (double *)(uintptr_t)op->o.weight->data;
    for (int64_t k = 0; k < 4; k++)
        for (int64_t j = 0; j < r; j++) { /* A, B: [4, r] */
            v[op->v.out_is_row ? j * 4 + k : k * r + j] = a[k * r + j];
            o[op->o.out_is_row ? k * r + j : j * 4 + k] = b[k * r + j];
        }
}

/* Closed forms in 40 digits: the published page's instances of a spectrum and of a pair of factors. */
static void test_closed_forms(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 1, 'd_model': 4, 'heads': 1, 'd_head': 2}", "'precision': 'f64'", 1);
    set_factors(&t, (const double[]){1, 0, 2, 1, 0, 3, 0, 0},
                (const double[]){1, 1, 0, 2, 1, -1, 2, 0}, 2);
    read_trial(&t);
    rs_instrument_reading reading = rs_instruments_reading(t.instruments);
    const rs_rank_row *row = row_of(&reading, 0, "ov", 0);
    const long double s1 = 8.013075109612947L, s2 = 5.078447330405372L;
    near("nuclear norm", row->nuclear_norm, 13.09152244001832L, 1e-14);
    near("H", row->half_norm, 13.5L, 1e-15);
    near("gap", row->gap, 0.40847755998168034L, 1e-13);
    near("balance score", row->balance_score, 0, 1e-14);
    near("|Q|", row->q_norm, sqrtl(1 + 8 + 16), 1e-15); /* X - Y = [[-1, 2], [2, 4]] */
    near("stable rank", row->stable_rank, 90 / (s1 * s1), 1e-14);
    near("effective rank", row->effective_rank,
         expl(-(s1 * logl(s1 / (s1 + s2)) + s2 * logl(s2 / (s1 + s2))) / (s1 + s2)), 1e-14);
    assert_true(row->pseudo_count == 2 && row->pseudo_rank == 1);
    close_trial(&t);

    open_trial(&t, "{'depth': 1, 'd_model': 4, 'heads': 1, 'd_head': 3}", "'precision': 'f64'", 1);
    set_factors(&t, (const double[]){3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0},
                (const double[]){1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0}, 3);
    read_trial(&t);
    reading = rs_instruments_reading(t.instruments);
    row = row_of(&reading, 0, "ov", 0);
    near("effective rank", row->effective_rank, 2.7494592739972052L, 1e-14);
    near("stable rank", row->stable_rank, 14 / 9.0L, 1e-14);
    near("nuclear norm", row->nuclear_norm, 6, 1e-14);
    near("H", row->half_norm, 8.5L, 1e-15);
    assert_true(row->pseudo_count == 3);
    close_trial(&t);
}

static void test_states(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        size_t cb, io;
    } cases[] = {{"{'depth': 2, 'd_model': 8, 'heads': 2, 'mixer': 'mamba2', 'state': 4}", 1, 2},
                 {"{'depth': 2, 'd_model': 8, 'heads': 2, 'mixer': 'mamba', 'state': 4}", 1, 0},
                 {"{'depth': 2, 'd_model': 8, 'heads': 2, 'mixer': 's4d', 'state': 4}", 0, 0}};
    for (size_t c = 0; c < 3; c++) {
        trial t;
        open_trial(&t, cases[c].model, "'precision': 'f64'", 1);
        read_trial(&t);
        const rs_instrument_reading reading = rs_instruments_reading(t.instruments);
        size_t cb = 0, io = 0;
        for (size_t k = 0; k < reading.n_ranks; k++) {
            const rs_rank_row *row = &reading.ranks[k];
            cb += strcmp(row->product, "cb") == 0;
            io += strcmp(row->product, "io") == 0;
            assert_true(row->effective_rank >= 1 && row->q_norm > 0);
        }
        assert_int_equal(cb, 2 * cases[c].cb);
        assert_int_equal(io, 2 * cases[c].io);
        if (c == 0) {
            const rs_ssd_op *op = &rs_layer_mixer(&t.learner.network->layers[1])->ssd;
            int64_t wide = op->heads * op->head_dim, n = op->state;
            double *b = outputs(&op->in, 2 * wide, n), *cc = outputs(&op->in, 2 * wide + n, n);
            wanted w = product_of(cc, 8, b, 8, n);
            check_row(row_of(&reading, 1, "cb", 0), &w, true, n);
            free(b);
            free(cc);
            b = outputs(&op->in, wide + op->head_dim, op->head_dim);
            cc = inputs(&op->o, op->head_dim, op->head_dim);
            w = product_of(b, 8, cc, 8, op->head_dim);
            check_row(row_of(&reading, 1, "io", 1), &w, true, op->head_dim);
            free(b);
            free(cc);
        }
        for (size_t l = 1; l < reading.n_layers; l++) {
            assert_true(isnan(reading.layers[l].entropy) && isnan(reading.layers[l].g_q) &&
                        isnan(reading.layers[l].logit_max));
            assert_true(reading.layers[l].relative_residual > 0);
        }
        close_trial(&t);
    }
}

/* Means of drawn products, and those of one drawn matrix where W_O is merged. */
static void test_nulls(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 1, 'd_model': 16, 'heads': 2}", "'precision': 'f64'", 1);
    read_trial(&t);
    rs_instrument_reading reading = rs_instruments_reading(t.instruments);
    rs_random random = rs_random_new(5, 0);
    double effective[2] = {0}, stable[2] = {0}, pseudo[2] = {0};
    enum { TRIALS = 300 };
    for (int k = 0; k < TRIALS; k++) {
        double a[16 * 16], b[16 * 16];
        for (int j = 0; j < 256; j++)
            a[j] = rs_random_normal(&random), b[j] = rs_random_normal(&random);
        for (int single = 0; single < 2; single++) {
            wanted w = product_of(a, 16, single ? NULL : b, 16, single ? 16 : 8);
            effective[single] += (double)w.effective / TRIALS;
            stable[single] += (double)w.stable / TRIALS;
            pseudo[single] += (double)w.pseudo / TRIALS;
        }
    }
    for (int single = 0; single < 2; single++) {
        const rs_rank_row *row = row_of(&reading, 0, "ov", 0);
        near("effective rank's null", row->effective_rank_null, effective[single], 0.02);
        near("stable rank's null", row->stable_rank_null, stable[single], 0.05);
        near("pseudo-rank's null", row->pseudo_rank_null, pseudo[single], 0.02);
        close_trial(&t);
        if (single) break;
        open_trial(&t, "{'depth': 1, 'd_model': 16, 'heads': 2, 'init': {'wo': 'none'}}",
                   "'precision': 'f64'", 1);
        read_trial(&t);
        reading = rs_instruments_reading(t.instruments);
    }
}

static void zero_items(trial *t, const char *ending)
{
    for (int64_t k = 0; k < t->learner.trained.n; k++)
        if (strstr(t->learner.trained.names[k].name, ending))
            memset(t->learner.trained.items[k].weight, 0,
                   (size_t)t->learner.trained.items[k].count * t->learner.trained.size);
    rs_weights_changed(t->learner.weights);
}

static void test_zero(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        trial t;
        open_trial(&t, "{'depth': 2, 'd_model': 12, 'heads': 3}", "'precision': 'f32'", 1);
        zero_items(&t, "mixer.q.");
        if (both) zero_items(&t, "mixer.k.");
        read_trial(&t);
        const rs_instrument_reading reading = rs_instruments_reading(t.instruments);
        for (size_t k = 0; k < reading.n_ranks; k++) {
            const rs_rank_row *row = &reading.ranks[k];
            bool zero = strcmp(row->product, "qk") == 0;
            assert_true(isnan(row->effective_rank) == zero);
            assert_true(isnan(row->stable_rank) == zero);
            assert_true(isnan(row->pseudo_rank) == zero);
            assert_true(isnan(row->q_relative) == zero);
            assert_true(row->effective_rank_null > 1);
            assert_true(isfinite(row->gap) && isfinite(row->q_norm));
            if (zero) assert_true(row->gap == row->half_norm && row->nuclear_norm == 0);
        }
        /* logits of queries that are zero: attention is uniform over the keys that a row sees */
        near("entropy's share", reading.layers[1].entropy_share, 1, 1e-6);
        near("largest logit", reading.layers[1].logit_max, 0, 1e-12);
        close_trial(&t);
    }
}

/* ---- factors that their Grams cannot carry ---- */

static void test_dependent(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 1, 'd_model': 12, 'heads': 2}", "'precision': 'f64'", 1);
    const rs_attention_op *op = &rs_layer_mixer(&t.learner.network->layers[0])->attention;
    double *q = (double *)(uintptr_t)op->q.weight->data;
    for (int64_t u = 1; u < 6; u++) /* head 0: all rows nearly the first one */
        for (int64_t c = 0; c < 12; c++)
            q[u * 12 + c] = q[c] * (double)u + 1e-9 * q[u * 12 + c];
    read_trial(&t);
    const rs_instrument_reading reading = rs_instruments_reading(t.instruments);
    check_mixer(&reading, 0, rs_layer_mixer(&t.learner.network->layers[0]));
    assert_true(row_of(&reading, 0, "qk", 0)->effective_rank < 1.001);
    close_trial(&t);
}

static void test_nonfinite(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 1, 'd_model': 12, 'heads': 2}", "'precision': 'f64'", 1);
    const rs_attention_op *op = &rs_layer_mixer(&t.learner.network->layers[0])->attention;
    ((double *)(uintptr_t)op->q.weight->data)[5] = INFINITY;
    read_trial(&t);
    const rs_instrument_reading reading = rs_instruments_reading(t.instruments);
    assert_true(isnan(row_of(&reading, 0, "qk", 0)->effective_rank));
    assert_true(isnan(row_of(&reading, 0, "qk", 0)->q_norm));
    assert_true(row_of(&reading, 0, "qk", 1)->effective_rank > 1);
    close_trial(&t);
}

/* ---- the probe batch ---- */

/* What a tap of the test's own hears. */
typedef struct heard {
    double residual, cosine, entropy, most;
    int64_t states, heads;
} heard;

static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    (void)site, (void)layer, (void)err;
    heard *h = user;
    const double *x = view->data;
    int64_t d = view->cols;
    if (layer != 2) return RS_OK;
    for (int32_t s = 0; s < view->batch->samples; s++, h->states++) {
        int64_t from = view->batch->begin[s], n = view->batch->begin[s + 1] - from;
        long double all = 0, apart = 0, cosine = 0;
        for (int64_t c = 0; c < d; c++) {
            long double mean = 0;
            for (int64_t k = from; k < from + n; k++)
                mean += x[k * d + c] / (long double)n;
            for (int64_t k = from; k < from + n; k++) {
                all += (long double)x[k * d + c] * x[k * d + c];
                apart += (x[k * d + c] - mean) * (x[k * d + c] - mean);
            }
        }
        for (int64_t a = from; a < from + n; a++)
            for (int64_t b = from; b < from + n; b++) {
                long double ab = 0, aa = 0, bb = 0;
                for (int64_t c = 0; c < d; c++) {
                    long double u = x[a * d + c], v = x[b * d + c];
                    ab += u * v, aa += u * u, bb += v * v;
                }
                if (a != b) cosine += ab / sqrtl(aa * bb);
            }
        h->residual += (double)sqrtl(apart / all);
        h->cosine += (double)(cosine / (long double)(n * (n - 1)));
    }
    return RS_OK;
}

static rs_status hear_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)err;
    heard *h = user;
    const double *p = view->probabilities, *logits = view->logits;
    if (view->layer != 1) return RS_OK;
    long double sum = 0;
    for (int64_t q = 0; q < view->n; q++)
        for (int64_t k = 0; k <= q; k++) {
            long double share = p[q * view->ld + k];
            if (share > 0) sum -= share * logl(share) / (long double)view->n;
            h->most = fmax(h->most, logits[q * view->ld + k]);
        }
    h->entropy += (double)sum;
    h->heads++;
    return RS_OK;
}

static void test_probe(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 2, 'd_model': 12, 'heads': 3, 'mask': 'causal'}",
               "'precision': 'f64', 'probe_samples': 5", 1);
    read_trial(&t);
    const rs_instrument_reading reading = rs_instruments_reading(t.instruments);
    rs_error err = {0};
    rs_task_batch batch = new_batch(t.task, 5);
    fill_batch(&batch, t.task, RS_TASK_PROBE, 0);
    rs_feed feed;
    assert_int_equal(rs_feed_open(&feed, rs_task_sizes(t.task), 5, false, &err), RS_OK);
    rs_feed_pack(&feed, &batch);
    heard h = {.most = -INFINITY};
    const rs_tap tap = {.user = &h,
                        .sites = 1u << RS_SITE_BLOCK_OUT,
                        .state = hear_state,
                        .wants_logits = true,
                        .attention = hear_attention};
    const rs_tap *const taps[] = {&tap};
    assert_int_equal(rs_runner_run(t.learner.runner, &feed.batch, taps, 1, &err), RS_OK);
    assert_int_equal(h.states, 5);
    assert_int_equal(h.heads, 15);
    near("relative residual", reading.layers[2].relative_residual, h.residual / 5, 1e-12);
    near("mean cosine", reading.layers[2].mean_cosine, h.cosine / 5, 1e-12);
    near("entropy", reading.layers[2].entropy, h.entropy / 15, 1e-12);
    near("largest logit", reading.layers[2].logit_max, h.most, 1e-14);
    double most = 0; /* of uniform attention: mean of ln of the keys seen */
    for (int64_t q = 1; q <= feed.n_tok; q++)
        most += log((double)q) / (double)feed.n_tok;
    near("share of entropy", reading.layers[2].entropy_share, h.entropy / 15 / most, 1e-12);
    assert_true(reading.layers[0].layer == -1 && reading.layers[0].relative_residual > 0);
    assert_true(isnan(reading.layers[0].entropy) && isnan(reading.layers[0].g_q));
    rs_feed_close(&feed);
    rs_task_batch_free(&batch);
    close_trial(&t);
}

/* ---- gradients and updates ---- */

static double squares(const trial *t, const void *numbers, int64_t n)
{
    long double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        long double x = t->learner.trained.size == 4 ? (double)((const float *)numbers)[k]
                                                     : ((const double *)numbers)[k];
        sum += x * x;
    }
    return (double)sum;
}

static double squares_of(const trial *t, int32_t layer, rs_role role)
{
    double sum = 0;
    const rs_trained_list *list = &t->learner.trained;
    for (int64_t k = 0; k < list->n; k++)
        if (list->places[k].layer == layer && list->places[k].role == role &&
            !strstr(list->names[k].name, "bias"))
            sum += squares(t, list->items[k].gradient, list->items[k].count);
    return sum;
}

static void test_gradients(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 2, 'd_model': 12, 'heads': 3}",
               "'precision': 'f64', 'schedule': {'warmup': 0}, 'optimizer': {'kind': 'adamw', "
               "'clip': 0.1, 'lr': 0.01, "
               "'weight_decay': 0.3, 'frozen': ['layers\\\\.1\\\\.mixer\\\\.v']}",
               1);
    run_steps(&t, 3);
    read_trial(&t);
    const rs_trained_list *list = &t.learner.trained;
    double *before = malloc(list->bytes);
    memcpy(before, list->values, list->bytes);
    rs_instrument_reading reading = rs_instruments_reading(t.instruments);
    const rs_layer_row *row = &reading.layers[1];
    near("gQ", row->g_q, squares_of(&t, 0, RS_ROLE_Q), 1e-13);
    near("gK", row->g_k, squares_of(&t, 0, RS_ROLE_K), 1e-13);
    near("gV", row->g_v, squares_of(&t, 0, RS_ROLE_V), 1e-13);
    near("gO", row->g_o, squares_of(&t, 0, RS_ROLE_O), 1e-13);
    near("gQ/gV", row->ratio_q_v, row->g_q / row->g_v, 1e-15);
    assert_true(isnan(reading.layers[2].g_v) && isnan(reading.layers[2].ratio_q_v));
    assert_true(reading.layers[2].g_q > 0);
    assert_true(isnan(row->update_ratio) && isnan(row->rate_q) && isnan(reading.update_ratio));
    assert_true(row->mixer_skip == 1 && row->mlp_scale == 1 && row->softmax == 1);
    step_trial(&t);
    double change = 0, weight = 0, all = 0, whole = 0;
    for (int64_t k = 0; k < list->n; k++) {
        const double *now = list->items[k].weight;
        const double *old = before + (now - (const double *)list->values);
        for (int64_t j = 0; j < list->items[k].count && !list->items[k].frozen; j++) {
            double d = (now[j] - old[j]) * (now[j] - old[j]), w = old[j] * old[j];
            all += d, whole += w;
            if (list->places[k].layer == 0) change += d, weight += w;
        }
    }
    reading = rs_instruments_reading(t.instruments);
    row = &reading.layers[1];
    near("update of the layer", row->update_ratio, sqrt(change / weight), 1e-12);
    near("update of all", reading.update_ratio, sqrt(all / whole), 1e-12);
    for (int64_t k = 0; k < list->n; k++)
        if (strcmp(list->names[k].name, "layers.0.mixer.k.weight") == 0) {
            const double *v = rs_optimiser_state(t.learner.optimiser, k, 1);
            double mean = 0;
            for (int64_t j = 0; j < list->items[k].count; j++)
                mean += 0.01 / (sqrt(v[j] / (1 - pow(0.95, 4))) + 1e-8);
            near("effective rate", row->rate_k, mean / (double)list->items[k].count, 1e-12);
        }
    assert_true(isnan(reading.layers[2].rate_v) && row->rate_v > 0);
    free(before);
    close_trial(&t);
}

/* ---- what the instruments leave alone ---- */

static void test_untouched(void **state)
{
    (void)state;
    for (int single = 0; single < 2; single++) {
        const char *more = single ? "'precision': 'f32'" : "'precision': 'f64'";
        trial watched, plain;
        open_trial(&watched, "{'depth': 2, 'd_model': 12, 'heads': 3}", more, 2);
        open_trial(&plain, "{'depth': 2, 'd_model': 12, 'heads': 3}", more, 1);
        for (int k = 0; k < 6; k++) {
            read_trial(&watched);
            step_trial(&watched);
        }
        run_steps(&plain, 6);
        assert_memory_equal(watched.learner.trained.values, plain.learner.trained.values,
                            plain.learner.trained.bytes);
        close_trial(&watched);
        close_trial(&plain);
    }
}

/* Every number of a reading, whatever the number of threads. */
static void test_threads(void **state)
{
    (void)state;
    trial t[2];
    for (int k = 0; k < 2; k++) {
        open_trial(&t[k], "{'depth': 2, 'd_model': 12, 'heads': 3}", "'precision': 'f32'",
                   k ? 3 : 1);
        run_steps(&t[k], 4);
        read_trial(&t[k]);
        step_trial(&t[k]);
    }
    const rs_instrument_reading a = rs_instruments_reading(t[0].instruments),
                                b = rs_instruments_reading(t[1].instruments);
    const rs_column_part *part = rs_train_ranks_kind.parts;
    for (size_t k = 0; k < a.n_ranks; k++)
        for (size_t c = 0; c < part->n; c++) {
            double x = rs_column_value(&part->columns[c], &a.ranks[k]),
                   y = rs_column_value(&part->columns[c], &b.ranks[k]);
            assert_memory_equal(&x, &y, sizeof x);
        }
    part = rs_train_layers_kind.parts;
    for (size_t k = 0; k < a.n_layers; k++)
        for (size_t c = 0; c < part->n; c++) {
            double x = rs_column_value(&part->columns[c], &a.layers[k]),
                   y = rs_column_value(&part->columns[c], &b.layers[k]);
            assert_memory_equal(&x, &y, sizeof x);
        }
    close_trial(&t[0]);
    close_trial(&t[1]);
}

/* ---- decay, and the laws of balance ---- */

static void test_contraction(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 1, 'd_model': 12, 'heads': 2}",
               "'precision': 'f64', 'schedule': {'warmup': 4}, 'optimizer': {'kind': 'adamw', "
               "'lr': 0.01, 'weight_decay': {'attention': 0.5, 'mixer\\\\.k': 0.25}, "
               "'lr_factor': {'mixer\\\\.q': 2}}",
               1);
    run_steps(&t, 2);
    read_trial(&t);
    rs_instrument_reading reading = rs_instruments_reading(t.instruments);
    double first = reading.ranks[0].q_norm;
    assert_true(reading.ranks[0].contraction == 1 && reading.ranks[0].contraction_expected == 1);
    step_trial(&t);
    run_steps(&t, 3);
    read_trial(&t);
    reading = rs_instruments_reading(t.instruments);
    /* steps 2 to 5: rates 3/4, 1, 1, 1 */
    double rates = 0.01 * 3.75;
    near("contraction", reading.ranks[0].contraction, reading.ranks[0].q_norm / first, 1e-15);
    near("by decay, qk", row_of(&reading, 0, "qk", 0)->contraction_expected,
         exp(-rates * (2 * 0.5 + 0.25)), 1e-14);
    near("by decay, ov", row_of(&reading, 0, "ov", 1)->contraction_expected, exp(-2 * rates * 0.5),
         1e-14);
    close_trial(&t);
}

static double worst_residual(const trial *t, const char *law, size_t *count)
{
    const rs_instrument_reading reading = rs_instruments_reading(t->instruments);
    double worst = 0;
    *count = 0;
    for (size_t k = 0; k < reading.n_ranks; k++) {
        const rs_rank_row *row = &reading.ranks[k];
        if (!row->balance_law || strcmp(row->balance_law, law) != 0) continue;
        ++*count;
        assert_true(row->balance_residual >= 0);
        worst = fmax(worst, row->balance_residual);
    }
    return worst;
}

static void test_laws(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer, *model, *law;
        size_t rows;
    } cases[] = {
        {"'kind': 'sgd', 'lr': 0.05, 'clip': 0.5", "'heads': 3", "gradient", 12},
        {"'kind': 'sgd', 'lr': 0.05, 'clip': null, 'clip_each': 0.01", "'heads': 3", "update", 12},
        {"'kind': 'heavy_ball', 'lr': 0.02, 'clip': 0.5", "'heads': 3", "momentum", 12},
        {"'kind': 'heavy_ball', 'lr': 0.02", "'heads': 4, 'kv_heads': 2", "update", 16},
        {"'kind': 'adam', 'lr': 0.01, 'betas': [0.9, 0.95]", "'heads': 3", "update", 12},
        {"'kind': 'adamw', 'lr': 0.01, 'clip': 0.5", "'heads': 3", "update", 12},
        {"'kind': 'adamw', 'lr': 0.01, 'frozen': ['mixer\\\\.k']", "'heads': 3", "update", 12},
        {"'kind': 'sgd', 'lr': 0.05", "'heads': 3, 'positions': 'rope'", "update", 6},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int single = 0; single < 2; single++) {
            char model[200], more[300];
            snprintf(model, sizeof model, "{'depth': 2, 'd_model': 12, %s, 'mask': 'causal'}",
                     cases[c].model);
            snprintf(more, sizeof more,
                     "'precision': '%s', 'schedule': {'warmup': 3}, 'optimizer': {%s, "
                     "'weight_decay': 0.5}",
                     single ? "f32" : "f64", cases[c].optimizer);
            trial t;
            open_trial(&t, model, more, 1);
            for (int k = 0; k < 5; k++) {
                size_t count;
                read_trial(&t);
                step_trial(&t);
                double worst = worst_residual(&t, cases[c].law, &count);
                assert_int_equal(count, cases[c].rows);
                if (worst > (single ? 1e-6 : 1e-14))
                    fail_msg("%s, %s: a residual of %g", cases[c].optimizer, cases[c].model, worst);
            }
            close_trial(&t);
        }
}

/* A step that is not the law's: a weight that somebody else moved. */
static void test_broken_law(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 1, 'd_model': 12, 'heads': 2}",
               "'precision': 'f64', 'optimizer': {'kind': 'sgd', 'lr': 0.05}", 1);
    read_trial(&t);
    rs_error err = {0};
    rs_learner_clip(&t.learner);
    rs_learner_step(&t.learner);
    const rs_attention_op *op = &rs_layer_mixer(&t.learner.network->layers[0])->attention;
    ((double *)(uintptr_t)op->q.weight->data)[0] += 1e-3;
    assert_int_equal(rs_instruments_after_step(t.instruments, &err), RS_OK);
    const rs_instrument_reading reading = rs_instruments_reading(t.instruments);
    assert_true(row_of(&reading, 0, "qk", 0)->balance_residual > 1e-5);
    assert_true(row_of(&reading, 0, "qk", 1)->balance_residual < 1e-14);
    rs_instruments_check_balance(t.instruments, false);
    close_trial(&t);
}

/* ---- taking a run up again ---- */

static void test_resume(void **state)
{
    (void)state;
    const char *model = "{'depth': 1, 'd_model': 12, 'heads': 2}",
               *more = "'precision': 'f64', 'optimizer': {'kind': 'sgd', 'lr': 0.05, "
                       "'weight_decay': 0.3}, 'schedule': {'kind': 'cosine', 'steps': 20}";
    trial whole, part;
    open_trial(&whole, model, more, 1);
    read_trial(&whole);
    step_trial(&whole);
    json_t *saved = rs_instruments_save(whole.instruments);
    char *text = json_dumps(saved, JSON_REAL_PRECISION(17));
    json_decref(saved);
    open_trial(&part, model, more, 1);
    run_steps(&part, 1);
    json_t *read = json_loads(text, 0, NULL);
    rs_error err = {0};
    assert_int_equal(rs_instruments_load(part.instruments, read, "state", &err), RS_OK);
    json_array_append_new(json_object_get(read, "first_norms"), json_real(1));
    assert_int_equal(rs_instruments_load(part.instruments, read, "state", &err),
                     RS_E_CONFIG_SCHEMA);
    json_decref(read);
    rs_memory_free_json(text);
    run_steps(&whole, 4);
    run_steps(&part, 4);
    read_trial(&whole);
    read_trial(&part);
    const rs_instrument_reading a = rs_instruments_reading(whole.instruments),
                                b = rs_instruments_reading(part.instruments);
    for (size_t k = 0; k < a.n_ranks; k++) {
        assert_true(a.ranks[k].contraction == b.ranks[k].contraction && a.ranks[k].contraction < 1);
        assert_true(a.ranks[k].contraction_expected == b.ranks[k].contraction_expected);
    }
    close_trial(&whole);
    close_trial(&part);
}

/* ---- memory that is refused ---- */

static void test_memory(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, "{'depth': 2, 'd_model': 12, 'heads': 3}", "'precision': 'f32'", 1);
    run_batch(&t);
    rs_instruments_close(t.instruments);
    t.instruments = NULL;
    int64_t blocks = rs_memory_blocks(), refused = 0;
    rs_status status = RS_E_NO_MEMORY;
    for (int64_t n = 1; status != RS_OK; n++) {
        rs_error err = {0};
        rs_memory_fail_at(n);
        status = rs_instruments_open(&t.instruments, &t.learner, t.task, &err);
        if (status == RS_OK) status = rs_instruments_before_step(t.instruments, &err);
        rs_memory_fail_at(0);
        if (status == RS_OK) break;
        assert_int_equal(status, RS_E_NO_MEMORY);
        rs_instruments_close(t.instruments);
        t.instruments = NULL;
        assert_int_equal(rs_memory_blocks(), blocks);
        refused++;
    }
    assert_true(refused > 40);
    step_trial(&t);
    close_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),  cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_states),    cmocka_unit_test(test_nulls),
        cmocka_unit_test(test_zero),      cmocka_unit_test(test_dependent),
        cmocka_unit_test(test_nonfinite), cmocka_unit_test(test_probe),
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_untouched),
        cmocka_unit_test(test_threads),   cmocka_unit_test(test_contraction),
        cmocka_unit_test(test_laws),      cmocka_unit_test(test_broken_law),
        cmocka_unit_test(test_resume),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
