/*
 * targets.h: the loss that gradients are of: from what a user asks for to a target for each row of
 * the inputs (docs/theory/gradients.md, 6).
 */
#ifndef RS_OBSERVE_TARGETS_H
#define RS_OBSERVE_TARGETS_H

#include "engine/gradient.h"
#include "observe/inputs.h"

/* What is asked for. */
typedef struct rs_loss_request {
    rs_grad_loss loss;
    rs_grad_place at;
    const char *target; /* classes, as --target has them; or NULL */
    uint64_t seed;
} rs_loss_request;

/* What it means for some inputs. */
typedef struct rs_targets {
    rs_grad_loss kind; /* never AUTO */
    rs_loss loss;      /* of all rows: targets are `rows` below, first_row is 0 */
    int64_t n;         /* rows that have a target; 0: the loss needs none */
    int32_t *rows;     /* [rows of the inputs] targets; or NULL */
    int32_t *ids;      /* [rows of the inputs] what is fed instead of the inputs' ids; or NULL */
    bool last;         /* what is explained: the sample's last row is, not its first */
    bool largest;      /* and its largest output, which is to be found: `rows` has 0 there */
} rs_targets;

/* Refuses, before anything runs, a loss that this network or these inputs cannot have. The tokenizer
 * (for MLM) may be NULL. On failure, too, *out is to be closed. */
rs_status rs_targets_open(rs_targets *out, const rs_loss_request *request,
                          const rs_network *network, const rs_inputs *inputs,
                          const rs_tokenizer *tokenizer, rs_error *err);
/* What relevance explains (docs/theory/gradients.md, 9): of each sample an output of the head at its
 * row, those of `target` (as --target has them; NULL: the largest), or without a head the length of
 * that row. The row is the last where a token sees none behind it, else the first. On failure, too,
 * *out is to be closed. */
rs_status rs_targets_explain(rs_targets *out, const char *target, const rs_network *network,
                             const rs_inputs *inputs, rs_error *err);
/* The id that stands for a token that is not there: the tokenizer's [UNK], else [MASK], else padding
 * (or GPT-2's <|endoftext|>, its unknown token); -1: there is none. The tokenizer may be NULL. */
int32_t rs_targets_stand_in(const rs_network *network, const rs_tokenizer *tokenizer);
void rs_targets_close(rs_targets *targets);
/* Whether a network (a variant) can have the loss. */
rs_status rs_targets_check(const rs_targets *targets, const rs_network *network, rs_error *err);
const char *rs_grad_loss_name(rs_grad_loss loss); /* "lm" */

#endif
