/*
 * series.h: `rankscope scan` of several checkpoints, or of the folder of a run: how ranks go from one to
 * the next (docs/series.md).
 *
 * Each is opened, measured as scan does (heads.h) and closed before the next: only its numbers stay. One
 * that cannot be read is named and skipped. A series of one is a scan.
 */
#ifndef RS_SCAN_SERIES_H
#define RS_SCAN_SERIES_H

#include "scan/scan.h"

/* ---- series_paths.c: which checkpoints, in which order ---- */

/* A checkpoint of a series. */
typedef struct rs_series_entry {
    char *path;   /* owned */
    int64_t step; /* the number that its name ends in; -1: none */
} rs_series_entry;

/* The checkpoints of a series in their order. Zero-initialise. */
typedef struct rs_series_list {
    rs_series_entry *items; /* [n] */
    size_t n, capacity;
    bool steps;     /* some have a step, and no two have the same */
    rs_notes notes; /* what was passed over, or looks odd */
} rs_series_list;

/* The number that the last name of a path ends in, ".safetensors" or ".gguf" left aside, and the words
 * before it: "run/checkpoint-500/" gives 500 and "checkpoint-". -1: there is none, or it is a version
 * ("llama-3.1") or beyond 18 digits; words is then the whole name. */
int64_t rs_series_step(const char *path, const char **words, size_t *n_words);

/* Makes the list of what n > 0 paths mean, each a checkpoint or the folder of a run. *is_series: there are
 * several, or the one is a run; of one checkpoint the list has one entry. Numbered names stand by their numbers
 * where there are two or more, all have the same words before them and no number comes twice, behind them
 * those without one; else all stand as they are given. Errors: RS_E_READ, RS_E_NO_MEMORY. */
rs_status rs_series_list_make(rs_series_list *list, bool *is_series, const char *const *paths,
                              size_t n, rs_error *err);
void rs_series_list_free(rs_series_list *list);

/* ---- series.c ---- */

/* Scans what request->path and request->others mean: one checkpoint, or a series. */
rs_status rs_series_path(rs_result *result, rs_input_files *inputs, const rs_scan_request *request,
                         const rs_context *context, rs_error *err);

/* RS_E_USAGE: request->path is the folder of a run, and what its options ask for is about one checkpoint. */
rs_status rs_series_check_alone(const rs_scan_request *request, rs_error *err);

/* What its tables can have, for rs_explain. */
extern const rs_table_kind rs_series_kind, rs_series_trends_kind, rs_series_checkpoints_kind,
    rs_series_changed_kind, rs_series_apart_kind, rs_series_curves_kind;

#endif
