/* words_lists.h: the files that the words are written in. */
#ifndef RS_REPORT_WORDS_LISTS_H
#define RS_REPORT_WORDS_LISTS_H

#include "report/words.h"

#define RS_WORDS(array)                                                                            \
    {                                                                                              \
        array, sizeof(array) / sizeof *(array)                                                     \
    }

/* A finding's code in one line, in the order in which docs/ show it. */
#define RS_FINDING(code_, commands_, severity_, see_, meaning_, rule_, todo_)                      \
    {                                                                                              \
        .name = code_, .kind = RS_WORD_FINDING, .commands = commands_, .severity = severity_,      \
        .see = see_, .meaning = meaning_, .rule = rule_, .todo = todo_                             \
    }

/* Each ends with an empty list. */
extern const rs_word_list rs_words_of_the_house[], rs_words_of_weights[], rs_words_of_runs[],
    rs_words_of_proofs[], rs_words_of_verdicts[];

#endif
