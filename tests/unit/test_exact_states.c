/*
 * test_exact_states.c: C11: what a state-space mixer adds in exact arithmetic (here: long double,
 * token by token) lies within the bound about what the float64 pass added; and with tokens that are
 * off by far more than rounding, within the radii.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "states_exact.h"

#include "certify/certify_exact_states.h"

enum { INSTANCES = 400, CLIMBED = 300, STEPS = 30, MOVED = 400 };

/* ---- a pass of one layer ---- */

typedef struct pass {
    double *in, *added; /* [rows, d] */
    size_t count;
} pass;

static rs_status hear(void *user, int32_t layer, int32_t branch, rs_moment moment,
                      const rs_state_view *view, rs_error *err)
{
    pass *p = user;
    (void)layer, (void)branch, (void)err;
    memcpy(moment == RS_MOMENT_IN ? p->in : p->added, view->data, p->count * sizeof(double));
    return RS_OK;
}

static void run_pass(pass *p, const built *b)
{
    rs_weights *weights;
    rs_runner *runner;
    rs_error err = {0};
    rs_context context = {.threads = 1};
    rs_tap tap = {.user = p, .moments = 1u << RS_MOMENT_IN | 1u << RS_MOMENT_ADDED, .branch = hear};
    const rs_tap *taps[] = {&tap};
    assert_int_equal(rs_weights_open(&weights, RS_PRECISION_F64, 1 << 28, &err), RS_OK);
    if (rs_runner_open(&runner, &b->network, weights, &context, &err) != RS_OK ||
        rs_runner_run(runner, &b->batch, taps, 1, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static pass pass_new(const built *b)
{
    pass p = {.count = (size_t)(b->begin[b->batch.samples] * b->network.d_model)};
    p.in = calloc(p.count + 1, sizeof *p.in);
    p.added = calloc(p.count + 1, sizeof *p.added);
    run_pass(&p, b);
    return p;
}

static void pass_free(pass *p)
{
    free(p->in);
    free(p->added);
}

static void bound_of(double *error, const built *b, const pass *p, int threads)
{
    rs_error err = {0};
    rs_context context = {.threads = threads};
    rs_exact_states at = {&b->layers[0].branches[0], p->in, p->added, &b->batch, &context};
    assert_null(rs_exact_states_unbounded(at.branch));
    if (rs_exact_states_added(error, &at, &err) != RS_OK) fail_msg("%s: %s", err.where, err.what);
}

/* The largest distance of a row from the exact one in sample s. */
static double distance_of(const built *b, const pass *p, int32_t s)
{
    int64_t d = b->network.d_model, from = b->begin[s], n = b->begin[s + 1] - from;
    real *exact = exact_added(&b->layers[0].branches[0], p->in + from * d, n, d), most = 0;
    for (int64_t i = 0; i < n; i++) {
        real square = 0;
        for (int64_t k = 0; k < d; k++) {
            real off = exact[i * d + k] - p->added[(from + i) * d + k];
            square += off * off;
        }
        most = fmaxl(most, sqrtl(square));
    }
    free(exact);
    return (double)most;
}

/* ---- drawn branches ---- */

/* Rates as GGUF files store them. */
static const rs_tensor *negatives(built *b, int64_t count)
{
    rs_tensor *t = generate(b, 0, count, 0, 0);
    for (int64_t i = 0; i < count; i++)
        ((double *)(uintptr_t)t->data)[i] = -2 * rs_random_uniform(&b->random);
    return t;
}

static rs_branch drawn_ssd(built *b, int64_t d)
{
    rs_branch branch = ssd_of(b, d);
    if (chance(b, 0.3)) branch.inside = norm_of(b, d);
    branch.ssd.a_stored = chance(b, 0.2);
    if (branch.ssd.a_stored) branch.ssd.a_log = negatives(b, branch.ssd.heads);
    /* steps about the threshold of the softplus */
    if (chance(b, 0.1)) branch.ssd.dt_bias = tensor(b, RS_F32, branch.ssd.heads, 20, 1);
    return branch;
}

static rs_branch drawn_s6(built *b, int64_t d)
{
    rs_branch branch = s6_of(b, d);
    rs_s6_op *op = &branch.s6;
    if (chance(b, 0.3)) branch.inside = norm_of(b, d);
    if (chance(b, 0.1))
        op->step.bias =
            tensor(b, RS_F32, op->step.out_is_row ? op->step.rows : op->step.cols, 20, 1);
    if (!chance(b, 0.2)) return branch;
    op->a_stored = true;
    op->a_log = negatives(b, op->inner * op->state);
    return branch;
}

/* One layer; now and then longer than a panel. */
static built *instance(uint64_t seed, int64_t longest, draw_mixer *draw_branch)
{
    built *b = mixers_new(seed, longest, draw_branch);
    b->network.n_layers = 1;
    return b;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct single;

typedef struct kind {
    rs_branch_kind number;
    draw_mixer *draw;
    double loose; /* the median of bound over distance is no more */
    void (*single)(struct single *of, int64_t unit);
    void (*large)(built *b, rs_branch *branch);
    double tight[6]; /* of each unit by itself: the largest distance over radius is more */
} kind;

static void exact_rows_lie_within_the_bound(void **state)
{
    const kind *of = *state;
    double *ratios = malloc(sizeof *ratios * 4 * (size_t)property_count(INSTANCES));
    size_t n = 0;
    for (int t = property_start(INSTANCES, 51000000); property_next(&t);) {
        built *b = instance(property_seed(), t % 20 ? 90 : 1300, of->draw);
        pass p = pass_new(b);
        double error[4], threads[4];
        bound_of(error, b, &p, 1);
        bound_of(threads, b, &p, 3);
        for (int32_t s = 0; s < b->batch.samples; s++) {
            double distance = distance_of(b, &p, s);
            assert_true(isfinite(error[s]) && error[s] == threads[s]);
            if (b->begin[s + 1] == b->begin[s]) continue;
            property_worst(distance / error[s]);
            if (distance > 0) ratios[n++] = error[s] / distance;
        }
        pass_free(&p);
        built_free(b);
    }
    property_holds(1);
    qsort(ratios, n, sizeof *ratios, by_size);
    print_message("  bound over distance: median %.3g, 99 %% below %.3g\n", ratios[n / 2],
                  ratios[n * 99 / 100]);
    assert_true(ratios[n / 2] < of->loose);
    free(ratios);
}

/* Tokens are moved as long as the distance grows beside the bound. */
static void climbing_stays_below(void **state)
{
    const kind *of = *state;
    for (int t = property_start(CLIMBED, 52000000); property_next(&t);) {
        built *b = instance(property_seed(), 6, of->draw);
        pass p = pass_new(b);
        double best = 0, error[4];
        for (int step = 0; step < STEPS && p.count; step++) {
            size_t at = (size_t)draw(b, 0, (int64_t)p.count - 1);
            double kept = b->states[at];
            b->states[at] += rs_random_normal(&b->random);
            run_pass(&p, b);
            bound_of(error, b, &p, 1);
            double ratio = 0;
            for (int32_t s = 0; s < b->batch.samples; s++)
                if (b->begin[s + 1] > b->begin[s])
                    ratio = fmax(ratio, distance_of(b, &p, s) / error[s]);
            if (ratio > best)
                best = ratio;
            else
                b->states[at] = kept;
        }
        property_worst(best);
        pass_free(&p);
        built_free(b);
    }
    print_message("  largest distance over bound: %.3g\n", property_worst(0));
    property_holds(1);
}

/* What an engine that is wrong adds is seen. */
static void a_wrong_pass_is_seen(void **state)
{
    const kind *of = *state;
    for (int t = property_start(100, 53000000); property_next(&t);) {
        built *b = instance(property_seed(), 30, of->draw);
        pass p = pass_new(b);
        double before[4], after[4];
        bound_of(before, b, &p, 1);
        for (int32_t s = 0; s < b->batch.samples; s++) {
            int64_t at = draw(b, b->begin[s], b->begin[s + 1] - 1) * b->network.d_model;
            if (b->begin[s + 1] > b->begin[s]) p.added[at] += 10 * before[s];
        }
        bound_of(after, b, &p, 1);
        for (int32_t s = 0; s < b->batch.samples; s++)
            if (b->begin[s + 1] > b->begin[s])
                assert_true(after[s] > 8.9 * before[s] && distance_of(b, &p, s) <= after[s]);
        pass_free(&p);
        built_free(b);
    }
    property_holds(1);
}

/* Numbers that leave the doubles are not known, not 0. */
static void nothing_known_is_infinite(void **state)
{
    const kind *of = *state;
    static const double poison[] = {NAN, INFINITY, 1e200, -1e308};
    for (int t = property_start(80, 54000000); property_next(&t);) {
        built *b = instance(property_seed(), 30, of->draw);
        pass p = pass_new(b);
        double error[4];
        int64_t d = b->network.d_model;
        for (int32_t s = 0; s < b->batch.samples; s++)
            if (b->begin[s + 1] > b->begin[s]) p.in[b->begin[s] * d] = poison[t % 4];
        bound_of(error, b, &p, 2);
        for (int32_t s = 0; s < b->batch.samples; s++) {
            bool rows = b->begin[s + 1] > b->begin[s];
            assert_true(rows ? isinf(error[s]) && error[s] > 0 : error[s] == 0);
        }
        pass_free(&p);
        built_free(b);
    }
    property_holds(1);
}

/* A sample's bound is the same alone and behind others, wherever panels are cut. */
static void the_batch_changes_nothing(void **state)
{
    const kind *of = *state;
    static const int64_t lengths[] = {512, 3, 600, 70};
    for (int t = property_start(12, 54500000); property_next(&t);) {
        built *b = instance(property_seed(), 1, of->draw);
        int64_t d = b->network.d_model, from[5] = {0}, alone[2] = {0};
        for (int s = 0; s < 4; s++)
            from[s + 1] = from[s] + lengths[(s + t) % 4];
        free(b->states);
        b->states = malloc((size_t)(from[4] * d) * sizeof *b->states);
        for (int64_t i = 0; i < from[4] * d; i++)
            b->states[i] = rs_random_normal(&b->random);
        memcpy(b->begin, from, sizeof from);
        b->batch = (rs_batch){.samples = 4, .begin = b->begin, .states = b->states};
        pass p = pass_new(b);
        double all[4], error;
        bound_of(all, b, &p, 2);
        for (int s = 0; s < 4; s++) {
            pass one = {p.in + from[s] * d, p.added + from[s] * d, 0};
            alone[1] = from[s + 1] - from[s];
            b->batch = (rs_batch){.samples = 1, .begin = alone};
            bound_of(&error, b, &one, 1);
            property_worst(fabs(error / all[s] - 1));
        }
        pass_free(&p);
        built_free(b);
    }
    property_holds(1e-2); /* BLAS rounds other numbers of rows in another way */
}

/* ---- memory ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITED = 0 }; /* their shadows are larger than any limit */
#else
enum { LIMITED = 1 };
#endif

/* The status of the bound in a process that may take so many bytes more than it has. */
static int status_within(double bytes, const built *b, const pass *p)
{
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (!file || fscanf(file, "%lu", &pages) != 1) _exit(99);
        fclose(file);
        rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)bytes;
        setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
        rs_error err = {0};
        rs_context context = {.threads = 1};
        rs_exact_states at = {&b->layers[0].branches[0], p->in, p->added, &b->batch, &context};
        double error;
        _exit((int)rs_exact_states_added(&error, &at, &err));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* As much memory as is said is enough, and a third of it is not. */
static void memory_is_what_is_said(void **state)
{
    const kind *of = *state;
    if (!LIMITED) skip();
    built *b = bare_new(1, 300, 400, of->number);
    rs_branch *branch = &b->layers[0].branches[0];
    b->random = rs_random_new(1, 1);
    of->large(b, branch);
    pass p = pass_new(b);
    double error, bytes = rs_exact_states_bytes(branch, 400, 1);
    bound_of(&error, b, &p, 1); /* BLAS has its own memory now */
    assert_int_equal(status_within(1.1 * bytes + (1 << 20), b, &p), RS_OK);
    assert_int_equal(status_within(bytes / 3, b, &p), RS_E_NO_MEMORY);
    pass_free(&p);
    built_free(b);
}

static void large_ssd(built *b, rs_branch *branch)
{
    rs_ssd_op *op = &branch->ssd;
    *op = (rs_ssd_op){.heads = 20,
                      .groups = 1,
                      .head_dim = 30,
                      .state = 64,
                      .step_most = INFINITY,
                      .norm_groups = 1};
    op->in = generated_map(b, 1, 300, 1200 + 128 + 20, 0.1);
    op->conv = no_conv(b, 600 + 128);
    op->a_log = tensor(b, RS_F32, 20, 0, 1);
    op->o = generated_map(b, 2, 600, 300, 0.1);
}

static void large_s6(built *b, rs_branch *branch)
{
    rs_s6_op *op = &branch->s6;
    *op = (rs_s6_op){.inner = 600, .state = 16, .rank = 20, .gated = true};
    op->in = generated_map(b, 1, 300, 1200, 0.1);
    op->conv = no_conv(b, 600);
    op->x = generated_map(b, 2, 600, 52, 0.1);
    op->step = generated_map(b, 3, 20, 600, 0.1);
    op->a_log = tensor(b, RS_F32, 600 * 16, 0, 1);
    op->o = generated_map(b, 4, 600, 300, 0.1);
}

/* Each request for memory refused in turn is an error that is told, and leaves nothing behind. */
static void refused_memory_is_told(void **state)
{
    const kind *of = *state;
    built *b = instance(7, 20, of->draw);
    pass p = pass_new(b);
    rs_error err = {0};
    rs_context context = {.threads = 2};
    rs_exact_states at = {&b->layers[0].branches[0], p.in, p.added, &b->batch, &context};
    double error[4];
    int64_t blocks = rs_memory_blocks(), refused = 0;
    rs_status status = RS_E_NO_MEMORY;
    for (int64_t n = 1; status == RS_E_NO_MEMORY; n++) {
        rs_memory_fail_at(n);
        status = rs_exact_states_added(error, &at, &err);
        rs_memory_fail_at(0);
        refused += status == RS_E_NO_MEMORY;
        assert_int_equal(rs_memory_blocks(), blocks);
    }
    assert_int_equal(status, RS_OK);
    assert_true(refused > 3);
    pass_free(&p);
    built_free(b);
}

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
        assert_true(worst[k] > of->tight[k]);
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
    cmocka_unit_test_prestate(exact_rows_lie_within_the_bound, of),                                \
        cmocka_unit_test_prestate(climbing_stays_below, of),                                       \
        cmocka_unit_test_prestate(a_wrong_pass_is_seen, of),                                       \
        cmocka_unit_test_prestate(nothing_known_is_infinite, of),                                  \
        cmocka_unit_test_prestate(the_batch_changes_nothing, of),                                  \
        cmocka_unit_test_prestate(refused_memory_is_told, of),                                     \
        cmocka_unit_test_prestate(moved_tokens_stay_within_the_radii, of),                         \
        cmocka_unit_test_prestate(each_way_by_itself, of)

int main(void)
{
    static kind ssd = {RS_BRANCH_SSD, drawn_ssd, 1e5,
                       single_ssd,    large_ssd, {0.99, 0.99, 0.99, 0.99, 0.99, 0.99}};
    static kind s6 = {RS_BRANCH_S6, drawn_s6, 1e5,
                      single_s6,    large_s6, {0.99, 0.99, 0.99, 0.99, 0.99, 0.99}};
    /* what is freed leaves the process, for the tests that limit its memory, which come first */
    mallopt(M_MMAP_THRESHOLD, 1 << 15);
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(memory_is_what_is_said, &ssd),
                                       cmocka_unit_test_prestate(memory_is_what_is_said, &s6),
                                       cmocka_unit_test(norms), KIND_TESTS(&ssd), KIND_TESTS(&s6)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
