/* test_kernels_head.c: heads of attention among few keys, forth and back, against their definition in
 * double, on drawn sizes, masks and strides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "engine/kernels.h"
#include "property.h"

#include <math.h>
#include <string.h>

enum {
    MOST_N = RS_HEAD_QUERIES,
    MOST_KEYS = RS_HEAD_KEYS,
    MOST_LD = RS_HEAD_DIM + 40,
    MOST = MOST_N * MOST_LD
};

/* A matrix of one head, among numbers of others. */
typedef struct matrix {
    float x[MOST], before[MOST];
    double truth[MOST], bound[MOST]; /* what it should be, and how far from it a number may be */
} matrix;

static struct {
    rs_head_f32 of;
    rs_key_span see[MOST_N];
    matrix q, k, v, out, d_out, dq, dk, dv;
    double sums[MOST_N * 2 * 3];
    double p[MOST_N][MOST_KEYS],
        shaky[MOST_N]; /* softmax; relative error of its numbers in roundings */
    float work[RS_HEAD_WORK];
    float told_p[MOST_N * MOST_KEYS + 1], told_logits[MOST_N * MOST_KEYS + 1];
} t;

static void draw(matrix *m, double size, rs_random *random)
{
    for (int64_t i = 0; i < MOST; i++)
        m->x[i] = (float)(size * rs_random_normal(random));
    memcpy(m->before, m->x, sizeof m->x);
    memset(m->bound, 0, sizeof m->bound);
    for (int64_t i = 0; i < MOST; i++)
        m->truth[i] = (double)m->x[i];
}

static int64_t below(rs_random *random, int64_t n)
{
    return (int64_t)(rs_random_uniform(random) * (double)n);
}

/* Causal ones of queries that are the text's last, windows, and whatever else. */
static void draw_spans(rs_random *random)
{
    int64_t kind = below(random, 4), keys = t.of.keys, late = below(random, keys + 1);
    int64_t window = 1 + below(random, keys + 1);
    for (int64_t i = 0; i < t.of.n; i++) {
        rs_key_span s = {0, keys};
        if (kind == 1 || kind == 2) s.to = i + late + 1 < keys ? i + late + 1 : keys;
        if (kind == 2 && s.to > window) s.from = s.to - window;
        if (kind == 3) s.from = below(random, keys + 1);
        if (kind == 3) s.to = s.from + below(random, keys - s.from + 1);
        t.see[i] = s;
    }
}

static void draw_head(const rs_kernels_f32 *table, rs_random *random)
{
    bool small = below(random, 3) > 0;
    rs_head_f32 *of = &t.of;
    *of = (rs_head_f32){.n = 1 + below(random, small ? 20 : MOST_N),
                        .keys = below(random, (small ? 20 : MOST_KEYS) + 1),
                        .dim = (1 + below(random, small ? 3 : RS_HEAD_DIM / table->lanes)),
                        .value_dim = (1 + below(random, small ? 3 : RS_HEAD_DIM / table->lanes)),
                        .see = t.see,
                        .adds = below(random, 2) == 0,
                        .work = t.work};
    of->dim *= table->lanes, of->value_dim *= table->lanes;
    of->ldq = of->dim + below(random, 40), of->ldk = of->dim + below(random, 40);
    of->ldv = of->value_dim + below(random, 40), of->ldo = of->value_dim + below(random, 40);
    of->step = 2 + 2 * below(random, 3);
    of->scale = (float)(1 / sqrt((double)of->dim));
    of->factor = (float)rs_random_normal(random);
    /* from a matrix that is nearly flat to one of which a key has nearly all */
    double size = pow(10, 4 * rs_random_uniform(random) - 1);
    draw(&t.q, size, random), draw(&t.k, 1, random), draw(&t.v, 1, random);
    draw(&t.out, 1, random), draw(&t.d_out, 1, random);
    draw(&t.dq, 1, random), draw(&t.dk, 1, random), draw(&t.dv, 1, random);
    of->q = t.q.x, of->k = t.k.x, of->v = t.v.x, of->out = t.out.x, of->sums = t.sums;
    of->d_out = t.d_out.x, of->dq = t.dq.x, of->dk = t.dk.x, of->dv = t.dv.x;
    draw_spans(random);
}

static const double rounding = 0x1p-24;

static double dot(const float *a, const float *b, int64_t n, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t c = 0; c < n; c++)
        sum += (double)a[c] * (double)b[c], *size += fabs((double)a[c] * (double)b[c]);
    return sum;
}

/* t.p; sums: largest logit and sum, as they should be. */
static void softmax_of(int64_t i, double *largest, double *sum)
{
    const rs_head_f32 *of = &t.of;
    double logits[MOST_KEYS], most = 0;
    *largest = -(double)INFINITY, *sum = 0;
    for (int64_t j = of->see[i].from; j < of->see[i].to; j++) {
        double size;
        logits[j] =
            (double)of->scale * dot(of->q + i * of->ldq, of->k + j * of->ldk, of->dim, &size);
        most = fmax(most, (double)of->scale * size);
        *largest = fmax(*largest, logits[j]);
    }
    memset(t.p[i], 0, sizeof t.p[i]);
    for (int64_t j = of->see[i].from; j < of->see[i].to; j++)
        *sum += t.p[i][j] = exp(logits[j] - *largest);
    for (int64_t j = 0; j<of->keys && * sum> 0; j++)
        t.p[i][j] /= *sum;
    t.shaky[i] = 16 + 4 * sqrt((double)of->dim) * most;
}

/* A number of `m` should be `by` more. */
static void add(matrix *m, int64_t at, double by, double bound)
{
    m->truth[at] += by;
    m->bound[at] += rounding * (bound + fabs(by));
}

static void begin(matrix *m, int64_t rows, int64_t cols, int64_t ld, bool adds)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < cols; c++) {
            m->truth[i * ld + c] = adds ? (double)m->before[i * ld + c] : 0;
            m->bound[i * ld + c] = rounding * 4 * fabs(m->truth[i * ld + c]) + 1e-30;
        }
}

static void check_matrix(const char *name, const rs_kernels_f32 *table, const matrix *m)
{
    for (int64_t i = 0; i < MOST; i++) {
        double off = fabs((double)m->x[i] - m->truth[i]);
        if (m->bound[i] > 0) property_worst(off / m->bound[i]);
        if (!(off <= m->bound[i]))
            fail_msg("%s: %s[%d] is %.9g, not %.9g +- %.3g; n %d keys %d dim %d, %d", table->level,
                     name, (int)i, (double)m->x[i], m->truth[i], m->bound[i], (int)t.of.n,
                     (int)t.of.keys, (int)t.of.dim, (int)t.of.value_dim);
    }
}

/* The matrix and its logits, told on request: of all keys, and nothing behind them. */
static void check_told(const rs_kernels_f32 *table)
{
    const rs_head_f32 *of = &t.of;
    float kept[MOST];
    memcpy(kept, t.out.x, sizeof kept);
    rs_head_f32 asked = *of;
    asked.p = t.told_p, asked.logits = t.told_logits;
    t.told_p[of->n * of->keys] = t.told_logits[of->n * of->keys] = 7;
    table->head(&asked);
    assert_memory_equal(kept, t.out.x, sizeof kept);
    assert_true(t.told_p[of->n * of->keys] == 7 && t.told_logits[of->n * of->keys] == 7);
    for (int64_t i = 0; i < of->n; i++)
        for (int64_t j = 0; j < of->keys; j++) {
            double size, p = (double)t.told_p[i * of->keys + j];
            double logit = (double)t.told_logits[i * of->keys + j];
            double truth = dot(of->q + i * of->ldq, of->k + j * of->ldk, of->dim, &size);
            assert_true(fabs(p - t.p[i][j]) <= rounding * t.shaky[i] * t.p[i][j] + 1e-30);
            assert_true(fabs(logit - (double)of->scale * truth) <=
                        rounding * (4 + 4 * sqrt((double)of->dim)) * (double)of->scale * size);
        }
}

static void check_forth(const rs_kernels_f32 *table)
{
    const rs_head_f32 *of = &t.of;
    table->head(of);
    begin(&t.out, of->n, of->value_dim, of->ldo, false);
    for (int64_t i = 0; i < of->n; i++) {
        double largest, sum;
        softmax_of(i, &largest, &sum);
        const double *kept = t.sums + i * of->step;
        assert_true(isinf(largest) ? kept[0] == largest
                                   : fabs(kept[0] - largest) <= rounding * t.shaky[i]);
        assert_true(fabs(kept[1] - sum) <= rounding * t.shaky[i] * sum);
        for (int64_t j = 0; j < of->keys; j++)
            for (int64_t c = 0; c < of->value_dim; c++) {
                double by = t.p[i][j] * (double)of->v[j * of->ldv + c];
                add(&t.out, i * of->ldo + c, by, t.shaky[i] * fabs(by));
            }
    }
    check_matrix("out", table, &t.out);
    check_told(table);
}

/* What row i of the matrix gives dq, dk and dv. A key's derivative is off by a share of its own
 * probability; that of the largest one by the others' share. */
static void add_row(int64_t i)
{
    const rs_head_f32 *of = &t.of;
    double d[MOST_KEYS], most = 0, apart = 0; /* how far the mean is from the star's */
    int64_t star = 0;
    for (int64_t j = 0; j < of->keys; j++) {
        double size;
        d[j] = dot(of->d_out + i * of->ldo, of->v + j * of->ldv, of->value_dim, &size);
        if (t.p[i][j] > 0) most = fmax(most, size);
        if (t.p[i][j] > t.p[i][star]) star = j;
    }
    for (int64_t j = 0; j < of->keys; j++)
        apart += t.p[i][j] * (d[j] - d[star]);
    double shaky = t.shaky[i] + 4 * sqrt((double)of->value_dim);
    for (int64_t j = 0; j < of->keys; j++) {
        double p = t.p[i][j], others = 0;
        for (int64_t l = 0; l < of->keys; l++)
            others += l == star ? 0 : t.p[i][l];
        double by = (double)of->factor * p * (d[j] - d[star] - apart);
        double off = shaky * 2 * most * fabs((double)of->factor) * p * (j == star ? others : 1);
        for (int64_t c = 0; c < of->dim; c++) {
            double k = (double)of->k[j * of->ldk + c], q = (double)of->q[i * of->ldq + c];
            add(&t.dq, i * of->ldq + c, by * k, off * fabs(k));
            add(&t.dk, j * of->ldk + c, by * q, off * fabs(q));
        }
        for (int64_t c = 0; c < of->value_dim; c++) {
            double o = p * (double)of->d_out[i * of->ldo + c];
            add(&t.dv, j * of->ldv + c, o, t.shaky[i] * fabs(o));
        }
    }
}

/* Rows of the matrix have the sum 1 whatever the logits' size, so values get what their queries had. */
static void check_shares(const rs_kernels_f32 *table)
{
    const rs_head_f32 *of = &t.of;
    for (int64_t c = 0; c < of->value_dim; c++) {
        double sum = 0, expected = 0, size = 0;
        for (int64_t j = 0; j < of->keys; j++) {
            double before = of->adds ? (double)t.dv.before[j * of->ldv + c] : 0;
            sum += (double)t.dv.x[j * of->ldv + c] - before;
            size += fabs(before) + fabs((double)t.dv.x[j * of->ldv + c]);
        }
        for (int64_t i = 0; i < of->n; i++) {
            double own = (double)of->d_out[i * of->ldo + c];
            if (of->see[i].from >= of->see[i].to) continue;
            expected += own, size += fabs(own);
        }
        property_worst(fabs(sum - expected) / (rounding * 24 * size + 1e-30));
        if (!(fabs(sum - expected) <= rounding * 24 * size + 1e-30))
            fail_msg("%s: values get %.9g of %.9g", table->level, sum, expected);
    }
}

static void check_back(const rs_kernels_f32 *table)
{
    const rs_head_f32 *of = &t.of;
    table->head_back(of);
    begin(&t.dq, of->n, of->dim, of->ldq, false);
    begin(&t.dk, of->keys, of->dim, of->ldk, of->adds);
    begin(&t.dv, of->keys, of->value_dim, of->ldv, of->adds);
    for (int64_t i = 0; i < of->n; i++)
        add_row(i);
    check_matrix("dq", table, &t.dq);
    check_matrix("dk", table, &t.dk);
    check_matrix("dv", table, &t.dv);
    check_shares(table);
}

static void test_heads(void **state)
{
    size_t n;
    const rs_kernels_f32 *const *tables = rs_kernels_f32_tables(&n);
    (void)state;
    for (int r = property_start(240, 77); property_next(&r);) {
        rs_random random = property_random();
        const rs_kernels_f32 *table = tables[below(&random, (int64_t)n)];
        if (table->head) {
            draw_head(table, &random);
            check_forth(table);
            check_back(table);
        }
    }
    property_holds(1);
}

/* Queries without sums, and no queries: keys and values have derivatives of 0 then. */
static void check_ends(const rs_kernels_f32 *table)
{
    rs_random random = rs_random_new(5, 0);
    if (!table->head) return;
    draw_head(table, &random);
    float kept[MOST];
    table->head(&t.of);
    memcpy(kept, t.out.x, sizeof kept);
    t.of.sums = NULL;
    table->head(&t.of);
    assert_memory_equal(kept, t.out.x, sizeof kept);
    t.of.sums = t.sums, t.of.n = 0, t.of.keys = 3, t.of.adds = false;
    begin(&t.dk, 3, t.of.dim, t.of.ldk, false), begin(&t.dv, 3, t.of.value_dim, t.of.ldv, false);
    table->head_back(&t.of);
    check_matrix("dk", table, &t.dk), check_matrix("dv", table, &t.dv);
    check_matrix("dq", table, &t.dq);
}

static void test_ends(void **state)
{
    size_t n;
    const rs_kernels_f32 *const *tables = rs_kernels_f32_tables(&n);
    (void)state;
    for (size_t i = 0; i < n; i++)
        check_ends(tables[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heads), cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
