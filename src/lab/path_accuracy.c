/* path_accuracy.c: paths of a trained network through its classifier, by length. */
#include "lab/path_accuracy.h"

#include "base/memory.h"
#include "observe/pass.h"
#include "paths/paths.h"

#include <string.h>

enum { CODE, THEOREM, UP_TO, WAYS, STATES = 1 + WAYS * RS_PATH_LENGTHS };

typedef struct evaluation {
    const rs_network *network;
    const rs_context *context;
    const rs_path_asked *asked;
    rs_weights *weights;
    rs_network *tail; /* final norm and head alone */
    rs_path_plan *plan;
    rs_feed feed;
    rs_task_batch sample;
    double *states; /* [STATES][n*d] the network's own, then by way and length */
    int64_t begin[STATES + 1];
    int64_t right[STATES], targets;
} evaluation;

/* ---- a sample's states ---- */

/* What is fed the classifier in the theorem's way. */
static void take_sums(double *theorem, double *up_to, const rs_path_sums *s)
{
    int64_t count = s->n * s->d;
    for (int k = 0; k < RS_PATH_LENGTHS; k++) {
        double *own = theorem + k * count, *all = up_to + k * count;
        memcpy(own, s->embedding + k * count, (size_t)count * sizeof *own);
        for (int64_t i = 0; i < count; i++)
            all[i] = (k > 0 ? all[i - count] : 0) + own[i] + s->source[k * count + i];
        rs_path_plain_norm(own, s->n, s->d);
    }
}

static rs_status take_theorem(evaluation *e, int64_t count, rs_error *err)
{
    rs_path_sums *sums;
    RS_TRY(rs_path_sums_of(&sums, e->network, e->weights, &e->feed.batch, e->plan, NULL, false,
                           e->context, err));
    memcpy(e->states, sums->output, (size_t)count * sizeof *e->states);
    take_sums(e->states + (1 + THEOREM * RS_PATH_LENGTHS) * count,
              e->states + (1 + UP_TO * RS_PATH_LENGTHS) * count, sums);
    rs_path_sums_close(sums);
    return RS_OK;
}

static rs_status take_code(evaluation *e, int64_t count, int64_t sample, rs_error *err)
{
    rs_path_set *set;
    RS_TRY(rs_path_set_draw(&set, e->plan, e->asked->paths,
                            (e->asked->seed << 20) + (uint64_t)sample, err));
    rs_status status = rs_path_code_sums_of(e->states + (1 + CODE * RS_PATH_LENGTHS) * count,
                                            e->network, e->weights, &e->feed.batch, e->plan, set,
                                            e->asked->mlps, e->context, err);
    rs_path_set_close(set);
    return status;
}

/* ---- their answers ---- */

static rs_status on_logits(void *user, int64_t first_row, const rs_state_view *view, rs_error *err)
{
    evaluation *e = user;
    const double *logits = view->data;
    int64_t n = e->feed.begin[1];
    (void)err;
    for (int64_t r = 0; r < view->rows; r++, logits += view->cols) {
        int64_t row = first_row + r, most = 0;
        for (int64_t c = 1; c < view->cols; c++)
            if (logits[c] > logits[most]) most = c;
        e->right[row / n] += e->feed.targets[row % n] == most;
    }
    return RS_OK;
}

static rs_status classify(evaluation *e, rs_error *err)
{
    int64_t n = e->feed.begin[1];
    for (int i = 0; i <= STATES; i++)
        e->begin[i] = i * n;
    const rs_batch batch = {.samples = STATES, .begin = e->begin, .states = e->states};
    const rs_tap tap = {.user = e, .logits = on_logits};
    e->targets += e->feed.n_targets;
    return rs_observe_batch(e->tail, e->weights, &batch, &tap, e->context, err);
}

static rs_status evaluate(evaluation *e, rs_train_task *task, rs_error *err)
{
    for (int64_t i = 0; i < e->asked->samples; i++) {
        RS_TRY(rs_check_cancelled(e->context, err));
        RS_TRY(rs_task_fill(&e->sample, task, RS_TASK_EVAL, i, err));
        if (e->sample.samples == 0) break;
        rs_feed_pack(&e->feed, &e->sample);
        int64_t count = e->feed.begin[1] * e->network->d_model;
        RS_TRY(take_theorem(e, count, err));
        RS_TRY(take_code(e, count, i, err));
        RS_TRY(classify(e, err));
    }
    return RS_OK;
}

/* ---- the whole ---- */

static rs_status open_evaluation(evaluation *e, const rs_task_shape *shape, rs_error *err)
{
    RS_TRY(rs_path_plan_open(&e->plan, e->network, -1, err));
    if (e->plan->longest != RS_PATH_LONGEST)
        return rs_fail(err, RS_E_INTERNAL, "paths", NULL, "the longest path has %d heads",
                       (int)e->plan->longest);
    RS_TRY(rs_weights_open(&e->weights, RS_PRECISION_F64, rs_weight_limit(e->context), err));
    RS_TRY(rs_network_copy(&e->tail, e->network, err));
    e->tail->n_layers = 0;
    e->tail->embedding = (rs_embedding_op){.width = e->network->d_model, .scale = 1};
    e->tail->max_positions = 0;
    RS_TRY(rs_feed_open(&e->feed, shape, 1, false, err));
    RS_TRY(rs_task_batch_new(&e->sample, shape, 1, err));
    size_t count = (size_t)(shape->n_tok * e->network->d_model);
    e->states = rs_calloc(STATES, count * sizeof *e->states);
    return e->states ? RS_OK : rs_fail_memory(err, "states", STATES * count * sizeof *e->states);
}

static void close_evaluation(evaluation *e)
{
    rs_free(e->states);
    rs_task_batch_free(&e->sample);
    rs_feed_close(&e->feed);
    rs_network_close(e->tail);
    rs_weights_close(e->weights);
    rs_path_plan_close(e->plan);
}

static double share(const evaluation *e, int way, int length)
{
    return (double)e->right[1 + way * RS_PATH_LENGTHS + length] / (double)e->targets;
}

rs_status rs_path_accuracy_of(rs_path_accuracy *out, const rs_learner *learner, rs_train_task *task,
                              const rs_path_asked *asked, rs_error *err)
{
    evaluation e = {.network = learner->network, .context = learner->context, .asked = asked};
    rs_status status = open_evaluation(&e, rs_task_sizes(task), err);
    if (status == RS_OK) status = evaluate(&e, task, err);
    out->model = (double)e.right[0] / (double)e.targets;
    for (int k = 0; k < RS_PATH_LENGTHS; k++) {
        out->code[k] = share(&e, CODE, k);
        out->theorem[k] = share(&e, THEOREM, k);
        out->up_to[k] = share(&e, UP_TO, k);
    }
    close_evaluation(&e);
    return status;
}
