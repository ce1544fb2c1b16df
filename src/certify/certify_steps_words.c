/* certify_steps_words.c: the lines of the proof for whoever has never seen one, and the finding. */
#include "certify/certify_steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what a line says ---- */

static const char *const meanings[RS_LINES] = {
    [RS_LINE_RANGE] =
        "Each token asks every other how much it should listen to it; a score answers. Take off "
        "what all tokens would ask alike: what is left is E, and D is, token by token, how far "
        "the scores in a row of E lie apart. The published proof assumes that they never lie "
        "further apart than 1.256.",
    [RS_LINE_LOW] =
        "Scores become attention, shares that add up to 1. Without E every token would listen by "
        "the same shares p. With it no share can fall below 1 − D times what it was.",
    [RS_LINE_HIGH] = "And no share can grow above 1 + 2D times what it was: up to a range of 1.256 "
                     "the exponential lies below that straight line. Without a limit on D it is at "
                     "most e^D times as large.",
    [RS_LINE_SIGNED] =
        "Here the published proof slips. It multiplies the line before by the tokens, as if "
        "'smaller' stayed smaller. It does not where a number is negative, and of what tells "
        "tokens apart (R: each token less their mean) some always are.",
    [RS_LINE_ABSOLUTE] =
        "What may be done instead: first take the difference of the two shares, then multiply by "
        "sizes without signs. The left side is what the head leaves of the difference between "
        "tokens; the right side is how far shares can move, times what they weigh.",
    [RS_LINE_MOVED] =
        "How much attention E moves from some tokens to others, in all. The published "
        "factor 2D counts more than can move: what moves is at most tanh(D/4) of all "
        "attention.",
    [RS_LINE_NORMS] =
        "The same with each thing replaced by its size: D for attention, R for what tells the "
        "tokens apart, W for what the head makes of a token.",
    [RS_LINE_LOGITS] = "The scores E are made of R twice, once for who asks and once for who "
                       "answers. So E is at most a constant times R times R: that is where the "
                       "square of the cube comes from.",
    [RS_LINE_RANGES] = "How far apart scores lie (D) against how large they are (E). For the "
                       "largest row it is true. For the sum over rows the published proof uses the "
                       "same bound, and that can fail: the largest score of each row may stand in "
                       "another column.",
    [RS_LINE_GAMMA] =
        "Because the line before can fail, later versions of the paper have a factor γ that is "
        "not said. This is the line with γ = 1; the least γ with which it is true of this head is "
        "in table proof_numbers, and for n tokens it is never above √(n/2).",
    [RS_LINE_CUBIC] =
        "The bound itself: what the head leaves of the difference between tokens is at most a "
        "constant times its cube. A difference of a tenth becomes one of thousandths times that "
        "constant, and the next layer cubes it again. The repaired factor needs no limit on D.",
    [RS_LINE_MEAN] =
        "The bound is about the distance from a centre that the proof picks. Measured "
        "from the mean token, as in the paper's experiments, it may be up to 2(1 − 1/n) "
        "times as large.",
};

static const char *const in_norms[RS_STEP_NORMS] = {
    [RS_STEP_ENTRY] = " Looked at number by number; shown is what is tightest, or fails most.",
    [RS_STEP_ONE] = " Looked at column by column (‖·‖₁): the largest sum of sizes of a column.",
    [RS_STEP_INF] = " Looked at row by row (‖·‖∞): the largest sum of sizes of a row.",
    [RS_STEP_BOTH] = " Both ways of looking together (‖·‖₁,∞): the root of their product.",
};

const char *rs_step_meaning(rs_step_line line)
{
    return meanings[line];
}

/* ---- what its numbers say ---- */

static const char *shown(char text[40], const rs_step_number *number)
{
    if (isfinite(number->plain) && (number->plain == 0 || fabs(number->plain) > 1e-5))
        snprintf(text, 40, "%.4g", number->plain);
    else if (isfinite(number->log))
        snprintf(text, 40, "10^%.4g", number->log);
    else if (isfinite(number->plain))
        snprintf(text, 40, "%.4g", number->plain);
    else
        snprintf(text, 40, "not known");
    return text;
}

/* "true: the left side is 24 % of the right one" */
static void judged(char *text, size_t size, signed char holds, double ratio)
{
    if (holds < 0)
        snprintf(text, size, "which is larger is not decided");
    else if (isnan(ratio))
        snprintf(text, size, holds ? "true" : "false");
    else if (holds)
        snprintf(text, size,
                 ratio < 1e-4 ? "true: the left side is %.2e of the right one"
                              : "true: the left side is %.4g of the right one",
                 ratio);
    else
        snprintf(text, size, "false: the left side is %.4g times the right one", ratio);
}

void rs_step_here(char *text, size_t size, rs_step_line line, rs_step_norm norm,
                  const rs_step_row *row)
{
    char left[40], right[40], repaired[40], verdict[120], other[120];
    if (!row->known) {
        text[0] = 0;
        return;
    }
    judged(verdict, sizeof verdict, row->holds, row->ratio);
    int used = snprintf(text, size, "Here: left %s, right %s, %s.", shown(left, &row->left),
                        shown(right, &row->right), verdict);
    if (rs_step_kinds[line].in[norm].repaired && used > 0 && (size_t)used < size) {
        judged(other, sizeof other, row->repaired_holds, row->repaired_ratio);
        bool given = !isnan(row->repaired.log) || !isnan(row->repaired.plain);
        used += given ? snprintf(text + used, size - (size_t)used, " Repaired: right %s, %s.",
                                 shown(repaired, &row->repaired), other)
                      : snprintf(text + used, size - (size_t)used,
                                 " The repaired right side has no number here.");
    }
    if (row->met == 0 && used > 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used,
                         " What the published line rests on (%s) is not so here.",
                         rs_step_condition(rs_step_kinds[line].in[norm].truth));
    if (used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, "%s", in_norms[norm]);
}

/* ---- nulls ---- */

const char *rs_step_note(const rs_proved_head *head, rs_step_line line, rs_step_norm norm)
{
    const rs_step_row *row = &head->steps.rows[line][norm];
    const rs_step_text *text = &rs_step_kinds[line].in[norm];
    static const char unknown[] = "beyond 10^(±3·10^14), or not known to 12 digits";
    if (head->failed) return head->failed;
    if (head->masked && text->one_row)
        return "a mask hides keys: each row has a p of its own, and what that leaves of R is no "
               "part of the bound";
    if (head->masked && line == RS_LINE_MOVED && norm == RS_STEP_ONE)
        return "a mask hides keys: the repaired right side needs one p for all rows";
    if (isnan(row->left.log) && isnan(row->left.plain)) return unknown;
    if (isnan(row->right.log) && isnan(row->right.plain)) return unknown;
    if (text->repaired && isnan(row->repaired.log) && isnan(row->repaired.plain))
        return "the repaired right side is beyond 10^(3·10^14)";
    if (row->holds < 0)
        return norm == RS_STEP_ENTRY
                   ? "not decided of every entry: sides agree to more digits than are enclosed "
                     "(some "
                     "25, fewer where much cancels), or are beyond 10^(±3·10^14)"
                   : "the sides agree to more digits than are enclosed (some 25, fewer where much "
                     "cancels): which is larger is not decided";
    return NULL;
}

/* ---- findings ---- */

typedef struct tally {
    int inequalities, fail, undecided, repaired_fail, repaired_unknown;
    char failing[300];
} tally;

static void count(tally *t, const rs_proved_head *head)
{
    *t = (tally){0};
    for (int l = 0; l < RS_LINES; l++)
        for (int n = 0; n < RS_STEP_NORMS; n++) {
            const rs_step_row *row = &head->steps.rows[l][n];
            if (!row->known || l == RS_LINE_RANGE) continue;
            t->inequalities++;
            t->undecided += row->holds < 0;
            t->repaired_fail += row->repaired_holds == 0;
            t->repaired_unknown += rs_step_kinds[l].in[n].repaired && row->repaired_holds < 0;
            if (row->holds != 0) continue;
            t->fail++;
            size_t used = strlen(t->failing);
            if (!strstr(t->failing, rs_step_kinds[l].line))
                snprintf(t->failing + used, sizeof t->failing - used, "%s%s", used ? ", " : "",
                         rs_step_kinds[l].line);
        }
}

/* What is said of one head. */
static void tell(char *text, size_t size, const rs_proved_head *head)
{
    tally t;
    if (head->failed) {
        snprintf(text, size, "layer %d, head %d: the proof does not speak of it: %s",
                 (int)head->layer, (int)head->head, head->failed);
        return;
    }
    count(&t, head);
    snprintf(text, size, "layer %d, head %d: %d of %d inequalities %s false%s%s%s%s%s%s%s",
             (int)head->layer, (int)head->head, t.fail, t.inequalities, t.fail == 1 ? "is" : "are",
             t.fail ? " (lines " : "", t.failing, t.fail ? ")" : "",
             t.undecided ? ", and of some it is not decided" : "",
             t.repaired_fail      ? "; a repaired one is refuted, which is a bug of rankscope"
             : t.repaired_unknown ? ", no repaired one is known to be"
                                  : ", no repaired one is",
             head->steps.rows[RS_LINE_RANGE][RS_STEP_INF].holds == 0
                 ? "; ranges of logits are above the 1.256 that the proof assumes"
                 : "",
             head->masked ? "; a mask hides keys, so that there is no cubic bound" : "");
}

rs_status rs_steps_findings(rs_result *result, const rs_proved_head *heads, size_t n, rs_error *err)
{
    enum { SAID = 3 }; /* heads */
    char message[1600] = "the published proof of the cubic bound: ", head[500];
    rs_finding f = rs_finding_of(RS_INFO, "proof_steps");
    for (size_t i = 0; i < n && i < SAID; i++) {
        size_t used = strlen(message);
        tell(head, sizeof head, &heads[i]);
        snprintf(message + used, sizeof message - used, "%s%s", i ? ". " : "", head);
    }
    if (n > SAID) {
        size_t used = strlen(message);
        snprintf(message + used, sizeof message - used, ". %zu more in table proof", n - SAID);
    }
    f.layer = heads[0].layer;
    f.head = heads[0].head;
    f.table = "proof";
    f.message = message;
    f.hint = "table proof has the lines, the report explains them";
    return rs_result_add_finding(result, &f, err);
}
