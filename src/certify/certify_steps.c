/* certify_steps.c: hears what enters the mixers whose heads were asked for, and proves on it. */
#include "certify/certify_steps.h"

#include "base/memory.h"
#include "network/op_traits.h"
#include "observe/store.h"

#include <omp.h>
#include <string.h>

/* What enters one layer's mixer. */
typedef struct entering {
    double *x; /* [n, d]; NULL: it was not told */
} entering;

struct rs_certify_steps {
    rs_listener listener;
    const rs_certify_scene *scene;
    rs_proved_head *heads; /* [n] */
    size_t n;
    entering *layers; /* [n_layers] */
    int32_t at;       /* the sample of the running batch that is kept; −1: none */
    int64_t sample;   /* its number among all; −1: no sample has tokens */
    int64_t tokens;   /* it has */
};

static bool wanted(const rs_certify_steps *s, int32_t layer)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->heads[i].layer == layer && !s->heads[i].failed) return true;
    return false;
}

/* The first sample that has tokens is in the first batch that is run. */
static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_certify_steps *s = user;
    (void)err;
    s->at = -1;
    for (int32_t i = 0; i < batch->batch.samples && s->sample < 0 && s->at < 0; i++)
        if (rs_batch_rows(batch, i) > 0) s->at = i;
    if (s->at < 0) return RS_OK;
    s->sample = batch->first + s->at;
    s->tokens = rs_batch_rows(batch, s->at);
    return RS_OK;
}

static rs_status on_branch(void *user, int32_t l, int32_t b, rs_moment moment,
                           const rs_state_view *view, rs_error *err)
{
    rs_certify_steps *s = user;
    const rs_layer *layer = &s->scene->network->layers[l];
    (void)moment;
    if (s->at < 0 || rs_layer_mixer(layer) != &layer->branches[b] || !wanted(s, l)) return RS_OK;
    size_t count = (size_t)(s->tokens * view->cols);
    double *x = rs_malloc(count, sizeof *x);
    if (!x) return rs_fail_memory(err, "proof steps", count * sizeof *x);
    memcpy(x, (const double *)view->data + view->batch->begin[s->at] * view->cols,
           count * sizeof *x);
    rs_free(s->layers[l].x);
    s->layers[l].x = x;
    return RS_OK;
}

static rs_status set_heads(rs_certify_steps *s, rs_error *err)
{
    const rs_network *network = s->scene->network;
    const rs_map_choice *choices = s->scene->options->steps;
    RS_TRY(rs_map_choices_check("--steps", choices, s->n, network, err));
    s->heads = rs_calloc(s->n, sizeof *s->heads);
    s->layers = rs_calloc((size_t)network->n_layers, sizeof *s->layers);
    if (!s->heads || !s->layers) return rs_fail_memory(err, "proof steps", 0);
    for (size_t i = 0; i < s->n; i++)
        s->heads[i] = (rs_proved_head){
            .layer = choices[i].layer,
            .head = choices[i].head,
            .failed = rs_steps_unproved(rs_layer_mixer(&network->layers[choices[i].layer]))};
    return RS_OK;
}

rs_status rs_certify_steps_open(rs_certify_steps **out, const rs_certify_scene *scene,
                                rs_error *err)
{
    rs_certify_steps *s = rs_calloc(1, sizeof *s);
    *out = s;
    if (!s) return rs_fail_memory(err, "proof steps", sizeof *s);
    s->scene = scene;
    s->n = scene->options->n_steps;
    s->at = -1;
    s->sample = -1;
    s->listener =
        (rs_listener){.tap = {.user = s, .moments = 1u << RS_MOMENT_OP_IN, .branch = on_branch},
                      .begin = begin_batch};
    return set_heads(s, err);
}

rs_listener *rs_certify_steps_listener(rs_certify_steps *s)
{
    return &s->listener;
}

void rs_certify_steps_close(rs_certify_steps *s)
{
    if (!s) return;
    for (int32_t l = 0; s->layers && l < s->scene->network->n_layers; l++)
        rs_free(s->layers[l].x);
    rs_free(s->layers);
    rs_free(s->heads);
    rs_free(s);
}

static rs_status prove_head(rs_certify_steps *s, rs_proved_head *head, rs_error *err)
{
    const double *x = s->layers[head->layer].x;
    const rs_branch *mixer = rs_layer_mixer(&s->scene->network->layers[head->layer]);
    head->tokens = s->tokens;
    if (!head->failed && !x) head->failed = "no sample has a token";
    if (head->failed) return RS_OK;
    return rs_steps_read(head, mixer, x, s->tokens, s->scene->context, err);
}

static rs_status prove_heads(rs_certify_steps *s, rs_error *err)
{
    rs_status kept = RS_OK;
    rs_error kept_error = {0};
#pragma omp parallel for num_threads(s->scene->context->threads) schedule(dynamic)
    for (size_t i = 0; i < s->n; i++) {
        rs_error error = {0};
        rs_status status = prove_head(s, &s->heads[i], &error);
        if (status != RS_OK) rs_keep_first(&kept, &kept_error, status, &error);
    }
    if (kept != RS_OK && err) *err = kept_error;
    return kept;
}

rs_status rs_certify_steps_finish(rs_result *result, rs_certify_steps *s, rs_error *err)
{
    RS_TRY(prove_heads(s, err));
    RS_TRY(rs_steps_tables(result, s->heads, s->n, s->sample, err));
    return rs_steps_findings(result, s->heads, s->n, err);
}
