/*
 * test_relevance.c: relevance, its cuts, attention rollout and removal curves of small models of several families,
 * held against PyTorch's autograd on the same weights (tests/oracle/make_relevance_golden.py): in
 * float64 to 1e-9, in float32 to 2e-4.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_family.h"

#include "observe/relevance.h"

/* A model, what it is fed, and what was found. */
typedef struct explained_model {
    const char *name;
    const rs_checkpoint *golden;
    golden_family of;
    rs_inputs inputs;
    rs_relevance *found;
    double bound;
    int wrong, compared;
} explained_model;

/* ---- comparing ---- */

/* The golden's numbers `what` of sample s (negative: of all); NULL: there are none. */
static const rs_tensor *golden_of(const explained_model *m, int64_t s, const char *what,
                                  double *out)
{
    char name[128];
    if (s < 0)
        snprintf(name, sizeof name, "%s/%s", m->name, what);
    else
        snprintf(name, sizeof name, "%s/%lld/%s", m->name, (long long)s, what);
    const rs_tensor *t = rs_checkpoint_find(m->golden, name);
    if (t) rs_tensor_decode_f64(out, t, 0, t->count);
    return t;
}

/* Holds n numbers, `stride` bytes apart, against the golden's, by the largest of them. */
static void hold_against(explained_model *m, int64_t s, const char *what, const double *own,
                         size_t stride, int64_t n)
{
    double golden[256], largest = 0;
    const rs_tensor *t = golden_of(m, s, what, golden);
    if (!t) return;
    assert_int_equal(t->count, n);
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(golden[i]));
    for (int64_t i = 0; i < n; i++) {
        double at = *(const double *)(const void *)((const char *)own + (size_t)i * stride);
        m->compared++;
        if (fabs(at - golden[i]) <= m->bound * (1e-3 + largest)) continue;
        print_error("%s, sample %lld: %s %lld is %.17g, not %.17g\n", m->name, (long long)s, what,
                    (long long)i, at, golden[i]);
        m->wrong++;
    }
}

static void compare_sample(explained_model *m, const rs_explained *e)
{
    int64_t s = e->sample, row = m->of.in.begin[s], n = m->of.in.begin[s + 1] - row;
    int64_t cuts = m->of.network->n_layers + 1;
    const double explained[] = {e->explained, (double)e->row, (double)e->output};
    double memory;
    hold_against(m, s, "explained", explained, sizeof *explained, 3);
    hold_against(m, s, "relevance", m->found->relevance + row, sizeof(double), n);
    hold_against(m, s, "gradient_input", m->found->gradient_input + row, sizeof(double), n);
    hold_against(m, s, "sum", &e->cuts->sum, sizeof *e->cuts, cuts);
    hold_against(m, s, "effective", &e->cuts->effective, sizeof *e->cuts, cuts);
    hold_against(m, s, "cosine", &e->cuts->cosine, sizeof *e->cuts, cuts);
    if (golden_of(m, s, "memory", &memory))
        hold_against(m, s, "memory", &e->cuts->memory, sizeof *e->cuts, 1);
    double limit = m->bound < 1e-6 ? rs_relevance_tolerance(RS_PRECISION_F64)
                                   : rs_relevance_tolerance(RS_PRECISION_F32);
    for (int64_t l = 0; l < cuts; l++)
        if (!(e->cuts[l].deviation <= limit)) {
            print_error("%s, sample %lld, cut %lld: deviation %g\n", m->name, (long long)s,
                        (long long)l, e->cuts[l].deviation);
            m->wrong++;
        }
}

static void compare_curves(explained_model *m)
{
    double own[3 * RS_REMOVAL_ORDERS * RS_REMOVAL_STEPS];
    int64_t n = 0;
    for (int method = 0; method < RS_REMOVAL_RANDOM; method++)
        for (int order = 0; order < RS_REMOVAL_ORDERS; order++) {
            const rs_removal_curve *c = &m->found->removal.of[method][order];
            for (int step = 0; step < RS_REMOVAL_STEPS && c->samples > 0; step++)
                own[n++] = c->output[step] / (double)c->samples;
        }
    hold_against(m, -1, "removal", own, sizeof *own, n);
}

/* ---- running ---- */

static void open_model(explained_model *m)
{
    assert_true(open_family(&m->of, m->name, false));
    m->inputs = (rs_inputs){.kind = "tokens",
                            .samples = m->of.in.batch.samples,
                            .begin = m->of.in.begin,
                            .ids = m->of.in.ids,
                            .memory = m->of.in.memory,
                            .memory_begin = m->of.in.memory ? m->of.in.memory_begin : NULL,
                            .d_model = m->of.network->d_model};
    for (int64_t s = 0; s < m->inputs.samples; s++) {
        int64_t n = m->of.in.begin[s + 1] - m->of.in.begin[s];
        if (n > m->inputs.longest) m->inputs.longest = n;
    }
}

static void explain_all(explained_model *m, rs_precision precision)
{
    rs_targets targets;
    rs_weights *weights;
    rs_context context = {.threads = 2};
    rs_error err = {0};
    assert_int_equal(rs_targets_explain(&targets, NULL, m->of.network, &m->inputs, &err), RS_OK);
    const rs_relevance_request request = {.targets = &targets,
                                          .precision = precision,
                                          .recompute = precision == RS_PRECISION_F32,
                                          .phase = "relevance"};
    assert_int_equal(rs_weights_open(&weights, precision, 1 << 28, &err), RS_OK);
    if (rs_relevance_run(&m->found, m->of.network, weights, &m->inputs, &request, &context, &err) !=
        RS_OK)
        fail_msg("%s: %s: %s", m->name, err.where, err.what);
    m->bound = precision == RS_PRECISION_F64 ? 1e-9 : 2e-4;
    for (size_t i = 0; i < m->found->n; i++)
        compare_sample(m, &m->found->samples[i]);
    if (precision == RS_PRECISION_F64) compare_curves(m); /* ties may order otherwise in float32 */
    rs_relevance_free(m->found);
    rs_weights_close(weights);
    rs_targets_close(&targets);
}

/* The rows of rollout, for which nothing else is asked. */
static void check_rollout(explained_model *m)
{
    for (int64_t s = 0; s < m->inputs.samples; s++) {
        double golden[64], own[64];
        if (!golden_of(m, s, "rollout", golden)) continue;
        int64_t n = m->of.in.begin[s + 1] - m->of.in.begin[s], begin[] = {0, n},
                memory_begin[] = {0, 0};
        rs_inputs one = m->inputs;
        rs_context context = {.threads = 2};
        rs_pass_account account = {0};
        rs_relevance_request request = {.precision = RS_PRECISION_F64, .phase = "rollout"};
        rs_relevance_work work = {.network = m->of.network,
                                  .request = &request,
                                  .context = &context,
                                  .account = &account};
        rs_error err;
        bool there;
        double explained[3];
        golden_of(m, s, "explained", explained);
        one.samples = 1, one.begin = begin, one.ids = m->of.in.ids + m->of.in.begin[s],
        one.longest = n;
        if (one.memory) {
            memory_begin[1] = m->of.in.memory_begin[s + 1] - m->of.in.memory_begin[s];
            one.memory += m->of.in.memory_begin[s] * one.d_model, one.memory_begin = memory_begin;
        }
        assert_int_equal(rs_rollout(own, &there, &work, &one, (int64_t)explained[1], &err), RS_OK);
        assert_true(there);
        hold_against(m, s, "rollout", own, sizeof *own, n);
    }
}

static void agrees_with_autograd(void **state)
{
    (void)state;
    char path[512], name[128];
    rs_checkpoint *golden;
    rs_checkpoint_options options = {0};
    int models = 0, wrong = 0;
    snprintf(path, sizeof path, "%s/relevance.safetensors", RS_TEST_DATA);
    assert_int_equal(rs_checkpoint_open(&golden, path, &options, NULL), RS_OK);
    for (size_t i = 0; i < golden->n_tensors; i++) {
        const char *slash = strchr(golden->tensors[i].name, '/');
        if (!slash || strcmp(slash, "/removal") != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(slash - golden->tensors[i].name),
                 golden->tensors[i].name);
        explained_model m = {.name = name, .golden = golden, .bound = 1e-9};
        open_model(&m);
        check_rollout(&m);
        explain_all(&m, RS_PRECISION_F64);
        explain_all(&m, RS_PRECISION_F32);
        close_family(&m.of);
        assert_true(m.compared > 50);
        wrong += m.wrong, models++;
    }
    assert_int_equal(models, 14);
    assert_int_equal(wrong, 0);
    rs_checkpoint_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_autograd)};
    return cmocka_run_group_tests_name("relevance", tests, NULL, NULL);
}
