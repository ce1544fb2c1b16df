/* generate.c: greedy continuation: the likeliest next token, again and again. */
#include "engine/ops.h"

#include "base/memory.h"

#include <string.h>

typedef struct choice {
    int32_t id;
    bool made;
} choice;

/* The largest logit of the last row; the first of equals. */
static rs_status choose_token(void *user, int64_t first_row, const rs_state_view *view,
                              rs_error *err)
{
    choice *c = user;
    int64_t best = 0, at = (view->rows - 1) * view->cols;
    (void)first_row;
    (void)err;
    for (int64_t i = 1; i < view->cols; i++) {
        bool more =
            view->precision == RS_PRECISION_F32
                ? ((const float *)view->data)[at + i] > ((const float *)view->data)[at + best]
                : ((const double *)view->data)[at + i] > ((const double *)view->data)[at + best];
        if (more) best = i;
    }
    c->id = (int32_t)best;
    c->made = true;
    return RS_OK;
}

static rs_status next_id(int32_t *id, rs_runner *runner, const rs_batch *text, rs_error *err)
{
    choice c = {0};
    const rs_tap tap = {.user = &c, .logits = choose_token}, *taps[] = {&tap};
    runner->head_from = text->begin[1] - 1;
    rs_status status = rs_runner_run(runner, text, taps, 1, err);
    runner->head_from = 0;
    *id = c.id;
    return status;
}

rs_status rs_generate(int32_t *out, rs_runner *runner, const rs_batch *prompt, int64_t n_new,
                      rs_error *err)
{
    int64_t n = prompt->begin[1], begin[] = {0, n};
    rs_batch text = *prompt;
    if (!runner->network->head.decoder.weight || !runner->network->head.next_token)
        return rs_fail(err, RS_E_UNSUPPORTED, runner->network->family, NULL,
                       "this model does not predict a next token");
    if (n < 1) return rs_fail(err, RS_E_INPUT_SHAPE, "prompt", NULL, "is empty");
    int32_t *ids = rs_malloc((size_t)(n + n_new), sizeof *ids);
    if (!ids) return rs_fail_memory(err, "generation", (size_t)(n + n_new) * sizeof *ids);
    memcpy(ids, prompt->ids, (size_t)n * sizeof *ids);
    text.ids = ids;
    text.begin = begin;
    rs_status status = RS_OK;
    for (int64_t i = 0; i < n_new && status == RS_OK; i++) {
        begin[1] = n + i;
        status = next_id(&ids[n + i], runner, &text, err);
        out[i] = ids[n + i];
    }
    rs_free(ids);
    return status;
}
