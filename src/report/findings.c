/* findings.c: from cases to findings that a person can read: one a code, with a count, the worst case
 * and a table of all of them. */
#include "report/findings.h"

#include "report/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

rs_finding rs_finding_of(rs_severity severity, const char *code)
{
    return (rs_finding){.severity = severity,
                        .code = code,
                        .layer = RS_NULL_INT,
                        .head = RS_NULL_INT,
                        .value = NAN,
                        .threshold = NAN};
}

/* ---- order ---- */

double rs_finding_beyond(const rs_finding *f)
{
    double value = f->value, threshold = f->threshold;
    if (isnan(value) || isnan(threshold)) return NAN;
    if (value == threshold) return 1;
    double ratio = value / threshold;
    if (!(ratio > 0) || isinf(ratio)) return INFINITY;
    return ratio >= 1 ? ratio : 1 / ratio;
}

/* Whether a is to stand before b. */
static bool comes_first(const rs_finding *a, const rs_finding *b)
{
    if (a->severity != b->severity) return a->severity > b->severity;
    double of_a = rs_finding_beyond(a), of_b = rs_finding_beyond(b);
    return !isnan(of_a) && (isnan(of_b) || of_a > of_b);
}

/* Merges the sorted halves of `from` into `to`. */
static void merge(rs_finding *to, const rs_finding *from, size_t half, size_t n)
{
    size_t left = 0, right = half;
    for (size_t i = 0; i < n; i++) {
        bool second = left == half || (right < n && comes_first(&from[right], &from[left]));
        to[i] = from[second ? right++ : left++];
    }
}

static void merge_sort(rs_finding *findings, rs_finding *scratch, size_t n)
{
    if (n < 2) return;
    merge_sort(findings, scratch, n / 2);
    merge_sort(findings + n / 2, scratch, n - n / 2);
    memcpy(scratch, findings, n * sizeof *findings);
    merge(findings, scratch, n / 2, n);
}

/* Needs no memory but quadratic time: for when memory is out. */
static void insert_in_order(rs_finding *findings, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        rs_finding moved = findings[i];
        size_t j = i;
        for (; j > 0 && comes_first(&moved, &findings[j - 1]); j--)
            findings[j] = findings[j - 1];
        findings[j] = moved;
    }
}

void rs_findings_sort(rs_finding *findings, size_t n)
{
    rs_finding *scratch = rs_malloc(n, sizeof *scratch);
    if (scratch)
        merge_sort(findings, scratch, n);
    else
        insert_in_order(findings, n);
    rs_free(scratch);
}

/* ---- groups ---- */

/* Codes of how the program went about its work: of no model's health. */
static const char *const housekeeping[] = {
    "undefined_columns", "rope_form",    "certificate_margin", "text_left_out",
    "bound_overflow",    "rank_summary", "residual_summary",   "not_measured",
};

bool rs_finding_is_housekeeping(const rs_finding *f)
{
    bool found = false;
    for (size_t i = 0; i < sizeof housekeeping / sizeof *housekeeping; i++)
        found |= strcmp(housekeeping[i], f->code) == 0;
    return found && f->severity == RS_INFO;
}

bool rs_finding_is_routine(const rs_finding *f)
{
    static const char *const codes[] = {"rank_summary", "beyond_trained_length", "padding_id"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(f->code, codes[i]) == 0) return true;
    return rs_finding_is_housekeeping(f);
}

static bool same_case(const rs_finding *a, const rs_finding *b)
{
    return strcmp(a->code, b->code) == 0 && a->layer == b->layer && a->head == b->head &&
           rs_text_same(a->product, b->product) && rs_text_same(a->stack, b->stack) &&
           rs_text_same(a->attention, b->attention) && rs_text_same(a->variant, b->variant);
}

bool rs_finding_is_in(const rs_finding *finding, const rs_result *result)
{
    for (size_t i = 0; i < rs_result_finding_count(result); i++)
        if (same_case(rs_result_finding_at(result, i), finding)) return true;
    return false;
}

static void say_place(rs_buffer *text, const rs_finding *f)
{
    if (f->variant) rs_buffer_printf(text, "%s: ", f->variant);
    if (f->stack) rs_buffer_printf(text, "%s ", f->stack);
    rs_buffer_printf(text, "layer %lld", (long long)f->layer);
    if (f->head != RS_NULL_INT) rs_buffer_printf(text, ", head %lld", (long long)f->head);
    bool plain = !f->attention || strcmp(f->attention, "self") == 0;
    if (f->product || !plain)
        rs_buffer_printf(text, " %s%s%s", plain ? "" : f->attention,
                         plain || !f->product ? "" : " ", f->product ? f->product : "");
}

/* A number with as many digits as tell it from its threshold, at least 4. */
static void say_value(rs_buffer *text, const rs_finding *f)
{
    char value[RS_NUMBER_SIZE], threshold[RS_NUMBER_SIZE];
    if (f->said) {
        rs_buffer_printf(text, " (%s)", f->said);
        return;
    }
    if (!isfinite(f->value)) return;
    int digits = 4;
    do {
        rs_number_brief(value, f->value, digits);
        rs_number_brief(threshold, isnan(f->threshold) ? f->value : f->threshold, digits);
    } while (f->value != f->threshold && isfinite(f->threshold) && strcmp(value, threshold) == 0 &&
             digits++ < 17);
    rs_buffer_printf(text, " (%s)", value);
}

/* What the cases of a code are cases of, by the severest case of each. */
typedef struct tally {
    size_t of[RS_CRITICAL + 1], all;
} tally;

/* "5 of them only a warning and 2 only a note": what is milder than the worst. */
static void say_milder(rs_buffer *text, const tally *things, rs_severity worst)
{
    size_t warnings = worst > RS_WARN ? things->of[RS_WARN] : 0;
    size_t notes = worst > RS_INFO ? things->of[RS_INFO] : 0;
    if (warnings) rs_buffer_printf(text, ", %zu of them only a warning", warnings);
    if (notes)
        rs_buffer_printf(text, "%s%zu %sonly a note", warnings ? " and " : ", ", notes,
                         warnings ? "" : "of them ");
}

/* "174 of 270 heads; strongest layer 18, head 8 (0.99994)" */
static void say_group(rs_buffer *text, const rs_finding_group *group, const tally *things)
{
    const rs_finding *worst = group->worst;
    const char *called = worst->worst ? worst->worst : "first";
    rs_buffer_printf(text, "%zu ", things->all);
    if (worst->of > 0) rs_buffer_printf(text, "of %lld ", (long long)worst->of);
    rs_buffer_puts(text, worst->cases ? worst->cases : "cases");
    say_milder(text, things, worst->severity);
    if (worst->layer == RS_NULL_INT) {
        rs_buffer_printf(text, "; %s: %s", called, worst->message);
        return;
    }
    rs_buffer_printf(text, "; %s ", called);
    say_place(text, worst);
    say_value(text, worst);
}

static rs_status close_group(rs_finding_group *group, const tally *things, rs_arena *arena,
                             rs_error *err)
{
    rs_buffer text = {0};
    group->message = group->worst->message;
    if (things->all > 1) {
        say_group(&text, group, things);
        group->message = text.failed ? NULL : rs_arena_strdup(arena, text.data);
        rs_buffer_free(&text);
    }
    return group->message ? RS_OK : rs_fail_memory(err, "findings", 0);
}

static bool has_group(const rs_finding_group *groups, size_t n, const char *code)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(groups[i].worst->code, code) == 0) return true;
    return false;
}

/* Things in their order, of one thing the severest case first. */
static int by_thing(const void *a, const void *b)
{
    const rs_finding *x = *(const rs_finding *const *)a, *y = *(const rs_finding *const *)b;
    if (x->thing != y->thing) return x->thing < y->thing ? -1 : 1;
    return (x->severity < y->severity) - (x->severity > y->severity);
}

/* The things that cases [n] are cases of; sorts them. */
static tally count_things(const rs_finding **cases, size_t n)
{
    tally things = {0};
    qsort(cases, n, sizeof *cases, by_thing);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && cases[i]->thing != 0 && cases[i]->thing == cases[i - 1]->thing) continue;
        things.of[cases[i]->severity]++;
        things.all++;
    }
    return things;
}

/* cases: room for n. */
static rs_status group_cases(rs_finding_group *groups, size_t *n_groups, const rs_finding **cases,
                             const rs_finding *findings, size_t n, rs_arena *arena, rs_error *err)
{
    *n_groups = 0;
    for (size_t i = 0; i < n; i++) {
        if (has_group(groups, *n_groups, findings[i].code)) continue;
        rs_finding_group *group = &groups[(*n_groups)++];
        *group = (rs_finding_group){.worst = &findings[i],
                                    .housekeeping = rs_finding_is_housekeeping(&findings[i])};
        for (size_t j = i; j < n; j++)
            if (strcmp(findings[j].code, findings[i].code) == 0)
                cases[group->count++] = &findings[j];
        const tally things = count_things(cases, group->count);
        RS_TRY(close_group(group, &things, arena, err));
    }
    return RS_OK;
}

rs_status rs_findings_group(rs_finding_group *groups, size_t *n_groups, const rs_finding *findings,
                            size_t n, rs_arena *arena, rs_error *err)
{
    const rs_finding **cases = rs_malloc(n + 1, sizeof *cases);
    if (!cases) return rs_fail_memory(err, "findings", n * sizeof *cases);
    rs_status status = group_cases(groups, n_groups, cases, findings, n, arena, err);
    rs_free(cases);
    return status;
}

/* ---- the table ---- */

/* A row of table findings. */
typedef struct finding_row {
    const char *severity, *code, *variant, *stack, *attention, *product;
    int64_t layer, head;
    double value, threshold, beyond;
    const char *table, *message;
} finding_row;

const rs_column rs_findings_columns[RS_FINDINGS_COLUMNS] = {
    RS_COLUMN(finding_row, severity, "severity", "severity", NULL, "info, warn or critical", NULL),
    RS_COLUMN(finding_row, code, "code", "code", NULL, "rankscope explain CODE says more", NULL),
    RS_COLUMN(finding_row, variant, "variant", "variant", NULL, NULL, NULL),
    RS_COLUMN(finding_row, stack, "stack", "stack", NULL, NULL, NULL),
    RS_COLUMN(finding_row, attention, "attention", "attention", NULL, NULL, NULL),
    RS_COLUMN(finding_row, layer, "layer", "layer", NULL, NULL, NULL),
    RS_COLUMN(finding_row, head, "head", "head", NULL, NULL, NULL),
    RS_COLUMN(finding_row, product, "product", "product", NULL, NULL, NULL),
    RS_COLUMN(finding_row, value, "value", "value", NULL, "the number that was judged", NULL),
    RS_COLUMN(finding_row, threshold, "threshold", "threshold", NULL, "what it was compared with",
              NULL),
    RS_COLUMN(finding_row, beyond, "beyond", "beyond", NULL,
              "the larger of value and threshold over the smaller; empty where that has no meaning",
              NULL),
    RS_COLUMN(finding_row, table, "table", "table", NULL, "the table that it is about", NULL),
    RS_COLUMN(finding_row, message, "message", "message", NULL, NULL, NULL),
};

const rs_table_kind rs_findings_kind = {
    "every command", "findings", {RS_PART(rs_findings_columns)}};

rs_status rs_findings_list(rs_table *table, const rs_finding *findings, size_t n, rs_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const rs_finding *f = &findings[i];
        const finding_row row = {.severity = rs_severity_name(f->severity),
                                 .code = f->code,
                                 .variant = f->variant,
                                 .stack = f->stack,
                                 .attention = f->attention,
                                 .product = f->product,
                                 .layer = f->layer,
                                 .head = f->head,
                                 .value = f->value,
                                 .threshold = f->threshold,
                                 .beyond = rs_finding_beyond(f),
                                 .table = f->table,
                                 .message = f->message};
        RS_TRY(rs_table_append(table, &row, err));
    }
    return RS_OK;
}

rs_case_cells rs_case_of(const rs_finding *f)
{
    return (rs_case_cells){.severity = rs_severity_name(f->severity),
                           .code = f->code,
                           .stack = f->stack,
                           .attention = f->attention,
                           .product = f->product,
                           .message = f->message,
                           .layer = f->layer,
                           .head = f->head,
                           .value = f->value,
                           .threshold = f->threshold};
}
