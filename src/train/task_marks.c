/* task_marks.c: what each task gives without learning it, and the most it can give. */
#include "train/source.h"

#include "base/memory.h"

#include <math.h>

/* P(X >= i of n trials succeed) at success probability p. */
static double at_least(int64_t i, int64_t n, double p)
{
    if (p <= 0) return i <= 0;
    if (p >= 1) return i <= n;
    double sum = 0;
    for (int64_t j = i; j <= n; j++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)j + 1) - lgamma((double)(n - j) + 1) +
                   (double)j * log(p) + (double)(n - j) * log1p(-p));
    return sum;
}

/* The best letter for each place of a sorted sequence: order statistics of uniform letters. */
static double best_sorted(int64_t length, int64_t symbols)
{
    double sum = 0;
    for (int64_t i = 1; i <= length; i++) {
        double best = 0, below = 0;
        for (int64_t v = 1; v <= symbols; v++) {
            double reached = at_least(i, length, (double)v / (double)symbols);
            best = fmax(best, reached - below);
            below = reached;
        }
        sum += best;
    }
    return sum / (double)length;
}

/* The share of n uniform points of a square that are vertices of their hull, from the expected area
 * of the hull (Buchta 1984) by Efron's identity. */
static double share_of_vertices(int64_t n)
{
    if (n < 3) return 1;
    double sum = 0;
    for (int64_t k = 1; k <= n; k++)
        sum += (1 - exp2(-(double)k)) / (double)k;
    return 8.0 / 3.0 * (sum - exp2(-(double)n) / (double)n) / (double)n;
}

/* The best constant for one arc of `count` angles from `first`: its mean leaves r^2 (1 - |m|^2), m
 * the mean of the unit vectors. */
static double best_constant_arc(const rs_task_data *data, int64_t count)
{
    double half = 3.1415926535897932384626433832795 / (double)data->angles;
    double mean = sin((double)count * half) / ((double)count * sin(half));
    return data->radius * data->radius * (1 - mean * mean);
}

/* The variance of the map of a normal number, by midpoints of cells whose edges hold all its jumps. */
static double entry_variance(rs_entry_map map, double deviation)
{
    const int64_t half = 200000;
    const double reach = 12, h = reach / (double)half;
    double weights = 0, sum = 0, squares = 0;
    for (int64_t i = -half; i < half; i++) {
        double z = ((double)i + 0.5) * h, weight = exp(-0.5 * z * z);
        double value = rs_entry_value(map, deviation * z);
        weights += weight;
        sum += weight * value;
        squares += weight * value * value;
    }
    double mean = sum / weights;
    return squares / weights - mean * mean;
}

/* Half of E|S_m| + m, S_m a walk of m steps of +-1: what is expected of the commoner of m fair bits. */
static double commoner_of(int64_t m)
{
    double walk = 1; /* of 1 and of 2 steps; E|S_2k+2| = E|S_2k| (2k + 1) / (2k) */
    for (int64_t k = 1; k < (m + 1) / 2; k++)
        walk *= (double)(2 * k + 1) / (double)(2 * k);
    return 0.5 * ((double)m + walk);
}

/* Without positions equal words of one text get one answer. *expected is over all labels, *drawn of
 * those that were drawn. */
static rs_status find_ceilings(double *expected, double *drawn, rs_train_task *task, rs_error *err)
{
    rs_task_batch batch;
    RS_TRY(rs_task_batch_new(&batch, &task->shape, 1, err));
    double tokens = 0, best = 0, most = 0;
    rs_status status = RS_OK;
    int64_t steps = task->file ? 0 : task->data.train;
    bool shuffled = task->order != NULL;
    for (int64_t i = 0; i < steps && status == RS_OK && !shuffled; i++) {
        status = rs_task_fill(&batch, task, RS_TASK_TRAIN, i, err);
        for (int64_t t = 0; status == RS_OK && t < batch.lengths[0]; t++) {
            int64_t same = 0, ones = 0, before = 0;
            for (int64_t other = 0; other < batch.lengths[0]; other++) {
                if (batch.tokens[other] != batch.tokens[t]) continue;
                before += other < t;
                same++;
                ones += batch.classes[other];
            }
            tokens++;
            if (before) continue; /* each word of a text once */
            best += commoner_of(same);
            most += (double)(ones > same - ones ? ones : same - ones);
        }
    }
    rs_task_batch_free(&batch);
    *expected = tokens > 0 ? best / tokens : NAN;
    *drawn = tokens > 0 ? most / tokens : NAN;
    return status;
}

/* ---- by task ---- */

typedef struct marks {
    rs_task_mark *out;
    int count;
} marks;

static void add_mark(marks *list, rs_mark_kind kind, const char *name, double value)
{
    if (isnan(value) || list->count == RS_TASK_MARKS) return;
    list->out[list->count++] = (rs_task_mark){kind, name, value};
}

static void mark_symbols(marks *list, const rs_train_task *task)
{
    const rs_task_data *data = &task->data;
    add_mark(list, RS_MARK_FLOOR, "chance", 1 / (double)data->symbols);
    if (task->kind->sample == rs_sorting_sample)
        add_mark(list, RS_MARK_FLOOR, "best letter for each place",
                 best_sorted(data->length, data->symbols));
}

static void mark_recall(marks *list, const rs_train_task *task)
{
    const rs_task_data *data = &task->data;
    bool many = task->kind->sample == rs_mqar_sample; /* its values differ */
    double values = (double)(many ? data->symbols - data->symbols / 2 : data->values);
    double pairs = (double)data->pairs;
    add_mark(list, RS_MARK_FLOOR, "chance", 1 / values);
    add_mark(list, RS_MARK_FLOOR, "any value of the context",
             1 / pairs + (many ? 0 : (1 - 1 / pairs) / values));
}

static void mark_reals(marks *list, const rs_train_task *task)
{
    const rs_task_data *data = &task->data;
    if (task->kind->fixed) {
        double step =
            2 * data->radius * sin(3.1415926535897932384626433832795 / (double)data->angles);
        if (data->lag == 0) add_mark(list, RS_MARK_ERROR, "the point where it is", 2 * step * step);
        add_mark(list, RS_MARK_ERROR, "best constant", 2 * best_constant_arc(data, data->train));
        return;
    }
    add_mark(list, RS_MARK_ERROR, "best constant",
             (double)(data->length * data->width) * entry_variance(data->map, data->deviation));
}

rs_status rs_task_marks(rs_task_mark out[RS_TASK_MARKS], int *count, rs_train_task *task,
                        rs_error *err)
{
    if (task->source) return rs_source_marks(out, count, task, err);
    marks list = {out, 0};
    const rs_task_kind *kind = task->kind;
    if (kind->sample == rs_sorting_sample || kind->sample == rs_reversal_sample)
        mark_symbols(&list, task);
    if (kind->sample == rs_markov_sample) {
        add_mark(&list, RS_MARK_LOSS, "unigram entropy", rs_markov_unigram(task));
        bool hides = task->data.hidden > 0;
        double rate;
        RS_TRY((hides ? rs_markov_between : rs_markov_rate)(&rate, task, err));
        add_mark(&list, RS_MARK_LOSS,
                 hides ? "entropy between both neighbours" : "entropy of the source", rate);
    }
    if (kind->sample == rs_recall_sample || kind->sample == rs_mqar_sample)
        mark_recall(&list, task);
    if (task->shape.target == RS_TARGET_REALS) mark_reals(&list, task);
    if (kind->sample == rs_hull_sample) {
        double share = share_of_vertices(task->data.length);
        add_mark(&list, RS_MARK_FLOOR, "commoner label", fmax(share, 1 - share));
    }
    if (kind->sample == rs_memorization_sample) {
        double expected, drawn;
        RS_TRY(find_ceilings(&expected, &drawn, task, err));
        add_mark(&list, RS_MARK_FLOOR, "chance", 0.5);
        add_mark(&list, RS_MARK_CEILING, "without positions, over all labels", expected);
        add_mark(&list, RS_MARK_CEILING, "without positions, labels as drawn", drawn);
    }
    *count = list.count;
    return RS_OK;
}
