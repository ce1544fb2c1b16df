/*
 * test_session_gradients.c: gradients of models in memory, told by stored tensor. All tensors are moved
 * at once: what the loss gains is the sum over all of them of gradient times movement, so that no
 * tensor, and no use of one, is forgotten.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "session_support.h"

#include <math.h>

enum { TENSORS = 64 };

typedef struct gradients_told {
    const held *model;
    double *of[TENSORS]; /* by the place of the tensor among the caller's */
    int told, limit;     /* after `limit` of them the caller ends the call; 0: never */
} gradients_told;

static rs_status hear(void *user, const rs_gradient_data *g)
{
    gradients_told *all = user;
    for (size_t t = 0; t < all->model->n; t++) {
        if (strcmp(all->model->tensors[t].name, g->name) != 0) continue;
        assert_null(all->of[t]);
        all->of[t] = malloc((size_t)(g->count + 1) * sizeof(double));
        for (int64_t i = 0; i < g->count; i++)
            all->of[t][i] = g->precision == RS_PRECISION_F32 ? (double)((const float *)g->values)[i]
                                                             : ((const double *)g->values)[i];
        assert_int_equal(g->rank, all->model->tensors[t].rank);
    }
    return ++all->told == all->limit ? RS_E_INTERRUPTED : RS_OK;
}

static rs_gradients_settings asked(rs_precision precision, rs_grad_loss loss)
{
    static const int32_t ids[3 * 7] = {1, 2, 3, 4, 5,  6, 7, 8,  9, 10, 11,
                                       3, 1, 4, 1, 12, 9, 2, 14, 5, 3};
    rs_gradients_settings settings;
    rs_gradients_settings_init(&settings, sizeof settings);
    settings.run.ids = ids;
    settings.run.ids_samples = 3;
    settings.run.ids_length = 7;
    settings.precision = precision;
    settings.loss = loss;
    return settings;
}

static double loss_of(rs_session *session, const rs_gradients_settings *settings,
                      gradients_told *all)
{
    rs_error err;
    double loss;
    if (rs_session_gradients(&loss, session, settings, hear, all, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    return loss;
}

static int64_t count_of(const rs_tensor_data *t)
{
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++)
        n *= t->shape[k];
    return n;
}

/* Moves every number by about a ten-thousandth of its tensor's size; *moved [.., count] what came of
 * it in float32. */
static void move(const held *h, double **moved, double sign)
{
    rs_random random = rs_random_new(3, 3);
    for (size_t t = 0; t < h->n; t++) {
        float *values = (float *)(void *)h->copies[t];
        const float *from = (const float *)(const void *)h->checkpoint->tensors[t].data;
        for (int64_t i = 0; i < count_of(&h->tensors[t]); i++) {
            values[i] = (float)((double)from[i] + sign * 3e-5 * rs_random_normal(&random));
            moved[t][i] += sign * ((double)values[i] - (double)from[i]);
        }
    }
}

static void one_model(const char *name, rs_grad_loss kind)
{
    held h = hold(name);
    rs_session *session = open_session(2, &h);
    gradients_told all = {.model = &h}, unused = {.model = &h, .limit = 0};
    double *moved[TENSORS];
    assert_true(h.n <= TENSORS);
    for (size_t t = 0; t < h.n; t++)
        moved[t] = calloc((size_t)count_of(&h.tensors[t]) + 1, sizeof(double));
    rs_gradients_settings settings = asked(RS_PRECISION_F64, kind);
    loss_of(session, &settings, &all);
    double losses[2], sum = 0, size = 0;
    for (int k = 0; k < 2; k++) {
        move(&h, moved, k ? 1 : -1);
        losses[k] = loss_of(session, &settings, &unused);
        for (size_t t = 0; t < h.n; t++)
            free(unused.of[t]), unused.of[t] = NULL;
    }
    for (size_t t = 0; t < h.n; t++)
        for (int64_t i = 0; all.of[t] && i < count_of(&h.tensors[t]); i++) {
            sum += all.of[t][i] * moved[t][i];
            size += all.of[t][i] * all.of[t][i] * moved[t][i] * moved[t][i];
        }
    if (!(fabs(losses[1] - losses[0] - sum) <= 2e-5 * (fabs(sum) + sqrt(size))))
        fail_msg("%s: the loss gains %.12g, not %.12g", name, losses[1] - losses[0], sum);
    rs_session_close(session);
    for (size_t t = 0; t < h.n; t++) {
        free(moved[t]);
        free(all.of[t]);
    }
    let_go(&h);
}

static void nothing_is_forgotten(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        rs_grad_loss loss;
    } models[] = {
        {"forward/gpt2", RS_GRAD_LOSS_LM},       {"forward/llama", RS_GRAD_LOSS_LM},
        {"forward/gpt_neox", RS_GRAD_LOSS_LM},   {"forward/gemma2", RS_GRAD_LOSS_LM},
        {"forward/albert", RS_GRAD_LOSS_RANDOM}, {"forward/bert", RS_GRAD_LOSS_NORM2},
        {"forward/xlnet", RS_GRAD_LOSS_RANDOM},  {"forward/falcon", RS_GRAD_LOSS_LM},
        {"forward/phi3", RS_GRAD_LOSS_LM},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        one_model(models[i].name, models[i].loss);
}

static void batches_add_up(void **state)
{
    (void)state;
    held h = hold("forward/llama");
    rs_session *session = open_session(1, &h);
    gradients_told all[2] = {{.model = &h}, {.model = &h}};
    double losses[2];
    for (int k = 0; k < 2; k++) {
        rs_gradients_settings settings = asked(RS_PRECISION_F64, RS_GRAD_LOSS_LM);
        settings.run.batch = k ? 1 : 3;
        settings.recompute = k;
        losses[k] = loss_of(session, &settings, &all[k]);
    }
    assert_true(fabs(losses[1] - losses[0]) <= 1e-13 * fabs(losses[0]));
    for (size_t t = 0; t < h.n; t++) {
        double norm = 0, off = 0;
        assert_true(!all[0].of[t] == !all[1].of[t]);
        for (int64_t i = 0; all[0].of[t] && i < count_of(&h.tensors[t]); i++) {
            norm += all[0].of[t][i] * all[0].of[t][i];
            off += pow(all[0].of[t][i] - all[1].of[t][i], 2);
        }
        assert_true(sqrt(off) <= 1e-12 * sqrt(norm));
        free(all[0].of[t]);
        free(all[1].of[t]);
    }
    rs_session_close(session);
    let_go(&h);
}

static void refuses(void **state)
{
    (void)state;
    held h = hold("forward/bert");
    rs_session *session = open_session(1, &h);
    gradients_told all = {.model = &h, .limit = 3};
    rs_gradients_settings settings = asked(RS_PRECISION_F32, RS_GRAD_LOSS_RANDOM);
    rs_error err;
    assert_int_equal(rs_session_gradients(NULL, session, &settings, NULL, NULL, &err), RS_E_USAGE);
    assert_int_equal(rs_session_gradients(NULL, session, NULL, hear, &all, &err), RS_E_USAGE);
    assert_int_equal(rs_session_gradients(NULL, session, &settings, hear, &all, &err),
                     RS_E_INTERRUPTED);
    assert_int_equal(all.told, 3);
    settings.loss = RS_GRAD_LOSS_LM;
    assert_int_equal(rs_session_gradients(NULL, session, &settings, hear, &all, &err),
                     RS_E_UNSUPPORTED);
    settings = asked(RS_PRECISION_RESIDUAL, RS_GRAD_LOSS_RANDOM);
    assert_int_equal(rs_session_gradients(NULL, session, &settings, hear, &all, &err),
                     RS_E_UNSUPPORTED);
    settings = asked(RS_PRECISION_F32, (rs_grad_loss)99);
    assert_int_equal(rs_session_gradients(NULL, session, &settings, hear, &all, &err),
                     RS_E_BAD_OPTION);
    for (size_t t = 0; t < h.n; t++)
        free(all.of[t]);
    rs_session_close(session);
    let_go(&h);
}

/* What a call will hold is compared with what it may take before anything runs. */
static void memory_is_foreseen(void **state)
{
    (void)state;
    held h = hold("forward/gpt2");
    rs_session_settings session_settings;
    rs_session *session;
    rs_error err;
    gradients_told all = {.model = &h};
    rs_gradients_settings settings = asked(RS_PRECISION_F32, RS_GRAD_LOSS_LM);
    rs_session_settings_init(&session_settings, sizeof session_settings);
    session_settings.call.memory = 40000;
    assert_int_equal(rs_session_open(&session, &session_settings, &err), RS_OK);
    assert_int_equal(rs_session_tensors(session, h.tensors, h.n, h.config, NULL, &err), RS_OK);
    assert_int_equal(rs_session_gradients(NULL, session, &settings, hear, &all, &err),
                     RS_E_MEMORY_LIMIT);
    assert_non_null(strstr(err.what, "gradients"));
    assert_int_equal(all.told, 0);
    rs_session_close(session);
    let_go(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_forgotten),
        cmocka_unit_test(batches_add_up),
        cmocka_unit_test(refuses),
        cmocka_unit_test(memory_is_foreseen),
    };
    return cmocka_run_group_tests_name("session_gradients", tests, NULL, NULL);
}
