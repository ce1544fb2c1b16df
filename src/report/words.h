/*
 * words.h: what the words of the house and the codes of findings mean: the one place where that is
 * written. `rankscope explain`, the report's tooltips and the tables of docs/ are made of it
 * (scripts/words.py). Columns say what they are where their tables are made (result.h).
 */
#ifndef RS_REPORT_WORDS_H
#define RS_REPORT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum rs_word_kind {
    RS_WORD_TERM,    /* a word of the house: "relative residual" */
    RS_WORD_VARIANT, /* a model that --variants names: "san" */
    RS_WORD_FINDING, /* the code of a finding */
    RS_WORD_VERDICT  /* the code of a verdict, or a word that a row says as its verdict */
} rs_word_kind;

typedef struct rs_word {
    const char *name;
    rs_word_kind kind;
    const char *also;     /* other spellings: "lambda|λ"; NULL: none */
    const char *commands; /* "scan|probe"; NULL: all, or none in particular */
    const char *severity; /* of a finding: "info", "warn, critical for ..."; else NULL */
    const char *meaning;
    const char *rule; /* the definition, or when a code is given, with the option that sets it */
    const char *todo; /* what to do about it; NULL: nothing */
    const char *see;  /* the page that says more: "docs/probe.md" */
} rs_word;

typedef struct rs_word_list {
    const rs_word *words;
    size_t n;
} rs_word_list;

/* The words in the order in which people read them; NULL behind the last. */
const rs_word *rs_word_at(size_t index);

/* "finding" */
const char *rs_word_kind_name(rs_word_kind kind);
/* Whether somebody who types `asked` means `name`: without regard to capitals, and blanks, dashes
 * and underscores are one. */
bool rs_word_matches(const char *name, const char *asked);
/* The same of a word and its other spellings. */
bool rs_word_is(const rs_word *word, const char *asked);
/* Whether the word is `command`'s: its own, or every command's. */
bool rs_word_is_of(const rs_word *word, const char *command);
/* Whether the text has the word, or another spelling of it, as words of their own. */
bool rs_word_stands_in(const rs_word *word, const char *text);

#endif
