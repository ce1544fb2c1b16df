/* findings.h: how result.c puts findings in order, in groups and in a table; others use result.h. */
#ifndef RS_REPORT_FINDINGS_H
#define RS_REPORT_FINDINGS_H

#include "report/result.h"

enum { RS_FINDINGS_COLUMNS = 13 };
extern const rs_column rs_findings_columns[RS_FINDINGS_COLUMNS];

/* How far a case is beyond its threshold: the larger of both numbers over the smaller, infinite
 * where only one of them is 0 or their signs differ; NaN where it has no number or threshold. */
double rs_finding_beyond(const rs_finding *finding);
/* Whether it is about the run rather than the model: shown where everything is asked for. */
bool rs_finding_is_housekeeping(const rs_finding *finding);
/* Whether it is always said, or about the run or its inputs alone: no change of it tells of a model. */
bool rs_finding_is_routine(const rs_finding *finding);
/* Whether the result has a case of the same code, layer, head, product and variant. */
bool rs_finding_is_in(const rs_finding *finding, const rs_result *result);
/* Sorts by severity, critical first, then by rs_finding_beyond; stable otherwise. */
void rs_findings_sort(rs_finding *findings, size_t n);
/* Makes one group a code of n sorted findings, in the order of their worst cases. groups: room for
 * n. The texts live in the arena. */
rs_status rs_findings_group(rs_finding_group *groups, size_t *n_groups, const rs_finding *findings,
                            size_t n, rs_arena *arena, rs_error *err);
/* Appends a row for each finding to a table of rs_findings_columns. */
rs_status rs_findings_list(rs_table *table, const rs_finding *findings, size_t n, rs_error *err);

/* What the tables of findings that came or went have of a case. */
typedef struct rs_case_cells {
    const char *severity, *code, *stack, *attention, *product, *message;
    int64_t layer, head;
    double value, threshold;
} rs_case_cells;
rs_case_cells rs_case_of(const rs_finding *finding);
/* Columns of a row type that has such a member `of`. */
#define RS_CASE_COLUMNS(type)                                                                      \
    {.name = "severity", RS_CELL(type, of.severity)},                                              \
        {.name = "code", RS_CELL(type, of.code), .formula = "rankscope explain CODE"},             \
        {.name = "stack", RS_CELL(type, of.stack)},                                                \
        {.name = "attention", RS_CELL(type, of.attention)},                                        \
        {.name = "layer", RS_CELL(type, of.layer)}, {.name = "head", RS_CELL(type, of.head)},      \
        {.name = "product", RS_CELL(type, of.product)},                                            \
        {.name = "value", RS_CELL(type, of.value)},                                                \
        {.name = "threshold", RS_CELL(type, of.threshold)},                                        \
    {                                                                                              \
        .name = "message", RS_CELL(type, of.message)                                               \
    }

#endif
