/* sgd_step.c: a model in memory takes one step of gradient descent, and its loss falls.
 *     cc sgd_step.c $(pkg-config --cflags --libs rankscope) -o sgd_step */
#include <rankscope.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define P "transformer.h.0."
static const struct {
    const char *name;
    int64_t rows, cols;
} layout[] = {/* a GPT-2 of one layer, 8 wide */
              {"transformer.wte.weight", 20, 8}, {"transformer.wpe.weight", 16, 8},
              {P "ln_1.weight", 8, 0},           {P "ln_1.bias", 8, 0},
              {P "attn.c_attn.weight", 8, 24},   {P "attn.c_attn.bias", 24, 0},
              {P "attn.c_proj.weight", 8, 8},    {P "attn.c_proj.bias", 8, 0},
              {P "ln_2.weight", 8, 0},           {P "ln_2.bias", 8, 0},
              {P "mlp.c_fc.weight", 8, 32},      {P "mlp.c_fc.bias", 32, 0},
              {P "mlp.c_proj.weight", 32, 8},    {P "mlp.c_proj.bias", 8, 0},
              {"transformer.ln_f.weight", 8, 0}, {"transformer.ln_f.bias", 8, 0}};
enum { N = sizeof layout / sizeof *layout };
static float weights[N][320];
static int64_t shapes[N][2];

static rs_status step(void *rate, const rs_gradient_data *g) /* w <- w - rate dL/dw */
{
    for (int t = 0; t < N; t++)
        for (int64_t i = 0; i < g->count && strcmp(g->name, layout[t].name) == 0; i++)
            weights[t][i] -= *(float *)rate * ((const float *)g->values)[i];
    return RS_OK;
}

int main(void)
{
    const char *config = "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], "
                         "\"vocab_size\": 20, \"n_embd\": 8,"
                         " \"n_layer\": 1, \"n_head\": 2, \"n_positions\": 16}";
    rs_tensor_data tensors[N];
    for (int t = 0; t < N; t++) {
        shapes[t][0] = layout[t].rows, shapes[t][1] = layout[t].cols;
        tensors[t] = (rs_tensor_data){.name = layout[t].name,
                                      .dtype = "F32",
                                      .rank = layout[t].cols ? 2 : 1,
                                      .shape = shapes[t],
                                      .data = weights[t]};
        for (int i = 0; i < 320; i++)
            weights[t][i] = layout[t].cols ? (float)rand() / (float)RAND_MAX - 0.5f
                                           : strstr(layout[t].name, "ln_") != NULL;
    }
    rs_session *session = NULL;
    rs_error err;
    rs_gradients_settings settings;
    double before, after;
    float rate = 0.1f, none = 0;
    const int32_t ids[2 * 8] = {1, 2, 3, 4, 5, 6, 7, 8, 2, 4, 6, 8, 10, 12, 14, 16};
    rs_gradients_settings_init(&settings, sizeof settings);
    settings.run.ids = ids, settings.run.ids_samples = 2, settings.run.ids_length = 8;
    if (rs_session_open(&session, NULL, &err) ||
        rs_session_tensors(session, tensors, N, config, NULL, &err) ||
        rs_session_gradients(&before, session, &settings, step, &rate, &err) ||
        rs_session_gradients(&after, session, &settings, step, &none, &err))
        return printf("%s: %s: %s\n", rs_status_name(err.status), err.where, err.what), 1;
    printf("loss %.4f before the step, %.4f behind it\n", before, after);
    rs_session_close(session);
    return after < before ? 0 : 1;
}
