/*
 * task_markov.c: a source of letters whose next one hangs on the one before: a language model's data of
 * which everything is known (docs/train.md, Tasks).
 */
#include "train/task_parts.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

rs_status rs_markov_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                          rs_error *err)
{
    const int64_t most = 4096;
    if (data->length < 1 || data->symbols < 1 || data->symbols > most)
        return rs_task_refuse(where, err, "\"length\" is at least 1, \"symbols\" from 1 to %lld",
                              (long long)most);
    *out = (rs_task_shape){.n_tok = data->length, .vocab = data->symbols, .d_out = data->symbols};
    return RS_OK;
}

/* Row i of p [n, n]: letter j has weight exp(sharpness z_ij) / (j + 1), z of N(0, 1) by the seed. */
static void fill_rows(double *p, const rs_train_task *task)
{
    int64_t n = task->data.symbols;
    rs_random random = rs_task_draws(task, RS_DRAWS_SET, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += p[i * n + j] =
                exp(task->data.deviation * rs_random_normal(&random)) / (double)(j + 1);
        for (int64_t j = 0; j < n; j++)
            p[i * n + j] /= sum;
    }
}

/* The law that a long text's letters have: the fixed point of the rows, by powers (all entries are
 * positive, so that it is the only one). */
static void find_stationary(double *law, double *next, const double *p, int64_t n)
{
    double change = 1;
    for (int64_t j = 0; j < n; j++)
        law[j] = 1 / (double)n;
    for (int step = 0; step < 10000 && change > 1e-15; step++) {
        memset(next, 0, (size_t)n * sizeof *next);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                next[j] += law[i] * p[i * n + j];
        change = 0;
        for (int64_t j = 0; j < n; j++)
            change += fabs(next[j] - law[j]);
        memcpy(law, next, (size_t)n * sizeof *law);
    }
}

rs_status rs_markov_tables(rs_train_task *task, rs_error *err)
{
    int64_t n = task->data.symbols;
    size_t count = (size_t)(n * n + 2 * n);
    task->table = rs_malloc(count, sizeof *task->table);
    if (!task->table) return rs_fail_memory(err, "a task", count * sizeof *task->table);
    double *law = task->table, *rows = law + n;
    fill_rows(rows, task);
    find_stationary(law, rows + n * n, rows, n);
    return RS_OK;
}

static double entropy_of(const double *p, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        if (p[j] > 0) sum -= p[j] * log(p[j]);
    return sum;
}

double rs_markov_unigram(const rs_train_task *task)
{
    return entropy_of(task->table, task->data.symbols);
}

double rs_markov_rate(const rs_train_task *task)
{
    int64_t n = task->data.symbols;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += task->table[i] * entropy_of(task->table + n + i * n, n);
    return sum;
}

static int32_t draw_from(const double *p, int64_t n, rs_random *random)
{
    double left = rs_random_uniform(random);
    for (int64_t j = 0; j + 1 < n; j++)
        if ((left -= p[j]) < 0) return (int32_t)j;
    return (int32_t)(n - 1);
}

void rs_markov_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                      int64_t index)
{
    int64_t n = task->data.symbols;
    int32_t letter = draw_from(task->table, n, random);
    (void)index;
    for (int64_t t = 0; t < task->data.length; t++) {
        out->tokens[t] = letter;
        letter = draw_from(task->table + n + letter * n, n, random);
        out->classes[t] = letter;
    }
}
