/*
 * test_residual_direction.c: tokens that share a direction, X = c xᵀ + 2^e M (engine/residual.h):
 * its functions beside their definitions in 113 bits, and attention whose rows have different sums.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_builder.h"
#include "property.h"

#include "engine/residual.h"

#include <float.h>

#if LDBL_MANT_DIG >= 113
typedef long double quad;
#else
__extension__ typedef __float128 quad;
#endif

enum { MOST_N = 9, MOST_D = 12 };

typedef struct tokens {
    int64_t n, d, e, uneven;
    double x[MOST_D], m[MOST_N * MOST_D], c[MOST_N];
} tokens;

static double scratch[2 * MOST_D];

static rs_residual of(tokens *t)
{
    return (rs_residual){
        .x = t->x, .m = t->m, .e = &t->e, .n = t->n, .d = t->d, .c = t->c, .uneven = &t->uneven};
}

static double coefficient(rs_random *random, int kind)
{
    double x = rs_random_normal(random);
    switch (kind) {
    case 0:
        return 1;
    case 1:
        return x > 0 ? 1 : 0.25;
    case 2:
        return x > 0 ? 0 : -1;
    case 3:
        return 1 + 1e-9 * x;
    default:
        return x;
    }
}

/* Settled tokens with a residual of 2^-90 to 2^4. */
static void draw_tokens(tokens *t, rs_random *random, int kinds)
{
    int kind = (int)(rs_random_uniform(random) * kinds);
    *t = (tokens){.uneven = 1};
    t->n = 2 + (int64_t)(rs_random_uniform(random) * (MOST_N - 1));
    t->d = 1 + (int64_t)(rs_random_uniform(random) * MOST_D);
    t->e = 4 - (int64_t)(rs_random_uniform(random) * 95);
    for (int64_t i = 0; i < t->n; i++)
        t->c[i] = coefficient(random, kind);
    for (int64_t k = 0; k < t->d; k++)
        t->x[k] = rs_random_normal(random);
    for (int64_t i = 0; i < t->n * t->d; i++)
        t->m[i] = rs_random_normal(random);
}

static void settle(tokens *t)
{
    rs_residual r = of(t);
    rs_residual_settle(&r, scratch);
}

/* ---- in 113 bits ---- */

static quad quad_root(quad a)
{
    quad root = (quad)sqrt((double)a);
    for (int i = 0; i < 2 && root > 0; i++)
        root = (root + a / root) / 2;
    return root;
}

static quad power(int64_t e)
{
    return (quad)ldexp(1, (int)e);
}

static quad entry(const tokens *t, int64_t i, int64_t k)
{
    quad c = t->uneven ? (quad)t->c[i] : 1;
    return c * (quad)t->x[k] + power(t->e) * (quad)t->m[i * t->d + k];
}

static double quad_size(quad a)
{
    return fabs((double)a);
}

/* How far 2^e M is from what it should be, `should` [n, d], beside the largest of that. */
static double distance(const tokens *t, const quad *should, double most)
{
    double far = 0;
    for (int64_t i = 0; i < t->n * t->d; i++) {
        most = fmax(most, quad_size(should[i]));
        far = fmax(far, quad_size(should[i] - power(t->e) * (quad)t->m[i]));
    }
    return far == 0 ? 0 : far / most;
}

/* ---- functions ---- */

/* M keeps what is at right angles to c, x gets the rest, and the tokens are what they were. */
static void settling_projects(void **state)
{
    (void)state;
    static quad should[MOST_N * MOST_D];
    for (int t = property_start(2000, 5); property_next(&t);) {
        rs_random random = property_random();
        tokens before, after;
        draw_tokens(&before, &random, 5);
        after = before;
        settle(&after);
        quad square = 0;
        for (int64_t i = 0; i < before.n; i++)
            square += (quad)before.c[i] * (quad)before.c[i];
        for (int64_t k = 0; k < before.d && square > 0; k++) {
            quad share = 0;
            for (int64_t i = 0; i < before.n; i++)
                share += (quad)before.c[i] * (quad)before.m[i * before.d + k] / square;
            for (int64_t i = 0; i < before.n; i++)
                should[i * before.d + k] = power(before.e) * ((quad)before.m[i * before.d + k] -
                                                              (quad)before.c[i] * share);
            quad x = (quad)before.x[k] + power(before.e) * share;
            quad scale = after.uneven ? 1 : (quad)before.c[0];
            property_worst(quad_size((quad)after.x[k] - x * scale) / DBL_EPSILON / 40 /
                           (1 + quad_size(x) + quad_size(power(before.e) * share)));
        }
        if (square > 0)
            property_worst(distance(&after, should, ldexp(1, (int)before.e)) / (100 * DBL_EPSILON));
    }
    property_holds(1);
}

/* X = 1 x'ᵀ + 2^e' M', x' the mean token: M' is as exact as the larger of its two parts. */
static void levelling_keeps_the_tokens(void **state)
{
    (void)state;
    static quad should[MOST_N * MOST_D];
    for (int t = property_start(2000, 6); property_next(&t);) {
        rs_random random = property_random();
        tokens before, after;
        draw_tokens(&before, &random, 5);
        before.e /= 2; /* the definition has 113 bits, too */
        settle(&before);
        after = before;
        rs_residual r = of(&after);
        rs_residual_level(&r, scratch);
        assert_int_equal(after.uneven, 0);
        double most = ldexp(1, (int)before.e);
        for (int64_t k = 0; k < before.d; k++) {
            quad mean = 0;
            for (int64_t i = 0; i < before.n; i++)
                mean += entry(&before, i, k) / (quad)before.n;
            property_worst(quad_size((quad)after.x[k] - mean) / (40 * DBL_EPSILON) /
                           (fabs(before.x[k]) * 3 + most));
            for (int64_t i = 0; i < before.n; i++)
                should[i * before.d + k] = entry(&before, i, k) - mean;
        }
        property_worst(distance(&after, should, most) / (100 * DBL_EPSILON));
    }
    property_holds(1);
}

static quad mean_of_row(const quad *row, int64_t d, rs_norm_kind kind)
{
    quad sum = 0;
    for (int64_t k = 0; k < d && kind == RS_NORM_LAYERNORM; k++)
        sum += row[k] / (quad)d;
    return sum;
}

/* row [d], in place; returns the root that it was divided by. */
static quad norm_row(quad *row, int64_t d, const rs_norm_op *op)
{
    quad mean = mean_of_row(row, d, op->kind), square = 0;
    for (int64_t k = 0; k < d; k++) {
        row[k] -= mean;
        square += row[k] * row[k] / (quad)d;
    }
    quad root = quad_root(square + (quad)op->eps);
    for (int64_t k = 0; k < d; k++)
        row[k] /= root;
    return root;
}

/* A norm keeps directions: its residual has its digits however small it is. */
static void norms_keep_directions(void **state)
{
    (void)state;
    static quad should[MOST_N * MOST_D];
    static const double epsilons[] = {0, 1e-12, 1e-3};
    for (int t = property_start(2000, 7); property_next(&t);) {
        rs_random random = property_random();
        tokens before, after;
        draw_tokens(&before, &random, 5);
        before.e = before.e / 2 - 8; /* the definition has 113 bits, too */
        before.d += before.d < 3 ? 3 : 0;
        settle(&before);
        rs_norm_op op = {.kind =
                             rs_random_uniform(&random) < 0.5 ? RS_NORM_RMSNORM : RS_NORM_LAYERNORM,
                         .dim = before.d,
                         .eps = epsilons[t % 3]};
        after = before;
        rs_residual r = of(&after);
        rs_residual_norm(&r, &op, NULL, NULL, scratch);
        quad base[MOST_D], one[MOST_D], row[MOST_D];
        double most = 0;
        for (int64_t k = 0; k < before.d; k++)
            base[k] = (quad)before.x[k];
        rs_norm_op exact = {.kind = op.kind, .dim = op.dim};
        quad length = norm_row(base, before.d, &exact); /* base: x' */
        bool kept = after.uneven || !before.uneven;
        for (int64_t i = 0; i < before.n && kept; i++) {
            quad c = before.uneven ? (quad)before.c[i] : 1;
            for (int64_t k = 0; k < before.d; k++) {
                row[k] = entry(&before, i, k);
                one[k] = c * (quad)before.x[k];
            }
            norm_row(row, before.d, &op);
            norm_row(one, before.d, &op);
            double root = (double)quad_root(c * c * length * length + (quad)op.eps);
            most = fmax(most, ldexp(1, (int)before.e) / root);
            for (int64_t k = 0; k < before.d; k++) {
                should[i * before.d + k] = row[k] - one[k];
                quad shared = (after.uneven ? (quad)after.c[i] : 1) * (quad)after.x[k];
                property_worst(quad_size(shared - one[k]) / (100 * DBL_EPSILON));
            }
        }
        if (kept) property_worst(distance(&after, should, most) / (1000 * DBL_EPSILON));
    }
    property_holds(1);
}

/* Coefficients that are not looked at, and coefficients of 1, change no bit. */
static void ones_change_nothing(void **state)
{
    (void)state;
    for (int t = property_start(500, 8); property_next(&t);) {
        rs_random random = property_random();
        tokens plain, marked, unread;
        draw_tokens(&plain, &random, 1);
        marked = unread = plain;
        plain.uneven = unread.uneven = 0;
        for (int64_t i = 0; i < unread.n; i++)
            unread.c[i] = NAN;
        tokens *all[] = {&plain, &marked, &unread};
        double rows[3][MOST_N * MOST_D];
        for (int k = 0; k < 3; k++) {
            const rs_norm_op op = {.kind = RS_NORM_RMSNORM, .dim = plain.d, .eps = 1e-6};
            rs_residual r = of(all[k]);
            if (all[k] == &plain) r.c = NULL, r.uneven = NULL;
            rs_residual_settle(&r, scratch);
            rs_residual_norm(&r, &op, NULL, NULL, scratch);
            rs_residual_settle(&r, scratch);
            rs_residual_combine(&r, &r, 0.5, 2);
            rs_residual_settle(&r, scratch);
            rs_residual_plain(rows[k], &r, 0);
            if (k == 0) continue;
            assert_int_equal(all[k]->e, plain.e);
            assert_memory_equal(all[k]->x, plain.x, (size_t)plain.d * sizeof(double));
            assert_memory_equal(all[k]->m, plain.m, (size_t)(plain.n * plain.d) * sizeof(double));
            assert_memory_equal(rows[k], rows[0], (size_t)(plain.n * plain.d) * sizeof(double));
        }
    }
}

/* ---- attention whose rows have different sums ---- */

enum { QUERIES = 5, KEYS = 3, D = 5, LAYERS = 2 };

/* rows: the states behind the embedding and behind each layer. */
typedef struct heard {
    double base[D], rest[QUERIES * D], rows[(LAYERS + 1) * QUERIES * D];
    int64_t e;
    bool centred; /* what views call the residual has columns of mean zero */
} heard;

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)site, (void)err;
    heard *h = user;
    memcpy(h->rows + layer * QUERIES * D, view->data, QUERIES * D * sizeof(double));
    if (!view->base) return RS_OK;
    memcpy(h->base, view->base, sizeof h->base);
    memcpy(h->rest, view->residual, sizeof h->rest);
    h->e = view->exponent[0];
    for (int k = 0; k < D; k++) {
        double sum = 0;
        for (int i = 0; i < QUERIES; i++)
            sum += h->rest[i * D + k];
        h->centred = h->centred && fabs(sum) < 1e-14;
    }
    return RS_OK;
}

static rs_attention_op attend(built *b)
{
    return (rs_attention_op){.heads = 1,
                             .kv_heads = 1,
                             .head_dim = 2,
                             .value_dim = D,
                             .scale = 1,
                             .temperature = 1,
                             .mix_softmax = 1,
                             .q = dense_of(b, D, 2, false),
                             .k = dense_of(b, D, 2, false),
                             .v = dense_of(b, D, D, false)};
}

/* ½ I + ½ P over fewer keys than queries, nothing skipped to it: rows sum to 1, and to ½ where there
 * is no key of their own. Behind it a norm without ε, or tokens that attend to each other. */
static void build(built *b, rs_layer layers[LAYERS], bool norm)
{
    *b = (built){.random = rs_random_new(3, 4), .dtype = RS_F64};
    rs_branch *cross = &layers[0].branches[0], *among = &layers[1].branches[0];
    layers[0].n_branches = layers[1].n_branches = 1;
    *cross = (rs_branch){.kind = RS_BRANCH_ATTENTION, .scale = 1, .attention = attend(b)};
    cross->attention.cross = true;
    cross->attention.mix_identity = cross->attention.mix_softmax = 0.5;
    if (norm) cross->after = (rs_norm_op){.kind = RS_NORM_RMSNORM, .dim = D};
    *among =
        (rs_branch){.kind = RS_BRANCH_ATTENTION, .skip = 1, .scale = 1, .attention = attend(b)};
    b->network = (rs_network){
        .family = "built", .d_model = D, .layers = layers, .n_layers = norm ? 1 : LAYERS};
    b->network.embedding = (rs_embedding_op){.width = D, .vocabulary = 2, .scale = 1};
    b->network.embedding.tokens = tensor(b, RS_F64, 2 * D, 0, 1);
}

/* Keys whose tokens are 2^-bits apart. */
static void hear(heard *h, int bits, bool norm, rs_precision precision)
{
    static const int64_t begin[] = {0, QUERIES}, keys[] = {0, KEYS};
    static const double apart[KEYS * D] = {1, 0, -2, 3, 1, -3, 2, 2, 0, 1, 0, 1, -1, -2, 3};
    double memory[KEYS * D], states[QUERIES * D];
    rs_layer layers[LAYERS] = {0};
    built b;
    build(&b, layers, norm);
    for (int i = 0; i < KEYS * D; i++)
        memory[i] = 1 + i % D + ldexp(apart[i], -bits);
    for (int i = 0; i < QUERIES * D; i++)
        states[i] = rs_random_normal(&b.random);
    b.batch = (rs_batch){
        .samples = 1, .begin = begin, .states = states, .memory = memory, .memory_begin = keys};
    *h = (heard){.centred = true};
    rs_context context = {.threads = 1};
    rs_tap tap = {.user = h, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_state};
    const rs_tap *taps[] = {&tap};
    rs_weights *weights;
    rs_runner *runner;
    rs_error err;
    assert_int_equal(rs_weights_open(&weights, precision, UINT64_MAX, &err), RS_OK);
    assert_int_equal(rs_runner_open(&runner, &b.network, weights, &context, &err), RS_OK);
    assert_int_equal(rs_runner_run(runner, &b.batch, taps, 1, &err), RS_OK);
    rs_runner_close(runner);
    rs_weights_close(weights);
    for (int i = 0; i < b.n_tensors; i++)
        free(b.blocks[i]);
}

/* The residual is linear in what is small: 2^-44 and 2^-24 give the same M. Plain numbers have nine
 * bits of the former. */
static void unequal_sums_keep_their_digits(void **state)
{
    (void)state;
    heard far, near;
    hear(&far, 24, true, RS_PRECISION_RESIDUAL);
    hear(&near, 44, true, RS_PRECISION_RESIDUAL);
    assert_true(near.e < -36 && far.e - near.e == 20);
    for (int i = 0; i < QUERIES * D; i++)
        assert_true(fabs(near.rest[i] - far.rest[i]) < 1e-6);
}

/* Listeners hear of tokens about their mean, and attention mixes the tokens that there are. */
static void what_follows_reads_the_tokens(void **state)
{
    (void)state;
    heard ours, plain;
    hear(&ours, 1, false, RS_PRECISION_RESIDUAL);
    hear(&plain, 1, false, RS_PRECISION_F64);
    assert_true(ours.centred);
    for (int i = 0; i < (LAYERS + 1) * QUERIES * D; i++)
        assert_true(fabs(ours.rows[i] - plain.rows[i]) < 1e-13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settling_projects),
        cmocka_unit_test(levelling_keeps_the_tokens),
        cmocka_unit_test(norms_keep_directions),
        cmocka_unit_test(ones_change_nothing),
        cmocka_unit_test(unequal_sums_keep_their_digits),
        cmocka_unit_test(what_follows_reads_the_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
