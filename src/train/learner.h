/*
 * learner.h: a network that learns: one batch forward and back, one step of the optimiser. What a run
 * does around it (logs, checkpoints, alarms) is run.h's.
 */
#ifndef RS_TRAIN_LEARNER_H
#define RS_TRAIN_LEARNER_H

#include "base/context.h"
#include "network/arch.h"
#include "train/crew.h"
#include "train/feed.h"
#include "train/trained.h"

typedef struct rs_learner {
    const rs_train_settings *settings;
    const rs_context *context;
    rs_precision precision;
    rs_init *init; /* owns drawn weights; NULL: the network is a checkpoint's */
    rs_checkpoint *checkpoint;
    rs_arch *arch; /* what the network was made of; NULL: a checkpoint of another kind */
    const json_t *arch_json;
    rs_network *network;
    rs_weights *weights;
    rs_runner *runner;
    rs_crew *crew; /* runs batches forward and back */
    rs_trained_list trained;
    rs_optimiser *optimiser;
    rs_feed feed;
    int64_t step;         /* steps made */
    double temperature;   /* that attention's logits are multiplied by now */
    double *temperatures; /* [branches of all layers] as the network was opened */
    double rate;          /* of the last step */
    double norm;          /* of all gradients of the last step, before clipping */
} rs_learner;

/* What a batch said. */
typedef struct rs_batch_outcome {
    double loss; /* mean over targets; of squared errors the mean over samples of their sums; NaN:
                        there is no target */
    double accuracy; /* of classes; NaN: there are none */
    int64_t tokens, targets;
} rs_batch_outcome;

/* Opens the network of the settings' model, its weights drawn by their seed. The settings, the task
 * and the context must outlive it; it must not move. */
rs_status rs_learner_open(rs_learner *out, const rs_train_settings *settings,
                          const rs_task_shape *shape, const rs_context *context, rs_error *err);
void rs_learner_close(rs_learner *learner);

/* Runs a batch forward and back: the first of a step's `accumulate` batches replaces what gradients
 * there were, each counts 1/accumulate. */
rs_status rs_learner_batch(rs_batch_outcome *out, rs_learner *learner, const rs_task_batch *batch,
                           int64_t number, rs_error *err);
/* penalty.c: adds the gradients of the product penalty, behind the last batch of a step. Errors:
 * RS_E_UNSUPPORTED, RS_E_NO_MEMORY. */
rs_status rs_learner_penalise(rs_learner *learner, rs_error *err);
/* Completes the step's gradients: sets rate and norm, and what clipping multiplies them by. */
void rs_learner_clip(rs_learner *learner);
/* One step of the optimiser with these gradients, behind rs_learner_clip. */
void rs_learner_step(rs_learner *learner);

/* The same of a batch as the network is, without a way back and without dropout. */
rs_status rs_learner_evaluate(rs_batch_outcome *out, rs_learner *learner,
                              const rs_task_batch *batch, rs_error *err);

/* Writes what in the last batch is first not finite: "the weights of layers.0.mixer.q.weight", "the
 * output of layer 3", "the gradient of ...". */
rs_status rs_learner_blame(char *out, size_t size, rs_learner *learner, rs_error *err);

/* Bytes that a run of it holds, as they are counted before it is opened (needs.h). */
double rs_learner_bytes(const rs_learner *learner);

/* config.json of the network as it is; its graph's file, where it has one, is graph.npy beside it. */
rs_status rs_learner_config(json_t **out, const rs_learner *learner, rs_error *err);
/* The path of that file now; NULL: there is none. */
const char *rs_learner_graph(const rs_learner *learner);

#endif
