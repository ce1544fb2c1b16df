/* test_train_markov.c: the source of letters against its definition: its rows drawn again, their fixed
 * point by elimination in long double, its entropies, and how often letters and pairs come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "train_support.h"

#include "train/task_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };

/* The rows as docs/train.md has them, from the task's own stream of normal numbers. */
static void rows_of(long double p[MOST][MOST], const rs_train_task *task)
{
    int n = (int)task->data.symbols;
    rs_random random = rs_task_draws(task, RS_DRAWS_SET, 0, 0);
    for (int i = 0; i < n; i++) {
        long double sum = 0;
        for (int j = 0; j < n; j++) {
            p[i][j] = expl((long double)task->data.deviation * rs_random_normal(&random)) / (j + 1);
            sum += p[i][j];
        }
        for (int j = 0; j < n; j++)
            p[i][j] /= sum;
    }
}

/* law (P - 1) = 0 with sum 1: Gaussian elimination with pivots, the last equation put in place of one of
 * those, which hang together. */
static void fixed_point(long double law[MOST], long double p[MOST][MOST], int n)
{
    static long double a[MOST][MOST + 1];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            a[i][j] = i + 1 < n ? p[j][i] - (i == j) : 1;
        a[i][n] = i + 1 == n;
    }
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k; i < n; i++)
            if (fabsl(a[i][k]) > fabsl(a[best][k])) best = i;
        for (int j = 0; j <= n; j++) {
            long double swap = a[k][j];
            a[k][j] = a[best][j], a[best][j] = swap;
        }
        for (int i = 0; i < n; i++) {
            long double factor = a[i][k] / a[k][k];
            for (int j = k; i != k && j <= n; j++)
                a[i][j] -= factor * a[k][j];
        }
    }
    for (int i = 0; i < n; i++)
        law[i] = a[i][n] / a[i][i];
}

static long double entropy(const long double *p, int n)
{
    long double sum = 0;
    for (int j = 0; j < n; j++)
        sum -= p[j] * logl(p[j]);
    return sum;
}

static void test_entropies(void **state)
{
    (void)state;
    static const struct {
        int64_t symbols;
        double deviation;
    } cases[] = {{32, 1.5}, {2, 1.5}, {5, 0}, {7, 4}, {1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            rs_task_data data = task_defaults("markov");
            data.symbols = cases[c].symbols, data.deviation = cases[c].deviation;
            rs_train_task *task = open_task("markov", &data, seed);
            int n = (int)data.symbols;
            static long double p[MOST][MOST], law[MOST];
            rows_of(p, task);
            fixed_point(law, p, n);
            long double rate = 0;
            for (int i = 0; i < n; i++)
                rate += law[i] * entropy(p[i], n);
            assert_true(fabs((double)entropy(law, n) - mark_of(task, "unigram entropy")) < 1e-12);
            assert_true(fabs((double)rate - mark_of(task, "entropy of the source")) < 1e-12);
            rs_task_close(task);
        }
    /* without deviation letters come by 1/(j + 1) alone, whatever was before */
    rs_task_data data = task_defaults("markov");
    data.symbols = 3, data.deviation = 0;
    rs_train_task *task = open_task("markov", &data, 1);
    double by_hand = -(6 * log(6.0 / 11) + 3 * log(3.0 / 11) + 2 * log(2.0 / 11)) / 11;
    assert_true(fabs(mark_of(task, "unigram entropy") - by_hand) < 1e-13);
    assert_true(fabs(mark_of(task, "entropy of the source") - by_hand) < 1e-13);
    rs_task_close(task);
}

/* Samples are stretches of one stationary text: the first letters have the law, pairs the rows. */
static void test_frequencies(void **state)
{
    (void)state;
    enum { SAMPLES = 4000, LENGTH = 50, N = 6 };
    rs_task_data data = task_defaults("markov");
    data.symbols = N, data.length = LENGTH;
    rs_train_task *task = open_task("markov", &data, 3);
    static long double p[MOST][MOST], law[MOST];
    rows_of(p, task);
    fixed_point(law, p, N);
    rs_task_batch batch = new_batch(task, SAMPLES);
    fill_batch(&batch, task, RS_TASK_TRAIN, 7);
    double first[N] = {0}, pairs[N][N] = {{0}}, from[N] = {0};
    for (int64_t s = 0; s < SAMPLES; s++) {
        const int32_t *x = batch.tokens + s * LENGTH, *y = batch.classes + s * LENGTH;
        for (int t = 0; t < LENGTH; t++) {
            assert_in_range(x[t], 0, N - 1);
            assert_in_range(y[t], 0, N - 1);
            if (t + 1 < LENGTH) assert_int_equal(y[t], x[t + 1]);
            pairs[x[t]][y[t]]++, from[x[t]]++;
        }
        first[x[0]]++;
    }
    for (int i = 0; i < N; i++) {
        double q = (double)law[i];
        assert_true(fabs(first[i] / SAMPLES - q) < 5 * sqrt(q * (1 - q) / SAMPLES));
        for (int j = 0; j < N; j++) {
            double r = (double)p[i][j];
            assert_true(fabs(pairs[i][j] / from[i] - r) < 5 * sqrt(r * (1 - r) / from[i]));
        }
    }
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

/* ---- copies ---- */

/* P(letters t .. length given those before), summed over what each block may be: the chain going on, or
 * any earlier block; by trying them all. */
static long double read_on(long double p[MOST][MOST], const rs_task_data *data, const int32_t *text,
                           int64_t t)
{
    if (t > data->length) return 1;
    int64_t end = t + data->block <= data->length + 1 ? t + data->block : data->length + 1;
    int64_t earlier = t / data->block;
    long double sum = 0, chain = t > 0 ? 1 - (long double)data->copies : 1;
    for (int64_t at = t; at < end; at++)
        chain *= at > 0 ? p[text[at - 1]][text[at]] : 1;
    sum += chain;
    for (int64_t j = 0; j < earlier; j++) {
        bool same = true;
        for (int64_t at = t; at < end; at++)
            same = same && text[at] == text[j * data->block + at - t];
        if (same) sum += (long double)data->copies / earlier;
    }
    return sum * read_on(p, data, text, end);
}

/* The mark is -ln P of the evaluation set's own letters; also where it ends inside a block. */
static void test_copies(void **state)
{
    (void)state;
    enum { SAMPLES = 300 };
    static const struct {
        int64_t length, block;
        double copies;
    } cases[] = {{24, 4, 0.5}, {23, 4, 0.9}, {9, 1, 0.3}, {8, 16, 0.5}, {24, 4, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        rs_task_data data = task_defaults("markov");
        data.symbols = 4, data.length = cases[c].length, data.eval = SAMPLES;
        data.block = cases[c].block, data.copies = cases[c].copies;
        rs_train_task *task = open_task("markov", &data, 2);
        static long double p[MOST][MOST];
        rows_of(p, task);
        rs_task_batch batch = new_batch(task, SAMPLES);
        fill_batch(&batch, task, RS_TASK_EVAL, 0);
        long double sum = 0;
        for (int64_t s = 0; s < SAMPLES; s++) {
            int32_t text[64];
            memcpy(text, batch.tokens + s * data.length, (size_t)data.length * sizeof *text);
            text[data.length] = batch.classes[(s + 1) * data.length - 1];
            sum -= logl(read_on(p, &data, text, 0));
        }
        double expected = (double)(sum / (SAMPLES * data.length));
        assert_true(fabs(mark_of(task, "entropy of the source") / expected - 1) < 1e-12);
        rs_task_batch_free(&batch);
        rs_task_close(task);
    }
}

/* How often a block is an earlier one: by the draw, and by chance next to never where it is long. */
static void test_copied_share(void **state)
{
    (void)state;
    enum { SAMPLES = 2000, BLOCK = 16, BLOCKS = 4 };
    rs_task_data data = task_defaults("markov");
    data.length = BLOCK * BLOCKS, data.block = BLOCK, data.copies = 0.4, data.deviation = 0.5;
    rs_train_task *task = open_task("markov", &data, 4);
    rs_task_batch batch = new_batch(task, SAMPLES);
    fill_batch(&batch, task, RS_TASK_TRAIN, 3);
    double copies[BLOCKS][BLOCKS] = {{0}};
    for (int64_t s = 0; s < SAMPLES; s++) {
        const int32_t *text = batch.tokens + s * data.length;
        for (int b = 1; b < BLOCKS; b++)
            for (int j = 0; j < b; j++) {
                bool same = memcmp(text + b * BLOCK, text + j * BLOCK, BLOCK * sizeof *text) == 0;
                copies[b][j] += same;
                if (same) break; /* block j may itself have been copied to another */
            }
    }
    double q = 0.4;
    for (int b = 1; b < BLOCKS; b++) {
        double all = 0;
        for (int j = 0; j < b; j++)
            all += copies[b][j];
        assert_true(fabs(all / SAMPLES - q) < 5 * sqrt(q * (1 - q) / SAMPLES));
    }
    /* of the second block's two sources the first counts its copies, too: 1/2 + 1/2 * 0.4 */
    double share = copies[2][0] / (copies[2][0] + copies[2][1]);
    assert_true(fabs(share - 0.7) < 5 * sqrt(0.21 / (q * SAMPLES)));
    rs_task_batch_free(&batch);
    rs_task_close(task);
}

/* Sum of -p(i, j, k) ln p(j | i, k) over all triples of the chain. */
static long double between_of(long double law[MOST], long double p[MOST][MOST], int n)
{
    long double sum = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            long double both = 0;
            for (int j = 0; j < n; j++)
                both += p[i][j] * p[j][k];
            for (int j = 0; j < n; j++)
                if (p[i][j] * p[j][k] > 0)
                    sum -= law[i] * p[i][j] * p[j][k] * logl(p[i][j] * p[j][k] / both);
        }
    return sum;
}

/* Letters that are hidden: so many of each sample, the same text under them as without, wanted where they
 * stand and nowhere else, each place as often as any other; and what their neighbours leave of them. */
static void test_hidden(void **state)
{
    (void)state;
    enum { SAMPLES = 4000, LENGTH = 20, HIDDEN = 5 };
    static long double p[MOST][MOST], law[MOST];
    int64_t at[LENGTH] = {0};
    rs_task_data data = task_defaults("markov");
    data.length = LENGTH, data.symbols = 6;
    rs_train_task *plain = open_task("markov", &data, 9);
    data.hidden = 0.26; /* 5.2 of 20 */
    rs_train_task *task = open_task("markov", &data, 9);
    assert_int_equal(rs_task_sizes(task)->vocab, 7);
    assert_int_equal(rs_task_sizes(task)->d_out, 6);
    rs_task_batch a = new_batch(plain, SAMPLES), b = new_batch(task, SAMPLES);
    fill_batch(&a, plain, RS_TASK_TRAIN, 3);
    fill_batch(&b, task, RS_TASK_TRAIN, 3);
    for (int64_t s = 0; s < SAMPLES; s++) {
        int hidden = 0;
        for (int64_t t = 0; t < LENGTH; t++) {
            int64_t i = s * LENGTH + t;
            bool hides = b.tokens[i] == 6;
            hidden += hides, at[t] += hides;
            assert_int_equal(b.classes[i], hides ? a.tokens[i] : -1);
            if (!hides) assert_int_equal(b.tokens[i], a.tokens[i]);
        }
        assert_int_equal(hidden, HIDDEN);
    }
    const double share = (double)HIDDEN / LENGTH, error = sqrt(share * (1 - share) / SAMPLES);
    for (int t = 0; t < LENGTH; t++)
        assert_true(fabs((double)at[t] / SAMPLES - share) < 5 * error);
    rows_of(p, task);
    fixed_point(law, p, 6);
    double between = (double)between_of(law, p, 6);
    assert_true(fabs(mark_of(task, "entropy between both neighbours") - between) < 1e-12);
    assert_true(between < mark_of(plain, "entropy of the source"));
    rs_task_batch_free(&a);
    rs_task_batch_free(&b);
    rs_task_close(plain);
    rs_task_close(task);
    /* one at least is hidden, and all may be */
    for (int all = 0; all < 2; all++) {
        data.hidden = all ? 1 : 1e-9;
        task = open_task("markov", &data, 9);
        b = new_batch(task, 1);
        fill_batch(&b, task, RS_TASK_EVAL, 0);
        int hidden = 0;
        for (int64_t t = 0; t < LENGTH; t++)
            hidden += b.classes[t] >= 0;
        assert_int_equal(hidden, all ? LENGTH : 1);
        rs_task_batch_free(&b);
        rs_task_close(task);
    }
}

/* A batch hangs on seed, set and step alone. */
static void test_same_again(void **state)
{
    (void)state;
    rs_task_data data = task_defaults("markov");
    rs_train_task *one = open_task("markov", &data, 5), *two = open_task("markov", &data, 5),
                  *other = open_task("markov", &data, 6);
    rs_task_batch a = new_batch(one, 16), b = new_batch(two, 16);
    size_t bytes = (size_t)(16 * data.length) * sizeof *a.tokens;
    fill_batch(&b, two, RS_TASK_TRAIN, 1);
    fill_batch(&a, one, RS_TASK_TRAIN, 9);
    fill_batch(&b, two, RS_TASK_TRAIN, 9);
    assert_memory_equal(a.tokens, b.tokens, bytes);
    fill_batch(&b, two, RS_TASK_TRAIN, 10);
    assert_memory_not_equal(a.tokens, b.tokens, bytes);
    fill_batch(&b, two, RS_TASK_EVAL, 0);
    fill_batch(&a, one, RS_TASK_TRAIN, 0);
    assert_memory_not_equal(a.tokens, b.tokens, bytes);
    fill_batch(&b, other, RS_TASK_TRAIN, 0);
    assert_memory_not_equal(a.tokens, b.tokens, bytes);
    assert_true(mark_of(one, "unigram entropy") != mark_of(other, "unigram entropy"));
    rs_task_batch_free(&a);
    rs_task_batch_free(&b);
    rs_task_close(one);
    rs_task_close(two);
    rs_task_close(other);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        int64_t length, symbols;
    } cases[] = {{0, 4}, {8, 0}, {8, 4097}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        rs_task_data data = task_defaults("markov");
        data.length = cases[c].length, data.symbols = cases[c].symbols;
        rs_train_task *task = NULL;
        rs_error err = {0};
        assert_int_equal(rs_task_open(&task, rs_task_find("markov"), &data, 0, "here", &err),
                         RS_E_TASK_SCHEMA);
        assert_null(task);
        assert_non_null(strstr(err.what, "symbols"));
    }
    /* one letter: there is nothing to tell */
    rs_task_data data = task_defaults("markov");
    data.length = 1, data.symbols = 1;
    rs_train_task *task = open_task("markov", &data, 0);
    assert_true(mark_of(task, "unigram entropy") == 0);
    rs_task_close(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entropies), cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_copies),    cmocka_unit_test(test_copied_share),
        cmocka_unit_test(test_hidden),    cmocka_unit_test(test_same_again),
        cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
