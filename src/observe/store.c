/* store.c: activations as safetensors. Samples are rows of a [samples, n, ...] tensor; what
 * lies behind a shorter sample's end stays zero, and attention_mask tells. */
#include "observe/store.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 48 };

/* ---- plans ---- */

typedef struct plans {
    rs_st_plan *items;
    char (*names)[NAME_SIZE];
    size_t n, capacity;
} plans;

static rs_status open_plans(plans *p, size_t capacity, rs_error *err)
{
    *p = (plans){.items = rs_calloc(capacity, sizeof *p->items),
                 .names = rs_calloc(capacity, sizeof *p->names),
                 .capacity = capacity};
    return p->items && p->names ? RS_OK
                                : rs_fail_memory(err, "tensors", capacity * sizeof *p->names);
}

static void close_plans(plans *p)
{
    rs_free(p->items);
    rs_free(p->names);
}

/* Adds a tensor; the sizes end with the first 0. Gives its number. */
static int plan(plans *p, rs_dtype dtype, int64_t a, int64_t b, int64_t c)
{
    rs_st_plan *item = &p->items[p->n];
    *item = (rs_st_plan){.name = p->names[p->n], .dtype = dtype, .shape = {a, b, c}};
    item->rank = c ? 3 : b ? 2 : 1;
    return (int)p->n++;
}

static void plan_mask(plans *p, rs_store *store)
{
    store->mask = -1;
    if (store->inputs->longest * store->inputs->samples ==
        store->inputs->begin[store->inputs->samples])
        return;
    snprintf(p->names[p->n], NAME_SIZE, "attention_mask");
    store->mask = plan(p, RS_I64, store->inputs->samples, store->n, 0);
}

static rs_dtype type_of(const rs_store *store)
{
    return store->precision == RS_PRECISION_F32 ? RS_F32 : RS_F64;
}

static void plan_output(plans *p, rs_store *store)
{
    int64_t samples = store->inputs->samples;
    plan_mask(p, store);
    store->hidden = store->logits = store->sentence = store->first_state = store->first_map = -1;
    snprintf(p->names[p->n], NAME_SIZE, "last_hidden_state");
    store->hidden = plan(p, type_of(store), samples, store->n, store->d);
    if (store->network->head.decoder.weight) {
        snprintf(p->names[p->n], NAME_SIZE, "logits");
        store->logits = plan(p, type_of(store), samples, store->n, store->vocabulary);
    }
    if (store->network->pooling != RS_POOLING_NONE) {
        snprintf(p->names[p->n], NAME_SIZE, "sentence_embedding");
        store->sentence = plan(p, type_of(store), samples, store->d, 0);
    }
}

/* Tensors of a state: its plain numbers; in the residual precision also what they are made of. */
enum { PLAIN, BASE, RESIDUAL, EXPONENT, SCALE, PARTS };

static int parts_of(const rs_store *store)
{
    return store->precision == RS_PRECISION_RESIDUAL ? PARTS : 1;
}

static void plan_state(plans *p, const rs_store *store, int32_t layer, int site)
{
    static const char *const endings[PARTS] = {"", ".base", ".residual", ".exponent", ".scale"};
    int64_t samples = store->inputs->samples;
    for (int part = 0; part < parts_of(store); part++) {
        snprintf(p->names[p->n], NAME_SIZE, "layer.%d.%s%s", (int)layer,
                 site ? "block_out" : "mixer_out", endings[part]);
        if (part == BASE)
            plan(p, RS_F64, samples, store->d, 0);
        else if (part == EXPONENT || part == SCALE)
            plan(p, RS_I64, samples, 0, 0);
        else
            plan(p, type_of(store), samples, store->n, store->d);
    }
}

/* A layer that is an MLP alone has no mixer's output. */
static bool has_mixed(const rs_network *network, int32_t layer)
{
    return layer > 0 && rs_layer_mixer(&network->layers[layer - 1]);
}

/* The first tensor of a state. */
static int place_of(const rs_store *store, int32_t layer, bool mixed)
{
    int states = layer;
    for (int32_t l = 1; l <= layer; l++)
        states += has_mixed(store->network, l);
    return store->first_state + parts_of(store) * (states - mixed);
}

static void plan_taps(plans *p, rs_store *store)
{
    int64_t samples = store->inputs->samples;
    plan_mask(p, store);
    store->hidden = store->logits = store->sentence = store->first_map = -1;
    store->first_state = (int)p->n;
    for (int32_t l = 0; l <= store->network->n_layers; l++)
        for (int site = !has_mixed(store->network, l); site < 2; site++)
            plan_state(p, store, l, site);
    store->first_map = (int)p->n;
    for (size_t m = 0; m < store->n_maps; m++) {
        snprintf(p->names[p->n], NAME_SIZE, "layer.%d.attention.%d", (int)store->maps[m].layer + 1,
                 (int)store->maps[m].head);
        plan(p, type_of(store), samples, store->n, store->n);
    }
    for (size_t m = 0; m < store->n_maps; m++) {
        const rs_branch *mixer = rs_layer_mixer(&store->network->layers[store->maps[m].layer]);
        store->skips[m] = -1;
        if (!mixer || rs_branch_attention(mixer)) continue;
        snprintf(p->names[p->n], NAME_SIZE, "layer.%d.skip.%d", (int)store->maps[m].layer + 1,
                 (int)store->maps[m].head);
        store->skips[m] = plan(p, type_of(store), samples, 0, 0);
    }
}

/* ---- writing ---- */

/* Rows [first_row, first_row + view->rows) of the batch into tensor number `tensor`. */
static rs_status put_rows(rs_store *store, int tensor, int64_t first_row, const rs_state_view *view,
                          rs_error *err)
{
    const rs_batch *batch = view->batch;
    size_t size = rs_precision_size(view->precision);
    for (int32_t s = 0; s < batch->samples; s++) {
        int64_t begin = batch->begin[s], end = batch->begin[s + 1];
        int64_t from = begin > first_row ? begin : first_row;
        int64_t to = end < first_row + view->rows ? end : first_row + view->rows;
        if (from >= to) continue;
        const char *data =
            (const char *)view->data + (size_t)((from - first_row) * view->cols) * size;
        int64_t at = ((store->first + s) * store->n + from - begin) * view->cols;
        RS_TRY(rs_st_writer_put(store->writer, (size_t)tensor, at, data, (to - from) * view->cols,
                                err));
    }
    return RS_OK;
}

static double entry(const rs_state_view *view, int64_t i)
{
    return view->precision == RS_PRECISION_F32 ? (double)((const float *)view->data)[i]
                                               : ((const double *)view->data)[i];
}

/* pooled [d]: one vector for the rows [begin, end), as sentence-transformers' modules say. */
static void pool(rs_store *store, const rs_state_view *view, int64_t begin, int64_t end)
{
    rs_pooling pooling = store->network->pooling;
    if (pooling == RS_POOLING_CLS) end = begin + 1;
    for (int64_t j = 0; j < store->d; j++) {
        double value = entry(view, begin * view->cols + j);
        for (int64_t i = begin + 1; i < end; i++) {
            double next = entry(view, i * view->cols + j);
            value = pooling == RS_POOLING_MAX ? fmax(value, next) : value + next;
        }
        store->pooled[j] = pooling == RS_POOLING_MEAN ? value / (double)(end - begin) : value;
    }
}

static void normalise_vector(double *vector, int64_t d)
{
    double sum = 0;
    for (int64_t j = 0; j < d; j++)
        sum += vector[j] * vector[j];
    double scale = 1 / fmax(sqrt(sum), 1e-12); /* torch's normalize never divides by less */
    for (int64_t j = 0; j < d; j++)
        vector[j] *= scale;
}

static rs_status put_sentences(rs_store *store, const rs_state_view *view, rs_error *err)
{
    const rs_batch *batch = view->batch;
    for (int32_t s = 0; s < batch->samples; s++) {
        if (batch->begin[s] == batch->begin[s + 1]) continue;
        pool(store, view, batch->begin[s], batch->begin[s + 1]);
        if (store->network->normalize) normalise_vector(store->pooled, store->d);
        for (int64_t j = 0; j < store->d && view->precision == RS_PRECISION_F32; j++)
            ((float *)store->row)[j] = (float)store->pooled[j];
        const void *row = view->precision == RS_PRECISION_F32 ? store->row : store->pooled;
        RS_TRY(rs_st_writer_put(store->writer, (size_t)store->sentence,
                                (store->first + s) * store->d, row, store->d, err));
    }
    return RS_OK;
}

static rs_status put_parts(rs_store *store, int tensor, const rs_state_view *view, rs_error *err)
{
    int64_t samples = view->batch->samples;
    rs_state_view residual = *view;
    residual.data = view->residual;
    RS_TRY(put_rows(store, tensor + RESIDUAL, 0, &residual, err));
    RS_TRY(rs_st_writer_put(store->writer, (size_t)(tensor + BASE), store->first * store->d,
                            view->base, samples * store->d, err));
    RS_TRY(rs_st_writer_put(store->writer, (size_t)(tensor + EXPONENT), store->first,
                            view->exponent, samples, err));
    return rs_st_writer_put(store->writer, (size_t)(tensor + SCALE), store->first, view->scale,
                            samples, err);
}

static rs_status take_state(void *user, rs_site site, int32_t layer, const rs_state_view *view,
                            rs_error *err)
{
    rs_store *store = user;
    if (site == RS_SITE_FINAL) {
        RS_TRY(put_rows(store, store->hidden, 0, view, err));
        return store->sentence >= 0 ? put_sentences(store, view, err) : RS_OK;
    }
    int tensor = place_of(store, layer, site == RS_SITE_MIXER_OUT);
    RS_TRY(put_rows(store, tensor, 0, view, err));
    return parts_of(store) > 1 ? put_parts(store, tensor, view, err) : RS_OK;
}

static rs_status take_logits(void *user, int64_t first_row, const rs_state_view *view,
                             rs_error *err)
{
    rs_store *store = user;
    return put_rows(store, store->logits, first_row, view, err);
}

static rs_status begin_batch(void *user, const rs_input_batch *batch, rs_error *err)
{
    rs_store *store = user;
    (void)err;
    store->first = batch->first;
    return RS_OK;
}

static int find_map(const rs_store *store, int32_t layer, int32_t head)
{
    for (size_t m = 0; m < store->n_maps; m++)
        if (store->maps[m].layer == layer && store->maps[m].head == head) return (int)m;
    return -1;
}

static bool wants(void *user, int32_t layer, int32_t branch, int32_t head)
{
    const rs_store *store = user;
    return rs_is_mixer(store->network, layer, branch) && find_map(store, layer, head) >= 0;
}

/* From several threads at once: each writes a stretch of its own. */
static rs_status take_attention(void *user, const rs_attention_view *view, rs_error *err)
{
    rs_store *store = user;
    int map = find_map(store, view->layer, view->head);
    if (map < 0 || !rs_is_mixer(store->network, view->layer, view->branch)) return RS_OK;
    size_t size = rs_precision_size(view->precision);
    for (int64_t i = 0; i < view->n; i++)
        RS_TRY(rs_st_writer_put(store->writer, (size_t)(store->first_map + map),
                                ((store->first + view->sample) * store->n + i) * store->n,
                                (const char *)view->mixing + (size_t)(i * view->ld) * size,
                                view->keys, err));
    if (store->skips[map] < 0) return RS_OK;
    const float narrow = (float)view->skip;
    return rs_st_writer_put(store->writer, (size_t)store->skips[map], store->first + view->sample,
                            view->precision == RS_PRECISION_F32 ? (const void *)&narrow
                                                                : (const void *)&view->skip,
                            1, err);
}

/* ---- opening and closing ---- */

static rs_status write_mask(rs_store *store, rs_error *err)
{
    if (store->mask < 0) return RS_OK;
    int64_t *ones = rs_malloc((size_t)store->n, sizeof *ones);
    if (!ones) return rs_fail_memory(err, "attention_mask", (size_t)store->n * sizeof *ones);
    for (int64_t i = 0; i < store->n; i++)
        ones[i] = 1;
    rs_status status = RS_OK;
    for (int64_t s = 0; s < store->inputs->samples && status == RS_OK; s++)
        status = rs_st_writer_put(store->writer, (size_t)store->mask, s * store->n, ones,
                                  store->inputs->begin[s + 1] - store->inputs->begin[s], err);
    rs_free(ones);
    return status;
}

static rs_status new_store(rs_store **out, const rs_network *network, const rs_inputs *inputs,
                           rs_precision precision, rs_error *err)
{
    rs_store *store = rs_calloc(1, sizeof *store);
    *out = store;
    if (!store) return rs_fail_memory(err, "output", sizeof *store);
    *store = (rs_store){.network = network,
                        .inputs = inputs,
                        .precision = precision,
                        .n = inputs->longest,
                        .d = network->d_model,
                        .vocabulary = network->head.decoder.out};
    store->listener.tap.user = store;
    store->listener.begin = begin_batch;
    store->pooled = rs_malloc((size_t)store->d, sizeof *store->pooled);
    store->row = rs_malloc((size_t)store->d, sizeof(float));
    return store->pooled && store->row ? RS_OK
                                       : rs_fail_memory(err, "output", (size_t)store->d * 8);
}

static rs_status open_writer(rs_store *store, const char *path, plans *p,
                             const rs_input_files *files, rs_error *err)
{
    RS_TRY(rs_st_writer_open(&store->writer, path, p->items, p->n, files, err));
    return write_mask(store, err);
}

static rs_status finish_open(rs_store **out, rs_status status)
{
    if (status == RS_OK) return RS_OK;
    rs_store_discard(*out);
    *out = NULL;
    return status;
}

static rs_status open_output(rs_store *store, const char *path, const rs_input_files *files,
                             rs_error *err)
{
    plans p;
    rs_status status = open_plans(&p, 4, err);
    if (status == RS_OK) {
        plan_output(&p, store);
        status = open_writer(store, path, &p, files, err);
    }
    close_plans(&p);
    store->listener.tap.sites = 1u << RS_SITE_FINAL;
    store->listener.tap.state = take_state;
    if (store->logits >= 0) store->listener.tap.logits = take_logits;
    return status;
}

rs_status rs_store_open_output(rs_store **out, const char *path, const rs_network *network,
                               const rs_inputs *inputs, rs_precision precision,
                               const rs_input_files *files, rs_error *err)
{
    rs_status status = new_store(out, network, inputs, precision, err);
    if (status == RS_OK) status = open_output(*out, path, files, err);
    return finish_open(out, status);
}

static rs_status open_taps(rs_store *store, const char *path, const rs_input_files *files,
                           rs_error *err)
{
    plans p;
    rs_status status =
        open_plans(&p,
                   (size_t)parts_of(store) * (2 * (size_t)store->network->n_layers + 1) + 1 +
                       2 * store->n_maps,
                   err);
    if (status == RS_OK) {
        plan_taps(&p, store);
        status = open_writer(store, path, &p, files, err);
    }
    close_plans(&p);
    store->listener.tap.sites = 1u << RS_SITE_BLOCK_OUT | 1u << RS_SITE_MIXER_OUT;
    store->listener.tap.state = take_state;
    if (store->n_maps) {
        store->listener.tap.wants_attention = wants;
        store->listener.tap.attention = take_attention;
    }
    return status;
}

rs_status rs_store_open_taps(rs_store **out, const char *path, const rs_network *network,
                             const rs_inputs *inputs, rs_precision precision,
                             const rs_map_choice *maps, size_t n_maps, const rs_input_files *files,
                             rs_error *err)
{
    rs_status status = new_store(out, network, inputs, precision, err);
    if (status == RS_OK) {
        (*out)->maps = maps;
        (*out)->n_maps = n_maps;
        status = open_taps(*out, path, files, err);
    }
    return finish_open(out, status);
}

static void close_store(rs_store *store)
{
    rs_free(store->pooled);
    rs_free(store->row);
    rs_free(store);
}

rs_status rs_store_commit(rs_store *store, rs_error *err)
{
    if (!store) return RS_OK;
    rs_status status = rs_st_writer_commit(store->writer, err);
    close_store(store);
    return status;
}

void rs_store_discard(rs_store *store)
{
    if (!store) return;
    rs_st_writer_discard(store->writer);
    close_store(store);
}
