/*
 * compare.h: `rankscope compare`: what changed between checkpoints.
 *
 * Heads are those of scan (scan/heads.h), tokens those of probe (probe/probe.h): here they are paired,
 * by stack, kind of attention, layer, head and product, and what differs is measured and said.
 */
#ifndef RS_COMPARE_COMPARE_H
#define RS_COMPARE_COMPARE_H

#include "observe/inputs.h"
#include "report/result.h"
#include "scan/scan.h"

/* Thresholds of the findings; each can be set by --threshold CODE=VALUE. */
typedef struct rs_compare_thresholds {
    double rank_fell;   /* found when a product lost more than this share of its effective rank */
    double rank_rose;   /* found when it gained more than that */
    double turned_away; /* found when both overlaps are within so many spreads of chance */
} rs_compare_thresholds;

/* What is compared and said. */
typedef struct rs_compare_options {
    rs_scan_options scan; /* layers, folding, tolerance and thresholds of both */
    int64_t subspace; /* leading directions that are compared; 0: the effective rank, rounded up */
    bool tokens;      /* the models are run on `source`, too */
    rs_input_source source;
    int64_t batch; /* samples that are run at once; 0: as memory allows */
    rs_compare_thresholds thresholds;
} rs_compare_options;

void rs_compare_defaults(rs_compare_options *options);

/* A comparison as the command line asks for it: each of `others` with `path`. */
typedef struct rs_compare_request {
    const char *path;
    const char *const *others; /* [n_others] at least one */
    size_t n_others;
    bool lenient;
    rs_compare_options options;
} rs_compare_request;

/* Opens, compares and closes. inputs is filled as soon as a checkpoint is open. */
rs_status rs_compare_paths(rs_result *result, rs_input_files *inputs,
                           const rs_compare_request *request, const rs_context *context,
                           rs_error *err);

/* What its tables can have, for rs_explain. */
extern const rs_table_kind rs_compare_summary_kind, rs_compare_layers_kind, rs_compare_heads_kind,
    rs_compare_missing_kind, rs_compare_tokens_kind, rs_compare_loss_kind, rs_compare_changed_kind,
    rs_compare_models_kind;

#endif
