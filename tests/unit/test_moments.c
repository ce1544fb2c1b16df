/*
 * test_moments.c: the moments of a branch, on networks drawn at random and in every precision:
 * each satisfies the equation that defines it, a listener is told what it asked for and no more,
 * and which moments are told changes no bit of the pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "forward_reference.h"
#include "property.h"

enum { ALL = (1 << RS_MOMENT_COUNT) - 1, LONGEST = 9, STATES = 64 };

/* The numbers of a state as double, in memory of their own. */
static double *numbers_of(const rs_state_view *view)
{
    int64_t count = view->rows * view->cols;
    double *out = malloc((size_t)(count + 1) * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        out[i] = view->precision == RS_PRECISION_F32 ? (double)((const float *)view->data)[i]
                                                     : ((const double *)view->data)[i];
    return out;
}

/* ---- the states of a pass, bit by bit ---- */

typedef struct states {
    unsigned char *bytes[STATES];
    size_t sizes[STATES];
    int n;
} states;

static void keep_bytes(states *s, const void *data, size_t size)
{
    assert_true(s->n < STATES);
    s->bytes[s->n] = malloc(size + 1);
    memcpy(s->bytes[s->n], data, size);
    s->sizes[s->n++] = size;
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)site, (void)layer, (void)err;
    size_t count = (size_t)(view->rows * view->cols);
    keep_bytes(user, view->data, count * rs_precision_size(view->precision));
    if (view->precision != RS_PRECISION_RESIDUAL) return RS_OK;
    keep_bytes(user, view->residual, count * sizeof(double));
    keep_bytes(user, view->exponent, (size_t)view->batch->samples * sizeof(int64_t));
    return RS_OK;
}

static void compare_states(const states *a, const states *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        assert_int_equal(a->sizes[i], b->sizes[i]);
        assert_memory_equal(a->bytes[i], b->bytes[i], a->sizes[i]);
    }
}

static void free_states(states *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->bytes[i]);
    s->n = 0;
}

/* ---- the moments ---- */

typedef struct listener {
    const rs_network *network;
    unsigned asked;
    double *state[RS_MOMENT_COUNT]; /* of the branch at hand */
    double *first;                  /* what the layer's first branch read before its norm */
    int64_t rows, d;
    unsigned told; /* of the branch at hand */
    int branches;  /* that ended */
    double worst;  /* distance from a defining equation, over the largest entry */
} listener;

static void differ(listener *l, const double *a, const double *b)
{
    double worst = 0, largest = 1e-300;
    for (int64_t i = 0; i < l->rows * l->d; i++) {
        worst = fmax(worst, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    l->worst = fmax(l->worst, worst / largest);
}

/* from, through the norm, is to; without one bit for bit. */
static void check_norm(listener *l, const double *from, const double *to, const rs_norm_op *norm)
{
    size_t count = (size_t)(l->rows * l->d);
    if (norm->kind == RS_NORM_NONE) {
        assert_memory_equal(from, to, count * sizeof *to);
        return;
    }
    double *expected = malloc((count + 1) * sizeof *expected);
    memcpy(expected, from, count * sizeof *from);
    ref_norm_rows(expected, l->rows, l->d, norm);
    differ(l, to, expected);
    free(expected);
}

static void check_sum(listener *l, const rs_branch *branch)
{
    double *const *s = l->state;
    double *expected = malloc((size_t)(l->rows * l->d + 1) * sizeof *expected);
    for (int64_t i = 0; i < l->rows * l->d; i++) {
        expected[i] = branch->skip * s[RS_MOMENT_IN][i];
        if (branch->scale != 0) expected[i] += branch->scale * s[RS_MOMENT_ADDED][i];
    }
    differ(l, s[RS_MOMENT_SUM], expected);
    free(expected);
}

static void check_branch(listener *l, const rs_branch *branch, bool joined)
{
    double *const *s = l->state;
    if (branch->scale != 0) {
        check_norm(l, joined ? l->first : s[RS_MOMENT_IN], s[RS_MOMENT_OP_IN], &branch->before);
        check_norm(l, s[RS_MOMENT_OP_OUT], s[RS_MOMENT_ADDED], &branch->inside);
    }
    check_sum(l, branch);
    check_norm(l, s[RS_MOMENT_SUM], s[RS_MOMENT_OUT], &branch->after);
}

/* The residual precision's own promise, at every moment. */
static void check_settled(const rs_state_view *view)
{
    for (int32_t s = 0; s < view->batch->samples; s++) {
        int64_t from = view->batch->begin[s] * view->cols, to = view->batch->begin[s + 1];
        double most = 0;
        for (int64_t i = from; i < to * view->cols; i++)
            most = fmax(most, fabs(view->residual[i]));
        assert_true(most == 0 || (most >= 0.5 && most < 1));
    }
}

static rs_status on_branch(void *user, int32_t layer, int32_t b, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    (void)err;
    listener *l = user;
    const rs_branch *branch = &l->network->layers[layer].branches[b];
    unsigned absent = 1u << RS_MOMENT_OP_IN | 1u << RS_MOMENT_OP_OUT | 1u << RS_MOMENT_ADDED;
    assert_true(l->asked >> moment & 1u);
    assert_int_equal(l->told >> moment, 0); /* in order, each once */
    l->told |= 1u << moment;
    l->rows = view->rows;
    l->d = view->cols;
    if (view->precision == RS_PRECISION_RESIDUAL) check_settled(view);
    free(l->state[moment]);
    l->state[moment] = numbers_of(view);
    if (moment == RS_MOMENT_IN && b == 0) {
        free(l->first);
        l->first = numbers_of(view);
    }
    if (moment != RS_MOMENT_OUT) return RS_OK;
    if (branch->scale != 0) absent = 0;
    assert_int_equal(l->told, l->asked & ~absent);
    if (l->asked == ALL) check_branch(l, branch, branch->joins && b > 0);
    l->told = 0;
    l->branches++;
    return RS_OK;
}

static void free_listener(listener *l)
{
    for (int i = 0; i < RS_MOMENT_COUNT; i++)
        free(l->state[i]);
    free(l->first);
}

/* ---- passes ---- */

/* What a pass with n listeners of moments, two at most, leaves in `s`. */
static void pass(const built *b, rs_precision precision, int threads, listener *l, size_t n,
                 states *s)
{
    rs_context context = {.threads = threads};
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    const rs_tap plain = {.user = s, .sites = ALL_SITES, .state = on_state};
    rs_tap heard[2];
    const rs_tap *taps[] = {&plain, &heard[0], &heard[1]};
    for (size_t i = 0; i < n; i++)
        heard[i] = (rs_tap){.user = &l[i], .moments = l[i].asked, .branch = on_branch};
    assert_int_equal(rs_weights_open(&weights, precision, UINT64_MAX, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &b->network, weights, &context, &err), RS_OK);
    assert_int_equal(rs_runner_run(runner, &b->batch, taps, 1 + n, &err), RS_OK);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static int count_branches(const rs_network *network)
{
    int n = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        n += network->layers[l].n_branches;
    return n;
}

/* Far below what any wrong moment would be off by. */
static const double tolerances[RS_PRECISIONS] = {
    [RS_PRECISION_F32] = 2e-4, [RS_PRECISION_F64] = 1e-10, [RS_PRECISION_RESIDUAL] = 1e-10};

static void moments_satisfy_their_equations(void **state)
{
    (void)state;
    for (int t = property_start(240, 1); property_next(&t);) {
        built *b = built_new(property_seed(), LONGEST);
        rs_precision precision = (rs_precision)(property_seed() % RS_PRECISIONS);
        listener l = {.network = &b->network, .asked = ALL};
        states s = {0};
        pass(b, precision, 1 + (int)(property_seed() / RS_PRECISIONS % 2) * 3, &l, 1, &s);
        property_worst(l.worst / tolerances[precision]);
        assert_int_equal(l.branches, count_branches(&b->network));
        free_states(&s);
        free_listener(&l);
        built_free(b);
    }
    property_holds(1);
}

static void listeners_change_no_bit(void **state)
{
    (void)state;
    for (int t = property_start(240, 1); property_next(&t);) {
        built *b = built_new(property_seed(), LONGEST);
        rs_precision precision = (rs_precision)(property_seed() % RS_PRECISIONS);
        states expected = {0};
        pass(b, precision, 1, NULL, 0, &expected);
        for (unsigned asked = 1; asked <= ALL; asked = asked * 2 + (asked == 32)) {
            const unsigned end = 1u << RS_MOMENT_OUT; /* which ends a branch here */
            listener l[] = {{.network = &b->network, .asked = asked | end},
                            {.network = &b->network, .asked = end}};
            states s = {0};
            pass(b, precision, 1 + (int)(asked % 2) * 3, l, 2, &s);
            compare_states(&s, &expected);
            free_states(&s);
            free_listener(&l[0]);
            free_listener(&l[1]);
        }
        free_states(&expected);
        built_free(b);
    }
    property_holds(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moments_satisfy_their_equations),
        cmocka_unit_test(listeners_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
