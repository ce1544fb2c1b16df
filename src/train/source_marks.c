/* source_marks.c: what needs no learning of the user's data: the best constant answer, measured on the
 * training part gone through once. */
#include "train/source.h"

#include "base/memory.h"

#include <math.h>

/* Sums over the targets of the training part; arrays are [d_out]. */
typedef struct sums {
    double *counts; /* classes: how often; shares and reals: their sums */
    double *shift;  /* reals: the first target, which sums are taken from, for their digits */
    double *squares;
    double targets, samples; /* samples: of a window in part that part */
    double again;            /* squared error of the sample's own rows as the answer */
} sums;

/* Of its tokens from `fresh` on. */
static void add_sample(sums *all, const rs_task_sample *batch, const rs_task_shape *shape,
                       int64_t fresh)
{
    int64_t d = shape->d_out;
    bool same = batch->rows && batch->values;
    all->samples += (double)(shape->n_tok - fresh) / (double)shape->n_tok;
    for (int64_t t = fresh; t < shape->n_tok; t++) {
        if (!batch->counted[t]) continue;
        all->targets++;
        if (batch->classes) all->counts[batch->classes[t]]++;
        for (int64_t c = 0; batch->values && c < d; c++) {
            double value = batch->values[t * d + c];
            double away = same ? value - batch->rows[t * d + c] : 0;
            if (all->targets == 1 && shape->target == RS_TARGET_REALS) all->shift[c] = value;
            value -= all->shift[c];
            all->counts[c] += value;
            all->squares[c] += value * value;
            all->again += away * away;
        }
    }
}

/* Rows are read where they are the targets' own earlier values: y alone is far smaller than x. */
static rs_status walk_samples(sums *all, rs_source *s, rs_task_batch *batch, rs_error *err)
{
    rs_task_sample sample = rs_task_sample_of(batch, &s->shape, 0);
    if (s->settings.files.y) sample.rows = NULL;
    for (int64_t i = 0; i < rs_sets_walk(&s->sets); i++) {
        if (s->context) RS_TRY(rs_check_cancelled(s->context, err));
        rs_random random = rs_task_draws(s->task, RS_DRAWS_SET, 0, i);
        *sample.length = (int32_t)s->shape.n_tok;
        for (int64_t t = 0; t < s->shape.n_tok; t++)
            sample.counted[t] = 1;
        int64_t fresh, place = rs_sets_walked(&fresh, &s->sets, i);
        s->put(&sample, s, place, &random);
        for (int64_t t = 0; sample.classes && t < s->shape.n_tok; t++)
            sample.counted[t] = sample.classes[t] >= 0;
        add_sample(all, &sample, &s->shape, fresh);
    }
    return rs_mapping_check(s->x.file, err);
}

/* Every word of the training part once, not those of whole windows alone. */
static void count_words(sums *all, const rs_source *s)
{
    for (int64_t i = 0; i < s->sets.eval_first; i++)
        all->counts[s->ids[i]]++;
    all->targets = (double)s->sets.eval_first;
}

/* -Σ p ln p, p the shares of the counts. */
static double entropy_of(const double *counts, int64_t n, double all)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++)
        if (counts[c] > 0) sum -= counts[c] / all * log(counts[c] / all);
    return sum;
}

static double largest_of(const double *counts, int64_t n)
{
    double largest = 0;
    for (int64_t c = 0; c < n; c++)
        largest = fmax(largest, counts[c]);
    return largest;
}

static int mark_classes(rs_task_mark *out, const sums *all, const rs_source *s)
{
    int64_t n = s->shape.d_out;
    bool words = s->ids != NULL, shares = s->shape.target == RS_TARGET_SHARES;
    double entropy = entropy_of(all->counts, n, all->targets);
    int count = 0;
    out[count++] =
        (rs_task_mark){RS_MARK_LOSS, words ? "unigram entropy" : "entropy of the labels", entropy};
    out[count++] = (rs_task_mark){RS_MARK_LOSS, "uniform", log((double)n)};
    if (shares) return count;
    out[count++] = (rs_task_mark){RS_MARK_FLOOR, words ? "commonest token" : "commonest label",
                                  largest_of(all->counts, n) / all->targets};
    return count;
}

static int mark_reals(rs_task_mark *out, const sums *all, const rs_source *s)
{
    double sum = 0;
    int count = 0;
    for (int64_t c = 0; c < s->shape.d_out; c++)
        sum += all->squares[c] - all->counts[c] * all->counts[c] / all->targets;
    out[count++] = (rs_task_mark){RS_MARK_ERROR, "best constant", fmax(0, sum) / all->samples};
    if (!s->settings.files.y)
        out[count++] =
            (rs_task_mark){RS_MARK_ERROR, "the last value again", all->again / all->samples};
    return count;
}

static rs_status take_sums(sums *all, int64_t n, rs_error *err)
{
    all->counts = rs_calloc((size_t)n, sizeof *all->counts);
    all->shift = rs_calloc((size_t)n, sizeof *all->shift);
    all->squares = rs_calloc((size_t)n, sizeof *all->squares);
    if (all->counts && all->shift && all->squares) return RS_OK;
    return rs_fail_memory(err, "marks", (size_t)n * 3 * sizeof *all->counts);
}

rs_status rs_source_marks(rs_task_mark out[RS_TASK_MARKS], int *count, rs_train_task *task,
                          rs_error *err)
{
    rs_source *s = task->source;
    sums all = {0};
    rs_task_batch batch = {0};
    *count = 0;
    rs_status status = take_sums(&all, s->shape.d_out, err);
    if (status == RS_OK && s->ids) count_words(&all, s);
    if (status == RS_OK && !s->ids) {
        status = rs_task_batch_new(&batch, &s->shape, 1, err);
        if (status == RS_OK) status = walk_samples(&all, s, &batch, err);
        rs_task_batch_free(&batch);
    }
    bool reals = s->shape.target == RS_TARGET_REALS;
    if (status == RS_OK && all.targets > 0)
        *count = reals ? mark_reals(out, &all, s) : mark_classes(out, &all, s);
    rs_free(all.counts);
    rs_free(all.shift);
    rs_free(all.squares);
    return status;
}
