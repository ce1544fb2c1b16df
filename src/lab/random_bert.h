/*
 * random_bert.h: BERT-base at its random start, on a sequence of random ids: the network of the
 * published figures (Dong et al. 2021, figure 2).
 */
#ifndef RS_LAB_RANDOM_BERT_H
#define RS_LAB_RANDOM_BERT_H

#include "network/init.h"
#include "observe/measure.h"

/* Its sizes. */
enum {
    RS_LAB_BERT_TOKENS = 128,
    RS_LAB_BERT_VOCABULARY = 28996, /* that of bert-base-cased */
    RS_LAB_BERT_PADDING = 0         /* id of [PAD], which no text holds */
};

/* A network and its inputs, which point into the struct itself: it may not be moved. */
typedef struct rs_lab_bert {
    rs_init *init;
    rs_network *network;
    int32_t ids[RS_LAB_BERT_TOKENS];
    int64_t begin[2];
    rs_inputs inputs;
} rs_lab_bert;

/* Draws `layers` of its 12 layers, and the ids, from one seed. On failure there is nothing to
 * close. */
rs_status rs_lab_bert_open(rs_lab_bert *bert, int32_t layers, uint64_t seed,
                           const rs_context *context, rs_error *err);
void rs_lab_bert_close(rs_lab_bert *bert);

/* The published means of the relative residual, composite norm, of such a network with 32 texts in
 * float32: by variant (san, san+mlp, san+skip, full) and state, read from the paper's vector figure
 * (docs/theory/collapse.md, 13). */
enum { RS_LAB_BERT_VARIANTS = 4, RS_LAB_BERT_STATES = 13 };
extern const double rs_lab_bert_published[RS_LAB_BERT_VARIANTS][RS_LAB_BERT_STATES];

#endif
