/*
 * test_residual_golden.c: the residual precision against plain passes in thousands of digits
 * (tests/oracle/make_residual_golden.py): every state's mean, residual and exponent.
 *
 * The bound is that of docs/theory/collapse.md, 14.5: a layer triples the relative error of R, so
 * after l layers it is at most 10·3^l·u·(1 + max|logit|) in the largest norm; log10 max|R| keeps
 * its digits. State-space mixers are worked out in plain numbers: 1e-10 of R, and of its logarithm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/forward.h"
#include "engine/residual.h"
#include "residual_golden.h"

#include <dirent.h>

/* A network, and what was found. */
typedef struct found {
    golden of;
    int wrong, states;
    double worst, worst_bound, worst_log;
} found;

/* ---- comparing ---- */

static const rs_tensor *state_tensor(const golden *g, int32_t layer, const char *part)
{
    char name[60];
    snprintf(name, sizeof name, "state.%d.%s", (int)layer, part);
    const rs_tensor *tensor = rs_checkpoint_find(g->file, name);
    assert_non_null(tensor);
    return tensor;
}

/* fmax that keeps what is no number. */
static double more(double a, double b)
{
    return isnan(b) || b > a ? b : a;
}

static double largest(const double *a, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(a[i]));
    return most;
}

static int64_t count_of(const golden *g, int32_t layer, const char *part)
{
    char name[60];
    snprintf(name, sizeof name, "state.%d.%s", (int)layer, part);
    const rs_tensor *tensor = rs_checkpoint_find(g->file, name);
    return tensor ? ((const int64_t *)(const void *)tensor->data)[0] : 0;
}

/* What of a state is wrong. */
typedef struct errors {
    double residual, base; /* beside those of the state */
    double log;            /* of its residual */
    bool log_fine;
} errors;

static errors errors_of(const golden *g, int32_t layer, const rs_state_view *view)
{
    const rs_tensor *m = state_tensor(g, layer, "residual"), *x = state_tensor(g, layer, "base");
    int64_t scale = count_of(g, layer, "scale"), exponent = count_of(g, layer, "exponent");
    int64_t up = view->scale[0] - scale, by = view->exponent[0] + up - exponent;
    double error = 0, size = 0, base = 0, base_size = 0;
    if (by < -100 || by > 100 || up < -2000 || up > 2000) {
        print_error("%s, state %d: exponent %lld for %lld\n", g->name, (int)layer,
                    (long long)(view->exponent[0] + view->scale[0]), (long long)(exponent + scale));
        return (errors){.residual = 1, .base = 1};
    }
    for (int64_t i = 0; i < g->n * g->d; i++) {
        error = more(error, fabs(ldexp(view->residual[i], (int)by) - entry(m, i)));
        size = fmax(size, fabs(entry(m, i)));
    }
    for (int64_t i = 0; i < g->d; i++) {
        base = more(base, fabs(ldexp(view->base[i], (int)up) - entry(x, i)));
        base_size = fmax(base_size, fabs(entry(x, i)));
    }
    base_size = fmax(base_size, ldexp(size, exponent < -2000 ? -2000 : (int)exponent));
    if (size == 0) return (errors){.residual = error, .base = base / base_size, .log_fine = true};
    double log_found = (double)(view->exponent[0] + view->scale[0]) * M_LN2 +
                       log(largest(view->residual, g->n * g->d));
    double log_true = (double)(exponent + scale) * M_LN2 + log(size);
    /* the error of a small logarithm is that of R itself */
    double log_error = fabs(log_found - log_true) / fmax(1, fabs(log_true));
    /* beyond 1e6 nats the error of R itself is nothing beside the logarithm */
    return (errors){.residual = error / size,
                    .base = base / base_size,
                    .log = log_error,
                    .log_fine = fabs(log_true) < 1e6 || log_error <= 1e-15};
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)site, (void)err;
    found *f = user;
    const golden *g = &f->of;
    errors e = errors_of(g, layer, view);
    double bound = g->plain ? 1e-10 : 10 * pow(3, layer) * 0x1p-53 * (1 + g->logit);
    f->states++;
    if (e.residual / bound > f->worst_bound)
        f->worst = e.residual, f->worst_bound = e.residual / bound;
    f->worst_log = fmax(f->worst_log, e.log);
    if (e.residual <= bound && e.base <= 1e-11 && e.log_fine) return RS_OK;
    print_error("%s, state %d: residual wrong by %.3g of it, base by %.3g; over %.3g\n", g->name,
                (int)layer, e.residual, e.base, bound);
    f->wrong++;
    return RS_OK;
}

static void run(found *f)
{
    const golden *g = &f->of;
    rs_context context = {.threads = 2};
    rs_error err = {0};
    rs_weights *weights;
    rs_runner *runner = NULL;
    int64_t begin[] = {0, g->n};
    rs_batch batch = {.samples = 1, .begin = begin, .states = g->input};
    rs_tap tap = {.user = f, .sites = 1u << RS_SITE_BLOCK_OUT, .state = on_state};
    const rs_tap *taps[] = {&tap};
    if (rs_weights_open(&weights, RS_PRECISION_RESIDUAL, UINT64_MAX, &err) != RS_OK ||
        rs_runner_open(&runner, &g->network, weights, &context, &err) != RS_OK ||
        rs_runner_run(runner, &batch, taps, 1, &err) != RS_OK)
        fail_msg("%s: %s: %s", g->name, err.where, err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static int one_case(const char *file_name)
{
    found f = {0};
    open_golden(&f.of, file_name);
    run(&f);
    assert_int_equal(f.states, f.of.network.n_layers + 1);
    if (getenv("RS_SHOW"))
        print_message("%-36s rel. err %.1e (%.2g of the bound), log %.1e\n", f.of.name, f.worst,
                      f.worst_bound, f.worst_log);
    close_golden(&f.of);
    return f.wrong;
}

static void agrees_with_thousands_of_digits(void **state)
{
    (void)state;
    char path[512];
    int cases = 0, wrong = 0;
    snprintf(path, sizeof path, "%s/residual", RS_TEST_DATA);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *item; (item = readdir(folder));) {
        if (!strstr(item->d_name, ".safetensors")) continue;
        wrong += one_case(item->d_name);
        cases++;
    }
    closedir(folder);
    assert_true(cases >= 65);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_thousands_of_digits)};
    return cmocka_run_group_tests_name("residual_golden", tests, NULL, NULL);
}
