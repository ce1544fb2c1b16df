/* test_mixing.c: what the engine tells of mixing matrices without forming them, against sums over the
 * matrices that it forms for whoever asks (which test_ssm.c holds to their definitions). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "mixer_builder.h"
#include "property.h"

typedef struct told {
    const built *b;
    rs_precision precision;
    uint64_t seed;
    int32_t only;                    /* the one matrix that is formed; -1: all */
    rs_mixing_numbers of[2][4][210]; /* [layer][sample][matrix] summed over entries */
    bool formed[2][4][210];
    int compared;
} told;

static bool wants(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const told *t = user;
    (void)layer, (void)branch;
    return t->only < 0 || head == t->only;
}

static double entry_of(const rs_attention_view *v, int64_t k)
{
    return v->precision == RS_PRECISION_F32 ? (double)((const float *)v->mixing)[k]
                                            : ((const double *)v->mixing)[k];
}

static const rs_tensor *skips_of(const rs_branch *branch)
{
    return branch->kind == RS_BRANCH_SSD ? branch->ssd.d : branch->s6.d;
}

static rs_status on_matrix(void *user, const rs_attention_view *v, rs_error *err)
{
    told *t = user;
    const rs_tensor *skips = skips_of(&t->b->layers[v->layer].branches[0]);
    double skip = 0;
    if (skips) rs_tensor_decode_f64(&skip, skips, v->head, 1);
    rs_mixing_numbers m = {.row_sum_least = INFINITY, .row_sum_most = -INFINITY};
    (void)err;
    for (int64_t i = 0; i < v->n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < v->n; j++) {
            double entry = entry_of(v, i * v->ld + j);
            sum += entry;
            m.square += entry * entry;
            m.mixed_square += (entry - (i == j) * skip) * (entry - (i == j) * skip);
        }
        m.row_sum_least = fmin(m.row_sum_least, sum);
        m.row_sum_most = fmax(m.row_sum_most, sum);
    }
    m.skip = skips ? skip : NAN;
    t->of[v->layer][v->sample][v->head] = m;
    t->formed[v->layer][v->sample][v->head] = true;
    return RS_OK;
}

static rs_mixing_numbers heard[2][4][210];

static rs_status on_mixing(void *user, const rs_mixing_view *view, rs_error *err)
{
    (void)user, (void)err;
    for (int32_t h = 0; h < view->matrices; h++)
        heard[view->layer][view->sample][h] = view->of[h];
    return RS_OK;
}

static void run_engine(told *t, int threads)
{
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = threads};
    const rs_tap tap = {.user = t,
                        .wants_attention = wants,
                        .attention = on_matrix,
                        .mixing = on_mixing},
                 *taps[] = {&tap};
    memset(heard, 0, sizeof heard);
    assert_int_equal(rs_weights_open(&weights, t->precision, 1 << 28, &err), RS_OK);
    if (rs_runner_open(&runner, &t->b->network, weights, &context, &err) != RS_OK)
        fail_msg("%s", err.what);
    if (rs_runner_run(runner, &t->b->batch, taps, 1, &err) != RS_OK) fail_msg("%s", err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static void near(double a, double b, double scale, double tolerance, const told *t,
                 const char *what)
{
    if (!(fabs(a - b) <= tolerance * scale))
        fail_msg("seed %d: %s %.17g, not %.17g", (int)t->seed, what, a, b);
}

static void compare(told *t, double tolerance)
{
    for (int32_t l = 0; l < t->b->network.n_layers; l++)
        for (int32_t s = 0; s < t->b->batch.samples; s++)
            for (int32_t h = 0; h < 210; h++) {
                if (!t->formed[l][s][h]) continue;
                const rs_mixing_numbers *own = &t->of[l][s][h], *m = &heard[l][s][h];
                double sums = fmax(fabs(own->row_sum_least), fabs(own->row_sum_most));
                /* where the skip all but cancels the diagonal, rounding is that of both */
                double squares = own->square + own->mixed_square;
                sums = fmax(sums, sqrt(squares));
                near(m->square, own->square, squares, tolerance, t, "squares");
                near(m->mixed_square, own->mixed_square, squares, tolerance, t, "mixed squares");
                near(m->row_sum_least, own->row_sum_least, sums, tolerance, t, "least row sum");
                near(m->row_sum_most, own->row_sum_most, sums, tolerance, t, "largest row sum");
                assert_true(isnan(own->skip) ? isnan(m->skip) : m->skip == own->skip);
                assert_true(m->log_decay <= 0 && m->step >= 0);
                t->compared++;
            }
}

static void one(uint64_t seed, const int64_t *lengths, int32_t samples, int32_t only,
                rs_precision precision, double tolerance)
{
    static told t;
    built *b = mixers_new(seed, 2, state_space_of);
    int64_t d = b->network.d_model;
    t = (told){.b = b, .precision = precision, .seed = seed, .only = only};
    b->batch.samples = samples;
    for (int32_t s = 0; s < samples; s++)
        b->begin[s + 1] = b->begin[s] + lengths[s];
    free(b->states);
    b->states = malloc((size_t)(b->begin[samples] * d + 1) * sizeof *b->states);
    for (int64_t i = 0; i < b->begin[samples] * d; i++)
        b->states[i] = rs_random_normal(&b->random);
    b->batch.states = b->states;
    run_engine(&t, 1 + (int)(seed % 3));
    compare(&t, tolerance);
    assert_true(t.compared > 0);
    built_free(b);
}

/* Around the ends of chunks, ragged, with a sample without tokens. */
static void drawn_lengths(void **state)
{
    static const int64_t lengths[][4] = {
        {1, 63, 64, 65}, {64, 0, 1, 130}, {2, 1, 1, 3}, {65, 127, 128, 129}, {200, 7, 64, 1}};
    (void)state;
    for (int t = property_start(100, 1000); property_next(&t);) {
        uint64_t seed = property_seed();
        one(seed, lengths[seed % 5], 4, -1, RS_PRECISION_F64, 1e-12);
        one(seed, lengths[seed % 5], 4, -1, RS_PRECISION_F32, 2e-4);
    }
    property_holds(1);
}

/* Texts that a panel's end cuts. */
static void cut_texts(void **state)
{
    static const int64_t lengths[][4] = {{2049, 0, 0, 0}, {1000, 1100, 70, 1}, {2047, 66, 2, 0}};
    (void)state;
    for (int t = property_start(6, 100); property_next(&t);) {
        uint64_t seed = property_seed();
        one(seed, lengths[seed % 3], 4, 0, RS_PRECISION_F64, 1e-11);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_lengths),
                                       cmocka_unit_test(cut_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
