/* forward_catch.h: one pass of a network caught whole, and held against matrices of a safetensors
 * file under the same names. Include behind cmocka.h. */
#ifndef RS_TEST_FORWARD_CATCH_H
#define RS_TEST_FORWARD_CATCH_H

#include "engine/forward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one pass gave: matrices under the golden's names. */
typedef struct found {
    char name[64];
    int64_t count;
    double *values;
} found;

typedef struct catch
{
    found items[256];
    size_t n;
    int64_t vocabulary;
}
catch;

enum { ROWS_MAX = 64 };

static double element(rs_precision precision, const void *data, int64_t i)
{
    return precision == RS_PRECISION_F32 ? (double)((const float *)data)[i]
                                         : ((const double *)data)[i];
}

static found *slot(catch *all, const char *name, int64_t count)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->items[i].name, name) == 0) return &all->items[i];
    assert_true(all->n < 256);
    found *item = &all->items[all->n++];
    snprintf(item->name, sizeof item->name, "%s", name);
    item->count = count;
    item->values = calloc((size_t)count, sizeof *item->values);
    assert_non_null(item->values);
    return item;
}

static rs_status on_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                          rs_error *err)
{
    (void)err;
    char name[64];
    if (site == RS_SITE_FINAL)
        snprintf(name, sizeof name, "final");
    else
        snprintf(name, sizeof name, "state.%d", (int)layer);
    found *item = slot(user, name, view->rows * view->cols);
    assert_int_equal(item->count, view->rows * view->cols);
    for (int64_t i = 0; i < item->count; i++)
        item->values[i] = element(view->precision, view->data, i);
    return RS_OK;
}

static rs_status on_logits(void *user, int64_t first, const rs_state_view *view, rs_error *err)
{
    (void)err;
    found *item = slot(user, "logits", view->batch->begin[view->batch->samples] * view->cols);
    for (int64_t i = 0; i < view->rows * view->cols; i++)
        item->values[first * view->cols + i] = element(view->precision, view->data, i);
    return RS_OK;
}

static bool wants(void *user, int32_t layer, int32_t branch, int32_t head)
{
    (void)user, (void)layer, (void)branch, (void)head;
    return true;
}

static rs_status on_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    (void)err;
    char name[64];
    if (view->sample || !view->probabilities) return RS_OK;
    snprintf(name, sizeof name, "%s.%d.%d", view->cross ? "cross" : "attention", (int)view->layer,
             (int)view->head);
    found *item = slot(user, name, view->n * view->keys);
    for (int64_t i = 0; i < view->n; i++)
        for (int64_t j = 0; j < view->keys; j++)
            item->values[i * view->keys + j] =
                element(view->precision, view->probabilities, i * view->ld + j);
    return RS_OK;
}

static inline void forget(catch *all)
{
    for (size_t i = 0; i < all->n; i++)
        free(all->items[i].values);
    all->n = 0;
}

/* ---- inputs ---- */

typedef struct input {
    rs_batch batch;
    int64_t begin[ROWS_MAX], memory_begin[ROWS_MAX];
    int32_t *ids;
    float *images;
    double *memory;
} input;

static int32_t integer(const rs_tensor *tensor, int64_t i)
{
    double value;
    rs_tensor_decode_f64(&value, tensor, i, 1);
    return (int32_t)value;
}

static void starts(int64_t *begin, const rs_tensor *lengths)
{
    for (int64_t s = 0; s < lengths->count; s++)
        begin[s + 1] = begin[s] + integer(lengths, s);
}

static inline void read_input(input *in, const rs_checkpoint *golden)
{
    const rs_tensor *lengths = rs_checkpoint_find(golden, "lengths");
    const rs_tensor *ids = rs_checkpoint_find(golden, "ids");
    const rs_tensor *images = rs_checkpoint_find(golden, "images");
    const rs_tensor *memory = rs_checkpoint_find(golden, "memory");
    *in = (input){0};
    assert_non_null(lengths);
    assert_true(lengths->count < ROWS_MAX);
    starts(in->begin, lengths);
    in->batch = (rs_batch){.samples = (int32_t)lengths->count, .begin = in->begin};
    if (ids) {
        in->ids = malloc((size_t)ids->count * sizeof *in->ids);
        assert_non_null(in->ids);
        for (int64_t i = 0; i < ids->count; i++)
            in->ids[i] = integer(ids, i);
    }
    if (images) {
        in->images = malloc((size_t)images->count * sizeof *in->images);
        assert_non_null(in->images);
        rs_tensor_decode_f32(in->images, images, 0, images->count);
    }
    if (memory) {
        in->memory = malloc((size_t)memory->count * sizeof *in->memory);
        assert_non_null(in->memory);
        rs_tensor_decode_f64(in->memory, memory, 0, memory->count);
        starts(in->memory_begin, rs_checkpoint_find(golden, "memory_lengths"));
        in->batch.memory_begin = in->memory_begin;
    }
    in->batch.ids = in->ids;
    in->batch.images = in->images;
    in->batch.memory = in->memory;
}

/* ---- comparing ---- */

static inline void run(const rs_network *network, rs_precision precision, const input *in,
                       catch *all)
{
    static const unsigned sites = 1u << RS_SITE_BLOCK_OUT | 1u << RS_SITE_FINAL;
    rs_context context = {.threads = 1};
    rs_error err = {0};
    rs_weights *weights;
    rs_runner *runner = NULL;
    rs_tap tap = {.user = all,
                  .sites = sites,
                  .state = on_state,
                  .wants_attention = wants,
                  .attention = on_attention,
                  .logits = network->head.decoder.weight ? on_logits : NULL};
    const rs_tap *taps[] = {&tap};
    if (rs_weights_open(&weights, precision, UINT64_MAX, &err) != RS_OK ||
        rs_runner_open(&runner, network, weights, &context, &err) != RS_OK ||
        rs_runner_run(runner, &in->batch, taps, 1, &err) != RS_OK)
        fail_msg("%s: %s", err.where, err.what);
    rs_runner_close(runner);
    rs_weights_close(weights);
}

static inline double distance(const found *item, const rs_tensor *reference)
{
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < item->count; i++) {
        double value;
        rs_tensor_decode_f64(&value, reference, i, 1);
        if (!isfinite(value) || !isfinite(item->values[i])) return INFINITY;
        worst = fmax(worst, fabs(item->values[i] - value));
        largest = fmax(largest, fabs(value));
    }
    return worst / largest;
}

/* Every matrix that the golden has under `kind`, held against what was found. */
static inline int compare(const char *name, const rs_checkpoint *golden, const char *kind,
                          const catch *all, double bound)
{
    int wrong = 0;
    size_t prefix = strlen(kind), compared = 0;
    for (size_t t = 0; t < golden->n_tensors; t++) {
        const rs_tensor *tensor = &golden->tensors[t];
        if (strncmp(tensor->name, kind, prefix) != 0) continue;
        const found *item = NULL;
        for (size_t i = 0; i < all->n; i++)
            if (strcmp(all->items[i].name, tensor->name + prefix) == 0) item = &all->items[i];
        if (!item || item->count != tensor->count) {
            print_error("%s: %s: found %lld numbers of %lld\n", name, tensor->name,
                        item ? (long long)item->count : -1LL, (long long)tensor->count);
            wrong++;
            continue;
        }
        double d = distance(item, tensor);
        compared++;
        if (d <= bound) continue;
        print_error("%s: %s: %.3g, over %.3g\n", name, tensor->name, d, bound);
        wrong++;
    }
    assert_true(compared >= 3);
    return wrong;
}

#endif
