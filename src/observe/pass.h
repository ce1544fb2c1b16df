/*
 * pass.h: a network run over inputs while listeners hear it. Here alone a runner is opened and
 * driven: one pass over all inputs for any number of listeners, a single batch for one tap, or a
 * continuation of prompts.
 */
#ifndef RS_OBSERVE_PASS_H
#define RS_OBSERVE_PASS_H

#include "engine/gradient.h"
#include "observe/inputs.h"

/* A tap that hears all inputs, batch by batch. Sample s of a batch is sample batch->first + s of
 * the inputs. Batches in which nobody has a token are not run, and not told. */
typedef struct rs_listener {
    rs_tap tap; /* its `user` is handed to the functions below, too, which may be NULL */
    rs_status (*begin)(void *user, const rs_input_batch *batch, rs_error *err); /* until end */
    rs_status (*end)(void *user, rs_error *err);
    /* Memory that each thread of the pass has for a call to the tap, and that nothing else uses
     * until the call is over: how much is wanted, and where it is while the pass runs. */
    size_t scratch_bytes;
    void *const *scratch; /* [context->threads] */
} rs_listener;

/* A loss whose gradients a pass takes on its way back. */
typedef struct rs_pass_gradient {
    rs_loss loss;          /* of all inputs: targets of all their rows, first_row 0 */
    const int32_t *ids;    /* [rows of the inputs] fed instead of their ids; NULL: none */
    rs_gradient_plan plan; /* `several` is found by the pass */
    const rs_gradient_tap *tap;
} rs_pass_gradient;

/* What is run, and how. */
typedef struct rs_pass_plan {
    const rs_network *network;
    const rs_inputs *inputs;
    rs_precision precision;
    rs_weights *weights;              /* of that precision; NULL: the pass opens its own */
    int64_t capacity;                 /* samples of a batch, see rs_pass_capacity */
    const rs_points *points;          /* of a sweep, see rs_batch; NULL: none */
    const rs_pass_gradient *gradient; /* not with points; NULL: there is no way back */
    const char *phase;                /* name for the progress bar */
    uint64_t done, total;             /* tokens done before and in all; total 0: this pass alone */
} rs_pass_plan;

/* What a pass took. */
typedef struct rs_pass_account {
    uint64_t peak_bytes;   /* most memory that activations and workspace took */
    uint64_t weight_bytes; /* of numbers that weights were decoded to */
    double flops;          /* floating-point operations of all matrix products */
    double seconds;        /* duration of all batches with their listeners */
    double loss;           /* of a pass with a way back, over all batches; 0: there is none */
    uint64_t tape_bytes;   /* that its tape took */
} rs_pass_account;
/* Adds what another pass took. */
void rs_pass_account_add(rs_pass_account *sum, const rs_pass_account *other);

/* Samples that a pass runs at once: `batch`, or as rs_default_batch says where it is 0; no more
 * than there are. */
int64_t rs_pass_capacity(const rs_network *network, rs_precision precision, const rs_inputs *inputs,
                         int64_t batch, const rs_context *context);

/* Runs a network over all inputs. Listeners (n) hear each moment in the order given. account may be
 * NULL. */
rs_status rs_observe_pass(rs_pass_account *account, const rs_pass_plan *plan,
                          rs_listener *const *listeners, size_t n, const rs_context *context,
                          rs_error *err);

/* Runs a network over one batch of its caller's. */
rs_status rs_observe_batch(const rs_network *network, rs_weights *weights, const rs_batch *batch,
                           const rs_tap *tap, const rs_context *context, rs_error *err);

/* Is handed the ids [n_new] that continue a sample. */
typedef rs_status rs_continued(void *user, int64_t sample, const int32_t *ids, rs_error *err);
/* Continues each prompt (rs_inputs_prompts) that has a token greedily by n_new ids (rs_generate), in
 * order. */
rs_status rs_observe_continuations(const rs_network *network, rs_weights *weights,
                                   const rs_inputs *inputs, int64_t n_new, rs_continued *tell,
                                   void *user, const rs_context *context, rs_error *err);

/* How much decoded weight rs_weights_open may keep on this machine: half of its memory. */
uint64_t rs_weight_limit(const rs_context *context);
/* Tokens whose activations would take a sixteenth of the memory. */
int64_t rs_pass_tokens(const rs_network *network, rs_precision precision,
                       const rs_context *context);
/* Samples of `longest` tokens that one pass takes when nobody says: as many as 4096 tokens hold,
 * fewer where their activations would take more than a sixteenth of the memory, at least one. */
int64_t rs_default_batch(const rs_network *network, rs_precision precision, int64_t longest,
                         const rs_context *context);

#endif
