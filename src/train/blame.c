/* blame.c: finds where numbers that are not finite begin. */
#include "train/learner.h"

#include <math.h>
#include <stdio.h>

static bool is_finite(const void *numbers, int64_t count, size_t size)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(size == sizeof(float) ? (double)((const float *)numbers)[i]
                                            : ((const double *)numbers)[i]))
            return false;
    return true;
}

/* What is looked for while a batch runs forward. */
typedef struct search {
    char *out;
    size_t size;
    bool found;
} search;

static rs_status look_at(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                         rs_error *err)
{
    search *at = user;
    (void)err;
    if (at->found ||
        is_finite(view->data, view->rows * view->cols, rs_precision_size(view->precision)))
        return RS_OK;
    at->found = true;
    if (site == RS_SITE_FINAL)
        snprintf(at->out, at->size, "the output of the final norm");
    else if (site == RS_SITE_READ_OUT)
        snprintf(at->out, at->size, "what is read of the states of all layers");
    else if (layer == 0)
        snprintf(at->out, at->size, "what enters the first layer");
    else
        snprintf(at->out, at->size, "the output of layer %d", (int)layer - 1);
    return RS_OK;
}

/* Weights first; then the states, forward; then the gradients, from the last layer back. */
rs_status rs_learner_blame(char *out, size_t size, rs_learner *l, rs_error *err)
{
    const rs_trained_list *list = &l->trained;
    search at = {.out = out, .size = size};
    const rs_tap tap = {.user = &at,
                        .sites =
                            1u << RS_SITE_BLOCK_OUT | 1u << RS_SITE_READ_OUT | 1u << RS_SITE_FINAL,
                        .state = look_at};
    const rs_tap *const taps[] = {&tap};
    for (int64_t i = 0; i < list->n; i++)
        if (!is_finite(list->items[i].weight, list->items[i].count, list->size)) {
            snprintf(out, size, "%s", list->names[i].name);
            return RS_OK;
        }
    RS_TRY(rs_runner_run(l->runner, &l->feed.batch, taps, 1, err));
    if (at.found) return RS_OK;
    for (int64_t i = list->n - 1; i >= 0; i--)
        if (!list->items[i].frozen &&
            !is_finite(list->items[i].gradient, list->items[i].count, list->size)) {
            snprintf(out, size, "the gradient of %s", list->names[i].name);
            return RS_OK;
        }
    snprintf(out, size, "the outputs");
    return RS_OK;
}
