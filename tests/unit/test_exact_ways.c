/*
 * test_exact_ways.c: C11: what state-space mixers and norms make of tokens that are off by far more
 * than rounding lies within the radii, and the radii are no larger than what one way may do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "states_drawn.h"

#include "certify/certify_exact_states.h"

enum { MOVED = 400 };

struct single;

typedef struct kind {
    rs_branch_kind number;
    draw_mixer *draw;
    void (*single)(struct single *of, int64_t unit);
} kind;

/* ---- radii far above rounding ---- */

static const rs_states_kind *kind_of(const rs_branch *branch)
{
    return branch->kind == RS_BRANCH_SSD ? &rs_states_ssd : &rs_states_s6;
}

/* Rows of one sample that are off, each within its radius, and an op that is handed them. */
typedef struct moved_rows {
    double *radius; /* [n] */
    real *moved;    /* [n, d] */
    int64_t n, d;
    rs_states_panel panel;
    rs_states_part part;
    void *mixer;
} moved_rows;

static void open_rows(moved_rows *rows, const rs_branch *branch, int64_t n, int64_t d)
{
    static const rs_context context = {.threads = 1};
    rs_error err = {0};
    *rows = (moved_rows){.n = n, .d = d, .moved = reals(n * d)};
    rows->panel = (rs_states_panel){
        .branch = branch, .context = &context, .arena = rs_arena_new(), .most = n, .n_parts = 1};
    rs_states_panel *panel = &rows->panel;
    assert_int_equal(rs_radius_room(&rows->radius, panel->arena, n, 1, &err), RS_OK);
    assert_int_equal(rs_radius_map_open(&panel->out, panel->arena, n, d, &err), RS_OK);
    assert_int_equal(kind_of(branch)->open(&rows->mixer, panel, &err), RS_OK);
}

static void close_rows(moved_rows *rows)
{
    free(rows->moved);
    rs_arena_free(rows->panel.arena);
}

/* A panel of rows from .. to-1 of x: the largest distance of an entry over its radius. */
static double run_rows(moved_rows *rows, const double *x, const real *exact, int64_t from,
                       int64_t to)
{
    int64_t d = rows->d;
    double worst = 0;
    rs_error err = {0};
    rs_states_panel *panel = &rows->panel;
    if (from == to) return 0;
    rows->part = (rs_states_part){0, to - from, 0, from == 0};
    panel->parts = &rows->part;
    panel->in = (rs_radius_rows){x + from * d, rows->radius + from, to - from, d};
    assert_int_equal(kind_of(panel->branch)->run(rows->mixer, panel, &err), RS_OK);
    const rs_radius_map *out = &panel->out;
    for (int64_t i = 0; i < (to - from) * d; i++) {
        double most = out->spread[i / d] * out->share[i % d] + out->own[i % d];
        worst = fmax(worst, (double)fabsl(exact[from * d + i] - out->x[i]) / most);
    }
    return worst;
}

/* What the op gives of moved tokens is off by no more than said. */
static void moved_tokens_stay_within_the_radii(void **state)
{
    const kind *of = *state;
    for (int t = property_start(MOVED, 55000000); property_next(&t);) {
        built *b = instance(property_seed(), 100, of->draw);
        int64_t d = b->network.d_model, n = b->begin[1], cut = draw(b, 0, n);
        double size = pow(10, -1 - 7 * rs_random_uniform(&b->random));
        moved_rows rows;
        open_rows(&rows, &b->layers[0].branches[0], n, d);
        for (int64_t i = 0; i < n; i++) {
            real square = 0, *row = rows.moved + i * d;
            for (int64_t k = 0; k < d; k++)
                row[k] = rs_random_normal(&b->random), square += row[k] * row[k];
            rows.radius[i] = size * rs_random_uniform(&b->random);
            for (int64_t k = 0; k < d; k++)
                row[k] =
                    b->states[i * d + k] + row[k] * rows.radius[i] * (1 - 1e-15L) / sqrtl(square);
        }
        real *exact = exact_op(rows.panel.branch, rows.moved, n);
        property_worst(run_rows(&rows, b->states, exact, 0, cut));
        property_worst(run_rows(&rows, b->states, exact, cut, n));
        free(exact);
        close_rows(&rows);
        built_free(b);
    }
    print_message("  largest distance over radius: %.3g\n", property_worst(0));
    property_holds(1);
}

/* ---- one number at a time ---- */

/* A branch on tokens (x, p), of which one unit alone depends on x: all else are constants. Unit DECAY:
 * the steps depend on x, and values on p, which the first token alone has, so that what decays is all
 * there is. */
typedef struct single {
    built *b;
    rs_branch *branch;
} single;

static double *numbers_of(const rs_tensor *tensor)
{
    return (double *)(uintptr_t)tensor->data;
}

static double uniform(built *b, double from, double to)
{
    return from + (to - from) * rs_random_uniform(&b->random);
}

enum { UNITS = 6, DECAY = 5 };
static const double pulse = 1e5;

/* What comes `width` - 1 tokens later. */
static rs_conv_op delay(built *b, int64_t channels)
{
    int64_t width = draw(b, 1, 3);
    rs_conv_op conv = {channels, width, generate(b, 0, channels * width, 0, 0), NULL, {0}};
    for (int64_t c = 0; c < channels; c++)
        numbers_of(conv.weight)[c * width] = 1;
    return conv;
}

static rs_dense constants(built *b, int64_t in, int64_t out)
{
    rs_dense map = generated_map(b, 0, in, out, 0);
    map.bias = generate(b, 0, out, 0, 0);
    return map;
}

/* z, x, B, C and dt of one head of one number; SiLU is steepest at 2.4. */
static void single_ssd(single *of, int64_t unit)
{
    rs_ssd_op *op = &of->branch->ssd;
    *op = (rs_ssd_op){.heads = 1,
                      .groups = 1,
                      .head_dim = 1,
                      .state = 1,
                      .step_most = INFINITY,
                      .norm_groups = 1,
                      .gate = unit == 0 || chance(of->b, 0.5) ? RS_GATE_BEFORE_NORM : RS_GATE_NONE};
    op->in = constants(of->b, 2, 5);
    for (int k = 0; k < 4; k++)
        numbers_of(op->in.bias)[k] = uniform(of->b, 2.3, 2.5);
    numbers_of(op->in.bias)[4] = chance(of->b, 0.3) ? 20 : uniform(of->b, 2, 9);
    numbers_of(op->in.weight)[2 * (unit == DECAY ? 4 : unit)] = 1;
    if (unit == DECAY) {
        numbers_of(op->in.bias)[1] = 0;
        numbers_of(op->in.weight)[3] = 2.4 / pulse;
    }
    op->conv = delay(of->b, 3);
    op->a_log = generate(of->b, 0, 1, 0, uniform(of->b, log(1e-3), log(0.3)));
    op->o = place(of->b, 1, 2);
}

/* u, z of one channel, then dt, B, C from u, by so large a weight that their way is the one that
 * counts. */
static void single_s6(single *of, int64_t unit)
{
    rs_s6_op *op = &of->branch->s6;
    *op = (rs_s6_op){.inner = 1, .state = 1, .rank = 1};
    op->gated = unit == 1 || chance(of->b, 0.5);
    op->in = constants(of->b, 2, 2);
    op->x = constants(of->b, 1, 3);
    numbers_of(op->in.bias)[0] = uniform(of->b, 2.3, 2.5);
    numbers_of(op->in.bias)[1] = uniform(of->b, 2.3, 2.5);
    numbers_of(op->in.weight)[unit == 1 ? 2 : 0] = 1;
    for (int k = 0; k < 3; k++)
        numbers_of(op->x.bias)[k] = uniform(of->b, 2, 9);
    double weight = uniform(of->b, 2000, 3000);
    double still = (double)exact_silu(numbers_of(op->in.bias)[0]);
    if (unit == DECAY) {
        numbers_of(op->in.weight)[1] = 1e-3;
        numbers_of(op->x.weight)[0] = weight;
        numbers_of(op->x.bias)[0] -= weight * still;
        numbers_of(op->x.weight)[1] = 1 / pulse;
        numbers_of(op->x.bias)[1] = -still / pulse;
    } else if (unit > 1) {
        numbers_of(op->x.weight)[unit - 2] = weight;
        numbers_of(op->x.bias)[unit - 2] -= weight * still;
    }
    op->step = place(of->b, 1, 1);
    op->conv = delay(of->b, 1);
    op->a_log = generate(of->b, 0, 1, 0, uniform(of->b, log(1e-3), log(0.3)));
    op->o = place(of->b, 1, 2);
}

/* Tokens that are all off by `size` with signs of their own, in one panel or two: the largest distance
 * over radius. */
static double moved_ratio(const single *of, double size)
{
    built *b = of->b;
    int64_t n = b->begin[1], turn = draw(b, 0, chance(b, 0.5) ? n : 3),
            cut = chance(b, 0.5) ? draw(b, 0, n) : 0;
    double worst, sign = chance(b, 0.5) ? 1 : -1;
    moved_rows rows;
    open_rows(&rows, of->branch, n, 2);
    for (int64_t i = 0; i < n; i++) {
        rows.radius[i] = size;
        rows.moved[2 * i] = (i < turn ? (real)sign : -(real)sign) * size * (1 - 1e-15L);
        rows.moved[2 * i + 1] = b->states[2 * i + 1];
    }
    real *exact = exact_op(of->branch, rows.moved, n);
    worst = run_rows(&rows, b->states, exact, 0, cut);
    worst = fmax(worst, run_rows(&rows, b->states, exact, cut, n));
    free(exact);
    close_rows(&rows);
    return worst;
}

/* Each way that a token takes is bounded, and by little more than what it may do. */
static void each_way_by_itself(void **state)
{
    const kind *of = *state;
    double worst[UNITS] = {0};
    for (int t = property_start(1800, 56000000); property_next(&t);) {
        int64_t n = 1 + t % 150, unit = t % UNITS;
        single one = {.b = bare_new(0, 2, n, of->number)};
        one.b->random = property_random();
        memset(one.b->states, 0, (size_t)(2 * n) * sizeof(double));
        if (unit == DECAY) one.b->states[1] = pulse;
        one.branch = &one.b->layers[0].branches[0];
        of->single(&one, unit);
        double size = pow(10, uniform(one.b, unit == DECAY ? -7 : -12, -5)),
               ratio = moved_ratio(&one, size);
        property_worst(ratio);
        if (n > 100) worst[unit] = fmax(worst[unit], ratio);
        built_free(one.b);
    }
    property_holds(1);
    for (int k = 0; k < UNITS; k++) {
        print_message("  unit %d: largest distance over radius %.4f\n", k, worst[k]);
        assert_true(worst[k] > 0.99);
    }
}

/* ---- norms ---- */

enum { MOST = 40 };

/* y: x moved by `size` across, or inwards, where a norm stretches most. */
static void move_row(real *y, const double *x, int64_t n, double size, bool inwards,
                     rs_random *random)
{
    real e[MOST], square = 0, mean = 0;
    for (int64_t k = 0; k < n; k++)
        mean += (real)x[k] / (real)n;
    for (int64_t k = 0; k < n; k++) {
        e[k] = (inwards ? 0 : rs_random_normal(random)) - 2 * (x[k] - mean);
        square += e[k] * e[k];
    }
    for (int64_t k = 0; k < n; k++)
        y[k] = x[k] + e[k] * size * (1 - 1e-15L) / sqrtl(square);
}

/* The distance of x from the norm of y. */
static double distance_behind(const double *x, real *y, int64_t n, const rs_radius_norm *norm)
{
    real power = 0, mean = 0, off = 0;
    for (int64_t k = 0; k < n && norm->kind == RS_NORM_LAYERNORM; k++)
        mean += y[k] / (real)n;
    for (int64_t k = 0; k < n; k++)
        power += (y[k] - mean) * (y[k] - mean) / (real)n;
    for (int64_t k = 0; k < n; k++) {
        real exact = (y[k] - mean) / sqrtl(power + norm->eps) * norm->gain[k];
        exact += norm->bias ? norm->bias[k] : 0;
        off += (exact - x[k]) * (exact - x[k]);
    }
    return (double)sqrtl(off);
}

static void norms(void **state)
{
    (void)state;
    for (int t = property_start(20000, 57000000); property_next(&t);) {
        rs_random random = property_random();
        double x[MOST], gain[MOST], bias[MOST], size = pow(10, -6 * rs_random_uniform(&random));
        real y[MOST];
        int64_t n = 2 + t % (MOST - 1);
        rs_radius_norm norm = {t % 2 ? RS_NORM_LAYERNORM : RS_NORM_RMSNORM, t % 5 ? 0 : 1e-3, gain,
                               t % 7 ? bias : NULL};
        for (int64_t k = 0; k < n; k++) {
            x[k] = rs_random_normal(&random);
            gain[k] = t % 4 ? 1 : rs_random_normal(&random);
            bias[k] = rs_random_normal(&random);
        }
        move_row(y, x, n, size, t % 3 == 0, &random);
        rs_radius_normalise(x, &size, n, &norm, 0);
        property_worst(distance_behind(x, y, n, &norm) / size);
    }
    property_holds(1);
    print_message("  norms: largest distance over radius %.4f\n", property_worst(0));
    assert_true(property_worst(0) > 0.9);
    double flat[] = {1, 1, 1}, gain[] = {1, 1, 1}, radius = 0;
    rs_radius_normalise(flat, &radius, 3, &(rs_radius_norm){RS_NORM_LAYERNORM, 0, gain, NULL}, 0);
    assert_true(isinf(radius));
}

#define KIND_TESTS(of)                                                                             \
    cmocka_unit_test_prestate(moved_tokens_stay_within_the_radii, of),                             \
        cmocka_unit_test_prestate(each_way_by_itself, of)

int main(void)
{
    static kind ssd = {RS_BRANCH_SSD, drawn_ssd, single_ssd};
    static kind s6 = {RS_BRANCH_S6, drawn_s6, single_s6};
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms), KIND_TESTS(&ssd), KIND_TESTS(&s6)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
