/*
 * needs.c: see needs.h. Tapes, copies and batches are as large as is said here. What a pass works in
 * beside its tape is bounded: every state that a runner has a place for, and the widest of its
 * branches, forward and back.
 */
#include "train/needs.h"

#include "engine/gradient.h"
#include "linalg/spectrum.h"
#include "network/op_traits.h"
#include "train/instruments.h"
#include "train/run.h"

#include <math.h>

/* States of [rows, d_model] that a runner has places for: of a pass, and of its way back. */
enum { FORWARD_STATES = 6, BACK_STATES = 6 };

/* What is known of a run. */
typedef struct needs {
    rs_budget *budget;
    const rs_network *network;
    const rs_train_settings *s;
    const rs_context *context;
    double size, each, states; /* of a number; bytes of all numbers; averages of the optimiser */
    int64_t rows, parts;       /* of a batch */
    int64_t workers, sinks;    /* parts at a time, and sets of gradients */
} needs;

/* Numbers of a row inside the branch that has most, its first maps and what its last one reads. */
static double widest_branch(const rs_network *network)
{
    double widest = 0;
    for (int32_t l = 0; l < network->n_layers; l++)
        for (int32_t b = 0; b < network->layers[l].n_branches; b++) {
            const rs_branch *branch = &network->layers[l].branches[b];
            const rs_op_width width = rs_branch_traits(branch)->width(branch);
            widest = fmax(widest, (double)width.projected + (double)width.inner);
        }
    return widest;
}

/* Numbers of a row that a read-out reads, with its weights of layers and the derivatives by them. */
static double read_width(const rs_network *network)
{
    if (network->read_out.kind == RS_FUSION_NONE) return 0;
    return (double)network->n_layers * ((double)network->d_model + 2);
}

static double pass_bytes(const needs *n, double rows)
{
    double d = (double)n->network->d_model;
    return n->size * rows *
           (FORWARD_STATES * d + widest_branch(n->network) + read_width(n->network));
}

/* The logits of the rows that are looked at together, and the gradient of the decoder that they are
 * added up in. */
static void add_head(const needs *n)
{
    enum { MOST_ROWS = 512 }; /* engine/back_ends_real.inc */
    const rs_dense *decoder = &n->network->head.decoder;
    double least = (double)rs_logits_rows(decoder, (rs_precision)n->s->precision);
    double rows = fmin(ceil((double)n->rows / (double)n->parts), fmax(MOST_ROWS, least));
    if (!decoder->weight) return;
    rs_budget_add(n->budget, "logits", (double)n->workers * rows * (double)decoder->out * n->size);
    rs_budget_add(n->budget, "gradients",
                  (double)n->workers * (double)decoder->out * (double)decoder->in * n->size);
}

/* Rows of the parts that are on their way at a time. */
static int64_t rows_at_a_time(const needs *n)
{
    int64_t samples = n->s->batch, longest = (samples + n->parts - 1) / n->parts;
    int64_t rows = n->workers * longest * n->s->shape.n_tok;
    return rows < n->rows ? rows : n->rows;
}

static void add_batch(const needs *n)
{
    const rs_gradient_plan plan = {.numbers = rs_trained_told(n->s)};
    int64_t rows = rows_at_a_time(n);
    double back = n->size * (double)rows *
                  (BACK_STATES * (double)n->network->d_model + widest_branch(n->network));
    rs_budget_add(n->budget, "gradients", (double)n->sinks * n->each);
    rs_budget_add(n->budget, "tapes of the way back",
                  (double)rs_tape_bytes(n->network, (rs_precision)n->s->precision, &plan, rows));
    rs_budget_add(n->budget, "activations", pass_bytes(n, (double)rows) + back);
    add_head(n);
}

/* A batch that is left whole is evaluated in the places that it trains in. */
static void add_evaluation(const needs *n)
{
    if (n->s->eval_every > 0 && n->parts > 1)
        rs_budget_add(n->budget, "passes of evaluation", pass_bytes(n, (double)n->rows));
}

/* The pass over the probe batch with its largest attention matrix and logits, the Grams of the factors
 * of two products of each head, and a factor with what its spectrum is found in. */
static void add_instruments(const needs *n)
{
    const rs_train_settings *s = n->s;
    double tokens = (double)s->shape.n_tok, threads = n->context->threads, grams = 0, largest = 0;
    if (s->rank_every == 0) return;
    for (int32_t l = 0; l < n->network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&n->network->layers[l]);
        double heads = mixer ? (double)rs_branch_heads(mixer) : 0;
        double inner = heads > 0 ? (double)rs_branch_traits(mixer)->width(mixer).inner / heads : 0;
        grams += 4 * heads * inner * inner;
        largest = fmax(largest, inner);
    }
    double work = (double)rs_gram_work((int64_t)largest) +
                  (double)rs_squares_room((int64_t)largest) + largest * largest +
                  largest * (double)n->network->d_model;
    rs_budget_add(n->budget, "instruments",
                  pass_bytes(n, (double)s->probe_samples * tokens) +
                      threads * 2 * tokens * tokens * n->size +
                      (grams + threads * work) * (double)sizeof(double));
}

/* Rows of the result's tables, and the pages that SQLite keeps of run.db (its default). */
static void add_log(const needs *n)
{
    static const double pages = 2000 * 1024;
    const rs_train_settings *s = n->s;
    double readings = s->rank_every > 0 ? (double)s->steps / (double)s->rank_every + 2 : 0;
    double logs = (double)s->steps / (double)s->log_every + 2 + readings, heads = 0;
    for (int32_t l = 0; l < n->network->n_layers; l++) {
        const rs_branch *mixer = rs_layer_mixer(&n->network->layers[l]);
        heads += mixer ? (double)rs_branch_heads(mixer) : 0;
    }
    double reading =
        2 * heads * sizeof(rs_rank_row) + ((double)n->network->n_layers + 1) * sizeof(rs_layer_row);
    rs_budget_add(n->budget, "rows of the log",
                  logs * sizeof(rs_train_row) + readings * reading + (s->saves ? pages : 0));
}

/* The batch of a step and that of an evaluation, and what is packed of one of them. */
static void add_data(const needs *n)
{
    const rs_task_shape *shape = &n->s->shape;
    double in = shape->vocab > 0 ? sizeof(int32_t) : (double)shape->d_in * sizeof(double);
    double out = (double)shape->d_out * sizeof(double);
    if (shape->target == RS_TARGET_CLASSES)
        out = sizeof(int32_t) + (n->s->loss == RS_TRAIN_LOSS_SQUARED ? out : 0);
    rs_budget_add(n->budget, "data", (double)shape->held + 3 * (double)n->rows * (in + out + 1));
}

void rs_train_need(rs_budget *budget, const rs_network *network, const rs_learner *learner)
{
    const rs_train_settings *s = learner->settings;
    size_t size = rs_precision_size((rs_precision)s->precision);
    int64_t numbers = (int64_t)network->stored.parameters, rows = s->batch * s->shape.n_tok;
    int64_t parts = rs_crew_parts(numbers, size, s->batch, rows);
    int threads = learner->context->threads;
    const needs n = {.budget = budget,
                     .network = network,
                     .s = s,
                     .context = learner->context,
                     .size = (double)size,
                     .each = (double)numbers * (double)size,
                     .states = rs_optimiser_states(s->rule.kind),
                     .rows = rows,
                     .parts = parts,
                     .workers = rs_crew_workers(parts, threads),
                     .sinks = rs_crew_sinks(parts, threads)};
    rs_budget_add(budget, "trained numbers", n.each);
    add_batch(&n);
    rs_budget_add(budget, "averages of the optimiser", n.states * n.each);
    add_evaluation(&n);
    add_instruments(&n);
    if (s->saves) rs_budget_add(budget, "copies for checkpoints", (1 + n.states) * n.each);
    add_log(&n);
    add_data(&n);
}
