/*
 * mixing_support.h: what the engine tells of mixing matrices without forming them, against sums over
 * the matrices that it forms for whoever asks, and over those of plain loops. Include behind cmocka.h.
 */
#ifndef RS_TEST_MIXING_SUPPORT_H
#define RS_TEST_MIXING_SUPPORT_H

#include "mixer_support.h"

enum { MOST_MATRICES = 210 };

/* What one pass told. */
typedef struct numbers_run {
    const built *b;
    rs_precision precision;
    uint64_t seed;
    int32_t only; /* the one matrix that is formed; -1: all; -2: none */
    heard states; /* of it the states alone */
    rs_mixing_numbers told[2][4][MOST_MATRICES]; /* [layer][sample][matrix] */
    rs_mixing_numbers own[2][4][MOST_MATRICES];  /* summed over entries */
    bool formed[2][4][MOST_MATRICES];
    int32_t matrices[2][4];
    int compared;
    uint64_t peak;
} numbers_run;

/* ---- sums over entries ---- */

static inline const rs_tensor *skips_of(const rs_branch *branch)
{
    if (branch->kind == RS_BRANCH_SSD) return branch->ssd.d;
    if (branch->kind == RS_BRANCH_S6) return branch->s6.d;
    return branch->kind == RS_BRANCH_S4D ? branch->s4d.d : NULL;
}

/* m: [n, n]; what is known of decays and steps is left out. */
static inline rs_mixing_numbers numbers_of(const double *m, int64_t n, const rs_branch *branch,
                                           int32_t matrix)
{
    const rs_tensor *skips = skips_of(branch);
    double skip = 0;
    if (skips) rs_tensor_decode_f64(&skip, skips, matrix, 1);
    rs_mixing_numbers of = {.row_sum_least = INFINITY, .row_sum_most = -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            double entry = m[i * n + j], mixed = entry - (i == j) * skip;
            sum += entry;
            of.square += entry * entry;
            of.mixed_square += mixed * mixed;
        }
        of.row_sum_least = fmin(of.row_sum_least, sum);
        of.row_sum_most = fmax(of.row_sum_most, sum);
    }
    of.skip = skips ? skip : NAN;
    return of;
}

/* ---- the pass ---- */

static inline bool wants_matrix(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const numbers_run *r = user;
    (void)layer, (void)branch;
    return r->only == -1 || head == r->only;
}

static inline rs_status on_formed(void *user, const rs_attention_view *v, rs_error *err)
{
    numbers_run *r = user;
    (void)err;
    assert_int_equal(v->ld, v->n);
    double *m = as_double(v->mixing, v->precision == RS_PRECISION_F32, (size_t)(v->n * v->n));
    r->own[v->layer][v->sample][v->head] =
        numbers_of(m, v->n, &r->b->layers[v->layer].branches[0], v->head);
    r->formed[v->layer][v->sample][v->head] = true;
    free(m);
    return RS_OK;
}

static inline rs_status on_numbers(void *user, const rs_mixing_view *view, rs_error *err)
{
    numbers_run *r = user;
    (void)err;
    assert_int_equal(view->n, r->b->begin[view->sample + 1] - r->b->begin[view->sample]);
    assert_true(view->n > 0 && r->matrices[view->layer][view->sample] == 0);
    r->matrices[view->layer][view->sample] = view->matrices;
    memcpy(r->told[view->layer][view->sample], view->of, (size_t)view->matrices * sizeof *view->of);
    return RS_OK;
}

/* Runs with the taps; `listens` false: with none. */
static inline numbers_run *numbers_heard(const built *b, uint64_t seed, rs_precision precision,
                                         int threads, int32_t only, bool listens)
{
    numbers_run *r = calloc(1, sizeof *r);
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = threads};
    *r = (numbers_run){.b = b, .precision = precision, .seed = seed, .only = only};
    r->states = (heard){.b = b, .precision = precision};
    const rs_tap states = {.user = &r->states, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_state};
    rs_tap mixing = {.user = r, .mixing = on_numbers};
    if (only != -2) mixing.attention = on_formed, mixing.wants_attention = wants_matrix;
    const rs_tap *taps[] = {&states, &mixing};
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    if (rs_runner_open(&runner, &b->network, weights, &context, &err) != RS_OK)
        fail_msg("%s", err.what);
    if (rs_runner_run(runner, &b->batch, taps, listens ? 2 : 1, &err) != RS_OK)
        fail_msg("%s", err.what);
    r->peak = rs_runner_peak(runner);
    rs_runner_close(runner);
    rs_weights_close(weights);
    return r;
}

static inline void numbers_free(numbers_run *r)
{
    heard_free(&r->states);
    free(r);
}

/* ---- comparing ---- */

static inline void number_is(double a, double b, double scale, double tolerance,
                             const numbers_run *r, const char *what)
{
    if (!(fabs(a - b) <= tolerance * scale))
        fail_msg("seed %d: %s %.17g, not %.17g", (int)r->seed, what, a, b);
}

/* What the engine told of a matrix, against what sums over its entries give. */
static inline void compare_numbers(numbers_run *r, const rs_mixing_numbers *m,
                                   const rs_mixing_numbers *own, double tolerance)
{
    double sums = fmax(fabs(own->row_sum_least), fabs(own->row_sum_most));
    /* where the skip all but cancels the diagonal, rounding is that of both */
    double squares = own->square + own->mixed_square;
    sums = fmax(sums, sqrt(squares));
    if (isnan(m->square)) {
        double least = r->precision == RS_PRECISION_F32 ? 1e-30 : 1e-290;
        assert_true(isnan(m->mixed_square) && own->mixed_square < 1.01 * least);
    } else {
        number_is(m->square, own->square, squares, tolerance, r, "squares");
        number_is(m->mixed_square, own->mixed_square, squares, tolerance, r, "mixed squares");
    }
    number_is(m->row_sum_least, own->row_sum_least, sums, tolerance, r, "least row sum");
    number_is(m->row_sum_most, own->row_sum_most, sums, tolerance, r, "largest row sum");
    assert_true(isnan(own->skip) ? isnan(m->skip)
                                 : fabs(m->skip - own->skip) <= 1e-7 * fabs(own->skip));
    r->compared++;
}

/* Against the matrices that the same pass formed. */
static inline void compare_formed(numbers_run *r, double tolerance)
{
    for (int32_t l = 0; l < r->b->network.n_layers; l++)
        for (int32_t s = 0; s < r->b->batch.samples; s++)
            for (int32_t h = 0; h < MOST_MATRICES; h++)
                if (r->formed[l][s][h]) {
                    assert_true(h < r->matrices[l][s]);
                    compare_numbers(r, &r->told[l][s][h], &r->own[l][s][h], tolerance);
                }
}

/* The mean logarithm of a decay and the mean step of each matrix of a branch on tokens x [n, d], NaN
 * where there is none. */
typedef void mixer_decays(double *log_decay, double *step, const rs_branch *branch, const double *x,
                          int64_t n);

typedef struct numbers_place {
    numbers_run *run;
    int32_t layer, sample;
    double tolerance;
} numbers_place;

static inline void compare_reference(void *user, int32_t head, const double *m, int64_t n)
{
    const numbers_place *at = user;
    rs_mixing_numbers own = numbers_of(m, n, &at->run->b->layers[at->layer].branches[0], head);
    compare_numbers(at->run, &at->run->told[at->layer][at->sample][head], &own, at->tolerance);
}

static inline void compare_decays(const numbers_place *at, const double *log_decay,
                                  const double *step)
{
    for (int32_t h = 0; h < at->run->matrices[at->layer][at->sample]; h++) {
        const rs_mixing_numbers *m = &at->run->told[at->layer][at->sample][h];
        double pairs[2][2] = {{m->log_decay, log_decay[h]}, {m->step, step[h]}};
        for (int i = 0; i < 2; i++) {
            if (isnan(pairs[i][1]) ? isnan(pairs[i][0]) : pairs[i][0] == pairs[i][1]) continue;
            number_is(pairs[i][0], pairs[i][1], fabs(pairs[i][1]), at->tolerance, at->run,
                      i ? "step" : "decay");
        }
    }
}

/* Against plain loops from the states that the pass told. */
static inline void compare_plain(numbers_run *r, reference_mixer *reference, mixer_decays *decays,
                                 double tolerance)
{
    const built *b = r->b;
    int64_t d = b->network.d_model;
    for (int32_t l = 0; l < b->network.n_layers; l++)
        for (int32_t s = 0; s < b->batch.samples; s++) {
            const rs_branch *branch = &b->layers[l].branches[0];
            int64_t from = b->begin[s], n = b->begin[s + 1] - from;
            if (n == 0) continue;
            double *x = malloc((size_t)(n * d) * sizeof *x), *y = malloc((size_t)(n * d) * 8);
            static double log_decay[MOST_MATRICES], step[MOST_MATRICES];
            numbers_place at = {r, l, s, tolerance};
            memcpy(x, r->states.states[l] + from * d, (size_t)(n * d) * sizeof *x);
            ref_norm_rows(x, n, d, &branch->before);
            reference(y, branch, x, n, compare_reference, &at);
            decays(log_decay, step, branch, x, n);
            compare_decays(&at, log_decay, step);
            free(x);
            free(y);
        }
}

/* What telling took is no more than what is said beforehand. */
static inline void compare_memory(const numbers_run *with, const numbers_run *without, int threads)
{
    const built *b = with->b;
    int64_t longest = 0;
    for (int32_t s = 0; s < b->batch.samples; s++)
        if (b->begin[s + 1] - b->begin[s] > longest) longest = b->begin[s + 1] - b->begin[s];
    double foreseen =
        rs_mixing_bytes(&b->network, with->precision, b->batch.samples, longest, threads);
    double taken = (double)with->peak - (double)without->peak;
    if (!(taken > 0 && taken <= foreseen))
        fail_msg("seed %d: %g bytes, foreseen %g", (int)with->seed, taken, foreseen);
}

/* ---- drawn networks ---- */

/* Samples of these lengths with states drawn anew, times `scale`. */
static inline void set_lengths(built *b, const int64_t *lengths, int32_t samples, double scale)
{
    int64_t d = b->network.d_model;
    b->batch.samples = samples;
    for (int32_t s = 0; s < samples; s++)
        b->begin[s + 1] = b->begin[s] + lengths[s];
    free(b->states);
    b->states = malloc((size_t)(b->begin[samples] * d + 1) * sizeof *b->states);
    for (int64_t i = 0; i < b->begin[samples] * d; i++)
        b->states[i] = scale * rs_random_normal(&b->random);
    b->batch.states = b->states;
}

/* One batch in both precisions: against matrices, against plain loops, and on three threads the same
 * bits as on one. */
static inline void check_batch(const built *b, uint64_t seed, reference_mixer *reference,
                               mixer_decays *decays, double single)
{
    for (int wide = 0; wide < 2; wide++) {
        rs_precision precision = wide ? RS_PRECISION_F64 : RS_PRECISION_F32;
        numbers_run *r = numbers_heard(b, seed, precision, 1, -1, true);
        compare_formed(r, wide ? 1e-11 : single);
        compare_plain(r, reference, decays, wide ? 1e-11 : 3 * single);
        numbers_run *threads = numbers_heard(b, seed, precision, 3, -2, true);
        assert_memory_equal(r->told, threads->told, sizeof r->told);
        numbers_run *without = numbers_heard(b, seed, precision, 3, -2, false);
        if (b->begin[b->batch.samples] > 0) {
            assert_true(r->compared > 0);
            compare_memory(threads, without, 3);
        }
        is_same(&threads->states, &without->states, b, seed);
        numbers_free(r);
        numbers_free(threads);
        numbers_free(without);
    }
}

/* Around the ends of chunks, ragged, with a sample without tokens; every fifth with states that are
 * far too large or too small. */
static inline void check_numbers(draw_mixer *mixer, reference_mixer *reference,
                                 mixer_decays *decays, int instances, double single)
{
    static const int64_t lengths[][4] = {
        {1, 63, 64, 65}, {64, 0, 1, 100}, {2, 1, 1, 3}, {65, 66, 5, 5}, {130, 7, 64, 1}};
    for (int t = property_start(instances, 1000); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = mixers_new(seed, 2, mixer);
        set_lengths(b, lengths[seed % 5], 4, seed % 11 == 0 ? 1e4 : seed % 11 == 5 ? 1e-4 : 1);
        check_batch(b, seed, reference, decays, single);
        built_free(b);
    }
    property_holds(1);
}

/* Texts that a panel's end cuts: against the matrix of one head. */
static inline void check_cut(draw_mixer *mixer, int instances)
{
    static const int64_t lengths[][4] = {{2049, 0, 0, 0}, {1000, 1100, 70, 1}, {2047, 66, 2, 0}};
    for (int t = property_start(instances, 100); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = mixers_new(seed, 2, mixer);
        set_lengths(b, lengths[seed % 3], 4, 1);
        numbers_run *r = numbers_heard(b, seed, RS_PRECISION_F64, 1 + (int)(seed % 3), 0, true);
        compare_formed(r, 1e-11);
        assert_true(r->compared > 0);
        numbers_free(r);
        built_free(b);
    }
    property_holds(1);
}

#endif
