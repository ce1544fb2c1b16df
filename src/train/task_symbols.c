/* task_symbols.c: sorting, reversal, and a random bit a word (docs/train.md, Tasks). */
#include "train/task_parts.h"

#include <stdlib.h>

rs_status rs_sorting_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                           rs_error *err)
{
    if (data->length < 1 || data->symbols < 1 || data->symbols > INT32_MAX)
        return rs_task_refuse(where, err, "\"length\" and \"symbols\" are at least 1");
    *out = (rs_task_shape){.n_tok = data->length, .vocab = data->symbols, .d_out = data->symbols};
    return RS_OK;
}

static void draw_symbols(rs_task_sample *out, const rs_train_task *task, rs_random *random)
{
    for (int64_t t = 0; t < task->data.length; t++)
        out->tokens[t] = (int32_t)rs_draw_below(random, task->data.symbols);
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void rs_sorting_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                       int64_t index)
{
    (void)index;
    draw_symbols(out, task, random);
    for (int64_t t = 0; t < task->data.length; t++)
        out->classes[t] = out->tokens[t];
    qsort(out->classes, (size_t)task->data.length, sizeof *out->classes, by_number);
}

void rs_reversal_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                        int64_t index)
{
    (void)index;
    draw_symbols(out, task, random);
    for (int64_t t = 0; t < task->data.length; t++)
        out->classes[t] = out->tokens[task->data.length - 1 - t];
}

rs_status rs_memorization_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                                rs_error *err)
{
    if (data->symbols < 1 || data->symbols > INT32_MAX)
        return rs_task_refuse(where, err, "\"symbols\" is at least 1");
    if (data->shortest < 1 || data->shortest > data->length)
        return rs_task_refuse(where, err, "\"shortest\" is from 1 to \"length\" %lld",
                              (long long)data->length);
    *out = (rs_task_shape){.n_tok = data->length,
                           .vocab = data->symbols,
                           .d_out = 2,
                           .varies = data->shortest < data->length};
    return RS_OK;
}

/* The place of u in a distribution function. */
static int32_t place_of(const double *table, int64_t n, double u)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (u < table[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return (int32_t)low;
}

/* Words by Zipf's law with exponent 1; each token's label is a fair bit of its own, so that equal
 * words of one text may have different ones, and a model without positions has a ceiling. */
void rs_memorization_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                            int64_t index)
{
    (void)index;
    const rs_task_data *data = &task->data;
    int64_t length = data->shortest + rs_draw_below(random, data->length - data->shortest + 1);
    *out->length = (int32_t)length;
    for (int64_t t = 0; t < data->length; t++) {
        bool inside = t < length;
        out->tokens[t] =
            inside ? place_of(task->table, data->symbols, rs_random_uniform(random)) : -1;
        out->classes[t] = inside ? (int32_t)rs_draw_below(random, 2) : -1;
    }
}
