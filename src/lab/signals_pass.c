/* signals_pass.c: one pass of a toy there and back, by layer. */
#include "lab/signals.h"

#include "engine/gradient.h"
#include "observe/pass.h"

#include <math.h>
#include <string.h>

static double mean_cosine(const double *x, int64_t n, int64_t d)
{
    double sum = 0; /* ‖Σ u_i‖², u_i the unit tokens */
    for (int64_t k = 0; k < d; k++) {
        double along = 0;
        for (int64_t i = 0; i < n; i++)
            along += x[i * d + k] / rs_norm_frobenius(x + i * d, 1, d);
        sum += along * along;
    }
    return (sum - (double)n) / ((double)n * (double)(n - 1));
}

static rs_status hear_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    (void)site;
    (void)err;
    rs_signal_layer *out = (rs_signal_layer *)user + layer;
    out->square = rs_sum_square(view->data, view->rows * view->cols);
    out->apart = rs_apart_square(view->data, view->rows, view->cols);
    out->cosine = mean_cosine(view->data, view->rows, view->cols);
    return RS_OK;
}

static double *place_of(rs_signal_layer *layer, const rs_parameter *parameter)
{
    if (parameter->part != RS_OF_WEIGHT) return NULL;
    const struct {
        const char *name;
        double *place;
    } places[] = {{"q", &layer->query},
                  {"k", &layer->key},
                  {"v", &layer->value},
                  {"up", &layer->up},
                  {"down", &layer->down}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(parameter->name, places[i].name) == 0) return places[i].place;
    return NULL;
}

static rs_status hear_parameter(void *user, const rs_gradient_view *view, rs_error *err)
{
    const rs_parameter *parameter = view->parameter;
    if (parameter->layer < 0 || view->use != RS_USE_ALONE) return RS_OK;
    double *place = place_of((rs_signal_layer *)user + parameter->layer, parameter);
    if (!place || view->form == RS_GRADIENT_ZERO) return RS_OK;
    return rs_gradient_squares(place, view, 1, false, err);
}

static rs_status hear_derivative(void *user, int32_t layer, const rs_state_view *view,
                                 rs_error *err)
{
    (void)err;
    ((rs_signal_layer *)user)[layer].state = rs_sum_square(view->data, view->rows * view->cols);
    return RS_OK;
}

rs_status rs_signal_pass(rs_signal_layer *layers, rs_toy *toy, const double *x, int64_t n,
                         uint64_t seed, bool at_state, rs_error *err)
{
    int64_t begin[2] = {0, n};
    const rs_inputs inputs = {.kind = "states",
                              .samples = 1,
                              .begin = begin,
                              .states = (double *)(uintptr_t)x,
                              .d_model = toy->network->d_model,
                              .longest = n,
                              .shortest = n};
    const rs_gradient_tap tap = {
        .user = layers, .parameter = hear_parameter, .state = hear_derivative};
    const rs_pass_gradient gradient = {
        .loss = {.kind = RS_LOSS_RANDOM, .weight = 1, .at_state = at_state, .seed = seed},
        .tap = &tap};
    rs_listener listener = {
        .tap = {.user = layers, .sites = 1U << RS_SITE_BLOCK_OUT, .state = hear_state}};
    rs_listener *const listeners[] = {&listener};
    const rs_pass_plan plan = {.network = toy->network,
                               .inputs = &inputs,
                               .precision = toy->precision,
                               .weights = toy->weights,
                               .capacity = 1,
                               .gradient = &gradient,
                               .phase = "draws"};
    for (int32_t l = 0; l <= toy->network->n_layers; l++)
        layers[l] = (rs_signal_layer){0};
    return rs_observe_pass(NULL, &plan, listeners, 1, &toy->context, err);
}

double rs_signal_rho(const rs_signal_layer *layer, int64_t n)
{
    double tokens = (double)n, sum = tokens * (layer->square - layer->apart); /* ‖1ᵀX‖² */
    return (sum / layer->square - 1) / (tokens - 1);
}
