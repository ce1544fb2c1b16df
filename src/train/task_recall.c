/* task_recall.c: associative recall with one or many distances (docs/train.md, Tasks). */
#include "train/task_parts.h"

#include <string.h>

/* ---- associative recall ---- */

rs_status rs_recall_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                          rs_error *err)
{
    if (data->keys < 1 || data->values < 1 || data->keys + data->values > INT32_MAX)
        return rs_task_refuse(where, err, "\"keys\" and \"values\" are at least 1");
    if (data->pairs < 1 || data->pairs > data->keys)
        return rs_task_refuse(where, err, "\"pairs\" is from 1 to \"keys\" %lld: keys differ",
                              (long long)data->keys);
    if (data->queries < 1 || data->queries > data->pairs)
        return rs_task_refuse(where, err,
                              "\"queries\" is from 1 to \"pairs\" %lld: no key is asked for twice",
                              (long long)data->pairs);
    *out = (rs_task_shape){.n_tok = 2 * data->pairs + data->queries,
                           .vocab = data->keys + data->values,
                           .d_out = data->values};
    return RS_OK;
}

/* k v k v ... with keys that differ and values uniform, then the keys of the context in random
 * order, at each of which the value is asked for. */
void rs_recall_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                      int64_t index)
{
    (void)index;
    const rs_task_data *data = &task->data;
    int64_t pairs = data->pairs;
    rs_draw_distinct(task->scratch, data->keys, pairs, random);
    for (int64_t i = 0; i < pairs; i++) {
        out->tokens[2 * i] = task->scratch[i];
        out->tokens[2 * i + 1] = (int32_t)(data->keys + rs_draw_below(random, data->values));
        out->classes[2 * i] = out->classes[2 * i + 1] = -1;
    }
    rs_draw_distinct(task->scratch, pairs, data->queries, random);
    for (int64_t i = 0; i < data->queries; i++) {
        int64_t pair = task->scratch[i];
        out->tokens[2 * pairs + i] = out->tokens[2 * pair];
        out->classes[2 * pairs + i] = out->tokens[2 * pair + 1] - (int32_t)data->keys;
    }
}

/* ---- several queries ---- */

rs_status rs_mqar_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                        rs_error *err)
{
    if (data->length < 2 || data->length % 2 || data->length > INT32_MAX)
        return rs_task_refuse(where, err, "\"length\" is an even number from 2 on");
    if (data->pairs < 1 || 4 * data->pairs > data->length)
        return rs_task_refuse(where, err, "\"pairs\" is from 1 to a fourth of \"length\" %lld",
                              (long long)data->length);
    if (data->symbols / 2 - 1 < data->pairs || data->symbols > INT32_MAX)
        return rs_task_refuse(where, err,
                              "\"symbols\" %lld gives too few different keys for %lld \"pairs\"",
                              (long long)data->symbols, (long long)data->pairs);
    *out = (rs_task_shape){.n_tok = data->length, .vocab = data->symbols, .d_out = data->symbols};
    return RS_OK;
}

/* Gaps that differ, one after the other by what is left of their weights. */
static void draw_gaps(int32_t *gaps, const rs_train_task *task, int64_t space, rs_random *random)
{
    double *left = task->table + space;
    memcpy(left, task->table, (size_t)space * sizeof *left);
    for (int64_t i = 0; i < task->data.pairs; i++) {
        double sum = 0;
        for (int64_t g = 0; g < space; g++)
            sum += left[g];
        double at = sum * rs_random_uniform(random);
        int64_t last = 0, g = 0;
        for (; g < space; g++) {
            if (left[g] == 0) continue;
            last = g;
            at -= left[g];
            if (at < 0) break;
        }
        gaps[i] = (int32_t)last;
        left[last] = 0;
    }
}

/* Keys 1 .. V/2 - 1, values V/2 .. V - 1, none twice in a sequence; the pairs, then key i again
 * 2 gap_i behind them, where its value is the target. */
void rs_mqar_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                    int64_t index)
{
    (void)index;
    const rs_task_data *data = &task->data;
    int64_t pairs = data->pairs, half = data->symbols / 2, context = 2 * pairs;
    rs_draw_distinct(task->scratch, half - 1, pairs, random);
    for (int64_t i = 0; i < pairs; i++)
        out->tokens[2 * i] = 1 + task->scratch[i];
    rs_draw_distinct(task->scratch, data->symbols - half, pairs, random);
    for (int64_t i = 0; i < pairs; i++)
        out->tokens[2 * i + 1] = (int32_t)half + task->scratch[i];
    for (int64_t t = context; t < data->length; t++)
        out->tokens[t] = data->filler ? (int32_t)rs_draw_below(random, data->symbols) : 0;
    for (int64_t t = 0; t < data->length; t++)
        out->classes[t] = -1;
    draw_gaps(task->scratch, task, data->length / 2 - pairs, random);
    for (int64_t i = 0; i < pairs; i++) {
        int64_t at = context + 2 * task->scratch[i];
        out->tokens[at] = out->tokens[2 * i];
        out->classes[at] = out->tokens[2 * i + 1];
    }
}
