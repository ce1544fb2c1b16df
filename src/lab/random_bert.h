/*
 * random_bert.h: BERT-base, ALBERT and XLNet at their random start, on a sequence of random ids: the
 * networks of the published figures (Dong et al. 2021, figure 2).
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
/* The three networks of the figures: bert-base-cased, albert-base-v2, xlnet-base-cased. */
typedef enum rs_lab_encoder {
    RS_LAB_BERT,
    RS_LAB_ALBERT,
    RS_LAB_XLNET,
    RS_LAB_ENCODERS
} rs_lab_encoder;
rs_status rs_lab_encoder_open(rs_lab_bert *out, rs_lab_encoder which, int32_t layers, uint64_t seed,
                              const rs_context *context, rs_error *err);
/* Replaces the ids by `different` ones, each as often as any other (but for one), in any order. */
void rs_lab_encoder_repeat(rs_lab_bert *bert, rs_lab_encoder which, int32_t different,
                           uint64_t seed);
/* How many of its ids are different. */
int32_t rs_lab_encoder_different(const rs_lab_bert *bert);
/* BERT-base. */
rs_status rs_lab_bert_open(rs_lab_bert *bert, int32_t layers, uint64_t seed,
                           const rs_context *context, rs_error *err);
void rs_lab_bert_close(rs_lab_bert *bert);

/* The published means of the relative residual, composite norm, of such a network with 32 texts in
 * float32: by variant (san, san+mlp, san+skip, full) and state, read from the paper's vector figure
 * (docs/theory/collapse.md, 13). */
enum { RS_LAB_BERT_VARIANTS = 4, RS_LAB_BERT_STATES = 13 };
extern const double rs_lab_bert_published[RS_LAB_BERT_VARIANTS][RS_LAB_BERT_STATES],
    rs_lab_albert_published[RS_LAB_BERT_VARIANTS][RS_LAB_BERT_STATES],
    rs_lab_xlnet_published[RS_LAB_BERT_VARIANTS][RS_LAB_BERT_STATES];

#endif
