/* test_predict_trials.c: batched trials against the engine on the same weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "predict/trials_kernels.h"
#include "trials_support.h"

static const rs_context context = {.threads = 2, .seed = 11};

/* Runs the text both ways and compares every number. */
static void compare(const char *text, rs_trials_request request)
{
    drawn *planned;
    rs_trials *batched, *engine;
    same_weights same = {text, NULL, context.seed};
    OK(draw_text(&planned, text, 1, &err));
    const char *why = rs_trials_not_batched(planned->network, request.input.n);
    if (why) fail_msg("%s: %s", text, why);
    request.way = RS_TRIALS_BATCHED;
    OK(rs_trials_run(&batched, planned->network, &request, &context, &err));
    request.way = RS_TRIALS_ENGINE;
    request.opener = (rs_trials_opener){open_same, undraw, &same};
    OK(rs_trials_run(&engine, planned->network, &request, &context, &err));
    assert_true(batched->batched);
    assert_false(engine->batched);
    assert_same_numbers(batched, engine, 1e-10, text);
    rs_trials_free(batched);
    rs_trials_free(engine);
    undraw(NULL, planned);
}

static void test_plain_shapes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t n;
        double rho;
        bool after;
    } cases[] = {
        {"{\"depth\": 3, \"d_model\": 16, \"seq_len\": 8, \"norm\": \"post\", \"mlp\": \"relu\", "
         "\"mlp_width\": 24, \"heads\": 4}",
         8, 0.2, false},
        {"{\"depth\": 1, \"d_model\": 1, \"seq_len\": 1, \"norm\": \"none\", \"mlp\": \"linear\", "
         "\"mlp_width\": 1}",
         1, 0, false},
        {"{\"depth\": 2, \"d_model\": 24, \"heads\": 6, \"kv_heads\": 2, \"d_head\": 5, "
         "\"seq_len\": 19, \"mask\": \"causal\", \"norm\": \"pre\", \"norm_kind\": \"rmsnorm\", "
         "\"mlp\": \"swiglu\", \"mlp_width\": 31}",
         19, -0.03, true},
        {"{\"depth\": 2, \"d_model\": 12, \"heads\": 3, \"seq_len\": 20, \"mask\": \"sliding:4\", "
         "\"norm\": \"sandwich\", \"mlp\": \"gelu\", \"mlp_width\": 10}",
         20, 1, true},
        {"{\"depth\": 3, \"d_model\": 9, \"heads\": 2, \"d_head\": 3, \"seq_len\": 40, \"norm\": "
         "\"pre\", \"mlp\": \"gelu_tanh\", \"mlp_width\": 7, \"init\": {\"wo\": \"none\"}}",
         40, 0.5, false},
        {"{\"depth\": 2, \"d_model\": 8, \"seq_len\": 5, \"attention\": \"centred\", \"norm\": "
         "\"none\", \"mlp\": \"none\", \"skip_mixer\": 0.5, \"branch_mixer\": \"1/(l+1)\", "
         "\"temperature\": 0.3}",
         5, 0, false},
        {"{\"depth\": 2, \"d_model\": 8, \"seq_len\": 7, \"attention\": \"uniform\", \"mask\": "
         "\"causal\", \"norm\": \"post\", \"mlp\": \"relu\"}",
         7, 0, true},
        {"{\"depth\": 3, \"d_model\": 10, \"heads\": 2, \"seq_len\": 6, \"share_layers\": true, "
         "\"norm\": \"pre\", \"mlp\": \"relu\", \"branch_mlp\": [1, 0, 2], \"init\": {\"wq\": "
         "\"uniform(-0.3, 0.5)\", \"wk\": \"zero\", \"w2\": \"identity\"}}",
         6, 0.1, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rs_trials_request request = request_of(cases[i].n, 3, cases[i].rho, 3);
        request.after_final_norm = cases[i].after;
        compare(cases[i].text, request);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
