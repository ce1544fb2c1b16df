/* certify_steps_table.c: tables proof and proof_numbers. */
#include "certify/certify_parts.h"
#include "certify/certify_steps.h"

#include <math.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* ---- the lines ---- */

/* A row of table proof. */
typedef struct cells {
    int64_t sample;
    int32_t layer, head;
    const char *step, *line, *norm, *published, *repaired, *truth, *condition;
    rs_step_row of;
    rs_truth holds, repaired_holds, met, proved;
    const char *note, *meaning, *here;
} cells;

#define COLUMN(member, name, kind, formula) RS_CERTIFY_COLUMN(cells, member, name, kind, formula)

static const rs_column columns[] = {
    {.name = "layer", RS_CELL(cells, layer), .formula = "block, from 0; its mixer"},
    {.name = "head", RS_CELL(cells, head), .formula = "query head, from 0"},
    {.name = "step",
     RS_CELL(cells, step),
     .formula = "hypothesis; lemma; product: with the tokens; norms; ranges: of the logits; bound"},
    {.name = "line", RS_CELL(cells, line), .formula = "which line (docs/perturbation.md, 7)"},
    {.name = "norm",
     RS_CELL(cells, norm),
     .formula = "entry: the tightest entry, or the one that fails most; 1: ‖·‖₁, largest column "
                "sum; inf: ‖·‖∞, largest row sum; 1,inf: √(‖·‖₁‖·‖∞)"},
    COLUMN(published, "statement", "published",
           "left ≤ right, of E = R W_QK Rᵀ/√d, D_ii the range of its row i, p = softmax(r), W = "
           "W_V W_O, R' = (P − 1pᵀ)RW; where a mask hides keys 1pᵀ stands for each row's own p"),
    COLUMN(of.left.plain, "left", "certified",
           "left side, enclosed to some 25 digits from what enters the mixer and the stored "
           "weights; the nearest double"),
    COLUMN(of.right.plain, "right", "published", "right side as published, likewise"),
    COLUMN(of.ratio, "ratio", "certified", "left/right; null where right is not positive"),
    COLUMN(holds, "holds", "certified",
           "left ≤ right for this head and these tokens; null: the enclosures do not say"),
    COLUMN(of.repaired.plain, "repaired_right", "certified",
           "the right side that makes it true of every input; null with `repaired`: it needs none"),
    COLUMN(of.repaired_ratio, "repaired_ratio", "certified", "left/repaired_right"),
    COLUMN(repaired_holds, "repaired_holds", "certified", "left ≤ repaired_right"),
    COLUMN(repaired, "repaired", "certified", "what stands on the right of the repaired line"),
    COLUMN(truth, "true_of", "certified",
           "of which inputs the published line is true: every input; those that meet the "
           "condition; not every input"),
    COLUMN(condition, "condition", "published", "what the published line rests on"),
    COLUMN(met, "condition_met", "certified", "it is so for this head and these tokens"),
    COLUMN(proved, "proved", "certified",
           "the published line is proved of this head and these tokens, whatever its numbers "
           "say: it is true of every input, or its condition is met"),
    COLUMN(of.left.log, "log10_left", "certified", "log10 of left"),
    COLUMN(of.right.log, "log10_right", "published", "log10 of right; null where it is negative"),
    COLUMN(of.repaired.log, "log10_repaired_right", "certified", "log10 of repaired_right"),
    {.name = "at_row",
     RS_CELL(cells, of.at_row),
     .formula = "entry: query, or output token, from 0; of line moved the row that is told"},
    {.name = "at_column", RS_CELL(cells, of.at_column), .formula = "entry: key or feature, from 0"},
    {.name = "sample", RS_CELL(cells, sample), .formula = "the first that has tokens, from 0"},
    {.name = "note", RS_CELL(cells, note), .formula = "why something is null"},
    {.name = "meaning", RS_CELL(cells, meaning), .formula = "the line in plain words"},
    {.name = "here", RS_CELL(cells, here), .formula = "what its numbers say"},
};
const rs_table_kind rs_certify_proof_kind = {"certify", "proof", {RS_PART(columns)}};

static const char *const norm_names[RS_STEP_NORMS] = {[RS_STEP_ENTRY] = "entry",
                                                      [RS_STEP_ONE] = "1",
                                                      [RS_STEP_INF] = "inf",
                                                      [RS_STEP_BOTH] = "1,inf"};
static const char *const truths[] = {[RS_STEP_ALWAYS] = "every input",
                                     [RS_STEP_IF_RANGE] = "those that meet the condition",
                                     [RS_STEP_IF_FACTOR] = "those that meet the condition",
                                     [RS_STEP_SOMETIMES] = "not every input"};

/* Whether the published line is proved here; a mask leaves all but those without numbers as they
 * are. */
static rs_truth proved(const rs_step_row *row, rs_step_truth truth)
{
    if (!row->known) return RS_UNKNOWN;
    if (truth == RS_STEP_ALWAYS) return 1;
    if (truth == RS_STEP_SOMETIMES) return row->holds < 0 ? RS_UNKNOWN : 0;
    return row->met;
}

static rs_status add_line(rs_table *t, const rs_proved_head *head, int64_t sample,
                          rs_step_line line, rs_step_norm norm, rs_error *err)
{
    const rs_step_kind *kind = &rs_step_kinds[line];
    const rs_step_text *text = &kind->in[norm];
    char here[900];
    cells c;
    rs_columns_clear(columns, COUNT(columns), &c);
    c.sample = sample;
    c.layer = head->layer;
    c.head = head->head;
    c.step = kind->step;
    c.line = kind->line;
    c.norm = norm_names[norm];
    c.published = text->published;
    c.repaired = text->repaired;
    c.truth = truths[text->truth];
    c.condition = rs_step_condition(text->truth);
    c.meaning = rs_step_meaning(line);
    c.note = rs_step_note(head, line, norm);
    if (!head->failed && head->steps.rows[line][norm].known) {
        c.of = head->steps.rows[line][norm];
        c.holds = c.of.holds;
        c.repaired_holds = c.of.repaired_holds;
        c.met = c.of.met;
        c.proved = proved(&c.of, text->truth);
        rs_step_here(here, sizeof here, line, norm, &c.of);
        c.here = here;
    }
    return rs_table_append(t, &c, err);
}

static rs_status lines_table(rs_result *result, const rs_proved_head *heads, size_t n,
                             int64_t sample, rs_error *err)
{
    rs_table *t;
    RS_TRY(rs_result_add_table(
        result, "proof", "The proof of the cubic bound, line by line",
        "What Dong, Cordonnier and Loukas (2021) prove of one attention head, in the numbers of "
        "the heads of --steps on the first sample: both sides of each line as published, and the "
        "right side that repairs it",
        columns, COUNT(columns), &t, err));
    rs_table_show_first(t, "layer,head,step,line,norm,left,right,ratio,holds,repaired_right");
    for (size_t i = 0; i < n; i++)
        for (int l = 0; l < RS_LINES; l++)
            for (int norm = 0; norm < RS_STEP_NORMS; norm++)
                if (rs_step_kinds[l].in[norm].published)
                    RS_TRY(
                        add_line(t, &heads[i], sample, (rs_step_line)l, (rs_step_norm)norm, err));
    return RS_OK;
}

/* ---- what is on the way ---- */

/* A row of table proof_numbers. */
typedef struct number_cells {
    int32_t layer, head;
    const char *quantity, *meaning, *note;
    double value, log;
} number_cells;

static const rs_column number_columns[] = {
    {.name = "layer", RS_CELL(number_cells, layer), .formula = "block, from 0; its mixer"},
    {.name = "head", RS_CELL(number_cells, head), .formula = "query head, from 0"},
    {.name = "quantity", RS_CELL(number_cells, quantity), .formula = "as table proof has it"},
    RS_CERTIFY_COLUMN(number_cells, value, "value", "certified",
                      "enclosed to some 25 digits; the nearest double"),
    RS_CERTIFY_COLUMN(number_cells, log, "log10_value", "certified", "log10 of value"),
    {.name = "meaning", RS_CELL(number_cells, meaning), .formula = "in plain words"},
    {.name = "note", RS_CELL(number_cells, note), .formula = "why it is null"},
};
const rs_table_kind rs_certify_proof_numbers_kind = {
    "certify", "proof_numbers", {RS_PART(number_columns)}};

static const struct {
    const char *name, *meaning;
} quantities[RS_QUANTITIES] = {
    [RS_QUANTITY_SCALE] = {"1/√d", "what the head multiplies scores by"},
    [RS_QUANTITY_RESIDUAL_ONE] = {"‖R‖₁", "what tells the tokens apart (each less their mean): "
                                          "largest column sum"},
    [RS_QUANTITY_RESIDUAL_INF] = {"‖R‖∞", "the same: largest row sum"},
    [RS_QUANTITY_QK_ONE] = {"‖W_QK‖₁", "what the head's queries and keys make of two tokens"},
    [RS_QUANTITY_QK_INF] = {"‖W_QK‖∞", "the same: largest row sum"},
    [RS_QUANTITY_VALUE_ONE] = {"‖W‖₁", "what the head writes of a token, W = W_V W_O"},
    [RS_QUANTITY_VALUE_INF] = {"‖W‖∞", "the same: largest row sum"},
    [RS_QUANTITY_SHARED_RANGE] = {"max r − min r", "how far apart the scores lie that all queries "
                                                   "share"},
    [RS_QUANTITY_SHARED_MOST] = {"max p", "the largest share of attention without E"},
    [RS_QUANTITY_CHANGE_ONE] = {"‖E‖₁", "what of the scores differs from query to query"},
    [RS_QUANTITY_CHANGE_INF] = {"‖E‖∞", "the same: largest row sum"},
    [RS_QUANTITY_CHANGE_MOST] = {"max |E|", "its largest entry"},
    [RS_QUANTITY_RANGE_SUM] = {"‖D1‖₁", "ranges of the rows of E, added up"},
    [RS_QUANTITY_RANGE_MOST] = {"‖D1‖∞", "the largest of them; the published proof asks for at "
                                         "most 1.256"},
    [RS_QUANTITY_CONSTANT] = {"K(max D)", "the factor of the repaired bound"},
    [RS_QUANTITY_GAMMA] = {"γ", "the least γ with which the published chain is true of this head; "
                                "null: no residual"},
    [RS_QUANTITY_LEFT_ONE] = {"‖R'‖₁", "what the head leaves of R, about the proof's centre"},
    [RS_QUANTITY_LEFT_INF] = {"‖R'‖∞", "the same: largest row sum"},
};

static rs_status numbers_table(rs_result *result, const rs_proved_head *heads, size_t n,
                               rs_error *err)
{
    rs_table *t;
    RS_TRY(rs_result_add_table(result, "proof_numbers", "What the proof is about",
                               "The quantities of table proof: what enters each head of --steps, "
                               "its weights, and what it makes of them",
                               number_columns, COUNT(number_columns), &t, err));
    for (size_t i = 0; i < n; i++)
        for (int q = 0; q < RS_QUANTITIES; q++) {
            const rs_step_number *number = &heads[i].steps.quantities[q];
            number_cells c = {heads[i].layer,
                              heads[i].head,
                              quantities[q].name,
                              quantities[q].meaning,
                              heads[i].failed,
                              NAN,
                              NAN};
            if (!heads[i].failed) {
                c.value = number->plain;
                c.log = number->log;
                if (isnan(c.value) && isnan(c.log)) c.note = "it does not exist, or is not known";
            }
            RS_TRY(rs_table_append(t, &c, err));
        }
    return RS_OK;
}

rs_status rs_steps_tables(rs_result *result, const rs_proved_head *heads, size_t n, int64_t sample,
                          rs_error *err)
{
    RS_TRY(lines_table(result, heads, n, sample, err));
    return numbers_table(result, heads, n, err);
}
