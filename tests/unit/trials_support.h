/* trials_support.h: networks for trials, and the engine on the weights of batched trials. Include behind
 * cmocka.h. */
#ifndef RS_TEST_TRIALS_SUPPORT_H
#define RS_TEST_TRIALS_SUPPORT_H

#include "base/memory.h"
#include "network/arch.h"
#include "network/op_traits.h"
#include "predict/trials.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rs_error err;

#define OK(expression)                                                                             \
    do {                                                                                           \
        if ((expression) != RS_OK) fail_msg("%s: %s", err.where, err.what);                        \
    } while (0)

typedef struct drawn {
    rs_init *init;
    rs_network *network;
} drawn;

static inline void undraw(void *user, void *what)
{
    (void)user;
    drawn *d = what;
    if (!d) return;
    rs_network_close(d->network);
    rs_init_close(d->init);
    rs_free(d);
}

static inline rs_status draw_text(drawn **out, const char *text, uint64_t seed, rs_error *problem)
{
    json_error_t why;
    drawn *d = *out = rs_calloc(1, sizeof *d);
    if (!d) return rs_fail_memory(problem, "a test", sizeof *d);
    int64_t failures = rs_memory_failures();
    json_t *json = json_loads(text, 0, &why);
    rs_status status = rs_memory_check(failures, "a test", problem);
    if (status == RS_OK && !json)
        status = rs_fail(problem, RS_E_INTERNAL, "a test", NULL, "%s: %s", text, why.text);
    if (status == RS_OK) status = rs_init_open(&d->init, NULL, seed, problem);
    if (status == RS_OK)
        status = rs_network_from_arch(&d->network, json, "ARCH.json", d->init, problem);
    json_decref(json);
    if (status == RS_OK) return RS_OK;
    undraw(NULL, d);
    *out = NULL;
    return status;
}

/* The engine draws by itself. user: the text. */
static inline rs_status open_text(void *user, const rs_network **network, void **what,
                                  int32_t trial, uint64_t seed, rs_error *problem)
{
    drawn *d;
    (void)trial;
    RS_TRY(draw_text(&d, user, seed, problem));
    *network = d->network;
    *what = d;
    return RS_OK;
}

/* ---- the same weights ---- */

typedef struct same_weights {
    const char *text;
    const rs_network *planned; /* NULL: that of the text */
    uint64_t seed;
} same_weights;

static inline rs_status give_map(rs_dense *map, drawn *d, const same_weights *same, int32_t l,
                                 int32_t b, const char *name, int32_t trial, rs_error *problem)
{
    rs_arena *arena = d->network->arena;
    size_t count = (size_t)(map->out * map->in);
    rs_tensor *tensor = rs_arena_alloc(arena, 1, sizeof *tensor);
    double *w = rs_arena_alloc(arena, count, sizeof *w);
    if (!tensor || !w) return rs_fail_memory(problem, "a test", count);
    const rs_network *planned = same->planned ? same->planned : d->network;
    RS_TRY(rs_trials_weight(w, planned, l, b, name, same->seed, trial, problem));
    *tensor = *map->weight;
    tensor->dtype = RS_F64;
    tensor->data = (const uint8_t *)w;
    tensor->bytes = (uint64_t)(count * sizeof *w);
    map->weight = tensor;
    return RS_OK;
}

static inline rs_status open_same(void *user, const rs_network **network, void **what,
                                  int32_t trial, uint64_t seed, rs_error *problem)
{
    const same_weights *same = user;
    drawn *d, *plan;
    RS_TRY(draw_text(&d, same->text, seed, problem));
    RS_TRY(draw_text(&plan, same->text, seed, problem));
    same_weights own = *same;
    if (!own.planned) own.planned = plan->network;
    rs_status status = RS_OK;
    for (int32_t l = 0; l < d->network->n_layers; l++)
        for (int32_t b = 0; b < d->network->layers[l].n_branches; b++) {
            rs_branch *branch = &d->network->layers[l].branches[b];
            const rs_weight_list *list = &rs_branch_traits(branch)->weights;
            for (size_t i = 0; i < list->n && status == RS_OK; i++) {
                rs_dense *map = rs_weight_map_to_fill(&list->rows[i], branch);
                if (map && map->weight)
                    status = give_map(map, d, &own, l, b, list->rows[i].name, trial, problem);
            }
        }
    undraw(NULL, plan);
    *network = d->network;
    *what = d;
    return status;
}

/* ---- comparing ---- */

static inline rs_trials_request request_of(int64_t n, double norm2, double rho, int32_t trials)
{
    return (rs_trials_request){.input = {n, norm2, rho}, .trials = trials, .laws = true};
}

static inline bool alike(double a, double b, double relative, double floor)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return fabs(a - b) <= relative * fmax(fabs(a), fabs(b)) + floor;
}

static const char *const quantity_names[RS_TRIALS_QUANTITIES] = {
    "F2", "C",  "residual", "relative", "apart", "cosine", "1-cosine", "keys",  "logits", "gQ",
    "gK", "gV", "gO",       "gUp",      "gGate", "gDown",  "gQ/gV",    "gK/gV", "dX"};

/* Every number of both; what is small beside its layer's largest of the kind is rounding. */
static inline void assert_same_numbers(const rs_trials *a, const rs_trials *b, double relative,
                                       const char *what)
{
    assert_int_equal(a->trials, b->trials);
    assert_int_equal(a->n_layers, b->n_layers);
    /* P − C of the first token under a mask is 0 but for rounding, which the norm behind it multiplies by
     * 300, and so it comes back */
    bool cancels = strstr(what, "\"centred\"") || strstr(what, "\"shaped\"");
    double within = cancels && strstr(what, "\"sandwich\"") ? 1e-8 : relative;
    for (int32_t t = 0; t < a->trials; t++)
        for (int32_t l = 0; l <= a->n_layers; l++)
            for (int q = 0; q < RS_TRIALS_QUANTITIES; q++) {
                double x = rs_trials_number(a, t, l, (rs_trials_quantity)q);
                double y = rs_trials_number(b, t, l, (rs_trials_quantity)q);
                /* of what is a difference: rounding of what it is one of */
                double square = rs_trials_number(a, t, l, RS_TRIALS_SQUARE);
                double value = rs_trials_number(a, t, l, RS_TRIALS_VALUE), floor = 0;
                double whole = square * rs_trials_number(a, t, l, RS_TRIALS_STATE);
                double rounding = 1e-29 * whole;
                if (q == RS_TRIALS_SUM || q == RS_TRIALS_RESIDUAL) floor = 1e-15 * square;
                if (q >= RS_TRIALS_RELATIVE && q <= RS_TRIALS_COSINE_APART) floor = 1e-14;
                if (q == RS_TRIALS_LOGIT) floor = 1e-28;
                /* an inner norm leaves differences alone of what would come back without it */
                if (q >= RS_TRIALS_QUERY && q <= RS_TRIALS_DOWN)
                    floor = rounding + 1e-15 * sqrt(fmax(x, y) * whole);
                /* its entries are differences of numbers as large as those of gV */
                if (q == RS_TRIALS_QUERY || q == RS_TRIALS_KEY)
                    floor += 1e-26 * value + 1e-15 * sqrt(fmax(x, y) * value);
                if (q == RS_TRIALS_QUERY_VALUE || q == RS_TRIALS_KEY_VALUE)
                    floor = value > 1e8 * rounding
                                ? 1e-26 + 1e8 * rounding / value + 1e-15 * sqrt(fmax(x, y))
                                : INFINITY;
                if (floor == INFINITY) continue;
                if (!alike(x, y, within, floor))
                    fail_msg("%s: trial %d layer %d %s: %.17g and %.17g (%.3g)", what, (int)t,
                             (int)l, quantity_names[q], x, y, fabs(x - y) / fmax(fabs(x), fabs(y)));
            }
}

#endif
