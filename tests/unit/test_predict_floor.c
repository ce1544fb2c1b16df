/* test_predict_floor.c: what trials tell of 1 − ρ is right down to where rounding hides it, and nothing is
 * told below; what left the doubles is not counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "predict/trials_stats.h"
#include "trials_support.h"

#include <float.h>

static const rs_context context = {.threads = 2, .seed = 5};

static rs_trials *run_text(const char *text, const rs_trials_request *request)
{
    drawn *planned;
    rs_trials *trials;
    rs_trials_request own = *request;
    own.opener = (rs_trials_opener){open_text, undraw, (void *)(uintptr_t)text};
    OK(draw_text(&planned, text, 1, &err));
    OK(rs_trials_run(&trials, planned->network, &own, &context, &err));
    undraw(NULL, planned);
    return trials;
}

/* ---- the same networks in long double, one head ---- */

enum { N = 6, D = 16, WIDE = 4 * D, TRIALS = 4 };
typedef long double wide;

static double weight[WIDE * D];

/* out [N, of] = in [N, from] Wᵀ */
static void map(wide *out, const wide *in, int of, int from, const rs_network *network, int32_t l,
                int32_t b, const char *name, int32_t trial)
{
    OK(rs_trials_weight(weight, network, l, b, name, context.seed, trial, &err));
    for (int i = 0; i < N; i++)
        for (int o = 0; o < of; o++) {
            wide sum = 0;
            for (int c = 0; c < from; c++)
                sum += (wide)weight[o * from + c] * in[i * from + c];
            out[i * of + o] = sum;
        }
}

static void attend(wide *out, const wide *x, const rs_network *network, int32_t l, int32_t trial)
{
    wide q[N * D], k[N * D], v[N * D], mixed[N * D];
    map(q, x, D, D, network, l, 0, "q", trial);
    map(k, x, D, D, network, l, 0, "k", trial);
    map(v, x, D, D, network, l, 0, "v", trial);
    for (int i = 0; i < N; i++) {
        wide p[N], most = -LDBL_MAX, sum = 0;
        for (int j = 0; j < N; j++) {
            p[j] = 0;
            for (int c = 0; c < D; c++)
                p[j] += q[i * D + c] * k[j * D + c] / sqrtl(D);
            most = fmaxl(most, p[j]);
        }
        for (int j = 0; j < N; j++)
            sum += p[j] = expl(p[j] - most);
        for (int c = 0; c < D; c++) {
            mixed[i * D + c] = 0;
            for (int j = 0; j < N; j++)
                mixed[i * D + c] += p[j] / sum * v[j * D + c];
        }
    }
    map(out, mixed, D, D, network, l, 0, "o", trial);
}

static void feed(wide *out, const wide *x, const rs_network *network, int32_t l, int32_t trial)
{
    wide h[N * WIDE];
    map(h, x, WIDE, D, network, l, 1, "up", trial);
    for (int i = 0; i < N * WIDE; i++)
        h[i] = fmaxl(h[i], 0);
    map(out, h, D, WIDE, network, l, 1, "down", trial);
}

static void norm(wide *x)
{
    for (int i = 0; i < N; i++) {
        wide mean = 0, square = 0;
        for (int c = 0; c < D; c++)
            mean += x[i * D + c] / D;
        for (int c = 0; c < D; c++)
            square += (x[i * D + c] - mean) * (x[i * D + c] - mean) / D;
        for (int c = 0; c < D; c++)
            x[i * D + c] = (x[i * D + c] - mean) / sqrtl(square + 1e-5L);
    }
}

static double apart_of(const wide *x)
{
    wide residual = 0, square = 0;
    for (int c = 0; c < D; c++) {
        wide mean = 0;
        for (int i = 0; i < N; i++)
            mean += x[i * D + c] / N;
        for (int i = 0; i < N; i++) {
            residual += (x[i * D + c] - mean) * (x[i * D + c] - mean);
            square += x[i * D + c] * x[i * D + c];
        }
    }
    return (double)(residual / square * N / (N - 1));
}

/* 1 − ρ of all states: attention alone without a skip, or post-norm with an MLP. */
static void run_wide(double *apart, const rs_network *network, bool post,
                     const rs_theory_input *input, int32_t trial)
{
    double states[N * D];
    wide x[N * D], y[N * D];
    OK(rs_trials_input(states, D, input, context.seed, trial, &err));
    for (int i = 0; i < N * D; i++)
        x[i] = states[i];
    apart[0] = apart_of(x);
    for (int32_t l = 0; l < network->n_layers; l++) {
        attend(y, x, network, l, trial);
        for (int i = 0; i < N * D; i++)
            x[i] = (post ? x[i] : 0) + y[i];
        if (post) {
            norm(x);
            feed(y, x, network, l, trial);
            for (int i = 0; i < N * D; i++)
                x[i] += y[i];
            norm(x);
        }
        apart[l + 1] = apart_of(x);
    }
}

/* What is shown is right, what is not is rounding; and little more is hidden than must be. */
static void shown_is_right(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"depth\": 5, \"d_model\": 16, \"heads\": 1, \"seq_len\": 6, \"norm\": \"none\", "
        "\"mlp\": "
        "\"none\", \"skip_mixer\": 0}",
        "{\"depth\": 110, \"d_model\": 16, \"heads\": 1, \"seq_len\": 6, \"norm\": \"post\", "
        "\"mlp\": \"relu\"}"};
    if (LDBL_MANT_DIG < 64) skip();
    for (int post = 0; post < 2; post++) {
        const rs_trials_request request = request_of(N, D, 0, TRIALS);
        rs_trials *trials = run_text(texts[post], &request);
        drawn *planned;
        double apart[111], worst = 0;
        int hidden = 0;
        OK(draw_text(&planned, texts[post], 1, &err));
        assert_true(trials->batched);
        for (int32_t t = 0; t < TRIALS; t++) {
            run_wide(apart, planned->network, post, &request.input, t);
            int32_t lost = rs_trials_lost_from(trials, t, N);
            for (int32_t l = 0; l <= trials->n_layers; l++) {
                double by = rs_trials_number(trials, t, l, RS_TRIALS_APART) / apart[l] - 1;
                if (l < lost) worst = fmax(worst, fabs(by));
                if (l >= lost) assert_true(apart[l] < 1e-25);
            }
            hidden += lost <= trials->n_layers;
        }
        print_message("%s: 1 - rho is wrong by %.2g at most where it is shown\n",
                      post ? "post-norm" : "attention alone", worst);
        assert_true(worst < 0.1 && hidden == TRIALS);
        undraw(NULL, planned);
        rs_trials_free(trials);
    }
}

static void hidden_has_no_number(void **state)
{
    (void)state;
    const rs_trials_request request = request_of(N, D, 0, TRIALS);
    rs_trials *trials = run_text("{\"depth\": 5, \"d_model\": 16, \"heads\": 1, \"seq_len\": 6, "
                                 "\"norm\": \"none\", \"mlp\": \"none\", \"skip_mixer\": 0}",
                                 &request);
    const rs_trials_row *row = &trials->rows[4];
    const rs_trials_stat *of = row->of;
    assert_int_equal(row->lost, TRIALS);
    assert_true(row->most > 0 && row->most < 1e-28 && row->rho == 1);
    assert_true(isnan(row->apart) && isnan(row->rho_se));
    assert_true(isnan(of[RS_TRIALS_APART].log_mean) && isnan(of[RS_TRIALS_APART].low));
    assert_true(isnan(of[RS_TRIALS_QUERY].mean) && isnan(of[RS_TRIALS_KEY].log_mean));
    assert_true(isnan(of[RS_TRIALS_QUERY_VALUE].low) && isnan(of[RS_TRIALS_LOGIT].mean));
    assert_true(isnan(rs_trials_pull_apart(trials, 0, 4)));
    assert_true(of[RS_TRIALS_VALUE].mean > 0 && of[RS_TRIALS_STATE].mean > 0);
    assert_true(of[RS_TRIALS_SQUARE].mean > 0 &&
                fabs(of[RS_TRIALS_CONCENTRATION].mean * N - 1) < 1e-9);
    rs_trials_free(trials);
}

/* At ρ = 1 nothing is hidden: tokens that enter are equal, whatever their mean rounds to. */
static void equal_tokens_are_equal(void **state)
{
    (void)state;
    const rs_trials_request request = request_of(7, D, 1, TRIALS);
    rs_trials *trials =
        run_text("{\"depth\": 2, \"d_model\": 16, \"heads\": 1, \"seq_len\": 7}", &request);
    assert_true(trials->rows[0].lost == 0 && trials->rows[0].apart == 0);
    rs_trials_free(trials);
}

/* ---- what left the doubles ---- */

static void left_is_not_counted(void **state)
{
    (void)state;
    const rs_trials_request request = request_of(N, D, 0, TRIALS);
    rs_trials *trials = run_text("{\"depth\": 4, \"d_model\": 16, \"heads\": 1, \"seq_len\": 6, "
                                 "\"branch_mixer\": [1, 1e200, 1, 1]}",
                                 &request);
    assert_int_equal(trials->left_forward, TRIALS);
    assert_int_equal(trials->left_layer, 2);
    for (int32_t l = 0; l <= 4; l++) {
        const rs_trials_stat *of = trials->rows[l].of;
        assert_int_equal(of[RS_TRIALS_SQUARE].n, l < 2 ? TRIALS : 0);
        assert_int_equal(of[RS_TRIALS_CONCENTRATION].n, l < 2 ? TRIALS : 0);
        assert_int_equal(of[RS_TRIALS_QUERY].n, 0);
        assert_int_equal(of[RS_TRIALS_STATE].n, 0);
    }
    rs_trials_free(trials);
}

static void left_below_is_not_counted(void **state)
{
    (void)state;
    static const bool none[5] = {false}, all[5] = {true, true, true, true, true};
    const rs_trials_request request = request_of(N, D, 0, TRIALS);
    rs_trials *trials = run_text("{\"depth\": 4, \"d_model\": 16, \"heads\": 1, \"seq_len\": 6, "
                                 "\"norm\": \"none\", \"mlp\": \"none\", \"skip_mixer\": 0, "
                                 "\"branch_mixer\": 1e-100}",
                                 &request);
    assert_int_equal(rs_trials_vanishing(trials), 2);
    OK(rs_trials_leave_below(trials, all, N, &err));
    assert_true(!trials->left_below && trials->left_forward == 0);
    OK(rs_trials_leave_below(trials, none, N, &err));
    assert_true(trials->left_below && trials->left_forward == TRIALS);
    assert_int_equal(trials->left_layer, 2);
    assert_int_equal(trials->rows[1].of[RS_TRIALS_SQUARE].n, TRIALS);
    assert_int_equal(trials->rows[2].of[RS_TRIALS_SQUARE].n, 0);
    assert_true(isnan(trials->rows[0].of[RS_TRIALS_QUERY].mean));
    rs_trials_free(trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shown_is_right),
        cmocka_unit_test(hidden_has_no_number),
        cmocka_unit_test(equal_tokens_are_equal),
        cmocka_unit_test(left_is_not_counted),
        cmocka_unit_test(left_below_is_not_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
