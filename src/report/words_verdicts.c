/* words_verdicts.c: the words that rows and whole results say as their verdict. */
#include "report/words_lists.h"

#define VERDICT(name_, commands_, see_, meaning_, rule_, todo_)                                    \
    {                                                                                              \
        .name = name_, .kind = RS_WORD_VERDICT, .commands = commands_, .see = see_,                \
        .meaning = meaning_, .rule = rule_, .todo = todo_                                          \
    }

/* Column verdict of lab's table claims. */
static const rs_word claims[] = {
    VERDICT("pass", "lab", "docs/lab.md", "The claim holds as published and as expected.",
            "measured (or computed) lies within the tolerance of both", NULL),
    VERDICT("fail", "lab", "docs/lab.md",
            "The claim is not as expected: this program, or its expectation, is wrong.",
            "measured lies outside the tolerance of expected, or above a bound", "report it"),
    VERDICT("differs_from_paper", "lab", "docs/lab.md",
            "The claim is as an independent calculation has it, and not as published.",
            "measured agrees with expected, not with published", "docs/lab.md says why"),
};

static const rs_word explained[] = {
    VERDICT("explained", "explain", "docs/words.md",
            "A word was found; the number counts meanings.", NULL, NULL),
    VERDICT("listed", "explain", "docs/words.md", "All names, and how many there are.", NULL, NULL),
};

const rs_word_list rs_words_of_verdicts[] = {RS_WORDS(claims), RS_WORDS(explained), {NULL, 0}};
