/*
 * test_exact_states.c: C11: what a state-space mixer adds in exact arithmetic (here: long double,
 * token by token) lies within the bound about what the float64 pass added.
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

#include "states_drawn.h"

#include "certify/certify_exact_states.h"
#include "sanitized.h"

enum { INSTANCES = 400, CLIMBED = 300, STEPS = 30 };

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

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct kind {
    rs_branch_kind number;
    draw_mixer *draw;
    double loose; /* the median of bound over distance is no more */
    void (*large)(built *b, rs_branch *branch);
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

/* the shadows of sanitizers are larger than any limit */
enum { LIMITED = !RS_ADDRESS_SANITIZER && !RS_THREAD_SANITIZER };

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

#define KIND_TESTS(of)                                                                             \
    cmocka_unit_test_prestate(exact_rows_lie_within_the_bound, of),                                \
        cmocka_unit_test_prestate(climbing_stays_below, of),                                       \
        cmocka_unit_test_prestate(a_wrong_pass_is_seen, of),                                       \
        cmocka_unit_test_prestate(nothing_known_is_infinite, of),                                  \
        cmocka_unit_test_prestate(the_batch_changes_nothing, of),                                  \
        cmocka_unit_test_prestate(refused_memory_is_told, of)

int main(void)
{
    static kind ssd = {RS_BRANCH_SSD, drawn_ssd, 1e5, large_ssd};
    static kind s6 = {RS_BRANCH_S6, drawn_s6, 1e5, large_s6};
    /* what is freed leaves the process, for the tests that limit its memory, which come first */
    mallopt(M_MMAP_THRESHOLD, 1 << 15);
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(memory_is_what_is_said, &ssd),
                                       cmocka_unit_test_prestate(memory_is_what_is_said, &s6),
                                       KIND_TESTS(&ssd), KIND_TESTS(&s6)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
