/*
 * test_residual_plain.c: ops that the residual precision works out in plain numbers, state-space
 * mixers: it agrees with float64 at every size that both have, says what of a residual is rounding,
 * and carries sizes that leave the doubles. Against 60 digits: test_residual_golden.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mixer_builder.h"
#include "residual_support.h"

enum { STATES = 400 };

/* What a pass tells: plain numbers beside the largest of their sample, and each state's size. */
typedef struct told {
    kept_numbers kept;
    double log_size[STATES], rounding[STATES]; /* of the first sample */
    bool zero[STATES];                         /* its residual is 0 */
    int states;
} told;

/* log2 of the largest number of x and 2^e M, 2^s times. */
static double log_size(const rs_state_view *view)
{
    int64_t rows = view->batch->begin[1], d = view->cols;
    double e = (double)view->exponent[0], s = (double)view->scale[0];
    double x = log2(rs_largest(view->base, d)), m = log2(rs_largest(view->residual, rows * d)) + e;
    return s + fmax(x, m);
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)site, (void)layer, (void)err;
    told *t = user;
    const int64_t *begin = view->batch->begin;
    for (int32_t s = 0; s < view->batch->samples; s++)
        keep_numbers(&t->kept, (const double *)view->data + begin[s] * view->cols,
                     (begin[s + 1] - begin[s]) * view->cols);
    if (!view->base || t->states == STATES) return RS_OK;
    t->log_size[t->states] = log_size(view);
    t->zero[t->states] = rs_all_zero(view->residual, begin[1] * view->cols);
    t->rounding[t->states++] = view->rounding[0];
    return RS_OK;
}

static rs_status pass(told *t, const built *b, rs_precision precision, int threads, bool matrices,
                      rs_error *err)
{
    rs_tap tap = {.user = t,
                  .sites = 1u << RS_SITE_BLOCK_OUT | 1u << RS_SITE_MIXER_OUT,
                  .state = on_state,
                  .attention = matrices ? keep_matrix : NULL};
    t->kept.n = 0, t->states = 0;
    return pass_with(&tap, b, precision, threads, err);
}

static told first, second;

static void run(told *t, const built *b, rs_precision precision, int threads, bool matrices)
{
    rs_error err;
    if (pass(t, b, precision, threads, matrices, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
}

static void scale_states(const built *b, double by)
{
    int64_t count = b->begin[b->batch.samples] * b->network.d_model;
    for (int64_t i = 0; i < count; i++)
        b->states[i] *= by;
}

/* The largest difference, beside the largest number of its matrix. */
static double difference(const told *a, const told *b)
{
    double worst = 0;
    assert_int_equal(a->kept.n, b->kept.n);
    for (size_t i = 0; i < a->kept.n; i++)
        if (a->kept.values[i] != b->kept.values[i])
            worst = fmax(worst, fabs(a->kept.values[i] - b->kept.values[i]) /
                                    fmax(a->kept.sizes[i], 1e-300));
    return worst;
}

/* Some with a layer of attention and an MLP behind. Every branch norms what it reads, and none what
 * it adds: a sample has one exponent, so a norm of tokens that are tiny beside others of theirs would
 * show how those were rounded. */
static built *stack_new(uint64_t seed)
{
    built *b = mixers_new(seed, LONGEST, state_space_of);
    int64_t d = b->network.d_model;
    if (b->network.n_layers == 2 && chance(b, 0.5))
        b->layers[b->network.n_layers++] =
            (rs_layer){.branches = {branch_of(b, d, RS_BRANCH_ATTENTION, false),
                                    branch_of(b, d, RS_BRANCH_MLP, false)},
                       .n_branches = 2};
    for (int32_t l = 0; l < b->network.n_layers; l++)
        for (int32_t i = 0; i < b->layers[l].n_branches; i++) {
            rs_branch *branch = &b->layers[l].branches[i];
            if (branch->before.kind == RS_NORM_NONE) branch->before = norm_of(b, d);
            branch->inside = branch->after = (rs_norm_op){0};
        }
    return b;
}

static void agrees_with_float64(void **state)
{
    (void)state;
    double worst = 0;
    for (int t = property_start(400, 1); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = stack_new(seed);
        run(&first, b, RS_PRECISION_F64, 1, seed % 2);
        run(&second, b, RS_PRECISION_RESIDUAL, 1, seed % 2);
        worst = fmax(worst, difference(&first, &second));
        if (!(difference(&first, &second) < 1e-11)) fail_msg("%g", difference(&first, &second));
        built_free(b);
    }
    if (getenv("RS_SHOW")) print_message("worst %.2g\n", worst);
}

/* Tokens so small or large that the op is shown others, and still inside what float64 has: the
 * power that was found is the op's own. */
static void agrees_at_the_ends(void **state)
{
    (void)state;
    double worst = 0;
    int seen = 0;
    for (int t = property_start(300, 2000); property_next(&t);) {
        uint64_t seed = property_seed();
        built *b = mixers_new(seed, 9, state_space_of);
        rs_branch *branch = &b->layers[0].branches[0];
        b->network.n_layers = 1;
        branch->before = branch->after = (rs_norm_op){0};
        branch->skip = 0;
        scale_states(b, ldexp(1, seed % 3 ? -(int)draw(b, 203, 225) : (int)draw(b, 72, 90)));
        run(&first, b, RS_PRECISION_F64, 1, false);
        run(&second, b, RS_PRECISION_RESIDUAL, 1, false);
        bool finite = true;
        for (size_t i = 0; i < first.kept.n; i++)
            finite = finite && isfinite(first.kept.values[i]);
        double error = finite ? difference(&first, &second) : 0;
        worst = fmax(worst, error);
        seen += finite;
        if (!(error < 1e-10)) fail_msg("%g", error);
        built_free(b);
    }
    assert_true(seen > 200);
    if (getenv("RS_SHOW")) print_message("worst %.2g of %d\n", worst, seen);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    for (int t = property_start(40, 500); property_next(&t);) {
        built *b = stack_new(property_seed());
        run(&first, b, RS_PRECISION_RESIDUAL, 1, false);
        run(&second, b, RS_PRECISION_RESIDUAL, 3, false);
        assert_same_numbers(&first.kept, &second.kept);
        built_free(b);
    }
}

static void survives_lack_of_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 800; seed < 808; seed++) {
        built *b = stack_new(seed);
        rs_error err;
        if (seed % 2) scale_states(b, 1e-80);
        run(&first, b, RS_PRECISION_RESIDUAL, 1, true);
        for (int64_t n = 1;; n++) {
            rs_memory_fail_at(n);
            rs_status status = pass(&second, b, RS_PRECISION_RESIDUAL, 1, true, &err);
            rs_memory_fail_at(0);
            if (status == RS_OK) break;
            assert_int_equal(status, RS_E_NO_MEMORY);
            assert_true(n < 300);
        }
        assert_same_numbers(&first.kept, &second.kept);
        built_free(b);
    }
}

/* ---- one network, told in full ---- */

/* A mixer of two heads whose tokens hardly hear one another: states decay by e^-400 a token, and
 * the convolution has one entry. So equal tokens leave it equal. */
static rs_branch deaf_of(built *b, int64_t d)
{
    rs_branch branch = {.kind = RS_BRANCH_SSD, .scale = 1};
    rs_ssd_op *op = &branch.ssd;
    *op = (rs_ssd_op){.heads = 2,
                      .groups = 1,
                      .head_dim = 3,
                      .state = 2,
                      .step_most = INFINITY,
                      .gate = RS_GATE_BEFORE_NORM,
                      .norm_groups = 1};
    op->conv.channels = 10, op->conv.width = 1;
    op->conv.weight = tensor(b, RS_F64, 10, 0, 1);
    op->conv.bias = tensor(b, RS_F64, 10, 0, 0.3);
    op->in = dense_of(b, d, 2 * 6 + 2 * 2 + 2, false);
    op->o = dense_of(b, 6, d, true);
    op->dt_bias = tensor(b, RS_F64, 2, 2, 0);
    op->a_log = tensor(b, RS_F64, 2, 6, 0);
    op->d = tensor(b, RS_F64, 2, 1, 0);
    return branch;
}

/* States: 0, then mixer_out and block_out of each layer. The second layer is attention: of rounding it makes
 * no collapse. */
static void says_what_is_rounding(void **state)
{
    (void)state;
    static const struct {
        double spread, least, most; /* of the share behind the first mixer */
    } cases[] = {
        {1, 0, 1e-14}, {1e-6, 1e-12, 1e-8}, {1e-12, 1e-6, 1e-2}, {3e-17, .125, 1}, {0, 1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int skip = 0; skip < 2; skip++) {
            built *b = chain_new(deaf_of, 2, cases[c].spread);
            rs_branch *second_layer = &b->network.layers[1].branches[0];
            *second_layer = bare_attention_of(b, b->network.d_model);
            second_layer->skip = skip;
            run(&first, b, RS_PRECISION_RESIDUAL, 1, false);
            assert_true(first.rounding[0] == 0);
            if (first.rounding[1] < cases[c].least || first.rounding[1] > cases[c].most)
                fail_msg("spread %g: %g", cases[c].spread, first.rounding[1]);
            assert_true(first.rounding[2] == first.rounding[1]); /* no skip around it */
            assert_true(first.rounding[3] == first.rounding[2]);
            assert_true((first.rounding[4] >= .125) == (first.rounding[1] >= .125));
            chain_free(b);
        }
}

/* Of a state whose tokens differ, the rounding of an op that adds nothing to that is a share. */
static void rounding_beside_the_skip(void **state)
{
    (void)state;
    built *b = chain_new(deaf_of, 1, 1e-12);
    rs_branch *branch = &b->network.layers[0].branches[0];
    double shares[3];
    static const double scales[3] = {1, 1e-3, 1e-6};
    for (int i = 0; i < 3; i++) {
        branch->skip = 1, branch->scale = scales[i];
        run(&first, b, RS_PRECISION_RESIDUAL, 1, false);
        shares[i] = first.rounding[2];
    }
    assert_true(shares[0] > 1e-6 && shares[0] < 1e-2);
    assert_true(shares[1] < 3e-3 * shares[0] && shares[1] > 1e-4 * shares[0]);
    assert_true(fabs(shares[2] / shares[1] - 1e-3) < 1e-5);
    /* equal tokens beside the exact difference of others: all of it may be rounding */
    scale_states(b, 0);
    for (int i = 0; i < 24; i++)
        b->states[i] = 1 + (i < 4 ? 0x1p-52 : 0);
    branch->scale = 1e-3;
    run(&first, b, RS_PRECISION_RESIDUAL, 1, false);
    assert_true(first.rounding[2] > 1e-4 && first.rounding[2] < 1e-1 && !first.zero[2]);
    branch->skip = 0;
    run(&first, b, RS_PRECISION_RESIDUAL, 1, false);
    assert_true(first.rounding[2] >= .125);
    chain_free(b);
}

/* A token that is 2^-20 or 2^-60 of the others, and what a norm makes of it. */
static void a_norm_raises_rounding(void **state)
{
    (void)state;
    static const double least[] = {0, 1e-12, 0.3}, most[] = {0, 1e-8, 1};
    static const int small[] = {-5, -20, -60};
    for (int i = 0; i < 3; i++) {
        double rows[6] = {1, 2, -2, 1.5, ldexp(1, small[i]), 0}, x[2], m[6], scratch[4], share = 0;
        int64_t e, scale = 0, uneven = 0;
        rs_residual r = {.x = x,
                         .m = m,
                         .e = &e,
                         .n = 3,
                         .d = 2,
                         .uneven = &uneven,
                         .scale = &scale,
                         .rounding = &share};
        rs_norm_op op = {.kind = RS_NORM_RMSNORM, .dim = 2};
        rs_residual_split(&r, rows, scratch);
        rs_residual_norm(&r, &op, NULL, NULL, scratch);
        assert_true(share >= least[i] && share <= most[i]);
    }
}

static rs_branch normed_of(built *b, int64_t d)
{
    rs_branch branch = deaf_of(b, d);
    branch.before = (rs_norm_op){.kind = RS_NORM_RMSNORM, .dim = d, .eps = 1e-5};
    branch.skip = 20;
    return branch;
}

/* λ = 20: 20^64 is inside the doubles and agrees with float64, 20^320 is not. */
static void carries_growth(void **state)
{
    (void)state;
    built *b = chain_new(normed_of, 320, 0.5);
    run(&second, b, RS_PRECISION_RESIDUAL, 1, false);
    assert_int_equal(second.states, 400 < 641 ? 400 : 641);
    b->network.n_layers = 190;
    run(&first, b, RS_PRECISION_F64, 1, false);
    for (size_t i = 0; i < first.kept.n; i++)
        assert_true(fabs(first.kept.values[i] - second.kept.values[i]) <=
                    1e-12 * first.kept.sizes[i]);
    b->network.n_layers = 320;
    double grown = 0;
    for (int i = 62; i + 2 < second.states; i += 2) {
        grown = second.log_size[i + 2] - second.log_size[i];
        assert_true(fabs(grown - log2(20)) < 1e-9);
    }
    chain_free(b);
}

/* A branch alone, without a norm: what the branch gives takes over, and no size is lost on the way down. */
static rs_branch shrinking_of(built *b, int64_t d)
{
    rs_branch branch = deaf_of(b, d);
    branch.ssd.gate = RS_GATE_NONE;
    branch.ssd.conv.bias = branch.ssd.o.bias = NULL;
    branch.scale = 1e-30;
    return branch;
}

static void carries_decay(void **state)
{
    (void)state;
    built *b = chain_new(shrinking_of, 120, 0.5);
    run(&first, b, RS_PRECISION_RESIDUAL, 1, false);
    /* near 0 a head is linear, D silu(x) = x/2: one factor a layer */
    double rate = first.log_size[40] - first.log_size[38];
    for (int i = 40; i < 238; i += 20)
        assert_true(fabs((first.log_size[i + 2] - first.log_size[i]) / rate - 1) < 0.1);
    assert_true(first.log_size[240] < -1e4);
    b->network.n_layers = 6; /* 1e-180 is a double */
    run(&second, b, RS_PRECISION_F64, 1, false);
    for (size_t i = 0; i < second.kept.n; i++)
        assert_true(fabs(first.kept.values[i] - second.kept.values[i]) <=
                    1e-12 * second.kept.sizes[i]);
    chain_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_float64),    cmocka_unit_test(agrees_at_the_ends),
        cmocka_unit_test(threads_change_nothing), cmocka_unit_test(survives_lack_of_memory),
        cmocka_unit_test(says_what_is_rounding),  cmocka_unit_test(rounding_beside_the_skip),
        cmocka_unit_test(a_norm_raises_rounding), cmocka_unit_test(carries_growth),
        cmocka_unit_test(carries_decay)};
    return cmocka_run_group_tests_name("residual_plain", tests, NULL, NULL);
}
