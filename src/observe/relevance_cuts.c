/* relevance_cuts.c: the listener of one explained row: states on the way forward; on the way back
 * sums over tokens, biases and memory, cut by cut. */
#include "observe/relevance.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

static double number_at(const void *data, rs_precision precision, int64_t i)
{
    return precision == RS_PRECISION_F32 ? (double)((const float *)data)[i]
                                         : ((const double *)data)[i];
}

/* ---- forward ---- */

static rs_status keep_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    rs_cut_gather *g = user;
    int64_t count = view->rows * view->cols;
    (void)site;
    (void)err;
    for (int64_t i = 0; i < count; i++)
        g->states[layer * count + i] = number_at(view->data, view->precision, i);
    return RS_OK;
}

/* ---- biases and memory ---- */

static bool is_bias(const rs_gradient_view *view)
{
    const rs_parameter *p = view->parameter;
    return view->form != RS_GRADIENT_ZERO && view->use != RS_USE_SUM &&
           (p->part == RS_OF_BIAS || p->role == RS_ROLE_HEAD_BIAS);
}

static rs_status hear_parameter(void *user, const rs_gradient_view *view, rs_error *err)
{
    rs_cut_gather *g = user;
    const rs_parameter *p = view->parameter;
    size_t count = (size_t)p->out;
    if (g->hears != RS_CUTS_FIRST || !is_bias(view)) return RS_OK;
    if (g->room < 2 * count) {
        double *more = rs_realloc(g->numbers, 2 * count, sizeof *more);
        if (!more) return rs_fail_memory(err, "biases", 2 * count * sizeof *more);
        g->numbers = more, g->room = 2 * count;
    }
    double *gradient = g->numbers, *bias = g->numbers + count;
    RS_TRY(rs_gradient_write(gradient, view, err));
    if (rs_parameter_read(bias, g->work->network, p, 0, p->out) != RS_OK)
        return rs_fail_memory(err, p->name, 0);
    for (size_t u = 0; u < count; u++) {
        double share = number_at(gradient, view->precision, (int64_t)u) * bias[u];
        g->so_far.biases += share;
        g->so_far.size += fabs(share);
    }
    return RS_OK;
}

static rs_status hear_memory(void *user, const double *gradient, int64_t rows, int64_t width,
                             rs_error *err)
{
    rs_cut_gather *g = user;
    (void)err;
    g->so_far.memory = g->memory_size = 0;
    for (int64_t i = 0; i < rows * width; i++) {
        double share = gradient[i] * g->one->memory[i];
        g->so_far.memory += share;
        g->memory_size += fabs(share);
    }
    return RS_OK;
}

/* ---- cuts ---- */

/* Sums over the tokens of a cut; profile [rows] becomes their relevance. */
static void sum_cut(const rs_cut_gather *g, rs_relevance_cut *cut, double *profile, int32_t layer,
                    const rs_state_view *view)
{
    const double *x = g->states + layer * view->rows * view->cols;
    double lengths = 0, squares = 0;
    *cut = g->so_far;
    cut->size += g->memory_size;
    cut->cosine = NAN;
    for (int64_t i = 0; i < view->rows; i++) {
        double square = 0;
        profile[i] = 0;
        for (int64_t at = i * view->cols; at < (i + 1) * view->cols; at++) {
            double d = number_at(view->data, view->precision, at);
            profile[i] += d * x[at];
            cut->size += fabs(d * x[at]);
            square += d * d;
        }
        cut->sum += profile[i];
        lengths += sqrt(square), squares += square;
    }
    cut->effective = lengths * lengths / squares;
}

/* Of the profile of the first row and that of the second; NaN where one is 0. */
static double cosine_of(const double *a, const double *b, int64_t n)
{
    double dot = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++)
        dot += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
    return dot / (sqrt(aa) * sqrt(bb));
}

static rs_status hear_cut(void *user, int32_t layer, const rs_state_view *view, rs_error *err)
{
    rs_cut_gather *g = user;
    int64_t n = view->rows;
    double *first = g->profiles + layer * n;
    double *profile = g->profiles + (g->work->network->n_layers + 1) * n;
    rs_relevance_cut cut;
    (void)err;
    sum_cut(g, &cut, profile, layer, view);
    if (layer == 0 && g->hears != RS_CUTS_OTHER)
        memcpy(g->own, profile, (size_t)n * sizeof *profile);
    if (g->hears == RS_CUTS_OTHER) g->cuts[layer].cosine = cosine_of(first, profile, n);
    if (g->hears != RS_CUTS_FIRST) return RS_OK;
    g->cuts[layer] = cut;
    memcpy(first, profile, (size_t)n * sizeof *profile);
    return RS_OK;
}

void rs_cut_gather_finish(rs_relevance_cut *cuts, int32_t layers, double explained)
{
    for (int32_t l = 0; l <= layers; l++) {
        double off = fabs(cuts[l].sum + cuts[l].biases + cuts[l].memory - explained);
        cuts[l].deviation = off == 0 ? 0 : off / cuts[l].size;
    }
}

/* ---- opening ---- */

/* Sums begin anew with each pass. */
static rs_status begin_pass(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_cut_gather *g = user;
    (void)batch;
    (void)err;
    g->so_far = (rs_relevance_cut){0};
    g->memory_size = 0;
    return RS_OK;
}

rs_status rs_cut_gather_open(rs_cut_gather *g, const rs_relevance_work *w, int64_t longest,
                             rs_error *err)
{
    size_t cuts = (size_t)w->network->n_layers + 1, n = (size_t)longest;
    size_t room;
    *g = (rs_cut_gather){.work = w};
    g->listener =
        (rs_listener){.tap = {.user = g, .sites = 1u << RS_SITE_BLOCK_OUT, .state = keep_state},
                      .begin = begin_pass};
    g->tap = (rs_gradient_tap){
        .user = g, .parameter = hear_parameter, .state = hear_cut, .memory = hear_memory};
    if (!rs_size_mul(cuts * n, (size_t)w->network->d_model, &room))
        return rs_fail_memory(err, "relevance", SIZE_MAX);
    g->states = rs_malloc(room + 1, sizeof *g->states);
    g->profiles = rs_malloc((cuts + 1) * n + 1, sizeof *g->profiles);
    return g->states && g->profiles ? RS_OK
                                    : rs_fail_memory(err, "relevance", room * sizeof *g->states);
}

void rs_cut_gather_close(rs_cut_gather *g)
{
    rs_free(g->states);
    rs_free(g->profiles);
    rs_free(g->numbers);
}
