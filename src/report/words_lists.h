/* words_lists.h: the files that the words are written in. */
#ifndef RS_REPORT_WORDS_LISTS_H
#define RS_REPORT_WORDS_LISTS_H

#include "report/words.h"

#define RS_WORDS(array)                                                                            \
    {                                                                                              \
        array, sizeof(array) / sizeof *(array)                                                     \
    }

/* A code in one line: its name, severity, meaning, rule and what to do, in the order in which docs/
 * show them. A file has codes of one kind, findings' or verdicts', and says which: RS_CODES. */
#define RS_CODE(commands_, see_, name_, severity_, meaning_, rule_, todo_)                         \
    {                                                                                              \
        .name = name_, .kind = RS_CODES, .commands = commands_, .severity = severity_,             \
        .see = see_, .meaning = meaning_, .rule = rule_, .todo = todo_                             \
    }

/* A code of one command, or of those that look at weights (WEIGHTS), open a checkpoint (FILES) or run a model
 * (RUNS). */
#define SCAN(...) RS_CODE("scan", "docs/scan.md", __VA_ARGS__)
#define SERIES(...) RS_CODE("scan", "docs/series.md", __VA_ARGS__)
#define WEIGHTS(...) RS_CODE("scan|compare", "docs/scan.md", __VA_ARGS__)
#define FILES(...) RS_CODE("scan|probe|certify|paths|compare", "docs/scan.md", __VA_ARGS__)
#define PROBE(...) RS_CODE("probe", "docs/probe.md", __VA_ARGS__)
#define RUNS(...) RS_CODE("probe|certify|paths", "docs/probe.md", __VA_ARGS__)
#define CERTIFY(...) RS_CODE("certify", "docs/certify.md", __VA_ARGS__)
#define PATHS(...) RS_CODE("paths", "docs/paths.md", __VA_ARGS__)
#define COMPARE(...) RS_CODE("compare", "docs/compare.md", __VA_ARGS__)
#define TRAIN(...) RS_CODE("train", "docs/train.md", __VA_ARGS__)
#define PREDICT(...) RS_CODE("predict", "docs/predict.md", __VA_ARGS__)
#define TOKENIZE(...) RS_CODE("tokenize", "docs/tokenize.md", __VA_ARGS__)
#define LAB(...) RS_CODE("lab", "docs/lab.md", __VA_ARGS__)
#define DOCTOR(...) RS_CODE("doctor", "docs/design.md", __VA_ARGS__)
#define EXPLAIN(...) RS_CODE("explain", "docs/words.md", __VA_ARGS__)

/* Each ends with an empty list. */
extern const rs_word_list rs_words_of_the_house[], rs_words_of_weights[], rs_words_of_runs[],
    rs_words_of_training[], rs_words_of_predictions[], rs_words_of_proofs[], rs_words_of_verdicts[];

#endif
