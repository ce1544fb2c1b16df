/* probe_ranks.h: `probe --attention-rank`: how much of its rank attention needs. */
#ifndef RS_PROBE_PROBE_RANKS_H
#define RS_PROBE_PROBE_RANKS_H

#include "probe/probe.h"

/* Appends a variant for each entry of "16,90%" to *variants [*n]: the edits of all variants, and attention
 * of that rank, or of the least that keeps so much of Σσ². Owned by the arena. */
rs_status rs_probe_rank_variants(rs_variant **variants, size_t *n, const char *text,
                                 const rs_edit *base, rs_arena *arena, rs_error *err);

/* The last states of one variant, which those of others are compared with. */
typedef struct rs_last_states {
    rs_listener listener;
    const rs_inputs *inputs;
    int32_t layers;
    int64_t d;
    double *kept;    /* [rows, d] */
    bool keeps;      /* the variant that runs is the one whose states are kept */
    int64_t first;   /* row of the inputs that is row 0 of the batch */
    double off, all; /* ‖X − kept‖_F² and ‖kept‖_F² so far */
} rs_last_states;
rs_status rs_last_states_open(rs_last_states *states, const rs_network *network,
                              const rs_inputs *inputs, rs_error *err);
/* Before a variant runs, which the listener then hears; `keeps` for the first. */
void rs_last_states_begin(rs_last_states *states, bool keeps);
double rs_last_states_distance(const rs_last_states *states); /* ‖X − kept‖_F / ‖kept‖_F */
void rs_last_states_close(rs_last_states *states);

/* Table attention_ranks, where --attention-rank was given: a row an entry. */
rs_status rs_probe_rank_table(rs_result *result, const rs_probed *variants, size_t n,
                              const rs_probe_options *options, rs_error *err);
/* "Rank 16 keeps the loss within 1 % ..."; false where --attention-rank was not given. value: the least
 * entry that keeps it, NaN: none does. */
bool rs_probe_rank_answer(char *text, size_t size, double *value, const rs_probed *variants,
                          size_t n, const rs_probe_options *options);

#endif
