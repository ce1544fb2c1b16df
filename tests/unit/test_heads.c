/* test_heads.c: head products from factors in memory, against long double Jacobi on factors
 * assembled here, element by element. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "longdouble_svd.h"

#include "base/memory.h"
#include "base/random.h"
#include "scan/heads.h"

#include <string.h>

/* ---- a model of one layer, by hand ---- */

enum { D = 10, C = 4, HEADS = 4, GROUPS = 2 }; /* width, head width, query heads, key/value heads */

typedef struct fixture {
    rs_checkpoint checkpoint;
    rs_model model;
    rs_tensor q, k, v, o, o_gpt, qb, vb, gain, beta, qn, kn;
    double wq[HEADS * C * D], wk[GROUPS * C * D], wv[GROUPS * C * D], wo[D * HEADS * C],
        wo_gpt[HEADS * C * D];
    double bq[HEADS * C], bv[GROUPS * C], g[D], b[D], gq[C], gk[C];
    int64_t shapes[11][2];
    rs_product products[2 * HEADS];
} fixture;

static void make_tensor(rs_tensor *tensor, int64_t *shape, const char *name, const double *data,
                        int64_t rows, int64_t cols)
{
    shape[0] = rows;
    shape[1] = cols;
    *tensor = (rs_tensor){.name = name,
                          .dtype = RS_F64,
                          .rank = cols ? 2 : 1,
                          .shape = shape,
                          .count = rows * (cols ? cols : 1),
                          .data = (const uint8_t *)data,
                          .type_id = -1};
    tensor->bytes = (uint64_t)tensor->count * 8;
}

static void fill(double *x, size_t n, rs_random *random, double mean)
{
    for (size_t i = 0; i < n; i++)
        x[i] = mean + rs_random_normal(random);
}

/* A mapping that is no file: checks on it pass. */
static rs_mapping no_mapping = {.slot = -1};
static rs_checkpoint_file no_file = {.name = (char *)"memory", .mapping = &no_mapping};

static void setup(fixture *f, uint64_t seed)
{
    memset(f, 0, sizeof *f);
    rs_random random = rs_random_new(seed, 0);
    fill(f->wq, HEADS * C * D, &random, 0);
    fill(f->wk, GROUPS * C * D, &random, 0.2);
    fill(f->wv, GROUPS * C * D, &random, 0);
    fill(f->wo, D * HEADS * C, &random, 0);
    fill(f->bq, HEADS * C, &random, 0);
    fill(f->bv, GROUPS * C, &random, 0);
    fill(f->g, D, &random, 1);
    fill(f->b, D, &random, 0);
    fill(f->gq, C, &random, 1);
    fill(f->gk, C, &random, 1);
    make_tensor(&f->q, f->shapes[0], "q", f->wq, HEADS * C, D);
    make_tensor(&f->k, f->shapes[1], "k", f->wk, GROUPS * C, D);
    make_tensor(&f->v, f->shapes[2], "v", f->wv, GROUPS * C, D);
    make_tensor(&f->o, f->shapes[3], "o", f->wo, D, HEADS * C);
    make_tensor(&f->qb, f->shapes[4], "qb", f->bq, HEADS * C, 0);
    make_tensor(&f->vb, f->shapes[5], "vb", f->bv, GROUPS * C, 0);
    make_tensor(&f->gain, f->shapes[6], "gain", f->g, D, 0);
    make_tensor(&f->beta, f->shapes[7], "beta", f->b, D, 0);
    make_tensor(&f->qn, f->shapes[8], "qn", f->gq, C, 0);
    make_tensor(&f->kn, f->shapes[9], "kn", f->gk, C, 0);
    for (int h = 0; h < HEADS; h++) {
        int g = h / (HEADS / GROUPS);
        rs_factor q = {.tensor = &f->q,
                       .rows = HEADS * C,
                       .cols = D,
                       .vector_is_row = true,
                       .first = h * C,
                       .inner = C,
                       .features = D,
                       .bias = &f->qb,
                       .bias_first = h * C,
                       .gain = &f->gain,
                       .gain_bias = &f->beta,
                       .norm = RS_NORM_LAYERNORM,
                       .inner_gain = &f->qn};
        rs_factor k = {.tensor = &f->k,
                       .rows = GROUPS * C,
                       .cols = D,
                       .vector_is_row = true,
                       .first = g * C,
                       .inner = C,
                       .features = D,
                       .gain = &f->gain,
                       .gain_bias = &f->beta,
                       .norm = RS_NORM_LAYERNORM,
                       .inner_gain = &f->kn,
                       .inner_gain_plus_one = true};
        rs_factor v = {.tensor = &f->v,
                       .rows = GROUPS * C,
                       .cols = D,
                       .vector_is_row = true,
                       .first = g * C,
                       .inner = C,
                       .features = D,
                       .bias = &f->vb,
                       .bias_first = g * C,
                       .gain = &f->gain,
                       .norm = RS_NORM_RMSNORM_PLUS_ONE};
        rs_factor o = {.tensor = &f->o,
                       .rows = D,
                       .cols = HEADS * C,
                       .vector_is_row = false,
                       .first = h * C,
                       .inner = C,
                       .features = D};
        f->products[h] = (rs_product){.attention = "self",
                                      .kind = RS_PRODUCT_QK,
                                      .head = h,
                                      .kv_head = g,
                                      .group_size = HEADS / GROUPS,
                                      .a = q,
                                      .b = k};
        f->products[HEADS + h] = (rs_product){.attention = "self",
                                              .kind = RS_PRODUCT_OV,
                                              .head = h,
                                              .kv_head = g,
                                              .group_size = HEADS / GROUPS,
                                              .a = v,
                                              .b = o};
    }
    f->checkpoint.files = &no_file;
    f->checkpoint.n_files = 1;
    f->model =
        (rs_model){.checkpoint = &f->checkpoint, .products = f->products, .n_products = 2 * HEADS};
}

static rs_heads *measure(const fixture *f, rs_fold fold, int threads)
{
    rs_heads_options options = {.fold = fold, .tolerance = NAN, .last_layer = INT32_MAX};
    rs_context context = {.threads = threads};
    rs_heads *heads;
    rs_error err;
    rs_status status = rs_heads_measure(&heads, &f->model, &options, &context, &err);
    if (status != RS_OK) fail_msg("%s: %s", err.where, err.what);
    return heads;
}

/* ---- the same factors by definition: features × C, row-major ---- */

/* One vector: weights w over the features, folded as told. out: D (+1) entries of column i. */
static void define_vector(double *out, int64_t i, const double *w, double bias, bool has_bias,
                          rs_norm_kind norm, const double *g, const double *b, double inner,
                          rs_fold fold)
{
    double column[D + 1] = {0}, mean = 0;
    for (int j = 0; j < D; j++) {
        double gain = !fold.norms || norm == RS_NORM_NONE ? 1
                      : norm == RS_NORM_RMSNORM_PLUS_ONE  ? 1 + g[j]
                                                          : g[j];
        column[j] = w[j] * gain;
        mean += column[j] / D;
    }
    if (fold.norms && norm == RS_NORM_LAYERNORM)
        for (int j = 0; j < D; j++)
            column[j] -= mean;
    bool shifted = fold.norms && b;
    int n = D + (fold.biases && (has_bias || shifted));
    if (n > D) {
        column[D] = bias;
        for (int j = 0; j < D && shifted; j++)
            column[D] += w[j] * b[j];
    }
    for (int j = 0; j < n; j++)
        out[j * C + i] = column[j] * (fold.norms ? inner : 1);
}

static int64_t define_q(double *out, const fixture *f, int h, rs_fold fold)
{
    for (int i = 0; i < C; i++)
        define_vector(out, i, f->wq + (h * C + i) * D, f->bq[h * C + i], true, RS_NORM_LAYERNORM,
                      f->g, f->b, f->gq[i], fold);
    return D + fold.biases;
}

static int64_t define_k(double *out, const fixture *f, int g, rs_fold fold)
{
    for (int i = 0; i < C; i++)
        define_vector(out, i, f->wk + (g * C + i) * D, 0, false, RS_NORM_LAYERNORM, f->g, f->b,
                      1 + f->gk[i], fold);
    return D + (fold.biases && fold.norms);
}

static int64_t define_v(double *out, const fixture *f, int g, rs_fold fold)
{
    for (int i = 0; i < C; i++)
        define_vector(out, i, f->wv + (g * C + i) * D, f->bv[g * C + i], true,
                      RS_NORM_RMSNORM_PLUS_ONE, f->g, NULL, 1, fold);
    return D + fold.biases;
}

static int64_t define_o(double *out, const fixture *f, int h)
{
    for (int j = 0; j < D; j++)
        for (int i = 0; i < C; i++)
            out[j * C + i] = f->wo[j * HEADS * C + h * C + i];
    return D;
}

static void check(const rs_head *head, const double *a, int64_t m, const double *b, int64_t n)
{
    double expected[256] = {0};
    oracle_product_svd(expected, a, m, b, n, C);
    assert_int_equal(head->rows, m);
    assert_int_equal(head->cols, n);
    for (int i = 0; i < C; i++)
        if (fabs(head->sigma[i] - expected[i]) > 1e-11 * expected[0])
            fail_msg("sigma[%d] = %.17g, expected %.17g", i, head->sigma[i], expected[i]);
    assert_true(head->self_check < 1e-13);
    double nuclear = 0, half = 0;
    for (int i = 0; i < C; i++)
        nuclear += expected[i];
    for (int64_t i = 0; i < m * C; i++)
        half += 0.5 * a[i] * a[i];
    for (int64_t i = 0; i < n * C; i++)
        half += 0.5 * b[i] * b[i];
    assert_true(fabs(head->gap - (half - nuclear)) < 1e-12 * half);
    assert_true(head->gap_low <= head->gap && head->gap <= head->gap_high);
}

static void every_fold_and_group(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++)
        for (int bits = 0; bits < 4; bits++)
            for (int threads = 1; threads <= 2; threads++) {
                static fixture f;
                setup(&f, seed);
                rs_fold fold = {.norms = bits & 1, .biases = bits & 2};
                rs_heads *heads = measure(&f, fold, threads);
                assert_int_equal(heads->n, 2 * HEADS);
                assert_int_equal(heads->n_groups, 2 * GROUPS);
                enum { PER = HEADS / GROUPS };
                for (int g = 0; g < GROUPS; g++) {
                    double k[(D + 1) * C], v[(D + 1) * C], stack_q[PER * (D + 1) * C],
                        stack_o[PER * D * C];
                    int64_t nk = define_k(k, &f, g, fold), nv = define_v(v, &f, g, fold), nq = 0,
                            no = 0;
                    for (int i = 0; i < PER; i++) {
                        double *q = stack_q + nq * C, *o = stack_o + no * C;
                        int64_t mq = define_q(q, &f, g * PER + i, fold),
                                mo = define_o(o, &f, g * PER + i);
                        check(&heads->items[g * PER + i], q, mq, k, nk);
                        check(&heads->items[HEADS + g * PER + i], v, nv, o, mo);
                        nq += mq;
                        no += mo;
                    }
                    check(&heads->groups[g], stack_q, nq, k, nk);
                    check(&heads->groups[GROUPS + g], v, nv, stack_o, no);
                }
                rs_heads_free(heads);
            }
}

/* A factor with linearly dependent vectors takes the careful route, plain and stacked, and agrees
 * there too. */
static void rank_deficient_heads_take_the_careful_route(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 3);
    for (int j = 0; j < D; j++)
        f.wk[1 * D + j] = f.wk[0 * D + j] * (1 + 1e-9 * f.wk[2 * D + j]);
    rs_heads *heads = measure(&f, (rs_fold){0}, 2);
    assert_true(heads->items[0].by_factors && heads->groups[0].by_factors &&
                !heads->items[HEADS - 1].by_factors);
    double q[D * C], k[D * C], stack[2 * D * C];
    define_k(k, &f, 0, (rs_fold){0});
    for (int h = 0; h < 2; h++) {
        define_q(q, &f, h, (rs_fold){0});
        define_q(stack + h * D * C, &f, h, (rs_fold){0});
        double expected[16];
        oracle_product_svd(expected, q, D, k, D, C);
        assert_true(fabs(heads->items[h].sigma[C - 1] / expected[C - 1] - 1) < 1e-6);
    }
    double expected[64];
    oracle_product_svd(expected, stack, 2 * D, k, D, C);
    assert_true(fabs(heads->groups[0].sigma[C - 1] / expected[C - 1] - 1) < 1e-6);
    assert_int_equal(heads->n_by_factors, 2);
    rs_heads_free(heads);
}

static void nonfinite_weights_are_found_and_named(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 4);
    f.wv[(C + 1) * D + 3] = NAN;
    f.wv[(C + 1) * D + 7] = INFINITY;
    rs_heads *heads = measure(&f, (rs_fold){0}, 1);
    assert_int_equal(heads->n_nonfinite, 1);
    assert_string_equal(heads->nonfinite[0].tensor->name, "v");
    assert_int_equal(heads->nonfinite[0].count, 2);
    assert_int_equal(heads->nonfinite[0].row, C + 1);
    assert_int_equal(heads->nonfinite[0].col, 3);
    assert_non_null(heads->items[0].sigma);         /* QK is whole */
    assert_non_null(heads->items[HEADS].sigma);     /* so is the other value head */
    assert_null(heads->items[2 * HEADS - 1].sigma); /* the damaged one is left empty */
    rs_heads_free(heads);
}

/* One unit, a head wider than the model, one feature: every shape has its spectrum. */
static void odd_shapes(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {1, 5},   {5, 1},  {3, 8},
                                        {8, 3}, {1, 300}, {300, 1}}; /* inner, features */
    rs_random random = rs_random_new(9, 9);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t r = shapes[s][0], d = shapes[s][1], k = r < d ? r : d, shape[2][2];
        double *wa = test_malloc((size_t)(r * d) * sizeof *wa),
               *wb = test_malloc((size_t)(r * d) * sizeof *wb);
        fill(wa, (size_t)(r * d), &random, 0);
        fill(wb, (size_t)(r * d), &random, 0);
        rs_tensor ta, tb;
        make_tensor(&ta, shape[0], "a", wa, d, r);
        make_tensor(&tb, shape[1], "b", wb, d, r);
        rs_factor a = {.tensor = &ta, .rows = d, .cols = r, .inner = r, .features = d}, b = a;
        b.tensor = &tb;
        rs_product product = {.kind = RS_PRODUCT_QK, .group_size = 1, .a = a, .b = b};
        fixture f = {.checkpoint = {.files = &no_file, .n_files = 1}};
        f.model = (rs_model){.checkpoint = &f.checkpoint, .products = &product, .n_products = 1};
        rs_heads *heads = measure(&f, (rs_fold){0}, 2);
        double *expected = test_malloc((size_t)d * sizeof *expected);
        oracle_product_svd(expected, wa, d, wb, d, r);
        assert_int_equal(heads->items[0].k, k);
        for (int64_t i = 0; i < k; i++)
            assert_true(fabs(heads->items[0].sigma[i] - expected[i]) < 1e-9 * expected[0]);
        rs_heads_free(heads);
        test_free(expected);
        test_free(wa);
        test_free(wb);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 1);
    rs_heads_options options = {.fold = {true, true}, .tolerance = NAN, .last_layer = INT32_MAX};
    rs_context context = {.threads = 1};
    rs_status status = RS_E_NO_MEMORY;
    for (int n = 1; status == RS_E_NO_MEMORY; n++) {
        rs_heads *heads;
        rs_memory_fail_at(n);
        status = rs_heads_measure(&heads, &f.model, &options, &context, NULL);
        rs_memory_fail_at(0);
        if (status == RS_OK)
            rs_heads_free(heads);
        else
            assert_null(heads);
        assert_true(n < 10000);
    }
    assert_int_equal(status, RS_OK);
}

static void cancelling_stops_the_work(void **state)
{
    (void)state;
    static fixture f;
    setup(&f, 1);
    volatile sig_atomic_t stop = 1;
    rs_heads_options options = {.tolerance = NAN, .last_layer = INT32_MAX};
    rs_context context = {.threads = 2, .cancel = &stop};
    rs_heads *heads;
    assert_int_equal(rs_heads_measure(&heads, &f.model, &options, &context, NULL),
                     RS_E_INTERRUPTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fold_and_group),
        cmocka_unit_test(rank_deficient_heads_take_the_careful_route),
        cmocka_unit_test(nonfinite_weights_are_found_and_named),
        cmocka_unit_test(odd_shapes),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(cancelling_stops_the_work),
    };
    return cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}
