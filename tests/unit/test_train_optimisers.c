/* test_train_optimisers.c: steps against PyTorch's (tests/golden/train/optimisers.json) and against
 * closed forms; the same bits for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "train/optimiser.h"
#include "train/optimiser_parts.h"
#include "train/schedule.h"
#include "train_support.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* ---- PyTorch ---- */

enum { TENSORS = 4, NUMBERS = 27, STEPS = 10 };
static const int sizes[TENSORS] = {13, 5, 6, 3};
static const double rates[TENSORS] = {1, 0.5, 1, 1}, decays[TENSORS] = {0.1, 0, 0.5, 0.1};

static rs_schedule schedule_named(const char *name)
{
    rs_schedule s = {.steps = STEPS, .factor = 0.1};
    if (strcmp(name, "constant-warm") == 0) s.warmup = 4;
    if (strncmp(name, "cosine", 6) == 0) s.kind = RS_SCHEDULE_COSINE;
    if (strcmp(name, "cosine-warm") == 0) s.warmup = 3;
    if (strcmp(name, "linear") == 0) s.kind = RS_SCHEDULE_LINEAR, s.last = 0.1;
    if (strcmp(name, "inverse_sqrt") == 0) s.kind = RS_SCHEDULE_INVERSE_SQRT, s.warmup = 3;
    if (strcmp(name, "step") == 0) s.kind = RS_SCHEDULE_STEP, s.every = 3, s.factor = 0.3;
    if (strcmp(name, "milestones") == 0)
        s = (rs_schedule){
            .kind = RS_SCHEDULE_STEP, .factor = 0.1, .milestones = {2, 7}, .n_milestones = 2};
    return s;
}

static rs_optimiser_rule rule_named(const char *name)
{
    static const char *const names[] = {"sgd", "heavy_ball", "adam", "adamw"};
    rs_optimiser_rule rule = {.betas = {0.9, 0.95}, .eps = 1e-8};
    for (int k = 0; k < 4; k++)
        if (strcmp(names[k], name) == 0) rule.kind = (rs_optimiser_kind)k;
    return rule;
}

/* A case in double or float: arrays of both, of which one is used. */
typedef struct walk {
    double x64[NUMBERS], g64[NUMBERS];
    float x32[NUMBERS], g32[NUMBERS], h32[NUMBERS];
} walk;

static rs_optimiser *start_walk(walk *w, const rs_optimiser_rule *rule, bool single)
{
    rs_trained items[TENSORS];
    for (int i = 0, at = 0; i < TENSORS; at += sizes[i++])
        items[i] = (rs_trained){.weight = single ? (void *)(w->x32 + at) : (void *)(w->x64 + at),
                                .gradient = single ? (void *)(w->g32 + at) : (void *)(w->g64 + at),
                                .count = sizes[i],
                                .rate = rates[i],
                                .decay = decays[i],
                                .frozen = i == TENSORS - 1};
    rs_optimiser *o = NULL;
    rs_error err;
    rs_precision precision = single ? RS_PRECISION_F32 : RS_PRECISION_F64;
    assert_int_equal(rs_optimiser_new(&o, rule, precision, items, TENSORS, &err), RS_OK);
    return o;
}

/* The largest distance of the weights from PyTorch's float64 after ten steps. */
static double walk_case(const json_t *json, bool single)
{
    const char *clip = json_string_value(json_object_get(json, "clip"));
    const json_t *lr = json_object_get(json, "rates"), *end = json_object_get(json, "weights");
    rs_schedule schedule = schedule_named(json_string_value(json_object_get(json, "schedule")));
    rs_optimiser_rule rule = rule_named(json_string_value(json_object_get(json, "optimiser")));
    walk w;
    lcg g = {11};
    double h[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        w.x64[i] = 2 * lcg_next(&g) - 1, w.x32[i] = (float)w.x64[i];
    for (int i = 0; i < NUMBERS; i++)
        h[i] = 2 * lcg_next(&g) - 1, w.h32[i] = (float)h[i];
    rs_optimiser *o = start_walk(&w, &rule, single);
    for (int t = 0; t < STEPS; t++) {
        for (int i = 0; i < NUMBERS; i++) {
            double b = 2 * lcg_next(&g) - 1;
            w.g64[i] = h[i] * w.x64[i] + b;
            w.g32[i] = w.h32[i] * w.x32[i] + (float)b;
        }
        double rate = 0.05 * rs_schedule_factor(&schedule, t);
        assert_true(fabs(rate - json_number_value(json_array_get(lr, (size_t)t))) < 1e-16);
        if (strcmp(clip, "none") != 0)
            rs_optimiser_clip(o, strcmp(clip, "all") ? RS_CLIP_EACH : RS_CLIP_ALL, 0.8, 2);
        rs_optimiser_step(o, rate, 2);
    }
    assert_int_equal(*rs_optimiser_steps(o), STEPS);
    rs_optimiser_free(o);
    double worst = 0;
    for (int i = 0; i < NUMBERS; i++) {
        double x = single ? (double)w.x32[i] : w.x64[i];
        worst = fmax(worst, fabs(x - json_number_value(json_array_get(end, (size_t)i))));
    }
    return worst;
}

static void test_pytorch(void **state)
{
    (void)state;
    json_error_t error;
    json_t *cases = json_load_file(RS_TEST_DATA "/train/optimisers.json", 0, &error), *one;
    assert_non_null(cases);
    assert_int_equal(json_array_size(cases), 48);
    size_t i;
    json_array_foreach(cases, i, one)
    {
        const char *kind = json_string_value(json_object_get(one, "optimiser"));
        const char *schedule = json_string_value(json_object_get(one, "schedule"));
        double single = json_number_value(json_object_get(one, "error32"));
        double worst = walk_case(one, false), worst32 = walk_case(one, true);
        if (!(worst <= 1e-12)) fail_msg("%s, %s: f64 is %g away", kind, schedule, worst);
        if (!(worst32 <= 3 * single))
            fail_msg("%s, %s: f32 is %g away, PyTorch's %g", kind, schedule, worst32, single);
    }
    json_decref(cases);
}

/* ---- closed forms ---- */

/* weight_decay 2.5: where AdamW rests on (x - 1)^2 / 2, eps 0.1. */
static void test_adamw_rest(void **state)
{
    (void)state;
    const double decay[] = {0.1, 0.5, 2};
    const double rest[] = {0.9890242272075156, 0.915571122977524, 0.4258342613226059};
    for (int c = 0; c < 3; c++) {
        double x = 0.3, g = 0;
        rs_trained item = {.weight = &x, .gradient = &g, .count = 1, .rate = 1, .decay = decay[c]};
        rs_optimiser_rule rule = {RS_OPTIMISER_ADAMW, {0.9, 0.999}, 0.1};
        rs_optimiser *o = NULL;
        rs_error err;
        assert_int_equal(rs_optimiser_new(&o, &rule, RS_PRECISION_F64, &item, 1, &err), RS_OK);
        for (int t = 0; t < 100000; t++) {
            g = x - 1;
            rs_optimiser_step(o, 1e-3, 1);
        }
        assert_true(fabs(x - rest[c]) < 1e-10);
        rs_optimiser_free(o);
    }
}

/* weight_decay, tests: one step of gradient descent on |A B^T - D|^2 with decay 1/2. */
static void test_factored_step(void **state)
{
    (void)state;
    double w[8] = {1, 0, 1, 1, 1, 1, 0, 1}, g[8];
    const double d[4] = {1, 0, 0, 2};
    const double after[8] = {.95, 0, .55, .75, .55, .55, .2, 1.15};
    const double *a = w, *b = w + 4;
    double residual[4];
    for (int i = 0; i < 4; i++)
        residual[i] =
            2 * (a[i / 2 * 2] * b[i % 2 * 2] + a[i / 2 * 2 + 1] * b[i % 2 * 2 + 1] - d[i]);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            g[2 * i + k] = residual[2 * i] * b[k] + residual[2 * i + 1] * b[2 + k];
            g[4 + 2 * i + k] = residual[i] * a[k] + residual[2 + i] * a[2 + k];
        }
    rs_trained items[2] = {{w, g, 4, 1, 0.5, false}, {w + 4, g + 4, 4, 1, 0.5, false}};
    rs_optimiser_rule rule = {RS_OPTIMISER_SGD, {0, 0}, 0};
    rs_optimiser *o = NULL;
    rs_error err;
    assert_int_equal(rs_optimiser_new(&o, &rule, RS_PRECISION_F64, items, 2, &err), RS_OK);
    rs_optimiser_step(o, 0.1, 2);
    for (int i = 0; i < 8; i++)
        assert_true(fabs(w[i] - after[i]) < 1e-15);
    assert_null(rs_optimiser_state(o, 0, 0));
    rs_optimiser_free(o);
}

/* (mu/2) |A B^T|_F^2 as a matrix of products, for factors stored either way and in stretches. */
static void test_penalty(void **state)
{
    (void)state;
    enum { R = 3, DA = 5, DB = 4, LD = 7 };
    const double mu = 0.7;
    for (int c = 0; c < 4; c++) {
        double a[LD * LD], b[LD * LD], ga[LD * LD], gb[LD * LD], product[DA][DB], work[2 * R * R];
        lcg g = {(uint64_t)c + 3};
        for (int i = 0; i < LD * LD; i++)
            a[i] = lcg_next(&g), b[i] = lcg_next(&g), ga[i] = gb[i] = 1;
        rs_product_factor fa = {a, ga, DA, LD, c & 1}, fb = {b, gb, DB, LD, c & 2};
#define AT(f, x, i, k) (x)[(f).transposed ? (k)*LD + (i) : (i)*LD + (k)]
        double penalty = 0;
        for (int i = 0; i < DA; i++)
            for (int j = 0; j < DB; j++) {
                product[i][j] = 0;
                for (int k = 0; k < R; k++)
                    product[i][j] += AT(fa, a, i, k) * AT(fb, b, j, k);
                penalty += 0.5 * mu * product[i][j] * product[i][j];
            }
        double found = rs_product_penalty(&fa, &fb, R, mu, RS_PRECISION_F64, work);
        assert_true(fabs(found - penalty) < 1e-13);
        double sum_a = 0, sum_b = 0;
        for (int k = 0; k < R; k++) {
            for (int i = 0; i < DA; i++) {
                double by = 1;
                for (int j = 0; j < DB; j++)
                    by += mu * product[i][j] * AT(fb, b, j, k);
                assert_true(fabs(AT(fa, ga, i, k) - by) < 1e-13);
                sum_a += by - 1;
            }
            for (int j = 0; j < DB; j++) {
                double by = 1;
                for (int i = 0; i < DA; i++)
                    by += mu * product[i][j] * AT(fa, a, i, k);
                assert_true(fabs(AT(fb, gb, j, k) - by) < 1e-13);
                sum_b += by - 1;
            }
        }
        for (int i = 0; i < LD * LD; i++) /* nothing else was touched */
            sum_a -= ga[i] - 1, sum_b -= gb[i] - 1;
        assert_true(fabs(sum_a) < 1e-11 && fabs(sum_b) < 1e-11);
    }
}

/* On c |A B^T - D|^2 it leaves every mode s = 2 c d / (2 c + mu): weight_decay 7.6. */
static void test_penalty_rest(void **state)
{
    (void)state;
    double w[2] = {0.9, 0.8}, g[2], work[2];
    const double d = 1.5, mu = 0.6;
    rs_trained items[2] = {{w, g, 1, 1, 0, false}, {w + 1, g + 1, 1, 1, 0, false}};
    rs_optimiser_rule rule = {RS_OPTIMISER_HEAVY_BALL, {0.5, 0}, 0};
    rs_optimiser *o = NULL;
    rs_error err;
    assert_int_equal(rs_optimiser_new(&o, &rule, RS_PRECISION_F64, items, 2, &err), RS_OK);
    for (int t = 0; t < 3000; t++) {
        double residual = w[0] * w[1] - d;
        g[0] = 2 * residual * w[1], g[1] = 2 * residual * w[0];
        rs_product_factor a = {w, g, 1, 1, false}, b = {w + 1, g + 1, 1, 1, true};
        rs_product_penalty(&a, &b, 1, mu, RS_PRECISION_F64, work);
        rs_optimiser_step(o, 0.02, 1);
    }
    assert_true(fabs(w[0] * w[1] - 2 * d / (2 + mu)) < 1e-12);
    rs_optimiser_free(o);
}

/* ---- threads, norms, states ---- */

enum { LONG = 70001, SHORT = 129 };

static void run_long(float *weight, double *norm, double *effective, int threads,
                     rs_optimiser_kind kind)
{
    float *gradient = malloc((LONG + SHORT) * sizeof *gradient);
    assert_non_null(gradient);
    lcg g = {5};
    for (int i = 0; i < LONG + SHORT; i++)
        weight[i] = (float)lcg_next(&g);
    rs_trained items[2] = {{weight, gradient, LONG, 1, 0.1, false},
                           {weight + LONG, gradient + LONG, SHORT, 2, 0, false}};
    rs_optimiser_rule rule = {kind, {0.9, 0.95}, 1e-8};
    rs_optimiser *o = NULL;
    rs_error err;
    assert_int_equal(rs_optimiser_new(&o, &rule, RS_PRECISION_F32, items, 2, &err), RS_OK);
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < LONG + SHORT; i++)
            gradient[i] = (float)(lcg_next(&g) - 0.5) * weight[i];
        *norm = rs_optimiser_clip(o, RS_CLIP_ALL, 1, threads);
        rs_optimiser_step(o, 0.01, threads);
    }
    double norms[2], own = 0;
    assert_true(rs_optimiser_norm(norms, o, threads) == *norm);
    for (int i = LONG; i < LONG + SHORT; i++)
        own += (double)gradient[i] * (double)gradient[i];
    assert_true(fabs(norms[1] - sqrt(own)) < 1e-12 * norms[1]);
    assert_true(fabs(hypot(norms[0], norms[1]) - *norm) < 1e-12 * *norm);
    *effective = rs_optimiser_effective(o, 1, 0.01);
    if (kind >= RS_OPTIMISER_ADAM) {
        const float *v = rs_optimiser_state(o, 1, 1);
        double mean = 0, correction = 1 - 0.95 * 0.95 * 0.95;
        for (int i = 0; i < SHORT; i++)
            mean += 0.02 / (sqrt((double)v[i] / correction) + 1e-8) / SHORT;
        assert_true(fabs(*effective - mean) < 1e-12 * mean);
    } else {
        assert_true(*effective == 0.02);
    }
    rs_optimiser_free(o);
    free(gradient);
}

static void test_threads(void **state)
{
    (void)state;
    float *one = malloc((LONG + SHORT) * sizeof *one), *many = malloc((LONG + SHORT) * sizeof *one);
    assert_true(one && many);
    for (int kind = 0; kind < 4; kind++) {
        double norm, other, effective, second;
        run_long(one, &norm, &effective, 1, (rs_optimiser_kind)kind);
        for (int threads = 2; threads <= 7; threads += 5) {
            run_long(many, &other, &second, threads, (rs_optimiser_kind)kind);
            assert_true(norm == other && effective == second);
            assert_memory_equal(one, many, (LONG + SHORT) * sizeof *one);
        }
    }
    free(one);
    free(many);
}

static void test_edges(void **state)
{
    (void)state;
    double x[2] = {1, 2}, g[2] = {NAN, 3};
    rs_trained items[2] = {{x, g, 1, 1, 0, false}, {x + 1, g + 1, 1, 1, 0, true}};
    rs_optimiser_rule rule = {RS_OPTIMISER_ADAMW, {0.9, 0.95}, 1e-8};
    rs_optimiser *o = NULL;
    rs_error err;
    assert_int_equal(rs_optimiser_new(&o, &rule, RS_PRECISION_RESIDUAL, items, 2, &err),
                     RS_E_UNSUPPORTED);
    assert_int_equal(rs_optimiser_new(&o, &rule, RS_PRECISION_F64, items, 2, &err), RS_OK);
    assert_true(isnan(rs_optimiser_clip(o, RS_CLIP_ALL, 1, 1)));
    rs_optimiser_step(o, 0.1, 1);
    assert_true(isnan(x[0]) && x[1] == 2); /* NaN is seen; what is frozen stays */
    assert_null(rs_optimiser_state(o, 1, 0));
    rs_optimiser_free(o);
    int64_t blocks = rs_memory_blocks();
    rs_status status = RS_E_NO_MEMORY;
    for (int64_t n = 1; status != RS_OK; n++) {
        rs_memory_fail_at(n);
        status = rs_optimiser_new(&o, &rule, RS_PRECISION_F64, items, 2, &err);
        rs_memory_fail_at(0);
        rs_optimiser_free(o);
        assert_int_equal(rs_memory_blocks(), blocks);
        if (status != RS_OK) assert_int_equal(status, RS_E_NO_MEMORY);
    }
    assert_int_equal(rs_optimiser_new(&o, &rule, RS_PRECISION_F64, items, 0, &err), RS_OK);
    assert_true(rs_optimiser_clip(o, RS_CLIP_EACH, INFINITY, 3) == 0);
    rs_optimiser_step(o, 1, 3);
    rs_optimiser_free(o);
}

/* ---- a step that is watched ---- */

/* Tensors of several chunks, one of them frozen: the bits of a step that nobody watches, and what it
 * changed. */
static void test_watched(void **state)
{
    (void)state;
    enum { MANY = 50000, FEW = 7 };
    static float x[3][MANY], y[3][MANY], g[3][MANY], old[3][MANY];
    lcg random = {3};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < MANY; k++) {
            x[i][k] = y[i][k] = old[i][k] = (float)lcg_next(&random);
            g[i][k] = (float)(lcg_next(&random) - 0.5);
        }
    for (int kind = 0; kind < 4; kind++) {
        rs_trained items[3], others[3];
        const int64_t counts[3] = {MANY, FEW, MANY};
        for (int i = 0; i < 3; i++) {
            items[i] = (rs_trained){.weight = x[i],
                                    .gradient = g[i],
                                    .count = counts[i],
                                    .rate = 1 + i,
                                    .decay = 0.1,
                                    .frozen = i == 2};
            others[i] = items[i];
            others[i].weight = y[i];
            memcpy(x[i], old[i], sizeof x[i]);
            memcpy(y[i], old[i], sizeof y[i]);
        }
        const rs_optimiser_rule rule = {(rs_optimiser_kind)kind, {0.9, 0.99}, 1e-8};
        rs_optimiser *watched = NULL, *plain = NULL;
        rs_error err = {0};
        assert_int_equal(rs_optimiser_new(&watched, &rule, RS_PRECISION_F32, items, 3, &err),
                         RS_OK);
        assert_int_equal(rs_optimiser_new(&plain, &rule, RS_PRECISION_F32, others, 3, &err), RS_OK);
        rs_optimiser_change changes[3];
        double norm = rs_optimiser_clip(watched, RS_CLIP_ALL, 1, 3);
        rs_optimiser_clip(plain, RS_CLIP_ALL, 1, 1);
        rs_optimiser_watch(watched, changes);
        rs_optimiser_step(watched, 0.01, 3);
        rs_optimiser_step(plain, 0.01, 1);
        for (int i = 0; i < 3; i++) {
            long double change = 0, weight = 0;
            for (int k = 0; k < counts[i] && i < 2; k++) {
                long double d = (long double)x[i][k] - old[i][k];
                change += d * d, weight += (long double)old[i][k] * old[i][k];
            }
            assert_true(fabsl(changes[i].change - change) <= 1e-12L * change);
            assert_true(fabsl(changes[i].weight - weight) <= 1e-12L * weight);
            assert_true(changes[i].rate == (i < 2 ? 0.01 * (1 + i) : 0));
            assert_true(changes[i].scale == (i < 2 ? 1 / (norm + 1e-6) : 0));
        }
        assert_true(changes[0].change > 0 && changes[1].change > 0);
        memset(changes, 0, sizeof changes);
        rs_optimiser_step(watched, 0.01, 2); /* the next one is not watched */
        rs_optimiser_step(plain, 0.01, 2);
        assert_true(changes[0].change == 0);
        assert_memory_equal(x, y, sizeof x);
        rs_optimiser_free(watched);
        rs_optimiser_free(plain);
    }
}

/* ---- instruction sets ---- */

enum { WIDE = 103 };

/* What every function of a table leaves of the same numbers. */
typedef struct traces {
    float x[WIDE], m[WIDE], v[WIDE];
    double direction[WIDE], squares, moved, effective;
} traces;

static void trace(traces *t, const rs_optimiser_ops *ops, const rs_step_numbers *s, int64_t first,
                  int64_t n)
{
    float g[WIDE], before[WIDE];
    rs_random random = rs_random_new(77, (uint64_t)n);
    memset(t, 0, sizeof *t);
    for (int i = 0; i < WIDE; i++) {
        t->x[i] = (float)rs_random_normal(&random), t->m[i] = (float)rs_random_normal(&random);
        t->v[i] = (float)rs_random_uniform(&random);
        g[i] = i % 7 ? (float)rs_random_normal(&random) : 0;
        before[i] = t->x[i];
    }
    ops->step(t->x, g, t->m, t->v, first, n, s);
    ops->direction(t->direction, t->m, t->v, first, n, 0.37, 1e-8);
    t->squares = ops->squares(t->x, first, n);
    t->moved = ops->moved(t->x, before + first, first, n);
    t->effective = ops->effective(t->v, n, s);
}

/* A processor's wider vectors change no bit of a run. */
static void test_instruction_sets(void **state)
{
    (void)state;
    size_t tables;
    const rs_optimiser_ops *const *table = rs_optimiser_f32_tables(&tables);
    assert_true(table[0] == &rs_optimiser_f32);
    for (int kind = 0; kind <= RS_OPTIMISER_ADAMW; kind++)
        for (int64_t n = 0; n < WIDE - 3; n++)
            for (size_t t = 1; t < tables; t++) {
                const rs_step_numbers s = {.kind = (rs_optimiser_kind)kind,
                                           .scale = 0.7,
                                           .lr = 2e-3,
                                           .decay = 0.1,
                                           .beta1 = n % 2 ? 0.9 : 0.3,
                                           .beta2 = 0.95,
                                           .eps = 1e-8,
                                           .correction1 = 0.4,
                                           .correction2_root = 0.8};
                traces plain, wide;
                trace(&plain, table[0], &s, n % 4, n);
                trace(&wide, table[t], &s, n % 4, n);
                if (memcmp(&plain, &wide, sizeof plain) != 0)
                    fail_msg("kind %d, %lld numbers, table %zu", kind, (long long)n, t);
            }
}

/* Against the formula, with states that are read from an entry on. */
static void test_direction(void **state)
{
    (void)state;
    const float m[] = {9, 1, -2, 0.5f}, v[] = {9, 4, 0.25f, 0};
    size_t tables;
    const rs_optimiser_ops *const *table = rs_optimiser_f32_tables(&tables);
    for (size_t t = 0; t < tables; t++) {
        double out[3] = {1, 2, 3};
        table[t]->direction(out, m, v, 1, 3, 2, 0.5);
        assert_true(fabs(out[0] - 1.8) < 1e-15 && out[1] == -2 && out[2] == 5);
    }
    double out[2] = {1, 2}, m64[] = {5, 1, -2}, v64[] = {5, 4, 0.25};
    rs_optimiser_f64.direction(out, m64, v64, 1, 2, 2, 0.5);
    assert_true(fabs(out[0] - 1.8) < 1e-15 && out[1] == -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watched),          cmocka_unit_test(test_pytorch),
        cmocka_unit_test(test_adamw_rest),       cmocka_unit_test(test_factored_step),
        cmocka_unit_test(test_penalty),          cmocka_unit_test(test_penalty_rest),
        cmocka_unit_test(test_threads),          cmocka_unit_test(test_edges),
        cmocka_unit_test(test_instruction_sets), cmocka_unit_test(test_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
