/* lambda_table1_start.c: see lambda_table1.h. */
#include "lab/lambda_table1.h"

#include "network/op_traits.h"

#include <math.h>
#include <stdio.h>

#define RECALL "'train': 0, 'eval': 512"
const rs_table1_mixer rs_table1_mixers[RS_TABLE1_MIXERS] = {
    {"attention", "'mixer': 'attention', 'mask': 'causal', 'heads': 1",
     "'length': 24, 'pairs': 4, 'symbols': 32, " RECALL, 500},
    {"linear attention", "'mixer': 'linear_attention', 'mask': 'causal', 'heads': 1",
     "'length': 16, 'pairs': 2, 'symbols': 16, " RECALL, 200},
    {"Mamba", "'mixer': 'mamba', 'heads': 2, 'd_head': 32, 'positions': 'none'",
     "'length': 16, 'pairs': 4, 'symbols': 16, " RECALL, 300},
    {"Mamba-2", "'mixer': 'mamba2', 'heads': 4, 'd_head': 16, 'positions': 'none'",
     "'length': 24, 'pairs': 4, 'symbols': 32, " RECALL, 250},
};
const char rs_table1_training[] =
    "'batch': 32, 'schedule': {'kind': 'cosine', 'warmup': 50, 'last': 0.1}";
const char rs_table1_optimiser[] =
    ", 'kind': 'adamw', 'betas': [0.9, 0.95], 'clip': 1, 'weight_decay': {'default': 0.1, "
    "'norm': 0, 'bias': 0, 'strength': 0}";

/* ---- gradients ---- */

/* Outputs first to end of a map, as its own rows are stored. */
typedef struct part_of {
    const rs_dense *map;
    int64_t first, count;
} part_of;

static bool parts_of(part_of out[RS_TABLE1_PARTS], const rs_branch *b)
{
    out[RS_TABLE1_STEP] = (part_of){0};
    if (b->kind == RS_BRANCH_ATTENTION || b->kind == RS_BRANCH_LINEAR) {
        bool linear = b->kind == RS_BRANCH_LINEAR;
        const rs_dense *maps[] = {linear ? &b->linear.q : &b->attention.q,
                                  linear ? &b->linear.k : &b->attention.k,
                                  linear ? &b->linear.v : &b->attention.v};
        for (int k = 0; k < 3; k++)
            out[k] = (part_of){maps[k], 0, maps[k]->out};
        return true;
    }
    if (b->kind == RS_BRANCH_S6) { /* in gives u and z, x gives dt, B and C */
        const rs_s6_op *op = &b->s6;
        out[RS_TABLE1_Q] = (part_of){&op->x, op->rank + op->state, op->state};
        out[RS_TABLE1_K] = (part_of){&op->x, op->rank, op->state};
        out[RS_TABLE1_V] = (part_of){&op->in, 0, op->inner};
        out[RS_TABLE1_STEP] = (part_of){&op->step, 0, op->inner};
        return true;
    }
    if (b->kind == RS_BRANCH_SSD) { /* in gives z, x, B, C and dt */
        const rs_ssd_op *op = &b->ssd;
        int64_t wide = op->heads * op->head_dim, states = op->groups * op->state;
        out[RS_TABLE1_Q] = (part_of){&op->in, 2 * wide + states, states};
        out[RS_TABLE1_K] = (part_of){&op->in, 2 * wide, states};
        out[RS_TABLE1_V] = (part_of){&op->in, wide, wide};
        out[RS_TABLE1_STEP] = (part_of){&op->in, 2 * wide + 2 * states, op->heads};
        return true;
    }
    return false;
}

/* Maps of these networks are stored [out, in], whole, in float32. */
static double square_of(const rs_learner *learner, const part_of *part)
{
    const rs_trained *item =
        part->map ? rs_trained_find(&learner->trained, part->map->weight) : NULL;
    if (!item || learner->trained.size != sizeof(float) || !part->map->out_is_row) return NAN;
    const float *g = (const float *)item->gradient + part->first * part->map->cols;
    double sum = 0;
    for (int64_t i = 0; i < part->count * part->map->cols; i++)
        sum += (double)g[i] * (double)g[i];
    return sum;
}

static rs_status read_gradients(void *user, rs_learner *learner, rs_train_task *task, rs_error *err)
{
    rs_table1_gradients *out = user;
    (void)task;
    for (int32_t l = 0; l < RS_TABLE1_LAYERS; l++) {
        part_of parts[RS_TABLE1_PARTS];
        const rs_branch *mixer = rs_layer_mixer(&learner->network->layers[l]);
        if (!mixer || !parts_of(parts, mixer))
            return rs_fail(err, RS_E_INTERNAL, "gradients", NULL, "layer %d has another mixer",
                           (int)l);
        for (int k = 0; k < RS_TABLE1_PARTS; k++)
            out->squared[l][k] = square_of(learner, &parts[k]);
    }
    return RS_OK;
}

rs_status rs_table1_look(rs_table1_gradients *out, const rs_table1_mixer *mixer, double strength,
                         uint64_t seed, const rs_context *context, rs_error *err)
{
    char text[1000];
    bool diverged = false;
    const rs_lab_finish finish = {out, read_gradients};
    for (int l = 0; l < RS_TABLE1_LAYERS; l++)
        for (int k = 0; k < RS_TABLE1_PARTS; k++)
            out->squared[l][k] = NAN;
    snprintf(text, sizeof text,
             "{'task': 'mqar', 'data': {%s}, 'model': {'depth': %d, 'd_model': 32, %s, "
             "'skip_mixer': %.17g}, 'steps': 0, 'seed': %llu, 'rank_every': 0, %s}",
             mixer->data, RS_TABLE1_LAYERS, mixer->model, strength, (unsigned long long)seed,
             rs_table1_training);
    return rs_lab_train_seen(&diverged, text, &finish, context, err);
}
