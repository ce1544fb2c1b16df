/* task.c: the table of tasks, and batches of their samples. */
#include "train/source.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

#define SETS "train", "eval", "shuffle", "batches", NULL
static const char *const symbol_fields[] = {"length", "symbols", SETS};
static const char *const memorization_fields[] = {"length", "shortest", "symbols", SETS};
static const char *const hull_fields[] = {"length", "side", "shift", SETS};
static const char *const circle_fields[] = {"radius", "angles", "lag", "shuffle", "batches", NULL};
static const char *const recall_fields[] = {"keys", "values", "pairs", "queries", SETS};
static const char *const mqar_fields[] = {"length", "symbols", "pairs", "power", "filler", SETS};
static const char *const markov_fields[] = {"length", "symbols", "deviation", "block",
                                            "copies", "hidden",  SETS};
static const char *const entry_fields[] = {"length", "width", "deviation", "map", SETS};

const rs_task_kind rs_task_kinds[] = {
    {"associative-recall",
     "the value that goes with a key, for keys in random order",
     recall_fields,
     {.keys = 16, .values = 16, .pairs = 6, .queries = 6, .eval = 1024},
     .shape = rs_recall_shape,
     .sample = rs_recall_sample},
    {"sorting",
     "the letters of a sequence in order",
     symbol_fields,
     {.length = 8, .symbols = 10, .train = 1000, .eval = 200},
     .shape = rs_sorting_shape,
     .sample = rs_sorting_sample},
    {"convex-hull",
     "which points of the plane are vertices of their convex hull",
     hull_fields,
     {.length = 10, .side = 10, .shift = 3.3, .train = 10000, .eval = 300},
     .shape = rs_hull_shape,
     .sample = rs_hull_sample},
    {"memorization",
     "a random bit for each word of a text",
     memorization_fields,
     {.length = 64, .shortest = 32, .symbols = 2000, .train = 500, .eval = 88},
     .one_set = true,
     .shape = rs_memorization_shape,
     .sample = rs_memorization_sample},
    {"circle",
     "two points of a circle, one step on",
     circle_fields,
     {.radius = 0.3, .angles = 1000},
     .one_set = true,
     .fixed = true,
     .shape = rs_circle_shape,
     .sample = rs_circle_sample},
    {"reversal",
     "the digits of a sequence backwards",
     symbol_fields,
     {.length = 20, .symbols = 10, .eval = 1000},
     .shape = rs_sorting_shape,
     .sample = rs_reversal_sample},
    {"mqar",
     "the values of several keys, each asked for at some distance",
     mqar_fields,
     {.length = 64,
      .symbols = 8192,
      .pairs = 4,
      .power = 0.01,
      .filler = true,
      .train = 100000,
      .eval = 3000},
     .shape = rs_mqar_shape,
     .sample = rs_mqar_sample},
    {"markov",
     "the next letter of a source in which it hangs on the one before",
     markov_fields,
     {.length = 32, .symbols = 32, .deviation = 1.5, .block = 8, .eval = 64},
     .shape = rs_markov_shape,
     .sample = rs_markov_sample},
    {"entrywise",
     "a function of every entry",
     entry_fields,
     {.length = 500, .width = 64, .deviation = 1, .map = RS_MAP_HEAVISIDE, .eval = 16},
     .shape = rs_entry_shape,
     .sample = rs_entry_sample},
    {0}};

const rs_task_kind *rs_task_find(const char *name)
{
    for (const rs_task_kind *kind = rs_task_kinds; kind->name; kind++)
        if (strcmp(kind->name, name) == 0) return kind;
    return NULL;
}

rs_status rs_task_refuse(const char *where, rs_error *err, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return rs_fail(err, RS_E_TASK_SCHEMA, where, NULL, "%s", text);
}

/* ---- draws ---- */

void rs_draw_distinct(int32_t *pool, int64_t n, int64_t m, rs_random *random)
{
    for (int64_t i = 0; i < n; i++)
        pool[i] = (int32_t)i;
    for (int64_t i = 0; i < m; i++) {
        int64_t j = i + rs_draw_below(random, n - i);
        int32_t other = pool[j];
        pool[j] = pool[i];
        pool[i] = other;
    }
}

rs_random rs_task_draws(const rs_train_task *task, uint64_t what, int64_t step, int64_t sample)
{
    rs_random random = rs_random_new(task->seed, what << 32 | (uint32_t)step);
    random.counter = (uint64_t)sample << 32;
    return random;
}

/* ---- opening ---- */

rs_status rs_task_check_sets(const rs_task_shape *shape, const rs_task_data *data,
                             const char *where, rs_error *err)
{
    const int64_t most = INT32_MAX;
    if (data->train < 0 || data->train > most || data->eval < 0 || data->eval > most)
        return rs_task_refuse(where, err, "the sets have from 0 to %lld samples", (long long)most);
    size_t numbers;
    if (!rs_size_mul((size_t)shape->n_tok, (size_t)(shape->d_in + shape->d_out), &numbers) ||
        numbers > INT32_MAX)
        return rs_task_refuse(where, err, "a sample of this task has too many numbers");
    return RS_OK;
}

/* The distribution function of Zipf's law or of mqar's gaps is a matter of the kind; its numbers
 * are the same for every sample. */
static rs_status make_tables(rs_train_task *task, rs_error *err)
{
    const rs_task_data *data = &task->data;
    int64_t most = data->length + 1;
    if (data->keys > most) most = data->keys;
    if (data->symbols > most) most = data->symbols;
    if (data->pairs > most) most = data->pairs;
    task->scratch = rs_malloc((size_t)(2 * most + 1), sizeof *task->scratch);
    if (!task->scratch) return rs_fail_memory(err, "a task", (size_t)most * sizeof(int32_t));
    if (task->kind->sample == rs_markov_sample) return rs_markov_tables(task, err);
    bool zipf = task->kind->sample == rs_memorization_sample;
    bool gaps = task->kind->sample == rs_mqar_sample;
    if (!zipf && !gaps) return RS_OK;
    int64_t n = zipf ? data->symbols : data->length / 2 - data->pairs;
    task->table = rs_malloc((size_t)n * (zipf ? 1 : 2), sizeof *task->table);
    if (!task->table) return rs_fail_memory(err, "a task", (size_t)n * sizeof(double));
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double weight = zipf ? 1.0 / (double)(i + 1) : pow((double)(i + 1), data->power - 1);
        sum += weight;
        task->table[i] = zipf ? sum : weight;
    }
    for (int64_t i = 0; zipf && i < n; i++)
        task->table[i] /= sum;
    return RS_OK;
}

rs_status rs_task_take_order(rs_train_task *task, rs_error *err)
{
    const rs_task_data *data = &task->data;
    if (!data->shuffle || data->train == 0) return RS_OK;
    task->order = rs_malloc((size_t)data->train, sizeof *task->order);
    return task->order ? RS_OK : rs_fail_memory(err, "a task", (size_t)data->train * 8);
}

static rs_status open_parts(rs_train_task *task, const char *where, rs_error *err)
{
    rs_task_data *data = &task->data;
    RS_TRY(task->kind->shape(&task->shape, data, where, err));
    if (task->kind->fixed) data->train = data->eval = task->shape.train;
    RS_TRY(rs_task_check_sets(&task->shape, data, where, err));
    if (task->kind->one_set && data->eval > data->train) data->eval = data->train;
    task->shape.train = data->train;
    task->shape.eval = data->eval;
    RS_TRY(make_tables(task, err));
    if (data->batches) RS_TRY(rs_task_file_open(&task->file, data->batches, &task->shape, err));
    return rs_task_take_order(task, err);
}

rs_status rs_task_open(rs_train_task **out, const rs_task_kind *kind, const rs_task_data *data,
                       uint64_t seed, const char *where, rs_error *err)
{
    *out = NULL;
    rs_train_task *task = rs_calloc(1, sizeof *task);
    if (!task) return rs_fail_memory(err, "a task", sizeof *task);
    *task = (rs_train_task){.kind = kind, .data = *data, .seed = seed, .order_epoch = -1};
    rs_status status = open_parts(task, where, err);
    if (status != RS_OK)
        rs_task_close(task);
    else
        *out = task;
    return status;
}

void rs_task_close(rs_train_task *task)
{
    if (!task) return;
    rs_task_file_close(task->file);
    rs_source_close(task->source);
    rs_free(task->scratch);
    rs_free(task->table);
    rs_free(task->order);
    rs_free(task);
}

const rs_task_shape *rs_task_sizes(const rs_train_task *task)
{
    return &task->shape;
}

/* ---- batches ---- */

rs_status rs_task_batch_new(rs_task_batch *out, const rs_task_shape *shape, int64_t capacity,
                            rs_error *err)
{
    *out = (rs_task_batch){.capacity = capacity};
    size_t n = (size_t)capacity, rows = 0, in = 0, wide = 0;
    bool fits = rs_size_mul(n, (size_t)shape->n_tok, &rows) &&
                rs_size_mul(rows, (size_t)shape->d_in, &in) &&
                rs_size_mul(rows, (size_t)shape->d_out, &wide);
    bool classes = shape->target == RS_TARGET_CLASSES;
    out->counted = fits ? rs_malloc(rows, 1) : NULL;
    out->lengths = fits ? rs_malloc(n, sizeof(int32_t)) : NULL;
    if (fits && shape->vocab) out->tokens = rs_malloc(rows, sizeof(int32_t));
    if (fits && !shape->vocab) out->rows = rs_malloc(in, sizeof(double));
    if (fits && classes) out->classes = rs_malloc(rows, sizeof(int32_t));
    if (fits && !classes) out->values = rs_malloc(wide, sizeof(double));
    if (out->counted && out->lengths && (out->tokens || out->rows) && (out->classes || out->values))
        return RS_OK;
    rs_task_batch_free(out);
    return rs_fail_memory(err, "a batch", in + wide + rows);
}

void rs_task_batch_free(rs_task_batch *batch)
{
    rs_free(batch->tokens);
    rs_free(batch->rows);
    rs_free(batch->classes);
    rs_free(batch->values);
    rs_free(batch->counted);
    rs_free(batch->lengths);
    *batch = (rs_task_batch){0};
}

rs_task_sample rs_task_sample_of(const rs_task_batch *batch, const rs_task_shape *shape, int64_t i)
{
    int64_t row = i * shape->n_tok;
    return (rs_task_sample){
        .tokens = batch->tokens ? batch->tokens + row : NULL,
        .rows = batch->rows ? batch->rows + row * shape->d_in : NULL,
        .classes = batch->classes ? batch->classes + row : NULL,
        .values = batch->values ? batch->values + row * shape->d_out : NULL,
        .counted = batch->counted + row,
        .length = batch->lengths + i,
    };
}

/* The order of an epoch, by the seed and its number alone. */
static void shuffle_epoch(rs_train_task *task, int64_t epoch)
{
    if (task->order_epoch == epoch) return;
    rs_random random = rs_task_draws(task, RS_DRAWS_ORDER, epoch, 0);
    for (int64_t i = 0; i < task->data.train; i++)
        task->order[i] = i;
    for (int64_t i = task->data.train - 1; i > 0; i--) {
        int64_t j = rs_draw_below(&random, i + 1), other = task->order[j];
        task->order[j] = task->order[i];
        task->order[i] = other;
    }
    task->order_epoch = epoch;
}

int64_t rs_task_in_order(rs_train_task *task, int64_t epoch, int64_t i)
{
    if (!task->order) return i;
    shuffle_epoch(task, epoch);
    return task->order[i];
}

static void draw_sample(const rs_task_batch *out, rs_train_task *task, int64_t i, uint64_t what,
                        int64_t step, int64_t index)
{
    rs_task_sample sample = rs_task_sample_of(out, &task->shape, i);
    rs_random random = rs_task_draws(task, what, step, index);
    *sample.length = (int32_t)task->shape.n_tok;
    memset(sample.counted, 1, (size_t)task->shape.n_tok);
    task->kind->sample(&sample, task, &random, index);
    for (int64_t t = 0; sample.classes && t < task->shape.n_tok; t++)
        sample.counted[t] = sample.classes[t] >= 0;
}

int64_t rs_task_part(rs_task_batch *out, int64_t set, int64_t number)
{
    int64_t first = number * out->capacity, left = set - first;
    out->samples = left < 0 ? 0 : left < out->capacity ? left : out->capacity;
    return first;
}

int64_t rs_task_epoch(const rs_train_task *task, int64_t batch)
{
    return (task->data.train + batch - 1) / batch;
}

rs_status rs_task_check_batches(const rs_train_task *task, int64_t steps, int64_t accumulate,
                                int64_t batch, rs_error *err)
{
    return task->file ? rs_task_file_check(task->file, steps, accumulate, batch, err) : RS_OK;
}

static void fill_train(rs_task_batch *out, rs_train_task *task, int64_t step)
{
    int64_t epoch_steps = rs_task_epoch(task, out->capacity);
    if (epoch_steps == 0) {
        out->samples = out->capacity;
        for (int64_t i = 0; i < out->samples; i++)
            draw_sample(out, task, i, RS_DRAWS_STREAM, step, i);
        return;
    }
    int64_t first = rs_task_part(out, task->data.train, step % epoch_steps);
    for (int64_t i = 0; i < out->samples; i++)
        draw_sample(out, task, i, RS_DRAWS_SET, 0,
                    rs_task_in_order(task, step / epoch_steps, first + i));
}

rs_status rs_task_fill(rs_task_batch *out, rs_train_task *task, rs_task_set set, int64_t step,
                       rs_error *err)
{
    if (task->source) return rs_source_fill(out, task, set, step, err);
    if (set == RS_TASK_TRAIN && task->file)
        return rs_task_file_fill(out, task->file, &task->shape, step, err);
    if (set == RS_TASK_TRAIN) {
        fill_train(out, task, step);
        return RS_OK;
    }
    bool probe = set == RS_TASK_PROBE, fixed = task->kind->fixed;
    int64_t samples = probe && !fixed ? INT32_MAX : task->data.eval;
    int64_t first = rs_task_part(out, samples, step);
    uint64_t what = probe ? RS_DRAWS_PROBE : task->kind->one_set ? RS_DRAWS_SET : RS_DRAWS_EVAL;
    for (int64_t i = 0; i < out->samples; i++)
        draw_sample(out, task, i, what, 0, first + i);
    return RS_OK;
}
