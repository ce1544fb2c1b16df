/*
 * task_markov.c: a source of letters whose next one hangs on the one before, or is copied with a whole
 * block from far back: a language model's data of which everything is known (docs/train.md, Tasks).
 */
#include "train/task_parts.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

rs_status rs_markov_shape(rs_task_shape *out, const rs_task_data *data, const char *where,
                          rs_error *err)
{
    const int64_t most = 4096;
    if (data->length < 1 || data->symbols < 1 || data->symbols > most || data->block < 1)
        return rs_task_refuse(where, err,
                              "\"length\" and \"block\" are at least 1, \"symbols\" from 1 to %lld",
                              (long long)most);
    bool hides = data->hidden > 0; /* one more token, which stands for a letter that is hidden */
    *out = (rs_task_shape){
        .n_tok = data->length, .vocab = data->symbols + hides, .d_out = data->symbols};
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

static int32_t draw_from(const double *p, int64_t n, rs_random *random)
{
    double left = rs_random_uniform(random);
    for (int64_t j = 0; j + 1 < n; j++)
        if ((left -= p[j]) < 0) return (int32_t)j;
    return (int32_t)(n - 1);
}

/* The earlier block that the one which begins at t repeats; -1: none, the chain goes on. Sources
 * without copies draw nothing here. */
static int64_t draw_copied(const rs_train_task *task, int64_t t, rs_random *random)
{
    if (t == 0 || !(task->data.copies > 0)) return -1;
    bool copies = rs_random_uniform(random) < task->data.copies;
    return copies ? rs_draw_below(random, t / task->data.block) : -1;
}

/* The letters of a sample and the one behind its end, in task->scratch. */
static const int32_t *draw_text(const rs_train_task *task, rs_random *random)
{
    int64_t n = task->data.symbols, block = task->data.block, copied = -1;
    const double *law = task->table, *rows = law + n;
    int32_t *text = task->scratch;
    for (int64_t t = 0; t <= task->data.length; t++) {
        if (t % block == 0) copied = draw_copied(task, t, random);
        const double *p = t == 0 ? law : rows + text[t - 1] * n;
        text[t] = copied < 0 ? draw_from(p, n, random) : text[copied * block + t % block];
    }
    return text;
}

/* Hides some letters of a sample, of which these are the targets then; pool: [length]. */
static void hide_letters(rs_task_sample *out, int32_t *pool, const rs_task_data *data,
                         rs_random *random)
{
    int64_t n = data->length, m = (int64_t)floor(data->hidden * (double)n + 0.5);
    for (int64_t t = 0; t < n; t++)
        out->classes[t] = -1;
    m = m < 1 ? 1 : m > n ? n : m;
    rs_draw_distinct(pool, n, m, random);
    for (int64_t i = 0; i < m; i++) {
        out->classes[pool[i]] = out->tokens[pool[i]];
        out->tokens[pool[i]] = (int32_t)data->symbols;
    }
}

void rs_markov_sample(rs_task_sample *out, const rs_train_task *task, rs_random *random,
                      int64_t index)
{
    const int32_t *text = draw_text(task, random);
    size_t bytes = (size_t)task->data.length * sizeof *text;
    (void)index;
    memcpy(out->tokens, text, bytes);
    if (task->data.hidden > 0)
        hide_letters(out, task->scratch + task->data.length + 1, &task->data, random);
    else
        memcpy(out->classes, text + 1, bytes);
}

/* ---- what is left to guess ---- */

/* What may have made the block that a reader is in, and how likely it is given its letters so far:
 * the chain going on, or a copy of each earlier block. */
typedef struct belief {
    double chain, *copy; /* [blocks] */
    int64_t blocks;
} belief;

static void begin_block(belief *b, const rs_train_task *task, int64_t t)
{
    double copies = t > 0 ? task->data.copies : 0;
    b->blocks = t / task->data.block;
    b->chain = 1 - copies;
    for (int64_t j = 0; j < b->blocks; j++)
        b->copy[j] = copies / (double)b->blocks;
}

/* How likely the letter at t was given those before it; the belief takes it in (Bayes' rule). */
static double take_letter(belief *b, const rs_train_task *task, const int32_t *text, int64_t t)
{
    int64_t n = task->data.symbols, block = task->data.block;
    const double *p = t == 0 ? task->table : task->table + n + text[t - 1] * n;
    double all = b->chain * p[text[t]];
    for (int64_t j = 0; j < b->blocks; j++)
        if (text[j * block + t % block] == text[t]) all += b->copy[j];
    b->chain *= p[text[t]] / all;
    for (int64_t j = 0; j < b->blocks; j++)
        b->copy[j] = text[j * block + t % block] == text[t] ? b->copy[j] / all : 0;
    return all;
}

/* Mean of -ln P(letter | those before it in its sample) over the targets of the evaluation set, or of
 * its first samples where it has none. */
static double read_samples(belief *b, const rs_train_task *task)
{
    enum { UNASKED = 1024 };
    int64_t samples = task->data.eval > 0 ? task->data.eval : UNASKED;
    double sum = 0;
    for (int64_t i = 0; i < samples; i++) {
        rs_random random = rs_task_draws(task, RS_DRAWS_EVAL, 0, i);
        const int32_t *text = draw_text(task, &random);
        for (int64_t t = 0; t <= task->data.length; t++) {
            if (t % task->data.block == 0) begin_block(b, task, t);
            double p = take_letter(b, task, text, t);
            if (t > 0) sum -= log(p);
        }
    }
    return sum / (double)(samples * task->data.length);
}

/* Without copies. */
static double chain_rate(const rs_train_task *task)
{
    int64_t n = task->data.symbols;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += task->table[i] * entropy_of(task->table + n + i * n, n);
    return sum;
}

rs_status rs_markov_rate(double *out, const rs_train_task *task, rs_error *err)
{
    *out = chain_rate(task);
    if (!(task->data.copies > 0)) return RS_OK;
    size_t blocks = (size_t)(task->data.length / task->data.block + 1);
    belief b = {.copy = rs_malloc(blocks, sizeof *b.copy)};
    if (!b.copy) return rs_fail_memory(err, "a task", blocks * sizeof *b.copy);
    *out = read_samples(&b, task);
    rs_free(b.copy);
    return RS_OK;
}

/* H(X_t | X_(t-1), X_(t+1)) = H(X_t | X_(t-1)) + H(X_(t+1) | X_t) - H(X_(t+1) | X_(t-1)) of the chain: all
 * that hangs on the one before, of which two steps on have taken their part. */
rs_status rs_markov_between(double *out, const rs_train_task *task, rs_error *err)
{
    enum { MOST = 1024 }; /* letters: of more the square of the matrix takes longer than a run */
    int64_t n = task->data.symbols;
    const double *law = task->table, *rows = law + n;
    double *twice, rate = 0;
    *out = NAN;
    if (task->data.copies > 0 || n > MOST) return RS_OK;
    twice = rs_malloc((size_t)n, sizeof *twice);
    if (!twice) return rs_fail_memory(err, "a task", (size_t)n * sizeof *twice);
    for (int64_t i = 0; i < n; i++) {
        memset(twice, 0, (size_t)n * sizeof *twice);
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = 0; k < n; k++)
                twice[k] += rows[i * n + j] * rows[j * n + k];
        rate += law[i] * entropy_of(twice, n);
    }
    *out = 2 * chain_rate(task) - rate;
    rs_free(twice);
    return RS_OK;
}
