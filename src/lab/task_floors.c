/* task_floors.c: what is right without attention, counted, and of sorting in closed form. */
#include "lab/path_accuracy.h"

#include "base/memory.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Counts of labels by what an answer may hang on. */
typedef struct counts {
    int64_t classes, vocab, n_tok, places;
    double *constant; /* [places][classes] */
    double *alone;    /* [places][vocab][classes]; NULL: tokens are real numbers */
    double same, all; /* labels that are the commonest of their token in their sample; of all */
} counts;

static double largest(const double *of, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, of[i]);
    return most;
}

static double sum_of_largest(const double *of, int64_t groups, int64_t classes)
{
    double sum = 0;
    for (int64_t g = 0; g < groups; g++)
        sum += largest(of + g * classes, classes);
    return sum;
}

/* Each token of the sample once, with all that equal it. */
static void count_same(counts *c, const rs_task_batch *sample, double *room)
{
    int32_t n = sample->lengths[0];
    for (int32_t t = 0; t < n; t++) {
        bool before = false;
        memset(room, 0, (size_t)c->classes * sizeof *room);
        for (int32_t other = 0; other < n; other++) {
            if (sample->tokens[other] != sample->tokens[t]) continue;
            before = before || other < t;
            room[sample->classes[other]]++;
        }
        if (!before) c->same += largest(room, c->classes);
    }
}

static void count_sample(counts *c, const rs_task_batch *sample)
{
    for (int32_t t = 0; t < sample->lengths[0]; t++) {
        int64_t place = c->places > 1 ? t : 0, class = sample->classes[t];
        c->all++;
        c->constant[place * c->classes + class]++;
        if (c->alone) c->alone[(place * c->vocab + sample->tokens[t]) * c->classes + class]++;
    }
}

static rs_status count_all(counts *c, rs_train_task *task, rs_task_set set, int64_t samples,
                           rs_error *err)
{
    rs_task_batch sample;
    RS_TRY(rs_task_batch_new(&sample, rs_task_sizes(task), 1, err));
    double *room = rs_calloc((size_t)c->classes, sizeof *room);
    rs_status status = room ? RS_OK : rs_fail_memory(err, "labels", 1);
    for (int64_t i = 0; i < samples && status == RS_OK; i++) {
        status = rs_task_fill(&sample, task, set, i, err);
        if (status != RS_OK || sample.samples == 0) break;
        count_sample(c, &sample);
        if (c->alone && c->places == 1) count_same(c, &sample, room);
    }
    rs_free(room);
    rs_task_batch_free(&sample);
    return status;
}

rs_status rs_task_floors_of(rs_task_floors *out, rs_train_task *task, rs_task_set set,
                            int64_t samples, bool places, rs_error *err)
{
    const rs_task_shape *shape = rs_task_sizes(task);
    counts c = {.classes = shape->d_out,
                .vocab = shape->vocab,
                .n_tok = shape->n_tok,
                .places = places ? shape->n_tok : 1};
    size_t cells = (size_t)(c.places * c.classes),
           tokens = (size_t)(shape->vocab ? shape->vocab : 1);
    c.constant = rs_calloc(cells, sizeof *c.constant);
    if (shape->vocab) c.alone = rs_calloc(cells, tokens * sizeof *c.alone);
    rs_status status = RS_OK;
    if (!c.constant || (shape->vocab && !c.alone))
        status = rs_fail_memory(err, "labels", cells * tokens * sizeof(double));
    if (status == RS_OK) status = count_all(&c, task, set, samples, err);
    if (status == RS_OK) {
        out->constant = sum_of_largest(c.constant, c.places, c.classes) / c.all;
        out->alone = c.alone ? sum_of_largest(c.alone, c.places * c.vocab, c.classes) / c.all : NAN;
        out->ceiling = c.alone && !places ? c.same / c.all : 1;
    }
    rs_free(c.constant);
    rs_free(c.alone);
    return status;
}

/* ---- sorting ---- */

/* P(at least i of n trials succeed), success probability p; all of them where i <= 0. */
static double at_least(int64_t i, int64_t n, double p)
{
    double sum = 0;
    if (i <= 0) return 1;
    if (p <= 0 || p >= 1) return p >= 1 && i <= n;
    for (int64_t j = i; j <= n; j++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)j + 1) - lgamma((double)(n - j) + 1) +
                   (double)j * log(p) + (double)(n - j) * log1p(-p));
    return sum;
}

/* The i-th smallest of n letters, one of which is x, is at most v where i - [x <= v] of the others
 * are. */
double rs_sorted_alone(int64_t length, int64_t symbols)
{
    double sum = 0;
    for (int64_t i = 1; i <= length; i++)
        for (int64_t x = 1; x <= symbols; x++) {
            double best = 0, below = 0;
            for (int64_t v = 1; v <= symbols; v++) {
                double reached = at_least(i - (x <= v), length - 1, (double)v / (double)symbols);
                best = fmax(best, reached - below);
                below = reached;
            }
            sum += best;
        }
    return sum / (double)(length * symbols);
}
